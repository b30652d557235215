// One writer, many readers, nobody waits: a ring of checked slots in a file of /dev/shm.
//
// The same format as service/wardarm/shm/ring.py. The writer marks a slot odd, fills it and marks it even with
// its CRC; a reader copies and accepts only if the mark was even, did not change and the CRC fits. Words are
// moved with relaxed atomics between fences, so that a torn copy is a rejected copy and never a data race.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "wardarm/layout.hpp"

namespace wardarm {

// A shared-memory block cannot be used; the text names the file and what is wrong.
class BlockError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
class BlockMissing : public BlockError {  // no such file yet
 public:
  using BlockError::BlockError;
};
class BlockForeign : public BlockError {  // another layout, size, version or boot
 public:
  using BlockError::BlockError;
};
class BlockTaken : public BlockError {  // a living process writes it already
 public:
  using BlockError::BlockError;
};

// What a block's file is called after the prefix, and how many slots it has.
struct BlockShape {
  BlockKind kind;
  const char* name;
  std::uint32_t slots;
  std::uint32_t payload_bytes;
};
template <class Payload>
struct BlockOf;
template <>
struct BlockOf<RawChunk> {
  static constexpr BlockShape shape{BlockKind::kRawChunk, "groot_raw", 4, sizeof(RawChunk)};
};
template <>
struct BlockOf<Trajectory> {
  static constexpr BlockShape shape{BlockKind::kTrajectory, "groot_traj", 4, sizeof(Trajectory)};
};
template <>
struct BlockOf<ArmStatus> {
  static constexpr BlockShape shape{BlockKind::kArmStatus, "wardarm_arm", 4, sizeof(ArmStatus)};
};

std::uint64_t monotonic_ns();
// Start time of a process in clock ticks since boot (field 22 of /proc/PID/stat); 0 if it is gone.
std::uint64_t start_ticks(std::uint32_t pid);
std::string block_path(const BlockShape& shape, const std::string& prefix);
// Makes the file with an empty ring, mode 0600, unless one of this layout is there. Returns its path.
std::string create_block(const BlockShape& shape, const std::string& prefix);

// A mapped block file. Throws BlockMissing or BlockForeign.
class Block {
 public:
  Block(const BlockShape& shape, std::string path);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  Block(Block&&) = delete;
  Block& operator=(Block&&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t head() const;
  [[nodiscard]] std::uint64_t beat_ns() const;
  // True if the file was made anew or removed: open a new one.
  [[nodiscard]] bool replaced() const;
  [[nodiscard]] bool writer_alive() const;

 protected:
  [[nodiscard]] std::uint64_t* slot(std::uint64_t generation) const;
  // Copies a payload out if that generation is there, whole and its CRC fits.
  bool copy_out(std::uint64_t generation, void* payload, std::uint64_t* publish_ns) const;
  void copy_in(std::uint64_t generation, const void* payload);

  BlockShape shape_;
  std::string path_;
  std::size_t bytes_ = 0;
  std::uint64_t inode_ = 0;
  std::uint64_t* words_ = nullptr;
};

// The one writer of a block. Takes over from a dead writer, throws BlockTaken while one lives.
class BlockWriter : public Block {
 public:
  BlockWriter(const BlockShape& shape, const std::string& prefix);
  // Publishes a payload of shape.payload_bytes. Returns its generation.
  std::uint64_t publish(const void* payload);
  void beat();

 private:
  std::uint64_t generation_ = 0;
};

template <class Payload>
struct Slot {
  Payload data;
  std::uint64_t generation;
  std::uint64_t publish_ns;
};

template <class Payload>
class Writer : public BlockWriter {
 public:
  explicit Writer(const std::string& prefix) : BlockWriter(BlockOf<Payload>::shape, prefix) {}
  std::uint64_t publish(const Payload& payload) { return BlockWriter::publish(&payload); }
};

template <class Payload>
class Reader : public Block {
 public:
  explicit Reader(const std::string& prefix)
      : Block(BlockOf<Payload>::shape, block_path(BlockOf<Payload>::shape, prefix)) {}

  // Fills `out` with one generation. False if it was overwritten, is being written or does not check.
  bool at(std::uint64_t generation, Slot<Payload>& out) const {
    out.generation = generation;
    return copy_out(generation, &out.data, &out.publish_ns);
  }
  // Fills `out` with the newest payload. False if there is none.
  bool latest(Slot<Payload>& out) const {
    for (int attempt = 0; attempt < 8; ++attempt) {
      const std::uint64_t generation = head();
      if (generation == 0) return false;
      if (at(generation, out)) return true;
    }
    return false;
  }
};

}  // namespace wardarm

#include "wardarm/ring.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
#include <vector>

#include "wardarm/crc32.hpp"

namespace wardarm {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kHeadWord = offsetof(BlockHeader, head) / kWord;
constexpr std::size_t kBeatWord = offsetof(BlockHeader, beat_ns) / kWord;
constexpr std::size_t kSeqWord = offsetof(SlotHeader, seq) / kWord;
constexpr std::size_t kGenerationWord = offsetof(SlotHeader, generation) / kWord;
constexpr std::size_t kPublishWord = offsetof(SlotHeader, publish_ns) / kWord;
constexpr std::size_t kBytesCrcWord = offsetof(SlotHeader, bytes) / kWord;
constexpr std::size_t kPayloadWord = sizeof(SlotHeader) / kWord;

std::atomic_ref<std::uint64_t> atom(std::uint64_t* word) { return std::atomic_ref<std::uint64_t>(*word); }

std::uint32_t slot_bytes(const BlockShape& shape) {
  return static_cast<std::uint32_t>(sizeof(SlotHeader)) + shape.payload_bytes;
}

std::size_t file_bytes(const BlockShape& shape) {
  return sizeof(BlockHeader) + static_cast<std::size_t>(shape.slots) * slot_bytes(shape);
}

void read_boot_id(std::uint8_t (&id)[16]) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  file >> text;
  std::size_t at = 0;
  for (std::uint8_t& byte : id) {
    while (at < text.size() && text[at] == '-') ++at;
    byte = static_cast<std::uint8_t>(std::stoul(text.substr(at, 2), nullptr, 16));
    at += 2;
  }
}

BlockHeader expected_header(const BlockShape& shape) {
  BlockHeader header{};
  header.magic = kMagic;
  header.version = kLayoutVersion;
  header.kind = static_cast<std::uint16_t>(shape.kind);
  header.header_bytes = sizeof(BlockHeader);
  header.slot_bytes = slot_bytes(shape);
  header.slot_count = shape.slots;
  header.payload_bytes = shape.payload_bytes;
  read_boot_id(header.boot_id);
  return header;
}

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

void require(const std::string& path, const char* field, std::uint64_t seen, std::uint64_t wanted) {
  if (seen == wanted) return;
  std::ostringstream text;
  text << path << ": " << field << " is " << seen << ", expected " << wanted;
  throw BlockForeign(text.str());
}

// Throws BlockMissing or BlockForeign unless the open file is a block of this shape and boot.
void check_file(const BlockShape& shape, const std::string& path, int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) throw BlockForeign(path + ": cannot be examined");
  require(path, "size", static_cast<std::uint64_t>(info.st_size), file_bytes(shape));
  BlockHeader seen{};
  if (::pread(fd, &seen, sizeof seen, 0) != static_cast<ssize_t>(sizeof seen))
    throw BlockForeign(path + ": unreadable");
  const BlockHeader wanted = expected_header(shape);
  require(path, "magic", seen.magic, wanted.magic);
  require(path, "version", seen.version, wanted.version);
  require(path, "kind", seen.kind, wanted.kind);
  require(path, "header_bytes", seen.header_bytes, wanted.header_bytes);
  require(path, "slot_bytes", seen.slot_bytes, wanted.slot_bytes);
  require(path, "slot_count", seen.slot_count, wanted.slot_count);
  require(path, "payload_bytes", seen.payload_bytes, wanted.payload_bytes);
  if (std::memcmp(seen.boot_id, wanted.boot_id, sizeof seen.boot_id) != 0) {
    throw BlockForeign(path + ": left over from another boot");
  }
}

}  // namespace

std::uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

std::uint64_t start_ticks(std::uint32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t after_name = text.rfind(')');
  if (after_name == std::string::npos) return 0;
  std::istringstream fields(text.substr(after_name + 1));
  std::string field;
  for (int i = 0; i < 20; ++i) fields >> field;
  return fields ? std::stoull(field) : 0;
}

std::string block_path(const BlockShape& shape, const std::string& prefix) { return "/dev/shm/" + prefix + shape.name; }

std::string create_block(const BlockShape& shape, const std::string& prefix) {
  std::string path = block_path(shape, prefix);
  {
    const Descriptor there(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (there.get() >= 0) {
      try {
        check_file(shape, path, there.get());
        return path;
      } catch (const BlockForeign&) {
        ::unlink(path.c_str());
      }
    }
  }
  const std::size_t cut = path.rfind('/') + 1;
  const std::string scratch = path.substr(0, cut) + "." + path.substr(cut) + "." + std::to_string(::getpid());
  const Descriptor made(::open(scratch.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (made.get() < 0) throw BlockError(scratch + ": cannot be made: " + std::strerror(errno));
  const BlockHeader header = expected_header(shape);
  std::vector<char> bytes(file_bytes(shape));
  std::memcpy(bytes.data(), &header, sizeof header);
  const bool whole = ::write(made.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  // Renaming a whole file into place: readers never see half a block.
  if (!whole || std::rename(scratch.c_str(), path.c_str()) != 0) {
    ::unlink(scratch.c_str());
    throw BlockError(path + ": cannot be written: " + std::strerror(errno));
  }
  return path;
}

Block::Block(const BlockShape& shape, std::string path)
    : shape_(shape), path_(std::move(path)), bytes_(file_bytes(shape)) {
  const Descriptor file(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() < 0) {
    if (errno == ENOENT) throw BlockMissing(path_ + ": not there; is 'wardarm run' up?");
    throw BlockError(path_ + ": cannot be opened: " + std::strerror(errno));
  }
  check_file(shape_, path_, file.get());
  struct stat info {};
  ::fstat(file.get(), &info);
  inode_ = info.st_ino;
  void* mapped = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) throw BlockError(path_ + ": cannot be mapped: " + std::strerror(errno));
  words_ = static_cast<std::uint64_t*>(mapped);
}

Block::~Block() { ::munmap(words_, bytes_); }

std::uint64_t Block::head() const { return atom(words_ + kHeadWord).load(std::memory_order_acquire); }
std::uint64_t Block::beat_ns() const { return atom(words_ + kBeatWord).load(std::memory_order_acquire); }

bool Block::replaced() const {
  struct stat info {};
  return ::stat(path_.c_str(), &info) != 0 || info.st_ino != inode_;
}

bool Block::writer_alive() const {
  const auto* header = reinterpret_cast<const BlockHeader*>(words_);
  const std::uint32_t pid = header->writer_pid;
  return pid != 0 && start_ticks(pid) == header->writer_start_ticks;
}

std::uint64_t* Block::slot(std::uint64_t generation) const {
  const std::size_t offset = sizeof(BlockHeader) + generation % shape_.slots * slot_bytes(shape_);
  return words_ + offset / kWord;
}

bool Block::copy_out(std::uint64_t generation, void* payload, std::uint64_t* publish_ns) const {
  std::uint64_t* at = slot(generation);
  if (atom(at + kSeqWord).load(std::memory_order_acquire) != 2 * generation) return false;
  const std::uint64_t bytes_crc = atom(at + kBytesCrcWord).load(std::memory_order_relaxed);
  *publish_ns = atom(at + kPublishWord).load(std::memory_order_relaxed);
  auto* out = static_cast<std::uint64_t*>(payload);
  for (std::size_t i = 0; i < shape_.payload_bytes / kWord; ++i) {
    out[i] = atom(at + kPayloadWord + i).load(std::memory_order_relaxed);
  }
  std::atomic_thread_fence(std::memory_order_acquire);  // the second look at the mark stays behind the copy
  if (atom(at + kSeqWord).load(std::memory_order_relaxed) != 2 * generation) return false;
  return static_cast<std::uint32_t>(bytes_crc) == shape_.payload_bytes &&
         static_cast<std::uint32_t>(bytes_crc >> 32) == crc32(payload, shape_.payload_bytes);
}

void Block::copy_in(std::uint64_t generation, const void* payload) {
  std::uint64_t* at = slot(generation);
  const std::uint64_t crc = crc32(payload, shape_.payload_bytes);
  atom(at + kSeqWord).store(2 * generation - 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // nothing below is seen before the odd mark
  atom(at + kGenerationWord).store(generation, std::memory_order_relaxed);
  atom(at + kPublishWord).store(monotonic_ns(), std::memory_order_relaxed);
  atom(at + kBytesCrcWord).store(shape_.payload_bytes | crc << 32, std::memory_order_relaxed);
  const auto* in = static_cast<const std::uint64_t*>(payload);
  for (std::size_t i = 0; i < shape_.payload_bytes / kWord; ++i) {
    atom(at + kPayloadWord + i).store(in[i], std::memory_order_relaxed);
  }
  atom(at + kSeqWord).store(2 * generation, std::memory_order_release);
  atom(words_ + kHeadWord).store(generation, std::memory_order_release);
}

BlockWriter::BlockWriter(const BlockShape& shape, const std::string& prefix)
    : Block(shape, create_block(shape, prefix)) {
  auto* header = reinterpret_cast<BlockHeader*>(words_);
  const auto own_pid = static_cast<std::uint32_t>(::getpid());
  const std::uint32_t pid = header->writer_pid;
  if (pid != 0 && pid != own_pid && start_ticks(pid) == header->writer_start_ticks) {
    throw BlockTaken(path() + ": process " + std::to_string(pid) + " is writing it");
  }
  header->writer_start_ticks = start_ticks(own_pid);
  header->writer_pid = own_pid;
  generation_ = head();
}

std::uint64_t BlockWriter::publish(const void* payload) {
  copy_in(++generation_, payload);
  beat();
  return generation_;
}

void BlockWriter::beat() { atom(words_ + kBeatWord).store(monotonic_ns(), std::memory_order_release); }

}  // namespace wardarm

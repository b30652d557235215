#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>

#include "wardarm/crc32.hpp"
#include "wardarm/ring.hpp"

namespace wardarm {
namespace {

class Ring : public ::testing::Test {
 protected:
  Ring() : prefix_("gtest" + std::to_string(::getpid()) + "_"), path_(block_path(BlockOf<RawChunk>::shape, prefix_)) {}
  ~Ring() override { ::unlink(path_.c_str()); }

  // A chunk whose every byte follows from its number.
  static RawChunk chunk(std::uint64_t id) {
    RawChunk out;
    std::memset(static_cast<void*>(&out), static_cast<int>(id & 0x7F), sizeof out);
    out.id = id;
    return out;
  }
  void poke(std::size_t offset) const {
    const int file = ::open(path_.c_str(), O_RDWR);
    unsigned char byte = 0;
    ASSERT_EQ(::pread(file, &byte, 1, static_cast<off_t>(offset)), 1);
    byte ^= 0x10;
    ASSERT_EQ(::pwrite(file, &byte, 1, static_cast<off_t>(offset)), 1);
    ::close(file);
  }
  std::string prefix_;
  std::string path_;
};

TEST(Crc32, MatchesZlibsCheckValue) {
  EXPECT_EQ(crc32("123456789", 9), 0xCBF43926U);
  EXPECT_EQ(crc32("", 0), 0U);
}

TEST_F(Ring, ReadsWhatWasWrittenAndKeepsTheLastFour) {
  Writer<RawChunk> writer(prefix_);
  const Reader<RawChunk> reader(prefix_);
  Slot<RawChunk> slot;
  EXPECT_FALSE(reader.latest(slot));
  for (std::uint64_t id = 1; id <= 6; ++id) EXPECT_EQ(writer.publish(chunk(id)), id);
  ASSERT_TRUE(reader.latest(slot));
  EXPECT_EQ(slot.data.id, 6U);
  EXPECT_EQ(slot.generation, 6U);
  EXPECT_TRUE(reader.at(3, slot));
  EXPECT_FALSE(reader.at(2, slot));
  EXPECT_FALSE(reader.at(7, slot));
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(Ring, AFlippedBitIsNeverReturned) {
  Writer<RawChunk> writer(prefix_);
  writer.publish(chunk(1));
  const Reader<RawChunk> reader(prefix_);
  Slot<RawChunk> slot;
  ASSERT_TRUE(reader.latest(slot));
  const std::size_t payload = sizeof(BlockHeader) + sizeof(SlotHeader) + sizeof(RawChunk) + sizeof(SlotHeader);
  poke(payload + 321);
  EXPECT_FALSE(reader.latest(slot));
}

TEST_F(Ring, AnotherVersionSizeOrBootIsForeign) {
  { const Writer<RawChunk> writer(prefix_); }
  for (const std::size_t offset : {offsetof(BlockHeader, magic), offsetof(BlockHeader, version),
                                   offsetof(BlockHeader, payload_bytes), offsetof(BlockHeader, boot_id)}) {
    poke(offset);
    EXPECT_THROW(const Reader<RawChunk> reader(prefix_), BlockForeign);
    poke(offset);
  }
  EXPECT_NO_THROW(const Reader<RawChunk> reader(prefix_));
  std::ofstream(path_, std::ios::app) << "x";
  EXPECT_THROW(const Reader<RawChunk> reader(prefix_), BlockForeign);
  ::unlink(path_.c_str());
  EXPECT_THROW(const Reader<RawChunk> reader(prefix_), BlockMissing);
}

TEST_F(Ring, ALivingWriterIsRespectedAndADeadOneSucceeded) {
  const pid_t child = ::fork();
  if (child == 0) {
    Writer<RawChunk> writer(prefix_);
    writer.publish(chunk(5));
    ::pause();
    ::_exit(0);
  }
  Slot<RawChunk> slot;
  for (int i = 0; i < 2000; ++i) {
    try {
      if (Reader<RawChunk>(prefix_).latest(slot)) break;
    } catch (const BlockError&) {
    }
    ::usleep(1000);
  }
  EXPECT_THROW(const Writer<RawChunk> writer(prefix_), BlockTaken);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  Writer<RawChunk> writer(prefix_);
  EXPECT_EQ(writer.publish(chunk(6)), 2U);
}

TEST_F(Ring, AReplacedFileIsNoticed) {
  { const Writer<RawChunk> writer(prefix_); }
  const Reader<RawChunk> reader(prefix_);
  EXPECT_FALSE(reader.replaced());
  ::unlink(path_.c_str());
  EXPECT_TRUE(reader.replaced());
  { const Writer<RawChunk> writer(prefix_); }
  EXPECT_TRUE(reader.replaced());
}

TEST_F(Ring, NoTornCopyUnderAnUnthrottledWriter) {
  Writer<RawChunk> writer(prefix_);
  std::atomic<bool> done{false};
  std::thread thread([&] {
    for (std::uint64_t id = 1; !done.load(); ++id) writer.publish(chunk(id));
  });
  const Reader<RawChunk> reader(prefix_);
  auto slot = std::make_unique<Slot<RawChunk>>();
  while (reader.head() == 0) std::this_thread::yield();
  int good = 0;
  for (int i = 0; i < 20000; ++i) {
    if (!reader.latest(*slot)) continue;
    const RawChunk wanted = chunk(slot->data.id);
    ASSERT_EQ(std::memcmp(&wanted, &slot->data, sizeof wanted), 0);
    ++good;
  }
  done.store(true);
  thread.join();
  EXPECT_GT(good, 100);
}

}  // namespace
}  // namespace wardarm

// CRC-32 as zlib computes it (reflected polynomial 0xEDB88320), eight bytes at a time.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace wardarm {

namespace crc32_detail {
constexpr std::array<std::array<std::uint32_t, 256>, 8> make_tables() {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1U) != 0U ? 0xEDB88320U : 0U);
    tables[0][byte] = value;
  }
  for (std::size_t slice = 1; slice < 8; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xFFU];
    }
  }
  return tables;
}
inline constexpr auto kTables = make_tables();
}  // namespace crc32_detail

// CRC-32 of `size` bytes. Little-endian machines only, like every block here.
inline std::uint32_t crc32(const void* data, std::size_t size) {
  const auto& t = crc32_detail::kTables;
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint32_t crc = 0xFFFFFFFFU;
  for (; size >= 8; size -= 8, at += 8) {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    std::memcpy(&low, at, 4);
    std::memcpy(&high, at + 4, 4);
    low ^= crc;
    crc = t[7][low & 0xFFU] ^ t[6][(low >> 8) & 0xFFU] ^ t[5][(low >> 16) & 0xFFU] ^ t[4][low >> 24] ^
          t[3][high & 0xFFU] ^ t[2][(high >> 8) & 0xFFU] ^ t[1][(high >> 16) & 0xFFU] ^ t[0][high >> 24];
  }
  for (; size > 0; --size, ++at) crc = (crc >> 8) ^ t[0][(crc ^ *at) & 0xFFU];
  return ~crc;
}

}  // namespace wardarm

// IEEE 754 half precision as it comes from the model: bits in, double out. No hardware support needed.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace wardarm {

// By bits, so that no compiler flag can optimise it away.
constexpr bool half_is_finite(std::uint16_t bits) { return (bits & 0x7C00U) != 0x7C00U; }

inline double half_to_double(std::uint16_t bits) {
  const std::uint64_t sign = static_cast<std::uint64_t>(bits & 0x8000U) << 48;
  const std::uint64_t exponent = (bits >> 10) & 0x1FU;
  const std::uint64_t fraction = bits & 0x3FFU;
  if (exponent == 0) {  // zero and subnormal numbers: multiples of 2^-24
    const double value = std::ldexp(static_cast<double>(fraction), -24);
    return sign != 0 ? -value : value;
  }
  if (exponent == 0x1F) return std::bit_cast<double>(sign | 0x7FF0000000000000U | fraction << 42);
  return std::bit_cast<double>(sign | (exponent + 1008) << 52 | fraction << 42);
}

}  // namespace wardarm

// The motion limits in force: one row of the configuration's profiles, in SI units.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numbers>
#include <span>

namespace wardarm {

// Limits on speed, acceleration and jerk of one quantity.
struct Bound {
  double v, a, j;
};

struct LimitProfile {
  Bound joint;         // rad/s, rad/s2, rad/s3, every joint alike
  Bound tcp;           // m/s, m/s2, m/s3
  Bound angular;       // rad/s, rad/s2, rad/s3 of the TCP
  double stop_factor;  // a and j of a stop, as a multiple of the plan's
  double ramp_min_s;   // shortest ramp to rest
  double ramp_max_s;   // longest: where a stop would need more, the plan is slower
  double tilt;         // rad from tool-down, of the TCP: a full cup stays upright
  double lateral_a;    // m/s2 of the TCP, plan and stop alike: what liquid feels

  // Two numbers: degrees, m/s2. What bounds the whole acceleration bounds its horizontal part.
  void carry(std::span<const double> n) {
    tilt = n[0] * std::numbers::pi / 180.0;
    lateral_a = n[1];
    tcp.a = std::min(tcp.a, lateral_a);
  }
  [[nodiscard]] bool keeps_upright() const { return tilt < std::numbers::pi; }

  // The twelve numbers in the order of config.LimitProfile: degrees and metres.
  static LimitProfile from_numbers(std::span<const double> n) {
    constexpr double rad = std::numbers::pi / 180.0;
    return {{n[0] * rad, n[1] * rad, n[2] * rad},
            {n[3], n[4], n[5]},
            {n[6] * rad, n[7] * rad, n[8] * rad},
            n[9],
            n[10],
            n[11],
            std::numbers::pi,
            std::numeric_limits<double>::infinity()};
  }
};
inline constexpr std::size_t kProfileNumbers = 12;
inline constexpr std::size_t kLiquidNumbers = 2;

// Trajectory::limited: which limits a plan touches (value above 95 % of the limit), and what else shaped it.
enum class Limited : std::uint32_t {
  kJointSpeed = 1U << 0,
  kJointAcceleration = 1U << 1,
  kJointJerk = 1U << 2,
  kTcpSpeed = 1U << 3,
  kTcpAcceleration = 1U << 4,
  kTcpJerk = 1U << 5,
  kAngularSpeed = 1U << 6,
  kAngularAcceleration = 1U << 7,
  kAngularJerk = 1U << 8,
  kPaced = 1U << 9,      // the chunk's own 20 Hz timing, over most of the path
  kCutShort = 1U << 10,  // the knots ended before the chunk did
  kDwell = 1U << 11,     // stands still while the fingers move
  kBridge = 1U << 12,    // the first points are where the arm's own motion at the join takes it
  kGathered = 1U << 13,  // the chunk creeps while the fingers close: gathered to one place
};

}  // namespace wardarm

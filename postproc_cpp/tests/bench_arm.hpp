// The nominal UR5e and its profiles, as the supervisor would write them, and chunks for unit tests.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numbers>
#include <string>

#include "wardarm/layout.hpp"
#include "wardarm/model_box.hpp"
#include "wardarm/planner.hpp"

namespace wardarm::test {

inline const std::string kParams =
    "dh_a = 0 -0.425 -0.3922 0 0 0\n"
    "dh_d = 0.1625 0 0 0.1333 0.0997 0.0996\n"
    "dh_alpha = 1.5707963267948966 0 0 1.5707963267948966 -1.5707963267948966 0\n"
    "tcp = 0 0 0.1558 0 0 -1.5707963267948966\n"
    "box_low = 0.1 -0.6 0.005\nbox_high = 0.9 0.62 0.75\ntable_z = 0\nfloor_links_z = 0.03\n"
    "profile.ward = 60 180 1500 0.25 0.8 6 60 180 1500 2 0.3 0.34\n"
    "profile.fast = 180 300 3000 1 3 30 180 300 3000 2 0.3 0.34\n";

inline Joints home() {
  Joints q;
  q << 26.4, -62.2, -97.4, -110.5, 90.0, -63.6;
  return q * (std::numbers::pi / 180.0);
}

// Nearest half-precision number, for values in the model's range.
inline std::uint16_t half_of(double value) {
  if (value == 0.0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // 0.5..1
  const int bits = exponent + 14;
  const auto sign = static_cast<std::uint16_t>(value < 0 ? 0x8000U : 0U);
  if (bits <= 0) return static_cast<std::uint16_t>(sign | std::lround(std::ldexp(std::fabs(value), 24)));
  return static_cast<std::uint16_t>(sign | ((bits << 10) + std::lround((fraction * 2.0 - 1.0) * 1024.0)));
}

// A straight chunk from the pose of `q` by `offset` (m) at a speed, the opening given at each point.
inline std::unique_ptr<RawChunk> line(const Ur5e& arm, const Joints& q, const Eigen::Vector3d& offset,
                                      double speed_m_s) {
  auto raw = std::make_unique<RawChunk>();
  std::memset(static_cast<void*>(raw.get()), 0, sizeof *raw);
  raw->id = 1;
  const Pose pose = arm.tcp(q);
  const TrajectoryPoint start = point_of(pose.position, Eigen::Quaterniond(pose.rotation));
  const double angles[3] = {start.roll_deg, start.pitch_deg, start.yaw_deg};
  for (int i = 0; i < kPoints; ++i) {
    const double share = std::fmin(1.0, i * kPointPeriod_s * speed_m_s / offset.norm());
    const Eigen::Vector3d p = pose.position + share * offset;
    for (std::size_t k = 0; k < 3; ++k) {
      const double span = kModelHigh_m[k] - kModelLow_m[k];
      raw->traj[static_cast<std::size_t>(i) * kDof + k] =
          half_of((p[static_cast<Eigen::Index>(k)] - kModelLow_m[k]) / span * 2.0 - 1.0);
      raw->traj[static_cast<std::size_t>(i) * kDof + 3 + k] = half_of(angles[k] / kModelAngle_deg);
    }
    raw->grip[i] = half_of(1.0);
  }
  return raw;
}

}  // namespace wardarm::test

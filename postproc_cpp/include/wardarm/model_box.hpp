// What the model's numbers mean: the normalised box and the angle scale (docs/architecture.md, "Frames").
#pragma once
#include <array>

#include "wardarm/layout.hpp"

namespace wardarm {

inline constexpr std::array<double, 3> kModelLow_m{0.0, -0.6, -0.05};
inline constexpr std::array<double, 3> kModelHigh_m{1.0, 0.6, 0.75};
inline constexpr double kModelAngle_deg = 180.0;
// The model may overshoot -1..1 by this much: half precision near 1 has steps of 0.0005.
inline constexpr double kRangeSlack = 0.001;

// One normalised row (x y z roll pitch yaw) to millimetres and degrees.
inline TrajectoryPoint denormalise(const float* row) {
  const auto mm = [&](std::size_t k) {
    const double span = kModelHigh_m[k] - kModelLow_m[k];
    return static_cast<float>((kModelLow_m[k] + (static_cast<double>(row[k]) + 1.0) / 2.0 * span) * 1000.0);
  };
  const auto degrees = [&](int k) { return static_cast<float>(static_cast<double>(row[k]) * kModelAngle_deg); };
  return {mm(0), mm(1), mm(2), degrees(3), degrees(4), degrees(5)};
}

}  // namespace wardarm

// How a joint spline compares with the limits: speed, acceleration and jerk of joints and TCP, plan and stop.
#pragma once
#include <array>
#include <span>

#include "wardarm/limits.hpp"
#include "wardarm/spline.hpp"
#include "wardarm/ur5e.hpp"

namespace wardarm {

inline constexpr int kQuantities = 9;  // joint v a j, TCP v a j, angular v a j: the order of Limited's bits

// Largest value / limit of each quantity.
struct Ratios {
  std::array<double, kQuantities> value{};

  [[nodiscard]] double largest() const;
};

// The motion sampled in one interval, by lanes of time.
struct MotionSamples {
  static constexpr int kMoments = 8;  // in an interval, both ends included
  static constexpr int kPerInterval = kMoments / kLanes;
  struct Sample {
    Lane qd[kDof], qdd[kDof], qddd[kDof];
    TcpMotion<Lane> tcp;
  };
  std::array<Sample, static_cast<std::size_t>(kMaxKnots* kPerInterval)> sample;
  int count = 0;
};

// Ratios of interval k at four moments, both ends included.
Ratios interval_ratios(const Ur5e& arm, const JointSpline& spline, int k, const LimitProfile& limits);

// The whole spline on the finer grid; keeps the samples for `stop_ratio`.
Ratios motion_ratios(const Ur5e& arm, const JointSpline& spline, const LimitProfile& limits, MotionSamples& samples);

// Largest a and j of any ramp to rest (ramp.hpp) from any sampled moment, relative to stop_factor times the plan's
// limits. The coarse grid is for searching.
enum class StopGrid { kCoarse, kFine };
double stop_ratio(const MotionSamples& samples, const LimitProfile& limits, double ramp_s, StopGrid grid);

// The same for each interval by itself; ratios below `floor` come out as `floor`. Returns the largest.
double stop_ratios(const MotionSamples& samples, const LimitProfile& limits, double ramp_s, double floor,
                   std::span<double> by_interval);

}  // namespace wardarm

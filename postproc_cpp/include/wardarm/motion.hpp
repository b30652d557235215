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

// The motion sampled at eight moments of each interval, both ends included, by lanes of time: part 0 has the even ones
// (the search's), part 1 the odd ones.
struct MotionSamples {
  static constexpr int kMoments = 8;
  static constexpr int kPerInterval = kMoments / kLanes;
  struct Sample {
    Lane qd[kDof], qdd[kDof], qddd[kDof];
    TcpMotion<Lane> tcp;
  };
  std::array<Sample, static_cast<std::size_t>(kMaxKnots* kPerInterval)> sample;
  int count = 0;

  // TCP at one of the moments of interval k, m.
  [[nodiscard]] Eigen::Vector3d position(int k, int moment) const {
    const int place = moment / 2;
    const Vec<Lane>& p =
        sample[static_cast<std::size_t>(k * kPerInterval + moment % 2 * (kPerInterval / 2) + place / kLanes)]
            .tcp.position;
    return {p.x[place % kLanes], p.y[place % kLanes], p.z[place % kLanes]};
  }
};

// Samples one part of interval k and compares it with the limits.
Ratios interval_ratios(const Ur5e& arm, const JointSpline& spline, int k, int part, const LimitProfile& limits,
                       MotionSamples& samples);

// Largest a and j of any ramp to rest (ramp.hpp) from any sampled moment, relative to stop_factor times the plan's
// limits; beyond `enough` the first that is found. `hint` is the sample to look at first, and the one that was largest.
double stop_ratio(const MotionSamples& samples, const LimitProfile& limits, double ramp_s, double enough, int& hint);

// The same for each interval by itself; ratios below `floor` come out as `floor`. Returns the largest.
double stop_ratios(const MotionSamples& samples, const LimitProfile& limits, double ramp_s, double floor,
                   std::span<double> by_interval);

}  // namespace wardarm

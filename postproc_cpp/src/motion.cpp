#include "wardarm/motion.hpp"

#include <algorithm>
#include <cmath>

namespace wardarm {
namespace {

// Squared ratios, as lanes; the square root comes once at the end.
struct SquaredRatios {
  std::array<Lane, kQuantities> value;
};

template <class Squares>
void add_bound(Squares& squares, std::size_t first, const Bound& bound, Lane v2, Lane a2, Lane j2) {
  squares.value[first] = larger(squares.value[first], v2 * (1.0 / (bound.v * bound.v)));
  squares.value[first + 1] = larger(squares.value[first + 1], a2 * (1.0 / (bound.a * bound.a)));
  squares.value[first + 2] = larger(squares.value[first + 2], j2 * (1.0 / (bound.j * bound.j)));
}

void evaluate(const Ur5e& arm, const Row* c, const CubicBasis<Lane>& basis, MotionSamples::Sample& out) {
  Lane q[kDof];
  for (int j = 0; j < kDof; ++j) {
    Lane d[4];
    for (int order = 0; order < 4; ++order) {
      const Lane* b = basis.value[order];
      d[order] = b[0] * c[0].value[j] + b[1] * c[1].value[j] + b[2] * c[2].value[j] + b[3] * c[3].value[j];
    }
    q[j] = d[0];
    out.qd[j] = d[1];
    out.qdd[j] = d[2];
    out.qddd[j] = d[3];
  }
  arm.motion(q, out.qd, out.qdd, out.qddd, out.tcp);
}

void compare(const MotionSamples::Sample& s, const LimitProfile& limits, SquaredRatios& squares) {
  Lane v2 = spread(0.0);
  Lane a2 = spread(0.0);
  Lane j2 = spread(0.0);
  for (int j = 0; j < kDof; ++j) {
    v2 = larger(v2, s.qd[j] * s.qd[j]);
    a2 = larger(a2, s.qdd[j] * s.qdd[j]);
    j2 = larger(j2, s.qddd[j] * s.qddd[j]);
  }
  add_bound(squares, 0, limits.joint, v2, a2, j2);
  add_bound(squares, 3, limits.tcp, dot(s.tcp.v, s.tcp.v), dot(s.tcp.a, s.tcp.a), dot(s.tcp.j, s.tcp.j));
  add_bound(squares, 6, limits.angular, dot(s.tcp.w, s.tcp.w), dot(s.tcp.wa, s.tcp.wa), dot(s.tcp.wj, s.tcp.wj));
}

Ratios root(const SquaredRatios& squares) {
  Ratios ratios;
  for (std::size_t i = 0; i < kQuantities; ++i) ratios.value[i] = std::sqrt(largest(squares.value[i]));
  return ratios;
}

SquaredRatios none() {
  SquaredRatios squares;
  squares.value.fill(spread(0.0));
  return squares;
}

}  // namespace

double Ratios::largest() const { return *std::max_element(value.begin(), value.end()); }

Ratios interval_ratios(const Ur5e& arm, const JointSpline& spline, int k, const LimitProfile& limits) {
  static const CubicBasis<Lane> basis(Lane{0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0});
  MotionSamples::Sample sample;
  evaluate(arm, spline.coefficients(k), basis, sample);
  SquaredRatios squares = none();
  compare(sample, limits, squares);
  return root(squares);
}

Ratios motion_ratios(const Ur5e& arm, const JointSpline& spline, const LimitProfile& limits, MotionSamples& samples) {
  static const CubicBasis<Lane> bases[MotionSamples::kPerInterval] = {CubicBasis<Lane>(Lane{0.0, 1.0, 2.0, 3.0} / 7.0),
                                                                      CubicBasis<Lane>(Lane{4.0, 5.0, 6.0, 7.0} / 7.0)};
  SquaredRatios squares = none();
  samples.count = 0;
  for (int k = 0; k < spline.intervals(); ++k) {
    for (const CubicBasis<Lane>& basis : bases) {
      MotionSamples::Sample& sample = samples.sample[static_cast<std::size_t>(samples.count++)];
      evaluate(arm, spline.coefficients(k), basis, sample);
      compare(sample, limits, squares);
    }
  }
  return root(squares);
}

double stop_ratio(const MotionSamples& samples, const LimitProfile& limits, double ramp_s) {
  // A stop that begins anywhere passes every path moment at some rate: it is enough to try all pairs of a path
  // sample and a moment of the ramp, q(s(t)) differentiated by the chain rule.
  constexpr int kMoments = 20;
  struct Moment {
    double r, r1, r2;
  };
  std::array<Moment, kMoments> moments;
  for (int i = 0; i < kMoments; ++i) {
    const double u = (i + 0.5) / kMoments;
    moments[static_cast<std::size_t>(i)] = {1.0 - u * u * u * (10.0 - 15.0 * u + 6.0 * u * u),
                                            -30.0 * u * u * (1.0 - u) * (1.0 - u) / ramp_s,
                                            -60.0 * u * (1.0 - u) * (1.0 - 2.0 * u) / (ramp_s * ramp_s)};
  }
  const auto inverse_square = [&](double limit) {
    return 1.0 / (limit * limit * limits.stop_factor * limits.stop_factor);
  };
  Lane worst = spread(0.0);
  for (int i = 0; i < samples.count; i += 1) {
    const MotionSamples::Sample& s = samples.sample[static_cast<std::size_t>(i)];
    for (const Moment& m : moments) {
      const double rr = m.r * m.r;
      const double mixed = 3.0 * m.r * m.r1;
      const double cubed = rr * m.r;
      Lane a2 = spread(0.0);
      Lane j2 = spread(0.0);
      for (int j = 0; j < kDof; ++j) {
        const Lane a = s.qdd[j] * rr + s.qd[j] * m.r1;
        const Lane jerk = s.qddd[j] * cubed + s.qdd[j] * mixed + s.qd[j] * m.r2;
        a2 = larger(a2, a * a);
        j2 = larger(j2, jerk * jerk);
      }
      worst = larger(worst, larger(a2 * inverse_square(limits.joint.a), j2 * inverse_square(limits.joint.j)));
      const auto along = [&](const Vec<Lane>& v, const Vec<Lane>& a, const Vec<Lane>& j, const Bound& bound) {
        const Vec<Lane> acceleration = a * rr + v * m.r1;
        const Vec<Lane> jerk = j * cubed + a * mixed + v * m.r2;
        worst = larger(worst, dot(acceleration, acceleration) * inverse_square(bound.a));
        worst = larger(worst, dot(jerk, jerk) * inverse_square(bound.j));
      };
      along(s.tcp.v, s.tcp.a, s.tcp.j, limits.tcp);
      along(s.tcp.w, s.tcp.wa, s.tcp.wj, limits.angular);
    }
  }
  return std::sqrt(largest(worst));
}

}  // namespace wardarm

#include "wardarm/motion.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "wardarm/ramp.hpp"

namespace wardarm {
namespace {

constexpr int kGroups = MotionSamples::kPerInterval / 2;  // lanes of one part

// The spline's basis at an interval's moments: every second one, part by part.
std::array<CubicBasis<Lane>, MotionSamples::kPerInterval> bases_by_part() {
  constexpr double step = 1.0 / (MotionSamples::kMoments - 1);
  const auto group = [](int i) {
    const int first = i / kGroups + 2 * kLanes * (i % kGroups);
    return CubicBasis<Lane>(lanes(step * first, 2.0 * step));
  };
  return [&]<std::size_t... i>(std::index_sequence<i...>) { return std::array{group(static_cast<int>(i))...}; }
  (std::make_index_sequence<MotionSamples::kPerInterval>());
}

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

void evaluate(const Ur5e& arm, const JointSpline& spline, int k, const CubicBasis<Lane>& basis,
              MotionSamples::Sample& out) {
  const Row* c = spline.coefficients(k);
  const double by_h = 1.0 / spline.period_s();
  const double by_h2 = by_h * by_h;
  const double by_h3 = by_h2 * by_h;
  Lane q[kDof];
  for (int j = 0; j < kDof; ++j) {
    Lane d[4];
    for (int order = 0; order < 4; ++order) {
      const Lane* b = basis.value[order];
      d[order] = b[0] * c[0].value[j] + b[1] * c[1].value[j] + b[2] * c[2].value[j] + b[3] * c[3].value[j];
    }
    q[j] = d[0];
    out.qd[j] = d[1] * by_h;
    out.qdd[j] = d[2] * by_h2;
    out.qddd[j] = d[3] * by_h3;
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

// One moment of the ramp: rate r and its derivatives in time, as the chain rule needs them.
struct Moment {
  double r1, r2, rr, rrr, mixed;  // r', r'', r^2, r^3, 3 r r'
};

// Scalar products of a vector's derivatives along the path, over the stop limits squared: the squared length of any
// stop's acceleration and jerk is a polynomial in them.
struct Products {
  Lane aa, av, vv;  // by the acceleration limit
  Lane jj, ja, jv, bb, bv,
      ww;  // by the jerk limit: j j, j a, j v, a a, a v, v v

  Products(const Vec<Lane>& v, const Vec<Lane>& a, const Vec<Lane>& j, double most_a, double most_j) {
    const double by_a = 1.0 / (most_a * most_a);
    const double by_j = 1.0 / (most_j * most_j);
    const Lane a_a = dot(a, a);
    const Lane a_v = dot(a, v);
    const Lane v_v = dot(v, v);
    aa = a_a * by_a;
    av = a_v * (2.0 * by_a);
    vv = v_v * by_a;
    jj = dot(j, j) * by_j;
    ja = dot(j, a) * (2.0 * by_j);
    jv = dot(j, v) * (2.0 * by_j);
    bb = a_a * by_j;
    bv = a_v * (2.0 * by_j);
    ww = v_v * by_j;
  }

  // Larger squared ratio of |a r^2 + v r'| and |j r^3 + 3 a r r' + v r''|.
  [[nodiscard]] Lane worst(const Moment& m) const {
    const Lane acceleration = aa * (m.rr * m.rr) + av * (m.rr * m.r1) + vv * (m.r1 * m.r1);
    const Lane jerk = jj * (m.rrr * m.rrr) + ja * (m.rrr * m.mixed) + jv * (m.rrr * m.r2) + bb * (m.mixed * m.mixed) +
                      bv * (m.mixed * m.r2) + ww * (m.r2 * m.r2);
    return larger(acceleration, jerk);
  }
};

SquaredRatios none() {
  SquaredRatios squares;
  squares.value.fill(spread(0.0));
  return squares;
}

}  // namespace

double Ratios::largest() const { return *std::max_element(value.begin(), value.end()); }

Ratios interval_ratios(const Ur5e& arm, const JointSpline& spline, int k, int part, const LimitProfile& limits,
                       MotionSamples& samples) {
  static const auto bases = bases_by_part();
  SquaredRatios squares = none();
  for (int group = part * kGroups; group < (part + 1) * kGroups; ++group) {
    MotionSamples::Sample& sample = samples.sample[static_cast<std::size_t>(k * MotionSamples::kPerInterval + group)];
    evaluate(arm, spline, k, bases[static_cast<std::size_t>(group)], sample);
    compare(sample, limits, squares);
  }
  return root(squares);
}

namespace {

constexpr int kMostMoments = 24;
constexpr int kMomentsAGroup = 3;
struct RampMoments {
  std::array<Moment, kMostMoments> moment;
  int count = 0;
  // Of a few moments in a row the largest of each number by magnitude: no moment of theirs asks for more.
  std::array<Moment, kMostMoments / kMomentsAGroup> group{};
  int groups = 0;

  // Both ends of every phase belong to it: acceleration and jerk are largest there more often than not.
  explicit RampMoments(double ramp_s) {
    add(0.0, kRampOnset, RampPhase::kOnset, 9, ramp_s);
    add(kRampOnset, 1.0 - kRampEnd, RampPhase::kHold, 4, ramp_s);
    add(1.0 - kRampEnd, 1.0, RampPhase::kEnd, 8, ramp_s);
    groups = (count + kMomentsAGroup - 1) / kMomentsAGroup;
    for (int i = 0; i < count; ++i) {
      const Moment& m = moment[static_cast<std::size_t>(i)];
      Moment& g = group[static_cast<std::size_t>(i / kMomentsAGroup)];
      g = {std::min(g.r1, m.r1), std::max(g.r2, std::fabs(m.r2)), std::max(g.rr, m.rr), std::max(g.rrr, m.rrr),
           std::min(g.mixed, m.mixed)};
    }
  }

 private:
  void add(double from, double to, RampPhase phase, int moments, double ramp_s) {
    for (int i = 0; i < moments; ++i) {
      const RampRate rate = ramp_rate(from + (to - from) * i / (moments - 1), phase);
      const double r1 = rate.r1 / ramp_s;
      const double rr = rate.r * rate.r;
      moment[static_cast<std::size_t>(count++)] = {r1, rate.r2 / (ramp_s * ramp_s), rr, rr * rate.r, 3.0 * rate.r * r1};
    }
  }
};

// Largest squared ratio of any moment of the ramp at one sample of the path, or `worst` if that is larger.
Lane stop_squares(const MotionSamples::Sample& s, const LimitProfile& limits, const RampMoments& ramp, Lane worst) {
  const double stop = limits.stop_factor;
  const Products tcp(s.tcp.v, s.tcp.a, s.tcp.j, std::min(limits.tcp.a * stop, limits.lateral_a), limits.tcp.j * stop);
  const Products angular(s.tcp.w, s.tcp.wa, s.tcp.wj, limits.angular.a * stop, limits.angular.j * stop);
  Lane qd = spread(0.0);
  Lane qdd = spread(0.0);
  Lane qddd = spread(0.0);
  for (int j = 0; j < kDof; ++j) {
    qd = larger(qd, magnitude(s.qd[j]));
    qdd = larger(qdd, magnitude(s.qdd[j]));
    qddd = larger(qddd, magnitude(s.qddd[j]));
  }
  const double joint_a = 1.0 / (limits.joint.a * stop);
  const double joint_j = 1.0 / (limits.joint.j * stop);
  // Nowhere more than if all were in line: mostly that settles a whole sample.
  const Lane v_a = larger(qd * joint_a, larger(root_of(tcp.vv), root_of(angular.vv)));
  const Lane a_a = larger(qdd * joint_a, larger(root_of(tcp.aa), root_of(angular.aa)));
  const Lane v_j = larger(qd * joint_j, larger(root_of(tcp.ww), root_of(angular.ww)));
  const Lane a_j = larger(qdd * joint_j, larger(root_of(tcp.bb), root_of(angular.bb)));
  const Lane j_j = larger(qddd * joint_j, larger(root_of(tcp.jj), root_of(angular.jj)));
  const auto in_line = [&](std::span<const Moment> moments) {
    Lane most = spread(0.0);
    for (const Moment& m : moments) {
      most = larger(most, larger(a_a * m.rr - v_a * m.r1, j_j * m.rrr - a_j * m.mixed + v_j * std::fabs(m.r2)));
    }
    return most * most;
  };
  if (!any(in_line(std::span(ramp.group).first(static_cast<std::size_t>(ramp.groups))) > worst)) return worst;
  if (!any(in_line(std::span(ramp.moment).first(static_cast<std::size_t>(ramp.count))) > worst)) return worst;
  for (const Moment& m : std::span(ramp.moment).first(static_cast<std::size_t>(ramp.count))) {
    worst = larger(worst, larger(tcp.worst(m), angular.worst(m)));
    // No joint exceeds what the largest of each derivative would give; mostly that settles it.
    const Lane a_bound = (qdd * m.rr + qd * -m.r1) * joint_a;
    const Lane j_bound = (qddd * m.rrr + qdd * -m.mixed + qd * std::fabs(m.r2)) * joint_j;
    const Lane bound = larger(a_bound * a_bound, j_bound * j_bound);
    if (!any(bound > worst)) continue;
    for (int j = 0; j < kDof; ++j) {
      const Lane a = (s.qdd[j] * m.rr + s.qd[j] * m.r1) * joint_a;
      const Lane jerk = (s.qddd[j] * m.rrr + s.qdd[j] * m.mixed + s.qd[j] * m.r2) * joint_j;
      worst = larger(worst, larger(a * a, jerk * jerk));
    }
  }
  return worst;
}

}  // namespace

// A stop that begins anywhere passes every path moment at some rate: it is enough to try all pairs of a path sample
// and a moment of the ramp, q(s(t)) differentiated by the chain rule.
double stop_ratio(const MotionSamples& samples, const LimitProfile& limits, double ramp_s, double enough, int& hint) {
  const RampMoments ramp(ramp_s);
  const double enough_squared = enough * enough;
  Lane worst = stop_squares(samples.sample[static_cast<std::size_t>(hint)], limits, ramp, spread(0.0));
  double most = largest(worst);
  worst = spread(most);
  for (int i = 0; i < samples.count && most <= enough_squared; ++i) {
    const double here = largest(stop_squares(samples.sample[static_cast<std::size_t>(i)], limits, ramp, worst));
    if (here <= most) continue;
    most = here;
    worst = spread(most);
    hint = i;
  }
  return std::sqrt(most);
}

double stop_ratios(const MotionSamples& samples, const LimitProfile& limits, double ramp_s, double floor,
                   std::span<double> by_interval) {
  const RampMoments ramp(ramp_s);
  double worst = floor;
  for (int k = 0; k * MotionSamples::kPerInterval < samples.count; ++k) {
    Lane squares = spread(floor * floor);
    for (int i = 0; i < MotionSamples::kPerInterval; ++i) {
      const auto at = static_cast<std::size_t>(k * MotionSamples::kPerInterval + i);
      squares = stop_squares(samples.sample[at], limits, ramp, squares);
    }
    by_interval[static_cast<std::size_t>(k)] = std::sqrt(largest(squares));
    worst = std::max(worst, by_interval[static_cast<std::size_t>(k)]);
  }
  return worst;
}

}  // namespace wardarm

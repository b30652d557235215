// How near the motion stays to the smoothed path, and where it cannot: there the motion itself is the path.
#include <algorithm>
#include <cmath>

#include "wardarm/law.hpp"

namespace wardarm {
namespace {

constexpr double kPathTolerance_m = 0.00040;  // aimed at, between moments that are looked at
constexpr double kPathLast_m = 0.00045;       // and accepted in the last rounds: the promise is 0.5 mm
constexpr double kBridgeLast_m = 0.00049;
constexpr double kBridgeStep_s = 0.06;  // between two of its points
constexpr double kPathAim_m = 0.00025;
constexpr double kMostFollow = 1e4;  // times the ordinary weight of the path
constexpr double kFadeRoom_s = 0.2;  // the spline spreads what fades at the start
// From the smoothed path, where the arm's own motion sets it: in the way that it needs to come to rest, and more.
constexpr double kBridgeShare = 2.0;
constexpr double kBridgeRoom_m = 0.015;
constexpr std::array<int, 3> kLookedAt{0, 3, 5};  // moments of an interval

// A point on the curve through the path's points, and its slope a point.
struct OnCurve {
  Eigen::Vector3d at, slope;
};

// Catmull-Rom, the ends continued by the parabola through the last three points.
OnCurve on_curve(std::span<const Eigen::Vector3d> points, double place) {
  const int last = static_cast<int>(points.size()) - 1;
  const int i = std::clamp(static_cast<int>(place), 0, last - 1);
  const double x = place - i;
  const auto at = [&](int k) { return points[static_cast<std::size_t>(k)]; };
  const Eigen::Vector3d b = at(i);
  const Eigen::Vector3d c = at(i + 1);
  const Eigen::Vector3d a = i > 0 ? at(i - 1) : Eigen::Vector3d(3.0 * (b - c) + at(i + 2));
  const Eigen::Vector3d d = i + 2 <= last ? at(i + 2) : Eigen::Vector3d(3.0 * (c - b) + at(i - 1));
  const Eigen::Vector3d k1 = 0.5 * (c - a);
  const Eigen::Vector3d k2 = 0.5 * (2.0 * a - 5.0 * b + 4.0 * c - d);
  const Eigen::Vector3d k3 = 0.5 * (3.0 * (b - c) + d - a);
  return {b + x * (k1 + x * (k2 + x * k3)), k1 + x * (2.0 * k2 + x * (3.0 * k3))};
}

// Distance of `p` from the curve near `place`; any that is within `enough` will do.
double distance_from(std::span<const Eigen::Vector3d> points, const Eigen::Vector3d& p, double place, double enough) {
  constexpr int steps = 3;
  constexpr double longest_step = 1.0;
  const auto last = static_cast<double>(points.size() - 1);
  double best = 1e9;
  for (int i = 0; i <= steps; ++i) {
    const OnCurve here = on_curve(points, place);
    const Eigen::Vector3d off = p - here.at;
    best = std::min(best, off.norm());
    if (best <= enough) break;
    const double square = here.slope.squaredNorm();
    if (square < 1e-12) break;
    const double step = std::clamp(off.dot(here.slope) / square, -longest_step, longest_step);
    if (std::fabs(step) < 1e-3) break;
    place = std::clamp(place + step, 0.0, last);
  }
  return best;
}

}  // namespace

// The place at a share x of interval k; while the motion fades straight to a dwell, evenly up to it.
double Law::place_within(int k, double x) const {
  if (direct_s_ > 0.0) {
    const double t = (k + x) * spline_.period_s();
    if (t < direct_s_) return path_->dwells()[0].first * t / direct_s_;
  }
  const auto at = static_cast<std::size_t>(k);
  return place_[at] + x * (place_[at + 1] - place_[at]);
}

bool Law::keeps_path(double fade_s, bool last_chance) {
  std::array<Eigen::Vector3d, kPoints> points;
  for (int i = 0; i < kPoints; ++i) points[static_cast<std::size_t>(i)] = position_of(path_->row(i));
  const double tolerance_m = last_chance ? kPathLast_m : kPathTolerance_m;
  const double faded_s = under_way_ ? fade_s + kFadeRoom_s : 0.0;
  off_ = {};
  bridge_ = {};
  const int n = spline_.intervals();
  for (int k = 0; k < n; ++k) {
    double worst = 0.0;
    for (const int moment : kLookedAt) {
      const double place = place_within(k, moment / (MotionSamples::kMoments - 1.0));
      worst = std::max(worst, distance_from(points, samples_->position(k, moment), place, tolerance_m));
    }
    if (worst <= tolerance_m) continue;
    const double place = place_within(k, 1.0);
    Passing& passing = k * spline_.period_s() < faded_s ? bridge_ : off_;
    if (worst > passing.by_m) {
      passing.by_m = worst;
      passing.point = static_cast<int>(std::lround(place));
    }
    passing.last_point = std::min(static_cast<int>(std::ceil(place)) + 2, pace_.last());
    if (&passing == &bridge_) continue;
    const double factor = std::clamp((worst / kPathAim_m) * (worst / kPathAim_m), 1.3, 6.0);
    for (int m = std::max(0, k - 1); m <= std::min(n, k + 2); ++m) {
      double& follow = follow_[static_cast<std::size_t>(m)];
      follow = std::min(follow * factor, kMostFollow);
    }
  }
  return off_.by_m == 0.0;
}

// No farther than twice what the arm needs to come to rest, and a little for what it has to turn.
bool Law::bridge_is_short(const PlanStart& start, Refusal& why) const {
  const double speed = (arm_.jacobian(start.state.q) * start.state.qd).head<3>().norm();
  const Bound& tcp = limits_->tcp;
  const double brakes_m = speed * speed / (2.0 * tcp.a) + speed * tcp.a / (2.0 * tcp.j);
  const double longest_m = kBridgeShare * brakes_m + kBridgeRoom_m;
  if (bridge_.by_m <= longest_m) return true;
  return why.refuse(PlanStatus::kNoLaw, "point %d: the arm's own motion carries it past by %.1f mm, limit %.0f mm",
                    bridge_.point, bridge_.by_m * 1e3, longest_m * 1e3);
}

bool Law::refuse_off_path(Refusal& why) const {
  return why.refuse(PlanStatus::kNoLaw, "point %d: the motion passes it by %.2f mm, limit %.2f mm", off_.point,
                    off_.by_m * 1e3, kPathLast_m * 1e3);
}

// Where the arm's own motion at the start sets the path, the points are where it takes the TCP.
bool Law::write_bridge(TrajectoryPoint* points, Refusal& why) const {
  if (bridge_.by_m == 0.0) return true;
  // Evenly in time, and so far that no two are long apart: the curve through them is the motion then.
  const int n = spline_.intervals();
  int k = 0;
  const auto time_of = [&](int point) {
    while (k + 1 < n && place_within(k, 1.0) < point) ++k;
    const double from = place_within(k, 0.0);
    const double span = place_within(k, 1.0) - from;
    return (k + (span > 1e-9 ? std::clamp((point - from) / span, 0.0, 1.0) : 1.0)) * spline_.period_s();
  };
  int last = bridge_.last_point;
  double end_s = time_of(last);
  while (end_s > last * kBridgeStep_s && last < pace_.last()) end_s = time_of(++last);
  std::array<Eigen::Vector3d, kPoints> passed;
  for (int i = 0; i < kPoints; ++i) passed[static_cast<std::size_t>(i)] = position_of(path_->row(i));
  for (int i = 1; i <= last; ++i) {
    const double at = end_s / spline_.period_s() * i / last;
    const int interval = std::min(static_cast<int>(at), n - 1);
    const Pose pose = arm_.tcp(spline_.at(interval, at - interval));
    points[i] = point_of(pose.position, Eigen::Quaterniond(pose.rotation));
    passed[static_cast<std::size_t>(i)] = pose.position;
  }
  for (k = 0; k < n && k * spline_.period_s() < end_s; ++k) {
    for (const int moment : kLookedAt) {
      const double t = (k + moment / (MotionSamples::kMoments - 1.0)) * spline_.period_s();
      const double place = t < end_s ? last * t / end_s : place_within(k, 1.0);
      const double off_m = distance_from(passed, samples_->position(k, moment), place, kBridgeLast_m);
      if (off_m <= kBridgeLast_m) continue;
      return why.refuse(PlanStatus::kNoLaw, "point %.0f: the motion passes it by %.2f mm, limit %.2f mm", place,
                        off_m * 1e3, kBridgeLast_m * 1e3);
    }
  }
  return true;
}

}  // namespace wardarm

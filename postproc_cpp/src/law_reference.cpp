// The reference that the law's spline follows: the pace along the chunk, its waits, and what fades of the start.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "wardarm/law.hpp"

namespace wardarm {
namespace {

constexpr double kDwellWeight = 3000.0;  // of the place while the fingers move
// Shares of a limit that the first pace may use.
constexpr double kSpeedShare = 0.98;
constexpr double kSlopeShare = 0.75;  // of acceleration, for changes of pace
constexpr double kBrakeShare = 0.5;   // the same for slowing down from the speed at the start
constexpr double kBendShare = 0.85;   // of acceleration, for the path's own bends
constexpr double kMaxSlope = 12.0;    // change of the pace, 1/s
constexpr double kFirstBlend_s = 0.35;
constexpr double kRestBlend_s = 0.05;
constexpr double kSettled_s = 0.1;  // of a wait: the arm has come to its place by then
constexpr double kStep_s = 0.05;    // of the differences at the start
constexpr int kFewestIntervals = 8;
constexpr double kShortestKnot_s = 0.02;
constexpr double kTailRoom_s = 0.2;

}  // namespace

// Caps on the pace from the path's own slope, bend and twist at rate 1: v r, a r^2 and j r^3 within the limits.
void Law::limit_pace() {
  const LimitProfile& limits = *limits_;
  constexpr double h = kPointPeriod_s;
  const auto demand = [&](const Joints& q, const Eigen::Vector3d& p, const Eigen::Vector3d& w, double joint, double tcp,
                          double angular) {
    return std::max({q.cwiseAbs().maxCoeff() / joint, p.norm() / tcp, w.norm() / angular, 1e-9});
  };
  const auto joint = [&](int i) -> const Joints& { return path_->joints(i); };
  const double most = options_.free ? kFreeRate : options_.speed_scale;
  for (int i = 0; i < kPoints; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const int c = std::clamp(i, 1, kPoints - 2);  // centre of the differences
    const auto first = [&](auto value) -> std::decay_t<decltype(value(0))> {
      return (value(c + 1) - value(c - 1)) / (2.0 * h);
    };
    const auto second = [&](auto value) -> std::decay_t<decltype(value(0))> {
      return (value(c + 1) - 2.0 * value(c) + value(c - 1)) / (h * h);
    };
    const auto position = [&](int k) { return position_of(path_->row(k)); };
    const auto turn = [&](int k) { return turn_of(path_->row(k)); };
    const Joints qd = first(joint);
    const Eigen::Vector3d v = first(position);
    const Eigen::Vector3d w = first(turn);
    const double speed = demand(qd, v, w, limits.joint.v, limits.tcp.v, limits.angular.v);
    const double bend =
        demand(second(joint), second(position), second(turn), limits.joint.a, limits.tcp.a, limits.angular.a);
    pace_.rate_cap[at] = std::min({most, kSpeedShare / speed, std::sqrt(kBendShare / bend)});
    pace_.slope_cap[at] =
        std::min(kMaxSlope, kSlopeShare / demand(qd, v, w, limits.joint.a, limits.tcp.a, limits.angular.a));
  }
  // Braking sets in gently: the jerk limit holds too.
  for (std::size_t i = 0; i < kPoints; ++i) {
    const double onset = std::min(1.0, (static_cast<double>(i) + 0.5) / 2.5);
    pace_.brake_cap[i] = pace_.slope_cap[i] * (kBrakeShare / kSlopeShare) * onset;
  }
}

// The pace over as much of the chunk as the knots can hold.
void Law::build_pace(double start_rate) {
  const double longest_s = (kMaxKnots - 1) * kLongestKnot_s - kTailRoom_s;
  int last = path_->last_moving();
  pace_.build(start_rate, last);
  while (pace_.duration_s() + waits_s() > longest_s && last > 1) pace_.build(start_rate, --last);
  for (const Dwell& dwell : path_->dwells()) {  // one that the knots do not hold whole is left out
    if (dwell.first < last && last < dwell.last) pace_.build(start_rate, last = std::max(dwell.first, 1));
  }
}

double Law::waits_s() const {
  double sum_s = 0.0;
  for (std::size_t d = 0; d < path_->dwells().size(); ++d) sum_s += wait_[d].before_s + wait_[d].after_s;
  return sum_s + direct_s_ - (direct_s_ > 0.0 ? pace_.time_of(path_->dwells()[0].first) : 0.0);
}

// Place on the chunk after t seconds: the pace, and the waits at both ends of each dwell.
double Law::place_after(double t_s, int& hint) const {
  const auto dwells = path_->dwells();
  if (direct_s_ > 0.0) t_s = std::max(t_s - direct_s_, 0.0) + pace_.time_of(dwells[0].first);
  for (std::size_t d = 0; d < dwells.size() && dwells[d].last <= pace_.last(); ++d) {
    const double arrival_s = pace_.time_of(dwells[d].first);
    if (t_s <= arrival_s) break;
    t_s = std::max(arrival_s, t_s - wait_[d].before_s);
    const double leave_s = pace_.time_of(dwells[d].last);
    if (t_s <= leave_s) break;
    t_s = std::max(leave_s, t_s - wait_[d].after_s);
  }
  return pace_.place(t_s, hint);
}

// Whether the arm has to be at its place then: while the fingers move, and a moment before and after.
bool Law::stands_at(double t_s, double place) const {
  if (path_->in_dwell(place)) return true;
  const auto dwells = path_->dwells();
  double waited_s = direct_s_ > 0.0 ? direct_s_ - pace_.time_of(dwells[0].first) : 0.0;
  for (std::size_t d = 0; d < dwells.size() && dwells[d].last <= pace_.last(); ++d) {
    waited_s += wait_[d].before_s;
    const double from_s = pace_.time_of(dwells[d].first) + waited_s;
    const double to_s = pace_.time_of(dwells[d].last) + waited_s;
    if (t_s > from_s - std::min(kSettled_s, wait_[d].before_s) && t_s < to_s + std::min(kSettled_s, wait_[d].after_s)) {
      return true;
    }
    waited_s += wait_[d].after_s;
  }
  return false;
}

void Law::build_reference(const PlanStart& start, double blend_s) {
  const double end_s = std::max(pace_.duration_s() + waits_s(), blend_s);
  // Knots divide the whole time evenly, in whole microseconds as the wire counts them.
  const double whole_s = end_s + tail_s_;
  const int intervals =
      std::clamp(static_cast<int>(std::ceil(whole_s / kLongestKnot_s - 1e-9)), kFewestIntervals, kMaxKnots - 1);
  const double period_s = std::clamp(whole_s / intervals, kShortestKnot_s, kLongestKnot_s);
  reference_.period_s = std::ceil(period_s * 1e6 - 1e-3) * 1e-6;
  reference_.knots = intervals + 1;
  // What the reference lacks of the start's position, speed and acceleration fades by a quintic.
  int hint = 0;
  const Joints q0 = path_->joints_at(place_after(0.0, hint));
  const Joints q1 = path_->joints_at(place_after(kStep_s, hint));
  const Joints q2 = path_->joints_at(place_after(2.0 * kStep_s, hint));
  const Joints lacking_q = start.state.q - q0;
  const Joints lacking_qd = start.state.qd - (4.0 * q1 - q2 - 3.0 * q0) / (2.0 * kStep_s);
  const Joints lacking_qdd = start.state.qdd - (q0 - 2.0 * q1 + q2) / (kStep_s * kStep_s);
  hint = 0;
  for (int k = 0; k < reference_.knots; ++k) {
    const auto at = static_cast<std::size_t>(k);
    const double t = k * reference_.period_s;
    place_[at] = place_after(t, hint);
    Joints q = path_->joints_at(place_[at]);
    const double u = t / blend_s;
    if (u < 1.0) {
      const double u2 = u * u;
      const double u3 = u2 * u;
      const double fade_q = 1.0 - u3 * (10.0 - 15.0 * u + 6.0 * u2);
      const double fade_qd = u - u3 * (6.0 - 8.0 * u + 3.0 * u2);
      const double fade_qdd = 0.5 * u2 * (1.0 - u) * (1.0 - u) * (1.0 - u);
      q += fade_q * lacking_q + fade_qd * blend_s * lacking_qd + fade_qdd * blend_s * blend_s * lacking_qdd;
    }
    for (int j = 0; j < kDof; ++j) reference_.q[at].value[j] = q[j];
    reference_.weight[at] = stands_at(t, place_[at]) ? kDwellWeight : slack_[at] * follow_[at];
  }
}

// How long what the chunk lacks of the arm's speed needs to fade within the limits: the fading quintic reaches 3.94 v /
// T in acceleration and 36 v / T^2 in jerk; some room is left for the motion itself.
double Law::first_blend(const PlanStart& start, double start_rate) const {
  constexpr double room = 1.2;
  const Joints lacking = start.state.qd - path_->slope_at(0.0) * start_rate;
  const Eigen::Matrix<double, 6, 1> tcp = arm_.jacobian(start.state.q) * lacking;
  // Where it stands for its fingers already, hardly anything is lacking.
  const bool stands = !path_->dwells().empty() && path_->dwells()[0].first == 0;
  double needed_s = stands ? kRestBlend_s : kFirstBlend_s;
  const auto fade = [&](double speed, const Bound& bound) {
    needed_s = std::max({needed_s, room * 3.94 * speed / bound.a, std::sqrt(room * 36.0 * speed / bound.j)});
  };
  fade(lacking.cwiseAbs().maxCoeff(), limits_->joint);
  fade(tcp.head<3>().norm(), limits_->tcp);
  fade(tcp.tail<3>().norm(), limits_->angular);
  return std::min(needed_s, kLongestBlend_s);
}

}  // namespace wardarm

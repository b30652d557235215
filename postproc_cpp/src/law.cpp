#include "wardarm/law.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace wardarm {
namespace {

constexpr double kFollowPenalty = 2.0;   // of the jerk: half the amplitude left at 2.8 Hz
constexpr double kDwellWeight = 3000.0;  // of the place while the fingers move
// Shares of a limit that the first pace may use.
constexpr double kSpeedShare = 0.98;
constexpr double kSlopeShare = 0.75;  // of acceleration, for changes of pace
constexpr double kBrakeShare = 0.5;   // the same for slowing down from the speed at the start
constexpr double kBendShare = 0.85;   // of acceleration, for the path's own bends
constexpr double kMaxSlope = 12.0;    // change of the pace, 1/s
constexpr double kGoal = 0.995;       // of every limit: the final check's grid is finer than the search's
// Of the stop limits, whose moments are sampled. A motion that starts under way begins with what the one before left
// it.
constexpr double kStopGoal = 0.975;
constexpr double kStopGoalUnderWay = 0.992;
constexpr double kStopSlack = 0.99;  // intervals this close to the stop goal are slowed down with those beyond it
constexpr int kTailKnots = 3;        // to come to rest after the reference does
// What the chunk lacks of the arm's motion at the start fades over a time, longer while the start exceeds a limit.
constexpr double kFirstBlend_s = 0.35;
constexpr double kRestBlend_s = 0.05;  // from rest it lacks nothing
constexpr double kBlendGrowth = 1.15;
constexpr double kLongestBlend_s = 2.5;
constexpr double kSlackening = 0.6;  // of the weight of the path near where the start exceeds a limit
constexpr double kLeastSlack = 0.02;
constexpr double kDwellTolerance_m = 0.0004;  // from the place where the fingers move, while they move: aimed at
constexpr double kDwellLast_m = 0.0005;       // and accepted: two samples are within 1 mm of each other
constexpr double kSoon_s = 0.7;               // a dwell that begins sooner may need the arm to wait for itself
constexpr double kSettled_s = 0.1;            // of a wait: the arm has come to its place by then
constexpr double kWaitStep_s = 0.05;
constexpr double kLongestWait_s = 1.0;
constexpr double kFreeRate = 8.0;  // times the chunk's own timing, where only the limits set the pace
constexpr int kMaxRounds = 24;
constexpr double kDirectGrowth = 1.08;
constexpr double kShortestDirect_s = 0.25;
constexpr int kDirectRound = 3;  // without success: straight to a dwell that comes soon

constexpr const char* kQuantityName[kQuantities] = {"joint speed",   "joint acceleration",   "joint jerk",
                                                    "TCP speed",     "TCP acceleration",     "TCP jerk",
                                                    "turning speed", "turning acceleration", "turning jerk"};

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

// Whether the arm stands still enough while its fingers move; where not, it waits longer there.
bool Law::keeps_dwells(bool last_chance) {
  const double tolerance_m = last_chance ? kDwellLast_m : kDwellTolerance_m;
  bool kept = true;
  moved_m_ = 0.0;
  const auto dwells = path_->dwells();
  for (std::size_t d = 0; d < dwells.size(); ++d) {
    const Dwell& dwell = dwells[d];
    const Eigen::Vector3d wanted = position_of(path_->row((dwell.first + dwell.last) / 2));
    double before_m = 0.0;
    double after_m = 0.0;
    for (int k = 0; k < spline_.intervals(); ++k) {
      const double from = place_[static_cast<std::size_t>(k)];
      const double to = place_[static_cast<std::size_t>(k + 1)];
      if (to <= dwell.first || from >= dwell.last) continue;
      double& worst = from + to < dwell.first + dwell.last ? before_m : after_m;
      for (int i = 0; i < MotionSamples::kPerInterval; ++i) {
        const auto at = static_cast<std::size_t>(k * MotionSamples::kPerInterval + i);
        const Vec<Lane>& p = samples_->sample[at].tcp.position;
        const Vec<Lane> off{p.x - wanted.x(), p.y - wanted.y(), p.z - wanted.z()};
        worst = std::max(worst, largest(dot(off, off)));
      }
    }
    before_m = std::sqrt(before_m);
    after_m = std::sqrt(after_m);
    moved_m_ = std::max({moved_m_, before_m, after_m});
    const auto longer = [&](double& wait_s, double off_m) {
      if (off_m <= tolerance_m) return;
      kept = false;
      const double steps = std::clamp(std::log2(off_m / tolerance_m), 1.0, 3.0);
      wait_s = std::min(wait_s + steps * kWaitStep_s, kLongestWait_s);
    };
    longer(wait_[d].before_s, before_m);
    longer(wait_[d].after_s, after_m);
  }
  return kept;
}

// True if the fingers are to move before the arm could settle from its speed at the start.
bool Law::dwells_soon() const {
  const auto dwells = path_->dwells();
  return !dwells.empty() && dwells[0].first <= pace_.last() && pace_.time_of(dwells[0].first) < kSoon_s;
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
  const int intervals = std::max(static_cast<int>(std::ceil(end_s / kKnotPeriod_s)) + kTailKnots, 8);
  reference_.knots = std::min(intervals + 1, kMaxKnots);
  // What the reference lacks of the start's position, speed and acceleration fades by a quintic.
  int hint = 0;
  const Joints q0 = path_->joints_at(place_after(0.0, hint));
  const Joints q1 = path_->joints_at(place_after(kKnotPeriod_s, hint));
  const Joints q2 = path_->joints_at(place_after(2.0 * kKnotPeriod_s, hint));
  const Joints lacking_q = start.state.q - q0;
  const Joints lacking_qd = start.state.qd - (4.0 * q1 - q2 - 3.0 * q0) / (2.0 * kKnotPeriod_s);
  const Joints lacking_qdd = start.state.qdd - (q0 - 2.0 * q1 + q2) / (kKnotPeriod_s * kKnotPeriod_s);
  hint = 0;
  for (int k = 0; k < reference_.knots; ++k) {
    const auto at = static_cast<std::size_t>(k);
    const double t = k * kKnotPeriod_s;
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
    reference_.weight[at] = stands_at(t, place_[at]) ? kDwellWeight : slack_[at];
  }
}

// How long what the chunk lacks of the arm's speed needs to fade within the limits: the fading quintic reaches
// 3.94 v / T in acceleration and 36 v / T^2 in jerk; some room is left for the motion itself.
double Law::first_blend(const PlanStart& start, double start_rate) const {
  constexpr double room = 1.2;
  const Joints lacking = start.state.qd - path_->slope_at(0.0) * start_rate;
  const Eigen::Matrix<double, 6, 1> tcp = arm_.jacobian(start.state.q) * lacking;
  double needed_s = kFirstBlend_s;
  const auto fade = [&](double speed, const Bound& bound) {
    needed_s = std::max({needed_s, room * 3.94 * speed / bound.a, std::sqrt(room * 36.0 * speed / bound.j)});
  };
  fade(lacking.cwiseAbs().maxCoeff(), limits_->joint);
  fade(tcp.head<3>().norm(), limits_->tcp);
  fade(tcp.tail<3>().norm(), limits_->angular);
  return std::min(needed_s, kLongestBlend_s);
}

// One fit's exceedances: what they ask of the next round.
struct Law::Findings {
  Ratios worst;
  double worst_s = 0.0;
  std::size_t worst_quantity = 0;
  std::array<double, kMaxKnots> dilation;  // of time, that would bring each interval within the limits
  double stop = 0.0;                       // largest ratio of a stop, where it exceeds
  bool start_exceeds = false;              // acceleration or jerk, while the start's own motion fades
};

void Law::examine(double blend_s, Findings& found) {
  const int n = spline_.intervals();
  int slacken_from = n;
  int slacken_to = 0;
  double worst = 0.0;
  for (int k = 0; k < n; ++k) {
    const Ratios ratios = interval_ratios(arm_, spline_, k, *limits_);
    std::array<double, 3> by_order{};  // largest speed, acceleration and jerk ratio
    for (std::size_t i = 0; i < kQuantities; ++i) {
      const double r = ratios.value[i];
      by_order[i % 3] = std::max(by_order[i % 3], r);
      found.worst.value[i] = std::max(found.worst.value[i], r);
      if (r > worst) {
        worst = r;
        found.worst_quantity = i;
        found.worst_s = k * kKnotPeriod_s;
      }
    }
    const auto [speed, acceleration, jerk] = by_order;
    const auto at = static_cast<std::size_t>(k);
    found.dilation[at] = std::max({speed, std::sqrt(acceleration), std::cbrt(jerk)});
    if (jerk > 0.97) reference_.penalty[at] *= (jerk / 0.95) * (jerk / 0.95);
    if (k * kKnotPeriod_s < blend_s && (acceleration > kGoal || jerk > kGoal)) {
      found.start_exceeds = true;
      slacken_from = std::min(slacken_from, k - 2);
      slacken_to = std::max(slacken_to, k + 3);
    }
  }
  for (int k = std::max(0, slacken_from); k <= std::min(n, slacken_to); ++k) {
    double& slack = slack_[static_cast<std::size_t>(k)];
    slack = std::max(kLeastSlack, slack * kSlackening);
  }
}

// Slows the reference down where the motion came out too fast, and a little around it.
void Law::slow_down(const Findings& found) {
  const int n = spline_.intervals();
  for (int k = 0; k < n; ++k) {
    double needed = 0.0;
    for (int m = std::max(0, k - 2); m <= std::min(n - 1, k + 2); ++m) {
      needed = std::max(needed, found.dilation[static_cast<std::size_t>(m)]);
    }
    const double excess = needed / 0.985;
    if (excess <= 1.0) continue;
    const double f = std::pow(excess, 0.8);
    const int first = static_cast<int>(std::floor(place_[static_cast<std::size_t>(k)]));
    const int end = static_cast<int>(std::ceil(place_[static_cast<std::size_t>(k + 1)]));
    for (int i = std::max(0, first); i <= std::min(end, kPoints - 1); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double rate = std::max(pace_.rate_of(i), 0.05);
      pace_.rate_cap[at] = std::min(pace_.rate_cap[at], rate / f);
      pace_.slope_cap[at] /= f * f;
    }
  }
}

// Whether the longest ramp stops from anywhere; where not, the next round is slower there.
bool Law::stops_in_time(double blend_s, Findings& found) {
  std::array<double, kMaxKnots> ratio;
  stop_ = stop_ratios(*samples_, *limits_, limits_->ramp_max_s, kStopGoal * kStopSlack, ratio);
  if (stop_ <= (rounds_ > kMaxRounds / 4 || under_way_ ? kStopGoalUnderWay : kStopGoal)) return true;
  for (int k = 0; k < spline_.intervals(); ++k) {
    const auto at = static_cast<std::size_t>(k);
    if (ratio[at] <= kStopGoal * kStopSlack) continue;
    found.dilation[at] = std::max(found.dilation[at], ratio[at] / kStopGoal);
    reference_.penalty[at] *= ratio[at] / kStopGoal;
    // Leaving the path at the start is the last resort.
    if (rounds_ > kMaxRounds / 2 && k * kKnotPeriod_s < blend_s) found.start_exceeds = true;
  }
  found.stop = stop_;
  return false;
}

// The pace over as much of the chunk as the knots can hold.
void Law::build_pace(double start_rate) {
  constexpr double longest_s = (kMaxKnots - 1 - kTailKnots) * kKnotPeriod_s;
  int last = path_->last_moving();
  pace_.build(start_rate, last);
  while (pace_.duration_s() + waits_s() > longest_s && last > 1) pace_.build(start_rate, --last);
  for (const Dwell& dwell : path_->dwells()) {  // one that the knots do not hold whole is left out
    if (dwell.first < last && last < dwell.last) pace_.build(start_rate, last = std::max(dwell.first, 1));
  }
}

// The arm comes too fast to the place where its fingers move: its motion fades straight to that place, and the chunk
// goes on from there.
void Law::go_direct(const PlanStart& start, double& blend_s) {
  const double speed = (arm_.jacobian(start.state.q) * start.state.qd).head<3>().norm();
  const double way = (position_of(path_->row(path_->dwells()[0].first)) - position_of(path_->row(0))).norm();
  // Braking evenly takes twice the way over the speed; longer would go past the place and come back.
  blend_s = std::clamp(2.0 * way / std::max(speed, 1e-6), kShortestDirect_s,
                       std::max(first_blend(start, 0.0), kShortestDirect_s));
  direct_s_ = blend_s;
  wait_.fill({});
  slack_.fill(1.0);
  reference_.penalty.fill(kFollowPenalty);
  limit_pace();
}

bool Law::find(const Path& path, const PlanStart& start, const LimitProfile& limits, const LawOptions& options,
               Refusal& why) {
  path_ = &path;
  limits_ = &limits;
  options_ = options;
  wait_.fill({});
  direct_s_ = 0.0;
  stop_ = 0.0;
  under_way_ = !start.at_rest;
  slack_.fill(1.0);
  reference_.penalty.fill(kFollowPenalty);
  limit_pace();
  double start_rate = 0.0;
  const Joints slope = path_->slope_at(0.0);
  if (!start.at_rest) {
    const double square = slope.squaredNorm();
    start_rate =
        square > 1e-6 ? std::clamp(start.state.qd.dot(slope) / square, 0.0, options.free ? kFreeRate : 1.0) : 1.0;
  }
  double blend_s = start.at_rest ? kRestBlend_s : first_blend(start, start_rate);
  Findings found;
  for (rounds_ = 1; rounds_ <= kMaxRounds; ++rounds_) {
    build_pace(start_rate);
    build_reference(start, blend_s);
    if (!spline_.fit(start.state, reference_)) return why.refuse(PlanStatus::kNoLaw, "the path is too short to fit");
    found = Findings{};
    examine(blend_s, found);
    if (found.worst.largest() <= kGoal) {
      ratios_ = motion_ratios(arm_, spline_, limits, *samples_);
      if (ratios_.largest() <= 1.0 && (!options.stops || stops_in_time(blend_s, found)) &&
          keeps_dwells(rounds_ > kMaxRounds / 2)) {
        return true;
      }
    }
    if (found.start_exceeds) {
      if (direct_s_ == 0.0 && dwells_soon()) {
        wait_[0].before_s = std::min(wait_[0].before_s + kWaitStep_s, kLongestWait_s);
      }
      blend_s = std::min(blend_s * (direct_s_ > 0.0 ? kDirectGrowth : kBlendGrowth), kLongestBlend_s);
      if (direct_s_ > 0.0) direct_s_ = blend_s;
    }
    if (rounds_ == kDirectRound && under_way_ && dwells_soon()) {
      go_direct(start, blend_s);
      continue;
    }
    slow_down(found);
  }
  if (found.worst.largest() <= kGoal && found.stop <= 0.0 && moved_m_ > kDwellLast_m) {
    return why.refuse(PlanStatus::kNoLaw, "the arm is %.2f mm from its place while the fingers move, limit %.2f mm",
                      moved_m_ * 1e3, kDwellLast_m * 1e3);
  }
  if (found.worst.largest() <= kGoal && found.stop > 0.0) {
    return why.refuse(PlanStatus::kNoLaw, "a stop within %.2f s stays %.2f times the stop limits", limits.ramp_max_s,
                      found.stop);
  }
  return why.refuse(PlanStatus::kNoLaw, "%s stays %.2f times its limit at %.2f s", kQuantityName[found.worst_quantity],
                    found.worst.largest(), found.worst_s);
}

}  // namespace wardarm

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
constexpr int kTailKnots = 3;         // to come to rest after the reference does
// What the chunk lacks of the arm's motion at the start fades over a time, longer while the start exceeds a limit.
constexpr double kFirstBlend_s = 0.35;
constexpr double kRestBlend_s = 0.05;  // from rest it lacks nothing
constexpr double kBlendGrowth = 1.15;
constexpr double kLongestBlend_s = 2.5;
constexpr double kSlackening = 0.6;  // of the weight of the path near where the start exceeds a limit
constexpr double kLeastSlack = 0.02;
constexpr double kDwellTolerance_m = 0.0009;  // from the place where the fingers move, while they move
constexpr double kDwellLast_m = 0.003;        // accepted once the arm has waited as long as it may
constexpr double kSoon_s = 0.7;               // a dwell that begins sooner may need the arm to wait for itself
constexpr double kSettleStep_s = 0.08;
constexpr double kLongestSettle_s = 0.6;
constexpr int kMaxRounds = 24;

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
    pace_.rate_cap[at] = std::min({1.0, kSpeedShare / speed, std::sqrt(kBendShare / bend)});
    pace_.slope_cap[at] =
        std::min(kMaxSlope, kSlopeShare / demand(qd, v, w, limits.joint.a, limits.tcp.a, limits.angular.a));
  }
  // Braking sets in gently: the jerk limit holds too.
  for (std::size_t i = 0; i < kPoints; ++i) {
    const double onset = std::min(1.0, (static_cast<double>(i) + 0.5) / 2.5);
    pace_.brake_cap[i] = pace_.slope_cap[i] * (kBrakeShare / kSlopeShare) * onset;
  }
}

// Whether the arm stands still enough while its fingers move; where not, the next round waits or slows down there.
bool Law::keeps_dwells() {
  const double tolerance_m = rounds_ < kMaxRounds / 2 ? kDwellTolerance_m : kDwellLast_m;
  bool kept = true;
  for (const Dwell& dwell : path_->dwells()) {
    const Eigen::Vector3d wanted = position_of(path_->row((dwell.first + dwell.last) / 2));
    double worst = 0.0;
    for (int k = 0; k < spline_.knots(); ++k) {
      const double place = place_[static_cast<std::size_t>(k)];
      if (place <= dwell.first || place >= dwell.last) continue;
      worst = std::max(worst, (arm_.tcp(spline_.at_knot(k).q).position - wanted).norm());
    }
    if (worst <= tolerance_m) continue;
    kept = false;
    if (&dwell == path_->dwells().data() && dwells_soon() && settle_s_ < kLongestSettle_s) {
      settle_s_ += kSettleStep_s;
    } else {
      for (int i = std::max(0, dwell.first - 3); i <= std::min(dwell.last + 3, kPoints - 1); ++i) {
        pace_.rate_cap[static_cast<std::size_t>(i)] =
            std::min(pace_.rate_cap[static_cast<std::size_t>(i)], pace_.rate_of(i)) * 0.85;
      }
    }
  }
  return kept;
}

// True if the fingers are to move before the arm could settle from its speed at the start.
bool Law::dwells_soon() const {
  const auto dwells = path_->dwells();
  return !dwells.empty() && dwells[0].first <= pace_.last() && pace_.time_of(dwells[0].first) < kSoon_s;
}

// Place on the chunk after t seconds: the pace, and a wait of `settle_s_` at the first point of the first dwell.
double Law::place_after(double t_s, int& hint) const {
  if (settle_s_ > 0.0) {
    const double arrival_s = pace_.time_of(path_->dwells()[0].first);
    if (t_s > arrival_s) t_s = std::max(arrival_s, t_s - settle_s_);
  }
  return pace_.place(t_s, hint);
}

void Law::build_reference(const PlanStart& start, double blend_s) {
  const double end_s = std::max(pace_.duration_s() + settle_s_, blend_s);
  const int intervals = std::max(static_cast<int>(std::ceil(end_s / kKnotPeriod_s)) + kTailKnots, 8);
  reference_.knots = std::min(intervals + 1, kMaxKnots);
  // What the reference lacks of the start's position, speed and acceleration fades by a quintic.
  int hint = 0;
  const Joints q0 = path_->joints_at(0.0);
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
    reference_.weight[at] = path_->in_dwell(place_[at]) ? kDwellWeight : slack_[at];
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

// The pace over as much of the chunk as the knots can hold.
void Law::build_pace(double start_rate) {
  constexpr double longest_s = (kMaxKnots - 1 - kTailKnots) * kKnotPeriod_s;
  int last = kPoints - 1;
  pace_.build(start_rate, last);
  while (pace_.duration_s() + settle_s_ > longest_s && last > 1) pace_.build(start_rate, --last);
}

bool Law::find(const Path& path, const PlanStart& start, const LimitProfile& limits, Refusal& why) {
  path_ = &path;
  limits_ = &limits;
  settle_s_ = 0.0;
  slack_.fill(1.0);
  reference_.penalty.fill(kFollowPenalty);
  limit_pace();
  double start_rate = 0.0;
  const Joints slope = path_->slope_at(0.0);
  if (!start.at_rest) {
    const double square = slope.squaredNorm();
    start_rate = square > 1e-6 ? std::clamp(start.state.qd.dot(slope) / square, 0.0, 1.0) : 1.0;
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
      if (ratios_.largest() <= 1.0 && keeps_dwells()) return true;
    }
    if (found.start_exceeds) {
      if (dwells_soon()) settle_s_ = std::min(settle_s_ + kSettleStep_s, kLongestSettle_s);
      blend_s = std::min(blend_s * kBlendGrowth, kLongestBlend_s);
    }
    slow_down(found);
  }
  return why.refuse(PlanStatus::kNoLaw, "%s stays %.2f times its limit at %.2f s", kQuantityName[found.worst_quantity],
                    found.worst.largest(), found.worst_s);
}

}  // namespace wardarm

#include "wardarm/law.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace wardarm {
namespace {

constexpr double kFollowPenalty = 2.0;  // of the jerk: half the amplitude left at 2.8 Hz
constexpr double kGoal = 0.995;         // of every limit: the moments between those looked at have the rest
constexpr double kDilationGoal = 0.985;
// Of the stop limits, whose moments are sampled. A motion that starts under way begins with what the one before left
// it.
constexpr double kStopGoal = 0.975;
constexpr double kStopGoalUnderWay = 0.992;
constexpr double kStopSlack = 0.99;  // intervals this close to the stop goal are slowed down with those beyond it
// The end: what the motion needs after the pace has come to rest, more while it exceeds a limit there.
constexpr double kEndWindow_s = 0.45;
constexpr int kEndRounds = 6;  // later ones slow the pace down there too
constexpr double kFirstTail_s = 0.05;
constexpr double kTailStep_s = 0.004;
constexpr double kLongestTailStep_s = 0.1;
// What the chunk lacks of the arm's motion at the start fades over a time, longer while the start exceeds a limit.
constexpr double kRestBlend_s = 0.05;  // from rest it lacks nothing
constexpr double kBlendGrowth = 1.15;
constexpr double kBrakeGrowth = 1.15;  // a round, while the arm is too fast there
constexpr double kSlackening = 0.6;    // of the weight of the path near where the start exceeds a limit
constexpr double kLeastSlack = 0.02;
constexpr double kDwellTolerance_m = 0.0004;  // from the place where the fingers move, while they move: aimed at
constexpr double kDwellLast_m = 0.0005;       // and accepted: two samples are within 1 mm of each other
constexpr double kSoon_s = 0.7;               // a dwell that begins sooner may need the arm to wait for itself
constexpr double kWaitStep_s = 0.05;
constexpr double kLongestWait_s = 1.0;
constexpr int kMaxRounds = 24;
constexpr double kDirectGrowth = 1.08;
constexpr double kShortestDirect_s = 0.25;
constexpr int kDirectRound = 3;  // without success: straight to a dwell that comes soon
// A free search goes on to the end and keeps the fastest.
constexpr int kFreeRounds = 40;
constexpr double kFreeGoal = 0.995;     // of the dilation: where it is below, the pace may grow
constexpr double kLargestGain = 1.3;    // a round
constexpr double kMaxFreeSlope = 40.0;  // change of the pace, 1/s

constexpr const char* kQuantityName[kQuantities] = {"joint speed",   "joint acceleration",   "joint jerk",
                                                    "TCP speed",     "TCP acceleration",     "TCP jerk",
                                                    "turning speed", "turning acceleration", "turning jerk"};

}  // namespace

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

// True if the fingers are to move before the arm could settle from its speed at the start. From point 0 on they move
// only where it stands already.
bool Law::dwells_soon() const {
  const auto dwells = path_->dwells();
  return !dwells.empty() && dwells[0].first > 0 && dwells[0].first <= pace_.last() &&
         pace_.time_of(dwells[0].first) < kSoon_s;
}

// One fit's exceedances: what they ask of the next round.
struct Law::Findings {
  Ratios ratios;
  double worst = 0.0;
  double worst_s = 0.0;
  double end = 0.0;  // largest dilation where the motion comes to rest
  std::size_t worst_quantity = 0;
  std::array<double, kMaxKnots> dilation;  // of time, that would bring each interval within the limits
  double stop = 0.0;                       // largest ratio of a stop, where it exceeds
  bool start_too_fast = false;             // speed, there
  bool start_exceeds = false;              // acceleration or jerk, while the start's own motion fades
};

void Law::examine(double blend_s, int part, Findings& found) {
  const int n = spline_.intervals();
  const double h = spline_.period_s();
  int slacken_from = n;
  int slacken_to = 0;
  samples_->count = n * MotionSamples::kPerInterval;
  for (int k = 0; k < n; ++k) {
    const Ratios ratios = interval_ratios(arm_, spline_, k, part, *limits_, *samples_);
    std::array<double, 3> by_order{};  // largest speed, acceleration and jerk ratio
    for (std::size_t i = 0; i < kQuantities; ++i) {
      const double r = ratios.value[i];
      by_order[i % 3] = std::max(by_order[i % 3], r);
      found.ratios.value[i] = std::max(found.ratios.value[i], r);
      if (r > found.worst) {
        found.worst = r;
        found.worst_quantity = i;
        found.worst_s = k * h;
      }
    }
    const auto [speed, acceleration, jerk] = by_order;
    const auto at = static_cast<std::size_t>(k);
    const bool within = speed <= kDilationGoal && acceleration <= kDilationGoal * kDilationGoal &&
                        jerk <= kDilationGoal * kDilationGoal * kDilationGoal;
    // Only a free search asks how far within.
    const double dilation =
        within && !options_.free ? 0.0 : std::max({speed, std::sqrt(acceleration), std::cbrt(jerk)});
    found.dilation[at] = part == 0 ? dilation : std::max(found.dilation[at], dilation);
    if ((n - k) * h < kEndWindow_s) found.end = std::max(found.end, dilation);
    if (jerk > 0.97) reference_.penalty[at] *= (jerk / 0.95) * (jerk / 0.95);
    found.start_too_fast = found.start_too_fast || (k * h < blend_s && speed > kGoal);
    if (k * h < blend_s && (acceleration > kGoal || jerk > kGoal)) {
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
  const double h = spline_.period_s();
  // The end needs time first, a slower pace only where that does not help.
  const int end = rounds_ > kEndRounds ? n : n - static_cast<int>(kEndWindow_s / h);
  if (found.end > kDilationGoal) {
    tail_s_ += std::clamp((found.end / kDilationGoal - 1.0) * kEndWindow_s + kTailStep_s, 0.0, kLongestTailStep_s);
  }
  if (found.start_too_fast) {
    for (double& brake : pace_.brake_cap) brake *= kBrakeGrowth;
  }
  for (int k = 0; k < end; ++k) {
    double needed = 0.0;
    for (int m = std::max(0, k - 2); m <= std::min(n - 1, k + 2); ++m) {
      needed = std::max(needed, found.dilation[static_cast<std::size_t>(m)]);
    }
    const double excess = needed / kDilationGoal;
    if (excess <= 1.0) continue;
    const double f = std::pow(excess, 0.8);
    const int first = static_cast<int>(std::floor(place_[static_cast<std::size_t>(k)]));
    const int stop = static_cast<int>(std::ceil(place_[static_cast<std::size_t>(k + 1)]));
    for (int i = std::max(0, first); i <= std::min(stop, kPoints - 1); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double rate = std::max(pace_.rate_of(i), 0.05);
      pace_.rate_cap[at] = std::min(pace_.rate_cap[at], rate / f);
      pace_.slope_cap[at] /= f * f;
    }
  }
}

// Faster where the motion came out slower than the limits allow, for a free search.
void Law::speed_up(const Findings& found) {
  const int n = spline_.intervals();
  std::array<double, kPoints> needed{};
  for (int k = 0; k < n; ++k) {
    double nearby = 0.0;
    for (int m = std::max(0, k - 1); m <= std::min(n - 1, k + 1); ++m) {
      nearby = std::max(nearby, found.dilation[static_cast<std::size_t>(m)]);
    }
    const int first = static_cast<int>(std::floor(place_[static_cast<std::size_t>(k)]));
    const int end = static_cast<int>(std::ceil(place_[static_cast<std::size_t>(k + 1)]));
    for (int i = std::max(0, first); i <= std::min(end, kPoints - 1); ++i) {
      double& most = needed[static_cast<std::size_t>(i)];
      most = std::max(most, nearby);
    }
  }
  for (int i = 0; i <= pace_.last(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (!(needed[at] > 0.0) || needed[at] > kDilationGoal) continue;
    const double f = std::pow(std::min(kFreeGoal / needed[at], kLargestGain), 0.7);
    const double most = std::min({pace_.rate_cap[at], kFreeRate, kLargestGain * pace_.rate_of(i) + 0.1});
    pace_.rate_cap[at] = most * f;
    pace_.slope_cap[at] = std::min(pace_.slope_cap[at] * f * f, kMaxFreeSlope);
  }
  tail_s_ = std::max(0.0, tail_s_ - 0.5 * std::max(0.0, kFreeGoal - found.end) * kEndWindow_s);
}

void Law::keep_best() {
  if (best_.duration_s > 0.0 && best_.duration_s <= spline_.duration_s()) return;
  best_.spline = spline_;
  best_.place = place_;
  best_.pace = pace_;
  best_.duration_s = spline_.duration_s();
}

void Law::take_best(Findings& found) {
  spline_ = best_.spline;
  place_ = best_.place;
  pace_ = best_.pace;
  found = Findings{};
  examine(0.0, 0, found);
  examine(0.0, 1, found);
  off_ = {};
  ratios_ = found.ratios;
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
    if (rounds_ > kMaxRounds / 2 && k * spline_.period_s() < blend_s) found.start_exceeds = true;
  }
  found.stop = stop_;
  return false;
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
  off_ = bridge_ = {};
  follow_.fill(1.0);
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
  tail_s_ = kFirstTail_s;
  best_.duration_s = 0.0;
  Findings found;
  const int most = options.free ? kFreeRounds : kMaxRounds;
  for (rounds_ = 1; rounds_ <= most; ++rounds_) {
    build_pace(start_rate);
    build_reference(start, blend_s);
    if (!spline_.fit(start.state, reference_)) return why.refuse(PlanStatus::kNoLaw, "the path is too short to fit");
    found = Findings{};
    examine(blend_s, 0, found);
    if (found.worst <= kGoal) {
      examine(blend_s, 1, found);
      if (found.worst <= 1.0 && (!options.stops || stops_in_time(blend_s, found)) &&
          keeps_dwells(rounds_ > kMaxRounds / 2) && keeps_path(blend_s, rounds_ > kMaxRounds / 2)) {
        if (!bridge_is_short(start, why)) return false;
        ratios_ = found.ratios;
        if (!options.free) return true;
        keep_best();
        speed_up(found);
        continue;
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
  if (best_.duration_s > 0.0) {
    take_best(found);
    return true;
  }
  if (found.worst <= kGoal && found.stop <= 0.0 && moved_m_ > kDwellLast_m) {
    return why.refuse(PlanStatus::kNoLaw, "the arm is %.2f mm from its place while the fingers move, limit %.2f mm",
                      moved_m_ * 1e3, kDwellLast_m * 1e3);
  }
  if (found.worst <= kGoal && off_.by_m > 0.0) return refuse_off_path(why);
  if (found.worst <= kGoal && found.stop > 0.0) {
    return why.refuse(PlanStatus::kNoLaw, "a stop within %.2f s stays %.2f times the stop limits", limits.ramp_max_s,
                      found.stop);
  }
  return why.refuse(PlanStatus::kNoLaw, "%s stays %.2f times its limit at %.2f s", kQuantityName[found.worst_quantity],
                    found.worst, found.worst_s);
}

}  // namespace wardarm

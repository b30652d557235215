#include "wardarm/planner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

namespace wardarm {
namespace {

constexpr double kTouched = 0.95;    // a limit counts as setting the pace above this share of it
constexpr double kStopGoal = 0.992;  // of the stop limits, whose moments are sampled
constexpr float kLeastScale = 0.05F;
constexpr float kMostPayload_kg = 5.0F;  // a UR5e carries no more
constexpr double kRampStep_s = 0.01;
constexpr double kFingersStill = 1e-3;  // change of the opening between two knots
constexpr double kFingerLag_s = 0.05;
constexpr double kStandMost_m = 0.001;

// Throws ParamsError for a limit that no UR5e has: zero, negative, beyond ten times its own.
void demand_sensible(const std::string& name, std::span<const double> numbers) {
  static constexpr double most[kProfileNumbers] = {360, 6000, 60000, 3, 50, 500, 720, 7200, 72000, 5, 5, 5};
  for (std::size_t i = 0; i < kProfileNumbers; ++i) {
    if (numbers[i] > 0.0 && numbers[i] <= most[i]) continue;
    throw ParamsError("profile." + name + ": number " + std::to_string(i + 1) + " is " + std::to_string(numbers[i]) +
                      ", expected above 0 and at most " + std::to_string(most[i]));
  }
  if (numbers[9] < 1.0 || numbers[10] > numbers[11]) {
    throw ParamsError("profile." + name + ": stop factor below 1, or its longest ramp is shorter than its shortest");
  }
}

}  // namespace

Planner::Planner(const Params& params) : arm_(params), space_(params), path_(arm_, space_), law_(arm_) {
  for (const std::string& name : params.keys_after("profile.")) {
    profile_names_.push_back(name);
    const std::span<const double> numbers = params.numbers("profile." + name, kProfileNumbers);
    demand_sensible(name, numbers);
    profiles_.push_back(LimitProfile::from_numbers(numbers));
  }
  for (const std::string& name : params.keys_after("liquid.")) {
    const auto found = std::find(profile_names_.begin(), profile_names_.end(), name);
    const std::span<const double> numbers = params.numbers("liquid." + name, kLiquidNumbers);
    if (found == profile_names_.end() || !(numbers[0] > 0.0 && numbers[0] <= 90.0 && numbers[1] > 0.0)) {
      throw ParamsError("liquid." + name + ": expected a profile's name, a tilt above 0 and at most 90 deg, and an " +
                        "acceleration above 0 m/s2");
    }
    profiles_[static_cast<std::size_t>(found - profile_names_.begin())].carry(numbers);
  }
  if (profiles_.empty()) throw ParamsError("no profile.NAME in the parameters");
}

void Planner::plan(const RawChunk& raw, const PlanStart& start, const PlanOptions& options, Trajectory& out) {
  Refusal why;
  bool planned = false;
  out.profile = raw.profile;
  out.payload_kg = raw.payload_kg;
  if (raw.profile >= profiles_.size()) {
    why.refuse(PlanStatus::kOutOfRange, "profile %u is not one of the %zu configured", raw.profile, profiles_.size());
  } else if (raw.speed_scale != 0.0F && !(raw.speed_scale >= kLeastScale && raw.speed_scale <= 1.0F)) {
    why.refuse(PlanStatus::kOutOfRange, "speed scale %.6g, outside %.2f..1 (0 = 1)",
               static_cast<double>(raw.speed_scale), static_cast<double>(kLeastScale));
  } else if (!(raw.payload_kg >= 0.0F && raw.payload_kg <= kMostPayload_kg)) {
    why.refuse(PlanStatus::kOutOfRange, "payload %.3g kg, outside 0..%.0f", static_cast<double>(raw.payload_kg),
               static_cast<double>(kMostPayload_kg));
  } else if (read_chunk(raw.traj, raw.grip, chunk_, out.raw_points, why) &&
             plan_fingers(chunk_, start.opening, stands(arm_, start), raw.payload_kg > 0.0F, why)) {
    LimitProfile limits = profiles_[raw.profile];
    for (Bound* bound : {&limits.joint, &limits.tcp, &limits.angular}) {
      *bound = {bound->v * options.limit_share, bound->a * options.limit_share, bound->j * options.limit_share};
    }
    const double scale = raw.speed_scale != 0.0F ? raw.speed_scale : 1.0;
    planned = path_.build(chunk_, start, limits.tilt, out.points, why) &&
              law_.find(path_, start, limits, {scale, options.free, options.stops}, why) &&
              motion_is_clear(limits, why) && law_.write_bridge(out.points, why) &&
              stands_for_fingers(raw.payload_kg > 0.0F, why);
    if (planned) find_ramp(limits, out);
  }
  out.status = static_cast<std::uint32_t>(why.status);
  std::memcpy(out.reason, why.reason, sizeof out.reason);
  out.knot_count = 0;
  out.duration_s = 0.0;
  if (planned) {
    write_knots(out);
    out.limited = limited(out.duration_s);
    out.max_ratio_plan = static_cast<float>(law_.ratios().largest());
  }
}

std::uint32_t Planner::limited(double duration_s) const {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < kQuantities; ++i) {
    if (law_.ratios().value[i] > kTouched) bits |= 1U << i;
  }
  // Within the time that starting and stopping cost, the chunk's own timing was kept.
  const bool paced = duration_s - law_.waits_s() < law_.last_point() * kPointPeriod_s * 1.1 + 0.6;
  if (paced) bits |= static_cast<std::uint32_t>(Limited::kPaced);
  if (law_.cut_short()) bits |= static_cast<std::uint32_t>(Limited::kCutShort);
  if (!path_.dwells().empty()) bits |= static_cast<std::uint32_t>(Limited::kDwell);
  if (chunk_.gathered) bits |= static_cast<std::uint32_t>(Limited::kGathered);
  if (law_.bridged()) bits |= static_cast<std::uint32_t>(Limited::kBridge);
  return bits;
}

// The shortest ramp on a 10 ms grid that stops within the limits from anywhere; the law keeps the longest one feasible.
void Planner::find_ramp(const LimitProfile& limits, Trajectory& out) const {
  double ramp_s = limits.ramp_min_s;
  int hint = law_.samples().count / 2;
  while (ramp_s < limits.ramp_max_s) {
    const double ratio = stop_ratio(law_.samples(), limits, ramp_s, kStopGoal, hint);
    if (ratio <= kStopGoal) {
      out.ramp_s = ramp_s;
      out.max_ratio_stop = static_cast<float>(ratio);
      return;
    }
    // Jerk falls with the square of the ramp at most, so this never steps past the shortest one.
    const double steps = std::floor(ramp_s * (std::sqrt(ratio / kStopGoal) - 1.0) / kRampStep_s);
    ramp_s += std::max(1.0, steps) * kRampStep_s;
  }
  out.ramp_s = limits.ramp_max_s;
  out.max_ratio_stop = static_cast<float>(law_.stop_ratio_at_longest());
}

bool Planner::motion_is_clear(const LimitProfile& limits, Refusal& why) const {
  const MotionSamples& samples = law_.samples();
  const JointSpline& spline = law_.spline();
  for (int i = 0; i < samples.count; ++i) {
    const Vec<Lane>& p = samples.sample[static_cast<std::size_t>(i)].tcp.position;
    if (!space_.may_leave(p)) continue;
    for (int lane = 0; lane < kLanes; ++lane) {
      const Eigen::Vector3d at(p.x[lane], p.y[lane], p.z[lane]);
      if (!space_.holds(at, "knot", i / MotionSamples::kPerInterval, why)) return false;
    }
  }
  std::array<Joints, kMaxKnots / 2 + 1> looked_at;
  std::size_t count = 0;
  for (int k = 0; k < spline.knots(); k += 2) looked_at[count++] = spline.at_knot(k).q;
  const bool clear = all_clear(arm_, space_, std::span(looked_at).first(count));
  if (clear && !limits.keeps_upright()) return true;
  for (int k = 0; k < spline.knots(); k += 2) {
    const Joints& q = looked_at[static_cast<std::size_t>(k / 2)];
    if (!clear && !configuration_is_clear(arm_, space_, q, "knot", k, why)) return false;
    if (limits.keeps_upright() && !path_.is_upright(arm_.tcp(q).rotation, "knot", k, why)) return false;
  }
  return true;
}

// From the cycle before the first change of the opening until the fingers have followed the last one, two moments of
// the TCP are within a millimetre of each other. Empty fingers may open under way.
bool Planner::stands_for_fingers(bool loaded, Refusal& why) const {
  const double period_s = law_.spline().period_s();
  Eigen::Vector3d low;
  Eigen::Vector3d high;
  double until_s = -1.0;  // the fingers have followed by then
  for (int k = 1; k < law_.spline().intervals(); ++k) {
    const double change = path_.grip_at(law_.place(k)) - path_.grip_at(law_.place(k - 1));
    if (std::fabs(change) > kFingersStill && (change < 0.0 || loaded)) {
      if (until_s < k * period_s) low = high = law_.samples().position(k - 1, MotionSamples::kMoments - 1);
      until_s = k * period_s + kFingerLag_s;
    }
    for (int moment = 0; moment < MotionSamples::kMoments; ++moment) {
      if ((k + moment / (MotionSamples::kMoments - 1.0)) * period_s > until_s) break;
      const Eigen::Vector3d p = law_.samples().position(k, moment);
      low = low.cwiseMin(p);
      high = high.cwiseMax(p);
      if ((high - low).norm() <= kStandMost_m) continue;
      return why.refuse(PlanStatus::kNoLaw, "knot %d: the arm moves by %.2f mm while its fingers do, limit %.0f mm", k,
                        (high - low).norm() * 1e3, kStandMost_m * 1e3);
    }
  }
  return true;
}

void Planner::write_knots(Trajectory& out) const {
  const JointSpline& spline = law_.spline();
  out.knot_count = static_cast<std::uint32_t>(spline.knots());
  out.duration_s = spline.duration_s();
  out.point_count = static_cast<std::uint32_t>(law_.last_point() + 1);
  for (int k = 0; k < spline.knots(); ++k) {
    Knot& knot = out.knots[k];
    const JointState state = spline.at_knot(k);
    knot.t_s = k * spline.period_s();
    for (int j = 0; j < kDof; ++j) {
      knot.q_rad[j] = state.q[j];
      knot.qd_rad_s[j] = state.qd[j];
      knot.qdd_rad_s2[j] = state.qdd[j];
    }
    knot.grip = path_.grip_at(law_.place(k));
  }
}

}  // namespace wardarm

#include "wardarm/planner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace wardarm {
namespace {

constexpr double kTouched = 0.95;    // a limit counts as setting the pace above this share of it
constexpr double kStopGoal = 0.988;  // of the stop limits, whose moments are sampled coarsely
constexpr double kRampStep_s = 0.01;
constexpr double kLongestRamp_s = 2.0;

}  // namespace

Planner::Planner(const Params& params) : arm_(params), space_(params), path_(arm_, space_), law_(arm_) {
  for (const std::string& name : params.keys_after("profile.")) {
    profile_names_.push_back(name);
    profiles_.push_back(LimitProfile::from_numbers(params.numbers("profile." + name, kProfileNumbers)));
  }
  if (profiles_.empty()) throw ParamsError("no profile.NAME in the parameters");
}

void Planner::plan(const RawChunk& raw, const PlanStart& start, Trajectory& out) {
  Refusal why;
  bool planned = false;
  out.profile = raw.profile;
  out.payload_kg = raw.payload_kg;
  if (raw.profile >= profiles_.size()) {
    why.refuse(PlanStatus::kOutOfRange, "profile %u is not one of the %zu configured", raw.profile, profiles_.size());
  } else if (read_chunk(raw.traj, raw.grip, chunk_, out.raw_points, why)) {
    const LimitProfile& limits = profiles_[raw.profile];
    planned = path_.build(chunk_, start, out.points, why) && law_.find(path_, start, limits, why) &&
              motion_is_clear(why) && find_ramp(limits, out, why);
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
  const bool paced = duration_s - law_.settle_s() < law_.last_point() * kPointPeriod_s * 1.1 + 0.6;
  if (paced) bits |= static_cast<std::uint32_t>(Limited::kPaced);
  if (law_.last_point() < kPoints - 1) bits |= static_cast<std::uint32_t>(Limited::kCutShort);
  if (!path_.dwells().empty()) bits |= static_cast<std::uint32_t>(Limited::kDwell);
  return bits;
}

// The shortest ramp on a 10 ms grid that stops within the limits from anywhere.
bool Planner::find_ramp(const LimitProfile& limits, Trajectory& out, Refusal& why) const {
  double ramp_s = limits.ramp_min_s;
  bool near = false;
  while (ramp_s <= kLongestRamp_s) {
    const double ratio = stop_ratio(law_.samples(), limits, ramp_s, near ? StopGrid::kFine : StopGrid::kCoarse);
    if (ratio <= kStopGoal) {
      if (near) {
        out.ramp_s = ramp_s;
        out.max_ratio_stop = static_cast<float>(ratio);
        return true;
      }
      near = true;
      continue;
    }
    // Jerk falls with the square of the ramp at most, so this never steps past the shortest one.
    const double steps = std::floor(ramp_s * (std::sqrt(ratio / kStopGoal) - 1.0) / kRampStep_s);
    near = near || steps < 1.0;
    ramp_s += std::max(1.0, steps) * kRampStep_s;
  }
  return why.refuse(PlanStatus::kNoLaw, "no ramp to rest up to %.1f s keeps the stop limits", kLongestRamp_s);
}

bool Planner::motion_is_clear(Refusal& why) const {
  const MotionSamples& samples = law_.samples();
  const JointSpline& spline = law_.spline();
  for (int i = 0; i < samples.count; ++i) {
    const Vec<Lane>& p = samples.sample[static_cast<std::size_t>(i)].tcp.position;
    for (int lane = 0; lane < kLanes; ++lane) {
      const Eigen::Vector3d at(p.x[lane], p.y[lane], p.z[lane]);
      if (!space_.holds(at, "knot", i / MotionSamples::kPerInterval, why)) return false;
    }
  }
  for (int k = 0; k < spline.knots(); k += 2) {
    if (!configuration_is_clear(arm_, space_, spline.at_knot(k).q, "knot", k, why)) return false;
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
    knot.t_s = k * kKnotPeriod_s;
    for (int j = 0; j < kDof; ++j) {
      knot.q_rad[j] = state.q[j];
      knot.qd_rad_s[j] = state.qd[j];
      knot.qdd_rad_s2[j] = state.qdd[j];
    }
    knot.grip = path_.grip_at(law_.place(k));
  }
}

}  // namespace wardarm

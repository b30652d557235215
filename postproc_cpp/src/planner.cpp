#include "wardarm/planner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

namespace wardarm {
namespace {

constexpr double kDegree = std::numbers::pi / 180.0;

// Smoothing of the chunk: half the amplitude left at 1.5 Hz (smoothing.hpp).
constexpr double kPathLambda = 100.0;
constexpr double kStartWeight = 1e4;  // the start is known exactly
constexpr double kDwellWeight = 3000.0;
// Penalty on the jerk while following: half the amplitude left at 2.8 Hz.
constexpr double kFollowPenalty = 2.0;
// A chunk may start this far from where the arm is.
constexpr double kStartDistance_m = 0.03;
constexpr double kStartTurn_rad = 10.0 * kDegree;
// Neighbouring points may differ by this much in any joint.
constexpr double kMaxJointStep_rad = 0.35;
constexpr double kMaxSlope = 12.0;      // change of the pace, 1/s
constexpr double kSlopeShare = 0.75;    // of the acceleration limit for changes of pace
constexpr double kSpeedShare = 0.98;     // of the speed limit
constexpr double kBrakeShare = 0.5;      // for slowing down from the speed at the start
constexpr double kBendShare = 0.85;     // of the acceleration limit for the path's own bends
constexpr double kGoal = 0.995;         // aim a little below every limit: the check's grid is finer than the search's
constexpr double kStopGoal = 0.988;      // the same for stops, whose moments are sampled more coarsely
constexpr int kTailKnots = 3;           // to come to rest after the reference does
constexpr double kFirstBlend_s = 0.35;   // what the chunk lacks of the arm's motion at the start fades over this
constexpr double kRestBlend_s = 0.05;    // from rest it lacks nothing
constexpr double kSlackening = 0.8;      // of the weight of the path near where the start exceeds a limit
constexpr double kBlendGrowth = 1.1;     // while the start exceeds a limit
constexpr double kLongestBlend_s = 1.2;
constexpr double kStill_m_s = 0.01;       // slower than this the arm counts as standing where its fingers move
constexpr double kDwellTolerance_m = 0.0009;  // from the place where the fingers move, while they move
constexpr double kDwellLast_m = 0.003;        // what is accepted once the arm has waited as long as it may
constexpr double kSoon_s = 0.7;          // a dwell that begins sooner may need the arm to wait for itself
constexpr double kSettleStep_s = 0.08;
constexpr double kLongestSettle_s = 0.6;
constexpr int kMaxRounds = 24;

Eigen::Vector3d rotation_vector(const Eigen::Quaterniond& q) {
  const Eigen::Quaterniond up = q.w() < 0.0 ? Eigen::Quaterniond(-q.coeffs()) : q;
  const double sine = up.vec().norm();
  if (sine < 1e-12) return 2.0 * up.vec();
  return up.vec() * (2.0 * std::atan2(sine, up.w()) / sine);
}

Eigen::Quaterniond turned_by(const Eigen::Vector3d& v) {
  const double angle = v.norm();
  if (angle < 1e-12) return Eigen::Quaterniond::Identity();
  return Eigen::Quaterniond(Eigen::AngleAxisd(angle, v / angle));
}

Eigen::Vector3d position_of(const Row& row) { return {row.value[0], row.value[1], row.value[2]}; }
Eigen::Vector3d turn_of(const Row& row) { return {row.value[3], row.value[4], row.value[5]}; }

const char* reach_text(Reach reach) {
  switch (reach) {
    case Reach::kShoulder:
      return "too close to the base axis";
    case Reach::kWrist:
      return "wrist cannot turn there";
    case Reach::kElbow:
      return "too far for the arm";
    default:
      return "no joint angles found";
  }
}

}  // namespace

Planner::Planner(const Params& params) : arm_(params), space_(params), samples_(std::make_unique<MotionSamples>()) {
  for (const std::string& name : params.keys_after("profile.")) {
    profile_names_.push_back(name);
    profiles_.push_back(LimitProfile::from_numbers(params.numbers("profile." + name, kProfileNumbers)));
  }
  if (profiles_.empty()) throw ParamsError("no profile.NAME in the parameters");
}

void Planner::plan(const RawChunk& raw, const PlanStart& start, Trajectory& out) {
  Refusal why;
  bool planned = false;
  rounds_ = 0;
  out.profile = raw.profile;
  out.payload_kg = raw.payload_kg;
  if (raw.profile >= profiles_.size()) {
    why.refuse(PlanStatus::kOutOfRange, "profile %u is not one of the %zu configured", raw.profile, profiles_.size());
  } else if (read_chunk(raw.traj, raw.grip, chunk_, out.raw_points, why)) {
    planned = follow(start, profiles_[raw.profile], out, why);
  }
  out.status = static_cast<std::uint32_t>(why.status);
  std::memcpy(out.reason, why.reason, sizeof out.reason);
  if (!planned) {
    out.knot_count = 0;
    out.duration_s = 0.0;
  }
}

bool Planner::follow(const PlanStart& start, const LimitProfile& limits, Trajectory& out, Refusal& why) {
  if (!smooth_path(start, out.points, why) || !solve_joints(start, why)) return false;
  limit_pace(limits);
  if (!find_law(start, limits, why) || !check_path(why)) return false;
  write_knots(out);
  out.max_ratio_plan = static_cast<float>(ratios_.largest());
  std::uint32_t limited = 0;
  for (std::size_t i = 0; i < kQuantities; ++i) {
    if (ratios_.value[i] > 0.95) limited |= 1U << i;
  }
  if (out.duration_s < pace_.last() * kPointPeriod_s * 1.15 + 0.6)
    limited |= static_cast<std::uint32_t>(Limited::kPaced);
  if (cut_short_) limited |= static_cast<std::uint32_t>(Limited::kCutShort);
  if (chunk_.dwell_count > 0) limited |= static_cast<std::uint32_t>(Limited::kDwell);
  out.limited = limited;
  // The shortest ramp on the player's grid that stops within the limits from anywhere.
  constexpr double ramp_step_s = 0.05;
  constexpr double ramp_max_s = 2.0;
  for (double ramp_s = limits.ramp_min_s; ramp_s <= ramp_max_s; ramp_s += ramp_step_s) {
    const double ratio = stop_ratio(*samples_, limits, ramp_s);
    if (ratio > kStopGoal) continue;
    out.ramp_s = ramp_s;
    out.max_ratio_stop = static_cast<float>(ratio);
    return true;
  }
  return why.refuse(PlanStatus::kNoLaw, "no ramp to rest up to %.1f s keeps the stop limits", ramp_max_s);
}

bool Planner::starts_at(const Pose& at, Refusal& why) const {
  const double distance = (chunk_.position_m.row(0).transpose() - at.position).norm();
  if (distance > kStartDistance_m) {
    return why.refuse(PlanStatus::kStartMismatch, "point 0 is %.0f mm from where the arm will be, limit %.0f mm",
                      distance * 1e3, kStartDistance_m * 1e3);
  }
  const double turn = chunk_.orientation[0].angularDistance(Eigen::Quaterniond(at.rotation));
  if (turn > kStartTurn_rad) {
    return why.refuse(PlanStatus::kStartMismatch,
                      "point 0 is turned %.0f deg from where the arm will be, limit %.0f deg", turn / kDegree,
                      kStartTurn_rad / kDegree);
  }
  return true;
}

// The chunk as rows of position and rotation vector; dwells gathered to one place.
void Planner::lay_path(const Pose& at, bool slow, std::span<Row> rows, std::span<double> weight) {
  turn_origin_ = Eigen::Quaterniond(at.rotation);
  // Rotation vectors are taken from point to point, so that half a turn away from the start is no seam.
  Eigen::Vector3d before = Eigen::Vector3d::Zero();
  for (std::size_t i = 0; i < kPoints; ++i) {
    Row& row = rows[i];
    row = Row{};
    weight[i] = 1.0;
    Eigen::Vector3d v = rotation_vector(turn_origin_.conjugate() * chunk_.orientation[i]);
    const double angle = v.norm();
    if (angle > 1e-9) {
      const Eigen::Vector3d w = v * ((angle - 2.0 * std::numbers::pi) / angle);
      if ((w - before).squaredNorm() < (v - before).squaredNorm()) v = w;
    }
    before = v;
    for (int k = 0; k < 3; ++k) {
      row.value[k] = chunk_.position_m(static_cast<int>(i), k);
      row.value[3 + k] = v[k];
    }
  }
  for (int k = 0; k < 3; ++k) {
    rows[0].value[k] = at.position[k];
    rows[0].value[3 + k] = 0.0;
  }
  weight[0] = kStartWeight;
  for (int d = 0; d < chunk_.dwell_count; ++d) {
    const Dwell& dwell = chunk_.dwells[static_cast<std::size_t>(d)];
    const auto first = static_cast<std::size_t>(dwell.first);
    const auto last = static_cast<std::size_t>(dwell.last);
    Row mean{};
    if (first <= 1 && slow) {
      mean = rows[0];  // the fingers move already: stay
    } else {
      for (std::size_t i = std::max<std::size_t>(first, 1); i <= last; ++i) {
        for (int k = 0; k < kDof; ++k) mean.value[k] += rows[i].value[k];
      }
      for (double& value : mean.value) value /= static_cast<double>(last - std::max<std::size_t>(first, 1) + 1);
    }
    for (std::size_t i = slow ? first : std::max<std::size_t>(first, 1); i <= last; ++i) {
      rows[i] = mean;
      weight[i] = std::max(weight[i], kDwellWeight);
    }
  }
}

// Where the arm came from, as rows before the chunk's first: pins the path's direction and bend at the join, which
// the noise of the chunk's first points would otherwise set. Nothing if the arm rests.
void Planner::lead_in(const PlanStart& start, std::span<Row> lead, const Row& first, std::span<const Row> rows) const {
  const JointState& s = start.state;
  const double no_jerk[kDof] = {};
  TcpMotion<double> motion{};
  arm_.motion(s.q.data(), s.qd.data(), s.qdd.data(), no_jerk, motion);
  const Eigen::Matrix3d to_tool = turn_origin_.toRotationMatrix().transpose();
  const Eigen::Vector3d w = to_tool * Eigen::Vector3d(motion.w.x, motion.w.y, motion.w.z);
  const Eigen::Vector3d wa = to_tool * Eigen::Vector3d(motion.wa.x, motion.wa.y, motion.wa.z);
  Eigen::Matrix<double, 6, 1> v;
  Eigen::Matrix<double, 6, 1> a;
  v << motion.v.x, motion.v.y, motion.v.z, w;
  a << motion.a.x, motion.a.y, motion.a.z, wa;
  // The chunk's own speed over its first points, by least squares through the start.
  Eigen::Matrix<double, 6, 1> slope = Eigen::Matrix<double, 6, 1>::Zero();
  constexpr int span = 6;
  constexpr double squares = span * (span + 1) * (2 * span + 1) / 6.0;
  for (int i = 1; i <= span; ++i) {
    for (int k = 0; k < kDof; ++k) {
      slope[k] += i * (rows[static_cast<std::size_t>(i)].value[k] - first.value[k]) / (squares * kPointPeriod_s);
    }
  }
  // Rate at which the arm plays the chunk now; 0.3 m of lever makes turning comparable with moving.
  Eigen::Matrix<double, 6, 1> lever;
  lever << 1.0, 1.0, 1.0, 0.3, 0.3, 0.3;
  const double along = v.cwiseProduct(lever).dot(slope.cwiseProduct(lever));
  const double square = slope.cwiseProduct(lever).squaredNorm();
  const double rate = square > 1e-6 && along > 0.0 ? std::clamp(along / square, 0.1, 1.0) : 1.0;
  const Eigen::Matrix<double, 6, 1> tangent = v / rate;
  const Eigen::Matrix<double, 6, 1> bend = (a - v * (v.dot(a) / std::max(v.squaredNorm(), 1e-9))) / (rate * rate);
  const int count = static_cast<int>(lead.size());
  for (int i = 0; i < count; ++i) {
    const double t = (i - count) * kPointPeriod_s;
    Row& row = lead[static_cast<std::size_t>(i)];
    row = Row{};
    for (int k = 0; k < kDof; ++k) row.value[k] = first.value[k] + tangent[k] * t + 0.5 * bend[k] * t * t;
  }
}

bool Planner::smooth_path(const PlanStart& start, TrajectoryPoint* points, Refusal& why) {
  const Pose at = arm_.tcp(start.state.q);
  if (!starts_at(at, why)) return false;
  constexpr std::size_t kLead = 2;
  std::array<Row, kPoints + kLead> buffer;
  std::array<double, kPoints + kLead> weight_buffer;
  const std::span<Row> rows = std::span(buffer).subspan(kLead);
  const bool slow = (arm_.jacobian(start.state.q) * start.state.qd).head<3>().norm() < kStill_m_s;
  lay_path(at, slow, rows, std::span(weight_buffer).subspan(kLead));
  if (start.at_rest) {
    smooth_rows(rows, std::span(weight_buffer).subspan(kLead), kPathLambda);
  } else {
    lead_in(start, std::span(buffer).first(kLead), rows[0], rows);
    std::fill_n(weight_buffer.begin(), kLead, kStartWeight);
    smooth_rows(buffer, weight_buffer, kPathLambda);
  }
  std::copy(rows.begin(), rows.end(), path_.begin());
  for (int i = 0; i < kPoints; ++i) {
    const Row& row = path_[static_cast<std::size_t>(i)];
    points[i] = point_of(position_of(row), turn_origin_ * turned_by(turn_of(row)));
    if (!space_.holds(position_of(row), "point", i, why)) return false;
  }
  return true;
}

bool Planner::solve_joints(const PlanStart& start, Refusal& why) {
  const Branch branch = arm_.branch(start.state.q);
  Joints near = start.state.q;
  for (int i = 0; i < kPoints; ++i) {
    const Row& row = path_[static_cast<std::size_t>(i)];
    const Pose pose{(turn_origin_ * turned_by(turn_of(row))).toRotationMatrix(), position_of(row)};
    Joints& q = q_[static_cast<std::size_t>(i)];
    const Reach reach = arm_.inverse(pose, branch, near, q);
    if (reach != Reach::kOk) {
      return why.refuse(PlanStatus::kUnreachable, "point %d: (%.0f, %.0f, %.0f) mm is %s", i, row.value[0] * 1e3,
                        row.value[1] * 1e3, row.value[2] * 1e3, reach_text(reach));
    }
    if (!configuration_is_clear(arm_, space_, q, "point", i, why)) return false;
    int joint = 0;
    const double step = (q - near).cwiseAbs().maxCoeff(&joint);
    if (step > kMaxJointStep_rad) {
      return why.refuse(PlanStatus::kSingular, "point %d: joint %d would jump by %.0f deg, limit %.0f deg", i,
                        joint + 1, step / kDegree, kMaxJointStep_rad / kDegree);
    }
    near = q;
  }
  return true;
}

// Caps on the pace from the path's own slope, bend and twist at rate 1: v r, a r^2 and j r^3 within the limits.
void Planner::limit_pace(const LimitProfile& limits) {
  constexpr double h = kPointPeriod_s;
  const auto demand = [&](const Joints& q, const Eigen::Vector3d& p, const Eigen::Vector3d& w, double joint, double tcp,
                          double angular) {
    return std::max({q.cwiseAbs().maxCoeff() / joint, p.norm() / tcp, w.norm() / angular, 1e-9});
  };
  const auto row = [&](int i) -> const Row& { return path_[static_cast<std::size_t>(std::clamp(i, 0, kPoints - 1))]; };
  const auto joint = [&](int i) -> const Joints& {
    return q_[static_cast<std::size_t>(std::clamp(i, 0, kPoints - 1))];
  };
  for (int i = 0; i < kPoints; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const int c = std::clamp(i, 1, kPoints - 2);  // centre of the differences
    const auto first = [&](auto value) -> std::decay_t<decltype(value(0))> {
      return (value(c + 1) - value(c - 1)) / (2.0 * h);
    };
    const auto second = [&](auto value) -> std::decay_t<decltype(value(0))> {
      return (value(c + 1) - 2.0 * value(c) + value(c - 1)) / (h * h);
    };
    const auto position = [&](int k) { return position_of(row(k)); };
    const auto turn = [&](int k) { return turn_of(row(k)); };
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

Joints Planner::joints_at(double place) const {
  const int i = std::clamp(static_cast<int>(place), 0, kPoints - 2);
  const double x = place - i;
  const Joints& b = q_[static_cast<std::size_t>(i)];
  const Joints& c = q_[static_cast<std::size_t>(i + 1)];
  const Joints a = i > 0 ? q_[static_cast<std::size_t>(i - 1)] : Joints(2.0 * b - c);
  const Joints d = i + 2 < kPoints ? q_[static_cast<std::size_t>(i + 2)] : Joints(2.0 * c - b);
  // Catmull-Rom
  return b + 0.5 * x * ((c - a) + x * ((2.0 * a - 5.0 * b + 4.0 * c - d) + x * (3.0 * (b - c) + d - a)));
}

Joints Planner::joint_slope_at(double place) const {
  const int i = std::clamp(static_cast<int>(place), 0, kPoints - 2);
  return (q_[static_cast<std::size_t>(i + 1)] - q_[static_cast<std::size_t>(i)]) / kPointPeriod_s;
}

double Planner::grip_at(double place) const {
  const int i = std::clamp(static_cast<int>(place), 0, kPoints - 2);
  const auto at = static_cast<std::size_t>(i);
  return std::clamp(chunk_.grip[at] + (place - i) * (chunk_.grip[at + 1] - chunk_.grip[at]), 0.0, 1.0);
}

double Planner::dwell_weight(double place) const {
  for (int d = 0; d < chunk_.dwell_count; ++d) {
    const Dwell& dwell = chunk_.dwells[static_cast<std::size_t>(d)];
    if (place > dwell.first && place < dwell.last) return kDwellWeight;
  }
  return 0.0;
}

// Whether the arm stands still enough while its fingers move; where not, the next round waits or slows down there.
bool Planner::keeps_dwells() {
  const double tolerance_m = rounds_ < kMaxRounds / 2 ? kDwellTolerance_m : kDwellLast_m;
  bool kept = true;
  for (int d = 0; d < chunk_.dwell_count; ++d) {
    const Dwell& dwell = chunk_.dwells[static_cast<std::size_t>(d)];
    const Eigen::Vector3d wanted = position_of(path_[static_cast<std::size_t>((dwell.first + dwell.last) / 2)]);
    double worst = 0.0;
    for (int k = 0; k < spline_.knots(); ++k) {
      const double place = place_[static_cast<std::size_t>(k)];
      if (place <= dwell.first || place >= dwell.last) continue;
      worst = std::max(worst, (arm_.tcp(spline_.at_knot(k).q).position - wanted).norm());
    }
    if (worst <= tolerance_m) continue;
    kept = false;
    if (d == 0 && dwells_soon() && settle_s_ < kLongestSettle_s) {
      settle_s_ += kSettleStep_s;
    } else {
      for (int i = std::max(0, dwell.first - 3); i <= std::min(dwell.last + 3, kPoints - 1); ++i) {
        pace_.rate_cap[static_cast<std::size_t>(i)] = std::min(pace_.rate_cap[static_cast<std::size_t>(i)], pace_.rate_of(i)) * 0.85;
      }
    }
  }
  return kept;
}

// True if the fingers are to move before the arm could settle from its speed at the start.
bool Planner::dwells_soon() const {
  if (chunk_.dwell_count == 0 || chunk_.dwells[0].first > pace_.last()) return false;
  return pace_.time_of(chunk_.dwells[0].first) < kSoon_s;
}

// Place on the chunk after t seconds: the pace, and a wait of `settle_s_` at the first point of the first dwell.
double Planner::place_after(double t_s, int& hint) const {
  if (settle_s_ > 0.0) {
    const double arrival_s = pace_.time_of(chunk_.dwells[0].first);
    if (t_s > arrival_s) t_s = std::max(arrival_s, t_s - settle_s_);
  }
  return pace_.place(t_s, hint);
}

void Planner::build_reference(const PlanStart& start, double blend_s) {
  const double end_s = std::max(pace_.duration_s() + settle_s_, blend_s);
  const int intervals = std::max(static_cast<int>(std::ceil(end_s / kKnotPeriod_s)) + kTailKnots, 8);
  reference_.knots = std::min(intervals + 1, kMaxKnots);
  // What the reference lacks of the start's position, speed and acceleration fades by a quintic.
  int hint = 0;
  const Joints q0 = joints_at(0.0);
  const Joints q1 = joints_at(place_after(kKnotPeriod_s, hint));
  const Joints q2 = joints_at(place_after(2.0 * kKnotPeriod_s, hint));
  const Joints lacking_q = start.state.q - q0;
  const Joints lacking_qd = start.state.qd - (4.0 * q1 - q2 - 3.0 * q0) / (2.0 * kKnotPeriod_s);
  const Joints lacking_qdd = start.state.qdd - (q0 - 2.0 * q1 + q2) / (kKnotPeriod_s * kKnotPeriod_s);
  hint = 0;
  for (int k = 0; k < reference_.knots; ++k) {
    const auto at = static_cast<std::size_t>(k);
    const double t = k * kKnotPeriod_s;
    place_[at] = place_after(t, hint);
    Joints q = joints_at(place_[at]);
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
    reference_.weight[at] = std::max(dwell_weight(place_[at]), slack_[at]);
  }
}

bool Planner::find_law(const PlanStart& start, const LimitProfile& limits, Refusal& why) {
  reference_.penalty.fill(kFollowPenalty);
  cut_short_ = false;
  settle_s_ = 0.0;
  slack_.fill(1.0);
  double start_rate = 0.0;
  const Joints slope = joint_slope_at(0.0);
  if (!start.at_rest) {
    const double square = slope.squaredNorm();
    start_rate = square > 1e-6 ? std::clamp(start.state.qd.dot(slope) / square, 0.0, 1.0) : 1.0;
  }
  double blend_s = start.at_rest ? kRestBlend_s : kFirstBlend_s;
  double worst = 0.0;
  std::size_t worst_quantity = 0;
  double worst_s = 0.0;
  for (rounds_ = 1; rounds_ <= kMaxRounds; ++rounds_) {
    int last = kPoints - 1;
    pace_.build(start_rate, last);
    const double longest_s = (kMaxKnots - 1 - kTailKnots) * kKnotPeriod_s;
    while (pace_.duration_s() + settle_s_ > longest_s && last > 1) {
      cut_short_ = true;
      pace_.build(start_rate, --last);
    }
    build_reference(start, blend_s);
    if (!spline_.fit(start.state, reference_)) return why.refuse(PlanStatus::kNoLaw, "the path is too short to fit");
    const int n = spline_.intervals();
    std::array<double, kMaxKnots> dilation;
    bool start_exceeds = false;
    worst = 0.0;
    for (int k = 0; k < n; ++k) {
      const Ratios ratios = interval_ratios(arm_, spline_, k, limits);
      std::array<double, 3> by_order{};  // largest speed, acceleration and jerk ratio
      for (std::size_t i = 0; i < kQuantities; ++i) {
        const double r = ratios.value[i];
        by_order[i % 3] = std::max(by_order[i % 3], r);
        if (r > worst) {
          worst = r;
          worst_quantity = i;
          worst_s = k * kKnotPeriod_s;
        }
      }
      const auto at = static_cast<std::size_t>(k);
      const auto [speed, acceleration, jerk] = by_order;
      dilation[at] = std::max({speed, std::sqrt(acceleration), std::cbrt(jerk)});
      if (jerk > 0.97) reference_.penalty[at] *= (jerk / 0.95) * (jerk / 0.95);
      if (k * kKnotPeriod_s < blend_s) {
        if (acceleration > kGoal || jerk > kGoal) {
          start_exceeds = true;
          for (int m = std::max(0, k - 2); m <= std::min(n, k + 3); ++m) slack_[static_cast<std::size_t>(m)] *= kSlackening;
        }
      }
    }
    if (worst <= kGoal) {
      ratios_ = motion_ratios(arm_, spline_, limits, *samples_);
      if (ratios_.largest() <= 1.0 && keeps_dwells()) {
        best_ = spline_;
        best_place_ = place_;
        return true;
      }
    }
    if (start_exceeds && dwells_soon()) settle_s_ = std::min(settle_s_ + kSettleStep_s, kLongestSettle_s);
    if (start_exceeds) blend_s = std::min(blend_s * kBlendGrowth, kLongestBlend_s);
    // Slow the reference down where the motion came out too fast.
    for (int k = 0; k < n; ++k) {
      double needed = 0.0;
      for (int m = std::max(0, k - 2); m <= std::min(n - 1, k + 2); ++m) {
        needed = std::max(needed, dilation[static_cast<std::size_t>(m)]);
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
  static constexpr const char* quantity[kQuantities] = {"joint speed",   "joint acceleration",   "joint jerk",
                                                        "TCP speed",     "TCP acceleration",     "TCP jerk",
                                                        "turning speed", "turning acceleration", "turning jerk"};
  return why.refuse(PlanStatus::kNoLaw, "%s stays %.2f times its limit at %.2f s", quantity[worst_quantity], worst,
                    worst_s);
}

bool Planner::check_path(Refusal& why) {
  for (int i = 0; i < samples_->count; ++i) {
    const Vec<Lane>& p = samples_->sample[static_cast<std::size_t>(i)].tcp.position;
    for (int lane = 0; lane < kLanes; ++lane) {
      const Eigen::Vector3d at(p.x[lane], p.y[lane], p.z[lane]);
      if (!space_.holds(at, "knot", i / MotionSamples::kPerInterval, why)) return false;
    }
  }
  for (int k = 0; k < best_.knots(); k += 2) {
    if (!configuration_is_clear(arm_, space_, best_.at_knot(k).q, "knot", k, why)) return false;
  }
  return true;
}

void Planner::write_knots(Trajectory& out) const {
  out.knot_count = static_cast<std::uint32_t>(best_.knots());
  out.duration_s = best_.duration_s();
  out.point_count = static_cast<std::uint32_t>(pace_.last() + 1);
  for (int k = 0; k < best_.knots(); ++k) {
    Knot& knot = out.knots[k];
    const JointState state = best_.at_knot(k);
    knot.t_s = k * kKnotPeriod_s;
    for (int j = 0; j < kDof; ++j) {
      knot.q_rad[j] = state.q[j];
      knot.qd_rad_s[j] = state.qd[j];
      knot.qdd_rad_s2[j] = state.qdd[j];
    }
    knot.grip = grip_at(best_place_[static_cast<std::size_t>(k)]);
  }
}

}  // namespace wardarm

#include "wardarm/path.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace wardarm {
namespace {

constexpr double kDegree = std::numbers::pi / 180.0;
constexpr double kPathLambda = 100.0;    // half the amplitude left at 1.5 Hz (smoothing.hpp)
constexpr double kStartWeight = 1e4;     // the start is known exactly
constexpr double kDwellWeight = 3000.0;  // and the place where the fingers move nearly so
// A chunk may start this far from where the arm is.
constexpr double kStartDistance_m = 0.03;
constexpr double kStartTurn_rad = 10.0 * kDegree;
// The chunk goes another way than the arm if this share of the arm's speed is not along it.
constexpr double kOtherWay = 0.6;
constexpr double kMaxJointStep_rad = 0.35;  // between neighbouring points
// Nearer than this to its last point the chunk stands: what smoothing leaves of a policy's noise.
constexpr double kStanding_m = 0.0015;
constexpr double kStanding_rad = 0.6 * kDegree;
constexpr double kFingersStill = 0.004;          // change of the opening a point
constexpr int kStandingKept = 1;                 // points
constexpr double kTiltRoom_rad = 0.5 * kDegree;  // beyond the start's own, less the farther that is beyond the limit
constexpr double kTiltEnd_rad = 1.5 * kDegree;   // beyond the limit by this much, and the room is gone
constexpr double kTiltBrake_rad_s2 = 45.0 * kDegree;
constexpr double kTiltRounding_rad = 0.005 * kDegree;
constexpr double kStill_m_s = 0.01;  // slower than this the arm counts as standing where its fingers move

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

// Of the tool's axis from straight down.
double tilt_of(const Eigen::Matrix3d& rotation) { return std::acos(std::clamp(-rotation(2, 2), -1.0, 1.0)); }

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

bool stands(const Ur5e& arm, const PlanStart& start) {
  return (arm.jacobian(start.state.q) * start.state.qd).head<3>().norm() < kStill_m_s;
}

bool Path::build(const Chunk& chunk, const PlanStart& start, double tilt_rad, TrajectoryPoint* points, Refusal& why) {
  chunk_ = &chunk;
  grip_ = chunk.grip;
  dwells_ = chunk.dwells;
  dwell_count_ = chunk.dwell_count;
  tilt_rad_ = tilt_rad;
  if (tilt_rad < std::numbers::pi) tilt_rad_ = std::max(tilt_rad, most_tilt(start, tilt_rad));
  if (!smooth(start, points, why) || !solve_joints(start, why)) return false;
  find_last_moving();
  return true;
}

// How far a motion may lean whose start leans already: a little room near the limit, none beyond, so that no sequence
// of plans can add it up; and always what an arm that leans over needs to stop that.
double Path::most_tilt(const PlanStart& start, double limit_rad) const {
  const Eigen::Matrix3d rotation = arm_.tcp(start.state.q).rotation;
  const double tilt = tilt_of(rotation);
  const Eigen::Vector3d turning = (arm_.jacobian(start.state.q) * start.state.qd).tail<3>();
  const double rate = turning.cross(rotation.col(2)).z() / std::max(std::sin(tilt), 0.01);
  const double over = std::max(rate, 0.0) * std::max(rate, 0.0) / (2.0 * kTiltBrake_rad_s2);
  const double left = std::clamp(1.0 - (tilt - limit_rad) / kTiltEnd_rad, 0.0, 1.0);
  return tilt + std::max({left * kTiltRoom_rad, std::min(over, kTiltRoom_rad), kTiltRounding_rad});
}

// False if the tool leans farther from tool-down than a cup of liquid may.
bool Path::is_upright(const Eigen::Matrix3d& rotation, const char* what, int point, Refusal& why) const {
  const double tilt = tilt_of(rotation);
  if (tilt <= tilt_rad_) return true;
  return why.refuse(PlanStatus::kOutOfRange, "%s %d: tilted by %.1f deg, limit %.1f deg with liquid", what, point,
                    tilt / kDegree, tilt_rad_ / kDegree);
}

// Standing at the end costs time and moves nothing: two points of it are kept, or what the fingers need.
void Path::find_last_moving() {
  const Row& end = row_[kPoints - 1];
  int last = kPoints - 1;
  while (last > 1) {
    const auto at = static_cast<std::size_t>(last - 1);
    const bool still = (position_of(row_[at]) - position_of(end)).norm() < kStanding_m &&
                       (turn_of(row_[at]) - turn_of(end)).norm() < kStanding_rad;
    if (!still || std::fabs(grip_[at + 1] - grip_[at]) > kFingersStill) break;
    --last;
  }
  for (const Dwell& dwell : dwells()) last = std::max(last, dwell.last);
  last_moving_ = std::min(last + kStandingKept, kPoints - 1);
}

bool Path::starts_at(const Pose& at, Refusal& why) const {
  const double distance = (chunk_->position_m.row(0).transpose() - at.position).norm();
  if (distance > kStartDistance_m) {
    return why.refuse(PlanStatus::kStartMismatch, "point 0 is %.0f mm from where the arm will be, limit %.0f mm",
                      distance * 1e3, kStartDistance_m * 1e3);
  }
  const double turn = chunk_->orientation[0].angularDistance(Eigen::Quaterniond(at.rotation));
  if (turn > kStartTurn_rad) {
    return why.refuse(PlanStatus::kStartMismatch,
                      "point 0 is turned %.0f deg from where the arm will be, limit %.0f deg", turn / kDegree,
                      kStartTurn_rad / kDegree);
  }
  return true;
}

// The chunk as rows of position and rotation vector; dwells gathered to one place.
void Path::lay_path(const Pose& at, bool slow, std::span<Row> rows, std::span<double> weight) {
  turn_origin_ = Eigen::Quaterniond(at.rotation);
  // Rotation vectors are taken from point to point, so that half a turn away from the start is no seam.
  Eigen::Vector3d before = Eigen::Vector3d::Zero();
  for (std::size_t i = 0; i < kPoints; ++i) {
    Row& row = rows[i];
    row = Row{};
    weight[i] = 1.0;
    Eigen::Vector3d v = rotation_vector(turn_origin_.conjugate() * chunk_->orientation[i]);
    const double angle = v.norm();
    if (angle > 1e-9) {
      const Eigen::Vector3d w = v * ((angle - 2.0 * std::numbers::pi) / angle);
      if ((w - before).squaredNorm() < (v - before).squaredNorm()) v = w;
    }
    before = v;
    for (int k = 0; k < 3; ++k) {
      row.value[k] = chunk_->position_m(static_cast<int>(i), k);
      row.value[3 + k] = v[k];
    }
  }
  for (int k = 0; k < 3; ++k) {
    rows[0].value[k] = at.position[k];
    rows[0].value[3 + k] = 0.0;
  }
  weight[0] = kStartWeight;
  for (const Dwell& dwell : dwells()) {
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
// the noise of the chunk's first points would otherwise set. False if the chunk goes another way than the arm.
bool Path::lead_in(const PlanStart& start, std::span<Row> lead, const Row& first, std::span<const Row> rows) const {
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
  const Eigen::Matrix<double, 6, 1> off = (v - rate * slope).cwiseProduct(lever);
  if (off.norm() > kOtherWay * v.cwiseProduct(lever).norm()) return false;
  const Eigen::Matrix<double, 6, 1> tangent = v / rate;
  const Eigen::Matrix<double, 6, 1> bend = (a - v * (v.dot(a) / std::max(v.squaredNorm(), 1e-9))) / (rate * rate);
  const int count = static_cast<int>(lead.size());
  for (int i = 0; i < count; ++i) {
    const double t = (i - count) * kPointPeriod_s;
    Row& row = lead[static_cast<std::size_t>(i)];
    row = Row{};
    for (int k = 0; k < kDof; ++k) row.value[k] = first.value[k] + tangent[k] * t + 0.5 * bend[k] * t * t;
  }
  return true;
}

bool Path::smooth(const PlanStart& start, TrajectoryPoint* points, Refusal& why) {
  const Pose at = arm_.tcp(start.state.q);
  if (!starts_at(at, why)) return false;
  constexpr std::size_t kLead = 2;
  std::array<Row, kPoints + kLead> buffer;
  std::array<double, kPoints + kLead> weight_buffer;
  const std::span<Row> rows = std::span(buffer).subspan(kLead);
  const bool slow = stands(arm_, start);
  lay_path(at, slow, rows, std::span(weight_buffer).subspan(kLead));
  if (!start.at_rest && lead_in(start, std::span(buffer).first(kLead), rows[0], rows)) {
    std::fill_n(weight_buffer.begin(), kLead, kStartWeight);
    smooth_rows(buffer, weight_buffer, kPathLambda);
  } else {
    smooth_rows(rows, std::span(weight_buffer).subspan(kLead), kPathLambda);
  }
  std::copy(rows.begin(), rows.end(), row_.begin());
  for (int i = 0; i < kPoints; ++i) {
    const Row& row = row_[static_cast<std::size_t>(i)];
    const Eigen::Quaterniond turn = turn_origin_ * turned_by(turn_of(row));
    points[i] = point_of(position_of(row), turn);
    if (tilt_rad_ < std::numbers::pi && !is_upright(turn.toRotationMatrix(), "point", i, why)) return false;
    if (!space_.holds(position_of(row), "point", i, why)) return false;
  }
  return true;
}

// Every point's joints, and whether the arm may be there; what is refused is the first point that has to be.
bool Path::solve_joints(const PlanStart& start, Refusal& why) {
  int solved = 0;
  Refusal unsolved;
  const bool whole = solve_in_order(start, solved, unsolved);
  const std::span<const Joints> known = std::span(q_).first(static_cast<std::size_t>(solved));
  if (!all_clear(arm_, space_, known)) {
    for (int i = 0; i < solved; ++i) {
      if (!configuration_is_clear(arm_, space_, known[static_cast<std::size_t>(i)], "point", i, why)) return false;
    }
  }
  if (!whole) why = unsolved;
  return whole;
}

// `solved` points have joints: all, or those up to the one that has none or is too far from the one before.
bool Path::solve_in_order(const PlanStart& start, int& solved, Refusal& why) {
  const Branch branch = arm_.branch(start.state.q);
  Joints near = start.state.q;
  for (int i = 0; i < kPoints; ++i) {
    const Row& row = row_[static_cast<std::size_t>(i)];
    const Pose pose{(turn_origin_ * turned_by(turn_of(row))).toRotationMatrix(), position_of(row)};
    Joints& q = q_[static_cast<std::size_t>(i)];
    const Reach reach = arm_.inverse(pose, branch, near, q);
    if (reach != Reach::kOk) {
      return why.refuse(PlanStatus::kUnreachable, "point %d: (%.0f, %.0f, %.0f) mm is %s", i, row.value[0] * 1e3,
                        row.value[1] * 1e3, row.value[2] * 1e3, reach_text(reach));
    }
    solved = i + 1;
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

Joints Path::joints_at(double place) const {
  const int i = std::clamp(static_cast<int>(place), 0, kPoints - 2);
  const double x = place - i;
  const Joints& b = q_[static_cast<std::size_t>(i)];
  const Joints& c = q_[static_cast<std::size_t>(i + 1)];
  const Joints a = i > 0 ? q_[static_cast<std::size_t>(i - 1)] : Joints(2.0 * b - c);
  const Joints d = i + 2 < kPoints ? q_[static_cast<std::size_t>(i + 2)] : Joints(2.0 * c - b);
  // Catmull-Rom
  return b + 0.5 * x * ((c - a) + x * ((2.0 * a - 5.0 * b + 4.0 * c - d) + x * (3.0 * (b - c) + d - a)));
}

Joints Path::slope_at(double place) const {
  const int i = std::clamp(static_cast<int>(place), 0, kPoints - 2);
  return (q_[static_cast<std::size_t>(i + 1)] - q_[static_cast<std::size_t>(i)]) / kPointPeriod_s;
}

double Path::grip_at(double place) const {
  const int i = std::clamp(static_cast<int>(place), 0, kPoints - 2);
  const auto at = static_cast<std::size_t>(i);
  return std::clamp(grip_[at] + (place - i) * (grip_[at + 1] - grip_[at]), 0.0, 1.0);
}

bool Path::in_dwell(double place) const {
  for (const Dwell& dwell : dwells()) {
    if (place > dwell.first && place < dwell.last) return true;
  }
  return false;
}

}  // namespace wardarm

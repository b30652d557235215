#include "wardarm/chunk.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "wardarm/half.hpp"

namespace wardarm {
namespace {

constexpr double kDegree = std::numbers::pi / 180.0;
constexpr const char* kColumn[kDof] = {"x", "y", "z", "roll", "pitch", "yaw"};
// Fingers move where the opening changes by more than this a point (0.4 a second).
constexpr double kGripStep = 0.02;
// Such a movement begins and ends where the change falls below this.
constexpr double kGripTail = 0.004;
// A closing or opening in place: the points on both sides of it stay within this.
constexpr double kDwellSpread_m = 0.012;
// A change of the opening that is meant, and no noise of the model's.
constexpr double kGripMeant = 0.15;

// R_D, tool-down: x and y of base swapped, z down. As a quaternion: half a turn about (x + y) / sqrt 2.
Eigen::Quaterniond tool_down() { return {0.0, std::numbers::sqrt2 / 2, std::numbers::sqrt2 / 2, 0.0}; }

double grip_step(const Chunk& chunk, int i) {
  return std::fabs(chunk.grip[static_cast<std::size_t>(i)] - chunk.grip[static_cast<std::size_t>(i - 1)]);
}

// How far the position spreads over some points, m.
double spread_of(const Chunk& chunk, int first, int last) {
  const auto rows = chunk.position_m.middleRows(first, last - first + 1);
  return (rows.colwise().maxCoeff() - rows.colwise().minCoeff()).norm();
}

// Runs of points over which the opening changes while the position hardly does. False: the fingers close, or let go of
// a load, while the arm moves on.
bool find_dwells(Chunk& chunk, bool loaded, Refusal& why) {
  chunk.dwell_count = 0;
  int i = 1;
  while (i < kPoints && chunk.dwell_count < kMaxDwells) {
    if (grip_step(chunk, i) <= kGripStep) {
      ++i;
      continue;
    }
    int first = i - 1;
    while (first > 0 && grip_step(chunk, first) > kGripTail) --first;
    int last = i;
    int core_last = i;
    for (int k = i + 1; k < kPoints && k <= last + 2; ++k) {
      if (grip_step(chunk, k) > kGripTail) last = k;  // a gap of one point is still the same movement of the fingers
      if (grip_step(chunk, k) > kGripStep) core_last = k;
    }
    const int end = last;
    if (spread_of(chunk, first, last) >= kDwellSpread_m) {  // what goes before and after may be slow enough to move by
      first = i - 1;
      last = core_last;
    }
    const double spread_m = spread_of(chunk, first, last);
    const double change = chunk.grip[static_cast<std::size_t>(last)] - chunk.grip[static_cast<std::size_t>(first)];
    if (spread_m < kDwellSpread_m) {
      // One point more: the last opening is commanded with the next knot, and the fingers lag.
      chunk.dwells[static_cast<std::size_t>(chunk.dwell_count++)] = {first, std::min(last + 1, kPoints - 1)};
    } else if (change < -kGripMeant || (loaded && change > kGripMeant)) {
      return why.refuse(PlanStatus::kNoLaw, "point %d: the fingers %s while the arm moves on by %.0f mm, limit %.0f mm",
                        i, change < 0.0 ? "close" : "let go of the load", spread_m * 1e3, kDwellSpread_m * 1e3);
    }
    i = end + 1;
  }
  return true;
}

}  // namespace

Eigen::Quaterniond orientation_of(const TrajectoryPoint& point) {
  const auto about = [](double degrees, const Eigen::Vector3d& axis) {
    return Eigen::Quaterniond(Eigen::AngleAxisd(degrees * kDegree, axis));
  };
  return about(point.yaw_deg, Eigen::Vector3d::UnitZ()) * about(point.pitch_deg, Eigen::Vector3d::UnitY()) *
         about(point.roll_deg, Eigen::Vector3d::UnitX()) * tool_down();
}

TrajectoryPoint point_of(const Eigen::Vector3d& position_m, const Eigen::Quaterniond& orientation) {
  const Eigen::Matrix3d r = (orientation * tool_down().conjugate()).toRotationMatrix();
  const double pitch = std::asin(std::clamp(-r(2, 0), -1.0, 1.0));
  const double roll = std::atan2(r(2, 1), r(2, 2));
  const double yaw = std::atan2(r(1, 0), r(0, 0));
  return {static_cast<float>(position_m.x() * 1000.0), static_cast<float>(position_m.y() * 1000.0),
          static_cast<float>(position_m.z() * 1000.0), static_cast<float>(roll / kDegree),
          static_cast<float>(pitch / kDegree),         static_cast<float>(yaw / kDegree)};
}

bool read_chunk(const std::uint16_t* traj, const std::uint16_t* grip, bool loaded, Chunk& chunk,
                TrajectoryPoint* raw_points, Refusal& why) {
  for (int i = 0; i < kPoints; ++i) {
    for (int k = 0; k < kDof; ++k) {
      if (!half_is_finite(traj[i * kDof + k])) {
        return why.refuse(PlanStatus::kNotFinite, "point %d: %s is not a finite number", i, kColumn[k]);
      }
    }
    if (!half_is_finite(grip[i])) {
      return why.refuse(PlanStatus::kNotFinite, "point %d: opening is not a finite number", i);
    }
  }
  for (int i = 0; i < kPoints; ++i) {
    float row[kDof];
    for (int k = 0; k < kDof; ++k) {
      const double value = half_to_double(traj[i * kDof + k]);
      if (std::fabs(value) > 1.0 + kRangeSlack) {
        return why.refuse(PlanStatus::kOutOfRange, "point %d: %s is %.3f, outside -1..1", i, kColumn[k], value);
      }
      row[k] = static_cast<float>(value);
    }
    const auto at = static_cast<std::size_t>(i);
    chunk.grip[at] = half_to_double(grip[i]);
    if (chunk.grip[at] < -0.05 || chunk.grip[at] > 1.05) {
      return why.refuse(PlanStatus::kOutOfRange, "point %d: opening is %.3f, outside 0..1", i, chunk.grip[at]);
    }
    chunk.grip[at] = std::clamp(chunk.grip[at], 0.0, 1.0);
    raw_points[i] = denormalise(row);
    const TrajectoryPoint& point = raw_points[i];
    chunk.position_m.row(i) = Eigen::RowVector3d(point.x_mm, point.y_mm, point.z_mm) / 1000.0;
    chunk.orientation[at] = orientation_of(point);
    if (i == 0) continue;
    const double step = (chunk.position_m.row(i) - chunk.position_m.row(i - 1)).norm();
    if (step > kMaxStep_m) {
      return why.refuse(PlanStatus::kJump, "point %d: %.0f mm from the point before, limit %.0f mm", i, step * 1e3,
                        kMaxStep_m * 1e3);
    }
    const double turn = chunk.orientation[at].angularDistance(chunk.orientation[at - 1]);
    if (turn > kMaxStep_rad) {
      return why.refuse(PlanStatus::kJump, "point %d: turned %.0f deg from the point before, limit %.0f deg", i,
                        turn / kDegree, kMaxStep_rad / kDegree);
    }
  }
  return find_dwells(chunk, loaded, why);
}

}  // namespace wardarm

#include "wardarm/chunk.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "wardarm/half.hpp"

namespace wardarm {
namespace {

constexpr double kDegree = std::numbers::pi / 180.0;
constexpr const char* kColumn[kDof] = {"x", "y", "z", "roll", "pitch", "yaw"};
// R_D, tool-down: x and y of base swapped, z down. As a quaternion: half a turn about (x + y) / sqrt 2.
Eigen::Quaterniond tool_down() { return {0.0, std::numbers::sqrt2 / 2, std::numbers::sqrt2 / 2, 0.0}; }

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

bool read_chunk(const std::uint16_t* traj, const std::uint16_t* grip, Chunk& chunk, TrajectoryPoint* raw_points,
                Refusal& why) {
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
      return why.refuse(PlanStatus::kOutOfRange, "point %d: opening is %.3f, outside -0.05..1.05", i, chunk.grip[at]);
    }
    chunk.grip[at] = std::clamp(chunk.grip[at], 0.0, 1.0);
    raw_points[i] = denormalise(row);
    const TrajectoryPoint& point = raw_points[i];
    chunk.position_m.row(i) = Eigen::RowVector3d(point.x_mm, point.y_mm, point.z_mm) / 1000.0;
    chunk.orientation[at] = orientation_of(point);
    if (i == 0) continue;
    const double step = (chunk.position_m.row(i) - chunk.position_m.row(i - 1)).norm();
    if (step > kMaxStep_m) {
      return why.refuse(PlanStatus::kJump, "point %d: %.1f mm from the point before, limit %.0f mm", i, step * 1e3,
                        kMaxStep_m * 1e3);
    }
    const double turn = chunk.orientation[at].angularDistance(chunk.orientation[at - 1]);
    if (turn > kMaxStep_rad) {
      return why.refuse(PlanStatus::kJump, "point %d: turned %.1f deg from the point before, limit %.0f deg", i,
                        turn / kDegree, kMaxStep_rad / kDegree);
    }
  }
  chunk.dwell_count = 0;
  return true;
}

}  // namespace wardarm

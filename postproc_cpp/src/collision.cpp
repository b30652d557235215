#include "wardarm/collision.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace wardarm {
namespace {

// UR5e user manual: every joint turns +-360 degrees; a little is kept for the controller's own check.
constexpr double kJointLimit_rad = 2.0 * std::numbers::pi - 0.05;
// Below these the inverse amplifies the path's speed about tenfold.
constexpr double kMinElbowSine = 0.10;
constexpr double kMinWristSine = 0.10;
constexpr double kMinShoulder_m = 0.06;
constexpr double kDegree = std::numbers::pi / 180.0;

// Radii of capsules around the links, from the UR5e's published dimensions, rounded up.
constexpr double kBaseRadius_m = 0.075;
constexpr double kUpperArmRadius_m = 0.06;
constexpr double kForearmRadius_m = 0.055;
constexpr double kWristRadius_m = 0.05;
constexpr double kToolRadius_m = 0.05;

struct Capsule {
  const char* name;
  Eigen::Vector3d from, to;
  double radius;
};

// Closest distance of two segments (Ericson, Real-Time Collision Detection, 5.1.9).
double distance(const Capsule& a, const Capsule& b) {
  const Eigen::Vector3d d1 = a.to - a.from;
  const Eigen::Vector3d d2 = b.to - b.from;
  const Eigen::Vector3d r = a.from - b.from;
  const double aa = d1.squaredNorm();
  const double ee = d2.squaredNorm();
  const double f = d2.dot(r);
  const double c = d1.dot(r);
  const double bb = d1.dot(d2);
  const double denominator = aa * ee - bb * bb;
  double s = denominator > 1e-12 ? std::clamp((bb * f - c * ee) / denominator, 0.0, 1.0) : 0.0;
  double t = (bb * s + f) / std::max(ee, 1e-12);
  if (t < 0.0) {
    t = 0.0;
    s = std::clamp(-c / std::max(aa, 1e-12), 0.0, 1.0);
  } else if (t > 1.0) {
    t = 1.0;
    s = std::clamp((bb - c) / std::max(aa, 1e-12), 0.0, 1.0);
  }
  return (r + d1 * s - d2 * t).norm();
}

// Whether a link comes nearer to a box than its radius: its axis against the box, wider by the radius on every side.
bool enters(const Capsule& link, const Eigen::Vector3d& low, const Eigen::Vector3d& high) {
  double from = 0.0;
  double to = 1.0;
  const Eigen::Vector3d way = link.to - link.from;
  for (int k = 0; k < 3; ++k) {
    const double a = low[k] - link.radius - link.from[k];
    const double b = high[k] + link.radius - link.from[k];
    if (std::fabs(way[k]) < 1e-12) {
      if (a > 0.0 || b < 0.0) return false;
      continue;
    }
    from = std::max(from, std::min(a / way[k], b / way[k]));
    to = std::min(to, std::max(a / way[k], b / way[k]));
  }
  return from <= to;
}

}  // namespace

Workspace::Workspace(const Params& params)
    : low_m(Eigen::Map<const Eigen::Vector3d>(params.numbers("box_low", 3).data())),
      high_m(Eigen::Map<const Eigen::Vector3d>(params.numbers("box_high", 3).data())),
      table_z_m(params.number("table_z")),
      floor_links_z_m(params.number("floor_links_z")) {
  if (params.keys_after("patient_").empty()) return;
  patient_low_m = Eigen::Map<const Eigen::Vector3d>(params.numbers("patient_low", 3).data());
  patient_high_m = Eigen::Map<const Eigen::Vector3d>(params.numbers("patient_high", 3).data());
  if ((patient_low_m.array() >= patient_high_m.array()).any()) {
    throw ParamsError("patient_low is not below patient_high in every coordinate");
  }
}

bool Workspace::holds(const Eigen::Vector3d& tcp_m, const char* what, int point, Refusal& why) const {
  static constexpr const char* axis[3] = {"x", "y", "z"};
  for (int k = 0; k < 3; ++k) {
    if (tcp_m[k] < low_m[k] || tcp_m[k] > high_m[k]) {
      return why.refuse(PlanStatus::kOutsideBox, "%s %d: %s = %.1f mm, outside the workspace %.1f..%.1f mm", what,
                        point, axis[k], tcp_m[k] * 1e3, low_m[k] * 1e3, high_m[k] * 1e3);
    }
  }
  if (tcp_m.z() < table_z_m) {
    return why.refuse(PlanStatus::kOutsideBox, "%s %d: z = %.1f mm, below the table at %.1f mm", what, point,
                      tcp_m.z() * 1e3, table_z_m * 1e3);
  }
  return true;
}

bool configuration_is_clear(const Ur5e& arm, const Workspace& space, const Joints& q, const char* what, int point,
                            Refusal& why) {
  for (int j = 0; j < kDof; ++j) {
    if (std::fabs(q[j]) > kJointLimit_rad) {
      return why.refuse(PlanStatus::kJointLimit, "%s %d: joint %d at %.0f deg, limit %.0f deg", what, point, j + 1,
                        q[j] / kDegree, kJointLimit_rad / kDegree);
    }
  }
  const Ur5e::Singularity singular = arm.singularity(q);
  if (singular.elbow < kMinElbowSine) {
    return why.refuse(PlanStatus::kSingular, "%s %d: arm nearly stretched or folded, sin(q3) = %.3f, limit %.2f", what,
                      point, singular.elbow, kMinElbowSine);
  }
  if (singular.wrist < kMinWristSine) {
    return why.refuse(PlanStatus::kSingular, "%s %d: wrist nearly in line, sin(q5) = %.3f, limit %.2f", what, point,
                      singular.wrist, kMinWristSine);
  }
  if (singular.shoulder_m < kMinShoulder_m) {
    return why.refuse(PlanStatus::kSingular, "%s %d: wrist %.0f mm from the base axis, limit %.0f mm", what, point,
                      singular.shoulder_m * 1e3, kMinShoulder_m * 1e3);
  }
  const LinkPoints at = arm.link_points(q);
  static constexpr std::array<const char*, 4> link{"elbow", "wrist 1", "wrist 2", "wrist 3"};
  for (std::size_t k = 0; k < link.size(); ++k) {
    const double z = at.origin[k + 1].z();
    if (z < space.floor_links_z_m) {
      return why.refuse(PlanStatus::kCollision, "%s %d: %s at z = %.0f mm, limit %.0f mm", what, point, link[k],
                        z * 1e3, space.floor_links_z_m * 1e3);
    }
  }
  const Eigen::Vector3d shoulder = at.origin[0];
  const Eigen::Vector3d& shift = at.upper_arm_shift;
  const Capsule base{"base", Eigen::Vector3d::Zero(), shoulder, kBaseRadius_m};
  const Capsule upper{"upper arm", shoulder + shift, at.origin[1] + shift, kUpperArmRadius_m};
  const Capsule forearm{"forearm", at.origin[1], at.origin[2], kForearmRadius_m};
  const Capsule wrist{"wrist", at.origin[3], at.origin[4], kWristRadius_m};
  const Capsule tool{"tool", at.origin[5], at.tcp, kToolRadius_m};
  if (space.patient_low_m.x() < space.patient_high_m.x()) {
    for (const Capsule* link_shape : {&upper, &forearm, &wrist, &tool}) {
      if (enters(*link_shape, space.patient_low_m, space.patient_high_m)) {
        return why.refuse(PlanStatus::kCollision, "%s %d: %s enters the patient's place, limit 0 mm", what, point,
                          link_shape->name);
      }
    }
  }
  const std::array<std::array<const Capsule*, 2>, 6> pairs{
      {{&base, &forearm}, {&base, &wrist}, {&base, &tool}, {&upper, &wrist}, {&upper, &tool}, {&forearm, &tool}}};
  for (const auto& [a, b] : pairs) {
    const double gap = distance(*a, *b) - a->radius - b->radius;
    if (gap < 0.0) {
      return why.refuse(PlanStatus::kCollision, "%s %d: %s and %s overlap by %.0f mm", what, point, a->name, b->name,
                        -gap * 1e3);
    }
  }
  return true;
}

}  // namespace wardarm

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
constexpr std::size_t kLowLinks = 4;  // elbow and wrists
constexpr double kDegree = std::numbers::pi / 180.0;

// Radii of capsules around the links, from the UR5e's published dimensions, rounded up.
constexpr double kBaseRadius_m = 0.075;
constexpr double kUpperArmRadius_m = 0.06;
constexpr double kForearmRadius_m = 0.055;
constexpr double kWristRadius_m = 0.05;
constexpr double kToolRadius_m = 0.05;

// T is double, or Lane for several configurations at once.
template <class T>
struct Capsule {
  const char* name;
  Vec<T> from, to;
  double radius;
};

template <class T>
T within_unit(T x) {
  const T zero = x * 0.0;
  const T one = zero + 1.0;
  return x < zero ? zero : (x > one ? one : x);
}

// Squared closest distance of two segments (Ericson, Real-Time Collision Detection, 5.1.9). Links have a length.
template <class T>
T squared_distance(const Capsule<T>& a, const Capsule<T>& b) {
  const Vec<T> d1 = a.to - a.from;
  const Vec<T> d2 = b.to - b.from;
  const Vec<T> r = a.from - b.from;
  const T floor = d1.x * 0.0 + 1e-12;
  const T aa = larger(dot(d1, d1), floor);
  const T ee = larger(dot(d2, d2), floor);
  const T f = dot(d2, r);
  const T c = dot(d1, r);
  const T bb = dot(d1, d2);
  const T denominator = aa * ee - bb * bb;
  const T inner = within_unit<T>((bb * f - c * ee) / larger(denominator, floor));
  const T t = (bb * (denominator > floor ? inner : floor * 0.0) + f) / ee;
  const T s = t < floor * 0.0 ? within_unit<T>(-c / aa)
                              : (t > floor * 0.0 + 1.0 ? within_unit<T>((bb - c) / aa)
                                                       : (denominator > floor ? inner : floor * 0.0));
  const Vec<T> apart = r + d1 * s - d2 * within_unit<T>(t);
  return dot(apart, apart);
}

// The links as capsules, and the pairs of them that can meet.
template <class T>
struct Links {
  Capsule<T> base, upper, forearm, wrist, tool;

  explicit Links(const LinkPoints<T>& at) {
    const Vec<T> shoulder = at.origin[0];
    const Vec<T> foot = shoulder * 0.0;
    const Vec<T>& shift = at.upper_arm_shift;
    base = {"base", foot, shoulder, kBaseRadius_m};
    upper = {"upper arm", shoulder + shift, at.origin[1] + shift, kUpperArmRadius_m};
    forearm = {"forearm", at.origin[1], at.origin[2], kForearmRadius_m};
    wrist = {"wrist", at.origin[3], at.origin[4], kWristRadius_m};
    tool = {"tool", at.origin[5], at.tcp, kToolRadius_m};
  }
  [[nodiscard]] std::array<std::array<const Capsule<T>*, 2>, 6> pairs() const {
    return {{{&base, &forearm}, {&base, &wrist}, {&base, &tool}, {&upper, &wrist}, {&upper, &tool}, {&forearm, &tool}}};
  }
  [[nodiscard]] std::array<const Capsule<T>*, 4> moving() const { return {&upper, &forearm, &wrist, &tool}; }
};

// Whether a link comes nearer to a box than its radius: its axis against the box, wider by the radius on every side.
bool enters(const Capsule<double>& link, const Eigen::Vector3d& low, const Eigen::Vector3d& high) {
  double from = 0.0;
  double to = 1.0;
  const Eigen::Vector3d start(link.from.x, link.from.y, link.from.z);
  const Eigen::Vector3d way = Eigen::Vector3d(link.to.x, link.to.y, link.to.z) - start;
  for (int k = 0; k < 3; ++k) {
    const double a = low[k] - link.radius - start[k];
    const double b = high[k] + link.radius - start[k];
    if (std::fabs(way[k]) < 1e-12) {
      if (a > 0.0 || b < 0.0) return false;
      continue;
    }
    from = std::max(from, std::min(a / way[k], b / way[k]));
    to = std::min(to, std::max(a / way[k], b / way[k]));
  }
  return from <= to;
}

// Whether the boxes around link and place may meet.
LaneBits may_enter(const Capsule<Lane>& link, const Eigen::Vector3d& low, const Eigen::Vector3d& high) {
  const auto overlap = [&](Lane a, Lane b, double from, double to) {
    const Lane least = a < b ? a : b;
    return (least - link.radius <= to) & (larger(a, b) + link.radius >= from);
  };
  return overlap(link.from.x, link.to.x, low.x(), high.x()) & overlap(link.from.y, link.to.y, low.y(), high.y()) &
         overlap(link.from.z, link.to.z, low.z(), high.z());
}

// True if each of the configurations is clear beyond rounding; false says nothing.
bool surely_clear(const Ur5e& arm, const Workspace& space, const std::array<Lane, kDof>& q) {
  constexpr double rounding = 1e-9;
  Trig<Lane> trig;
  LaneBits doubtful{};
  for (std::size_t j = 0; j < kDof; ++j) {
    doubtful |= ~(magnitude(q[j]) <= kJointLimit_rad);  // what is no number, too
    sine_cosine(q[j], trig.s[j], trig.c[j]);
  }
  const Ur5e::Singularity<Lane> singular = arm.singularity(trig);
  doubtful |= singular.elbow < kMinElbowSine + rounding;
  doubtful |= singular.wrist < kMinWristSine + rounding;
  doubtful |= singular.shoulder_m < kMinShoulder_m + rounding;
  const LinkPoints<Lane> at = arm.link_points(trig);
  for (std::size_t k = 1; k <= kLowLinks; ++k) doubtful |= at.origin[k].z < space.floor_links_z_m + rounding;
  const Links<Lane> links(at);
  if (space.has_patient()) {
    for (const Capsule<Lane>* link : links.moving()) {
      doubtful |= may_enter(*link, space.patient_low_m, space.patient_high_m);
    }
  }
  for (const auto& [a, b] : links.pairs()) {
    const double touching = a->radius + b->radius + rounding;
    doubtful |= !(squared_distance(*a, *b) > touching * touching);
  }
  return !any(doubtful);
}

}  // namespace

Workspace::Workspace(const Params& params)
    : low_m(Eigen::Map<const Eigen::Vector3d>(params.numbers("box_low", 3).data())),
      high_m(Eigen::Map<const Eigen::Vector3d>(params.numbers("box_high", 3).data())),
      table_z_m(params.number("table_z")),
      floor_links_z_m(params.number("floor_links_z")) {
  if (!(low_m.array() < high_m.array()).all()) throw ParamsError("box_low is not below box_high in every coordinate");
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
  const Trig<double> trig = trig_of(q);
  const Ur5e::Singularity<double> singular = arm.singularity(trig);
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
  const LinkPoints<double> at = arm.link_points(trig);
  static constexpr std::array<const char*, kLowLinks> link{"elbow", "wrist 1", "wrist 2", "wrist 3"};
  for (std::size_t k = 0; k < link.size(); ++k) {
    const double z = at.origin[k + 1].z;
    if (z < space.floor_links_z_m) {
      return why.refuse(PlanStatus::kCollision, "%s %d: %s at z = %.0f mm, limit %.0f mm", what, point, link[k],
                        z * 1e3, space.floor_links_z_m * 1e3);
    }
  }
  const Links<double> links(at);
  if (space.has_patient()) {
    for (const Capsule<double>* link_shape : links.moving()) {
      if (enters(*link_shape, space.patient_low_m, space.patient_high_m)) {
        return why.refuse(PlanStatus::kCollision, "%s %d: %s enters the patient's place, limit 0 mm", what, point,
                          link_shape->name);
      }
    }
  }
  for (const auto& [a, b] : links.pairs()) {
    const double gap = std::sqrt(squared_distance(*a, *b)) - a->radius - b->radius;
    if (gap < 0.0) {
      return why.refuse(PlanStatus::kCollision, "%s %d: %s and %s overlap by %.0f mm", what, point, a->name, b->name,
                        -gap * 1e3);
    }
  }
  return true;
}

bool all_clear(const Ur5e& arm, const Workspace& space, std::span<const Joints> q) {
  for (std::size_t first = 0; first < q.size(); first += kLanes) {
    std::array<Lane, kDof> group;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const Joints& one = q[std::min(first + lane, q.size() - 1)];
      for (int j = 0; j < kDof; ++j) group[static_cast<std::size_t>(j)][static_cast<int>(lane)] = one[j];
    }
    if (!surely_clear(arm, space, group)) return false;
  }
  return true;
}

}  // namespace wardarm

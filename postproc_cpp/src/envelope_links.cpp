// The arm against itself, its singular places and the table, as the independent check sees them: own link points by
// screw axes, own distance of segments.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "wardarm/envelope.hpp"

namespace wardarm {
namespace {

using Vector = std::array<double, 3>;

// The inverse of the planner amplifies the path's speed about tenfold beyond these.
constexpr double kLeastElbowSine = 0.10;
constexpr double kLeastWristSine = 0.10;
constexpr double kLeastReach_m = 0.06;  // of the wrist from the base axis, in the arm's plane
// UR5e, published dimensions: the upper arm's axis lies this far beside the shoulder; radii rounded up.
constexpr double kUpperArmBeside_m = 0.138;
constexpr double kBase_m = 0.075;
constexpr double kUpperArm_m = 0.06;
constexpr double kForearm_m = 0.055;
constexpr double kWrist_m = 0.05;
constexpr double kTool_m = 0.05;

Vector along(const Vector& a, const Vector& b, double t) {
  return {a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1]), a[2] + t * (b[2] - a[2])};
}
double scalar(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
Vector from_to(const Vector& a, const Vector& b) { return {b[0] - a[0], b[1] - a[1], b[2] - a[2]}; }
double apart(const Vector& a, const Vector& b) { return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]); }

struct Rod {
  const char* name;
  Vector a, b;
  double radius_m;
};

double to_point(const Rod& rod, const Vector& p) {
  const Vector d = from_to(rod.a, rod.b);
  const double square = scalar(d, d);
  const double t = square > 0.0 ? std::clamp(scalar(from_to(rod.a, p), d) / square, 0.0, 1.0) : 0.0;
  return apart(p, along(rod.a, rod.b, t));
}

// Smallest distance of two axes: of an end from the other, or of the lines where their feet lie on both.
double gap(const Rod& one, const Rod& two) {
  double least = std::min({to_point(one, two.a), to_point(one, two.b), to_point(two, one.a), to_point(two, one.b)});
  const Vector d = from_to(one.a, one.b);
  const Vector e = from_to(two.a, two.b);
  const Vector w = from_to(two.a, one.a);
  const double dd = scalar(d, d);
  const double de = scalar(d, e);
  const double ee = scalar(e, e);
  const double below = dd * ee - de * de;
  if (below > 1e-12) {
    const double s = (de * scalar(e, w) - ee * scalar(d, w)) / below;
    const double t = (dd * scalar(e, w) - de * scalar(d, w)) / below;
    if (s > 0.0 && s < 1.0 && t > 0.0 && t < 1.0) {
      least = std::min(least, apart(along(one.a, one.b, s), along(two.a, two.b, t)));
    }
  }
  return least - one.radius_m - two.radius_m;
}

}  // namespace

std::string Envelope::links_problem(const std::array<double, kDof>& q, double t_s) const {
  char text[160] = "";
  const auto say = [&](const char* format, auto... values) {
    std::snprintf(text, sizeof text, format, values...);
    return std::string(text);
  };
  const double elbow = std::fabs(std::sin(q[2]));
  const double wrist = std::fabs(std::sin(q[4]));
  if (elbow < kLeastElbowSine) return say("sin(q3) = %.3f at %.2f s, limit %.2f", elbow, t_s, kLeastElbowSine);
  if (wrist < kLeastWristSine) return say("sin(q5) = %.3f at %.2f s, limit %.2f", wrist, t_s, kLeastWristSine);
  std::array<Vector, kDof> at = link_point_;
  for (std::size_t k = 0; k < kDof; ++k) {
    for (std::size_t i = k + 1; i-- > 0;) at[k] = carried(at[k], i, q[i]);
  }
  static constexpr std::array<const char*, 4> name{"elbow", "wrist 1", "wrist 2", "wrist 3"};
  for (std::size_t k = 0; k < name.size(); ++k) {
    const double z = at[k + 1][2];
    if (z < floor_links_z_) {
      return say("%s at z = %.0f mm at %.2f s, limit %.0f mm", name[k], z * 1e3, t_s, floor_links_z_ * 1e3);
    }
  }
  // The second joint's axis, turned by the first: the arm's plane stands on it.
  const Vector from = carried(anchor_[1], 0, q[0]);
  const Vector side = from_to(
      from, carried({anchor_[1][0] + axis_[1][0], anchor_[1][1] + axis_[1][1], anchor_[1][2] + axis_[1][2]}, 0, q[0]));
  const double off = at[4][0] * side[0] + at[4][1] * side[1];
  const double reach = std::sqrt(std::max(at[4][0] * at[4][0] + at[4][1] * at[4][1] - off * off, 0.0));
  if (reach < kLeastReach_m) {
    return say("wrist %.0f mm from the base axis at %.2f s, limit %.0f mm", reach * 1e3, t_s, kLeastReach_m * 1e3);
  }
  const auto beside = [&](const Vector& p) {
    return Vector{p[0] + kUpperArmBeside_m * side[0], p[1] + kUpperArmBeside_m * side[1],
                  p[2] + kUpperArmBeside_m * side[2]};
  };
  const Rod base{"base", {0.0, 0.0, 0.0}, at[0], kBase_m};
  const Rod upper{"upper arm", beside(at[0]), beside(at[1]), kUpperArm_m};
  const Rod forearm{"forearm", at[1], at[2], kForearm_m};
  const Rod hand{"wrist", at[3], at[4], kWrist_m};
  const Rod tool{"tool", at[5], tcp_at(q).position, kTool_m};
  if (has_patient_) {
    for (const Rod* rod : {&upper, &forearm, &hand, &tool}) {
      constexpr int steps = 16;
      for (int i = 0; i <= steps; ++i) {
        const Vector p = along(rod->a, rod->b, static_cast<double>(i) / steps);
        Vector nearest{};
        for (std::size_t c = 0; c < 3; ++c) nearest[c] = std::clamp(p[c], patient_low_[c], patient_high_[c]);
        if (apart(p, nearest) < rod->radius_m) return say("%s enters the patient's place at %.2f s", rod->name, t_s);
      }
    }
  }
  const std::array<std::array<const Rod*, 2>, 6> pairs{{{{&base, &forearm}},
                                                        {{&base, &hand}},
                                                        {{&base, &tool}},
                                                        {{&upper, &hand}},
                                                        {{&upper, &tool}},
                                                        {{&forearm, &tool}}}};
  for (const auto& pair : pairs) {
    const double free_m = gap(*pair[0], *pair[1]);
    if (free_m >= 0.0) continue;
    return say("%s and %s overlap by %.0f mm at %.2f s", pair[0]->name, pair[1]->name, -free_m * 1e3, t_s);
  }
  return {};
}

}  // namespace wardarm

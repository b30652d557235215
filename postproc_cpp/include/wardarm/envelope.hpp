// The independent check of what the player will really run, before the first knot goes out.
//
// Shares nothing with the planner but layout.hpp: own parameter file and reader, own kinematics (product of
// exponentials), own derivatives (finite differences of the 500 Hz motion), own limits.
#pragma once
#include <array>
#include <span>
#include <string>
#include <vector>

#include "wardarm/layout.hpp"

namespace wardarm {

struct EnvelopeVerdict {
  bool ok = false;
  std::string reason;           // empty if ok
  double max_ratio_plan = 0.0;  // largest value / limit of speed, acceleration, jerk
  double max_ratio_stop = 0.0;  // the same for the ramp to rest from anywhere, against the stop limits
  std::string which;            // the quantity of max_ratio_plan, "TCP jerk"
  double at_s = 0.0;            // path time of max_ratio_plan
};

class Envelope {
 public:
  // Reads envelope.params. Throws std::runtime_error naming file, key and what is wrong.
  explicit Envelope(const std::string& path);

  // Checks the player's motion through `knots`. `ramp_s` is what the player will take from full rate to rest.
  // `start`: commanded q, qd, qdd (rad, rad/s, rad/s2; 18 numbers) that the motion must continue, or empty. `loaded`:
  // something may be in the fingers, and they may not open under way either.
  [[nodiscard]] EnvelopeVerdict check(std::span<const Knot> knots, double ramp_s, int profile,
                                      std::span<const double> start, bool loaded = false) const;
  [[nodiscard]] std::size_t profile_count() const { return profiles_.size(); }

 private:
  using Vector = std::array<double, 3>;
  struct Frame {
    Vector position, x, y, z;
  };
  struct Limits {
    std::array<double, 3> joint, tcp, angular;  // v, a, j
    double stop_factor, ramp_min_s, ramp_max_s;
    double tilt_rad, lateral_m_s2;  // of liquids: from tool-down, and horizontal, plan and stop alike
  };
  struct Walk;

  [[nodiscard]] Frame tcp_at(const std::array<double, kDof>& q) const;
  [[nodiscard]] Vector carried(const Vector& point, std::size_t joint, double angle_rad) const;
  // What is wrong with the arm's posture at path time t_s: singular, a link too low, two links overlapping. Or empty.
  [[nodiscard]] std::string links_problem(const std::array<double, kDof>& q, double t_s) const;
  [[nodiscard]] std::string knots_problem(std::span<const Knot> knots, std::span<const double> start) const;
  // What the TCP does while the fingers close, or `loaded` open. Or empty. `tcp`: at each cycle.
  [[nodiscard]] static std::string fingers_problem(std::span<const Knot> knots, std::span<const Frame> tcp,
                                                   bool loaded);
  void sample(std::span<const Knot> knots, Walk& walk) const;
  void compare_plan(const Limits& limits, Walk& walk, EnvelopeVerdict& verdict) const;
  void compare_stop(const Limits& limits, const Walk& walk, double ramp_s, EnvelopeVerdict& verdict) const;

  std::array<Vector, kDof> axis_{};        // of joint i in base, all joints at zero
  std::array<Vector, kDof> anchor_{};      // a point on it
  Frame home_{};                           // TCP with all joints at zero
  std::array<Vector, kDof> link_point_{};  // shoulder, elbow, three wrists and flange with all joints at zero
  Vector low_{}, high_{};
  double table_z_ = 0.0, floor_links_z_ = 0.0;
  Vector patient_low_{}, patient_high_{};  // no link enters
  bool has_patient_ = false;
  std::vector<Limits> profiles_;
};

}  // namespace wardarm

// The player's interpolant: quintic polynomials through the knots' q, qd, qdd.
#pragma once
#include <algorithm>
#include <span>

#include "wardarm/layout.hpp"
#include "wardarm/spline.hpp"

namespace wardarm {

struct Sample {
  JointState state;
  double grip;
};

// The commanded state at path time t (held at both ends). `hint` is the knot to start looking from.
inline Sample sample_at(std::span<const Knot> knots, double t_s, std::size_t& hint) {
  const double t = std::clamp(t_s, knots.front().t_s, knots.back().t_s);
  std::size_t k = std::min(hint, knots.size() - 2);
  while (k > 0 && knots[k].t_s > t) --k;
  while (k + 2 < knots.size() && knots[k + 1].t_s <= t) ++k;
  hint = k;
  const Knot& a = knots[k];
  const Knot& b = knots[k + 1];
  const double h = b.t_s - a.t_s;
  const double x = t - a.t_s;
  Sample out;
  out.grip = t >= b.t_s ? b.grip : a.grip;
  for (int j = 0; j < kDof; ++j) {
    const double c0 = a.q_rad[j];
    const double c1 = a.qd_rad_s[j];
    const double c2 = a.qdd_rad_s2[j] / 2.0;
    // What the first three terms miss at the end of the interval, as position, speed and acceleration.
    const double dq = (b.q_rad[j] - c0 - h * (c1 + h * c2)) / (h * h * h);
    const double dv = (b.qd_rad_s[j] - c1 - 2.0 * h * c2) / (h * h);
    const double da = (b.qdd_rad_s2[j] - 2.0 * c2) / h;
    const double c3 = 10.0 * dq - 4.0 * dv + 0.5 * da;
    const double c4 = (-15.0 * dq + 7.0 * dv - da) / h;
    const double c5 = (6.0 * dq - 3.0 * dv + 0.5 * da) / (h * h);
    out.state.q[j] = c0 + x * (c1 + x * (c2 + x * (c3 + x * (c4 + x * c5))));
    out.state.qd[j] = c1 + x * (2.0 * c2 + x * (3.0 * c3 + x * (4.0 * c4 + x * 5.0 * c5)));
    out.state.qdd[j] = 2.0 * c2 + x * (6.0 * c3 + x * (12.0 * c4 + x * 20.0 * c5));
  }
  return out;
}

}  // namespace wardarm

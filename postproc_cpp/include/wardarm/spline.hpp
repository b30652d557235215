// Joint motion with piecewise constant jerk: a uniform cubic B-spline in time, fitted by least squares.
//
// The start's position, speed and acceleration and rest at the end hold exactly; in between the spline follows a
// reference as closely as a penalty on the jerk allows. At the knots q, qd and qdd are what the player gets, and
// the quintic through them is the spline itself, because a cubic is a quintic.
#pragma once
#include <array>

#include "wardarm/smoothing.hpp"
#include "wardarm/ur5e.hpp"

namespace wardarm {

inline constexpr double kLongestKnot_s = 0.05;  // the player's contract

struct JointState {
  Joints q, qd, qdd;  // rad, rad/s, rad/s2
};

// What the spline is to follow, at each knot.
struct Reference {
  int knots = 0;
  double period_s = kLongestKnot_s;       // between two knots
  std::array<Row, kMaxKnots> q;           // rad
  std::array<double, kMaxKnots> weight;   // of the distance to q
  std::array<double, kMaxKnots> penalty;  // of the jerk in the interval after the knot
};

class JointSpline {
 public:
  // False if the reference is too short (fewer than 7 knots) or degenerate.
  bool fit(const JointState& start, const Reference& reference);

  [[nodiscard]] int knots() const { return knots_; }
  [[nodiscard]] int intervals() const { return knots_ - 1; }
  [[nodiscard]] double period_s() const { return period_s_; }
  [[nodiscard]] double duration_s() const { return intervals() * period_s_; }
  [[nodiscard]] JointState at_knot(int k) const;
  [[nodiscard]] Joints at(int k,
                          double x) const;  // angles at a share x of interval k
  // The four coefficients that shape interval k.
  [[nodiscard]] const Row* coefficients(int k) const { return &coefficient_[static_cast<std::size_t>(k)]; }

 private:
  int knots_ = 0;
  double period_s_ = kLongestKnot_s;
  JointState start_{};
  std::array<Row, kMaxKnots + 2> coefficient_{};
  BandedSystem system_;
};

// Values of the uniform cubic B-spline and its derivatives by x on one interval, at fraction x: sum of
// basis.value[d][m] * coefficient[m]; the d-th derivative by time is that over period_s^d.
template <class T>
struct CubicBasis {
  T value[4][4];
  explicit CubicBasis(const T& x) {
    const T y = 1.0 - x;
    value[0][0] = y * y * y / 6.0;
    value[0][1] = (3.0 * x * x * x - 6.0 * x * x + 4.0) / 6.0;
    value[0][2] = (3.0 * y * y * y - 6.0 * y * y + 4.0) / 6.0;
    value[0][3] = x * x * x / 6.0;
    value[1][0] = -0.5 * y * y;
    value[1][1] = (1.5 * x * x - 2.0 * x);
    value[1][2] = (2.0 * y - 1.5 * y * y);
    value[1][3] = 0.5 * x * x;
    value[2][0] = y;
    value[2][1] = (3.0 * x - 2.0);
    value[2][2] = (3.0 * y - 2.0);
    value[2][3] = x;
    const T unit = x * 0.0 + 1.0;
    value[3][0] = -unit;
    value[3][1] = 3.0 * unit;
    value[3][2] = -3.0 * unit;
    value[3][3] = unit;
  }
};

}  // namespace wardarm

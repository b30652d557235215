#include "wardarm/spline.hpp"

#include <algorithm>

namespace wardarm {
namespace {

// A knot's value and the jerk after it, from the neighbouring coefficients.
constexpr double kValue[3] = {1.0 / 6.0, 4.0 / 6.0, 1.0 / 6.0};
constexpr double kThird[4] = {-1.0, 3.0, -3.0, 1.0};  // times h^3

Row row_of(const Joints& q) {
  Row row{};
  for (int j = 0; j < kDof; ++j) row.value[j] = q[j];
  return row;
}

Joints joints_of(const Row& row) {
  Joints q;
  for (int j = 0; j < kDof; ++j) q[j] = row.value[j];
  return q;
}

}  // namespace

bool JointSpline::fit(const JointState& start, const Reference& reference) {
  const double h = reference.period_s;
  const int n = reference.knots - 1;  // intervals
  if (n < 6 || reference.knots > kMaxKnots) return false;
  knots_ = reference.knots;
  period_s_ = h;
  start_ = start;
  // The first three coefficients follow from the start: at a knot q = (a + 4b + c) / 6, qd = (c - a) / 2h,
  // qdd = (a - 2b + c) / h^2.
  const Joints middle = start.q - h * h / 6.0 * start.qdd;
  const Joints bend = middle + h * h / 2.0 * start.qdd;
  coefficient_[0] = row_of(bend - h * start.qd);
  coefficient_[1] = row_of(middle);
  coefficient_[2] = row_of(bend + h * start.qd);
  // Unknown: coefficients 3..n-1, and one value for the last three (n..n+2), which is rest.
  const int unknowns = n - 2;
  system_.reset(unknowns);
  const auto add = [&](int first, int count, const double* factor, double weight, const Row& wanted) {
    int at[4];
    double coefficient[4];
    int used = 0;
    Row rest = wanted;
    for (int m = 0; m < count; ++m) {
      const int c = first + m;
      if (c < 3) {
        for (std::size_t j = 0; j < 8; ++j)
          rest.value[j] -= factor[m] * coefficient_[static_cast<std::size_t>(c)].value[j];
        continue;
      }
      const int unknown = std::min(c, n) - 3;
      if (used > 0 && at[used - 1] == unknown) {
        coefficient[used - 1] += factor[m];
      } else {
        at[used] = unknown;
        coefficient[used++] = factor[m];
      }
    }
    if (used > 0) system_.add(used, at, coefficient, weight, rest);
  };
  for (int k = 1; k <= n; ++k) {
    const auto at = static_cast<std::size_t>(k);
    add(k, 3, kValue, reference.weight[at], reference.q[at]);
  }
  for (int k = 0; k < n; ++k) {
    const auto at = static_cast<std::size_t>(k);
    add(k, 4, kThird, reference.penalty[at], Row{});
  }
  if (!system_.solve()) return false;
  for (int c = 3; c <= n + 2; ++c) coefficient_[static_cast<std::size_t>(c)] = system_.unknown(std::min(c, n) - 3);
  return true;
}

Joints JointSpline::at(int k, double x) const {
  const CubicBasis<double> basis(x);
  Joints q = Joints::Zero();
  for (int m = 0; m < 4; ++m) q += basis.value[0][m] * joints_of(coefficients(k)[m]);
  return q;
}

JointState JointSpline::at_knot(int k) const {
  if (k == 0) return start_;
  const Row* c = coefficients(k);
  const Joints a = joints_of(c[0]);
  const Joints b = joints_of(c[1]);
  const Joints d = joints_of(c[2]);
  if (k == knots_ - 1) return {b, Joints::Zero(), Joints::Zero()};
  const double h = period_s_;
  return {(a + 4.0 * b + d) / 6.0, (d - a) / (2.0 * h), (a - 2.0 * b + d) / (h * h)};
}

}  // namespace wardarm

#include "wardarm/pace.hpp"

#include <algorithm>
#include <cmath>

#include "wardarm/chunk.hpp"

namespace wardarm {

void Pace::build(double start_rate, int last) {
  last_ = last;
  const auto n = static_cast<std::size_t>(last);
  const auto step = [&](std::size_t i) { return 2.0 * std::min(slope_cap[i], slope_cap[i + 1]) * kPointPeriod_s; };
  std::array<double, kPoints> square{};  // of the rate: linear in place while the slope is constant
  square[n] = 0.0;
  for (std::size_t i = n; i-- > 0;) square[i] = std::min(rate_cap[i] * rate_cap[i], square[i + 1] + step(i));
  square[0] = start_rate * start_rate;
  double braked = square[0];
  for (std::size_t i = 0; i < n; ++i) {
    braked = std::max(0.0, braked - 2.0 * std::min(brake_cap[i], brake_cap[i + 1]) * kPointPeriod_s);
    square[i + 1] = std::max(std::min(square[i + 1], square[i] + step(i)), i + 1 < n ? braked : 0.0);
  }
  time_[0] = 0.0;
  for (std::size_t i = 0; i <= n; ++i) rate_[i] = std::sqrt(square[i]);
  for (std::size_t i = 0; i < n; ++i) time_[i + 1] = time_[i] + 2.0 * kPointPeriod_s / (rate_[i] + rate_[i + 1]);
}

double Pace::place(double t_s, int& hint) const {
  if (t_s >= time_[static_cast<std::size_t>(last_)]) return last_;
  int i = std::clamp(hint, 0, last_ - 1);
  while (i > 0 && time_[static_cast<std::size_t>(i)] > t_s) --i;
  while (i < last_ - 1 && time_[static_cast<std::size_t>(i + 1)] <= t_s) ++i;
  hint = i;
  const auto k = static_cast<std::size_t>(i);
  const double span = time_[k + 1] - time_[k];
  const double slope = (rate_[k + 1] - rate_[k]) / span;
  const double t = t_s - time_[k];
  return i + (rate_[k] * t + 0.5 * slope * t * t) / kPointPeriod_s;
}

}  // namespace wardarm

// When the arm is where on the chunk: the rate at which the chunk's own 20 Hz timing is played, 0..1.
//
// The rate at each of the 64 points is capped (speed limits) and may change only so fast (acceleration limits): a
// forward and a backward pass over the points, exact for a constant change of rate between two points.
#pragma once
#include <array>

#include "wardarm/layout.hpp"

namespace wardarm {

class Pace {
 public:
  std::array<double, kPoints> rate_cap{};   // largest rate at a point, <= 1
  std::array<double, kPoints> slope_cap{};  // largest change of rate per second near a point

  std::array<double, kPoints> brake_cap{};  // the same for slowing down from the start's own rate

  // Plays points 0..last from rate `start_rate` to rest. The arm cannot be slower than its own speed braked by
  // `brake_cap`: that holds before any cap.
  void build(double start_rate, int last);

  [[nodiscard]] double duration_s() const { return time_[static_cast<std::size_t>(last_)]; }
  [[nodiscard]] int last() const { return last_; }
  [[nodiscard]] double rate_at_start() const { return rate_[0]; }
  [[nodiscard]] double time_of(int point) const { return time_[static_cast<std::size_t>(point)]; }
  [[nodiscard]] double rate_of(int point) const { return rate_[static_cast<std::size_t>(point)]; }
  // Place on the chunk (in points, 0..last) after t seconds. Calls with growing t are cheapest.
  [[nodiscard]] double place(double t_s, int& hint) const;

 private:
  int last_ = 0;
  std::array<double, kPoints> rate_{};
  std::array<double, kPoints> time_{};
};

}  // namespace wardarm

// Least squares with a third-difference penalty: the one smoother of this package.
//
// A banded symmetric system of half-bandwidth 3 with eight right-hand sides (six are used), solved by L D L^T in
// O(n). No allocation.
#pragma once
#include <array>
#include <cstddef>
#include <span>

#include "wardarm/lanes.hpp"
#include "wardarm/layout.hpp"

namespace wardarm {

// Six channels, padded to two lanes.
struct alignas(64) Row {
  double value[8];
};

class BandedSystem {
 public:
  static constexpr int kMax = kMaxKnots + 4;

  // Starts a system of n unknowns, all zero.
  void reset(int n);
  // Adds weight * (sum of coefficient[k] * unknown[at[k]] - wanted)^2. Neighbouring `at` differ by at most 3 in all.
  void add(int count, const int* at, const double* coefficient, double weight, const Row& wanted);
  // Solves in place. False if the system is singular.
  bool solve();
  [[nodiscard]] const Row& unknown(int i) const { return rhs_[static_cast<std::size_t>(i)]; }

 private:
  int n_ = 0;
  std::array<std::array<double, 4>, kMax> band_{};  // band_[i][k] = A(i, i - k)
  std::array<Row, kMax> rhs_{};
};

// Smooths up to kMax rows: minimises sum w (x - rows)^2 + lambda * sum (third difference of x)^2.
// With rows 0.05 s apart lambda 100 passes half of the amplitude at 1.5 Hz: (2 pi f h)^6 lambda = 1.
void smooth_rows(std::span<Row> rows, std::span<const double> weight, double lambda);

}  // namespace wardarm

#include "wardarm/smoothing.hpp"

#include <algorithm>

namespace wardarm {
namespace {

constexpr std::size_t kBand = 3;

// row -= factor * other, on all eight channels.
void subtract(Row& row, double factor, const Row& other) {
  for (std::size_t c = 0; c < 8; ++c) row.value[c] -= factor * other.value[c];
}

}  // namespace

void BandedSystem::reset(int n) {
  n_ = n;
  std::fill_n(band_.begin(), n, std::array<double, 4>{});
  std::fill_n(rhs_.begin(), n, Row{});
}

void BandedSystem::add(int count, const int* at, const double* coefficient, double weight, const Row& wanted) {
  for (int i = 0; i < count; ++i) {
    const double wi = weight * coefficient[i];
    for (int k = 0; k < count; ++k) {
      if (at[k] > at[i]) continue;
      band_[static_cast<std::size_t>(at[i])][static_cast<std::size_t>(at[i] - at[k])] += wi * coefficient[k];
    }
    subtract(rhs_[static_cast<std::size_t>(at[i])], -wi, wanted);
  }
}

bool BandedSystem::solve() {
  const auto n = static_cast<std::size_t>(n_);
  // Factor A = L D L^T; band_[i][0] becomes D, band_[i][k] becomes L(i, i - k).
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t reach = std::min(i, kBand);
    for (std::size_t k = reach; k >= 1; --k) {
      const std::size_t col = i - k;
      double sum = band_[i][k];
      for (std::size_t m = k + 1; m <= reach; ++m) {
        if (m - k > kBand) break;
        sum -= band_[i][m] * band_[col][m - k];  // band_[i][m] still holds L * D
      }
      band_[i][k] = sum;
    }
    double diagonal = band_[i][0];
    for (std::size_t k = 1; k <= reach; ++k) {
      const double scaled = band_[i][k] / band_[i - k][0];
      diagonal -= band_[i][k] * scaled;
      band_[i][k] = scaled;
    }
    if (!(diagonal > 0.0)) return false;
    band_[i][0] = diagonal;
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 1; k <= std::min(i, kBand); ++k) subtract(rhs_[i], band_[i][k], rhs_[i - k]);
  }
  for (std::size_t i = n; i-- > 0;) {
    const double inverse = 1.0 / band_[i][0];
    for (double& value : rhs_[i].value) value *= inverse;
    for (std::size_t k = 1; k <= kBand && i + k < n; ++k) subtract(rhs_[i], band_[i + k][k], rhs_[i + k]);
  }
  return true;
}

void smooth_rows(std::span<Row> rows, std::span<const double> weight, double lambda) {
  static constexpr double third_difference[4] = {-1.0, 3.0, -3.0, 1.0};
  static constexpr double one = 1.0;
  const int n = static_cast<int>(rows.size());
  BandedSystem system;
  system.reset(n);
  for (int i = 0; i < n; ++i)
    system.add(1, &i, &one, weight[static_cast<std::size_t>(i)], rows[static_cast<std::size_t>(i)]);
  for (int i = 0; i + 3 < n; ++i) {
    const int at[4] = {i, i + 1, i + 2, i + 3};
    system.add(4, at, third_difference, lambda, Row{});
  }
  if (!system.solve()) return;  // cannot happen with positive weights
  for (int i = 0; i < n; ++i) rows[static_cast<std::size_t>(i)] = system.unknown(i);
}

}  // namespace wardarm

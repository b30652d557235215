#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include "wardarm/pace.hpp"
#include "wardarm/smoothing.hpp"
#include "wardarm/spline.hpp"

namespace wardarm {
namespace {

TEST(BandedSystem, SolvesLikeADenseOne) {
  constexpr int n = 40;
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  BandedSystem banded;
  banded.reset(n);
  Eigen::MatrixXd a = Eigen::MatrixXd::Zero(n, n);
  Eigen::VectorXd b = Eigen::VectorXd::Zero(n);
  for (int i = 0; i + 3 < n; ++i) {
    const int at[4] = {i, i + 1, i + 2, i + 3};
    double factor[4];
    for (double& f : factor) f = normal(random);
    Row wanted{};
    wanted.value[2] = normal(random);
    const double weight = 0.5 + std::fabs(normal(random));
    banded.add(4, at, factor, weight, wanted);
    for (int r = 0; r < 4; ++r) {
      b[i + r] += weight * factor[r] * wanted.value[2];
      for (int c = 0; c < 4; ++c) a(i + r, i + c) += weight * factor[r] * factor[c];
    }
  }
  for (int i = 0; i < n; ++i) {
    const double one = 1.0;
    banded.add(1, &i, &one, 0.3, Row{});
    a(i, i) += 0.3;
  }
  ASSERT_TRUE(banded.solve());
  const Eigen::VectorXd x = a.ldlt().solve(b);
  for (int i = 0; i < n; ++i) EXPECT_NEAR(banded.unknown(i).value[2], x[i], 1e-10);
}

TEST(BandedSystem, ASingularSystemIsRefused) {
  BandedSystem banded;
  banded.reset(5);
  EXPECT_FALSE(banded.solve());
}

TEST(Smoothing, HalvesAnOscillationAtItsCutOffAndKeepsAParabola) {
  std::array<Row, kPoints> rows{};
  std::vector<double> weight(kPoints, 1.0);
  const double f = std::pow(1.0 / 100.0, 1.0 / 6.0) / (2.0 * std::numbers::pi * 0.05);
  for (int i = 0; i < kPoints; ++i) {
    rows[static_cast<std::size_t>(i)].value[0] = std::sin(2.0 * std::numbers::pi * f * i * 0.05);
    rows[static_cast<std::size_t>(i)].value[1] = 0.3 + 0.02 * i - 0.001 * i * i;
  }
  const auto before = rows;
  smooth_rows(rows, weight, 100.0);
  double largest = 0.0;
  for (std::size_t i = 20; i < 44; ++i) {
    largest = std::max(largest, std::fabs(rows[i].value[0]));
    EXPECT_NEAR(rows[i].value[1], before[i].value[1], 1e-9);
  }
  EXPECT_NEAR(f, 1.48, 0.01);
  EXPECT_NEAR(largest, 0.5, 0.05);
}

TEST(JointSpline, KeepsTheStartAndRestAtTheEndExactly) {
  Reference reference;
  reference.knots = 41;
  reference.penalty.fill(2.0);
  for (int k = 0; k < reference.knots; ++k) {
    reference.weight[static_cast<std::size_t>(k)] = 1.0;
    for (int j = 0; j < kDof; ++j) {
      reference.q[static_cast<std::size_t>(k)].value[j] = 0.1 * j + 0.5 * std::min(k * 0.05, 1.5);
    }
  }
  JointState start{Joints::LinSpaced(0.0, 0.5), Joints::Constant(0.45), Joints::Constant(-0.2)};
  JointSpline spline;
  ASSERT_TRUE(spline.fit(start, reference));
  EXPECT_EQ(spline.at_knot(0).q, start.q);
  EXPECT_EQ(spline.at_knot(0).qdd, start.qdd);
  EXPECT_EQ(spline.at_knot(40).qd, Joints::Zero());
  EXPECT_EQ(spline.at_knot(40).qdd, Joints::Zero());
  EXPECT_NEAR(spline.at_knot(40).q[3], 0.3 + 0.75, 0.01);
  // Constant jerk: position, speed and acceleration of a knot follow from the one before.
  for (int k = 0; k < 40; ++k) {
    const JointState a = spline.at_knot(k);
    const JointState b = spline.at_knot(k + 1);
    const double h = spline.period_s();
    const Joints jerk = (b.qdd - a.qdd) / h;
    EXPECT_LT((a.qd + a.qdd * h + jerk * (h * h / 2) - b.qd).norm(), 1e-10);
    EXPECT_LT((a.q + a.qd * h + a.qdd * (h * h / 2) + jerk * (h * h * h / 6) - b.q).norm(), 1e-12);
  }
}

TEST(Pace, KeepsCapsSlopesAndTheChunksOwnTiming) {
  Pace pace;
  pace.rate_cap.fill(1.0);
  pace.slope_cap.fill(2.0);
  pace.brake_cap.fill(2.0);
  for (std::size_t i = 30; i < 35; ++i) pace.rate_cap[i] = 0.4;
  pace.build(0.0, kPoints - 1);
  EXPECT_EQ(pace.rate_of(0), 0.0);
  EXPECT_EQ(pace.rate_of(kPoints - 1), 0.0);
  int hint = 0;
  double before = 0.0;
  double rate_before = 0.0;
  for (double t = 0.01; t < pace.duration_s(); t += 0.01) {
    const double place = pace.place(t, hint);
    const double rate = (place - before) * 0.05 / 0.01;
    EXPECT_LE(rate, 1.0 + 1e-9);
    EXPECT_LE(std::fabs(rate - rate_before) / 0.01, 2.0 + 1e-6);
    if (place > 30 && place < 34) {
      EXPECT_LE(rate, 0.41);
    }
    before = place;
    rate_before = rate;
  }
  EXPECT_NEAR(pace.place(pace.duration_s(), hint), kPoints - 1, 1e-9);
}

TEST(Pace, TheArmsOwnSpeedIsBrakedAndNotCut) {
  Pace pace;
  pace.rate_cap.fill(0.2);
  pace.slope_cap.fill(10.0);
  pace.brake_cap.fill(1.0);
  pace.build(1.0, kPoints - 1);
  EXPECT_EQ(pace.rate_at_start(), 1.0);
  EXPECT_NEAR(pace.rate_of(4), std::sqrt(1.0 - 2.0 * 4 * 0.05), 1e-9);
  EXPECT_NEAR(pace.rate_of(30), 0.2, 1e-9);
}

}  // namespace
}  // namespace wardarm

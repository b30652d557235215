#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <vector>

#include "bench_arm.hpp"
#include "wardarm/envelope.hpp"

namespace wardarm {
namespace {

class EnvelopeCheck : public ::testing::Test {
 protected:
  EnvelopeCheck() : path_("/tmp/wardarm_envelope_test_" + std::to_string(::getpid())) {
    std::ofstream(path_) << test::kParams;
  }
  ~EnvelopeCheck() override { std::remove(path_.c_str()); }

  // Joint 1 turns by `angle` with a cubic-in-acceleration profile of `duration`.
  static std::vector<Knot> turn(double angle, double duration_s) {
    std::vector<Knot> knots;
    for (int k = 0; k * 0.05 <= duration_s + 1e-9; ++k) {
      Knot knot{};
      const double u = k * 0.05 / duration_s;
      knot.t_s = k * 0.05;
      for (int j = 0; j < kDof; ++j) knot.q_rad[j] = test::home()[j];
      knot.q_rad[0] += angle * u * u * u * (10 - 15 * u + 6 * u * u);
      knot.qd_rad_s[0] = angle * 30 * u * u * (1 - u) * (1 - u) / duration_s;
      knot.qdd_rad_s2[0] = angle * 60 * u * (1 - u) * (1 - 2 * u) / (duration_s * duration_s);
      knots.push_back(knot);
    }
    return knots;
  }
  std::string path_;
};

TEST_F(EnvelopeCheck, KnowsTheLargestSpeedOfAKnownMotion) {
  const Envelope envelope(path_);
  const auto knots = turn(0.5, 2.0);
  const EnvelopeVerdict verdict = envelope.check(knots, 0.34, 0, {});
  EXPECT_TRUE(verdict.ok) << verdict.reason;
  // The TCP turns about the base axis: radius x largest joint speed, or the jerk at the ends, whichever is larger.
  const double radius = std::hypot(0.3, 0.0);
  const double speed = 0.5 * 1.875 / 2.0;
  const double joint_jerk = 0.5 * 60 / 8.0 / (1500 * std::numbers::pi / 180);
  const double tcp_jerk = 0.5 * 60 / 8.0 * radius / 6.0;
  const double expected = std::max({speed * radius / 0.25, speed / (std::numbers::pi / 3), joint_jerk, tcp_jerk});
  EXPECT_NEAR(verdict.max_ratio_plan, expected, 0.02 * expected);
}

TEST_F(EnvelopeCheck, ATooFastTurnIsRefusedAndNamed) {
  const Envelope envelope(path_);
  const EnvelopeVerdict verdict = envelope.check(turn(1.0, 1.0), 0.34, 0, {});
  EXPECT_FALSE(verdict.ok);
  EXPECT_NE(verdict.reason.find("times its limit"), std::string::npos);
}

TEST_F(EnvelopeCheck, AProfileThatIsNotThereIsRefused) {
  const Envelope envelope(path_);
  EXPECT_FALSE(envelope.check(turn(0.5, 2.0), 0.34, 2, {}).ok);
  EXPECT_FALSE(envelope.check(turn(0.5, 2.0), 0.34, -1, {}).ok);
}

}  // namespace
}  // namespace wardarm

#include <gtest/gtest.h>

#include "bench_arm.hpp"
#include "wardarm/answer.hpp"
#include "wardarm/planner.hpp"
#include "wardarm/ring.hpp"
#include "wardarm/sampler.hpp"

namespace wardarm {
namespace {

class Planning : public ::testing::Test {
 protected:
  Planning() : planner_(Params::parse(test::kParams, "test")), out_(std::make_unique<Trajectory>()) {}
  Planner planner_;
  std::unique_ptr<Trajectory> out_;
};

TEST_F(Planning, AReachKeepsTheLimitsAndEndsAtRest) {
  const auto raw = test::line(planner_.arm(), test::home(), {0.1, -0.2, -0.1}, 0.2);
  planner_.plan(*raw, {{test::home(), Joints::Zero(), Joints::Zero()}, true}, *out_);
  ASSERT_EQ(out_->status, static_cast<std::uint32_t>(PlanStatus::kOk)) << out_->reason;
  EXPECT_LE(out_->max_ratio_plan, 1.0F);
  EXPECT_LE(out_->max_ratio_stop, 1.0F);
  EXPECT_GE(out_->ramp_s, 0.3);
  const Knot& last = out_->knots[out_->knot_count - 1];
  EXPECT_EQ(last.t_s, out_->duration_s);
  for (const double qd : last.qd_rad_s) EXPECT_EQ(qd, 0.0);
}

TEST_F(Planning, TheSamePlanTwiceIsTheSameBytes) {
  const auto raw = test::line(planner_.arm(), test::home(), {0.1, -0.2, -0.1}, 0.2);
  const PlanStart start{{test::home(), Joints::Zero(), Joints::Zero()}, true};
  const auto again = std::make_unique<Trajectory>();
  std::memset(static_cast<void*>(out_.get()), 0, sizeof *out_);
  std::memset(static_cast<void*>(again.get()), 0, sizeof *again);
  planner_.plan(*raw, start, *out_);
  planner_.plan(*test::line(planner_.arm(), test::home(), {-0.02, 0.2, 0.1}, 0.1), start, *again);
  std::memset(static_cast<void*>(again.get()), 0, sizeof *again);
  planner_.plan(*raw, start, *again);
  EXPECT_EQ(std::memcmp(out_.get(), again.get(), sizeof *again), 0);
}

TEST_F(Planning, StandingStillIsAPlanToo) {
  const auto raw = test::line(planner_.arm(), test::home(), {1e-9, 0, 0}, 0.0);
  planner_.plan(*raw, {{test::home(), Joints::Zero(), Joints::Zero()}, true}, *out_);
  EXPECT_EQ(out_->status, static_cast<std::uint32_t>(PlanStatus::kOk)) << out_->reason;
}

TEST_F(Planning, StoppingFromFullSpeedNeedsNoChunkThatMoves) {
  const auto raw = test::line(planner_.arm(), test::home(), {0.0, -0.3, 0.0}, 0.24);
  planner_.plan(*raw, {{test::home(), Joints::Zero(), Joints::Zero()}, true}, *out_);
  ASSERT_EQ(out_->status, static_cast<std::uint32_t>(PlanStatus::kOk)) << out_->reason;
  std::size_t hint = 0;
  const JointState moving = sample_at({out_->knots, out_->knot_count}, 0.8, hint).state;
  const auto still = test::line(planner_.arm(), moving.q, {1e-9, 0, 0}, 0.0);
  planner_.plan(*still, {moving, false}, *out_);
  ASSERT_EQ(out_->status, static_cast<std::uint32_t>(PlanStatus::kOk)) << out_->reason;
  EXPECT_LE(out_->max_ratio_plan, 1.0F);
}

TEST(Sampler, AQuinticThroughConstantJerkIsThatCubic) {
  Knot knots[2] = {};
  knots[1].t_s = 0.05;
  for (int j = 0; j < kDof; ++j) {
    const double q = 0.3 * j;
    const double v = 0.2;
    const double a = -1.0;
    const double jerk = 7.0 + j;
    const double h = 0.05;
    knots[0].q_rad[j] = q;
    knots[0].qd_rad_s[j] = v;
    knots[0].qdd_rad_s2[j] = a;
    knots[1].q_rad[j] = q + v * h + a * h * h / 2 + jerk * h * h * h / 6;
    knots[1].qd_rad_s[j] = v + a * h + jerk * h * h / 2;
    knots[1].qdd_rad_s2[j] = a + jerk * h;
  }
  std::size_t hint = 0;
  for (double t = 0.0; t <= 0.05; t += 0.001) {
    const Sample s = sample_at(knots, t, hint);
    for (int j = 0; j < kDof; ++j) {
      EXPECT_NEAR(s.state.q[j], 0.3 * j + 0.2 * t - t * t / 2 + (7.0 + j) * t * t * t / 6, 1e-13);
      EXPECT_NEAR(s.state.qdd[j], -1.0 + (7.0 + j) * t, 1e-9);
    }
  }
}

TEST(Answering, EveryChunkGetsATrajectoryWithTheNextId) {
  Answerer answerer(Params::parse(test::kParams, "test"));
  const auto raw = test::line(answerer.planner().arm(), test::home(), {0.1, -0.2, -0.1}, 0.2);
  EXPECT_EQ(answerer.answer(*raw, nullptr, monotonic_ns()).status,
            static_cast<std::uint32_t>(PlanStatus::kStartMismatch));
  ArmStatus arm;
  std::memset(static_cast<void*>(&arm), 0, sizeof arm);
  arm.stamp_ns = monotonic_ns();
  arm.at_rest = 1;
  for (int j = 0; j < kDof; ++j) arm.target_q_rad[j] = test::home()[j];
  const Trajectory& out = answerer.answer(*raw, &arm, monotonic_ns());
  EXPECT_EQ(out.status, static_cast<std::uint32_t>(PlanStatus::kOk)) << out.reason;
  EXPECT_EQ(out.id, 2U);
}

TEST(Parameters, WhatIsWrongIsNamed) {
  EXPECT_THROW(Params::parse("a = 1 b\n", "f"), ParamsError);
  EXPECT_THROW(Params::parse("a = \n", "f"), ParamsError);
  EXPECT_THROW(Params::parse("a = 1\na = 2\n", "f"), ParamsError);
  EXPECT_THROW(Params::parse("a = nan\n", "f"), ParamsError);
  const Params good = Params::parse("# note\na = 1 2.5 -3e-2\n", "f");
  EXPECT_EQ(good.numbers("a", 3)[2], -0.03);
  EXPECT_THROW(static_cast<void>(good.numbers("a", 2)), ParamsError);
  EXPECT_THROW(static_cast<void>(good.number("b")), ParamsError);
}

}  // namespace
}  // namespace wardarm

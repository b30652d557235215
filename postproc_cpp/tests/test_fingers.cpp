// Where the arm stands for its fingers, what they are told, and what the independent check says to both.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "bench_arm.hpp"
#include "wardarm/envelope.hpp"

namespace wardarm {
namespace {

class Fingers : public ::testing::Test {
 protected:
  Fingers() {
    for (int i = 0; i < kPoints; ++i) {
      chunk_.position_m.row(i) = Eigen::RowVector3d(0.4, 0.0, 0.2);
      chunk_.orientation[static_cast<std::size_t>(i)] = Eigen::Quaterniond::Identity();
    }
    chunk_.grip.fill(1.0);
  }
  // From `first` on the arm goes on by `step_m` a point.
  void goes_on(int first, double step_m) {
    for (int i = first + 1; i < kPoints; ++i) chunk_.position_m(i, 0) = 0.4 + step_m * (i - first);
  }
  void opens(int first, double step) {
    for (int i = first + 1; i < kPoints; ++i) {
      double& grip = chunk_.grip[static_cast<std::size_t>(i)];
      grip = std::clamp(chunk_.grip[static_cast<std::size_t>(first)] + step * (i - first), 0.0, 1.0);
    }
  }
  bool plan() { return plan_fingers(chunk_, opening_, standing_, loaded_, why_); }
  [[nodiscard]] double told(int i) const { return chunk_.grip[static_cast<std::size_t>(i)]; }

  Chunk chunk_{};
  double opening_ = -1.0;
  bool standing_ = true, loaded_ = false;
  Refusal why_;
};

TEST_F(Fingers, AClosingThatABreakLeftUnfinishedIsFinishedBeforeTheArmLeaves) {
  chunk_.grip.fill(0.0);
  opening_ = 0.0103;
  goes_on(1, 0.01);
  ASSERT_TRUE(plan());
  ASSERT_EQ(chunk_.dwell_count, 1);
  EXPECT_EQ(chunk_.dwells[0].first, 0);
  EXPECT_EQ(chunk_.dwells[0].last, 2);
  EXPECT_DOUBLE_EQ(told(0), 0.0103);
  EXPECT_DOUBLE_EQ(told(1), 0.0);
}

// A gripper that says 0.992 when it is open, before its first command.
TEST_F(Fingers, EmptyFingersThatAreNotQuiteOpenStopNoArm) {
  goes_on(0, 0.01);
  opening_ = 0.992;
  ASSERT_TRUE(plan());
  EXPECT_EQ(chunk_.dwell_count, 0);
}

TEST_F(Fingers, ALoadIsNotLetGoOfUnderWay) {
  goes_on(1, 0.01);
  loaded_ = true;
  opening_ = 0.5;
  ASSERT_TRUE(plan());
  ASSERT_EQ(chunk_.dwell_count, 1);
  EXPECT_EQ(chunk_.dwells[0].first, 0);
}

TEST_F(Fingers, NoiseMovesNoFingerAndStopsNoArm) {
  goes_on(0, 0.01);
  for (int i = 0; i < kPoints; ++i) chunk_.grip[static_cast<std::size_t>(i)] = 1.0 - 0.06 * (i % 5 == 3);
  standing_ = false;
  opening_ = 0.97;
  ASSERT_TRUE(plan());
  EXPECT_EQ(chunk_.dwell_count, 0);
  for (int i = 0; i < kPoints; ++i) EXPECT_DOUBLE_EQ(told(i), 0.97) << i;
}

TEST_F(Fingers, AClosingFasterThanFingersIsGivenTheTimeThatTheyNeed) {
  opens(20, -1.0);
  goes_on(22, 0.01);
  ASSERT_TRUE(plan());
  ASSERT_EQ(chunk_.dwell_count, 1);
  const auto [first, last] = chunk_.dwells[0];
  EXPECT_EQ(first, 20);
  EXPECT_EQ(last, 31);  // 0.11 a point, and one more
  for (int i = first + 1; i < kPoints; ++i) EXPECT_LE(told(i - 1) - told(i), 0.11 + 1e-12) << i;
  EXPECT_DOUBLE_EQ(told(last), 0.0);
  for (int i = first; i <= last; ++i) EXPECT_LT(chunk_.position_m(i, 0), 0.412) << i;
  EXPECT_NEAR(chunk_.position_m(kPoints - 1, 0), 0.4 + 0.01 * (kPoints - 1 - 22 - 9), 0.011);  // goes on afterwards
}

TEST_F(Fingers, AClosingFasterThanFingersTakesTheStandThatTheChunkHas) {
  opens(20, -1.0);
  goes_on(40, 0.01);
  const auto before = chunk_.position_m;
  ASSERT_TRUE(plan());
  ASSERT_EQ(chunk_.dwell_count, 1);
  EXPECT_EQ(chunk_.dwells[0].last, 31);
  EXPECT_EQ((chunk_.position_m - before).norm(), 0.0);
}

TEST_F(Fingers, AnArmThatMovesHasOnePointToStopIn) {
  opens(0, -0.1);
  standing_ = false;
  ASSERT_TRUE(plan());
  ASSERT_EQ(chunk_.dwell_count, 1);
  EXPECT_EQ(chunk_.dwells[0].first, 1);
  EXPECT_EQ(chunk_.dwells[0].last, 12);
  EXPECT_DOUBLE_EQ(told(1), 1.0);
  EXPECT_DOUBLE_EQ(told(11), 0.0);
}

TEST_F(Fingers, ASlowClosingUnderWayIsAClosing) {
  opens(0, -1.0 / 63.0);  // 0.016 a point
  goes_on(0, 0.01);
  EXPECT_FALSE(plan());
  EXPECT_EQ(std::string(why_.reason).rfind("point 1: the fingers close while the arm moves on by", 0), 0U)
      << why_.reason;
}

// The closing of a model that is noisy: half a second, in which it creeps by 16 mm.
TEST_F(Fingers, AClosingThatCreepsIsGatheredToOnePlace) {
  opens(20, -0.1);
  goes_on(20, 0.0016);
  standing_ = false;
  ASSERT_TRUE(plan()) << why_.reason;
  EXPECT_TRUE(chunk_.gathered);
  ASSERT_EQ(chunk_.dwell_count, 1);
  EXPECT_EQ(chunk_.dwells[0].first, 20);
  EXPECT_EQ(chunk_.dwells[0].last, 31);
  EXPECT_DOUBLE_EQ(told(20), 1.0);
  EXPECT_DOUBLE_EQ(told(30), 0.0);
}

TEST_F(Fingers, AClosingInPlaceIsNotCalledGathered) {
  opens(20, -0.1);
  goes_on(20, 0.0011);
  ASSERT_TRUE(plan());
  EXPECT_EQ(chunk_.dwell_count, 1);
  EXPECT_FALSE(chunk_.gathered);
}

TEST_F(Fingers, ALettingGoThatCreepsIsGatheredOnlyWithALoad) {
  chunk_.grip.fill(0.0);
  opens(20, 0.1);
  goes_on(20, 0.0016);
  standing_ = false;
  ASSERT_TRUE(plan());
  EXPECT_EQ(chunk_.dwell_count, 0);
  EXPECT_FALSE(chunk_.gathered);
  chunk_.grip.fill(0.0);
  opens(20, 0.1);
  loaded_ = true;
  ASSERT_TRUE(plan()) << why_.reason;
  EXPECT_TRUE(chunk_.gathered);
}

// As far as that but not slowly, or farther: the chunk means to be on its way.
TEST_F(Fingers, AClosingWhileTheArmIsOnItsWayIsRefused) {
  for (const auto& [step, way_m] : {std::pair{-0.1, 0.0021}, {-0.25, 0.0035}, {-1.0, 0.013}}) {
    chunk_.grip.fill(1.0);
    opens(20, step);
    goes_on(20, way_m);
    standing_ = false;
    EXPECT_FALSE(plan()) << step;
    EXPECT_NE(std::string(why_.reason).find("the fingers close while the arm moves on by"), std::string::npos)
        << why_.reason;
  }
}

TEST_F(Fingers, ASmallChangeThatTheChunkStandsForIsMade) {
  for (int i = 30; i < kPoints; ++i) chunk_.grip[static_cast<std::size_t>(i)] = 0.9;
  ASSERT_TRUE(plan());
  ASSERT_EQ(chunk_.dwell_count, 1);
  EXPECT_DOUBLE_EQ(told(kPoints - 1), 0.9);
}

TEST_F(Fingers, EmptyOnesMayOpenUnderWayAndLoadedOnesNot) {
  chunk_.grip.fill(0.0);
  opens(20, 0.1);
  goes_on(0, 0.01);
  Chunk same = chunk_;
  ASSERT_TRUE(plan());
  EXPECT_EQ(chunk_.dwell_count, 0);
  EXPECT_DOUBLE_EQ(told(25), 0.5);
  EXPECT_DOUBLE_EQ(told(kPoints - 1), 1.0);
  loaded_ = true;
  EXPECT_FALSE(plan_fingers(same, opening_, standing_, loaded_, why_));
}

TEST_F(Fingers, ANinthMovementIsRefused) {
  for (int i = 0; i < kPoints; ++i) chunk_.grip[static_cast<std::size_t>(i)] = i / 3 % 2 == 0 ? 1.0 : 0.8;
  loaded_ = true;
  EXPECT_FALSE(plan());
  EXPECT_NE(std::string(why_.reason).find("the fingers move more than 8 times"), std::string::npos) << why_.reason;
}

// --- the independent check

class FingersCheck : public ::testing::Test {
 protected:
  FingersCheck() : path_("/tmp/wardarm_fingers_test_" + std::to_string(::getpid())) {
    std::ofstream(path_) << test::kParams;
  }
  ~FingersCheck() override { std::remove(path_.c_str()); }
  // Joint 1 turns at an even speed that moves the TCP, 0.3 m from the axis, by `speed_m_s`; it starts and ends at rest.
  static std::vector<Knot> turns(double speed_m_s) {
    std::vector<Knot> knots;
    const double most = speed_m_s / 0.3;
    for (int k = 0; k <= 40; ++k) {
      Knot knot{};
      knot.t_s = k * 0.05;
      for (int j = 0; j < kDof; ++j) knot.q_rad[j] = test::home()[j];
      // 0.5 s of speeding up as a smooth step, 1 s even, 0.5 s of slowing down
      const auto after = [&](double t) {
        const double u = std::clamp(t / 0.5, 0.0, 1.0);
        return std::array{most * (0.5 * (u * u * u - 0.5 * u * u * u * u) + std::max(0.0, t - 0.5)),
                          most * u * u * (3 - 2 * u), most * 6 * u * (1 - u) / 0.5};
      };
      const auto up = after(knot.t_s);
      const auto down = after(std::max(0.0, knot.t_s - 1.5));
      knot.q_rad[0] += up[0] - down[0];
      knot.qd_rad_s[0] = up[1] - down[1];
      knot.qdd_rad_s2[0] = up[2] - down[2];
      knot.grip = 1.0;
      knots.push_back(knot);
    }
    return knots;
  }
  static void told_from(std::vector<Knot>& knots, std::size_t knot, double grip) {
    for (std::size_t k = knot; k < knots.size(); ++k) knots[k].grip = grip;
  }
  EnvelopeVerdict check(const std::vector<Knot>& knots, bool loaded = false) {
    return Envelope(path_).check(knots, 0.34, 0, {}, loaded);
  }
  std::string path_;
};

// From the cycle before the change to 50 ms after it the TCP passes 52 ms of its speed: at 19.0 mm/s 0.99 mm.
TEST_F(FingersCheck, AMillimetreAroundAClosingIsTheMost) {
  for (const auto& [speed_m_s, ok] : {std::pair{0.0190, true}, {0.0197, false}}) {
    auto knots = turns(speed_m_s);
    told_from(knots, 20, 0.9);
    const EnvelopeVerdict verdict = check(knots);
    EXPECT_EQ(verdict.ok, ok) << speed_m_s << verdict.reason;
    if (!ok) {
      EXPECT_EQ(verdict.reason, "TCP moves by 1.02 mm while the fingers do at 1.05 s, limit 1 mm");
    }
  }
}

TEST_F(FingersCheck, OneAfterTheOtherIsOneStand) {
  auto knots = turns(0.0150);
  told_from(knots, 20, 0.9);
  EXPECT_TRUE(check(knots).ok);
  told_from(knots, 23, 0.8);  // 0.15 s later: a stand of its own
  EXPECT_TRUE(check(knots).ok);
  told_from(knots, 21, 0.8);  // within what the fingers need
  EXPECT_FALSE(check(knots).ok);
}

TEST_F(FingersCheck, WhatIsLessThanAThousandthMovesNoFinger) {
  auto knots = turns(0.1);
  told_from(knots, 20, 1.0 - 0.9e-3);
  EXPECT_TRUE(check(knots).ok);
  told_from(knots, 20, 1.0 - 1.1e-3);
  EXPECT_FALSE(check(knots).ok);
}

TEST_F(FingersCheck, EmptyOnesMayOpenUnderWay) {
  auto knots = turns(0.1);
  for (Knot& knot : knots) knot.grip = 0.0;
  told_from(knots, 20, 1.0);
  EXPECT_TRUE(check(knots).ok);
  EXPECT_FALSE(check(knots, true).ok);
}

TEST_F(FingersCheck, AChangeAtEitherEndIsInsideTheMotion) {
  auto knots = turns(0.1);
  told_from(knots, 1, 0.5);  // it has hardly begun to move
  EXPECT_TRUE(check(knots).ok);
  knots = turns(0.1);
  told_from(knots, 40, 0.5);  // it stands
  EXPECT_TRUE(check(knots).ok);
}

}  // namespace
}  // namespace wardarm

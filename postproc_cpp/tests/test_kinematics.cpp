#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <random>
#include <span>

#include "bench_arm.hpp"
#include "wardarm/collision.hpp"
#include "wardarm/lanes.hpp"
#include "wardarm/ur5e.hpp"

namespace wardarm {
namespace {

TEST(Lanes, SineAndCosineMatchTheLibrary) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> angle(-20, 20);
  for (int i = 0; i < 10000; ++i) {
    const Lane x = lanes(angle(random), angle(random));
    Lane s;
    Lane c;
    sine_cosine(x, s, c);
    for (int lane = 0; lane < kLanes; ++lane) {
      EXPECT_NEAR(s[lane], std::sin(x[lane]), 1e-15);
      EXPECT_NEAR(c[lane], std::cos(x[lane]), 1e-15);
    }
  }
}

class Kinematics : public ::testing::Test {
 protected:
  Kinematics() : arm_(Params::parse(test::kParams, "test")) {}
  Ur5e arm_;
};

TEST_F(Kinematics, DerivativesMatchFiniteDifferences) {
  const Joints q0 = test::home();
  Joints qd;
  Joints qdd;
  Joints qddd;
  qd << 0.3, -0.2, 0.4, 0.1, -0.5, 0.6;
  qdd << -1, 0.5, 0.7, -0.4, 0.9, 0.2;
  qddd << 3, -2, 1, 4, -5, 2;
  const auto at = [&](double t) -> Joints { return q0 + qd * t + qdd * (t * t / 2) + qddd * (t * t * t / 6); };
  TcpMotion<double> motion{};
  arm_.motion(q0.data(), qd.data(), qdd.data(), qddd.data(), motion);
  constexpr double h = 1e-3;
  const auto p = [&](double t) { return arm_.tcp(at(t)).position; };
  const Eigen::Vector3d v = (p(h) - p(-h)) / (2 * h);
  const Eigen::Vector3d a = (p(h) - 2 * p(0) + p(-h)) / (h * h);
  const Eigen::Vector3d j = (p(2 * h) - 2 * p(h) + 2 * p(-h) - p(-2 * h)) / (2 * h * h * h);
  EXPECT_LT((Eigen::Vector3d(motion.v.x, motion.v.y, motion.v.z) - v).norm(), 1e-5);
  EXPECT_LT((Eigen::Vector3d(motion.a.x, motion.a.y, motion.a.z) - a).norm(), 1e-4);
  EXPECT_LT((Eigen::Vector3d(motion.j.x, motion.j.y, motion.j.z) - j).norm(), 1e-3);
  // The angular part against its own derivative along the motion.
  const auto w = [&](double t) {
    const Joints qt = at(t);
    const Joints qdt = qd + qdd * t + qddd * (t * t / 2);
    return Eigen::Vector3d((arm_.jacobian(qt) * qdt).tail<3>());
  };
  EXPECT_LT((Eigen::Vector3d(motion.w.x, motion.w.y, motion.w.z) - w(0)).norm(), 1e-12);
  const Eigen::Vector3d wa = (w(h) - w(-h)) / (2 * h);
  const Eigen::Vector3d wj = (w(h) - 2 * w(0) + w(-h)) / (h * h);
  EXPECT_LT((Eigen::Vector3d(motion.wa.x, motion.wa.y, motion.wa.z) - wa).norm(), 1e-5);
  EXPECT_LT((Eigen::Vector3d(motion.wj.x, motion.wj.y, motion.wj.z) - wj).norm(), 1e-4);
}

TEST_F(Kinematics, InverseStaysOnItsBranch) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> angle(-3.1, 3.1);
  int solved = 0;
  for (int i = 0; i < 2000; ++i) {
    Joints q;
    for (int j = 0; j < kDof; ++j) q[j] = angle(random);
    const auto singular = arm_.singularity(trig_of(q));
    if (singular.elbow < 0.1 || singular.wrist < 0.1 || singular.shoulder_m < 0.06) continue;
    Joints found;
    ASSERT_EQ(arm_.inverse(arm_.tcp(q), arm_.branch(q), q, found), Reach::kOk);
    EXPECT_LT((found - q).cwiseAbs().maxCoeff(), 1e-6);
    ++solved;
  }
  EXPECT_GT(solved, 1000);
}

TEST_F(Kinematics, TooFarHasNoSolution) {
  Pose pose = arm_.tcp(test::home());
  pose.position.x() = 1.5;
  Joints q;
  EXPECT_EQ(arm_.inverse(pose, arm_.branch(test::home()), test::home(), q), Reach::kElbow);
}

// Many at once say no more than one by one: clear only if each is, and nearly always if each is.
TEST_F(Kinematics, ManyConfigurationsAreClearIfEachIs) {
  for (const char* patient : {"", "patient_low = -0.6 0.3 -0.4\npatient_high = 1.3 1.6 0.7\n"}) {
    const Workspace space(Params::parse(test::kParams + patient, "test"));
    std::mt19937 random(4);
    std::uniform_real_distribution<double> angle(-3.1, 3.1);
    std::array<int, 2> clear{};
    for (int i = 0; i < 20000; ++i) {
      std::array<Joints, kLanes + 1> q;
      q.fill(test::home());
      Joints& one = q[static_cast<std::size_t>(i) % q.size()];
      for (int j = 0; j < kDof; ++j) one[j] = i % 50 == 0 ? 3.0 * angle(random) : angle(random);
      Refusal why;
      const bool each = configuration_is_clear(arm_, space, one, "point", i, why);
      const bool all = all_clear(arm_, space, q);
      ASSERT_LE(all, each) << one.transpose() << ": " << why.reason;
      clear[0] += each;
      clear[1] += all;
    }
    EXPECT_GT(clear[0], 1000);
    EXPECT_GT(clear[1], clear[0] * (*patient == 0 ? 0.999 : 0.8));
  }
}

TEST_F(Kinematics, AnAngleThatIsNoNumberIsNotClear) {
  const Workspace space(Params::parse(test::kParams, "test"));
  for (int j = 0; j < kDof; ++j) {
    Joints q = test::home();
    q[j] = std::numeric_limits<double>::quiet_NaN();
    EXPECT_FALSE(all_clear(arm_, space, std::span(&q, 1))) << j;
  }
}

}  // namespace
}  // namespace wardarm

#include <gtest/gtest.h>

#include <cmath>

#include "bench_arm.hpp"
#include "wardarm/chunk.hpp"
#include "wardarm/half.hpp"
#include "wardarm/process_groot_output.h"

namespace wardarm {
namespace {

TEST(Half, KnownBitPatterns) {
  EXPECT_EQ(half_to_double(0x3C00), 1.0);
  EXPECT_EQ(half_to_double(0xBC00), -1.0);
  EXPECT_EQ(half_to_double(0x3555), 0.333251953125);
  EXPECT_EQ(half_to_double(0x0001), std::ldexp(1.0, -24));
  EXPECT_EQ(half_to_double(0x03FF), std::ldexp(1023.0, -24));
  EXPECT_EQ(half_to_double(0x0400), std::ldexp(1.0, -14));
  EXPECT_EQ(half_to_double(0x7BFF), 65504.0);
  EXPECT_TRUE(std::signbit(half_to_double(0x8000)));
}

TEST(Half, FiniteIsReadFromTheBits) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    EXPECT_EQ(half_is_finite(half), std::isfinite(half_to_double(half)));
  }
}

TEST(Chunk, CornersOfTheModelsBox) {
  const float low[kDof] = {-1, -1, -1, -1, -1, -1};
  const float high[kDof] = {1, 1, 1, 1, 1, 1};
  const TrajectoryPoint a = denormalise(low);
  const TrajectoryPoint b = denormalise(high);
  EXPECT_FLOAT_EQ(a.x_mm, 0);
  EXPECT_FLOAT_EQ(a.y_mm, -600);
  EXPECT_FLOAT_EQ(a.z_mm, -50);
  EXPECT_FLOAT_EQ(a.yaw_deg, -180);
  EXPECT_FLOAT_EQ(b.x_mm, 1000);
  EXPECT_FLOAT_EQ(b.y_mm, 600);
  EXPECT_FLOAT_EQ(b.z_mm, 750);
  EXPECT_FLOAT_EQ(b.roll_deg, 180);
}

TEST(Chunk, OrientationGoesBothWays) {
  const TrajectoryPoint point{400, 100, 200, 12, -25, 140};
  const TrajectoryPoint back = point_of({0.4, 0.1, 0.2}, orientation_of(point));
  EXPECT_NEAR(back.roll_deg, point.roll_deg, 1e-4);
  EXPECT_NEAR(back.pitch_deg, point.pitch_deg, 1e-4);
  EXPECT_NEAR(back.yaw_deg, point.yaw_deg, 1e-4);
}

TEST(Chunk, ToolDownIsWhatTheFramesSay) {
  const Eigen::Matrix3d r = orientation_of({0, 0, 0, 0, 0, 0}).toRotationMatrix();
  Eigen::Matrix3d wanted;
  wanted << 0, 1, 0, 1, 0, 0, 0, 0, -1;
  EXPECT_LT((r - wanted).cwiseAbs().maxCoeff(), 1e-12);
}

class Dwells : public ::testing::Test {
 protected:
  Dwells() : arm_(Params::parse(test::kParams, "test")) {}
  // Reads a chunk that moves by `offset` and closes from point 20 to 30.
  int count(double distance_m, double from = 1.0, double to = 0.0) {
    const auto raw = test::line(arm_, test::home(), Eigen::Vector3d(distance_m, 0, 0), 0.05);
    for (int i = 0; i < kPoints; ++i)
      raw->grip[i] = test::half_of(from + (to - from) * std::clamp((i - 20) * 0.1, 0.0, 1.0));
    TrajectoryPoint points[kPoints];
    if (!read_chunk(raw->traj, raw->grip, chunk_, points, why_)) return -2;
    return plan_fingers(chunk_, opening_, true, loaded_, why_) ? chunk_.dwell_count : -1;
  }
  Ur5e arm_;
  Chunk chunk_{};
  Refusal why_;
  bool loaded_ = false;
  double opening_ = -1.0;
};

TEST_F(Dwells, ClosingInPlaceIsADwellOfItsPointsAndOneMore) {
  ASSERT_EQ(count(0.02), 1);  // arrived after 0.4 s, closes from 1.0 s on
  EXPECT_EQ(chunk_.dwells[0].first, 20);
  EXPECT_EQ(chunk_.dwells[0].last, 31);
}

TEST_F(Dwells, OpeningWhileTravellingIsNone) { EXPECT_EQ(count(0.2, 0.0, 1.0), 0); }

TEST_F(Dwells, ClosingWhileTravellingIsRefusedWithPointAndDistance) {
  EXPECT_EQ(count(0.2), -1);
  EXPECT_EQ(why_.status, PlanStatus::kNoLaw);
  EXPECT_STREQ(why_.reason, "point 21: the fingers close while the arm moves on by 25 mm, limit 12 mm");
}

TEST_F(Dwells, LettingGoOfALoadWhileTravellingIsRefused) {
  loaded_ = true;
  EXPECT_EQ(count(0.2, 0.0, 1.0), -1);
  EXPECT_STREQ(why_.reason, "point 21: the fingers let go of the load while the arm moves on by 25 mm, limit 12 mm");
}

TEST(ProcessGrootOutput, NamesTheFirstBadPointAndWritesNothing) {
  float raw[kPoints * kDof] = {};
  TrajectoryPoint points[kPoints];
  points[0].x_mm = -1;
  EXPECT_EQ(process_groot_output(nullptr, points), -1);
  raw[9 * kDof + 2] = 1.5F;
  EXPECT_EQ(process_groot_output(raw, points), 10);
  EXPECT_EQ(points[0].x_mm, -1);
  raw[9 * kDof + 2] = NAN;
  EXPECT_EQ(process_groot_output(raw, points), 10);
  raw[9 * kDof + 2] = 0.5F;
  EXPECT_EQ(process_groot_output(raw, points), 0);
  EXPECT_FLOAT_EQ(points[9].z_mm, 550);
}

}  // namespace
}  // namespace wardarm

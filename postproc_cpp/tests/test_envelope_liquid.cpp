// The check's rules for liquids (tilt, horizontal acceleration) and for the patient's place: which row has them, where
// exactly each begins, and what a parameter file may say.
#include <stdexcept>

#include "envelope_bench.hpp"

namespace wardarm {
namespace {

constexpr double kRoom_deg = 0.6, kGone_deg = 1.8;  // beyond a start at the limit; so far beyond the limit none is left
constexpr double kRounding_deg = 0.01;
const Joints6 kTurned{0.01, -0.02, 0.1558, 0.3, -0.2, 0.1};
const Joints6 kStraight{0.01, -0.02, 0.1558, 0, 0, 0};
const Joints6 kAcross{0.01, -0.02, 0.1558, 1.0088, 2.0323, 0};  // 130 degrees from down, about the fourth joint

double tilt_deg(const Joints6& q, const Joints6& tcp) { return std::acos(-frames(q, tcp)[6][2][2]) / kDeg; }

// A step of the fourth joint from kHome after which the tool leans by so many degrees.
double step_to(double goal_deg, const Joints6& tcp, double far) {
  double near = 0.0;
  const auto lean = [&](double step) {
    Joints6 q = kHome;
    q[3] += step;
    return tilt_deg(q, tcp) - goal_deg;
  };
  const bool rises = lean(far) > 0;
  for (int i = 0; i < 100; ++i) {
    const double middle = (near + far) / 2;
    (rises == (lean(middle) > 0) ? far : near) = middle;
  }
  return (near + far) / 2;
}

// Which way the fourth joint turns for the tool to lean more.
double more(const Joints6& tcp) {
  Joints6 q = kHome;
  q[3] += 0.01;
  return tilt_deg(q, tcp) > tilt_deg(kHome, tcp) ? 1.2 : -1.2;
}

class EnvelopeLiquid : public EnvelopeBench {
 protected:
  static std::string rows(double tilt_deg, double lateral_m_s2 = 1e9, const char* name = "p0") {
    std::ostringstream out;
    out.precision(17);
    out << "liquid." << name << " = " << tilt_deg << " " << lateral_m_s2 << "\n";
    return out.str();
  }
  EnvelopeVerdict leaning(double limit_deg, double end_deg, const Joints6& tcp) {
    Params p;
    p.tcp = tcp;
    p.more = rows(limit_deg);
    Joints6 step{};
    step[3] = step_to(end_deg, tcp, more(tcp));
    return make(p).check(knots_of(kHome, step, kDuration_s), 0.32, 0, {});
  }
  void throws(const Params& p, const std::string& words) {
    try {
      (void)make(p);
      ADD_FAILURE() << words << p.more;
    } catch (const std::runtime_error& e) {
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
  }
};

TEST_F(EnvelopeLiquid, AToolMayLeanToItsLimitAndNoFurther) {
  for (const Joints6& tcp : {kTcp, kTurned, kStraight}) {
    const double begin = tilt_deg(kHome, tcp), limit = begin + 5.0;
    EXPECT_TRUE(leaning(limit, limit - 1e-6, tcp).ok) << leaning(limit, limit - 1e-6, tcp).reason;
    EXPECT_TRUE(leaning(limit, limit - 3.0, tcp).ok);
    const EnvelopeVerdict over = leaning(limit, limit + 1e-6, tcp);
    EXPECT_FALSE(over.ok);
    char words[96];
    std::snprintf(words, sizeof words, "tilted by %.1f deg at %.2f s, limit %.1f deg with liquid", limit, kDuration_s,
                  limit);
    EXPECT_EQ(over.reason, words);
  }
}

TEST_F(EnvelopeLiquid, WhatLeansAlreadyMayLeanAsFarAsItDoes) {
  for (const Joints6& tcp : {kTcp, kTurned, kAcross}) {
    const double begin = tilt_deg(kHome, tcp);
    ASSERT_GT(begin, 5.0);
    for (const double beyond : {0.0, 0.9, 1.7, 1.9, begin - 1.0}) {  // of the start, over the limit
      if (begin - beyond > 90.0) continue;                           // no limit of a profile
      const double most = begin + std::max(kRoom_deg * (1.0 - beyond / kGone_deg), kRounding_deg);
      const EnvelopeVerdict within = leaning(begin - beyond, most - 1e-6, tcp);
      EXPECT_TRUE(within.ok) << beyond << within.reason;
      const EnvelopeVerdict over = leaning(begin - beyond, most + 1e-6, tcp);
      char words[64];
      std::snprintf(words, sizeof words, "limit %.1f deg with liquid", most);
      EXPECT_NE(over.reason.find(words), std::string::npos) << beyond << over.reason;
    }
  }
}

TEST_F(EnvelopeLiquid, ATiltBeyondATurnOfAThirdIsNoLessThanItIs) {
  ASSERT_GT(tilt_deg(kHome, kAcross), 120.0);
  EXPECT_FALSE(leaning(10.0, tilt_deg(kHome, kAcross) + 10.0, kAcross).ok);
}

// Rounding takes the axis of a tool that points straight down or up beyond 1 in some postures: no arc cosine there.
TEST_F(EnvelopeLiquid, ATiltIsANumberAlsoStraightUpAndStraightDown) {
  Params p;
  p.more = rows(90.0);
  for (const double turn : {0.0, 180.0 * kDeg}) {
    p.tcp = {0.0, 0.0, 0.1, turn, 0, 0};
    const Envelope envelope = make(p);
    for (int i = 0; i < 1500; ++i) {
      Joints6 q = kHome;
      q[0] += 0.0013 * i, q[1] += 0.0001 * i, q[2] -= 0.00017 * i, q[5] += 0.0037 * i;
      q[3] = -270.0 * kDeg - q[1] - q[2], q[4] = 90.0 * kDeg;
      const EnvelopeVerdict verdict = envelope.check(knots_of(q, {}, 0.006, 0.006), 0.32, 0, {});
      EXPECT_EQ(verdict.reason.find("tilted"), std::string::npos) << verdict.reason;
    }
  }
}

TEST_F(EnvelopeLiquid, WhatLeansAtTheStartIsMeasuredAtTheFirstCycle) {
  // It begins under way: a cycle later it leans by more.
  const double begin = tilt_deg(kHome, kTcp), end = begin + kRoom_deg + 0.01, way = more(kTcp) > 0 ? 1.0 : -1.0;
  const double step = step_to(end, kTcp, more(kTcp)), speed = way * 0.4, duration_s = 0.05;
  std::vector<Knot> knots = knots_of(kHome, {}, duration_s);
  knots.front().qd_rad_s[3] = speed;
  knots.back().q_rad[3] += step;
  Joints6 next = kHome;
  next[3] += speed * 0.002;
  ASSERT_GT(tilt_deg(next, kTcp) - begin, 0.02);
  Params p;
  p.rows[0].joint_deg = {360, 1e12, 1e15};
  p.rows[0].tcp = {3, 1e12, 1e15}, p.rows[0].angular_deg = {1e12, 1e12, 1e15};
  EXPECT_TRUE(make(p).check(knots, 0.32, 0, {}).ok) << make(p).check(knots, 0.32, 0, {}).reason;
  p.more = rows(1.0);
  EXPECT_EQ(make(p).check(knots, 0.32, 0, {}).reason.rfind("tilted by ", 0), 0U);
}

TEST_F(EnvelopeLiquid, WhatLeansOverUnderWayMayStopIt) {
  // From far beyond the limit, leaning more at a rate: rate^2 / (2 x 36 deg/s2) is left to it, and at most the room.
  Params p;
  p.rows[0].joint_deg = {360, 1e12, 1e15};
  p.rows[0].tcp = {3, 1e12, 1e15}, p.rows[0].angular_deg = {1e12, 1e12, 1e15};
  p.more = rows(1.0);
  const double begin = tilt_deg(kHome, kTcp), way = more(kTcp) > 0 ? 1.0 : -1.0;
  for (const double joint_deg_s : {4.0, 6.0, 20.0}) {
    Joints6 next = kHome;
    next[3] += way * joint_deg_s * kDeg * 0.002;
    const double rate_deg_s = (tilt_deg(next, kTcp) - begin) / 0.002;
    const double most_deg = std::min(rate_deg_s * rate_deg_s / 72.0, kRoom_deg);
    for (const double off_deg : {-0.04, 0.04}) {  // the mean over the first cycle is a little less
      const double lean_deg = most_deg + off_deg;
      std::vector<Knot> knots = knots_of(kHome, {}, 1.2 * lean_deg / rate_deg_s);
      knots.front().qd_rad_s[3] = way * joint_deg_s * kDeg;
      knots.back().q_rad[3] += step_to(begin + lean_deg, kTcp, more(kTcp));
      const EnvelopeVerdict verdict = make(p).check(knots, 0.32, 0, {});
      EXPECT_EQ(verdict.reason.rfind("tilted by ", 0) == 0, off_deg > 0) << joint_deg_s << verdict.reason;
      EXPECT_EQ(verdict.ok, off_deg < 0) << joint_deg_s << verdict.reason;
    }
  }
}

TEST_F(EnvelopeLiquid, OnlyTheRowThatIsNamedHasTheLimits) {
  Params p;
  p.rows = {Row{}, Row{}, Row{}};
  p.tcp = kStraight;
  const double begin = tilt_deg(kHome, kStraight);
  Joints6 step{};
  step[3] = step_to(begin + 8.0, kStraight, more(kStraight));
  const auto knots = knots_of(kHome, step, kDuration_s);
  for (int named = 0; named < 3; ++named) {
    const std::string name = "p" + std::to_string(named);
    p.more = rows(begin + 5.0, 1e9, name.c_str());
    const Envelope envelope = make(p);
    EXPECT_EQ(envelope.profile_count(), 3U);
    for (int row = 0; row < 3; ++row) EXPECT_EQ(envelope.check(knots, 0.32, row, {}).ok, row != named) << row << named;
    p.more = rows(90.0, 1e-3, name.c_str());
    const Envelope calm = make(p);
    for (int row = 0; row < 3; ++row) {
      const EnvelopeVerdict verdict = calm.check(knots, 0.32, row, {});
      EXPECT_EQ(verdict.ok, row != named) << row << named;
      EXPECT_EQ(verdict.which == "TCP horizontal acceleration", row == named);
    }
  }
}

TEST_F(EnvelopeLiquid, ALiquidNamesAProfileWithLimitsThatItCanHave) {
  Params p;
  for (const char* good :
       {"liquid.p0 = 0.5 0.5\n", "liquid.p0 = 60 2\n", "liquid.p0 = 90 1e-9\n", "liquid.p0 = 1e-9 1e9\n"}) {
    p.more = good;
    EXPECT_EQ(make(p).profile_count(), 1U);
  }
  const std::string wrong = "names no profile, or has a limit of zero or beyond 90 degrees";
  for (const char* bad : {"liquid.p0 = 0 1\n", "liquid.p0 = -0.5 1\n", "liquid.p0 = 90.001 1\n", "liquid.p0 = 10 0\n",
                          "liquid.p0 = 10 -0.5\n", "liquid.p0 = 120 100\n", "liquid.p1 = 10 1.5\n",
                          "liquid. = 10 1.5\n", "liquid.profile.p0 = 10 1.5\n", "liquid.0 = 10 1.5\n"}) {
    p.more = bad;
    throws(p, wrong);
  }
  for (const char* bad : {"liquid.p0 = 10\n", "liquid.p0 = 10 1.5 3\n"}) {
    p.more = bad;
    throws(p, "liquid.p0 needs 2 numbers");
  }
  for (const char* none : {"a_liquid.p0 = 1 2 3\n", "xliquid.p0 = 1 2 3\n", "liquid_p0 = 1\n"}) {
    p.more = none;
    EXPECT_EQ(make(p).profile_count(), 1U);
  }
  Params empty;
  empty.rows.clear();
  empty.more = "liquid.p0 = 10 1.5\n";
  throws(empty, wrong);
}

TEST_F(EnvelopeLiquid, ANameMayHoldTheWordsOfAKey) {
  for (const char* name : {"profile.b", "a.liquid.b", "liquid.liquid.", "profile."}) {
    Params p;
    p.more = std::string("profile.") + name + " = " + row_of(Row{}) + "\n" + rows(1.0, 1.0, name);
    const Envelope envelope = make(p);
    EXPECT_EQ(envelope.profile_count(), 2U);
    EXPECT_TRUE(envelope.check(move(), 0.32, 0, {}).ok);
    EXPECT_EQ(envelope.check(move(), 0.32, 1, {}).reason.rfind("tilted by ", 0), 0U) << name;
  }
}

// --- the patient's place

// Largest and smallest of what the arm's rods take up along one axis, as the check sees them: 17 places along each.
std::array<double, 2> taken(const Joints6& q, std::size_t axis) {
  const auto at = frames(q);
  const Three side{at[0][0][2], at[0][1][2], at[0][2][2]};
  const auto beside = [&](const Matrix& m) {
    Three p = position(m);
    for (std::size_t c = 0; c < 3; ++c) p[c] += 0.138 * side[c];
    return p;
  };
  struct Rod {
    Three a, b;
    double radius;
  };
  const std::array<Rod, 4> rods{{{beside(at[0]), beside(at[1]), 0.06},
                                 {position(at[1]), position(at[2]), 0.055},
                                 {position(at[3]), position(at[4]), 0.05},
                                 {position(at[5]), position(at[6]), 0.05}}};
  std::array<double, 2> out{9, -9};
  for (const Rod& rod : rods) {
    for (const Three& p : {rod.a, rod.b}) {  // of a straight rod an end is furthest
      out[0] = std::min(out[0], p[axis] - rod.radius);
      out[1] = std::max(out[1], p[axis] + rod.radius);
    }
  }
  return out;
}

TEST_F(EnvelopeLiquid, NoRodComesIntoThePatientsPlaceFromAnySide) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const auto [least, most] = taken(kHome, axis);
    for (const bool above : {false, true}) {
      for (const double by : {-1e-6, 1e-6}) {
        Three low{-5, -5, -5}, high{5, 5, 5};
        if (above) {
          low[axis] = most + by;
        } else {
          high[axis] = least - by;
        }
        Params p;
        p.more = "patient_low = " + text(low) + "\npatient_high = " + text(high) + "\n";
        const EnvelopeVerdict verdict = make(p).check(knots_of(kHome, {}, 0.2), 0.32, 0, {});
        EXPECT_EQ(verdict.ok, by > 0) << axis << above << verdict.reason;
        EXPECT_EQ(verdict.reason.find("enters the patient's place at 0.00 s") != std::string::npos, by < 0);
      }
    }
  }
  EXPECT_TRUE(make().check(knots_of(kHome, {}, 0.2), 0.32, 0, {}).ok);
}

TEST_F(EnvelopeLiquid, ThePatientsPlaceHasTwoCornersOneBelowTheOther) {
  Params p;
  p.more = "patient_low = 1 2 3\n";
  throws(p, "patient_high needs 3 numbers");
  p.more = "patient_high = 1 2 3\n";
  throws(p, "patient_low needs 3 numbers");
  p.more = "patient_low = 1 2\npatient_high = 4 5 6\n";
  throws(p, "patient_low needs 3 numbers");
  p.more = "patient_low = 1 2 3\npatient_high = 4 5\n";
  throws(p, "patient_high needs 3 numbers");
  for (std::size_t c = 0; c < 3; ++c) {
    for (const double by : {0.0, -1.0}) {
      Three high{4, 5, 6};
      high[c] = 1.0 + static_cast<double>(c) + by;
      p.more = "patient_low = 1 2 3\npatient_high = " + text(high) + "\n";
      throws(p, "patient_low is not below patient_high");
    }
  }
  p.more = "patient_low = 1 2 3\npatient_high = 1.001 2.001 3.001\n";
  EXPECT_EQ(make(p).profile_count(), 1U);
}

}  // namespace
}  // namespace wardarm

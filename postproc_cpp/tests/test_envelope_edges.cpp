// The independent check at every edge: what it refuses, where exactly, and its ratios against a third reckoning
// (homogeneous DH matrices, a closed law, finite differences 20 times finer than the check's own).
#include <limits>
#include <stdexcept>

#include "envelope_bench.hpp"

namespace wardarm {
namespace {

class EnvelopeEdges : public EnvelopeBench {};

// --- knots

TEST_F(EnvelopeEdges, TwoKnotsAtLeastAndAtMostTheTablesSize) {
  allowed(still(2));
  allowed(still(3));
  allowed(still(kMaxKnots, 0.01));
  refused(still(kMaxKnots + 1, 0.01), "161 knots, expected 2..160");
  refused({still(2)[0]}, "1 knots");
  refused({}, "0 knots");
}

TEST_F(EnvelopeEdges, EveryNumberIsFinite) {
  for (std::size_t k = 0; k < 3; ++k) {
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      const std::string words = "knot " + std::to_string(k) + " has a number that is not finite";
      const auto with = [&](const std::function<void(Knot&)>& change) {
        auto knots = still();
        change(knots[k]);
        refused(knots, words);
      };
      with([&](Knot& n) { n.t_s = bad; });
      with([&](Knot& n) { n.grip = bad; });
      for (int j = 0; j < kDof; ++j) {
        with([&](Knot& n) { n.q_rad[j] = bad; });
        with([&](Knot& n) { n.qd_rad_s[j] = bad; });
        with([&](Knot& n) { n.qdd_rad_s2[j] = bad; });
      }
    }
  }
}

TEST_F(EnvelopeEdges, AnOpeningLiesWithinZeroAndOne) {
  for (const double grip : {0.0, 1.0, 0.5}) {
    auto knots = still();
    knots[1].grip = grip;
    allowed(knots);
  }
  for (const double grip : {-1e-9, 1.0 + 1e-9, -1.0, 2.0}) {
    auto knots = still();
    knots[1].grip = grip;
    refused(knots, "knot 1: opening");
  }
}

TEST_F(EnvelopeEdges, KnotsLieBetweenHalfAMillisecondAndFiftyApartFromZeroOn) {
  for (const double gap : {0.0501, 0.0500, 0.02, 0.000501}) {
    auto knots = still(6);
    for (std::size_t k = 0; k < knots.size(); ++k)
      knots[k].t_s = k < 1 ? 0.0 : gap + 0.05 * (static_cast<double>(k) - 1);
    allowed(knots);
  }
  for (const double gap : {0.0503, 0.1, 0.0005, 0.0, -0.01}) {
    auto knots = still(6);
    for (std::size_t k = 0; k < knots.size(); ++k)
      knots[k].t_s = k < 1 ? 0.0 : gap + 0.05 * (static_cast<double>(k) - 1);
    refused(knots, "knot 1 comes");
  }
  auto late = still();
  late[2].t_s = 0.1511;
  refused(late, "knot 2 comes 0.1011 s after the one before, expected up to 0.05 s");
  for (const double begin : {1e-9, -1e-9}) {
    auto knots = still();
    knots[0].t_s = begin;
    allowed(knots);
    knots[0].t_s = 1.01 * begin;
    refused(knots, "knot 0 is at");
  }
}

TEST_F(EnvelopeEdges, ItEndsAtRest) {
  for (int j = 0; j < kDof; ++j) {
    for (const double sign : {1.0, -1.0}) {
      auto knots = still(5);
      knots.back().qd_rad_s[j] = sign * 1e-6;
      knots.back().qdd_rad_s2[j] = sign * 1e-5;
      allowed(knots);
      knots.back().qd_rad_s[j] = sign * 1.001e-6;
      refused(knots, "does not end at rest: joint " + std::to_string(j + 1));
      knots.back().qd_rad_s[j] = 0.0;
      knots.back().qdd_rad_s2[j] = sign * 1.001e-5;
      refused(knots, "does not end at rest: joint " + std::to_string(j + 1));
    }
  }
}

TEST_F(EnvelopeEdges, ItContinuesWhatWasGiven) {
  const std::array<double, 3> limit{1e-5, 1e-4, 1e-3};
  const auto knots = knots_of({}, {}, 0.2);
  for (std::size_t i = 0; i < 18; ++i) {
    for (const double sign : {1.0, -1.0}) {
      std::vector<double> start(18, 0.0);
      start[i] = sign * limit[i / 6];
      not_for("does not start", knots, start);
      start[i] *= 1.001;
      refused(knots, "does not start where the arm is: joint " + std::to_string(i % 6 + 1), 0.32, start);
    }
  }
  for (const std::size_t count : {std::size_t{1}, std::size_t{17}, std::size_t{19}}) {
    refused(knots, "start needs 18 numbers", 0.32, std::vector<double>(count, 0.0));
  }
}

TEST_F(EnvelopeEdges, FourCyclesAtLeast) {
  allowed(still(2, 0.006));  // 0, 2, 4, 6 ms
  refused(still(2, 0.0039), "shorter than four cycles");
  allowed(still(2, 0.0041));
}

// --- ramp, profile

TEST_F(EnvelopeEdges, ARampLiesWithinTheProfilesLimits) {
  for (const double ramp_s : {0.3, 0.2999995, 0.34, 0.3400005}) allowed(still(), ramp_s);
  for (const double ramp_s : {0.299998, 0.340002, 0.0, -0.3, 5.0, std::numeric_limits<double>::quiet_NaN()}) {
    refused(still(), "ramp of", ramp_s);
  }
  refused(still(), "ramp of 0.100 s, expected 0.30..0.34 s", 0.1);
}

TEST_F(EnvelopeEdges, AProfileIsOneOfThose) {
  Params p;
  p.rows = {Row{}, Row{}};
  p.rows[1].tcp[0] = 1e-6;
  const Envelope envelope = make(p);
  EXPECT_EQ(envelope.profile_count(), 2U);
  EXPECT_TRUE(envelope.check(move(), 0.32, 0, {}).ok);
  EXPECT_FALSE(envelope.check(move(), 0.32, 1, {}).ok);
  for (const int profile : {-1, 2, 3}) {
    EXPECT_EQ(envelope.check(still(), 0.32, profile, {}).reason,
              "profile " + std::to_string(profile) + " is not configured");
  }
}

// --- ratios

const char* const kNames[3][3] = {{"joint speed", "joint acceleration", "joint jerk"},
                                  {"TCP speed", "TCP acceleration", "TCP jerk"},
                                  {"TCP turning speed", "TCP turning acceleration", "TCP turning jerk"}};

TEST_F(EnvelopeEdges, EachPlanLimitIsComparedWithItsOwnQuantity) {
  // At the ends the law's jerk steps from nothing: what lies a cycle inside is what can be compared.
  const Largest truth = largest(law, 0.004, kDuration_s - 0.004, 0.002);
  const std::array<Three, 3> values{truth.joint, truth.tcp, truth.angular};
  for (std::size_t kind = 0; kind < 3; ++kind) {
    for (std::size_t order = 0; order < 3; ++order) {
      Params p;
      std::array<Three*, 3> of{&p.rows[0].joint_deg, &p.rows[0].tcp, &p.rows[0].angular_deg};
      const double limit = values[kind][order] * 1.25;
      (*of[kind])[order] = kind == 1 ? limit : limit / kDeg;
      const EnvelopeVerdict verdict = make(p).check(move(), 0.32, 0, {});
      EXPECT_NEAR(verdict.max_ratio_plan, 0.8, order == 2 ? 0.025 : 0.012) << kNames[kind][order];
      EXPECT_EQ(verdict.which, kNames[kind][order]);
      (*of[kind])[order] *= 0.75;
      const EnvelopeVerdict over = make(p).check(move(), 0.32, 0, {});
      EXPECT_FALSE(over.ok) << kNames[kind][order];
      EXPECT_EQ(over.reason.rfind(std::string(kNames[kind][order]) + " is 1.0", 0), 0U) << over.reason;
    }
  }
}

// Within an interval the law is the quintic's own: one interval from rest to rest has its peaks in closed form, at the
// sampled cycles (u = i / 25), for acceleration and jerk of a joint.
TEST_F(EnvelopeEdges, WithinAnIntervalTheQuinticsOwnPeaksCount) {
  constexpr double h = 0.05, gap = 0.002;
  std::vector<Knot> knots(2);
  for (std::size_t j = 0; j < 6; ++j) knots[0].q_rad[j] = knots[1].q_rad[j] = kHome[j];
  knots[1].t_s = h;
  knots[1].q_rad[5] += gap;
  Three peak{};
  for (int i = 0; i <= 25; ++i) {
    const double u = i / 25.0;
    peak[0] = std::max(peak[0], std::fabs(30 * u * u * (1 - u) * (1 - u)) * gap / h);
    peak[1] = std::max(peak[1], std::fabs(60 * u * (1 - u) * (1 - 2 * u)) * gap / (h * h));
    peak[2] = std::max(peak[2], std::fabs(60 - 360 * u + 360 * u * u) * gap / (h * h * h));
  }
  for (std::size_t order = 0; order < 3; ++order) {
    Params p;
    p.rows[0].joint_deg = {360, 1e9, 1e9};
    p.rows[0].joint_deg[order] = peak[order] / kDeg / 0.8;
    EXPECT_NEAR(make(p).check(knots, 0.32, 0, {}).max_ratio_plan, 0.8, 1e-9) << order;
  }
}

TEST_F(EnvelopeEdges, TheWorstMomentIsNamed) {
  Params p;
  p.rows[0].joint_deg[0] = 0.6 * 1.875 / kDeg * 0.9;  // joint 6 is the fastest, at the middle
  const EnvelopeVerdict verdict = make(p).check(move(), 0.32, 0, {});
  EXPECT_NEAR(verdict.max_ratio_plan, 1.0 / 0.9, 1e-4);
  EXPECT_NEAR(verdict.at_s, 0.5, 0.0021);
  EXPECT_NE(verdict.reason.find("joint speed is 1.1111 times its limit at 0.5"), std::string::npos) << verdict.reason;
}

TEST_F(EnvelopeEdges, ALimitMayBePassedByWhatTheWireRounds) {
  const double most = 0.6 * 1.875 / kDeg;
  for (const auto& [share, ok] : {std::pair{1.00009, true}, {1.00011, false}, {1.0, true}, {1.00019, false}}) {
    Params p;
    p.rows[0].joint_deg[0] = most / share;
    EXPECT_EQ(make(p).check(move(), 0.32, 0, {}).ok, ok) << share;
  }
}

// --- stops

TEST_F(EnvelopeEdges, EachStopLimitIsComparedWithItsOwnQuantity) {
  for (const double ramp_s : {0.30, 0.34}) {
    Largest truth;
    for (double from = 0.02; from < kDuration_s - 0.1; from += 0.02) {
      const auto stopping = [&](double t) { return law(from + gone(t, ramp_s)); };
      const double b = 0.5 * ramp_s, e = 0.65 * ramp_s, edge = 0.0021;  // not across a step of the ramp's jerk
      for (const auto& [begin, end] : {std::pair{edge, b - edge}, {b + edge, e - edge}, {e + edge, ramp_s - edge}}) {
        const Largest one = largest(stopping, begin, end, std::max(0.004, (end - begin) / 8));
        for (std::size_t o = 1; o < 3; ++o) {
          truth.joint[o] = std::max(truth.joint[o], one.joint[o]);
          truth.tcp[o] = std::max(truth.tcp[o], one.tcp[o]);
          truth.angular[o] = std::max(truth.angular[o], one.angular[o]);
        }
      }
    }
    const std::array<Three, 3> values{truth.joint, truth.tcp, truth.angular};
    for (std::size_t kind = 0; kind < 3; ++kind) {
      for (std::size_t order = 1; order < 3; ++order) {
        Params p;
        std::array<Three*, 3> of{&p.rows[0].joint_deg, &p.rows[0].tcp, &p.rows[0].angular_deg};
        (*of[kind])[order] = kind == 1 ? values[kind][order] : values[kind][order] / kDeg;
        p.rows[0].stop_factor = 1.25;
        const EnvelopeVerdict verdict = make(p).check(move(), ramp_s, 0, {});
        EXPECT_NEAR(verdict.max_ratio_stop, 0.8, 0.024) << kNames[kind][order] << ramp_s;
      }
    }
  }
}

TEST_F(EnvelopeEdges, AStopThatGoesOverIsRefusedAndNamed) {
  Params p;
  p.rows[0].tcp[1] = 10.0;
  p.rows[0].tcp[1] *= make(p).check(move(), 0.3, 0, {}).max_ratio_stop / 1.2;
  const double ratio = make(p).check(move(), 0.3, 0, {}).max_ratio_stop;
  ASSERT_NEAR(ratio, 1.2, 1e-3);
  for (const auto& [share, ok] : {std::pair{1.00005, true}, {1.00015, false}, {1.01, false}}) {
    p.rows[0].stop_factor = ratio / share;
    std::ostringstream row;
    std::string all = lines(p);
    row.precision(17);
    row << text(p.rows[0].joint_deg) << " " << text(p.rows[0].tcp) << " " << text(p.rows[0].angular_deg) << " "
        << p.rows[0].stop_factor << " 0.3 0.34";
    all = all.substr(0, all.find("profile.")) + "profile.p0 = " + row.str() + "\n";
    const EnvelopeVerdict verdict = read(all).check(move(), 0.3, 0, {});
    EXPECT_EQ(verdict.ok, ok) << share << verdict.reason;
    EXPECT_EQ(verdict.reason.rfind("a stop reaches 1.0", 0) == 0, !ok) << verdict.reason;
  }
}

// --- the box, the table, the floor, the joints

TEST_F(EnvelopeEdges, TheTcpStaysInTheBox) {
  Three low{9, 9, 9}, high{-9, -9, -9};
  for (int i = 0; i <= 500; ++i) {
    const Three p = position(frames(law(i * 0.002))[6]);
    for (std::size_t c = 0; c < 3; ++c) low[c] = std::min(low[c], p[c]), high[c] = std::max(high[c], p[c]);
  }
  const char* const names[3] = {"TCP x", "TCP y", "TCP z"};
  for (std::size_t c = 0; c < 3; ++c) {
    for (const double by : {-1e-6, 1e-6}) {
      Params p;
      p.low[c] = low[c] + by;
      const EnvelopeVerdict under = make(p).check(move(), 0.32, 0, {});
      EXPECT_EQ(under.ok, by < 0) << under.reason;
      EXPECT_EQ(under.reason.rfind(names[c], 0) == 0, by > 0);
      Params q;
      q.high[c] = high[c] - by;
      const EnvelopeVerdict over = make(q).check(move(), 0.32, 0, {});
      EXPECT_EQ(over.ok, by < 0) << over.reason;
      EXPECT_EQ(over.reason.rfind(names[c], 0) == 0, by > 0);
    }
  }
  for (const double by : {-1e-6, 1e-6}) {
    Params p;
    p.table_z = low[2] + by;
    EXPECT_EQ(make(p).check(move(), 0.32, 0, {}).ok, by < 0);
  }
  Params p;
  p.high[0] = position(frames(kHome)[6])[0] - 0.1;
  char words[96];
  std::snprintf(words, sizeof words, "TCP x = %.1f mm at 0.00 s, outside -9000.0..%.1f mm",
                position(frames(kHome)[6])[0] * 1e3, p.high[0] * 1e3);
  EXPECT_EQ(make(p).check(move(), 0.32, 0, {}).reason, words);
}

TEST_F(EnvelopeEdges, ElbowAndWristStayAboveTheFloor) {
  // Each joint in turn the lowest of the four: the pose that makes it so, and the floor just there.
  for (const Joints6& pose : {Joints6{0.3, 0.7, -0.5, -1.0, 1.0, 0.2}, Joints6{0.3, -0.6, 1.8, 0.4, 1.0, 0.2},
                              Joints6{-0.8, -0.5, 0.9, 1.6, 0.7, 0.1}, Joints6{1.2, -0.4, 0.6, 0.9, 2.4, 0.5}, kHome}) {
    const auto at = frames(pose);
    std::size_t which = 1;
    for (std::size_t i = 2; i <= 4; ++i) {
      if (position(at[i])[2] < position(at[which])[2]) which = i;
    }
    const double lowest = position(at[which])[2];
    const char* const names[5] = {"", "elbow", "wrist 1", "wrist 2", "wrist 3"};
    for (const double by : {-1e-7, 1e-7}) {
      Params p;
      p.floor_links_z = lowest + by;
      const EnvelopeVerdict verdict = make(p).check(knots_of(pose, {}, 0.2), 0.32, 0, {});
      char words[96];
      std::snprintf(words, sizeof words, "%s at z = %.0f mm at 0.00 s, limit %.0f mm", names[which], lowest * 1e3,
                    p.floor_links_z * 1e3);
      EXPECT_EQ(verdict.reason == words, by > 0) << verdict.reason;
    }
  }
}

TEST_F(EnvelopeEdges, TheFloorIsLookedAtAllAlong) {
  double lowest = 9;
  double at_s = 0;
  for (int i = 0; i <= 500; i += 5) {
    const auto at = frames(law(i * 0.002));
    for (std::size_t k = 1; k <= 4; ++k) {
      if (position(at[k])[2] < lowest) lowest = position(at[k])[2], at_s = i * 0.002;
    }
  }
  ASSERT_GT(at_s, 0.1);
  Params p;
  p.floor_links_z = lowest + 1e-6;
  EXPECT_NE(make(p).check(move(), 0.32, 0, {}).reason.find(" at z = "), std::string::npos);
  p.floor_links_z = lowest - 1e-6;
  EXPECT_TRUE(make(p).check(move(), 0.32, 0, {}).ok);
}

TEST_F(EnvelopeEdges, AJointTurnsOnceEachWay) {
  for (std::size_t j = 0; j < 6; ++j) {
    for (const double sign : {1.0, -1.0}) {
      Joints6 pose = kHome;
      pose[j] = sign * 360.0 * kDeg;
      not_for("limit 360 deg", knots_of(pose, {}, 0.2));
      pose[j] = sign * 361.0 * kDeg;
      char words[96];
      std::snprintf(words, sizeof words, "joint %zu at %.0f deg at 0.00 s, limit 360 deg", j + 1, sign * 361.0);
      refused(knots_of(pose, {}, 0.2), words);
    }
  }
}

TEST_F(EnvelopeEdges, AMotionThatLeavesBetweenItsKnotsIsSeen) {
  auto knots = still(4);
  knots[1].qd_rad_s[0] = 2.0;  // out and back within 50 ms
  Params p;
  p.rows[0].joint_deg[0] = 1.5 / kDeg;
  const EnvelopeVerdict verdict = make(p).check(knots, 0.32, 0, {});
  EXPECT_FALSE(verdict.ok);
  EXPECT_NEAR(verdict.max_ratio_plan, 2.0 / 1.5, 1e-6);
}

// --- the parameter file

TEST_F(EnvelopeEdges, EveryKeyIsNeededWithItsCount) {
  const std::string good = lines({});
  (void)read(good);
  for (const char* key : {"dh_a", "dh_d", "dh_alpha", "tcp", "box_low", "box_high", "table_z", "floor_links_z"}) {
    std::string without, shorter, longer;
    std::istringstream rows(good);
    for (std::string row; std::getline(rows, row);) {
      const bool is = row.rfind(std::string(key) + " =", 0) == 0;
      if (!is) without += row + "\n";
      longer += row + (is ? " 1\n" : "\n");
      shorter += (is ? row.substr(0, row.find_last_of(' ')) : row) + "\n";
    }
    for (const std::string& bad : {without, shorter, longer}) {
      try {
        (void)read(bad);
        ADD_FAILURE() << key;
      } catch (const std::runtime_error& e) {
        const std::string said = e.what();
        EXPECT_TRUE(said.find(key) != std::string::npos || said.find("expected 'key = numbers'") != std::string::npos);
      }
    }
  }
}

TEST_F(EnvelopeEdges, AProfileHasLimitsThatAUr5eCanHave) {
  const auto read_row = [&](const std::vector<double>& n) {
    std::string all = lines({});
    all = all.substr(0, all.find("profile.")) + "profile.p0 =";
    for (double x : n) {
      std::ostringstream out;
      out.precision(17);
      out << " " << x;
      all += out.str();
    }
    return read(all + "\n").profile_count();
  };
  const std::vector<double> good{60, 180, 1500, 0.25, 0.8, 6, 60, 180, 1500, 2, 0.3, 0.34};
  EXPECT_EQ(read_row(good), 1U);
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const double bad : {0.0, -1.0, -good[i]}) {
      auto row = good;
      row[i] = bad;
      EXPECT_THROW(read_row(row), std::runtime_error) << i;
    }
    auto tiny = good;
    tiny[i] = i < 9 ? 1e-3 : good[i];
    EXPECT_EQ(read_row(tiny), 1U) << i;
  }
  const auto edge = [&](std::size_t i, double last, double first_bad) {
    auto row = good;
    if (i == 11) row[10] = 0.3;
    row[i] = last;
    EXPECT_EQ(read_row(row), 1U) << i;
    row[i] = first_bad;
    EXPECT_THROW(read_row(row), std::runtime_error) << i;
  };
  edge(0, 360.0, 360.001);
  edge(3, 3.0, 3.001);
  edge(9, 1.0, 0.999);
  edge(9, 5.0, 5.001);
  edge(10, 0.34, 0.341);
  edge(11, 0.3, 0.299);
  edge(11, 5.0, 5.001);
}

TEST_F(EnvelopeEdges, ALineThatIsNoneIsNamedByItsNumber) {
  for (const char* bad : {"key\n", "key =\n", "key 1 2\n", "key = 1 x\n", "key : 1\n"}) {
    try {
      (void)read(std::string("# first\n") + bad + lines({}));
      ADD_FAILURE() << bad;
    } catch (const std::runtime_error& e) {
      EXPECT_NE(std::string(e.what()).find(":2: expected 'key = numbers'"), std::string::npos) << e.what();
    }
  }
  EXPECT_THROW(Envelope("/tmp/wardarm_no_such_file"), std::runtime_error);
  const std::string good = lines({});
  EXPECT_THROW(read(good.substr(0, good.find("profile."))), std::runtime_error);
  EXPECT_THROW(read(good + "profile.short = 1 2 3\n"), std::runtime_error);
  EXPECT_EQ(read(good + "profile_not = 1 2 3\n").profile_count(), 1U);
  EXPECT_EQ(read(good + "a_profile.b = 1 2 3\n").profile_count(), 1U);
  EXPECT_EQ(read(good + "profile.profile.b = " + row_of(Row{}) + "\n").profile_count(), 2U);
}

TEST_F(EnvelopeEdges, HowAToolIsTurnedChangesNoRatio) {
  Params p;
  p.rows[0].angular_deg = {100.0, 1e9, 1e9};
  const double turned = make(p).check(move(), 0.32, 0, {}).max_ratio_plan;
  ASSERT_GT(turned, 0.1);
  std::string all = lines(p);
  const std::size_t begin = all.find("tcp ="), end = all.find('\n', begin);
  all.replace(begin, end - begin, "tcp = 0.01 -0.02 0.1558 0 0 0");
  EXPECT_NEAR(read(all).check(move(), 0.32, 0, {}).max_ratio_plan, turned, 1e-6);
}

}  // namespace
}  // namespace wardarm

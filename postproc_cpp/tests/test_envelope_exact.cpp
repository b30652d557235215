// The check's ratios to the last digits, against a second writing of its rules on motions whose law is known: plans at
// every cycle of 2 ms with differences inside the motion only; stops from every 10 ms, each phase of the ramp in equal
// steps of at most 4 ms with both its ends, the path at the nearest cycle.
#include "envelope_bench.hpp"

namespace wardarm {
namespace {

constexpr double kCycle_s = 0.002;
constexpr double kFar = 1e15;  // a limit that nothing meets

// One quintic a joint, from begin_s on: coefficients by powers of the time since.
struct Piece {
  double begin_s = 0.0, end_s = 0.0;
  std::array<Joints6, 6> c{};  // by power
};

struct Law {
  std::vector<Piece> pieces;

  double end_s() const { return pieces.back().end_s; }
  // The `order`th derivative of every joint; at a seam that of what begins there.
  Joints6 at(double t_s, int order = 0) const {
    std::size_t k = 0;
    while (k + 1 < pieces.size() && pieces[k + 1].begin_s <= t_s) ++k;
    const double t = t_s - pieces[k].begin_s;
    Joints6 out{};
    for (std::size_t j = 0; j < 6; ++j) {
      double power = 1.0;
      for (int i = order; i < 6; ++i, power *= t) {
        double factor = 1.0;
        for (int m = 0; m < order; ++m) factor *= i - m;
        out[j] += factor * pieces[k].c[static_cast<std::size_t>(i)][j] * power;
      }
    }
    return out;
  }
  Knot knot(double t_s) const {
    Knot out{};
    out.t_s = t_s, out.grip = 0.5;
    for (std::size_t j = 0; j < 6; ++j) {
      out.q_rad[j] = at(t_s)[j], out.qd_rad_s[j] = at(t_s, 1)[j], out.qdd_rad_s2[j] = at(t_s, 2)[j];
    }
    return out;
  }
  // At every seam and 50 ms after it.
  std::vector<Knot> knots() const {
    std::vector<Knot> out;
    for (const Piece& piece : pieces) {
      const auto count = std::lround(std::ceil((piece.end_s - piece.begin_s) / 0.05 - 1e-9));
      for (long i = 0; i < count; ++i) {
        out.push_back(knot(piece.begin_s + (piece.end_s - piece.begin_s) * static_cast<double>(i) / count));
      }
    }
    out.push_back(knot(end_s()));
    for (std::size_t j = 0; j < 6; ++j) out.back().qd_rad_s[j] = out.back().qdd_rad_s2[j] = 0.0;
    return out;
  }
  // From (q, v, a) after the last piece to `by` further on, with speed v1 there and no acceleration.
  Law& then(double duration_s, const Joints6& by, const Joints6& v1 = {}) {
    const double b = pieces.back().end_s, t = duration_s;
    const Joints6 q = at(b), v = at(b, 1), a = at(b, 2);
    Piece p{b, b + t, {q, v, {}, {}, {}, {}}};
    for (std::size_t j = 0; j < 6; ++j) {
      const double gap = by[j] - v[j] * t - a[j] * t * t / 2, dv = v1[j] - v[j] - a[j] * t, da = -a[j];
      p.c[2][j] = a[j] / 2;
      p.c[3][j] = (20 * gap - 8 * dv * t + da * t * t) / (2 * t * t * t);
      p.c[4][j] = (-30 * gap + 14 * dv * t - 2 * da * t * t) / (2 * t * t * t * t);
      p.c[5][j] = (12 * gap - 6 * dv * t + da * t * t) / (2 * t * t * t * t * t);
    }
    pieces.push_back(p);
    return *this;
  }
};

Joints6 scaled(const Joints6& v, double by) {
  Joints6 out = v;
  for (double& x : out) x *= by;
  return out;
}

// A law that begins at kHome with this speed and acceleration: an empty piece in front.
Law from(const Joints6& v = {}, const Joints6& a = {}) { return {{Piece{0.0, 0.0, {kHome, v, scaled(a, 0.5)}}}}; }
Joints6 only(std::size_t joint, double value) {
  Joints6 out{};
  out[joint] = value;
  return out;
}

Law generic() { return from().then(kDuration_s, kStep); }
// Fastest, hardest braked and sharpest bent in its first cycles.
Law fast_start(const Joints6& v) { return from(v, scaled(v, -24.0)).then(0.4, scaled(v, 0.04)); }
// Rests, and moves in its last cycle only.
Law fast_end() { return from().then(0.05, {}).then(kCycle_s, scaled(kStep, 1e-3)); }
// Cruises to its last cycle, which ends with a jerk; its positions go on evenly to the end.
Law even_end() {
  const Joints6 v = scaled(kStep, 0.3);
  return from(v).then(0.2, scaled(v, 0.2), v).then(kCycle_s, scaled(v, kCycle_s));
}
Law cruise(const Joints6& v) { return from(v).then(0.8, scaled(v, 0.8), v).then(0.05, scaled(v, 0.03)); }

// --- what the check should find

struct Derived {
  std::vector<Joints6> joint[3];          // speed, acceleration, jerk at each cycle
  std::vector<Three> linear[3], turn[3];  // the same of the TCP, as a moment of the check has them
  std::size_t count() const { return linear[0].size(); }
};

Three difference(const Three& a, const Three& b, double by) {
  return {(b[0] - a[0]) * by, (b[1] - a[1]) * by, (b[2] - a[2]) * by};
}

std::array<std::vector<Three>, 3> differences(const std::vector<Three>& speed) {
  const std::size_t n = speed.size() + 1;  // moments
  std::array<std::vector<Three>, 3> out;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t s = std::clamp<std::size_t>(i, 1, n - 2), t = std::clamp<std::size_t>(i, 1, n - 3);
    const Three here = difference(speed[t - 1], speed[t], 1 / kCycle_s);
    const Three next = difference(speed[t], speed[t + 1], 1 / kCycle_s);
    out[0].push_back(speed[std::min(i, n - 2)]);
    out[1].push_back(difference(speed[s - 1], speed[s], 1 / kCycle_s));
    out[2].push_back(difference(here, next, 1 / kCycle_s));
  }
  return out;
}

Derived derive(const Law& law) {
  Derived out;
  const auto n = static_cast<std::size_t>(std::ceil(law.end_s() / kCycle_s - 1e-6)) + 1;
  std::vector<Matrix> at;
  for (std::size_t i = 0; i < n; ++i) {
    const double t = std::min(static_cast<double>(i) * kCycle_s, law.end_s());
    for (int order = 0; order < 3; ++order) out.joint[order].push_back(law.at(t, order + 1));
    at.push_back(frames(law.at(t))[6]);
  }
  std::vector<Three> speed, turn;
  for (std::size_t i = 0; i + 1 < n; ++i) {
    speed.push_back(difference(position(at[i]), position(at[i + 1]), 1 / kCycle_s));
    const Three sine = turning(at[i], at[i + 1], 1.0);
    const double s = norm(sine), angle = s > 0.0 ? std::asin(s) / s : 1.0;
    turn.push_back({sine[0] * angle / kCycle_s, sine[1] * angle / kCycle_s, sine[2] * angle / kCycle_s});
  }
  const auto linear = differences(speed), angular = differences(turn);
  for (std::size_t o = 0; o < 3; ++o) out.linear[o] = linear[o], out.turn[o] = angular[o];
  return out;
}

enum Kind { kJoint, kTcpLine, kTcpTurn, kLateral };
const char* const kNames[4] = {"joint", "TCP", "turning", "horizontal"};

double largest_of(const Three& v, Kind kind) { return kind == kLateral ? std::hypot(v[0], v[1]) : norm(v); }

double largest_in_plan(const Derived& d, Kind kind, std::size_t order) {
  double most = 0.0;
  for (std::size_t i = 0; i < d.count(); ++i) {
    if (kind == kJoint) {
      for (double x : d.joint[order][i]) most = std::max(most, std::fabs(x));
    } else {
      most = std::max(most, largest_of(kind == kTcpTurn ? d.turn[order][i] : d.linear[order][i], kind));
    }
  }
  return most;
}

struct RampStep {
  std::size_t ahead;
  double r, r1, r2;
};

// A ramp's braking grows over half of it, holds, and fades over 35 %.
std::vector<RampStep> ramp(double ramp_s) {
  constexpr double b = 0.5, e = 0.35, p = 1.0 / (1.0 - (b + e) / 2.0);
  const std::array<std::array<double, 2>, 3> phases{{{0.0, b}, {b, 1.0 - e}, {1.0 - e, 1.0}}};
  std::vector<RampStep> out;
  for (std::size_t k = 0; k < 3; ++k) {
    const double length = phases[k][1] - phases[k][0];
    const auto steps = static_cast<int>(std::ceil(length * ramp_s / 0.004));
    for (int i = 0; i <= steps; ++i) {
      const double u = phases[k][0] + length * i / steps, left = 1.0 - u;
      const double r = k == 0 ? 1.0 - p * u * u / (2 * b) : k == 1 ? 1.0 - p * (u - b / 2) : p * left * left / (2 * e);
      const double shape = k == 0 ? u / b : k == 1 ? 1.0 : left / e;
      const double bend = k == 0 ? -p / b : k == 1 ? 0.0 : p / e;
      out.push_back({static_cast<std::size_t>(std::lround(gone(u * ramp_s, ramp_s) / kCycle_s)), r, -p * shape / ramp_s,
                     bend / (ramp_s * ramp_s)});
    }
  }
  return out;
}

// Of accelerations (order 1) or jerks (order 2) in a stop from anywhere.
double largest_in_stop(const Derived& d, Kind kind, std::size_t order, double ramp_s) {
  const std::vector<RampStep> steps = ramp(ramp_s);
  double most = 0.0;
  for (std::size_t begin = 0; begin < d.count(); begin += 5) {
    for (const RampStep& s : steps) {
      const std::size_t i = begin + s.ahead;
      if (i >= d.count()) break;
      const double k1 = order == 1 ? s.r1 : s.r2, k2 = order == 1 ? s.r * s.r : 3 * s.r * s.r1;
      const double k3 = order == 1 ? 0.0 : s.r * s.r * s.r;
      if (kind == kJoint) {
        for (std::size_t j = 0; j < 6; ++j) {
          most = std::max(most, std::fabs(d.joint[0][i][j] * k1 + d.joint[1][i][j] * k2 + d.joint[2][i][j] * k3));
        }
        continue;
      }
      const auto& of = kind == kTcpTurn ? d.turn : d.linear;
      Three sum{};
      for (std::size_t c = 0; c < 3; ++c) sum[c] = of[0][i][c] * k1 + of[1][i][c] * k2 + of[2][i][c] * k3;
      most = std::max(most, largest_of(sum, kind));
    }
  }
  return most;
}

class EnvelopeExact : public EnvelopeBench {
 protected:
  // What the check finds with one limit that can be met, all others out of reach.
  EnvelopeVerdict with(const Law& law, Kind kind, std::size_t order, double limit, double ramp_s = 0.32) {
    Params p;
    Row& row = p.rows[0];
    row.joint_deg = {360, kFar, kFar}, row.tcp = {3, kFar, kFar}, row.angular_deg = {kFar, kFar, kFar};
    row.stop_factor = 1.25;
    if (kind == kJoint) row.joint_deg[order] = limit / kDeg;
    if (kind == kTcpLine) row.tcp[order] = limit;
    if (kind == kTcpTurn) row.angular_deg[order] = limit / kDeg;
    std::ostringstream liquid;
    liquid.precision(17);
    if (kind == kLateral) liquid << "liquid.p0 = 90 " << limit << "\n";
    p.more = liquid.str();
    return make(p).check(law.knots(), ramp_s, 0, {});
  }
  void plan(const Law& law, const char* name) {
    const Derived d = derive(law);
    for (const Kind kind : {kJoint, kTcpLine, kTcpTurn, kLateral}) {
      for (std::size_t order = kind == kLateral ? 1 : 0; order < (kind == kLateral ? 2 : 3); ++order) {
        const double most = largest_in_plan(d, kind, order);
        if (most < 1e-6) continue;  // at rest at every cycle
        const double share =
            order == 0 && kind != kTcpTurn ? 0.999 : 0.8;  // above what the speeds have without a limit
        EXPECT_NEAR(with(law, kind, order, most / share).max_ratio_plan, share, order == 2 ? 1e-4 : 1e-6)
            << name << " " << kNames[kind] << " " << order;
      }
    }
  }
  void stop(const Law& law, const std::string& name) {
    const Derived d = derive(law);
    for (const double ramp_s : {0.30, 0.34}) {
      for (const Kind kind : {kJoint, kTcpLine, kTcpTurn, kLateral}) {
        for (std::size_t order = 1; order < (kind == kLateral ? 2 : 3); ++order) {
          const double most = largest_in_stop(d, kind, order, ramp_s);
          ASSERT_GT(most, 0.0);
          const EnvelopeVerdict verdict = with(law, kind, order, most, ramp_s);
          EXPECT_NEAR(verdict.max_ratio_stop, kind == kLateral ? 1.0 : 0.8, 1e-6)
              << name << " " << kNames[kind] << " " << order << " " << ramp_s << verdict.reason;
        }
      }
    }
  }
};

TEST_F(EnvelopeExact, ThePlansLargestValuesAreThoseOfItsCycles) {
  plan(generic(), "generic");
  plan(fast_start(scaled(kStep, 0.8)), "fast start");
  plan(fast_end(), "fast end");
  plan(even_end(), "even end");
}

TEST_F(EnvelopeExact, TheMotionsMeanWhatTheirNamesSay) {
  const Derived start = derive(fast_start(scaled(kStep, 0.8))), end = derive(fast_end()), even = derive(even_end());
  for (std::size_t o = 0; o < 3; ++o) {
    for (std::size_t i = 2; i < start.count(); ++i) {
      EXPECT_GT(norm(start.linear[o][o == 0 ? 0 : 1]), norm(start.linear[o][i])) << o << " " << i;
    }
    for (std::size_t i = 0; i + 3 < end.count(); ++i) {
      EXPECT_GT(norm(end.linear[o][end.count() - 1]), 2 * norm(end.linear[o][i])) << o << " " << i;
    }
  }
  EXPECT_GT(norm(even.linear[0].back()), 0.9 * norm(even.linear[0].front()));
}

TEST_F(EnvelopeExact, AStopsLargestValuesAreThoseOfItsGrid) {
  stop(generic(), "generic");
  stop(fast_start(scaled(kStep, 0.8)), "fast start");
  stop(cruise(scaled(kStep, 0.5)), "cruise");
  stop(even_end(), "even end");
  for (std::size_t j = 0; j < 6; ++j) {
    stop(fast_start(only(j, 0.4)), "fast start, joint " + std::to_string(j + 1));
    stop(cruise(only(j, 0.3)), "cruise, joint " + std::to_string(j + 1));
  }
}

TEST_F(EnvelopeExact, AtAKnotTheLawThatBeginsThereCounts) {
  constexpr double h = 0.05, a = 1e-4;
  Law law = from().then(h, {});
  Piece bend{h, 2 * h, {kHome, {}, {}, only(5, a / (h * h * h)), only(5, -a / 4 / (h * h * h * h)), {}}};
  law.pieces.push_back(bend);  // jerk 6a (1 - u) / h3
  law.then(0.5, only(5, a * 0.5 / h));
  const double most = 6 * a / (h * h * h);
  ASSERT_NEAR(largest_in_plan(derive(law), kJoint, 2), most, 1e-9 * most);
  EXPECT_NEAR(with(law, kJoint, 2, most / 0.8).max_ratio_plan, 0.8, 1e-9);
}

TEST_F(EnvelopeExact, FourCyclesHaveAllTheirDifferences) {
  const Law law = from().then(3 * kCycle_s, scaled(kStep, 1e-3));
  ASSERT_EQ(derive(law).count(), 4U);
  plan(law, "four cycles");
}

TEST_F(EnvelopeExact, AnEndIsACyclesIfItLiesWithinTwoNanosecondsOfIt) {
  allowed(still(2, 0.004 + 3e-9));  // 0, 2, 4 ms and the end
  refused(still(2, 0.004 + 1.5e-9), "shorter than four cycles");
}

TEST_F(EnvelopeExact, ATurnThatIsNotSmallIsStillItsAngle) {
  const Law law = from().then(0.05, {}).then(kCycle_s, only(5, 45.0 * kDeg));
  Params p;
  p.rows[0].joint_deg = {360, kFar, kFar}, p.rows[0].tcp = {3, kFar, kFar};
  p.rows[0].angular_deg = {1.0, kFar, kFar};
  const EnvelopeVerdict verdict = make(p).check(law.knots(), 0.32, 0, {});
  EXPECT_FALSE(verdict.ok);
  EXPECT_NEAR(verdict.max_ratio_plan, 45.0 / kCycle_s, 1e-3);
}

TEST_F(EnvelopeExact, OfEqualRatiosTheFirstIsNamed) {
  const EnvelopeVerdict rest = check(still(5));
  EXPECT_TRUE(rest.ok);
  EXPECT_LT(rest.max_ratio_plan, 1e-15);  // a fused multiply-add leaves 1e-22
  EXPECT_LT(rest.max_ratio_stop, 1e-15);
  if (rest.max_ratio_plan > 0.0 || rest.max_ratio_stop > 0.0)
    GTEST_SKIP() << "no ratio of exactly zero on this machine";
  EXPECT_EQ(rest.which, "");
  EXPECT_EQ(rest.at_s, 0.0);
}

TEST_F(EnvelopeExact, ARampMayBeAMicrosecondBesideItsLimits) {
  allowed(still(), 0.3 - 1e-6);
  allowed(still(), 0.34 + 1e-6);
  allowed(still(), 0.3 - 0.9e-6);
  allowed(still(), 0.34 + 0.9e-6);
  refused(still(), "ramp of", 0.3 - 1.1e-6);
  refused(still(), "ramp of", 0.34 + 1.1e-6);
}

TEST_F(EnvelopeExact, TheFirstMomentsPostureIsLookedAtToo) {
  const auto lowest = [](const Joints6& q) {
    double z = 9.0;
    for (std::size_t k = 1; k <= 4; ++k) z = std::min(z, position(frames(q)[k])[2]);
    return z;
  };
  const double way = lowest(from(only(1, 0.1)).at(0.0)) < lowest(fast_start(only(1, 0.1)).at(0.1)) ? 1.0 : -1.0;
  const Law law = fast_start(only(1, 0.8 * way));
  ASSERT_GT(lowest(law.at(kCycle_s)), lowest(kHome) + 1e-5);  // it rises at once
  Params p;
  p.rows[0].joint_deg = {360, kFar, kFar}, p.rows[0].tcp = {3, kFar, kFar}, p.rows[0].angular_deg = {kFar, kFar, kFar};
  p.rows[0].stop_factor = 5.0;
  p.floor_links_z = lowest(kHome) - 1e-7;
  EXPECT_TRUE(make(p).check(law.knots(), 0.32, 0, {}).ok) << make(p).check(law.knots(), 0.32, 0, {}).reason;
  p.floor_links_z = lowest(kHome) + 1e-7;
  EXPECT_NE(make(p).check(law.knots(), 0.32, 0, {}).reason.find(" at z = "), std::string::npos);
}

// An arm of no length with nothing turned: its TCP is the tool's offset, to the last bit. What is said next is that its
// elbow is stretched.
TEST_F(EnvelopeExact, OnTheBoxOrTheTableIsWithin) {
  Params p;
  p.a = p.d = p.alpha = {};
  p.tcp = {0.5, -0.25, 0.125, 0, 0, 0};
  p.low = {0.5 - 1.0, -0.25 - 1.0, 0.125 - 1.0}, p.high = {0.5 + 1.0, -0.25 + 1.0, 0.125 + 1.0};
  p.table_z = 0.125;
  for (std::size_t c = 0; c < 3; ++c) {
    for (const double by : {-1.0, 1.0}) {
      Params q = p;
      double& bound = (by > 0 ? q.low : q.high)[c];
      bound = p.tcp[c];
      EXPECT_EQ(make(q).check(knots_of({}, {}, 0.2), 0.32, 0, {}).reason.rfind("sin(q3)", 0), 0U);
      bound = std::nextafter(bound, 9.0 * by);
      EXPECT_EQ(make(q).check(knots_of({}, {}, 0.2), 0.32, 0, {}).reason.rfind("TCP ", 0), 0U);
    }
  }
  p.table_z = std::nextafter(0.125, 1.0);
  EXPECT_EQ(make(p).check(knots_of({}, {}, 0.2), 0.32, 0, {}).reason.rfind("TCP ", 0), 0U);
}

}  // namespace
}  // namespace wardarm

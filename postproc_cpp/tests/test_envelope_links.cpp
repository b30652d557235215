// What the check says of the arm's own shape, on postures drawn at random, against a second writing: link points by DH
// matrices, the distance of two rods by going to and fro between them.
#include <map>
#include <random>

#include "envelope_bench.hpp"

namespace wardarm {
namespace {

struct Rod {
  const char* name;
  Three a, b;
  double radius_m;
};

Three on(const Rod& rod, double t) {
  Three out{};
  for (std::size_t c = 0; c < 3; ++c) out[c] = rod.a[c] + t * (rod.b[c] - rod.a[c]);
  return out;
}

double nearest(const Rod& rod, const Three& p) {
  double along = 0.0, square = 0.0;
  for (std::size_t c = 0; c < 3; ++c) {
    along += (p[c] - rod.a[c]) * (rod.b[c] - rod.a[c]);
    square += (rod.b[c] - rod.a[c]) * (rod.b[c] - rod.a[c]);
  }
  return square > 0.0 ? std::clamp(along / square, 0.0, 1.0) : 0.0;
}

double apart(const Three& a, const Three& b) { return norm({a[0] - b[0], a[1] - b[1], a[2] - b[2]}); }

// Distance of the surfaces, m. From several places, as nearly parallel rods are slow.
double between(const Rod& one, const Rod& two) {
  double least = 9.0;
  for (double s : {0.0, 0.5, 1.0}) {
    for (int i = 0; i < 3000; ++i) {
      const double before = s;
      s = nearest(one, on(two, nearest(two, on(one, s))));
      if (std::fabs(s - before) < 1e-13) break;
    }
    least = std::min(least, apart(on(one, s), on(two, nearest(two, on(one, s)))));
  }
  return least - one.radius_m - two.radius_m;
}

struct Shape {
  double elbow_sine, wrist_sine, reach_m;
  std::array<Rod, 5> rods;  // base, upper arm, forearm, wrist, tool
};

Shape shape_of(const Joints6& q) {
  const auto at = frames(q);
  const Three side{at[0][0][2], at[0][1][2], at[0][2][2]};  // the second joint's axis
  const auto beside = [&](const Matrix& m) {
    Three p = position(m);
    for (std::size_t c = 0; c < 3; ++c) p[c] += 0.138 * side[c];
    return p;
  };
  const Three wrist = position(at[4]);
  // along the arm's plane, which stands on `side`
  const double reach = std::fabs(wrist[0] * side[1] - wrist[1] * side[0]);
  return {std::fabs(std::sin(q[2])),
          std::fabs(std::sin(q[4])),
          reach,
          {{{"base", {0, 0, 0}, position(at[0]), 0.075},
            {"upper arm", beside(at[0]), beside(at[1]), 0.06},
            {"forearm", position(at[1]), position(at[2]), 0.055},
            {"wrist", position(at[3]), position(at[4]), 0.05},
            {"tool", position(at[5]), position(at[6]), 0.05}}}};
}

constexpr std::array<std::array<std::size_t, 2>, 6> kPairs{{{0, 2}, {0, 3}, {0, 4}, {1, 3}, {1, 4}, {2, 4}}};
constexpr double kUnsure = 1e-6;  // nearer to a limit than this says nothing

// What the check should say, or "?" where two writings may differ.
std::string expected(const Joints6& q) {
  const Shape shape = shape_of(q);
  char text[160];
  const auto say = [&](const char* format, auto... values) {
    std::snprintf(text, sizeof text, format, values...);
    return std::string(text);
  };
  const auto near = [](double value, double limit) { return std::fabs(value - limit) < kUnsure; };
  if (near(shape.elbow_sine, 0.1)) return "?";
  if (shape.elbow_sine < 0.1) return say("sin(q3) = %.3f at 0.00 s, limit 0.10", shape.elbow_sine);
  if (near(shape.wrist_sine, 0.1)) return "?";
  if (shape.wrist_sine < 0.1) return say("sin(q5) = %.3f at 0.00 s, limit 0.10", shape.wrist_sine);
  if (near(shape.reach_m, 0.06)) return "?";
  if (shape.reach_m < 0.06) {
    return say("wrist %.0f mm from the base axis at 0.00 s, limit 60 mm", shape.reach_m * 1e3);
  }
  for (const auto& [i, j] : kPairs) {
    const double free_m = between(shape.rods[i], shape.rods[j]);
    if (near(free_m, 0.0)) return "?";
    if (free_m >= 0.0) continue;
    return say("%s and %s overlap by %.0f mm at 0.00 s", shape.rods[i].name, shape.rods[j].name, -free_m * 1e3);
  }
  return "";
}

class EnvelopeLinks : public EnvelopeBench {
 protected:
  static std::vector<Knot> posture(const Joints6& q) { return knots_of(q, {}, 0.006, 0.006); }
};

// Figures in a text may round either way: the words have to be the same, and numbers to differ by one at most.
bool alike(const std::string& one, const std::string& two) {
  std::istringstream a(one), b(two);
  for (std::string x, y;;) {
    const bool more = static_cast<bool>(a >> x);
    if (more != static_cast<bool>(b >> y)) return false;
    if (!more) return true;
    if (x == y) continue;
    const double last = x.find('.') == std::string::npos ? 1.0 : 0.001;
    if (x.find_first_not_of("0123456789.") != std::string::npos || std::fabs(std::stod(x) - std::stod(y)) > 1.01 * last)
      return false;
  }
}

TEST_F(EnvelopeLinks, PosturesDrawnAtRandomAreJudgedAlike) {
  const Envelope envelope = make();
  std::mt19937 random(7);
  std::uniform_real_distribution<double> angle(-3.14159, 3.14159);
  std::map<std::string, int> seen;
  for (int n = 0; n < 5000; ++n) {
    Joints6 q{};
    for (double& x : q) x = angle(random);
    const std::string words = expected(q);
    if (words == "?") continue;
    const EnvelopeVerdict verdict = envelope.check(posture(q), 0.32, 0, {});
    EXPECT_TRUE(alike(verdict.reason, words)) << "'" << verdict.reason << "' / '" << words << "'";
    const std::string kind = words.substr(0, words.find_first_of("0123456789=", words.find("sin") == 0 ? 8 : 0));
    seen[kind] += 1;
  }
  EXPECT_EQ(seen.size(),
            9U);  // free, two sines, the reach, pairs: a UR5e's wrist meets its base after another pair has
  for (const auto& [kind, count] : seen) EXPECT_GE(count, 5) << kind;
}

// Each limit met from both sides along one joint.
TEST_F(EnvelopeLinks, EachLimitBeginsWhereItShould) {
  const Envelope envelope = make();
  for (const double sign : {1.0, -1.0}) {
    for (const std::size_t joint : {std::size_t{2}, std::size_t{4}}) {
      for (const double by : {-1e-9, 1e-9}) {
        Joints6 q = kHome;
        q[joint] = sign * (std::asin(0.1) + by);
        const std::string words = "sin(q" + std::to_string(joint + 1) + ") = 0.100 at 0.00 s, limit 0.10";
        EXPECT_EQ(envelope.check(posture(q), 0.32, 0, {}).reason == words, by < 0) << joint;
      }
    }
  }
  std::mt19937 random(11);
  std::uniform_real_distribution<double> angle(-3.14159, 3.14159);
  int met = 0;
  for (int n = 0; n < 3000 && met < 60; ++n) {
    Joints6 free = kHome, bad{};
    for (double& x : bad) x = angle(random);
    const std::string words = expected(bad);
    if (words.empty() || words == "?" || words.rfind("sin", 0) == 0) continue;
    for (int i = 0; i < 60; ++i) {  // the last posture on the way from kHome before it is not free any more
      Joints6 middle{};
      for (std::size_t j = 0; j < 6; ++j) middle[j] = (free[j] + bad[j]) / 2;
      (expected(middle).empty() ? free : bad) = middle;
    }
    Joints6 before = free, after = bad;
    for (std::size_t j = 0; j < 6; ++j) {
      const double way = kHome[j] - bad[j];
      before[j] += 1e-4 * way, after[j] -= 1e-4 * way;
    }
    const std::string inside = expected(after);
    if (!expected(before).empty() || inside.empty() || inside == "?") continue;
    ++met;
    EXPECT_EQ(envelope.check(posture(before), 0.32, 0, {}).reason, "");
    EXPECT_TRUE(alike(envelope.check(posture(after), 0.32, 0, {}).reason, inside)) << inside;
  }
  EXPECT_GE(met, 30);
}

}  // namespace
}  // namespace wardarm

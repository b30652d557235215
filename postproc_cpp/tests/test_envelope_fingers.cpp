// What the check says of fingers that move under way, on motions and openings drawn at random, against a second
// writing: while they close (or open with a load) and 50 ms after, the box that the TCP takes up is no longer than a
// millimetre.
#include <random>

#include "envelope_bench.hpp"

namespace wardarm {
namespace {

constexpr int kEvery = 25;  // cycles from knot to knot
constexpr double kMost_m = 1.01e-3;

struct Motion {
  Joints6 step{};
  int knots = 0;  // intervals
  std::vector<double> grip;

  double duration_s() const { return 0.05 * knots; }
  Joints6 at(int cycle) const {
    Joints6 q = kHome;
    for (std::size_t j = 0; j < 6; ++j) q[j] += step[j] * unit(cycle * 0.002, duration_s())[0];
    return q;
  }
  std::vector<Knot> table() const {
    std::vector<Knot> out = knots_of(kHome, step, duration_s());
    for (std::size_t k = 0; k < out.size(); ++k) out[k].grip = grip[k];
    return out;
  }
};

// What the check should say, or "?" where the box is as good as a millimetre.
std::string expected(const Motion& m, bool loaded) {
  const int last = m.knots * kEvery;
  std::vector<char> stands(static_cast<std::size_t>(last) + 1, 0);  // 1: in a stand, 2: it begins here
  int next = 0;
  for (int k = 1; k <= m.knots; ++k) {
    const double change = m.grip[static_cast<std::size_t>(k)] - m.grip[static_cast<std::size_t>(k) - 1];
    if (std::fabs(change) <= 1e-3 || (change > 0 && !loaded)) continue;
    const int begin = k * kEvery - 1, end = std::min((k + 1) * kEvery, last);
    for (int i = std::max(begin, next); i <= end; ++i) stands[static_cast<std::size_t>(i)] = i == begin ? 2 : 1;
    next = std::max(next, end + 1);
  }
  Three low{}, high{};
  for (int i = 0; i <= last; ++i) {
    const char stand = stands[static_cast<std::size_t>(i)];
    if (stand == 0) continue;
    const Three p = position(frames(m.at(i))[6]);
    if (stand == 2) low = high = p;
    Three size{};
    for (std::size_t c = 0; c < 3; ++c) {
      low[c] = std::min(low[c], p[c]), high[c] = std::max(high[c], p[c]);
      size[c] = high[c] - low[c];
    }
    if (std::fabs(norm(size) - kMost_m) < 1e-8) return "?";
    if (norm(size) < kMost_m) continue;
    char text[128];
    std::snprintf(text, sizeof text, "TCP moves by %.2f mm while the fingers do at %.2f s, limit 1 mm",
                  norm(size) * 1e3, i * 0.002);
    return text;
  }
  return "";
}

class EnvelopeFingers : public EnvelopeBench {};

TEST_F(EnvelopeFingers, MotionsDrawnAtRandomAreJudgedAlike) {
  const Envelope envelope = make();
  std::mt19937 random(5);
  std::uniform_real_distribution<double> share(0.0, 1.0);
  int refused = 0, unmoved = 0;
  for (int n = 0; n < 1500; ++n) {
    Motion m;
    m.knots = 4 + n % 12;
    const double size = 0.02 * std::pow(share(random), 3.0);
    for (std::size_t j = 0; j < 6; ++j) m.step[j] = size * (2 * share(random) - 1);
    double grip = 0.5;
    for (int k = 0; k <= m.knots; ++k) {
      const double kind = share(random);
      const double by = kind < 0.4 ? 0.0 : kind < 0.6 ? 0.9e-3 : kind < 0.8 ? 1.1e-3 : 0.05;
      grip = std::clamp(grip + (share(random) < 0.5 ? -by : by), 0.0, 1.0);
      m.grip.push_back(grip);
    }
    const bool loaded = n % 2 == 0;
    const std::string words = expected(m, loaded);
    if (words == "?") continue;
    (words.empty() ? unmoved : refused) += 1;
    EXPECT_EQ(envelope.check(m.table(), 0.32, 0, {}, loaded).reason, words) << n;
  }
  EXPECT_GT(refused, 200);
  EXPECT_GT(unmoved, 200);
}

TEST_F(EnvelopeFingers, AChangeOfAThousandthIsNone) {
  const Envelope envelope = make();
  Motion m;
  m.knots = 10;
  m.step = {0.05, 0, 0, 0, 0, 0};
  for (const auto& [change, moves] : {std::pair{-1e-3 + 1e-9, false}, {-1e-3 - 1e-9, true}, {1e-3 + 1e-9, true}}) {
    m.grip.assign(11, 0.5);
    for (std::size_t k = 5; k < 11; ++k) m.grip[k] += change;
    EXPECT_EQ(envelope.check(m.table(), 0.32, 0, {}, true).reason.rfind("TCP moves by", 0) == 0, moves) << change;
    EXPECT_EQ(envelope.check(m.table(), 0.32, 0, {}, false).reason.rfind("TCP moves by", 0) == 0, moves && change < 0);
  }
}

}  // namespace
}  // namespace wardarm

// The independent check's word on fingers: the TCP stands while they close, or let go of a load.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "wardarm/envelope.hpp"

namespace wardarm {
namespace {

constexpr double kCycle_s = 0.002;        // the controller's cycle
constexpr double kFingersStill = 1e-3;    // change of the opening from knot to knot
constexpr double kFollow_s = 0.05;        // fingers come after what they are told
constexpr double kStandMost_m = 1.01e-3;  // a millimetre, and what the wire's integers round

}  // namespace

std::string Envelope::fingers_problem(std::span<const Knot> knots, std::span<const Frame> tcp, bool loaded) {
  Vector low{};
  Vector high{};
  std::size_t next = 0;  // first cycle that is in no stand yet
  for (std::size_t k = 1; k < knots.size(); ++k) {
    const double change = knots[k].grip - knots[k - 1].grip;
    if (std::fabs(change) <= kFingersStill || (change > 0.0 && !loaded)) continue;
    // From the cycle before the change on: an opening holds from its knot.
    const auto told = static_cast<std::size_t>(std::ceil(knots[k].t_s / kCycle_s - 1e-6));
    const std::size_t before = told > 0 ? told - 1 : 0;
    const auto after = static_cast<std::size_t>(std::ceil((knots[k].t_s + kFollow_s) / kCycle_s - 1e-6));
    if (before >= next) {
      next = std::min(before, tcp.size() - 1);
      low = high = tcp[next].position;
    }
    for (; next <= after && next < tcp.size(); ++next) {
      double square = 0.0;
      for (std::size_t c = 0; c < 3; ++c) {
        low[c] = std::min(low[c], tcp[next].position[c]);
        high[c] = std::max(high[c], tcp[next].position[c]);
        square += (high[c] - low[c]) * (high[c] - low[c]);
      }
      if (square <= kStandMost_m * kStandMost_m) continue;
      char text[128] = "";
      std::snprintf(text, sizeof text, "TCP moves by %.2f mm while the fingers do at %.2f s, limit 1 mm",
                    std::sqrt(square) * 1e3, static_cast<double>(next) * kCycle_s);
      return text;
    }
  }
  return {};
}

}  // namespace wardarm

// The player's ramp to rest: how the path rate falls from 1 to 0 over ramp_s, with u = time / ramp_s.
//
// r'' is constant in each of three phases (r' is a trapezoid): gentle onset over the first half, a short hold, a firmer
// end. At the onset the plan's own acceleration and jerk still count in full (r^2, r^3); towards the end they have
// faded and only the path's speed is left to brake. docs/motion.md, "The ramp to rest", has the measured comparison.
#pragma once

namespace wardarm {

inline constexpr double kRampOnset = 0.50;  // share of the ramp over which the braking grows
inline constexpr double kRampEnd = 0.35;    // share over which it fades
inline constexpr double kRampPeak = 1.0 / (1.0 - (kRampOnset + kRampEnd) / 2.0);  // largest -dr/du

struct RampRate {
  double r, r1, r2;  // rate, dr/du, d2r/du2
};

enum class RampPhase { kOnset, kHold, kEnd };

// The rate at u, which lies in `phase` or on its border: r2 jumps there.
constexpr RampRate ramp_rate(double u, RampPhase phase) {
  constexpr double p = kRampPeak;
  switch (phase) {
    case RampPhase::kOnset:
      return {1.0 - p * u * u / (2.0 * kRampOnset), -p * u / kRampOnset, -p / kRampOnset};
    case RampPhase::kHold:
      return {1.0 - p * (u - kRampOnset / 2.0), -p, 0.0};
    default:
      const double left = 1.0 - u;
      return {p * left * left / (2.0 * kRampEnd), -p * left / kRampEnd, p / kRampEnd};
  }
}

// Path time gone at the end of the ramp, in ramp durations: the integral of the rate.
constexpr double ramp_advance() {
  constexpr double p = kRampPeak;
  constexpr double hold = 1.0 - kRampOnset - kRampEnd;
  constexpr double after_onset = 1.0 - p * kRampOnset / 2.0;
  return kRampOnset - p * kRampOnset * kRampOnset / 6.0 + hold * (after_onset - p * hold / 2.0) +
         p * kRampEnd * kRampEnd / 6.0;
}

}  // namespace wardarm

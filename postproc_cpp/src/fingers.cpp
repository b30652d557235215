// When the fingers move along a chunk, and where the arm has to stand for them.
#include <algorithm>
#include <cmath>

#include "wardarm/chunk.hpp"

namespace wardarm {
namespace {

// Fingers move where the opening changes by more than this a point (0.4 a second), or drifts as far.
constexpr double kGripStep = 0.02;
// Such a movement begins and ends where the change falls below this: the gripper's own unit (1/255).
constexpr double kGripTail = 0.004;
// A closing or opening in place: the points on both sides of it stay within this.
constexpr double kDwellSpread_m = 0.012;
// A closing during which the chunk creeps is gathered to one place as well: no farther than this in all, and no faster.
constexpr double kGatherSpread_m = 0.020;
constexpr double kCreep_m = 0.0025;  // a point: 50 mm/s
// A change of the opening that is meant, and no noise of the model's.
constexpr double kGripMeant = 0.15;
// A change that ends at or below this is meant too: the fingers shall hold something (player.script, CLOSED).
constexpr double kGripClosed = 0.06;
// Fingers need 0.5 s from one end to the other, 0.1 a point; and what a model is off by.
constexpr double kGripMost = 0.11;
constexpr int kWindow = 2;  // points before and after a small change over which the chunk must stand, too

double step_at(const Openings& said, int i) {
  return std::fabs(said[static_cast<std::size_t>(i)] - said[static_cast<std::size_t>(i - 1)]);
}

// How far the position spreads over some points, m.
double spread_of(const Chunk& chunk, int first, int last) {
  const auto rows = chunk.position_m.middleRows(first, last - first + 1);
  return (rows.colwise().maxCoeff() - rows.colwise().minCoeff()).norm();
}

// Points over which the opening changes: all of them, and those between which it changes fast.
struct Run {
  int first, end;
  int core_first, core_end;
};

Run run_around(const Openings& said, int i, int earliest) {
  Run run{i - 1, i, i - 1, i};
  while (run.first > earliest && step_at(said, run.first) > kGripTail) --run.first;
  for (int k = i + 1; k < kPoints && k <= run.end + 2; ++k) {  // a gap of one point is still the same movement
    if (step_at(said, k) > kGripTail) run.end = k;
    if (step_at(said, k) > kGripStep) run.core_end = k;
  }
  return run;
}

// Puts `count` more points like `end` behind it. What no longer fits the next chunk will say again.
void stay_longer(Chunk& chunk, Openings& said, int end, int count) {
  for (int k = kPoints - 1; k > end; --k) {
    const int from = std::max(end, k - count);
    const auto to = static_cast<std::size_t>(k);
    chunk.position_m.row(k) = Eigen::RowVector3d(chunk.position_m.row(from));
    chunk.orientation[to] = Eigen::Quaterniond(chunk.orientation[static_cast<std::size_t>(from)]);
    said[to] = said[static_cast<std::size_t>(from)];
  }
}

}  // namespace

bool plan_fingers(Chunk& chunk, double opening, bool standing, bool loaded, Refusal& why) {
  Openings said = chunk.grip;
  Openings& told = chunk.grip;
  if (opening >= 0.0) said[0] = std::min(opening, 1.0);
  told[0] = said[0];
  chunk.dwell_count = 0;
  chunk.gathered = false;
  double held = said[0];  // what the fingers are told while they do not move
  double seen = said[0];  // the chunk's word for it
  int i = 1;
  int earliest = 0;
  const auto hold_to = [&](int end) {
    for (; i <= end; ++i) told[static_cast<std::size_t>(i)] = held;
  };
  const auto at = [](int k) { return static_cast<std::size_t>(k); };
  while (i < kPoints) {
    // A closing that was not finished, or a letting go: an arm that stands goes on standing for it. Empty fingers open
    // under way.
    const bool unfinished =
        i == 1 && standing && (said[1] < held - kGripTail || (loaded && said[1] > held + kGripStep));
    if (!unfinished && std::fabs(said[at(i)] - seen) <= kGripStep) {
      hold_to(i);
      continue;
    }
    const int noticed = i;
    Run run = run_around(said, i, earliest);
    const double wanted = said[at(run.end)];
    const double change = wanted - held;
    const bool meant = std::fabs(change) > kGripMeant || (held > kGripClosed && wanted <= kGripClosed);
    double spread_m = spread_of(chunk, run.first, run.end);
    int end = run.end;
    if (spread_m >= kDwellSpread_m) {  // what goes before and after may be slow enough to be done in place as well
      const double rest =
          std::fabs(wanted - said[at(run.core_end)]) + std::fabs(said[at(run.core_first)] - said[at(run.first)]);
      if (rest <= kGripMeant) {
        spread_m = spread_of(chunk, run.core_first, run.core_end);
        run.first = run.core_first;
        end = run.core_end;
      }
    }
    const bool in_place = spread_m < kDwellSpread_m;
    const bool bound_to_stand = meant && (change < 0.0 || loaded);
    const bool creeps =
        !in_place && bound_to_stand && spread_m <= std::min(kGatherSpread_m, kCreep_m * (end - run.first));
    const double most_spread_m = creeps ? kGatherSpread_m : kDwellSpread_m;
    const bool stands = creeps || (in_place && (unfinished || meant ||
                                                spread_of(chunk, std::max(0, run.first - kWindow),
                                                          std::min(kPoints - 1, end + kWindow + 1)) < kDwellSpread_m));
    if (!stands && bound_to_stand && !in_place) {
      return why.refuse(PlanStatus::kNoLaw, "point %d: the fingers %s while the arm moves on by %.0f mm, limit %.0f mm",
                        noticed, change < 0.0 ? "close" : "let go of the load", spread_m * 1e3, kDwellSpread_m * 1e3);
    }
    if (!stands) {
      if (meant) {  // empty fingers open under way
        for (i = std::min(i, run.first + 1); i <= run.end; ++i) told[at(i)] = said[at(i)];
        held = wanted;
      }
      hold_to(run.end);
      seen = wanted;
      earliest = run.end;
      continue;
    }
    if (chunk.dwell_count == kMaxDwells) {
      return why.refuse(PlanStatus::kNoLaw, "point %d: the fingers move more than %d times", noticed, kMaxDwells);
    }
    chunk.gathered = chunk.gathered || creeps;
    // An arm that moves cannot stand from its first point on: the fingers wait for the second.
    const int first = standing ? run.first : std::max(run.first, 1);
    end = std::max(end, first + 1);
    const int needed = static_cast<int>(std::ceil(std::fabs(change) / kGripMost - 1e-6));
    while (end < kPoints - 1 && end - first < needed && spread_of(chunk, first, end + 1) < most_spread_m) ++end;
    end = std::min(end, kPoints - 1);
    if (end - first < needed) {
      const int more = std::min(needed - (end - first), kPoints - 1 - end);
      stay_longer(chunk, said, end, more + 1);  // the point after it too
      end += more;
    }
    hold_to(first);
    for (i = first + 1; i <= end; ++i) {
      const double goal = i >= run.core_end ? wanted : said[at(i)];
      const double step = std::clamp(goal - held, -kGripMost, kGripMost);
      held = std::fabs(goal - held - step) < 1e-9 ? goal : held + step;
      told[at(i)] = held;
    }
    // One point more: the last opening is commanded with the next knot, and the fingers lag.
    chunk.dwells[at(chunk.dwell_count++)] = {first, std::min(end + 1, kPoints - 1)};
    seen = wanted;
    earliest = end;
  }
  return true;
}

}  // namespace wardarm

// One RawChunk in, one Trajectory out: joins, epochs and the last published trajectories.
#pragma once
#include <array>
#include <cstdint>
#include <memory>

#include "wardarm/layout.hpp"
#include "wardarm/planner.hpp"

namespace wardarm {

// An arm status older than this is not a position to start from.
inline constexpr double kArmStatusFresh_s = 0.5;

class Answerer {
 public:
  explicit Answerer(const Params& params);

  // Takes over what a predecessor published, so that joins and ids survive a restart.
  void remember(const Trajectory& published);
  // Plans `raw`; `status` may be null (no arm yet). The reference stays good until the next call.
  const Trajectory& answer(const RawChunk& raw, const ArmStatus* status, std::uint64_t now_ns);

  [[nodiscard]] std::uint64_t last_raw_id() const { return last_raw_id_; }
  [[nodiscard]] const Planner& planner() const { return planner_; }

 private:
  // Start state of the chunk. False: refused.
  bool find_start(const RawChunk& raw, const ArmStatus* status, std::uint64_t now_ns, PlanStart& start,
                  Refusal& why) const;

  static constexpr std::size_t kHistory = 8;
  Planner planner_;
  std::unique_ptr<std::array<Trajectory, kHistory>> history_;  // by id modulo kHistory; id 0 = empty
  Trajectory out_{};
  std::uint64_t last_id_ = 0;
  std::uint64_t last_raw_id_ = 0;
};

}  // namespace wardarm

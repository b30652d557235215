// From a chunk and a start state to a trajectory within every limit, or a refusal in plain words.
//
// docs/motion.md has the method and its equations. One planner object owns all working memory (about 400 KB): plan()
// neither allocates nor throws.
#pragma once
#include <string>
#include <vector>

#include "wardarm/chunk.hpp"
#include "wardarm/collision.hpp"
#include "wardarm/law.hpp"
#include "wardarm/limits.hpp"
#include "wardarm/params.hpp"
#include "wardarm/path.hpp"

namespace wardarm {

// What measurements vary; the program uses the defaults.
struct PlanOptions {
  bool free = false;         // faster than the chunk's own timing where the limits allow
  bool stops = true;         // slower where the longest ramp would not stop within the limits
  double limit_share = 1.0;  // of every speed, acceleration and jerk limit
};

class Planner {
 public:
  // Throws ParamsError if a key is missing or wrong (docs/motion.md lists them).
  explicit Planner(const Params& params);
  Planner(const Planner&) = delete;  // path_ and law_ refer to arm_
  Planner& operator=(const Planner&) = delete;
  Planner(Planner&&) = delete;
  Planner& operator=(Planner&&) = delete;
  ~Planner() = default;

  // Plans `raw` from `start` into `out`: everything but ids and stamps. out.status says how it went.
  void plan(const RawChunk& raw, const PlanStart& start, Trajectory& out) { plan(raw, start, {}, out); }
  void plan(const RawChunk& raw, const PlanStart& start, const PlanOptions& options, Trajectory& out);

  [[nodiscard]] const Ur5e& arm() const { return arm_; }
  [[nodiscard]] const std::vector<std::string>& profile_names() const { return profile_names_; }
  // Fits of the last plan(), for the benchmark.
  [[nodiscard]] int last_rounds() const { return law_.rounds(); }

 private:
  [[nodiscard]] std::uint32_t limited(double duration_s) const;
  void find_ramp(const LimitProfile& limits, Trajectory& out) const;
  bool motion_is_clear(const LimitProfile& limits, Refusal& why) const;
  bool stands_for_fingers(bool loaded, Refusal& why) const;
  void write_knots(Trajectory& out) const;

  Ur5e arm_;
  Workspace space_;
  std::vector<LimitProfile> profiles_;
  std::vector<std::string> profile_names_;
  Chunk chunk_{};
  Path path_;
  Law law_;
};

}  // namespace wardarm

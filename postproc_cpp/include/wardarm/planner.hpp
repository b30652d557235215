// From a chunk and a start state to a trajectory within every limit, or a refusal in plain words.
//
// docs/motion.md has the method and its equations. One planner object owns all working memory (about 300 KB): plan()
// neither allocates nor throws.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "wardarm/chunk.hpp"
#include "wardarm/collision.hpp"
#include "wardarm/limits.hpp"
#include "wardarm/motion.hpp"
#include "wardarm/pace.hpp"
#include "wardarm/params.hpp"
#include "wardarm/spline.hpp"

namespace wardarm {

// Where the new motion begins: the commanded state at the join, and the opening commanded there.
struct PlanStart {
  JointState state;
  bool at_rest;
};

class Planner {
 public:
  explicit Planner(const Params& params);

  // Plans `raw` from `start` into `out`: everything but ids and stamps. out.status says how it went.
  void plan(const RawChunk& raw, const PlanStart& start, Trajectory& out);

  [[nodiscard]] const Ur5e& arm() const { return arm_; }
  [[nodiscard]] const std::vector<LimitProfile>& profiles() const { return profiles_; }
  [[nodiscard]] const std::vector<std::string>& profile_names() const { return profile_names_; }
  // Fits of the last plan(), for the benchmark.
  [[nodiscard]] int last_rounds() const { return rounds_; }

 private:
  bool follow(const PlanStart& start, const LimitProfile& limits, Trajectory& out, Refusal& why);
  bool starts_at(const Pose& at, Refusal& why) const;
  void lay_path(const Pose& at, bool slow, std::span<Row> rows, std::span<double> weight);
  void lead_in(const PlanStart& start, std::span<Row> lead, const Row& first, std::span<const Row> rows) const;
  bool smooth_path(const PlanStart& start, TrajectoryPoint* points, Refusal& why);
  bool solve_joints(const PlanStart& start, Refusal& why);
  void limit_pace(const LimitProfile& limits);
  bool find_law(const PlanStart& start, const LimitProfile& limits, Refusal& why);
  bool keeps_dwells();
  [[nodiscard]] bool dwells_soon() const;
  [[nodiscard]] double place_after(double t_s, int& hint) const;
  void build_reference(const PlanStart& start, double blend_s);
  bool check_path(Refusal& why);
  void write_knots(Trajectory& out) const;
  [[nodiscard]] Joints joints_at(double place) const;
  [[nodiscard]] Joints joint_slope_at(double place) const;
  [[nodiscard]] double grip_at(double place) const;
  [[nodiscard]] double dwell_weight(double place) const;

  Ur5e arm_;
  Workspace space_;
  std::vector<LimitProfile> profiles_;
  std::vector<std::string> profile_names_;

  Chunk chunk_{};
  std::array<Row, kPoints> path_{};  // smoothed: position (m), rotation vector about `turn_origin_`
  Eigen::Quaterniond turn_origin_;
  std::array<Joints, kPoints> q_;
  Pace pace_;
  Reference reference_{};
  std::array<double, kMaxKnots> place_{};  // on the chunk, of each knot
  JointSpline spline_, best_;
  std::array<double, kMaxKnots> best_place_{};
  double settle_s_ = 0.0;
  std::array<double, kMaxKnots> slack_{};  // weight of the path at each knot, away from dwells
  bool cut_short_ = false;
  Ratios ratios_;
  int rounds_ = 0;
  std::unique_ptr<MotionSamples> samples_;
};

}  // namespace wardarm

// The motion law: when the arm is where on the path, so that every limit holds from the start state to rest.
//
// docs/motion.md has the method. find() repeats: pace, reference, fit, compare with the limits, slow down where needed.
#pragma once
#include <array>
#include <memory>

#include "wardarm/motion.hpp"
#include "wardarm/pace.hpp"
#include "wardarm/path.hpp"

namespace wardarm {

struct LawOptions {
  double speed_scale = 1.0;  // share of the chunk's own timing
  bool free = false;         // faster than the chunk's own timing where the limits allow
  bool stops = true;         // slower where the longest ramp would not stop within the limits
};

class Law {
 public:
  explicit Law(const Ur5e& arm) : arm_(arm), samples_(std::make_unique<MotionSamples>()) {}

  // Finds the joint motion along `path` from `start`. False: no motion within the limits was found.
  bool find(const Path& path, const PlanStart& start, const LimitProfile& limits, const LawOptions& options,
            Refusal& why);

  [[nodiscard]] const JointSpline& spline() const { return spline_; }
  [[nodiscard]] const Ratios& ratios() const { return ratios_; }
  [[nodiscard]] const MotionSamples& samples() const { return *samples_; }
  // Place on the chunk at knot k, and the last point it reaches.
  [[nodiscard]] double place(int k) const { return place_[static_cast<std::size_t>(k)]; }
  [[nodiscard]] int last_point() const { return pace_.last(); }
  [[nodiscard]] bool cut_short() const { return pace_.last() < path_->last_moving(); }
  [[nodiscard]] double waits_s() const;  // standing before and after the fingers move
  // Largest ratio of a stop that takes the profile's longest ramp.
  [[nodiscard]] double stop_ratio_at_longest() const { return stop_; }
  // Points of the path that the arm's own motion at the start set. False: they do not say where it goes.
  bool write_bridge(TrajectoryPoint* points, Refusal& why) const;
  [[nodiscard]] bool bridged() const { return bridge_.by_m > 0.0; }
  [[nodiscard]] int rounds() const { return rounds_; }

 private:
  struct Findings;
  void limit_pace();
  void build_pace(double start_rate);
  void build_reference(const PlanStart& start, double blend_s);
  void examine(double blend_s, int part, Findings& found);
  void slow_down(const Findings& found);
  void go_direct(const PlanStart& start, double& blend_s);
  bool stops_in_time(double blend_s, Findings& found);
  void speed_up(const Findings& found);
  void keep_best();
  void take_best(Findings& found);
  bool keeps_path(double fade_s, bool last_chance);
  bool bridge_is_short(const PlanStart& start, Refusal& why) const;
  bool refuse_off_path(Refusal& why) const;
  [[nodiscard]] double place_within(int k, double x) const;
  bool keeps_dwells(bool last_chance);
  [[nodiscard]] bool dwells_soon() const;
  [[nodiscard]] double place_after(double t_s, int& hint) const;
  [[nodiscard]] bool stands_at(double t_s, double place) const;
  [[nodiscard]] double first_blend(const PlanStart& start, double start_rate) const;

  const Ur5e& arm_;
  const Path* path_ = nullptr;
  const LimitProfile* limits_ = nullptr;
  Pace pace_;
  Reference reference_{};
  JointSpline spline_;
  std::array<double, kMaxKnots> place_{};
  std::array<double, kMaxKnots> follow_{};        // weight of the path at each knot: grows where the motion leaves it
  std::array<double, kMaxKnots> slack_{};         // weight of the path at each knot, away from dwells
  static constexpr double kFreeRate = 8.0;        // times the chunk's own timing, where only the limits set the pace
  static constexpr double kLongestBlend_s = 2.5;  // for what the chunk lacks of the arm's motion at the start to fade
  struct Wait {
    double before_s, after_s;
  };
  std::array<Wait, kMaxDwells> wait_{};  // at each dwell: the arm waits for itself
  double tail_s_ = 0.0;                  // to come to rest after the pace does
  double direct_s_ = 0.0;                // above 0: fades straight to the first dwell in that time
  LawOptions options_;
  struct Passing {
    double by_m = 0.0;  // 0: nowhere beyond the tolerance
    int point = 0;      // near the largest
    int last_point = 0;
  };
  Passing off_;           // the smoothed path
  Passing bridge_;        // the same while what the arm brought along fades: there the motion is the path
  double moved_m_ = 0.0;  // farthest from its place while the fingers move
  int rounds_ = 0;
  double stop_ = 0.0;
  bool under_way_ = false;
  Ratios ratios_;
  struct Best {
    JointSpline spline;
    std::array<double, kMaxKnots> place;
    Pace pace;
    double duration_s = 0.0;  // 0: none yet
  } best_;                    // of a free search
  std::unique_ptr<MotionSamples> samples_;
};

}  // namespace wardarm

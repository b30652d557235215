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

class Law {
 public:
  explicit Law(const Ur5e& arm) : arm_(arm), samples_(std::make_unique<MotionSamples>()) {}

  // Finds the joint motion along `path` from `start`. False: no motion within the limits was found.
  bool find(const Path& path, const PlanStart& start, const LimitProfile& limits, Refusal& why);

  [[nodiscard]] const JointSpline& spline() const { return spline_; }
  [[nodiscard]] const Ratios& ratios() const { return ratios_; }
  [[nodiscard]] const MotionSamples& samples() const { return *samples_; }
  // Place on the chunk at knot k, and the last point it reaches.
  [[nodiscard]] double place(int k) const { return place_[static_cast<std::size_t>(k)]; }
  [[nodiscard]] int last_point() const { return pace_.last(); }
  [[nodiscard]] double settle_s() const { return settle_s_; }
  [[nodiscard]] int rounds() const { return rounds_; }

 private:
  struct Findings;
  void limit_pace();
  void build_pace(double start_rate);
  void build_reference(const PlanStart& start, double blend_s);
  void examine(double blend_s, Findings& found);
  void slow_down(const Findings& found);
  bool keeps_dwells();
  [[nodiscard]] bool dwells_soon() const;
  [[nodiscard]] double place_after(double t_s, int& hint) const;
  [[nodiscard]] double first_blend(const PlanStart& start, double start_rate) const;

  const Ur5e& arm_;
  const Path* path_ = nullptr;
  const LimitProfile* limits_ = nullptr;
  Pace pace_;
  Reference reference_{};
  JointSpline spline_;
  std::array<double, kMaxKnots> place_{};
  std::array<double, kMaxKnots> slack_{};  // weight of the path at each knot, away from dwells
  double settle_s_ = 0.0;                  // the arm waits for itself at the first dwell
  int rounds_ = 0;
  Ratios ratios_;
  std::unique_ptr<MotionSamples> samples_;
};

}  // namespace wardarm

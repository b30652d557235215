// The chunk's smoothed path in base and in joint angles, one row a point of the model (20 Hz).
#pragma once
#include <array>
#include <span>

#include "wardarm/chunk.hpp"
#include "wardarm/collision.hpp"
#include "wardarm/smoothing.hpp"
#include "wardarm/spline.hpp"

namespace wardarm {

// Where the new motion begins: the commanded state at the join.
struct PlanStart {
  JointState state;
  bool at_rest;
  double opening = -1.0;  // what the fingers were told last, 0..1; below 0: not known
};

// True if the arm counts as standing where its fingers move.
bool stands(const Ur5e& arm, const PlanStart& start);

inline Eigen::Vector3d position_of(const Row& row) { return {row.value[0], row.value[1], row.value[2]}; }
inline Eigen::Vector3d turn_of(const Row& row) { return {row.value[3], row.value[4], row.value[5]}; }

class Path {
 public:
  Path(const Ur5e& arm, const Workspace& space) : arm_(arm), space_(space) {}

  // Smooths `chunk` from `start` on, solves the joints of every point and checks each. Fills the 64 smoothed points.
  // `chunk` must outlive the path. `tilt_rad`: farthest from tool-down, or as far as the start is. False: refused, and
  // `why` says so.
  bool build(const Chunk& chunk, const PlanStart& start, double tilt_rad, TrajectoryPoint* points, Refusal& why);
  [[nodiscard]] double most_tilt(const PlanStart& start, double limit_rad) const;
  bool is_upright(const Eigen::Matrix3d& rotation, const char* what, int point, Refusal& why) const;

  // A point's position (m, base) and rotation vector (rad, in the tool's frame at the start).
  [[nodiscard]] const Row& row(int point) const { return row_[static_cast<std::size_t>(point)]; }
  [[nodiscard]] const Joints& joints(int point) const { return q_[static_cast<std::size_t>(point)]; }
  [[nodiscard]] std::span<const Dwell> dwells() const {
    return {dwells_.data(), static_cast<std::size_t>(dwell_count_)};
  }
  // The point after which the chunk only stands, its fingers too; 63 if it moves to its end.
  [[nodiscard]] int last_moving() const { return last_moving_; }
  // Between points; `place` counts points, 0..63.
  [[nodiscard]] Joints joints_at(double place) const;
  [[nodiscard]] Joints slope_at(double place) const;  // rad/s at the chunk's own timing
  [[nodiscard]] double grip_at(double place) const;   // opening 0..1
  [[nodiscard]] bool in_dwell(double place) const;    // the fingers move there and the arm must not

 private:
  bool starts_at(const Pose& at, Refusal& why) const;
  void lay_path(const Pose& at, bool slow, std::span<Row> rows, std::span<double> weight);
  bool lead_in(const PlanStart& start, std::span<Row> lead, const Row& first, std::span<const Row> rows) const;
  bool smooth(const PlanStart& start, TrajectoryPoint* points, Refusal& why);
  bool solve_joints(const PlanStart& start, Refusal& why);
  bool solve_in_order(const PlanStart& start, int& solved, Refusal& why);
  void find_last_moving();

  const Ur5e& arm_;
  const Workspace& space_;
  const Chunk* chunk_ = nullptr;
  std::array<Row, kPoints> row_{};
  Eigen::Quaterniond turn_origin_ = Eigen::Quaterniond::Identity();
  std::array<Joints, kPoints> q_;
  std::array<double, kPoints> grip_{};
  std::array<Dwell, kMaxDwells> dwells_{};
  int dwell_count_ = 0;
  double tilt_rad_ = 0.0;
  int last_moving_ = kPoints - 1;
};

}  // namespace wardarm

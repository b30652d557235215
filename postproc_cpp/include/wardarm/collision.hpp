// The arm against itself, its table and its workspace, as capsules and planes.
#pragma once
#include <Eigen/Core>
#include <span>

#include "wardarm/params.hpp"
#include "wardarm/refusal.hpp"
#include "wardarm/ur5e.hpp"

namespace wardarm {

struct Workspace {
  // box_low, box_high (3), table_z, floor_links_z (1); patient_low, patient_high (3) if there is a patient's place
  explicit Workspace(const Params& params);
  Eigen::Vector3d low_m, high_m;  // box for the TCP
  double table_z_m,
      floor_links_z_m;  // TCP above the first, elbow and wrists above the second
  // The patient's place: no link enters. Low above high: there is none.
  Eigen::Vector3d patient_low_m = Eigen::Vector3d::Constant(1.0);
  Eigen::Vector3d patient_high_m = Eigen::Vector3d::Constant(-1.0);

  [[nodiscard]] bool has_patient() const { return patient_low_m.x() < patient_high_m.x(); }
  // False if certainly no lane of the TCP is outside.
  [[nodiscard]] bool may_leave(const Vec<Lane>& tcp_m) const {
    return any((tcp_m.x < low_m.x()) | (tcp_m.x > high_m.x()) | (tcp_m.y < low_m.y()) | (tcp_m.y > high_m.y()) |
               (tcp_m.z < low_m.z()) | (tcp_m.z > high_m.z()) | (tcp_m.z < table_z_m));
  }
  // False if the TCP is outside; `point` and `what` go into the reason.
  bool holds(const Eigen::Vector3d& tcp_m, const char* what, int point, Refusal& why) const;
};

// Joint limits, singularity, links above the table, and link against link. `what` and `point` go into the reason.
bool configuration_is_clear(const Ur5e& arm, const Workspace& space, const Joints& q, const char* what, int point,
                            Refusal& why);

// The same for many at once. False: one of them may not be, and configuration_is_clear says whether and which.
bool all_clear(const Ur5e& arm, const Workspace& space, std::span<const Joints> q);

}  // namespace wardarm

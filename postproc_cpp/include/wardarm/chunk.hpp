// A chunk in metres and rotations: what the model said, validated and denormalised.
#pragma once
#include <Eigen/Core>
#include <Eigen/Geometry>
#include <array>
#include <cstdint>

#include "wardarm/layout.hpp"
#include "wardarm/model_box.hpp"
#include "wardarm/refusal.hpp"
#include "wardarm/ur5e.hpp"

namespace wardarm {

inline constexpr double kPointPeriod_s = 0.05;  // 20 Hz, the model's contract

using PointTable = Eigen::Matrix<double, kPoints, 3, Eigen::RowMajor>;

// Points first..last at which the arm must stand still because the fingers move.
struct Dwell {
  int first, last;
};
inline constexpr int kMaxDwells = 8;

using Openings = std::array<double, kPoints>;  // 0..1

struct Chunk {
  PointTable position_m;
  std::array<Eigen::Quaterniond, kPoints> orientation;  // tool in base, as the model said
  Openings grip;
  std::array<Dwell, kMaxDwells> dwells;
  int dwell_count = 0;
  bool gathered = false;  // a dwell's points creep: they spread farther than a closing in place does
};

// Largest step between two neighbouring points: 1 m/s and 400 deg/s at 20 Hz, beyond every profile.
inline constexpr double kMaxStep_m = 0.05;
inline constexpr double kMaxStep_rad = 0.35;
// The orientation Rz(yaw) Ry(pitch) Rx(roll) R_D of a point, and back.
Eigen::Quaterniond orientation_of(const TrajectoryPoint& point);
TrajectoryPoint point_of(const Eigen::Vector3d& position_m, const Eigen::Quaterniond& orientation);

// Checks bits, range and steps; fills `chunk` and the 64 raw points. False: refused, and `why` says so.
bool read_chunk(const std::uint16_t* traj, const std::uint16_t* grip, Chunk& chunk, TrajectoryPoint* raw_points,
                Refusal& why);

// What the fingers are told at each point, and the dwells. `opening`: what they were told last, 0..1, below 0 if not
// known; `standing`: the arm stands at the start. Openings change in dwells only, no faster than fingers can follow: a
// chunk that gives them less time is stretched there. Noise moves no finger. Refused, and `why` says so, if the fingers
// close, or `loaded` open, while the arm moves on; empty ones may open under way.
bool plan_fingers(Chunk& chunk, double opening, bool standing, bool loaded, Refusal& why);

}  // namespace wardarm

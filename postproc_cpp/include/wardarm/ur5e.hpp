// Kinematics of a UR5e from its Denavit-Hartenberg parameters: pose, Jacobian, derivatives, branch-locked inverse.
//
// The parameters come from the configuration because a real arm carries a factory calibration 1-2 mm away from
// the nominal table. The closed-form inverse assumes the nominal structure (joints 2, 3, 4 parallel); Newton steps
// on the full model remove what a calibration changes.
#pragma once
#include <Eigen/Core>
#include <Eigen/Geometry>
#include <array>

#include "wardarm/lanes.hpp"
#include "wardarm/layout.hpp"
#include "wardarm/params.hpp"

namespace wardarm {

using Joints = Eigen::Matrix<double, kDof, 1>;

struct Pose {
  Eigen::Matrix3d rotation;  // columns: the frame's axes in base
  Eigen::Vector3d position;  // m, base
};

// Where the links are, for distances: origins of the DH frames 1..6 and the TCP, m, base.
template <class T>
struct LinkPoints {
  std::array<Vec<T>, kDof> origin;
  Vec<T> upper_arm_shift;  // the upper arm runs beside the line shoulder-elbow by this
  Vec<T> tcp;
};

// Sine and cosine of every joint angle; T is double or Lane.
template <class T>
struct Trig {
  std::array<T, kDof> s, c;
};
Trig<double> trig_of(const Joints& q);

// Signs of the three choices of a closed-form inverse.
struct Branch {
  int shoulder, wrist, elbow;
};

enum class Reach { kOk, kShoulder, kWrist, kElbow, kNoConvergence };

// Derivatives of a motion: of each joint, of the TCP's position and of its orientation (base).
template <class T>
struct TcpMotion {
  Vec<T> position, v, a, j;  // m, m/s, m/s2, m/s3
  Vec<T> w, wa, wj;          // rad/s, rad/s2, rad/s3
};

class Ur5e {
 public:
  explicit Ur5e(const Params& params);  // dh_a, dh_d, dh_alpha (6 each), tcp (6: m, rotation vector)

  [[nodiscard]] Pose tcp(const Joints& q) const;
  template <class T>
  [[nodiscard]] LinkPoints<T> link_points(const Trig<T>& trig) const;
  // Rows 0-2: linear, rows 3-5: angular velocity of the TCP in base per rad/s.
  [[nodiscard]] Eigen::Matrix<double, 6, 6> jacobian(const Joints& q) const;
  [[nodiscard]] Branch branch(const Joints& q) const;
  // Joints for a TCP pose on one branch, each turned to within pi of `near`.
  Reach inverse(const Pose& tcp, const Branch& branch, const Joints& near, Joints& out) const;
  // |sin q3|, |sin q5| and the wrist's distance from the base axis (m): small means singular.
  template <class T>
  struct Singularity {
    T elbow, wrist, shoulder_m;
  };
  template <class T>
  [[nodiscard]] Singularity<T> singularity(const Trig<T>& trig) const;

  // Position and derivatives of the TCP for joint motion q, qd, qdd, qddd (arrays of six T).
  template <class T>
  void motion(const T* q, const T* qd, const T* qdd, const T* qddd, TcpMotion<T>& out) const;

 private:
  [[nodiscard]] Pose flange(const Joints& q) const;
  Reach closed_form(const Pose& flange, const Branch& branch, const Joints& near, Joints& out) const;

  std::array<double, kDof> a_{}, d_{}, cos_alpha_{}, sin_alpha_{};
  Eigen::Matrix3d tool_rotation_;
  Eigen::Vector3d tool_position_;
};

template <class T>
LinkPoints<T> Ur5e::link_points(const Trig<T>& trig) const {
  LinkPoints<T> points;
  const T zero = trig.s[0] * 0.0;
  const T one = zero + 1.0;
  Vec<T> x{one, zero, zero}, y{zero, one, zero}, z{zero, zero, one}, at{zero, zero, zero};
  for (std::size_t k = 0; k < kDof; ++k) {
    // UR's elbow offset: the upper arm's axis lies 0.138 m beside the shoulder, the forearm's 0.007 m.
    if (k == 1) points.upper_arm_shift = z * 0.138;
    const Vec<T> turned_x = x * trig.c[k] + y * trig.s[k];
    const Vec<T> turned_y = y * trig.c[k] - x * trig.s[k];
    at = at + z * d_[k] + turned_x * a_[k];
    x = turned_x;
    y = turned_y * cos_alpha_[k] + z * sin_alpha_[k];
    z = z * cos_alpha_[k] - turned_y * sin_alpha_[k];
    points.origin[k] = at;
  }
  points.tcp = at + x * tool_position_.x() + y * tool_position_.y() + z * tool_position_.z();
  return points;
}

template <class T>
Ur5e::Singularity<T> Ur5e::singularity(const Trig<T>& trig) const {
  const auto& [s, c] = trig;
  const T c23 = c[1] * c[2] - s[1] * s[2];
  const T s23 = s[1] * c[2] + c[1] * s[2];
  const T s234 = s23 * c[3] + c23 * s[3];
  return {magnitude(s[2]), magnitude(s[4]), magnitude(a_[1] * c[1] + a_[2] * c23 + d_[4] * s234)};
}

template <class T>
void Ur5e::motion(const T* q, const T* qd, const T* qdd, const T* qddd, TcpMotion<T>& out) const {
  const T zero = q[0] * 0.0;
  const T one = zero + 1.0;
  Vec<T> x{one, zero, zero}, y{zero, one, zero}, z{zero, zero, one};  // axes of the frame before this joint
  const Vec<T> none{zero, zero, zero};
  Vec<T> w = none, wa = none, wj = none, p = none, v = none, a = none, j = none;
  for (int i = 0; i < kDof; ++i) {
    const auto k = static_cast<std::size_t>(i);
    // The axis z turns with the links before it: its first two derivatives.
    const Vec<T> z1 = cross(w, z);
    const Vec<T> z2 = cross(wa, z) + cross(w, z1);
    wj = wj + z * qddd[i] + z1 * (qdd[i] * 2.0) + z2 * qd[i];
    wa = wa + z * qdd[i] + z1 * qd[i];
    w = w + z * qd[i];
    T s, c;
    sine_cosine(q[i], s, c);
    const Vec<T> turned_x = x * c + y * s;
    const Vec<T> turned_y = y * c - x * s;
    Vec<T> r = z * d_[k] + turned_x * a_[k];
    if (i == kDof - 1) {  // the tool is part of the last link
      const Vec<T> last_y = turned_y * cos_alpha_[k] + z * sin_alpha_[k];
      const Vec<T> last_z = z * cos_alpha_[k] - turned_y * sin_alpha_[k];
      r = r + turned_x * tool_position_.x() + last_y * tool_position_.y() + last_z * tool_position_.z();
    }
    const Vec<T> r1 = cross(w, r);
    const Vec<T> r2 = cross(wa, r) + cross(w, r1);
    p = p + r;
    v = v + r1;
    a = a + r2;
    j = j + cross(wj, r) + cross(wa, r1) * 2.0 + cross(w, r2);
    x = turned_x;
    y = turned_y * cos_alpha_[k] + z * sin_alpha_[k];
    z = z * cos_alpha_[k] - turned_y * sin_alpha_[k];
  }
  out = {p, v, a, j, w, wa, wj};
}

}  // namespace wardarm

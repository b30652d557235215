#include "wardarm/ur5e.hpp"

#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <numbers>

namespace wardarm {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kPositionTolerance_m = 1e-9;
constexpr double kAngleTolerance_rad = 1e-9;
constexpr int kNewtonSteps = 8;

double turned_near(double angle, double near) { return near + std::remainder(angle - near, 2.0 * kPi); }

Eigen::Matrix3d rotation_of(double x, double y, double z) {
  const Eigen::Vector3d vector(x, y, z);
  const double angle = vector.norm();
  if (angle < 1e-12) return Eigen::Matrix3d::Identity();
  return Eigen::AngleAxisd(angle, vector / angle).toRotationMatrix();
}

// Rotation vector of a small difference between two orientations.
Eigen::Vector3d small_rotation(const Eigen::Matrix3d& r) {
  return 0.5 * Eigen::Vector3d(r(2, 1) - r(1, 2), r(0, 2) - r(2, 0), r(1, 0) - r(0, 1));
}

}  // namespace

Trig<double> trig_of(const Joints& q) {
  Trig<double> trig;
  for (int first = 0; first < kDof; first += kLanes) {
    Lane x = spread(0.0);
    const int count = std::min(kLanes, kDof - first);
    for (int i = 0; i < count; ++i) x[i] = q[first + i];
    Lane s;
    Lane c;
    sine_cosine(x, s, c);
    for (int i = 0; i < count; ++i) {
      trig.s[static_cast<std::size_t>(first + i)] = s[i];
      trig.c[static_cast<std::size_t>(first + i)] = c[i];
    }
  }
  return trig;
}

Ur5e::Ur5e(const Params& params) {
  const auto a = params.numbers("dh_a", kDof);
  const auto d = params.numbers("dh_d", kDof);
  const auto alpha = params.numbers("dh_alpha", kDof);
  for (std::size_t i = 0; i < kDof; ++i) {
    a_[i] = a[i];
    d_[i] = d[i];
    // Quarter turns exactly: cos(pi/2) is 6e-17 in floating point.
    const double quarter_turns = std::round(alpha[i] / (kPi / 2));
    const bool exact = std::fabs(alpha[i] - quarter_turns * (kPi / 2)) < 1e-12;
    cos_alpha_[i] = exact ? std::round(std::cos(alpha[i])) : std::cos(alpha[i]);
    sin_alpha_[i] = exact ? std::round(std::sin(alpha[i])) : std::sin(alpha[i]);
  }
  const auto tcp = params.numbers("tcp", kDof);
  tool_position_ = Eigen::Vector3d(tcp[0], tcp[1], tcp[2]);
  tool_rotation_ = rotation_of(tcp[3], tcp[4], tcp[5]);
}

Pose Ur5e::flange(const Joints& q) const {
  const Trig<double> trig = trig_of(q);
  Pose at{Eigen::Matrix3d::Identity(), Eigen::Vector3d::Zero()};
  for (int i = 0; i < kDof; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const double s = trig.s[k];
    const double c = trig.c[k];
    const Eigen::Vector3d x = at.rotation.col(0) * c + at.rotation.col(1) * s;
    const Eigen::Vector3d y = at.rotation.col(1) * c - at.rotation.col(0) * s;
    const Eigen::Vector3d z = at.rotation.col(2);
    at.position += z * d_[k] + x * a_[k];
    at.rotation.col(0) = x;
    at.rotation.col(1) = y * cos_alpha_[k] + z * sin_alpha_[k];
    at.rotation.col(2) = z * cos_alpha_[k] - y * sin_alpha_[k];
  }
  return at;
}

Pose Ur5e::tcp(const Joints& q) const {
  const Pose at = flange(q);
  return {at.rotation * tool_rotation_, at.position + at.rotation * tool_position_};
}

Eigen::Matrix<double, 6, 6> Ur5e::jacobian(const Joints& q) const {
  const Trig<double> trig = trig_of(q);
  std::array<Eigen::Vector3d, kDof> axis;
  std::array<Eigen::Vector3d, kDof> origin;
  Pose at{Eigen::Matrix3d::Identity(), Eigen::Vector3d::Zero()};
  for (int i = 0; i < kDof; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const double s = trig.s[k];
    const double c = trig.c[k];
    const Eigen::Vector3d x = at.rotation.col(0) * c + at.rotation.col(1) * s;
    const Eigen::Vector3d y = at.rotation.col(1) * c - at.rotation.col(0) * s;
    const Eigen::Vector3d z = at.rotation.col(2);
    axis[k] = z;
    origin[k] = at.position;
    at.position += z * d_[k] + x * a_[k];
    at.rotation.col(0) = x;
    at.rotation.col(1) = y * cos_alpha_[k] + z * sin_alpha_[k];
    at.rotation.col(2) = z * cos_alpha_[k] - y * sin_alpha_[k];
  }
  const Eigen::Vector3d tip = at.position + at.rotation * tool_position_;
  Eigen::Matrix<double, 6, 6> jacobian;
  for (int i = 0; i < kDof; ++i) {
    const auto k = static_cast<std::size_t>(i);
    jacobian.block<3, 1>(0, i) = axis[k].cross(tip - origin[k]);
    jacobian.block<3, 1>(3, i) = axis[k];
  }
  return jacobian;
}

Branch Ur5e::branch(const Joints& q) const {
  const Pose at = flange(q);
  const double x5 = at.position.x() - d_[5] * at.rotation(0, 2);
  const double y5 = at.position.y() - d_[5] * at.rotation(1, 2);
  const double from_wrist = std::remainder(q[0] - std::atan2(y5, x5) - kPi / 2, 2.0 * kPi);
  return {from_wrist >= 0 ? 1 : -1, std::sin(q[4]) >= 0 ? 1 : -1, std::sin(q[2]) >= 0 ? 1 : -1};
}

// K. P. Hawkins, "Analytic Inverse Kinematics for the Universal Robots UR-5/UR-10 Arms" (2013), with the sines and
// cosines of joints 1, 5 and 6 taken algebraically.
Reach Ur5e::closed_form(const Pose& flange, const Branch& branch, const Joints& near, Joints& out) const {
  const Eigen::Matrix3d& r = flange.rotation;
  const Eigen::Vector3d& p = flange.position;
  const double x5 = p.x() - d_[5] * r(0, 2);
  const double y5 = p.y() - d_[5] * r(1, 2);
  const double radius = std::hypot(x5, y5);
  if (radius < d_[3]) return Reach::kShoulder;
  const double cos_phi = d_[3] / radius;
  const double sin_phi = std::sqrt(std::fmax(0.0, 1.0 - cos_phi * cos_phi)) * branch.shoulder;
  // theta1 = atan2(y5, x5) + pi/2 + phi
  const double s1 = (x5 * cos_phi - y5 * sin_phi) / radius;
  const double c1 = -(y5 * cos_phi + x5 * sin_phi) / radius;
  const double c5 = (p.x() * s1 - p.y() * c1 - d_[3]) / d_[5];
  if (std::fabs(c5) > 1.0) return Reach::kWrist;
  const double s5 = std::sqrt(1.0 - c5 * c5) * branch.wrist;
  if (std::fabs(s5) < 1e-6) return Reach::kWrist;
  const double c6 = (r(0, 0) * s1 - r(1, 0) * c1) / s5;
  const double s6 = (r(1, 1) * c1 - r(0, 1) * s1) / s5;
  const double level = c1 * r(0, 0) + s1 * r(1, 0);
  const double s234 = c5 * c6 * r(2, 0) - s6 * level;
  const double c234 = c5 * c6 * level + s6 * r(2, 0);
  const double norm234 = std::hypot(s234, c234);
  const double sn = s234 / norm234;
  const double cn = c234 / norm234;
  const double kc = c1 * p.x() + s1 * p.y() - sn * d_[4] + cn * s5 * d_[5];
  const double ks = p.z() - d_[0] + cn * d_[4] + sn * s5 * d_[5];
  const double c3 = (kc * kc + ks * ks - a_[1] * a_[1] - a_[2] * a_[2]) / (2.0 * a_[1] * a_[2]);
  if (std::fabs(c3) > 1.0) return Reach::kElbow;
  const double s3 = std::sqrt(1.0 - c3 * c3) * branch.elbow;
  const double q2 = std::atan2(ks, kc) - std::atan2(a_[2] * s3, a_[2] * c3 + a_[1]);
  const double q3 = std::atan2(s3, c3);
  out << turned_near(std::atan2(s1, c1), near[0]), turned_near(q2, near[1]), turned_near(q3, near[2]),
      turned_near(std::atan2(sn, cn) - q2 - q3, near[3]), turned_near(std::atan2(s5, c5), near[4]),
      turned_near(std::atan2(s6, c6), near[5]);
  return Reach::kOk;
}

Reach Ur5e::inverse(const Pose& tcp, const Branch& branch, const Joints& near, Joints& out) const {
  Pose wanted;
  wanted.rotation = tcp.rotation * tool_rotation_.transpose();
  wanted.position = tcp.position - wanted.rotation * tool_position_;
  const Reach reach = closed_form(wanted, branch, near, out);
  if (reach != Reach::kOk) return reach;
  for (int step = 0; step < kNewtonSteps; ++step) {
    const Pose seen = this->tcp(out);
    Eigen::Matrix<double, 6, 1> error;
    error.head<3>() = tcp.position - seen.position;
    const Eigen::Matrix3d turn = tcp.rotation * seen.rotation.transpose();
    if (turn.trace() < 2.0) return Reach::kNoConvergence;  // further than 60 degrees: not this branch
    error.tail<3>() = small_rotation(turn);
    if (error.head<3>().norm() < kPositionTolerance_m && error.tail<3>().norm() < kAngleTolerance_rad)
      return Reach::kOk;
    out += jacobian(out).partialPivLu().solve(error);
  }
  return Reach::kNoConvergence;
}

}  // namespace wardarm

// What the tests of the independent check share: a third reckoning of the arm (homogeneous DH matrices), a closed law
// of motion with its knots, parameter files, and a fixture that reads them.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "wardarm/envelope.hpp"

namespace wardarm {
namespace envelope_bench {

using Joints6 = std::array<double, 6>;
using Three = std::array<double, 3>;
inline constexpr double kDeg = 3.14159265358979323846 / 180.0;
inline const std::array<double, 6> kA{0, -0.425, -0.3922, 0, 0, 0};
inline const std::array<double, 6> kD{0.1625, 0, 0, 0.1333, 0.0997, 0.0996};
inline const std::array<double, 6> kAlpha{1.5707963267948966, 0, 0, 1.5707963267948966, -1.5707963267948966, 0};
inline const Joints6 kTcp{0.01, -0.02, 0.1558, 0.3, -0.2, -1.4};
inline const Joints6 kHome{26.4 * kDeg, -62.2 * kDeg, -97.4 * kDeg, -110.5 * kDeg, 90.0 * kDeg, -63.6 * kDeg};
inline const Joints6 kStep{0.5, 0.22, -0.3, 0.25, 0.35, -0.6};
inline constexpr double kDuration_s = 1.0;

// --- a third reckoning

using Matrix = std::array<std::array<double, 4>, 4>;

inline Matrix product(const Matrix& a, const Matrix& b) {
  Matrix out{};
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < 4; ++j)
      for (std::size_t k = 0; k < 4; ++k) out[i][j] += a[i][k] * b[k][j];
  return out;
}

inline Matrix link(double a, double d, double alpha, double q) {
  const double cq = std::cos(q), sq = std::sin(q), ca = std::cos(alpha), sa = std::sin(alpha);
  return {{{cq, -sq * ca, sq * sa, a * cq}, {sq, cq * ca, -cq * sa, a * sq}, {0, sa, ca, d}, {0, 0, 0, 1}}};
}

inline Matrix tool(const Joints6& tcp = kTcp) {
  const double angle = std::sqrt(tcp[3] * tcp[3] + tcp[4] * tcp[4] + tcp[5] * tcp[5]);
  const double by = angle > 0.0 ? angle : 1.0;
  const double x = tcp[3] / by, y = tcp[4] / by, z = tcp[5] / by;
  const double c = std::cos(angle), s = std::sin(angle), k = 1 - c;
  return {{{c + x * x * k, x * y * k - z * s, x * z * k + y * s, tcp[0]},
           {y * x * k + z * s, c + y * y * k, y * z * k - x * s, tcp[1]},
           {z * x * k - y * s, z * y * k + x * s, c + z * z * k, tcp[2]},
           {0, 0, 0, 1}}};
}

// The frames after each link, then the TCP.
inline std::array<Matrix, 7> frames(const Joints6& q, const Joints6& tcp = kTcp) {
  std::array<Matrix, 7> out{};
  Matrix at{{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}}};
  for (std::size_t i = 0; i < 6; ++i) out[i] = at = product(at, link(kA[i], kD[i], kAlpha[i], q[i]));
  out[6] = product(at, tool(tcp));
  return out;
}

inline Three position(const Matrix& m) { return {m[0][3], m[1][3], m[2][3]}; }

inline double norm(const Three& v) { return std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]); }

// Angular velocity between two frames that lie dt apart.
inline Three turning(const Matrix& a, const Matrix& b, double dt) {
  Matrix r{};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j)
      for (std::size_t k = 0; k < 3; ++k) r[i][j] += b[i][k] * a[j][k];
  return {(r[2][1] - r[1][2]) / 2 / dt, (r[0][2] - r[2][0]) / 2 / dt, (r[1][0] - r[0][1]) / 2 / dt};
}

// Minimum jerk from rest to rest: position, speed, acceleration, jerk of the unit step.
inline std::array<double, 4> unit(double t, double duration_s) {
  const double u = std::clamp(t / duration_s, 0.0, 1.0), d = duration_s;
  return {u * u * u * (10 - 15 * u + 6 * u * u), 30 * u * u * (1 - u) * (1 - u) / d,
          60 * u * (1 - u) * (1 - 2 * u) / (d * d), (60 - 360 * u + 360 * u * u) / (d * d * d)};
}

inline Joints6 law(double t) {
  Joints6 q = kHome;
  for (std::size_t j = 0; j < 6; ++j) q[j] += kStep[j] * unit(t, kDuration_s)[0];
  return q;
}

inline std::vector<Knot> knots_of(const Joints6& home, const Joints6& step, double duration_s, double gap_s = 0.05) {
  std::vector<Knot> knots;
  for (int k = 0; k <= std::lround(duration_s / gap_s); ++k) {
    Knot knot{};
    knot.t_s = k * gap_s;
    const auto s = unit(knot.t_s, duration_s);
    for (std::size_t j = 0; j < 6; ++j) {
      knot.q_rad[j] = home[j] + step[j] * s[0];
      knot.qd_rad_s[j] = step[j] * s[1];
      knot.qdd_rad_s2[j] = step[j] * s[2];
    }
    knot.grip = 0.5;
    knots.push_back(knot);
  }
  return knots;
}

inline std::vector<Knot> move() { return knots_of(kHome, kStep, kDuration_s); }
inline std::vector<Knot> still(int count = 3, double gap_s = 0.05) {
  return knots_of(kHome, {}, (count - 1) * gap_s, gap_s);
}

// Largest speed, acceleration and jerk of joints, TCP and TCP turning along a motion q(t).
struct Largest {
  Three joint{}, tcp{}, angular{};
};

inline Largest largest(const std::function<Joints6(double)>& q, double begin_s, double end_s, double every_s) {
  constexpr double h = 1e-3;
  Largest out;
  for (double t = begin_s; t <= end_s; t += every_s) {
    std::array<Joints6, 5> joints{};
    std::array<Matrix, 5> at{};
    for (std::size_t k = 0; k < 5; ++k) {
      joints[k] = q(t + (static_cast<double>(k) - 2) * h);
      at[k] = frames(joints[k])[6];
    }
    const auto derive = [&](auto value, std::size_t axis) -> Three {
      const double m2 = value(0, axis), m1 = value(1, axis), p0 = value(2, axis), p1 = value(3, axis),
                   p2 = value(4, axis);
      return {(p1 - m1) / (2 * h), (p1 - 2 * p0 + m1) / (h * h), (p2 - 2 * p1 + 2 * m1 - m2) / (2 * h * h * h)};
    };
    for (std::size_t j = 0; j < 6; ++j) {
      const Three d = derive([&](std::size_t k, std::size_t i) { return joints[k][i]; }, j);
      for (std::size_t o = 0; o < 3; ++o) out.joint[o] = std::max(out.joint[o], std::fabs(d[o]));
    }
    std::array<Three, 3> linear{};
    for (std::size_t c = 0; c < 3; ++c) {
      const Three d = derive([&](std::size_t k, std::size_t i) { return at[k][i][3]; }, c);
      for (std::size_t o = 0; o < 3; ++o) linear[o][c] = d[o];
    }
    std::array<Three, 4> w{};
    for (std::size_t k = 0; k < 4; ++k) w[k] = turning(at[k], at[k + 1], h);
    std::array<Three, 3> turn{};
    for (std::size_t c = 0; c < 3; ++c) {
      turn[0][c] = (w[1][c] + w[2][c]) / 2;
      turn[1][c] = (w[2][c] - w[1][c]) / h;
      turn[2][c] = ((w[3][c] - w[2][c]) - (w[1][c] - w[0][c])) / (2 * h * h);
    }
    for (std::size_t o = 0; o < 3; ++o) {
      out.tcp[o] = std::max(out.tcp[o], norm(linear[o]));
      out.angular[o] = std::max(out.angular[o], norm(turn[o]));
    }
  }
  return out;
}

// Path time gone after t seconds of a ramp: its rate falls with a trapezoid of slopes, shares 0.5 and 0.35.
inline double gone(double t, double ramp_s) {
  const double b = 0.5, e = 0.35, p = 1.0 / (1.0 - (b + e) / 2.0), u = std::clamp(t / ramp_s, 0.0, 1.0);
  const auto after_hold = [&](double v) { return v - p * ((v - b / 2) * (v - b / 2) / 2 + b * b / 24); };
  if (t < 0.0) return t;  // before the ramp: full rate
  if (u < b) return ramp_s * (u - p * u * u * u / (6 * b));
  if (u < 1.0 - e) return ramp_s * after_hold(u);
  const double left = 1.0 - u;
  return ramp_s * (after_hold(1.0 - e) + p * (e * e * e - left * left * left) / (6 * e));
}

// --- parameter files

struct Row {
  Three joint_deg{360, 1e9, 1e9}, tcp{3, 1e9, 1e9}, angular_deg{1e9, 1e9, 1e9};
  double stop_factor = 1.0, ramp_min_s = 0.3, ramp_max_s = 0.34;
};

inline std::string text(const Three& v) {
  std::ostringstream out;
  out.precision(17);
  out << v[0] << " " << v[1] << " " << v[2];
  return out.str();
}

inline std::string row_of(const Row& r) {
  std::ostringstream out;
  out << text(r.joint_deg) << " " << text(r.tcp) << " " << text(r.angular_deg) << " " << r.stop_factor << " "
      << r.ramp_min_s << " " << r.ramp_max_s;
  return out.str();
}

struct Params {
  Three low{-9, -9, -9}, high{9, 9, 9};
  double table_z = -9, floor_links_z = -9;
  std::vector<Row> rows = std::vector<Row>(1);
  Joints6 a = kA, d = kD, alpha = kAlpha, tcp = kTcp;
  std::string more;  // further lines
};

class EnvelopeBench : public ::testing::Test {
 protected:
  EnvelopeBench() : path_("/tmp/wardarm_envelope_bench_" + std::to_string(::getpid())) {}
  ~EnvelopeBench() override { std::remove(path_.c_str()); }

  static std::string lines(const Params& p) {
    std::ostringstream out;
    out.precision(17);
    out << "# a comment\n\n";
    const auto six = [&](const char* name, const std::array<double, 6>& v) {
      out << name << " =";
      for (double x : v) out << " " << x;
      out << "\n";
    };
    six("dh_a", p.a), six("dh_d", p.d), six("dh_alpha", p.alpha), six("tcp", p.tcp);
    out << "box_low = " << text(p.low) << "\nbox_high = " << text(p.high) << "\ntable_z = " << p.table_z
        << "\nfloor_links_z = " << p.floor_links_z << "\n";
    for (std::size_t i = 0; i < p.rows.size(); ++i) out << "profile.p" << i << " = " << row_of(p.rows[i]) << "\n";
    return out.str() + p.more;
  }
  Envelope read(const std::string& lines) {
    std::ofstream(path_) << lines;
    return Envelope(path_);
  }
  Envelope make(const Params& p = {}) { return read(lines(p)); }
  EnvelopeVerdict check(const std::vector<Knot>& knots, double ramp_s = 0.32, const std::vector<double>& start = {}) {
    return make().check(knots, ramp_s, 0, start);
  }
  void refused(const std::vector<Knot>& knots, const std::string& words, double ramp_s = 0.32,
               const std::vector<double>& start = {}) {
    const EnvelopeVerdict verdict = check(knots, ramp_s, start);
    EXPECT_FALSE(verdict.ok) << words;
    EXPECT_NE(verdict.reason.find(words), std::string::npos) << verdict.reason << " / " << words;
  }
  void allowed(const std::vector<Knot>& knots, double ramp_s = 0.32, const std::vector<double>& start = {}) {
    const EnvelopeVerdict verdict = check(knots, ramp_s, start);
    EXPECT_TRUE(verdict.ok) << verdict.reason;
  }
  // What is asked about is not what is wrong with it, whatever else may be.
  void not_for(const std::string& words, const std::vector<Knot>& knots, const std::vector<double>& start = {}) {
    const EnvelopeVerdict verdict = check(knots, 0.32, start);
    EXPECT_EQ(verdict.reason.find(words), std::string::npos) << verdict.reason;
  }
  std::string path_;
};

}  // namespace envelope_bench
using namespace envelope_bench;
}  // namespace wardarm

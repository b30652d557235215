#include "wardarm/envelope.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>

namespace wardarm {
namespace {

using Vector = std::array<double, 3>;

constexpr double kPi = 3.14159265358979323846;
constexpr double kCycle_s = 0.002;             // the controller's cycle
constexpr double kJointRange_rad = 2.0 * kPi;  // UR5e user manual: +-360 degrees
constexpr double kLongestInterval_s = 0.0501;  // knots are 50 ms apart or closer
constexpr double kRest_rad_s = 1e-6;           // what the wire's integers leave of zero
constexpr double kRest_rad_s2 = 1e-5;
// How exactly a motion continues the one before: ten times what the wire's integers can say.
constexpr double kStart_rad = 1e-5;
constexpr double kStart_rad_s = 1e-4;
constexpr double kStart_rad_s2 = 1e-3;
// Ratios may exceed 1 by what rounding to the wire's integers moves them.
constexpr double kRounding = 1e-4;
constexpr std::size_t kStopStride = 5;  // a stop from every 10 ms of the path
constexpr double kStopStep_s = 0.004;
// What a motion may lean beyond its start's own tilt, where that is above the limit: less and less until it is this far
// above, then only what an arm that leans over needs to stop that.
constexpr double kTiltRoom_rad = 0.6 * kPi / 180.0, kTiltEnd_rad = 1.8 * kPi / 180.0;
constexpr double kTiltBrake_rad_s2 = 36.0 * kPi / 180.0, kTiltRounding_rad = 0.01 * kPi / 180.0;
// Shares of a ramp to rest over which the player's braking grows and fades (player.script, `ramped`).
constexpr double kOnsetShare = 0.50;
constexpr double kEndShare = 0.35;

Vector add(const Vector& a, const Vector& b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2]}; }
Vector minus(const Vector& a, const Vector& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }
Vector times(const Vector& a, double k) { return {a[0] * k, a[1] * k, a[2] * k}; }
double inner(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
double length(const Vector& a) { return std::sqrt(inner(a, a)); }
Vector outer(const Vector& a, const Vector& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

// A vector turned about a unit axis (Rodrigues), given sine and cosine of the angle.
Vector turned(const Vector& v, const Vector& axis, double sine, double cosine) {
  const Vector side = outer(axis, v);
  const double along = inner(axis, v) * (1.0 - cosine);
  return {v[0] * cosine + side[0] * sine + axis[0] * along, v[1] * cosine + side[1] * sine + axis[1] * along,
          v[2] * cosine + side[2] * sine + axis[2] * along};
}

std::map<std::string, std::vector<double>> read_file(const std::string& path, std::vector<std::string>& order) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read; 'wardarm run' writes it from the configuration");
  std::map<std::string, std::vector<double>> values;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::istringstream words(line);
    std::string key;
    std::string equals;
    if (!(words >> key) || key[0] == '#') continue;
    std::vector<double> row;
    double value = 0.0;
    if (words >> equals) {
      while (words >> value) row.push_back(value);
    }
    if (equals != "=" || row.empty() || !words.eof()) {
      throw std::runtime_error(path + ":" + std::to_string(number) + ": expected 'key = numbers'");
    }
    order.push_back(key);
    if (!values.emplace(key, std::move(row)).second) throw std::runtime_error(path + ": " + key + " is there twice");
  }
  return values;
}

// Of a tool's axis: one that hangs straight down has it along -z.
double tilt_of(const Vector& axis) { return std::acos(std::clamp(-axis[2], -1.0, 1.0)); }

// The most that a motion may lean whose first two cycles lean like this.
double leaning_from(double tilt, double next, double limit) {
  const double rate = std::max((next - tilt) / kCycle_s, 0.0);
  const double left = std::clamp(1.0 - (tilt - limit) / kTiltEnd_rad, 0.0, 1.0);
  const double stopping = std::min(rate * rate / (2.0 * kTiltBrake_rad_s2), kTiltRoom_rad);
  return tilt + std::max({left * kTiltRoom_rad, stopping, kTiltRounding_rad});
}

}  // namespace

// The motion at the controller's cycle, and its derivatives by path time.
struct Envelope::Walk {
  struct Moment {
    std::array<double, kDof> q, qd, qdd, qddd;
    Vector v{}, a{}, j{}, w{}, wa{}, wj{};
  };
  std::vector<Moment> moment;
  std::vector<Frame> tcp;
};

Envelope::Envelope(const std::string& path) {
  std::vector<std::string> order;
  const auto values = read_file(path, order);
  const auto need = [&](const std::string& key, std::size_t count) -> const std::vector<double>& {
    const auto found = values.find(key);
    if (found == values.end() || found->second.size() != count) {
      throw std::runtime_error(path + ": " + key + " needs " + std::to_string(count) + " numbers");
    }
    return found->second;
  };
  // Screw axes: walk along the links once with all joints at zero.
  const auto& a = need("dh_a", kDof);
  const auto& d = need("dh_d", kDof);
  const auto& alpha = need("dh_alpha", kDof);
  Frame frame{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  for (std::size_t i = 0; i < kDof; ++i) {
    axis_[i] = frame.z;
    anchor_[i] = frame.position;
    frame.position = add(frame.position, add(times(frame.z, d[i]), times(frame.x, a[i])));
    const double sine = std::sin(alpha[i]);
    const double cosine = std::cos(alpha[i]);
    frame.y = turned(frame.y, frame.x, sine, cosine);
    frame.z = turned(frame.z, frame.x, sine, cosine);
    link_point_[i] = frame.position;
  }
  const auto& tcp = need("tcp", kDof);
  const auto in_base = [&](const Vector& v) {
    return add(add(times(frame.x, v[0]), times(frame.y, v[1])), times(frame.z, v[2]));
  };
  home_.position = add(frame.position, in_base({tcp[0], tcp[1], tcp[2]}));
  const Vector turn{tcp[3], tcp[4], tcp[5]};
  const double angle = length(turn);
  const Vector axis = angle > 0.0 ? times(turn, 1.0 / angle) : Vector{0, 0, 1};
  home_.x = in_base(turned({1, 0, 0}, axis, std::sin(angle), std::cos(angle)));
  home_.y = in_base(turned({0, 1, 0}, axis, std::sin(angle), std::cos(angle)));
  home_.z = in_base(turned({0, 0, 1}, axis, std::sin(angle), std::cos(angle)));
  std::copy_n(need("box_low", 3).begin(), 3, low_.begin());
  std::copy_n(need("box_high", 3).begin(), 3, high_.begin());
  for (std::size_t c = 0; c < 3; ++c) {
    if (!(low_[c] < high_[c])) throw std::runtime_error(path + ": box_low is not below box_high");
  }
  table_z_ = need("table_z", 1)[0];
  floor_links_z_ = need("floor_links_z", 1)[0];
  for (const std::string& key : order) {
    if (key.rfind("profile.", 0) != 0) continue;
    const auto& n = need(key, 12);  // the order of config.LimitProfile, degrees and metres
    constexpr double rad = kPi / 180.0;
    const bool positive = std::all_of(n.begin(), n.end(), [](double x) { return std::isfinite(x) && x > 0.0; });
    if (!positive || n[0] > 360.0 || n[3] > 3.0 || n[9] < 1.0 || n[9] > 5.0 || n[10] > n[11] || n[11] > 5.0) {
      throw std::runtime_error(path + ": " + key + " has a limit of zero, below zero or beyond any UR5e");
    }
    profiles_.push_back({{n[0] * rad, n[1] * rad, n[2] * rad},
                         {n[3], n[4], n[5]},
                         {n[6] * rad, n[7] * rad, n[8] * rad},
                         n[9],
                         n[10],
                         n[11],
                         kPi,
                         std::numeric_limits<double>::infinity()});
  }
  for (const std::string& key : order) {
    if (key.rfind("liquid.", 0) != 0) continue;
    const auto& n = need(key, 2);  // tilt deg, horizontal acceleration m/s2
    std::size_t row = 0;
    bool known = false;
    for (const std::string& other : order) {
      if (other.rfind("profile.", 0) != 0) continue;
      known = other.substr(8) == key.substr(7);
      if (known) break;
      ++row;
    }
    if (!known || !(n[0] > 0.0 && n[0] <= 90.0 && n[1] > 0.0)) {
      throw std::runtime_error(path + ": " + key + " names no profile, or has a limit of zero or beyond 90 degrees");
    }
    profiles_[row].tilt_rad = n[0] * kPi / 180.0;
    profiles_[row].lateral_m_s2 = n[1];
  }
  if (values.count("patient_low") > 0 || values.count("patient_high") > 0) {
    std::copy_n(need("patient_low", 3).begin(), 3, patient_low_.begin());
    std::copy_n(need("patient_high", 3).begin(), 3, patient_high_.begin());
    for (std::size_t c = 0; c < 3; ++c) {
      if (!(patient_low_[c] < patient_high_[c])) {
        throw std::runtime_error(path + ": patient_low is not below patient_high");
      }
    }
    has_patient_ = true;
  }
  if (profiles_.empty()) throw std::runtime_error(path + ": no profile.NAME");
}

Envelope::Frame Envelope::tcp_at(const std::array<double, kDof>& q) const {
  Frame at = home_;
  for (std::size_t i = kDof; i-- > 0;) {
    const double sine = std::sin(q[i]);
    const double cosine = std::cos(q[i]);
    at.position = add(anchor_[i], turned(minus(at.position, anchor_[i]), axis_[i], sine, cosine));
    at.x = turned(at.x, axis_[i], sine, cosine);
    at.y = turned(at.y, axis_[i], sine, cosine);
    at.z = turned(at.z, axis_[i], sine, cosine);
  }
  return at;
}

Envelope::Vector Envelope::carried(const Vector& point, std::size_t joint, double angle_rad) const {
  return add(anchor_[joint],
             turned(minus(point, anchor_[joint]), axis_[joint], std::sin(angle_rad), std::cos(angle_rad)));
}

std::string Envelope::knots_problem(std::span<const Knot> knots, std::span<const double> start) const {
  char text[160] = "";
  const auto say = [&](const char* format, auto... values) {
    std::snprintf(text, sizeof text, format, values...);
    return std::string(text);
  };
  if (knots.size() < 2 || knots.size() > kMaxKnots) return say("%zu knots, expected 2..%d", knots.size(), kMaxKnots);
  for (std::size_t k = 0; k < knots.size(); ++k) {
    const Knot& knot = knots[k];
    bool finite = std::isfinite(knot.t_s) && std::isfinite(knot.grip);
    for (std::size_t j = 0; j < kDof; ++j) {
      finite = finite && std::isfinite(knot.q_rad[j]) && std::isfinite(knot.qd_rad_s[j]) &&
               std::isfinite(knot.qdd_rad_s2[j]);
    }
    if (!finite) return say("knot %zu has a number that is not finite", k);
    if (knot.grip < 0.0 || knot.grip > 1.0) return say("knot %zu: opening %.3f, outside 0..1", k, knot.grip);
    if (k == 0) continue;
    const double gap = knot.t_s - knots[k - 1].t_s;
    if (!(gap > 0.0005 && gap <= kLongestInterval_s)) {
      return say("knot %zu comes %.4f s after the one before, expected up to %.2f s", k, gap, 0.05);
    }
  }
  if (std::fabs(knots.front().t_s) > 1e-9) return say("knot 0 is at %.4f s, expected 0", knots.front().t_s);
  for (std::size_t j = 0; j < kDof; ++j) {
    const Knot& last = knots.back();
    if (std::fabs(last.qd_rad_s[j]) > kRest_rad_s || std::fabs(last.qdd_rad_s2[j]) > kRest_rad_s2) {
      return say("does not end at rest: joint %zu at %.2g rad/s, %.2g rad/s2", j + 1, last.qd_rad_s[j],
                 last.qdd_rad_s2[j]);
    }
    if (start.empty()) continue;
    const Knot& first = knots.front();
    const double off_q = std::fabs(first.q_rad[j] - start[j]);
    const double off_qd = std::fabs(first.qd_rad_s[j] - start[kDof + j]);
    const double off_qdd = std::fabs(first.qdd_rad_s2[j] - start[std::size_t{2} * kDof + j]);
    if (off_q > kStart_rad || off_qd > kStart_rad_s || off_qdd > kStart_rad_s2) {
      return say("does not start where the arm is: joint %zu off by %.2g rad, %.2g rad/s, %.2g rad/s2", j + 1, off_q,
                 off_qd, off_qdd);
    }
  }
  return {};
}

// The player's arithmetic: a quintic through position, speed and acceleration at both knots, every 2 ms.
void Envelope::sample(std::span<const Knot> knots, Walk& walk) const {
  const double end_s = knots.back().t_s;
  const auto count = static_cast<std::size_t>(std::ceil(end_s / kCycle_s - 1e-6)) + 1;
  walk.moment.resize(count);
  walk.tcp.resize(count);
  std::size_t k = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double t = std::min(static_cast<double>(i) * kCycle_s, end_s);
    while (k + 2 < knots.size() && knots[k + 1].t_s <= t) ++k;
    const Knot& a = knots[k];
    const Knot& b = knots[k + 1];
    const double h = b.t_s - a.t_s;
    const double u = (t - a.t_s) / h;
    Walk::Moment& m = walk.moment[i];
    for (std::size_t j = 0; j < kDof; ++j) {
      // Hermite form over u in 0..1; derivatives scaled by powers of h.
      const double p0 = a.q_rad[j];
      const double v0 = a.qd_rad_s[j] * h;
      const double a0 = a.qdd_rad_s2[j] * h * h;
      const double v1 = b.qd_rad_s[j] * h;
      const double a1 = b.qdd_rad_s2[j] * h * h;
      const double gap = b.q_rad[j] - p0;
      const double c3 = 10.0 * gap - 6.0 * v0 - 4.0 * v1 - 1.5 * a0 + 0.5 * a1;
      const double c4 = -15.0 * gap + 8.0 * v0 + 7.0 * v1 + 1.5 * a0 - a1;
      const double c5 = 6.0 * gap - 3.0 * (v0 + v1) + 0.5 * (a1 - a0);
      m.q[j] = p0 + u * (v0 + u * (0.5 * a0 + u * (c3 + u * (c4 + u * c5))));
      m.qd[j] = (v0 + u * (a0 + u * (3.0 * c3 + u * (4.0 * c4 + u * 5.0 * c5)))) / h;
      m.qdd[j] = (a0 + u * (6.0 * c3 + u * (12.0 * c4 + u * 20.0 * c5))) / (h * h);
      m.qddd[j] = (6.0 * c3 + u * (24.0 * c4 + u * 60.0 * c5)) / (h * h * h);
    }
    walk.tcp[i] = tcp_at(m.q);
  }
  // Finite differences of position and orientation over the cycles. Before the first and after the last there is
  // nothing to differ from: the ends repeat their neighbour.
  const std::size_t n = count;
  if (n < 4) return;                                   // too short to differ; `check` refuses it
  std::vector<Vector> v(n, Vector{}), w(n, Vector{});  // between i and i + 1
  for (std::size_t i = 0; i + 1 < n; ++i) {
    v[i] = times(minus(walk.tcp[i + 1].position, walk.tcp[i].position), 1.0 / kCycle_s);
    // Small turn between two frames: half the sum of the axes' cross products is sin(angle) x axis.
    const Frame& f = walk.tcp[i];
    const Frame& g = walk.tcp[i + 1];
    const Vector sine = times(add(add(outer(f.x, g.x), outer(f.y, g.y)), outer(f.z, g.z)), 0.5);
    const double s = length(sine);
    w[i] = times(sine, (s > 1e-12 ? std::asin(std::min(s, 1.0)) / s : 1.0) / kCycle_s);
  }
  const auto differences = [&](const std::vector<Vector>& speed, auto set) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t s = std::clamp<std::size_t>(i, 1, n - 2);  // second difference is centred on s
      const std::size_t t = std::clamp<std::size_t>(i, 1, n - 3);  // third difference lies between t and t + 1
      const Vector acceleration = times(minus(speed[s], speed[s - 1]), 1.0 / kCycle_s);
      const Vector next = times(minus(speed[t + 1], speed[t]), 1.0 / kCycle_s);
      const Vector here = times(minus(speed[t], speed[t - 1]), 1.0 / kCycle_s);
      set(walk.moment[i], speed[std::min(i, n - 2)], acceleration, times(minus(next, here), 1.0 / kCycle_s));
    }
  };
  differences(v, [](Walk::Moment& m, const Vector& s, const Vector& a, const Vector& j) { m.v = s, m.a = a, m.j = j; });
  differences(w,
              [](Walk::Moment& m, const Vector& s, const Vector& a, const Vector& j) { m.w = s, m.wa = a, m.wj = j; });
}

void Envelope::compare_plan(const Limits& limits, Walk& walk, EnvelopeVerdict& verdict) const {
  const auto worse = [&](double ratio, const char* which, std::size_t i) {
    if (ratio <= verdict.max_ratio_plan || std::isnan(verdict.max_ratio_plan)) return;  // a NaN is worse than any
    verdict.max_ratio_plan = ratio;
    verdict.which = which;
    verdict.at_s = static_cast<double>(i) * kCycle_s;
  };
  for (std::size_t i = 0; i < walk.moment.size(); ++i) {
    const Walk::Moment& m = walk.moment[i];
    for (std::size_t j = 0; j < kDof; ++j) {
      worse(std::fabs(m.qd[j]) / limits.joint[0], "joint speed", i);
      worse(std::fabs(m.qdd[j]) / limits.joint[1], "joint acceleration", i);
      worse(std::fabs(m.qddd[j]) / limits.joint[2], "joint jerk", i);
    }
    worse(length(m.v) / limits.tcp[0], "TCP speed", i);
    worse(length(m.a) / limits.tcp[1], "TCP acceleration", i);
    worse(std::hypot(m.a[0], m.a[1]) / limits.lateral_m_s2, "TCP horizontal acceleration", i);
    worse(length(m.j) / limits.tcp[2], "TCP jerk", i);
    worse(length(m.w) / limits.angular[0], "TCP turning speed", i);
    worse(length(m.wa) / limits.angular[1], "TCP turning acceleration", i);
    worse(length(m.wj) / limits.angular[2], "TCP turning jerk", i);
  }
}

void Envelope::compare_stop(const Limits& limits, const Walk& walk, double ramp_s, EnvelopeVerdict& verdict) const {
  // q(s(t)) with ds/dt = r: q'' r^2 + q' r' and q''' r^3 + 3 q'' r r' + q' r''. The player's r'' takes three constant
  // values, one after the other; r' and r are integrated from there.
  struct RampMoment {
    std::size_t ahead;  // cycles along the path since the ramp began
    double r, r1, r2;
  };
  std::vector<RampMoment> steps;
  const std::array<double, 3> phase_s{kOnsetShare * ramp_s, (1.0 - kOnsetShare - kEndShare) * ramp_s,
                                      kEndShare * ramp_s};
  const double peak = 1.0 / (phase_s[0] / 2.0 + phase_s[1] + phase_s[2] / 2.0);  // r falls by 1 in all
  const std::array<double, 3> bend{-peak / phase_s[0], 0.0, peak / phase_s[2]};
  double gone_s = 0.0;
  double r = 1.0;
  double r1 = 0.0;
  for (std::size_t phase = 0; phase < 3; ++phase) {
    const auto count = static_cast<std::size_t>(std::ceil(phase_s[phase] / kStopStep_s)) + 1;
    const auto after = [&](double t) {
      return std::array{gone_s + t * (r + t * (r1 / 2.0 + t * bend[phase] / 6.0)), r + t * (r1 + t * bend[phase] / 2.0),
                        r1 + t * bend[phase]};
    };
    for (std::size_t i = 0; i < count; ++i) {  // both ends: r'' jumps there
      const auto [path_s, rate, slope] =
          after(phase_s[phase] * static_cast<double>(i) / static_cast<double>(count - 1));
      steps.push_back({static_cast<std::size_t>(std::lround(path_s / kCycle_s)), rate, slope, bend[phase]});
    }
    const auto end = after(phase_s[phase]);
    gone_s = end[0], r = end[1], r1 = end[2];
  }
  double worst = 0.0;
  const auto blend = [](const Vector& d1, const Vector& d2, const Vector& d3, double k1, double k2, double k3) {
    return add(add(times(d1, k1), times(d2, k2)), times(d3, k3));
  };
  for (std::size_t from = 0; from < walk.moment.size(); from += kStopStride) {
    for (const RampMoment& step : steps) {
      if (from + step.ahead >= walk.moment.size()) break;  // the path ended first, at rest
      const Walk::Moment& m = walk.moment[from + step.ahead];
      const auto worse = [&](double ratio) {
        if (!(ratio <= worst)) worst = std::isnan(worst) ? worst : ratio;  // a NaN is worse than any, and stays
      };
      const double rr = step.r * step.r;
      const double mixed = 3.0 * step.r * step.r1;
      const double cubed = rr * step.r;
      for (std::size_t j = 0; j < kDof; ++j) {
        worse(std::fabs(m.qdd[j] * rr + m.qd[j] * step.r1) / limits.joint[1]);
        worse(std::fabs(m.qddd[j] * cubed + m.qdd[j] * mixed + m.qd[j] * step.r2) / limits.joint[2]);
      }
      const Vector a = blend(m.v, m.a, {}, step.r1, rr, 0.0);
      worse(length(a) / limits.tcp[1]);
      worse(std::hypot(a[0], a[1]) * limits.stop_factor / limits.lateral_m_s2);  // no more in a stop than in a plan
      worse(length(blend(m.v, m.a, m.j, step.r2, mixed, cubed)) / limits.tcp[2]);
      worse(length(blend(m.w, m.wa, {}, step.r1, rr, 0.0)) / limits.angular[1]);
      worse(length(blend(m.w, m.wa, m.wj, step.r2, mixed, cubed)) / limits.angular[2]);
    }
  }
  verdict.max_ratio_stop = worst / limits.stop_factor;
}

EnvelopeVerdict Envelope::check(std::span<const Knot> knots, double ramp_s, int profile, std::span<const double> start,
                                bool loaded) const {
  EnvelopeVerdict verdict;
  char text[192] = "";
  if (profile < 0 || static_cast<std::size_t>(profile) >= profiles_.size()) {
    verdict.reason = "profile " + std::to_string(profile) + " is not configured";
    return verdict;
  }
  const Limits& limits = profiles_[static_cast<std::size_t>(profile)];
  if (!start.empty() && start.size() != std::size_t{3} * kDof) {
    verdict.reason = "start needs 18 numbers: q, qd, qdd";
    return verdict;
  }
  if (!(ramp_s >= limits.ramp_min_s - 1e-6 && ramp_s <= limits.ramp_max_s + 1e-6)) {
    std::snprintf(text, sizeof text, "ramp of %.3f s, expected %.2f..%.2f s", ramp_s, limits.ramp_min_s,
                  limits.ramp_max_s);
    verdict.reason = text;
    return verdict;
  }
  verdict.reason = knots_problem(knots, start);
  if (!verdict.reason.empty()) return verdict;
  Walk walk;
  sample(knots, walk);
  if (walk.moment.size() < 4) {
    verdict.reason = "shorter than four cycles";
    return verdict;
  }
  const double most_tilt =
      std::max(limits.tilt_rad, leaning_from(tilt_of(walk.tcp[0].z), tilt_of(walk.tcp[1].z), limits.tilt_rad));
  static constexpr const char* axis_name[3] = {"x", "y", "z"};
  for (std::size_t i = 0; i < walk.moment.size(); ++i) {
    const double t = static_cast<double>(i) * kCycle_s;
    const Vector& p = walk.tcp[i].position;
    for (std::size_t c = 0; c < 3; ++c) {
      if (p[c] >= low_[c] && p[c] <= high_[c] && p[2] >= table_z_) continue;  // false for a NaN
      std::snprintf(text, sizeof text, "TCP %s = %.1f mm at %.2f s, outside %.1f..%.1f mm", axis_name[c], p[c] * 1e3, t,
                    low_[c] * 1e3, high_[c] * 1e3);
      verdict.reason = text;
      return verdict;
    }
    for (std::size_t j = 0; j < kDof; ++j) {
      if (std::fabs(walk.moment[i].q[j]) <= kJointRange_rad) continue;  // as here
      std::snprintf(text, sizeof text, "joint %zu at %.0f deg at %.2f s, limit 360 deg", j + 1,
                    walk.moment[i].q[j] * 180.0 / kPi, t);
      verdict.reason = text;
      return verdict;
    }
    if (limits.tilt_rad < kPi) {
      // A tool that hangs straight down has its axis along -z. It may begin as far off as it is.
      const double tilt = tilt_of(walk.tcp[i].z);
      if (!(tilt <= most_tilt)) {
        std::snprintf(text, sizeof text, "tilted by %.1f deg at %.2f s, limit %.1f deg with liquid", tilt * 180.0 / kPi,
                      t, most_tilt * 180.0 / kPi);
        verdict.reason = text;
        return verdict;
      }
    }
    if (i % kStopStride == 0) {
      verdict.reason = links_problem(walk.moment[i].q, t);
      if (!verdict.reason.empty()) return verdict;
    }
  }
  verdict.reason = fingers_problem(knots, walk.tcp, loaded);
  if (!verdict.reason.empty()) return verdict;
  compare_plan(limits, walk, verdict);
  compare_stop(limits, walk, ramp_s, verdict);
  if (!(verdict.max_ratio_plan <= 1.0 + kRounding)) {  // a NaN refuses
    std::snprintf(text, sizeof text, "%s is %.4f times its limit at %.2f s", verdict.which.c_str(),
                  verdict.max_ratio_plan, verdict.at_s);
    verdict.reason = text;
  } else if (!(verdict.max_ratio_stop <= 1.0 + kRounding)) {
    std::snprintf(text, sizeof text, "a stop reaches %.4f times the stop limits", verdict.max_ratio_stop);
    verdict.reason = text;
  }
  verdict.ok = verdict.reason.empty();
  return verdict;
}

}  // namespace wardarm

// The Python module wardarm._native: planner, independent check, kinematics and layouts. Every call that computes
// releases the interpreter.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "native_layout.hpp"
#include "wardarm/answer.hpp"
#include "wardarm/crc32.hpp"
#include "wardarm/envelope.hpp"
#include "wardarm/planner.hpp"
#include "wardarm/process_groot_output.h"
#include "wardarm/ring.hpp"
#include "wardarm/sampler.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace wardarm {
namespace {

using Numbers = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using KnotTable = nb::ndarray<const double, nb::shape<-1, 20>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::shape<kPoints, kDof>, nb::c_contig, nb::device::cpu>;
template <class T>
using Array1 = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
template <class T>
using Array2 = nb::ndarray<nb::numpy, T, nb::ndim<2>>;

// A new numpy array that owns its memory.
template <class Array, class T>
Array array_of(std::vector<T> values, std::initializer_list<std::size_t> shape) {
  auto* kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Array(kept->data(), shape, owner);
}

Joints joints_from(const Numbers& numbers, const char* name) {
  if (numbers.shape(0) != kDof) throw nb::value_error((std::string(name) + " needs 6 numbers").c_str());
  return Joints(numbers.data());
}

std::span<const Knot> knots_of(const KnotTable& table) {
  static_assert(sizeof(Knot) == 20 * sizeof(double));
  if (table.shape(0) < 2) throw nb::value_error("needs at least two knots");
  return {reinterpret_cast<const Knot*>(table.data()), table.shape(0)};
}

// A payload from Python as the struct it is.
template <class Payload>
std::unique_ptr<Payload> payload_from(const nb::bytes& raw, const char* name) {
  if (raw.size() != sizeof(Payload)) {
    throw nb::value_error((std::string(name) + " has " + std::to_string(raw.size()) + " bytes, expected " +
                           std::to_string(sizeof(Payload)))
                              .c_str());
  }
  auto payload = std::make_unique<Payload>();
  std::memcpy(static_cast<void*>(payload.get()), raw.data(), sizeof(Payload));
  return payload;
}

nb::bytes plan(Planner& planner, const nb::bytes& raw, const Numbers& q, const Numbers& qd, const Numbers& qdd,
               bool free, bool stops, double limit_share, double opening) {
  if (!(limit_share > 0.0 && limit_share <= 1.0)) throw nb::value_error("limit_share is outside 0..1");
  const auto chunk = payload_from<RawChunk>(raw, "raw_chunk");
  PlanStart start{
      {joints_from(q, "q_rad"), joints_from(qd, "qd_rad_s"), joints_from(qdd, "qdd_rad_s2")}, false, opening};
  start.at_rest = start.state.qd.isZero(1e-9) && start.state.qdd.isZero(1e-9);
  auto out = std::make_unique<Trajectory>();
  {
    const nb::gil_scoped_release release;
    std::memset(static_cast<void*>(out.get()), 0, sizeof *out);
    out->raw_id = chunk->id;
    out->plan_start_ns = monotonic_ns();
    planner.plan(*chunk, start, {free, stops, limit_share}, *out);
    out->plan_end_ns = monotonic_ns();
  }
  return nb::bytes(out.get(), sizeof *out);
}

Array2<double> sample(const KnotTable& table, double dt_s) {
  const auto knots = knots_of(table);
  if (!(dt_s > 0.0)) throw nb::value_error("dt_s must be above 0");
  const auto count = static_cast<std::size_t>((knots.back().t_s - knots.front().t_s) / dt_s + 1e-9) + 1;
  std::vector<double> rows(count * 20);
  std::size_t hint = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double t = knots.front().t_s + static_cast<double>(i) * dt_s;
    const Sample s = sample_at(knots, t, hint);
    double* row = &rows[i * 20];
    row[0] = t;
    for (int j = 0; j < kDof; ++j) {
      row[1 + j] = s.state.q[j];
      row[7 + j] = s.state.qd[j];
      row[13 + j] = s.state.qdd[j];
    }
    row[19] = s.grip;
  }
  return array_of<Array2<double>>(std::move(rows), {count, 20});
}

Array1<double> forward(const Planner& planner, const Numbers& q) {
  const Pose pose = planner.arm().tcp(joints_from(q, "q_rad"));
  const Eigen::AngleAxisd turn(pose.rotation);
  const Eigen::Vector3d vector = turn.angle() * turn.axis();
  return array_of<Array1<double>>(
      std::vector<double>{pose.position.x(), pose.position.y(), pose.position.z(), vector.x(), vector.y(), vector.z()},
      {6});
}

std::optional<Array1<double>> inverse(const Planner& planner, const Numbers& pose, const Numbers& near) {
  const Joints p = joints_from(pose, "pose");
  const Eigen::Vector3d turn = p.tail<3>();
  const double angle = turn.norm();
  Pose wanted{Eigen::Matrix3d::Identity(), p.head<3>()};
  if (angle > 1e-12) wanted.rotation = Eigen::AngleAxisd(angle, turn / angle).toRotationMatrix();
  const Joints from = joints_from(near, "near_rad");
  Joints q;
  if (planner.arm().inverse(wanted, planner.arm().branch(from), from, q) != Reach::kOk) return std::nullopt;
  return array_of<Array1<double>>(std::vector<double>(q.data(), q.data() + kDof), {6});
}

Array2<double> jacobian(const Planner& planner, const Numbers& q) {
  const Eigen::Matrix<double, 6, 6, Eigen::RowMajor> j = planner.arm().jacobian(joints_from(q, "q_rad"));
  return array_of<Array2<double>>(std::vector<double>(j.data(), j.data() + 36), {6, 6});
}

Array2<float> groot_output(const Floats& raw) {
  std::vector<float> points(static_cast<std::size_t>(kPoints) * kDof);
  const int bad = process_groot_output(raw.data(), reinterpret_cast<TrajectoryPoint*>(points.data()));
  if (bad != 0) {
    throw nb::value_error(("point " + std::to_string(bad - 1) + " is not finite or outside -1..1").c_str());
  }
  return array_of<Array2<float>>(std::move(points), {kPoints, kDof});
}

nb::dict check(const Envelope& envelope, const KnotTable& table, double ramp_s, int profile,
               const std::optional<Numbers>& start, bool loaded) {
  const auto knots = knots_of(table);
  std::span<const double> from;
  if (start) from = {start->data(), start->shape(0)};
  EnvelopeVerdict verdict;
  {
    const nb::gil_scoped_release release;
    verdict = envelope.check(knots, ramp_s, profile, from, loaded);
  }
  nb::dict out;
  out["ok"] = verdict.ok;
  out["reason"] = verdict.reason;
  out["max_ratio_plan"] = verdict.max_ratio_plan;
  out["max_ratio_stop"] = verdict.max_ratio_stop;
  out["which"] = verdict.which;
  out["at_s"] = verdict.at_s;
  return out;
}

nb::bytes answer(Answerer& answerer, const nb::bytes& raw, const std::optional<nb::bytes>& status,
                 std::uint64_t now_ns) {
  const auto chunk = payload_from<RawChunk>(raw, "raw_chunk");
  std::unique_ptr<ArmStatus> arm;
  if (status) arm = payload_from<ArmStatus>(*status, "arm_status");
  const Trajectory* out = nullptr;
  {
    const nb::gil_scoped_release release;
    out = &answerer.answer(*chunk, arm.get(), now_ns);
  }
  return nb::bytes(out, sizeof *out);
}

}  // namespace
}  // namespace wardarm

NB_MODULE(_native, m) {
  using namespace wardarm;
  m.doc() = "wardarm's trajectory planner, its independent check, UR5e kinematics and shared-memory layouts.";
  m.def("layout", &native_layout);
  m.def(
      "crc32", [](const nb::bytes& data) { return crc32(data.data(), data.size()); }, "data"_a);
  m.def("sample", &sample, "knots"_a, "dt_s"_a);
  m.def("process_groot_output", &groot_output, "raw"_a);
  nb::class_<Planner>(m, "Planner")
      .def(
          "__init__", [](Planner* self, const std::string& path) { new (self) Planner(Params::load(path)); },
          "params"_a)
      .def("plan", &plan, "raw_chunk"_a, "q_rad"_a, "qd_rad_s"_a, "qdd_rad_s2"_a, nb::kw_only(), "free"_a = false,
           "stops"_a = true, "limit_share"_a = 1.0, "opening"_a = -1.0)
      .def("fk", &forward, "q_rad"_a)
      .def("ik", &inverse, "pose"_a, "near_rad"_a)
      .def("jacobian", &jacobian, "q_rad"_a)
      .def_prop_ro("profiles", &Planner::profile_names)
      .def_prop_ro("last_rounds", &Planner::last_rounds);
  nb::class_<Answerer>(m, "Answerer")
      .def(
          "__init__", [](Answerer* self, const std::string& path) { new (self) Answerer(Params::load(path)); },
          "params"_a)
      .def("answer", &answer, "raw_chunk"_a, "arm_status"_a.none(), "now_ns"_a);
  nb::class_<Envelope>(m, "Envelope")
      .def(nb::init<const std::string&>(), "params"_a)
      .def("check", &check, "knots"_a, "ramp_s"_a, "profile"_a = 0, "start"_a = nb::none(), "loaded"_a = false);
}

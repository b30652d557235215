#include "wardarm/answer.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "wardarm/ring.hpp"
#include "wardarm/sampler.hpp"

namespace wardarm {
namespace {

// What the fingers were told last; before the first command they are as the gripper says. Below 0: not known.
double told_opening(const ArmStatus& status) {
  for (const double opening : {static_cast<double>(status.grip_target), static_cast<double>(status.grip_opening)}) {
    if (opening >= 0.0 && opening <= 1.0) return opening;
  }
  return -1.0;
}

}  // namespace

Answerer::Answerer(const Params& params)
    : planner_(params), history_(std::make_unique<std::array<Trajectory, kHistory>>()) {}

void Answerer::remember(const Trajectory& published) {
  last_id_ = std::max(last_id_, published.id);
  last_raw_id_ = std::max(last_raw_id_, published.raw_id);
  if (published.status == static_cast<std::uint32_t>(PlanStatus::kOk)) (*history_)[published.id % kHistory] = published;
}

bool Answerer::find_start(const RawChunk& raw, const ArmStatus* status, std::uint64_t now_ns, PlanStart& start,
                          Refusal& why) const {
  if (status == nullptr) return why.refuse(PlanStatus::kStartMismatch, "no arm status yet: the arm process is not up");
  // Two's complement: a stamp of the future has a negative age, and says no more about now than an old one.
  const double age_s = static_cast<double>(static_cast<std::int64_t>(now_ns - status->stamp_ns)) * 1e-9;
  if (!(age_s >= -kArmStatusFresh_s && age_s <= kArmStatusFresh_s)) {
    return why.refuse(PlanStatus::kStartMismatch, "arm status is %.2f s old, limit %.2f s%s", age_s, kArmStatusFresh_s,
                      age_s < 0.0 ? " either way: the clocks differ" : "");
  }
  if (status->plan_epoch != raw.plan_epoch) {
    return why.refuse(PlanStatus::kStale, "made under plan epoch %" PRIu64 ", the arm is at %" PRIu64, raw.plan_epoch,
                      status->plan_epoch);
  }
  if (raw.join_trajectory_id == 0) {
    if (status->playing_id != 0 || status->at_rest == 0) {
      return why.refuse(PlanStatus::kStartMismatch,
                        "asked to start from rest, but the arm is moving (trajectory %" PRIu64 ")", status->playing_id);
    }
    start.at_rest = true;
    start.state = {Joints(status->target_q_rad), Joints::Zero(), Joints::Zero()};
    start.opening = told_opening(*status);
    return true;
  }
  const Trajectory& old = (*history_)[raw.join_trajectory_id % kHistory];
  if (old.id != raw.join_trajectory_id) {
    return why.refuse(PlanStatus::kBadJoin, "joins trajectory %" PRIu64 ", which is not among the last %zu",
                      raw.join_trajectory_id, kHistory);
  }
  if (!(raw.join_path_s >= 0.0 && raw.join_path_s <= old.duration_s)) {
    return why.refuse(PlanStatus::kBadJoin, "joins at %.3f s, trajectory %" PRIu64 " lasts 0..%.3f s", raw.join_path_s,
                      old.id, old.duration_s);
  }
  if (status->playing_id == old.id && status->path_s > raw.join_path_s) {
    return why.refuse(PlanStatus::kStale, "join at %.3f s has passed, the arm is at %.3f s", raw.join_path_s,
                      status->path_s);
  }
  std::size_t hint = 0;
  const Sample there = sample_at({old.knots, old.knot_count}, raw.join_path_s, hint);
  start.state = there.state;
  start.opening = there.grip;
  start.at_rest = start.state.qd.isZero(1e-9) && start.state.qdd.isZero(1e-9);
  return true;
}

const Trajectory& Answerer::answer(const RawChunk& raw, const ArmStatus* status, std::uint64_t now_ns) {
  std::memset(static_cast<void*>(&out_), 0, sizeof out_);
  out_.id = ++last_id_;
  out_.raw_id = raw.id;
  out_.step_seq = raw.step_seq;
  out_.plan_epoch = raw.plan_epoch;
  out_.capture_ns = raw.capture_ns;
  out_.infer_start_ns = raw.infer_start_ns;
  out_.infer_end_ns = raw.infer_end_ns;
  out_.join_trajectory_id = raw.join_trajectory_id;
  out_.join_path_s = raw.join_path_s;
  out_.source = raw.source;
  out_.profile = raw.profile;
  out_.payload_kg = raw.payload_kg;
  out_.plan_start_ns = now_ns;
  PlanStart start;
  Refusal why;
  if (find_start(raw, status, now_ns, start, why)) {
    planner_.plan(raw, start, out_);
  } else {
    out_.status = static_cast<std::uint32_t>(why.status);
    std::memcpy(out_.reason, why.reason, sizeof out_.reason);
  }
  out_.plan_end_ns = monotonic_ns();
  remember(out_);
  return out_;
}

}  // namespace wardarm

#include "native_layout.hpp"

#include <cstddef>

#include "wardarm/layout.hpp"
#include "wardarm/ring.hpp"

namespace nb = nanobind;

namespace {

template <class Block>
nb::tuple block() {
  const wardarm::BlockShape& shape = wardarm::BlockOf<Block>::shape;
  return nb::make_tuple(static_cast<int>(shape.kind), shape.slots, shape.payload_bytes);
}

}  // namespace

// offsetof and sizeof need the names spelled out.
#define FIELD(type, name) fields[#name] = nb::make_tuple(offsetof(wardarm::type, name), sizeof(wardarm::type::name))
#define STRUCT(type, ...)                  \
  do {                                     \
    nb::dict fields;                       \
    __VA_ARGS__;                           \
    nb::dict entry;                        \
    entry["size"] = sizeof(wardarm::type); \
    entry["fields"] = fields;              \
    structs[#type] = entry;                \
  } while (false)

nb::dict native_layout() {
  nb::dict structs;
  STRUCT(BlockHeader, FIELD(BlockHeader, magic); FIELD(BlockHeader, version); FIELD(BlockHeader, kind);
         FIELD(BlockHeader, header_bytes); FIELD(BlockHeader, slot_bytes); FIELD(BlockHeader, slot_count);
         FIELD(BlockHeader, payload_bytes); FIELD(BlockHeader, writer_pid); FIELD(BlockHeader, reserved0);
         FIELD(BlockHeader, writer_start_ticks); FIELD(BlockHeader, boot_id); FIELD(BlockHeader, reserved1);
         FIELD(BlockHeader, head); FIELD(BlockHeader, beat_ns); FIELD(BlockHeader, reserved2));
  STRUCT(SlotHeader, FIELD(SlotHeader, seq); FIELD(SlotHeader, generation); FIELD(SlotHeader, publish_ns);
         FIELD(SlotHeader, bytes); FIELD(SlotHeader, crc); FIELD(SlotHeader, reserved));
  STRUCT(RawChunk, FIELD(RawChunk, id); FIELD(RawChunk, step_seq); FIELD(RawChunk, plan_epoch);
         FIELD(RawChunk, frame_number); FIELD(RawChunk, capture_ns); FIELD(RawChunk, infer_start_ns);
         FIELD(RawChunk, infer_end_ns); FIELD(RawChunk, join_trajectory_id); FIELD(RawChunk, join_path_s);
         FIELD(RawChunk, source); FIELD(RawChunk, profile); FIELD(RawChunk, valid); FIELD(RawChunk, done);
         FIELD(RawChunk, payload_kg); FIELD(RawChunk, speed_scale); FIELD(RawChunk, traj); FIELD(RawChunk, grip));
  STRUCT(TrajectoryPoint, FIELD(TrajectoryPoint, x_mm); FIELD(TrajectoryPoint, y_mm); FIELD(TrajectoryPoint, z_mm);
         FIELD(TrajectoryPoint, roll_deg); FIELD(TrajectoryPoint, pitch_deg); FIELD(TrajectoryPoint, yaw_deg));
  STRUCT(Knot, FIELD(Knot, t_s); FIELD(Knot, q_rad); FIELD(Knot, qd_rad_s); FIELD(Knot, qdd_rad_s2); FIELD(Knot, grip));
  STRUCT(Trajectory, FIELD(Trajectory, id); FIELD(Trajectory, raw_id); FIELD(Trajectory, step_seq);
         FIELD(Trajectory, plan_epoch); FIELD(Trajectory, capture_ns); FIELD(Trajectory, infer_start_ns);
         FIELD(Trajectory, infer_end_ns); FIELD(Trajectory, plan_start_ns); FIELD(Trajectory, plan_end_ns);
         FIELD(Trajectory, join_trajectory_id); FIELD(Trajectory, join_path_s); FIELD(Trajectory, duration_s);
         FIELD(Trajectory, ramp_s); FIELD(Trajectory, status); FIELD(Trajectory, limited); FIELD(Trajectory, source);
         FIELD(Trajectory, profile); FIELD(Trajectory, point_count); FIELD(Trajectory, knot_count);
         FIELD(Trajectory, max_ratio_plan); FIELD(Trajectory, max_ratio_stop); FIELD(Trajectory, payload_kg);
         FIELD(Trajectory, reserved0); FIELD(Trajectory, reason); FIELD(Trajectory, raw_points);
         FIELD(Trajectory, points); FIELD(Trajectory, knots));
  STRUCT(Hold, FIELD(Hold, seq); FIELD(Hold, since_ns); FIELD(Hold, reason); FIELD(Hold, writer); FIELD(Hold, detail));
  STRUCT(ArmStatus, FIELD(ArmStatus, stamp_ns); FIELD(ArmStatus, controller_s); FIELD(ArmStatus, state);
         FIELD(ArmStatus, robot_mode); FIELD(ArmStatus, safety_mode); FIELD(ArmStatus, runtime_state);
         FIELD(ArmStatus, q_rad); FIELD(ArmStatus, qd_rad_s); FIELD(ArmStatus, target_q_rad);
         FIELD(ArmStatus, target_qd_rad_s); FIELD(ArmStatus, tcp_pose); FIELD(ArmStatus, speed_scaling);
         FIELD(ArmStatus, plan_epoch); FIELD(ArmStatus, playing_id); FIELD(ArmStatus, path_s);
         FIELD(ArmStatus, path_rate); FIELD(ArmStatus, path_duration_s); FIELD(ArmStatus, loaded_id);
         FIELD(ArmStatus, finished_id); FIELD(ArmStatus, refused_id); FIELD(ArmStatus, refusal);
         FIELD(ArmStatus, at_rest); FIELD(ArmStatus, motion_request); FIELD(ArmStatus, request_seq);
         FIELD(ArmStatus, grip_opening); FIELD(ArmStatus, grip_target); FIELD(ArmStatus, holding);
         FIELD(ArmStatus, grip_moving); FIELD(ArmStatus, load_ms); FIELD(ArmStatus, check_ms);
         FIELD(ArmStatus, permit_edge_cycle); FIELD(ArmStatus, permit_accept_cycle);
         FIELD(ArmStatus, first_motion_cycle); FIELD(ArmStatus, hold_count); FIELD(ArmStatus, command_seq);
         FIELD(ArmStatus, command_result); FIELD(ArmStatus, reserved0); FIELD(ArmStatus, command_reason);
         FIELD(ArmStatus, robot_serial); FIELD(ArmStatus, robot_version); FIELD(ArmStatus, holds));
  STRUCT(Word, FIELD(Word, beat_ns); FIELD(Word, process); FIELD(Word, ok); FIELD(Word, hold_seq); FIELD(Word, reason);
         FIELD(Word, reserved0); FIELD(Word, detail));
  STRUCT(GateStatus, FIELD(GateStatus, beat); FIELD(GateStatus, beat_ns); FIELD(GateStatus, pwm_on);
         FIELD(GateStatus, request_seq); FIELD(GateStatus, drop_seq); FIELD(GateStatus, edge_ns);
         FIELD(GateStatus, drop_ns); FIELD(GateStatus, missing); FIELD(GateStatus, first_missing);
         FIELD(GateStatus, detail));
  STRUCT(Step, FIELD(Step, seq); FIELD(Step, kind); FIELD(Step, attempt); FIELD(Step, task_id);
         FIELD(Step, object_kind); FIELD(Step, object_color); FIELD(Step, language); FIELD(Step, speed_scale);
         FIELD(Step, profile); FIELD(Step, text));
  STRUCT(Progress, FIELD(Progress, step_seq); FIELD(Progress, state); FIELD(Progress, chunks);
         FIELD(Progress, accepted); FIELD(Progress, refused); FIELD(Progress, valid); FIELD(Progress, done);
         FIELD(Progress, fraction); FIELD(Progress, grasp_attempts); FIELD(Progress, frame_number);
         FIELD(Progress, capture_ns); FIELD(Progress, camera_ms); FIELD(Progress, queue_ms); FIELD(Progress, infer_ms);
         FIELD(Progress, validate_ms); FIELD(Progress, camera_fps); FIELD(Progress, delay_s);
         FIELD(Progress, first_capture_ns); FIELD(Progress, first_motion_ns); FIELD(Progress, model_version);
         FIELD(Progress, reason); FIELD(Progress, model_tasks); FIELD(Progress, reserved0));
  STRUCT(Command, FIELD(Command, seq); FIELD(Command, kind); FIELD(Command, hold_count); FIELD(Command, hold_seqs);
         FIELD(Command, actor));
  STRUCT(FrameMeta, FIELD(FrameMeta, frame_number); FIELD(FrameMeta, capture_ns); FIELD(FrameMeta, arrival_ns);
         FIELD(FrameMeta, sensor_ms); FIELD(FrameMeta, pixel_slot); FIELD(FrameMeta, width); FIELD(FrameMeta, height);
         FIELD(FrameMeta, channels); FIELD(FrameMeta, brightness); FIELD(FrameMeta, reserved0));
  nb::dict blocks;
  blocks["groot_raw"] = block<wardarm::RawChunk>();
  blocks["groot_traj"] = block<wardarm::Trajectory>();
  blocks["wardarm_arm"] = block<wardarm::ArmStatus>();
  nb::dict out;
  out["structs"] = structs;
  out["blocks"] = blocks;
  return out;
}

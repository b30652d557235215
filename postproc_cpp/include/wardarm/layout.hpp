// Every block that wardarm puts into /dev/shm, as plain structs.
//
// A block is one file: BlockHeader, then `slot_count` slots of `slot_bytes` each. A slot is a SlotHeader
// and a payload. One process writes a block; any number read it; the writer never waits (ring.hpp).
// Little-endian, 64-byte aligned, trivially copyable. service/wardarm/shm/layouts.py mirrors this file and
// tests/test_layouts.py compares the two field by field.
//
// Units are in the names: _ns is CLOCK_MONOTONIC nanoseconds, _s seconds, _rad radians, _m metres.
// Poses are of the tool centre point in the robot's base frame (docs/architecture.md, "Frames").
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace wardarm {

inline constexpr std::uint32_t kMagic = 0x4D524157;  // "WARM"
inline constexpr std::uint16_t kLayoutVersion = 1;
inline constexpr int kPoints = 64;     // points of a chunk (the model's contract)
inline constexpr int kDof = 6;         // joints, and x y z roll pitch yaw
inline constexpr int kMaxKnots = 160;  // a trajectory of 8 s at 50 ms
inline constexpr int kMaxHolds = 8;
inline constexpr int kText = 96;
inline constexpr int kInstructionBytes = 512;

enum class BlockKind : std::uint16_t {
  kRawChunk = 1,
  kTrajectory = 2,
  kArmStatus = 3,
  kWord = 4,
  kGateStatus = 5,
  kStep = 6,
  kProgress = 7,
  kCommand = 8,
  kFrameMeta = 9,
};

struct alignas(64) BlockHeader {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t kind;          // BlockKind
  std::uint32_t header_bytes;  // 128
  std::uint32_t slot_bytes;    // SlotHeader + payload, a multiple of 64
  std::uint32_t slot_count;
  std::uint32_t payload_bytes;
  std::uint32_t writer_pid;  // 0 until a writer attached
  std::uint32_t reserved0;
  std::uint64_t writer_start_ticks;  // field 22 of /proc/PID/stat: tells a re-used pid apart
  std::uint8_t boot_id[16];
  std::uint64_t reserved1;
  std::uint64_t head;     // generation last published, 0 = none; atomic
  std::uint64_t beat_ns;  // writer's last sign of life; atomic
  std::uint64_t reserved2[6];
};
static_assert(sizeof(BlockHeader) == 128);
static_assert(offsetof(BlockHeader, head) == 64);

struct alignas(64) SlotHeader {
  std::uint64_t seq;         // 2 x generation when stable, odd while written; atomic
  std::uint64_t generation;  // counts from 1
  std::uint64_t publish_ns;
  std::uint32_t bytes;  // payload bytes in use
  std::uint32_t crc;    // CRC-32 (the one of zlib) of the payload
  std::uint64_t reserved[4];
};
static_assert(sizeof(SlotHeader) == 64);

// What the model (or a scripted movement) asked for: written by eye, read by postproc.
enum class Source : std::uint32_t { kModel = 0, kScripted = 1 };
struct alignas(64) RawChunk {
  std::uint64_t id;          // counts up within a boot, never 0
  std::uint64_t step_seq;    // the step this belongs to
  std::uint64_t plan_epoch;  // ArmStatus::plan_epoch it was made under; a hold makes it void
  std::uint64_t frame_number;
  std::uint64_t capture_ns;
  std::uint64_t infer_start_ns;
  std::uint64_t infer_end_ns;
  std::uint64_t join_trajectory_id;  // trajectory whose tail this replaces; 0 = start from rest
  double join_path_s;                // path time on that trajectory
  std::uint32_t source;              // Source
  std::uint32_t profile;             // row of the limit profiles, config order
  float valid;                       // model's probability, 1 for scripted
  float done;
  float payload_kg;                    // what the fingers will carry once closed
  float speed_scale;                   // share of the profile's speed to keep, 0.05..1; 0 = 1
  std::uint16_t traj[kPoints * kDof];  // FP16 bits, normalised to [-1, 1], point 0 at the join time
  std::uint16_t grip[kPoints];         // FP16 bits, opening 0 (closed) .. 1 (open)
};

// The customer's point: millimetres and degrees, angles relative to tool-down.
struct TrajectoryPoint {
  float x_mm, y_mm, z_mm;
  float roll_deg, pitch_deg, yaw_deg;
};
static_assert(sizeof(TrajectoryPoint) == 24);

// The player runs quintic polynomials through the knots' q, qd, qdd. 20 numbers.
struct Knot {
  double t_s;
  double q_rad[kDof];
  double qd_rad_s[kDof];
  double qdd_rad_s2[kDof];
  double grip;  // commanded opening from this knot on, 0..1
};
static_assert(sizeof(Knot) == 160);

enum class PlanStatus : std::uint32_t {
  kOk = 0,
  kNotFinite = 1,
  kOutOfRange = 2,
  kJump = 3,
  kOutsideBox = 4,
  kUnreachable = 5,
  kSingular = 6,
  kJointLimit = 7,
  kCollision = 8,
  kNoLaw = 9,     // no motion within the limits was found
  kBadJoin = 10,  // the join refers to a trajectory that postproc does not hold
  kStale = 11,    // made under an older plan epoch, or its join time has passed
  kStartMismatch = 12,
};

struct alignas(64) Trajectory {
  std::uint64_t id;  // counts up within a boot, never 0
  std::uint64_t raw_id;
  std::uint64_t step_seq;
  std::uint64_t plan_epoch;
  std::uint64_t capture_ns, infer_start_ns, infer_end_ns;
  std::uint64_t plan_start_ns, plan_end_ns;
  std::uint64_t join_trajectory_id;
  double join_path_s;
  double duration_s;
  double ramp_s;          // how long the player takes from full rate to rest, anywhere on this path
  std::uint32_t status;   // PlanStatus
  std::uint32_t limited;  // bit mask: which limits set the pace (docs/motion.md)
  std::uint32_t source;
  std::uint32_t profile;
  std::uint32_t point_count;
  std::uint32_t knot_count;
  float max_ratio_plan;  // largest value / limit over v, a, j, as the planner sees it
  float max_ratio_stop;
  float payload_kg;
  std::uint32_t reserved0;
  char reason[kText];                   // UTF-8, NUL-terminated
  TrajectoryPoint raw_points[kPoints];  // as the model said
  TrajectoryPoint points[kPoints];      // smoothed
  Knot knots[kMaxKnots];
};

enum class ArmState : std::uint32_t {
  kOffline = 0,
  kConnected = 1,
  kReady = 2,   // at rest, player running, nothing loaded
  kLoaded = 3,  // the player confirmed a trajectory from rest; waiting for the permit
  kRunning = 4,
  kRampDown = 5,
  kHeld = 6,  // at rest, plan discarded, at least one hold
  kSafeguard = 7,
  kProtective = 8,
  kEstop = 9,
  kFault = 10,
};

struct Hold {
  std::uint64_t seq;  // 0 = empty
  std::uint64_t since_ns;
  std::uint32_t reason;  // HoldReason
  std::uint32_t writer;  // ProcessId
  char detail[kText];
};

enum class Holding : std::uint32_t { kNo = 0, kYes = 1, kUnknown = 2 };
struct alignas(64) ArmStatus {
  std::uint64_t stamp_ns;  // when the RTDE sample arrived
  double controller_s;     // the controller's clock
  std::uint32_t state;     // ArmState
  std::uint32_t robot_mode;
  std::uint32_t safety_mode;
  std::uint32_t runtime_state;
  double q_rad[kDof], qd_rad_s[kDof];  // actual
  double target_q_rad[kDof], target_qd_rad_s[kDof];
  double tcp_pose[kDof];  // actual: x y z (m), rotation vector (rad)
  double speed_scaling;
  std::uint64_t plan_epoch;  // goes up whenever every plan became void (a hold, a restart)
  std::uint64_t playing_id;  // trajectory under way, 0 = at rest
  double path_s;             // path time on it at controller_s
  double path_rate;          // 0..1
  double path_duration_s;
  std::uint64_t loaded_id;       // last trajectory the player accepted
  std::uint64_t finished_id;     // last trajectory played to its end
  std::uint64_t refused_id;      // last trajectory arm or player refused
  std::uint32_t refusal;         // RefusalReason
  std::uint32_t at_rest;         // 1: actual_qd is zero and nothing plays
  std::uint32_t motion_request;  // 1: gate may switch the PWM on
  std::uint32_t request_seq;     // goes up with each new request
  float grip_opening;            // 0..1, from the gripper
  float grip_target;
  std::uint32_t holding;  // Holding
  std::uint32_t grip_moving;
  float load_ms;                      // last time from first knot sent to the player's acceptance
  float check_ms;                     // last envelope check
  std::uint64_t permit_edge_cycle;    // controller cycles (2 ms) since power on: first PWM tick seen
  std::uint64_t permit_accept_cycle;  // the player accepted the permit
  std::uint64_t first_motion_cycle;
  std::uint32_t hold_count;
  std::uint32_t command_seq;     // last Command carried out or refused
  std::uint32_t command_result;  // 0 done, else refusal
  std::uint32_t reserved0;
  char command_reason[kText];
  char robot_serial[24];
  char robot_version[24];
  Hold holds[kMaxHolds];
};

struct alignas(64) Word {
  std::uint64_t beat_ns;
  std::uint32_t process;   // ProcessId
  std::uint32_t ok;        // 0 at start
  std::uint64_t hold_seq;  // goes up with each new reason to hold
  std::uint32_t reason;    // HoldReason while ok == 0
  std::uint32_t reserved0;
  char detail[kText];
};

struct alignas(64) GateStatus {
  std::uint64_t beat;  // counts every loop; arm forwards it to the player
  std::uint64_t beat_ns;
  std::uint32_t pwm_on;
  std::uint32_t request_seq;    // the request that the PWM serves or served last
  std::uint64_t drop_seq;       // goes up with each drop while motion was requested
  std::uint64_t edge_ns;        // the PWM's last switch-on
  std::uint64_t drop_ns;        // the PWM's last switch-off by a word
  std::uint32_t missing;        // bit mask by ProcessId: words that are false or late
  std::uint32_t first_missing;  // ProcessId that made the last drop
  char detail[kText];
};

enum class StepKind : std::uint32_t {
  kNone = 0,
  kFetch = 1,
  kPut = 2,
  kPour = 3,
  kPutBack = 4,
  kHandOver = 5,
  kPark = 16,
  kHome = 17,
  kSetDownHere = 18,
  kRelease = 19,
};
struct alignas(64) Step {
  std::uint64_t seq;   // goes up with each new step; 0 = none yet
  std::uint32_t kind;  // StepKind; kNone = stop working on anything
  std::uint32_t attempt;
  char task_id[40];
  char object_kind[24];  // cup, bowl, bottle, spoon, or empty
  char object_color[24];
  char language[8];
  float speed_scale;  // 0.1..1 of the profile
  std::uint32_t profile;
  char text[kInstructionBytes];  // normalised instruction for the model, UTF-8
};

enum class StepState : std::uint32_t {
  kIdle = 0,
  kLooking = 1,
  kMoving = 2,
  kSettingDown = 3,
  kReturning = 4,
  kDone = 5,
  kRefused = 6,  // nothing moved: the model, a check or a rule said no
  kFailed = 7,   // moved, but the step was not achieved
  kHeld = 8,     // waiting for a person's word
};
struct alignas(64) Progress {
  std::uint64_t step_seq;
  std::uint32_t state;     // StepState
  std::uint32_t chunks;    // chunks inferred
  std::uint32_t accepted;  // trajectories the player took
  std::uint32_t refused;
  float valid, done;
  float fraction;  // rough share of the step that is done, 0..1
  std::uint32_t grasp_attempts;
  std::uint64_t frame_number;
  std::uint64_t capture_ns;                          // of the newest frame
  float camera_ms, queue_ms, infer_ms, validate_ms;  // of the newest chunk
  float camera_fps;
  float delay_s;                   // the replanning delay D in use
  std::uint64_t first_capture_ns;  // frame behind the step's first motion
  std::uint64_t first_motion_ns;   // 0 until it moved
  std::uint64_t model_version;
  char reason[2 * kText];
  std::uint32_t model_tasks;  // bit k: the served weights were trained for StepKind k; 0: not known
  std::uint32_t reserved0;
};

enum class CommandKind : std::uint32_t { kNone = 0, kResume = 1, kStop = 2, kRecover = 3, kPowerOn = 4 };
struct alignas(64) Command {
  std::uint64_t seq;
  std::uint32_t kind;  // CommandKind
  std::uint32_t hold_count;
  std::uint64_t hold_seqs[kMaxHolds];
  char actor[kText];
};

// Pixels live in a region of their own (`frames`), slot i at i x frame slot bytes.
struct alignas(64) FrameMeta {
  std::uint64_t frame_number;
  std::uint64_t capture_ns;  // exposure, mapped to CLOCK_MONOTONIC
  std::uint64_t arrival_ns;
  double sensor_ms;  // the camera's own clock
  std::uint32_t pixel_slot;
  std::uint32_t width, height, channels;
  float brightness;  // mean, 0..255
  std::uint32_t reserved0;
};

enum class ProcessId : std::uint32_t {
  kSupervisor = 0,
  kApi = 1,
  kEye = 2,
  kPostproc = 3,
  kArm = 4,
  kGate = 5,
  kGuard = 6,
  kAlert = 7,
  kTriton = 8,
};

enum class HoldReason : std::uint32_t {
  kNone = 0,
  kClient = 1,
  kIntruder = 2,
  kLeaseLost = 3,
  kCameraLost = 4,
  kCameraMoved = 5,
  kRoomCameraLost = 6,
  kViewChanged = 7,
  kInferenceStale = 8,
  kPlanRefused = 9,
  kGripLost = 10,
  kRobot = 11,
  kThermal = 12,
  kGateFault = 13,
  kWatchdog = 14,
  kStarting = 15,
  kStop = 16,
};

enum class RefusalReason : std::uint32_t {
  kNone = 0,
  kPlan = 1,         // postproc refused it (Trajectory::status)
  kEnvelope = 2,     // the independent check found a value beyond a limit
  kLate = 3,         // the join time had passed
  kUnknownJoin = 4,  // joins a trajectory that is not playing
  kNotReady = 5,     // the arm's state forbids it
  kChecksum = 6,
  kDiscontinuous = 7,
  kEpoch = 8,
  kStart = 9,  // does not start where the arm is
};

template <class T>
inline constexpr bool is_payload = std::is_trivially_copyable_v<T> && sizeof(T) % 64 == 0;
static_assert(is_payload<RawChunk> && is_payload<Trajectory> && is_payload<ArmStatus> && is_payload<Word>);
static_assert(is_payload<GateStatus> && is_payload<Step> && is_payload<Progress> && is_payload<Command>);
static_assert(is_payload<FrameMeta>);

}  // namespace wardarm

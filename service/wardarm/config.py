"""The one configuration file: typed, with a unit, a range and a default for every key.

`wardarm config docs` prints this as a table, `wardarm config check FILE` refuses what does not fit and names the
key, the value and the limit. What differs between a desk and the Thor beside a bed is a file, never code:
`configs/desk.toml` (everything simulated) and `configs/thor.toml` ship with the package.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

SCHEMA = 1

Vec3 = tuple[float, float, float]
Vec6 = tuple[float, float, float, float, float, float]


class ConfigError(ValueError):
    """The configuration cannot be used; the text names every key, value and limit that is wrong."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class LimitProfile(_Section):
    """One row of the motion limits. The same values, wider, belong in the robot's own safety configuration."""

    joint_deg_s: float = Field(gt=0, le=180, description="joint speed, deg/s")
    joint_deg_s2: float = Field(gt=0, le=600, description="joint acceleration, deg/s2")
    joint_deg_s3: float = Field(gt=0, le=6000, description="joint jerk, deg/s3")
    tcp_m_s: float = Field(gt=0, le=1.0, description="TCP speed, m/s")
    tcp_m_s2: float = Field(gt=0, le=5.0, description="TCP acceleration, m/s2")
    tcp_m_s3: float = Field(gt=0, le=40.0, description="TCP jerk, m/s3")
    tcp_deg_s: float = Field(gt=0, le=180, description="TCP angular speed, deg/s")
    tcp_deg_s2: float = Field(gt=0, le=600, description="TCP angular acceleration, deg/s2")
    tcp_deg_s3: float = Field(gt=0, le=6000, description="TCP angular jerk, deg/s3")
    stop_factor: float = Field(default=2.0, ge=1, le=3, description="a and j of a stop, as a multiple of the plan's")
    ramp_min_s: float = Field(default=0.30, gt=0, le=2, description="shortest ramp to rest, s")
    ramp_max_s: float = Field(default=0.34, gt=0, le=2, description="longest; the plan is slower where a stop needs it")
    tilt_deg: float | None = Field(
        default=None, gt=0, le=90, description="of the tool from straight down, deg (liquids)"
    )
    lateral_m_s2: float | None = Field(
        default=None, gt=0, le=15, description="horizontal acceleration of the TCP, plan and stop alike, m/s2 (liquids)"
    )

    @model_validator(mode="after")
    def _ramps_in_order(self) -> LimitProfile:
        if self.ramp_max_s < self.ramp_min_s:
            raise ValueError(f"ramp_max_s = {self.ramp_max_s} is below ramp_min_s = {self.ramp_min_s}: raise it")
        return self


_Three = tuple[float, float, float]


def _row(
    joint: _Three, tcp: _Three, turn: _Three, stop_factor: float = 2.0, ramp_s: tuple[float, float] = (0.30, 0.34),
    tilt_deg: float | None = None, lateral_m_s2: float | None = None,
) -> LimitProfile:  # fmt: skip
    """Speed, acceleration, jerk of the joints (deg), the TCP (m) and its turning (deg)."""
    names = [f"{what}_{unit}" for what, unit in (("joint_deg", "s"), ("tcp_m", "s"), ("tcp_deg", "s"))]
    values = {
        f"{name}{power}": value
        for name, three in zip(names, (joint, tcp, turn), strict=True)
        for power, value in zip(("", "2", "3"), three, strict=True)
    }
    return LimitProfile(
        **values, stop_factor=stop_factor, ramp_min_s=ramp_s[0], ramp_max_s=ramp_s[1], tilt_deg=tilt_deg,
        lateral_m_s2=lateral_m_s2,
    )  # fmt: skip


def _profiles() -> dict[str, LimitProfile]:
    return {
        "ward": _row((60, 180, 1500), (0.25, 0.8, 6), (60, 180, 1500)),
        "carry_liquid": _row(
            (60, 120, 900),
            (0.25, 0.8, 4),
            (30, 90, 700),
            stop_factor=1.5,
            ramp_s=(0.35, 0.62),
            tilt_deg=10,
            lateral_m_s2=1.5,
        ),
        "patient": _row((30, 90, 800), (0.10, 0.4, 4), (30, 90, 700), stop_factor=3.0, ramp_s=(0.20, 0.23)),
        "fast": _row((180, 300, 3000), (1.0, 3.0, 30), (180, 300, 3000)),
    }


class Shm(_Section):
    prefix: str = Field(default="", pattern=r"^[a-z0-9_]{0,24}$", description="put before every name in /dev/shm")


class Workspace(_Section):
    """Box the TCP must stay in, base frame, m. Wider than nothing the model can say."""

    low: Vec3 = (0.10, -0.60, 0.005)
    high: Vec3 = (0.90, 0.62, 0.75)
    table_z: float = Field(default=0.0, ge=-1, le=1, description="table top, base frame, m")
    floor_links_z: float = Field(default=0.03, ge=-1, le=1, description="elbow and wrist joints stay above this, m")
    patient_low: Vec3 | None = Field(
        default=(-0.60, 0.74, -0.40), description="corner of the patient's place, which no link of the arm enters, m"
    )
    patient_high: Vec3 | None = Field(default=(1.30, 1.60, 0.70), description="its other corner; both None: no place")

    @model_validator(mode="after")
    def _a_box(self) -> Workspace:
        for axis, low, high in zip("xyz", self.low, self.high, strict=True):
            if low >= high:
                raise ValueError(f"workspace: low {axis} = {low} is not below high {axis} = {high}")
        if (self.patient_low is None) != (self.patient_high is None):
            raise ValueError("workspace: patient_low and patient_high go together: give both corners, or neither")
        for axis, low, high in zip("xyz", self.patient_low or (), self.patient_high or (), strict=False):
            if low >= high:
                raise ValueError(f"workspace: patient_low {axis} = {low} is not below patient_high {axis} = {high}")
        return self


class Camera(_Section):
    source: str = Field(
        default="serial:",
        description="'serial:NUMBER' (a live D455; empty = the only one), 'file:PATH' (.bag or .db3), "
        "or 'factory:module:function' that returns a pyrealsense2 device",
    )
    width: int = Field(default=1280, ge=320, le=1920)
    height: int = Field(default=720, ge=180, le=1080)
    fps: int = Field(default=30, ge=1, le=90, description="frames/s")
    lost_s: float = Field(default=0.5, gt=0, le=5, description="no frame for this long: CAMERA_LOST")
    dark_below: float = Field(
        default=6, ge=0, le=128, description="mean brightness (0..255) under which a picture is dark: as good as none"
    )
    slots: int = Field(default=4, ge=2, le=16, description="frame slots in /dev/shm")
    place: str = Field(
        default="",
        description="folder that `wardarm calibrate camera` wrote; empty: the camera stands where the model was trained "
        "and nobody looks whether it was moved",
    )


class Triton(_Section):
    url: str = Field(default="127.0.0.1:8001", description="gRPC address of the inference server")
    http_port: int = Field(default=8000, ge=1024, le=65535)
    metrics_port: int = Field(default=8002, ge=1024, le=65535)
    model: str = "groot_n15"
    embedded: bool = Field(default=False, description="start the server of build/triton (CPU) as a child")
    config_name: str = Field(default="", description="--model-config-name of the embedded server: cpu_sim")
    repository: str = Field(default="model_repository", description="relative paths are against the installation root")
    start_deadline_s: float = Field(default=60, gt=0, le=600)
    infer_deadline_s: float = Field(default=0.5, gt=0, le=10, description="client deadline of one inference, s")
    back_s: float = Field(
        default=30,
        ge=0,
        le=600,
        description="a step waits this long at rest for a server that is gone, then it ends, s",
    )


class Eye(_Section):
    period_s: float = Field(default=0.40, gt=0.05, le=2, description="replan this often; keep away from 0.25-0.30 s")
    delay_s: float = Field(default=0.30, ge=0.1, le=1.0, description="first guess of D, s")
    delay_max_s: float = Field(default=0.60, ge=0.1, le=1.0, description="the policy was trained with D up to this, s")
    delay_margin_s: float = Field(default=0.05, ge=0, le=0.5)
    valid_min: float = Field(default=0.5, ge=0, le=1, description="below this at the first look: refused")
    done_min: float = Field(default=0.5, ge=0, le=1)
    step_timeout_s: float = Field(default=60, gt=0, le=600)
    grasp_attempts: int = Field(default=3, ge=1, le=5, description="first grasp and its retries")
    look_at_table: bool = Field(
        default=True,
        description="by depth: is the place free where it will be set down, and does it stand there afterwards?",
    )


class Poses(_Section):
    """Named TCP poses: x y z (m, base frame), roll pitch yaw (deg) relative to tool-down."""

    home: Vec6 = (0.30, 0.0, 0.42, 0, 0, 0)
    park: Vec6 = (0.30, 0.0, 0.42, 0, 0, 0)
    hand_over: Vec6 = (0.48, 0.50, 0.34, 0, 0, 0)
    travel_z: float = Field(default=0.34, gt=0, le=0.75, description="height for scripted travel, m")
    leaf: tuple[float, float] = Field(
        default=(0.48, 0.53), description="x y of the over-bed leaf where things are set down, m; as high as the table"
    )
    leaf_room: tuple[Annotated[float, Field(ge=0, le=0.5)], Annotated[float, Field(ge=0, le=0.5)]] = Field(
        default=(0.08, 0.03),
        description="so far from `leaf` in x and y, m, something may be set down where `leaf` itself is taken; 0: nowhere else",
    )


class Arm(_Section):
    host: str = Field(default="192.168.1.10", min_length=1, description="the controller's address")
    own_address: str = Field(
        default="192.168.1.1", min_length=1, description="this machine's address, as the controller sees it"
    )
    trajectory_port: int = Field(default=50010, ge=1024, le=65535, description="the player connects here")
    gripper_port: int = Field(default=63352, ge=1, le=65535)
    rtde_hz: float = Field(default=125, ge=10, le=500)
    dh_a: Vec6 = (0, -0.425, -0.3922, 0, 0, 0)
    dh_d: Vec6 = (0.1625, 0, 0, 0.1333, 0.0997, 0.0996)
    dh_alpha: Vec6 = (math.pi / 2, 0, 0, math.pi / 2, -math.pi / 2, 0)
    tcp: Vec6 = Field(default=(0, 0, 0.1558, 0, 0, -math.pi / 2), description="flange to TCP: m, rotation vector rad")
    payload_kg: float = Field(default=1.03, ge=0, le=5, description="gripper alone")
    payload_cog: Vec3 = (0, 0, 0.06)
    start_tolerance_rad: float = Field(default=0.02, gt=0, le=0.1)
    chunk_stale_s: float = Field(default=0.6, gt=0.1, le=5, description="moving without a new chunk: INFERENCE_STALE")
    arm_timeout_s: float = Field(
        default=2.0, gt=0.1, le=10, description="loaded but no permit for this long: discarded"
    )
    encoder_pins: tuple[int, int] = (8, 9)
    gripper_close_force: int = Field(default=80, ge=0, le=255)


THOR_PWM_PINS = (13, 15, 18)  # Jetson.GPIO 2.1, JETSON_THOR_REFERENCE; 32 and 33 are not PWM there


class Gate(_Section):
    output: str = Field(default="jetson", description="'jetson' (Jetson.GPIO PWM), or 'unix:PATH' (simulated edges)")
    pin: int = Field(default=18, ge=1, le=40, description="BOARD number; PWM on a Thor: 13, 15, 18")
    frequency_hz: float = Field(default=1000, gt=0, le=10000)
    duty_percent: float = Field(default=50, gt=0, lt=100)
    loop_ms: float = Field(default=5, ge=1, le=50)
    word_deadline_ms: float = Field(default=100, ge=20, le=1000, description="a word older than this is false")
    beat_ms: float = Field(default=20, ge=5, le=200, description="how often each process renews its word")

    @model_validator(mode="after")
    def _a_pwm_pin(self) -> Gate:
        if self.output == "jetson" and self.pin not in THOR_PWM_PINS:
            raise ValueError(f"gate.pin = {self.pin}: PWM on a Thor is on BOARD {', '.join(map(str, THOR_PWM_PINS))}")
        return self


CLOCK_TIME = r"^$|^([01][0-9]|2[0-3]):[0-5][0-9]$"


class Zone(_Section):
    """A part of one room camera's picture, and what somebody in it means."""

    kind: Literal["keep_out", "warn", "authorised", "mask"] = Field(
        description="keep_out holds the arm, warn slows it and speaks, authorised (bed, patient) and mask (screen, "
        "window) are left out"
    )
    polygon: list[tuple[float, float]] = Field(min_length=3, description="corners in order, pixels of the frame")
    name: str = Field(default="", pattern=r"^[a-z0-9_-]{0,24}$")
    min_area_percent: float = Field(default=0, ge=0, le=20, description="0: guard.min_area_percent")
    dwell_s: float = Field(default=0, ge=0, le=2, description="a small blob counts only after so long, s")
    start: str = Field(default="", pattern=CLOCK_TIME, description="active from this local time (HH:MM); empty: always")
    end: str = Field(default="", pattern=CLOCK_TIME, description="active until this local time (HH:MM)")


class RoomCamera(_Section):
    name: str = Field(pattern=r"^[a-z0-9_-]{1,24}$")
    command: str = Field(
        description="a program that writes raw GRAY8 frames to stdout; {width} {height} {fps} are filled in"
    )
    keep_out: list[tuple[float, float]] = Field(
        default_factory=list, description="polygon, pixels of the frame: short for a zone of kind keep_out"
    )
    zones: list[Zone] = Field(default_factory=list, max_length=16)
    camera_pos: Vec3 = Field(default=(0, 0, 0), description="base frame, m; for masking our own arm")
    camera_look: Vec3 = Field(default=(0, 0, 0), description="point the optical axis passes through, base frame, m")
    roll_deg: float = Field(default=0, ge=-180, le=180, description="turned about its axis, clockwise as it looks, deg")
    fovy_deg: float = Field(default=58, gt=5, lt=150)

    @field_validator("keep_out")
    @classmethod
    def _none_or_an_area(cls, points: list[tuple[float, float]]) -> list[tuple[float, float]]:
        if 0 < len(points) < 3:
            raise ValueError(f"{len(points)} points are no area; give at least 3")
        return points


class Guard(_Section):
    enabled: bool = True
    width: int = Field(default=640, ge=160, le=1920)
    height: int = Field(default=360, ge=90, le=1080)
    fps: float = Field(default=10, ge=1, le=60)
    fps_min_percent: float = Field(
        default=50, ge=0, le=95, description="fewer frames than this share of fps over 2 s: ROOM_CAMERA_LOST; 0: off"
    )
    lost_s: float = Field(default=1.0, gt=0, le=10, description="no frame for this long: ROOM_CAMERA_LOST")
    still_percent: float = Field(
        default=0.3,
        ge=0,
        le=10,
        description="a frame that differs from the last in fewer pixels, %, is frozen (a clock drawn into it may go on); "
        "0 for compressed streams: identical only",
    )
    min_area_percent: float = Field(default=0.2, gt=0, le=20, description="smallest blob, % of the frame")
    change_percent: float = Field(default=60, gt=5, le=100, description="more than this at once: VIEW_CHANGED")
    warmup_frames: int = Field(default=15, ge=1, le=600)
    lamps: list[Vec3] = Field(
        default_factory=list, max_length=4, description="lamps whose light makes the arm throw a shadow, base frame, m"
    )
    shadow_z: list[float] = Field(
        default=[0.0, -0.75], max_length=4, description="heights that the shadow falls on (table, floor), base frame, m"
    )
    attended_max_min: float = Field(default=30, gt=0, le=120, description="longest attended mode, minutes")
    slow_profile: str = Field(default="patient", description="limit profile while a warn zone is occupied or attended")
    person: Literal["off", "label", "require"] = Field(
        default="off",
        description="second opinion of a person detector: label names what it sees, require also wants it to see "
        "nobody before a view is clear; it never ends a hold",
    )
    cameras: list[RoomCamera] = Field(default_factory=list, max_length=8)


class Alert(_Section):
    """Spoken words after the arm has paused."""

    enabled: bool = True
    command: str = Field(default="aplay -q {file}", description="plays one WAV file; no shell; {file} is filled in")
    manifest: str = Field(default="", description="manifest.json of the site's own recordings; empty: made at start")
    languages: tuple[Literal["zh", "en"], ...] = Field(default=("zh", "en"), description="in this order")
    repeat_s: float = Field(default=15, ge=3, le=600, description="said again while the cause persists, s")
    quiet_start: str = Field(default="", pattern=CLOCK_TIME, description="nothing is said from this local time (HH:MM)")
    quiet_end: str = Field(default="", pattern=CLOCK_TIME, description="until this local time (HH:MM)")
    timeout_s: float = Field(default=15, gt=1, le=60, description="a player that takes longer is ended, s")
    self_test: bool = Field(default=False, description="a tone whenever the process starts")


class Api(_Section):
    address: str = Field(default="127.0.0.1:50051", description="TaskService, StateService, ControlService")
    stop_address: str = Field(default="127.0.0.1:50052", description="Pause and Stop only: no lease, no rate limit")
    tls: bool = Field(default=True, description="mutual TLS; false only on loopback")
    certs: str = Field(default="/etc/wardarm/certs")
    state_dir: str = Field(default="/var/lib/wardarm", description="tasks, request ids, audit")
    lease_ttl_s: float = Field(default=1.0, gt=0.1, le=60)

    @model_validator(mode="after")
    def _loopback_without_tls(self) -> Api:
        for key in ("address", "stop_address"):
            if not self.tls and not getattr(self, key).startswith(("127.", "localhost:", "[::1]:", "unix:")):
                raise ValueError(f"api.{key} = {getattr(self, key)}: without TLS only loopback is allowed")
        return self


class Sim(_Section):
    """The simulated bedside; ignored unless `enabled`."""

    enabled: bool = False
    seed: int = Field(default=7, ge=0)
    scene: str = Field(default="", description="a scene file (JSON), or empty: drawn from the seed")
    address: str = Field(default="127.0.0.1", description="the simulated controller listens here")
    control_port: int = Field(default=30100, ge=1024, le=65535)
    record: str = Field(default="", description="write the world's states into this file, for a film afterwards")
    d455_fps: float = Field(default=10, gt=0, le=60)
    room_fps: float = Field(default=5, gt=0, le=60)


class Supervisor(_Section):
    restart_budget: int = Field(default=5, ge=1, le=10000, description="deaths of one process in restart_window_s")
    restart_window_s: float = Field(default=60, ge=1, le=3600)


class Log(_Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    directory: str = Field(default="", description="one JSON-lines file a process; empty: stdout (journald)")


class Config(_Section):
    schema_: Annotated[int, Field(alias="schema")] = SCHEMA
    simulated: bool = Field(default=False, description="GetServerInfo, the demo and every summary say so")
    profile: str = Field(default="ward", description="the limit profile in force")
    shm: Shm = Shm()
    workspace: Workspace = Workspace()
    camera: Camera = Camera()
    triton: Triton = Triton()
    eye: Eye = Eye()
    poses: Poses = Poses()
    arm: Arm = Arm()
    gate: Gate = Gate()
    guard: Guard = Guard()
    alert: Alert = Alert()
    api: Api = Api()
    sim: Sim = Sim()
    supervisor: Supervisor = Supervisor()
    log: Log = Log()
    profiles: dict[str, LimitProfile] = Field(default_factory=_profiles)

    @model_validator(mode="before")
    @classmethod
    def _shipped_profiles_stay(cls, data: Any) -> Any:
        """A profile that ships may be given in part: what is not said stays as it ships, and so do the others."""
        given = data.get("profiles") if isinstance(data, dict) else None
        if not isinstance(given, dict):
            return data
        profiles: dict[str, Any] = dict(_profiles())
        for name, row in given.items():
            shipped = profiles.get(name)
            if isinstance(shipped, LimitProfile) and isinstance(row, dict):
                profiles[name] = shipped.model_dump() | row
            else:
                profiles[name] = row
        return {**data, "profiles": profiles}

    @model_validator(mode="after")
    def _known(self) -> Config:
        if self.schema_ != SCHEMA:
            raise ValueError(f"schema = {self.schema_}: this version reads schema {SCHEMA}")
        if self.profile not in self.profiles:
            raise ValueError(f"profile = {self.profile!r}: not one of {', '.join(self.profiles)}")
        if self.guard.slow_profile not in self.profiles:
            raise ValueError(f"guard.slow_profile = {self.guard.slow_profile!r}: not one of {', '.join(self.profiles)}")
        if self.sim.enabled and not self.simulated:
            raise ValueError("sim.enabled = true needs simulated = true")
        return self

    @property
    def limits(self) -> LimitProfile:
        return self.profiles[self.profile]

    def profile_index(self, name: str | None = None) -> int:
        """The number of a profile in RawChunk.profile: its place in the file."""
        return list(self.profiles).index(name or self.profile)


def parse(data: dict[str, object], origin: str) -> Config:
    """Check a parsed file. Raises ConfigError naming key, value and limit."""
    try:
        return Config.model_validate(data)
    except ValidationError as e:
        lines = [
            f"{'.'.join(str(p) for p in err['loc']) or 'file'}"
            + (f" = {err['input']!r}" if not isinstance(err["input"], dict) else "")
            + f": {err['msg']}"
            for err in e.errors()
        ]
        raise ConfigError(f"{origin}: " + "; ".join(lines)) from e


def load(path: str | Path, overrides: Mapping[str, object] | None = None) -> Config:
    """Read a TOML or JSON file, or a TOML that ships with the package by its name ('desk', 'thor').

    `overrides` maps dotted keys to values ({"sim.seed": 3}) and is checked like the file.
    """
    name = str(path)
    try:
        if "/" not in name and not name.endswith((".toml", ".json")):
            raw = resources.files("wardarm").joinpath("configs", f"{name}.toml").read_text("utf-8")
        else:
            raw = Path(path).read_text("utf-8")
        data = json.loads(raw) if name.endswith(".json") else tomllib.loads(raw)
    except FileNotFoundError as e:
        raise ConfigError(f"{name}: no such configuration; 'desk' and 'thor' ship with wardarm") from e
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, json.JSONDecodeError) as e:
        raise ConfigError(f"{name}: {e}") from e
    for key, value in (overrides or {}).items():
        *sections, last = key.split(".")
        at = data
        for section in sections:
            at = at.setdefault(section, {})
        at[last] = value
    return parse(data, name)


def dump(config: Config, path: Path) -> None:
    """Write a resolved configuration as JSON; every process of a run reads this one file."""
    path.write_text(config.model_dump_json(by_alias=True, indent=1), "utf-8")


def reference() -> str:
    """Every key as a Markdown table: key, default, range, meaning."""
    lines = ["| key | default | range | meaning |", "|---|---|---|---|"]

    def walk(model: type[BaseModel], prefix: str) -> None:
        for name, info in model.model_fields.items():
            key = f"{prefix}{info.alias or name}"
            kind = info.annotation
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                walk(kind, f"{key}.")
                continue
            bounds = []
            for m in info.metadata:
                for sign, attribute in ((">", "gt"), (">=", "ge"), ("<", "lt"), ("<=", "le")):
                    if getattr(m, attribute, None) is not None:
                        bounds.append(f"{sign} {getattr(m, attribute)}")
            default = "" if info.is_required() else info.get_default(call_default_factory=True)
            shown = "see `wardarm config show`" if name in ("profiles", "cameras") else f"`{default}`"
            lines.append(f"| `{key}` | {shown} | {', '.join(bounds)} | {info.description or ''} |")

    walk(Config, "")
    return "\n".join(lines)

"""The two ways to move: follow the model, or follow a script. Both ask for a chunk every period and join it ahead.

They are generators that the main loop advances once a tick, so that the word's beat never waits for anything. A hold
closes them; nothing of theirs outlives it.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from wardarm.config import Config
from wardarm.eye.calm import Calm
from wardarm.eye.chunks import Accepted, ChunkWriter, Refused, Sent, Stamps, outcome
from wardarm.eye.delay import Delay
from wardarm.eye.gentle import Gentle
from wardarm.eye.model import Model, Reply, Tokens
from wardarm.eye.motion import Join, Motion
from wardarm.eye.planned import Planned
from wardarm.eye.scripted import Fingers, Line, Script, stop, upright
from wardarm.eye.triton import ChunkOutOfRange, InferenceError, ServerUnavailable
from wardarm.policy import contract
from wardarm.shm.layouts import Source, StepState

log = logging.getLogger("wardarm.eye")

T = TypeVar("T")
Ticks = Generator[None, None, T]

_MODEL_RETRY_S = 0.5  # after an inference that failed: a server takes seconds to come back
_RETRY_S = 0.1  # after a refusal, ask again this soon
_LASTING_REFUSALS = 5  # of a place that stays wrong
_REFUSALS = 25  # in a row, whatever they are
_MODEL_FAILURES = 8  # in a row
_WAITING = "waiting for the inference server: it is down or restarting"
_WINDOW_S = 1.2  # of a script's chunk of 3.15 s, before the next one is asked for
_KNOTS_S = 7.0  # of path that a trajectory surely holds: what is slower is cut short
_STANDING_M_S = 0.02
_BRAKE_S = 1.0  # then the tail is left to end by itself
_ARRIVED_M, _ARRIVED_RAD = 0.003, 0.02


class StepEnded(Exception):
    """The step ends here: `state` is DONE, REFUSED or FAILED, `reason` in plain words."""

    def __init__(self, state: StepState, reason: str) -> None:
        super().__init__(reason)
        self.state, self.reason = state, reason


@dataclass
class Report:
    """What becomes the Progress block. Written by the loop, copied out by main."""

    step_seq: int = 0
    state: StepState = StepState.IDLE
    chunks: int = 0
    accepted: int = 0
    refused: int = 0
    valid: float = 0.0
    done: float = 0.0
    fraction: float = 0.0
    grasp_attempts: int = 0
    camera_ms: float = 0.0
    queue_ms: float = 0.0
    infer_ms: float = 0.0
    validate_ms: float = 0.0
    first_capture_ns: int = 0
    first_motion_ns: int = 0
    model_version: int = 0
    reason: str = ""


@dataclass
class Order:
    """What every chunk of a step carries."""

    step_seq: int
    profile: int
    speed_scale: float
    payload_kg: float


@dataclass
class _Asking:
    """Bookkeeping of one follow."""

    join: Join | None = None
    sent: Sent | None = None
    last_s: float = -1e9
    retry_at_s: float | None = None  # after a refusal or a failed inference
    refusals: int = 0
    lasting: int = 0
    failures: int = 0
    failing_since_s: float = 0.0
    frame_number: int = 0
    bases: dict[int, float] = field(default_factory=dict)  # trajectory id -> nominal time of its start (scripts)
    scales: dict[int, float] = field(default_factory=dict)  # trajectory id -> nominal seconds a second of its path
    scale: float = 1.0  # of the last chunk of a script


class Follower:
    def __init__(self, config: Config, motion: Motion, chunks: ChunkWriter, model: Model, report: Report) -> None:
        self.config, self.motion, self.chunks, self.model, self.report = config, motion, chunks, model, report
        e = config.eye
        self.model_delay = Delay(e.delay_s, e.delay_margin_s, e.delay_max_s)
        self.script_delay = Delay(e.delay_s, e.delay_margin_s, e.delay_max_s)
        self.order = Order(0, 0, 1.0, 0.0)
        self.gentle = Gentle(config, motion.kinematics)
        self.calm = Calm(config)
        self._infer_s: deque[float] = deque(maxlen=8)
        self.last_refusal = ""  # plain words; empty once a chunk was accepted

    def model_tasks(self) -> frozenset[int]:
        """Step kinds that the served weights were trained for, by their configuration; none while it is not known."""
        return getattr(self.model, "tasks", frozenset())

    # -- scripts ------------------------------------------------------------------------------------------------

    def script(self, legs: Callable[[Planned], Sequence[Line | Fingers]]) -> Ticks[Script]:
        """Go along a script until its end is reached and nothing more is to move. `legs` gets the plan at its start.

        A script starts standing: what moves is stopped first.
        """
        asking = _Asking()
        script: Script | None = None
        at_s = 0.0  # latest nominal time that was asked for
        if self._speed_m_s() > _STANDING_M_S:
            yield from self.brake()
        while True:
            if asking.sent is None and self._script_due(script, asking):
                join = self.motion.join(self._ahead_s(self.script_delay))
                if join is not None and (asking.bases or self._speed_m_s(join.planned) <= _STANDING_M_S):
                    if script is None or not asking.bases:  # nothing accepted yet: it starts where the join is now
                        plan = join.planned
                        script = Script(plan.pose, plan.opening, legs(plan))
                    else:
                        at_s = self._place(script, join, asking, at_s)
                    if script.duration_s > 0:
                        self._send_script(script, join, at_s, asking)
            if asking.sent is not None:
                accepted = self._outcome(asking, self.script_delay)
                if accepted is not None:
                    asking.bases[accepted.trajectory_id] = at_s
                    asking.scales[accepted.trajectory_id] = asking.scale
            if script is not None and asking.sent is None and self._arrived(script, asking):
                return script
            yield

    def _speed_m_s(self, planned: Planned | None = None) -> float:
        """TCP speed of a plan (default: now)."""
        planned = planned or self.motion.now()
        if planned is None:
            return 0.0
        return float(np.linalg.norm((self.motion.kinematics.jacobian(planned.q_rad) @ planned.qd_rad_s)[:3]))

    def _script_due(self, script: Script | None, asking: _Asking) -> bool:
        """The next window is asked for while the present one still moves; the last one plays to its end."""
        if not self._due(asking):
            return False
        if script is None or not asking.bases or self.motion.ready or asking.retry_at_s is not None:
            return True
        if self._scale() != asking.scale and self.motion.moving:
            return True
        covered_s = list(asking.bases.values())[-1] + min(contract.CHUNK_S, _KNOTS_S * asking.scale)
        return covered_s < script.duration_s and time.monotonic() - asking.last_s >= _WINDOW_S

    def _place(self, script: Script, join: Join, asking: _Asking, at_s: float) -> float:
        base_s = asking.bases.get(join.trajectory_id)
        if base_s is not None:
            return script.find(join.planned.pose, join.planned.opening, base_s, base_s + join.path_s)
        low = list(asking.bases.values())[-1]
        return script.find(join.planned.pose, join.planned.opening, low, max(at_s, low + contract.CHUNK_S))

    def _send_script(self, script: Script, join: Join, at_s: float, asking: _Asking) -> None:
        try:
            traj, grip = script.chunk(at_s)
        except ValueError as e:
            raise StepEnded(self.ending(), str(e)) from e
        asking.scale = self._scale()
        asked_ns = time.monotonic_ns()
        self._send(traj, grip, join, asking, Source.SCRIPTED, asked_ns, Stamps(), 1.0, 0.0, asking.scale)

    def _arrived(self, script: Script, asking: _Asking) -> bool:
        """The plan stands at the script's end, and the script's own time (pauses for the fingers) has passed."""
        now, bases = self.motion.now(), asking.bases
        if now is None or not self.motion.still():
            return False
        if script.duration_s > 0:
            playing = self.motion.playing()
            base_s = bases.get(playing.id) if playing is not None else None
            if base_s is not None:
                assert playing is not None
                passed_s = base_s + self.motion.path_s() * asking.scales.get(playing.id, 1.0)
            else:
                passed_s = list(bases.values())[-1] + contract.CHUNK_S if bases and self.motion.ready else 0.0
            if passed_s < script.duration_s - 0.05:
                return False
        off_m = float(np.linalg.norm(now.pose.xyz_m - script.end.xyz_m))
        turn = contract.rotation_from_rpy(now.pose.rpy_rad) @ contract.rotation_from_rpy(script.end.rpy_rad).T
        off_rad = float(np.linalg.norm(contract.rotvec_from_rotation(turn)))
        fingers = abs(now.opening - script.end_opening) < 0.02
        return off_m < _ARRIVED_M and off_rad < _ARRIVED_RAD and fingers

    def brake(self) -> Ticks[None]:
        """A step was dropped under way: stop within a few centimetres instead of playing its tail to the end.

        A model's tail is replaced even where it only stands: without a new chunk it would count as INFERENCE_STALE.
        """
        yield from self._end_with(stop)

    def upright(self) -> Ticks[None]:
        """Somebody pressed Pause while what is held leans: stop, and set it upright on the way."""
        limits = list(self.config.profiles.values())[self.order.profile]
        yield from self._end_with(lambda plan, velocity: upright(plan, velocity, limits))

    def _end_with(self, last: Callable[[Planned, np.ndarray], tuple[np.ndarray, np.ndarray]]) -> Ticks[None]:
        """Replace what plays by one last chunk."""
        asking = _Asking()
        until_s = time.monotonic() + _BRAKE_S
        while time.monotonic() < until_s:
            playing = self.motion.playing()
            if playing is None or (playing.source == Source.SCRIPTED and self.motion.still()):
                return
            if asking.sent is not None:
                if self._outcome(asking, self.script_delay) is not None:
                    return
            elif self._due(asking):
                join = self.motion.join(self._ahead_s(self.script_delay))
                if join is not None:
                    velocity = self.motion.kinematics.jacobian(join.planned.q_rad) @ join.planned.qd_rad_s
                    traj, grip = last(join.planned, velocity)
                    self._send(traj, grip, join, asking, Source.SCRIPTED, time.monotonic_ns(), Stamps(), 1.0, 0.0)
            yield

    # -- the model ----------------------------------------------------------------------------------------------

    def look(self, tokens: Tokens, after_ns: int, count: int) -> Ticks[float]:
        """The mean of `output_valid` over `count` frames captured after `after_ns`, the arm standing."""
        yield from self._model_free()
        values: list[float] = []
        failures, seen, failing_since_s, ask_at_s = 0, 0, 0.0, 0.0
        while len(values) < count:
            frame = self.model.board.latest
            now = self.motion.now()
            if (
                not self.model.busy and self.motion.still() and now is not None
                and frame is not None and frame.capture_ns > after_ns and frame.number > seen
                and time.monotonic() >= ask_at_s
            ):  # fmt: skip
                seen = frame.number
                self.model.ask(tokens, now)
            result = self.model.poll()
            if isinstance(result, ChunkOutOfRange):  # nothing moves by it, and it often comes with a low `valid`
                values.append(result.valid)
                self.report.valid = float(np.mean(values))
            elif isinstance(result, InferenceError):
                failures += 1
                now_s = time.monotonic()
                ask_at_s = now_s + _MODEL_RETRY_S
                failing_since_s = failing_since_s or now_s
                gone = isinstance(result, ServerUnavailable)
                if gone:
                    self.report.reason = _WAITING
                if now_s - failing_since_s > self.config.triton.back_s if gone else failures >= _MODEL_FAILURES:
                    raise StepEnded(self.ending(), f"the model does not answer: {result}")
                seen = 0
            elif result is not None:
                if failures:
                    self.report.reason = ""
                failures, failing_since_s = 0, 0.0
                values.append(result.answer.valid)
                self._note(result)
                self.report.valid = float(np.mean(values))
            yield
        return float(np.mean(values))

    def follow_model(self, tokens: Tokens, until: Callable[[], T | None]) -> Ticks[T]:
        """Replan with the model every period until `until` says what happened. It is asked once a tick."""
        yield from self._model_free()
        asking = _Asking()
        while True:
            if self.model.busy:
                result = self.model.poll()
                if result is not None:
                    self._model_result(result, asking)
            elif asking.sent is not None:
                self._outcome(asking, self.model_delay)
            elif self._due(asking):
                join = self.motion.join(self._ahead_s(self.model_delay))
                if join is not None and self._frame_is_new(asking) and self.model.ask(tokens, join.planned):
                    asking.join, asking.last_s, asking.retry_at_s = join, time.monotonic(), None
            end = until()
            if end is not None:
                while asking.sent is not None:  # what comes next must not cross it on its way to the player
                    yield
                    self._outcome(asking, self.model_delay)
                return end
            yield

    def _model_free(self) -> Ticks[None]:
        """A question from before (a cancelled step, a hold) is still being answered: let it, and forget the answer."""
        while self.model.busy:
            self.model.poll()
            yield

    def _frame_is_new(self, asking: _Asking) -> bool:
        """Not asked about before: with a slow camera it pays to wait for the next one, but not for long."""
        frame = self.model.board.latest
        if frame is None or self.model.board.silent_s() > self.config.camera.lost_s:
            return False
        waited_s = time.monotonic() - asking.last_s
        if frame.number == asking.frame_number and waited_s < 1.5 * self.config.eye.period_s and not asking.retry_at_s:
            return False
        asking.frame_number = frame.number
        return True

    def _model_result(self, result: Reply | InferenceError, asking: _Asking) -> None:
        if isinstance(result, InferenceError):
            asking.failures += 1
            asking.retry_at_s = time.monotonic() + _MODEL_RETRY_S
            log.warning("inference failed", extra={"reason": str(result)})
            gone = isinstance(result, ServerUnavailable)
            if asking.failures == 1:
                asking.failing_since_s = time.monotonic()
            if gone:
                self.report.reason = _WAITING
            failing_s = time.monotonic() - asking.failing_since_s
            if failing_s > self.config.triton.back_s if gone else asking.failures >= _MODEL_FAILURES:
                raise StepEnded(self.ending(), f"the model does not answer: {result}")
            return
        if asking.failures:
            self.report.reason = ""
        asking.failures = 0
        self._note(result)
        join, a = asking.join, result.answer
        if join is None or self.motion.passed(join):
            self.report.refused += 1
            self.model_delay.late(self._controller_s(result.asked_ns) + self._load_s())
            asking.retry_at_s = time.monotonic()
            return
        grip = np.array([contract.snap_grip(float(g)) for g in a.grip], np.float16)
        stamps = Stamps(result.frame.number, result.frame.capture_ns, a.start_ns, a.end_ns)
        self._send(a.traj, grip, join, asking, Source.MODEL, result.asked_ns, stamps, a.valid, a.done, self._scale())

    def _scale(self) -> float:
        """Share of its own timing that a chunk keeps: the step's speed, and gentleness while guard asks for it."""
        return self.order.speed_scale * self.gentle.scale(self.order.profile)

    def _note(self, reply: Reply) -> None:
        r, a = self.report, reply.answer
        r.chunks += 1
        r.done, r.model_version = a.done, a.model_version
        r.camera_ms = (reply.frame.arrival_ns - reply.frame.capture_ns) * 1e-6
        self._infer_s.append((a.end_ns - a.start_ns) * 1e-9 * self.motion.clock_rate)
        r.queue_ms, r.infer_ms, r.validate_ms = reply.queue_ms, (a.end_ns - a.start_ns) * 1e-6, a.validate_ms

    # -- both ---------------------------------------------------------------------------------------------------

    def _controller_s(self, since_ns: int) -> float:
        """Time on the controller's clock since a moment on ours: joins are on the controller's."""
        return (time.monotonic_ns() - since_ns) * 1e-9 * self.motion.clock_rate

    def _load_s(self) -> float:
        """What checking and loading takes, from the last time: arm refuses what it could not load before the join."""
        status = self.motion.status
        return 1.25e-3 * (float(status["check_ms"]) + float(status["load_ms"])) if self.motion.fresh else 0.0

    def _ahead_s(self, delay: Delay) -> float:
        """D, and never less than the slowest of the last inferences and a load would take."""
        infer_s = max(self._infer_s, default=0.0) if delay is self.model_delay else 0.0
        return max(delay.seconds, min(infer_s + self._load_s() + delay.margin_s, delay.max_s))

    def _due(self, asking: _Asking) -> bool:
        if asking.retry_at_s is not None:
            return time.monotonic() >= asking.retry_at_s
        waited_s = time.monotonic() - asking.last_s
        calm = self.calm.allows(self.order.profile, waited_s * self.motion.clock_rate)
        return calm and waited_s >= self.config.eye.period_s

    def _send(
        self, traj: np.ndarray, grip: np.ndarray, join: Join, asking: _Asking, source: Source, asked_ns: int,
        stamps: Stamps, valid: float, done: float, speed_scale: float = 1.0,
    ) -> None:  # fmt: skip
        o = self.order
        asking.sent = self.chunks.send(
            traj, grip, join, source=source, step_seq=o.step_seq, payload_kg=o.payload_kg,
            profile=self.gentle.profile(o.profile, join.planned),
            asked_ns=asked_ns, stamps=stamps, valid=valid, done=done, speed_scale=speed_scale,
        )  # fmt: skip
        if source is Source.SCRIPTED:
            asking.last_s, asking.retry_at_s = time.monotonic(), None

    def _outcome(self, asking: _Asking, delay: Delay) -> Accepted | None:
        assert asking.sent is not None
        result = outcome(asking.sent, self.motion)
        if result is None:
            return None
        asking.sent = None
        if isinstance(result, Accepted):
            asking.refusals = asking.lasting = 0
            self.report.accepted += 1
            delay.add(result.took_s * self.motion.clock_rate)
            capture_ns = result.sent.stamps.capture_ns
            if not self.report.first_capture_ns and capture_ns:
                self.report.first_capture_ns = capture_ns
            return result
        self._refused(result, asking, delay)
        return None

    def _refused(self, refused: Refused, asking: _Asking, delay: Delay) -> None:
        self.report.refused += 1
        self.last_refusal = refused.reason
        asking.refusals += 1
        asking.lasting = asking.lasting + 1 if refused.lasting else 0
        asking.retry_at_s = time.monotonic() + _RETRY_S
        if refused.late:
            delay.late(self._controller_s(refused.sent.asked_ns) + self._load_s())
        log.warning("chunk refused", extra={"raw_id": refused.sent.raw_id, "reason": refused.reason})
        if asking.lasting >= _LASTING_REFUSALS or asking.refusals >= _REFUSALS:
            raise StepEnded(self.ending(), refused.reason)

    def ending(self) -> StepState:
        """Nothing moved yet: refused; else failed."""
        return StepState.FAILED if self.report.first_motion_ns else StepState.REFUSED

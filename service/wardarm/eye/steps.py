"""One step from its first look to DONE, REFUSED or FAILED, with the reason in plain words.

A fetch: home if not there - look - ask `valid` - follow the model until it says done twice, the fingers hold
something and the plan is at the hand-over pose - set down on the leaf, open, retreat, home. Fingers that closed on
nothing: open, rise, look again, a counted number of times.

A hold ends what was planned: the generator is closed, and when the holds are gone the step goes on from rest in the
phase it was in, with a new look. What the fingers hold they go on holding.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from wardarm.config import Config
from wardarm.eye import deliver, leaf, letting_go
from wardarm.eye.follow import Follower, Order, Report, StepEnded, Ticks
from wardarm.eye.heights import Sight, TableLook
from wardarm.eye.model import Tokens
from wardarm.eye.motion import Motion
from wardarm.eye.planned import Planned
from wardarm.eye.scripted import Fingers, Line, lifted, via_travel
from wardarm.kinematics import TcpPose
from wardarm.policy import contract
from wardarm.policy.tokenizer import InstructionTooLong, Tokenizer
from wardarm.shm import ring
from wardarm.shm.layouts import Holding, StepKind, StepState

log = logging.getLogger("wardarm.eye")
REST_S = 5.0  # an arm that does not come to rest by then is reported as it is

AT_HOME_M, AT_HOME_RAD = 0.015, 0.05
NEAR_HAND_OVER_M = 0.03
CLOSED_ON_NOTHING_S = 0.5
HOLDING_UNKNOWN = (
    "it is not known what is between the fingers, after a restart or a lost gripper: say 'put it down' (放下), or put a "
    "hand under it and say 'release it' (松开)"
)
VALID_FRAMES = 2
# What the fingers carry, kg: the simulated bedside's tableware. A full bottle is heavier: weigh your own.
PAYLOAD_KG = {"cup": 0.12, "bowl": 0.12, "bottle": 0.215, "spoon": 0.045}
PAYLOAD_UNKNOWN_KG = 0.15
_NOT_BUILT = {
    StepKind.PUT: "putting something beside something",
    StepKind.POUR: "pouring",
    StepKind.PUT_BACK: "putting something back",
    StepKind.HAND_OVER: "handing something to a person",
}


class Phase(IntEnum):
    """How far a step has come; a hold goes on from here."""

    START = 0
    FETCHING = 1
    SETTING_DOWN = 2
    RETURNING = 3


@dataclass(frozen=True)
class Grasp:
    """`z_m`: height of the TCP when the fingers closed, base frame; `pose`: all of it."""

    z_m: float
    pose: TcpPose | None = None


def _speed_scale(step: Any) -> float:
    """0.1..1; a block without one, or with no number, means 1."""
    scale = float(step["speed_scale"])
    return min(max(scale, 0.1), 1.0) if scale > 0 else 1.0


class StepMachine:
    """`tick()` once a loop. Follows the Step block; writes into `report`."""

    def __init__(
        self,
        config: Config,
        motion: Motion,
        follower: Follower,
        tokenizer: Tokenizer,
        report: Report,
        table: TableLook | None = None,
    ) -> None:
        """`table`: looks where things stand; None without depth, and where it is not known where the camera is."""
        self.config, self.motion, self.follower, self.report = config, motion, follower, report
        self.tokenizer, self.table = tokenizer, table
        self.grasp: Grasp | None = None
        self.spot = config.poses.leaf  # x y where a fetched thing is set down, m
        self.before: Sight | None = None  # the table as it was before something was taken
        self.let_go_at: leaf.LetGo | None = None
        self._step: Any = None
        self._run: Ticks[None] | None = None
        self._ending: tuple[StepState, str, float] | None = None  # said once the arm is at rest
        self._braking: Ticks[None] | None = None
        self._flow: Callable[[], Ticks[None]] | None = None
        self._phase = Phase.START
        self._paused = False
        self._epoch = 0
        self._deadline_s = 0.0
        self._last_tick_s = time.monotonic()
        self._before_hold = StepState.IDLE
        self._closed_since_ns = 0
        self._done_chunks = self._chunks_seen = 0

    @property
    def idle(self) -> bool:
        """No step runs, or it waits for a person: the model may be tried."""
        return self._run is None

    # -- the step as a whole ------------------------------------------------------------------------------------

    def take(self, step: Any, already: Report | None = None) -> None:
        """A Step block with a new seq: whatever ran is dropped (its tail ends at rest), this one begins.

        `already`: what an earlier life of this process reported. A step that it had begun is never begun again.
        """
        self._drop()
        kind = StepKind(int(step["kind"])) if int(step["kind"]) in set(StepKind) else None
        self._step, self._phase, self._flow = step, Phase.START, None
        self.before = self.let_go_at = None
        seq = int(step["seq"])
        self._reset(seq)
        if kind is StepKind.NONE or seq == 0:
            return
        if already is not None and already.step_seq == seq:
            self._resume_report(already)
            return
        log.info("step", extra={"step_seq": seq, "kind": kind, "task_id": ring.text(step["task_id"])})
        object_kind = ring.text(step["object_kind"])
        self.follower.order = Order(
            seq, int(step["profile"]), _speed_scale(step),
            PAYLOAD_KG.get(object_kind, PAYLOAD_UNKNOWN_KG),
        )  # fmt: skip
        flows: dict[StepKind, Callable[[], Ticks[None]]] = {
            StepKind.FETCH: self._fetch,
            StepKind.HOME: lambda: self._go("home"),
            StepKind.PARK: lambda: self._go("park"),
            StepKind.SET_DOWN_HERE: self._set_down_here,
            StepKind.RELEASE: self._release,
        }
        if kind in deliver.KINDS and kind in self.follower.model_tasks():
            flows[kind] = lambda: deliver.flow(self, kind)
        if kind is None or kind not in flows:
            what = _NOT_BUILT.get(kind, f"step kind {int(step['kind'])}") if kind else f"step kind {int(step['kind'])}"
            self._end(StepState.REFUSED, f"{what} is not built yet; what is: fetch, home, park, set down, release")
            return
        self._flow = flows[kind]
        self._deadline_s = time.monotonic() + self.config.eye.step_timeout_s
        self._begin()

    def keep_pace(self, step: Any) -> None:
        """The Step block of the step under way: its speed may have been changed since it began."""
        if self._flow is not None:
            self.follower.order.speed_scale = _speed_scale(step)

    def pause(self, asked: bool, upright: bool) -> None:
        """Call each tick. `asked`: a person's Pause stands. `upright`: it waits for what is held to be set upright first.

        The step stops as in a hold, which follows; it goes on after Resume only.
        """
        self._paused = asked
        if upright and self._run is not None:
            self._run.close()
            self._run = None
            self._before_hold, self.report.state = self.report.state, StepState.HELD
            self.report.reason = "paused: what is held is set upright"
            self._braking = self.follower.upright()

    def tick(self) -> None:
        now_s = time.monotonic()
        elapsed_s, self._last_tick_s = now_s - self._last_tick_s, now_s
        if self._braking is not None:
            try:
                next(self._braking)
                return
            except (StopIteration, StepEnded):  # refused again and again: the tail ends at rest by itself
                self._braking = None
        if self._ending is not None:
            state, reason, until_s = self._ending
            if self.motion.ready or self.motion.held or not self.motion.fresh or now_s > until_s:
                self._report_end(state, reason)
            return
        if self._flow is None:
            if self.motion.fresh and self.motion.holding is Holding.NO:
                self.grasp = None  # what it was the height of is gone
            return
        self._note_motion()
        if self._run is not None and self.motion.fresh and (self.motion.held or self.motion.epoch != self._epoch):
            self._run.close()
            self._run = None
            self._before_hold = self.report.state
            self.report.state = StepState.HELD
            self.report.reason = self._hold_words()
        if self._run is None:  # held
            self._deadline_s += elapsed_s
            if self.motion.ready and not self._paused:
                self.report.state = self._before_hold
                self._begin()
            return
        try:
            if now_s > self._deadline_s:
                raise StepEnded(
                    StepState.FAILED if self.report.first_motion_ns else StepState.REFUSED,
                    f"not finished within eye.step_timeout_s = {self.config.eye.step_timeout_s:.0f} s"
                    + (f"; last: {last}" if (last := self.follower.last_refusal or self.report.reason) else ""),
                )
            next(self._run)
        except StopIteration:
            self._end(StepState.DONE, "")
        except StepEnded as e:
            self._end(e.state, e.reason)

    def _begin(self) -> None:
        assert self._flow is not None
        self._epoch = self.motion.epoch
        self._closed_since_ns = 0
        self.report.reason = ""
        self._run = self._to_rest(self._flow)

    def _to_rest(self, flow: Callable[[], Ticks[None]]) -> Ticks[None]:
        """A flow, and after it the arm at rest and ready: whoever hears DONE may ask for the next step at once."""
        yield from flow()
        while not self.motion.ready:
            yield

    def _drop(self) -> None:
        """Nothing of what ran is sent any more; what moves is stopped."""
        if self._run is not None:
            self._run.close()
            self._braking = self.follower.brake()
        self._run = self._flow = None

    def _end(self, state: StepState, reason: str) -> None:
        if state is StepState.DONE:
            self._run = self._flow = None  # it stands where it should
        self._drop()
        if state is StepState.DONE or not self.motion.moving:
            self._report_end(state, reason)
        else:  # who hears that it failed may come near: first to rest
            self._ending = (state, reason, time.monotonic() + REST_S)

    def _report_end(self, state: StepState, reason: str) -> None:
        self._ending = None
        self.report.state, self.report.reason = state, reason
        if state is StepState.DONE:
            self.report.fraction = 1.0
        log.info("step ended", extra={"step_seq": self.report.step_seq, "state": state, "reason": reason})

    def _reset(self, seq: int) -> None:
        self._ending = None
        fresh = Report(step_seq=seq)
        for name, value in vars(fresh).items():
            setattr(self.report, name, value)

    def _resume_report(self, already: Report) -> None:
        for name, value in vars(already).items():
            setattr(self.report, name, value)
        if already.state not in (StepState.DONE, StepState.REFUSED, StepState.FAILED):
            self._end(StepState.FAILED, "the eye process was restarted during this step; ask for it again")

    def _note_motion(self) -> None:
        if not self.report.first_motion_ns and self.motion.moving:
            self.report.first_motion_ns = int(self.motion.status["stamp_ns"])

    def _hold_words(self) -> str:
        holds = [h for h in self.motion.status["holds"] if int(h["seq"])]
        words = "; ".join(ring.text(h["detail"]) for h in holds if ring.text(h["detail"]))
        return words or f"the arm is {self.motion.state.name.lower().replace('_', ' ')}; waiting for a person's word"

    # -- fetch --------------------------------------------------------------------------------------------------

    def _fetch(self) -> Ticks[None]:
        yield from self._arm_known()
        self._demand_known_fingers()
        tokens = self._tokens()
        if self._phase is Phase.START:
            if self.motion.holding is Holding.YES:
                raise StepEnded(
                    StepState.REFUSED, "the fingers hold something already: set it down or release it first"
                )
            yield from self._home(StepState.MOVING)
            yield from self._ask_valid(tokens)
            yield from leaf.choose(self)
            self.report.grasp_attempts = 1
            self._phase = Phase.FETCHING
        if self._phase is Phase.FETCHING:
            yield from self._grasp_and_carry(tokens)
            self._phase = Phase.SETTING_DOWN
        if self._phase is Phase.SETTING_DOWN:
            yield from letting_go.on_leaf(self)
            self._phase = Phase.RETURNING
        yield from self._home_and_look()

    def _home_and_look(self) -> Ticks[None]:
        """Home, and from there whether what was let go stands."""
        self.report.fraction = 0.9
        yield from self._home(StepState.RETURNING)
        yield from leaf.stands(self, time.monotonic_ns())

    def _tokens(self) -> Tokens:
        try:
            return self.tokenizer.encode(ring.text(self._step["text"]))
        except (InstructionTooLong, ValueError) as e:
            raise StepEnded(StepState.REFUSED, f"instruction: {e}") from e

    def _ask_valid(self, tokens: Tokens) -> Ticks[None]:
        """Only from home: `valid` depends on where the arm stands."""
        self.report.state, self.report.fraction = StepState.LOOKING, 0.1
        valid = yield from self.follower.look(tokens, time.monotonic_ns(), VALID_FRAMES)
        if valid < self.config.eye.valid_min:
            log.info("not seen", extra={"valid": round(valid, 3), "valid_min": self.config.eye.valid_min})
            named = ring.text(self._step["text"])
            raise StepEnded(
                StepState.REFUSED,
                f"'{named}' does not name one thing that is seen on the table; put it in view, or say which one, with its colour",
            )

    def _grasp_and_carry(self, tokens: Tokens, arrived_there: Callable[[], bool | None] | None = None) -> Ticks[None]:
        attempts = self.config.eye.grasp_attempts
        while True:
            self.report.state, self.report.fraction = StepState.MOVING, 0.2
            self._done_chunks, self._chunks_seen = 0, self.report.chunks
            arrived = yield from self.follower.follow_model(tokens, arrived_there or self._fetched)
            if arrived:
                return
            log.warning("closed on nothing", extra={"attempt": self.report.grasp_attempts})
            last = self.report.grasp_attempts >= attempts
            yield from self.follower.script(self._open_and_rise)
            if last:
                yield from self._home(StepState.RETURNING)
                raise StepEnded(
                    StepState.FAILED, f"the fingers closed on nothing {attempts} times; nothing was fetched"
                )
            self.report.grasp_attempts += 1
            self.report.reason = "the fingers closed on nothing; looking again"

    def _fetched(self) -> bool | None:
        """True: at the hand-over pose with something in the fingers. False: closed on nothing. None: go on."""
        now = self.motion.now()
        if now is None:
            return None
        said = self._said_done(now)
        off_m = float(np.linalg.norm(now.pose.xyz_m - np.asarray(self.config.poses.hand_over[:3])))
        return said if said is not True or off_m < NEAR_HAND_OVER_M else None

    def _said_done(self, now: Planned) -> bool | None:
        """True: the model said done twice and the fingers hold something. False: closed on nothing. None: go on."""
        self._note_grasp(now)
        if self.report.chunks > self._chunks_seen:
            self._chunks_seen = self.report.chunks
            self._done_chunks = self._done_chunks + 1 if self.report.done > self.config.eye.done_min else 0
        if self._closed_on_nothing():
            return False
        holding = self.motion.holding is Holding.YES
        self.report.fraction = max(self.report.fraction, 0.5 if holding else 0.2)
        return True if self._done_chunks >= 2 and holding else None

    def _note_grasp(self, now: Planned) -> None:
        """The lowest point while the fingers are told to close: what is held stood on the table with the TCP there.

        Whoever stood still meanwhile reads it off the plan; where that does not tell, the height stays unknown.
        """
        z = float(now.pose.xyz_m[2])
        if now.opening >= contract.GRIP_OPEN:
            self.grasp = None
        elif not now.holding:
            self.grasp = Grasp(min(z, self.grasp.z_m) if self.grasp else z, now.pose)
        elif self.grasp is None and (pose := self.motion.taken_at()) is not None:
            self.grasp = Grasp(float(pose.xyz_m[2]), pose)

    def _closed_on_nothing(self) -> bool:
        s = self.motion.status
        told = 0 <= float(s["grip_target"]) <= contract.GRIP_CLOSED  # -1: nothing was commanded yet
        closed = told and int(s["grip_moving"]) == 0
        if not closed or self.motion.holding is not Holding.NO:
            self._closed_since_ns = 0
            return False
        self._closed_since_ns = self._closed_since_ns or int(s["stamp_ns"])
        return int(s["stamp_ns"]) - self._closed_since_ns >= CLOSED_ON_NOTHING_S * 1e9

    def _open_and_rise(self, plan: Planned) -> list[Line | Fingers]:
        self._closed_since_ns = 0
        return [Fingers(1.0), Line(lifted(plan.pose, max(self.config.poses.travel_z, float(plan.pose.xyz_m[2]))))]

    # -- setting down and homing --------------------------------------------------------------------------------

    def _home(self, state: StepState, pose: str = "home") -> Ticks[None]:
        """Straight up to travel height, over, and to the pose; fingers open on the way unless they hold something."""
        goal = self._pose(pose)

        def legs(plan: Planned) -> list[Line | Fingers]:
            open_first: list[Line | Fingers] = []
            if plan.opening < contract.GRIP_OPEN and self.motion.holding is Holding.NO:
                open_first = [Fingers(1.0)]
            way = [] if self._near(plan.pose, goal) else via_travel(plan.pose, goal, self.config.poses.travel_z)
            return [*open_first, *way]

        self.report.state = state
        yield from self.follower.script(legs)

    def _go(self, pose: str) -> Ticks[None]:
        yield from self._arm_known()
        self._demand_known_fingers()
        yield from self._home(StepState.MOVING, pose)

    def _set_down_here(self) -> Ticks[None]:
        """Straight down to the height of the grasp, open, straight up, home."""
        yield from self._arm_known()
        if self._phase is Phase.START:
            if self.motion.holding is Holding.NO:
                raise StepEnded(StepState.REFUSED, "the fingers hold nothing")
            if self.grasp is None:
                raise StepEnded(
                    StepState.REFUSED,
                    "the height at which it was grasped is not known: put a hand under it and say 'release it' (松开)",
                )
            self._phase = Phase.SETTING_DOWN
        if self._phase is Phase.SETTING_DOWN:
            yield from letting_go.straight_down(self)
        self._phase = Phase.RETURNING
        yield from self._home_and_look()

    def _release(self) -> Ticks[None]:
        yield from self._arm_known()
        yield from letting_go.in_a_hand(self)

    def _arm_known(self) -> Ticks[None]:
        """Wait until the arm says where it is and a movement can begin or join."""
        while self.motion.now() is None or not (self.motion.ready or self.motion.playing()):
            self.report.reason = f"waiting for the arm ({self.motion.state.name.lower().replace('_', ' ')})"
            yield
        self.report.reason = ""

    def _demand_known_fingers(self) -> None:
        """After a restart or a lost gripper nobody knows what is between the fingers: a person says what becomes of it."""
        if self.motion.holding is Holding.UNKNOWN:
            raise StepEnded(self.follower.ending(), HOLDING_UNKNOWN)

    def _pose(self, name: str) -> TcpPose:
        six = getattr(self.config.poses, name)
        return TcpPose(np.array(six[:3], float), np.radians(six[3:]))

    def _near(self, pose: TcpPose, goal: TcpPose) -> bool:
        turn = contract.rotation_from_rpy(pose.rpy_rad) @ contract.rotation_from_rpy(goal.rpy_rad).T
        return bool(
            np.linalg.norm(pose.xyz_m - goal.xyz_m) < AT_HOME_M
            and np.linalg.norm(contract.rotvec_from_rotation(turn)) < AT_HOME_RAD
        )

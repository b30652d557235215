"""Motions and answers that lie, through arm's checks and the player in lock-step: refused by name, and nothing moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lockstep_player import (
    ACCEPTED,
    FINISHED,
    HOME,
    LOADED,
    REFUSAL,
    REFUSED,
    RUNNING,
    STATE,
    Player,
    knots_of,
    move_at,
)
from wardarm.arm.wire import BLOCK_BYTES, encode_trajectory
from wardarm.shm.layouts import KNOT, TRAJECTORY, PlanStatus, RefusalReason
from wardarm.sim.lockstep import Lockstep
from wardarm.sim.lockstep_arm import Answer, LockstepArm
from wardarm.sim.ur_controller.kinematics import DhParameters

from postproc_cases import Bench, line, raw_chunk, rpy_of  # isort: skip

WORDS = 20


class Desk:
    """The configuration's arm at home, in lock-step; motions are made here, not by a planner."""

    def __init__(self, folder: Any, config: Any) -> None:
        self.bench = Bench.make(folder, config)
        arm = config.arm
        self.home = self.bench.home()
        self.sim = Lockstep(dh=DhParameters(arm.dh_a, arm.dh_d, arm.dh_alpha), tcp=arm.tcp, q=self.home.tolist())
        self.sim.load_player()
        self.arm = LockstepArm(self.sim, config)
        self.profile = config.profile_index()
        self.id = 0

    def record(self, q_start: Any, q_end: Any, duration_s: float) -> Any:
        """A TRAJECTORY of one minimum-jerk move from rest to rest."""
        rows = knots_of(move_at(np.asarray(q_start), np.asarray(q_end) - q_start, duration_s), duration_s)
        t: Any = np.zeros((), TRAJECTORY)
        t["knot_count"], t["duration_s"], t["ramp_s"] = len(rows), duration_s, 0.34
        t["profile"], t["plan_epoch"] = self.profile, 0
        t["knots"][: len(rows)] = np.ascontiguousarray(rows).view(KNOT).reshape(-1)
        return t

    def to(self, x: float, y: float, z: float, duration_s: float = 3.0) -> Any:
        """To a TCP position by way of the joints, near home's branch."""
        pose = self.bench.tcp(self.home)
        pose[:3] = x, y, z
        q = self.bench.planner.ik(pose, self.home)
        assert q is not None
        return self.record(self.home, q, duration_s)

    def offer(self, trajectory: Any) -> Answer:
        self.id += 1
        return self.arm.offer(trajectory, id=self.id)

    def refused(self, trajectory: Any, reason: RefusalReason, words: str) -> None:
        """By arm, with these words; with a permit on for half a second the arm stands where it stood."""
        stood = self.sim.q_rad
        answer = self.offer(trajectory)
        assert (answer.accepted, answer.by, answer.reason) == (False, "arm", reason), answer
        assert words in answer.detail, answer.detail
        self.arm.permit(True)
        self.sim.run(0.5)
        self.arm.permit(False)
        assert np.abs(self.sim.q_rad - stood).max() < 1e-9
        assert self.sim.int_register(ACCEPTED) == 0


@pytest.fixture
def desk(tmp_path: Any) -> Any:
    from wardarm import config as configuration

    desk = Desk(tmp_path, configuration.load("desk"))
    yield desk
    desk.sim.close()


# --- where a trajectory may lead


def test_one_within_the_limits_is_taken_and_played(desk: Desk) -> None:
    x, y, z = desk.bench.tcp(desk.home)[:3]
    answer = desk.offer(desk.to(x, y - 0.1, z - 0.05))
    assert answer.accepted, answer
    desk.arm.permit(True)
    desk.arm.rest()
    assert desk.sim.int_register(FINISHED) == desk.id


@pytest.mark.parametrize(
    ("dx", "dy", "z", "words"),
    [(0.0, 0.0, -0.03, "TCP z"), (0.0, 0.9, 0.3, "TCP y"), (0.0, -0.9, 0.3, "TCP y")],
    ids=["the table", "the patient's side of the box", "the far side of the box"],
)
def test_one_through_table_or_box_is_refused(desk: Desk, dx: float, dy: float, z: float, words: str) -> None:
    x, y, _ = desk.bench.tcp(desk.home)[:3]
    desk.refused(desk.to(x + dx, float(np.clip(y + dy, -0.68, 0.68)), z, 6.0), RefusalReason.ENVELOPE, words)


def test_one_through_a_singularity_is_refused(desk: Desk) -> None:
    straight = desk.home.copy()
    straight[4] = 0.0  # wrist 2: axes 4 and 6 in one line
    desk.refused(desk.record(desk.home, straight, 7.0), RefusalReason.ENVELOPE, "sin(q5)")


def test_a_start_away_from_the_arm_is_refused(desk: Desk) -> None:
    away = desk.home + np.array([0, 0, 0.02, 0, 0, 0])
    desk.refused(desk.record(away, desk.home, 3.0), RefusalReason.START, "from actual_q")
    near = desk.home + 0.004  # within arm.start_tolerance_rad of where it is, not of where it was told to be
    desk.refused(desk.record(near, desk.home, 3.0), RefusalReason.START, "from target_q")


# --- numbers that are none


@pytest.mark.parametrize("field", ["q_rad", "qd_rad_s", "qdd_rad_s2", "grip", "t_s"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_none_never_leaves_arm(desk: Desk, field: str, value: float) -> None:
    x, y, z = desk.bench.tcp(desk.home)[:3]
    t = desk.to(x, y - 0.1, z)
    t["knots"][field][7] = value
    desk.refused(t, RefusalReason.PLAN, "not finite")


@pytest.mark.parametrize("field", ["ramp_s", "duration_s", "payload_kg"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 1e9])
def test_a_header_number_that_is_none_or_absurd_never_leaves_arm(desk: Desk, field: str, value: float) -> None:
    x, y, z = desk.bench.tcp(desk.home)[:3]
    t = desk.to(x, y - 0.1, z)
    t[field] = value
    answer = desk.offer(t)
    assert not answer.accepted
    assert answer.by == "arm"
    assert answer.detail


@pytest.mark.parametrize("opening", [-0.2, 1.2])
def test_an_opening_out_of_range_is_refused(desk: Desk, opening: float) -> None:
    x, y, z = desk.bench.tcp(desk.home)[:3]
    t = desk.to(x, y - 0.1, z)
    t["knots"]["grip"][5] = opening
    desk.refused(t, RefusalReason.PLAN, "expected within [0, 1]")


@pytest.mark.parametrize("profile", [4, 15, 2**31])
def test_a_profile_that_there_is_not_is_refused(desk: Desk, profile: int) -> None:
    x, y, z = desk.bench.tcp(desk.home)[:3]
    t = desk.to(x, y - 0.1, z)
    t["profile"] = profile
    answer = desk.offer(t)
    assert (answer.accepted, answer.by, answer.reason) == (False, "arm", RefusalReason.ENVELOPE)
    assert f"profile {profile}" in answer.detail


def test_knots_in_another_order_or_twice_never_leave_arm(desk: Desk) -> None:
    x, y, z = desk.bench.tcp(desk.home)[:3]
    good = desk.to(x, y - 0.1, z)
    for change in ((10, 11), (11, 10), (0, 1), (1, 0)):
        t = good.copy()
        t["knots"][change[0]] = good["knots"][change[1]]
        answer = desk.offer(t)
        assert (answer.accepted, answer.by, answer.reason) == (False, "arm", RefusalReason.PLAN), change
    swapped = good.copy()
    swapped["knots"][[10, 11]] = good["knots"][[11, 10]]
    desk.refused(swapped, RefusalReason.PLAN, "do not rise")
    # in the right order in time, but with one another's place
    for field in ("q_rad", "qd_rad_s", "qdd_rad_s2"):
        t = good.copy()
        t["knots"][field][[20, 30]] = good["knots"][field][[30, 20]]
        desk.refused(t, RefusalReason.ENVELOPE, "")


# --- answers that are old


def test_an_answer_that_comes_twice_starts_nothing_a_second_time(desk: Desk) -> None:
    x, y, z = desk.bench.tcp(desk.home)[:3]
    plan = desk.to(x, y - 0.1, z)
    assert desk.arm.offer(plan, id=5).accepted
    desk.arm.permit(True)
    desk.sim.until(lambda s: s.int_register(STATE) == RUNNING)
    again = desk.arm.offer(plan, id=5)
    assert (again.accepted, again.reason, again.by) == (False, RefusalReason.NOT_READY, "arm")
    desk.arm.rest()
    desk.sim.run(0.5)  # the joints lag behind what they are told
    stood = desk.sim.q_rad
    again = desk.arm.offer(plan, id=5)  # it starts where the arm was
    assert (again.accepted, again.reason) == (False, RefusalReason.START)
    desk.sim.run(1.0)
    assert np.abs(desk.sim.q_rad - stood).max() < 1e-6


def test_one_made_before_a_hold_is_refused_by_its_epoch(desk: Desk) -> None:
    x, y, z = desk.bench.tcp(desk.home)[:3]
    plan = desk.to(x, y - 0.1, z)
    desk.arm.plan_epoch = 1
    desk.refused(plan, RefusalReason.EPOCH, "made under epoch 0, now 1")


def test_a_model_that_gives_the_same_chunk_for_ever_comes_to_rest(desk: Desk) -> None:
    """A frozen model repeats its answer: each plan still starts where the arm is and ends at rest, so does the last."""
    pose = desk.bench.tcp(desk.home)
    start = np.concatenate([pose[:3], rpy_of(pose)])
    chunk = raw_chunk(line(start, start + np.array([0, -0.15, 0, 0, 0, 0]), 0.15), np.ones(64), desk.profile)
    zero = np.zeros(6)
    first = np.frombuffer(desk.bench.planner.plan(chunk.tobytes(), desk.home, zero, zero), TRAJECTORY)[0]
    assert desk.offer(first).accepted
    desk.arm.permit(True)
    desk.arm.rest()
    again = np.frombuffer(desk.bench.planner.plan(chunk.tobytes(), desk.sim.target_q_rad, zero, zero), TRAJECTORY)[0]
    assert again["status"] == PlanStatus.START_MISMATCH


# --- on the wire


def hang_up(player: Player) -> None:
    assert player.sim.arm_end.link is not None
    player.sim.arm_end.link.close()


def sent(player: Player, message: bytes, cycles: int = 400) -> tuple[int, int]:
    """(accepted id, refusal) some cycles after these bytes."""
    player.raw(message)
    player.quiet(cycles)
    return player[ACCEPTED], player[REFUSAL]


def message_of(id: int, count_s: float = 1.0) -> Any:
    """A good message as its numbers, one row of 20 a block."""
    knots = knots_of(move_at(HOME, np.array([0.2, 0.1, -0.1, 0.05, 0.02, 0.2]), count_s), count_s)
    message, _ = encode_trajectory(id, 0, 0.0, 0.3, count_s, 0.0, knots)
    return np.frombuffer(message, ">i4").reshape(-1, WORDS).copy()


@pytest.mark.parametrize("rows", [(1, 2), (10, 11), (2, 15), (19, 20)])
def test_knots_that_change_places_on_the_wire_are_refused_although_their_sum_is_right(rows: tuple[int, int]) -> None:
    player = Player()
    blocks = message_of(5)
    blocks[list(rows)] = blocks[list(rows)[::-1]]
    assert sent(player, blocks.tobytes()) == (0, RefusalReason.CHECKSUM)
    assert player[REFUSED] == 5
    player.ticks(100)
    assert player[STATE] == 0
    assert np.abs(player.q - HOME).max() == 0
    assert sent(player, message_of(6).tobytes())[0] == 6


def test_two_knots_at_one_time_are_refused_although_their_sum_is_right() -> None:
    blocks = message_of(5)
    blocks[10, 0] += 50_000  # now at the time of the next; another number makes up for it
    blocks[10, 19] -= 50_000
    assert sent(Player(), blocks.tobytes()) == (0, RefusalReason.CHECKSUM)


def test_a_knot_that_comes_twice_is_refused() -> None:
    blocks = message_of(5)
    blocks[10] = blocks[9]
    assert sent(Player(), blocks.tobytes()) == (0, RefusalReason.CHECKSUM)


@pytest.mark.parametrize("whole_blocks", [0, 1, 7, 20])
@pytest.mark.parametrize("more", [0, 1, 4, 40, 79])
def test_one_cut_off_anywhere_is_forgotten_and_the_next_whole_one_taken(whole_blocks: int, more: int) -> None:
    player = Player()
    cut = message_of(5).tobytes()[: whole_blocks * BLOCK_BYTES + more]
    player.raw(cut)
    hang_up(player)
    player.quiet(400)
    assert player[ACCEPTED] == 0
    assert player.sim.arm_end.calls == 2
    assert sent(player, message_of(6).tobytes())[0] == 6
    assert player[STATE] == LOADED


def test_one_cut_off_under_way_changes_nothing_of_what_plays() -> None:
    player = Player()
    at = player.run(for_s=0.2)
    blocks = message_of(6)
    blocks[0, 4], blocks[0, 5] = 5, 1_200_000
    player.raw(blocks.tobytes()[: 9 * BLOCK_BYTES])
    hang_up(player)
    player.ticks(1000)
    assert player[FINISHED] == 5
    rows = player.sim.history
    running = np.flatnonzero(rows["ints"][:, 0] == RUNNING)
    away = max(np.abs(rows["target_q_rad"][i] - at((i - running[0] + 1) * 0.002)[0]).max() for i in running)
    assert away < 1e-7

"""What the player takes and how it moves, exactly at the edge of each rule, on the lock-step controller."""

from __future__ import annotations

from typing import Any

import numpy as np
from lockstep_player import (
    ACCEPTED,
    FINISHED,
    HELD,
    HOME,
    IDLE,
    LOADED,
    MOVE,
    PLAYING,
    RAMP_S,
    RAMPING,
    REFUSAL,
    REFUSED,
    RUNNING,
    STATE,
    Player,
    knots_of,
    move_at,
)
from wardarm.arm.wire import BLOCK_BYTES, KNOTS_MAX, MAGIC, encode_trajectory
from wardarm.shm.layouts import RefusalReason
from wardarm.sim.ur_controller.modes import Runtime

PATH, RATE, OPENING = 12, 13, 14


def still(count: int = 4, at: Any = HOME) -> Any:
    """Knots that stay where they are."""
    knots = np.zeros((count, 20))
    knots[:, 0] = np.arange(count) * 0.05
    knots[:, 1:7] = at
    return knots


def answer(player: Player, id: int, cycles: int = 400) -> RefusalReason:
    """What the player says to `id`; permit and pulses go on as they were."""
    moving = player[STATE] in (RUNNING, RAMPING)
    for _ in range(cycles):
        player.tick(4 if moving else 0)
        if player[ACCEPTED] == id:
            return RefusalReason.NONE
        if player[REFUSED] == id:
            return RefusalReason(player[REFUSAL])
    raise AssertionError("no answer")


def test_a_start_may_be_a_milliradian_off_and_a_milliradian_a_second_fast() -> None:
    player, id = Player(), 0
    for joint in range(6):
        for sign in (1, -1):
            for column, steps, limit in ((1 + joint, 100_000, 1e-8), (7 + joint, 10_000, 1e-7)):
                reason = RefusalReason.START if column < 7 else RefusalReason.DISCONTINUOUS
                for extra, expected in ((0, RefusalReason.NONE), (1, reason)):
                    knots, id = still(2), id + 1
                    knots[0, column] = sign * (steps + extra) * limit
                    player.send(id, knots)
                    assert answer(player, id) is expected, (joint, sign, column, extra)
                    assert player[STATE] == LOADED


def test_what_is_refused_at_rest_loads_nothing() -> None:
    player = Player()
    knots = still(2)
    knots[0, 1] = 0.002
    player.send(5, knots)
    assert answer(player, 5) is RefusalReason.START
    assert player[STATE] == IDLE
    player.ticks(20)
    assert player[STATE] == IDLE


def test_the_end_is_at_rest_in_every_joint() -> None:
    player, id = Player(), 0
    for joint in range(6):
        for speed, expected in ((1e-3, 0), (-1e-3, 0), (1.0001e-3, 7), (-1.0001e-3, 7)):
            knots, id = still(3), id + 1
            knots[-1, 7 + joint] = speed
            player.send(id, knots)
            assert answer(player, id) == expected, (joint, speed)
    knots, id = still(3), id + 1
    knots[-1, 13] = 0.5  # the player looks at six speeds and no further; how it comes to rest is checked by arm
    player.send(id, knots)
    assert answer(player, id) == RefusalReason.NONE


def test_ids_rise() -> None:
    player = Player()
    for id, expected in (
        (5, RefusalReason.NONE),
        (5, RefusalReason.EPOCH),
        (4, RefusalReason.EPOCH),
        (6, RefusalReason.NONE),
    ):
        player.send(id, still())
        if id == 5 and expected is not RefusalReason.NONE:
            player.quiet(30)
            assert (player[REFUSED], player[REFUSAL]) == (5, expected)
        else:
            assert answer(player, id) is expected


def test_the_first_id_may_be_one() -> None:
    player = Player()
    player.send(1, still())
    assert answer(player, 1) is RefusalReason.NONE


def joined(at: Any, join_s: float, duration_s: float = 2.0) -> Any:
    """The rest of a law from `join_s` on, as knots of their own."""
    left = duration_s - join_s
    count = max(2, round(left / 0.05) + 1)
    times = np.linspace(0, left, count)
    return np.array([[t, *np.concatenate(at(join_s + t)), 1.0] for t in times])


def try_join(column: int = 0, off: float = 0.0, join_id: int = 5, id: int = 6, to_end: bool = False) -> RefusalReason:
    join_s = 1.5
    player = Player()
    at = player.run(for_s=0.2)
    knots = joined(at, join_s)
    knots[0, column] += off
    player.send(id, knots, join_id, join_s)
    reason = answer(player, id)
    assert player[STATE] == RUNNING
    if not to_end:
        return reason
    for _ in range(1500):
        player.tick()
        if player[STATE] == IDLE:
            break
    assert player[FINISHED] == (id if reason is RefusalReason.NONE else 5)
    rows = player.sim.history
    assert np.abs(np.diff(rows["target_q_rad"], axis=0)).max() < 0.002 * 1.1 * 1.875 * 0.4 / 2.0
    return reason


def test_a_join_continues_position_and_speed_of_every_joint() -> None:
    player, id = Player(), 5
    at = player.run(duration_s=6.0, for_s=0.1)
    good = joined(at, 4.0, 6.0)
    good = np.vstack([good[:2], [0.1, *at(4.05)[0], *HOME, *HOME, 1.0]])
    for joint in range(6):
        for sign in (1, -1):
            for column, edge in ((1 + joint, 1e-5), (7 + joint, 1e-3)):
                for share, expected in ((0.99, RefusalReason.NONE), (1.01, RefusalReason.DISCONTINUOUS)):
                    knots, id = good.copy(), id + 1
                    knots[0, column] += sign * edge * share
                    player.send(id, knots, 5, 4.0)
                    assert answer(player, id) is expected, (joint, sign, column, share)
    assert player[STATE] == RUNNING


def test_a_join_names_what_plays_and_has_a_newer_id() -> None:
    assert try_join(to_end=True) is RefusalReason.NONE
    assert try_join(join_id=4, to_end=True) is RefusalReason.UNKNOWN_JOIN
    assert try_join(join_id=6) is RefusalReason.UNKNOWN_JOIN
    assert try_join(join_id=1, id=7) is RefusalReason.UNKNOWN_JOIN
    assert try_join(id=4) is RefusalReason.EPOCH


def test_a_join_is_two_cycles_ahead_at_least_and_within_what_plays() -> None:
    """Judged in the cycle in which the last knot arrives, at the path time of the cycle before."""
    reasons = {}
    for ahead in range(1, 5):
        player = Player()
        at = player.run(for_s=0.1)
        knots = joined(at, 1.0)[-3:]
        knots[:, 0] -= knots[0, 0]
        join_s = 2.0 - float(knots[-1, 0])  # 1.9
        blocks = 4
        while player.double(PATH) < join_s - 0.002 * (blocks + ahead) - 1e-9:
            player.tick()
        path = player.double(PATH)
        player.send(6, knots, 5, join_s)
        reasons[ahead] = (answer(player, 6), path)
    late = [k for k, (r, _) in reasons.items() if r is RefusalReason.LATE]
    good = [k for k, (r, _) in reasons.items() if r is RefusalReason.NONE]
    assert late == [1, 2]
    assert good == [3, 4]


def test_a_join_at_the_end_is_taken_and_one_after_it_is_late() -> None:
    for join_s, expected in ((2.0, RefusalReason.NONE), (2.000001, RefusalReason.LATE), (5.0, RefusalReason.LATE)):
        player = Player()
        at = player.run(for_s=0.2)
        player.send(6, still(4, at(2.0)[0]), 5, join_s)
        assert answer(player, 6) is expected, join_s


def test_a_join_needs_a_motion_and_a_start_needs_rest() -> None:
    player = Player()
    player.send(6, still(), 5, 0.5)
    assert answer(player, 6) is RefusalReason.NOT_READY
    player = Player()
    at = player.load()
    player.send(6, joined(at, 1.0), 5, 1.0)
    assert answer(player, 6) is RefusalReason.NOT_READY
    player = Player()
    player.run()
    player.send(6, still())
    assert answer(player, 6) is RefusalReason.NOT_READY
    player.quiet(10)
    assert player[STATE] == RAMPING
    player.send(7, still(2))
    assert answer(player, 7) is RefusalReason.NOT_READY
    player.send(8, still(2), 5, 1.9)
    assert answer(player, 8) is RefusalReason.NOT_READY
    player.ticks(200)
    assert player[STATE] == HELD
    player.send(9, still(2, player.q))
    assert answer(player, 9) is RefusalReason.NOT_READY
    player.send(10, still(2, player.q), 5, 1.9)
    assert answer(player, 10) is RefusalReason.NOT_READY
    player.discard()
    player.quiet(5)
    assert player[STATE] == IDLE
    player.send(11, still(2, player.q))
    assert answer(player, 11) is RefusalReason.NONE


def test_a_newer_start_takes_the_place_of_the_loaded_one() -> None:
    player = Player()
    player.load()
    at = move_at(HOME, -MOVE, 1.0)
    player.send(6, knots_of(at, 1.0))
    assert answer(player, 6) is RefusalReason.NONE
    player.ticks(600)
    assert player[FINISHED] == 6
    assert np.abs(player.q + MOVE).max() < 1e-7


def test_a_join_exactly_two_cycles_ahead_is_taken() -> None:
    """At a path time whose sum of cycles has no rounding left, so that the edge itself is met."""
    path_s, cycles = 0.0, 0
    while cycles < 20 or round((path_s + 0.004) * 1e6) * 0.000001 != path_s + 2.0 * 0.002:
        path_s, cycles = path_s + 0.002, cycles + 1
    player = Player()
    at = player.load(duration_s=4.0)
    while player[STATE] != RUNNING:
        player.tick()
    while player.double(PATH) < path_s - 0.0085:  # three knots and a header: four cycles to arrive
        player.tick()
    join_s = round((path_s + 0.004) * 1e6) * 1e-6
    knots = joined(at, join_s, 4.0)
    knots = np.vstack([knots[:2], [0.1, *at(join_s + 0.05)[0], *HOME, *HOME, 1.0]])
    player.send(6, knots, 5, join_s)
    while player[ACCEPTED] != 6 and player[REFUSED] != 6:
        player.tick()
    assert abs(player.double(PATH) - path_s) < 0.0021
    assert player[ACCEPTED] == 6


def test_a_join_of_a_joint_that_stands_may_step_exactly_to_its_limit() -> None:
    player = Player()
    move = MOVE * np.array([1, 1, 0, 1, 1, 1])
    at = player.load(duration_s=4.0, move=move)
    while player[STATE] != RUNNING:
        player.tick()
    id = 5
    for column, edge in ((3, 1e-5), (3, -1e-5), (9, 1e-3), (9, -1e-3)):
        knots = joined(at, 3.0, 4.0)
        knots[0, column], id = edge, id + 1
        player.send(id, knots, 5, 3.0)
        assert answer(player, id) is RefusalReason.NONE, (column, edge)


# --- the message


def test_a_whole_message_is_taken_however_long_and_one_that_is_not_is_not() -> None:
    for count in (2, 3, KNOTS_MAX):
        player = Player()
        player.send(5, still(count))
        assert answer(player, 5) is RefusalReason.NONE, count
    message, _ = encode_trajectory(5, 0, 0.0, RAMP_S, 0.15, 0.0, still())
    for count in (0, 1, KNOTS_MAX + 1, -1):
        player = Player()
        bad = np.frombuffer(message, ">i4").astype(np.int64)
        knots = np.tile(bad[20:40], (max(count, 0), 1))
        bad[3], bad[10] = count, int(knots.sum()) % (2**31 - 1)
        player.raw(np.concatenate([bad[:20], knots.ravel()]).astype(">i4").tobytes())
        player.quiet(400)
        assert player.sim.arm_end.calls >= 2, count
        assert player[ACCEPTED] == 0


def test_every_number_of_a_message_is_in_its_sum() -> None:
    message, _ = encode_trajectory(5, 0, 0.0, RAMP_S, 0.15, 0.0, still(4, np.array([1.0, 2.0, -3.0, 0.5, -0.5, 0.25])))
    player = Player()
    whole = np.frombuffer(message, ">i4").astype(np.int64)
    id = 5
    for i in range(20, len(whole)):
        bad = whole.copy()
        bad[i] ^= 1
        bad[2] = id
        player.raw(bad.astype(">i4").tobytes())
        assert answer(player, id) is RefusalReason.CHECKSUM, i
        id += 1
    whole[2] = id
    player.raw(whole.astype(">i4").tobytes())
    assert answer(player, id) is RefusalReason.START


def test_knots_out_of_order_are_refused_although_their_sum_is_right() -> None:
    message, _ = encode_trajectory(5, 0, 0.0, RAMP_S, 0.15, 0.0, still())
    whole = np.frombuffer(message, ">i4").reshape(-1, 20)
    player, id = Player(), 5
    for rows in ((1, 2), (2, 3), (3, 4), (1, 4)):
        bad = whole.copy()
        bad[list(rows)] = whole[list(rows)[::-1]]
        bad[0, 2] = id
        player.raw(bad.tobytes())
        assert answer(player, id) is RefusalReason.CHECKSUM, rows
        id += 1
    for by, expected in ((49_999, RefusalReason.NONE), (50_000, RefusalReason.CHECKSUM)):
        late = whole.copy()
        late[2, 0] += by  # up to the time of the next; another number makes up for it
        late[2, 19] -= by
        late[0, 2] = id
        player.raw(late.tobytes())
        assert answer(player, id) is expected, by
        id += 1


def test_a_sum_wraps_both_ways() -> None:
    """Large numbers of both signs: the running sum passes the modulus and zero."""
    player, id = Player(), 1
    for sign in (1, -1):
        for first in (21.0, 10.7, 0.3):
            knots = still(6)
            knots[1:5, 1:7] = sign * first * np.array([1, 1, -1, 1, 1, 1])
            knots[1:5, 7:13] = sign * 200.0
            player.send(id, knots)
            assert answer(player, id) is RefusalReason.NONE, (sign, first)
            id += 1


def test_a_sum_that_reaches_the_modulus_exactly_is_zero() -> None:
    modulus = 2**31 - 1
    for target in (modulus, modulus - 1, modulus + 1, 0, -1):
        player = Player()
        message, _ = encode_trajectory(5, 0, 0.0, RAMP_S, 0.05, 0.0, still(2))
        numbers = np.frombuffer(message, ">i4").astype(np.int64).copy()
        left = target - int(numbers[20:].sum())
        numbers[40 + 14] = max(-modulus, min(modulus, left))  # joint 1's acceleration at the end
        numbers[40 + 15] = left - numbers[40 + 14]
        assert int(numbers[20:].sum()) == target
        numbers[11 - 1] = target % modulus
        player.raw(numbers.astype(">i4").tobytes())
        assert answer(player, 5) is RefusalReason.NONE, target


def test_a_ramp_is_longer_than_50_ms() -> None:
    for ramp_us, expected in (
        (50_001, RefusalReason.NONE),
        (49_999, RefusalReason.CHECKSUM),
        (0, RefusalReason.CHECKSUM),
    ):
        player = Player()
        message, _ = encode_trajectory(5, 0, 0.0, RAMP_S, 0.15, 0.0, still())
        numbers = np.frombuffer(message, ">i4").copy()
        numbers[6] = ramp_us
        player.raw(numbers.tobytes())
        assert answer(player, 5) is expected, ramp_us


def test_a_foreign_number_or_kind_ends_the_call_or_is_passed_over() -> None:
    for magic, kind, calls in ((MAGIC + 1, 2, 2), (0, 1, 2), (MAGIC, 4, 1), (MAGIC, 0, 1)):
        player = Player()
        block = np.zeros(20, ">i4")
        block[:2] = magic, kind
        player.raw(block.tobytes())
        player.quiet(50)
        assert player.sim.arm_end.calls == calls, (magic, kind)
        player.send(5, still())
        assert answer(player, 5) is RefusalReason.NONE


def test_half_a_message_is_forgotten_after_half_a_second() -> None:
    player = Player()
    message, _ = encode_trajectory(5, 0, 0.0, RAMP_S, 0.15, 0.0, still())
    player.raw(message[:-BLOCK_BYTES])
    player.quiet(240)
    assert player.sim.arm_end.calls == 1
    player.quiet(60)
    assert player.sim.arm_end.calls == 2
    assert player[ACCEPTED] == 0
    player.send(5, still())
    assert answer(player, 5) is RefusalReason.NONE


def test_what_arrives_under_way_changes_neither_what_plays_nor_what_waits() -> None:
    """Three banks: one plays, one waits, the third takes what arrives."""
    player = Player()
    at = player.run(for_s=0.1)
    first = joined(at, 1.5)
    player.send(6, first, 5, 1.5)
    assert answer(player, 6) is RefusalReason.NONE
    wrong = first.copy()
    wrong[:, 1:7] += 0.5
    player.send(7, wrong, 5, 1.5)
    assert answer(player, 7) is RefusalReason.DISCONTINUOUS
    player.send(8, first, 5, 1.5)
    assert answer(player, 8) is RefusalReason.NONE
    player.ticks(1000)
    assert player[FINISHED] == 8
    rows = player.sim.history
    running = np.flatnonzero(rows["ints"][:, 0] == RUNNING)
    begin = running[0]
    away = max(np.abs(rows["target_q_rad"][i] - at((i - begin + 1) * 0.002)[0]).max() for i in running)
    assert away < 1e-7


# --- motion


def test_it_plays_the_law_to_its_end_and_says_so() -> None:
    player = Player()
    at = player.run(duration_s=1.0, for_s=0.0)
    player.ticks(520)
    rows = player.sim.history
    running = np.flatnonzero(rows["ints"][:, 0] == RUNNING)
    assert len(running) == 499
    for n, i in enumerate(running):
        path = rows["doubles"][i, 0]
        assert abs(path - 0.002 * (n + 1)) < 1e-9
        assert rows["doubles"][i, 1] == 1.0
        assert rows["ints"][i, 1] == 5
        assert np.abs(rows["target_q_rad"][i] - at(path)[0]).max() < 1e-7
    assert np.abs(player.q - MOVE).max() < 1e-7
    assert (player[STATE], player[PLAYING], player[FINISHED], player.double(RATE)) == (IDLE, 0, 5, 0.0)
    assert abs(player.double(PATH) - 1.0) < 1e-9


def test_a_start_off_the_commanded_position_fades_in_over_a_fifth_of_a_second() -> None:
    for off in (0.0009, -0.0009):
        player = Player()
        start = HOME + off
        at = player.load(start=start, duration_s=1.0)
        player.ticks(520)
        rows = player.sim.history
        running = np.flatnonzero(rows["ints"][:, 0] == RUNNING)
        for n, i in enumerate(running):
            t = 0.002 * (n + 1)
            u = min(t / 0.2, 1.0)
            left = 1.0 - u**3 * (10 - 15 * u + 6 * u * u)
            assert np.abs(rows["target_q_rad"][i] - at(t)[0] + off * left).max() < 1e-7, t


def test_a_ramp_stays_on_the_path_and_its_path_is_the_integral_of_its_rate() -> None:
    for ramp_s in (0.3, 0.5):
        player = Player()
        at = move_at(HOME, MOVE, 2.0)
        player.send(5, knots_of(at, 2.0), ramp_s=ramp_s)
        assert answer(player, 5) is RefusalReason.NONE
        player.ticks(500)
        assert player[STATE] == RUNNING
        player.ticks(round(ramp_s / 0.002) + 20, 0)
        rows = player.sim.history
        ramp = np.flatnonzero(rows["ints"][:, 0] == RAMPING)
        assert len(ramp) == round(ramp_s / 0.002) - 1
        path, rate = rows["doubles"][:, 0], rows["doubles"][:, 1]
        for i in ramp:
            assert np.abs(rows["target_q_rad"][i] - at(path[i])[0]).max() < 1e-7
            assert rows["ints"][i, 1] == 5
        assert (np.diff(rate[ramp]) < 0).all()
        assert 0 < rate[ramp[-1]] < 0.01
        between = (rate[ramp[0] - 1 : ramp[-1]] + rate[ramp]) / 2
        np.testing.assert_allclose(np.diff(path[ramp[0] - 1 : ramp[-1] + 1]), 0.002 * between, atol=2e-6)
        jerk = np.diff(rate[np.r_[ramp[0] - 2, ramp[0] - 1, ramp, ramp[-1] + 1, ramp[-1] + 2]], n=2) / 0.002**2
        assert np.abs(jerk).max() < 12 / ramp_s**2
        assert (player[STATE], player[PLAYING], player.double(RATE)) == (HELD, 0, 0.0)
        held = player.q
        player.ticks(200)
        assert np.abs(player.q - held).max() == 0.0
        assert player[STATE] == HELD


def test_a_seam_takes_over_at_its_path_time_and_fades_what_the_wire_rounds() -> None:
    join_s = 1.0007
    player = Player()
    at = player.run(for_s=0.3)
    knots = joined(at, join_s)
    off = 0.9e-5 * np.array([1, -1, 1, -1, 1, -1])
    knots[:, 1:7] += off
    player.send(6, knots, 5, join_s)
    assert answer(player, 6) is RefusalReason.NONE
    player.ticks(1000)
    rows = player.sim.history
    ids, path = rows["ints"][:, 1], rows["doubles"][:, 0]
    new = np.flatnonzero(ids == 6)
    first = new[0]
    assert path[first - 1] < join_s <= path[first - 1] + 0.002 + 1e-12
    assert abs(path[first] - (path[first - 1] + 0.002 - join_s)) < 1e-9
    for i in new:
        t = path[i]
        gone = min((i - first + 1) * 0.002 / 0.2, 1.0)
        left = 1.0 - gone**3 * (10 - 15 * gone + 6 * gone * gone)
        expected = at(join_s + t)[0] + off * (1 - left)
        assert np.abs(rows["target_q_rad"][i] - expected).max() < 3e-7, i - first
    assert player[FINISHED] == 6


def test_a_seam_while_the_start_still_fades_makes_no_step() -> None:
    player, off, join_s = Player(), 0.0009, 0.15
    at = player.load(start=HOME + off, duration_s=2.0)
    while player.double(PATH) < 0.05:
        player.tick()
    knots = joined(at, join_s)
    player.send(6, knots, 5, join_s)
    assert answer(player, 6) is RefusalReason.NONE
    player.ticks(200)
    rows = player.sim.history
    running = np.flatnonzero(rows["ints"][:, 0] == RUNNING)
    for n, i in enumerate(running):
        t = 0.002 * (n + 1)
        u = min(t / 0.2, 1.0)
        left = 1.0 - u**3 * (10 - 15 * u + 6 * u * u)
        assert np.abs(rows["target_q_rad"][i] - at(t)[0] + off * left).max() < 1e-6, t
    assert player[PLAYING] == 6


def test_a_ramp_in_rounds_of_many_cycles_ends_where_it_ends() -> None:
    """With the speed slider nearly at zero one round takes 0.1 s or more, and the last one passes the ramp's end."""
    for slider in (0.02, 0.015):
        ramp_in_long_rounds(slider)


def ramp_in_long_rounds(slider: float) -> None:
    player = Player()
    player.run(duration_s=4.0, for_s=0.5)
    player.sim.controller.slider = slider
    player.ticks(400)
    player.ticks(1, 0)
    while player[STATE] == RUNNING:
        player.quiet()
    assert player[STATE] == RAMPING
    player.quiet(400)
    assert player[STATE] == HELD
    rows = player.sim.history
    path = rows["doubles"][:, 0]
    ramp = np.flatnonzero(rows["ints"][:, 0] == RAMPING)
    changes = np.flatnonzero(np.diff(path)) + 1
    of_ramp = [i for i in changes if i >= ramp[0]]
    gone = sum((path[i] - path[i - 1]) * (i - changes[changes < i][-1]) for i in of_ramp)
    onset, end = 0.5, 0.35
    peak = 1.0 / (1.0 - (onset + end) / 2)
    whole = 1.0 - end - peak * ((1 - end - onset / 2) ** 2 / 2 + onset**2 / 24 - end**2 / 6)
    assert abs(gone - whole * RAMP_S) < 0.002


def test_a_ramp_forgets_what_waits() -> None:
    player = Player()
    at = player.run(for_s=0.8)
    player.send(6, joined(at, 1.2), 5, 1.2)
    assert answer(player, 6) is RefusalReason.NONE
    player.quiet(300)
    assert player[STATE] == HELD
    assert 6 not in set(player.sim.history["ints"][:, 1])


def test_discard_forgets_at_rest_and_ramps_under_way() -> None:
    player = Player()
    player.load()
    player.discard()
    player.quiet(5)
    assert (player[STATE], player[PLAYING]) == (IDLE, 0)
    player.ticks(50)
    assert player[STATE] == IDLE  # what was loaded is gone
    player = Player()
    player.run(for_s=0.5)
    player.discard()
    states = []
    for _ in range(200):
        player.tick()
        states.append(player[STATE])
    assert states[0] in (RUNNING, RAMPING)
    assert states[3] == RAMPING
    assert states[-1] == IDLE
    player.ticks(100)
    assert np.abs(player.sim.history["target_qd_rad_s"][-1]).max() == 0.0
    player.send(6, still(2, player.q))
    assert answer(player, 6) is RefusalReason.NONE


def test_nothing_is_taken_between_a_discard_and_rest() -> None:
    player = Player()
    at = player.run(for_s=0.2)
    player.discard()
    player.ticks(3)
    assert player[STATE] == RAMPING
    player.send(6, joined(at, 1.9), 5, 1.9)
    player.ticks(100)
    assert player[ACCEPTED] == 5


def test_bye_ends_at_rest_whatever_it_does() -> None:
    for stage in ("idle", "loaded", "running", "held"):
        player = Player()
        if stage == "loaded":
            player.load()
        elif stage != "idle":
            player.run()
        if stage == "held":
            player.quiet(200)
            assert player[STATE] == HELD
        player.bye()
        cycles = 0
        while player.sim.controller.slot.runtime is Runtime.PLAYING and cycles < 600:
            player.tick(4 if stage == "running" else 0)
            cycles += 1
        assert player[STATE] == 5, stage
        assert player.sim.controller.slot.last_error == ""
        ramped = np.count_nonzero(player.sim.history["ints"][:, 0] == RAMPING)
        assert (ramped > 140) == (stage in ("running", "held"))
        assert np.abs(player.sim.history["target_qd_rad_s"][-1]).max() < 1e-6
        if stage == "idle":
            assert cycles < 400


def test_nothing_is_taken_after_a_bye() -> None:
    player = Player()
    at = player.run(for_s=0.2)
    player.bye()
    player.send(6, joined(at, 1.9), 5, 1.9)
    player.ticks(100)
    assert player[ACCEPTED] == 5


def test_openings_follow_the_knots_and_the_last_one_the_end() -> None:
    player = Player()
    at = move_at(HOME, MOVE, 1.0)
    knots = knots_of(at, 1.0)
    knots[:, 19] = 1.0
    knots[5:, 19] = 0.06
    knots[10:, 19] = 0.5
    knots[-1, 19] = 0.25
    player.send(5, knots, payload_kg=0.25)
    assert answer(player, 5) is RefusalReason.NONE
    player.ticks(540)
    rows = player.sim.history
    running = np.flatnonzero(rows["ints"][:, 0] == RUNNING)
    for i in running:
        path, opening = rows["doubles"][i, 0], rows["doubles"][i, 2]
        expected = 1.0 if path < 0.25 - 1e-9 else 0.06 if path < 0.5 - 1e-9 else 0.5
        assert abs(opening - expected) < 1e-9, path
    assert abs(player.double(OPENING) - 0.25) < 1e-9


def test_what_is_grasped_is_added_to_the_payload() -> None:
    for opening, kg in ((0.06, 1.03 + 0.375), (0.0601, 1.03)):
        player = Player()
        knots = knots_of(move_at(HOME, MOVE, 1.0), 1.0)
        knots[:, 19] = 1.0
        knots[5:, 19] = opening
        player.send(5, knots, payload_kg=0.375)
        assert answer(player, 5) is RefusalReason.NONE
        player.ticks(540)
        assert abs(player.sim.controller.payload_kg - kg) < 1e-6, opening

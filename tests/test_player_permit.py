"""The player's permit, cycle by cycle against a second writing of its rule; and when motion may begin and must end."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from lockstep_player import HELD, HOME, IDLE, LOADED, RAMPING, RUNNING, STATE, TICKS, Line, Player
from wardarm.arm.player import PlayerParameters, script
from wardarm.sim.lockstep import ARM_ADDRESS, ARM_PORT, BEAT_REGISTER, REQUEST_REGISTER, Lockstep

LOW, HIGH, CYCLE_LOW, CYCLE_HIGH, BEAT_CYCLES = 14, 26, 3, 5, 100
EDGE, ACCEPT, MOTION = 15, 16, 17  # double registers


@dataclass
class Rule:
    """What docs/architecture.md 3.5 says, in other words than the player's."""

    deltas: list[int] = field(default_factory=lambda: [0] * 5)
    steady: int = 0
    beat_age: int = BEAT_CYCLES + 1
    permit: bool = False
    edges: int = 0
    accepts: int = 0

    def cycle(self, ticks: int, beat: bool, request: int) -> None:
        silent = sum(self.deltas) == 0
        self.deltas = [*self.deltas[1:], ticks]
        self.edges += silent and ticks > 0
        self.steady = self.steady + 1 if CYCLE_LOW <= ticks <= CYCLE_HIGH else 0
        self.beat_age = 0 if beat else self.beat_age + 1
        good = LOW <= sum(self.deltas) <= HIGH and self.beat_age <= BEAT_CYCLES and request != 0
        if good and self.steady >= 3 and not self.permit:
            self.permit = True
            self.accepts += 1
        elif not good:
            self.permit = False


class Follow:
    """A player and its rule, fed the same; the registers are compared after every cycle."""

    def __init__(self) -> None:
        self.player, self.rule = Player(), Rule()
        self.marks = {EDGE: self.player.double(EDGE), ACCEPT: self.player.double(ACCEPT)}
        self.counts = {EDGE: 0, ACCEPT: 0}
        assert self.player.double(EDGE) == self.player.double(ACCEPT) == 0.0

    def cycle(self, ticks: int = 4, beat: bool = True, request: int = 1) -> None:
        self.player.tick(ticks, beat, request)
        self.rule.cycle(ticks, beat, request)
        assert self.player[TICKS] == sum(self.rule.deltas)
        for register, count in ((EDGE, self.rule.edges), (ACCEPT, self.rule.accepts)):
            mark = self.player.double(register)
            self.counts[register] += mark != self.marks[register]
            if mark != self.marks[register]:
                assert mark == self.player[18]  # the cycle it happened in
            self.marks[register] = mark
            assert self.counts[register] == count, (register, self.rule)

    def cycles(self, ticks: list[int]) -> None:
        for n in ticks:
            self.cycle(n)


def test_ticks_beat_and_request_are_judged_each_cycle_as_the_rule_says() -> None:
    follow, draw = Follow(), random.Random(3)
    follow.player.load()
    for _ in range(40):
        follow.cycles([0] * draw.choice((1, 4, 5, 6)))
        follow.cycles([draw.randint(0, 7) for _ in range(draw.randint(1, 8))])
        follow.cycles([draw.randint(2, 6) for _ in range(draw.randint(1, 20))])
        follow.cycles([draw.randint(3, 5) for _ in range(draw.randint(1, 12))])
        follow.cycle(draw.randint(0, 7), request=draw.choice((0, 1, -1, 2)))


PATTERNS = {
    "15 ticks": [3] * 5, "25 ticks": [5] * 5, "14 ticks": [3, 3, 3, 3, 2], "13 ticks": [2, 2, 3, 3, 3],
    "26 ticks": [9, 9, 9, 9, 9, 6, 5, 5, 5, 5], "27 ticks": [6, 6, 5, 5, 5], "two steady cycles": [6, 0, 0, 4, 4],
    "three steady cycles": [7, 0, 4, 4, 4], "never steady, low": [2, 6, 2, 6, 2], "three a cycle": [0, 6, 3, 3, 3],
    "five a cycle": [0, 2, 5, 5, 5], "one tick": [1, 0, 0, 0, 0, 0],
}  # fmt: skip
PERMITTED = {"15 ticks", "25 ticks", "14 ticks", "26 ticks", "three steady cycles", "three a cycle", "five a cycle"}


def test_the_edges_of_the_window_and_of_a_steady_cycle() -> None:
    for name, pattern in PATTERNS.items():
        follow = Follow()
        follow.player.load()
        follow.cycles(pattern * 6)
        assert (follow.rule.accepts > 0) == (name in PERMITTED), name
        assert (follow.player[STATE] != LOADED) == (name in PERMITTED), name


def test_a_beat_counts_for_exactly_so_many_cycles() -> None:
    for silence in (BEAT_CYCLES - 1, BEAT_CYCLES, BEAT_CYCLES + 1, BEAT_CYCLES + 2, 3 * BEAT_CYCLES):
        follow = Follow()
        follow.cycles([4] * 8)
        for _ in range(silence):
            follow.cycle(beat=False)
        follow.cycles([4] * 8)
        assert follow.rule.accepts == (1 if silence <= BEAT_CYCLES else 2)


def test_a_beat_that_never_changed_is_none() -> None:
    follow = Follow()
    follow.player.quiet(BEAT_CYCLES, beat=False)  # what the controller heard while the program started is old then
    follow.player.load(beat=False)
    for _ in range(250):
        follow.cycle(beat=False)
    assert follow.player[STATE] == LOADED


def test_what_the_beat_register_holds_at_the_start_is_no_beat() -> None:
    sim, line = Lockstep(q=HOME), Line()
    sim.controller.lines[8] = line
    sim.controller.input_ints[BEAT_REGISTER], sim.controller.input_ints[REQUEST_REGISTER] = 77, 1
    sim.load(script(PlayerParameters(ARM_ADDRESS, ARM_PORT)))
    for _ in range(60):
        line.add(4)
        sim.step()
    assert sim.int_register(TICKS) == 20
    assert sim.double_register(ACCEPT) == 0.0
    sim.controller.input_ints[BEAT_REGISTER] = 78
    line.add(4)
    sim.step()
    assert sim.double_register(ACCEPT) > 0.0


def test_no_request_is_no_permit_whatever_else_is_good() -> None:
    follow = Follow()
    follow.player.load()
    for _ in range(30):
        follow.cycle(request=0)
    assert follow.player[STATE] == LOADED
    follow.cycle(request=7)
    assert follow.player.double(ACCEPT) > 0


def test_motion_begins_in_the_cycle_after_the_permit_and_says_so() -> None:
    player = Player()
    at = player.load()
    assert player.double(MOTION) == 0.0
    accepted = 0
    while player[STATE] == LOADED:
        player.tick()
        accepted += player.double(ACCEPT) > 0
        assert accepted <= 2
    assert player[STATE] == RUNNING
    assert player.double(MOTION) - player.double(ACCEPT) in (1.0, 2.0)
    assert abs(player.q - at(0.002)[0]).max() < 1e-9


def test_every_kind_of_loss_ramps_and_a_permit_that_returns_ends_nothing() -> None:
    """Lost for one cycle, at the edge of each condition: the ramp begins at once and goes to its end."""
    for name, bad in {
        "13 ticks": [3, 3, 3, 2, 2], "27 ticks": [5, 5, 5, 6, 6], "none": [0, 0, 0, 0, 0], "no request": [-1],
    }.items():  # fmt: skip
        player = Player()
        player.run()
        assert player[STATE] == RUNNING
        for n in bad:
            player.tick(4 if n < 0 else n, request=0 if n < 0 else 1)
        states = []
        for _ in range(200):
            player.tick()
            states.append(player[STATE])
        assert RUNNING not in states[2:], name
        assert states[5] == RAMPING, name
        assert states[-1] == HELD, name
        assert states.count(RAMPING) in range(144, 151), name


def test_the_edges_of_the_window_keep_a_motion_going() -> None:
    for pattern in ([3, 3, 3, 3, 2], [5, 5, 5, 5, 6], [3] * 5, [5] * 5):
        player = Player()
        player.run(for_s=0.1)
        for n in pattern * 12:
            player.tick(n)
        assert player[STATE] == RUNNING, pattern


def test_a_motion_goes_on_with_unsteady_cycles_if_the_window_is_full() -> None:
    player = Player()
    player.run(for_s=0.1)
    for n in [2, 6, 2, 6, 4] * 10:
        player.tick(n)
    assert player[STATE] == RUNNING


def test_a_beat_late_by_one_cycle_ramps() -> None:
    for silence, state in ((BEAT_CYCLES - 1, RUNNING), (BEAT_CYCLES, RUNNING), (BEAT_CYCLES + 2, RAMPING)):
        player = Player()
        player.run(for_s=0.1)
        player.ticks(silence, beat=False)
        player.ticks(2)
        assert player[STATE] == state, silence


def test_a_window_of_ticks_in_one_cycle_means_that_it_stood_still() -> None:
    for jump, frozen in ((26, False), (27, True), (28, True), (60, True)):
        player = Player()
        at = player.run()
        before = player.q
        player.tick(jump)
        player.ticks(2)
        assert player[STATE] == (HELD if frozen else RAMPING), jump
        if frozen:
            assert abs(player.q - before).max() < 3 * 0.002 * abs(at(1.0)[1]).max()
            held = player.q
            player.ticks(50)
            assert abs(player.q - held).max() == 0.0
            player.discard()
            player.quiet(5)
            assert player[STATE] == IDLE


def test_a_jump_while_it_ramps_ends_the_ramp() -> None:
    player = Player()
    player.run()
    player.quiet(20)
    assert player[STATE] == RAMPING
    player.tick(27)
    player.quiet(2)
    assert player[STATE] == HELD


def test_a_jump_before_the_motion_does_not_end_it() -> None:
    player = Player()
    player.load()
    player.tick(40)
    player.quiet(10)
    for _ in range(20):
        player.tick()
    assert player[STATE] == RUNNING


def test_a_permit_with_nothing_loaded_moves_nothing_and_is_used_when_something_is() -> None:
    player = Player()
    player.ticks(20)
    assert player[STATE] == IDLE
    assert player.double(ACCEPT) > 0
    assert abs(player.sim.history["target_qd_rad_s"]).max() == 0.0


def test_the_player_says_which_cycle_it_is() -> None:
    player = Player()
    first = player[18]
    player.quiet(50)
    assert player[18] == first + 50

"""A model of words, gate, arm's latch, the line, the player and a person: every order of their steps, breadth first.

What is pure in the product is not modelled but called: `gate.permit.step` and `forget`, `gate.words.Heard`,
`arm.causes.Board.word_causes`, `arm.holds.HoldLatch`, `arm.status.begins_held`. What is left is how processes run: each takes a whole loop at any
time or never (so that slow and frozen need no states of their own), dies at any time, comes back at any time; a
published word or status is whole or not there (`test_shm_ring` shows that a writer's death in between leaves the one
before); time passes in ticks, in which every age grows by one; a person reads the holds at one moment and
resumes at another; a plan is made from what was known at one moment and arrives at another.

One guard stands for every process whose word is needed besides arm's own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from wardarm.arm.causes import Board, GateSeen
from wardarm.arm.holds import Cause, Hold, HoldLatch
from wardarm.arm.status import Inherited, begins_held
from wardarm.gate import permit as rule
from wardarm.gate.permit import Look, Permit
from wardarm.gate.words import Heard
from wardarm.shm.layouts import HoldReason, ProcessId

GUARD, GATE, ARM = ProcessId.GUARD, ProcessId.GATE, ProcessId.ARM
FRESH = 1  # ticks: the word deadline
OLD = FRESH + 1  # an age at which everything counts as late; older is the same
BEAT = 1  # ticks that the player waits for gate's next beat
IDLE, LOADED, RUNNING, HELD = range(4)
RESTED, MOVED = Inherited(known=True), Inherited(known=True, moved=True)
DISCARD = -1
_NEW = Permit()
# How long before a motion a word can at most have gone false or late: up to FRESH old when gate looked last, and gate
# with its line on has looked within FRESH, or its companion switches the line off in the tick that follows.
REACH = FRESH + FRESH + 1


@dataclass(frozen=True)
class Bounds:
    """How much happens in one run: the state space is finite because these are."""

    deaths: int = 1
    dangers: int = 1
    plans: int = 2
    resumes: int = 1
    blocks_lost: int = 0


class State(NamedTuple):
    """Everything that matters for what can still happen. What arm published is what it holds: it changes in its loop only."""

    # the guard: what it would say, what it said, how long ago
    danger: bool = False
    guard_up: bool = True
    word_ok: bool = False
    word_seq: int = 0
    word_age: int = OLD
    # arm
    arm_up: bool = True
    arm_age: int = OLD  # of its word and its status
    holds: tuple[Hold, ...] = ()
    live: tuple[tuple[tuple[HoldReason, ProcessId], int], ...] = ()
    last_seq: int = 0
    true_once: frozenset[ProcessId] = frozenset()
    heard_seq: tuple[tuple[ProcessId, int], ...] = ()
    epoch: int = 1
    request: bool = False
    request_seq: int = 0
    to_start: bool = False
    loading: int = 0  # epoch of the plan that the player has not answered yet
    discarded: bool = False
    block_lost: bool = False  # arm's block was made anew since gate looked
    left: Inherited = RESTED  # what the next arm would find in it: known, moved
    # gate and its line
    gate_up: bool = True
    gate_age: int = OLD
    permit: Permit = _NEW
    dropped: bool = False  # its drop counter has grown since arm looked
    line: bool = False
    beat_new: bool = False  # it beat since arm forwarded its beat
    # the player
    player: int = IDLE
    plan: int = 0  # epoch of what is loaded or plays
    lost: bool = False  # the permit was gone since motion began
    inbox: tuple[int, ...] = ()  # epochs of plans on their way, DISCARD
    registered: bool = False  # the request, as the player sees it
    register_new: bool = False  # gate's beat, forwarded and not seen yet
    beat_age: int = OLD
    # the person, and the plan that eye and postproc make
    seen: tuple[int, ...] = ()
    resuming: bool = False
    offered: int = 0
    # how much has happened (Bounds)
    deaths: int = 0
    dangers: int = 0
    plans: int = 0
    resumes: int = 0
    blocks_lost: int = 0
    # what the invariants need to remember
    bad_for: int = OLD  # ticks since the guard's word was last true and fresh
    serving: int = 0  # how often a request was raised: names the one that the line serves
    used: frozenset[int] = frozenset()  # requests whose line went off, whatever the reason
    on_for: int = 0
    unheard: int = 0  # the guard said a hold that is neither latched nor ended by a person: ticks since, and one
    void: bool = False  # a hold was latched since the plan was made, or another arm came up
    unasked: bool = False  # arm was started again while the others went on, and nobody has said go on since


class Broken(AssertionError):
    """An invariant does not hold; the text says which."""


@dataclass(frozen=True)
class Faults:
    """What a self-check takes away from the product."""

    step: Callable[[Permit, Look], Permit] = rule.step
    forget: Callable[[Permit], Permit] = rule.forget
    resume: Callable[[HoldLatch, tuple[int, ...]], str] = HoldLatch.resume
    new_gate: Permit = _NEW
    word_deadline: int = FRESH
    status_deadline: int = FRESH
    beat_deadline: int = BEAT
    deadman: bool = True
    epoch_kept: bool = False
    holds_kept: bool = True
    counters_kept: bool = True
    begins_held: bool = True
    discard: bool = True


@cache
def _heard(ok: bool, seq: int, age: int, deadline: int) -> Heard:
    return Heard(GUARD, ok, float(age), seq, HoldReason.NONE if ok else HoldReason.INTRUDER, "", age > deadline)


def heard(s: State, deadline: int) -> Heard:
    return _heard(s.word_ok, s.word_seq, s.word_age, deadline)


class _Words:
    def __init__(self, one: Heard) -> None:
        self.one = one

    def hear_all(self) -> list[Heard]:
        return [self.one]


@cache
def causes_of(
    word: Heard, true_once: frozenset[ProcessId], heard_seq: tuple[tuple[ProcessId, int], ...], gate_age: int, on: bool
) -> tuple[list[Cause], frozenset[ProcessId], tuple[tuple[ProcessId, int], ...]]:
    """`Board.word_causes`, the product's own, on what the blocks say; and what the board remembers afterwards."""
    board = Board.__new__(Board)
    board.deadline_s = FRESH
    board._required = (GUARD,)
    board._words = _Words(word)  # type: ignore[assignment]
    board._true_once = set(true_once)
    board._heard_seq = dict(heard_seq)
    board.gate = GateSeen(float(gate_age), 0, on, 0, GATE, "")
    causes = [replace(c, detail="") for c in board.word_causes()]
    return causes, frozenset(board._true_once), tuple(sorted(board._heard_seq.items()))


def motion_begins(s: State) -> None:
    """What has to be true at the first motion. Raises Broken."""
    if not s.line:
        raise Broken("motion begins without the PWM")
    if s.bad_for > REACH:
        raise Broken(f"motion begins on a word that was false or late for {s.bad_for} ticks, at most {REACH}")
    if s.on_for in s.used:
        raise Broken("motion begins on a request that was dropped before")
    if s.void:
        raise Broken("motion begins with a plan from before a hold or a restart")
    if s.arm_age > BEAT + 1:
        raise Broken("motion begins although arm is gone")
    if s.unheard > REACH:
        raise Broken("motion begins although a hold was said that nobody recorded or resumed")
    if s.unasked:
        raise Broken("motion begins after arm was started again, without a person's word")


class Model:
    """`steps(state)` yields (name, next state). `faults`: parts to leave out, for the self-check."""

    def __init__(self, bounds: Bounds | None = None, faults: Faults | None = None) -> None:
        self.bounds, self.faults = bounds or Bounds(), faults or Faults()

    def steps(self, s: State) -> Iterator[tuple[str, State]]:
        b = self.bounds
        yield "time", self.time(s)
        if s.guard_up:
            yield "guard says", self.guard_says(s)
        else:
            yield "guard back", s._replace(guard_up=True)
        if s.arm_up:
            yield "arm", self.arm(s)
        elif s.player != RUNNING:
            yield "arm back", self.arm(self.arm_back(s))
        if s.gate_up:
            yield "gate", self.gate(s)
        else:
            yield "gate back", self.gate_back(s)
        yield "player", self.player(s)
        if s.dangers < 2 * b.dangers:
            yield "danger over" if s.danger else "danger", s._replace(danger=not s.danger, dangers=s.dangers + 1)
        if s.deaths < b.deaths:
            if s.guard_up:
                yield "guard dies", s._replace(guard_up=False, deaths=s.deaths + 1)
            if s.arm_up:
                yield "arm dies", self.arm_dies(s)
            if s.gate_up:
                yield "gate dies", self.gate_dies(s)
        if s.plans < b.plans and not s.offered and not s.holds:
            yield "a plan", s._replace(offered=s.epoch, plans=s.plans + 1)
        if not s.resuming and s.resumes < b.resumes:
            seqs = tuple(h.seq for h in s.holds if h.reason is not HoldReason.STARTING)
            if seqs and s.seen != seqs:
                yield "a person reads", s._replace(seen=seqs)
            if s.seen:
                yield "a person resumes", s._replace(resuming=True, resumes=s.resumes + 1)
        if s.blocks_lost < b.blocks_lost:
            yield "arm and its block lost", self.block_lost(s)

    # --- time, guard

    def time(self, s: State) -> State:
        s = self.player(s)  # it runs on its own controller, many cycles a tick
        if s.player == RUNNING and s.bad_for > REACH:
            raise Broken(f"motion goes on although a word was false or late for {s.bad_for} ticks, at most {REACH}")
        s = s._replace(
            word_age=min(s.word_age + 1, OLD), arm_age=min(s.arm_age + 1, OLD), gate_age=min(s.gate_age + 1, OLD),
            beat_age=min(s.beat_age + 1, OLD), bad_for=min(s.bad_for + 1, REACH + 1),
            unheard=min(s.unheard + 1, REACH + 1) if s.unheard else 0,
        )  # fmt: skip
        if s.word_ok and s.word_age <= FRESH:
            s = s._replace(bad_for=0)
        if self.faults.deadman and s.line and s.gate_age > FRESH:
            s = self.line_off(s)  # gate's companion
        return s

    def line_off(self, s: State) -> State:
        return s._replace(line=False, used=s.used | {s.on_for})

    def guard_says(self, s: State) -> State:
        ok = not s.danger
        new = not ok and (s.word_ok or not s.word_seq)
        s = s._replace(
            word_ok=ok, word_age=0, word_seq=s.word_seq + new, unheard=max(s.unheard, 1) if new else s.unheard
        )
        return s._replace(bad_for=0) if ok else s

    # --- gate (`gate.main.Gate.loop`)

    def gate(self, s: State) -> State:
        f = self.faults
        missing = () if heard(s, f.word_deadline).true else (GUARD,)
        if s.holds or s.arm_age > f.word_deadline:
            missing = (*missing, ARM)
        look = Look(
            s.arm_age <= f.status_deadline, s.request, s.request_seq, missing, s.gate_age > FRESH and s.permit.on
        )
        before = f.forget(s.permit) if s.block_lost else s.permit
        after = f.step(before, look)
        if s.line and not (before.on and after.on):
            s = self.line_off(s)
        if after.on and not before.on:
            if not (s.word_ok and s.word_age <= FRESH and not s.holds and s.arm_age <= FRESH):
                raise Broken("the PWM goes on with a word or a status that is false or late")
            if s.serving in s.used:
                raise Broken("the PWM goes on again for a request that was dropped")
            s = s._replace(line=True, on_for=s.serving)
        dropped = s.dropped or after.drop_seq != before.drop_seq
        after = replace(after, drop_seq=0, first_missing=GATE)
        return s._replace(permit=after, beat_new=True, gate_age=0, dropped=dropped, block_lost=False)

    def gate_dies(self, s: State) -> State:
        s = s._replace(gate_up=False, deaths=s.deaths + 1)
        return self.line_off(s) if s.line and self.faults.deadman else s

    def gate_back(self, s: State) -> State:
        """`Gate._take_over_counters`; systemd has switched the PWM off before."""
        if s.line and self.faults.deadman:
            s = self.line_off(s)
        taken = replace(self.faults.new_gate, request_seq=s.permit.request_seq, first_missing=GATE)
        return s._replace(gate_up=True, permit=taken, dropped=s.dropped or s.permit.on)

    # --- arm (`arm.operate.Arm.loop`)

    def arm(self, s: State) -> State:
        f = self.faults
        word = heard(s, FRESH)
        causes, true_once, heard_seq = causes_of(word, s.true_once, s.heard_seq, s.gate_age, s.permit.on)
        causes = list(causes)
        blocking = any(h.reason is not HoldReason.STARTING for h in s.holds)
        if s.request and not causes:
            if s.dropped:
                causes.append(Cause(HoldReason.WATCHDOG, GATE, "", s.serving))
            elif s.player == HELD and not blocking:
                causes.append(Cause(HoldReason.GATE_FAULT, GATE, ""))
        latch = HoldLatch(s.holds, s.last_seq)
        latch._live = dict(s.live)
        new = latch.see(causes, 0)
        epoch = s.epoch
        for hold in new:
            epoch = epoch if f.epoch_kept else max(epoch + 1, hold.seq)
        request = s.request and not (latch.holds and f.holds_kept)
        s = s._replace(
            true_once=true_once, heard_seq=heard_seq,
            dropped=False, epoch=epoch, void=s.void or any(h.reason is not HoldReason.STARTING for h in new),
            unheard=0 if any(h.writer is GUARD for h in new) else s.unheard,
        )  # fmt: skip
        if f.epoch_kept and any(h.reason is not HoldReason.STARTING for h in new):
            s = s._replace(
                **{n: KEPT if getattr(s, n) == s.epoch else getattr(s, n) for n in ("offered", "loading", "plan")},
                inbox=tuple(KEPT if n == s.epoch else n for n in s.inbox),
            )
        if s.resuming:
            before = list(latch.holds)
            if s.player != RUNNING and f.resume(latch, s.seen) == "":
                unseen = [h.seq for h in before if h.seq not in s.seen]
                if unseen:
                    raise Broken(f"a resume that did not carry hold {unseen[0]} ended it")
                s = s._replace(unasked=False)
            s = s._replace(resuming=False, seen=())
        s = s._replace(holds=tuple(latch.holds), live=tuple(latch._live.items()), last_seq=latch.last_seq, arm_age=0)
        return self.arm_drives(s, request)

    def arm_drives(self, s: State, request: bool) -> State:
        """`_follow_player`, `_take_trajectories`, `_write_inputs`."""
        f, held = self.faults, bool(s.holds) and self.faults.holds_kept
        to_start, loading, discarded, inbox = s.to_start, s.loading, s.discarded, s.inbox
        if loading and not inbox:
            to_start, loading = s.player == LOADED and loading in (s.epoch, KEPT), 0  # taken, or refused
        serving, seq = s.serving, s.request_seq
        if held:
            to_start = False
        elif to_start and s.player == LOADED:
            to_start, request, seq, serving = False, True, seq + 1, serving + 1
        if s.player == IDLE:
            request = False
        if s.player == HELD or (s.player == LOADED and not request and not to_start):
            if not discarded and not loading and f.discard:
                inbox, discarded = (*inbox, DISCARD), True
        else:
            discarded = False
        if s.offered and s.player == IDLE and not held and not loading and s.offered in (s.epoch, KEPT) and not inbox:
            loading, inbox = s.offered, (*inbox, s.offered)
        return s._replace(
            to_start=to_start, loading=loading, discarded=discarded, inbox=inbox, request=request, request_seq=seq,
            serving=serving, offered=0, registered=request, register_new=s.register_new or s.beat_new, beat_new=False,
            left=MOVED if s.player == RUNNING or (s.player == LOADED and not held) else RESTED,
        )  # fmt: skip

    def arm_dies(self, s: State) -> State:
        """The player's connection ends with it; the registers stay as they were."""
        return s._replace(arm_up=False, deaths=s.deaths + 1, inbox=())

    def arm_back(self, s: State) -> State:
        """`arm.status.inherit`, `Arm.__init__`; the player is uploaded anew, which needs an arm that stands.

        What a person said to the arm before is not carried out (`Commands.read`).
        """
        f = self.faults
        epoch = s.epoch + 1
        latch = HoldLatch((h for h in s.holds if h.reason is not HoldReason.STARTING), epoch)
        if f.begins_held and begins_held(s.left, went_on=s.guard_up or s.gate_up):
            epoch = latch.add(Cause(HoldReason.WATCHDOG, ARM, ""), 0).seq
        return s._replace(
            arm_up=True, holds=tuple(latch.holds), live=(), last_seq=latch.last_seq, true_once=frozenset(), heard_seq=(),
            epoch=epoch, request=False, request_seq=s.request_seq if f.counters_kept else 0, to_start=False, loading=0,
            discarded=False, dropped=False, player=IDLE, plan=0, lost=False, inbox=(), registered=False, beat_age=OLD,
            void=False, resuming=False, unasked=s.left.known and (s.guard_up or s.gate_up),
        )  # fmt: skip

    def block_lost(self, s: State) -> State:
        """Arm is gone and its block with it: its counters and holds begin again."""
        return s._replace(
            request=False, request_seq=0, epoch=0, holds=(), arm_age=OLD, block_lost=True, arm_up=False, inbox=(),
            blocks_lost=s.blocks_lost + 1, left=Inherited(),
        )  # fmt: skip

    # --- player (player.script; the ramp is left out: RUNNING that lost its permit is HELD)

    def player(self, s: State) -> State:
        f = self.faults
        beat_age = 0 if s.register_new else s.beat_age
        good = s.line and beat_age <= f.beat_deadline and s.registered
        s = s._replace(beat_age=beat_age, register_new=False)
        state, plan, inbox = s.player, s.plan, s.inbox
        lost = state == RUNNING and (s.lost or not good)
        if inbox and inbox[0] == DISCARD:
            if state == RUNNING:
                lost = True
            else:
                state, plan, inbox = IDLE, 0, inbox[1:]
        elif inbox:
            if state in (IDLE, LOADED):
                state, plan = LOADED, inbox[0]
                s = s._replace(void=plan != s.epoch)
            inbox = inbox[1:]
        s = s._replace(inbox=inbox)
        if s.player == LOADED and state == LOADED and plan == s.plan and good:
            motion_begins(s)
            state, lost = RUNNING, False
        elif s.player == RUNNING and lost:
            state, lost = HELD, False
        return s._replace(player=state, plan=plan, lost=lost)


STALE, KEPT = -7, -9  # a plan of a past epoch; one that a hold made void without a new epoch (self-check only)


def canonical(s: State) -> State:
    """The same state with small numbers: of holds and plans only order and equality matter, and those are kept.

    A plan's epoch is either the present one (1) or a past one (STALE), which can never be the present one again.
    """
    names = sorted({h.seq for h in s.holds} | set(s.seen))
    rank = {seq: i + 1 for i, seq in enumerate(names)}
    holds = tuple(replace(h, seq=rank[h.seq]) if rank[h.seq] != h.seq else h for h in s.holds)

    def epoch(number: int) -> int:
        return number if number in (0, DISCARD, KEPT) else 1 if number == s.epoch else STALE

    return s._replace(
        holds=holds, seen=tuple(rank[n] for n in s.seen), last_seq=len(names), epoch=1, offered=epoch(s.offered),
        loading=epoch(s.loading), plan=epoch(s.plan), inbox=tuple(map(epoch, s.inbox)),
    )  # fmt: skip


def ready() -> State:
    """Everybody up and heard, nothing held: where the searches begin."""
    model, s = Model(), State()
    for _ in range(3):
        s = model.player(model.gate(model.arm(model.guard_says(s))))
    assert not s.holds
    assert s.word_ok
    return s._replace(unheard=0)


@dataclass(frozen=True)
class Explored:
    """How far a search went. `complete`: no state within the bounds was left out."""

    states: int
    depth: int
    steps: int
    complete: bool
    trace: tuple[str, ...] = ()
    broken: str = ""


def after(model: Model, *names: str) -> State:
    """The state after some steps from `ready()`."""
    s = ready()
    for name in names:
        s = canonical(dict(model.steps(s))[name])
    return s


def explore(model: Model, max_states: int = 1_000_000, start: State | None = None) -> Explored:
    """Breadth first from `start`; ends at the first broken invariant, whose trace is then a shortest one."""
    first = canonical(start or ready())
    seen: dict[Any, tuple[Any, str] | None] = {hash(first): None}
    queue: deque[tuple[State, int]] = deque([(first, 0)])
    depth = steps = 0
    while queue:
        state, depth = queue.popleft()
        key = hash(state)
        name = ""
        try:
            for name, following in model.steps(state):
                steps += 1
                following = canonical(following)
                mark = hash(following)
                if mark not in seen:
                    if len(seen) >= max_states:
                        return Explored(len(seen), depth, steps, False)
                    seen[mark] = (key, name)
                    queue.append((following, depth + 1))
        except Broken as e:
            return Explored(len(seen), depth, steps, False, _trace(seen, key), str(e))
    return Explored(len(seen), depth, steps, True)


def _trace(seen: dict[Any, tuple[Any, str] | None], key: Any) -> tuple[str, ...]:
    names: list[str] = []
    while (at := seen[key]) is not None:
        key, name = at
        names.append(name)
    return tuple(reversed(names))

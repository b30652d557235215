"""Generated programs mean the same to the compiling interpreter and to a slow one that walks the tree."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from urscript_slow import Node, Slow, printed
from wardarm.sim.plant import KinematicPlant
from wardarm.sim.ur_controller import Controller
from wardarm.sim.ur_controller.modes import Runtime
from wardarm.sim.urscript import Program
from wardarm.sim.urscript.compiler import compile_here

CYCLES = 60
EXAMPLES = int(os.environ.get("WARDARM_GENERATED_PROGRAMS", "200"))

INTS, FLOATS, BOOLS, LISTS = ("gi", "i1", "i2"), ("gf", "f1"), ("gb", "b1"), ("gl", "l1")
PLACES = {"int": INTS, "float": FLOATS, "bool": BOOLS, "list": LISTS}


class Gen:
    """Draws well-typed programs in which things still go wrong now and then (an index, a division, a full list)."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.counters = 0
        self.in_function = False
        self.loops = 0

    def pick(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def small(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    # --- expressions
    def expr(self, kind: str, depth: int) -> Node:
        return getattr(self, kind)(depth)  # type: ignore[no-any-return]

    def int(self, depth: int) -> Node:
        if depth <= 0:
            return self.pick(("num", self.small(-3, 9)), ("name", self.pick(*INTS)))
        match self.small(0, 11):
            case 0 | 1 | 2:
                return ("bin", self.pick("+", "-", "*"), self.int(depth - 1), self.int(depth - 1))
            case 3:
                return ("bin", "%", self.int(depth - 1), ("num", self.pick(1, 2, 3, 7)))
            case 4:
                return ("un", self.pick("-", "+"), self.int(depth - 1))
            case 5:
                return ("index", ("name", self.pick(*LISTS)), [self.index(depth)])
            case 6:
                return ("call", "floor", [self.float(depth - 1)], {})
            case 7:
                return ("call", "get_list_length", [self.list(depth - 1)], {})
            case 8:
                named = {"b": self.int(depth - 1)} if self.small(0, 1) else {}
                return ("call", "f", [self.int(depth - 1)], named) if not self.in_function else self.int(depth - 1)
            case 9:
                return ("member", ("name", "gs"), "a")
            case 10:
                return (
                    "index",
                    ("name", "gm"),
                    [("num", self.small(0, 1)), ("bin", "%", self.int(depth - 1), ("num", 2))],
                )
            case _:
                return ("call", "read_output_integer_register", [("num", self.small(0, 3))], {})

    def index(self, depth: int) -> Node:
        return self.pick(("num", self.small(0, 3)), ("bin", "%", self.int(depth - 1), ("num", 3)))

    def float(self, depth: int) -> Node:
        if depth <= 0:
            return self.pick(("num", self.small(-8, 8) / 4), ("name", self.pick(*FLOATS)))
        match self.small(0, 4):
            case 0 | 1:
                return ("bin", self.pick("+", "-", "*"), self.float(depth - 1), self.int(depth - 1))
            case 2:
                return ("bin", "/", self.int(depth - 1), self.int(depth - 1))
            case 3:
                return ("call", "norm", [self.float(depth - 1)], {})
            case _:
                return ("index", ("pose", [self.float(0) for _ in range(6)]), [("num", self.small(0, 5))])

    def bool(self, depth: int) -> Node:
        if depth <= 0:
            return self.pick(("bool", True), ("bool", False), ("name", self.pick(*BOOLS)))
        match self.small(0, 4):
            case 0:
                return ("bin", self.pick("and", "or", "xor"), self.bool(depth - 1), self.bool(depth - 1))
            case 1:
                return ("un", "not", self.bool(depth - 1))
            case 2:
                kind = self.pick("list", "bool", "int")
                return ("bin", self.pick("==", "!="), self.expr(kind, depth - 1), self.expr(kind, depth - 1))
            case _:
                kind = self.pick("int", "float")
                return ("bin", self.pick("<", ">", "<=", ">="), self.expr(kind, depth - 1), self.int(depth - 1))

    def list(self, depth: int) -> Node:
        """Three integers, except where a method changed the length of one."""
        if depth <= 0:
            return self.pick(("name", self.pick(*LISTS)), ("list", [("num", self.small(0, 9)) for _ in range(3)]))
        match self.small(0, 5):
            case 0:
                return ("list", [self.int(depth - 1) for _ in range(3)])
            case 1:
                return ("bin", self.pick("+", "-", "*"), self.list(depth - 1), self.list(depth - 1))
            case 2:
                return ("bin", self.pick("+", "-", "*"), self.list(depth - 1), self.int(depth - 1))
            case 3:
                return ("bin", self.pick("+", "-", "*"), self.int(depth - 1), self.list(depth - 1))
            case 4:
                return ("bin", "*", ("name", "gm3"), self.list(depth - 1))
            case _:
                return ("member", ("name", "gs"), "l")

    # --- statements
    def block(self, depth: int, most: int) -> list[Node]:
        return [s for _ in range(self.small(min(3, most), most + 2)) for s in self.statement(depth)]

    def statement(self, depth: int) -> list[Node]:
        match self.small(0, 15):
            case 0 | 1 | 2:
                kind = self.pick("int", "float", "bool", "list")
                name = self.pick(*PLACES[kind])
                scope = self.pick("", "", "local") if self.in_function and not name.startswith("g") else ""
                return [("let", scope, ("name", name), self.expr(kind, 2))]
            case 3:
                return [("let", "", ("index", ("name", self.pick(*LISTS)), [self.index(2)]), self.int(2))]
            case 4:
                return [("let", "", ("member", ("name", "gs"), "a"), self.int(2))]
            case 5:
                place = ("index", ("member", ("name", "gs"), "l"), [self.index(1)])
                return [("let", "", place, self.int(2))]
            case 6 | 7:
                return [("do", ("call", "write_output_integer_register", [("num", self.small(0, 3)), self.int(2)], {}))]
            case 8:
                return [("do", ("call", "write_output_float_register", [("num", self.small(0, 3)), self.float(2)], {}))]
            case 9:
                kind = self.pick("int", "float", "bool", "list")
                return [("do", ("call", "textmsg", [("text", kind + " "), self.expr(kind, 2)], {}))]
            case 10 if depth > 0:
                count = self.small(1, 3)
                branches = [(self.bool(2), self.block(depth - 1, 3)) for _ in range(count)]
                return [("if", branches, self.block(depth - 1, 2) if self.small(0, 1) else [])]
            case 11 if depth > 0:
                return self.loop(depth)
            case 12:
                return [("do", ("call", "sync", [], {}))] if self.small(0, 1) else self.pause()
            case 13:
                name = self.pick("append", "pop", "remove", "insert", "length")
                args = {"append": [self.int(1)], "remove": [self.index(1)], "insert": [self.index(1), self.int(1)]}
                return [("do", ("method", ("name", "gl"), name, args.get(name, [])))]
            case 14 if self.loops:
                leap = ("word", self.pick("break", "continue"))
                return [("if", [(self.bool(2), [leap])], [])]
            case 15 if self.in_function:
                return [("if", [(self.bool(2), [("return", self.int(1))])], [])]
        return [("word", "pass")]

    def pause(self) -> list[Node]:
        return [("do", ("call", "sleep", [("num", self.small(0, 3) * 0.002)], {}))]

    def loop(self, depth: int) -> list[Node]:
        self.counters += 1
        k = ("name", f"k{self.counters}")
        self.loops += 1
        body = self.block(depth - 1, 3)
        self.loops -= 1
        step = ("let", "", k, ("bin", "+", k, ("num", 1)))
        condition = ("bin", "<", k, ("num", self.small(1, 4)))
        if self.small(0, 1):
            condition = ("bin", "and", condition, self.bool(1))
        return [("let", "", k, ("num", 0)), ("while", condition, [step, *body])]

    def program(self) -> list[Node]:
        setup: list[Node] = [
            ("let", "global", ("name", "gi"), ("num", self.small(0, 5))),
            ("let", "global", ("name", "gf"), ("num", self.small(-9, 9) / 2)),
            ("let", "global", ("name", "gb"), ("bool", bool(self.small(0, 1)))),
            ("let", "global", ("name", "gl"), ("call", "make_list", [("num", 3), ("num", self.small(0, 9)), ("num", self.small(3, 5))], {})),
            ("let", "global", ("name", "gs"), ("struct", {"a": ("num", 1), "l": ("list", [("num", n) for n in (4, 5, 6)])})),
            ("let", "global", ("name", "gm"), ("list", [("list", [("num", 1), ("num", 2)]), ("list", [("num", 3), ("num", 4)])])),
            ("let", "global", ("name", "gm3"), ("list", [("list", [("num", self.small(0, 2)) for _ in range(3)]) for _ in range(3)])),
        ]  # fmt: skip
        self.in_function = True
        locals_: list[Node] = [
            ("let", "local", ("name", n), v)
            for n, v in (("i1", ("num", 1)), ("i2", ("name", "a")), ("f1", ("num", 0.5)), ("b1", ("bool", True)), ("l1", ("name", "gl")))
        ]  # fmt: skip
        function = ("def", "f", [("a", None), ("b", self.pick(("num", 2), ("list", [("num", 1), ("num", 2)])))],
                    [*locals_, *self.block(1, 4), ("return", self.int(2))])  # fmt: skip
        in_thread = [(*let[:3], ("name", "gi")) if let[2] == ("name", "i2") else let for let in locals_]  # takes no `a`
        threads = [("thread", f"t{n}", [], [*in_thread, *self.block(2, 5)]) for n in range(self.small(0, 2))]
        self.in_function = False
        begin: list[Node] = [
            ("let", "", ("name", n), v)
            for n, v in (("i1", ("num", 1)), ("i2", ("num", 2)), ("f1", ("num", 0.5)), ("b1", ("bool", False)), ("l1", ("list", [("num", 7)] * 3)))
        ]  # fmt: skip
        starts: list[Node] = [("let", "", ("name", f"h{i}"), ("run", t[1], [])) for i, t in enumerate(threads)]
        middle = self.block(2, 6)
        if self.small(0, 3) == 0:
            middle = [("word", "enter_critical"), *middle, ("word", "exit_critical")]
        ends: list[Node] = [(self.pick("join", "kill"), ("name", f"h{i}")) for i in range(len(threads))]
        return [*setup, function, *threads, *begin, *starts, *middle, *ends, *self.block(1, 3), *self.everything()]

    @staticmethod
    def everything() -> list[Node]:
        """All variables, so that nothing can differ unseen."""
        return [
            ("do", ("call", "textmsg", [("text", name + " "), ("name", name)], {}))
            for name in (*INTS, *FLOATS, *BOOLS, *LISTS, "gs", "gm", "gm3")
        ]


def fresh(node: Any) -> Any:
    """Every node an object of its own, so that its line can be kept by identity."""
    if isinstance(node, tuple):
        return tuple([fresh(n) for n in node])
    if isinstance(node, list):
        return [fresh(n) for n in node]
    if isinstance(node, dict):
        return {k: fresh(v) for k, v in node.items()}
    return node


@st.composite
def programs(draw: Any) -> list[Node]:
    return fresh(Gen(draw).program())  # type: ignore[no-any-return]


class Recorded:
    """The real interpreter on a real controller, with every register write and message noted in order."""

    def __init__(self) -> None:
        self.controller = Controller(KinematicPlant((0.0,) * 6), compile_inline=True)

    def run(self, source: str) -> tuple[list[tuple[int, str, Any]], int | None]:
        said: list[tuple[int, str, Any]] = []
        table, attach = self.controller._functions()
        functions = dict(table)

        def noting(name: str, what: str) -> None:
            inner = functions[name]

            def outer(address: int, value: Any) -> None:
                inner(address, value)
                said.append((program.cycles, f"{what} {address}", float(value) if what == "float" else value))

            functions[name] = outer

        noting("write_output_integer_register", "int")
        noting("write_output_float_register", "float")
        text = functions["textmsg"]

        def message(s1: Any, s2: Any = "") -> None:
            text(s1, s2)
            said.append((program.cycles, "text", self.controller.log[-1][1].removeprefix("textmsg: ")))

        functions["textmsg"] = message
        self.controller.output_ints[:] = [0] * 48
        program = Program(compile_here(source, self.controller.slot._signatures), functions)
        attach(program)
        while program.cycles < CYCLES and program.cycle():
            pass
        program.stop()
        return said, program.error.line if program.error is not None else None


RECORDED = Recorded()
SEEN = {"programs": 0, "errors": 0, "threads": 0, "writes": 0}


@pytest.mark.timeout(max(180, EXAMPLES))
@settings(
    max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(programs())
def test_generated_programs_write_the_same_registers_in_the_same_order(body: list[Node]) -> None:
    lines: dict[int, int] = {}
    source = printed(body, lines)
    slow = Slow(body, lines)
    slow.run(CYCLES)
    said, error_line = RECORDED.run(source)
    wanted = slow.said
    assert len(said) == len(wanted), f"{source}\nreal {said}\nslow {wanted}, {slow.broken}"
    for ours, theirs in zip(said, wanted, strict=True):
        same = ours == theirs or (
            ours[:2] == theirs[:2] and isinstance(ours[2], float) and math.isclose(ours[2], theirs[2])
        )
        assert same, f"{source}\nreal {ours}\nslow {theirs}"
    assert error_line == (slow.broken.line if slow.broken else None), f"{source}\n{slow.broken}"
    SEEN["programs"] += 1
    SEEN["errors"] += error_line is not None
    SEEN["threads"] += "thread " in source
    SEEN["writes"] += len(wanted)


def test_the_generated_programs_are_worth_comparing() -> None:
    """Runs after the comparison: programs that do nothing or all break at once would prove little."""
    if not SEEN["programs"]:
        pytest.skip("nothing was generated in this run")
    assert SEEN["programs"] >= EXAMPLES
    assert SEEN["threads"] > EXAMPLES / 4
    assert SEEN["writes"] > 3 * EXAMPLES
    assert EXAMPLES / 50 < SEEN["errors"] < EXAMPLES * 0.8
    assert RECORDED.controller.slot.runtime is Runtime.STOPPED

"""The URScript interpreter: what a program means, and that nothing in it fails silently."""

from __future__ import annotations

from typing import Any

import pytest
from wardarm.sim.urscript import Program, ScriptError, compile_script, to_text


class Machine:
    """Runs a program cycle by cycle and keeps what it said."""

    def __init__(self, body: str) -> None:
        self.said: list[str] = []
        functions: dict[str, Any] = {
            "textmsg": lambda *a: self.said.append("".join(to_text(v) for v in a)),
            "sync": lambda: self.program.wait(),
            "sleep": self._sleep,
        }
        source = body if body.startswith("def prog") else f"def prog():\n{body}\nend\n"
        self.program = Program(compile_script(source, functions), functions)
        self.cycles = 0

    def _sleep(self, t: float) -> None:
        for _ in range(round(t / 0.002)):
            self.program.wait()

    def run(self, cycles: int = 1000) -> list[str]:
        while self.cycles < cycles and self.program.cycle():
            self.cycles += 1
        return self.said


def said(body: str) -> list[str]:
    machine = Machine(body)
    machine.run()
    assert machine.program.error is None, machine.program.error
    return machine.said


def error_of(body: str) -> ScriptError:
    try:
        machine = Machine(body)
        machine.run()
    except ScriptError as e:
        return e
    assert machine.program.error is not None, "the program ended without an error"
    return machine.program.error


def test_division_of_integers_gives_a_fraction() -> None:
    assert said("textmsg(7 / 2)\ntextmsg(8 / 2)\ntextmsg(7 % 3)") == ["3.5", "4", "1"]


def test_arithmetic_binds_as_usual_and_comparisons_do_not_chain() -> None:
    assert said("textmsg(1 + 2 * 3 - 4 / 2)\ntextmsg(-2 * -(3 + 1))\ntextmsg(not 1 == 2 and 3 >= 3)") == [
        "5",
        "8",
        "True",
    ]
    assert said("textmsg(True xor True)\ntextmsg(1 < 2 xor False)") == ["False", "True"]


def test_lists_are_copied_by_assignment_and_by_call() -> None:
    body = "a = [1, 2]\nb = a\nb[0] = 9\ndef f(x):\n x[1] = 7\n return x\nend\nc = f(a)\ntextmsg(a)\ntextmsg(b)\ntextmsg(c)"
    assert said(body) == ["[1, 2]", "[9, 2]", "[1, 7]"]


def test_a_nested_list_is_copied_too() -> None:
    assert said("m = [[1, 2], [3, 4]]\nn = m\nn[1, 0] = 8\ntextmsg(m[1][0])\ntextmsg(n[1, 0])") == ["3", "8"]


def test_poses_are_poses_and_lists_of_equal_length_add() -> None:
    assert said("textmsg(p[1, 2, 3, 0, 0, 0])\ntextmsg([1, 2] + [3, 4])\ntextmsg([2, 4] * 0.5)") == [
        "p[1, 2, 3, 0, 0, 0]", "[4, 6]", "[1, 2]",
    ]  # fmt: skip


def test_a_list_grows_only_to_its_capacity() -> None:
    functions = {
        "textmsg": lambda *a: None,
        "make_list": __import__("wardarm.sim.ur_controller.functions_math", fromlist=["x"]).MATH_FUNCTIONS["make_list"],
    }
    source = "def prog():\n a = make_list(1, 0, 2)\n a.append(5)\n a.append(6)\nend\n"
    program = Program(compile_script(source, functions), functions)
    assert not program.cycle()
    assert program.error is not None
    assert program.error.line == 4
    assert "full" in program.error.message


def test_globals_are_seen_everywhere_and_locals_only_where_they_are() -> None:
    body = """
    global g = 1
    def f():
      g = g + 1
      local h = 5
      x = 3
      y = 4
      return x + h + y
    end
    x = 10
    textmsg(f())
    textmsg(g)
    textmsg(x)
    def other():
      return y
    end
    """
    assert said(body.rpartition("    def other")[0]) == ["12", "2", "3"]
    assert error_of(body).message == "name 'y' is not defined"


def test_defaults_and_named_arguments() -> None:
    assert said("def f(a, b=2, c=3):\n return a * 100 + b * 10 + c\nend\ntextmsg(f(1))\ntextmsg(f(1, c=9))") == [
        "123",
        "129",
    ]


def test_break_continue_and_elif() -> None:
    body = "i = 0\nwhile True:\n i = i + 1\n if i == 2:\n  continue\n elif i == 4:\n  break\n else:\n  textmsg(i)\n end\nend"
    assert said(body) == ["1", "3"]


def test_threads_run_side_by_side_one_slice_a_cycle() -> None:
    body = """
    thread other():
      i = 0
      while i < 3:
        textmsg("other ", i)
        i = i + 1
        sync()
      end
    end
    h = run other()
    textmsg("main")
    join h
    textmsg("joined")
    """
    machine = Machine(body)
    assert machine.run() == ["main", "other 0", "other 1", "other 2", "joined"]
    assert machine.cycles == 4


def test_a_killed_thread_says_no_more() -> None:
    body = 'thread t():\n while True:\n  textmsg("t")\n  sync()\n end\nend\nh = run t()\nsync()\nsync()\nkill h\nsleep(0.01)'
    assert said(body) == ["t", "t"]


def test_other_threads_wait_for_a_critical_section() -> None:
    body = """
    thread t():
      textmsg("t")
    end
    enter_critical
    h = run t()
    n = 0
    while n < 10000:
      n = n + 1
    end
    textmsg("still alone")
    exit_critical
    join h
    """
    assert said(body) == ["still alone", "t"]
    assert said(body.replace("enter_critical", "").replace("exit_critical", "")) == ["t", "still alone"]


def test_a_thread_that_waits_within_a_critical_section_lets_the_others_run() -> None:
    """Universal Robots' external_control.urscript reads its socket in one while other threads send servoj."""
    body = """
    thread t():
      enter_critical
      textmsg("t")
      exit_critical
    end
    enter_critical
    h = run t()
    sync()
    textmsg("woke up")
    exit_critical
    join h
    """
    assert said(body) == ["t", "woke up"]


def test_a_loop_that_takes_no_time_loses_its_slice_but_not_the_others() -> None:
    body = "global n = 0\nthread t():\n while True:\n  n = n + 1\n end\nend\nh = run t()\nsleep(0.01)\ntextmsg(n > 0)\nkill h"
    assert said(body) == ["True"]


def test_halt_ends_the_whole_program() -> None:
    assert said('thread t():\n halt\nend\nh = run t()\nsync()\nsync()\ntextmsg("never")') == []


def test_statements_may_share_a_line_as_the_control_script_of_ur_rtde_needs() -> None:
    assert said("global a = # first\n0    global b = 2\ntextmsg(a + b)") == ["2"]


@pytest.mark.parametrize(
    ("body", "line", "text"),
    [
        ("x = 1\ny = foo(x)", 3, "unknown function 'foo'"),
        ("x = y + 1", 2, "'y' is not defined"),
        ("if [1]:\n x = 1\nend", 2, "must be True or False"),
        ("a = [1, 2]\ni = 2\ntextmsg(a[i])", 4, "out of range"),
        ("a = [1, 2]\ni = -1\ntextmsg(a[i])", 4, "out of range"),
        ("a = [1, 2]\ntextmsg(a[1.0])", 3, "a list index must be an integer, not a float"),
        ("x = 0\ntextmsg(1 / x)", 3, "division by zero"),
        ("def f(a):\n return a\nend\nx = f(1, 2)", 5, "takes 1 arguments"),
        ("break", 2, "outside a loop"),
        ("def f():\n n = n + 1\nend\nf()", 3, "before it has a value"),
        ("global h = 1\njoin h", 3, "needs a thread"),
        ("x = [1, 2] + [1, 2, 3]", 2, "2 and 3 elements"),
        ("x = s.a", 2, ""),
        ("x = (1 + ", 2, ""),
        ("x = 1 ? 2", 2, ""),
    ],
)  # fmt: skip
def test_an_error_names_its_line(body: str, line: int, text: str) -> None:
    error = error_of(f"def prog():\n{body}\nend\n")
    assert text in error.message
    if text:
        assert error.line == line


def test_the_line_of_an_error_inside_a_thread_and_a_function() -> None:
    body = (
        "def prog():\n def f(a):\n  return a[7]\n end\n thread t():\n  x = f([1])\n end\n h = run t()\n join h\nend\n"
    )
    assert error_of(body).line == 3

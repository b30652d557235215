"""Interpreter mode: what is sent stays until it is cleared, sees its host's variables, and every line is answered.

After the script manual, "Interpreter Mode". Hosts that enter the mode again keep what waits then: a client cannot know
whether it has come before.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest
from ur_bench import Robot, robot

HOST = 'def host():\n  global n = 1\n{body}\n  textmsg("left")\n  sync()\n  while True:\n    sync()\n  end\nend\n'
PLAIN = HOST.format(body="  interpreter_mode()")


@pytest.fixture(scope="module")
def running() -> Iterator[Robot]:
    with robot() as made:
        yield made


@pytest.fixture
def ur(running: Robot) -> Robot:
    running.ask("inject reset")
    running.wait("no program", lambda s: s["runtime"] == "STOPPED")
    return running


class Statements:
    """A client of port 30020 on a robot whose host program runs."""

    def __init__(self, ur: Robot, program: str = PLAIN, begin: str = "") -> None:
        self.ur, self.mark = ur, len(ur.log())
        self.link = socket.create_connection((ur.address, 30020), timeout=60)
        self.file = self.link.makefile("rw")
        ur.run(program)
        ur.wait("the host", lambda s: s["program"] == "host")
        if begin:
            self.send(begin)

    def send(self, *lines: str) -> None:
        self.file.write("".join(line + "\n" for line in lines))
        self.file.flush()

    def answer(self) -> str:
        return self.file.readline().rstrip("\n")

    def ask(self, line: str) -> str:
        self.send(line)
        return self.answer()

    def ack(self, *lines: str) -> int:
        """All taken; the number of the last one."""
        number = 0
        for line in lines:
            word, number_text, text = self.ask(line).split(": ", 2)
            assert (word, text) == ("ack", line)
            number = int(number_text)
        return number

    def done(self) -> None:
        self.until(lambda: self.ask("stateunexecuted") == "state: 0: stateunexecuted")
        since = self.ur.state()["cycle"]
        self.ur.wait("two cycles", lambda s: s["cycle"] > since + 2)

    def said(self) -> list[str]:
        return [line[9:] for line in self.ur.log()[self.mark :] if line.startswith("textmsg: ")]

    @staticmethod
    def until(condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, "it never came"


def test_functions_threads_and_variables_that_are_sent_stay(ur: Robot) -> None:
    link = Statements(ur)
    link.ack(
        "def twice(x, more=1): return 2 * x + more end", "thread beat(): global beats = 0 while True: beats = beats + 1 sync() end end",
        "a = twice(4)", "handle = run beat()", "textmsg(twice(a, more=0))", "n = twice(n)", "textmsg(n)",
        "def both(l): l[0] = 9 return l end", "kept = [1, 2]", "other = both(kept)", "textmsg(kept)", "textmsg(other)",
    )  # fmt: skip
    link.done()
    link.until(lambda: ur.ask("variables")["variables"]["n"] == 3)
    assert link.said() == ["18", "3", "[1, 2]", "[9, 2]"]
    link.ack("sleep(0.1)", "kill handle", "textmsg(beats > 20)")
    link.done()
    assert link.said()[-1] == "True"
    assert "takes 2 arguments" in link.ask("twice(1, 2, 3)")
    assert "twice is a function" in link.ask("twice = 1")
    assert "not a thread" in link.ask("h = run twice()")


def test_clear_interpreter_forgets_what_was_sent_and_nothing_else(ur: Robot) -> None:
    link = Statements(ur)
    link.ack(
        "n = 5", "mine = 7", "def f(): return 1 end", "thread t(): while True: n = n + 1 sync() end end", "h = run t()"
    )
    cleared = link.ack("sleep(0.05)", "clear_interpreter()")
    link.done()
    assert link.ask("statelastcleared") == f"state: {cleared}: statelastcleared"
    assert "'mine' is not defined" in link.ask("textmsg(mine)")
    assert "unknown function 'f'" in link.ask("f()")
    assert "'t' is not a thread" in link.ask("h = run t()")
    link.ack("textmsg(n > 5)", "seen = n", "sleep(0.1)", "textmsg(n == seen)", "def f(): return 2 end", "textmsg(f())")
    link.done()
    assert link.said() == ["True", "True", "2"]


def test_what_comes_after_a_clear_is_looked_at_when_it_is_done(ur: Robot) -> None:
    link = Statements(ur)
    link.ack("gone = 1", "sleep(0.2)")
    link.send("clear_interpreter()", "textmsg(gone)", "gone = 2", "textmsg(gone)")
    assert link.answer().startswith("ack: ")
    assert "'gone' is not defined" in link.answer()
    assert link.answer().startswith("ack: ")
    link.done()
    assert link.said() == ["2"]


def test_the_end_clears_too_unless_it_is_asked_not_to(ur: Robot) -> None:
    body = (
        '  interpreter_mode()\n  textmsg("n ", n)\n  interpreter_mode(clearQueueOnEnter=False, clearOnEnd=False)\n'
        "  interpreter_mode(clearQueueOnEnter=False)"
    )
    link = Statements(ur, HOST.format(body=body))
    link.ack("def f(): return 3 end", "n = f()", "end_interpreter()")
    link.until(lambda: link.said() == ["n 3"])
    assert "unknown function 'f'" in link.ask("f()")
    link.ack("def g(): return 4 end", "end_interpreter()")
    link.ack("textmsg(g())", "end_interpreter()")
    link.until(lambda: link.said() == ["n 3", "4", "left"])


def test_locals_of_the_function_that_hosts_it_are_seen_and_changed(ur: Robot) -> None:
    body = (
        "  def inner(p, q=2):\n    local a = 10\n    b = [1, 2]\n    interpreter_mode(clearQueueOnEnter=False)\n"
        '    textmsg("inner ", [p, q, a, b[1]])\n    return a\n  end\n  textmsg("got ", inner(1))\n'
        '  textmsg("again ", inner(5, 6))'
    )
    link = Statements(ur, HOST.format(body=body))
    link.ack("a = a + p", "b[1] = q * 10", "q = 7", "def change(): a = a + 100 end", "change()", "end_interpreter()")
    link.until(lambda: link.said()[1:2] == ["got 111"])
    link.ack("p = 0", "end_interpreter()")
    link.until(lambda: "left" in link.said())
    assert link.said() == ["inner [1, 7, 111, 20]", "got 111", "inner [0, 6, 10, 2]", "again 10", "left"]


def test_a_local_that_has_no_value_yet_has_none_of_the_call_before(ur: Robot) -> None:
    body = "  def f(first):\n    if first:\n      x = 1\n    end\n    interpreter_mode(clearQueueOnEnter=False)\n  end\n  f(True)\n  f(False)"
    link = Statements(ur, HOST.format(body=body))
    link.ack("textmsg(x)", "end_interpreter()")
    link.ack("textmsg(x)")
    ur.wait("the error", lambda s: "'x' used before it has a value" in s["last_error"])


def test_what_comes_before_the_mode_waits_or_is_cleared(ur: Robot) -> None:
    for parameters, answer in (
        ("", "discard: cleared when interpreter mode began: "),
        ("clearQueueOnEnter=False", "ack: "),
    ):
        body = f"  while n < 2:\n    sync()\n    n = read_input_integer_register(0)\n  end\n  interpreter_mode({parameters})"
        link = Statements(ur, HOST.format(body=body), begin='textmsg("early")')
        state = ur.state()["cycle"]
        ur.wait("twenty cycles", lambda s, since=state: s["cycle"] > since + 20)
        link.link.settimeout(0.0)
        with pytest.raises(BlockingIOError):
            link.link.recv(100)
        link.link.settimeout(10)
        write_register(ur, 2)
        assert link.answer().startswith(answer)
        link.ack('textmsg("late")')
        link.done()
        assert link.said() == (["early", "late"] if answer == "ack: " else ["late"])
        write_register(ur, 0)
        ur.ask("inject reset")


def write_register(ur: Robot, value: int) -> None:
    with socket.create_connection((ur.address, 30004), timeout=60) as link, link.makefile("rb") as stream:
        name = b"input_int_register_0"
        link.sendall(struct.pack(">HBH", 5, ord("V"), 2) + struct.pack(">HB", 3 + len(name), ord("I")) + name)
        stream.read(4)
        size, _ = struct.unpack(">HB", stream.read(3))
        recipe = stream.read(size - 3)[0]
        link.sendall(struct.pack(">HBBi", 8, ord("U"), recipe, value))
        link.shutdown(socket.SHUT_WR)
        assert stream.read() == b""


def test_every_line_is_answered(ur: Robot) -> None:
    link = Statements(ur)
    first = link.ack("n = 2")
    assert link.ask("") == f"ack: {first + 1}: "
    assert link.ask("   ") == f"ack: {first + 2}: "
    assert link.ask("# nothing") == f"ack: {first + 3}: # nothing"
    assert link.ask("n =").startswith("discard: ")
    assert link.ask("x" * 1025).startswith("discard: longer than 1024 characters")
    assert link.ask('textmsg("ü")') == f'ack: {first + 4}: textmsg("ü")'
    link.done()
    assert link.said() == ["ü"]
    assert link.ask("statelastinterpreted") == f"state: {first + 4}: statelastinterpreted"
    link.send("sleep(30)", "n = 3", "n = 4")
    assert [link.answer()[:3] for _ in range(3)] == ["ack"] * 3
    link.until(lambda: link.ask("statelastexecuted") == f"state: {first + 5}: statelastexecuted")
    assert link.ask("stateunexecuted") == "state: 2: stateunexecuted"
    assert link.ask("skipbuffer").startswith("ack: ")
    assert link.ask("stateunexecuted") == "state: 0: stateunexecuted"
    ur.run("stop program\n")
    ur.wait("the end", lambda s: s["runtime"] == "STOPPED")
    for line in ("n = 1", "skipbuffer", "abort", ""):
        assert link.ask(line) == f"discard: the robot is not in interpreter mode: {line}"


def test_what_waits_is_discarded_when_the_program_ends_without_the_mode(ur: Robot) -> None:
    link = Statements(ur, "def host():\n  sleep(0.3)\nend\n", begin="x = 1")
    assert link.answer() == "discard: the robot is not in interpreter mode: x = 1"


def test_only_the_main_thread_may_enter_it_and_only_once(ur: Robot) -> None:
    ur.run("def host():\n  thread t():\n    interpreter_mode()\n  end\n  h = run t()\n  join h\nend\n")
    ur.wait("the error", lambda s: "interpreter_mode() is for the main thread" in s["last_error"])
    link = Statements(ur)
    link.ack("interpreter_mode()")
    ur.wait("the error", lambda s: "interpreter_mode() within interpreter mode" in s["last_error"])


def test_an_error_in_a_statement_ends_the_program_and_names_what_was_sent_before_too(ur: Robot) -> None:
    link = Statements(ur)
    link.ack("def f(x): return 1 / x end", "f(0)")
    ur.wait("the error", lambda s: "division" in s["last_error"])
    assert ur.state()["runtime"] == "STOPPED"

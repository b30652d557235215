"""Programs as they are sent: which of several runs, what a broken one leaves behind, when `play` answers, what text says."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_sim_ur_streams import Stream
from ur_bench import Robot, robot
from wardarm.sim.lockstep import Lockstep

LINE = "  set_digital_out(1, True)\n"
TEXT = "Grüße, 你好"
LOOP = "def {name}():\n  global heard = 1\n  while True:\n    sync()\n  end\nend\n"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "waits.script").write_text(LOOP.format(name="waits"))
    (folder / "long.script").write_text("def long():\n  while True:\n    sync()\n  end\n" + LINE * 40_000 + "end\n")
    (folder / "wrong.script").write_text("def wrong():\n  nobody_knows_me()\nend\n")
    return folder


@pytest.fixture(scope="module")
def running(programs: Path) -> Iterator[Robot]:
    with robot("--programs", str(programs)) as made:
        yield made


@pytest.fixture
def ur(running: Robot) -> Robot:
    running.ask("inject reset")
    return running


def started(ur: Robot, since: int = 0) -> list[str]:
    return [line for line in ur.log()[since:] if line.startswith("program ")]


def long(name: str, lines: int) -> str:
    return f"def {name}():\n  while True:\n    sync()\n  end\n{LINE * lines}end\n"


def test_a_newer_program_does_not_wait_for_an_older_one_that_is_still_compiled(ur: Robot) -> None:
    mark = len(ur.log())
    ur.run(long("older", 120_000))  # some seconds of compiling
    ur.run(long("newer", 2_000))
    ur.wait("the newer one", lambda s: s["program"] == "newer", 60)
    assert started(ur, mark) == [
        "program of 3240048 characters never began: a newer one takes its place", "program newer started",
    ]  # fmt: skip
    ur.run(long("third", 1_500))
    ur.wait("the next one", lambda s: s["program"] == "third", 60)
    assert not any("older started" in line for line in ur.log())


def test_a_newer_program_that_is_wrong_takes_nobody_s_place(ur: Robot) -> None:
    mark = len(ur.log())
    ur.run(long("good", 20_000))
    ur.run("def bad():\n  nobody_knows_me()\nend\n")
    ur.wait("the good one", lambda s: s["program"] == "good", 60)
    assert started(ur, mark) == ["program good started"]
    assert any("nobody_knows_me" in line for line in ur.log()[mark:])


def test_secondary_programs_run_while_a_long_program_is_compiled(ur: Robot) -> None:
    mark = len(ur.log())
    ur.run(long("big", 25_000))
    ur.run('sec beside():\n  textmsg("beside")\nend\n')
    ur.wait("the long one", lambda s: s["program"] == "big", 60)
    log = ur.log()[mark:]
    assert log.index("textmsg: beside") < log.index("program big started")


def test_of_programs_that_are_ready_at_once_only_the_newest_begins() -> None:
    with Lockstep() as sim:
        for name in ("first", "second", "third"):
            sim.controller.submit(LOOP.format(name=name))
        sim.step(2)
        assert [line for line in sim.log(20) if line.startswith("program")] == [
            "program first never began: a newer one takes its place", "program second never began: a newer one takes its place",
            "program third started",
        ]  # fmt: skip


# --- what a program with an error leaves behind
BROKEN = {
    "an end too many": "def p():\n  if True:\n    x = 1\n  end\n  end\n  set_digital_out(3, True)\nend\n",
    "an end too few": "def p():\n  if True:\n    x = 1\n  set_digital_out(3, True)\nend\n",
    "not indented, a word is wrong": "def p():\nwile True:\nsync()\nend\nset_digital_out(3, True)\nend\n",
    "not indented, a bracket is open": "def p():\nx = (1\nif True:\nset_digital_out(3, True)\nend\nend\n",
    "lines after it": "def p():\n  x = = 1\nend\nset_digital_out(3, True)\nset_digital_out(3, True)\n",
    "long and lines after it": "def p():\n"
    + LINE.replace("1,", "2,") * 3000
    + "  x = = 1\nend\nset_digital_out(3, True)\n",
}


@pytest.mark.parametrize("script", BROKEN.values(), ids=BROKEN)
def test_a_program_with_an_error_is_one_error_and_none_of_its_lines_runs(ur: Robot, script: str) -> None:
    primary = Stream(ur.address, 30001)
    primary.state()
    ur.run(script + 'sec after():\n  textmsg("after it")\nend\n')
    errors: list[bytes] = []
    said, states = False, 0
    while not (said and errors and states > 3):  # states: three tenths of a second after the rest of it
        kind, body = primary.package()
        if kind == 20 and body[9] == 10:
            errors.append(body[10:])
        said |= kind == 20 and body[9] == 0 and body[10:] == b"after it"
        states = states + (kind == 16) if said and errors else 0
    primary.close()
    assert len(errors) == 1, errors
    assert b"syntax_error_on_line:" in errors[0]
    assert not digital_out(ur) & 0b1000


@pytest.mark.parametrize(
    "script", ["def p():\nif True:\nset_digital_out(3, True)\nend\n", "def p():\n  x = 1\n", "sec s():\n  x = 1\n  en"]
)
def test_a_program_whose_end_is_missing_is_an_error_when_its_sender_has_gone(ur: Robot, script: str) -> None:
    mark = len(ur.log())
    ur.run(script)
    ur.wait("the error", lambda s: any(line.startswith("compile error: ") for line in ur.log()[mark:]))
    assert not digital_out(ur) & 0b1000


def digital_out(ur: Robot) -> int:
    stream = Stream(ur.address, 30012)
    board = stream.state()[3]
    stream.close()
    return int(struct.unpack(">i", board[4:8])[0])


def test_a_program_that_is_not_indented_is_one_program(ur: Robot) -> None:
    ur.run(
        "def p():\ndef f(n):\nif n > 1:\nreturn n\nend\nreturn 0\nend\ni = 0\nwhile i < 2: i = i + 1 end\ntextmsg(f(i))\nend\n"
    )
    ur.wait("its end", lambda s: "textmsg: 2" in ur.log())
    assert not any("error" in line for line in ur.log()[-4:])


def test_a_program_on_one_line_and_lines_after_a_good_one_run(ur: Robot) -> None:
    mark = len(ur.log())
    ur.run('def one(): textmsg("one") end\nsec two():\n  textmsg("two")\nend\ntextmsg("three")\n')
    ur.wait("three", lambda s: "textmsg: three" in ur.log()[mark:])
    said = [line for line in ur.log()[mark:] if line.startswith("textmsg")]
    assert sorted(said) == ["textmsg: one", "textmsg: three", "textmsg: two"]
    assert said.index("textmsg: one") < said.index("textmsg: three")


# --- play
class Dashboard:
    def __init__(self, ur: Robot) -> None:
        self.link = socket.create_connection((ur.address, 29999), timeout=60)
        self.file = self.link.makefile("rw")
        self.file.readline()

    def ask(self, *commands: str) -> list[str]:
        self.file.write("".join(command + "\n" for command in commands))
        self.file.flush()
        return [self.file.readline().strip() for _ in commands]


@pytest.mark.parametrize("name", ["waits", "long"])
def test_play_answers_when_the_program_runs(ur: Robot, name: str) -> None:
    dashboard = Dashboard(ur)
    dashboard.ask(f"load {name}.urp")
    assert dashboard.ask("play", "programState", "running") == [
        "Starting program", f"PLAYING {name}.urp", "Program running: true",
    ]  # fmt: skip
    assert dashboard.ask("pause", "play", "stop") == ["Pausing program", "Starting program", "Stopped"]


def test_play_of_a_program_that_cannot_run_says_so(ur: Robot) -> None:
    dashboard = Dashboard(ur)
    dashboard.ask("load wrong.urp")
    assert dashboard.ask("play", "programState") == ["Failed to execute: play", "STOPPED wrong.urp"]


# --- text
def test_text_that_is_not_ascii_goes_out_as_it_came_in(ur: Robot, programs: Path) -> None:
    raw = b"caf\xe9"  # no UTF-8: a string is bytes
    (programs / "text.script").write_text(f'def text():\n  textmsg("{TEXT}")\nend\n', "utf-8")
    primary = Stream(ur.address, 30001)
    primary.state()
    script = f'def t():\n  global word = "{TEXT}"\n  textmsg(word)\n  textmsg(str_len("ü"))\n  popup(word, word)\n  sleep(0.3)\n'
    with socket.create_connection((ur.address, 30002)) as link:
        link.sendall(script.encode() + b'  textmsg("' + raw + b'")\n  x = to_num("' + TEXT.encode() + b'")\nend\n')
        link.shutdown(socket.SHUT_WR)
        while link.recv(65536):
            pass
    assert primary.message(lambda kind, _: kind == 0) == TEXT.encode()
    assert primary.message(lambda kind, _: kind == 0) == b"2"
    popup = primary.message(lambda kind, _: kind == 2)
    assert popup[9 : 9 + popup[8]] == popup[9 + popup[8] :] == TEXT.encode()
    values = [b""]
    while TEXT.encode() not in values[-1]:
        kind, body = primary.package()
        if kind == 25:
            values.append(body)
    assert primary.message(lambda kind, _: kind == 0) == raw
    assert TEXT.encode() in primary.message(lambda kind, _: kind == 10)
    assert f"textmsg: {TEXT}" in ur.log()
    assert TEXT in ur.state()["last_error"]
    dashboard = Dashboard(ur)
    dashboard.ask("load text.urp", "play")
    assert primary.message(lambda kind, _: kind == 0) == TEXT.encode()
    dashboard.ask(f"popup {TEXT}")
    assert primary.message(lambda kind, _: kind == 2).endswith(TEXT.encode())
    ur.ask(json.dumps({"command": "inject", "args": ["popup", "\ud800"]}))  # no character at all
    assert primary.message(lambda kind, _: kind == 2).endswith(b"?")
    primary.close()


def test_variables_of_a_program_are_shown_as_they_were_written(ur: Robot) -> None:
    ur.run(
        f'def v():\n  global word = "{TEXT}"\n  global words = ["{TEXT}", "b"]\n  while True:\n    sync()\n  end\nend\n'
    )
    ur.wait("the program", lambda s: s["program"] == "v" and "words" in ur.ask("variables")["variables"])
    assert ur.ask("variables")["variables"] == {"word": TEXT, "words": [TEXT, "b"]}

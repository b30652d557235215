"""Primary, secondary and real-time streams, read by a parser that is not the simulator's."""

from __future__ import annotations

import itertools
import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest
from ur_bench import Robot, robot

# Sub-package sizes of a robot state message on an e-Series robot, as Universal Robots' clients expect them
SIZES = {0: 47, 1: 251, 2: 37, 3: 75, 4: 101, 5: 225, 6: 445, 7: 61, 8: 9, 9: 53, 11: 26, 12: 8}


@pytest.fixture(scope="module")
def ur() -> Iterator[Robot]:
    with robot() as running:
        yield running


class Stream:
    def __init__(self, address: str, port: int) -> None:
        self.link = socket.create_connection((address, port), timeout=60)
        self.file = self.link.makefile("rb")

    def package(self) -> tuple[int, bytes]:
        size, kind = struct.unpack(">iB", self.file.read(5))
        return kind, self.file.read(size - 5)

    def state(self) -> dict[int, bytes]:
        while True:
            kind, body = self.package()
            if kind == 16:
                break
        found = {}
        while body:
            size, kind = struct.unpack(">iB", body[:5])
            found[kind] = body[5:size]
            body = body[size:]
        return found

    def message(self, wanted: Callable[[int, bytes], bool]) -> bytes:
        """The payload of the first robot message (type, payload) that is wanted."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            kind, body = self.package()
            if kind == 20 and wanted(body[9], body[10:]):
                return body[10:]
        raise AssertionError("the message never came")

    def close(self) -> None:
        self.file.close()
        self.link.close()


@pytest.mark.parametrize("port", [30001, 30002, 30011, 30012])
def test_the_version_comes_first_then_the_state_ten_times_a_second(ur: Robot, port: int) -> None:
    stream = Stream(ur.address, port)
    kind, body = stream.package()
    name = body[11 : 11 + body[10]]
    assert (kind, body[9], name, tuple(body[11 + len(name) : 13 + len(name)])) == (20, 3, b"URControl", (5, 21))
    stream.state()
    states = [stream.state() for _ in range(4)]
    assert all({k: len(v) + 5 for k, v in s.items()} == SIZES for s in states)
    stamps = [struct.unpack(">Q", s[0][:8])[0] for s in states]
    assert {b - a for a, b in itertools.pairwise(stamps)} == {100_000}
    stream.close()


def test_the_state_says_what_the_robot_does(ur: Robot) -> None:
    stream = Stream(ur.address, 30002)
    state = stream.state()
    mode = struct.unpack(">Q7?BBdddB", state[0])
    assert mode[3] is True
    assert mode[8] == 7
    joints = [struct.unpack(">dddffffB", state[1][41 * i : 41 * i + 41]) for i in range(6)]
    assert [j[0] for j in joints] == pytest.approx([0, -1.57, 1.57, -1.57, -1.57, 0])
    assert {j[7] for j in joints} == {253}
    numbers = struct.unpack(">6I24dI", state[5])
    assert numbers[12:18] == pytest.approx((0, -0.425, -0.3922, 0, 0, 0))
    assert numbers[18:24] == pytest.approx((0.1625, 0, 0, 0.1333, 0.0997, 0.0996))
    ur.ask("inject safeguard on")
    end = time.monotonic() + 60
    while state[3][60] != 5:
        assert time.monotonic() < end
        state = stream.state()
    ur.ask("inject safeguard off")
    stream.close()


def test_messages_of_a_program_reach_primary_clients_only(ur: Robot) -> None:
    primary, secondary = Stream(ur.address, 30001), Stream(ur.address, 30002)
    primary.state()
    ur.run(
        'def said():\n  global a = 41\n  textmsg("hello ", a)\n  popup("look", "Title")\n  sleep(0.3)\n  b = 1/0\nend\n'
    )
    assert primary.message(lambda kind, _: kind == 7).endswith(b"PROGRAM_XXX_STARTEDsaid")
    assert primary.message(lambda kind, _: kind == 0) == b"hello 41"
    popup = primary.message(lambda kind, _: kind == 2)
    assert popup[9 : 9 + popup[8]] + b"/" + popup[9 + popup[8] :] == b"Title/look"
    error = primary.message(lambda kind, _: kind == 10)
    assert struct.unpack(">i", error[:4])[0] == 6
    assert b"division" in error
    assert primary.message(lambda kind, _: kind == 7).endswith(b"PROGRAM_XXX_STOPPEDsaid")
    kinds = {secondary.package()[0] for _ in range(8)}
    assert kinds == {20, 16}
    primary.close()
    secondary.close()


def test_a_script_that_cannot_be_compiled_is_an_exception_with_its_line(ur: Robot) -> None:
    primary = Stream(ur.address, 30001)
    primary.state()
    ur.run("def wrong():\n  nothing_like_this()\nend\n")
    error = primary.message(lambda kind, _: kind == 10)
    assert struct.unpack(">i", error[:4])[0] == 2
    assert b"nothing_like_this" in error
    primary.close()


def test_global_variables_are_streamed_with_their_types(ur: Robot) -> None:
    primary = Stream(ur.address, 30001)
    ur.run(
        'def vars():\n global i = 3\n global f = 0.5\n global s = "x"\n global l = [1, 2]\n global ok = True\n sleep(2)\nend\n'
    )
    names: list[bytes] = []
    end = time.monotonic() + 60
    values = b""
    while not values:
        assert time.monotonic() < end
        kind, body = primary.package()
        if kind == 25 and body[8] == 0:
            names = body[11:].split(b"\n")
        elif kind == 25 and len(names) == 5:
            values = body[11:]
    assert set(names) == {b"i", b"f", b"s", b"l", b"ok"}
    found = dict(zip(names, _values(values), strict=True))
    assert found == {b"i": 3, b"f": 0.5, b"s": b"x", b"l": [1, 2], b"ok": True}
    ur.ask("inject reset")
    primary.close()


def _values(data: bytes) -> list[object]:
    found: list[object] = []

    def one(at: int) -> tuple[object, int]:
        kind = data[at]
        if kind == 12:
            return bool(data[at + 1]), at + 2
        if kind in (14, 15):
            return struct.unpack(">i" if kind == 14 else ">f", data[at + 1 : at + 5])[0], at + 5
        size = struct.unpack(">H", data[at + 1 : at + 3])[0]
        at += 3
        if kind == 4:
            return data[at : at + size], at + size
        items = []
        for _ in range(size):
            item, at = one(at)
            items.append(item)
        return items, at

    at = 0
    while at < len(data):
        value, at = one(at)
        found.append(value)
    return found


@pytest.mark.parametrize("port", [30003, 30013])
def test_the_real_time_packet_has_1220_bytes_and_comes_every_cycle(ur: Robot, port: int) -> None:
    stream = Stream(ur.address, port)
    rows = [struct.unpack(">i152d", stream.file.read(1220)) for _ in range(100)]
    assert {row[0] for row in rows} == {1220}
    steps = {round(b[1] - a[1], 6) for a, b in itertools.pairwise(rows)}
    assert steps == {0.002}
    row = rows[-1]
    state = ur.state()
    assert row[2:8] == pytest.approx(state["target_q"])  # q target
    assert row[32:38] == pytest.approx(state["q"])  # q actual
    assert (row[95], row[102], row[132]) == (7.0, 1.0, 1.0)  # robot mode, safety mode, program state
    stream.close()


def test_read_only_ports_take_no_script(ur: Robot) -> None:
    for port in (30011, 30012, 30013):
        with socket.create_connection((ur.address, port)) as link:
            link.sendall(b'def no():\n  textmsg("read-only took it")\nend\n')
            link.shutdown(socket.SHUT_WR)
            while link.recv(65536):
                pass
    ur.run('def yes():\n  textmsg("after them")\nend\n')
    end = time.monotonic() + 60
    while "textmsg: after them" not in ur.log():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert "textmsg: read-only took it" not in ur.log()


def test_interpreter_mode_runs_statements_and_says_what_it_discards(ur: Robot) -> None:
    ur.run('def host():\n  global n = 1\n  interpreter_mode()\n  textmsg("left with ", n)\nend\n')
    ur.wait("the program", lambda s: s["runtime"] == "PLAYING")
    with socket.create_connection((ur.address, 30020), timeout=60) as link, link.makefile("rw") as file:

        def ask(statement: str) -> str:
            file.write(statement + "\n")
            file.flush()
            return file.readline().rstrip("\n")

        assert ask("n = n + 4") == "ack: 1: n = n + 4"
        assert ask("movej([0.05, -1.57, 1.57, -1.57, -1.57, 0])").startswith("ack: 2: ")
        assert ask("unknown_thing()").startswith("discard: ")
        assert ask("n = (").startswith("discard: ")
        assert ask("x" * 2000).startswith("discard: longer than")
        ur.wait("the move", lambda s: abs(s["q"][0] - 0.05) < 1e-3)
        assert ask("statelastinterpreted") == "state: 2: statelastinterpreted"
        assert ask("end_interpreter()") == "ack: 3: end_interpreter()"
        ur.wait("the end", lambda s: s["runtime"] == "STOPPED")
        assert ask("n = 1") == "discard: the robot is not in interpreter mode: n = 1"
    assert "textmsg: left with 5" in ur.log()

"""What clients do wrong must not stop the controller: it stays up and its 500 Hz goes on (by its own timestamps)."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Iterator

import pytest
from ur_bench import Recording, Robot, robot


@pytest.fixture(scope="module")
def ur() -> Iterator[Robot]:
    with robot() as running:
        yield running


@pytest.fixture
def recording(ur: Robot) -> Iterator[Recording]:
    made = Recording(ur.address)
    yield made
    made.done = True
    made.link.close()


def goes_on(ur: Robot, recording: Recording) -> None:
    """Another 250 samples arrive without a gap, and every port still answers."""
    mark = len(recording.rows) + 250
    end = time.monotonic() + 60
    while len(recording.rows) < mark:
        assert time.monotonic() < end, "no more samples"
        time.sleep(0.01)
    stamps = recording.stop()["timestamp"]
    assert set((stamps[1:] - stamps[:-1]).round(6)) == {0.002}
    with socket.create_connection((ur.address, 29999), timeout=60) as link, link.makefile("rw") as dashboard:
        dashboard.readline()
        dashboard.write("robotmode\n")
        dashboard.flush()
        assert dashboard.readline() == "Robotmode: RUNNING\n"


def test_malformed_rtde_packages(ur: Robot, recording: Recording) -> None:
    rng = random.Random(7)
    bad = [
        b"\x00\x00\x00", b"\x00\x02V", b"\x00\x03V", b"\x00\x03U", b"\x00\x04U\x07", b"\xff\xffU" + b"x" * 10, b"\x00\x03O",
        b"\x00\x05V\x00\x63", b"\x00\x03Q", b"\x00\x0bO" + b"\xff" * 8, struct.pack(">HBd", 11, ord("O"), float("nan")),
        struct.pack(">HB", 3 + 4000, ord("I")) + b"a," * 2000, b"\x00\x03M", b"\x00\x05M\xff\x00",
        *(rng.randbytes(rng.randrange(1, 400)) for _ in range(60)),
    ]  # fmt: skip
    for data in bad:
        with socket.create_connection((ur.address, 30004), timeout=60) as link:
            link.sendall(struct.pack(">HBH", 5, ord("V"), 2) + data)
    goes_on(ur, recording)


def test_input_packages_of_a_wrong_size_change_nothing_and_are_answered_with_an_error(ur: Robot) -> None:
    with socket.create_connection((ur.address, 30004), timeout=60) as link, link.makefile("rb") as stream:
        names = b"input_int_register_30,input_double_register_30"
        link.sendall(struct.pack(">HBH", 5, ord("V"), 2) + struct.pack(">HB", 3 + len(names), ord("I")) + names)
        assert stream.read(4)[3] == 1
        size, kind = struct.unpack(">HB", stream.read(3))
        assert (chr(kind), stream.read(size - 3)) == ("I", b"\x01INT32,DOUBLE")
        link.sendall(struct.pack(">HBBi", 8, ord("U"), 1, 77))
        size, kind = struct.unpack(">HB", stream.read(3))
        assert chr(kind) == "M"
        assert b"recipe 1 has 12" in stream.read(size - 3)


def test_garbage_on_the_dashboard_the_gripper_and_the_interpreter(ur: Robot, recording: Recording) -> None:
    rng = random.Random(3)
    for port in (29999, 63352, 30020, 30100):
        for data in (
            b"\x00" * 1000 + b"\n",
            rng.randbytes(5000) + b"\n",
            b"SET\nGET\nSET POS x\n",
            b"A" * 200_000,
            "é\n".encode(),
        ):
            with socket.create_connection((ur.address, port), timeout=60) as link:
                try:
                    link.sendall(data)
                except ConnectionError:
                    assert len(data) > 4096  # a line without an end: the controller hung up
    goes_on(ur, recording)


def test_a_script_of_ten_megabytes_is_refused_with_its_size(ur: Robot, recording: Recording) -> None:
    line = b"  textmsg(1)\n"
    ur.run("def big():\n" + (line * (10_000_000 // len(line))).decode() + "end\n")
    end = time.monotonic() + 60
    while not any("characters is refused" in text for text in ur.log()):
        assert time.monotonic() < end, ur.log()[-3:]
        time.sleep(0.05)
    ur.run('def small():\n  textmsg("after the big one")\nend\n')
    end = time.monotonic() + 60
    while "textmsg: after the big one" not in ur.log():
        assert time.monotonic() < end
        time.sleep(0.02)
    goes_on(ur, recording)


def test_a_hundred_connections(ur: Robot, recording: Recording) -> None:
    ports = (30001, 30002, 30003, 30004, 29999, 30011, 30012, 30013, 30020, 63352)
    links = [socket.create_connection((ur.address, ports[n % len(ports)]), timeout=60) for n in range(100)]
    assert all(link.fileno() >= 0 for link in links)
    ur.state()
    for link in links:
        link.close()
    goes_on(ur, recording)


def test_half_open_sockets_and_clients_that_never_read(ur: Robot, recording: Recording) -> None:
    links = []
    for port in (30001, 30002, 30003, 30004):
        for _ in range(3):
            link = socket.socket()
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            link.connect((ur.address, port))
            if port == 30004:
                fields = struct.pack(">d", 500.0) + b"actual_q,target_q"
                link.sendall(
                    struct.pack(">HBH", 5, ord("V"), 2)
                    + struct.pack(">HB", 3 + len(fields), ord("O"))
                    + fields
                    + b"\x00\x03S"
                )
            links.append(link)
        half = socket.create_connection((ur.address, port), timeout=60)
        half.shutdown(socket.SHUT_WR)
        links.append(half)
    now = ur.state()["time_s"]
    ur.wait("two seconds", lambda s: s["time_s"] > now + 2.0, 60)
    for link in links:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closes with a reset
        link.close()
    goes_on(ur, recording)


def test_a_program_counts_even_if_its_sender_hangs_up_at_once_without_reading(ur: Robot) -> None:
    for port in (30001, 30002, 30003):
        with socket.create_connection((ur.address, port)) as link:
            link.sendall(f'sec said():\n  textmsg("from {port}")\nend\n'.encode())
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        end = time.monotonic() + 60
        while f"textmsg: from {port}" not in ur.log():
            assert time.monotonic() < end, ur.log()[-4:]
            time.sleep(0.01)

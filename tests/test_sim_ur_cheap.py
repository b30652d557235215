"""What a cycle of the simulated controller does not do again: packets made once, threads that wait left alone."""

from __future__ import annotations

import socket
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from ur_bench import free_address
from wardarm.sim.lockstep import Lockstep
from wardarm.sim.plant import KinematicPlant
from wardarm.sim.ur_controller import rtde
from wardarm.sim.ur_controller.controller import ELBOW_UP, Controller
from wardarm.sim.ur_controller.rtde_fields import output_packer
from wardarm.sim.ur_controller.server import Server


class Client:
    """As much of a connection as a service needs."""

    def __init__(self) -> None:
        self.buffer, self.waiting, self.dead = bytearray(), bytearray(), False
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> None:
        self.sent.append(data)


def test_clients_with_the_same_recipe_get_one_packet_made_once_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Counter[tuple[str, ...]] = Counter()
    packers: dict[Any, Callable[[Controller], bytes]] = {}

    def counted(names: tuple[str, ...], recipe: int | None) -> Callable[[Controller], bytes]:
        def pack(c: Controller) -> bytes:
            made[names] += 1
            return output_packer(names, recipe)(c)

        assert output_packer(names, recipe) is output_packer(names, recipe)
        return packers.setdefault((names, recipe), pack)

    monkeypatch.setattr(rtde, "output_packer", counted)
    controller = Controller(KinematicPlant(ELBOW_UP), compile_inline=True)
    service = rtde.Rtde(controller)
    clients: list[Any] = [Client() for _ in range(4)]
    for number, client in enumerate(clients):
        service.opened(client)
        names = b"timestamp,actual_q" if number < 3 else b"timestamp,robot_mode"
        for kind, payload in (("V", struct.pack(">H", 2)), ("O", struct.pack(">d", 500.0) + names), ("S", b"")):
            client.buffer += struct.pack(">HB", 3 + len(payload), ord(kind)) + payload
        service.received(client)
        client.sent.clear()
    for _ in range(50):
        controller.tick()
        service.publish()
    assert made == {("timestamp", "actual_q"): 50, ("timestamp", "robot_mode"): 50}
    assert clients[0].sent == clients[1].sent == clients[2].sent != clients[3].sent
    assert len(clients[3].sent) == 50


class Peer:
    link: Any = None

    def opened(self, link: Any) -> None:
        self.link = link

    def received(self, link: Any) -> None: ...

    def closed(self, link: Any) -> None: ...


WAITING = """def p():
  thread sleeper():
    sleep(0.1)
    write_output_integer_register(12, 1)
    sleep(1000)
  end
  thread reader():
    socket_open("10.0.0.9", 1, "a")
    line = socket_read_line("a", 0)
    write_output_integer_register(13, str_len(line))
    sleep(1000)
  end
  thread closed():
    socket_open("10.0.0.9", 1, "b")
    numbers = socket_read_binary_integer(2, "b", 0)
    write_output_integer_register(14, 10 + numbers[0])
    sleep(1000)
  end
  a = run sleeper()
  b = run reader()
  c = run closed()
  sleep(0.2)
  socket_close("b")
  sleep(1000)
end
"""


def test_a_thread_that_sleeps_or_waits_for_a_socket_is_not_run_meanwhile() -> None:
    peer = Peer()
    sim = Lockstep()
    sim.network.peers["10.0.0.9", 1] = peer
    sim.load(WAITING)
    sim.step(2)
    program = sim.controller.slot.program
    assert program is not None
    asleep = {thread.name: thread.ready for thread in program.threads}
    assert set(asleep) == {"main", "sleeper", "reader", "closed"}
    assert None not in asleep.values()
    sim.step(40)
    assert {thread.name: thread.ready for thread in program.threads} == asleep
    sim.step(10)
    assert sim.int_register(12) == 1  # after 0.1 s, 50 cycles
    assert sim.until(lambda s: s.int_register(14) == 10) == pytest.approx(50, abs=3)  # the others' closing wakes it
    assert sim.int_register(13) == 0


def test_what_a_thread_waits_for_wakes_it_in_the_next_cycle() -> None:
    peer = Peer()
    sim = Lockstep()
    sim.network.peers["10.0.0.9", 1] = peer
    sim.load(WAITING.replace('socket_open("10.0.0.9", 1, "b")', "sleep(1000)"))
    sim.step(5)
    peer.link.send(b"half a line")
    sim.step(5)
    assert sim.int_register(13) == 0
    peer.link.send(b" and its end\n")
    sim.step(1)
    assert sim.int_register(13) == len("half a line and its end")


def test_a_scripts_connection_is_read_only_when_something_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(KinematicPlant(ELBOW_UP), compile_inline=True)
    with socket.create_server((free_address(), 0)) as arm, Server(controller, free_address()) as server:
        host, port = arm.getsockname()
        controller.submit(
            f'def p():\n socket_open("{host}", {port}, "a")\n while True:\n  line = socket_read_line("a", 0)\n'
            '  textmsg("got ", line)\n end\nend\n'
        )
        cycle(server)
        link, _ = arm.accept()
        with link:
            cycle(server, 20)
            reads: list[int] = []
            real = socket.socket.recv
            monkeypatch.setattr(socket.socket, "recv", lambda s, size: reads.append(size) or real(s, size))
            cycle(server, 100)
            assert reads == []
            for text in ("one", "two"):
                link.sendall(text.encode() + b"\n")
                server.poll(10.0)
                cycle(server, 2)
                assert f"textmsg: got {text}" in [line for _, line in controller.log]
            assert len(reads) == 4  # what came, and that there was no more
        server.poll(10.0)
        cycle(server, 2)
        assert len(reads) == 5  # the end


def cycle(server: Server, count: int = 1) -> None:
    for _ in range(count):
        server.poll()
        server.controller.tick()
        server.publish()

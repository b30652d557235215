"""The service is stopped in order while the arm moves: nothing says that a program was lost, to a client or in a log."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bed import UNHURRIED, Bed
from wardarm.client import Refused
from wardarm.gate.words import ARM_FAREWELL, GATE_FAREWELL
from wardarm.shm import ring
from wardarm.shm.layouts import ArmState, BlockKind, ProcessId
from wardarm.sim.demo.staging import stage
from wardarm.v1 import hold_pb2, state_pb2, task_pb2

pytestmark = pytest.mark.timeout(180)
PARK = [0.55, -0.50, 0.40, 0, 0, 0]


@pytest.fixture(scope="module")
def systemd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """What the service tells systemd."""
    path, said = tmp_path_factory.mktemp("systemd") / "notify", []

    def hear(sock: socket.socket) -> None:
        while data := sock.recv(4096):
            said.append(data.decode())

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made, pytest.MonkeyPatch.context() as patch:
        made.bind(str(path))
        patch.setenv("NOTIFY_SOCKET", str(path))
        thread = threading.Thread(target=hear, args=(made,))
        thread.start()
        yield said
        made.shutdown(socket.SHUT_RD)
        thread.join(10)


@pytest.fixture(scope="module")
def bed(systemd: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    scene, _ = stage(None, 3)
    bed = Bed(
        tmp_path_factory.mktemp("stop"), scene,
        {"guard.enabled": False, "poses.park": PARK, "alert.command": "true", **UNHURRIED},
    )  # fmt: skip
    yield bed
    with contextlib.suppress(OSError):
        bed.close()


class Listener:
    """Every state that a client is told, until nobody answers any more."""

    def __init__(self, bed: Bed) -> None:
        self.bed, self.states = bed, [bed.client.state()]
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        with contextlib.suppress(Refused):
            while True:
                state = self.bed.client.state()
                if state != self.states[-1]:
                    self.states.append(state)

    def heard(self) -> list[Any]:
        self._thread.join(60)
        return self.states


def logged(run_dir: Path) -> list[dict[str, Any]]:
    rows = []
    for file in run_dir.glob("*.log"):
        rows += [json.loads(line) for line in file.read_text().splitlines() if line.startswith("{")]
    return rows


def test_a_stop_of_the_service_under_way_blames_nobody(bed: Bed, systemd: list[str]) -> None:
    arm = ring.Reader(BlockKind.ARM_STATUS, bed.config.shm.prefix)
    word, gate = (ring.Reader(BlockKind.WORD, bed.config.shm.prefix, p) for p in (ProcessId.ARM, ProcessId.GATE))
    with contextlib.suppress(Refused), bed.client.lease() as lease:  # nobody is there any more to give it back to
        bed.client.create_task(lease, movement=task_pb2.MOVEMENT_PARK)
        bed.wait("under way", lambda s: s.arm.state == state_pb2.ARM_STATE_RUNNING)
        held_before = {r["seq"] for r in logged(bed.system.run_dir) if r.get("event") == "hold"}
        listener = Listener(bed)
        bed.system.process.send_signal(signal.SIGTERM)
        assert bed.system.process.wait(120) == 0
    states = listener.heard()
    assert len(states) > 2
    for state in states:
        holds = [(hold_pb2.HoldReason.Name(h.reason), h.detail) for h in state.holds]
        assert holds in ([], [("HOLD_REASON_STARTING", ARM_FAREWELL)])
        lost = [w for w in state.words if w.reason == hold_pb2.HOLD_REASON_WATCHDOG]
        assert [(hold_pb2.ProcessName.Name(w.process), w.detail) for w in lost] == []
    rows = logged(bed.system.run_dir)
    assert [r for r in rows if r.get("event") == "hold" and r["seq"] not in held_before] == []
    assert [r for r in rows if r.get("reason") == "WATCHDOG" or r.get("event") == "died"] == []
    assert systemd[systemd.index("STOPPING=1") :] == [
        "STOPPING=1", "STATUS=stopping: the arm comes to rest, then every process ends"
    ]  # fmt: skip
    last, own, farewell = arm.latest(), word.latest(), gate.latest()
    assert last is not None
    assert own is not None
    assert farewell is not None
    assert ArmState(int(last.data["state"])) is ArmState.OFFLINE
    assert int(last.data["at_rest"]) == 1
    assert np.linalg.norm(last.data["tcp_pose"][:3] - PARK[:3]) > 0.02  # it was stopped under way
    assert ring.text(farewell.data["detail"]) == GATE_FAREWELL
    assert ring.text(own.data["detail"]) == ARM_FAREWELL

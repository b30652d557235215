"""Pause, Stop and Resume with the real arm and gate processes and a simulated controller under them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from addresses import free_ports
from api_bed import own_listeners, wait_until
from arm_bench import HOME_Q, WORD_DEADLINE_MS, control, quintic_move
from wardarm.client import Client, Lease, Refused
from wardarm.gate.words import OwnWord
from wardarm.shm import ring
from wardarm.shm.layouts import TRAJECTORY, BlockKind, ProcessId, Source
from wardarm.v1 import hold_pb2, state_pb2, task_pb2

SENTENCE = "把桌角的蓝色水杯拿给我"


class RealArm:
    """Controller, gate, arm and api as processes; the words of guard and eye, and trajectories, from here."""

    def __init__(self, folder: Path) -> None:
        self.prefix = f"apiarm{os.getpid() % 100000}_"
        host = f"127.{130 + os.getpid() % 100}.{os.getpid() // 100 % 250}.7"
        self.folder, self.file = folder, folder / "wardarm.json"
        self.address, self.stop_address = own_listeners()
        pwm = folder / "pwm.sock"
        settings = {
            "schema": 1, "simulated": True, "shm": {"prefix": self.prefix}, "sim": {"enabled": True},
            "gate": {"output": f"unix:{pwm}", "word_deadline_ms": WORD_DEADLINE_MS},
            "arm": {"host": host, "own_address": host, "trajectory_port": free_ports(host, 1)[0], "chunk_stale_s": 5},
            "api": {
                "address": self.address, "stop_address": self.stop_address, "tls": False,
                "state_dir": str(folder / "state"),
            },
        }  # fmt: skip
        self.file.write_text(json.dumps(settings))
        self._number = 0
        self.processes: list[subprocess.Popen[bytes]] = []
        self.ending = threading.Event()
        bench = str(Path(__file__).with_name("arm_bench.py"))
        self._start(bench, host, str(pwm), *(str(v) for v in HOME_Q))
        wait_until(lambda: self._answers(host), 60)
        self.words = [OwnWord(p, self.prefix, 0.01) for p in (ProcessId.GUARD, ProcessId.EYE)]
        self.trajectories = ring.Writer(BlockKind.TRAJECTORY, self.prefix)
        self.speaker = threading.Thread(target=self._speak, daemon=True)
        self.speaker.start()
        for kind, process in ((BlockKind.ARM_STATUS, None), (BlockKind.GATE_STATUS, None), (BlockKind.COMMAND, None)):
            ring.create(kind, self.prefix, process)
        self.status = ring.Reader(BlockKind.ARM_STATUS, self.prefix)
        for name in ("gate", "arm", "api"):
            ring.create(BlockKind.WORD, self.prefix, ProcessId[name.upper()])
            self._start("-m", f"wardarm.{name}.main", "--config", str(self.file))

    def _start(self, *command: str) -> None:
        log = (self.folder / "processes.log").open("ab")
        self.processes.append(subprocess.Popen([sys.executable, *command], stdout=log, stderr=log))
        log.close()

    @staticmethod
    def _answers(host: str) -> bool:
        try:
            control(host, "state")
        except OSError:
            return False
        return True

    def _speak(self) -> None:
        while not self.ending.wait(0.02):
            for word in self.words:
                word.say(True)
            self.trajectories.beat()  # postproc renews it between two answers

    def read(self) -> np.void:
        slot = self.status.latest()
        assert slot is not None
        return slot.data  # type: ignore[no-any-return]

    def move(self, duration_s: float = 3.0) -> None:
        """A slow turn of the base joint, as postproc would hand it over; returns once it is under way.

        Planned anew if the arm refused it: after a cancelled task a plan can be of a moment ago.
        """
        for _ in range(3):
            number = self._hand_over(duration_s)
            wait_until(
                lambda n=number: self.read()["path_s"] > 0.8 or self.read()["refused_id"] == n, 20, str(self.read())
            )
            if self.read()["refused_id"] != number:
                return
        raise AssertionError(f"refused three times: {dict(zip(self.read().dtype.names, self.read(), strict=True))}")

    def _hand_over(self, duration_s: float) -> int:
        status = self.read()
        knots = quintic_move(np.array(status["target_q_rad"]), [0.3, 0, 0, 0, 0, 0], duration_s)
        trajectory = np.zeros((), TRAJECTORY)
        self._number += 1  # the player takes numbers that rise
        trajectory["id"], trajectory["plan_epoch"] = self._number, status["plan_epoch"]
        trajectory["duration_s"], trajectory["ramp_s"] = duration_s, 0.34
        trajectory["source"], trajectory["knot_count"] = Source.SCRIPTED, len(knots)
        trajectory["knots"][: len(knots)] = knots
        self.trajectories.publish(trajectory)
        return int(trajectory["id"])

    def close(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait(60)
        self.ending.set()
        self.speaker.join()
        for file in Path("/dev/shm").glob(f"{self.prefix}*"):
            file.unlink()


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealArm]:
    arm = RealArm(tmp_path_factory.mktemp("apiarm"))
    try:
        yield arm
    finally:
        arm.close()


@pytest.fixture
def client(arm: RealArm) -> Iterator[Client]:
    with Client(arm.address, arm.stop_address, name="nurse") as client:
        wait_until(lambda: _ready(client), 60, "arm not ready")
        yield client


def _ready(client: Client) -> bool:
    try:
        state = client.state()
    except Refused:
        return False
    return state.arm.state == state_pb2.ARM_STATE_READY and not state.holds


def _refusal(client: Client, lease: Lease) -> str:
    """Why what is held now is not resumed; "" if it is."""
    try:
        client.resume([h.token for h in client.state().holds], lease)
    except Refused as refused:
        return refused.reason
    return ""


def test_pause_stops_a_moving_arm_and_resume_moves_nothing_by_itself(arm: RealArm, client: Client) -> None:
    with client.lease() as lease:
        task = client.create_task(lease, instruction=SENTENCE)
        for _ in range(10):
            arm.move()
            client.pause("visit")
            wait_until(lambda: client.task(task.task_id).state == task_pb2.TASK_STATE_HELD)
            refused = _refusal(client, lease)
            if refused:
                break
            wait_until(lambda: _ready(client), what="resumed")  # this test was late: it stood already
        assert refused in ("HOLD_ACTIVE", "HOLD_TOKENS")  # still coming to rest
        wait_until(lambda: client.state().holds[0].motion_confirmed_stopped, 60)
        holds = client.state().holds
        assert [h.reason for h in holds] == [hold_pb2.HOLD_REASON_CLIENT]
        assert "nurse: visit" in holds[0].detail
        rest = np.array(arm.read()["q_rad"])
        wait_until(lambda: client.state().arm.state == state_pb2.ARM_STATE_HELD, 60)
        assert client.resume([h.token for h in holds], lease).task_id == task.task_id
        wait_until(lambda: client.state().arm.state == state_pb2.ARM_STATE_READY, 60)
        wait_until(lambda: client.task(task.task_id).state == task_pb2.TASK_STATE_RUNNING)
        later = float(arm.read()["controller_s"]) + 1.0
        wait_until(lambda: float(arm.read()["controller_s"]) > later, 60)
        assert np.abs(np.array(arm.read()["q_rad"]) - rest).max() < 1e-3  # the old movement is not replayed
        client.cancel(lease, task.task_id)
        assert client.follow(task.task_id, lease).state == task_pb2.TASK_STATE_CANCELLED


def test_stop_is_one_hold_that_clear_and_resume_end(arm: RealArm, client: Client) -> None:
    arm.move()
    client.stop("spill")
    wait_until(lambda: client.state().arm.state == state_pb2.ARM_STATE_HELD, 60)
    wait_until(lambda: client.state().holds[0].motion_confirmed_stopped, 60)
    assert [h.reason for h in client.state().holds] == [hold_pb2.HOLD_REASON_STOP]
    with client.lease() as lease:
        tokens = [h.token for h in client.state().holds]
        with pytest.raises(Refused) as refused:
            client.resume(tokens, lease)
        assert refused.value.reason == "HOLD_ACTIVE"
        client.clear_stop(lease)
        client.resume([h.token for h in client.state().holds], lease)
    wait_until(lambda: _ready(client), 60)

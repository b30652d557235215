"""A restart of the api process never repeats a motion."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from api_bed import bedside, wait_until
from patience import PATIENCE_S
from wardarm.client import Refused
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, HoldReason, StepKind
from wardarm.v1 import task_pb2

SENTENCE = "把桌角的蓝色水杯拿给我"


def test_a_killed_service_interrupts_its_task_and_repeats_nothing(tmp_path: Path) -> None:
    with bedside(tmp_path) as (bed, server):
        bed.carry_out = False
        wait_until(bed.motion_allowed)
        with server.client() as client, client.lease() as lease:
            task = client.create_task(lease, instruction=SENTENCE, request_id="r-1")
            wait_until(lambda: bed.steps)
            ended: list[object] = []
            watcher = threading.Thread(target=lambda: ended.append(client.follow(task.task_id, None)))
            watcher.start()
            server.kill()
            wait_until(lambda: HoldReason.WATCHDOG in {h.reason for h in bed.latch.holds})  # its word went stale
            server.start()
            assert lease.lost.wait(PATIENCE_S)  # leases do not outlive the process
            watcher.join(PATIENCE_S)
            assert ended[0].state == task_pb2.TASK_STATE_INTERRUPTED  # the client found the service again
            events = list(client.watch_task(task.task_id))
            assert [e.sequence for e in events] == list(range(1, len(events) + 1))
            assert events[-1].state == task_pb2.TASK_STATE_INTERRUPTED
        with server.client() as client, client.lease() as lease:
            again = client.create_task(lease, instruction=SENTENCE, request_id="r-1")
            assert again.task_id == task.task_id
            assert again.state == task_pb2.TASK_STATE_INTERRUPTED
            with pytest.raises(Refused) as refused:
                client.create_task(lease, instruction="把红色的碗拿给我", request_id="r-1")
            assert refused.value.reason == "REQUEST_ID_REUSED"
            with pytest.raises(Refused) as refused:  # the dead process's hold waits for a person
                client.create_task(lease, instruction=SENTENCE, request_id="r-2")
            assert refused.value.reason == "HOLD_ACTIVE"
            step = ring.Reader(BlockKind.STEP, bed.prefix).latest()
            assert step is not None
            assert int(step.data["kind"]) == StepKind.NONE
            assert len(bed.steps) == 1
            client.resume([h.token for h in client.state().holds], lease)
            bed.carry_out = True
            task = client.create_task(lease, instruction=SENTENCE, request_id="r-2")
            assert client.follow(task.task_id, lease).state == task_pb2.TASK_STATE_DONE
            seqs = [seq for seq, _, _ in bed.steps]
            assert len(seqs) == 2
            assert seqs[1] > seqs[0]  # numbers go on counting after the restart


def test_a_retry_across_a_restart_gets_the_task_that_had_ended(tmp_path: Path) -> None:
    with bedside(tmp_path) as (bed, server):
        wait_until(bed.motion_allowed)
        with server.client() as client:
            task = client.say(SENTENCE, request_id="r-1")
            server.kill()
            server.start()
        with server.client() as client:
            request = task_pb2.CreateTaskRequest(request_id="r-1", instruction=SENTENCE, lease_id="long gone")
            answer = client.tasks.CreateTask(request, timeout=PATIENCE_S)
            assert answer.repeated_request
            assert answer.task.task_id == task.task_id
            assert answer.task.state == task_pb2.TASK_STATE_DONE
        assert len(bed.steps) == 1


def test_a_second_api_on_the_same_blocks_does_not_start(tmp_path: Path) -> None:
    with bedside(tmp_path) as (bed, server):
        second = subprocess.run(
            [sys.executable, "-m", "wardarm.api.main", "--config", str(server.file)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert second.returncode == 1
        assert "is writing it" in second.stderr
        assert bed.api_word() == (True, HoldReason.NONE)


def test_an_ended_service_takes_its_word_back(tmp_path: Path) -> None:
    with bedside(tmp_path) as (bed, server):
        wait_until(bed.motion_allowed)
        server.stop()
        assert bed.api_word() == (False, HoldReason.WATCHDOG)

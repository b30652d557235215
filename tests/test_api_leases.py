"""Leases: one client moves the arm, and one that goes quiet holds it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from api_bed import Bed, Server, bedside, clean, wait_until
from wardarm.client import Client, Refused
from wardarm.shm.layouts import HoldReason
from wardarm.v1 import control_pb2, hold_pb2, task_pb2

SENTENCE = "把桌角的蓝色水杯拿给我"
HOLDER = Path(__file__).with_name("api_holder.py")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bed, Server]]:
    with bedside(tmp_path_factory.mktemp("api")) as pair:
        yield pair


@pytest.fixture
def client(running: tuple[Bed, Server]) -> Iterator[Client]:
    with running[1].client() as client:
        yield client


@pytest.fixture
def bed(running: tuple[Bed, Server], client: Client) -> Iterator[Bed]:
    wait_until(running[0].motion_allowed)
    yield running[0]
    clean(running[0], client)


def test_a_second_client_is_told_who_has_the_lease_and_when_to_come_back(bed: Bed, client: Client) -> None:
    with client.lease(), pytest.raises(Refused) as refused, client.lease():
        pass
    assert refused.value.reason == "LEASE_HELD"
    assert refused.value.metadata["client"] == "test"
    assert refused.value.retry_after_s is not None
    assert 0 < refused.value.retry_after_s <= 1.0
    with client.lease():  # returned: free again
        assert client.state().lease.client == "test"


def test_a_lease_that_is_not_the_current_one_moves_nothing(bed: Bed, client: Client) -> None:
    with client.lease() as lease:
        old = lease.lease_id
    with client.lease() as lease:
        lease_id, lease.lease_id = lease.lease_id, old
        for attempt in (
            lambda: client.create_task(lease, instruction=SENTENCE),
            lambda: client.cancel(lease, "t-x"),
            lambda: client.resume(["1"], lease),
            lambda: client.clear_stop(lease),
        ):
            with pytest.raises(Refused) as refused:
                attempt()
            assert refused.value.reason == "LEASE_STALE"
        lease.lease_id = lease_id
    assert bed.steps == []


def test_a_client_that_never_beats_loses_the_lease(bed: Bed, client: Client) -> None:
    taken = client.control.AcquireLease(control_pb2.AcquireLeaseRequest(client="mute"), timeout=5).lease
    wait_until(lambda: not client.state().lease.client)
    with pytest.raises(Refused) as refused:
        client._call(client.control.RetainLease, control_pb2.RetainLeaseRequest(lease_id=taken.lease_id))
    assert refused.value.reason == "LEASE_STALE"
    assert bed.motion_allowed()  # no task ran: nothing to hold


def test_a_client_frozen_under_way_holds_the_arm_and_another_takes_over(
    bed: Bed, running: tuple[Bed, Server], client: Client
) -> None:
    bed.carry_out = False
    server = running[1]
    holder = subprocess.Popen(
        [sys.executable, str(HOLDER), server.address, server.stop_address, SENTENCE], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    try:
        task_id = holder.stdout.readline().strip()
        wait_until(lambda: bed.steps)
        holder.send_signal(signal.SIGSTOP)
        wait_until(lambda: HoldReason.LEASE_LOST in {h.reason for h in bed.latch.holds})  # time to live 1 s
        wait_until(lambda: client.state().holds)
        hold = client.state().holds[0]
        assert hold.reason == hold_pb2.HOLD_REASON_LEASE_LOST
        assert "holder" in hold.detail
        wait_until(lambda: client.task(task_id).state == task_pb2.TASK_STATE_HELD)
        with pytest.raises(Refused) as refused:
            client.resume([hold.token])  # nobody watches: a lease of one's own is needed
        assert refused.value.reason == "LEASE_STALE"
        with client.lease() as lease:
            client.resume([h.token for h in client.state().holds], lease)
            holder.send_signal(signal.SIGCONT)  # the old owner wakes up: its lease is stale, it changes nothing
            bed.carry_out = True
            assert client.follow(task_id, lease).state == task_pb2.TASK_STATE_DONE
        assert bed.motion_allowed()
    finally:
        holder.kill()
        holder.wait()


def test_a_client_killed_under_way_holds_the_arm(bed: Bed, running: tuple[Bed, Server], client: Client) -> None:
    bed.carry_out = False
    server = running[1]
    holder = subprocess.Popen(
        [sys.executable, str(HOLDER), server.address, server.stop_address, SENTENCE], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    try:
        holder.stdout.readline()
        wait_until(lambda: bed.steps)
    finally:
        holder.kill()
        holder.wait()
    wait_until(lambda: HoldReason.LEASE_LOST in {h.reason for h in bed.latch.holds})


def test_a_lease_returned_under_way_holds_the_arm_at_once(bed: Bed, client: Client) -> None:
    bed.carry_out = False
    with client.lease() as lease:
        client.create_task(lease, instruction=SENTENCE)
        wait_until(lambda: bed.steps)
    assert bed.api_word() == (False, HoldReason.LEASE_LOST)


def test_a_task_is_not_handed_to_a_client_that_knows_nothing_of_it(
    bed: Bed, running: tuple[Bed, Server], client: Client
) -> None:
    bed.carry_out = False
    with client.lease() as lease:
        client.create_task(lease, instruction=SENTENCE)
        wait_until(lambda: bed.steps)
    with running[1].client("other display") as other, running[1].client("nurse") as nurse, other.lease() as lease:
        wait_until(lambda: all(h.latched for h in nurse.state().holds))
        tokens = [h.token for h in nurse.state().holds]
        with pytest.raises(Refused, match="other display") as refused:
            nurse.resume(tokens)
        assert refused.value.reason == "LEASE_STALE"
        other.resume(tokens, lease)  # it decides, so it knows
        other.cancel(lease, other.state().task.task_id)


def test_a_person_at_another_screen_resumes_and_the_task_stays_with_its_client(
    bed: Bed, running: tuple[Bed, Server], client: Client
) -> None:
    bed.carry_out = False
    with client.lease() as lease, running[1].client("nurse") as nurse:
        task = client.create_task(lease, instruction=SENTENCE)
        wait_until(lambda: bed.steps)
        nurse.pause()
        wait_until(lambda: all(h.latched for h in nurse.state().holds))
        assert nurse.resume([h.token for h in nurse.state().holds]).task_id == task.task_id
        assert bed.motion_allowed()
        bed.carry_out = True
        assert client.follow(task.task_id, lease).state == task_pb2.TASK_STATE_DONE
    actors = {(e.actor, e.action) for e in client.audit() if e.accepted}
    assert {("nurse", "pause"), ("nurse", "resume"), ("test", "task_created")} <= actors

"""Pause, Stop and Resume: always answered, never undone by accident."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from api_bed import Bed, Server, bedside, clean, wait_until
from grpc_health.v1 import health_pb2, health_pb2_grpc
from patience import PATIENCE_S, soonest
from wardarm.client import Client, Refused
from wardarm.shm.layouts import HoldReason, ProcessId, StepState
from wardarm.v1 import control_pb2, control_pb2_grpc, hold_pb2, state_pb2, state_pb2_grpc, task_pb2

SENTENCE = "把桌角的蓝色水杯拿给我"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bed, Server]]:
    with bedside(tmp_path_factory.mktemp("api")) as pair:
        yield pair


@pytest.fixture
def server(running: tuple[Bed, Server]) -> Server:
    return running[1]


@pytest.fixture
def client(running: tuple[Bed, Server]) -> Iterator[Client]:
    with running[1].client() as client:
        yield client


@pytest.fixture
def bed(running: tuple[Bed, Server], client: Client) -> Iterator[Bed]:
    yield running[0]
    clean(running[0], client)


def tokens_of(client: Client) -> list[str]:
    return [h.token for h in client.state().holds]


def latched(bed: Bed, *reasons: HoldReason) -> None:
    wait_until(lambda: {h.reason for h in bed.latch.holds} == set(reasons), what=f"{bed.latch.holds} != {reasons}")


def test_pause_takes_the_word_before_it_answers(bed: Bed, client: Client) -> None:
    holds = client.pause("test")
    assert bed.api_word() == (False, HoldReason.CLIENT)
    assert [h.reason for h in holds] == [hold_pb2.HOLD_REASON_CLIENT]
    latched(bed, HoldReason.CLIENT)


def test_pause_is_answered_fast_and_seen_by_the_arm_in_its_next_loops(bed: Bed, client: Client) -> None:
    def answered_s() -> float:
        asked_s = time.perf_counter()
        client.pause()
        return time.perf_counter() - asked_s

    def latched_s() -> float:
        before, asked_ns = bed.latch.last_seq, time.monotonic_ns()
        client.pause()
        wait_until(lambda: bed.latch.last_seq > before)
        return (bed.latched_ns[bed.latch.last_seq] - asked_ns) * 1e-9

    soonest(answered_s, 0.02)
    soonest(latched_s, 0.05)  # the stand-in's loop runs every 8 ms


def test_the_state_shows_a_pause_at_once_and_when_it_is_latched(bed: Bed, client: Client) -> None:
    client.pause("visit")
    hold = client.state().holds[0]
    assert hold.reason == hold_pb2.HOLD_REASON_CLIENT
    assert hold.process == hold_pb2.PROCESS_NAME_API
    assert "visit" in hold.detail
    assert hold.text_zh
    assert hold.text_en
    wait_until(lambda: client.state().holds[0].latched)
    assert client.state().holds[0].motion_confirmed_stopped
    assert len(client.state().holds) == 1


def test_a_watcher_sees_a_pause_within_200_ms(bed: Bed, client: Client) -> None:
    def seen_s() -> float:
        stream, reason = client.watch(period_s=60), f"visit {uuid.uuid4()}"
        next(stream)
        asked_s = time.monotonic()
        client.pause(reason)
        state = next(s for s in stream if any(reason in h.detail for h in s.holds))
        seen_s = time.monotonic() - asked_s
        assert state.holds[0].reason == hold_pb2.HOLD_REASON_CLIENT
        return seen_s

    soonest(seen_s, 0.2)


def test_a_task_waits_through_a_pause_and_goes_on_after_resume(bed: Bed, client: Client) -> None:
    bed.carry_out = False
    with client.lease() as lease:
        task = client.create_task(lease, instruction=SENTENCE)
        wait_until(lambda: bed.steps)
        client.pause()
        latched(bed, HoldReason.CLIENT)
        wait_until(lambda: client.task(task.task_id).state == task_pb2.TASK_STATE_HELD)
        answer = client.resume(tokens_of(client), lease)
        assert answer.task_id == task.task_id
        assert "looks and plans again" in answer.text_en
        wait_until(lambda: client.task(task.task_id).state == task_pb2.TASK_STATE_RUNNING)
        assert bed.motion_allowed()
        bed.carry_out = True
        assert client.follow(task.task_id, lease).state == task_pb2.TASK_STATE_DONE
    assert len(bed.steps) == 1  # the step was not handed out again


def test_a_hold_between_two_steps_keeps_the_next_one_back(bed: Bed, client: Client) -> None:
    bed.carry_out = False
    with client.lease() as lease:
        task = client.create_task(lease, instruction="拿杯子，倒水")
        wait_until(lambda: bed.steps)
        client.pause()
        latched(bed, HoldReason.CLIENT)
        bed.report(StepState.DONE)
        wait_until(lambda: client.task(task.task_id).step_index == 1)
        wait_until(lambda: client.task(task.task_id).state == task_pb2.TASK_STATE_HELD)
        assert len(bed.steps) == 1
        bed.carry_out = True
        client.resume(tokens_of(client), lease)
        assert client.follow(task.task_id, lease).state == task_pb2.TASK_STATE_DONE
    assert len(bed.steps) == 2


def test_resume_without_every_token_is_refused_and_the_pause_stays(bed: Bed, client: Client) -> None:
    client.pause()
    bed.say(ProcessId.GUARD, HoldReason.INTRUDER, "zone bed, camera 1")
    latched(bed, HoldReason.CLIENT, HoldReason.INTRUDER)
    bed.say(ProcessId.GUARD, HoldReason.NONE)
    wait_until(lambda: all(h.clearable for h in client.state().holds))
    tokens = tokens_of(client)
    with client.lease() as lease:
        for some in ([], tokens[:1], tokens[1:]):
            with pytest.raises(Refused) as refused:
                client.resume(some, lease)
            assert refused.value.reason == "HOLD_TOKENS"
            assert set(refused.value.metadata["missing"].split(",")) == set(tokens) - set(some)
        with pytest.raises(Refused) as refused:
            client.resume([*tokens, "999"], lease)
        assert refused.value.metadata["unknown"] == "999"
        assert bed.api_word() == (False, HoldReason.CLIENT)
        assert bed.resumes == []  # the arm was never asked
        client.resume(tokens, lease)
    assert bed.motion_allowed()
    assert len(bed.resumes[0]) == 2


def test_a_resume_prepared_before_a_second_pause_is_refused(bed: Bed, client: Client) -> None:
    client.pause("first")
    latched(bed, HoldReason.CLIENT)
    tokens = tokens_of(client)
    client.pause("second")
    with client.lease() as lease, pytest.raises(Refused) as refused:
        client.resume(tokens, lease)
    assert refused.value.reason == "HOLD_TOKENS"
    assert bed.api_word() == (False, HoldReason.CLIENT)
    assert "second" in client.state().holds[0].detail


def test_an_intruder_must_leave_first(bed: Bed, client: Client) -> None:
    bed.say(ProcessId.GUARD, HoldReason.INTRUDER, "zone bed, camera 1")
    latched(bed, HoldReason.INTRUDER)
    wait_until(lambda: client.state().holds)
    assert not client.state().holds[0].clearable
    with client.lease() as lease:
        with pytest.raises(Refused) as refused:
            client.resume(tokens_of(client), lease)
        assert refused.value.reason == "HOLD_ACTIVE"
        assert refused.value.metadata["reason"] == "INTRUDER"
        assert bed.resumes == []
        bed.say(ProcessId.GUARD, HoldReason.NONE)
        wait_until(lambda: client.state().holds[0].clearable)
        assert not bed.motion_allowed()  # gone again, and still held until a person says so
        client.resume(tokens_of(client), lease)
    assert bed.motion_allowed()


def test_what_the_arm_refuses_leaves_the_pause_in_place(bed: Bed, client: Client) -> None:
    client.pause()
    latched(bed, HoldReason.CLIENT)
    tokens = tokens_of(client)
    with client.lease() as lease:
        bed.answer_nothing = True  # the arm is busy: no answer within the deadline
        try:
            with pytest.raises(Refused) as refused:
                client.resume(tokens, lease)
        finally:
            bed.answer_nothing = False
    assert refused.value.reason == "CONTROLLER_NOT_NORMAL"
    wait_until(lambda: bed.api_word() == (False, HoldReason.CLIENT))


def test_nothing_is_resumed_before_the_arm_is_at_rest(bed: Bed, client: Client) -> None:
    bed.at_rest = False
    client.pause()
    latched(bed, HoldReason.CLIENT)
    wait_until(lambda: not client.state().arm.at_rest)
    assert not client.state().holds[0].motion_confirmed_stopped
    with client.lease() as lease, pytest.raises(Refused) as refused:
        client.resume(tokens_of(client), lease)
    bed.at_rest = True
    assert refused.value.reason == "HOLD_ACTIVE"
    assert "not at rest" in refused.value.text
    assert bed.api_word() == (False, HoldReason.CLIENT)
    wait_until(lambda: client.state().holds[0].motion_confirmed_stopped)


def test_a_pause_during_a_resume_wins(bed: Bed, client: Client) -> None:
    for delay_s in (0.0, 0.01, 0.02, 0.03, 0.04, 0.06):
        client.pause("before")
        latched(bed, HoldReason.CLIENT)
        tokens = tokens_of(client)
        presser = threading.Timer(delay_s, client.pause, ["during"])
        with client.lease() as lease:
            presser.start()
            with contextlib.suppress(Refused):  # either may be first; the pause must stand in the end
                client.resume(tokens, lease)
            presser.join()
        assert bed.api_word() == (False, HoldReason.CLIENT)
        wait_until(lambda: not bed.motion_allowed() and client.state().holds[0].latched)


def test_nothing_held_is_nothing_to_resume(bed: Bed, client: Client) -> None:
    with client.lease() as lease, pytest.raises(Refused) as refused:
        client.resume([], lease)
    assert refused.value.reason == "NOT_HELD"


def test_a_held_arm_gets_no_task(bed: Bed, client: Client) -> None:
    client.pause()
    with pytest.raises(Refused) as refused:
        client.say(SENTENCE)
    assert refused.value.reason == "HOLD_ACTIVE"
    assert bed.steps == []


def test_fifty_pauses_from_three_clients_are_all_answered(bed: Bed, server: Server, client: Client) -> None:
    failures: list[Exception] = []

    def press(name: str, times: int) -> None:
        with server.client(name) as presser:
            for _ in range(times):
                try:
                    presser.pause()
                    assert any(h.reason == hold_pb2.HOLD_REASON_CLIENT for h in presser.state().holds)
                except (Refused, AssertionError) as e:
                    failures.append(e)

    pressers = [threading.Thread(target=press, args=(f"screen {n}", 17)) for n in range(3)]
    for t in pressers:
        t.start()
    for t in pressers:
        t.join()
    assert failures == []
    latched(bed, HoldReason.CLIENT)
    assert len(client.state().holds) == 1
    assert sum(e.action == "pause" for e in client.audit(200)) >= 51
    with client.lease() as lease:
        client.resume(tokens_of(client), lease)
    assert bed.motion_allowed()


def test_stop_ends_the_task_and_needs_clearing(bed: Bed, client: Client) -> None:
    bed.carry_out = False
    stops = bed.stops
    with client.lease() as lease:
        task = client.create_task(lease, instruction=SENTENCE)
        wait_until(lambda: bed.steps)
        client.stop("spill")
        assert bed.api_word() == (False, HoldReason.STOP)
        ended = client.follow(task.task_id, lease)
        assert ended.state == task_pb2.TASK_STATE_CANCELLED
        assert "pressed Stop" in ended.text_en
        wait_until(lambda: bed.stops == stops + 1)
        assert client.state().stopped
        with pytest.raises(Refused) as refused:
            client.resume(tokens_of(client), lease)
        assert refused.value.reason == "HOLD_ACTIVE"
        client.clear_stop(lease)
        with pytest.raises(Refused) as refused:
            client.clear_stop(lease)
        assert refused.value.reason == "NOT_STOPPED"
        client.resume(tokens_of(client), lease)
    assert bed.motion_allowed()


def test_stop_words_in_a_sentence_pause_the_arm(bed: Bed, client: Client) -> None:
    bed.carry_out = False
    with client.lease() as lease:
        task = client.create_task(lease, instruction=SENTENCE)
        wait_until(lambda: bed.steps)
        with pytest.raises(Refused) as refused:
            client.create_task(lease, instruction="等一下，停！")
        assert refused.value.reason == "STOP_REQUESTED"
        assert bed.api_word() == (False, HoldReason.CLIENT)
        wait_until(lambda: client.task(task.task_id).state == task_pb2.TASK_STATE_HELD)


def test_the_stop_listener_serves_pause_stop_and_health_only(bed: Bed, server: Server) -> None:
    with grpc.insecure_channel(server.stop_address) as channel:
        health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
        assert health.status == health_pb2.HealthCheckResponse.SERVING
        control = control_pb2_grpc.ControlServiceStub(channel)
        with pytest.raises(grpc.RpcError) as error:
            control.AcquireLease(control_pb2.AcquireLeaseRequest(client="x"), timeout=5)
        assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED
        control.Pause(control_pb2.PauseRequest(actor="x" * 500, reason="\n" * 500), timeout=5)  # cut, never refused
    assert bed.api_word() == (False, HoldReason.CLIENT)


def test_pause_gets_through_while_the_main_listener_is_full(bed: Bed, server: Server, client: Client) -> None:
    with grpc.insecure_channel(server.address) as channel:
        stub = state_pb2_grpc.StateServiceStub(channel)
        streams = [stub.WatchState(state_pb2.WatchStateRequest()) for _ in range(300)]  # the limit is 256
        refused = []
        for stream in streams:
            try:
                next(stream)
            except grpc.RpcError as e:
                refused.append(e.code())
        assert refused
        assert set(refused) == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        client.pause()
        assert bed.api_word() == (False, HoldReason.CLIENT)
        for stream in streams:
            stream.cancel()
    wait_until(lambda: _answers(client))


def _answers(client: Client) -> bool:
    try:
        client.state()
    except Refused:
        return False
    return True


def test_clicks_queued_while_the_service_was_frozen_start_nothing(bed: Bed, server: Server, client: Client) -> None:
    assert server.process is not None
    with client.lease() as lease:
        server.process.send_signal(signal.SIGSTOP)
        try:
            late = task_pb2.CreateTaskRequest().not_after
            late.FromNanoseconds(time.time_ns() + 200_000_000)
            calls = [
                client.tasks.CreateTask.future(
                    task_pb2.CreateTaskRequest(
                        lease_id=lease.lease_id, request_id=f"queued-{n}", instruction=SENTENCE, not_after=late
                    ),
                    timeout=PATIENCE_S,
                )
                for n in range(30)
            ]
            wait_until(lambda: time.time_ns() > late.ToNanoseconds())
        finally:
            server.process.send_signal(signal.SIGCONT)
        reasons = {call.exception(timeout=PATIENCE_S).code() for call in calls}
        assert reasons == {grpc.StatusCode.FAILED_PRECONDITION}
    assert bed.steps == []
    wait_until(lambda: _answers(client))


def test_a_stop_outlives_a_restart(tmp_path: Path) -> None:
    with bedside(tmp_path) as (bed, server):
        with server.client() as client:
            client.stop("spill")
        server.kill()
        server.start()
        with server.client() as client, client.lease() as lease:
            assert client.state().stopped
            wait_until(lambda: bed.api_word() == (False, HoldReason.STOP))
            wait_until(lambda: all(h.latched for h in client.state().holds))
            with pytest.raises(Refused) as refused:
                client.resume(tokens_of(client), lease)
            assert refused.value.reason == "HOLD_ACTIVE"
            client.clear_stop(lease)
            wait_until(lambda: all(h.clearable for h in client.state().holds))
            client.resume(tokens_of(client), lease)
            assert bed.motion_allowed()

"""Tasks over real sockets: accepted once, followed to the end, never repeated."""

from __future__ import annotations

import time
from collections.abc import Iterator

import grpc
import pytest
from api_bed import Bed, Server, bedside, wait_until
from wardarm.client import Client, Refused
from wardarm.shm import ring
from wardarm.shm.layouts import ArmState, BlockKind, HoldReason, ProcessId, StepKind, StepState
from wardarm.v1 import task_pb2

SENTENCE = "把桌角的蓝色水杯拿给我"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bed, Server]]:
    with bedside(tmp_path_factory.mktemp("api")) as pair:
        yield pair


@pytest.fixture
def bed(running: tuple[Bed, Server]) -> Bed:
    bed = running[0]
    bed.steps.clear()
    bed.carry_out, bed.final, bed.final_reason, bed.model_tasks = True, StepState.DONE, "", 0
    bed.state, bed.at_rest, bed.playing_id = ArmState.READY, True, 0
    bed.look_past_a_stall()
    wait_until(bed.motion_allowed, what="a hold of another test is left")
    return bed


@pytest.fixture
def client(running: tuple[Bed, Server]) -> Iterator[Client]:
    with running[1].client() as client:
        yield client


def step_block(bed: Bed) -> StepKind:
    slot = ring.Reader(BlockKind.STEP, bed.prefix).latest()
    assert slot is not None
    return StepKind(int(slot.data["kind"]))


def test_a_sentence_becomes_a_step_and_ends_when_eye_says_done(bed: Bed, client: Client) -> None:
    events: list[object] = []
    task = client.say(SENTENCE, events.append)
    assert task.state == task_pb2.TASK_STATE_DONE
    assert [(kind, text) for _, kind, text in bed.steps] == [(StepKind.FETCH, SENTENCE)]
    assert [e.sequence for e in events] == list(range(1, len(events) + 1))
    assert [e.step_state for e in events if e.step_state][-1] == task_pb2.STEP_STATE_DONE


def test_the_step_block_carries_what_the_sentence_named(bed: Bed, client: Client) -> None:
    bed.carry_out = False
    with client.lease() as lease:
        task = client.create_task(lease, instruction="慢一点，把红色的碗拿给我", patient_ref="p-17")
        wait_until(lambda: bed.steps)
        slot = ring.Reader(BlockKind.STEP, bed.prefix).latest()
        assert slot is not None
        step = slot.data
        assert ring.text(step["task_id"]) == task.task_id
        assert (ring.text(step["object_kind"]), ring.text(step["object_color"])) == ("bowl", "red")
        assert ring.text(step["language"]) == "zh"
        assert float(step["speed_scale"]) == pytest.approx(0.5)  # 慢一点
        client.cancel(lease, task.task_id)
        client.follow(task.task_id, lease)


def published_step(bed: Bed) -> tuple[int, float]:
    """seq and speed of the Step block now."""
    slot = ring.Reader(BlockKind.STEP, bed.prefix).latest()
    assert slot is not None
    return int(slot.data["seq"]), round(float(slot.data["speed_scale"]), 3)


def test_slower_said_under_way_changes_the_step_that_runs_and_those_after_it(bed: Bed, client: Client) -> None:
    bed.carry_out = False
    with client.lease() as lease:
        task = client.create_task(lease, instruction="拿杯子，倒水")
        wait_until(lambda: len(bed.steps) == 1)
        seq, speed = published_step(bed)
        assert speed == 1.0
        for sentence, wanted in (
            ("慢一点", 0.5),
            ("再慢一点！", 0.25),
            ("slower please", 0.2),
            ("faster", 0.4),
            ("请慢一点", 0.2),
        ):
            with pytest.raises(Refused) as refused:
                client.create_task(lease, instruction=sentence)
            assert refused.value.reason == "PACE_REQUESTED"
            assert published_step(bed) == (seq, pytest.approx(wanted)), sentence
        assert client.task(task.task_id).state == task_pb2.TASK_STATE_RUNNING
        assert [step for step, _, _ in bed.steps] == [seq], "eye is given no new step"
        bed.report(StepState.DONE)
        wait_until(lambda: len(bed.steps) == 2)
        assert published_step(bed) == (bed.steps[1][0], pytest.approx(0.2))
        with pytest.raises(Refused):
            client.create_task(lease, instruction="正常速度")
        assert published_step(bed)[1] == 1.0
        client.cancel(lease, task.task_id)
        client.follow(task.task_id, lease)


def test_another_screen_may_set_the_speed_and_the_task_says_so(bed: Bed, client: Client) -> None:
    bed.carry_out = False
    with client.lease() as lease:
        task = client.create_task(lease, instruction=SENTENCE)
        wait_until(lambda: client.task(task.task_id).text_en == "looking")  # eye's last word of its own for now
        seq, _ = published_step(bed)
        assert client.set_speed(task.task_id, 0.3) == pytest.approx(0.3)  # no lease of its own
        assert published_step(bed) == (seq, pytest.approx(0.3))
        assert "30 %" in client.task(task.task_id).text_en
        for scale in (0.0, 0.05, 1.5, float("nan")):
            with pytest.raises(Refused) as refused:
                client.set_speed(task.task_id, scale)
            assert "speed_scale" in str(refused.value)
            assert published_step(bed) == (seq, pytest.approx(0.3))
        bed.report(StepState.DONE)
        client.follow(task.task_id, lease)
        with pytest.raises(Refused) as refused:
            client.set_speed(task.task_id, 0.5, lease)
        assert refused.value.reason == "TASK_ENDED"
    assert step_block(bed) is StepKind.NONE


def test_slower_while_nothing_runs_changes_nothing(bed: Bed, client: Client) -> None:
    with client.lease() as lease, pytest.raises(Refused) as refused:
        client.create_task(lease, instruction="慢一点")
    assert refused.value.reason == "PACE_REQUESTED"
    assert step_block(bed) is StepKind.NONE


def test_three_steps_run_one_after_the_other(bed: Bed, client: Client) -> None:
    task = client.say("拿杯子→倒水→放回")
    assert task.state == task_pb2.TASK_STATE_DONE
    assert [kind for _, kind, _ in bed.steps] == [StepKind.FETCH, StepKind.POUR, StepKind.PUT_BACK]
    seqs = [seq for seq, _, _ in bed.steps]
    assert seqs == sorted(set(seqs))
    assert [s.state for s in task.steps] == [task_pb2.STEP_STATE_DONE] * 3
    assert [s.object for s in task.steps] == ["cup"] * 3


@pytest.mark.parametrize(
    ("eye", "ends"),
    [(StepState.REFUSED, task_pb2.TASK_STATE_REFUSED), (StepState.FAILED, task_pb2.TASK_STATE_FAILED)],
)
def test_what_eye_says_ends_the_task_with_its_reason(bed: Bed, client: Client, eye: StepState, ends: int) -> None:
    bed.carry_out = False
    with client.lease() as lease:
        task = client.create_task(lease, instruction=SENTENCE)
        wait_until(lambda: bed.steps)
        bed.report(eye, 0.2, "no blue cup in view")
        task = client.follow(task.task_id, lease)
    assert task.state == ends
    assert "no blue cup in view" in task.text_en
    assert task.steps[0].reason == "no blue cup in view"
    assert step_block(bed) is StepKind.NONE  # a restarted eye finds nothing to do


def test_a_later_step_that_is_refused_makes_the_task_failed_for_it_has_moved(bed: Bed, client: Client) -> None:
    bed.carry_out = False
    with client.lease() as lease:
        task = client.create_task(lease, instruction="拿杯子，倒水")
        wait_until(lambda: len(bed.steps) == 1)
        bed.report(StepState.DONE)
        wait_until(lambda: len(bed.steps) == 2)
        bed.report(StepState.REFUSED, 0, "pouring is not built yet")
        assert client.follow(task.task_id, lease).state == task_pb2.TASK_STATE_FAILED


def test_the_same_request_twice_is_one_motion(bed: Bed, client: Client) -> None:
    with client.lease() as lease:
        first = client.create_task(lease, instruction=SENTENCE, request_id="r-1")
        again = client.create_task(lease, instruction=SENTENCE, request_id="r-1")
        client.follow(first.task_id, lease)
        late = client.create_task(lease, instruction=SENTENCE, request_id="r-1")
    assert first.task_id == again.task_id == late.task_id
    assert late.state == task_pb2.TASK_STATE_DONE
    assert len(bed.steps) == 1


def test_the_same_request_at_the_same_moment_is_one_motion(bed: Bed, client: Client) -> None:
    with client.lease() as lease:
        request = task_pb2.CreateTaskRequest(lease_id=lease.lease_id, request_id="r-both", instruction=SENTENCE)
        answers = [f.result(timeout=60) for f in [client.tasks.CreateTask.future(request) for _ in range(20)]]
        assert len({a.task.task_id for a in answers}) == 1
        assert sum(not a.repeated_request for a in answers) == 1
        client.follow(answers[0].task.task_id, lease)
    assert len(bed.steps) == 1


def test_one_request_id_for_two_intents_is_refused(bed: Bed, client: Client) -> None:
    with client.lease() as lease:
        task = client.create_task(lease, instruction=SENTENCE, request_id="r-2")
        client.follow(task.task_id, lease)
        with pytest.raises(Refused) as refused:
            client.create_task(lease, instruction="把红色的碗拿给我", request_id="r-2")
    assert refused.value.reason == "REQUEST_ID_REUSED"
    assert isinstance(refused.value.__cause__, grpc.RpcError)
    assert refused.value.__cause__.code() is grpc.StatusCode.ALREADY_EXISTS
    assert refused.value.metadata["task_id"] == task.task_id
    assert len(bed.steps) == 1


def test_a_dry_run_moves_nothing_and_stores_nothing(bed: Bed, client: Client) -> None:
    with client.lease() as lease:
        task = client.create_task(lease, instruction=SENTENCE, request_id="r-dry", dry_run=True)
        assert task.state == task_pb2.TASK_STATE_CHECKED
        with pytest.raises(Refused, match="no such task"):
            client.task(task.task_id)
        real = client.create_task(lease, instruction=SENTENCE, request_id="r-dry")  # the id is still free
        assert client.follow(real.task_id, lease).state == task_pb2.TASK_STATE_DONE
    assert len(bed.steps) == 1


def test_a_request_past_its_time_starts_nothing(bed: Bed, client: Client) -> None:
    late = task_pb2.CreateTaskRequest(instruction=SENTENCE).not_after
    late.FromNanoseconds(time.time_ns() - 50_000_000)
    with client.lease() as lease, pytest.raises(Refused) as refused:
        client.create_task(lease, instruction=SENTENCE, not_after=late)
    assert refused.value.reason == "REQUEST_EXPIRED"
    assert bed.steps == []


def test_one_task_at_a_time_and_no_queue(bed: Bed, client: Client) -> None:
    bed.carry_out = False
    with client.lease() as lease:
        task = client.create_task(lease, instruction=SENTENCE)
        with pytest.raises(Refused) as refused:
            client.create_task(lease, instruction="把红色的碗拿给我")
        assert refused.value.reason == "TASK_ACTIVE"
        assert refused.value.metadata["task_id"] == task.task_id
        wait_until(lambda: bed.steps)
        client.cancel(lease, task.task_id)
        client.follow(task.task_id, lease)
    assert len(bed.steps) == 1


def test_cancel_lets_the_arm_come_to_rest_first(bed: Bed, client: Client) -> None:
    bed.carry_out = False
    with client.lease() as lease:
        task = client.create_task(lease, instruction=SENTENCE)
        wait_until(lambda: bed.steps)
        bed.playing_id, bed.at_rest = 7, False
        bed.report(StepState.MOVING, 0.4)
        wait_until(lambda: not client.state().arm.at_rest)
        assert client.cancel(lease, task.task_id).state == task_pb2.TASK_STATE_CANCELLING
        wait_until(lambda: step_block(bed) is StepKind.NONE)
        assert client.task(task.task_id).state == task_pb2.TASK_STATE_CANCELLING
        bed.playing_id, bed.at_rest = 0, True
        assert client.follow(task.task_id, lease).state == task_pb2.TASK_STATE_CANCELLED
        with pytest.raises(Refused) as refused:
            client.cancel(lease, task.task_id)
        assert refused.value.reason == "TASK_ENDED"


def test_a_watcher_goes_on_where_it_left(bed: Bed, client: Client) -> None:
    task = client.say("拿杯子→倒水→放回")
    every = list(client.watch_task(task.task_id))
    tail = list(client.watch_task(task.task_id, after_sequence=3))
    assert [e.sequence for e in every] == list(range(1, task.sequence + 1))
    assert tail == every[3:]


def test_a_watcher_sees_progress_within_200_ms(bed: Bed, client: Client) -> None:
    bed.carry_out = False
    with client.lease() as lease:
        task = client.create_task(lease, instruction=SENTENCE)
        wait_until(lambda: bed.steps)
        delays_s = []
        stream = client.watch_task(task.task_id)
        for state, fraction in ((StepState.MOVING, 0.2), (StepState.MOVING, 0.5), (StepState.SETTING_DOWN, 0.9)):
            said = time.time_ns()
            bed.report(state, fraction)
            event = next(e for e in stream if e.step_state == int(state) and e.fraction > fraction - 0.01)
            delays_s.append((event.time.ToNanoseconds() - said) * 1e-9)
        bed.report(StepState.DONE)
        client.follow(task.task_id, lease)
    assert min(delays_s) < 0.2, delays_s  # load only ever adds


def test_tasks_are_listed_newest_first(bed: Bed, client: Client) -> None:
    ids = [client.say(SENTENCE).task_id for _ in range(3)]
    listed = client.tasks.ListTasks(task_pb2.ListTasksRequest(limit=2)).tasks
    assert [t.task_id for t in listed] == [ids[2], ids[1]]
    before = client.tasks.ListTasks(task_pb2.ListTasksRequest(limit=1, before_task_id=ids[1])).tasks
    assert [t.task_id for t in before] == [ids[0]]


@pytest.mark.parametrize(
    ("sentence", "reason", "says"),
    [
        ("", "EMPTY", "Nothing"),
        ("今天天气怎么样", "UNRELATED", "cups, bowls"),
        ("蓝色的杯子", "NO_VERB", "蓝"),
        ("帮我拿一下", "NO_OBJECT", "a cup, a bowl"),
        ("把手机拿给我", "UNKNOWN_OBJECT", "手机"),
        ("bring me the orange cup", "UNKNOWN_COLOR", "orange"),
        ("把杯子和碗拿给我", "AMBIGUOUS", "和"),
        ("don't bring me the cup", "NEGATED", "don't"),
        ("请把杯子拿给我，" * 60, "INSTRUCTION_TOO_LONG", "limit 128"),
    ],
)
def test_a_sentence_that_is_no_command_says_why(
    bed: Bed, client: Client, sentence: str, reason: str, says: str
) -> None:
    with client.lease() as lease, pytest.raises(Refused) as refused:
        client.create_task(lease, instruction=sentence)
    assert refused.value.reason == reason
    assert says in refused.value.text
    assert refused.value.metadata["text_zh"]
    assert client.check(sentence).refusal.reason == reason
    assert bed.steps == []


def test_what_the_served_model_has_not_learnt_is_turned_down_before_anything_moves(bed: Bed, client: Client) -> None:
    """Once eye has said what was learnt: the whole sentence, also where its first step could be done."""
    sentence = "拿杯子，倒水，放回"
    assert not client.check(sentence).refusal.reason
    bed.model_tasks = 1 << StepKind.FETCH
    wait_until(lambda: client.check(sentence).refusal.reason == "NOT_LEARNT")
    assert not client.check(sentence).steps
    assert list(client.info().model.learnt) == [task_pb2.STEP_KIND_FETCH]
    with client.lease() as lease:
        for dry_run in (True, False):
            with pytest.raises(Refused, match="has not learnt to pour") as refused:
                client.create_task(lease, instruction=sentence, dry_run=dry_run)
            assert refused.value.reason == "NOT_LEARNT"
            assert "倒水" in refused.value.metadata["text_zh"]
        assert bed.steps == []
        assert (
            client.follow(client.create_task(lease, instruction=SENTENCE).task_id, lease).state
            == task_pb2.TASK_STATE_DONE
        )
        client.create_task(lease, movement=task_pb2.MOVEMENT_HOME, dry_run=True)
    bed.model_tasks = 1 << StepKind.FETCH | 1 << StepKind.POUR | 1 << StepKind.PUT_BACK
    wait_until(lambda: not client.check(sentence).refusal.reason)
    assert sentence in client.check("今天天气怎么样").refusal.say_instead
    bed.model_tasks = 1 << StepKind.FETCH
    wait_until(lambda: list(client.check("今天天气怎么样").refusal.say_instead) == ["把蓝色的杯子拿给我"])


def test_a_movement_needs_no_sentence(bed: Bed, client: Client) -> None:
    assert client.park().state == task_pb2.TASK_STATE_DONE
    assert [kind for _, kind, _ in bed.steps] == [StepKind.PARK]


def test_without_sight_a_sentence_is_refused_and_parking_is_not(bed: Bed, client: Client) -> None:
    bed.say(ProcessId.EYE, HoldReason.CAMERA_LOST, "no frame for 0.5 s")
    wait_until(lambda: any(not w.ok for w in client.state().words))
    try:
        with pytest.raises(Refused) as refused:
            client.say(SENTENCE)
        assert refused.value.reason == "CAMERA_LOST"
        assert "no frame for 0.5 s" in refused.value.text
        assert client.park().state == task_pb2.TASK_STATE_DONE
    finally:
        bed.say(ProcessId.EYE, HoldReason.NONE)
        wait_until(lambda: all(w.ok for w in client.state().words))


@pytest.mark.parametrize("state", [ArmState.PROTECTIVE, ArmState.CONNECTED, ArmState.ESTOP])
def test_a_robot_that_is_not_ready_gets_no_task(bed: Bed, client: Client, state: ArmState) -> None:
    bed.state = state
    wait_until(lambda: client.state().arm.state == int(state))
    with pytest.raises(Refused) as refused:
        client.say(SENTENCE)
    assert refused.value.reason == "CONTROLLER_NOT_NORMAL"
    assert refused.value.metadata["state"] == state.name


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"request_id": "no spaces please", "instruction": SENTENCE}, "request_id"),
        ({"instruction": SENTENCE, "speed_scale": 0.05}, "speed_scale"),
        ({"instruction": SENTENCE, "patient_ref": "x" * 65}, "patient_ref"),
        ({"movement": 99}, "movement"),
        ({}, "goal"),
    ],
)
def test_a_field_out_of_range_is_named(bed: Bed, client: Client, fields: dict[str, object], names: str) -> None:
    with client.lease() as lease, pytest.raises(Refused) as refused:
        client.create_task(lease, **fields)
    assert refused.value.reason == "FIELD_INVALID"
    assert refused.value.metadata["field"] == names
    assert bed.steps == []

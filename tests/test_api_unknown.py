"""Something unknown between the fingers: no task before a person has said what becomes of it. STARTING is nobody's to end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from api_bed import Bed, Server, bedside, clean, wait_until
from wardarm.client import Client, Refused
from wardarm.shm.layouts import Holding, HoldReason, ProcessId, StepKind
from wardarm.v1 import hold_pb2, state_pb2, task_pb2

SENTENCE = "把桌角的蓝色水杯拿给我"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bed, Server]]:
    with bedside(tmp_path_factory.mktemp("unknown")) as made:
        yield made


@pytest.fixture
def bed(pair: tuple[Bed, Server]) -> Bed:
    return pair[0]


@pytest.fixture
def client(pair: tuple[Bed, Server]) -> Iterator[Client]:
    bed, server = pair
    with server.client("nurse") as client:
        clean(bed, client)
        yield client


def holding(client: Client) -> int:
    return int(client.state().arm.holding)


@pytest.mark.parametrize(
    "goal",
    [{"instruction": SENTENCE}, {"instruction": "回到停放位置"}, {"movement": task_pb2.MOVEMENT_PARK},
     {"movement": task_pb2.MOVEMENT_HOME}],
)  # fmt: skip
def test_no_task_starts_and_both_languages_say_what_to_say(bed: Bed, client: Client, goal: dict[str, object]) -> None:
    bed.holding = Holding.UNKNOWN
    wait_until(lambda: holding(client) == state_pb2.HOLDING_UNSPECIFIED)
    with client.lease() as lease:
        for dry_run in (True, False):
            with pytest.raises(Refused) as refused:
                client.create_task(lease, dry_run=dry_run, **goal)
            assert refused.value.reason == "HOLDING_UNKNOWN"
            for word in ("放下", "松开", "put it down", "release it"):
                assert word in str(refused.value)
    assert not bed.steps


@pytest.mark.parametrize(
    ("goal", "kind"),
    [({"instruction": "松开"}, StepKind.RELEASE), ({"instruction": "let go of it"}, StepKind.RELEASE),
     ({"instruction": "放下"}, StepKind.SET_DOWN_HERE), ({"instruction": "put it down"}, StepKind.SET_DOWN_HERE),
     ({"movement": task_pb2.MOVEMENT_RELEASE}, StepKind.RELEASE),
     ({"movement": task_pb2.MOVEMENT_SET_DOWN_HERE}, StepKind.SET_DOWN_HERE)],
)  # fmt: skip
def test_a_persons_word_about_it_is_carried_out(
    bed: Bed, client: Client, goal: dict[str, object], kind: StepKind
) -> None:
    bed.holding = Holding.UNKNOWN
    wait_until(lambda: holding(client) == state_pb2.HOLDING_UNSPECIFIED)
    with client.lease() as lease:
        task = client.create_task(lease, **goal)
        assert client.follow(task.task_id, lease).state == task_pb2.TASK_STATE_DONE
    assert [k for _, k, _ in bed.steps] == [kind]


def test_what_becomes_of_it_is_said_also_without_camera_or_model(bed: Bed, client: Client) -> None:
    bed.holding = Holding.UNKNOWN
    bed.say(ProcessId.EYE, HoldReason.INFERENCE_STALE, "Triton is down")
    wait_until(lambda: holding(client) == state_pb2.HOLDING_UNSPECIFIED)
    with client.lease() as lease:
        task = client.create_task(lease, instruction="松开")
        assert client.follow(task.task_id, lease).state == task_pb2.TASK_STATE_DONE


def test_a_known_thing_between_the_fingers_stops_no_task_here(bed: Bed, client: Client) -> None:
    bed.holding = Holding.YES
    wait_until(lambda: holding(client) == state_pb2.HOLDING_OBJECT)
    with client.lease() as lease:
        task = client.create_task(lease, movement=task_pb2.MOVEMENT_PARK)
        assert client.follow(task.task_id, lease).state == task_pb2.TASK_STATE_DONE


def test_a_start_is_shown_as_nobodys_to_end_and_goes_by_itself(bed: Bed, client: Client) -> None:
    bed.say(ProcessId.GUARD, HoldReason.STARTING, "learning the room")
    wait_until(lambda: [h.latched for h in client.state().holds] == [True])
    (hold,) = client.state().holds
    assert hold.reason == hold_pb2.HOLD_REASON_STARTING
    assert not hold.clearable
    assert "by itself" in hold.text_en
    with client.lease() as lease, pytest.raises(Refused) as refused:
        client.resume([hold.token], lease)
    assert refused.value.reason == "HOLD_ACTIVE"
    bed.say(ProcessId.GUARD, HoldReason.NONE)
    wait_until(lambda: not client.state().holds)

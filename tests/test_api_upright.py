"""A pause while what is held leans is said once it stands upright; nothing else waits for that."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
from api_bed import Bed, Server, bedside, clean, wait_until
from patience import soonest
from wardarm.api import upright
from wardarm.client import Client, Refused
from wardarm.shm.layouts import ArmState, Holding, HoldReason, ProcessId
from wardarm.v1 import hold_pb2

LEANING = float(np.radians(40))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bed, Server]]:
    with bedside(tmp_path_factory.mktemp("upright")) as made:
        yield made


@pytest.fixture
def bed(pair: tuple[Bed, Server]) -> Bed:
    return pair[0]


@pytest.fixture
def client(pair: tuple[Bed, Server]) -> Iterator[Client]:
    bed, server = pair
    with server.client("nurse") as client:
        bed.look_past_a_stall()
        pours_again(bed, client)
        yield client
        stand(bed)


def pour(bed: Bed) -> None:
    bed.state, bed.at_rest, bed.playing_id = ArmState.RUNNING, False, 7
    bed.holding, bed.tilt_rad, bed.speed_rad_s = Holding.YES, LEANING, 0.3


def pours_again(bed: Bed, client: Client) -> None:
    """Whatever was held is resumed, and the arm pours."""
    stand(bed)
    clean(bed, client)
    pour(bed)
    wait_until(lambda: not client.state().arm.at_rest)


def stand(bed: Bed) -> None:
    bed.state, bed.at_rest, bed.playing_id, bed.speed_rad_s, bed.tilt_rad = ArmState.READY, True, 0, 0.0, 0.0


def latched(bed: Bed) -> list[HoldReason]:
    return [h.reason for h in bed.latch.holds]


def test_the_word_stays_true_until_it_stands_upright_and_the_pause_is_seen_at_once(bed: Bed, client: Client) -> None:
    def paused_s() -> float:
        pours_again(bed, client)
        holds = client.pause("a visit")
        assert [h.reason for h in holds] == [hold_pb2.HOLD_REASON_CLIENT]
        assert bed.api_word() == (True, HoldReason.CLIENT)  # go on, for this pause: eye sets it upright
        assert [h.detail for h in client.state().holds] == ["paused by nurse: a visit"]
        assert not latched(bed)
        bed.tilt_rad = float(np.radians(20))  # on its way
        bed.wait_beats()
        assert bed.api_word() == (True, HoldReason.CLIENT)
        upright_s = time.monotonic()
        bed.tilt_rad, bed.speed_rad_s = 0.0, 0.0
        wait_until(lambda: bed.api_word() == (False, HoldReason.CLIENT))
        said_s = time.monotonic() - upright_s
        wait_until(lambda: latched(bed) == [HoldReason.CLIENT])  # one hold: it was never said and taken back
        return said_s

    soonest(paused_s, upright.BEGINS_S)


@pytest.mark.parametrize(
    "field", [{"tilt_rad": 0.1}, {"holding": Holding.NO}, {"holding": Holding.UNKNOWN}, {"state": ArmState.READY}]
)
def test_where_nothing_known_leans_under_way_a_pause_takes_the_word_at_once(
    bed: Bed, client: Client, field: dict[str, object]
) -> None:
    for name, value in field.items():
        setattr(bed, name, value)
    bed.wait_beats()
    client.pause("")
    assert bed.api_word() == (False, HoldReason.CLIENT)


def test_who_presses_again_waits_no_longer(bed: Bed, client: Client) -> None:
    client.pause("")
    assert bed.api_word()[0]
    client.pause("")
    assert bed.api_word() == (False, HoldReason.CLIENT)


def test_a_stop_waits_for_nothing(bed: Bed, client: Client) -> None:
    client.pause("")
    client.stop("")
    assert bed.api_word() == (False, HoldReason.STOP)
    pour(bed)
    stand(bed)
    wait_until(lambda: HoldReason.STOP in latched(bed))


def test_a_lost_lease_or_a_person_in_the_zone_waits_for_nothing(bed: Bed, client: Client) -> None:
    stand(bed)
    wait_until(lambda: bool(client.state().arm.at_rest))
    bed.carry_out = False
    with client.lease() as lease:
        client.create_task(lease, instruction="把桌角的蓝色水杯拿给我")
        pour(bed)
        wait_until(lambda: not client.state().arm.at_rest)
        client.pause("")
        assert bed.api_word()[0]
        bed.say(ProcessId.GUARD, HoldReason.INTRUDER, "a person in zone 1")
        wait_until(lambda: HoldReason.INTRUDER in latched(bed))  # the arm's own affair, as ever
        bed.say(ProcessId.GUARD, HoldReason.NONE)
    assert not bed.api_word()[0]


def test_it_takes_the_word_by_itself_where_nothing_is_set_upright(bed: Bed, client: Client) -> None:
    began = time.monotonic()
    client.pause("")
    wait_until(lambda: not bed.api_word()[0])
    assert time.monotonic() - began >= upright.BEGINS_S - 0.1
    assert client.state().holds[0].reason == hold_pb2.HOLD_REASON_CLIENT


def test_an_arm_that_rests_meanwhile_is_paused_at_once(bed: Bed, client: Client) -> None:
    def paused_s() -> float:
        pours_again(bed, client)
        client.pause("")
        rests_s = time.monotonic()
        stand(bed)
        wait_until(lambda: bed.api_word() == (False, HoldReason.CLIENT))
        return time.monotonic() - rests_s

    soonest(paused_s, upright.BEGINS_S)


def test_nobody_resumes_before_it_stands(bed: Bed, client: Client) -> None:
    client.pause("")
    tokens = [h.token for h in client.state().holds]
    with client.lease() as lease, pytest.raises(Refused) as refused:
        client.resume(tokens, lease)
    assert refused.value.reason == "HOLD_ACTIVE"

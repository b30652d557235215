"""Attended mode as a client asks for it: who may, for how long, what the state and the audit say; and the command line."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from api_bed import Bed, Server, bedside, wait_until
from wardarm import config as configuration
from wardarm.api import roles
from wardarm.client import Client, Refused
from wardarm.guard import attended
from wardarm.guard.attended import AttendedWatch
from wardarm.shm import ring
from wardarm.v1 import control_pb2

RPCS = {"StartAttended", "ExtendAttended", "EndAttended"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bed, Server]]:
    with bedside(tmp_path_factory.mktemp("api")) as pair:
        yield pair


@pytest.fixture
def config(running: tuple[Bed, Server]) -> Iterator[configuration.Config]:
    config = configuration.load(running[1].file)
    yield config
    attended.end(config)


@pytest.fixture
def nurse(running: tuple[Bed, Server], config: configuration.Config) -> Iterator[Client]:
    with running[1].client("nurse Li") as client:
        yield client
    attended.end(config)
    with running[1].client("after") as client:
        wait_until(lambda: not client.state().HasField("attended"))


def refused(call: Callable[[], Any]) -> Refused:
    with pytest.raises(Refused) as caught:
        call()
    return caught.value


def audit(client: Client) -> list[tuple[str, str, str]]:
    return [(e.action, e.actor, e.detail) for e in client.audit(20) if e.action.startswith("attended") and e.accepted]


def test_a_nurse_starts_it_guard_obeys_the_state_shows_it_and_it_can_be_extended_and_ended(
    nurse: Client, config: configuration.Config
) -> None:
    watch = AttendedWatch(config)
    assert not nurse.state().HasField("attended")
    with nurse.lease() as lease:
        begun = nurse.start_attended("dressing", 10, lease)
        assert begun.actor == "nurse Li"
        now = watch.look(time.monotonic_ns())
        assert now is not None
        assert (now.actor, now.reason) == ("nurse Li", "dressing")
        shown = nurse.state().attended
        assert (shown.actor, shown.reason) == ("nurse Li", "dressing")
        assert 590 < shown.remaining.ToNanoseconds() * 1e-9 <= 600
        longer = nurse.extend_attended(20, lease)
        assert 1190 < longer.remaining.ToNanoseconds() * 1e-9 <= 1200
        assert longer.since == shown.since or abs(longer.since.ToNanoseconds() - shown.since.ToNanoseconds()) < 10**9
        assert refused(lambda: nurse.start_attended("again", 10, lease)).reason == "ALREADY_ATTENDED"
    nurse.end_attended()  # without a lease: it only makes more things hold the arm
    assert watch.look(time.monotonic_ns()) is None
    assert not nurse.state().HasField("attended")
    said = audit(nurse)[:3]
    assert [(action, actor) for action, actor, _ in said] == [
        ("attended_ended", "nurse Li"), ("attended_extended", "nurse Li"), ("attended_started", "nurse Li"),
    ]  # fmt: skip
    assert said[2][2] == "for 10 min: dressing"
    assert refused(nurse.end_attended).reason == "NOT_ATTENDED"


def test_it_is_refused_without_a_lease(nurse: Client, running: tuple[Bed, Server]) -> None:
    wait_until(lambda: not nurse.state().lease.client)
    assert refused(lambda: nurse.start_attended("dressing", 10)).reason == "LEASE_STALE"
    with running[1].client("display") as display, display.lease():
        nurse.start_attended("dressing", 10)  # while the client of the task watches over it
        assert nurse.state().attended.actor == "nurse Li"
        nurse.extend_attended(5)


def test_it_is_a_role_s_to_ask_for() -> None:
    for role in ("viewer", "voice"):
        assert not RPCS & roles.MAY[role]
        with pytest.raises(roles.Refused, match="allowed: ward, nurse, engineer"):
            roles.check(roles.Caller(role, "x"), "StartAttended")
    for role in ("ward", "nurse", "engineer"):
        assert roles.MAY[role] >= RPCS


@pytest.mark.parametrize(
    ("minutes", "reason", "actor", "field"),
    [(31, "dressing", "", "duration"), (0, "dressing", "", "duration"), (-1, "dressing", "", "duration"),
     (10, "", "", "reason"), (10, "  ", "", "reason"), (10, "x" * 65, "", "reason"), (10, "dressing", "  ", "actor")],
)  # fmt: skip
def test_what_is_too_long_or_has_no_name_is_refused_and_changes_nothing(
    nurse: Client, config: configuration.Config, minutes: float, reason: str, actor: str, field: str
) -> None:
    with nurse.lease() as lease:
        found = refused(lambda: nurse.start_attended(reason, minutes, lease, actor))
    assert (found.reason, found.metadata["field"]) == ("FIELD_INVALID", field)
    assert not attended.path(config.shm.prefix).exists()


def turned_down(client: Client) -> list[tuple[str, str, str]]:
    """(action, actor, detail) of the attended requests that were not accepted, the newest first."""
    rows = [e for e in client.audit(20) if e.action.startswith("attended") and not e.accepted]
    return [(e.action, e.actor, e.detail) for e in rows]


def test_a_refused_request_is_in_the_audit_with_who_and_why(nurse: Client, running: tuple[Bed, Server]) -> None:
    wait_until(lambda: not nurse.state().lease.client)
    refused(lambda: nurse.start_attended("dressing", 10))  # nobody's lease
    with nurse.lease() as lease:
        refused(lambda: nurse.start_attended("dressing", 31, lease))
        refused(lambda: nurse.start_attended("", 10, lease, actor="nurse Wu"))
        refused(lambda: nurse.extend_attended(5, lease))
        nurse.start_attended("dressing", 10, lease)
        refused(lambda: nurse.start_attended("again", 5, lease, actor="nurse Wu"))
        refused(lambda: nurse.extend_attended(40, lease))
    nurse.end_attended()
    refused(nurse.end_attended)
    with running[1].client("x" * 90) as stranger:
        refused(lambda: stranger.start_attended("dressing", 10))
    wait_until(lambda: turned_down(nurse)[0][1] == "x" * 64)
    found = turned_down(nurse)[:8][::-1]
    assert [(action, actor, detail.partition(":")[0]) for action, actor, detail in found] == [
        ("attended_started", "nurse Li", "LEASE_STALE"), ("attended_started", "nurse Li", "FIELD_INVALID"),
        ("attended_started", "nurse Wu", "FIELD_INVALID"), ("attended_extended", "nurse Li", "NOT_ATTENDED"),
        ("attended_started", "nurse Wu", "ALREADY_ATTENDED"), ("attended_extended", "nurse Li", "FIELD_INVALID"),
        ("attended_ended", "nurse Li", "NOT_ATTENDED"), ("attended_started", "x" * 64, "LEASE_STALE"),
    ]  # fmt: skip
    assert "duration = '1860 s': more than 0, at most 1800 s" in found[1][2]
    assert found[1][2].endswith("asked for 31 min: dressing")


def test_a_request_at_the_machine_that_guard_refuses_is_in_the_audit(
    nurse: Client, config: configuration.Config
) -> None:
    attended.path(config.shm.prefix).write_text('{"actor": "engineer Wang"}')
    wait_until(lambda: str(attended.path(config.shm.prefix)) in turned_down(nurse)[0][2])
    assert turned_down(nurse)[0][:2] == ("attended_started", "unnamed")
    assert not nurse.state().HasField("attended")


def test_a_request_without_a_duration_is_refused(nurse: Client) -> None:
    with nurse.lease() as lease:
        request = control_pb2.StartAttendedRequest(lease_id=lease.lease_id, actor="x", reason="y")
        found = refused(lambda: nurse._call(nurse.control.StartAttended, request))
    assert found.metadata["field"] == "duration"
    assert "guard.attended_max_min" in found.text


def test_it_ends_by_itself_and_watchers_and_the_audit_hear_of_it(nurse: Client) -> None:
    states = nurse.watch(60)
    next(states)
    with nurse.lease() as lease:
        nurse.start_attended("a moment", 0.03, lease)
        seen = [next(states) for _ in range(2)]
    while seen[-1].HasField("attended"):
        seen.append(next(states))
    assert any(s.HasField("attended") for s in seen)
    states.close()
    wait_until(lambda: audit(nurse)[0] == ("attended_ended", "nurse Li", "time is up"))


def test_one_that_was_asked_for_at_the_machine_is_shown_and_audited_too(
    nurse: Client, config: configuration.Config
) -> None:
    attended.start(config, 5, "engineer Wang", "camera")
    wait_until(lambda: nurse.state().attended.actor == "engineer Wang")
    wait_until(lambda: audit(nurse)[0] == ("attended_started", "engineer Wang", "for 5 min: camera"))
    attended.end(config)
    wait_until(lambda: audit(nurse)[0][:2] == ("attended_ended", "engineer Wang"))
    assert "before its time" in audit(nurse)[0][2]


def test_a_restarted_api_still_shows_it(tmp_path: Path) -> None:
    with bedside(tmp_path) as (bed, server), server.client("nurse Li") as client:
        with client.lease() as lease:
            client.start_attended("dressing", 10, lease)
        server.kill()
        server.start()
        wait_until(lambda: _answers(client))
        assert client.state().attended.actor == "nurse Li"
        client.end_attended()
        assert bed.motion_allowed() or bed.latch.holds


def _answers(client: Client) -> bool:
    """Its connection was to the service before: it finds this one in its own time."""
    with contextlib.suppress(Refused):
        return bool(client.info().version)
    return False


def test_without_room_cameras_there_is_nothing_to_attend(tmp_path: Path) -> None:
    with bedside(tmp_path, extra="[guard]\nenabled = false") as (_, server), server.client("nurse Li") as client:
        with client.lease() as lease:
            found = refused(lambda: client.start_attended("dressing", 10, lease))
        assert found.reason == "GUARD_OFF"


def cli(server: Server, *words: str) -> tuple[int, dict[str, Any]]:
    argv = [sys.executable, "-m", "wardarm.cli", *words, "--address", server.address, "--stop-address"]
    argv += [server.stop_address, "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=os.environ | {"USER": "li"})
    return done.returncode, json.loads(done.stdout)


def test_the_command_line_starts_extends_shows_and_ends_it(running: tuple[Bed, Server], nurse: Client) -> None:
    server = running[1]
    wait_until(lambda: not nurse.state().lease.client)
    code, said = cli(server, "attend", "--minutes", "5", "--reason", "dressing", "--actor", "nurse Wu")
    assert (code, said["attended"]["actor"]) == (0, "nurse Wu")
    code, said = cli(server, "attend", "--extend", "--minutes", "9")
    assert (code, said["attended"]["reason"]) == (0, "dressing")
    assert 500 < float(said["attended"]["remaining"].rstrip("s")) <= 540
    code, said = cli(server, "status")
    assert said["state"]["attended"]["actor"] == "nurse Wu"
    assert cli(server, "attend", "--end") == (0, {"success": True, "attended": None})
    code, said = cli(server, "attend", "--end")
    assert (code, said["reason"]) == (1, "NOT_ATTENDED")


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"pid": 1, "start_ticks": "x"}', '{"pid": 4000000000}'])
def test_the_alert_s_counts_are_shown_and_a_damaged_file_is_an_alert_that_does_not_run(
    running: tuple[Bed, Server], nurse: Client, content: str
) -> None:
    file = ring.SHM / f"{running[0].prefix}wardarm_alert.json"
    counts = {"said": 3, "played": 5, "failures": 1, "last": "intruder", "last_failure": "aplay: exit 1"}
    alive = counts | {"pid": os.getpid(), "start_ticks": ring.start_ticks(os.getpid())}
    try:
        file.write_text(json.dumps(alive))
        alert = nurse.state().alert
        assert (alert.enabled, alert.running, alert.said, alert.failures) == (True, True, 3, 1)
        assert alert.last_failure == "aplay: exit 1"
        file.write_text(json.dumps(alive | {"start_ticks": 1}))
        assert not nurse.state().alert.running
        file.write_text(content)
        assert not nurse.state().alert.running
    finally:
        file.unlink()


def test_a_file_from_another_user_or_another_boot_is_not_shown(config: configuration.Config) -> None:
    other = config.model_copy(update={"shm": configuration.Shm(prefix=f"ta{secrets.token_hex(4)}_")})
    later = time.monotonic_ns() + 10**15
    try:
        attended.path(other.shm.prefix).write_text(
            json.dumps({"actor": "x", "reason": "y", "since_ns": later, "until_ns": later + 10**9})
        )
        assert AttendedWatch(other).look(time.monotonic_ns()) is None
    finally:
        attended.end(other)

"""say, status, watch, pause, resume, stop, park, and the examples, against a real service."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from api_bed import Bed, Server, bedside, clean, wait_until
from typer import Typer
from typer.testing import CliRunner, Result
from wardarm import cli_client
from wardarm.client import Client
from wardarm.shm.layouts import HoldReason, StepState
from wardarm.v1 import task_pb2

EXAMPLES = Path(__file__).parents[1] / "examples"
SENTENCE = "把桌角的蓝色水杯拿给我"

app = Typer()
cli_client.mount(app)


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


def wardarm(running: tuple[Bed, Server], *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--config", str(running[1].file)])


def test_say_shows_progress_and_ends_with_the_result(
    bed: Bed, running: tuple[Bed, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bed, "step_s", 0.5)  # a state that api looks at for certain
    done = wardarm(running, "say", SENTENCE)
    assert done.exit_code == 0, done.output
    assert "step 1: 正在移动" in done.output
    assert "DONE" in done.output
    assert len(bed.steps) == 1


def test_say_json_is_one_object(bed: Bed, running: tuple[Bed, Server]) -> None:
    answer = json.loads(wardarm(running, "say", SENTENCE, "--json").stdout)
    assert answer["success"] is True
    assert answer["task"]["state"] == "TASK_STATE_DONE"
    assert answer["task"]["steps"][0]["object"] == "cup"


def test_say_ends_with_1_when_the_arm_says_no(bed: Bed, running: tuple[Bed, Server]) -> None:
    bed.final, bed.final_reason = StepState.REFUSED, "no blue cup in view"
    done = wardarm(running, "say", SENTENCE)
    assert done.exit_code == 1
    assert "no blue cup in view" in done.output
    refused = wardarm(running, "say", "今天天气怎么样", "--json")
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["reason"] == "UNRELATED"


def test_a_dry_run_moves_nothing(bed: Bed, running: tuple[Bed, Server]) -> None:
    done = wardarm(running, "say", SENTENCE, "--dry-run")
    assert done.exit_code == 0
    assert "CHECKED" in done.output
    assert bed.steps == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_cancel_the_task(
    bed: Bed, running: tuple[Bed, Server], client: Client, number: signal.Signals
) -> None:
    bed.carry_out = False
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from test_api_cli import app; app()"
    say = subprocess.Popen(
        [sys.executable, "-c", code, "say", SENTENCE, "--config", str(running[1].file)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_until(lambda: bed.steps)
    task = client.state().task
    say.send_signal(number)
    _, words = say.communicate(timeout=60)
    assert say.returncode == 1
    assert "was cancelled" in words
    wait_until(lambda: not client.state().HasField("task"))
    assert client.task(task.task_id).state == task_pb2.TASK_STATE_CANCELLED
    assert bed.motion_allowed()


def test_pause_resume_asks_for_a_persons_word(bed: Bed, running: tuple[Bed, Server], client: Client) -> None:
    assert wardarm(running, "pause", "--reason", "visit").exit_code == 0
    wait_until(lambda: client.state().holds[0].latched)
    asked = wardarm(running, "resume")
    assert asked.exit_code == 1
    assert "Next: no task waits" in asked.output
    assert "CLIENT" in asked.output
    assert wardarm(running, "status").exit_code == 1
    assert wardarm(running, "resume", "--token", "999").exit_code == 1
    assert bed.api_word() == (False, HoldReason.CLIENT)
    done = wardarm(running, "resume", "--yes")
    assert done.exit_code == 0, done.output
    assert bed.motion_allowed()
    nothing = wardarm(running, "resume", "--yes", "--json")
    assert nothing.exit_code == 1
    assert json.loads(nothing.stdout)["reason"] == "NOT_HELD"


def test_stop_is_cleared_before_it_is_resumed(bed: Bed, running: tuple[Bed, Server], client: Client) -> None:
    assert wardarm(running, "stop").exit_code == 0
    wait_until(lambda: all(h.latched for h in client.state().holds))
    assert wardarm(running, "resume", "--yes").exit_code == 1
    assert wardarm(running, "stop", "--clear").exit_code == 0
    assert wardarm(running, "resume", "--yes").exit_code == 0
    assert bed.motion_allowed()


def test_status_and_watch(bed: Bed, running: tuple[Bed, Server]) -> None:
    shown = wardarm(running, "status")
    assert shown.exit_code == 0, shown.output
    for word in ("simulated", "READY", "guard", "ward: 0.25 m/s"):
        assert word in shown.output
    answer = json.loads(wardarm(running, "status", "--json").stdout)
    assert answer["state"]["arm"]["state"] == "ARM_STATE_READY"
    assert answer["server"]["simulated"] is True
    lines = wardarm(running, "watch", "--count", "2", "--period", "0.05", "--json").stdout.splitlines()
    assert [json.loads(line)["arm"]["state"] for line in lines] == ["ARM_STATE_READY"] * 2


def test_park(bed: Bed, running: tuple[Bed, Server]) -> None:
    assert wardarm(running, "park").exit_code == 0
    assert [kind.name for _, kind, _ in bed.steps] == ["PARK"]


def test_speed_changes_what_runs(bed: Bed, running: tuple[Bed, Server], client: Client) -> None:
    assert wardarm(running, "speed", "0.5").exit_code == 1, "no task is under way"
    bed.carry_out = False
    with client.lease() as lease:
        task = client.create_task(lease, instruction=SENTENCE)
        wait_until(lambda: bed.steps)
        done = wardarm(running, "speed", "0.5", "--json")
        assert json.loads(done.stdout) == {"task_id": task.task_id, "speed_scale": 0.5}
        assert "50 %" in client.task(task.task_id).text_en
        client.cancel(lease, task.task_id)
        client.follow(task.task_id, lease)


def test_no_service_is_1_and_a_bad_configuration_is_2(tmp_path: Path) -> None:
    nobody = CliRunner().invoke(app, ["status", "--address", "127.0.0.1:9", "--stop-address", "127.0.0.1:9"])
    assert nobody.exit_code == 1
    assert "UNREACHABLE" in nobody.output
    bad = CliRunner().invoke(app, ["status", "--config", str(tmp_path / "none.toml")])
    assert bad.exit_code == 2
    assert CliRunner().invoke(app, ["say"]).exit_code == 2


@pytest.mark.parametrize(
    ("script", "arguments", "says"),
    [
        ("01_look.py", [], "nothing holds the arm"),
        ("02_fetch.py", [SENTENCE], "TASK_STATE_DONE"),
        ("03_pause_and_resume.py", ["--yes"], "no task is waiting"),
    ],
)
def test_the_examples_run(bed: Bed, running: tuple[Bed, Server], script: str, arguments: list[str], says: str) -> None:
    addresses = [running[1].address] + ([running[1].stop_address] if script != "01_look.py" else [])
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script), *arguments, *addresses],
        capture_output=True, text=True, timeout=60, check=False, env=os.environ | {"PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert says in done.stdout

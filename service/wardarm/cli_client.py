"""The command line's client side: say, status, watch, pause, resume, stop, park, attend.

Exit status: 0 done, 1 the arm or a check said no, 2 usage. With --json one JSON object (for `watch`: one a line) goes
to stdout and nothing else.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC
from typing import Annotated, Any, NoReturn

import typer
from google.protobuf import json_format
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wardarm import config as configuration
from wardarm.client import Client, Refused
from wardarm.v1 import hold_pb2, state_pb2, task_pb2

ConfigFile = Annotated[
    str,
    typer.Option(
        "--config", envvar="WARDARM_CONFIG", help="where the addresses come from: a TOML file, 'desk' or 'thor'"
    ),
]
Address = Annotated[str, typer.Option("--address", help="the service, instead of the configuration's api.address")]
StopAddress = Annotated[str, typer.Option("--stop-address", help="instead of the configuration's api.stop_address")]
Certs = Annotated[str, typer.Option("--certs", help="folder with client.pem, client.key, ca.pem, for mutual TLS")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object to stdout")]
Reason = Annotated[str, typer.Option("--reason", help="for the audit")]
Slow = Annotated[float, typer.Option("--speed", min=0.1, max=1.0, help="share of the limit profile's speed")]

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def mount(app: typer.Typer) -> None:
    """Add the sub-commands to the application."""
    for command in (say, status, watch, pause, resume, stop, park, speed, attend):
        app.command()(command)


def say(
    text: Annotated[str, typer.Argument(help="what to do, in Chinese or English")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="check everything, move nothing")] = False,
    speed: Slow = 1.0,
    config: ConfigFile = "desk",
    address: Address = "",
    stop_address: StopAddress = "",
    certs: Certs = "",
    as_json: AsJson = False,
) -> None:
    """Say a sentence; shows how it goes and ends with the result. Ctrl-C cancels it."""
    with _client(config, address, stop_address, certs, as_json) as client:
        _run(client, as_json, lambda show: client.say(text, show, dry_run=dry_run, speed_scale=speed))


def park(
    speed: Slow = 1.0,
    config: ConfigFile = "desk",
    address: Address = "",
    stop_address: StopAddress = "",
    certs: Certs = "",
    as_json: AsJson = False,
) -> None:
    """Move the arm to its parking pose. Ctrl-C cancels it."""
    with _client(config, address, stop_address, certs, as_json) as client:
        _run(client, as_json, lambda show: client.park(show, speed_scale=speed))


def speed(
    share: Annotated[float, typer.Argument(min=0.1, max=1.0, help="share of the limit profile's speed")],
    config: ConfigFile = "desk",
    address: Address = "",
    stop_address: StopAddress = "",
    certs: Certs = "",
    as_json: AsJson = False,
) -> None:
    """How fast the task under way goes on, from about half a second later to its end. Exit status 1 without one."""
    with _client(config, address, stop_address, certs, as_json) as client:
        task_id = client.state().task.task_id
        if not task_id:
            err.print("[red]no task is under way[/]")
            raise typer.Exit(1)
        in_force = client.set_speed(task_id, share)
    out.print(json.dumps({"task_id": task_id, "speed_scale": round(in_force, 3)}) if as_json else f"{in_force:.0%}")


def status(
    config: ConfigFile = "desk",
    address: Address = "",
    stop_address: StopAddress = "",
    certs: Certs = "",
    as_json: AsJson = False,
) -> None:
    """What the bedside looks like right now. Exit status 1 if something holds the arm."""
    with _client(config, address, stop_address, certs, as_json) as client:
        state, info = client.state(), client.info()
    if as_json:
        print(json.dumps({"state": _plain(state), "server": _plain(info)}, ensure_ascii=False))
    else:
        out.print(_table(state, info))
    raise typer.Exit(1 if state.holds or state.arm.stale else 0)


def watch(
    period: Annotated[float, typer.Option(min=0.05, max=60, help="seconds between pictures if nothing changes")] = 1.0,
    count: Annotated[int, typer.Option(min=0, help="end after this many; 0: until Ctrl-C")] = 0,
    config: ConfigFile = "desk",
    address: Address = "",
    stop_address: StopAddress = "",
    certs: Certs = "",
    as_json: AsJson = False,
) -> None:
    """The bedside as it changes, one line a picture."""
    with _client(config, address, stop_address, certs, as_json) as client:
        for number, state in enumerate(client.watch(period), 1):
            if as_json:
                print(json.dumps(_plain(state), ensure_ascii=False), flush=True)
            else:
                out.print(_line(state))
            if number == count:
                return


def pause(
    reason: Reason = "",
    config: ConfigFile = "desk",
    address: Address = "",
    stop_address: StopAddress = "",
    certs: Certs = "",
    as_json: AsJson = False,
) -> None:
    """Bring the arm to rest along its path and hold it. What is grasped stays grasped."""
    with _client(config, address, stop_address, certs, as_json) as client:
        _show_holds(client.pause(reason), as_json, "paused; 'wardarm resume' lets it go on")


def stop(
    reason: Reason = "",
    clear: Annotated[bool, typer.Option("--clear", help="acknowledge an earlier stop instead")] = False,
    config: ConfigFile = "desk",
    address: Address = "",
    stop_address: StopAddress = "",
    certs: Certs = "",
    as_json: AsJson = False,
) -> None:
    """Pause, and end the task. Afterwards: 'stop --clear', then 'resume'. This is not an emergency stop."""
    with _client(config, address, stop_address, certs, as_json) as client:
        if not clear:
            _show_holds(client.stop(reason), as_json, "stopped; 'wardarm stop --clear', then 'wardarm resume'")
            return
        with _some_lease(client) as lease:
            _show_holds(client.clear_stop(lease), as_json, "the stop is cleared; 'wardarm resume' ends the hold")


def resume(
    token: Annotated[
        list[str] | None, typer.Option("--token", help="of a hold that you have looked at; repeat it")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="I looked at the bedside: end every hold shown")] = False,
    config: ConfigFile = "desk",
    address: Address = "",
    stop_address: StopAddress = "",
    certs: Certs = "",
    as_json: AsJson = False,
) -> None:
    """Show the holds and what happens next; end them with --yes or with every --token."""
    with _client(config, address, stop_address, certs, as_json) as client:
        state = client.state()
        if not state.holds:
            _say(as_json, {"resumed": False, "reason": "NOT_HELD", "holds": []}, "nothing is held")
            raise typer.Exit(1)
        tokens = token or ([h.token for h in state.holds] if yes else [])
        if not as_json:
            _print_holds(state.holds)
        if not tokens:
            going_on = state.HasField("task")
            what = (
                f"looks and plans again from rest, then goes on: {state.task.instruction or 'movement'}"
                if going_on
                else "no task waits"
            )
            shown = {
                "resumed": False,
                "reason": "NOT_CONFIRMED",
                "holds": [_plain(h) for h in state.holds],
                "next": what,
            }
            _say(as_json, shown, f"Next: {escape(what)}. Look at the bedside, then 'wardarm resume --yes'.")
            raise typer.Exit(1)
        with _some_lease(client) as lease:
            answer = client.resume(tokens, lease)
            stay = lease is not None and answer.task_id  # nobody else watches over the task
            if not (as_json and stay):
                result = {"resumed": True, "task_id": answer.task_id}
                _say(as_json, result, f"{answer.text_zh}  {escape(answer.text_en)}")
            if stay:
                _run(client, as_json, lambda show: client.follow(answer.task_id, lease, show))


def attend(
    minutes: Annotated[float, typer.Option(help="from now on; at most guard.attended_max_min")] = 10,
    reason: Annotated[str, typer.Option("--reason", help="what for: it goes into the audit")] = "",
    actor: Annotated[str, typer.Option(help="who works there; default: this user")] = "",
    extend: Annotated[bool, typer.Option("--extend", help="it is in force, and shall last longer")] = False,
    end: Annotated[bool, typer.Option("--end", help="end it now")] = False,
    config: ConfigFile = "desk",
    address: Address = "",
    stop_address: StopAddress = "",
    certs: Certs = "",
    as_json: AsJson = False,
) -> None:
    """Somebody of the staff works beside the arm: it goes on, gently, for a limited time, instead of being held."""
    with _client(config, address, stop_address, certs, as_json) as client:
        if end:
            client.end_attended(actor)
            _say(
                as_json, {"success": True, "attended": None}, "attended mode ended: somebody in the zone holds the arm"
            )
            return
        with _some_lease(client) as lease:
            if extend:
                now = client.extend_attended(minutes, lease, actor)
            else:
                now = client.start_attended(reason, minutes, lease, actor)
        _say(as_json, {"success": True, "attended": _plain(now)}, escape(_attended(now)))


@contextmanager
def _some_lease(client: Client) -> Iterator[Any]:
    """A lease of our own, or None while another client's lives."""
    try:
        taken = client.lease()
        lease = taken.__enter__()
    except Refused as e:
        if e.reason != "LEASE_HELD":
            raise
        yield None
        return
    try:
        yield lease
    finally:
        taken.__exit__(None, None, None)


@contextmanager
def _client(config: str, address: str, stop_address: str, certs: str, as_json: bool) -> Iterator[Client]:
    """A client of the configured service; refusals end the command with status 1."""
    try:
        if address and stop_address:
            api = configuration.Api(address=address, stop_address=stop_address, tls=bool(certs), certs=certs)
        else:
            api = configuration.load(config).api
    except (configuration.ConfigError, ValueError) as e:
        err.print(f"[red]{escape(str(e))}[/]")
        raise typer.Exit(2) from e
    folder = certs or (api.certs if api.tls else "")
    name = f"{os.environ.get('USER') or 'terminal'}@cli"
    before = signal.signal(signal.SIGTERM, _end)
    try:
        with Client(address or api.address, stop_address or api.stop_address, folder or None, name) as client:
            yield client
    except Refused as e:
        _say(
            as_json,
            {"success": False, "reason": e.reason, "text": e.text, "details": e.metadata},
            f"[red]{e.reason}[/] {escape(e.text)}",
        )
        raise typer.Exit(1) from e
    except OSError as e:  # a certificate file
        err.print(f"[red]--certs {escape(folder)}: {escape(str(e))}[/]")
        raise typer.Exit(2) from e
    except KeyboardInterrupt as e:
        err.print("ended by Ctrl-C or SIGTERM; a task that it waited for was cancelled")
        raise typer.Exit(1) from e
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(_number: int, _frame: Any) -> NoReturn:
    """SIGTERM is Ctrl-C: the task is cancelled and the lease given back, instead of a hold for a client that went quiet."""
    raise KeyboardInterrupt


def _run(client: Client, as_json: bool, run: Callable[[Callable[[Any], None] | None], Any]) -> None:
    """Run a task with live progress and end with its result."""
    if as_json:
        task = run(None)
        print(json.dumps({"success": _succeeded(task), "task": _plain(task)}, ensure_ascii=False))
    else:
        with out.status("asking") as live:

            def show(event: Any) -> None:
                text = f"step {event.step_index + 1}: {event.text_zh}  {event.text_en}"
                live.update(escape(text) + (f"  {event.fraction:.0%}" if event.fraction else ""))
                out.print(f"[dim]{_clock(event.time)}[/] {escape(text)}")

            task = run(show)
        color = "green" if _succeeded(task) else "red"
        out.print(
            f"[{color}]{_name(task_pb2.TaskState, task.state, 'TASK_STATE_')}[/] {escape(task.text_zh)}  {escape(task.text_en)}"
        )
        for step in task.steps:
            out.print(
                f"  {_name(task_pb2.StepKind, step.kind, 'STEP_KIND_')} {escape(step.model_text)} {escape(step.reason)}",
                style="dim",
            )
    if not _succeeded(task):
        raise typer.Exit(1)


def _succeeded(task: Any) -> bool:
    return task.state in (task_pb2.TASK_STATE_DONE, task_pb2.TASK_STATE_CHECKED)


def _say(as_json: bool, value: dict[str, Any], text: str) -> None:
    if as_json:
        print(json.dumps(value, ensure_ascii=False))
    else:
        out.print(text)


def _show_holds(holds: Sequence[Any], as_json: bool, text: str) -> None:
    if not as_json:
        _print_holds(holds)
    _say(as_json, {"success": True, "holds": [_plain(h) for h in holds]}, text)


def _print_holds(holds: Sequence[Any]) -> None:
    for hold in holds:
        name = _name(hold_pb2.HoldReason, hold.reason, "HOLD_REASON_")
        stopped = "at rest" if hold.motion_confirmed_stopped else "not at rest yet"
        out.print(
            f"[yellow]{name}[/] since {_clock(hold.since)}, {stopped}, token {escape(hold.token)}: {escape(hold.detail)}"
        )
        out.print(f"  {hold.text_zh}\n  {escape(hold.text_en)}")


def _table(state: Any, info: Any) -> Table:
    table = Table(show_header=False, box=None)
    arm, age_ms = state.arm, state.arm.age.ToNanoseconds() * 1e-6
    x, y, z = list(arm.tcp_pose)[:3] or (0.0, 0.0, 0.0)
    table.add_row("bedside", "[yellow]simulated[/]" if info.simulated else "real")
    shown = (
        "[red]no data from the arm process[/]"
        if arm.stale
        else f"{_name(state_pb2.ArmState, arm.state, 'ARM_STATE_')} ({age_ms:.0f} ms ago)"
    )
    table.add_row("arm", shown)
    if not arm.stale:
        table.add_row(
            "tool", f"x {x * 1e3:.0f}  y {y * 1e3:.0f}  z {z * 1e3:.0f} mm, fingers {arm.grip_opening:.0%} open"
        )
    table.add_row("permit", "silent" if state.permit.stale else "on" if state.permit.signal_on else "off")
    table.add_row("task", escape(f"{state.task.text_zh}  {state.task.text_en}") if state.HasField("task") else "none")
    table.add_row("lease", escape(state.lease.client) or "nobody")
    table.add_row("room cameras", "on" if state.guard_enabled else "[yellow]off by configuration[/]")
    if state.HasField("attended"):
        table.add_row("attended", f"[yellow]{escape(_attended(state.attended))}[/]")
    table.add_row("spoken alert", escape(_alert(state.alert)))
    for word in state.words:
        said = (
            "ok"
            if word.ok
            else f"[red]{_name(hold_pb2.HoldReason, word.reason, 'HOLD_REASON_')}[/] {escape(word.detail)}"
        )
        table.add_row(_name(hold_pb2.ProcessName, word.process, "PROCESS_NAME_").lower(), said)
    for hold in state.holds:
        name = _name(hold_pb2.HoldReason, hold.reason, "HOLD_REASON_")
        table.add_row(f"[yellow]{name}[/]", f"{hold.text_zh}\n{escape(hold.text_en)}")
    table.add_row("model", f"{info.model.name} {info.model.sha256[:12] or '(no file)'}")
    table.add_row("limits", f"{info.limits.profile}: {info.limits.tcp_m_s} m/s, {info.limits.tcp_m_s2} m/s2")
    return table


def _attended(now: Any) -> str:
    left_s = now.remaining.ToNanoseconds() * 1e-9
    return f"by {now.actor} ({now.reason}) for {left_s / 60:.1f} more minutes: the arm goes gently"


def _alert(alert: Any) -> str:
    if not alert.enabled:
        return "off by configuration"
    why = f": {alert.last_failure}" if alert.failures else ""
    return f"{'there' if alert.running else 'NOT THERE'}, {alert.said} said, {alert.failures} sounds failed{why}"


def _line(state: Any) -> str:
    arm = "no data" if state.arm.stale else _name(state_pb2.ArmState, state.arm.state, "ARM_STATE_")
    holds = ", ".join(_name(hold_pb2.HoldReason, h.reason, "HOLD_REASON_") for h in state.holds) or "-"
    task = escape(f"{state.task.text_zh}  {state.task.text_en}") if state.HasField("task") else "no task"
    permit = "on" if state.permit.signal_on else "off"
    return f"[dim]{_clock(state.time)}[/] {arm}  permit {permit}  holds {holds}  {task}"


def _name(enum: Any, value: int, prefix: str) -> str:
    return str(enum.Name(value)).removeprefix(prefix)


def _clock(stamp: Any) -> str:
    return str(stamp.ToDatetime(UTC).astimezone().strftime("%H:%M:%S.%f")[:-3])


def _plain(message: Any) -> Any:
    """A message as JSON knows it, every field present, enums by name."""
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )

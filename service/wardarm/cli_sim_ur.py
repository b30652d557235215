"""`wardarm sim ur` and `wardarm sim inject`: the simulated robot as a product of its own."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated

import typer


def mount(sim_app: typer.Typer) -> None:
    forward = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    sim_app.command("ur", context_settings=forward)(sim_ur)
    sim_app.command("inject", context_settings={"ignore_unknown_options": True})(sim_inject)


def sim_ur(context: typer.Context) -> None:
    """A UR5e controller: URScript, RTDE, dashboard, streams, gripper. See `wardarm sim ur --help`."""
    os.execv(sys.executable, [sys.executable, "-m", "wardarm.sim.ur_controller", *context.args])


def _the_one(port: int) -> str:
    """Where the only simulated robot on 127.0.0.1 to 127.0.0.9 listens. Raises ControlError for none or several."""
    from wardarm.sim.control import ControlError, ask

    found = []
    for number in range(1, 10):
        address = f"127.0.0.{number}"
        try:
            ask(address, port, "state", timeout_s=2.0)
        except (ControlError, ValueError, TypeError):  # something else that answers, but not as a simulated robot
            continue
        found.append(address)
    if len(found) == 1:
        return found[0]
    if found:
        raise ControlError(f"several simulated robots answer: {', '.join(found)}; say which with --address")
    raise ControlError(
        f"no simulated robot answers on port {port} of 127.0.0.1 to 127.0.0.9; is 'wardarm sim ur' or 'wardarm sim"
        " bedside' running? Elsewhere: --address"
    )


def sim_inject(
    words: Annotated[list[str] | None, typer.Argument(help="NAME and its words; none: list what there is")] = None,
    address: Annotated[
        str | None, typer.Option(help="where the simulated robot listens; none: the one on 127.0.0.1 to 127.0.0.9")
    ] = None,
    port: Annotated[int, typer.Option(help="its control port")] = 30100,
) -> None:
    """Do something to a running simulated robot: protective, estop on, jog 0.1, force 0 0 -20, power_loss 3, ..."""
    from wardarm.sim.control import ControlError, ask
    from wardarm.sim.ur_controller.faults import INJECTIONS

    if not words:
        for name, (takes, does) in INJECTIONS.items():
            typer.echo(f"{name + ' ' + takes:<34} {does}")
        return
    try:
        if address is None:
            address = _the_one(port)
            typer.echo(f"the simulated robot on {address}", err=True)
        ask(address, port, "inject", *words)
        state = ask(address, port, "state")
    except ControlError as e:
        typer.echo(str(e), err=True)
        raise typer.Exit(1) from e
    shown = ("time_s", "robot_mode", "safety_mode", "reason", "runtime")
    typer.echo(json.dumps({key: state[key] for key in shown if key in state}))

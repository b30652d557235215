"""Talk to a running bedside: one command, one answer, on its control port.

    ask("127.0.0.1", 30100, "visitor", to="table")

The port takes words or one JSON object a line; `help` lists the commands. It is for injections and questions of the
demo, the evaluation and tests, and exists only in the simulation.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any


class ControlError(RuntimeError):
    """The simulation refused a command, or is not there."""


def ask(address: str, port: int, command: str, *words: Any, timeout_s: float = 5.0, **fields: Any) -> dict[str, Any]:
    """Send one command with words in order, or named fields. Raises ControlError with the reason."""
    request = {"command": command, "args": [*words, *([fields] if fields else [])]}
    try:
        with socket.create_connection((address, port), timeout=timeout_s) as s, s.makefile("rw", encoding="utf-8") as f:
            f.write(json.dumps(request) + "\n")
            f.flush()
            line = f.readline()
    except OSError as e:
        raise ControlError(
            f"{address}:{port}: nothing simulated answers ({e}); is 'wardarm sim ur' or 'wardarm sim bedside' running?"
        ) from e
    if not line:
        raise ControlError(f"{command}: the simulation closed the connection")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise ControlError(f"{command}: {answer['error']}")
    return answer


def _value(word: Any) -> Any:
    """A word typed by hand as what it looks like: on/off, a number, or text."""
    if not isinstance(word, str):
        return word
    if word.lower() in ("on", "true", "off", "false"):
        return word.lower() in ("on", "true")
    try:
        return float(word)
    except ValueError:
        return word


def worded(function: Callable[..., dict[str, Any] | None]) -> Callable[..., dict[str, Any] | None]:
    """A command that takes words in order, and named fields as a JSON object in last place."""

    def command(*args: Any) -> dict[str, Any] | None:
        fields: dict[str, Any] = {}
        if args and isinstance(args[-1], dict):
            *words, fields = args
        else:
            words = list(args)
        return function(*map(_value, words), **fields)

    command.__doc__ = function.__doc__
    return command

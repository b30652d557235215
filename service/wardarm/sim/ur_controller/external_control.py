"""The "External Control" program of Universal Robots' URCap: its text comes from a driver when it is played.

Source: Universal_Robots_ExternalControl_URCap and the `ScriptSender` of Universal_Robots_Client_Library: the robot connects
to the driver's script port (50002), sends `request_program` and is sent the program's text; the URCap reads on until
that pauses. ROS drivers and the client library's own programs are started so when they are not in headless mode.
"""

from __future__ import annotations

import re
import socket
import threading
from concurrent.futures import Future

PROGRAM = "external_control"
"""`load external_control.urp` on the dashboard, unless the folder of programs has a file of that name."""
PORT = 50002
_REQUEST = b"request_program\n"
_CONNECT_S, _PAUSE_S = 5.0, 0.5
_LONGEST = 4_000_000


def fetch(host: str, port: int) -> Future[str]:
    """The program, complete. The future's exception is an OSError that says what to do."""
    answer: Future[str] = Future()

    def ask() -> None:
        try:
            answer.set_result(_program(_ask(host, port)))
        except OSError as e:
            answer.set_exception(
                OSError(f"External Control: no program from {host}:{port} ({e}); is the driver running there?")
            )

    threading.Thread(target=ask, name="external-control", daemon=True).start()
    return answer


def _ask(host: str, port: int) -> str:
    with socket.create_connection((host, port), timeout=_CONNECT_S) as link:
        link.sendall(_REQUEST)
        text = bytearray()
        while len(text) < _LONGEST:
            try:
                piece = link.recv(65536)
            except TimeoutError:
                break  # the driver leaves the connection open: the end is a pause
            if not piece:
                break
            text += piece
            link.settimeout(_PAUSE_S)
    if not text.strip():
        raise OSError("it sent nothing")
    return text.decode("utf-8", "surrogateescape")


def _program(text: str) -> str:
    """A driver sends the program's body, as a program node contributes it; some send a whole program."""
    if re.match(r"\s*(#[^\n]*\n\s*)*def\s+\w+\(\)\s*:", text) and text.rstrip().endswith("end"):
        return text
    return f"def {PROGRAM}():\n{text}\nend\n"

"""What broke in a running program, in URScript's words and with the script's line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from wardarm.sim.urscript.errors import ScriptError

_KINDS = {
    "int": "number", "float": "number", "bool": "boolean", "str": "string", "Text": "string", "UrList": "list",
    "Pose": "pose", "Struct": "struct", "NoneType": "nothing", "Thread": "thread handle", "list": "list",
}  # fmt: skip
_QUOTED = re.compile(r"'([A-Za-z]+)'")


def explain(error: Exception, code: Mapping[str, Sequence[int]]) -> ScriptError:
    """`code`: file name of each compiled piece to the script's line of every Python line."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        lines = code.get(trace.tb_frame.f_code.co_filename)
        if lines is not None and trace.tb_lineno:
            line = lines[trace.tb_lineno - 1]
        trace = trace.tb_next
    if isinstance(error, ScriptError):
        return ScriptError(error.message, error.line or line)
    return ScriptError(_words(error), line)


def _words(error: Exception) -> str:
    text = str(error)
    if isinstance(error, IndexError):
        return "list index out of range"
    if isinstance(error, RecursionError):
        return "functions call each other too deeply"
    if isinstance(error, NameError):
        name = re.search(r"'(?:u|h\d+)_(\w+)'", text)
        return f"variable {name.group(1) if name else '?'!r} used before it has a value"
    if isinstance(error, AttributeError):
        kind, member = (*_QUOTED.findall(text), "?")[:1], re.search(r"'m_(\w+)'", text)
        what = _KINDS.get(kind[0], kind[0])
        return f"a {what} has no member {member.group(1)!r}" if member else text
    if isinstance(error, TypeError | ValueError | ArithmeticError | OverflowError):
        text = _QUOTED.sub(lambda m: f"{_KINDS.get(m.group(1), m.group(1))}", text)
        return re.sub(r"^[\w.<>]*\.(\w+)\(\)", r"\1()", text).replace("u_", "")
    return f"{type(error).__name__}: {text}"

"""URScript's string functions: strings are bytes there, an index counts bytes (URScript manual, module internals)."""

from __future__ import annotations

import re
from typing import Any

from wardarm.sim.urscript import ScriptError, Struct, Text, limited, to_text

_NUMBER = re.compile(r"\s*[+-]?(?:0[xX](?P<hex>[0-9a-fA-F]+)|(?P<float>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)|\d+)$")  # fmt: skip


def _bytes(src: Any, function: str) -> bytes:
    if not isinstance(src, str):
        raise ScriptError(f"{function} needs a string, not {to_text(src)}")
    return src.encode("latin-1", "replace")


def str_at(src: str, index: int) -> Text:
    data = _bytes(src, "str_at")
    if not 0 <= index < len(data):
        raise ScriptError(f"str_at: index {index} outside of {len(data)} characters")
    return Text(chr(data[index]))


def str_cat(op1: Any, op2: Any) -> Text:
    for operand in (op1, op2):
        if isinstance(operand, Struct):
            raise ScriptError("str_cat: a struct cannot be joined")
    return limited(to_text(op1) + to_text(op2))


def str_empty(str: str) -> bool:
    return len(_bytes(str, "str_empty")) == 0


def str_find(src: str, target: str, start_from: int = 0) -> int:
    return _bytes(src, "str_find").find(_bytes(target, "str_find"), start_from)


def str_len(str: str) -> int:
    return len(_bytes(str, "str_len"))


def str_sub(src: str, index: int, len: int | None = None) -> Text:
    data = _bytes(src, "str_sub")
    end = data.__len__()
    if not 0 <= index <= end or (len is not None and len < 0):
        raise ScriptError(f"str_sub: index {index}, len {len} outside of {end} characters")
    return Text(data[index : end if len is None else index + len].decode("latin-1"))


def to_num(str: str) -> float | int:
    match = _NUMBER.match(str)
    if match is None:
        raise ScriptError(f"to_num: {str!r} is no number")
    if match["float"]:
        return float(str)
    return int(str.strip(), 16) if match["hex"] else int(str)


def to_str(val: Any) -> Text:
    return limited(to_text(val))


TEXT_FUNCTIONS: dict[str, Any] = {
    function.__name__: function for function in (str_at, str_cat, str_empty, str_find, str_len, str_sub, to_num, to_str)
}

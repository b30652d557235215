"""What broke in a running program, in URScript's words and with the script's line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from wardarm.sim.urscript.errors import ScriptError

_KINDS = {
    "int": "number", "float": "number", "bool": "boolean", "str": "string", "Text": "string", "UrList": "list",
    "Pose": "pose", "Struct": "struct", "NoneType": "nothing", "Thread": "thread handle", "list": "list",
}  # fmt: skip
_KINDS_OF_INDEX = {"float": "float", "int": "number"}
_TERMS = [(re.compile(pattern), words) for pattern, words in (
    (r"list indices must be integers or slices, not (\w+)", "a list index must be an integer, not a {0}"),
    (r"string indices must be integers.*", "the characters of a string are read with str_at"),
    (r"must be real number, not (\w+)", "a number is needed, not a {0}"),
    (r"'(\w+)' object is not subscriptable", "a {0} has no elements"),
    (r"'(\w+)' object does not support item assignment", "the elements of a {0} cannot be assigned"),
    (r"'(\w+)' object is not iterable|object of type '(\w+)' has no len\(\)", "a list is needed, not a {0}{1}"),
    (r"'(\w+)' object cannot be interpreted as an integer", "an integer is needed, not a {0}"),
    (r"bad operand type for (?:unary |abs\(\))\S*: '(\w+)'", "a number or a list is needed, not a {0}"),
    (r"unsupported operand type\(s\) for (\S+): '(\w+)' and '(\w+)'", "'{0}' between a {1} and a {2}"),
    (r"'(\S+)' not supported between instances of '(\w+)' and '(\w+)'", "'{0}' between a {1} and a {2}"),
    (r"cannot convert float (?:NaN|infinity) to integer", "{function}: the number is not finite"),
    (r"math domain error|expected a .*input, got .*", "{function}: not defined for this number"),
    (r"(?:integer|float) (?:division or )?modulo by zero|float modulo", "division by zero"),
    (r"math range error", "{function}: the result is too large"),
)]  # fmt: skip
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
    return ScriptError(_words(error, _function(error)), line)


def _function(error: Exception) -> str:
    """The innermost function that broke: one of URScript's, if Python's mathematics refused its argument."""
    trace, name = error.__traceback__, ""
    while trace is not None:
        name, trace = trace.tb_frame.f_code.co_name, trace.tb_next
    return name


def _words(error: Exception, function: str) -> str:
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
        for pattern, words in _TERMS:
            if found := pattern.fullmatch(text):
                kinds = [_KINDS_OF_INDEX.get(k, _KINDS.get(k, k)) if k else "" for k in found.groups()]
                return words.format(*kinds, function=function).replace("a nothing", "nothing")
        text = _QUOTED.sub(lambda m: f"{_KINDS.get(m.group(1), m.group(1))}", text)
        return re.sub(r"^[\w.<>]*\.(\w+)\(\)", r"\1()", text).replace("u_", "")
    return f"{type(error).__name__}: {text}"

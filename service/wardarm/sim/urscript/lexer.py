"""Text to tokens. A newline ends a statement, except inside brackets and where a value must still follow."""

from __future__ import annotations

import re
from typing import NamedTuple

from wardarm.sim.urscript.errors import ScriptError


class Token(NamedTuple):
    kind: str  # int, float, text, pose, name, word, op, newline, eof
    text: str
    line: int


WORDS = frozenset(
    [
        "and",
        "break",
        "continue",
        "def",
        "elif",
        "else",
        "end",
        "enter_critical",
        "exit_critical",
        "global",
        "halt",
        "if",
        "join",
        "kill",
        "local",
        "not",
        "or",
        "pass",
        "return",
        "run",
        "sec",
        "struct",
        "thread",
        "while",
        "xor",
        "True",
        "False",
    ]
)
_TOKEN = re.compile(
    r"""
    (?P<float>\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
  | (?P<int>0[xX][0-9a-fA-F]+|\d+)
  | (?P<text>"[^"\n]*")
  | (?P<pose>p(?=\[))
  | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
  | (?P<op>==|!=|<=|>=|[-+*/%<>=(),:\[\].])
  | (?P<newline>\n)
  | (?P<skip>[ \t\r]+|\#[^\n]*|\$[^\n]*)
    """,
    re.VERBOSE | re.MULTILINE,
)


_ALONE = re.compile(r"[ \t\r]*(?:#[^\n]*)?(?:\n|$)")  # published programs use `pass` as a name, too


def tokens(source: str) -> list[Token]:
    """All tokens of a program, the last one `eof`. Raises ScriptError at a character that URScript does not know."""
    out: list[Token] = []
    position, line, depth = 0, 1, 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            raise ScriptError(f"unexpected character {source[position]!r}", line)
        kind, text = match.lastgroup or "", match.group()
        position = match.end()
        if kind == "newline":
            if depth == 0 and out and out[-1].kind != "newline":
                out.append(Token("newline", text, line))
            line += 1
            continue
        if kind == "skip":
            continue
        if kind == "name" and text in WORDS and (text != "pass" or _ALONE.match(source, position)):
            kind = "word"
        elif kind == "text":
            text = text[1:-1]
        elif kind == "op":
            depth += (text in "([") - (text in ")]")
        out.append(Token(kind, text, line))
    out.append(Token("newline", "\n", line))
    out.append(Token("eof", "", line))
    return out

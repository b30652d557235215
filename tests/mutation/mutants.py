"""One small change of a source text at a time: a comparison, a constant, a flag, a condition.

The same changes in three languages: Python by its syntax tree, URScript and C++ by their tokens (both are formatted
with blanks around comparisons). A mutant is a whole source text; nothing in the tree is ever changed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

_SHIFTED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
_TURNED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "is": "is not", "is not": "is", "in": "not in", "not in": "in"}
_NUMBER = r"(?<![\w.])(?:0x[0-9a-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?)(?![\w.])"


@dataclass(frozen=True, slots=True)
class Mutant:
    """`line` counts from 1; `begin`: where it differs. `key` outlives edits elsewhere in the file: the line's text, what was there, what is there."""

    file: str
    line: int
    begin: int
    key: str
    source: str


def _mutant(file: str, source: str, begin: int, end: int, text: str) -> Mutant:
    head = source.rfind("\n", 0, begin) + 1
    tail = source.find("\n", end)
    row = source[head : tail if tail >= 0 else len(source)]
    before = source[head:begin].lstrip()
    place = "" if row.count(source[begin:end]) == 1 else f" (after {before[-12:]!r})"
    key = f"{' '.join(row.split())} | {' '.join(source[begin:end].split())} -> {text}{place}"
    return Mutant(file, source.count("\n", 0, begin) + 1, begin, key, source[:begin] + text + source[end:])


def _told_apart(mutants: list[Mutant]) -> list[Mutant]:
    """Equal lines have equal keys: from the second on they get a number."""
    seen: dict[str, int] = {}
    out = []
    for m in mutants:
        seen[m.key] = seen.get(m.key, 0) + 1
        out.append(m if seen[m.key] == 1 else replace(m, key=f"{m.key} (no. {seen[m.key]})"))
    return out


def _numbers(text: str) -> tuple[str, ...]:
    """What a number is replaced by: its neighbours, or the half and the double."""
    if text.startswith("0x"):
        return (hex(int(text, 16) >> 1), hex(int(text, 16) + 1))
    if text.startswith("0o"):
        return (oct(int(text, 8) >> 1), oct(int(text, 8) + 1))
    if re.fullmatch(r"\d+", text):
        return (str(int(text) + 1), f"-{1}" if int(text) == 0 else str(int(text) - 1))
    value = float(text)
    return ("1.0", "-1.0") if value == 0.0 else (repr(value * 2), repr(value / 2))


# --- Python


class _Places(ast.NodeVisitor):
    """Begin, end and replacement of every mutation in a module; annotations, docstrings and `__all__` are left out."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines = [0]
        for row in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(row))
        self.found: list[tuple[int, int, str]] = []

    def at(self, line: int, column: int) -> int:
        row = self.source[self.lines[line - 1] :].encode()[:column]
        return self.lines[line - 1] + len(row.decode())

    def span(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def text(self, node: ast.expr) -> str:
        begin, end = self.span(node)
        return self.source[begin:end]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_arg(self, node: ast.arg) -> None:
        """Annotations decide nothing."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for part in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None), *node.body):
            self.visit(part)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            self.visit(part)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """The text of an error decides nothing; that it is raised does."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """A text for people."""

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for right in node.comparators:
            begin, end = self.span(left)[1], self.span(right)[0]
            found = re.search(r"<=|>=|==|!=|<|>|is not|is|not in|in", self.source[begin:end])
            assert found is not None
            op = found.group()
            for other in sorted(o for o in (_SHIFTED.get(op), _TURNED.get(op)) if o is not None):
                self.found.append((begin + found.start(), begin + found.end(), str(other)))
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for i in range(len(node.values)):
            begin, end = self.span(node)
            rest = [f"({self.text(v)})" for k, v in enumerate(node.values) if k != i]
            word = " and " if isinstance(node.op, ast.And) else " or "
            self.found.append((begin, end, f"({word.join(rest)})"))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.found.append((*self.span(node), f"({self.text(node.operand)})"))
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        self.turn(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.turn(node.test)
        self.generic_visit(node)

    def turn(self, test: ast.expr) -> None:
        """A bare flag as a condition; a comparison has its own mutants."""
        if not isinstance(test, ast.Compare) and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            self.found.append((*self.span(test), f"(not ({self.text(test)}))"))

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and isinstance(node.value, ast.Compare | ast.BoolOp):
            self.found.append((*self.span(node.value), f"not ({self.text(node.value)})"))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.found.append((*self.span(node), str(not value)))
        elif isinstance(value, int | float):
            self.found += [(*self.span(node), text) for text in _numbers(self.text(node))]


def python_mutants(file: str, source: str) -> list[Mutant]:
    """Every mutant of a Python module, in the order of the text."""
    places = _Places(source)
    places.visit(ast.parse(source))
    return _told_apart([_mutant(file, source, *place) for place in sorted(set(places.found))])


# --- URScript and C++


def _tokens(row: str, logic: dict[str, str], flags: dict[str, str]) -> Iterator[tuple[int, int, str]]:
    for found in re.finditer(r"(?<= )(<=|>=|==|!=|<|>)(?= )", row):
        for other in sorted(o for o in (_SHIFTED[found.group()], _TURNED.get(found.group())) if o is not None):
            yield found.start(), found.end(), str(other)
    for found in re.finditer(_NUMBER, row):
        for text in _numbers(found.group()):
            yield found.start(), found.end(), text
    for word, other in (*logic.items(), *flags.items()):
        pattern = re.escape(word)
        if word[0].isalpha():
            pattern = rf"(?<!\w){pattern}" + ("" if word.endswith(" ") else r"(?!\w)")
        elif word == "!":
            pattern = "!(?!=)"
        for found in re.finditer(pattern, row):
            yield found.start(), found.end(), other


URSCRIPT = ({"and": "or", "or": "and", "not ": ""}, {"True": "False", "False": "True"})
CPP = ({"&&": "||", "||": "&&", "!": ""}, {"true": "false", "false": "true"})


def text_mutants(
    file: str, source: str, language: tuple[dict[str, str], dict[str, str]], begin: str, end: str, comment: str
) -> list[Mutant]:
    """Mutants of the lines from the first that holds `begin` up to the next that holds `end`, which stays.

    Comments and texts in quotes are left alone. Raises ValueError if there are no such lines.
    """
    first = source.index(begin)
    last = source.index(end, first + len(begin))
    out, at = [], source.rfind("\n", 0, first) + 1
    for row in source[at:last].splitlines(keepends=True):
        code = row.split(comment)[0]
        quoted = [f.span() for f in re.finditer(r'"(?:[^"\\]|\\.)*"', code)]
        for b, e, text in _tokens(code, *language):
            if not any(qb <= b < qe for qb, qe in quoted):
                out.append(_mutant(file, source, at + b, at + e, text))
        at += len(row)
    return _told_apart(out)

"""Long chains of operators of one strength, `a + b - c + ...`: flat, because Python nests parentheses 200 deep at most."""

from __future__ import annotations

from collections.abc import Callable
from operator import add, mod, mul, sub, truediv
from typing import Any

from wardarm.sim.urscript.tree import Binary, Expr
from wardarm.sim.urscript.values import int32

LONG = 16
"""Operands from which a sum or product is computed in a call, `_chain`: slower than in place, but flat."""
_STRENGTH = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "and": 3, "or": 4}
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {"+": add, "-": sub, "*": mul, "/": truediv, "%": mod}


def chain(e: Binary) -> tuple[list[Expr], list[str]]:
    """The operands of a chain from left to right, and the operators between them."""
    strength = _STRENGTH.get(e.op, 0)
    operands: list[Expr] = []
    operators: list[str] = []
    left: Expr = e
    while isinstance(left, Binary) and strength and _STRENGTH.get(left.op) == strength:
        operands.append(left.right)
        operators.append(left.op)
        left = left.left
    return [left, *reversed(operands)], operators[::-1]


def compute(operators: str, value: Any, *operands: Any) -> Any:
    """From left to right, each result checked for the 32 bits of an integer."""
    for operator, operand in zip(operators, operands, strict=True):
        value = int32(_OPERATORS[operator](value, operand))
    return value


def deepest(text: str) -> int:
    """The line, from 1, of Python text that nests deepest: brackets, then blocks."""

    def depth(line: str) -> tuple[int, int]:
        now = most = 0
        for character in line:
            now += (character in "([") - (character in ")]")
            most = max(most, now)
        return most, len(line) - len(line.lstrip())

    lines = text.split("\n")
    return 1 + max(range(len(lines)), key=lambda i: depth(lines[i]))

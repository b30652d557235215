"""The table of every hold in docs/faults.md, made from the words that people hear: `python -m wardarm.api.hold_table`."""

from __future__ import annotations

from wardarm.alert.words import words
from wardarm.shm.layouts import HoldReason

HEAD = "| reason | 发生了什么 | 谁可以解除，怎样解除 | what happened | who ends it, and how |\n|---|---|---|---|---|"


def row(reason: HoldReason) -> str:
    """One line of the table."""
    zh, en = words(reason, "zh"), words(reason, "en")
    return f"| {reason.name} | {zh.what} | {zh.who}{zh.how} | {en.what} | {en.who} {en.how} |"


def table() -> str:
    """All reasons but NONE, in the order of their numbers."""
    return "\n".join([HEAD, *(row(reason) for reason in HoldReason if reason is not HoldReason.NONE)])


if __name__ == "__main__":
    print(table())

"""What can go wrong in a URScript program, always with the line of the script."""

from __future__ import annotations


class ScriptError(Exception):
    """A program that cannot be compiled or that stopped while running. `line` counts from 1; 0 = unknown."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.line = line

    def __reduce__(self) -> tuple[type[ScriptError], tuple[str, int]]:
        return type(self), (self.message, self.line)

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}" if self.line else self.message


class ScriptSyntaxError(ScriptError):
    """Text that is no URScript."""


class UnknownName(ScriptError):
    """A function or variable that nothing defines: `name`."""

    def __init__(self, message: str, line: int, name: str) -> None:
        super().__init__(message, line)
        self.name = name

    def __reduce__(self) -> tuple[type[UnknownName], tuple[str, int, str]]:  # type: ignore[override]
        return type(self), (self.message, self.line, self.name)

"""The parsed program: plain nodes, each with the line it came from."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Expr:
    line: int


@dataclass
class Literal(Expr):
    value: int | float | bool | str


@dataclass
class Name(Expr):
    id: str


@dataclass
class Index(Expr):
    value: Expr
    indices: list[Expr]


@dataclass
class Call(Expr):
    function: str
    args: list[Expr]
    named: dict[str, Expr]


@dataclass
class Member(Expr):
    """`value.name` of a struct."""

    value: Expr
    name: str


@dataclass
class Struct(Expr):
    """`struct(name = value, ...)`."""

    members: dict[str, Expr]


@dataclass
class Method(Expr):
    value: Expr
    name: str
    args: list[Expr]


@dataclass
class Items(Expr):
    items: list[Expr]
    pose: bool


@dataclass
class Unary(Expr):
    op: str
    value: Expr


@dataclass
class Binary(Expr):
    op: str
    left: Expr
    right: Expr


@dataclass
class Run(Expr):
    """`run name(...)`: start a thread, its value is the handle."""

    function: str
    args: list[Expr]


@dataclass
class Stmt:
    line: int


@dataclass
class Assign(Stmt):
    target: Name | Index | Member
    value: Expr
    scope: str  # "", "global" or "local"


@dataclass
class Do(Stmt):
    value: Expr


@dataclass
class If(Stmt):
    branches: list[tuple[Expr, list[Stmt]]]
    otherwise: list[Stmt]


@dataclass
class While(Stmt):
    condition: Expr
    body: list[Stmt]


@dataclass
class Return(Stmt):
    value: Expr | None


@dataclass
class Simple(Stmt):
    """break, continue, pass, halt, enter_critical, exit_critical."""

    word: str


@dataclass
class OnThread(Stmt):
    """`kill handle` or `join handle`."""

    word: str
    handle: Expr


@dataclass
class Define(Stmt):
    name: str
    parameters: list[tuple[str, Expr | None]]
    body: list[Stmt]
    thread: bool


@dataclass
class Script:
    """`secondary`: a `sec` program, which runs beside the main one and takes no physical time."""

    name: str
    secondary: bool
    body: list[Stmt] = field(default_factory=list)

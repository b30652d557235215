"""Tokens to a tree. One function a rule, in the order of the grammar."""

from __future__ import annotations

from wardarm.sim.urscript.errors import ScriptError, ScriptSyntaxError
from wardarm.sim.urscript.lexer import Token, tokens
from wardarm.sim.urscript.tree import (
    Assign,
    Binary,
    Call,
    Define,
    Do,
    Expr,
    If,
    Index,
    Items,
    Literal,
    Member,
    Method,
    Name,
    OnThread,
    Return,
    Run,
    Script,
    Simple,
    Stmt,
    Struct,
    Unary,
    While,
)
from wardarm.sim.urscript.values import INT_MAX, INT_MIN

_POSE = 6  # numbers of a pose
_BLOCK_END = frozenset({"end", "elif", "else"})
_SIMPLE = frozenset({"break", "continue", "pass", "halt", "enter_critical", "exit_critical"})
# Binding strength, weakest first. URScript has one comparison level and does not chain comparisons.
_LEVELS: tuple[frozenset[str], ...] = (
    frozenset({"or", "xor"}),
    frozenset({"and"}),
    frozenset({"==", "!=", "<", ">", "<=", ">="}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)


def parse(source: str, bare: bool = False) -> Script:
    """A whole program, or bare statements (then its name is `main`). Raises ScriptSyntaxError.

    `bare`: statements, even if there is only one definition.
    """
    try:
        parser = _Parser(tokens(source))
        try:
            return parser.script(bare)
        except RecursionError:
            raise ScriptError("nested too deeply", parser.here.line) from None
        except IndexError:
            raise ScriptError("the program ends in the middle of a statement", parser.stream[-1].line) from None
    except ScriptError as e:
        raise ScriptSyntaxError(e.message, e.line) from None


def _is_place(value: Expr) -> bool:
    while isinstance(value, Index | Member):
        value = value.value
    return isinstance(value, Name)


class _Parser:
    def __init__(self, stream: list[Token]) -> None:
        self.stream, self.at = stream, 0

    # --- tokens
    @property
    def here(self) -> Token:
        return self.stream[self.at]

    def take(self) -> Token:
        token = self.stream[self.at]
        self.at += 1
        return token

    def has(self, text: str) -> bool:
        return self.here.text == text and self.here.kind in ("op", "word")

    def expect(self, text: str) -> Token:
        if not self.has(text):
            raise ScriptError(
                f"expected {text!r}, found {self.here.text.strip() or 'the end of the line'!r}", self.here.line
            )
        return self.take()

    def name(self) -> str:
        token = self.take()
        if token.kind not in ("name", "pose"):
            raise ScriptError(f"expected a name, found {token.text.strip()!r}", token.line)
        return token.text

    def newlines(self) -> None:
        while self.here.kind == "newline":
            self.at += 1

    # --- statements
    def script(self, bare: bool) -> Script:
        self.newlines()
        if not bare and (self.has("def") or self.has("sec")):
            start = self.at
            secondary = self.take().text == "sec"
            script = Script(self.name(), secondary)
            self.expect("(")
            self.expect(")")
            self.expect(":")
            script.body = self.block()
            self.expect("end")
            self.newlines()
            if self.here.kind == "eof":
                return script
            self.at = start  # several definitions in a row: statements of a bare program
        script = Script("main", False)
        script.body = self.block()
        if self.here.kind != "eof":
            raise ScriptError(f"{self.here.text!r} without a block to end", self.here.line)
        return script

    def block(self) -> list[Stmt]:
        """Statements up to `end`, `elif`, `else`. Two may share a line: ur_rtde's own script relies on that."""
        body: list[Stmt] = []
        while True:
            self.newlines()
            if self.here.kind == "eof" or (self.here.kind == "word" and self.here.text in _BLOCK_END):
                return body
            body.append(self.statement())

    def closed_block(self) -> list[Stmt]:
        self.expect(":")
        body = self.block()
        self.expect("end")
        return body

    def statement(self) -> Stmt:
        token = self.here
        line = token.line
        if token.kind == "word":
            if token.text in ("def", "thread"):
                return self.define()
            if token.text == "if":
                return self.branches()
            if token.text == "while":
                self.take()
                return While(line, self.expr(), self.closed_block())
            if token.text == "return":
                self.take()
                ends = self.here.kind == "newline" or self.has("end")
                return Return(line, None if ends else self.expr())
            if token.text in _SIMPLE:
                self.take()
                return Simple(line, token.text)
            if token.text in ("kill", "join"):
                self.take()
                return OnThread(line, token.text, self.expr())
        scope = self.take().text if token.kind == "word" and token.text in ("global", "local") else ""
        value = self.expr()
        if self.has("="):
            self.take()
            self.newlines()
            if not isinstance(value, Name | Index | Member) or not _is_place(value):
                raise ScriptError("only a variable, an element or a member of one can be assigned", line)
            return Assign(line, value, self.expr(), scope)
        if scope:
            raise ScriptError(f"{scope} needs an assignment", line)
        return Do(line, value)

    def define(self) -> Define:
        line = self.here.line
        thread = self.take().text == "thread"
        name = self.name()
        self.expect("(")
        parameters: list[tuple[str, Expr | None]] = []
        while not self.has(")"):
            parameter, default = self.name(), None
            if self.has("="):
                self.take()
                default = self.expr()
            if any(parameter == other for other, _ in parameters):
                raise ScriptError(f"parameter {parameter} is there twice", line)
            if default is None and parameters and parameters[-1][1] is not None:
                raise ScriptError(f"parameter {parameter} without a default after one with a default", line)
            parameters.append((parameter, default))
            if not self.has(")"):
                self.expect(",")
        if thread and parameters:
            raise ScriptError(f"thread {name} cannot take parameters", line)
        self.expect(")")
        return Define(line, name, parameters, self.closed_block(), thread)

    def branches(self) -> If:
        line = self.take().line
        branches: list[tuple[Expr, list[Stmt]]] = []
        condition = self.expr()
        self.expect(":")
        branches.append((condition, self.block()))
        while self.has("elif"):
            self.take()
            condition = self.expr()
            self.expect(":")
            branches.append((condition, self.block()))
        otherwise: list[Stmt] = []
        if self.has("else"):
            self.take()
            self.expect(":")
            otherwise = self.block()
        self.expect("end")
        return If(line, branches, otherwise)

    # --- expressions
    def expr(self, level: int = 0) -> Expr:
        if level == 2 and self.has("not"):
            line = self.take().line
            return Unary(line, "not", self.expr(2))
        if level == len(_LEVELS):
            return self.unary()
        left = self.expr(level + 1)
        while self.here.kind in ("op", "word") and self.here.text in _LEVELS[level]:
            token = self.take()
            self.newlines()
            left = Binary(token.line, token.text, left, self.expr(level + 1))
        return left

    @staticmethod
    def integer(token: Token, sign: int = 1) -> int:
        text = token.text
        value = sign * (int(text, 16) if text[:2] in ("0x", "0X") else int(text))
        if not INT_MIN <= value <= INT_MAX:
            raise ScriptError(f"{text} is beyond the 32 bits of an integer ({INT_MIN} to {INT_MAX})", token.line)
        return value

    def unary(self) -> Expr:
        if self.has("-") or self.has("+"):
            token = self.take()
            if token.text == "-" and self.here.kind == "int":
                return Literal(token.line, self.integer(self.take(), -1))
            return Unary(token.line, token.text, self.unary())
        if self.has("not"):
            token = self.take()
            return Unary(token.line, "not", self.unary())
        return self.postfix()

    def postfix(self) -> Expr:
        value = self.primary()
        while True:
            if self.has("("):
                if not isinstance(value, Name):
                    raise ScriptError("only a named function can be called", self.here.line)
                args, named = self.arguments()
                value = Call(value.line, value.id, args, named)
            elif self.has("["):
                line = self.take().line
                indices = [self.expr()]
                while self.has(","):
                    self.take()
                    indices.append(self.expr())
                self.expect("]")
                value = Index(line, value, indices)
            elif self.has("."):
                line = self.take().line
                method = self.take().text if self.here.kind == "word" else self.name()
                if not self.has("("):
                    value = Member(line, value, method)
                    continue
                args, named = self.arguments()
                if named:
                    raise ScriptError(f"{method}() takes no named arguments", line)
                value = Method(line, value, method, args)
            else:
                return value

    def arguments(self) -> tuple[list[Expr], dict[str, Expr]]:
        self.expect("(")
        args: list[Expr] = []
        named: dict[str, Expr] = {}
        while not self.has(")"):
            ahead = self.stream[self.at + 1]
            if self.here.kind in ("name", "word") and ahead.kind == "op" and ahead.text == "=":
                name = self.take().text
                self.take()
                if name in named:
                    raise ScriptError(f"{name} is given twice", ahead.line)
                named[name] = self.expr()
            elif named:
                raise ScriptError("a positional argument after a named one", self.here.line)
            else:
                args.append(self.expr())
            if not self.has(")"):
                self.expect(",")
        self.expect(")")
        return args, named

    def items(self) -> list[Expr]:
        self.expect("[")
        items: list[Expr] = []
        while not self.has("]"):
            items.append(self.expr())
            if not self.has("]"):
                self.expect(",")
        self.expect("]")
        return items

    def primary(self) -> Expr:
        token = self.here
        line = token.line
        if token.kind == "pose":
            self.take()
            items = self.items()
            if items and len(items) != _POSE:  # six numbers are a pose, others index a variable of that name
                return Index(line, Name(line, token.text), items)
            return Items(line, items, True)
        if token.kind in ("name", "pose"):
            self.take()
            return Name(line, token.text)
        if token.kind == "int":
            self.take()
            return Literal(line, self.integer(token))
        if token.kind == "float":
            self.take()
            return Literal(line, float(token.text))
        if token.kind == "text":
            self.take()
            return Literal(line, token.text)
        if token.kind == "word":
            if token.text in ("True", "False"):
                self.take()
                return Literal(line, token.text == "True")
            if token.text == "struct":
                self.take()
                args, members = self.arguments()
                if args or not members:
                    raise ScriptError("struct needs members: struct(name = value, ...)", line)
                return Struct(line, members)
            if token.text == "run":
                self.take()
                name = self.name()
                args, _ = self.arguments()
                return Run(line, name, args)
        if self.has("["):
            return Items(line, self.items(), False)
        if self.has("("):
            self.take()
            value = self.expr()
            self.expect(")")
            return value
        raise ScriptError(f"unexpected {token.text.strip() or 'end of line'!r}", line)

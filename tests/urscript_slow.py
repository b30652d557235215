"""A second interpreter of URScript, for tests: slow, direct, written from the manual and docs/sim_ur.md alone.

It has no parser: programs are trees of tuples, which `printed` turns into text for the real one. It walks the tree with
Python generators; a `yield` is the end of a thread's slice. Nothing is shared with `wardarm.sim.urscript`.

    expressions  ("num", v) ("bool", v) ("text", v) ("name", n) ("list", [e..]) ("pose", [e..]) ("struct", {n: e})
                 ("index", e, [e..]) ("member", e, n) ("un", op, e) ("bin", op, e, e) ("call", n, [e..], {n: e})
                 ("method", e, n, [e..]) ("run", n, [e..])
    statements   ("let", scope, place, e) ("do", e) ("if", [(e, [s..])..], [s..]) ("while", e, [s..]) ("return", e)
                 ("word", w) ("kill", e) ("join", e) ("def", n, [(n, e or None)..], [s..]) ("thread", n, [..], [s..])
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

Node = tuple[Any, ...]
STRENGTH = {"or": 1, "xor": 1, "and": 2, "==": 3, "!=": 3, "<": 3, ">": 3, "<=": 3, ">=": 3, "+": 4, "-": 4, "*": 5, "/": 5, "%": 5}  # fmt: skip


# ---------------------------------------------------------------- text
def text_of(e: Node, least: int = 0) -> str:
    """An expression with as few parentheses as the language allows."""
    match e:
        case ("num", v) if v < 0:
            return f"({v!r})"
        case ("num" | "bool", v):
            return repr(v)
        case ("text", v):
            return f'"{v}"'
        case ("name", n):
            return str(n)
        case ("list", items):
            return "[" + ", ".join(map(text_of, items)) + "]"
        case ("pose", items):
            return "p[" + ",".join(map(text_of, items)) + "]"
        case ("struct", members):
            return "struct(" + ", ".join(f"{n} = {text_of(v)}" for n, v in members.items()) + ")"
        case ("index", base, indices):
            return f"{text_of(base)}[{', '.join(map(text_of, indices))}]"
        case ("member", base, n):
            return f"{text_of(base)}.{n}"
        case ("un", "not", value):
            inner = f"not {text_of(value, 3)}"
            return f"({inner})" if least > 3 else inner
        case ("un", op, value):
            return f"{op}{text_of(value, 6)}"
        case ("bin", op, left, right):
            own = STRENGTH[op]
            inner = f"{text_of(left, own + (own == 3))} {op} {text_of(right, own + 1)}"
            return f"({inner})" if own < least else inner
        case ("call", n, args, named):
            parts = [*map(text_of, args), *(f"{k}={text_of(v)}" for k, v in named.items())]
            return f"{n}({', '.join(parts)})"
        case ("method", base, n, args):
            return f"{text_of(base)}.{n}({', '.join(map(text_of, args))})"
        case ("run", n, args):
            return f"run {n}({', '.join(map(text_of, args))})"
    raise AssertionError(e)


def printed(body: list[Node], lines: dict[int, int]) -> str:
    """The program's text. `lines` gets the line of every statement and every branch, by `id`."""
    out = ["def generated():"]

    def block(statements: list[Node], depth: int) -> None:
        if not statements:
            out.append("  " * depth + "pass")
        for s in statements:
            lines[id(s)] = len(out) + 1
            statement(s, "  " * depth, depth)

    def statement(s: Node, pad: str, depth: int) -> None:
        match s:
            case ("let", scope, place, value):
                out.append(f"{pad}{scope + ' ' if scope else ''}{text_of(place)} = {text_of(value)}")
            case ("do", value):
                out.append(pad + text_of(value))
            case ("if", branches, otherwise):
                for i, branch in enumerate(branches):
                    lines[id(branch)] = len(out) + 1
                    out.append(f"{pad}{'elif' if i else 'if'} {text_of(branch[0])}:")
                    block(branch[1], depth + 1)
                if otherwise:
                    out.append(pad + "else:")
                    block(otherwise, depth + 1)
                out.append(pad + "end")
            case ("while", condition, inner):
                out.append(f"{pad}while {text_of(condition)}:")
                block(inner, depth + 1)
                out.append(pad + "end")
            case ("return", value):
                out.append(f"{pad}return {text_of(value)}")
            case ("word", word):
                out.append(pad + word)
            case ("kill" | "join", handle):
                out.append(f"{pad}{s[0]} {text_of(handle)}")
            case ("def" | "thread", name, parameters, inner):
                texts = [n if d is None else f"{n}={text_of(d)}" for n, d in parameters]
                out.append(f"{pad}{s[0]} {name}({', '.join(texts)}):")
                block(inner, depth + 1)
                out.append(pad + "end")
            case _:
                raise AssertionError(s)

    block(body, 1)
    out.append("end")
    return "\n".join(out) + "\n"


# ---------------------------------------------------------------- meaning
class Broken(Exception):
    """A runtime error; `line` of the script."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}")
        self.line = line


class _Return(Exception):
    pass


class _Loop(Exception):
    pass


class _Halted(Exception):
    pass


class Box:
    """A list of fixed capacity, a pose or a struct: something with parts, copied by assignment."""

    def __init__(self, kind: str, parts: Any, capacity: int = 0) -> None:
        self.kind, self.parts = kind, parts
        self.capacity = capacity if capacity else len(parts)

    def copied(self) -> Box:
        if self.kind == "struct":
            return Box("struct", {n: value_of(v) for n, v in self.parts.items()})
        return Box(self.kind, [value_of(v) for v in self.parts], self.capacity)

    def same(self, other: Any) -> bool:
        if not isinstance(other, Box) or (self.kind == "struct") != (other.kind == "struct"):
            return False
        if self.kind == "struct":
            return self.parts.keys() == other.parts.keys() and all(
                equal(v, other.parts[n]) for n, v in self.parts.items()
            )
        return len(self.parts) == len(other.parts) and all(map(equal, self.parts, other.parts))


def value_of(v: Any) -> Any:
    return v.copied() if isinstance(v, Box) else v


def equal(a: Any, b: Any) -> bool:
    return a.same(b) if isinstance(a, Box) else bool(a == b)


def shown(v: Any) -> str:
    if isinstance(v, Box):
        if v.kind == "struct":
            return "struct(" + ", ".join(f"{n}={shown(x)}" for n, x in v.parts.items()) + ")"
        return ("p[" if v.kind == "pose" else "[") + ", ".join(map(shown, v.parts)) + "]"
    if isinstance(v, float):
        whole = f"{v:.6f}"
        while whole.endswith("0"):
            whole = whole[:-1]
        whole = whole.removesuffix(".")
        return "0" if whole == "-0" else whole
    return str(v)


class Thread:
    def __init__(self, name: str, steps: Iterator[None]) -> None:
        self.name, self.steps, self.dead = name, steps, False


class Slow:
    """Runs a tree. `said`: (cycle, what, value) of every register write and message, in order."""

    def __init__(self, body: list[Node], lines: dict[int, int]) -> None:
        self.body, self.lines = body, lines
        self.functions: dict[str, Node] = {}
        self.declared: set[str] = set()
        self._collect(body)
        self.globals: dict[str, Any] = {}
        self.declared |= {s[2][1] for s in _all(body) if s[0] == "let" and s[2][0] == "name"}
        self.said: list[tuple[int, str, Any]] = []
        self.ints, self.floats = [0] * 48, [0.0] * 48
        self.cycle = 0
        self.line = 0
        self.broken: Broken | None = None
        self.now: Thread | None = None
        self.threads = [Thread("main", self._block(body, None))]

    def _collect(self, body: list[Node]) -> None:
        for s in _all(body):
            if s[0] in ("def", "thread"):
                self.functions[s[1]] = s
                self._collect(s[3])
            elif s[0] == "let" and s[1] == "global":
                self.declared.add(s[2][1])

    def run(self, cycles: int) -> None:
        main = self.threads[0]
        while self.cycle < cycles:
            self.cycle += 1
            for thread in self.threads:  # grows while it runs
                if thread.dead:
                    continue
                self.now = thread
                try:
                    next(thread.steps)
                except (StopIteration, _Return):
                    thread.dead = True
                except _Halted:
                    return
                except Broken as e:
                    self.broken = e
                    return
            self.threads = [t for t in self.threads if not t.dead]
            if main.dead:
                return

    # --- statements: `scope` is a function's own names, None in the main body
    def _block(self, body: list[Node], scope: dict[str, Any] | None) -> Iterator[None]:
        for s in body:
            yield from self._statement(s, scope)

    def _statement(self, s: Node, scope: dict[str, Any] | None) -> Iterator[None]:
        line = self.lines[id(s)]
        match s:
            case ("let", word, place, e):
                value = value_of((yield from self._value(e, scope, line)))
                yield from self._put(word, place, value, scope, line)
            case ("do", e):
                yield from self._value(e, scope, line)
            case ("if", branches, otherwise):
                for branch in branches:
                    at = self.lines[id(branch)]
                    if (yield from self._truth(branch[0], scope, at)):
                        yield from self._block(branch[1], scope)
                        return
                yield from self._block(otherwise, scope)
            case ("while", e, inner):
                while (yield from self._truth(e, scope, line)):
                    try:
                        yield from self._block(inner, scope)
                    except _Loop as leap:
                        if leap.args[0] == "break":
                            break
            case ("return", e):
                raise _Return(value_of((yield from self._value(e, scope, line))))
            case ("word", "break" | "continue" as word):
                raise _Loop(word)
            case ("word", "halt"):
                raise _Halted
            case ("word", "enter_critical" | "exit_critical"):
                pass  # matters to a thread that computes beyond its slice only, and these programs do not
            case ("word", "pass"):
                pass
            case ("join", e):
                thread = yield from self._value(e, scope, line)
                while not thread.dead:
                    yield
            case ("kill", e):
                thread = yield from self._value(e, scope, line)
                thread.dead = True
                if thread is self.now:
                    raise _Return(None)
            case ("def" | "thread", *_):
                pass
            case _:
                raise AssertionError(s)

    def _space(self, name: str, scope: dict[str, Any] | None, word: str = "") -> dict[str, Any]:
        """Where a name lives: the global one if there is one, else local."""
        if scope is None or word == "global":
            return self.globals
        if word == "local" or name in scope:
            return scope
        return self.globals if name in self.declared and name not in scope else scope

    def _put(self, word: str, place: Node, value: Any, scope: dict[str, Any] | None, line: int) -> Iterator[None]:
        match place:
            case ("name", name):
                space = self._space(name, scope, word)
                old = None if space is scope and name in scope.get("", ()) else space.get(name)  # not of parameters
                if isinstance(old, Box) and isinstance(value, Box) and old.kind == value.kind == "list":
                    if len(value.parts) > old.capacity:
                        raise Broken(line)
                    value.capacity = old.capacity
                space[name] = value
            case ("index", base, indices):
                box = yield from self._value(base, scope, line)
                for e in indices[:-1]:
                    box = self._part(box, (yield from self._value(e, scope, line)), line)
                i = yield from self._value(indices[-1], scope, line)
                self._part(box, i, line)
                box.parts[i] = value
            case ("member", base, name):
                box = yield from self._value(base, scope, line)
                if not isinstance(box, Box) or box.kind != "struct" or name not in box.parts:
                    raise Broken(line)
                box.parts[name] = value

    @staticmethod
    def _part(box: Any, i: Any, line: int) -> Any:
        if not isinstance(box, Box) or box.kind == "struct" or not isinstance(i, int) or not 0 <= i < len(box.parts):
            raise Broken(line)
        return box.parts[i]

    def _truth(self, e: Node, scope: dict[str, Any] | None, line: int) -> Iterator[None]:
        value = yield from self._value(e, scope, line)
        if not isinstance(value, bool | int | float):
            raise Broken(line)
        return bool(value)

    # --- expressions
    def _value(self, e: Node, scope: dict[str, Any] | None, line: int) -> Iterator[None]:
        match e:
            case ("num" | "bool" | "text", v):
                return v
            case ("name", name):
                space = scope if scope is not None and name in scope else self._space(name, scope)
                if name in space:
                    return space[name]
                raise Broken(line)
            case ("list" | "pose" as kind, items):
                return Box(kind, (yield from self._values(items, scope, line)))
            case ("struct", members):
                made = {}
                for name, value in members.items():
                    made[name] = value_of((yield from self._value(value, scope, line)))
                return Box("struct", made)
            case ("index", base, indices):
                box = yield from self._value(base, scope, line)
                for index in indices:
                    box = self._part(box, (yield from self._value(index, scope, line)), line)
                return box
            case ("member", base, name):
                box = yield from self._value(base, scope, line)
                if not isinstance(box, Box) or box.kind != "struct" or name not in box.parts:
                    raise Broken(line)
                return box.parts[name]
            case ("un", "not", value):
                return not (yield from self._truth(value, scope, line))
            case ("un", op, value):
                v = yield from self._value(value, scope, line)
                return self._arith("*", -1, v, line) if op == "-" else v
            case ("bin", "and", a, b):
                if not (yield from self._truth(a, scope, line)):
                    return False
                return (yield from self._truth(b, scope, line))
            case ("bin", "or", a, b):
                if (yield from self._truth(a, scope, line)):
                    return True
                return (yield from self._truth(b, scope, line))
            case ("bin", "xor", a, b):
                left = yield from self._truth(a, scope, line)
                return left != (yield from self._truth(b, scope, line))
            case ("bin", op, a, b):
                left = yield from self._value(a, scope, line)
                right = yield from self._value(b, scope, line)
                return self._compare(op, left, right, line) if STRENGTH[op] == 3 else self._arith(op, left, right, line)
            case ("run", name, args):
                values = yield from self._values(args, scope, line)
                thread = Thread(name, self._body(name, values, {}))
                self.threads.append(thread)
                return thread
            case ("call", name, args, named):
                values = yield from self._values(args, scope, line)
                by_name = {}
                for n, a in named.items():
                    by_name[n] = value_of((yield from self._value(a, scope, line)))
                if name not in self.functions:
                    return (yield from self._builtin(name, values, line))
                try:
                    yield from self._body(name, values, by_name)
                except _Return as back:
                    return back.args[0]
                return None
            case ("method", base, name, args):
                box = yield from self._value(base, scope, line)
                values = []
                for a in args:
                    values.append((yield from self._value(a, scope, line)))
                return self._method(box, name, values, line)
        raise AssertionError(e)

    def _values(self, items: list[Node], scope: dict[str, Any] | None, line: int) -> Iterator[None]:
        values: list[Any] = []
        for item in items:
            value = yield from self._value(item, scope, line)
            values += [value_of(value)]
        return values

    def _body(self, name: str, values: list[Any], named: dict[str, Any]) -> Iterator[None]:
        _, _, parameters, body = self.functions[name]
        scope: dict[str, Any] = {"": frozenset(n for n, _ in parameters)}
        for i, (parameter, default) in enumerate(parameters):
            if i < len(values):
                scope[parameter] = values[i]
            elif parameter in named:
                scope[parameter] = named[parameter]
            else:
                scope[parameter] = value_of((yield from self._value(default, None, 0)))
        yield from self._block(body, scope)

    def _compare(self, op: str, a: Any, b: Any, line: int) -> bool:
        if op in ("==", "!="):
            return equal(a, b) == (op == "==")
        return {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}[op]

    def _arith(self, op: str, a: Any, b: Any, line: int) -> Any:
        if isinstance(a, Box) and isinstance(b, Box):
            if a.kind == "list" and _is_matrix(a) and op == "*":
                return self._product(a, b, line)
            if len(a.parts) != len(b.parts):
                raise Broken(line)
            return Box(a.kind, [self._arith(op, x, y, line) for x, y in zip(a.parts, b.parts, strict=True)])
        if isinstance(a, Box):
            return Box(a.kind, [self._arith(op, x, b, line) for x in a.parts])
        if isinstance(b, Box):
            return Box(b.kind, [self._arith(op, a, y, line) for y in b.parts])
        if op in "/%" and b == 0:
            raise Broken(line)
        if op == "%":
            return a - b * math.floor(a / b) if isinstance(a, int) and isinstance(b, int) else a % b
        return whole({"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b}[op](), line)

    def _product(self, a: Box, b: Box, line: int) -> Box:
        inner = len(a.parts[0].parts)
        if inner != len(b.parts):
            raise Broken(line)
        if not _is_matrix(b):
            return Box("list", [whole(sum(r.parts[k] * b.parts[k] for k in range(inner)), line) for r in a.parts])
        width = len(b.parts[0].parts)
        return Box("list", [
            Box("list", [whole(sum(r.parts[k] * b.parts[k].parts[j] for k in range(inner)), line) for j in range(width)])
            for r in a.parts
        ])  # fmt: skip

    def _method(self, box: Any, name: str, values: list[Any], line: int) -> Any:
        if not isinstance(box, Box) or box.kind != "list":
            raise Broken(line)
        parts = box.parts
        if name == "length":
            return len(parts)
        if name == "capacity":
            return box.capacity
        if name == "append":
            if len(parts) == box.capacity:
                raise Broken(line)
            parts.append(value_of(values[0]))
        elif name == "pop":
            if not parts:
                raise Broken(line)
            return parts.pop()
        elif name == "insert":
            if len(parts) == box.capacity or not 0 <= values[0] <= len(parts):
                raise Broken(line)
            parts.insert(values[0], value_of(values[1]))
        elif name == "remove":
            if not 0 <= values[0] < len(parts):
                raise Broken(line)
            parts.pop(values[0])
        elif name == "clear":
            parts.clear()
        else:
            raise AssertionError(name)
        return None

    def _builtin(self, name: str, values: list[Any], line: int) -> Iterator[None]:
        match name:
            case "sync":
                yield
            case "sleep":
                for _ in range(max(1, round(values[0] / 0.002))):
                    yield
            case "write_output_integer_register":
                i, v = values
                if isinstance(v, bool) or not isinstance(v, int) or not -(2**31) <= v < 2**31:
                    raise Broken(line)
                self.ints[i] = v
                self.said.append((self.cycle, f"int {i}", v))
            case "write_output_float_register":
                i, v = values
                self.floats[i] = float(v)
                self.said.append((self.cycle, f"float {i}", float(v)))
            case "read_output_integer_register":
                return self.ints[values[0]]
            case "textmsg":
                self.said.append((self.cycle, "text", "".join(map(shown, values))))
            case "floor":
                return whole(math.floor(values[0]), line)
            case "norm":
                return abs(values[0])
            case "get_list_length":
                return len(values[0].parts)
            case "make_list":
                length, first, capacity = values
                return Box("list", [value_of(first) for _ in range(length)], capacity)
            case "str_cat":
                return shown(values[0]) + shown(values[1])
            case _:
                raise AssertionError(name)
        return None


def whole(value: Any, line: int) -> Any:
    """An integer has 32 bits."""
    if type(value) is int and abs(value + 0.5) > 2**31:
        raise Broken(line)
    return value


def _is_matrix(box: Box) -> bool:
    return bool(box.parts) and isinstance(box.parts[0], Box) and box.parts[0].kind == "list"


def _all(body: list[Node]) -> Iterator[Node]:
    for s in body:
        yield s
        if s[0] == "if":
            for _, block in s[1]:
                yield from _all(block)
            yield from _all(s[2])
        elif s[0] == "while":
            yield from _all(s[2])

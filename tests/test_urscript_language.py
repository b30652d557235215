"""URScript as the manual describes it: structs, matrices, strings, scope, errors. Run on a whole controller."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from urscript_run import run, said
from wardarm.sim.lockstep import Lockstep
from wardarm.sim.plant import KinematicPlant
from wardarm.sim.ur_controller import Controller
from wardarm.sim.ur_controller.functions_absent import CONSTANT, REFUSED, WARNED
from wardarm.sim.urscript import ScriptError
from wardarm.sim.urscript.compiler import SMALL, SOURCE_MAX, Compiler


def value(expression: str) -> str:
    return said(f"textmsg({expression})")[0]


# ---------------------------------------------------------------- structs
def test_a_struct_has_members_that_can_be_read_and_assigned() -> None:
    body = 's = struct(a = 1, b = "x", l = [1, 2])\ns.a = s.a + 4\ns.l[1] = 9\ntextmsg(s.a)\ntextmsg(s.b)\ntextmsg(s.l)\ntextmsg(s)'
    assert said(body) == ["5", "x", "[1, 9]", "struct(a=5, b=x, l=[1, 9])"]


def test_structs_nest_are_copied_and_lie_in_lists() -> None:
    body = (
        "s = struct(i = struct(n = 1), p = p[1, 2, 3, 0, 0, 0])\nt = s\nt.i.n = 7\ntextmsg(s.i.n)\ntextmsg(t.i.n)\n"
        "l = [struct(n = 1), struct(n = 2)]\nl[1].n = 5\ntextmsg(l[1].n + l[0].n)\ntextmsg(s.p[2])\ntextmsg(s == t)\n"
        "m = make_list(2, struct(n = 3), 4)\nm[0].n = 8\nm.append(struct(n = 4))\ntextmsg(m)"
    )
    assert said(body) == ["1", "7", "6", "3", "False", "[struct(n=8), struct(n=3), struct(n=4)]"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("s = struct(a = 1)\nx = s.b", "line 3: the struct has no member 'b'; it has a"),
        ("s = struct(a = 1)\ns.b = 2", "line 3: the struct has no member 'b'"),
        ("s = 5\nx = s.b", "line 3: a number has no member 'b'"),
        ("s = struct(1)", "struct needs members"),
        ("s = struct()", "struct needs members"),
        ("floor(1.5).x = 2", "only a variable"),
    ],
)
def test_what_is_wrong_with_structs(body: str, text: str) -> None:
    assert text in run(body)[1]


# ---------------------------------------------------------------- lists and matrices
def test_matrices_as_in_the_manual() -> None:
    assert (
        value("[[1,2],[3,4],[5,6]] * [[10,20,30],[40,50,60]]") == "[[90, 120, 150], [190, 260, 330], [290, 400, 510]]"
    )
    assert value("[[1,2],[3,4],[5,6]] * [10,20]") == "[50, 110, 170]"
    assert value("[1,2,3] * [10,20,30]") == "[10, 40, 90]"
    assert value("[10,20,30] / [1,2,3]") == "[10, 10, 10]"
    assert value("[10,20,30] % [1,7,4]") == "[0, 6, 2]"
    assert value("5 * [[1,2],[3,4],[5,6]]") == "[[5, 10], [15, 20], [25, 30]]"
    assert value("10 / [10,20,40]") == "[1, 0.5, 0.25]"
    assert value("10 - [1,2]") == "[9, 8]"
    assert value("-[1,2]") == "[-1, -2]"
    assert value("size([[1,2],[3,4],[5,6]])") == "[3, 2]"
    assert value("transpose([[1,2],[3,4],[5,6]])") == "[[1, 3, 5], [2, 4, 6]]"
    assert value("inv([[2,0],[0,4]])") == "[[0.5, 0], [0, 0.25]]"
    assert value("inv([[1,2],[3,4]]) * [[1,2],[3,4]]") == "[[1, 0], [0, 1]]"
    body = "m = [[1,2],[3,4]]\nm[0,1] = 7\nm[1][0] = 8\ntextmsg(m[0,1] + m[1,0])\ntextmsg(m)"
    assert said(body) == ["15", "[[1, 7], [8, 4]]"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("m = [[1,2],[3]]", "rows of a matrix"),
        ("m = [[1,2],[3,4]] * [1,2,3]", "2 columns"),
        ("m = inv([[1,2],[2,4]])", "singular"),
        ("m = [1,2] + [1]", "2 and 1 elements"),
        ("m = [[1,2],[3,4]]\nx = m[2,0]", "out of range"),
        ("p = [1] + True", "needs numbers"),
        ('x = "a" + 1', "str_cat joins them"),
        ('x = 1 + "a"', "str_cat joins them"),
        ('x = "a" - "b"', "needs numbers"),
        ('a = "a"\nx = a + [1]', "str_cat joins them"),
        ('a = "a"\nx = a * 2', "str_cat joins them"),
        ("x = p[1,2,3]", "a pose has 6 numbers"),
    ],
)
def test_what_is_wrong_with_lists(body: str, text: str) -> None:
    assert text in run(body)[1]


def test_list_methods_and_capacity() -> None:
    body = (
        "a = make_list(2, 0, 4)\na.append(5)\ntextmsg(a.length(), a.capacity())\na.insert(0, 9)\ntextmsg(a)\n"
        "textmsg(a.pop())\na.remove(0)\ntextmsg(a)\ntextmsg(a.excess_capacity())\na.clear()\ntextmsg(a.length())\na.extend([1, 2, 3])\n"
        "textmsg(a.slice(1, 3))\ntextmsg(a.to_string())"
    )
    assert said(body) == ["34", "[9, 0, 0, 5]", "5", "[0, 0]", "2", "0", "[2, 3]", "[1, 2, 3]"]
    assert "the list is full (2 elements)" in run("a = [1, 2]\na.append(3)")[1]


# ---------------------------------------------------------------- strings
def test_strings_as_in_the_manual() -> None:
    assert value('str_at("Hello", 1)') == "e"
    assert value('str_cat("Hello", " World!")') == "Hello World!"
    assert value("str_cat(1.5, [1, 2])") == "1.5[1, 2]"
    assert value('str_empty("")') == "True"
    assert value('str_find("Hello World!", "o", 5)') == "7"
    assert value('str_find("Hello", "z")') == "-1"
    assert value('str_len("Hello")') == "5"
    assert value('str_sub("0123456789abcdefghij", 5, 3)') == "567"
    assert value('str_sub("0123456789", 5)') == "56789"
    assert value('str_sub("0123456789", 5, 200)') == "56789"
    assert value('to_num("3.5") + to_num(" -2")') == "1.5"
    assert value('to_num("0x1A")') == "26"
    assert value("to_str(2.123456123456)") == "2.123456"
    assert value("to_str(p[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])") == "p[1, 2, 3, 4, 5, 6]"
    assert value("to_str([True, False])") == "[True, False]"
    assert value('"Hello" != "World" and "abc" == "abc"') == "True"
    assert value('length("abc")') == "3"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('x = str_at("abc", 3)', "outside of 3 characters"),
        ('x = str_sub("abc", 4)', "outside of 3 characters"),
        ('x = to_num("1.2.3")', "is no number"),
        ('s = "0123456789"\nwhile True:\n s = str_cat(s, s)\nend', "the limit is 1023"),
    ],
)
def test_what_is_wrong_with_strings(body: str, text: str) -> None:
    assert text in run(body)[1]


# ---------------------------------------------------------------- numbers
def test_math_as_in_the_manual() -> None:
    assert value("1 + 2 - 3 + 4 * 5 / 6") == "3.333333"
    assert value("(1 + 2) * 3 / (4 - 5)") == "-9"
    assert value("True or False and (1 == 2)") == "True"
    assert value("1 > 2 or 3 != 4 xor 5 < -6") == "True"
    assert value("not 42 >= 87 and 87 <= 42") == "False"
    assert value("binary_list_to_integer([True, False, False, True])") == "9"
    assert value("integer_to_binary_list(-1)[31]") == "True"
    assert value("log(2, 4)") == "2"
    assert value("norm([3, 4])") == "5"
    assert value("normalize([3, 4])") == "[0.6, 0.8]"
    assert value("pow(2, 10)") == "1024"
    assert value("floor(-1.5)") == "-2"
    assert value("ceil(1.2)") == "2"
    assert value("rotvec2rpy(rpy2rotvec([0.1, 0.2, 0.3]))") == "[0.1, 0.2, 0.3]"
    assert value("0xff") == "255"
    assert value("1e-3 + .5") == "0.501"


@pytest.mark.parametrize(
    "expression", ["sqrt(-1)", "log(1, 5)", "log(-2, 5)", "pow(0, -1)", "pow(-1, 0.5)", "1 / 0", "1 % 0", "acos(2)"]
)
def test_what_cannot_be_computed_is_a_runtime_error_with_its_line(expression: str) -> None:
    assert run(f"i = 1\nx = {expression}")[1].startswith("program prog stopped: line 3: ")


# ---------------------------------------------------------------- functions and scope
def test_a_default_list_is_fresh_at_every_call() -> None:
    assert said("def f(a = [1, 2]):\n a[0] = a[0] + 1\n return a[0]\nend\ntextmsg(f())\ntextmsg(f())") == ["2", "2"]


def test_recursion_works_and_endless_recursion_is_an_error() -> None:
    assert said("def fact(n):\n if n < 2:\n  return 1\n end\n return n * fact(n - 1)\nend\ntextmsg(fact(10))") == [
        "3628800"
    ]
    assert "too deeply" in run("def f(n):\n return f(n + 1)\nend\nx = f(0)")[1]


@pytest.mark.parametrize("word", ["global ", "local ", ""])
def test_names_of_the_programs_own_body_are_global_whatever_stands_before_them(word: str) -> None:
    """Script manual, "Scoping rules": first scope level."""
    assert said(f"{word}x = 1\ndef f():\n x = x + 4\nend\nf()\ntextmsg(x)") == ["5"]
    assert said(f"{word}x = 1\ndef f():\n local x = 4\n textmsg(x)\nend\nf()\ntextmsg(x)") == ["4", "1"]
    body = f"def f():\n local x = 1\n def g():\n  x = 2\n end\n g()\n textmsg(x)\nend\n{word}x = 0\nf()\ntextmsg(x)"
    assert said(body) == ["1", "2"]


def test_functions_nest_and_may_be_used_before_they_stand_there() -> None:
    assert said("textmsg(f(2))\ndef f(a):\n def g(b):\n  return b * 2\n end\n return g(a) + 1\nend") == ["5"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("movej([0,0,0,0,0,0], speed=1)", "line 2: movej has no parameter 'speed'; it has q, a, v, t, r"),
        ("x = sin()", "line 2: sin takes 1 arguments: f missing"),
        ("x = sin(1, 2)", "line 2: sin takes 1 arguments, 2 given"),
        ("sleep(1, t=2)", "line 2: sleep: t is given twice"),
        ("foo(1)", "line 2: unknown function 'foo'"),
        ("def f(a, a):\nend", "parameter a is there twice"),
        ("def f(a=1, b):\nend", "without a default"),
        ("def f():\nend\nf = 1", "is a function"),
        ("switch x:\nend", "compile error: line 2"),
        ("if True:\n x = 1", "compile error"),
        ("x = ((((1)", "compile error"),
    ],
)
def test_a_program_that_cannot_be_understood_does_not_start(body: str, text: str) -> None:
    lines, error = run(body)
    assert not lines
    assert error.startswith("compile error: ")
    assert text in error


def test_very_deep_nesting_is_an_error_and_no_crash() -> None:
    assert "compile error" in run("x = " + "(" * 5000 + "1" + ")" * 5000)[1]
    assert "compile error" in run("if True:\n" * 200 + "x = 1\n" + "end\n" * 200)[1]


# ---------------------------------------------------------------- threads and time
def test_a_loop_without_physical_time_is_stopped_after_a_second_with_its_line() -> None:
    lines, error = run('textmsg("go")\nwhile True:\n i = 1\nend', cycles=600)
    assert lines == ["go"]
    assert "line 3: infinite loop: thread main" in error


def test_a_secondary_program_must_not_take_time() -> None:
    with Lockstep() as sim:
        sim.load("def prog():\n sleep(1)\nend\n")
        sim.controller.submit("sec light():\n set_digital_out(2, True)\nend\n")
        sim.controller.submit("sec slow():\n sleep(1)\nend\n")
        sim.step(2)
        assert sim.controller.digital_out >> 2 & 1
        assert sim.playing
        assert any("must not take physical time" in line for line in sim.log())


def test_a_blocking_popup_holds_the_program() -> None:
    with Lockstep() as sim:
        sim.load('def prog():\n popup("go on?", blocking=True)\n textmsg("on")\nend\n')
        sim.step(100)
        assert sim.playing
        sim.controller.popup_open = False
        sim.step(2)
        assert "textmsg: on" in sim.log()


def test_random_repeats_itself_for_a_seed_and_only_then() -> None:
    draw = "textmsg(random())\ntextmsg(random())"
    assert said(draw, seed=4) == said(draw, seed=4)
    assert said(draw, seed=4) != said(draw, seed=5)


def test_time_since_the_start_of_the_controller() -> None:
    assert said(
        "a = time()\nsleep(0.1)\nb = time()\ntextmsg(b.sec - a.sec + (b.nanosec - a.nanosec) / 1000000000)"
    ) == ["0.1"]


def test_a_function_newer_than_the_controller_is_unknown() -> None:
    assert "unknown function 'make_list'" in run("a = make_list(3, 0)", version=(5, 11, 0, 0))[1]
    assert not run("a = make_list(3, 0)", version=(5, 15, 0, 0))[1]


def test_statements_can_be_added_to_a_running_program() -> None:
    from wardarm.sim.urscript import Program, compile_script

    seen: list[Any] = []
    functions = {"say": seen.append, "sync": lambda: program.wait(), "more": lambda: program.interpret(extra)}
    source = "def prog():\n global a = 3\n def f(x):\n  return x * 2\n end\n sync()\n more()\n say(a)\nend\n"
    program = Program(compile_script(source, functions), functions)
    program.cycle()
    extra = compile_script("a = f(a)\nb = a + 1\nsay(b)\n", [*functions, *program.known()])
    assert not program.cycle()
    assert program.error is None
    assert seen == [7, 6]


# ---------------------------------------------------------------- what is not modelled, and sizes
def test_nothing_of_the_manual_is_silent() -> None:
    def call(name: str, parameters: str) -> str:
        return f"{name}({', '.join('0' for p in parameters.split() if not p.endswith('?'))})"

    with Lockstep() as sim:
        body = "\n".join(call(n, p) for n, p in WARNED.items())
        sim.load(f"def prog():\n{body}\nend\n", 3)
        log = sim.log(200)
        assert not sim.controller.slot.last_error
        assert all(f"{name} is accepted and has no effect: it is not simulated" in log for name in WARNED)
    for name, parameters in REFUSED.items():
        assert run(call(name, parameters))[1] == f"program prog stopped: line 2: {name} is not simulated"


def test_a_program_of_ten_megabytes_is_refused() -> None:
    with Lockstep() as sim:
        source = "def prog():\n" + " x = 1\n" * 1_500_000 + "end\n"
        with pytest.raises(RuntimeError, match=f"the limit is {SOURCE_MAX}"):
            sim.load(source)


def long(name: str, body: str = "") -> str:
    """Long enough for the compiler's process."""
    return f"def {name}():\n{body}\n" + "# long\n" * SMALL + "end\n"


def test_compiling_a_large_program_does_not_hold_up_the_cycle() -> None:
    """The compiler works in a process of its own. Judged by this thread's own processor time, not by the clock."""
    compiler = Compiler({"servoj": None})
    try:
        assert compiler.submit(long("p")).result(30).name == "p"
        source = "def prog():\n" + " servoj([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], t=0.002)\n" * 10_000 + "end\n"
        began = time.process_time()
        compiled = compiler.submit(source).result(60)
        assert time.process_time() - began < 0.15  # in this process: sending the text and unpacking the code
        assert compiled.name == "prog"
        with pytest.raises(ScriptError, match="line 2: unknown function 'foo'"):
            compiler.submit(long("p", " foo()")).result(30)
        assert compiler.submit(long("again")).result(30).name == "again"
    finally:
        compiler.close()


def test_a_killed_compiler_is_started_anew() -> None:
    controller = Controller(KinematicPlant((0.0,) * 6))
    try:
        compiler = controller.slot._compiler
        assert compiler is not None
        assert compiler.submit(long("p")).result(30).name == "p"
        process = compiler._workers[-1]._process
        assert process is not None
        process.kill()
        process.wait()
        assert compiler.submit(long("q")).result(30).name == "q"
    finally:
        controller.close()


def test_the_table_of_functions_in_the_documentation_is_complete() -> None:
    text = (Path(__file__).parents[1] / "docs" / "sim_ur_script.md").read_text("utf-8").partition("## Functions")[2]
    modelled, rest = text.partition("Modelled roughly")[::2]
    warned, refused = rest.partition("A runtime error")[::2]
    with Lockstep() as sim:
        names = set(sim.controller.slot._signatures)
    words = {part: set(re.findall(r"\b[a-z]+[a-z0-9_]*\b", part)) for part in (modelled, warned, refused)}
    absent = WARNED.keys() | REFUSED.keys() | CONSTANT.keys()
    assert not names - absent - words[modelled]
    assert not (WARNED.keys() | CONSTANT.keys()) - words[warned]
    assert not REFUSED.keys() - words[refused]
    listed = {
        w for row in modelled.splitlines() if row.startswith("| ") for w in re.findall(r"\b[a-z]+_[a-z0-9_]+\b", row)
    }
    assert not listed - names
    assert not listed & absent


# ---------------------------------------------------------------- sockets
class Talker:
    """Another machine: answers every line with `answer`, and greets."""

    def __init__(self, greeting: bytes = b"", answer: bytes = b"") -> None:
        self.greeting, self.answer = greeting, answer
        self.heard: list[str] = []
        self.over = 0

    def opened(self, link: Any) -> None:
        link.send(self.greeting)

    def received(self, link: Any) -> None:
        for line in link.lines():
            self.heard.append(line)
            link.send(self.answer)

    def closed(self, link: Any) -> None:
        self.over += 1


def talk(body: str, talker: Talker, cycles: int = 500) -> list[str]:
    with Lockstep() as sim:
        sim.network.peers["10.0.0.7", 5000] = talker
        sim.controller.submit(f'def prog():\n socket_open("10.0.0.7", 5000, "s")\n sync()\n{body}\nend\n')
        sim.step(cycles)
        assert not sim.controller.slot.last_error
        return [line.removeprefix("textmsg: ") for line in sim.log(100) if line.startswith("textmsg: ")]


def test_reads_of_all_kinds() -> None:
    assert talk('textmsg(socket_read_ascii_float(4, "s"))', Talker(b"noise ( 1.414 , 3.14159, 1.616, 0.0 )")) == [
        "[4, 1.414, 3.14159, 1.616, 0]"
    ]
    assert talk('textmsg(socket_read_byte_list(3, "s"))', Talker(b"abc")) == ["[3, 97, 98, 99]"]
    assert talk('textmsg(socket_read_line("s"))\ntextmsg(socket_read_line("s"))', Talker(b"one\r\ntwo\n")) == [
        "one",
        "two",
    ]
    body = 'textmsg(socket_read_string("s", prefix="<", suffix="\\n", interpret_escape=True))'
    assert talk(body, Talker(b"x<yes\n")) == ["yes"]


def test_a_read_that_times_out_takes_its_time_and_leaves_what_came() -> None:
    body = (
        'a = time()\ntextmsg(socket_read_binary_integer(2, "s", 0.1))\nb = time()\n'
        'textmsg(floor((b.nanosec - a.nanosec) / 1000000 + 0.5))\ntextmsg(socket_read_byte_list(4, "s", 0.1))'
    )
    assert talk(body, Talker(b"\0\0\0\5")) == ["[0, -1, -1]", "100", "[4, 0, 0, 0, 5]"]


def test_variables_of_a_server() -> None:
    talker = Talker(answer=b"POS 42\n")
    assert talk('socket_set_var("POS", 7, "s")\ntextmsg(socket_get_var("POS", "s"))', talker) == ["42"]
    assert talker.heard == ["SET POS 7", "GET POS"]
    assert talker.over == 1


def test_nobody_there() -> None:
    with Lockstep() as sim:
        sim.load(
            'def p():\n textmsg(socket_open("10.9.9.9", 1))\n textmsg(socket_send_line("x"))\n textmsg(socket_read_line())\nend\n',
            5,
        )
        assert [line for line in sim.log() if "textmsg" in line] == ["textmsg: False", "textmsg: False", "textmsg: "]
        sim.controller.submit("def p():\n x = socket_read_binary_integer(31)\nend\n")
        sim.step(2)
        assert "31 numbers at once, the limit is 30" in sim.controller.slot.last_error

"""A variable `p`, lists of fixed capacity, long expressions, and errors in URScript's words. Run on a whole controller."""

from __future__ import annotations

import pytest
from urscript_run import run, said


# ---------------------------------------------------------------- p is a pose and may be a variable
def test_a_variable_called_p_can_be_indexed() -> None:
    body = "p = p[1, 2, 3, 0, 0, 0]\nx = p[0]\np[2] = p[2] + 0.5\ni = 1\ntextmsg(x)\ntextmsg(p[i])\ntextmsg(p)"
    assert said(body) == ["1", "2", "p[1, 2, 3.5, 0, 0, 0]"]
    assert said("p = [[1, 2], [3, 4]]\np[0, 1] = 7\ntextmsg(p[0][1] + p[1, 0])") == ["10"]
    assert said("global p = [1, 2]\ndef f():\n return p[1]\nend\ntextmsg(f())") == ["2"]


def test_six_numbers_after_p_are_a_pose_whatever_p_is() -> None:
    assert said("p = p[1, 2, 3, 0, 0, 0]\nq = p[4, 5, 6, 0, 0, 0]\ntextmsg(q)") == ["p[4, 5, 6, 0, 0, 0]"]
    assert said(
        "def f(p):\n return p[0] + pose_trans(p, p[1, 0, 0, 0, 0, 0])[0]\nend\ntextmsg(f(p[2, 0, 0, 0, 0, 0]))"
    ) == ["5"]


@pytest.mark.parametrize(("literal", "count"), [("p[1]", 1), ("p[1, 2, 3]", 3), ("p[]", 0)])
def test_a_pose_that_is_too_short_is_one_where_p_is_no_variable(literal: str, count: int) -> None:
    assert run(f"\nx = {literal}")[1] == f"compile error: line 3: a pose has 6 numbers, this one {count}"


# ---------------------------------------------------------------- lists
RESIZED = "Resizing of 'List' is not supported: variable 'a' has"


def test_a_list_variable_keeps_its_capacity() -> None:
    """Universal Robots in their forum (thread 30144): source and target of an assignment."""
    body = "a = [1, 2, 3, 4, 5, 6]\nb = make_list(5, 0, 100)\na = b\ntextmsg(a.length())\ntextmsg(a.capacity())"
    assert said(body) == ["5", "6"]
    assert said("b = make_list(1, 0, 4)\nb = [1, 2, 3, 4]\nb.pop()\nb.append(9)\ntextmsg(b)") == ["[1, 2, 3, 9]"]
    assert run("a = [1, 2, 3]\na = [1, 2, 3, 4]")[1].endswith(f"line 3: {RESIZED} at most 3 elements, the new list 4")


@pytest.mark.parametrize(
    "body",
    [
        "global a = [1]\ndef f():\n a = [1, 2]\nend\nf()",
        "def f():\n local a = [1]\n a = [1, 2]\nend\nf()",
        "a = [1]\ndef two():\n return [1, 2]\nend\nx = 0\na = two()",
        "b = [1, 2]\na = [1]\na = b",
        "a = [[1, 2]]\na = [[1, 2], [3, 4]]",
    ],
)
def test_wherever_the_longer_list_comes_from(body: str) -> None:
    assert RESIZED in run(body)[1]


def test_a_function_s_list_is_a_new_one_at_every_call() -> None:
    body = "def f(n):\n local a = make_list(n, 0)\n return a\nend\ntextmsg(f(1))\ntextmsg(f(2))"
    assert said(body) == ["[0]", "[0, 0]"]


def test_before_5_15_a_list_keeps_its_length_and_has_no_methods() -> None:
    old = (5, 14, 0, 0)
    for items in ("[1, 2]", "[1, 2, 3, 4]"):
        assert f"line 3: {RESIZED} 3 elements" in run(f"a = [1, 2, 3]\na = {items}", version=old)[1]
    assert said("a = [1, 2, 3]\na = [4, 5, 6]\ntextmsg(a)", version=old) == ["[4, 5, 6]"]
    for method in ("append(1)", "pop()", "length()"):
        error = run(f"a = [1]\nx = a.{method}", version=old)[1]
        assert error.startswith("compile error: line 3: a list has no method")
    assert said("a = [1, 2, 3]\na = [1, 2]\ntextmsg(a.length())", version=(5, 15, 0, 0)) == ["2"]


# ---------------------------------------------------------------- long and deep
@pytest.mark.parametrize("terms", [100, 500])
def test_long_sums_products_and_conditions_compile(terms: int) -> None:
    assert said("textmsg(" + " + ".join(["1"] * terms) + ")") == [str(terms)]
    assert said("x = 2\ntextmsg(" + " - ".join(["x * 3"] * terms) + ")") == [str(6 - 6 * (terms - 1))]
    assert said("x = 1.0\ntextmsg(" + " * ".join(["x"] * terms) + ")") == ["1"]
    assert said("x = True\ntextmsg(" + " and ".join(["x"] * terms) + ")") == ["True"]
    assert said("x = False\ntextmsg(" + " or ".join(["x"] * terms) + ")") == ["False"]


def test_a_long_chain_computes_as_a_short_one() -> None:
    assert said("x = 7\ntextmsg(x" + " / 2 * 2 % 5" * 6 + ")\ntextmsg([1, 2]" + " + [1, 1]" * 20 + ")") == [
        "2",
        "[21, 22]",
    ]
    assert "an integer beyond 32 bits" in run("x = 2\ny = x" + " * x" * 40)[1]
    assert said('a = "a"\ntextmsg(a' + ' + "b"' * 20 + ")") == ["a" + "b" * 20]
    lines, error = run("def f():\n textmsg(1)\n return True\nend\nif False" + " and f()" * 20 + ":\nend")
    assert (lines, error) == ([], "")


@pytest.mark.parametrize(
    ("body", "first", "last"),
    [
        ("x = 1\n\nx = " + " + ".join(["x * 2"] * 5000), 4, 4),
        ("x = 1\n\ny = " + " < ".join(["x"] * 500), 4, 4),
        ("x = True\n\nx = " + " xor ".join(["x"] * 500), 4, 4),
        ("x = 1\n\nx = " + "(" * 500 + "1" + ")" * 500, 4, 4),
        ("x = 1\n\nx = " + "sin(" * 150 + "1" + ")" * 150, 4, 4),
        ("x = 1\n" + "if True:\n" * 100 + "x = 2\n" + "end\n" * 100, 3, 103),
        ("x = 1\n" + "while True:\n" * 30 + "break\n" + "end\n" * 30, 3, 33),
    ],
)  # fmt: skip
def test_what_is_too_long_or_too_deep_is_named_with_its_line(body: str, first: int, last: int) -> None:
    error = run(body)[1]
    assert error.endswith(": nested too deeply")
    assert first <= int(error.split("line ")[1].split(":")[0]) <= last


# ---------------------------------------------------------------- words
@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("a = [1, 2]\nx = a[1.0]", 3, "a list index must be an integer, not a float"),
        ('x = sin("a")', 2, "a number is needed, not a string"),
        ("x = acos(2)", 2, "acos: not defined for this number"),
        ("x = sqrt(-1)", 2, "sqrt: not defined for this number"),
        ("x = pow(10, 400)", 2, "pow: the result is too large"),
        ("x = 5 % 0", 2, "division by zero"),
        ("def f():\nend\nx = f() + 1", 4, "'+' between nothing and a number"),
        ('x = "a" < 1', 2, "'<' between a string and a number"),
        ("x = 5\ny = x[0]", 3, "a number has no elements"),
        ("x = get_list_length(5)", 2, "a list is needed, not a number"),
        ('a = "a"\nx = -a', 3, "a number or a list is needed, not a string"),
    ],
)
def test_errors_speak_urscript(body: str, line: int, words: str) -> None:
    assert run(body)[1] == f"program prog stopped: line {line}: {words}"


def test_what_a_function_without_a_return_gives_is_nothing() -> None:
    assert said('def f():\nend\ntextmsg("x ", f())') == ["x nothing"]

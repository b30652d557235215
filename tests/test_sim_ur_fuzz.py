"""Whatever a program passes to whatever function: an error of the program, never of the controller."""

from __future__ import annotations

import random

import pytest
from wardarm.sim.lockstep import Lockstep
from wardarm.sim.ur_controller import Controller, streams
from wardarm.sim.ur_controller.rtde_fields import OUTPUTS, output_packer

VALUES = (
    "0", "1", "-1", "2.5", "-0.5", "8.0", "24.0", "200", "1e300", "2147483647", "-2147483648", "1e308*10", "1e308*10-1e308*10",
    "True", "False", '""', '"x"', "[]", "[1]", "[0, 0, 0]", "[True, False, 1, 0, 1, 1]", "[1, 2, 3, 4, 5, 6]",
    "[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]", "[1e308*10, 0, 0, 0, 0, 0]", "[0, 1e308*10-1e308*10, 0]", '["a", "b", "c"]',
    '["a", "b", "c", "d", "e", "f"]', "[[1, 2], [3, 4]]", "p[0.4, 0.2, 0.3, 0, 3.1, 0]", "p[9, 9, 9, 9, 9, 9]",
    "p[1e308*10, 0, 0, 0, 0, 0]", "struct(a = 1)", "handle",
)  # fmt: skip
HOME = (0.0, -1.57, 1.57, -1.57, -1.57, 0.0)
EVERYTHING = output_packer(tuple(OUTPUTS), 1)


def published(c: Controller) -> int:
    """All that the ports would send now."""
    packages = (EVERYTHING(c), streams.robot_state(c), streams.real_time_packet(c), streams.program_state(c, [])[0])
    return sum(map(len, packages))


def clean(c: Controller) -> None:
    c.stop_program()
    c.freedrive = c.popup_open = False
    c.set_tcp([0.0] * 6)
    c.safety.reset(c.time_s)
    c.move_by_hand([a - b for a, b in zip(HOME, c.state.q, strict=True)])


@pytest.mark.parametrize("seed", range(2))
def test_no_argument_of_any_function_harms_the_controller(seed: int) -> None:
    rng = random.Random(seed)
    with Lockstep() as sim:
        c = sim.controller
        known = c.slot._signatures
        ended = 0
        for name in sorted(known):
            signature = known[name]
            most, least = (len(signature.parameters), signature.required) if signature is not None else (2, 0)
            for _ in range(1 + seed):
                arguments = ", ".join(rng.choice(VALUES) for _ in range(rng.randint(least, most)))
                body = f" thread other():\n  sleep(0.01)\n end\n handle = run other()\n {name}({arguments})\n"
                c.slot.last_error = ""
                c.submit(f"def p():\n{body}end\n")
                sim.step(4)
                assert published(c) > 3000
                ended += bool(c.slot.last_error)
                clean(c)
        assert ended > len(known) / 4  # most of it is nonsense, and said to be


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("x = 2\nwhile True:\n x = x * x\nend", 4),
        ("x = 2147483647\ny = [x + 1]", 3),
        ("x = -2147483648\nx = -x", 3),
        ("m = [[65536, 0], [0, 1]]\nwhile True:\n m = m * m\nend", 4),
        ("l = [65536, 2]\nl = l * l", 3),
        ("def f(n):\n return f(n * n)\nend\nx = f(3)", 3),
        ("x = floor(1e12)", 2),
    ],
)
def test_an_integer_beyond_32_bits_ends_the_program_before_it_eats_the_memory(body: str, line: int) -> None:
    with Lockstep() as sim:
        sim.controller.submit(f"def p():\n{body}\nend\n")
        sim.step(20)
        assert f"line {line}: an integer beyond 32 bits" in sim.controller.slot.last_error


@pytest.mark.parametrize("literal", ["2147483648", "-2147483649", "0x100000000"])
def test_a_number_that_is_no_integer_of_32_bits_is_refused_when_it_is_loaded(literal: str) -> None:
    with Lockstep() as sim:
        sim.controller.submit(f"def p():\n x = {literal}\nend\n")
        sim.step()
        assert "line 2" in sim.controller.slot.last_error
        assert "beyond the 32 bits" in sim.controller.slot.last_error
        sim.controller.submit("def p():\n textmsg(-2147483648, 2147483647)\nend\n")
        sim.step()
        assert sim.log(2)[0] == "textmsg: -21474836482147483647"

"""The table of script functions of one program, put together from its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wardarm.sim.ur_controller.functions_io import IoFunctions
from wardarm.sim.ur_controller.functions_math import MATH_FUNCTIONS
from wardarm.sim.ur_controller.functions_motion import MotionFunctions
from wardarm.sim.ur_controller.functions_socket import SocketFunctions
from wardarm.sim.urscript import Program

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller


def _public(part: object) -> dict[str, Callable[..., Any]]:
    return {
        name: getattr(part, name) for name in dir(part) if not name.startswith("_") and callable(getattr(part, name))
    }


class FunctionTable:
    """`functions`: script name to Python. `attach` tells them the program whose time they take."""

    def __init__(self, controller: Controller) -> None:
        self._parts = (MotionFunctions(controller), IoFunctions(controller), SocketFunctions(controller))
        self.functions: dict[str, Any] = dict(MATH_FUNCTIONS)
        for part in self._parts:
            self.functions.update(_public(part))

    def attach(self, program: Program) -> None:
        for part in self._parts:
            part._attach(program)

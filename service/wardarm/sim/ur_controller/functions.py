"""The table of script functions of one program, put together from its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wardarm.sim.ur_controller.functions_absent import SINCE, absent_functions
from wardarm.sim.ur_controller.functions_io import IoFunctions
from wardarm.sim.ur_controller.functions_math import MATH_FUNCTIONS
from wardarm.sim.ur_controller.functions_motion import MotionFunctions
from wardarm.sim.ur_controller.functions_socket import SocketFunctions
from wardarm.sim.ur_controller.functions_text import TEXT_FUNCTIONS
from wardarm.sim.ur_controller.functions_tool import ToolFunctions
from wardarm.sim.ur_controller.functions_where import WhereFunctions
from wardarm.sim.ur_controller.interpreter import InterpreterFunctions
from wardarm.sim.urscript import Program

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller


def _public(part: object) -> dict[str, Callable[..., Any]]:
    return {
        name: getattr(part, name) for name in dir(part) if not name.startswith("_") and callable(getattr(part, name))
    }


class FunctionTable:
    """`functions`: script name to Python, those of the controller's version. `attach` tells them whose time they take."""

    def __init__(self, controller: Controller) -> None:
        self._parts = (
            MotionFunctions(controller), WhereFunctions(controller), IoFunctions(controller), ToolFunctions(controller),
            SocketFunctions(controller), InterpreterFunctions(controller),
        )  # fmt: skip
        functions: dict[str, Any] = {**MATH_FUNCTIONS, **TEXT_FUNCTIONS, **absent_functions(controller)}
        for part in self._parts:
            functions.update(_public(part))
        version = controller.version[:2]
        self.functions = {name: f for name, f in functions.items() if version >= SINCE.get(name, version)}

    def attach(self, program: Program) -> None:
        for part in self._parts:
            part._attach(program)

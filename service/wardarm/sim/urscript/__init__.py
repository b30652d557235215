"""URScript: compile a program once, then run it cycle by cycle.

    compiled = compile_script(source, builtins)      # ScriptError with a line if it cannot be understood
    program = Program(compiled, builtins)
    while program.cycle():                           # one controller cycle, 2 ms
        ...

Flows in: text of a program, the controller's functions. Flows out: calls to those functions. docs/sim_ur.md lists
what of the language is there and what was assumed about it.
"""

from wardarm.sim.urscript.compiled import Compiled, Kept, Signature, Variable
from wardarm.sim.urscript.errors import ScriptError, ScriptSyntaxError, UnknownName
from wardarm.sim.urscript.generate import compile_script, compile_statement
from wardarm.sim.urscript.program import Program, Thread
from wardarm.sim.urscript.values import (
    Pose,
    Struct,
    Text,
    UrList,
    copy,
    limited,
    numbers,
    people_text,
    script_text,
    to_text,
    wire,
)

__all__ = [
    "Compiled", "Kept", "Pose", "Program", "ScriptError", "ScriptSyntaxError", "Signature", "Struct", "Text", "Thread",
    "UnknownName", "UrList", "Variable", "compile_script", "compile_statement", "copy", "limited", "numbers", "people_text", "script_text", "to_text", "wire",
]  # fmt: skip

"""URScript: compile a program once, then run it cycle by cycle.

    compiled = compile_script(source, builtins)      # ScriptError with a line if it cannot be understood
    program = Program(compiled, builtins)
    while program.cycle():                           # one controller cycle, 2 ms
        ...

Flows in: text of a program, the controller's functions. Flows out: calls to those functions. docs/sim_ur.md lists
what of the language is there and what was assumed about it.
"""

from wardarm.sim.urscript.errors import ScriptError, ScriptSyntaxError, UnknownName
from wardarm.sim.urscript.generate import Compiled, Signature, compile_script
from wardarm.sim.urscript.program import Program, Thread
from wardarm.sim.urscript.values import Pose, Struct, Text, UrList, copy, limited, numbers, to_text

__all__ = [
    "Compiled", "Pose", "Program", "ScriptError", "ScriptSyntaxError", "Signature", "Struct", "Text", "Thread",
    "UnknownName", "UrList", "compile_script", "copy", "limited", "numbers", "to_text",
]  # fmt: skip

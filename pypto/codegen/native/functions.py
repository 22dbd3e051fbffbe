"""Lane functions of a unit: programs and foldings that are longer than an expression, each written once.

In: lane programs, as operations ask for them.  Out: C text of calls, and the definitions they need.  The functions are
always inlined: they are there for whoever reads the C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pypto.codegen.native.lanes_c import LANE_C, emit_program
from pypto.codegen.native.writer import Writer
from pypto.ir.lanes import LaneProgram

__all__ = ["LaneFunctions"]


class LaneFunctions:
    """The unit's functions, by what they compute."""

    def __init__(self) -> None:
        self.names: dict[object, str] = {}
        self.used: set[str] = set()
        self.definitions: list[str] = []
        self.headers: dict[str, None] = {}  # of routines, in the order of their first use

    def apply(self, program: LaneProgram, inputs: Sequence[str], hint: str) -> str:
        """An expression for the program's result."""
        work = [i for i in program.instrs if i.op != "const"]
        if len(work) <= 1:
            lines, text = emit_program(program, inputs, "t")
            return text if not lines else lines[0].partition(" = ")[2].rstrip(";").join("()")
        name = self.names.get(program)
        if name is None:
            name = self._define(program, hint)
        return f"{name}({', '.join(inputs)})"

    def _define(self, program: LaneProgram, hint: str) -> str:
        name = self.names[program] = self._fresh(f"lane_{hint}_{program.result_type}")
        parameters = [f"{LANE_C[t]} {'xyzw'[i] if i < 4 else f'x{i}'}" for i, t in enumerate(program.inputs)]
        w = Writer()
        with w.block(f"PP_INLINE {LANE_C[program.result_type]} {name}({', '.join(parameters) or 'void'})"):
            lines, result = emit_program(program, [p.rsplit(" ", 1)[1] for p in parameters], "t")
            w.all(lines)
            w.line(f"return {result};")
        self.definitions.append(w.text())
        return name

    def helper(self, key: object, hint: str, write: Callable[[Writer, str], None]) -> str:
        """A function of another kind, written by `write(writer, name)` the first time."""
        name = self.names.get(key)
        if name is None:
            name = self.names[key] = self._fresh(hint)
            w = Writer()
            write(w, name)
            self.definitions.append(w.text())
        return name

    def _fresh(self, name: str) -> str:
        base, n = name, 1
        while name in self.used:
            n += 1
            name = f"{base}_{n}"
        self.used.add(name)
        return name

"""Final programs as `.pto` text for the accelerator's assembler.

In: a program after all passes.  Out: one module with its device functions, or one for each of them.  One construct of
the program becomes its construct of text; what has none is an error that names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pypto.codegen.pto.from_buffer import BufferText
from pypto.codegen.pto.function import symbol
from pypto.codegen.pto.pipes import PipeText
from pypto.enums import FunctionIRStage
from pypto.ir.program import Function, Program
from pypto.ir.verify.launched_blocks import launched_blocks

__all__ = ["PTOCodegen", "module_of", "symbol"]


class PTOCodegen:
    """`PTOCodegen().generate(program)`."""

    def generate(self, program: Program, *, arch: str = "a2a3", emit_tile_addr: bool = True, emit_source_loc: bool = True) -> str:
        """The device functions of a final program as one module.

        `emit_tile_addr`: the planner gave addresses (PYPTO, DSA_RP).  `emit_source_loc`: operations end with the user's
        file and line.  NotSupportedError, at the user's line, for what has no instruction.
        """
        functions = [f for f in program.function_list if f.is_device]
        return module_of(functions, arch, emit_tile_addr, emit_source_loc, launched_blocks(program))


def module_of(
    functions: Iterable[Function], arch: str, addressed: bool, locations: bool, launched: Mapping[str, int] | None = None
) -> str:
    """Device functions as a module; `launched`: those that several blocks run beside each other, as of `launched_blocks`."""
    lines = [f'module attributes {{pto.target_arch = "{arch}"}} {{']
    for f in functions:
        lines += _function(f, arch, addressed, locations, (launched or {}).get(f.name, 1))
    return "\n".join([*lines, "}"]) + "\n"


def _function(f: Function, arch: str, addressed: bool, locations: bool, blocks: int) -> list[str]:
    if f.ir_stage is FunctionIRStage.Buffer:
        return BufferText(f, arch, locations).lines()
    return PipeText(f, arch, locations, addressed, blocks).lines()

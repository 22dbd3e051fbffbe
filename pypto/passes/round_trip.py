"""The two laws of a program's written forms.

In: a program.  Out: nothing, or an InternalError that shows where a copy differs: what is serialized and read back is equal,
and so is what is printed and parsed back while every function is at the functional stage.
"""

from __future__ import annotations

from pypto.enums import FunctionIRStage
from pypto.errors import InternalError
from pypto.ir.printer import python_print
from pypto.ir.program import Program
from pypto.ir.serialization import deserialize, serialize
from pypto.ir.structural import compare

__all__ = ["check_round_trip", "is_functional"]


def is_functional(program: Program) -> bool:
    """Whether the program's text can be parsed: Buffer functions print for reading only."""
    return all(f.ir_stage is FunctionIRStage.Functional for f in program.function_list)


def check_round_trip(program: Program, where: str, binary: bool = True) -> None:
    """Raise InternalError naming `where` if a copy of the program is not equal to it."""
    if binary:
        _equal(program, deserialize(serialize(program)), where, "serialized and read back")
    if is_functional(program):
        from pypto.language import parse_program

        text = python_print(program)
        try:
            copy = parse_program(text)
        except Exception as e:
            raise InternalError(f"after {where}: the printed program does not parse: {e}\n{text}") from e
        _equal(program, copy, where, "printed and parsed back", text)


def _equal(program: Program, copy: object, where: str, how: str, text: str = "") -> None:
    found = compare(program, copy, auto_map=True)
    if found is not None:
        raise InternalError(
            f"after {where}: the program {how} differs at {found.where()}: {found.left!r} became {found.right!r}\n{text}"
        )

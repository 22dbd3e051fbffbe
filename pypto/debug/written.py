"""Storage that was created and that nothing has written is an error to read.

In: an operator's operands, and its result.  Out: the result, as undefined as the operand that it hands on.
"""

from __future__ import annotations

from collections.abc import Sequence

from pypto.debug.apply import Application
from pypto.debug.frame import Value
from pypto.debug.memory import Block
from pypto.errors import KernelBoundsError
from pypto.ir.expr import Call, Var
from pypto.ir.opdef import OpDef, Special
from pypto.ir.verify.ssa import user_name
from pypto.ir.verify.written import HANDS_ON, read_operands

__all__ = ["EXPECTATIONS", "expect_written", "hand_on"]

_REMEDY = "write it before the loop or branch that may not, or leave out what reads it there"


def hand_on(op: OpDef, call: Call, args: Sequence[Value], value: Value) -> Value:
    """The result of a copy, which may be of nothing."""
    if isinstance(value, Block) and _is_copy(op):
        source = args[0]
        value.undefined = value.undefined or (isinstance(source, Block) and source.undefined)
    return value


def expect_written(op: OpDef, call: Call, args: Sequence[Value]) -> None:
    """KernelBoundsError where an operand that is read holds nothing."""
    if not any(isinstance(a, Block) and a.undefined for a in args) or _is_copy(op):
        return
    for i in read_operands(op, call):
        a, e = args[i], call.args[i]
        if isinstance(a, Block) and a.undefined:
            raise _unwritten(user_name(e) if isinstance(e, Var) else op.name, call)


def _unwritten(name: str, call: Call) -> KernelBoundsError:
    return KernelBoundsError(f"'{name}' is read, and nothing has written it", call.span, _REMEDY)


def _is_copy(op: OpDef) -> bool:
    return isinstance(op.semantics, Special) and (op.semantics.kind in HANDS_ON or op.semantics.kind == "query")


def _expect(app: Application) -> Value:
    if not app.args[0]:
        raise _unwritten(app.kwargs["name"], app.call)
    return None


EXPECTATIONS = {"expect": _expect}

"""A result that is only ever written into is written straight to global memory.

In: `acc = create(...)`, windows of it assembled (in loops, too), and `return acc`.  Out: an appended Out parameter in
place of the created tensor, so that the result never has to fit on the chip.
Invariant: a created tensor that is read, or has two live versions, stays a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto._lazy import later
from pypto.enums import ParamDirection
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.program import Function
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import AssignStmt, ReturnStmt, flatten_to_stmts, seq
from pypto.named import NamedTuple
from pypto.passes.retype import Retyper

if TYPE_CHECKING:
    from pypto.passes.convert_tensor_to_tile_ops import chains
else:
    chains = later("pypto.passes.convert_tensor_to_tile_ops", "chains")

__all__ = ["NOT_A_RESULT", "AddedOutput", "append_outputs", "created_results_to_outputs"]

_WINDOW_WRITES = frozenset(("tensor.assemble",))
NOT_A_RESULT = -1  # of an output that a wrapper's callee gained and the wrapper does not return


class AddedOutput(NamedTuple):
    """An Out parameter that a kernel gained, and which of its results it is."""

    result: int
    param: Var


def append_outputs(f: Function, added: list[AddedOutput]) -> Function:
    """The function with further Out parameters."""
    if not added:
        return f
    return f.replace(
        params=(*f.params, *(a.param for a in added)),
        param_directions=(*f.param_directions, *(ParamDirection.Out for _ in added)),
    )


def created_results_to_outputs(f: Function) -> tuple[Function, list[AddedOutput]]:
    """The function with results that are only assembled turned into Out parameters (not yet in its signature)."""
    stmts = flatten_to_stmts(f.body)
    added: list[AddedOutput] = []
    if not stmts or not isinstance(stmts[-1], ReturnStmt):
        return f, added
    creates = [(s.var, s.value) for s in stmts if isinstance(s, AssignStmt) and _is_undefined(s.value)]
    returned = stmts[-1].value
    replaced: dict[Var, Var] = {}
    for var, call in creates:
        chain = chains.chain_of(f.body, var, _WINDOW_WRITES, frozenset())
        at = [i for i, v in enumerate(returned) if v in chain.versions]
        if not chain.closed or len(chain.versions) < 2 or not at or not isinstance(var.type, TensorType):
            continue
        param = Var(f"ret{at[0]}_out", var.type, call.span)
        replaced[var] = param
        added.append(AddedOutput(at[0], param))
    if not added:
        return f, added
    kept = seq([s for s in stmts if not (isinstance(s, AssignStmt) and s.var in replaced)], f.body.span)
    added.sort(key=lambda a: a.result)
    return f.replace(body=Retyper(replaced).visit(kept)), added


def _is_undefined(e: Expr) -> bool:
    return isinstance(e, Call) and e.op.name == "tensor.create" and "init_value" not in e.kwargs

"""SplitVectorKernel: how the lanes of the vector core share a function of theirs.

In: functions of the vector core, with pipes.  Out: the attribute `split` says which axis of what is passed the lanes share.  On
chips whose lanes always start together, a function that shares nothing is lane 0's: lane 1 takes what is passed to both,
gives nothing where both are waited for, and leaves the rest alone (attribute `dual_aiv_dispatch`).
Error, at the user's line: a function that shares both axes, or passes some tiles in halves and others whole.
"""

from __future__ import annotations

from typing import Any

from pypto.enums import FunctionType
from pypto.errors import NotSupportedError
from pypto.ir import scalar
from pypto.ir.expr import Call, MakeTuple, Var, const_index
from pypto.ir.node import Node
from pypto.ir.program import Function
from pypto.ir.rewrite import deep_clone
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, EvalStmt, IfStmt, ReturnStmt, Stmt, flatten_to_stmts, seq, value_of
from pypto.ir.verify.cores import kind_of_call
from pypto.ir.verify.properties import IRProperty
from pypto.passes.context import PassOptions
from pypto.passes.expand_mixed_kernel.needed import acts, without_needless
from pypto.passes.framework import function_pass
from pypto.passes.ssa_rewriter import SSARewriter, typed_call
from pypto.passes.statements import calls
from pypto.target import chip_of

__all__ = ["split_vector_kernel"]

_PASSED = ("push", "pop")
_OPENING = ("initialize_pipe", "slot_buffer")


@function_pass(
    "SplitVectorKernel", requires=(IRProperty.SSAForm,), produces=(IRProperty.SSAForm, IRProperty.NormalizedStmtStructure)
)
def split_vector_kernel(f: Function, options: PassOptions) -> Function:
    if f.func_type is not FunctionType.AIV:
        return f
    passed = [c for c in calls(f.body) if kind_of_call(c) in _PASSED]
    split = _split_of(f, passed)
    if split or f.attrs.get("split_aiv"):
        return f.replace(attrs=f.attrs.with_(split=split) if split else f.attrs.with_(dual_aiv_dispatch=True))
    if not chip_of(options.platform).lanes_start_together or f.attrs.get("dual_aiv_dispatch"):
        return f
    return _for_one_lane(f)


def _split_of(f: Function, passed: list[Call]) -> int:
    splits = {c.kwargs.get("split", 0) for c in passed}
    if len(splits) > 1 or (f.attrs.get("split_aiv") and 0 in splits):
        first = passed[0].kwargs.get("split", 0)
        other = next((c for c in passed if c.kwargs.get("split", 0) != first), passed[0])
        what = f"'{f.name}' shares what it passes between the lanes in more than one way: that has no .pto form"
        raise NotSupportedError(what, other.span, "let all regions of a kernel have one mode, and pass values in halves only")
    return next(iter(splits), 0)


def _for_one_lane(f: Function) -> Function:
    """The function on lane 0; on lane 1 what both lanes have to do for the pipes."""
    stmts = [s for s in flatten_to_stmts(f.body) if not isinstance(s, ReturnStmt)]
    returned = [s for s in flatten_to_stmts(f.body) if isinstance(s, ReturnStmt)]
    opening = [s for s in stmts if _kind(s) in _OPENING]
    work = seq([s for s in stmts if s not in opening], f.body.span)
    idle, _ = deep_clone(without_needless(_Idle().body(work)))
    asked = typed_call("tile.get_subblock_idx", (), None, f.span)
    lane = Var("lane", asked.type, f.span)
    other = None if not flatten_to_stmts(idle) else idle
    choice = IfStmt(scalar.eq(lane, const_index(0)), work, other, (), f.span)
    body = seq((*opening, AssignStmt(lane, asked, f.span), choice, *returned), f.body.span)
    return f.replace(body=body, attrs=f.attrs.with_(dual_aiv_dispatch=True))


def _kind(s: Stmt) -> str:
    value: Node | None = value_of(s)
    return kind_of_call(value) if isinstance(value, Call) else ""


class _Idle(SSARewriter):
    """What a lane does that only keeps the pipes going: it writes nothing, and pushes tiles of which nothing is valid."""

    def visit_assign_stmt(self, s: AssignStmt) -> Any:
        if acts(s) and _kind(s) != "pop":
            self.drop(s)
            return None
        return super().visit_assign_stmt(s)

    def visit_eval_stmt(self, s: EvalStmt) -> Any:
        call = s.expr
        if _kind(s) == "free":
            return s
        if _kind(s) != "push" or not isinstance(call, Call):
            return None
        t = call.args[0].type
        assert isinstance(t, TileType)
        made = self.emit("tile.create", (MakeTuple(t.shape),), {"dtype": t.dtype, "target_memory": t.memory_space}, "nothing")
        nothing = self.emit("tile.set_validshape", (made, const_index(0), const_index(0)), None, "nothing")
        return s.replace(expr=call.replace(args=(nothing,)))

    def drop(self, s: AssignStmt) -> None:
        """A tensor that is not written is what it was."""
        assert isinstance(s.value, Call)
        written = next((a for a in s.value.args if a.type == s.var.type), None)
        if written is not None:
            self.vars[s.var] = self.expr(written)

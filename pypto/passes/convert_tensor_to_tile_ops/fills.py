"""Element-by-element fills of a contiguous region become one bulk write.

In: `for i in [0, N): write(x, [.., base + i, ..], constant)` with nothing else in the body.  Out: `full` and `assemble`.
Invariant: only loops whose regions are contiguous, whole 32-byte blocks and mutually disjoint change; a dynamic value,
a stride or an unaligned region stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pypto.enums import ForKind
from pypto.ir import arith
from pypto.ir.expr import Call, ConstBool, ConstFloat, ConstInt, Expr, MakeTuple, Var, const_index
from pypto.ir.program import Function
from pypto.ir.rewrite import substitute, walk
from pypto.ir.shaped import TensorType, const_dims
from pypto.ir.stmt import AssignStmt, ForStmt, SeqStmts, Stmt, YieldStmt, flatten_to_stmts
from pypto.named import NamedTuple
from pypto.passes.convert_tensor_to_tile_ops.flow import GmFlow, analyze
from pypto.passes.ssa_rewriter import SSARewriter
from pypto.passes.statements import applies
from pypto.target.chip import BLOCK_BYTES

__all__ = ["fill_loops_to_bulk"]


class _Write(NamedTuple):
    """One write of a fill loop: the version it replaces and makes, where the region begins, what it is filled with."""

    target: Var
    result: Var
    offset: tuple[Expr, ...]
    axis: int
    value: Expr
    call: Call


def fill_loops_to_bulk(f: Function) -> Function:
    """Every fill loop of a function as bulk writes."""
    return _Fills(analyze(f)).function(f) if applies(f, "tensor.write") else f


class _Fills(SSARewriter):
    def __init__(self, flow: GmFlow) -> None:
        super().__init__()
        self.flow = flow

    def visit_for_stmt(self, s: ForStmt) -> Stmt:
        made = super().visit_for_stmt(s)
        assert isinstance(made, ForStmt)
        count = _trip_count(made)
        writes = _writes(made) if count else None
        # Two names that a loop carries may stand for one tensor.
        tensors: dict[Var, frozenset[Var]] = {
            m: self.flow.roots.get(a, frozenset()) for m, a in zip(made.iter_args, s.iter_args, strict=True)
        }
        if count is None or writes is None or not _separate(writes, count, tensors):
            return made
        self._bulk(made, writes, count)
        return SeqStmts(())

    def _bulk(self, s: ForStmt, writes: Sequence[_Write], count: int) -> None:
        now: dict[Var, Expr] = {a: self.visit(a.initValue) for a in s.iter_args}
        for w in writes:
            t = w.target.type
            assert isinstance(t, TensorType)
            shape = MakeTuple(const_index(count if i == w.axis else 1) for i in range(len(t.shape)))
            filled = self.emit("tensor.full", (shape, w.value), {"dtype": t.dtype}, "fill")
            target = now[w.target]
            now[w.result] = self.emit("tensor.assemble", (target, filled, MakeTuple(w.offset)), None, w.result.name_hint)
        y = flatten_to_stmts(s.body)[-1]
        assert isinstance(y, YieldStmt)
        for r, v in zip(s.return_vars, y.value, strict=True):
            assert isinstance(v, Var)
            self.vars[r] = now[v]


def _trip_count(s: ForStmt) -> int | None:
    plain = s.kind is ForKind.Sequential and arith.is_const(s.start, 0) and arith.is_const(s.step, 1)
    stop = s.stop
    return stop.value if plain and isinstance(stop, ConstInt) and stop.value > 0 else None


def _writes(s: ForStmt) -> list[_Write] | None:
    """The writes of a loop that does nothing else, or None."""
    found = []
    versions: dict[Var, None] = dict.fromkeys(s.iter_args)
    *stmts, last = flatten_to_stmts(s.body)
    for stmt in stmts:
        if not isinstance(stmt, AssignStmt) or not isinstance(stmt.value, Call) or stmt.value.op.name != "tensor.write":
            return None
        call = stmt.value
        target, value = call.args[0], call.args[2]
        if not isinstance(target, Var) or target not in versions or not isinstance(value, (ConstInt, ConstFloat, ConstBool)):
            return None
        assert isinstance(call.args[1], MakeTuple)
        region = _region(target, call.args[1].elements, s.loop_var)
        if region is None:
            return None
        versions[stmt.var] = None
        found.append(_Write(target, stmt.var, region[0], region[1], value, call))
    if not found or not isinstance(last, YieldStmt) or any(not isinstance(v, Var) or v not in versions for v in last.value):
        return None
    return found


def _region(target: Var, indices: tuple[Expr, ...], i: Var) -> tuple[tuple[Expr, ...], int] | None:
    """Where the region begins and along which axis it runs; None unless it is contiguous and begins at a block."""
    t = target.type
    dims = const_dims(t.shape) if isinstance(t, TensorType) else None
    if dims is None or not isinstance(t, TensorType) or (t.tensor_view is not None and t.tensor_view.stride):
        return None
    moving = [k for k, e in enumerate(indices) if any(x is i for x in walk(e))]
    if len(moving) != 1 or any(d != 1 for d in dims[moving[0] + 1 :]):
        return None
    axis = moving[0]
    base = substitute(indices[axis], {i: const_index(0)})
    step = arith.linear(indices[axis]).minus(arith.linear(base))
    if step.constant or len(step.terms) != 1 or step.terms[0][0] is not i or step.terms[0][1] != 1:
        return None
    offset = (*indices[:axis], arith.add(base, const_index(0)), *indices[axis + 1 :])
    element, pitch, at = t.dtype.get_byte(), 1, arith.Linear(0, [])
    for e, d in zip(reversed(offset), reversed(dims), strict=True):
        at = at.plus(arith.linear(e).scaled(pitch * element))
        pitch *= d
    return (offset, axis) if at.divisor() % BLOCK_BYTES == 0 else None


def _separate(writes: Sequence[_Write], count: int, tensors: Mapping[Var, frozenset[Var]]) -> bool:
    """Whole blocks, and no two regions of one tensor that could overlap: bulk writes do not interleave."""
    roots: dict[Var, Var] = {}
    for w in writes:
        t = w.target.type
        assert isinstance(t, TensorType)
        if count * t.dtype.get_byte() % BLOCK_BYTES:
            return False
        roots[w.result] = roots.get(w.target, w.target)
    for k, a in enumerate(writes):
        for b in writes[:k]:
            x, y = roots[a.result], roots[b.result]
            if (x is y or tensors[x] & tensors[y]) and not _disjoint(a, b, count):
                return False
    return True


def _disjoint(a: _Write, b: _Write, count: int) -> bool:
    for axis, (x, y) in enumerate(zip(a.offset, b.offset, strict=True)):
        d = arith.linear(x).minus(arith.linear(y))
        along = count if axis == a.axis == b.axis else 1
        if not d.terms and abs(d.constant) >= along and (axis == a.axis) == (axis == b.axis):
            return True
    return False

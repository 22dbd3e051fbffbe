"""Judge of vector-lane regions: what may stand inside and outside of them, and what may cross their border.

Codes: 620 a region in a function that is no kernel, 621 `aiv_shard` or `aic_gather` outside of a region, 622 one that does
not fit its region, 623 a product inside of a region, 624 a reduction along the axis that the lanes share, 625 vector work
outside of the regions of a kernel, 626 a value of the matrix unit that comes in whole, 627 a value that leaves without
`aic_gather`, 628 an operand on the wrong side, 629 a whole that is used before it is one, 630 a barrier inside of a region.
Values are judged once they are tiles; before that, only where operators stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from pypto.enums import FunctionType, MemorySpace, SplitMode
from pypto.ir import ops
from pypto.ir.expr import Call, Var
from pypto.ir.node import Node
from pypto.ir.opdef import Matmul, OpDef, Reduce, Special
from pypto.ir.ops.lanes import GATHER, SHARD
from pypto.ir.ops.system import MEET
from pypto.ir.program import Function, Program
from pypto.ir.shaped import ShapedType, TensorType, TileType
from pypto.ir.stmt import (
    AssignStmt,
    EvalStmt,
    ForStmt,
    IfStmt,
    InCoreScopeStmt,
    ReturnStmt,
    SplitAivScopeStmt,
    Stmt,
    WhileStmt,
    YieldStmt,
    flatten_to_stmts,
    value_of,
)
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.scopes import defined_by, statements, uses_in
from pypto.ir.verify.ssa import user_name
from pypto.span import Span

__all__ = ["Core", "aiv_split_valid", "core_of", "kind_of", "leaving", "region_findings"]


class Core(Enum):
    """The parts of a chip that operators keep busy."""

    SHARED = 0  # either can do it
    CUBE = 1
    VECTOR = 2
    MIXED = 3


_AXIS = {SplitMode.UP_DOWN: 0, SplitMode.LEFT_RIGHT: 1}
# What is no computation: transfers, storage, aliases, single elements, queries.
_EXEMPT = frozenset(("load", "store", "copy", "create", "alloc", "view", "read", "write", "query", "extract", "insert"))
_SCOPE_REMEDY = "compute it inside of the pl.split_aiv region, or in a kernel of its own: another pl.at"


def aiv_split_valid(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        yield from region_findings(f)


def region_findings(f: Function) -> Iterator[Diagnostic]:
    """What is wrong with the regions of one function."""
    regions = [s for s in statements(f.body) if isinstance(s, SplitAivScopeStmt)]
    if f.func_type is not FunctionType.InCore:
        # What stands in a scope that will be a kernel is judged when it is one.
        kernels = [s for s in statements(f.body) if isinstance(s, InCoreScopeStmt)] if not f.is_device else []
        known = {id(s) for k in kernels for s in statements(k)}
        for r in regions:
            if id(r) not in known:
                yield _finding(620, "a pl.split_aiv region outside of a kernel", r.span, "put it under `with pl.at(...)`")
        return
    inside = {id(s) for r in regions for s in statements(r.body)}
    for s, call, op in _applied(f.body):
        if id(s) in inside:
            continue
        if core_of(op) is Core.MIXED:
            remedy = "put it into `for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):`"
            yield _finding(621, f"pl.{op.concept} outside of a vector-lane region", call.span, remedy)
        elif regions and core_of(op) is Core.VECTOR:
            what = f"{op.name} outside of the regions: in a kernel with pl.split_aiv, the vector unit works in regions only"
            yield _finding(625, what, call.span, _SCOPE_REMEDY)
    for r in regions:
        yield from _operators(r)
        yield from _crossing(f, r)


def kind_of(op: OpDef) -> str:
    return op.semantics.kind if isinstance(op.semantics, Special) else ""


def core_of(op: OpDef) -> Core:
    """The core that an operator keeps busy; what takes a value from one to the other belongs to both."""
    if kind_of(op) in (SHARD, GATHER):
        return Core.MIXED
    if isinstance(op.semantics, Matmul):
        return Core.CUBE
    return Core.SHARED if op.level not in ("tensor", "tile") or kind_of(op) in _EXEMPT else Core.VECTOR


def _finding(code: int, message: str, span: Span, hint: str) -> Diagnostic:
    return Diagnostic(Severity.Error, "AivSplitValid", code, message, span, hint=hint)


def _applied(body: Stmt) -> Iterator[tuple[Stmt, Call, OpDef]]:
    for s in statements(body):
        e = value_of(s)
        op = ops.of(e) if isinstance(e, Call) else None
        if isinstance(e, Call) and op is not None:
            yield s, e, op


# -- inside --------------------------------------------------------------------------------------------------------


def _operators(r: SplitAivScopeStmt) -> Iterator[Diagnostic]:
    top = {id(s) for s in flatten_to_stmts(r.body)}
    axis = _AXIS.get(r.split)
    for s, call, op in _applied(r.body):
        if kind_of(op) == MEET:
            what = f"{op.name} inside of a vector-lane region: the lanes would reach it one after the other"
            yield _finding(630, what, call.span, "put it before or behind the region: both lanes reach it once")
        elif core_of(op) is Core.CUBE:
            what = f"{op.name} inside of a vector-lane region: products are made by the matrix unit, once for both lanes"
            yield _finding(623, what, call.span, "make the product before the region, and take this lane's half: pl.aiv_shard(x)")
        elif isinstance(op.semantics, Reduce) and axis is not None and _reduced(call, op.semantics) == axis:
            over, other = (("rows", "LEFT_RIGHT"), ("columns", "UP_DOWN"))[axis]
            what = f"{op.name} goes over the {over} that the lanes share: each lane has a half of them"
            yield _finding(624, what, call.span, f"split the other axis, mode=pl.SplitMode.{other}, or reduce in another kernel")
        elif core_of(op) is Core.MIXED:
            yield from _border(r, call, op, id(s) in top)


def _reduced(call: Call, form: Reduce) -> int:
    """The axis of a matrix along which a reduction goes; batches in front do not count."""
    t = call.args[0].type
    return form.axis if isinstance(t, ShapedType) and len(t.shape) >= 2 else -1


def _border(r: SplitAivScopeStmt, call: Call, op: OpDef, top: bool) -> Iterator[Diagnostic]:
    if call.kwargs["split"] != r.split.value:
        what = f"{op.name} with split={call.kwargs['split']} in a region in mode {r.split.name}"
        yield _finding(622, what, call.span, f"pl.{op.concept}(x) knows the mode of its region")
    if kind_of(op) == GATHER and not top:
        what = "pl.aic_gather inside of a loop or a branch of its region"
        yield _finding(622, what, call.span, "assign the half to a name there, and gather it at the end of the region")
    t = call.args[0].type
    space = t.memory_space if isinstance(t, TileType) else None
    if kind_of(op) == SHARD and space not in (None, MemorySpace.Acc):
        what = f"pl.aiv_shard takes what the matrix unit made, not a tile in {_name(space)} memory"
        yield _finding(628, what, call.span, "load this lane's half: pl.load(x, [lane * <rows>, 0], [<rows>, <cols>])")
    if kind_of(op) == GATHER and space not in (None, MemorySpace.Vec):
        what = f"pl.aic_gather takes what a lane computed, not a tile in {_name(space)} memory"
        yield _finding(628, what, call.span, "compute the half from pl.aiv_shard, or from what this lane loads")


def _name(space: MemorySpace | None) -> str:
    return space.name if space is not None else "no"


# -- the border ----------------------------------------------------------------------------------------------------


def leaving(f: Function, r: SplitAivScopeStmt) -> list[Var]:
    """The values of a region that are read outside of it, in the order in which they come into being."""
    inside = {id(s) for s in statements(r.body)}
    outside = set(_read(s for s in statements(f.body) if id(s) not in inside))
    return [v for s in statements(r.body) for v in defined_by(s) if v in outside]


def _reads(s: Stmt) -> list[Var]:
    """Variables that a statement reads by itself."""
    found: tuple[Node, ...] = ()
    if isinstance(s, AssignStmt):
        found = (s.value,)
    elif isinstance(s, EvalStmt):
        found = (s.expr,)
    elif isinstance(s, ForStmt):
        found = (s.start, s.stop, s.step, *(a.initValue for a in s.iter_args))
    elif isinstance(s, WhileStmt):
        found = (s.condition, *(a.initValue for a in s.iter_args))
    elif isinstance(s, IfStmt):
        found = (s.condition,)
    elif isinstance(s, (YieldStmt, ReturnStmt)):
        found = s.value
    return [v for e in found for v in uses_in(e)]


def _read(found: Iterator[Stmt]) -> Iterator[Var]:
    """Variables that statements read by themselves, extents in the types of what they read and define included."""
    for s in found:
        own = _reads(s)
        yield from own
        for v in (*own, *defined_by(s)):
            if isinstance(v.type, ShapedType):
                yield from (u for d in v.type.valid for u in uses_in(d))


def _crossing(f: Function, r: SplitAivScopeStmt) -> Iterator[Diagnostic]:
    defined = {v for s in statements(r.body) for v in defined_by(s)}
    gathered: dict[Var, Call] = {}
    for s, call, op in _applied(r.body):
        if isinstance(s, AssignStmt) and kind_of(op) == GATHER:
            gathered[s.var] = call
    for s in statements(r.body):
        for v in _reads(s):
            if v in gathered:
                what = f"'{user_name(v)}' is whole when all lanes have given their halves: behind the region"
                yield _finding(629, what, s.span, "use it after the loop, or use the half itself")
            elif v not in defined and _of_matrix_unit(v) and not _is_shard(s):
                what = f"'{user_name(v)}' is the whole result of the matrix unit: a lane works on its half"
                yield _finding(626, what, s.span, f"take the half: pl.aiv_shard({user_name(v)})")
    places = {v: s.span for s in statements(r.body) for v in defined_by(s)}
    for v in leaving(f, r):
        if not isinstance(v.type, TensorType) and v not in gathered:
            what = f"'{user_name(v)}' of one lane is used behind the region, where there is one value for both"
            remedy = "give it to pl.aic_gather, or store it with pl.store"
            if not isinstance(v.type, TileType):
                remedy = "compute it outside of the region, or write it with pl.write"
            yield _finding(627, what, places[v], remedy)


def _of_matrix_unit(v: Var) -> bool:
    return isinstance(v.type, TileType) and v.type.memory_space in (MemorySpace.Acc, MemorySpace.Left, MemorySpace.Right)


def _is_shard(s: Stmt) -> bool:
    op = ops.of(s.value) if isinstance(s, AssignStmt) and isinstance(s.value, Call) else None
    return op is not None and kind_of(op) == SHARD

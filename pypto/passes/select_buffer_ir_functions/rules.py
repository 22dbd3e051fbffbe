"""The rules by which a kernel is chosen for buffers.

In: one placed kernel and the options.  Out: the first thing about it that the rules do not cover, or None.
Element types of operators come from their buffer recipes; everything else is a rule about structure: packed global
memory, dense vector tiles, proved alignment of windows, storage that control flow can join, extents that do not change
behind a reader's back.
"""

from __future__ import annotations

from pypto.dtypes import DataType
from pypto.enums import ForKind, FunctionIRStage, MemoryPlanner, MemorySpace, TensorLayout, TileLayout
from pypto.ir import arith, ops
from pypto.ir.expr import BinaryExpr, Call, ConstInt, Expr, MakeTuple, UnaryExpr, Var
from pypto.ir.opdef import Matmul, OpDef, Special
from pypto.ir.ops.buffer_matrix import MATRIX
from pypto.ir.program import Function
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType, TileType, const_dims, same_dims
from pypto.ir.stmt import (
    AssignStmt,
    EvalStmt,
    ForStmt,
    IfStmt,
    ReturnStmt,
    Stmt,
    WhileStmt,
    YieldStmt,
    flatten_to_stmts,
    last_yield,
)
from pypto.ir.types import PtrType, ScalarType
from pypto.passes.context import PassOptions
from pypto.passes.memory.sizes import is_dynamic, line_pitch, tile_bytes
from pypto.passes.memory.windows import is_block_aligned, scalar_values, window_offset
from pypto.passes.select_buffer_ir_functions import matrix
from pypto.passes.select_buffer_ir_functions.extents import stale_extents
from pypto.passes.statements import definitions, statements
from pypto.target.chip import BLOCK_BYTES, chip_of

__all__ = ["reason_against"]

TRANSFERS = frozenset((DataType.FP16, DataType.BF16, DataType.FP32, DataType.INT32))
RELABELS = TRANSFERS | {DataType.INT16, DataType.UINT8}
FILLS = frozenset((DataType.FP32,))


class _Stays(Exception):
    """The kernel stays at tile stage, and why."""


def reason_against(f: Function, options: PassOptions) -> str | None:
    """Why a kernel is not chosen, or None if it is."""
    if not options.enable_buffer_ir:
        return "buffers are switched off"
    chip = chip_of(options.platform)
    if not chip.buffer_ir_by_default:
        return f"{chip.name} kernels stay at tile stage"
    if f.ir_stage is not FunctionIRStage.Functional or set(f.attrs) & {"split", "split_aiv", "dual_aiv_dispatch"}:
        return "the kernel is split over lanes"
    try:
        _Rules(f, options.memory_planner is MemoryPlanner.PTOAS).check()
    except _Stays as e:
        return str(e)
    return matrix.reason_against_storage(f, chip)


class _Rules:
    def __init__(self, f: Function, symbolic: bool) -> None:
        self.f, self.symbolic = f, symbolic
        self.values = scalar_values(f.body)
        self.pitch: dict[Var, int] = {}  # of windows: elements between their rows
        self.offset: dict[Var, arith.Linear] = {}  # of windows: bytes from the first of their allocation
        self.relabelled: set[Var] = set()  # relabels of windows
        self.reshaped: set[Var] = set()  # allocations that relabels lie in
        self.parents: dict[Var, set[object]] = {}  # by allocation: the shapes that windows are cut from
        self.gm: dict[Var, Var] = {p: p for p in f.params if isinstance(p.type, TensorType)}
        self.controlled = any(isinstance(n, (IfStmt, ForStmt, WhileStmt)) for n in statements(f.body))

    def stays(self, why: str) -> None:
        raise _Stays(why)

    def need(self, holds: bool, why: str) -> None:
        if not holds:
            raise _Stays(why)

    def unless(self, why: str | None) -> None:
        if why is not None:
            raise _Stays(why)

    def check(self) -> None:
        self.need(not any(isinstance(p.type, TileType) for p in self.f.params), "it takes a tile")
        for v in definitions(self.f.body):
            if isinstance(v.type, TileType):
                self.tile(v, v.type)
        self.allocations()
        for n in walk(self.f.body):
            if isinstance(n, (BinaryExpr, UnaryExpr)):
                self.scalar(n)
        for s in flatten_to_stmts(self.f.body):
            self.statement(s)
        for v in definitions(self.f.body):
            t = v.type
            if isinstance(t, TileType) and t.memref is not None and is_dynamic(t):
                self.need(t.memref.base_ not in self.reshaped, f"'{v.name_hint}', relabelled elsewhere, has run-time extents")
        stale = stale_extents(self.f)
        self.need(
            stale is None, f"'{stale.name_hint if stale is not None else ''}' is used after its valid extents were set anew"
        )

    # -- values --

    def allocations(self) -> None:
        """Some tile fills each allocation: one that is made of slots is larger than any of its tiles."""
        placed = [v.type.memref for v in definitions(self.f.body) if isinstance(v.type, TileType)]
        largest: dict[Var, int] = {}
        for m in placed:
            if m is not None:
                largest[m.base_] = max(m.size_, largest.get(m.base_, 0))
        for s in statements(self.f.body):
            if isinstance(s, AssignStmt) and isinstance(s.value, Call) and s.var in largest and s.value.args:
                whole = s.value.args[0]
                filled = isinstance(whole, ConstInt) and whole.value == largest[s.var]
                self.need(filled, f"'{s.var.name_hint}' is made of slots")

    def tile(self, v: Var, t: TileType) -> None:
        if t.memory_space in MATRIX:
            self.unless(matrix.reason_against_tile(v, t))
            return
        dims = const_dims(t.shape)
        dense = t.layout.blayout is TileLayout.row_major and t.layout.is_flat
        self.need(dims is not None and len(dims) == 2, f"'{v.name_hint}' has no static rank-2 shape")
        self.need(t.memory_space is MemorySpace.Vec and dense, f"'{v.name_hint}' is no dense vector tile")
        assert dims is not None
        self.need(t.dtype in RELABELS, f"'{v.name_hint}' holds {t.dtype}")
        self.need(dims[1] * t.dtype.get_byte() % BLOCK_BYTES == 0, f"rows of '{v.name_hint}' are no whole blocks")
        self.need(t.memref is not None and t.memref.slot_count_ == 1, f"'{v.name_hint}' lies in a slot")
        self.need(not (self.controlled and is_dynamic(t)), f"'{v.name_hint}' has run-time extents within control flow")

    def scalar(self, e: BinaryExpr | UnaryExpr) -> None:
        t = e.type
        unsigned = isinstance(t, ScalarType) and t.dtype.is_unsigned_int()
        self.need(not unsigned, "it computes with unsigned scalars")

    def returns(self, s: ReturnStmt) -> None:
        for v, t in zip(s.value, self.f.return_types, strict=False):
            if isinstance(v.type, TensorType):
                self.need(self.tensor(v).type == t, "a result is declared with another view than its parameter")

    def tensor(self, e: Expr) -> Var:
        known = self.gm.get(e) if isinstance(e, Var) else None
        if known is None:
            raise _Stays("a tensor is no alias of one parameter")
        return known

    # -- statements --

    def body(self, stmts: list[Stmt]) -> None:
        for s in stmts:
            self.statement(s)

    def statement(self, s: Stmt) -> None:
        if isinstance(s, AssignStmt):
            self.assign(s)
        elif isinstance(s, EvalStmt):
            self.need(isinstance(s.expr, Call), "it evaluates something that is no operator")
            assert isinstance(s.expr, Call)
            self.call(None, s.expr)
        elif isinstance(s, IfStmt):
            self.branch(s)
        elif isinstance(s, (ForStmt, WhileStmt)):
            self.loop(s)
        elif isinstance(s, ReturnStmt) and s is flatten_to_stmts(self.f.body)[-1]:
            self.returns(s)
        else:
            self.need(isinstance(s, YieldStmt), f"it has a {type(s).__name__} in its body")

    def assign(self, s: AssignStmt) -> None:
        value = s.value
        if isinstance(value, Call):
            self.call(s.var, value)
        elif isinstance(value, Var) and isinstance(s.var.type, TensorType):
            self.gm[s.var] = self.tensor(value)
        elif isinstance(value, Var) and value in self.pitch:
            self.pitch[s.var], self.offset[s.var] = self.pitch[value], self.offset[value]
            self.relabelled |= {s.var} if value in self.relabelled else set()
        else:
            self.need(not isinstance(s.var.type, TensorType), "a tensor is no alias of one parameter")

    def branch(self, s: IfStmt) -> None:
        self.body(flatten_to_stmts(s.then_body))
        self.body(flatten_to_stmts(s.else_body))
        then, other = last_yield(s.then_body), last_yield(s.else_body)
        for i, r in enumerate(s.return_vars):
            if isinstance(r.type, TensorType):
                assert then is not None
                self.need(
                    other is not None and self.tensor(then.value[i]) is self.tensor(other.value[i]), "a branch chooses a tensor"
                )
                self.gm[r] = self.tensor(then.value[i])

    def loop(self, s: ForStmt | WhileStmt) -> None:
        if isinstance(s, ForStmt):
            t = s.loop_var.type
            index = isinstance(t, ScalarType) and t.dtype is DataType.INDEX
            positive = isinstance(s.step, ConstInt) and s.step.value > 0
            self.need(index and positive, "a loop does not count up by a constant")
            # On one core, trips that may come in any order come one after the other.
            self.need(s.kind in (ForKind.Sequential, ForKind.Parallel), "a loop is to be unrolled or pipelined")
        for a in s.iter_args:
            if isinstance(a.type, TensorType):
                self.gm[a] = self.tensor(a.initValue)
            self.need(a.initValue not in self.pitch, "a loop carries a window")
        self.body(flatten_to_stmts(s.body))
        y = last_yield(s.body)
        for a, r, v in zip(s.iter_args, s.return_vars, y.value if y is not None else (), strict=False):
            if isinstance(a.type, TensorType):
                self.need(self.tensor(v) is self.gm[a], "a loop carries a changing tensor")
                self.gm[r] = self.gm[a]
            self.need(v not in self.pitch, "a loop carries a window")

    # -- operators --

    def call(self, var: Var | None, c: Call) -> None:
        op = ops.of(c)
        if op is None:
            raise _Stays(f"it calls '{c.op.name}'")
        self.need(not c.attrs.without("pipeline_membership"), f"{op.name} has attributes of its own")
        self.need(var is not None or not op.is_pure(c.kwargs), f"the result of {op.name} is not used")
        if op.buffer is not None and op.level == "tile":
            self.elementwise(op, var, c)
            return
        if isinstance(op.semantics, Matmul):
            self.unless(matrix.reason_against_product(op, op.semantics, c, var))
            return
        kind = op.semantics.kind if isinstance(op.semantics, Special) else ""
        rule = getattr(self, f"on_{kind}", None)
        if rule is None:
            raise _Stays(f"{op.name} has no buffer form")
        rule(op, var, c)

    def elementwise(self, op: OpDef, var: Var | None, c: Call) -> None:
        assert op.buffer is not None
        assert var is not None
        t = var.type
        assert isinstance(t, TileType)
        self.need(t.dtype in op.buffer.dtypes, f"{op.name} of {t.dtype} has no buffer form")
        for a in c.args:
            if isinstance(a.type, TileType):
                alike = same_dims(a.type.shape, t.shape) and same_dims(a.type.valid, t.valid)
                self.need(alike, f"operands and result of {op.name} differ in shape or valid extents")

    def on_alloc(self, op: OpDef, var: Var | None, c: Call) -> None:
        self.need(var is not None and isinstance(var.type, PtrType), "an allocation has no name")

    def on_create(self, op: OpDef, var: Var | None, c: Call) -> None:
        self.need(op.level == "tile", "it creates a tensor")

    def on_expect(self, op: OpDef, var: Var | None, c: Call) -> None:
        """A condition on scalars, which buffers do not change."""

    def on_query(self, op: OpDef, var: Var | None, c: Call) -> None:
        self.need(not c.args and op.level == "tile", f"{op.name} has no buffer form")

    def on_fill(self, op: OpDef, var: Var | None, c: Call) -> None:
        assert var is not None
        assert isinstance(var.type, TileType)
        self.need(var.type.dtype in FILLS, f"{op.name} of {var.type.dtype} has no buffer form")

    def on_load(self, op: OpDef, var: Var | None, c: Call) -> None:
        self.need(not {k for k in c.kwargs if k != "target_memory"}, "a load has a policy of its own")
        t = self.packed(c.args[0])
        into_matrix = var is not None and _space(var) is MemorySpace.Mat
        self.need(into_matrix or t.dtype in TRANSFERS, f"a load of {t.dtype} elements")

    def on_store(self, op: OpDef, var: Var | None, c: Call) -> None:
        self.need(op.level == "tile" and not c.kwargs and len(c.args) == 3, "a store has a policy or a window of its own")
        t, source = self.packed(c.args[2]), c.args[0].type
        assert isinstance(source, TileType)
        self.need(_space(c.args[0]) in (MemorySpace.Vec, MemorySpace.Acc), "a store from a memory that has no way out")
        self.need({source.dtype, t.dtype} <= TRANSFERS, "a store of elements that have no transfer")
        if var is not None:
            self.gm[var] = self.tensor(c.args[2])

    def packed(self, e: Expr) -> TensorType:
        t = self.tensor(e).type
        assert isinstance(t, TensorType)
        view = t.tensor_view
        plain = len(t.shape) == 2 and (view is None or (not view.stride and view.layout is TensorLayout.ND))
        self.need(plain, "a transfer of a tensor that is no packed matrix")
        return t

    def on_copy(self, op: OpDef, var: Var | None, c: Call) -> None:
        assert var is not None
        source = c.args[0].type
        assert isinstance(source, TileType)
        if _space(var) is MemorySpace.Vec and source.memory_space is MemorySpace.Vec:
            self.need(source.dtype in TRANSFERS, "a copy of elements that have no transfer")
        else:
            self.unless(matrix.reason_against_move(source, var.type))

    def on_extract(self, op: OpDef, var: Var | None, c: Call) -> None:
        assert var is not None
        self.unless(matrix.reason_against_move(c.args[0].type, var.type))

    def on_view(self, op: OpDef, var: Var | None, c: Call) -> None:
        source = c.args[0]
        if var is None or not isinstance(source, Var) or op.level != "tile":
            raise _Stays(f"the result of {op.name} is not used")
        if op.concept == "slice":
            self.slice(var, source, c)
        elif _space(source) in MATRIX:
            self.need(op.concept in ("transpose_view", "set_validshape"), f"{op.name} of a matrix has no buffer form")
        elif op.concept == "set_validshape":
            self.need(source not in self.pitch, "a window's valid extents are set")
        else:
            self.relabel(var, source)

    def slice(self, var: Var, source: Var, c: Call) -> None:
        whole, t, at = source.type, var.type, c.args[2]
        assert isinstance(whole, TileType)
        assert isinstance(t, TileType)
        assert isinstance(at, MakeTuple)
        self.need(whole.memory_space is MemorySpace.Vec, "a window of a matrix")
        self.need(len(c.args) < 5, "a slice drops axes")
        self.need(source not in self.relabelled, "a window is cut from a relabelled window")
        nested = source in self.pitch
        self.need(not (nested and (_runs_dynamic(t) or _runs_dynamic(whole))), "a window of a window has run-time extents")
        self.need(all(d is None or d > 0 for d in (getattr(v, "value", None) for v in t.valid)), "a window holds nothing")
        pitch = self.pitch.get(source, line_pitch(whole))
        row, col = at.elements
        offset = window_offset(whole, row, col, self.values, pitch)
        self.pitch[var] = pitch
        self.offset[var] = offset.plus(self.offset[source]) if nested else offset
        self.need(is_block_aligned(self.offset[var]), f"window '{var.name_hint}' begins at no proved boundary")
        if not nested:
            self.parent(source, whole)

    def parent(self, v: Var, t: TileType) -> None:
        assert t.memref is not None
        shapes = self.parents.setdefault(t.memref.base_, set())
        shapes.add((t.dims, t.dtype))
        self.need(not self.symbolic or len(shapes) == 1, "windows are cut from one allocation under several shapes")

    def relabel(self, var: Var, source: Var) -> None:
        a, b = source.type, var.type
        assert isinstance(a, TileType)
        assert isinstance(b, TileType)
        dims = const_dims(a.shape)
        assert dims is not None
        dense = source not in self.pitch or dims[0] == 1 or self.pitch[source] == dims[1]
        self.need(dense and tile_bytes(a) == tile_bytes(b), "a strided window is relabelled")
        self.need(not is_dynamic(a) and not is_dynamic(b), "a tile with run-time extents is relabelled")
        if b.memref is not None:
            self.reshaped.add(b.memref.base_)
        if source in self.pitch:
            self.need(not self.offset[source].terms, "a window at a run-time offset is relabelled")
            self.pitch[var], self.offset[var] = line_pitch(b), self.offset[source]
            self.relabelled.add(var)

    def on_insert(self, op: OpDef, var: Var | None, c: Call) -> None:
        target, source, at = c.args
        t, s = target.type, source.type
        if op.level != "tile" or var is None or not isinstance(t, TileType) or not isinstance(s, TileType):
            raise _Stays("an assemble into global memory")
        assert isinstance(at, MakeTuple)
        both_vec = {t.memory_space, s.memory_space} == {MemorySpace.Vec}
        self.need(both_vec, "an assemble in matrix memory, or across memories")
        self.need(target not in self.pitch, "an assemble into a window")
        pitch = self.pitch.get(source, line_pitch(s)) if isinstance(source, Var) else line_pitch(s)
        self.need(pitch == line_pitch(t), "an assemble between different row pitches")
        self.need(not any(is_dynamic(x) for x in (t, s)) and const_dims(s.valid) is not None, "an assemble with run-time extents")
        self.need(0 not in (const_dims(s.valid) or (0,)), "an assemble of nothing")
        row, col = at.elements
        self.need(is_block_aligned(window_offset(t, row, col, self.values)), "an assemble at no proved boundary")
        self.parent(var, t)


def _space(e: Expr) -> MemorySpace | None:
    assert isinstance(e.type, TileType)
    return e.type.memory_space


def _runs_dynamic(t: TileType) -> bool:
    return const_dims(t.valid) is None

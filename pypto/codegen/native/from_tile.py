"""Planned tile functions to the access form.

In: a device function whose tiles have places in memory.  Out: its parameters and a region of items.
Invariant: a view operator's result is described by its operand's view, so that a window keeps its parent's pitch; where
control flow joins, the joined tiles must lie in the same place, or the function is refused as unplanned.
"""

from __future__ import annotations

from typing import Any

from pypto.codegen.native import windows
from pypto.codegen.native.access import (
    ONE,
    ZERO,
    Check,
    Copies,
    ElementWrite,
    LaneOp,
    Operand,
    Outside,
    ReduceOp,
    Root,
    ScalarDef,
    View,
    same_mapping,
)
from pypto.codegen.native.kinds import HANDLERS
from pypto.codegen.native.partial import partial
from pypto.codegen.native.products import depth_check, product, sum_checks
from pypto.codegen.native.rectangles import dtype_of, elements, extents, flat_valid, need, pair, strides, valid_rect, whole
from pypto.codegen.native.structure import Base
from pypto.dtypes import DataType
from pypto.enums import MemorySpace, PadValue
from pypto.errors import InternalError, NotSupportedError
from pypto.ir import arith, ops, scalar
from pypto.ir.expr import Call, ConstFloat, ConstInt, Expr, MemRef, Var, const_index
from pypto.ir.lanes import LaneProgram, lane_type
from pypto.ir.opdef import FULL, MASK, PART, SCALAR, UNUSED, Lanewise, Matmul, OpDef, Reduce, Special
from pypto.ir.ops.casts import cast_lanes
from pypto.ir.program import Function
from pypto.ir.shaped import TensorType, TileType, const_dim
from pypto.ir.types import Type
from pypto.ir.verify.sums import Undefined, first_products
from pypto.span import Span

__all__ = ["build", "copy_program", "pad_value"]


def copy_program(dtype: DataType) -> LaneProgram:
    """The program that hands its one input on."""
    return LaneProgram((lane_type(dtype),), (), 0)


def pad_value(pad: PadValue, dtype: DataType) -> Expr:
    """The constant that `fillpad` writes: zero, the largest or the smallest value (infinities for floats)."""
    if dtype.is_float():
        return ConstFloat({PadValue.zero: 0.0, PadValue.max: float("inf"), PadValue.min: float("-inf")}[pad], dtype)
    bits = dtype.get_bit()
    low = -(1 << (bits - 1)) if dtype.is_signed_int() else 0
    return ConstInt({PadValue.zero: 0, PadValue.max: low + (1 << bits) - 1, PadValue.min: low}[pad], dtype)


class TileBuilder(Base):
    """Tiles by their memrefs."""

    def __init__(self, function: Function, addressed: bool) -> None:
        super().__init__(function)
        self.addressed = addressed
        self.views: dict[Var, View] = {}
        self.private: dict[Var, int] = {}  # addresses of identities that have none
        self.first: dict[Var, Undefined] | None = None  # the products that may be the first of their sums

    # -- places --

    def place(self, var: Var) -> View:
        """Where a tile variable lies, from its memref."""
        t = var.type
        assert isinstance(t, TileType)
        if t.memref is None or t.memory_space is None:
            raise InternalError(f"{self.function.name}: tile '{var.name_hint}' has no place in memory")
        return self.dense(t, self.address(t.memref, t.memory_space))

    def dense(self, t: TileType, address: int) -> View:
        rows, cols = extents(t)
        row, col = strides(t)
        assert t.memory_space is not None
        high = address + rows * cols * t.dtype.get_byte()
        self.used[t.memory_space] = max(self.used.get(t.memory_space, 0), high)
        return View(self.space(t.memory_space), t.dtype, address, ZERO, const_index(row), const_index(col), address, high)

    def address(self, m: MemRef, space: MemorySpace) -> int:
        offset = m.byte_offset_
        if not isinstance(offset, ConstInt):
            raise NotSupportedError("storage at a run-time offset is not executed natively", m.span)
        if self.addressed:
            return offset.value
        if m.base_ not in self.private:
            raise InternalError(f"{self.function.name}: allocation of '{m.base_.name_hint}' not found")
        return self.private[m.base_] + offset.value

    def view(self, e: Expr) -> View:
        if not isinstance(e, Var):
            raise InternalError(f"{self.function.name}: {e!r} is no tile")
        known = self.views.get(e)
        if known is None:
            known = self.views[e] = self.place(e)
        return known

    def alias(self, var: Var, value: Expr) -> None:
        if isinstance(var.type, TileType):
            source = self.view(value)
            self.views[var] = source
            # Of a window at a run-time offset the memref only says what it lies in.
            placed = var.type.memref is not None and isinstance(source.offset, ConstInt) and _dense(source, value.type)
            if placed and value.type.layout == var.type.layout:  # type: ignore[attr-defined]
                self.require(same_mapping(self.place(var), source), var, "an alias moves")
        else:
            super().alias(var, value)

    def joins(self, var: Var, values: tuple[Expr, ...], span: Span) -> None:
        if not isinstance(var.type, TileType):
            super().joins(var, values, span)
            return
        target = self.views[var] = self.place(var)
        for v in values:
            self.require(same_mapping(self.view(v), target), var, "values that meet in control flow lie in different places")

    def require(self, holds: bool, var: Var, what: str) -> None:
        if not holds:
            raise InternalError(f"{self.function.name}: tile '{var.name_hint}': {what}")

    # -- calls --

    def call(self, var: Var | None, call: Call, span: Span) -> None:
        op = ops.of(call)
        if op is None:
            raise InternalError(f"{self.function.name}: a device function calls '{call.op.name}'")
        s = op.semantics
        if isinstance(s, Lanewise) and PART in s.patterns:
            partial(self, op, s, need(var), call, span)
        elif isinstance(s, Lanewise):
            self.lanewise(op, s, need(var), call, span)
        elif isinstance(s, Reduce):
            self.reduce(op, s, need(var), call, span)
        elif isinstance(s, Matmul):
            self.matmul(op, s, need(var), call, span)
        else:
            self.special(op, s, var, call, span)

    def lanewise(self, op: OpDef, s: Lanewise, var: Var, call: Call, span: Span) -> None:
        operands = []
        for e, pattern in zip(call.args, s.patterns, strict=False):
            if pattern == UNUSED:
                continue
            if pattern == SCALAR:
                operands.append(Operand(SCALAR, None, e, dtype_of(e.type)))
            else:
                operands.append(Operand(pattern, self.view(e), None, dtype_of(e.type)))
        t = var.type
        assert isinstance(t, TileType)
        rect = call.args[0].type if s.result == MASK else t
        assert isinstance(rect, TileType)
        for e, pattern in zip(call.args, s.patterns, strict=False):
            if pattern not in (SCALAR, UNUSED) and isinstance(e.type, TileType):
                self.check(windows.operand_check(pattern, e.type, rect, span))
        program = s.build(tuple(o.dtype for o in operands), t.dtype, call.kwargs)
        rows, cols = valid_rect(rect)
        self.items.append(LaneOp(program, tuple(operands), self.view(var), rows, cols, s.result == MASK, op.concept, span))

    def reduce(self, op: OpDef, s: Reduce, var: Var, call: Call, span: Span) -> None:
        t = call.args[0].type
        assert isinstance(t, TileType)
        rows, cols = valid_rect(t)
        extent = cols if s.axis == 1 else rows
        if const_dim(extent) is None:
            self.items.append(Check(op.concept, ((scalar.gt(extent, ZERO), 0, (ZERO, ZERO, ZERO)),), (), span))
        self.items.append(ReduceOp(s, self.view(call.args[0]), self.view(var), rows, cols, op.concept, span))

    def matmul(self, op: OpDef, s: Matmul, var: Var, call: Call, span: Span) -> None:
        dst = self.view(var)
        if s.acc is not None:
            rows, cols = whole(var.type)
            self.copy(dst, self.view(call.args[s.acc]), rows, cols, op.concept, span)
            if self.first is None:
                self.first = first_products(self.function)
            self.items += sum_checks(s, call, self.first.get(var), span)
        self.check(depth_check(s, call, span))
        operands = [self.view(call.args[i]) for i in (s.lhs, s.rhs, s.bias) if i is not None]
        self.items += product(op, s, dst, operands, call, span)

    def copy(self, dst: View, src: View, rows: Expr, cols: Expr, name: str, span: Span) -> None:
        if not same_mapping(dst, src):
            operand = Operand(FULL, src, None, src.dtype)
            self.items.append(LaneOp(_converted(src.dtype, dst.dtype), (operand,), dst, rows, cols, False, name, span))

    def special(self, op: OpDef, s: Special, var: Var | None, call: Call, span: Span) -> None:
        apart = HANDLERS.get(s.kind)
        if apart is not None:
            apart(self, op, var, call, span)
            return
        handler = getattr(self, f"on_{s.kind}", None)
        if handler is None:
            raise NotSupportedError(f"{op.name} is not executed natively", span, "write the kernel without explicit pipes")
        handler(op, var, call, span)

    def on_create(self, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
        """Undefined storage: nothing happens."""

    def on_expect(self, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
        self.expect_written(call, span)

    def on_alloc(self, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
        if self.addressed or var is None or op.level != "tile":
            return
        space: MemorySpace = call.kwargs["memory_space"]
        size = call.args[0]
        assert isinstance(size, ConstInt)
        at = self.used.get(space, 0)
        self.private[var] = at
        self.used[space] = at + (size.value + 63) // 64 * 64

    def on_load(self, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
        var = need(var)
        root, t = self.tensor(call.args[0])
        offsets, shapes = elements(call.args[1]), elements(call.args[2])
        tile = var.type
        assert isinstance(tile, TileType)
        valid = _window_valid(tile, shapes, elements(call.args[3]))
        self.check(windows.extent_check(valid, shapes, span))
        self.check(windows.transfer_check(offsets, valid, t.shape, span))
        rows, cols = valid_rect(tile)
        self.transfer(self.view(var), root, t, offsets, shapes, valid, rows, cols, tile, False, span)

    def on_store(self, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
        tile = call.args[0].type
        assert isinstance(tile, TileType)
        root, t = self.tensor(call.args[2])
        offsets = elements(call.args[1])
        shapes = elements(call.args[3]) if len(call.args) > 3 else tile.shape
        valid, rows, cols = _stored(tile, shapes, span)
        self.check(windows.transfer_check(offsets, valid, t.shape, span, "target"))
        if var is not None:
            self.tensors[var] = root
        source = self.view(call.args[0])
        if call.kwargs.get("atomic"):
            self.atomic(source, root, t, offsets, shapes, rows, cols, tile, span)
        else:
            self.transfer(source, root, t, offsets, shapes, valid, rows, cols, tile, True, span)

    def transfer(
        self,
        tile_view: View,
        root: Root,
        t: TensorType,
        offsets: tuple[Expr, ...],
        shapes: tuple[Expr, ...],
        valid: tuple[Expr, ...],
        rows: Expr,
        cols: Expr,
        tile: TileType,
        store: bool,
        span: Span,
    ) -> None:
        gm = windows.window_view(root, t, offsets, shapes)
        name = "store" if store else "load"
        if gm is not None and windows.are_first_rows(valid, shapes):
            dst, src = (gm, tile_view) if store else (tile_view, gm)
            operand = Operand(FULL, src, None, src.dtype)
            self.items.append(LaneOp(_converted(src.dtype, dst.dtype), (operand,), dst, rows, cols, False, name, span))
            return
        if tile_view.dtype is not t.dtype:
            what = f"storing {tile_view.dtype} sums as {t.dtype} into a window that is no rows and columns"
            raise NotSupportedError(what, span, "store into a 2-D tensor, or convert the tile first with pl.cast")
        strides = windows.tensor_strides(t)
        offset: Expr = ZERO
        for o, st in zip(offsets, strides, strict=True):
            offset = arith.add(offset, arith.mul(o, st))
        window = View(root, t.dtype, 0, offset, ZERO, ZERO, window=tuple(zip(offsets, shapes, strict=True)))
        inner = windows.window_strides(extents(tile)[1], shapes)
        if store:
            self.items.append(Copies(window, tile_view, valid, strides, inner, name, span))
        else:
            self.items.append(Copies(tile_view, window, valid, inner, strides, name, span))

    def atomic(
        self,
        source: View,
        root: Root,
        t: TensorType,
        offsets: tuple[Expr, ...],
        shapes: tuple[Expr, ...],
        rows: Expr,
        cols: Expr,
        tile: TileType,
        span: Span,
    ) -> None:
        gm = windows.window_view(root, t, offsets, shapes)
        if gm is None:
            raise NotSupportedError("an atomic store needs a window that is rows and columns", span)
        add = ops.get("tile.add").semantics
        assert isinstance(add, Lanewise)
        if source.dtype is not t.dtype:
            what = f"adding {source.dtype} sums to a {t.dtype} tensor"
            raise NotSupportedError(what, span, f"convert the tile first: pl.cast(tile, pl.{t.dtype.name})")
        program = add.build((t.dtype, t.dtype), t.dtype, {})
        operands = (Operand(FULL, gm, None, t.dtype), Operand(FULL, source, None, t.dtype))
        self.items.append(LaneOp(program, operands, gm, rows, cols, False, "store (atomic add)", span))

    # Tiles are copied whole: what is not valid now may be declared valid again.

    def on_copy(self, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
        rows, cols = whole(need(var).type)
        self.copy(self.view(need(var)), self.view(call.args[0]), rows, cols, op.concept, span)

    def on_extract(self, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
        rows, cols = whole(need(var).type)
        source = self.view(call.args[0]).shifted(call.args[1], call.args[2])
        self.inside((call.args[1], call.args[2]), need(var).type.shape, call.args[0].type.shape, span)  # type: ignore[attr-defined]
        self.copy(self.view(need(var)), source, rows, cols, op.concept, span)

    def on_insert(self, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
        target, result = self.view(call.args[0]), self.view(need(var))
        rows, cols = whole(call.args[0].type)
        self.copy(result, target, rows, cols, op.concept, span)
        r, c = pair(elements(call.args[2]))
        rows, cols = valid_rect(call.args[1].type)
        self.inside((r, c), call.args[1].type.shape, call.args[0].type.shape, span)  # type: ignore[attr-defined]
        self.copy(result.shifted(r, c), self.view(call.args[1]), rows, cols, op.concept, span)

    def on_pad(self, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
        source, dst = self.view(call.args[0]), self.view(need(var))
        rows, cols = valid_rect(call.args[0].type)
        self.copy(dst, source, rows, cols, op.concept, span)
        t = need(var).type
        height, width = extents(t)
        if not (arith.is_const(rows, height) and arith.is_const(cols, width)):
            value = pad_value(call.kwargs.get("pad_value", PadValue.zero), dtype_of(t))
            self.items.append(Outside(dst, rows, cols, height, width, value, op.concept, span))

    def on_fill(self, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
        t = need(var).type
        operand = Operand(SCALAR, None, call.args[1], dtype_of(t))
        rows, cols = valid_rect(t)
        self.items.append(
            LaneOp(copy_program(dtype_of(t)), (operand,), self.view(need(var)), rows, cols, False, op.concept, span)
        )

    def on_view(self, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
        var = need(var)
        source, t = self.view(call.args[0]), var.type
        assert isinstance(t, TileType)
        if op.concept == "slice":
            r, c = pair(elements(call.args[2]))
            self.inside((r, c), elements(call.args[1]), call.args[0].type.shape, span)  # type: ignore[attr-defined]
            self.views[var] = source.shifted(r, c)
        elif op.concept == "transpose_view":
            self.views[var] = source.transposed()
        elif op.concept == "set_validshape":
            self.views[var] = source
            self.check(windows.extent_check(t.valid, t.shape, span))
        else:  # a relabel of dense bytes
            self.require(_dense(source, call.args[0].type), var, "a relabel of a strided window")
            row, col = strides(t)
            scale = source.dtype.get_byte()
            offset = source.offset
            if t.dtype.get_byte() != scale:
                offset = arith.floordiv(arith.mul(offset, const_index(scale)), const_index(t.dtype.get_byte()))
            self.views[var] = source.replace(dtype=t.dtype, offset=offset, row=const_index(row), col=const_index(col))

    def inside(self, offsets: tuple[Expr, ...], extents: Any, limits: Any, span: Span, what: str = "part") -> None:
        self.check(windows.transfer_check(offsets, tuple(extents), tuple(limits), span, what))

    def on_read(self, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
        if var is None:
            return
        view = self.element(call, span)
        t = call.args[0].type
        assert isinstance(t, (TileType, TensorType))
        self.check(windows.element_check(elements(call.args[1]), t, span))
        self.items.append(ScalarDef(var, None, view, span))

    def on_write(self, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
        self.items.append(ElementWrite(self.element(call, span), call.args[2], span))
        if var is None:
            return
        if op.level == "tensor":
            self.tensors[var] = self.tensor(call.args[0])[0]
        else:
            self.views[var] = self.view(call.args[0])

    def element(self, call: Call, span: Span) -> View:
        indices = elements(call.args[1])
        ones = (ONE,) * len(indices)
        t = call.args[0].type
        if isinstance(t, TensorType):
            root, t = self.tensor(call.args[0])
            self.inside(indices, ones, t.shape, span, "place")
            view = windows.window_view(root, t, indices, ones)
            assert view is not None
            return view
        self.inside(indices, ones, t.shape, span, "place")  # type: ignore[attr-defined]
        r, c = pair(indices)
        return self.view(call.args[0]).shifted(r, c)

    def on_query(self, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
        if var is None:
            return
        positions: dict[str, Expr] = {
            "get_block_idx": self.block,
            "get_block_num": self.blocks,
            "get_subblock_idx": self.lane,
        }
        value = positions.get(op.concept, ZERO)
        if op.concept == "dim":
            t, axis = call.args[0].type, call.args[1]
            assert isinstance(axis, ConstInt)
            value = t.shape[axis.value]  # type: ignore[attr-defined]
        self.items.append(ScalarDef(var, value, None, span))


# -- helpers -------------------------------------------------------------------------------------------------------


def _converted(source: DataType, target: DataType) -> LaneProgram:
    """What a transfer does to an element: sums leave the matrix unit in the tensor's type."""
    return copy_program(target) if source is target else cast_lanes(source, target, None)


def _stored(tile: TileType, shapes: tuple[Expr, ...], span: Span) -> tuple[tuple[Expr, ...], Expr, Expr]:
    """What a store writes: extents axis by axis of the tensor, and the same as rows and columns of the tile."""
    if len(tile.shape) == len(shapes):
        # A valid extent is never more than the tile's own.
        whole = [arith.same(e, n) for e, n in zip(shapes, tile.shape, strict=True)]
        valid = tuple(v if w else arith.minimum(v, e) for v, e, w in zip(tile.valid, shapes, whole, strict=True))
        return valid, *flat_valid(valid)
    rows, cols = flat_valid(shapes)
    have = valid_rect(tile)
    if not (arith.same(have[0], rows) and arith.same(have[1], cols)):
        raise NotSupportedError(
            "a tile that covers its window in part, in a window of another rank", span, "reshape the tensor or the tile"
        )
    return shapes, rows, cols


def _window_valid(tile: TileType, shapes: tuple[Expr, ...], valid: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Valid extents axis by axis of the tensor: the tile's own where ranks agree, else what the transfer says."""
    return tile.valid if len(tile.shape) == len(shapes) else valid


def _dense(v: View, t: Type) -> bool:
    """Whether the view's elements are adjacent in row-major order of `t`."""
    rows, cols = extents(t)
    row_major = arith.is_const(v.col, 1) and (rows == 1 or arith.is_const(v.row, cols))
    return row_major or (cols == 1 and arith.is_const(v.row, 1))


def build(function: Function, addressed: bool) -> TileBuilder:
    """The access form of a planned tile function: `.body`, `.tensors`, and the bytes used per space in `.used`."""
    b = TileBuilder(function, addressed)
    b.body, _ = b.region(function.body)
    return b

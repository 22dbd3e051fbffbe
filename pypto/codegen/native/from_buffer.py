"""Buffer-stage functions to the access form.

In: a function of handles and destination writes.  Out: the same items the tile stage gives.  The current valid extents
of a handle that owns its storage are those of its last `set_validshape`; a window's are those it was cut with.
Boxes are the device's concern: matrices are stored line by line, and two readings of the same boxes, one transposed, are two
readings of the same lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from pypto.codegen.native import windows
from pypto.codegen.native.access import ONE, ZERO, ElementWrite, LaneOp, Operand, ScalarDef, View
from pypto.codegen.native.from_tile import copy_program
from pypto.codegen.native.products import matmul
from pypto.codegen.native.rectangles import elements, flat_valid, pair
from pypto.codegen.native.structure import Base
from pypto.dtypes import DataType
from pypto.enums import MemorySpace, TileLayout
from pypto.errors import InternalError, NotSupportedError
from pypto.ir import arith, ops, scalar
from pypto.ir.expr import Call, ConstInt, Expr, Var, const_index
from pypto.ir.layout import BoxLayout
from pypto.ir.opdef import FULL, SCALAR, Lanewise, Matmul, OpDef
from pypto.ir.ops.casts import cast_lanes
from pypto.ir.program import Function
from pypto.ir.shaped import BufferType, TensorType, TileType
from pypto.ir.stmt import EvalStmt, IfStmt, Stmt, YieldStmt, flatten_to_stmts
from pypto.ir.types import ScalarType, Type
from pypto.span import Span

__all__ = ["build"]

_FLIP = {TileLayout.row_major: TileLayout.col_major, TileLayout.col_major: TileLayout.row_major}


class BufferBuilder(Base):
    """Handles by their allocations."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.views: dict[Var, View] = {}
        self.valid: dict[Var, tuple[Expr, Expr]] = {}

    def view(self, e: Expr) -> View:
        known = self.views.get(e) if isinstance(e, Var) else None
        if known is None:
            raise InternalError(f"{self.function.name}: {e!r} is no storage handle")
        return known

    def rect(self, e: Expr) -> tuple[Expr, Expr]:
        assert isinstance(e, Var)
        return self.valid[e]

    def call(self, var: Var | None, call: Call, span: Span) -> None:
        op = ops.of(call)
        if op is None:
            raise InternalError(f"{self.function.name}: a device function calls '{call.op.name}'")
        if isinstance(op.semantics, Lanewise):
            self.lanewise(op, op.semantics, call, span)
            return
        if isinstance(op.semantics, Matmul):
            self.product(call.args, ONE if op.semantics.acc is None else ZERO, op.concept, span)
            return
        handler = getattr(self, "on_" + op.name.replace(".", "_"), None)
        if handler is None:
            raise InternalError(f"{self.function.name}: no native form of {op.name}")
        handler(var, call, span)

    def lanewise(self, op: OpDef, s: Lanewise, call: Call, span: Span) -> None:
        operands = []
        for e, pattern in zip(call.args, s.patterns, strict=False):
            t = e.type
            assert isinstance(t, (BufferType, ScalarType))
            if pattern == SCALAR:
                operands.append(Operand(SCALAR, None, e, t.dtype))
            else:
                operands.append(Operand(pattern, self.view(e), None, t.dtype))
        dst = call.args[-1]
        assert isinstance(dst.type, BufferType)
        program = s.build(tuple(o.dtype for o in operands), dst.type.dtype, call.kwargs)
        rows, cols = self.rect(dst)
        self.items.append(LaneOp(program, tuple(operands), self.view(dst), rows, cols, False, op.concept, span))

    # -- storage --

    def on_buffer_alloc(self, var: Var | None, call: Call, span: Span) -> None:
        assert var is not None
        t = var.type
        assert isinstance(t, BufferType)
        rows, cols = _shape(t)
        size = rows * cols * t.dtype.get_byte()
        used = self.used.get(t.memory_space, 0)
        if len(call.args) > 1:
            address = call.args[1]
            if not isinstance(address, ConstInt):
                raise NotSupportedError("an allocation at a run-time address is not executed natively", span)
            at = address.value
        else:  # an identity without an address: its own private range
            at = (used + 63) // 64 * 64
        self.used[t.memory_space] = max(used, at + size)
        self.views[var] = self.described(t, at)
        given = iter(elements(call.args[0]))
        valid = tuple(const_index(v) if v >= 0 else next(given) for v in t.valid_shape)
        self.valid[var] = flat_valid(valid)

    def described(self, t: BufferType, address: int) -> View:
        rows, cols = _shape(t)
        row, col = _strides(t)
        high = address + rows * cols * t.dtype.get_byte()
        return View(self.space(t.memory_space), t.dtype, address, ZERO, row, col, address, high)

    def on_buffer_set_validshape(self, var: Var | None, call: Call, span: Span) -> None:
        handle = call.args[0]
        assert isinstance(handle, Var)
        t = handle.type
        assert isinstance(t, BufferType)
        extents = flat_valid(elements(call.args[1]))
        self.check(windows.extent_check(extents, tuple(const_index(n) for n in _shape(t)), span))
        self.valid[handle] = extents

    def on_buffer_subview(self, var: Var | None, call: Call, span: Span) -> None:
        assert var is not None
        source, t = call.args[0], var.type
        assert isinstance(t, BufferType)
        assert isinstance(source.type, BufferType)
        r, c = pair(elements(call.args[1]))
        shape, limits = (tuple(const_index(n) for n in _shape(b)) for b in (t, source.type))
        self.check(windows.transfer_check((r, c), shape, limits, span, "part"))
        self.views[var] = self.view(source).shifted(r, c)
        given = elements(call.args[2]) if len(call.args) > 2 else ()
        valid = tuple(const_index(v) if v >= 0 or not given else given[i] for i, v in enumerate(t.valid_shape))
        self.valid[var] = flat_valid(valid)

    def on_buffer_reshape(self, var: Var | None, call: Call, span: Span) -> None:
        assert var is not None
        t = var.type
        assert isinstance(t, BufferType)
        source = self.view(call.args[0])
        if not t.layout.is_flat:
            self.views[var] = self.turned(source, call.args[0].type, t, span)
            self.valid[var] = flat_valid(tuple(const_index(v) for v in t.valid_shape))
            return
        row, col = _strides(t)
        have, want = source.dtype.get_byte(), t.dtype.get_byte()
        offset = source.offset
        if have != want:
            offset = arith.floordiv(arith.mul(offset, const_index(have)), const_index(want))
        self.views[var] = source.replace(dtype=t.dtype, offset=offset, row=row, col=col)
        self.valid[var] = flat_valid(tuple(const_index(v) for v in t.valid_shape))

    def turned(self, source: View, have: Type, want: BufferType, span: Span) -> View:
        """The same boxes read as they are, or transposed."""
        assert isinstance(have, BufferType)
        if have.layout == want.layout and have.physical_shape == want.physical_shape:
            return source
        flipped = BoxLayout(_FLIP[have.blayout], _FLIP[have.slayout], have.fractal)
        if want.layout == flipped and want.physical_shape == have.physical_shape[::-1]:
            return source.transposed()
        raise NotSupportedError("a relabel of a matrix that is no transposition is not executed natively", span)

    # -- data --

    def copy(self, dst: View, src: View, rect: tuple[Expr, Expr], name: str, span: Span) -> None:
        operand = Operand(FULL, src, None, src.dtype)
        # Sums leave the matrix unit in the tensor's type.
        program = copy_program(dst.dtype) if src.dtype is dst.dtype else cast_lanes(src.dtype, dst.dtype, None)
        self.items.append(LaneOp(program, (operand,), dst, *rect, False, name, span))

    def product(self, operands: Sequence[Expr], fresh: Expr, name: str, span: Span) -> None:
        """`operands`: handles of lhs, rhs and accumulator."""
        a, b, c = operands
        (m, k), (held, n) = self.rect(a), self.rect(b)
        t = b.type
        assert isinstance(t, BufferType)
        if not arith.same(held, const_index(_shape(t)[0])):
            self.check(windows.rows_check(k, held, span))
        dst = self.view(c)
        assert isinstance(c.type, BufferType)
        whole = all(arith.same(x, y) for x, y in zip((m, n), _whole(c.type), strict=True))
        keeps = not (arith.is_const(fresh, 1) and whole)
        self.items.append(matmul(dst, self.view(a), self.view(b), (m, k, n), fresh, keeps, span, name, alone=whole))

    def branch(self, s: IfStmt) -> None:
        """A branch between the two forms of one product is a product whose sums start afresh under a condition."""
        first, later = (_one_call(b) for b in (s.then_body, s.else_body))
        if first is not None and later is not None and _are_one_product(first, later):
            self.product(first.args, scalar.cast(s.condition, DataType.INDEX, s.span), "matmul_acc", first.span)
        else:
            super().branch(s)

    def on_buffer_copy(self, var: Var | None, call: Call, span: Span) -> None:
        t = call.args[1].type
        assert isinstance(t, BufferType)
        rect = self.rect(call.args[1]) if t.memory_space is MemorySpace.Vec else _whole(t)
        self.copy(self.view(call.args[1]), self.view(call.args[0]), rect, "copy", span)

    def on_buffer_extract(self, var: Var | None, call: Call, span: Span) -> None:
        source = call.args[0]
        assert isinstance(source.type, BufferType)
        assert isinstance(call.args[3].type, BufferType)
        at = (call.args[1], call.args[2])
        shape, limits = (tuple(const_index(n) for n in _shape(b)) for b in (call.args[3].type, source.type))
        self.check(windows.transfer_check(at, shape, limits, span, "part"))
        self.copy(self.view(call.args[3]), self.view(source).shifted(*at), _whole(call.args[3].type), "extract", span)

    def on_buffer_load(self, var: Var | None, call: Call, span: Span) -> None:
        self.transfer(call.args[0], call.args[1], call.args[2], call.args[3], False, span)

    def on_buffer_store(self, var: Var | None, call: Call, span: Span) -> None:
        self.transfer(call.args[3], call.args[1], call.args[2], call.args[0], True, span)

    def transfer(self, gm: Expr, offsets: Expr, valids: Expr, buffer: Expr, store: bool, span: Span) -> None:
        root, t = self.tensor(gm)
        at, extents = elements(offsets), elements(valids)
        self.check(windows.transfer_check(at, extents, t.shape, span, "target" if store else "window"))
        window = windows.window_view(root, t, at, extents)
        assert window is not None
        view = self.view(buffer)
        dst, src = (window, view) if store else (view, window)
        self.copy(dst, src, flat_valid(extents), "store" if store else "load", span)

    # -- scalars --

    def on_tensor_read(self, var: Var | None, call: Call, span: Span) -> None:
        if var is not None:
            self.items.append(ScalarDef(var, None, self.element(call, span), span))

    def on_tensor_write(self, var: Var | None, call: Call, span: Span) -> None:
        self.items.append(ElementWrite(self.element(call, span), call.args[2], span))
        if var is not None:
            self.tensors[var] = self.tensor(call.args[0])[0]

    def element(self, call: Call, span: Span) -> View:
        root, t = self.tensor(call.args[0])
        indices = elements(call.args[1])
        ones = (ONE,) * len(indices)
        self.check(windows.transfer_check(indices, ones, t.shape, span, "place"))
        view = windows.window_view(root, t, indices, ones)
        assert view is not None
        return view

    def on_buffer_expect_written(self, var: Var | None, call: Call, span: Span) -> None:
        self.expect_written(call, span)

    def on_tensor_dim(self, var: Var | None, call: Call, span: Span) -> None:
        t, axis = call.args[0].type, call.args[1]
        assert isinstance(t, (TensorType, TileType))
        assert isinstance(axis, ConstInt)
        if var is not None:
            self.items.append(ScalarDef(var, t.shape[axis.value], None, span))

    def on_buffer_get_block_idx(self, var: Var | None, call: Call, span: Span) -> None:
        self.position(var, self.block, span)

    def on_buffer_get_subblock_idx(self, var: Var | None, call: Call, span: Span) -> None:
        self.position(var, ZERO, span)

    def on_buffer_get_block_num(self, var: Var | None, call: Call, span: Span) -> None:
        self.position(var, self.blocks, span)

    def position(self, var: Var | None, value: Expr, span: Span) -> None:
        if var is not None:
            self.items.append(ScalarDef(var, value, None, span))


def _shape(t: BufferType) -> tuple[int, int]:
    n = t.physical_shape
    if len(n) > 2:
        raise InternalError(f"a buffer of rank {len(n)}")
    return (1, n[0]) if len(n) == 1 else (n[0], n[1])


def _strides(t: BufferType) -> tuple[Expr, Expr]:
    """Elements from one row, and from one column, to the next.

    Of a matrix, lines run along the boxes of its usual layout: rows, unless it is the transposed reading of another.
    """
    rows, cols = _shape(t)
    by_row = t.blayout is TileLayout.row_major
    if not t.layout.is_flat:
        by_row = (t.slayout is TileLayout.row_major) is not (t.memory_space is MemorySpace.Right)
    return (const_index(cols), ONE) if by_row else (ONE, const_index(rows))


def _one_call(body: Stmt | None) -> Call | None:
    """The call that is all that a region does."""
    stmts = [s for s in flatten_to_stmts(body) if not (isinstance(s, YieldStmt) and not s.value)]
    only = stmts[0] if len(stmts) == 1 else None
    return only.expr if isinstance(only, EvalStmt) and isinstance(only.expr, Call) else None


def _are_one_product(first: Call, later: Call) -> bool:
    forms = (first.op.name, later.op.name) == ("buffer.matmul", "buffer.matmul_acc")
    return forms and all(a is b for a, b in zip(first.args, later.args, strict=True))


def _whole(t: BufferType) -> tuple[Expr, Expr]:
    rows, cols = _shape(t)
    return const_index(rows), const_index(cols)


def build(function: Function) -> BufferBuilder:
    """The access form of a Buffer-stage function."""
    b = BufferBuilder(function)
    b.body, _ = b.region(function.body)
    return b

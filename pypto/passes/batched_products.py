"""Products of batches, one matrix after the other.

In: a product of tiles with leading axes, while a kernel's tiles become two-dimensional; sums of products are matrices by
then (`batched_sums`).  Out: loops over the leading axes around a product of matrices; each product is stored where it
belongs if a store is all that reads the batch, else copied into one tile.  An operand that was loaded for the product
alone is loaded matrix by matrix.
Invariant: what lies in a box beside a matrix is never valid; a tensor is read later only if nothing in the kernel writes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Any, NoReturn

from pypto.enums import MemorySpace
from pypto.errors import CompileError
from pypto.ir import arith
from pypto.ir.expr import Call, Expr, MakeTuple, Var, const_index
from pypto.ir.ops.matmul import matrix_boxes
from pypto.ir.ops.rules import shape_text
from pypto.ir.program import Function
from pypto.ir.shaped import TileType, as_dims, const_dims, same_dims
from pypto.ir.stmt import AssignStmt
from pypto.named import NamedTuple
from pypto.passes.convert_tensor_to_tile_ops.boxing import Box, boxed_shape
from pypto.passes.loop_rewriter import LoopRewriter
from pypto.passes.matrix_operands import Written
from pypto.passes.single_stores import single_stores, uses_of
from pypto.passes.statements import statements

__all__ = ["PRODUCT", "SUM", "Batches", "Matrices", "flat_index", "matrix_of", "product_box", "refuse_batch"]

MAT, VEC = MemorySpace.Mat, MemorySpace.Vec
PRODUCT, SUM = "tile.batch_matmul", "tile.batch_matmul_acc"
Dims = tuple[Expr, ...]


class _Operand(NamedTuple):
    """One side of a batched product: its matrices, turned where the operator says so, in boxes."""

    value: Expr
    turned: bool
    box: Box


class Matrices:
    """The matrices of the operands of a kernel's batched products, and which loads can be made again for each of them."""

    def __init__(self, f: Function, names: tuple[str, ...] = (PRODUCT,)) -> None:
        made = {s.var: s.value for s in statements(f.body) if isinstance(s, AssignStmt) and isinstance(s.value, Call)}
        self.products = {v: c for v, c in made.items() if c.op.name in names}
        written = Written(f) if self.products else None
        self.loads = {v: c for v, c in made.items() if written is not None and written.can_repeat(c)}

    def of(self, lo: LoopRewriter, c: Call, index: Dims, box: Box | None = None) -> list[Expr]:
        """Both factors of the product at an index, in whole boxes: those that the product asks for, unless told."""
        if not same_dims(_tile(c).valid[:-2], _tile(c).shape[:-2]):
            refuse_batch(c, f"is valid in {shape_text(_tile(c).valid)}", "narrow rows and columns only, not the batch")
        m, n = box or product_box(c)
        a_trans, b_trans = _turned(c)
        boxes = (1, m) if a_trans else (m, 1), (n, 1) if b_trans else (1, n)
        sides = zip(_factors(c), (a_trans, b_trans), boxes, strict=True)
        return [self._matrix(lo, _Operand(*side), index) for side in sides]

    def _matrix(self, lo: LoopRewriter, o: _Operand, index: Dims) -> Expr:
        """The matrix of an operand that belongs to an index of the result."""
        t = _tile(o.value)
        batch = t.shape[:-2]
        aligned = index[len(index) - len(batch) :]
        own = tuple(const_index(0) if arith.is_const(n, 1) else i for n, i in zip(batch, aligned, strict=True))
        load = self.loads.get(o.value) if isinstance(o.value, Var) else None
        made = _window(lo, o, own) if load is None else _loaded(lo, load, own, o.box)
        if not o.turned:
            return made
        if _tile(made).memory_space is not MAT:
            made = lo.emit("tile.move", (made,), {"target_memory": MAT}, "mat")
        return lo.emit("tile.transpose_view", (made,), None, "turned")


class Batches:
    """The batched products of a kernel: which of them are stored as they are, and what is loaded for them alone."""

    def __init__(self, f: Function) -> None:
        self.matrices = Matrices(f)
        products = self.matrices.products
        self.any = bool(products)
        stores = single_stores(f) if products else {}
        self.stored = {v: s for v, s in stores.items() if v in products}
        self.products = {id(s): products[v] for v, s in self.stored.items()}
        operands: Counter[Var] = Counter(a for c in products.values() for a in c.args if isinstance(a, Var))
        uses = uses_of(f) if products else Counter()
        self.dropped = frozenset(v for v in self.matrices.loads if operands[v] and operands[v] == uses[v])

    def expand(self, lo: LoopRewriter, c: Call, store: AssignStmt | None) -> Expr:
        """The products, emitted before the current statement: the tensor they were stored into, or the tile they make."""
        shape = _const(c)

        def product(index: Dims) -> Var:
            return lo.emit("tile.matmul", self.matrices.of(lo, c, index), None, "product")

        if store is not None:
            return self._stored(lo, c, store.value, product)
        rows, cols = shape[-2:]
        # A batch of one matrix is that matrix.
        if prod(shape[:-2]) == 1 and all(n % 16 == 0 for n in shape[-2:]):
            return product(tuple(const_index(0) for _ in shape[:-2]))
        whole = MakeTuple(as_dims((prod(shape[:-1]), cols)))
        start = lo.emit("tile.create", (whole,), {"dtype": _tile(c).dtype, "target_memory": VEC}, "products")
        if not same_dims(_tile(c).valid, _tile(c).shape):
            refuse_batch(c, f"is valid in {shape_text(_tile(c).valid)}", "store it, or fill the operands with pl.fillpad")
        zero = const_index(0)

        def piece(index: Dims, carried: Expr) -> Expr:
            window = MakeTuple(as_dims((rows, cols)))
            made = lo.emit("tile.extract", (product(index), zero, zero, window), {"target_memory": VEC}, "product")
            at = arith.mul(flat_index(index, shape[:-2]), const_index(rows))
            return lo.emit("tile.assemble", (carried, made, MakeTuple((at, zero))), None, "products")

        return _nest(lo, shape[:-2], start, piece)

    def _stored(self, lo: LoopRewriter, c: Call, store: Expr, product: Callable[[Dims], Var]) -> Expr:
        assert isinstance(store, Call)
        offsets = [lo.expr(o) for o in store.args[1].elements]  # type: ignore[attr-defined]
        valid = [lo.expr(v) for v in _tile(c).valid[-2:]]

        def piece(index: Dims, carried: Expr) -> Expr:
            at = [arith.add(o, i) for o, i in zip(offsets[:-2], index, strict=True)] + offsets[-2:]
            window = MakeTuple((*(const_index(1) for _ in index), *valid))
            return lo.emit("tile.store", (product(index), MakeTuple(at), carried, window), store.kwargs, "stored")

        return _nest(lo, _const(c)[:-2], lo.expr(store.args[2]), piece)


# -- operands --


def _factors(c: Call) -> tuple[Expr, Expr]:
    first = 1 if c.op.name == SUM else 0
    return c.args[first], c.args[first + 1]


def _turned(c: Call) -> tuple[bool, bool]:
    return bool(c.kwargs.get("a_trans")), bool(c.kwargs.get("b_trans"))


def product_box(c: Call) -> Box:
    """What rows and columns of a batched product are rounded up to."""
    a, b = matrix_boxes(_tile(_factors(c)[0]).dtype, *_turned(c))
    return max(a), max(b)


def _window(lo: LoopRewriter, o: _Operand, own: Dims) -> Expr:
    """The matrix of a tile that holds all of them; the vector core copies what it computed, and passes one matrix."""
    t = _tile(o.value)
    return matrix_of(lo, lo.expr(o.value), t, own, o.box, MAT if t.memory_space is MAT else VEC, t.valid[-2:])


def matrix_of(lo: LoopRewriter, whole: Expr, t: TileType, index: Dims, box: Box, space: MemorySpace, valid: Dims) -> Expr:
    """Rows of the tile that holds all matrices of a batch of type `t`, copied into whole boxes in `space`."""
    zero = const_index(0)
    if len(_tile(whole).shape) > 2:
        rows = MakeTuple((arith.product(t.shape[:-1]), t.shape[-1]))
        whole = lo.emit("tile.reshape", (whole, rows), None, "rows")
    shape = t.shape[-2:]
    batch = const_dims(t.shape[:-2])
    assert batch is not None
    at = arith.mul(flat_index(index, batch), shape[0])
    made = lo.emit("tile.extract", (whole, at, zero, MakeTuple(shape)), {"target_memory": space}, "matrix")
    boxed = boxed_shape(shape, box)
    if not same_dims(boxed, shape):
        into = lo.emit("tile.create", (MakeTuple(boxed),), {"dtype": t.dtype, "target_memory": space}, "boxed")
        made = lo.emit("tile.assemble", (into, made, MakeTuple((zero, zero))), None, "boxed")
    return lo.valid_as(made, valid, "matrix")


def _loaded(lo: LoopRewriter, load: Call, own: Dims, box: Box) -> Expr:
    """One matrix of a load, loaded by itself."""
    offsets, shape, valid = (tuple(lo.expr(e) for e in a.elements) for a in load.args[1:])  # type: ignore[attr-defined]
    ones = tuple(const_index(1) for _ in own)
    at = tuple(arith.add(o, i) for o, i in zip(offsets[:-2], own, strict=True)) + offsets[-2:]
    window = (*ones, *boxed_shape(shape[-2:], box))
    args = (lo.expr(load.args[0]), *(MakeTuple(d) for d in (at, window, (*ones, *valid[-2:]))))
    made = lo.emit("tile.load", args, {**load.kwargs, "target_memory": MAT}, "matrix")
    return lo.emit("tile.reshape", (made, MakeTuple(window[-2:])), None, "matrix") if own else made


def _nest(lo: LoopRewriter, batch: tuple[int, ...], start: Expr, body: Callable[[Dims, Expr], Expr]) -> Expr:
    """`body` for each index, in a loop for each axis that has more than one."""

    def along(axis: int, index: Dims, carried: Expr) -> Expr:
        if axis == len(batch):
            return body(index, carried)
        if batch[axis] == 1:
            return along(axis + 1, (*index, const_index(0)), carried)
        bounds = 0, batch[axis], 1
        return lo.loop(f"b{axis}", bounds, carried, lambda i, v: along(axis + 1, (*index, i), v))

    return along(0, (), start)


def flat_index(index: Dims, batch: Any) -> Expr:
    """The number of a matrix in its batch, in row-major order."""
    at: Expr = const_index(0)
    for i, n in zip(index, batch, strict=True):
        at = arith.add(arith.mul(at, const_index(n)), i)
    return at


def _tile(e: Expr) -> TileType:
    assert isinstance(e.type, TileType)
    return e.type


def _const(e: Expr) -> tuple[int, ...]:
    dims = const_dims(_tile(e).shape)
    assert dims is not None
    return dims


def refuse_batch(c: Call, what: str, hint: str) -> NoReturn:
    """The error where a product of batches that `what` has no form on matrices."""
    raise CompileError(f"{c.op.name}: a product of batches that {what} is not made", c.span, hint, code="C031")

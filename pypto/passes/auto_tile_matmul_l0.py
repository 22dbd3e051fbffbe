"""AutoTileMatmulL0: a product whose operands or sums the matrix unit's memories cannot hold is made of pieces that fit.

In: kernels in which products read tiles in Mat memory.  Out: a product too deep adds up slices of K in a loop, one too
large is a grid of pieces, each stored where it belongs; a product that fits, or whose operands the user placed in Left and
Right memory, stays.  Invariant: every sum is in ascending k, so that no bit of a result changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.errors import CompileError
from pypto.ir import arith, ops, scalar
from pypto.ir.expr import Call, Expr, MakeTuple, Var, const_index
from pypto.ir.opdef import Matmul
from pypto.ir.program import Function
from pypto.ir.shaped import TileType, as_dims, const_dim, const_dims, same_dims
from pypto.ir.stmt import AssignStmt, IfStmt, Stmt, YieldStmt, seq
from pypto.ir.types import ScalarType
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.ssa import user_name
from pypto.ir.verify.sums import product_extents
from pypto.named import NamedTuple
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.l0_tile_chooser import BOX, MACHINES, L0TileConfig, L0TileResult, choose_l0_tile
from pypto.passes.loop_rewriter import LoopRewriter
from pypto.passes.matrix_operands import Source, Sources, dropped_unused
from pypto.passes.single_stores import single_stores
from pypto.passes.statements import calls, statements
from pypto.target import Chip, chip_of

__all__ = ["auto_tile_matmul_l0"]

LEFT, RIGHT, ACC = MemorySpace.Left, MemorySpace.Right, MemorySpace.Acc
_INDEX = ScalarType.of(DataType.INDEX)
Dims = tuple[Expr, ...]


class _Product(NamedTuple):
    """One application of a product that is made of pieces of m x n x k."""

    var: Var
    call: Call
    form: Matmul
    size: tuple[int, int, int]  # M, N, K
    piece: L0TileResult
    store: AssignStmt | None  # where the pieces go, if they are several

    @property
    def is_grid(self) -> bool:
        return self.piece.m < self.size[0] or self.piece.n < self.size[1]

    @property
    def is_vector(self) -> bool:
        return self.call.op.name.startswith("tile.gemv")


class _Axis(NamedTuple):
    """A range of rows, of columns or of K: where it begins, its extent, and how much of that is valid."""

    at: Expr
    extent: int
    valid: Expr


class _Range(NamedTuple):
    """An axis of a product in pieces: its extent, how far it is valid, and the extent of a piece."""

    extent: int
    valid: Expr
    piece: int

    @property
    def end(self) -> int:
        have = const_dim(self.valid)
        return self.extent if have is None else have

    @property
    def whole(self) -> int:
        """How many pieces are wholly valid, or valid as it turns out when the kernel runs."""
        return self.end // self.piece

    def within(self, at: Expr) -> _Axis:
        """The piece that begins at a multiple of the pieces' extent, one of the `whole`."""
        piece = const_index(self.piece)
        if const_dim(self.valid) is not None:
            return _Axis(at, self.piece, piece)
        return _Axis(at, self.piece, arith.minimum(piece, arith.maximum(const_index(0), arith.sub(self.valid, at))))

    def after(self, done: int) -> _Axis:
        """The piece that follows the first `done` elements."""
        size = min(self.piece, self.extent - done)
        rest = arith.sub(self.valid, const_index(done))
        if const_dim(rest) is None:
            rest = arith.maximum(const_index(0), rest)
        return _Axis(const_index(done), size, arith.minimum(const_index(size), rest))


def _is_product(c: Call) -> bool:
    op = ops.of(c)
    return op is not None and op.level == "tile" and isinstance(op.semantics, Matmul)


def _tile(e: Expr) -> TileType:
    assert isinstance(e.type, TileType)
    return e.type


# -- what is made of pieces ----------------------------------------------------------------------------------------


def _products(f: Function, chip: Chip) -> dict[Var, _Product]:
    found: dict[Var, _Product] = {}
    stores = single_stores(f)
    for s in statements(f.body):
        if isinstance(s, AssignStmt) and isinstance(s.value, Call) and _is_product(s.value):
            made = _planned(s, s.value, chip, stores.get(s.var))
            if made is not None:
                found[s.var] = made
    return found


def _planned(s: AssignStmt, c: Call, chip: Chip, store: AssignStmt | None) -> _Product | None:
    """How a product is made of pieces; None where it stays as it is."""
    op = ops.of(c)
    assert op is not None
    form = op.semantics
    assert isinstance(form, Matmul)
    a, b = _tile(c.args[form.lhs]), _tile(c.args[form.rhs])
    x, y = const_dims(a.shape), const_dims(b.shape)
    if x is None or y is None or len(x) != 2:
        return None
    config = _config(c, form, (x[0], y[1], x[1]), chip)
    placed = [(i, t) for i, t, space in ((form.lhs, a, LEFT), (form.rhs, b, RIGHT)) if t.memory_space is space]
    if placed:
        _check_placed(c, placed, chip)
        return None
    whole = choose_whole(config)
    if whole:
        return None
    piece = choose_l0_tile(config)
    if piece is None:
        _refuse_bias(c, config)
    made = _Product(s.var, c, form, (config.M, config.N, config.K), piece, store)
    if made.is_grid and (store is None or form.acc is not None):
        _refuse(made, chip)
    return made


def _config(c: Call, form: Matmul, size: tuple[int, int, int], chip: Chip) -> L0TileConfig:
    a, b, out = _tile(c.args[form.lhs]), _tile(c.args[form.rhs]), _tile(c)
    return L0TileConfig(
        *size,
        a.dtype.get_byte(),
        b.dtype.get_byte(),
        out.dtype.get_byte(),
        chip.capacity[LEFT],
        chip.capacity[RIGHT],
        chip.capacity[ACC],
        32 if out.dtype is DataType.INT32 and chip.name == "a2a3" else BOX,
        accumulates=form.acc is not None,
        bias_bytes=chip.capacity[MemorySpace.Bias] if form.bias is not None else 0,
        machine=MACHINES[chip.name],
    )


def choose_whole(c: L0TileConfig) -> bool:
    """Whether the product fits as it is."""
    rows = -(-c.M // c.row_align) * c.row_align
    return (
        c.M * c.K * c.bytes_a <= c.l0a_bytes
        and c.K * c.N * c.bytes_b <= c.l0b_bytes
        and rows * c.N * c.bytes_c <= c.l0c_bytes
        and not (c.bias_bytes and c.N * c.bytes_c > c.bias_bytes)
    )


# -- what cannot be ------------------------------------------------------------------------------------------------


def _check_placed(c: Call, placed: list[tuple[int, TileType]], chip: Chip) -> None:
    """The user placed an operand: it must fit."""
    for i, t in placed:
        dims, space = const_dims(t.shape), t.memory_space
        assert dims is not None
        assert space is not None
        size, limit = dims[0] * dims[1] * t.dtype.get_byte(), chip.capacity[space]
        if size > limit:
            name = "the right operand" if space is MemorySpace.Right else "the left operand"
            operand = c.args[i]
            if isinstance(operand, Var) and "__tmp_" not in operand.name_hint:
                name = f"'{user_name(operand)}'"
            raise CompileError(
                f"{c.op.name}: {name} ({list(dims)} of {t.dtype}) needs {size} bytes of {space.name} memory, "
                f"which holds {limit} bytes",
                c.span,
                "leave the operand in Mat memory (target_memory=pl.Mem.Mat): the product is then made of pieces that fit; "
                "or move smaller pieces in a loop over K, with pl.matmul_acc",
                code="C053",
            )


def _refuse(p: _Product, chip: Chip) -> NoReturn:
    m, n, _ = p.size
    size = m * n * _tile(p.call).dtype.get_byte()
    why = "adds to an accumulator" if p.form.acc is not None else "is used otherwise than by one store"
    raise CompileError(
        f"{p.call.op.name}: the product [{m}, {n}] needs {size} bytes of Acc memory, which holds {chip.capacity[ACC]} bytes, "
        f"and it cannot be made of pieces, because it {why}",
        p.call.span,
        "store the product itself (o[...] = pl.matmul(a, b)) and go on from there in smaller tiles; "
        "or loop over pieces of the rows or columns: pl.matmul(a[i : i + <rows>, :], b)",
        code="C054",
    )


def _refuse_bias(c: Call, config: L0TileConfig) -> NoReturn:
    raise CompileError(
        f"{c.op.name}: no piece of the product [{config.M}, {config.N}] fits the matrix unit's memories",
        c.span,
        "use smaller tiles: loop over pieces of the columns; or add the bias with pl.col_expand_add after the store",
        code="C054",
    )


# -- pieces --------------------------------------------------------------------------------------------------------


class _Tiler(LoopRewriter):
    def __init__(self, f: Function, products: dict[Var, _Product], chip: Chip) -> None:
        super().__init__()
        self.products = products
        self.sources = Sources(f, chip, [p.call.args[i] for p in products.values() for i in (p.form.lhs, p.form.rhs)])
        self.stores = {p.store.var: p for p in products.values() if p.store is not None and p.is_grid}

    def visit_assign_stmt(self, s: AssignStmt) -> Stmt | None:
        p = self.products.get(s.var)
        if p is not None:
            if p.is_grid:
                return None  # made where it is stored
            m, n, _ = p.size
            rows, cols = product_extents(p.call, p.form)  # an accumulator may be valid in more
            zero = const_index(0)
            self.vars[s.var] = self._sum(p, _Axis(zero, m, self.expr(rows)), _Axis(zero, n, self.expr(cols)))
            return None
        p = self.stores.get(s.var)
        if p is None:
            made = super().visit_assign_stmt(s)
            assert made is None or isinstance(made, Stmt)
            return made
        assert isinstance(s.value, Call)
        self.vars[s.var] = self._grid(p, s.value)
        return None

    # -- the grid --

    def _grid(self, p: _Product, store: Call) -> Expr:
        """Each piece of the product stored where it belongs; the tensor is handed from store to store."""
        row, col = store.args[1].elements  # type: ignore[attr-defined]
        outer, self.span = self.span, p.call.span
        rows, cols = (self.expr(d) for d in _tile(p.call).valid)
        row, col = self.expr(row), self.expr(col)

        def piece(i: _Axis, j: _Axis, target: Expr) -> Expr:
            made = self._sum(p, i, j)
            at = MakeTuple((arith.add(row, i.at), arith.add(col, j.at)))
            return self.emit("tile.store", (made, at, target), store.kwargs, "stored")

        def along_columns(i: _Axis, target: Expr) -> Expr:
            return self._pieces("j", _Range(p.size[1], cols, p.piece.n), target, lambda j, t: piece(i, j, t))

        made = self._pieces("i", _Range(p.size[0], rows, p.piece.m), self.expr(store.args[2]), along_columns)
        self.span = outer
        return made

    def _pieces(self, name: str, r: _Range, start: Expr, body: Callable[[_Axis, Expr], Expr]) -> Expr:
        """`body` over pieces of an axis: a loop over whole ones, and the rest."""
        value, done = start, 0
        if r.whole > 1:
            value = self.loop(name, (0, r.whole * r.piece, r.piece), value, lambda at, v: body(r.within(at), v))
            done = r.whole * r.piece
        while done < r.end:
            axis = r.after(done)
            value = body(axis, value)
            done += axis.extent
        return value

    # -- one piece --

    def _sum(self, p: _Product, i: _Axis, j: _Axis) -> Expr:
        """The product of rows i and columns j, along all of K."""
        outer, self.span = self.span, p.call.span
        a, b = self._source(p, p.form.lhs), self._source(p, p.form.rhs)
        depth = _Range(p.size[2], self.expr(_tile(p.call.args[p.form.lhs]).valid[1]), p.piece.k)
        args = tuple(self.expr(x) for x in p.call.args)

        def operands(k: _Axis) -> tuple[Expr, Expr]:
            left = self._window(a, (i, k), LEFT)
            # Rows of the right operand are read as far as the left one is valid.
            return left, self._window(b, (k, j), RIGHT)

        def step(k: _Axis, total: Expr | None) -> Expr:
            pair = operands(k)
            if total is None:
                return self._first(p, args, pair, j)
            return self.emit("tile.gemv_acc" if p.is_vector else "tile.matmul_acc", (total, *pair), None, "sum")

        made = self._along_k(p, depth, i, j, args, step)
        self.span = outer
        return made

    def _first(self, p: _Product, args: Dims, pair: tuple[Expr, Expr], j: _Axis) -> Expr:
        """The operator itself on the first slice of K."""
        values = list(args)
        if p.form.bias is not None and j.extent < p.size[1]:
            bias, window = values[p.form.bias], MakeTuple(as_dims((1, j.extent)))
            where = {"target_memory": _tile(bias).memory_space or MemorySpace.Mat}
            values[p.form.bias] = self.emit("tile.extract", (bias, const_index(0), j.at, window), where, "bias")
        values[p.form.lhs], values[p.form.rhs] = pair
        return self.emit(p.call.op.name, values, p.call.kwargs, "sum")

    def _along_k(
        self, p: _Product, d: _Range, i: _Axis, j: _Axis, args: Dims, step: Callable[[_Axis, Expr | None], Expr]
    ) -> Expr:
        """Slices of K one after the other: a loop over whole ones, of an even number, two at a time; and the rest."""
        starts_anew = p.form.acc is None and p.form.bias is None
        uniform = p.form.acc is not None and len(p.call.args) == 3
        total: Expr | None = None
        done = 0
        if starts_anew or uniform:
            looped = d.whole // 2 * 2 * d.piece
            total = args[p.form.acc] if p.form.acc is not None else None
            if looped:
                start = total if total is not None else self._accumulator(p, i, j)

                def body(at: Expr, carried: Expr) -> Expr:
                    k = d.within(at)
                    return self._choose(at, lambda: step(k, None), lambda: step(k, carried)) if starts_anew else step(k, carried)

                total, done = self.loop("ko", (0, looped, d.piece), start, body, stages=2), looped
        else:
            total = step(d.after(0), None)
            first = done = d.after(0).extent
            looped = (d.whole - 1) // 2 * 2 * d.piece
            if looped > 0:

                def later(at: Expr, carried: Expr) -> Expr:
                    return step(d.within(arith.add(at, const_index(first))), carried)

                total, done = self.loop("ko", (0, looped, d.piece), total, later, stages=2), first + looped
        while done < d.end:
            k = d.after(done)
            total = step(k, total)
            done += k.extent
        assert total is not None
        return total

    def _choose(self, at: Expr, first: Callable[[], Expr], other: Callable[[], Expr]) -> Var:
        """`first` where the loop begins, `other` from there on."""
        values: list[Expr] = []
        arms = [self.region(lambda make=make: values.append(make())) for make in (first, other)]  # type: ignore[misc]
        bodies = [seq([*arm, YieldStmt((v,), self.span)], self.span) for arm, v in zip(arms, values, strict=True)]
        out = Var("sum", values[0].type, self.span)
        self.out.append(IfStmt(scalar.eq(at, const_index(0), self.span), bodies[0], bodies[1], (out,), self.span))
        return out

    def _accumulator(self, p: _Product, i: _Axis, j: _Axis) -> Expr:
        t = _tile(p.call)
        rows = BOX if p.is_vector and i.extent == 1 else i.extent
        shape, valid = as_dims((rows, j.extent)), (i.valid, j.valid)
        whole = same_dims(shape, valid)
        kwargs = {"dtype": t.dtype, "target_memory": ACC, **({} if whole else {"compact": True})}
        return self.valid_as(self.emit("tile.create", (MakeTuple(shape),), kwargs, "sum"), valid)

    def _source(self, p: _Product, i: int) -> Source:
        return self.sources.of(self, p.call.args[i])

    def _window(self, source: Source, at: tuple[_Axis, _Axis], space: MemorySpace) -> Expr:
        """A window of an operand in Left or Right memory, valid as the axes say."""
        (r, c) = at
        return source.window(self, (r.at, c.at), (r.extent, c.extent), (r.valid, c.valid), space)


@function_pass(
    "AutoTileMatmulL0",
    requires=(
        IRProperty.SSAForm,
        IRProperty.SplitIncoreOrch,
        IRProperty.IncoreTileOps,
        IRProperty.TileOps2D,
        IRProperty.NormalizedStmtStructure,
    ),
    produces=(
        IRProperty.SSAForm,
        IRProperty.SplitIncoreOrch,
        IRProperty.IncoreTileOps,
        IRProperty.TileOps2D,
        IRProperty.NormalizedStmtStructure,
    ),
)
def auto_tile_matmul_l0(f: Function, options: PassOptions) -> Function:
    if not f.is_device or not any(_is_product(c) for c in calls(f.body)):
        return f
    chip = chip_of(options.platform)
    products = _products(f, chip)
    if not products:
        return f
    tiler = _Tiler(f, products, chip)
    return dropped_unused(tiler.function(f), tiler.sources.replaced)

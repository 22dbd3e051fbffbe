"""FlattenTileNdTo2D: every tile has two dimensions.

In: kernels with tiles of any rank.  Out: the same with all dimensions but the last merged into rows (a vector is one
row).  A transfer keeps its window in the tensor's rank: a load is followed by a relabel, a store says its extents.
The first product of a sum says that it is (`begin_sums`), and what is read was written (`check_written`).
Invariant: rows are the elements of the leading axes in row-major order; what is no rectangle of rows is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pypto._lazy import later
from pypto.errors import CompileError
from pypto.ir import arith, ops
from pypto.ir.expr import Call, Expr, MakeTuple, Var, const_index
from pypto.ir.opdef import OpDef, Special
from pypto.ir.ops.rearrange import transposed_axes
from pypto.ir.ops.rules import shape_text
from pypto.ir.program import Function
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TileType, as_dims, const_dim, same_dims
from pypto.ir.stmt import AssignStmt, ForStmt, WhileStmt, YieldStmt
from pypto.ir.verify.properties import IRProperty
from pypto.passes.begin_sums import begin_sums
from pypto.passes.check_written import check_written
from pypto.passes.context import PassOptions
from pypto.passes.convert_tensor_to_tile_ops.carries import narrow_acc_carries
from pypto.passes.convert_tensor_to_tile_ops.joins import check_joins, refuse_loose_accumulators
from pypto.passes.framework import function_pass
from pypto.passes.keep_scratch_operands import keep_scratch_operands
from pypto.passes.loop_rewriter import LoopRewriter
from pypto.passes.ssa_rewriter import typed_call
from pypto.passes.statements import calls, definitions

if TYPE_CHECKING:
    from pypto.passes import batched_products, batched_sums
else:
    batched_products, batched_sums = later("pypto.passes", "batched_products batched_sums")

__all__ = ["flatten_tile_nd_to_2d"]

Dims = tuple[Expr, ...]


def _flat(shape: Dims) -> Dims:
    """Rows and columns of a shape."""
    if len(shape) == 2:
        return shape
    return arith.product(shape[:-1]), shape[-1] if shape else const_index(1)


class _Flattener(LoopRewriter):
    def __init__(self, f: Function) -> None:
        super().__init__()
        self.done = _relabelled_loads(f)
        self.batches = batched_products.Batches(f)

    def visit_assign_stmt(self, s: AssignStmt) -> Any:
        if s.var in self.batches.stored or s.var in self.batches.dropped:
            return None  # made where it is stored, or multiplied
        product = self.batches.products.get(id(s), s.value)
        if isinstance(product, Call) and product.op.name == batched_products.PRODUCT:
            outer, self.span = self.span, product.span
            self.vars[s.var] = self.batches.expand(self, product, None if product is s.value else s)
            self.span = outer
            return None
        if s.var in self.done:
            return s.replace(value=super().visit_call(s.value)) if isinstance(s.value, Call) else s
        value = self.visit(s.value)
        if isinstance(value, Var) and isinstance(value.type, TileType):
            self.vars[s.var] = value
            return None
        return self.assign(s, value)

    def visit_call(self, c: Call) -> Expr:
        op = ops.of(c)
        if op is None or op.level != "tile" or not (_needs_scratch(c) or any(_is_nd(e) for e in (c, *c.args))):
            return super().visit_call(c)
        args = tuple(self.visit(a) for a in c.args)
        if isinstance(op.semantics, Special):
            special = getattr(self, f"_{op.semantics.kind}", None)
            if special is not None:
                made: Expr = special(op, c, args)
                return made
        return self._checked(c, self.recall(c, args))

    def _checked(self, old: Call, new: Call) -> Call:
        """The call on flat operands must give the flat result."""
        a, b = old.type, new.type
        if isinstance(a, TileType) and isinstance(b, TileType) and not same_dims(_flat(a.shape), b.shape):
            self._refuse(old, f"works across the rows of a tile of shape {shape_text(_shape(old.args[0]))}")
        return new

    def _refuse(self, c: Call, what: str) -> NoReturn:
        raise CompileError(
            f"{c.op.name} {what}: tiles have two dimensions on the chip, all axes but the last are merged into rows",
            c.span,
            "work on two-dimensional pieces in a loop, or pl.reshape the operand so that the axis is the last one",
            code="C030",
        )

    # -- storage and transfers --

    def _load(self, op: OpDef, c: Call, args: tuple[Expr, ...]) -> Expr:
        if "flatten" in op.attrs:
            return self.recall(c, args, {**c.kwargs, "flatten": True})
        whole = c if all(a is b for a, b in zip(args, c.args, strict=True)) else self.recall(c, args)
        loaded = self.let("nd", whole)
        return typed_call("tile.reshape", (loaded, MakeTuple(_flat(_shape(loaded)))), None, c.span)

    def _store(self, op: OpDef, c: Call, args: tuple[Expr, ...]) -> Expr:
        t = c.args[0].type
        if len(args) > 3 or not isinstance(t, TileType) or not _is_nd(c.args[0]):
            return self.recall(c, args)
        return self.recall(c, (*args, MakeTuple(self.visit(v) for v in t.valid)))

    def _create(self, op: OpDef, c: Call, args: tuple[Expr, ...]) -> Expr:
        return self.recall(c, (MakeTuple(_flat(_shape(c))), *args[1:]))

    _fill = _create

    def _sequence(self, op: OpDef, c: Call, args: tuple[Expr, ...]) -> Expr:
        return self.recall(c, (args[0], MakeTuple(_flat(_shape(c)))))

    # -- windows and relabels --

    def _view(self, op: OpDef, c: Call, args: tuple[Expr, ...]) -> Expr:
        if op.concept == "slice":
            return self._slice(c, args)
        target = _flat(_shape(c))
        if op.concept == "reshape":
            if args[0] in self.done:
                return c if args[0] is c.args[0] else self.recall(c, args)
            # Only the leading axes regroup: nothing is left to do.
            return args[0] if same_dims(target, _shape(args[0])) else self.recall(c, (args[0], MakeTuple(target)))
        if len(args) > 1 or not same_dims(target, _shape(c)):
            return self.recall(c, (args[0], MakeTuple(target)))
        return self._checked(c, self.recall(c, args))

    def _slice(self, c: Call, args: tuple[Expr, ...]) -> Expr:
        shape, offset = _elements(args[1]), _elements(args[2])
        row, col = self._band(c, shape, offset, _shape(c.args[0]))
        rest: list[Expr] = []
        if len(args) > 3 and _elements(args[3]):
            valid = _elements(args[3])
            if not same_dims(valid[1:-1], shape[1:-1]):
                self._refuse(c, f"has a valid region {shape_text(valid)} that is no rectangle of rows")
            rest = [MakeTuple(_flat(valid))]
        window = self.recall(c, (args[0], MakeTuple(_flat(shape)), MakeTuple((row, col)), *rest))
        if len(args) < 5 or same_dims(_flat(_shape(c)), _shape(window)):
            return window
        return typed_call("tile.reshape", (self.let("window", window), MakeTuple(_flat(_shape(c)))), None, c.span)

    def _insert(self, op: OpDef, c: Call, args: tuple[Expr, ...]) -> Expr:
        row, col = self._band(c, _shape(c.args[1]), _elements(args[2]), _shape(c.args[0]))
        return self.recall(c, (args[0], args[1], MakeTuple((row, col))))

    def _band(self, c: Call, window: Dims, offset: Dims, whole: Dims) -> tuple[Expr, Expr]:
        """Row and column where a window begins; its rows must be adjacent rows of the whole."""
        last = len(whole) - 1
        free = next((i for i in range(last) if not arith.is_const(window[i], 1)), last)
        for i in range(free + 1, last):
            if not arith.same(window[i], whole[i]) or not arith.is_const(offset[i], 0):
                self._refuse(c, f"takes rows of {shape_text(whole)} that are not adjacent")
        return _fold(offset[:-1], whole[:-1]), offset[-1]

    def _transpose(self, op: OpDef, c: Call, args: tuple[Expr, ...]) -> Expr:
        """A matrix with its scratch tile; of more dimensions, page by page where the last two are exchanged."""
        a, b = transposed_axes(c)
        shape = _shape(c.args[0])
        rank = len(shape)
        if (a, b) != (rank - 2, rank - 1):
            self._refuse(c, f"exchanges axes {a} and {b} of a tile of shape {shape_text(shape)}")
        if rank == 2:
            tmp = args[3] if len(args) > 3 else self._scratch(args[0], shape)
            return self.recall(c, (args[0], const_index(0), const_index(1), tmp))
        if not c.args[0].type.is_fully_valid:  # type: ignore[attr-defined]
            self._refuse(c, f"takes fully valid tiles of rank {rank}, this one is valid for {shape_text(_valid(c.args[0]))}")
        pages, m, n = (int(const_dim(d) or 0) for d in (arith.product(shape[:-2]), shape[-2], shape[-1]))
        tmp = self._scratch(args[0], as_dims((m, n)))
        made: Expr = self.emit("tile.create", (MakeTuple(as_dims((pages * n, m))),), _storage(args[0]), "transposed")
        zero = const_index(0)
        for p in range(pages):
            window = (args[0], MakeTuple(as_dims((m, n))), MakeTuple((const_index(p * m), zero)))
            page = self.emit("tile.transpose", (self.emit("tile.slice", window, None, "page"), zero, const_index(1), tmp))
            made = self.emit("tile.assemble", (made, page, MakeTuple((const_index(p * n), zero))), None, "transposed")
        return made

    def _gather(self, op: OpDef, c: Call, args: tuple[Expr, ...]) -> Expr:
        """Along an axis of three: rows come in groups, one for each leading index."""
        source, index = _shape(c.args[0]), _shape(c.args[1])
        if "dim" not in c.kwargs or len(source) < 3:
            kwargs = {**c.kwargs, "dim": 1} if "dim" in c.kwargs and len(source) == 1 else c.kwargs
            return self._checked(c, self.recall(c, args, kwargs))
        groups = {"group": const_dim(source[1]), "index_group": const_dim(index[1])}
        return self._checked(c, self.recall(c, args, {**c.kwargs, **groups}))

    def _scratch(self, like: Expr, shape: Dims) -> Expr:
        return self.emit("tile.create", (MakeTuple(shape),), _storage(like), "transpose_tmp")

    # -- elements --

    def _read(self, op: OpDef, c: Call, args: tuple[Expr, ...]) -> Expr:
        index, whole = _elements(args[1]), _shape(c.args[0])
        at = MakeTuple((_fold(index[:-1], whole[:-1]), index[-1]))
        return self.recall(c, (args[0], at, *args[2:]))

    _write = _read


def _relabelled_loads(f: Function) -> frozenset[Var]:
    """Loads of any rank that nothing but a relabel to two dimensions uses: they are as they should be."""
    loads: set[Var] = set()
    relabels: dict[Var, int] = {}
    uses: Counter[Var] = Counter()
    for n in walk(f.body):
        if isinstance(n, AssignStmt) and isinstance(n.value, Call) and n.value.op.name == "tile.load" and _is_nd(n.var):
            loads.add(n.var)
        if isinstance(n, Call):
            uses.update(a for a in n.args if isinstance(a, Var))
            if n.op.name == "tile.reshape" and not _is_nd(n) and isinstance(n.args[0], Var):
                relabels[n.args[0]] = relabels.get(n.args[0], 0) + 1
        elif isinstance(n, YieldStmt):
            uses.update(a for a in n.value if isinstance(a, Var))
        elif isinstance(n, (ForStmt, WhileStmt)):
            uses.update(a.initValue for a in n.iter_args if isinstance(a.initValue, Var))
    return frozenset(v for v in loads if 0 < relabels.get(v, 0) == uses[v])


def _fold(index: Sequence[Expr], dims: Sequence[Expr]) -> Expr:
    """Row-major position of an index."""
    at: Expr = const_index(0)
    for i, d in zip(index, dims, strict=True):
        at = arith.add(arith.mul(at, d), i)
    return at


def _needs_scratch(e: Expr) -> bool:
    return isinstance(e, Call) and e.op.name == "tile.transpose" and len(e.args) < 4


def _storage(like: Expr) -> dict[str, Any]:
    """How to create a tile of the dtype, and in the memory, of another."""
    t = like.type
    assert isinstance(t, TileType)
    return {"dtype": t.dtype, **({} if t.memory_space is None else {"target_memory": t.memory_space})}


def _is_nd(e: Expr) -> bool:
    return isinstance(e.type, TileType) and len(e.type.shape) != 2


def _shape(e: Expr) -> Dims:
    assert isinstance(e.type, TileType)
    return e.type.shape


def _valid(e: Expr) -> Dims:
    assert isinstance(e.type, TileType)
    return e.type.valid


def _elements(e: Expr) -> Dims:
    assert isinstance(e, MakeTuple)
    return e.elements


@function_pass(
    "FlattenTileNdTo2D",
    requires=(IRProperty.SSAForm, IRProperty.IncoreTileOps, IRProperty.NormalizedStmtStructure),
    produces=(IRProperty.SSAForm, IRProperty.TileOps2D, IRProperty.NormalizedStmtStructure),
)
def flatten_tile_nd_to_2d(f: Function, options: PassOptions) -> Function:
    if not f.is_device:
        return f
    needed = any(_is_nd(v) for v in definitions(f.body)) or any(_needs_scratch(c) for c in calls(f.body))
    if not needed:
        return check_written(begin_sums(keep_scratch_operands(f)))
    f = batched_sums.split_batched_sums(f)
    made = narrow_acc_carries(_Flattener(f).function(f))
    check_joins(made)
    refuse_loose_accumulators(made)
    return check_written(begin_sums(keep_scratch_operands(made)))

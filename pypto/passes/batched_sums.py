"""Sums of batched products, one accumulator for each matrix.

In: a kernel over tiles of any rank.  Out: the same without products of batches that are added to something: a batch that
is added to, and what it begins with, is handed on through loops and branches or becomes of it, is as many matrices in Acc
memory, in whole boxes; what reads the batch as it is gets them copied into one tile.
Invariant: a matrix is valid where the batch is; storage that nothing has written stays undefined, matrix by matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import lcm, prod

from pypto.enums import MemorySpace
from pypto.errors import CompileError
from pypto.ir import arith
from pypto.ir.expr import Call, Expr, IterArg, MakeTuple, Var, const_index
from pypto.ir.ops.rules import shape_text
from pypto.ir.program import Function
from pypto.ir.shaped import TileType, const_dim, const_dims
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, Stmt, WhileStmt, YieldStmt, last_yield
from pypto.ir.verify.ssa import user_name
from pypto.passes.batched_products import PRODUCT, SUM, Matrices, flat_index, matrix_of, product_box, refuse_batch
from pypto.passes.convert_tensor_to_tile_ops.boxing import Box, boxed_shape
from pypto.passes.loop_rewriter import LoopRewriter
from pypto.passes.matrix_operands import dropped_unused
from pypto.passes.retype import Made
from pypto.passes.ssa_rewriter import typed_call
from pypto.passes.statements import applies, statements

__all__ = ["split_batched_sums"]

ACC, VEC = MemorySpace.Acc, MemorySpace.Vec
MOST = 256  # matrices of a batch; Acc memory of a core holds fewer
Pieces = tuple[Expr, ...]


def split_batched_sums(f: Function) -> Function:
    """The kernel with matrices for accumulators; the same one if it adds to no batch."""
    if not applies(f, SUM):
        return f
    matrices = Matrices(f, (PRODUCT, SUM))
    for c in matrices.products.values():
        count = prod(_batch(c))
        if c.op.name == SUM and count > MOST:
            refuse_batch(
                c,
                f"adds to {count} accumulators at once",
                "loop over the batch: acc = pl.matmul_acc(acc, a[i], b[i]), and store acc",
            )
    return dropped_unused(_Split(f, matrices).function(f), set(matrices.loads))


def _batches(f: Function) -> set[Var]:
    """Batches that are added to, what comes of it, and what they share a carry or a branch's result with."""
    follows: dict[Var, list[Var]] = {}
    found: list[Var] = []

    def same(a: Expr, b: Expr) -> None:
        if isinstance(a, Var) and isinstance(b, Var):
            follows.setdefault(a, []).append(b)
            follows.setdefault(b, []).append(a)

    for s in statements(f.body):
        if isinstance(s, AssignStmt):
            if isinstance(s.value, Call) and s.value.op.name == SUM:
                found.append(s.var)
                same(s.var, s.value.args[0])
            same(s.var, s.value)
        elif isinstance(s, (ForStmt, WhileStmt, IfStmt)):
            for a, b in _joined(s):
                same(a, b)
    seen = set(found)
    while found:
        new = [v for v in follows.get(found.pop(), ()) if v not in seen]
        seen.update(new)
        found += new
    return seen


def _joined(s: ForStmt | WhileStmt | IfStmt) -> Iterator[tuple[Expr, Expr]]:
    """Results of a loop or a branch with what they may be."""
    for body in (s.then_body, s.else_body) if isinstance(s, IfStmt) else (s.body,):
        y = last_yield(body) if body is not None else None
        yield from zip(s.return_vars, y.value if y is not None else (), strict=False)
    if not isinstance(s, IfStmt):
        for r, a in zip(s.return_vars, s.iter_args, strict=True):
            yield from ((r, a), (a, a.initValue))


class _Split(LoopRewriter):
    def __init__(self, f: Function, matrices: Matrices) -> None:
        super().__init__()
        self.batches = _batches(f)
        self.matrices = matrices
        self.pieces: dict[Expr, Pieces] = {}
        boxes = [product_box(c) for v, c in matrices.products.items() if v in self.batches]
        self.box: Box = lcm(*(m for m, _ in boxes)), lcm(*(n for _, n in boxes))

    # -- what batches are made of --

    def visit_assign_stmt(self, s: AssignStmt) -> Made:
        if s.var not in self.batches:
            return self._stored(s) if self._is_store(s.value) else super().visit_assign_stmt(s)
        c = s.value
        name = c.op.name if isinstance(c, Call) else ""
        if isinstance(c, Call) and name == "tile.create":
            self._each(s.var, lambda i: self._created(s.var, c))
        elif isinstance(c, Call) and name == PRODUCT:
            self._each(s.var, lambda i: self.emit("tile.matmul", self._factors(c, i), None, s.var.name_hint))
        elif isinstance(c, Call) and name == SUM:
            acc, rest = self.pieces[c.args[0]], [self.expr(a) for a in c.args[3:]]
            number = iter(acc)
            self._each(
                s.var, lambda i: self.emit("tile.matmul_acc", (next(number), *self._factors(c, i), *rest), None, s.var.name_hint)
            )
        elif isinstance(c, Var) and c in self.pieces:
            self.pieces[s.var] = self.pieces[c]
        else:
            made = super().visit_assign_stmt(s)
            assert isinstance(made, AssignStmt)
            self.out.append(made)
            self._each(s.var, lambda i: self._cut(s.var, made.var, i))
        return None

    def _each(self, v: Var, make: Callable[[tuple[Expr, ...]], Expr]) -> None:
        """The matrices of a batch, in the order of their numbers."""
        self.pieces[v] = tuple(make(i) for i in _indices(v))

    def _factors(self, c: Call, index: tuple[Expr, ...]) -> list[Expr]:
        return self.matrices.of(self, c, index, self.box)

    def _created(self, v: Var, c: Call) -> Expr:
        """Storage for one matrix; where a matrix has several boxes of rows, it is compact if the last one is not all valid."""
        shape, valid = boxed_shape(_tile(v).shape[-2:], self.box), tuple(self.expr(e) for e in _tile(v).valid[-2:])
        compact = {} if const_dim(shape[0]) == 16 or arith.same(shape[0], valid[0]) else {"compact": True}
        kwargs = {**c.kwargs, "target_memory": ACC, **compact}
        return self.valid_as(self.emit("tile.create", (MakeTuple(shape), *c.args[1:]), kwargs, v.name_hint), valid)

    def _cut(self, v: Var, made: Expr, index: tuple[Expr, ...]) -> Expr:
        """A matrix of a batch that was computed otherwise."""
        t = _tile(v)
        cut = matrix_of(self, made, t, index, self.box, VEC, tuple(self.expr(e) for e in t.valid[-2:]))
        return self.emit("tile.move", (cut,), {"target_memory": ACC}, v.name_hint)

    # -- what becomes of them --

    def _is_store(self, e: Expr) -> bool:
        return isinstance(e, Call) and e.op.name == "tile.store" and len(e.args) == 3 and e.args[0] in self.batches

    def _stored(self, s: AssignStmt) -> Stmt:
        """Each matrix stored where it belongs."""
        c = s.value
        assert isinstance(c, Call)
        source, offsets = c.args[0], [self.expr(o) for o in c.args[1].elements]  # type: ignore[attr-defined]
        valid = [self.expr(v) for v in _tile(source).valid[-2:]]
        made = self.expr(c.args[2])
        for i, p in zip(_indices(source), self.pieces[source], strict=True):
            at = [arith.add(o, n) for o, n in zip(offsets[:-2], i, strict=True)] + offsets[-2:]
            window = MakeTuple((*(const_index(1) for _ in i), *valid))
            last = typed_call("tile.store", (p, MakeTuple(at), made, window), c.kwargs, c.span)
            made = self.let(s.var.name_hint, last)
        done = self.out.pop()
        assert isinstance(done, AssignStmt)
        return self.assign(s, done.value)

    def visit_var(self, v: Var) -> Expr:
        """A batch that is read as it is: its matrices, copied into one tile."""
        if v not in self.pieces:
            return super().visit_var(v)
        t = _tile(v)
        if not t.is_fully_valid:
            raise CompileError(
                f"'{user_name(v)}', a batch that products are added to, is valid in {shape_text(t.valid)}",
                self.span,
                "store it, or fill the operands of the products with pl.fillpad",
                code="C031",
            )
        rows, zero = t.shape[-2], const_index(0)
        whole = MakeTuple((arith.product(t.shape[:-1]), t.shape[-1]))
        made = self.emit("tile.create", (whole,), {"dtype": t.dtype, "target_memory": VEC}, v.name_hint)
        for i, p in zip(_indices(v), self.pieces[v], strict=True):
            cut = self.emit("tile.extract", (p, zero, zero, MakeTuple(t.shape[-2:])), {"target_memory": VEC}, "matrix")
            at = MakeTuple((arith.mul(flat_index(i, _batch(v)), rows), zero))
            made = self.emit("tile.assemble", (made, cut, at), None, v.name_hint)
        return self.emit("tile.reshape", (made, MakeTuple(t.shape)), None, v.name_hint)

    # -- loops and branches --

    def carried(self, iter_args: tuple[IterArg, ...]) -> tuple[IterArg, ...]:
        made: list[IterArg] = []
        plain = iter(super().carried(tuple(a for a in iter_args if a not in self.batches)))
        begins = {a: self.pieces[a.initValue] for a in iter_args if a in self.batches}
        for a in iter_args:
            if a in begins:
                self.pieces[a] = tuple(IterArg(a.name_hint, p.type, p, a.span) for p in begins[a])
                made += self.pieces[a]  # type: ignore[arg-type]
            else:
                made.append(next(plain))
        return iter_args if not begins and all(x is y for x, y in zip(made, iter_args, strict=True)) else tuple(made)

    def visit_yield_stmt(self, s: YieldStmt) -> Stmt:
        values: list[Expr] = []
        for v in s.value:
            values += self.pieces[v] if v in self.pieces else (self.expr(v),)
        same = len(values) == len(s.value) and all(x is y for x, y in zip(values, s.value, strict=True))
        return s if same else s.replace(value=tuple(values))

    def results(self, results: tuple[Var, ...], old_body: Stmt, new_body: Stmt) -> tuple[Var, ...]:
        if not any(r in self.batches for r in results):
            return super().results(results, old_body, new_body)
        old, new = last_yield(old_body), last_yield(new_body)
        assert old is not None
        assert new is not None
        made: list[Var] = []
        for r, before in zip(results, old.value, strict=True):
            if r in self.batches:
                yielded = new.value[len(made) : len(made) + len(self.pieces[before])]
                self.pieces[r] = tuple(Var(r.name_hint, e.type, r.span) for e in yielded)
                made += self.pieces[r]  # type: ignore[arg-type]
            else:
                made.append(self.define_as(r, self.type_after(r, before, new.value[len(made)])))
        return tuple(made)


def _indices(e: Expr) -> Iterator[tuple[Expr, ...]]:
    """The index of each matrix of a batch."""
    for i in product(*(range(n) for n in _batch(e))):
        yield tuple(const_index(n) for n in i)


def _batch(e: Expr) -> tuple[int, ...]:
    dims = const_dims(_tile(e).shape[:-2])
    assert dims is not None
    return dims


def _tile(e: Expr) -> TileType:
    assert isinstance(e.type, TileType)
    return e.type

"""Accumulators that begin as undefined storage are valid in what is added up in them.

In: a kernel over tiles.  Out: an accumulator in Acc memory that begins undefined, carried by a loop or not, and takes
products that are valid in less, begins narrowed to that, compact if it has several boxes of rows; what depends on it is
typed anew by its operators.
Invariant: an accumulator whose narrower extents differ, or have no name in front of the loop, stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeGuard

from pypto.enums import MemorySpace
from pypto.errors import CompileError
from pypto.ir import arith, ops
from pypto.ir.expr import Call, Expr, IterArg, Var
from pypto.ir.opdef import Matmul
from pypto.ir.program import Function
from pypto.ir.shaped import TileType, const_dim, is_less, same_dims
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, Stmt, WhileStmt, last_yield
from pypto.ir.verify.sums import product_extents
from pypto.named import NamedTuple
from pypto.passes.convert_tensor_to_tile_ops.joins import unequal_joins
from pypto.passes.retype import placed_like, used_vars
from pypto.passes.ssa_rewriter import SSARewriter
from pypto.passes.statements import definitions, statements

__all__ = ["narrow_acc_carries"]

_ROWS = 16  # of a box: one alone lies the same way however much of it is valid
Dims = tuple[Expr, ...]


class _Narrower(NamedTuple):
    """Where undefined storage becomes an accumulator (a carry, or the result of a product that is added to it), the call
    that creates it, its variables from there on, and the extents it may have."""

    at: Var
    create: Call
    chain: tuple[Var, ...]
    valid: Dims


def narrow_acc_carries(f: Function) -> Function:
    """The kernel with its accumulators narrowed; the same one if there is none to narrow."""
    if not any(_is_accumulator(v.type) for v in definitions(f.body)):
        return f
    while True:
        found = list(_candidates(f))
        # Branches that meet are narrowed together; where all of them do not fit, one may.
        tried = [found, *([x] for x in found)] if len(found) > 1 else [found] if found else []
        made = next((m for m in (_narrowed(f, t) for t in tried) if m is not None), None)
        if made is None:
            return f
        f = made


def _narrowed(f: Function, found: list[_Narrower]) -> Function | None:
    """The kernel with these narrowed; None where that leaves values that do not fit together."""
    try:
        made = _Narrowing(found).function(f)
    except CompileError:
        return None  # an operator needs the accumulator as wide as it was
    carries = {x.at for x in found if isinstance(x.at, IterArg)}
    unequal = list(unequal_joins(f))
    left = sum(j[1] not in carries for j in unequal)
    if len(list(unequal_joins(made))) > left:
        return None
    return _without(made, {v for x in found for v in x.chain})


def _without(f: Function, chain: set[Var]) -> Function:
    """The kernel without those of the variables that nothing reads any more."""
    while True:
        unread = chain - used_vars(f.body).keys()
        made = _Dropped(unread).function(f) if unread else f
        if made is f:
            return f
        f = made


class _Dropped(SSARewriter):
    def __init__(self, unread: set[Var]) -> None:
        super().__init__()
        self.unread = unread

    def visit_assign_stmt(self, s: AssignStmt) -> Stmt | None:
        return None if s.var in self.unread else s


# -- what can be narrowed ------------------------------------------------------------------------------------------


def _candidates(f: Function) -> Iterator[_Narrower]:
    made: dict[Var, Stmt] = {}
    inits: dict[Var, Expr] = {}
    places: list[ForStmt | WhileStmt | AssignStmt] = []
    for s in statements(f.body):
        if isinstance(s, AssignStmt):
            made[s.var] = s
            if _adds_to(s) is not None:
                places.append(s)
        elif isinstance(s, (IfStmt, ForStmt, WhileStmt)):
            made.update((v, s) for v in s.return_vars)
            if not isinstance(s, IfStmt):
                places.append(s)
                inits.update((a, a.initValue) for a in s.iter_args)
    for p in places:
        yield from _narrower_product(p, made) if isinstance(p, AssignStmt) else _narrower_carries(p, _Parts(made, inits))


def _narrower_product(s: AssignStmt, made: Mapping[Var, Stmt]) -> Iterator[_Narrower]:
    """A product that is added to what was created, not carried."""
    added = _adds_to(s)
    assert added is not None
    acc, valid = added
    seed = _seed(acc, made)
    if seed is not None and _is_accumulator(acc.type) and _is_narrower(valid, acc.type, set()):
        yield _Narrower(s.var, seed[1], seed[0], valid)


def _narrower_carries(loop: ForStmt | WhileStmt, parts: _Parts) -> Iterator[_Narrower]:
    y = last_yield(loop.body)
    inside = {*definitions(loop.body), *loop.iter_args, *((loop.loop_var,) if isinstance(loop, ForStmt) else ())}
    for a, e in zip(loop.iter_args, y.value if y is not None else (), strict=False):
        seed = _seed(a.initValue, parts.made)
        if seed is None or not _is_accumulator(a.type):
            continue
        found = list(parts.of(e, {a}))
        if found and all(same_dims(p, found[0]) for p in found) and _is_narrower(found[0], a.type, inside):
            yield _Narrower(a, seed[1], seed[0], found[0])


def _is_accumulator(t: object) -> TypeGuard[TileType]:
    if not isinstance(t, TileType) or t.memory_space is not MemorySpace.Acc or len(t.shape) != 2:
        return False
    return const_dim(t.shape[0]) is not None


def _adds_to(s: AssignStmt) -> tuple[Expr, Dims] | None:
    """What a statement's product is added to, and the extents of the product."""
    op = ops.of(s.value) if isinstance(s.value, Call) else None
    if op is None or not isinstance(op.semantics, Matmul) or op.semantics.acc is None:
        return None
    assert isinstance(s.value, Call)
    return s.value.args[op.semantics.acc], product_extents(s.value, op.semantics)


def _seed(e: Expr, made: Mapping[Var, Stmt]) -> tuple[tuple[Var, ...], Call] | None:
    """The creation of what an accumulator begins with, and the variables from there on."""
    chain: list[Var] = []
    while isinstance(e, Var):
        s = made.get(e)
        if not isinstance(s, AssignStmt) or not isinstance(s.value, Call):
            return None
        chain.append(e)
        if s.value.op.name == "tile.create":
            return tuple(chain), s.value
        if s.value.op.name != "tile.set_validshape":
            return None
        e = s.value.args[0]
    return None


class _Parts(NamedTuple):
    """What values may be valid in.  `made`: the statements that make them; `inits`: what carries begin with."""

    made: Mapping[Var, Stmt]
    inits: Mapping[Var, Expr]

    def of(self, e: Expr, seen: set[Expr]) -> Iterator[Dims]:
        """The extents of the values that `e` may be, but for those `seen`, which say nothing.

        What adds to a sum is valid where that is; what adds to nothing yet is valid where the product is.
        """
        if e in seen:
            return
        seen.add(e)
        if e in self.inits:
            yield from self.of(self.inits[e], seen)  # type: ignore[index]
            return
        s = self.made.get(e) if isinstance(e, Var) else None
        if isinstance(s, (IfStmt, ForStmt, WhileStmt)):
            at = next(i for i, r in enumerate(s.return_vars) if r is e)
            for body in (s.then_body, s.else_body) if isinstance(s, IfStmt) else (s.body,):
                y = last_yield(body) if body is not None else None
                if y is not None:
                    yield from self.of(y.value[at], seen)
            return
        added = _adds_to(s) if isinstance(s, AssignStmt) else None
        if added is not None:
            before = list(self.of(added[0], seen))
            yield from before or (added[1],)
        elif isinstance(e.type, TileType):
            yield e.type.valid


def _is_narrower(valid: Dims, t: TileType, inside: set[Var]) -> bool:
    """Whether extents are known outside of a loop, and provably within those of a tile without being the same."""
    if len(valid) != len(t.valid) or any(v in inside for d in valid for v in used_vars(d)):
        return False
    within = [
        arith.same(d, have) or is_less(d, have) or (const_dim(d) is None and arith.same(have, n))
        for d, have, n in zip(valid, t.valid, t.shape, strict=True)
    ]
    return all(within) and not all(arith.same(d, have) for d, have in zip(valid, t.valid, strict=True))


# -- narrowing -----------------------------------------------------------------------------------------------------


class _Narrowing(SSARewriter):
    """Types follow from the narrower carry, through every operator, branch and loop."""

    def __init__(self, found: list[_Narrower]) -> None:
        super().__init__()
        self.found = {x.at: x for x in found}

    def begin(self, x: _Narrower) -> Var:
        """Storage of its own for an accumulator, as wide as its products."""
        assert isinstance(x.at.type, TileType)
        compact = {"compact": True} if const_dim(x.at.type.shape[0]) != _ROWS else {}
        kwargs = {**x.create.kwargs, "target_memory": MemorySpace.Acc, **compact}
        name = x.chain[-1].name_hint
        storage = self.emit("tile.create", x.create.args, kwargs, name)
        return self.emit("tile.set_validshape", (storage, *(self.expr(d) for d in x.valid)), None, name)

    def visit_assign_stmt(self, s: AssignStmt) -> Stmt | None:
        x = self.found.get(s.var)
        if x is None:
            return super().visit_assign_stmt(s)  # type: ignore[return-value]
        assert isinstance(s.value, Call)
        acc = _adds_to(s)
        assert acc is not None
        start = self.begin(x)
        return self.assign(s, self.recall(s.value, (start if a is acc[0] else self.expr(a) for a in s.value.args)))

    def carried(self, iter_args: tuple[IterArg, ...]) -> tuple[IterArg, ...]:
        made = list(iter_args)
        for i, a in enumerate(iter_args):
            if a in self.found:
                start = self.begin(self.found[a])
                made[i] = self.vars[a] = IterArg(a.name_hint, placed_like(a.type, start.type), start, a.span)
        return super().carried(tuple(made))

    def results(self, results: tuple[Var, ...], old_body: Stmt, new_body: Stmt) -> tuple[Var, ...]:
        """Accumulators that come out of a loop or a branch are what went in."""
        made = list(super().results(results, old_body, new_body))
        y = last_yield(new_body)
        for i, (r, e) in enumerate(zip(results, y.value if y is not None else (), strict=False)):
            t, now = e.type, made[i].type
            if isinstance(t, TileType) and isinstance(now, TileType) and t.memory_space is MemorySpace.Acc and t != now:
                made[i] = self.vars[r] = Var(r.name_hint, placed_like(r.type, t), r.span)
        return results if all(x is y for x, y in zip(made, results, strict=True)) else tuple(made)

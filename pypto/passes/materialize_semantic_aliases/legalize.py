"""Storage that gives exactly the values.

In: a placed function in SSA form, in which control flow joins values that lie apart and operators overwrite what is
still needed.  Out: every carry and branch result has one place, and copies put values there: before a loop, at its back
edge (all at once: what a copy would overwrite too early is saved first), at the end of a branch; an operator that works
in place on a value needed later works on a copy.
Invariant: executing the statements on memory, place by place, gives what the values of the function are.
"""

from __future__ import annotations

from typing import Any

from pypto.enums import ArgEffect
from pypto.ir import arith, ops
from pypto.ir.expr import Call, Expr, IterArg, MakeTuple, Var
from pypto.ir.opdef import OpDef
from pypto.ir.program import Function
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, Stmt, WhileStmt, YieldStmt, last_yield
from pypto.ir.types import PtrType
from pypto.named import NamedTuple
from pypto.passes.materialize_semantic_aliases.coalesce import BRANCH, CARRY, ENTRY, Pair, coalesce
from pypto.passes.materialize_semantic_aliases.offsets import bind_shared_offsets
from pypto.passes.memory.liveness import Liveness
from pypto.passes.memory.placing import Allocation, Place, Placer, is_allocation, place_in, with_allocations
from pypto.passes.memory.sizes import allocation_bytes, line_pitch
from pypto.passes.ssa_rewriter import typed_call
from pypto.passes.statements import statements
from pypto.target import Chip

__all__ = ["legalize_storage"]


def legalize_storage(f: Function, chip: Chip) -> Function:
    """The function with storage that gives its values."""
    rewriter = _Legalizer(f, chip)
    made = with_allocations(rewriter.function(f), rewriter.allocations)
    return bind_shared_offsets(coalesce(made, rewriter.pairs(made)))


class _Join(NamedTuple):
    """Where the values yielded at the end of a region go, and what receives them; no place: no tile, or no need to move."""

    places: tuple[Place | None, ...]
    receivers: tuple[Var, ...]
    kind: int


class _Copy(NamedTuple):
    """One of the copies that happen at once: a yielded value, by its number, to its place."""

    number: int
    source: Expr
    place: Place


class _Legalizer(Placer):
    def __init__(self, f: Function, chip: Chip) -> None:
        super().__init__(f)
        self.chip = chip
        self.live = Liveness(f)
        self.allocations: list[Allocation] = []
        self.number = sum(is_allocation(s) for s in statements(f.body))
        self.family: dict[Var, list[Var]] = {}  # by allocation: the variables of the function as it was
        self.cuts: dict[Var, Call] = {}  # slices of the new function
        self.joins: list[_Join] = []
        self.wanted: list[tuple[int, Var, Var, Var]] = []  # kind, source, copy, a variable that the join defines

    def pairs(self, made: Function) -> list[Pair]:
        """The copies made, as wishes for the rewritten function."""
        owner: dict[Var, Stmt] = {}
        for n in statements(made.body):
            if isinstance(n, (ForStmt, WhileStmt, IfStmt)):
                owner.update(dict.fromkeys(n.return_vars, n))
                if not isinstance(n, IfStmt):
                    owner.update(dict.fromkeys(n.iter_args, n))
        found = []
        for kind, source, copy, receiver in self.wanted:
            now = self.vars.get(receiver, receiver)
            assert isinstance(now, Var)
            found.append(Pair(kind, source, copy, owner[now]))
        return found

    # -- places --

    def own_place(self, v: Var, t: TileType) -> Place:
        return place_in(t)

    def new_place(self, t: TileType) -> Place:
        assert t.memory_space is not None
        base = Var(f"mem_{t.memory_space.name.lower()}_{self.number}", PtrType.get(), self.span)
        self.number += 1
        size = allocation_bytes(t, self.chip)
        self.allocations.append(Allocation(base, t.memory_space, size))
        return Place(base, 0, size, line_pitch(t))

    def put(self, v: Var, t: TileType, place: Place) -> Var:
        self.family.setdefault(place.base, []).append(v)
        return super().put(v, t, place)

    def copy_to(self, e: Expr, place: Place, hint: str) -> Var:
        """A copy of a tile at a place, in the layout it has."""
        t = e.type
        assert isinstance(t, TileType)
        kwargs: dict[str, Any] = {"target_memory": t.memory_space}
        call = typed_call("tile.move", (e,), kwargs, self.span)
        if isinstance(call.type, TileType) and call.type.layout != t.layout:
            kwargs |= {"blayout": t.layout.blayout, "slayout": t.layout.slayout}
            call = typed_call("tile.move", (e,), kwargs, self.span)
        assert isinstance(call.type, TileType)
        made = self.let(hint, call, call.type.at(place.memref()))
        self.places[made] = place
        return made

    # -- operators that work in place --

    def visit_assign_stmt(self, s: AssignStmt) -> Stmt:
        c = s.value
        op = ops.of(c) if isinstance(c, Call) else None
        if op is None or not isinstance(c, Call) or not _writes_operand(op, c):
            return self._register_cut(super().visit_assign_stmt(s))
        assert op.reuses is not None
        args = [self.visit(a) for a in c.args]
        written = self._written(op, args)
        if self.still_needed(c.args[op.reuses], written, self.live.at[s]):
            t = args[op.reuses].type
            assert isinstance(t, TileType)
            args[op.reuses] = self.copy_to(args[op.reuses], self.new_place(t), f"{_hint(args[op.reuses])}_copy")
        if op.concept == "assemble":
            args[1] = self.apart_from(args[1], args[0], args[2])
        else:
            place = self._written(op, args)
            args = [a if i == op.reuses else self.apart_from_place(a, place) for i, a in enumerate(args)]
        value = c if all(a is b for a, b in zip(args, c.args, strict=True)) else self.recall(c, args)
        assert isinstance(s.var.type, TileType)
        return s.replace(value=value, var=self.put(s.var, s.var.type, self.place_of(s.var, s.var.type, value)))

    def _register_cut(self, s: Stmt) -> Stmt:
        if isinstance(s, AssignStmt) and isinstance(s.value, Call) and s.value.op.name == "tile.slice":
            self.cuts[s.var] = s.value
        return s

    def _written(self, op: OpDef, args: list[Expr]) -> Place:
        """The bytes of its operand that an in-place operator sets."""
        assert op.reuses is not None
        whole = self.of(args[op.reuses])
        if op.concept != "assemble":
            return whole
        source, target = args[1].type, args[0].type
        assert isinstance(source, TileType)
        assert isinstance(target, TileType)
        return self.window(source, target, whole, args[2])

    def still_needed(self, operand: Expr, written: Place, at: int) -> bool:
        """Whether anything that lies on the bytes being overwritten is read afterwards."""
        for u in self.family.get(written.base, ()):
            if self.live.live_after(u, at) and not _apart(self.of(self.visit(u)), written):
                return True
        return False

    def apart_from(self, source: Expr, target: Expr, offset: Expr) -> Expr:
        """The source of an assemble in a form that writing the window does not change."""
        assert isinstance(source.type, TileType)
        assert isinstance(target.type, TileType)
        a, whole = self.of(source), self.of(target)
        window = self.window(source.type, target.type, whole, offset)
        if a.base is not window.base or _apart(a, window) or a.same(window) or self._is_cut_at(source, target, offset):
            return source
        made = self._cut_from_copy(source, target)
        return made if made is not None else self.copy_to(source, self.new_place(source.type), f"{_hint(source)}_copy")

    def apart_from_place(self, e: Expr, written: Place) -> Expr:
        """An operand in a form that writing these bytes does not change."""
        if not isinstance(e.type, TileType):
            return e
        a = self.of(e)
        if a.base is not written.base or _apart(a, written):
            return e
        return self.copy_to(e, self.new_place(e.type), f"{_hint(e)}_copy")

    def _is_cut_at(self, source: Expr, target: Expr, offset: Expr) -> bool:
        """Whether the source is exactly the window that is written."""
        cut = self.cuts.get(source) if isinstance(source, Var) else None
        if cut is None or not self.of(cut.args[0]).same(self.of(target)):
            return False
        a, b = cut.args[2], offset
        assert isinstance(a, MakeTuple)
        assert isinstance(b, MakeTuple)
        return all(arith.same(x, y) for x, y in zip(a.elements, b.elements, strict=True))

    def _cut_from_copy(self, source: Expr, target: Expr) -> Expr | None:
        """The source cut from a copy of the target, which still holds it; None where it was cut from something else."""
        cuts: list[Call] = []
        e = source
        while isinstance(e, Var) and e in self.cuts:
            cuts.append(self.cuts[e])
            e = cuts[-1].args[0]
            if e.type == target.type:
                break
        else:
            return None
        assert isinstance(target.type, TileType)
        made: Var = self.copy_to(target, self.new_place(target.type), f"{_hint(target)}_copy")
        for cut in reversed(cuts):
            whole, window = made, self.recall(cut, (made, *cut.args[1:]))
            assert isinstance(window.type, TileType)
            assert isinstance(whole.type, TileType)
            place = self.window(window.type, whole.type, self.of(whole), window.args[2])
            made = self.let(_hint(source), window, window.type.at(place.memref()))
            self.places[made] = place
        return made

    # -- control flow --

    def visit_if_stmt(self, s: IfStmt) -> Any:
        then, other = last_yield(s.then_body), last_yield(s.else_body)
        places: list[Place | None] = []
        for i, r in enumerate(s.return_vars):
            one = then is not None and other is not None and then.value[i] is other.value[i]
            if one and then is not None and isinstance(r.type, TileType):
                value = self.expr(then.value[i])
                one = self.of(value).exact and value not in self.cuts  # a window is copied: its storage is another's
            places.append(self.new_place(r.type) if isinstance(r.type, TileType) and not one else None)
        self.joins.append(_Join(tuple(places), s.return_vars, BRANCH))
        made = super().visit_if_stmt(s)
        self.joins.pop()
        return made

    def visit_for_stmt(self, s: ForStmt) -> Any:
        made = super().visit_for_stmt(s)
        self.joins.pop()
        return made

    def visit_while_stmt(self, s: WhileStmt) -> Any:
        made = super().visit_while_stmt(s)
        self.joins.pop()
        return made

    def carried(self, iter_args: tuple[IterArg, ...]) -> tuple[IterArg, ...]:
        made: list[IterArg] = []
        places: list[Place | None] = []
        for a in iter_args:
            init = self.expr(a.initValue)
            place = None
            type_ = super().type_after(a, a.initValue, init) if not isinstance(a.type, TileType) else a.type
            if isinstance(a.type, TileType):
                place = self.new_place(a.type)
                entry = self.copy_to(init, place, f"carry_input_{a.name_hint}")
                assert isinstance(init, Var)
                self.wanted.append((ENTRY, init, entry, a))
                init, type_ = entry, a.type.at(place.memref())
            new = a if init is a.initValue and type_ is a.type else IterArg(a.name_hint, type_, init, a.span)
            if new is not a:
                self.vars[a] = new
            if place is not None:
                self.places[new] = place
                self.family.setdefault(place.base, []).append(a)
            made.append(new)
            places.append(place)
        self.joins.append(_Join(tuple(places), iter_args, CARRY))
        return tuple(made)

    def results(self, results: tuple[Var, ...], old_body: Stmt, new_body: Stmt) -> tuple[Var, ...]:
        made: list[Var] = []
        values = last_yield(new_body)
        for i, (r, place) in enumerate(zip(results, self.joins[-1].places, strict=True)):
            if not isinstance(r.type, TileType):
                made += super().results((r,), *(_only(b, i) for b in (old_body, new_body)))
                continue
            assert values is not None
            made.append(self.put(r, r.type, place if place is not None else self.of(values.value[i])))
        return tuple(made)

    def visit_yield_stmt(self, s: YieldStmt) -> Stmt:
        join = self.joins[-1]
        values = [self.expr(v) for v in s.value]
        copies = []
        for i, (v, place) in enumerate(zip(values, join.places, strict=True)):
            if place is not None and not self.of(v).same(place):
                copies.append(_Copy(i, v, place))
        for c in self._in_order(copies):
            source = c.source
            values[c.number] = self.copy_to(source, c.place, f"{join.receivers[c.number].name_hint}_next")
            if isinstance(source, Var):
                made = values[c.number]
                assert isinstance(made, Var)
                self.wanted.append((join.kind, source, made, join.receivers[c.number]))
        return s.replace(value=tuple(values))

    def _in_order(self, copies: list[_Copy]) -> list[_Copy]:
        """Copies that happen at once, one after the other: none overwrites what another has still to read."""
        pending, done = list(copies), []
        while pending:
            free = [c for c in pending if not any(self.of(o.source).base is c.place.base for o in pending if o is not c)]
            if free:
                done.append(free[0])
                pending.remove(free[0])
                continue
            saved = []
            for c in pending:
                t = c.source.type
                assert isinstance(t, TileType)
                saved.append(c._replace(source=self.copy_to(c.source, self.new_place(t), f"{_hint(c.source)}_saved")))
            pending = saved
        return done


def _apart(a: Place, b: Place) -> bool:
    """Whether two places provably share no byte."""
    return a.base is not b.base or a.offset + a.size <= b.offset or b.offset + b.size <= a.offset


def _writes_operand(op: OpDef, c: Call) -> bool:
    """Whether a tile operator overwrites the operand that its result replaces."""
    if op.level != "tile" or op.reuses is None or op.channel is not None:
        return False
    return op.effect(op.reuses, c.kwargs) is not ArgEffect.Read


def _hint(e: Expr) -> str:
    return e.name_hint if isinstance(e, Var) else "t"


def _only(body: Stmt, i: int) -> Stmt:
    """The yield of one of the values."""
    y = last_yield(body)
    return YieldStmt((y.value[i],)) if y is not None else body

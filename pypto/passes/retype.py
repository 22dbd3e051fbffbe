"""Rewriting that keeps types true.

In: a tree and replacements for variables or operands.  Out: the tree in which every operator call has the type that its
rule deduces from the new operands, and every variable the type of what is bound to it.
Invariant: a call whose operands did not change is the same object; an operator that refuses its new operands is an error
of the user, at the call.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pypto.enums import MemorySpace
from pypto.errors import CompileError
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, IterArg, MemRef, Var
from pypto.ir.node import DEFINITION, MANY, Node, attr_nodes
from pypto.ir.opdef import OpDef, OpRejected
from pypto.ir.rewrite import Mutator
from pypto.ir.shaped import ShapedType, TileType
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, Stmt, WhileStmt, flatten_to_stmts, last_yield, seq
from pypto.ir.types import Type
from pypto.span import Span

__all__ = ["Made", "Retyper", "count_uses", "placed_like", "rebuilt", "rededuce", "used_vars"]

# What a statement may become: one statement, several, or nothing.
Made = Stmt | list[Stmt] | None


class Retyper(Mutator):
    """A mutator under which types follow values: from operands to calls, to variables, through yields to results."""

    def visit_call(self, c: Call) -> Expr:
        args = self._value(c.args, MANY)
        attrs = self._attrs(c.attrs)
        if args is c.args and attrs is c.attrs:
            return c  # what its type mentions came with the operands
        if ops.of(c) is None:
            return c.replace(args=args, attrs=attrs, type=self.visit(c.type))
        return rededuce(c.replace(args=args, attrs=attrs), self.visit(c.type))

    def visit_assign_stmt(self, s: AssignStmt) -> Made:
        value = self.expr(s.value)
        return s.replace(value=value, var=self.define_as(s.var, self.type_after(s.var, s.value, value)))

    def visit_if_stmt(self, s: IfStmt) -> Made:
        condition = self.expr(s.condition)
        then, other = self.body(s.then_body), None if s.else_body is None else self.body(s.else_body)
        results = self.results(s.return_vars, s.then_body, then)
        return s.replace(condition=condition, then_body=then, else_body=other, return_vars=results)

    def visit_for_stmt(self, s: ForStmt) -> Made:
        start, stop, step = self.expr(s.start), self.expr(s.stop), self.expr(s.step)
        carried = self.carried(s.iter_args)
        loop_var = self.define(s.loop_var)
        body = self.body(s.body)
        results = self.results(s.return_vars, s.body, body)
        return s.replace(start=start, stop=stop, step=step, iter_args=carried, loop_var=loop_var, body=body, return_vars=results)

    def visit_while_stmt(self, s: WhileStmt) -> Made:
        carried = self.carried(s.iter_args)
        condition = self.expr(s.condition)
        body = self.body(s.body)
        results = self.results(s.return_vars, s.body, body)
        return s.replace(iter_args=carried, condition=condition, body=body, return_vars=results)

    # -- definitions --

    def define(self, v: Var) -> Var:
        """A variable at its definition; a loop carry takes the type of what it starts from."""
        if isinstance(v, IterArg):
            return self.carried((v,))[0]
        return self.define_as(v, self.visit(v.type))

    def define_as(self, v: Var, type_: Type) -> Var:
        """A variable at its definition, with this type; its uses follow."""
        if type_ is v.type or type_ == v.type:
            return v
        new = Var(v.name_hint, type_, v.span)
        self.vars[v] = new
        return new

    def type_after(self, v: Var, old: Expr, new: Expr) -> Type:
        """The type of `v` once `new` is bound to it in place of `old`."""
        if new is old or new.type is old.type or new.type == old.type:
            made: Type = self.visit(v.type)
            return made
        return placed_like(v.type, new.type)

    def carried(self, iter_args: tuple[IterArg, ...]) -> tuple[IterArg, ...]:
        """Loop carries; every initial value is read before any of them comes into being."""
        inits = [self.expr(a.initValue) for a in iter_args]
        made = []
        for a, init in zip(iter_args, inits, strict=True):
            type_ = self.type_after(a, a.initValue, init)
            if init is not a.initValue or not (type_ is a.type or type_ == a.type):
                new = IterArg(a.name_hint, type_, init, a.span)
                self.vars[a] = new
                a = new
            made.append(a)
        return iter_args if all(x is y for x, y in zip(made, iter_args, strict=True)) else tuple(made)

    def results(self, results: tuple[Var, ...], old_body: Stmt, new_body: Stmt) -> tuple[Var, ...]:
        """The variables a statement hands out, typed by what its body yields."""
        old, new = last_yield(old_body), last_yield(new_body)
        made = []
        for i, r in enumerate(results):
            if old is not None and new is not None and i < min(len(old.value), len(new.value)):
                made.append(self.define_as(r, self.type_after(r, old.value[i], new.value[i])))
            else:
                made.append(self.define(r))
        return results if all(x is y for x, y in zip(made, results, strict=True)) else tuple(made)


def refused(op: OpDef, e: OpRejected, span: Span) -> CompileError:
    """What an operator refuses, as an error at the user's call."""
    message = e.message if e.message.startswith("pl.") else f"{op.name}: {e.message}"
    return CompileError(message, span, e.hint or f"its form is {op.signature()}", code="C010")


def rededuce(c: Call, explicit: Type | None = None) -> Call:
    """The call with the type its operands imply; CompileError at the call if the operator refuses them."""
    op = ops.of(c)
    if op is None:
        return c
    try:
        made = op.call(c.args, c.kwargs, c.span, (explicit or c.type) if op.explicit_result else None)
    except OpRejected as e:
        raise refused(op, e, c.span) from None
    return made.replace(attrs=c.attrs)


def rebuilt(body: Stmt, stmts: list[Stmt]) -> Stmt:
    """A body of these statements; the very body if they are its own."""
    old = flatten_to_stmts(body)
    same = len(stmts) == len(old) and all(a is b for a, b in zip(stmts, old, strict=True))
    return body if same else seq(stmts, body.span)


def placed_like(place: Type, type_: Type) -> Type:
    """`type_` with the memory space and the place in memory that `place` has and `type_` leaves open."""
    if not isinstance(place, ShapedType) or not isinstance(type_, ShapedType):
        return type_
    memref: MemRef | None = place.memref
    if isinstance(place, TileType) and isinstance(type_, TileType) and type_.memory_space is None:
        space: MemorySpace | None = place.memory_space
        type_ = type_.in_space(space)
    return type_ if memref is None or type_.memref is not None else type_.replace(memref=memref)


def used_vars(n: Node, types: bool = False) -> dict[Var, None]:
    """Variables read in `n`, in order of first use; see `count_uses`."""
    return dict.fromkeys(count_uses(n, types))


def count_uses(n: Node, types: bool = False) -> dict[Var, int]:
    """How often each variable is read in `n`, in order of first use, whether or not it is also defined there.

    A use of a variable is not a use of what it was defined from: the initial value of a loop carry is read where the
    loop stands.  With `types`, the extents inside types count, those of the variables read included.
    """
    found: dict[Var, int] = {}
    _collect(n, types, found)
    return found


def _collect(n: Node, types: bool, found: dict[Var, int]) -> None:
    if n.__identity__:
        assert isinstance(n, Var)
        known = found.get(n, 0)
        found[n] = known + 1
        if types and not known:
            _collect(n.type, types, found)
        return
    for f in type(n).__walked__:
        value = getattr(n, f.name)
        for child in value if f.walk == MANY else _nodes(value):
            if f.role == DEFINITION:
                _collect_definition(child, types, found)
            elif types or not child.__type__:
                _collect(child, types, found)


def _collect_definition(v: Node, types: bool, found: dict[Var, int]) -> None:
    if isinstance(v, IterArg):
        _collect(v.initValue, types, found)
    if types and isinstance(v, Var):
        _collect(v.type, types, found)


def _nodes(value: Any) -> Iterable[Node]:
    """Those of a field that holds no tuple: of attributes, or the one there is."""
    if value is None:
        return ()
    return attr_nodes(value) if isinstance(value, dict) else (value,)

"""Tiles of a placed tile-stage function as lifetimes.

In: a function in SSA form whose tiles have memrefs.  Out: a lifetime per piece of storage that one value after another
lives in by the program's own words: a tile and its views, what an operator adds to in place, what loops and branches
hand on.  Live ranges are those of the placement judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pypto.debug.memory_map.lifetimes import Lifetime, Numbers, Unions
from pypto.errors import ArgumentValueError
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.opdef import Special
from pypto.ir.program import Function
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, Stmt, WhileStmt, last_yield
from pypto.ir.verify.live_walk import LiveTiles
from pypto.ir.verify.placement import Range, tile_range
from pypto.ir.verify.scopes import defined_by, statements
from pypto.ir.verify.ssa import user_name
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = ["Made", "Names", "names_of", "place_of", "tile_lifetimes"]


class Made(NamedTuple):
    """A tile as the tile stage knows it."""

    name: str
    variable: str
    declared: bool


Names = Mapping[tuple[str, str, int, int], Made]
_AS_BUFFERS = {"move": "copy", "assemble": "copy"}  # operators of which the buffer stage has another word


def tile_lifetimes(f: Function, numbers: Numbers, addressed: bool) -> list[Lifetime]:
    """The lifetimes of a function's tiles, in the order in which they are made.

    ArgumentValueError for a tile without a place.
    """
    walk = _Points(numbers)
    walk.body(f.body, frozenset())
    defined = {p: 0 for p in f.params}
    makers: dict[Var, Stmt] = {}
    for s in statements(f.body):
        for v in defined_by(s):
            defined[v], makers[v] = numbers.get(s, 0), s
    variables = [v for v in defined if isinstance(v.type, TileType)]
    index = {v: i for i, v in enumerate(variables)}
    ranges = [_place(f, v, addressed) for v in variables]
    unions = Unions()
    for a, b in _joins(f):
        x, y = index.get(a), index.get(b)
        if x is not None and y is not None and _within(ranges[x], ranges[y]):
            unions.join(x, y)
    found = []
    for group in unions.groups(range(len(variables))):
        points = frozenset().union(*(walk.points.get(variables[i], ()) for i in group))
        if points:
            members = [variables[i] for i in group]
            found.append(_lifetime(members, [ranges[i] for i in group], defined, makers, points))
    return sorted(found, key=lambda x: (x.made, x.low))


class _Points(LiveTiles):
    """The statements at which each variable is there: what a statement finds, and what it makes."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.points: dict[Var, set[int]] = {}

    def passed(self, s: Stmt, before: frozenset[Var], behind: frozenset[Var]) -> None:
        n = self.numbers.get(s)
        if n is not None:
            for v in before | {s.var} if isinstance(s, AssignStmt) else before:
                self.points.setdefault(v, set()).add(n)


def _place(f: Function, v: Var, addressed: bool) -> Range:
    r = tile_range(v, addressed)
    if r is None:
        what = f"kernel '{f.name}': tile '{user_name(v)}' has no place in memory yet"
        raise ArgumentValueError(what, v.span, "map the program after all passes: kernel.lower(...), or kernel.memory_map(...)")
    return r


def _within(a: Range, b: Range) -> bool:
    """Whether one of two ranges contains the other."""
    same = a.space is b.space and a.base is b.base
    return same and ((a.low <= b.low and b.high <= a.high) or (b.low <= a.low and a.high <= b.high))


def _joins(f: Function) -> Iterator[tuple[Var, Var]]:
    """Variables that are one piece of storage if they lie in one place."""
    for s in statements(f.body):
        if isinstance(s, AssignStmt):
            yield from _pairs(s.var, [_stored_in(s.value)])
        elif isinstance(s, IfStmt):
            for body in (s.then_body, s.else_body):
                y = last_yield(body)
                for r, e in zip(s.return_vars, y.value if y is not None else (), strict=False):
                    yield from _pairs(r, [e])
        elif isinstance(s, (ForStmt, WhileStmt)):
            y = last_yield(s.body)
            values = y.value if y is not None else ()
            for i, a in enumerate(s.iter_args):
                yield from _pairs(a, [a.initValue, *values[i : i + 1], *s.return_vars[i : i + 1]])


def _pairs(v: Var, others: list[Expr | None]) -> Iterator[tuple[Var, Var]]:
    yield from ((v, e) for e in others if isinstance(e, Var))


def _stored_in(value: Expr) -> Expr | None:
    """The operand in whose storage a value lies."""
    if not isinstance(value, Call):
        return value
    op = ops.of(value)
    if op is None:
        return None
    if op.reuses is not None:
        return value.args[op.reuses]
    return value.args[0] if isinstance(op.semantics, Special) and op.semantics.kind == "view" else None


def _is_made_here(v: Var) -> bool:
    """Whether the compiler named a variable: the user only wrote the expression."""
    return "__tmp_v" in v.name_hint


def _plainest(names: list[str]) -> str:
    """The first name, without what a pass put behind one that is there too: `t` rather than `t_row`."""
    return min((n for n in names if names[0] == n or names[0].startswith(f"{n}_")), key=len)


def _operator(s: Stmt | None) -> str:
    value = s.value if isinstance(s, AssignStmt) else None
    return value.op.name.split(".", 1)[-1] if isinstance(value, Call) else ""


def _lifetime(
    members: list[Var], ranges: list[Range], defined: Mapping[Var, int], makers: Mapping[Var, Stmt], points: frozenset[int]
) -> Lifetime:
    first = min(members, key=lambda v: (defined[v], v not in makers))
    names = [user_name(v) for v in members if not _is_made_here(v)]
    by = _operator(makers.get(first)) or "parameter"
    t = first.type
    assert isinstance(t, TileType)
    assert t.memref is not None
    return Lifetime(
        _plainest(names) if names else f"{by}()",
        first.name_hint,
        ranges[0].space,
        ranges[0].base,
        min(r.low for r in ranges),
        max(r.high for r in ranges),
        t.dtype.name,
        t.dims or (),
        min(defined[first], *points),
        by,
        t.memref.base_.name_hint,
        t.memref.is_pinned_,
        points,
    )


# -- names for the buffer stage ------------------------------------------------------------------------------------


def names_of(f: Function) -> Names:
    """The tiles of a function by the operator that makes them, as the buffer stage calls it, and its statement's place."""
    found: dict[tuple[str, str, int, int], Made] = {}
    for s in statements(f.body):
        if isinstance(s, AssignStmt) and isinstance(s.value, Call) and isinstance(s.var.type, TileType):
            m = s.var.type.memref
            name = f"{_operator(s)}()" if _is_made_here(s.var) else user_name(s.var)
            made = Made(name, s.var.name_hint, m is not None and m.is_pinned_)
            operator = _AS_BUFFERS.get(_operator(s), _operator(s))
            found.setdefault(place_of(operator, s.span), made)
    return found


def place_of(operator: str, span: Span) -> tuple[str, str, int, int]:
    return operator, span.filename, span.begin_line, span.begin_column

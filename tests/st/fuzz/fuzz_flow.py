"""Statements: definitions, rebinding, branches and loops in every form, and what they carry.

In: a text under construction and a table of its plain statements.  Out: a block in both texts.  Invariant: a scalar whose
bounds are relied upon is not bound anew in a loop or branch; names of a block end with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fuzz_arrays import value as array_value
from fuzz_scalars import condition, index, of_dtype
from fuzz_shapes import expression
from fuzz_values import Local, Scalar, Scope, Shaped, X

if TYPE_CHECKING:
    from fuzz_body import Body

Statement = Callable[["Body"], None]
DEPTH = 3
CARRIED_SCALARS = ("INDEX", "FP32", "INT32", "BOOL")


def block(b: Body, most: int) -> None:
    """Some statements; at least one line."""
    before = len(b.lines.kernel)
    for _ in range(b.r.number(1, most)):
        statement(b)
    if len(b.lines.kernel) == before:
        b.lines.put("pass")


def statement(b: Body) -> None:
    table = [*b.statements]
    if b.lines.depth < b.deepest:
        table += COMPOUND
    if b.loops and b.loops[-1] in ("range", "while"):
        table.append((1, leave))
    b.r.weighted(table)(b)


# -- plain statements --------------------------------------------------------------------------------------------------


def rebindable(b: Body) -> list[tuple[str, Any]]:
    """Names that may be bound anew here: values that own their storage, and scalars nobody relies on."""
    out: list[tuple[str, Any]] = []
    for n, v in b.scope.names.items():
        if n in b.scope.fixed:
            continue
        own = isinstance(v, Shaped) and v.own and v.level == b.level
        if own or isinstance(v, Local) or (isinstance(v, Scalar) and not v.bounded and v.dtype in CARRIED_SCALARS):
            out.append((n, v))
    return out[::-1]


def value_of(b: Body, of: Any, depth: int = 1) -> X:
    """An expression of a description; of a scalar, of its dtype."""
    if isinstance(of, Scalar):
        return of_dtype(b, of.dtype, depth)
    if isinstance(of, Local):
        return array_value(b, of, depth)
    return expression(b, of, depth)


def rebind(b: Body) -> None:
    names = rebindable(b)
    if not names:
        return
    name, of = b.r.pick(names)
    e = value_of(b, of)
    b.lines.put(f"{name} = {e.kernel}", f"{name} = {e.twin}")


def swap(b: Body) -> None:
    """Several names at once, all read before any changes."""
    names = rebindable(b)
    if not names:
        return
    first, of = b.r.pick(names)
    others = [n for n, v in names if v == of and n != first]
    if not others:
        return
    second = b.r.pick(others)
    if b.r.chance(60):
        b.lines.put(f"{first}, {second} = {second}, {first}")
        return
    e = value_of(b, of)
    b.lines.put(f"{first}, {second} = {second}, {e.kernel}", f"{first}, {second} = {second}, {e.twin}")


def scalar(b: Body) -> None:
    """A number of any dtype, under a name."""
    dtype = b.r.pick(["INDEX", "FP32", "INT32", "BOOL", "INT16", "INDEX"])
    if dtype == "INDEX" and b.r.chance(40):
        e = b.number(*b.r.pick([(0, 3), (0, 8), (1, 4)]))
    else:
        e = of_dtype(b, dtype)
    if e.kernel.isidentifier() or e.of is None:
        return
    b.define(e.of, e.kernel, e.twin)


def leave(b: Body) -> None:
    """break or continue, under a condition."""
    word = "break" if (b.loops[-1] == "while" and not b.may_continue) or b.r.chance(60) else "continue"
    e = condition(b)
    b.lines.put(f"if {e.kernel}:", f"if {e.twin}:")
    with b.inner():
        if b.r.chance(40):
            rebind(b)
        b.lines.put(word)


# -- what loops and branches carry -------------------------------------------------------------------------------------


def _loosen(b: Body) -> None:
    """A scalar of this block loses its bounds, so that a loop or branch may change it."""
    found = ((n, b.scope.names[n]) for n in sorted(b.scope.own - b.scope.fixed))
    names = [n for n, v in found if isinstance(v, Scalar) and v.bounded and v.dtype in CARRIED_SCALARS]
    if names and b.r.chance(50):
        name = b.r.pick(names)
        b.scope.names[name] = Scalar(b.scope.names[name].dtype)


def _wanted(b: Body) -> Any:
    """A description that a new name may have."""
    shaped = [v for _, v in b.scope.of_kind(Shaped) if v.level == b.level and v.own]
    if shaped and b.level != "entry" and b.r.chance(75):
        return b.r.pick(shaped)
    arrays = [v for _, v in b.scope.of_kind(Local)]
    if arrays and b.r.chance(50):
        return b.r.pick(arrays)
    return Scalar(b.r.pick(CARRIED_SCALARS))


# -- branches ----------------------------------------------------------------------------------------------------------


def branch(b: Body) -> None:
    _loosen(b)
    form = b.r.number(0, 9)
    e = condition(b)
    if form <= 2:
        _arms(b, e, [])
    elif form <= 5:
        new = [(b.fresh(), _wanted(b)) for _ in range(b.r.number(1, 2))]
        _arms(b, e, new)
    elif form <= 8:
        _yielding(b, e)
    else:
        _arms(b, e, [], other=condition(b))


def _arms(b: Body, test: X, new: list[tuple[str, Any]], other: X | None = None) -> None:
    """Arms that bind names anew; `new` are bound in each of them."""
    b.lines.put(f"if {test.kernel}:", f"if {test.twin}:")
    _arm(b, new)
    if other is not None:
        b.lines.put(f"elif {other.kernel}:", f"elif {other.twin}:")
        _arm(b, new)
    if new or b.r.chance(60):
        b.lines.put("else:")
        _arm(b, new)
    for name, of in new:
        b.scope.bind(name, of)


def _arm(b: Body, new: list[tuple[str, Any]]) -> None:
    with b.inner():
        if b.r.chance(50):
            block(b, 2)
        for name, of in new:
            e = value_of(b, of)
            b.lines.put(f"{name} = {e.kernel}", f"{name} = {e.twin}")
        if not new:
            rebind(b)
            b.lines.put("pass")


def _yielding(b: Body, test: X) -> None:
    results = [(b.fresh(), _wanted(b)) for _ in range(b.r.number(1, 2))]
    names = ", ".join(n for n, _ in results)
    for head in (f"if {test.kernel}:", "else:"):
        b.lines.put(head, f"if {test.twin}:" if head != "else:" else None)
        with b.inner():
            if b.r.chance(40):
                block(b, 2)
            values = [_handed(b, of) for _, of in results]
            yielded = ", ".join(v.kernel for v in values)
            b.lines.put(f"{names} = pl.yield_({yielded})", f"{names} = {_tuple([v.twin for v in values])}")
    for name, of in results:
        b.scope.bind(name, of)


def _handed(b: Body, of: Any) -> X:
    """What a block hands on: often a value as it is."""
    names = [n for n, v in b.scope.names.items() if v == of]
    if names and b.r.chance(50):
        name = b.r.pick(names)
        return X(name, name, of)
    return value_of(b, of)


def _tuple(parts: list[str]) -> str:
    return ", ".join(parts)


# -- counted loops -----------------------------------------------------------------------------------------------------


def _bounds(b: Body) -> tuple[str, str, str, Scalar]:
    """Which loop, its arguments in both texts, and what its variable is; at most a few trips."""
    kind = b.r.weighted([(7, "range"), (1, "pipeline"), (1, "unroll")])
    if kind == "unroll":
        n = b.r.number(0, 3)
        return kind, f"{n}", f"{n}", Scalar("INDEX", 0, max(0, n - 1))
    form = b.r.number(0, 5)
    if form <= 1:
        n = index(b, 0, 3) if b.r.chance(70) else b.number(0, 3)
        return kind, n.kernel, n.twin, Scalar("INDEX", 0, 2)
    low, high = index(b, 0, 2), index(b, 0, 4)
    if form == 2:
        return kind, f"{low.kernel}, {high.kernel}", f"{low.twin}, {high.twin}", Scalar("INDEX", 0, 3)
    if form == 3:
        step = b.r.pick([2, 3, 1])
        return kind, f"{low.kernel}, {high.kernel}, {step}", f"{low.twin}, {high.twin}, {step}", Scalar("INDEX", 0, 3)
    if form == 4 and kind == "range":
        step = b.r.pick([-1, -2])
        return kind, f"{high.kernel}, {low.kernel}, {step}", f"{high.twin}, {low.twin}, {step}", Scalar("INDEX", 0, 4)
    whole = str(b.r.number(1, 3))
    step_ = index(b, 1, 3) if kind == "range" else X(whole, whole)
    return kind, f"{low.kernel}, {high.kernel}, {step_.kernel}", f"{low.twin}, {high.twin}, {step_.twin}", Scalar("INDEX", 0, 3)


def loop(b: Body) -> None:
    _loosen(b)
    kind, bounds, said, of = _bounds(b)
    if kind != "unroll" and b.r.chance(40):
        _explicit(b, kind, bounds, said, of)
        return
    name = b.fresh("i")
    stage = ", stage=2" if kind == "pipeline" else ""
    b.lines.put(f"for {name} in pl.{kind}({bounds}{stage}):", f"for {name} in range({said}):")
    b.counters.add(name)
    with b.inner(kind) as scope:
        scope.bind(name, of, fixed=True)
        if b.r.chance(70):
            rebind(b)
        block(b, 3)


def _initial(b: Body) -> list[tuple[str, X]]:
    """Carried names and what they begin with."""
    out = []
    for _ in range(b.r.number(1, 3)):
        of = _wanted(b)
        e = _handed(b, of)
        # A constant has its own dtype, and a window no storage to carry.
        if isinstance(of, Shaped) and not e.kernel.isidentifier():
            e = b.named(e)
        out.append((b.fresh("p"), X(e.kernel, e.twin, of)))
    return out


def _explicit(b: Body, kind: str, bounds: str, said: str, of: Scalar) -> None:
    """`for i, (p, q) in pl.range(..., init_values=(x, y)):`"""
    carried = _initial(b)
    names = [n for n, _ in carried]
    i = b.fresh("i")
    stage = ", stage=2" if kind == "pipeline" else ""
    begin = ", ".join(e.kernel for _, e in carried)
    b.lines.put("", f"{_tuple(names)}, = {_tuple([e.twin for _, e in carried])},")
    b.lines.put(
        f"for {i}, ({', '.join(names)},) in pl.{kind}({bounds}{stage}, init_values=({begin},)):", f"for {i} in range({said}):"
    )
    b.counters.add(i)
    with b.inner("explicit") as scope:
        scope.bind(i, of, fixed=True)
        _carry(b, scope, carried, [])


def _carry(b: Body, scope: Scope, carried: list[tuple[str, X]], first: list[tuple[str, X]]) -> None:
    """The body of a loop that names what it carries, and its end; afterwards only the results exist."""
    for name, e in carried:
        scope.bind(name, e.of, fixed=True)
    if b.r.chance(50):
        block(b, 2)
    values = [*(v for _, v in first), *(_next(b, e.of, [n for n, x in carried if x.of == e.of]) for _, e in carried)]
    results = [b.fresh("q") for _ in values]
    kernel, twin = _tuple([v.kernel for v in values]), _tuple([v.twin for v in values])
    names = [*(n for n, _ in first), *(n for n, _ in carried)]
    b.lines.put(f"{_tuple(results)} = pl.yield_({kernel})", f"{_tuple(names)}, = {twin},")
    depth, b.lines.depth = b.lines.depth, b.lines.depth - 1
    b.lines.put("", f"{_tuple(results)}, = {_tuple(names)},")
    b.lines.depth = depth
    b.results = [*zip(results, [*(v.of for _, v in first), *(e.of for _, e in carried)], strict=True)]


def _next(b: Body, of: Any, same: list[str]) -> X:
    """The next value: one of those carried, permuted or repeated, or a new one."""
    if b.r.chance(50):
        name = b.r.pick(same)
        return X(name, name, of)
    return value_of(b, of)


# -- while -------------------------------------------------------------------------------------------------------------


def while_(b: Body) -> None:
    _loosen(b)
    limit = b.named(b.number(0, 3))
    b.scope.fixed.add(limit.kernel)
    if b.r.chance(40):
        _explicit_while(b, limit)
        return
    k = b.define(Scalar("INDEX"), b.r.pick(["pl.const(0, pl.INDEX)", "0"]), "0", "k")
    b.scope.fixed.add(k)
    more = condition(b) if b.r.chance(30) else None
    test = f"{k} < {limit.kernel}"
    kernel, twin = (test, test) if more is None else (f"{test} and {more.kernel}", f"{test} and {more.twin}")
    b.lines.put(f"while {kernel}:", f"while {twin}:")
    before, first = b.may_continue, b.r.chance(50)
    b.may_continue = first
    with b.inner("while"):
        if first:
            b.lines.put(f"{k} = {k} + 1")
        if b.r.chance(70):
            rebind(b)
        block(b, 2)
        if not first:
            b.lines.put(f"{k} = {k} + 1")
    b.may_continue = before


def _explicit_while(b: Body, limit: X) -> None:
    """`for k, p in pl.while_(init_values=(0, x)):` with its condition first."""
    carried = _initial(b)
    k = b.fresh("k")
    names = [k, *(n for n, _ in carried)]
    b.lines.put("", f"{_tuple(names)}, = {_tuple(['0', *(e.twin for _, e in carried)])},")
    begin = ", ".join(["0", *(e.kernel for _, e in carried)])
    b.lines.put(f"for ({_tuple(names)}) in pl.while_(init_values=({begin})):", f"while {k} < {limit.kernel}:")
    with b.inner("explicit") as scope:
        b.lines.put(f"pl.cond({k} < {limit.kernel})", "")
        scope.bind(k, Scalar("INDEX"), fixed=True)
        _carry(b, scope, carried, [(k, X(f"{k} + 1", f"{k} + 1", Scalar("INDEX")))])


def _after(statement_: Statement) -> Statement:
    """The names that a loop leaves behind belong to the block around it."""

    def wrapped(b: Body) -> None:
        before, b.results = b.results, []
        statement_(b)
        for name, of in b.results:
            b.scope.bind(name, of)
        b.results = before

    return wrapped


COMPOUND: list[tuple[int, Statement]] = [(3, branch), (4, _after(loop)), (2, _after(while_))]

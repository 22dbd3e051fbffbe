"""Arrays of scalars on the core: made, read and written element by element, handed on by loops and branches.

In: a text under construction and, for expressions, what is wanted.  Out: an expression of exactly that type or None; statements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz_scalars import index, of_dtype
from fuzz_values import Local, X

if TYPE_CHECKING:
    from fuzz_body import Body

_DTYPES = ("INT32", "INDEX", "INT16", "BOOL", "UINT8")


def value(b: Body, of: Local, depth: int) -> X:
    """An array of exactly that type: one that there is, one with an element replaced, or a new one."""
    names = [n for n, v in b.scope.of_kind(Local) if v == of]
    if names and b.r.chance(40):
        name = b.r.pick(names)
        return X(name, name, of)
    if names and b.r.chance(80):
        name, i, e = b.r.pick(names), index(b, 0, of.extent - 1), of_dtype(b, of.dtype, depth)
        text = f"pl.array.update_element({name}, {i.kernel}, {e.kernel})"
        return X(text, f"R.put({name}, {i.twin}, {e.twin})", of)
    zero = "False" if of.dtype == "BOOL" else "0"
    return X(f"pl.array.create({of.extent}, pl.{of.dtype})", f"({zero},) * {of.extent}", of)


def make(b: Body) -> None:
    """A new name for an array."""
    known = [v for _, v in b.scope.of_kind(Local)]
    of = b.r.pick(known) if known and b.r.chance(50) else Local(b.r.pick(_DTYPES), b.r.pick([1, 2, 3, 4, 7]))
    e = value(b, of, 1)
    b.define(of, e.kernel, e.twin)


def put(b: Body) -> None:
    """An element assigned."""
    found = [(n, v) for n, v in b.scope.of_kind(Local) if n not in b.scope.fixed]
    if not found:
        return
    name, of = b.r.pick(found)
    i, e = index(b, 0, of.extent - 1), of_dtype(b, of.dtype, 1)
    b.lines.put(f"{name}[{i.kernel}] = {e.kernel}", f"{name} = R.put({name}, {i.twin}, {e.twin})")

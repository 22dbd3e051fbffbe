"""Which parameters may be exactly the same array.

In: what each kernel reads and writes, in emitted order.  Out: pairs for which every result is what it would be if the
arrays were apart.  Invariant: a pair is allowed only if each element is last read before it is first written, lane by
lane, and different iterations of every enclosing loop keep to different elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from pypto.codegen.native.access import ForItem, View
from pypto.codegen.native.emit import Touch
from pypto.codegen.native.independence import coefficient, defined
from pypto.ir import arith
from pypto.ir.expr import ConstInt, Expr, Var
from pypto.ir.shaped import const_dim

__all__ = ["exact_alias_is_safe"]

Values = dict[Var, Expr]


def exact_alias_is_safe(reader: Sequence[Touch], writer: Sequence[Touch], values: Values) -> bool:
    """Whether a tensor that is read (`reader`) may be the very array that another (`writer`) is written to.

    `values` opens scalar variables that are assigned once.
    """
    written = [t for t in writer if t.write]
    touched = [t for t in reader if not t.write]
    if not written or len(written) < len(writer) or len(touched) < len(reader):
        return False
    return all(_ordered(r, w, values) for r in touched for w in written)


def _ordered(r: Touch, w: Touch, values: Values) -> bool:
    if len(r.loops) != len(w.loops) or any(a is not b for a, b in zip(r.loops, w.loops, strict=True)):
        return False
    if not (r.lanewise and w.lanewise):
        return False
    if r.order > w.order or not _same_place(r.view, w.view):
        return False
    return _distinct(w, values)


def _same_place(a: View, b: View) -> bool:
    return a.dtype is b.dtype and arith.same(a.offset, b.offset) and arith.same(a.row, b.row) and arith.same(a.col, b.col)


def _distinct(t: Touch, values: Values) -> bool:
    """Each loop moves the window at least by its own extent, along an axis of its own that nothing else moves it along."""
    loops = [loop for loop in t.loops if isinstance(loop, ForItem)]
    if len(loops) < len(t.loops):
        return False
    changing = {v for loop in loops for v in (loop.var, *loop.carried, *defined(loop.body))}
    axes = [_axis_of(loop, t.view, values, frozenset(changing - {loop.var})) for loop in loops]
    return None not in axes and len(set(axes)) == len(axes)


def _axis_of(loop: ForItem, v: View, values: Values, others: frozenset[Var]) -> int | None:
    """The axis along which each trip of the loop moves the window by enough, and by the same wherever `others` are."""
    if not isinstance(loop.step, ConstInt):
        return None
    for axis, (offset, extent) in enumerate(v.window):
        size = const_dim(extent)
        moved = coefficient(offset, loop.var, values, others)
        if size is not None and moved is not None and abs(moved * loop.step.value) >= size > 0:
            return axis
    return None

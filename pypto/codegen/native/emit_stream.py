"""A phase whose results leave for tensors, written so that whole lines can bypass the caches.

In: a phase without reductions.  Out: lines of C, or nothing if its stores are to be ordinary ones.  The phase's body is
written for single elements, and again for the elements of a line, whose results go to arrays that compilers keep in
registers.  Invariant: every element is stored once, in either form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.codegen.native.access import LaneOp, View
from pypto.codegen.native.groups import ELEMENT, Placed, Step
from pypto.codegen.native.lanes_c import LANE_C
from pypto.codegen.native.streaming import LINE
from pypto.ir import arith
from pypto.ir.lanes import lane_type
from pypto.ir.opdef import FULL
from pypto.ir.shaped import const_dim
from pypto.named import NamedTuple

if TYPE_CHECKING:
    from pypto.codegen.native.emit_group import GroupEmitter

__all__ = ["phase"]

MOST_WORK = 64  # instructions for an element: with more, arithmetic takes longer than memory, and the C compiler too
LONG_ROW = 1024  # bytes from which on a row's ends, which are parts of lines, do not matter


class Out(NamedTuple):
    """A stored operation of the phase, and the flag of its stores."""

    placed: Placed
    view: View
    flag: str


def phase(e: GroupEmitter, step: Step, var: str, count: str, row: str) -> bool:
    """Write the phase; False, and nothing written, where stores past the caches make no sense."""
    leaving = _leaving(e, step)
    if not leaving:
        return False
    size = min(e.run.ops[p.at].dst.dtype.get_byte() for p in leaving)
    whole = _columns(e, step)
    short = whole is not None and whole * size < LONG_ROW
    outs = [] if short and whole is not None and whole * size % LINE else _outs(e, leaving)
    if not outs:
        return False
    narrowest = min(outs, key=lambda o: o.view.dtype.get_byte())
    flags = " & ".join(dict.fromkeys(o.flag for o in outs))
    if short:
        lines = " && ".join([f"({flags})", *(f"pp_is_line({_address(e, o, row, '0')})" for o in outs)])
        with e.w.block(f"if ({lines})", tail="} else {"):
            _lines(e, step, outs, f"int64_t {var} = 0", var, count, LINE // size, row)
        e.w.depth += 1
        e.columns(step, f"int64_t {var} = 0; {var} < {count}", var, row)
        e.w.depth -= 1
        e.w.line("}")
        return True
    with e.w.block(""):
        e.w.line(f"int64_t {var} = 0, before = pp_before_lines({flags}, {_address(e, narrowest, row, '0')}, {count}, {size});")
        for o in outs:
            if o is not narrowest:
                e.w.line(f"before = before >= 0 && pp_is_line({_address(e, o, row, 'before')}) ? before : -1;")
        with e.w.block("if (before >= 0)"):
            with e.w.block("if (before > 0)"):
                _line(e, step, outs, "0", LINE // size, row, "pp_store_bytes({to}, {line}, before * {size})")
            _lines(e, step, outs, f"{var} = before", var, count, LINE // size, row)
        e.columns(step, f"; {var} < {count}", var, row)
    return True


def _leaving(e: GroupEmitter, step: Step) -> list[Placed]:
    """What leaves for tensors by rows; nothing if the phase is not one of plain elements, or much work for each."""
    leaving, work = [], 0
    for p in step.ops:
        op = e.run.ops[p.at]
        if not isinstance(op, LaneOp) or p.kind != ELEMENT:
            return []
        work += sum(i.op != "const" for i in op.program.instrs)
        if p.at in e.group.stored and not op.dst.root.on_chip:
            if not arith.is_const(op.dst.row if p.turned else op.dst.col, 1):
                return []
            leaving.append(p)
    return leaving if work <= MOST_WORK and e.independent(step) else []


def _outs(e: GroupEmitter, leaving: list[Placed]) -> list[Out]:
    """What leaves, with flags; nothing if one of them had better stay in the caches."""
    outs = []
    for p in leaving:
        op = e.run.ops[p.at]
        assert isinstance(op, LaneOp)
        flag = e.past(op.dst, op.rows, op.cols)
        if flag is None:
            return []
        outs.append(Out(p, op.dst, flag))
    return outs


def _columns(e: GroupEmitter, step: Step) -> int | None:
    """Elements of a row, if that is known; of a tile without gaps, its rows are one."""
    assert step.cols is not None
    cols = arith.mul(e.group.rows, step.cols) if e.is_flat() else step.cols
    return const_dim(cols)


def _address(e: GroupEmitter, o: Out, row: str, col: str) -> str:
    return f"&{e.at(o.view, o.placed.turned, row, col, FULL)}"


def _lines(e: GroupEmitter, step: Step, outs: list[Out], begin: str, var: str, count: str, each: int, row: str) -> None:
    """The loop over whole lines of `each` elements."""
    with e.w.block(f"for ({begin}; {var} + {each} <= {count}; {var} += {each})"):
        _line(e, step, outs, var, each, row, f"pp_store_lines({{to}}, {{line}}, {each} * {{size}})")


def _line(e: GroupEmitter, step: Step, outs: list[Out], at: str, each: int, row: str, store: str) -> None:
    """The elements of a line, from column `at` on, and the call that stores them."""
    for n, o in enumerate(outs):
        e.w.line(f"{LANE_C[lane_type(o.view.dtype)]} line{n}[{each}] __attribute__((aligned({LINE})));")
        e.lines[o.placed.at] = f"line{n}[l]"
    e.columns(step, f"int64_t l = 0; l < {each}", "l", row, f"x = {at} + l")
    for n, o in enumerate(outs):
        call = store.format(to=_address(e, o, row, at), line=f"line{n}", size=o.view.dtype.get_byte())
        e.w.line(f"{call};")
        del e.lines[o.placed.at]

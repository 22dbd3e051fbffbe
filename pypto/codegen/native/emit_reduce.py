"""Reductions inside a group, in the one order they have.

Along a row: 64 lanes by column, each sequential, then halves folded onto each other.  Along a column: one accumulator
per column, rows in order.  The arg forms carry the index of the element kept; -1 stands for none yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pypto.codegen.native.access import ReduceOp
from pypto.codegen.native.groups import Step
from pypto.codegen.native.lanes_c import LANE_C, lane_const
from pypto.codegen.native.writer import Writer
from pypto.ir.lanes import Instr, LaneProgram
from pypto.ir.opdef import FULL

if TYPE_CHECKING:
    from pypto.codegen.native.emit_group import GroupEmitter

__all__ = ["column_begin", "column_end", "column_step", "of_numbers", "rows_in_lanes"]

LANES = 64
VECTOR = 16


def _op(e: GroupEmitter, k: int) -> ReduceOp:
    op = e.run.ops[k]
    assert isinstance(op, ReduceOp)
    return op


def _accumulator(op: ReduceOp) -> str:
    return LANE_C[op.spec.accumulator(op.src.dtype)]


def _identity(op: ReduceOp) -> str:
    return lane_const(op.spec.identity(op.src.dtype), op.spec.accumulator(op.src.dtype))


def _source(e: GroupEmitter, k: int, row: str, col: str) -> str:
    """The element reduced, in the accumulator's type."""
    op = _op(e, k)
    p = e.group.where[k][1]
    writer = e.group.register_of(e.run, p, 0)
    text = e.values[writer] if writer is not None else e.at(op.src, p.turned, row, col, FULL)
    return e.functions.apply(op.spec.enter(op.src.dtype), [text], "enter")


def _combine(e: GroupEmitter, op: ReduceOp, a: str, b: str) -> str:
    return e.functions.apply(op.spec.combine(op.src.dtype), [a, b], op.name.partition("_")[2])


def _better(op: ReduceOp, a: str, ia: str, b: str, ib: str) -> str:
    """Whether (b, ib) replaces (a, ia): larger (or smaller), the first NaN, the lower index among equals."""
    sign = ">" if op.spec.arg == "max" else "<"
    if op.src.dtype.is_float():
        wins = f"(({b} {sign} {a}) | (({b} != {b}) & ({a} == {a})))"
        ties = f"(({b} == {a}) | (({b} != {b}) & ({a} != {a})))"
    else:
        wins, ties = f"({b} {sign} {a})", f"({b} == {a})"
    return f"({ib} >= 0) & (({ia} < 0) | {wins} | ({ties} & ({ib} < {ia})))"


# -- along a row ---------------------------------------------------------------------------------------------------


def rows_in_lanes(
    e: GroupEmitter, step: Step, reductions: Sequence[int], count: str, cols: int | None, independent: bool
) -> None:
    """The phase's loop in strips of 64 columns, and the folding of its accumulators.

    A whole strip is written as a few vectors, one after the other, so that compilers keep the accumulators in registers.
    """
    w = e.w
    for k in reductions:
        op = _op(e, k)
        w.line(f"{_accumulator(op)} s{k}[{LANES}];")
        if op.spec.arg:
            w.line(f"int32_t i{k}[{LANES}];")
        with w.block(f"for (int l = 0; l < {LANES}; ++l)"):
            w.line(f"s{k}[l] = {_identity(op)};")
            if op.spec.arg:
                w.line(f"i{k}[l] = -1;")
    with w.block(""):
        w.line("int64_t strip = 0;")
        if cols is None or cols >= LANES:
            with w.block(f"for (; strip + {LANES} <= {count}; strip += {LANES})"):
                w.line("PP_UNROLL_STRIP")
                with w.block(f"for (int v = 0; v < {LANES}; v += {VECTOR})"):
                    _lanes(e, step, reductions, f"int l = v; l < v + {VECTOR}", independent)
        if cols is None or cols % LANES:
            _lanes(e, step, reductions, f"int64_t l = 0; l < {count} - strip", independent)
    for k in reductions:
        _fold(e, k)


def _lanes(e: GroupEmitter, step: Step, reductions: Sequence[int], range_: str, independent: bool) -> None:
    if independent:
        e.w.line("PP_LANES")
    with e.w.block(f"for ({range_}; ++l)"):
        e.w.line("const int64_t c = strip + l;")
        for p in step.ops:
            if p.at in reductions:
                e.w.all(_accumulate(e, p.at))
            else:
                e.w.all(e.lane(p, "r", "c"))


def _accumulate(e: GroupEmitter, k: int) -> list[str]:
    op = _op(e, k)
    x = _source(e, k, "r", "c")
    if op.spec.arg:
        return [
            f"const bool b{k} = {_better(op, f's{k}[l]', f'i{k}[l]', x, '(int32_t)c')};",
            f"s{k}[l] = b{k} ? {x} : s{k}[l];",
            f"i{k}[l] = b{k} ? (int32_t)c : i{k}[l];",
        ]
    return [f"s{k}[l] = {_combine(e, op, f's{k}[l]', x)};"]


def _fold(e: GroupEmitter, k: int) -> None:
    """Lane i takes lane i + 32, then i + 16, and so on; the row's value is lane 0."""
    op = _op(e, k)
    t = _accumulator(op)
    combine = op.spec.combine(op.src.dtype)
    key = ("fold", combine, op.spec.arg, op.src.dtype.is_float())
    result, indices = ("int32_t", ", int32_t *i") if op.spec.arg else (t, "")
    quick = combine if op.spec.arg or not op.src.dtype.is_float() else of_numbers(combine)

    def write(w: Writer, name: str) -> None:
        with w.block(f"PP_INLINE {result} {name}({t} *s{indices})"):
            if quick is combine:
                _tree(w, lambda other: _fold_step(e, op, w, other))
            else:
                _if_nan(w, t, careful)
                _tree(w, lambda other: w.line(f"s[l] = {e.functions.apply(quick, ['s[l]', f's[{other}]'], 'number')};"))
            w.line("return i[0];" if op.spec.arg else "return s[0];")

    if quick is not combine:
        careful = e.functions.helper((*key, "nan"), f"fold_{op.name}_of_nan", lambda w, name: _careful(e, op, w, name))
        e.functions.apply(quick, ["", ""], "number")  # so that it is defined before what calls it
    name = e.functions.helper(key, f"fold_{op.name}_{op.spec.accumulator(op.src.dtype)}", write)
    _finish(e, k, f"{name}(s{k}, i{k})" if op.spec.arg else f"{name}(s{k})", "r", "")


def _careful(e: GroupEmitter, op: ReduceOp, w: Writer, name: str) -> None:
    """The fold where lanes may be NaN, which is rare: short, and slow."""
    t = _accumulator(op)
    with w.block(f"static {t} __attribute__((noinline, cold)) {name}({t} *s)"):
        with w.block(f"for (int half = {LANES // 2}; half; half /= 2)"), w.block("for (int l = 0; l < half; ++l)"):
            _fold_step(e, op, w, "l + half")
        w.line("return s[0];")


def _if_nan(w: Writer, t: str, careful: str) -> None:
    """Asks first whether any lane is NaN: then their sum is.  So it is of infinities of both signs, which does no harm."""
    w.line(f"{t} q[{LANES // 2}];")
    w.line("PP_LANES")
    with w.block(f"for (int l = 0; l < {LANES // 2}; ++l)"):
        w.line(f"q[l] = s[l] + s[l + {LANES // 2}];")
    _tree(w, lambda other: w.line(f"q[l] += q[{other}];"), LANES // 2)
    with w.block("if (__builtin_expect(q[0] != q[0], 0))"):
        # Of lanes whose address goes elsewhere, compilers keep none in registers.
        w.line(f"{t} n[{LANES}];")
        w.line("__builtin_memcpy(n, s, sizeof n);")
        w.line(f"return {careful}(n);")


def _tree(w: Writer, step: Callable[[str], None], lanes: int = LANES) -> None:
    half = lanes // 2
    while half:
        w.line("PP_LANES")
        with w.block(f"for (int l = 0; l < {half}; ++l)"):
            step(f"l + {half}")
        half //= 2


def of_numbers(program: LaneProgram) -> LaneProgram:
    """The program for operands none of which is NaN: nothing differs from itself.  The same one if that changes nothing."""
    out: list[Instr] = []
    numbers = list(range(len(program.inputs)))  # by the program's number of a value; -1 is false
    for i in program.instrs:
        args = tuple(numbers[a] for a in i.args)
        if i.op == "ne" and args[0] == args[1] and program.type_of(i.args[0])[0] == "f":
            numbers.append(-1)
        elif i.op == "select" and args[0] == -1:
            numbers.append(args[2])
        elif -1 in args:
            return program
        else:
            numbers.append(len(program.inputs) + len(out))
            out.append(i._replace(args=args))
    same = len(out) == len(program.instrs) or numbers[program.result] == -1
    return program if same else LaneProgram(program.inputs, tuple(out), numbers[program.result])


def _fold_step(e: GroupEmitter, op: ReduceOp, w: Writer, other: str) -> None:
    if op.spec.arg:
        w.line(f"const bool b = {_better(op, 's[l]', 'i[l]', f's[{other}]', f'i[{other}]')};")
        w.line(f"s[l] = b ? s[{other}] : s[l];")
        w.line(f"i[l] = b ? i[{other}] : i[l];")
    else:
        w.line(f"s[l] = {_combine(e, op, 's[l]', f's[{other}]')};")


def _finish(e: GroupEmitter, k: int, text: str, row: str, col: str) -> None:
    op, w = _op(e, k), e.w
    if op.spec.arg:
        w.line(f"const int32_t v{k} = {text};")
    else:
        leave = op.spec.leave(op.src.dtype)
        w.line(f"const {LANE_C[leave.result_type]} v{k} = {e.functions.apply(leave, [text], 'leave')};")
    e.values[k] = f"v{k}"
    if k in e.group.stored:
        w.line(f"{e.at(op.dst, False, row, col, FULL)} = v{k};")


# -- along a column ------------------------------------------------------------------------------------------------


def column_begin(e: GroupEmitter, k: int) -> None:
    """Accumulators in scratch memory, one per column."""
    op, w = _op(e, k), e.w
    width = (op.dst.high - op.dst.low) // op.dst.dtype.get_byte()
    t = _accumulator(op)
    w.line(f"{t} *const s{k} = ({t} *)({e.scratch(width * 8)});")
    if op.spec.arg:
        w.line(f"int32_t *const i{k} = (int32_t *)({e.scratch(width * 4)});")
    with w.block(f"for (int64_t c = 0; c < {e.expr(op.cols)}; ++c)"):
        w.line(f"s{k}[c] = {_identity(op)};")
        if op.spec.arg:
            w.line(f"i{k}[c] = -1;")


def column_step(e: GroupEmitter, k: int, row: str, col: str) -> list[str]:
    op = _op(e, k)
    x = _source(e, k, row, col)
    if op.spec.arg:
        return [
            f"const bool b{k} = {_better(op, f's{k}[{col}]', f'i{k}[{col}]', x, f'(int32_t){row}')};",
            f"s{k}[{col}] = b{k} ? {x} : s{k}[{col}];",
            f"i{k}[{col}] = b{k} ? (int32_t){row} : i{k}[{col}];",
        ]
    return [f"s{k}[{col}] = {_combine(e, op, f's{k}[{col}]', x)};"]


def column_end(e: GroupEmitter, k: int) -> None:
    op, w = _op(e, k), e.w
    w.line("PP_LANES")
    with w.block(f"for (int64_t c = 0; c < {e.expr(op.cols)}; ++c)"):
        _finish(e, k, f"i{k}[c]" if op.spec.arg else f"s{k}[c]", "", "c")

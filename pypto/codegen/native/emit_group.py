"""One group as a loop nest: rows outside, phases of columns inside, values in registers.

In: a group, its operations, and the C names of scalars and memories.  Out: lines of C.  Each lane is written once;
loops whose accesses are all lane by lane are marked so, which lets the compiler vectorize them without run-time checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pypto.codegen.native import emit_reduce, emit_stream
from pypto.codegen.native.access import LaneOp, Operand, ReduceOp, View, disjoint, same_mapping
from pypto.codegen.native.flow import Run
from pypto.codegen.native.functions import LaneFunctions
from pypto.codegen.native.groups import ELEMENT, REDUCE_COL, REDUCE_ROW, Group, Placed, Step
from pypto.codegen.native.lanes_c import LANE_C
from pypto.codegen.native.scalars import expr_text
from pypto.codegen.native.uses import reads
from pypto.codegen.native.writer import Writer
from pypto.dtypes import DataType
from pypto.ir import arith
from pypto.ir.expr import Expr, Var
from pypto.ir.lanes import lane_type
from pypto.ir.opdef import COL, FULL, MASK, ROW, SCALAR
from pypto.ir.shaped import const_dim

__all__ = ["GroupEmitter", "element_type"]


def element_type(dtype: DataType) -> str:
    """The C type of an element in memory."""
    return LANE_C[lane_type(dtype)]


class GroupEmitter:
    """Writes one group."""

    def __init__(
        self,
        w: Writer,
        run: Run,
        group: Group,
        names: Mapping[Var, str],
        base: Callable[[View], str],
        scratch: Callable[[int], str],
        functions: LaneFunctions,
        past: Callable[[View, Expr, Expr], str | None],
    ) -> None:
        self.w, self.run, self.group, self.names = w, run, group, names
        self.base, self.scratch, self.functions, self.past = base, scratch, functions, past
        self.lines: dict[int, str] = {}  # stored operation -> the element of a line that takes its value here
        self.pointers: list[tuple[View, bool, str]] = []
        self.values: dict[int, str] = {}  # operation -> the register that holds its value here
        self.by_row = [run.ops[k].dst for k in sorted(group.by_row)]

    def expr(self, e: Expr) -> str:
        return expr_text(e, self.names)

    # -- the nest --

    def emit(self) -> None:
        steps = self.group.steps
        with self.w.block(""):
            self.declare_pointers()
            if self.is_flat():
                assert steps[0].cols is not None
                total = arith.mul(self.group.rows, steps[0].cols)
                self.phase(0, steps[0], "i", self.expr(total), "")
            elif len(steps) == 1 and steps[0].cols is None:
                self.lanes_over_rows(steps[0])
            else:
                self.rows()

    def rows(self) -> None:
        columns = [p.at for s in self.group.steps for p in s.ops if p.kind == REDUCE_COL]
        for k in columns:
            emit_reduce.column_begin(self, k)
        if arith.is_const(self.group.rows, 1):
            with self.w.block(""):
                self.w.line("const int64_t r = 0;")
                self.row_body()
        else:
            with self.w.block(f"for (int64_t r = 0; r < {self.expr(self.group.rows)}; ++r)"):
                self.row_body()
        for k in columns:
            emit_reduce.column_end(self, k)

    def row_body(self) -> None:
        for n, step in enumerate(self.group.steps):
            if step.cols is None:
                for p in step.ops:
                    self.w.all(self.lane(p, "r"))
            else:
                self.phase(n, step, "c", self.expr(step.cols), "r")

    def lanes_over_rows(self, step: Step) -> None:
        if self.independent(step):
            self.w.line("PP_LANES")
        with self.w.block(f"for (int64_t r = 0; r < {self.expr(self.group.rows)}; ++r)"):
            for p in step.ops:
                self.w.all(self.lane(p, "r"))

    def phase(self, n: int, step: Step, var: str, count: str, row: str) -> None:
        reductions = [p.at for p in step.ops if p.kind == REDUCE_ROW]
        if not reductions:
            if not emit_stream.phase(self, step, var, count, row):
                self.columns(step, f"int64_t {var} = 0; {var} < {count}", var, row)
            return
        cols = const_dim(step.cols) if step.cols is not None else None
        emit_reduce.rows_in_lanes(self, step, reductions, count, cols, self.independent(step))

    def columns(self, step: Step, range_: str, var: str, row: str, at: str = "") -> None:
        """A loop over columns: `range_` declares and bounds `var`; `at` is the column, where that is another number."""
        if self.independent(step):
            self.w.line("PP_LANES")
        with self.w.block(f"for ({range_}; ++{var})"):
            if at:
                self.w.line(f"const int64_t {at};")
            for p in step.ops:
                self.w.all(self.lane(p, row, at.partition(" = ")[0] or var))

    # -- lanes --

    def lane(self, p: Placed, row: str, col: str = "") -> list[str]:
        """The statements of one operation at one element (or one row, without a column)."""
        op = self.run.ops[p.at]
        if isinstance(op, ReduceOp):
            if p.kind == REDUCE_COL:
                return emit_reduce.column_step(self, p.at, row, col)
            return []  # a row reduction accumulates in its phase's own loop
        assert isinstance(op, LaneOp)
        inputs = [self.operand(p, o, i, row, col) for i, o in enumerate(op.operands)]
        name = f"v{p.at}"
        result = self.functions.apply(op.program, inputs, op.name.split(" ")[0])
        lines = [f"const {LANE_C[op.program.result_type]} {name} = {result};"]
        self.values[p.at] = name
        if p.at in self.group.stored:
            lines.append(f"{self.lines.get(p.at) or self.at(op.dst, p.turned, row, col, FULL)} = {name};")
        return lines

    def operand(self, p: Placed, o: Operand, position: int, row: str, col: str) -> str:
        if o.pattern == SCALAR:
            assert o.scalar is not None
            return self.scalar(o)
        assert o.view is not None
        writer = self.group.register_of(self.run, p, position)
        if writer is not None:
            return self.values[writer]
        if o.pattern == MASK:
            byte, bit = (f"({col} >> 3)", f"({col} & 7)") if col else ("0", "0")
            return f"(({self.at(o.view, False, row, byte, FULL)} >> {bit}) & 1)"
        return self.at(o.view, p.turned, row, col, o.pattern)

    def scalar(self, o: Operand) -> str:
        """A scalar operand in its lane type: halves as bits."""
        assert o.scalar is not None
        text = self.expr(o.scalar)
        t = lane_type(o.dtype)
        return f"pp_f32_to_{t}({text})" if t in ("f16", "bf16") else f"(({LANE_C[t]}){text})"

    # -- memory --

    def at(self, v: View, turned: bool, row: str, col: str, pattern: str) -> str:
        """The element of a view for this row and column."""
        if any(same_mapping(v, kept) for kept in self.by_row):
            row = ""
        name = self.pointer(v, turned)
        if pattern == ROW:
            col = ""
        elif pattern == COL:
            row = ""
        rs, cs = (v.col, v.row) if turned else (v.row, v.col)
        terms = [self.term(row, rs), self.term(col, cs)]
        return f"{name}[{' + '.join(t for t in terms if t) or '0'}]"

    def term(self, index: str, stride: Expr) -> str:
        if not index or index == "0" or arith.is_const(stride, 0):
            return ""
        if arith.is_const(stride, 1):
            return index
        return f"{index} * {self.expr(stride)}"

    def pointer(self, v: View, turned: bool) -> str:
        for known, t, name in self.pointers:
            if t == turned and known.dtype is v.dtype and same_mapping(known, v):
                return name
        name = f"p{len(self.pointers)}"
        self.pointers.append((v, turned, name))
        return name

    def declare_pointers(self) -> None:
        """Every view that is read from or written to memory gets a pointer to its first element."""
        for s in self.group.steps:
            for p in s.ops:
                op = self.run.ops[p.at]
                for r in reads(op):
                    if self.group.register_of(self.run, p, r.operand) is None:
                        self.pointer(r.view, p.turned and r.pattern != MASK)
                if p.at in self.group.stored and isinstance(op, (LaneOp, ReduceOp)):
                    self.pointer(op.dst, p.turned)
        for v, _, name in self.pointers:
            t = element_type(v.dtype)
            offset = "" if arith.is_const(v.offset, 0) else f" + {self.expr(v.offset)}"
            self.w.line(f"{t} *const {name} = {self.base(v)}{offset};")

    # -- facts --

    def accesses(self, step: Step) -> list[tuple[View, bool]]:
        """Views a step really touches, and whether it writes them."""
        out: list[tuple[View, bool]] = []
        for p in step.ops:
            op = self.run.ops[p.at]
            out += [(r.view, False) for r in reads(op) if self.group.register_of(self.run, p, r.operand) is None]
            if p.at in self.group.stored and p.kind not in (REDUCE_ROW,):
                out.append((op.dst, True))
        return out

    def independent(self, step: Step) -> bool:
        """Whether different iterations of the step's loop never touch the same byte."""
        touched = self.accesses(step)
        return all(
            disjoint(a, b) or same_mapping(a, b) for i, (a, wa) in enumerate(touched) for b, wb in touched[i + 1 :] if wa or wb
        )

    def is_flat(self) -> bool:
        """One phase of plain elements whose rows follow one another without gaps, everywhere."""
        steps = self.group.steps
        if len(steps) != 1 or steps[0].cols is None or arith.is_const(self.group.rows, 1):
            return False
        cols = steps[0].cols
        for p in steps[0].ops:
            op = self.run.ops[p.at]
            if p.kind != ELEMENT or not isinstance(op, LaneOp) or any(o.pattern not in (FULL, SCALAR) for o in op.operands):
                return False
            views = [r.view for r in reads(op) if self.group.register_of(self.run, p, r.operand) is None]
            if p.at in self.group.stored:
                views.append(op.dst)
            if any(not (arith.is_const(v.col, 1) and arith.same(v.row, cols)) for v in views):
                return False
        return True


def emit_mask(e: GroupEmitter, k: int) -> None:
    """A comparison whose packed mask is read from memory: bits of a byte at a time, the rest of the last byte 0."""
    op = e.run.ops[k]
    assert isinstance(op, LaneOp)
    p = e.group.where[k][1]
    with e.w.block(""):
        e.declare_pointers()
        rows, cols = e.expr(op.rows), e.expr(op.cols)
        with e.w.block(f"for (int64_t r = 0; r < {rows}; ++r)"), e.w.block(f"for (int64_t b = 0; b * 8 < {cols}; ++b)"):
            e.w.line("unsigned byte = 0;")
            with e.w.block(f"for (int64_t c = b * 8; c < {cols} && c < b * 8 + 8; ++c)"):
                inputs = [e.operand(p, o, i, "r", "c") for i, o in enumerate(op.operands)]
                result = e.functions.apply(op.program, inputs, op.name)
                e.w.line(f"byte |= (unsigned)({result}) << (c & 7);")
            e.w.line(f"{e.at(op.dst, False, 'r', 'b', FULL)} = (uint8_t)byte;")

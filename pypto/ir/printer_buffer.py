"""Buffer-stage functions as text, for reading only.

In: functions over storage handles.  Out: `buffer.add(a, b, dst)` without module prefixes, and
`h = buffer.alloc((), 0) : Buffer[[16, 32], FP32, Vec]` where a handle comes into being.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pypto.enums import CompactMode, PadValue, TileLayout
from pypto.ir.expr import Call, Expr, Op, Submit, Var
from pypto.ir.layout import BoxLayout
from pypto.ir.printer_expressions import Expressions
from pypto.ir.printer_statements import Statements, tuple_text
from pypto.ir.shaped import BufferType
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, WhileStmt, YieldStmt

__all__ = ["BufferExpressions", "BufferStatements"]

_FLAT = BoxLayout(TileLayout.row_major, TileLayout.none_box, 512)
_SHORT = {TileLayout.row_major: "row", TileLayout.col_major: "col", TileLayout.none_box: "none"}


class BufferExpressions(Expressions):
    """Tuples in parentheses, buffer operators under their registered names, descriptors abbreviated."""

    def sequence(self, elements: Iterable[Expr]) -> str:
        return tuple_text([self.expr(x) for x in elements])

    def callee(self, op: Op) -> str:
        return op.name if op.name.startswith("buffer.") else super().callee(op)

    def buffer_type(self, t: BufferType) -> str:
        shape = str(list(t.physical_shape))
        if t.valid_shape != t.physical_shape:
            shape += f" valid {list(t.valid_shape)}"
        parts = [shape, t.dtype.name, t.memory_space.name]
        if t.layout != _FLAT:
            parts.append(f"{_SHORT[t.blayout]}/{_SHORT[t.slayout]}/{t.fractal}")
        if t.pad is not PadValue.null:
            parts.append(f"pad={t.pad.name}")
        if t.compact is not CompactMode.null:
            parts.append(f"compact={t.compact.name}")
        return f"Buffer[{', '.join(parts)}]"


class BufferStatements(Statements):
    """Carried values stand in front of what yields them: `(r, s) = for i in range(n), (a=0, b=1):` ... `yield (a + 1, b)`."""

    def assign(self, s: AssignStmt) -> None:
        made = isinstance(s.value, (Call, Submit)) and isinstance(s.var.type, BufferType)
        note = f"  : {self.text.type(s.var.type)}" if made else ""
        self.line(f"{self.names.define(s.var)} = {self.text.expr(s.value)}{note}")

    def yield_(self, s: YieldStmt, results: Sequence[Var]) -> None:
        self.line(f"yield ({', '.join(self.text.expr(v) for v in s.value)})")

    def results(self, vars: Sequence[Var]) -> str:
        return f"{tuple_text([self.names.define(v) for v in vars])} = " if vars else ""

    def if_(self, s: IfStmt, word: str = "if") -> None:
        self.line(f"{self.results(s.return_vars)}{word} {self.text.expr(s.condition)}:")
        self.body(s.then_body)
        if s.else_body is not None:
            self.line("else:")
            self.body(s.else_body)

    def for_(self, s: ForStmt) -> None:
        bounds = ", ".join(self.text.expr(b) for b in (s.start, s.stop, s.step))
        carried = ", ".join(f"{self.names.define(a)}={self.text.expr(a.initValue)}" for a in s.iter_args)
        head = f"for {self.names.define(s.loop_var)} in range({bounds})"
        self.line(f"{self.results(s.return_vars)}{head}{f', ({carried})' if carried else ''}:")
        self.body(s.body)

    def while_(self, s: WhileStmt) -> None:
        carried = ", ".join(f"{self.names.define(a)}={self.text.expr(a.initValue)}" for a in s.iter_args)
        head = f"while {self.text.expr(s.condition)}"
        self.line(f"{self.results(s.return_vars)}{head}{f', ({carried})' if carried else ''}:")
        self.body(s.body)

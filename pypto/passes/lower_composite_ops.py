"""LowerCompositeOps: operators without an instruction of their own become sequences of those that have one.

In: kernels over tiles.  Out: the same without `tile.sin` and `tile.cos`; the last operator of each sequence is bound to the
variable that the composite was bound to.
Invariant: the sequence is the operator's lane program, instruction by instruction, so that no bit changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypto.dtypes import DataType
from pypto.ir.expr import Call, ConstFloat, Expr
from pypto.ir.ops.casts import MODES
from pypto.ir.ops.trigonometry import COMPOSITES
from pypto.ir.program import Function
from pypto.ir.stmt import AssignStmt
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.ssa_rewriter import SSARewriter
from pypto.passes.statements import applies

__all__ = ["lower_composite_ops"]


class _Lowering(SSARewriter):
    """Implements `trigonometry.Steps` over tiles."""

    def visit_call(self, c: Call) -> Expr:
        c = super().visit_call(c)  # type: ignore[assignment]
        composite = COMPOSITES.get(c.op.name)
        if composite is None:
            return c
        composite(self, c.args[0])
        last = self.out.pop()
        assert isinstance(last, AssignStmt)
        return last.value

    def _step(self, name: str, args: tuple[Expr, ...], kwargs: Mapping[str, Any] | None = None) -> Expr:
        return self.emit(f"tile.{name}", args, kwargs, "part")

    def times(self, x: Expr, c: float) -> Expr:
        return self._step("muls", (x, ConstFloat(c, DataType.FP32)))

    def plus(self, x: Expr, c: float) -> Expr:
        return self._step("adds", (x, ConstFloat(c, DataType.FP32)))

    def add(self, x: Expr, y: Expr) -> Expr:
        return self._step("add", (x, y))

    def sub(self, x: Expr, y: Expr) -> Expr:
        return self._step("sub", (x, y))

    def mul(self, x: Expr, y: Expr) -> Expr:
        return self._step("mul", (x, y))

    def at_least(self, x: Expr, c: float) -> Expr:
        return self._step("maximums", (x, ConstFloat(c, DataType.FP32)))

    def at_most(self, x: Expr, c: float) -> Expr:
        return self._step("minimums", (x, ConstFloat(c, DataType.FP32)))

    def to_int(self, x: Expr, mode: str) -> Expr:
        return self._step("cast", (x,), {"target_type": DataType.INT32, "mode": MODES.index(mode)})

    def to_float(self, n: Expr) -> Expr:
        return self._step("cast", (n,), {"target_type": DataType.FP32, "mode": MODES.index("none")})


@function_pass("LowerCompositeOps")
def lower_composite_ops(f: Function, options: PassOptions) -> Function:
    return _Lowering().function(f) if f.is_device and applies(f, *COMPOSITES) else f

"""Values that meet in control flow must be valid in the same rectangle.

In: a kernel over tiles.  Out: nothing, or a CompileError at the branch or loop.  Tensors of one shape may become tiles that
are valid in different parts: taking one for the other would read what memory happened to hold, or leave out what is there.
"""

from __future__ import annotations

from pypto.errors import CompileError
from pypto.ir.expr import Expr, Var
from pypto.ir.ops.rules import shape_text
from pypto.ir.program import Function
from pypto.ir.shaped import TileType, same_dims
from pypto.ir.stmt import ForStmt, IfStmt, Stmt, WhileStmt, last_yield
from pypto.ir.verify.ssa import user_name
from pypto.passes.statements import statements

__all__ = ["check_joins"]


def check_joins(f: Function) -> None:
    """CompileError where a tile meets another that is valid elsewhere."""
    for s in statements(f.body):
        if isinstance(s, IfStmt):
            then, other = last_yield(s.then_body), last_yield(s.else_body) if s.else_body is not None else None
            if then is not None and other is not None:
                for r, a, b in zip(s.return_vars, then.value, other.value, strict=True):
                    _compare(s, r, a, b, "the two branches make")
        elif isinstance(s, (ForStmt, WhileStmt)):
            y = last_yield(s.body)
            for a, v in zip(s.iter_args, y.value if y is not None else (), strict=False):
                _compare(s, a, a.initValue, v, "before the loop and at the end of a trip there is")


def _compare(s: Stmt, v: Var, a: Expr, b: Expr, what: str) -> None:
    if not isinstance(a.type, TileType) or not isinstance(b.type, TileType) or same_dims(a.type.valid, b.type.valid):
        return
    name = user_name(v)
    raise CompileError(
        f"{what} a '{name}' that is valid in {shape_text(a.type.valid)} and in {shape_text(b.type.valid)}",
        b.span if b.span.is_valid() else s.span,
        f"make it one rectangle: {name} = pl.fillpad({name}) fills the rest, pl.set_validshape({name}, rows, cols) narrows",
        code="C056",
    )

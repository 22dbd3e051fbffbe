"""Values that meet in control flow must be valid in the same rectangle.

In: a kernel over tiles.  Out: nothing, or a CompileError at the branch or loop.  Tensors of one shape may become tiles that
are valid in different parts: taking one for the other would read what memory happened to hold, or leave out what is there.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.enums import MemorySpace
from pypto.errors import CompileError
from pypto.ir.expr import Expr, Var
from pypto.ir.ops.rules import shape_text
from pypto.ir.program import Function
from pypto.ir.shaped import TileType, same_dims
from pypto.ir.stmt import ForStmt, IfStmt, Stmt, WhileStmt, last_yield
from pypto.ir.types import Type
from pypto.ir.verify.accumulators import accumulator_findings
from pypto.ir.verify.ssa import user_name
from pypto.passes.statements import statements

__all__ = ["check_joins", "refuse_loose_accumulators", "unequal_joins"]

_Join = tuple[Stmt, Var, Expr, Expr, str]


def unequal_joins(f: Function) -> Iterator[_Join]:
    """Where a tile meets another that is valid elsewhere: the statement, the name, the two, and what they are."""
    for s in statements(f.body):
        found: list[_Join] = []
        if isinstance(s, IfStmt):
            then, other = last_yield(s.then_body), last_yield(s.else_body) if s.else_body is not None else None
            if then is not None and other is not None:
                values = zip(s.return_vars, then.value, other.value, strict=True)
                found = [(s, r, a, b, "the two branches make") for r, a, b in values]
        elif isinstance(s, (ForStmt, WhileStmt)):
            y = last_yield(s.body)
            what = "before the loop and at the end of a trip there is"
            found = [(s, a, a.initValue, v, what) for a, v in zip(s.iter_args, y.value if y is not None else (), strict=False)]
        yield from (j for j in found if _differ(j[2].type, j[3].type))


def _differ(a: Type, b: Type) -> bool:
    return isinstance(a, TileType) and isinstance(b, TileType) and not same_dims(a.valid, b.valid)


def check_joins(f: Function) -> None:
    """CompileError where a tile meets another that is valid elsewhere; accumulators of batches are checked as matrices."""
    for s, v, a, b, what in unequal_joins(f):
        assert isinstance(a.type, TileType)
        assert isinstance(b.type, TileType)
        if a.type.memory_space is MemorySpace.Acc and len(a.type.shape) > 2:
            continue
        name = user_name(v)
        raise CompileError(
            f"{what} a '{name}' that is valid in {shape_text(a.type.valid)} and in {shape_text(b.type.valid)}",
            b.span if b.span.is_valid() else s.span,
            f"make it one rectangle: {name} = pl.fillpad({name}) fills the rest, pl.set_validshape({name}, rows, cols) narrows",
            code="C056",
        )


def refuse_loose_accumulators(f: Function) -> None:
    """CompileError at a product that is read at another row distance than the matrix unit writes it at."""
    for d in accumulator_findings(f):
        raise CompileError(d.message, d.span, d.hint, code="C057")

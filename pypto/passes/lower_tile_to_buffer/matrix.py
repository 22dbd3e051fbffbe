"""Products of tiles to the matrix unit's buffer operations.

In: a product of tiles, and the handles of its operands and of its accumulator.  Out: buffer.matmul where sums start afresh,
buffer.matmul_acc where they go on, a branch between the two where that is decided at run time.
Invariant: the matrix unit writes a destination of the product's extents: an accumulator that is valid in more is written
through a descriptor of the product over the same storage, and what lies beside the product is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from pypto.errors import CompileError
from pypto.ir import ops
from pypto.ir.expr import Call, ConstBool, Expr, Var
from pypto.ir.opdef import Matmul, OpDef
from pypto.ir.program import Function
from pypto.ir.shaped import TileType, same_dims
from pypto.ir.stmt import AssignStmt, EvalStmt, IfStmt, Stmt, seq
from pypto.passes.lower_tile_to_buffer.storage import Handles
from pypto.passes.lower_tile_to_buffer.windows import same_window
from pypto.passes.ssa_rewriter import typed_call
from pypto.passes.statements import statements
from pypto.span import Span

__all__ = ["lower_product", "product_type", "products_beside_sums", "starts_afresh"]


class Lowering(Protocol):
    """What the conversion of a function offers to a product."""

    handles: Handles
    out: list[Stmt]
    span: Span

    def handle(self, e: Expr) -> Var: ...
    def visit(self, e: Any) -> Any: ...
    def do(self, name: str, *args: Expr) -> None: ...
    def guarded(self, t: TileType, write: Callable[[], None]) -> None: ...
    def refuse(self, message: str, span: Span, hint: str | None = None) -> CompileError: ...


def _form(e: Expr) -> Matmul | None:
    op = ops.of(e) if isinstance(e, Call) else None
    return op.semantics if op is not None and op.level == "tile" and isinstance(op.semantics, Matmul) else None


def starts_afresh(form: Matmul, c: Call) -> Expr | bool:
    """Whether the sums of a product start at 0: True, False, or the condition that decides it."""
    if form.acc is None:
        return True
    init = c.args[form.init] if form.init is not None and form.init < len(c.args) else None
    if init is None or isinstance(init, ConstBool):
        return init is not None and init.value
    return init


def product_type(form: Matmul, c: Call, result: TileType) -> TileType:
    """The type of a result as far as the product is valid in it; itself where it is valid in nothing else."""
    a, b = c.args[form.lhs].type, c.args[form.rhs].type
    assert isinstance(a, TileType)
    assert isinstance(b, TileType)
    valid = (a.valid[0], b.valid[1])
    if same_dims(valid, result.valid):
        return result
    return result.replace(tile_view=result.get_effective_tile_view().replace(valid_shape=valid))


def products_beside_sums(f: Function) -> dict[Var, TileType]:
    """The results that are valid in more than the product that is written into them, and the product's types."""
    found: dict[Var, TileType] = {}
    for s in statements(f.body):
        form = _form(s.value) if isinstance(s, AssignStmt) else None
        if form is not None and form.acc is not None and isinstance(s, AssignStmt) and isinstance(s.var.type, TileType):
            assert isinstance(s.value, Call)
            t = product_type(form, s.value, s.var.type)
            if t is not s.var.type and len(t.shape) == 2:
                found[s.var] = t
    return found


def lower_product(lo: Lowering, op: OpDef, v: Var, t: TileType, c: Call) -> None:
    """One product, written into the storage of its result."""
    form = op.semantics
    assert isinstance(form, Matmul)
    if op.concept not in ("matmul", "matmul_acc") or c.kwargs:
        raise lo.refuse(f"no conversion recipe for '{c.op.name}'", c.span)
    product, fresh = product_type(form, c, t), starts_afresh(form, c)
    if form.acc is not None:
        held = c.args[form.acc].type
        if not isinstance(held, TileType) or not same_window(held, t):
            raise lo.refuse(
                "tile.matmul_acc must accumulate in place: its accumulator and its result lie in different storage", c.span
            )
    beside = lo.handles.products.get(v)
    dst = lo.handle(v) if beside is None else beside
    condition = fresh if isinstance(fresh, bool) else lo.visit(fresh)

    def write() -> None:
        operands = (lo.handle(c.args[form.lhs]), lo.handle(c.args[form.rhs]), dst)
        if isinstance(condition, bool):
            lo.do("buffer.matmul" if condition else "buffer.matmul_acc", *operands)
            return
        first, later = (_alone(name, operands, lo.span) for name in ("buffer.matmul", "buffer.matmul_acc"))
        lo.out.append(IfStmt(condition, first, later, (), lo.span))

    lo.guarded(product, write)


def _alone(name: str, operands: tuple[Expr, ...], span: Span) -> Stmt:
    return seq([EvalStmt(typed_call(name, operands, None, span), span)], span)

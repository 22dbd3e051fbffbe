"""Sums begin at 0: the first product that an accumulator takes says so itself.

In: a kernel over two-dimensional tiles.  Out: a product that may be added to undefined storage has an `init_cond` that is
true where it is; one whose condition already says it, or that is never the first, stays as it is.
Errors, at the product: nobody can say whether it is the first; it makes less of its accumulator than is valid.
"""

from __future__ import annotations

from pypto.errors import CompileError
from pypto.ir import arith, ops
from pypto.ir.analyzer import Analyzer
from pypto.ir.expr import Call, ConstBool, Expr, Var
from pypto.ir.fold import fold
from pypto.ir.opdef import Matmul
from pypto.ir.ops.rules import falls_short, shape_text
from pypto.ir.program import Function
from pypto.ir.rewrite import Mutator
from pypto.ir.scalar import Eq, or_
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, Stmt
from pypto.ir.verify.ssa import user_name
from pypto.ir.verify.sums import Undefined, all_of, first_products, product_extents
from pypto.passes.ssa_rewriter import SSARewriter
from pypto.passes.statements import statements

__all__ = ["begin_sums"]


def begin_sums(f: Function) -> Function:
    """The kernel with its first products marked; the same one if all of them are."""
    first = first_products(f)
    return _Begin(f, first).function(f) if first else f


class _Begin(SSARewriter):
    def __init__(self, f: Function, first: dict[Var, Undefined]) -> None:
        super().__init__()
        self.first = first
        self.scalars: dict[Var, Expr] = {
            s.var: s.value for s in statements(f.body) if isinstance(s, AssignStmt) and not isinstance(s.value, Call)
        }

    def visit_assign_stmt(self, s: AssignStmt) -> Stmt | None:
        made = super().visit_assign_stmt(s)
        undefined = self.first.get(s.var)
        if undefined is None or not isinstance(made, AssignStmt) or not isinstance(made.value, Call):
            return made  # type: ignore[return-value]
        c, op = made.value, ops.of(made.value)
        assert op is not None
        assert isinstance(op.semantics, Matmul)
        form = op.semantics
        assert form.init is not None
        said = c.args[form.init] if form.init < len(c.args) else ConstBool(False)
        _check(c, form, said, undefined)
        if undefined.when is None or self.is_said(said, undefined.when):
            return made
        begins = all_of(undefined.when)
        if not isinstance(said, ConstBool) and undefined.when:
            begins = or_(said, begins, c.span)
        init = self.let("begins", begins) if undefined.when else begins
        return self.assign(made, self.recall(c, (*c.args[: form.init], init)))

    def is_said(self, said: Expr, when: tuple[Expr, ...]) -> bool:
        """Whether a condition holds in the first trips of the loops, or is what is asked for."""
        first = {c.left: c.right for c in when if isinstance(c, Eq) and isinstance(c.left, Var)}
        opened = _Folded({**self.scalars, **first}).visit(said)
        if isinstance(opened, ConstBool):
            return opened.value
        return arith.same(_Folded(self.scalars).visit(said), all_of(when))


class _Folded(Mutator):
    """Expressions folded, with what is known of their variables."""

    def visit_var(self, v: Var) -> Expr:
        known = self.vars.get(v)
        return v if known is None else self.expr(known)

    def visit_binary_expr(self, e: Expr) -> Expr:
        return fold(self.rebuild(e), Analyzer())

    def visit_unary_expr(self, e: Expr) -> Expr:
        return fold(self.rebuild(e), Analyzer())


def _check(c: Call, form: Matmul, said: Expr, undefined: Undefined) -> None:
    assert form.acc is not None
    acc = c.args[form.acc]
    name = user_name(acc) if isinstance(acc, Var) else "acc"
    if undefined.when is None and isinstance(said, ConstBool) and not said.value:
        raise CompileError(
            f"whether this product is the first of '{name}' is known at run time only, and '{name}' may hold nothing yet",
            c.span,
            "say it with init_cond=, as in init_cond=(k == 0); or begin with acc = pl.matmul(...)",
            code="C058",
        )
    t, product = acc.type, product_extents(c, form)
    if isinstance(t, TileType) and falls_short(product, t.valid):
        raise CompileError(
            f"'{name}' begins with a product that is valid in {shape_text(product)}, and is itself valid in "
            f"{shape_text(t.valid)}: what lies between is undefined",
            c.span,
            f"begin with the widest product, or say what is valid: {name} = pl.set_validshape({name}, rows, cols)",
            code="C059",
        )

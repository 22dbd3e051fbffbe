"""Which memory a value is needed in.

In: the memory constraints that operators declare per operand.  Out: for each variable the space its consumers ask for,
carried backward through operators that keep their operand's space, through loop carries and through branches.
A space other than Vec wins over Vec: what the vector unit also reads can be copied for it, a cube operand cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pypto.enums import MemorySpace
from pypto.ir import arith, ops
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.opdef import INHERIT, OpDef, Special
from pypto.ir.shaped import ShapedType
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, Stmt, WhileStmt, last_yield
from pypto.passes.statements import calls, statements

__all__ = ["demanded_spaces", "keeps_rows", "keeps_space", "staging_space"]

_STAGED = {
    MemorySpace.Vec: MemorySpace.Vec,
    MemorySpace.Mat: MemorySpace.Mat,
    MemorySpace.Left: MemorySpace.Mat,
    MemorySpace.Right: MemorySpace.Mat,
    MemorySpace.Bias: MemorySpace.Mat,
    MemorySpace.LeftScale: MemorySpace.Mat,
    MemorySpace.RightScale: MemorySpace.Mat,
}
Constraints = Callable[[Call], tuple[tuple[MemorySpace, ...] | None, ...] | None]


def staging_space(space: MemorySpace | None) -> MemorySpace | None:
    """Where a load puts a value that is needed in `space`; None where nothing can be loaded for it."""
    return None if space is None else _STAGED.get(space)


def demanded_spaces(body: Stmt, constraints: Constraints | None = None, vector: Iterable[Var] = ()) -> Mapping[Var, MemorySpace]:
    """The space each variable is needed in, as far as a consumer asks.

    `constraints` replaces the operators' own; the variables `vector` are needed in Vec unless something else asks.
    """
    edges: list[tuple[Expr, Expr]] = []  # what is asked of the first is asked of the second
    demand: dict[Var, MemorySpace] = {}

    def ask(e: Expr, space: MemorySpace) -> bool:
        if not isinstance(e, Var) or demand.get(e, MemorySpace.Vec) is not MemorySpace.Vec or demand.get(e) is space:
            return False
        demand[e] = space
        return True

    for v in vector:
        ask(v, MemorySpace.Vec)
    for s in statements(body):
        edges += _edges(s)
    for c in calls(body):
        for a, allowed in zip(c.args, _allowed(c, constraints), strict=False):
            if allowed:
                ask(a, allowed[0])
    changed = True
    while changed:
        changed = False
        for result, source in reversed(edges):
            if isinstance(result, Var) and result in demand:
                changed |= ask(source, demand[result])
    return demand


def _allowed(c: Call, constraints: Constraints | None) -> tuple[tuple[MemorySpace, ...] | None, ...]:
    if constraints is not None:
        return constraints(c) or ()
    op = ops.of(c)
    return op.spaces or () if op is not None else ()


def _edges(n: Stmt) -> list[tuple[Expr, Expr]]:
    if isinstance(n, AssignStmt):
        if isinstance(n.value, Var):
            return [(n.var, n.value)]
        if isinstance(n.value, Call):
            op = ops.of(n.value)
            if op is not None and keeps_space(op) and n.value.args and keeps_rows(n.value):
                return [(n.var, n.value.args[0])]
        return []
    if isinstance(n, IfStmt):
        arms = [last_yield(b) for b in (n.then_body, n.else_body) if b is not None]
        return [(r, v) for y in arms if y is not None for r, v in zip(n.return_vars, y.value, strict=True)]
    if isinstance(n, (ForStmt, WhileStmt)):
        found: list[tuple[Expr, Expr]] = [(a, a.initValue) for a in n.iter_args]
        y = last_yield(n.body)
        for a, r, v in zip(n.iter_args, n.return_vars, y.value if y is not None else (), strict=False):
            found += [(r, v), (a, v), (r, a)]
        return found
    return []


def keeps_rows(c: Call) -> bool:
    """Whether a relabel leaves rows what they are, all axes but the last taken as rows: only then can it be one of boxes."""
    if not c.op.name.endswith((".reshape", ".view")):
        return True
    a, b = (e.type for e in (c.args[0], c))
    if not isinstance(a, ShapedType) or not isinstance(b, ShapedType) or not b.shape:
        return True
    return len(a.shape) > 1 < len(b.shape) and arith.same(a.shape[-1], b.shape[-1])


def keeps_space(op: OpDef) -> bool:
    """Whether the result is where the first operand is; the tensor form of an operator answers as its tile form."""
    tile = ops.find("tile." + op.concept) if op.level == "tensor" else op
    if tile is None:
        return isinstance(op.semantics, Special) and op.semantics.kind == "view"
    return tile.out_space == INHERIT

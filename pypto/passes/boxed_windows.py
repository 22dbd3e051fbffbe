"""Windows of tiles in boxes become copies of their own.

In: kernels with windows (`tile.slice`) of tiles in Mat and the matrix unit's memories.  Out: none of them: an operand of a
product is extracted straight into Left or Right memory, a moved one into the memory it is moved to, any other into one
where it can be read.  Invariant: an accumulator is no window: products are added up in a tile of their own.
"""

from __future__ import annotations

from typing import NoReturn

from pypto.enums import MemorySpace
from pypto.errors import CompileError
from pypto.ir import arith, ops
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.opdef import Matmul
from pypto.ir.program import Function
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, Stmt
from pypto.named import NamedTuple
from pypto.passes.memory.spaces import demanded_spaces
from pypto.passes.ssa_rewriter import SSARewriter
from pypto.passes.statements import statements

__all__ = ["without_boxed_windows"]


class _Window(NamedTuple):
    base: Var
    row: Expr
    col: Expr
    shape: Expr
    valid: tuple[Expr, ...]


def without_boxed_windows(f: Function) -> Function:
    """The kernel with its windows of boxes copied."""
    demand = demanded_spaces(f.body)
    found = {s.var: s.value for s in statements(f.body) if isinstance(s, AssignStmt) and _is_boxed_window(s.value, demand)}
    return _Copier(set(found)).function(f) if found else f


def _is_boxed_window(e: Expr, demand: object) -> bool:
    if not isinstance(e, Call) or e.op.name != "tile.slice" or len(e.args) > 4 or not isinstance(e.args[0], Var):
        return False
    t = e.args[0].type
    assert isinstance(t, TileType)
    wanted = demand.get(e.args[0])  # type: ignore[attr-defined]
    open_ = t.memory_space is None and wanted not in (None, MemorySpace.Vec)
    return len(t.shape) == 2 and (open_ or t.memory_space not in (None, MemorySpace.Vec))


class _Copier(SSARewriter):
    def __init__(self, found: set[Var]) -> None:
        super().__init__()
        self.found = found
        self.windows: dict[Expr, _Window] = {}

    def visit_assign_stmt(self, s: AssignStmt) -> Stmt | None:
        if s.var in self.found:
            assert isinstance(s.value, Call)
            outer, t = self.windows.get(s.value.args[0]), s.var.type
            row, col = (self.expr(o) for o in s.value.args[2].elements)  # type: ignore[attr-defined]
            if outer is not None:
                row, col = arith.index_add(outer.row, row), arith.index_add(outer.col, col)
            source = outer.base if outer is not None else self.expr(s.value.args[0])
            assert isinstance(source, Var)
            assert isinstance(t, TileType)
            self.windows[s.var] = _Window(source, row, col, s.value.args[1], tuple(self.expr(v) for v in t.valid))
            return None
        made = super().visit_assign_stmt(s)
        assert made is None or isinstance(made, Stmt)
        return made

    def visit_var(self, v: Var) -> Expr:
        """Where a window is handed on as a value, it is a copy."""
        w = self.windows.get(v)
        if w is None:
            made: Expr = super().visit_var(v)
            return made
        space = w.base.type.memory_space  # type: ignore[attr-defined]
        return self._copy(w, MemorySpace.Vec if space is MemorySpace.Acc else space or MemorySpace.Mat)

    def visit_call(self, c: Call) -> Expr:
        op = ops.of(c)
        if op is None or not any(a in self.windows for a in c.args if isinstance(a, Var)):
            return super().visit_call(c)
        first = self.windows.get(c.args[0])
        if first is not None and c.op.name == "tile.move" and not {"blayout", "slayout"} & set(c.kwargs):
            return self._copy(first, c.kwargs["target_memory"])
        if first is not None and c.op.name == "tile.extract":
            args = [self.visit(a) for a in c.args[1:]]
            return self.recall(c, (first.base, arith.index_add(first.row, args[0]), arith.index_add(first.col, args[1]), args[2]))
        form = op.semantics
        args = []
        for i, a in enumerate(c.args):
            w = self.windows.get(a)
            if w is None or not isinstance(form, Matmul):
                args.append(self.visit(a))
                continue
            if i == form.acc:
                _refuse(c)
            allowed = op.spaces[i] if op.spaces is not None else None
            args.append(self._copy(w, allowed[0] if allowed else MemorySpace.Mat))
        return self.recall(c, args)

    def _copy(self, w: _Window, space: MemorySpace) -> Var:
        made = self.emit("tile.extract", (w.base, w.row, w.col, w.shape), {"target_memory": space}, "window")
        return self.valid_as(made, w.valid)


def _refuse(c: Call) -> NoReturn:
    raise CompileError(
        f"{c.op.name}: the accumulator is a window of another tile: products are added up in a tile of their own",
        c.span,
        "add up each piece by itself: acc = pl.matmul(a, b), then acc = pl.matmul_acc(acc, a, b)",
        code="C032",
    )

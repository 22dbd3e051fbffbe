"""InferTileMemorySpace: every tile is in a memory, and every operand is where its operator reads it.

In: kernels whose loads and creations may leave their memory open.  Out: an open one takes the memory its consumers ask
for (a load as far as it can), everything else follows from its operands; an operand in the wrong memory is moved, once
per value and region.  A memory the user named is kept.
"""

from __future__ import annotations

from typing import Any

from pypto.enums import FunctionType, MemorySpace
from pypto.errors import CompileError
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.opdef import FROM_TARGET
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TileType
from pypto.ir.stmt import IfStmt, Stmt, YieldStmt, last_yield
from pypto.ir.verify.properties import IRProperty
from pypto.passes.context import PassOptions
from pypto.passes.framework import program_pass
from pypto.passes.lane_regions import refuse_wrong_regions
from pypto.passes.memory.spaces import demanded_spaces, staging_space
from pypto.passes.ssa_rewriter import SSARewriter

__all__ = ["infer_tile_memory_space"]

_OPEN = (MemorySpace.Vec, MemorySpace.Mat)  # where a load or a creation without a named memory may go


class _Inference(SSARewriter):
    def __init__(self, f: Function) -> None:
        super().__init__()
        self.demand = demanded_spaces(f.body)
        self.binding: Var | None = None
        self.moved: list[dict[tuple[Var, MemorySpace], Var]] = []  # moves by region, outermost first
        self.yield_spaces: list[tuple[MemorySpace | None, ...] | None] = []

    def body(self, s: Stmt) -> Stmt:
        self.moved.append({})
        made = super().body(s)
        self.moved.pop()
        return made

    def statement(self, s: Stmt) -> None:
        self.binding = getattr(s, "var", None)
        super().statement(s)

    def visit_call(self, c: Call) -> Expr:
        op = ops.of(c)
        if op is None or op.level != "tile":
            return super().visit_call(c)
        args = [self.visit(a) for a in c.args]
        for i, allowed in enumerate(op.spaces or ()):
            if allowed and i < len(args):
                args[i] = self._in_space(args[i], allowed)
        kwargs: dict[str, Any] = dict(c.kwargs)
        if op.out_space == FROM_TARGET and kwargs.get("target_memory") is None:
            kwargs["target_memory"] = self._target(op.concept)
        if all(a is b for a, b in zip(args, c.args, strict=True)) and len(kwargs) == len(c.kwargs):
            return c
        return self.recall(c, args, kwargs)

    def _target(self, concept: str) -> MemorySpace:
        wanted = self.demand.get(self.binding) if self.binding is not None else None
        if concept == "create":
            return wanted or MemorySpace.Vec
        staged = staging_space(wanted)
        return staged if staged in _OPEN else MemorySpace.Vec

    def _in_space(self, e: Expr, allowed: tuple[MemorySpace, ...]) -> Expr:
        """The operand in one of the memories its operator reads, moved there where it is not."""
        t = e.type
        if not isinstance(t, TileType) or t.memory_space in allowed or not isinstance(e, Var):
            return e
        key = (e, allowed[0])
        for known in reversed(self.moved):
            if key in known:
                return known[key]
        made = self.emit("tile.move", (e,), {"target_memory": allowed[0]}, f"{e.name_hint}_{allowed[0].name}")
        self.moved[-1][key] = made
        return made

    # -- where control flow joins, the memories agree --

    def visit_if_stmt(self, s: IfStmt) -> Stmt:
        condition = self.expr(s.condition)
        self.yield_spaces.append(None)
        then = self.body(s.then_body)
        y = last_yield(then)
        self.yield_spaces[-1] = tuple(_space(v) for v in y.value) if y is not None else None
        other = None if s.else_body is None else self.body(s.else_body)
        self.yield_spaces.pop()
        results = self.results(s.return_vars, s.then_body, then)
        return s.replace(condition=condition, then_body=then, else_body=other, return_vars=results)

    def visit_for_stmt(self, s: Any) -> Stmt:
        return self._loop(s, super().visit_for_stmt)

    def visit_while_stmt(self, s: Any) -> Stmt:
        return self._loop(s, super().visit_while_stmt)

    def _loop(self, s: Any, visit: Any) -> Stmt:
        # The initial values are visited by `visit` itself; what they are then decides what the body must hand back.
        self.yield_spaces.append(tuple(_space(self.visit(a.initValue)) for a in s.iter_args))
        made: Stmt = visit(s)
        self.yield_spaces.pop()
        return made

    def visit_yield_stmt(self, s: YieldStmt) -> Any:
        wanted = self.yield_spaces[-1] if self.yield_spaces else None
        values = []
        for i, v in enumerate(s.value):
            made = self.expr(v)
            space = wanted[i] if wanted is not None and i < len(wanted) else None
            values.append(self._in_space(made, (space,)) if space is not None else made)
        return s if all(a is b for a, b in zip(values, s.value, strict=True)) else s.replace(value=tuple(values))


def _space(e: Expr) -> MemorySpace | None:
    return e.type.memory_space if isinstance(e.type, TileType) else None


def _check_params(f: Function) -> None:
    for p in f.params:
        if isinstance(p.type, TileType):
            raise CompileError(
                f"kernel '{f.name}' takes the tile '{p.name_hint}' as a parameter",
                p.span,
                "pass a tensor and load it, or make the function inline with @pl.jit.inline",
                code="C040",
            )


@program_pass(
    "InferTileMemorySpace",
    requires=(IRProperty.SSAForm, IRProperty.IncoreTileOps, IRProperty.SplitIncoreOrch, IRProperty.NormalizedStmtStructure),
    produces=(
        IRProperty.SSAForm,
        IRProperty.TileMemoryInferred,
        IRProperty.NormalizedStmtStructure,
        IRProperty.AivSplitValid,
        IRProperty.AccToGmStoreValid,
    ),
    invalidates=(IRProperty.AivSplitValid,),
)
def infer_tile_memory_space(program: Program, options: PassOptions) -> Program:
    made = program.with_functions(_infer(f) for f in program.function_list)
    refuse_wrong_regions(made.function_list)
    return made


def _infer(f: Function) -> Function:
    if f.func_type is FunctionType.InCore:
        _check_params(f)
    return _Inference(f).function(f) if f.is_device else f

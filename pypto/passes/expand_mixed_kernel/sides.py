"""What one core does of a kernel, and what it passes to the other.

In: a kernel over tiles that are in memories, and a core.  Out: the statements of that core: what computes on tiles of the
other core is gone, a tile of this core that the other reads is pushed where it is read, and one of the other core that this
one reads is popped there.  Scalars and control flow stay on both.
Invariant: both cores meet the statements at which a value crosses in the same order, so that each pipe is a queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from pypto.enums import MemorySpace, TileLayout
from pypto.errors import NotSupportedError
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, IterArg, MakeTuple, Var
from pypto.ir.layout import box_of
from pypto.ir.ops.lanes import GATHER, SHARD
from pypto.ir.program import Function
from pypto.ir.shaped import TensorType, TileType, const_dims
from pypto.ir.stmt import (
    AssignStmt,
    EvalStmt,
    ForStmt,
    IfStmt,
    ReturnStmt,
    SplitAivScopeStmt,
    Stmt,
    WhileStmt,
    YieldStmt,
    last_yield,
)
from pypto.ir.verify.cores import Core, core_of_call, core_of_type, kind_of_call
from pypto.ir.verify.roots import Flow
from pypto.ir.verify.ssa import user_name
from pypto.passes.ssa_rewriter import SSARewriter, typed_call
from pypto.span import Span

__all__ = ["OTHER", "Side"]

OTHER = {Core.CUBE: Core.VECTOR, Core.VECTOR: Core.CUBE}
_PEER = {Core.CUBE: "aiv", Core.VECTOR: "aic"}
_NAMES = {Core.CUBE: "the cube core", Core.VECTOR: "the vector core"}
# What each core can give to a pipe.
_GIVEN = {Core.CUBE: MemorySpace.Acc, Core.VECTOR: MemorySpace.Vec}
# In Vec memory, the layout in which tiles lie in Mat memory.
_AS_IN_MAT = {"target_memory": MemorySpace.Vec, "blayout": TileLayout.col_major, "slayout": TileLayout.row_major}


class Side(SSARewriter):
    """Rewrites a kernel's body into that of one core.

    `owners`: which core does what touches no tile but acts.  `direct`: pipes lead into the other core's memory, and what the
    vector core gives has to lie as it is to lie there.
    """

    def __init__(self, f: Function, core: Core, owners: Mapping[int, Core], direct: bool) -> None:
        super().__init__()
        self.f, self.core, self.owners, self.direct = f, core, owners, direct
        self.roots, self.params = Flow().roots(f), set(f.params)
        self.kept: list[list[int]] = []  # positions of the values that the regions around hand out

    # -- plain statements --

    def visit_assign_stmt(self, s: AssignStmt) -> Any:
        core = self.owners.get(id(s), core_of_call(s.value, s.var)) if isinstance(s.value, Call) else core_of_type(s.var.type)
        if core is OTHER[self.core]:
            self._given(s.value)
            self._is(s.var, s)
            return None
        if isinstance(s.value, Call) and core is self.core:
            return self._own(s, s.value)
        if isinstance(s.var.type, TensorType) and isinstance(s.value, Var):
            self._is(s.var, s)
            return None
        return super().visit_assign_stmt(s)

    def visit_eval_stmt(self, s: EvalStmt) -> Any:
        call = s.expr
        core = self.owners.get(id(s), core_of_call(call)) if isinstance(call, Call) else Core.SHARED
        if core is OTHER[self.core]:
            self._given(call)
            return None
        if isinstance(call, Call) and core is self.core:
            args = [self._taken(a, call) for a in call.args]
            return s.replace(expr=self.recall(call, args))
        return self.rebuild(s)

    def visit_return_stmt(self, s: ReturnStmt) -> Any:
        return s.replace(value=()) if s.value else s

    def _is(self, v: Var, s: Stmt) -> None:
        """A tensor that control flow or the other core hands on: on this core it is the parameter that it stands for."""
        if isinstance(v.type, TensorType):
            root = self.roots.only(v)
            if root not in self.params:
                self.refuse(f"'{user_name(v)}' is one of several tensors", s, "write each tensor under its own name")
            assert root is not None
            self.vars[v] = root

    # -- what crosses --

    def _given(self, value: Expr) -> None:
        """Push the tiles of this core that a statement of the other one reads."""
        for a in value.args if isinstance(value, Call) else ():
            if core_of_type(a.type) is self.core:
                self._push(a, value)

    def _push(self, e: Expr, reader: Expr) -> None:
        t = e.type
        assert isinstance(t, TileType)
        assert isinstance(e, Var)
        assert isinstance(reader, Call)
        if t.memory_space is not _GIVEN[self.core]:
            space = t.memory_space.name if t.memory_space is not None else "no"
            what = f"'{user_name(e)}' in {space} memory is read by {_NAMES[OTHER[self.core]]} ({reader.op.name})"
            raise NotSupportedError(f"{what}: no pipe takes it from there", reader.span, "load it anew where it is read")
        split = _split(reader)
        kwargs = {"split": split} if split else {}
        given = self.expr(e)
        if self.direct and self.core is Core.VECTOR:
            given = self._boxed(e, given, reader.span)
        pushed = typed_call(f"tile.tpush_to_{_PEER[self.core]}", (given,), kwargs, reader.span)
        self.out.append(EvalStmt(pushed, reader.span))

    def _boxed(self, e: Var, given: Expr, span: Span) -> Expr:
        """A tile of the vector core in the layout of Mat memory."""
        t, made = given.type, typed_call("tile.move", (given,), _AS_IN_MAT, span)
        assert isinstance(t, TileType)
        assert isinstance(made.type, TileType)
        box, dims = box_of(made.type.layout, t.dtype), const_dims(t.shape[-2:])
        if dims is not None and any(n % m for n, m in zip(dims, box, strict=True)):
            what = (
                f"'{user_name(e)}' is passed as {dims[0]} x {dims[1]} elements of {t.dtype}, no whole {box[0]} x {box[1]} boxes"
            )
            remedy = (
                "load it into the cube core's memory: pl.load(..., target_memory=pl.Mem.Mat)"
                if dims[0] == 1
                else "let each lane make whole boxes: split more rows, or the columns (pl.SplitMode.LEFT_RIGHT)"
            )
            raise NotSupportedError(
                f"kernel '{self.f.name}' works on both cores, and {what}: that has no .pto form", span, remedy
            )
        return self.let(f"{e.name_hint}_boxed", made)

    def _own(self, s: AssignStmt, call: Call) -> Any:
        op = ops.of(call)
        assert op is not None
        crossing = [i for i, a in enumerate(call.args) if core_of_type(a.type) is OTHER[self.core]]
        if not crossing:
            return super().visit_assign_stmt(s)
        if op.concept == "move" or kind_of_call(call) in (SHARD, GATHER):
            return self._moved(s, call)
        args = [self._taken(a, call) for a in call.args]
        return self.assign(s, self.recall(call, args))

    def _taken(self, e: Expr, reader: Call) -> Expr:
        if core_of_type(e.type) is not OTHER[self.core]:
            return self.expr(e)
        assert isinstance(e, Var)
        return self._pop(e, reader, f"{e.name_hint}_{'Vec' if self.core is Core.VECTOR else 'Mat'}")

    def _pop(self, e: Expr, reader: Call, hint: str) -> Var:
        """What the other core pushed, in this core's own memory: for a split the half of this lane, or both halves."""
        t = reader.type if kind_of_call(reader) in (SHARD, GATHER) else e.type
        assert isinstance(t, TileType)
        split = _split(reader)
        kwargs = {"dtype": t.dtype, **({"split": split} if split else {})}
        shape, valid = MakeTuple(t.shape), MakeTuple(tuple(self.expr(d) for d in t.valid))
        return self.let(hint, typed_call(f"tile.tpop_from_{_PEER[self.core]}", (shape, valid), kwargs, reader.span))

    def _moved(self, s: AssignStmt, call: Call) -> Any:
        """A move between the cores: the pop itself, and a move on this core where the tile is wanted in another way."""
        source = call.args[0]
        assert isinstance(source, Var)
        want = s.var.type
        direct = core_of_type(want) is Core.VECTOR or getattr(want, "memory_space", None) is MemorySpace.Mat
        popped = self._pop(source, call, s.var.name_hint if direct else f"{source.name_hint}_Mat")
        have = popped.type
        assert isinstance(want, TileType)
        assert isinstance(have, TileType)
        if want.memory_space is have.memory_space and want.layout == have.layout:
            self.vars[s.var] = popped
            return None
        if want.memory_space is MemorySpace.Mat:
            what = f"'{user_name(s.var)}' comes from {_NAMES[OTHER[self.core]]} in another layout than it is wanted in"
            raise NotSupportedError(what, call.span, "leave the layout open: drop blayout and slayout")
        return self.assign(s, typed_call("tile.move", (popped,), dict(call.kwargs), call.span))

    # -- control flow --

    def visit_split_aiv_scope_stmt(self, s: SplitAivScopeStmt) -> Any:
        return self.body(s.body)

    def visit_if_stmt(self, s: IfStmt) -> Stmt:
        condition = self.expr(s.condition)
        mine = self._mine(s.return_vars, s)
        then, other = (self._arm(b, mine) for b in (s.then_body, s.else_body))
        assert then is not None
        y, results = last_yield(then), tuple(s.return_vars[i] for i in mine)
        made = tuple(self.define_as(r, v.type) for r, v in zip(results, y.value, strict=True)) if y is not None else ()
        return s.replace(condition=condition, then_body=then, else_body=other, return_vars=made)

    def _arm(self, b: Stmt | None, mine: list[int]) -> Stmt | None:
        if b is None:
            return None
        self.kept.append(mine)
        made = self.body(b)
        self.kept.pop()
        return made

    def visit_yield_stmt(self, s: YieldStmt) -> Any:
        values = tuple(self.expr(s.value[i]) for i in self.kept[-1])
        return s.replace(value=values) if values else None

    def visit_for_stmt(self, s: ForStmt) -> Stmt:
        start, stop, step = self.expr(s.start), self.expr(s.stop), self.expr(s.step)
        carried, body, results = self._loop(s)
        return s.replace(start=start, stop=stop, step=step, iter_args=carried, body=body, return_vars=results)

    def visit_while_stmt(self, s: WhileStmt) -> Stmt:
        carried, body, results = self._loop(s)
        return s.replace(condition=self.expr(s.condition), iter_args=carried, body=body, return_vars=results)

    def _loop(self, s: ForStmt | WhileStmt) -> tuple[tuple[IterArg, ...], Stmt, tuple[Var, ...]]:
        mine = self._mine(s.iter_args, s)
        carried = self.carried(tuple(s.iter_args[i] for i in mine))
        body = self._arm(s.body, mine)
        assert body is not None
        self._mine(s.return_vars, s)
        return carried, body, tuple(s.return_vars[i] for i in mine)

    def _mine(self, values: Sequence[Var], s: Stmt) -> list[int]:
        """Positions of what is carried or handed out on this core; of a tensor nothing is."""
        for v in values:
            self._is(v, s)
        own = (Core.SHARED, self.core)
        return [i for i, v in enumerate(values) if not isinstance(v.type, TensorType) and core_of_type(v.type) in own]

    def refuse(self, what: str, s: Stmt, hint: str) -> NoReturn:
        raise NotSupportedError(f"kernel '{self.f.name}' works on both cores, and {what}: that has no .pto form", s.span, hint)


def _split(reader: Call) -> int:
    """How the lanes share what crosses where a statement reads it."""
    split: int = reader.kwargs["split"] if kind_of_call(reader) in (SHARD, GATHER) else 0
    return split

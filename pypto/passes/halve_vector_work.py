"""HalveVectorWork: kernels whose split is left to the compiler, shared by the lanes of the vector core.

In: mixed kernels with `pl.split(mode)`, over tiles that are in memories.  Out: what the vector core does is done on halves along
the mode's axis: loads and stores go to this lane's part of their tensor, what comes from the cube core is this lane's half of
it (`aiv_shard`), what goes there is put together (`aic_gather`).  A tile of one row (column) has no halves: each lane has all
of it.  The attribute `split_aiv` says that both lanes work.
Errors, at the user's line: an odd extent, a reduction along the axis, an operator that wants more than this lane's half.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from pypto.enums import MemorySpace, SplitMode
from pypto.errors import NotSupportedError
from pypto.ir import arith, ops
from pypto.ir.expr import Call, Expr, MakeTuple, Var, const_index
from pypto.ir.opdef import COL, FULL, ROW, UNUSED, Lanewise, OpDef, Reduce
from pypto.ir.ops.memory import window_valid
from pypto.ir.program import Function
from pypto.ir.shaped import TileType, const_dim, const_dims
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, IfStmt, Stmt, WhileStmt, YieldStmt, flatten_to_stmts, last_yield, seq
from pypto.ir.verify.cores import Core, core_of_type, is_mixed, kind_of_call
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.ssa import user_name
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.ssa_rewriter import SSARewriter, typed_call

__all__ = ["halve_vector_work"]

_AXES = {SplitMode.UP_DOWN: 0, SplitMode.LEFT_RIGHT: 1}
_NAMES = ("rows", "columns")
_KEEP = ("copy", "pad")  # what gives each element its own place again


@function_pass(
    "HalveVectorWork",
    requires=(IRProperty.SSAForm, IRProperty.IncoreTileOps, IRProperty.TileMemoryInferred),
    produces=(IRProperty.SSAForm, IRProperty.NormalizedStmtStructure),
    invalidates=(IRProperty.AivSplitValid,),
)
def halve_vector_work(f: Function, options: PassOptions) -> Function:
    axis = _AXES.get(f.split) if f.split is not None else None
    # A kernel that opens regions for its lanes says itself what each of them does.
    if axis is None or f.attrs.get("split_aiv") or not f.is_device or not is_mixed(f):
        return f
    return _Halving(axis).function(f)


class _Halving(SSARewriter):
    """`axes`: the axis along which a tile of the vector core is halved, by its new variable; none for a tile without halves."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis
        self.axes: dict[Expr, int] = {}
        self.lane: Expr = const_index(0)

    def function(self, f: Function) -> Function:
        asked = typed_call("tile.get_subblock_idx", (), None, f.span)
        lane = Var("lane", asked.type, f.span)
        self.lane = lane
        made = super().function(f)
        body = seq((AssignStmt(lane, asked, f.span), *flatten_to_stmts(made.body)), f.body.span)
        return made.replace(body=body, attrs=f.attrs.without("split").with_(split_aiv=True))

    # -- statements --

    def visit_assign_stmt(self, s: AssignStmt) -> Any:
        if isinstance(s.value, Var):
            made = super().visit_assign_stmt(s)
            self._same(s.var, self.expr(s.value))
            return made
        op = ops.of(s.value) if isinstance(s.value, Call) else None
        if op is None or not isinstance(s.value, Call) or not self._on_vector(s.value, s.var):
            return super().visit_assign_stmt(s)
        value, axis = self._halved(op, s.value, s)
        made = self.assign(s, value)
        if axis is not None:
            self.axes[self.expr(s.var)] = axis
        return made

    def visit_eval_stmt(self, s: EvalStmt) -> Any:
        op = ops.of(s.expr) if isinstance(s.expr, Call) else None
        if op is None or not isinstance(s.expr, Call) or not self._on_vector(s.expr, None):
            return self.rebuild(s)
        return s.replace(expr=self._halved(op, s.expr, s)[0])

    @staticmethod
    def _on_vector(c: Call, var: Var | None) -> bool:
        types = (*(a.type for a in c.args), *(() if var is None else (var.type,)))
        return any(core_of_type(t) is Core.VECTOR for t in types)

    def _same(self, v: Var, source: Expr) -> None:
        if source in self.axes:
            self.axes[self.expr(v)] = self.axes[source]

    # -- calls --

    def _halved(self, op: OpDef, c: Call, s: Stmt) -> tuple[Expr, int | None]:
        """A call on halves, and the axis along which its result is one."""
        kind = kind_of_call(c)
        if op.concept == "move" and core_of_type(c.args[0].type) is Core.CUBE:
            return self._from_cube(c)
        args = [self.expr(a) for a in c.args]
        axes = [self.axes.get(a) for a in args]
        if op.concept == "move" and core_of_type(c.type) is Core.CUBE and axes[0] is not None:
            return self._to_cube(c, args[0], axes[0]), None
        if kind == "load":
            return self._load(c)
        if kind in ("create", "fill"):
            return self._made(c, args)
        if kind == "store" and axes[0] is not None:
            return self._store(c, args, axes[0]), None
        if not any(a is not None for a in axes):
            if kind == "store" and c.kwargs.get("atomic"):
                self._refuse(
                    c, "each lane would add all of the tile", "add halves of it: let it have more than one row or column"
                )
            return self.recall(c, args), None
        if op.concept == "set_validshape":
            axis = axes[0]
            assert axis is not None
            half = _extent(args[0], axis)
            args[1 + axis] = self._valid(args[1 + axis], half)
            return self.recall(c, args), axis
        if op.concept == "reshape" and axes[0] is not None:
            return self._turned(c, args, axes[0])
        return self.recall(c, args), self._axis_of(op, c, args, axes)

    def _axis_of(self, op: OpDef, c: Call, args: list[Expr], axes: list[int | None]) -> int:
        """Along which axis the result of an operator on halves is a half; refuses what wants other lanes' elements."""
        form = op.semantics
        if isinstance(form, Reduce):
            axis = axes[0]
            if axis is None or axis == form.axis:
                other = SplitMode.LEFT_RIGHT if form.axis == 0 else SplitMode.UP_DOWN
                what = f"it goes over the {_NAMES[form.axis]} that the lanes share"
                self._refuse(c, what, f"split the other axis: pl.split(pl.SplitMode.{other.name})")
            return axis
        patterns = form.patterns if isinstance(form, Lanewise) else (FULL,) if kind_of_call(c) in _KEEP else ()
        read = [(p, a) for p, a in zip(patterns, axes, strict=False) if p is not UNUSED]
        found = {a for p, a in read if p == FULL}
        axis = next(iter(found)) if len(found) == 1 else None
        if axis is None:
            self._refuse(c, "it takes more than this lane's half of what it works on", "let it work on whole tiles of its kernel")
        for p, a in read:
            want = {ROW: 0, COL: 1}.get(p)
            if (want is not None and a != (axis if want == axis else None)) or p not in (FULL, ROW, COL):
                self._refuse(
                    c, "its operands are not shared by the lanes in one way", "let them have equally many rows or columns"
                )
        return axis

    def _from_cube(self, c: Call) -> tuple[Expr, int | None]:
        source = self.expr(c.args[0])
        self._even(c, c.type)
        return typed_call("tile.aiv_shard", (source, self.lane), {"split": self.axis + 1}, c.span), self.axis

    def _to_cube(self, c: Call, half: Expr, axis: int) -> Expr:
        whole = self.let("whole", typed_call("tile.aic_gather", (half,), {"split": axis + 1}, c.span))
        assert isinstance(c.type, TileType)
        return whole if c.type.memory_space is MemorySpace.Mat else typed_call("tile.move", (whole,), dict(c.kwargs), c.span)

    def _load(self, c: Call) -> tuple[Expr, int | None]:
        source, at, shapes, valid = (self.expr(a) for a in c.args)
        assert isinstance(at, MakeTuple)
        assert isinstance(shapes, MakeTuple)
        assert isinstance(valid, MakeTuple)
        if not self._has_halves(c, c.type):
            return self.recall(c, (source, at, shapes, valid)), None
        if len(shapes.elements) != 2:
            self._refuse(
                c, f"a window of rank {len(shapes.elements)} is not shared by lanes", "reshape the tensor to two dimensions"
            )
        half = _extent(c, self.axis) // 2
        start = self._start(half)
        parts = (
            _with(at, self.axis, arith.add(at.elements[self.axis], start)),
            _with(shapes, self.axis, const_index(half)),
            _with(valid, self.axis, self._valid(valid.elements[self.axis], half)),
        )
        return self.recall(c, (source, *parts)), self.axis

    def _made(self, c: Call, args: list[Expr]) -> tuple[Expr, int | None]:
        shape = args[0]
        assert isinstance(shape, MakeTuple)
        if not self._has_halves(c, c.type):
            return self.recall(c, args), None
        args[0] = _with(shape, self.axis, const_index(_extent(c, self.axis) // 2))
        return self.recall(c, args), self.axis

    def _store(self, c: Call, args: list[Expr], axis: int) -> Expr:
        at = args[1]
        assert isinstance(at, MakeTuple)
        if len(at.elements) != 2 or len(args) > 3:
            self._refuse(c, "a window of more than two dimensions is not shared by lanes", "reshape the tensor to two dimensions")
        start = self._start(_extent(args[0], axis))
        args[1] = _with(at, axis, arith.add(at.elements[axis], start))
        return self.recall(c, args)

    def _turned(self, c: Call, args: list[Expr], axis: int) -> tuple[Expr, int | None]:
        """A column as a row, or the other way round."""
        old, new = (const_dims(t.shape) if isinstance(t, TileType) else None for t in (c.args[0].type, c.type))
        shape = args[1]
        if old is None or new is None or len(new) != 2 or new != old[::-1] or 1 not in new or not isinstance(shape, MakeTuple):
            self._refuse(c, "it takes this lane's half apart", "reshape rows to columns, or keep the shape")
        args[1] = _with(shape, 1 - axis, const_index(_extent(args[0], axis)))
        return self.recall(c, args), 1 - axis

    def _start(self, half: int) -> Expr:
        """Where this lane's half begins."""
        return arith.mul(self.lane, const_index(half))

    def _valid(self, valid: Expr, half: int) -> Expr:
        """How much of this lane's half is valid."""
        return const_index(half) if const_dim(valid) == 2 * half else window_valid(valid, self._start(half), const_index(half))

    def _has_halves(self, c: Call, t: Any) -> bool:
        if const_dim(t.shape[self.axis]) == 1:
            return False
        self._even(c, t)
        return True

    def _even(self, c: Call, t: Any) -> None:
        n = const_dim(t.shape[self.axis]) if len(t.shape) == 2 else None
        if n is None or n % 2:
            what = f"a tile of {n or 'other than two dimensions of constant'} {_NAMES[self.axis]} has no halves"
            self._refuse(c, what, "make the number even, or split the other axis")

    @staticmethod
    def _refuse(c: Call, what: str, hint: str) -> NoReturn:
        raise NotSupportedError(f"{c.op.name} is not shared by the vector lanes, as pl.split asks: {what}", c.span, hint)

    # -- control flow: what meets is halved in one way --

    def visit_if_stmt(self, s: IfStmt) -> Any:
        made = super().visit_if_stmt(s)
        arms = [y for b in (made.then_body, made.else_body) if (y := last_yield(b)) is not None]  # type: ignore[union-attr]
        for i, r in enumerate(s.return_vars):
            self._joined(r, [y.value[i] for y in arms], s)
        return made

    def carried(self, iter_args: tuple[Any, ...]) -> tuple[Any, ...]:
        made = super().carried(iter_args)
        for a in made:
            self._same(a, a.initValue)
        return made

    def visit_for_stmt(self, s: ForStmt) -> Any:
        return self._loop(s, super().visit_for_stmt(s))

    def visit_while_stmt(self, s: WhileStmt) -> Any:
        return self._loop(s, super().visit_while_stmt(s))

    def _loop(self, s: ForStmt | WhileStmt, made: Any) -> Any:
        y: YieldStmt | None = last_yield(made.body)
        for i, (a, r) in enumerate(zip(made.iter_args, s.return_vars, strict=True)):
            self._joined(r, [a, *(y.value[i : i + 1] if y is not None else ())], s)
        return made

    def _joined(self, v: Var, values: Iterable[Expr], s: Stmt) -> None:
        found = {self.axes.get(e) for e in values}
        if len(found) > 1:
            what = f"'{user_name(v)}' is a half of a tile on one way and all of it on another"
            raise NotSupportedError(f"{what}: the vector lanes do not share that, as pl.split asks", s.span, "leave pl.split out")
        axis = found.pop()
        if axis is not None:
            self.axes[self.expr(v)] = axis


def _extent(e: Expr, axis: int) -> int:
    assert isinstance(e.type, TileType)
    n = const_dim(e.type.shape[axis])
    assert n is not None
    return n


def _with(t: MakeTuple, i: int, e: Expr) -> MakeTuple:
    return MakeTuple((*t.elements[:i], e, *t.elements[i + 1 :]))

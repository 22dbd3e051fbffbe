"""Conversion of one kernel's body from tensors to tiles.

In: a kernel whose tensor values are either handles of global memory or computed (`flow`).  Out: computed values are
tiles; an operand in global memory is loaded where it is used; results that became tiles are stored on return.
Invariant: a handle keeps its identity: a tile made from it for one computation replaces no other reference to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.errors import CompileError, InternalError
from pypto.ir import ops
from pypto.ir.expr import Call, ConstInt, Expr, IterArg, MakeTuple, Var, const_index
from pypto.ir.layout import physical_bytes
from pypto.ir.opdef import FROM_TARGET, OpDef, OpRejected
from pypto.ir.program import Function
from pypto.ir.shaped import TensorType, TileType, as_dims
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, IfStmt, ReturnStmt, Stmt, WhileStmt, YieldStmt, seq
from pypto.ir.types import ScalarType, Type
from pypto.ir.verify.ssa import user_name
from pypto.passes.convert_tensor_to_tile_ops.boxing import ACCUMULATORS, Box, boxed_shape
from pypto.passes.convert_tensor_to_tile_ops.bridges import Spaces, bridges_of
from pypto.passes.convert_tensor_to_tile_ops.compact import is_compact
from pypto.passes.convert_tensor_to_tile_ops.flow import GmFlow
from pypto.passes.convert_tensor_to_tile_ops.outputs import AddedOutput
from pypto.passes.convert_tensor_to_tile_ops.products import ProductConverter
from pypto.passes.memory.spaces import demanded_spaces, keeps_rows, keeps_space, staging_space
from pypto.passes.retype import refused
from pypto.passes.statements import statements
from pypto.target import Chip

__all__ = ["BodyConverter", "operand_spaces"]


def operand_spaces(flow: GmFlow, c: Call) -> tuple[Spaces, ...] | None:
    """The memory constraints of the tile operator that a tensor operator turns into, operand by operand."""
    op = ops.of(c)
    if op is None:
        return None
    if op.level != "tensor":
        return op.spaces
    if op.reuses is not None and op.channel is not None and flow.is_gm(c.args[op.reuses]):
        # A write into global memory: its source is what a store takes.
        store = ops.get("tile.store")
        return (None, *(store.spaces or ())[:1])
    return bridges_of(op)


_Bridge = tuple[Var, MemorySpace | None, Box | None]


class BodyConverter(ProductConverter):
    """Implements `opdef.Lower` for the operators' own rules."""

    def __init__(self, f: Function, flow: GmFlow, shared: frozenset[Var], chip: Chip, cache: Mapping[Var, int]) -> None:
        super().__init__(f)
        self.f, self.flow, self.shared, self.chip, self.cache = f, flow, shared, chip, cache
        self.demand = demanded_spaces(f.body, lambda c: operand_spaces(flow, c), _vector_values(f, flow))
        self.entry: list[Stmt] = []  # loads that the whole kernel shares
        self.entry_tiles: dict[_Bridge, Var] = {}
        self.local_tiles: dict[_Bridge, Var] = {}  # loads made for the statement being converted
        self.defined: dict[Var, Expr] = {}  # what the variables made here are bound to
        self.receivers: list[tuple[Var, ...]] = []  # what the yields of the enclosing statements become
        self.added: list[AddedOutput] = []

    def function(self, f: Function) -> Function:
        body = self.body(f.body)
        return f.replace(body=seq([*self.entry, body], f.body.span) if self.entry else body)

    # -- the protocol of operators --

    def is_tensor(self, e: Expr) -> bool:
        return isinstance(e.type, TensorType)

    def tile(self, e: Expr) -> Expr:
        """The operand as a tile: itself, the load that the kernel shares, or a load made here."""
        if not isinstance(e.type, TensorType):
            return self.as_computed_with(e)
        if not isinstance(e, Var):
            raise InternalError(f"{self.f.name}: {e!r} is no handle of a tensor")
        key = (e, self.wanted, self.box)
        if e in self.shared:
            known = self.entry_tiles.get(key)
            if known is None:
                outer, self.out = self.out, self.entry
                known = self.entry_tiles[key] = self._load(e, e.type, self.wanted)
                self.out = outer
            return known
        if key not in self.local_tiles:
            self.local_tiles[key] = self._load(e, e.type, self.wanted)
        return self.local_tiles[key]

    def emit(self, name: str, args: Iterable[Expr], kwargs: Mapping[str, Any] | None = None, hint: str = "") -> Var:
        named = dict(kwargs or {})
        values = tuple(args)
        op = ops.get(name)
        if not hint and op.out_space == FROM_TARGET and "target_memory" not in named:
            space = staging_space(self.demand.get(self.binding)) if self.binding is not None else None
            if space is not None:
                named["target_memory"] = space
        if name == "tile.load":
            self._add_cache(values[0], named)
            values = self.boxed_load(values, hint)
        elif name == "tile.reshape" and not hint:
            values = self.boxed_relabel(values)
        elif name == "tile.create" and self.binding is not None and self.demand.get(self.binding) in ACCUMULATORS:
            named["target_memory"] = self.demand[self.binding]
            if len(values[0].elements) == 2:  # type: ignore[attr-defined]
                return self.accumulator(values, named)
        if not hint:
            hint = f"{self.binding.name_hint}_tile" if self.binding is not None else "t"
        return super().emit(name, values, named, hint)

    def allowed(self, call: Call, i: int) -> tuple[MemorySpace, ...] | None:
        spaces = operand_spaces(self.flow, call) or ()
        return spaces[i] if i < len(spaces) else None

    def compact(self, e: Expr) -> Expr:
        made = self.tile(e)
        t = made.type
        assert isinstance(t, TileType)
        if is_compact(made, self.defined):
            return made
        if not t.dtype.is_float():
            # The copy of a window is not available for integers.
            return self.emit("tile.adds", (made, ConstInt(0, t.dtype)), None, "compact")
        where = {"target_memory": MemorySpace.Vec}
        if len(t.shape) != 2:
            return self.emit("tile.move", (made,), where, "compact")
        zero = const_index(0)
        return self.emit("tile.extract", (made, zero, zero, MakeTuple(t.shape)), where, "compact")

    def loop(self, stop: Expr, initial: Expr, body: Callable[[Expr, Expr], Expr]) -> Var:
        hint = initial.name_hint if isinstance(initial, Var) else "carried"
        counter, carried = Var("i", ScalarType.of(DataType.INDEX), self.span), IterArg(hint, initial.type, initial, self.span)
        outer, self.out = self.out, []
        made = body(counter, carried)
        stmts, self.out = [*self.out, YieldStmt((made,), self.span)], outer
        result = Var(hint, initial.type, self.span)
        bounds = const_index(0), stop, const_index(1)
        self.out.append(ForStmt(counter, *bounds, (carried,), seq(stmts, self.span), (result,), self.span))
        return result

    def let(self, hint: str, value: Expr, type: Type | None = None) -> Var:
        made = super().let(hint, value, type)
        self.defined[made] = value
        return made

    # -- loads --

    def _load(self, e: Var, t: TensorType, space: MemorySpace | None) -> Var:
        self._check_fits(e, t, space)
        zeros = MakeTuple(const_index(0) for _ in t.shape)
        kwargs = {"target_memory": space} if space is not None else {}
        shape = boxed_shape(t.shape, self.box)
        return self.emit("tile.load", (e, zeros, MakeTuple(shape), MakeTuple(t.valid)), kwargs, f"{e.name_hint}_tile")

    def _check_fits(self, e: Var, t: TensorType, space: MemorySpace | None) -> None:
        where = space or MemorySpace.Vec
        limit = self.chip.capacity.get(where, 0)
        if t.dims is None:
            raise CompileError(
                f"'{user_name(e)}' is used as a whole, but its shape is known only at run time",
                self.span,
                f"work on windows of a fixed shape in a loop: {_window(user_name(e), len(t.shape))}",
                code="C021",
            )
        size = physical_bytes(t.dtype, t.dims)
        if size > limit and not self.in_pieces:
            raise CompileError(
                f"'{user_name(e)}' is used as a whole: {size} bytes, but {where.name} memory holds {limit} bytes",
                self.span,
                f"work on windows of it in a loop: {_window(user_name(e), len(t.shape))}",
                code="C020",
            )

    def _add_cache(self, source: Expr, named: dict[str, Any]) -> None:
        roots = self.flow.roots.get(source, frozenset()) if isinstance(source, Var) else frozenset()
        policies = {self.cache[r] for r in roots if r in self.cache}
        if len(policies) == 1 and "cache" not in named:
            named["cache"] = policies.pop()

    # -- statements --

    def statement(self, s: Stmt) -> None:
        outer, self.local_tiles = self.local_tiles, {}
        before = len(self.out)
        super().statement(s)
        self.defined.update((d.var, d.value) for d in self.out[before:] if isinstance(d, AssignStmt))
        self.local_tiles = outer

    def visit_assign_stmt(self, s: AssignStmt) -> Any:
        v = s.value
        if isinstance(v, Var) and isinstance(v.type, TensorType):
            self.vars[s.var] = self.visit(v)
            return None
        op = ops.of(v) if isinstance(v, Call) else None
        if op is None or (op.level != "tensor" and op.to_tile is None):
            return super().visit_assign_stmt(s)
        assert isinstance(v, Call)
        return self._bind(s, self.convert(op, v, s.var))

    def _bind(self, s: AssignStmt, made: Expr) -> Any:
        """`s.var` is what its operator was converted to; scalars keep their variable, others take the new one."""
        last = self.out[-1] if self.out else None
        if isinstance(last, AssignStmt) and last.var is made and made.type == s.var.type:
            # An operator that stays what it was leaves its statement as it was.
            self.out[-1] = s if _repeats(last.value, s.value) else last.replace(var=s.var)
            return None
        if isinstance(s.var.type, (TensorType, TileType)):
            self.vars[s.var] = made
            return None
        return s.replace(value=made)

    def visit_eval_stmt(self, s: EvalStmt) -> Any:
        op = ops.of(s.expr) if isinstance(s.expr, Call) else None
        if op is None or op.level != "tensor":
            return self.rebuild(s)
        assert isinstance(s.expr, Call)
        made = self.convert(op, s.expr, None)
        last = self.out[-1] if self.out else None
        if isinstance(last, AssignStmt) and last.var is made and isinstance(last.value, Call):
            self.out[-1] = s if _repeats(last.value, s.expr) else s.replace(expr=last.value)
        return None

    def convert(self, op: OpDef, c: Call, var: Var | None) -> Expr:
        """What a tensor operator becomes."""
        args = tuple(self.visit(a) for a in c.args)
        outer, self.binding = self.binding, var
        spaces = operand_spaces(self.flow, c) or ()
        self.wanted = next((staging_space(s[0]) for s in spaces if s), None)
        if self.wanted is None and var is not None and keeps_space(op) and keeps_rows(c):
            self.wanted = staging_space(self.demand.get(var))
        try:
            made = op.to_tile(self, c, args) if op.to_tile is not None else self._same_concept(op, c, args)
        except OpRejected as e:
            raise refused(op, e, c.span) from None
        self.binding, self.wanted = outer, None
        return made

    def _same_concept(self, op: OpDef, c: Call, args: tuple[Expr, ...]) -> Expr:
        name = "tile." + op.concept
        tile = ops.find(name)
        if tile is None:
            raise CompileError(
                f"{op.name} has no form on tiles", c.span, "use it outside the kernel, on tensors in global memory", code="C022"
            )
        if op.concept == "reshape":
            same = self.relabelled(c, args)
            if same is not None:
                return same
        operands = []
        for i, a in enumerate(args):
            allowed = tile.spaces[i] if tile.spaces is not None and i < len(tile.spaces) else None
            if allowed:
                self.wanted = staging_space(allowed[0])
            elif self.binding is not None and keeps_rows(c):
                self.wanted = staging_space(self.demand.get(self.binding))
            operands.append(self.tile(a))
        return self.emit(name, operands, c.kwargs)

    def visit_call(self, c: Call) -> Expr:
        if c.op.name != "tile.load" or not self.cache:
            return super().visit_call(c)
        made = super().visit_call(c)
        assert isinstance(made, Call)
        named = dict(made.kwargs)
        self._add_cache(made.args[0], named)
        return made if len(named) == len(made.kwargs) else self.recall(made, made.args, named)

    # -- control flow: results and carries that became tiles --

    def _becomes_tile(self, v: Var) -> bool:
        return isinstance(v.type, TensorType) and not self.flow.is_gm(v)

    def _bridge(self, e: Expr, result: Var) -> Expr:
        if e in self.products and self.demand.get(result) in ACCUMULATORS:
            return e  # sums stay where they are added up
        self.wanted = staging_space(self.demand.get(result)) or MemorySpace.Vec
        made = self.tile(e)
        self.wanted = None
        return made

    def visit_if_stmt(self, s: IfStmt) -> Stmt:
        return self._with_yields(s.return_vars, lambda: super(BodyConverter, self).visit_if_stmt(s))

    def visit_for_stmt(self, s: ForStmt) -> Stmt:
        return self._with_yields(s.iter_args, lambda: super(BodyConverter, self).visit_for_stmt(s))

    def visit_while_stmt(self, s: WhileStmt) -> Stmt:
        return self._with_yields(s.iter_args, lambda: super(BodyConverter, self).visit_while_stmt(s))

    def _with_yields(self, results: tuple[Var, ...], visit: Any) -> Stmt:
        self.receivers.append(results)
        made: Stmt = visit()
        self.receivers.pop()
        return made

    def results(self, results: tuple[Var, ...], old_body: Stmt, new_body: Stmt) -> tuple[Var, ...]:
        """A product that comes out of a loop or a branch still stands for its tensor."""
        made = super().results(results, old_body, new_body)
        for old, new in zip(results, made, strict=True):
            if isinstance(old.type, TensorType) and isinstance(new.type, TileType) and new.type.memory_space in ACCUMULATORS:
                self.narrowed(new, old.type)
        return made

    def carried(self, iter_args: tuple[IterArg, ...]) -> tuple[IterArg, ...]:
        made = []
        for a in iter_args:
            init = self.expr(a.initValue)
            if self._becomes_tile(a):
                init = self._bridge(init, a)
            if init is not a.initValue:
                new = IterArg(a.name_hint, init.type, init, a.span)
                self.vars[a] = new
                a = new
            made.append(a)
        return iter_args if all(x is y for x, y in zip(made, iter_args, strict=True)) else tuple(made)

    def visit_yield_stmt(self, s: YieldStmt) -> Any:
        results = self.receivers[-1] if self.receivers else ()
        values = []
        for i, e in enumerate(s.value):
            made = self.expr(e)
            if i < len(results) and self._becomes_tile(results[i]):
                made = self._bridge(made, results[i])
            values.append(made)
        return s if all(a is b for a, b in zip(values, s.value, strict=True)) else s.replace(value=tuple(values))

    # -- results of the kernel --

    def visit_return_stmt(self, s: ReturnStmt) -> Any:
        values = []
        for i, e in enumerate(s.value):
            made = self.expr(e)
            t = e.type
            if isinstance(t, TensorType) and isinstance(made.type, TileType):
                made = self._store_result(i, made, t)
            values.append(made)
        return s if all(a is b for a, b in zip(values, s.value, strict=True)) else s.replace(value=tuple(values))

    def _store_result(self, i: int, tile: Expr, t: TensorType) -> Expr:
        known = [a.param for a in self.added if a.result == i]
        if known:
            param = known[0]
        else:
            param = Var(f"ret{i}_out", t.replace(memref=None), self.span)
            self.added.append(AddedOutput(i, param))
        zeros = MakeTuple(as_dims([0] * len(t.shape)))
        return self.emit("tile.store", (tile, zeros, param), None, f"ret{i}_store")


def _repeats(new: Expr, old: Expr) -> bool:
    """Whether a call is the same operator on the same operands."""
    if not isinstance(new, Call) or not isinstance(old, Call) or new.op.name != old.op.name:
        return False
    return (
        len(new.args) == len(old.args)
        and all(a is b for a, b in zip(new.args, old.args, strict=True))
        and new.kwargs == old.kwargs
    )


def _vector_values(f: Function, flow: GmFlow) -> list[Var]:
    """Values that the vector unit handles unless a consumer says otherwise: results, carries, branch results."""
    found: list[Var] = []
    for n in statements(f.body):
        if isinstance(n, ReturnStmt):
            found += [v for v in n.value if isinstance(v, Var)]
        elif isinstance(n, (ForStmt, WhileStmt)):
            found += [*n.iter_args, *n.return_vars]
        elif isinstance(n, IfStmt):
            found += n.return_vars
    return [v for v in found if isinstance(v.type, TensorType) and not flow.is_gm(v)]


def _window(name: str, rank: int) -> str:
    """A window of a tensor in a loop, and what becomes of it."""
    if rank != 2:
        return f"t = pl.slice({name}, [<extents>], [<offsets>], clamp=True), and pl.assemble(out, ..., [<offsets>])"
    return f"t = pl.slice({name}, [<rows>, <cols>], [i * <rows>, 0], clamp=True), and pl.assemble(out, ..., [i * <rows>, 0])"

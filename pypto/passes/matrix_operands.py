"""Where the pieces of a product's operands come from.

In: the operands of products that are made of pieces.  Out: for each a source of windows in Left or Right memory: the tile
in Mat memory, or, where the tiles of a kernel do not fit Mat memory together, the tensor it was loaded from, window by window.
Invariant: a tensor is read again only if nothing in the kernel writes it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pypto.enums import ArgEffect, MemorySpace
from pypto.errors import CompileError
from pypto.ir import arith, ops
from pypto.ir.expr import Call, Expr, MakeTuple, Var
from pypto.ir.layout import physical_bytes
from pypto.ir.opdef import Special
from pypto.ir.program import Function
from pypto.ir.shaped import TileType, as_dims, const_dims
from pypto.ir.stmt import AssignStmt, Stmt
from pypto.ir.verify.ssa import user_name
from pypto.named import NamedTuple
from pypto.passes.convert_tensor_to_tile_ops.flow import accesses, analyze
from pypto.passes.retype import used_vars
from pypto.passes.ssa_rewriter import SSARewriter
from pypto.passes.statements import statements
from pypto.target import Chip

__all__ = ["Source", "Sources", "Written", "dropped_unused"]

MAT = MemorySpace.Mat
Pair = tuple[Expr, Expr]


class Source(NamedTuple):
    """An operand: a tile, or (with `load`) the transfer that makes it, read transposed where `turned`."""

    tile: Expr
    load: Call | None = None
    turned: bool = False

    def window(self, lo: SSARewriter, at: Pair, extent: tuple[int, int], valid: Pair, space: MemorySpace) -> Expr:
        """The window in `space`, emitted before the current statement."""
        if self.load is None:
            args = (self.tile, *at, MakeTuple(as_dims(extent)))
            return lo.valid_as(lo.emit("tile.extract", args, {"target_memory": space}, space.name.lower()), valid)
        c = self.load
        if self.turned:
            at, extent, valid = at[::-1], extent[::-1], valid[::-1]
        offsets = c.args[1].elements  # type: ignore[attr-defined]
        where = MakeTuple(arith.add(o, d) for o, d in zip(offsets, at, strict=True))
        args = (c.args[0], where, MakeTuple(as_dims(extent)), MakeTuple(valid))
        made = lo.emit("tile.load", args, {**c.kwargs, "target_memory": MAT}, "piece")
        if self.turned:
            made = lo.emit("tile.transpose_view", (made,), None, "turned")
        return lo.emit("tile.move", (made,), {"target_memory": space}, space.name.lower())


class Written:
    """The tensors that a kernel writes."""

    def __init__(self, f: Function) -> None:
        flow = analyze(f)
        self.roots = flow.roots
        found = (a for a in accesses(f, flow, lambda name: None) if a.effect is not ArgEffect.Read)
        self.tensors = frozenset(r for a in found for r in a.roots)

    def can_repeat(self, c: Call) -> bool:
        """Whether a load may be made again later, or in parts."""
        if c.op.name != "tile.load" or c.kwargs.get("clamp"):
            return False
        tensor = c.args[0]
        return isinstance(tensor, Var) and not self.roots.get(tensor, frozenset((tensor,))) & self.tensors


class Sources:
    """The operands of one kernel."""

    def __init__(self, f: Function, chip: Chip, operands: Iterable[Expr]) -> None:
        self.made = {s.var: s.value for s in statements(f.body) if isinstance(s, AssignStmt) and isinstance(s.value, Call)}
        self.operands = dict.fromkeys(e for e in operands if isinstance(e, Var))
        self.capacity = chip.capacity[MAT]
        self.replaced: set[Var] = set()  # what makes operands that are read window by window
        self.written = Written(f)
        self.again = self._too_many()

    def _too_many(self) -> bool:
        """Whether the tiles in Mat memory may not fit together."""
        total = 0
        for v, c in self.made.items():
            op, t = ops.of(c), v.type
            makes = op is not None and isinstance(op.semantics, Special) and op.semantics.kind != "view"
            if makes and isinstance(t, TileType) and t.memory_space is MAT:
                dims = const_dims(t.shape)
                total += physical_bytes(t.dtype, dims) if dims is not None else 0
        return total > self.capacity

    def of(self, lo: SSARewriter, e: Expr) -> Source:
        """The source of windows of an operand, at the current statement."""
        load, turned = self._load(e)
        if load is not None and self.again:
            self._replace(e)
            return Source(e, load.replace(args=tuple(lo.expr(a) for a in load.args)), turned)
        made = lo.expr(e)
        assert isinstance(made.type, TileType)
        self._check_fits(made, made.type, lo)
        if made.type.memory_space is not MAT:
            made = lo.emit("tile.move", (made,), {"target_memory": MAT}, "mat")
        return Source(made)

    def _check_fits(self, e: Expr, t: TileType, lo: SSARewriter) -> None:
        dims, limit = const_dims(t.shape), self.capacity
        size = physical_bytes(t.dtype, dims) if dims is not None else 0
        if size > limit:
            name = user_name(e) if isinstance(e, Var) else "an operand"
            raise CompileError(
                f"'{name}' ({list(dims or ())} of {t.dtype}) needs {size} bytes of Mat memory, which holds {limit} bytes, "
                "and its tensor cannot be read piece by piece: the kernel writes it, or reads it in another form",
                lo.span,
                "multiply windows of it in a loop, with pl.matmul_acc; or write the result to another tensor",
                code="C055",
            )

    def _replace(self, e: Expr) -> None:
        while isinstance(e, Var) and e in self.made:
            self.replaced.add(e)
            e = self.made[e].args[0]

    def _load(self, e: Expr) -> tuple[Call | None, bool]:
        """The transfer that makes an operand, if its windows can be transferred on their own."""
        turned = False
        while isinstance(e, Var) and e in self.made:
            c = self.made[e]
            if c.op.name == "tile.transpose_view":
                e, turned = c.args[0], not turned
                continue
            two = isinstance(e.type, TileType) and len(e.type.shape) == 2
            return (c if two and self.written.can_repeat(c) else None), turned
        return None, False


class _Unused(SSARewriter):
    """Drops what made operands that are read window by window, as far as nothing else reads it."""

    def __init__(self, replaced: set[Var], used: dict[Var, None]) -> None:
        super().__init__()
        self.replaced, self.used = replaced, used

    def visit_assign_stmt(self, s: AssignStmt) -> Stmt | None:
        return None if s.var in self.replaced and s.var not in self.used else s


def dropped_unused(f: Function, replaced: set[Var]) -> Function:
    """The kernel without the loads in `replaced` that nothing reads any more."""
    while True:
        made = _Unused(replaced, used_vars(f.body)).function(f)
        if made is f:
            return f
        f = made

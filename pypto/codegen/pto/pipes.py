"""Pipes between the cores as `.pto` text: one operator, one operation.

In: functions of one core with pipes.  Out: their text.  A popped tile lies in its slot: it has a handle that no `alloc_tile`
makes, and what its memref says is of no meaning in the text.
Invariant: nothing that is written through a memref reads or changes a slot.
"""

from __future__ import annotations

from collections.abc import Sequence

from pypto.codegen.pto.from_tile_indexed import TileText
from pypto.codegen.pto.function import symbol
from pypto.codegen.pto.text import Value
from pypto.codegen.pto.types import descriptor, element, matrix_valid, tile_buf
from pypto.enums import FunctionType, MemorySpace
from pypto.errors import NotSupportedError
from pypto.ir import arith
from pypto.ir.expr import Call, Expr, Var, const_index
from pypto.ir.layout import implicit_layout
from pypto.ir.opdef import OpDef
from pypto.ir.ops.pipes import PIPE
from pypto.ir.program import Function
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType, TileType, const_dim
from pypto.ir.stmt import AssignStmt
from pypto.ir.verify.pipe_ends import kind_of_pipe, pipe_use
from pypto.ir.verify.scopes import statements
from pypto.ir.verify.ssa import user_name
from pypto.span import Span

__all__ = ["PipeText"]

_OWN = "copy it into a tile of its own first: pl.move(t, target_memory=pl.Mem.Vec)"
_GM = "give initialize_pipe gm_slot_buffer=, a pl.Out tensor that both functions get, or compile for the platform a5"
_ROWS = "make it a matrix with a row for each block, as long as all slots of the pipe: pl.Tensor[[blocks, elements], pl.FP32]"
_BOXED = "move it first: pl.move(t, target_memory=pl.Mem.Vec, blayout=pl.TileLayout.col_major, slayout=pl.TileLayout.row_major)"
_MAT = implicit_layout(MemorySpace.Mat, (None, None))


class PipeText(TileText):
    """Writes a function of the tile stage, its pipes included; `blocks`: how many run beside each other, 0 if a run decides."""

    def __init__(self, f: Function, arch: str, locations: bool, addressed: bool, blocks: int = 1) -> None:
        super().__init__(f, arch, locations, addressed)
        self.blocks = blocks

    def queries(self) -> set[str]:
        by_rows = any(kind_of_pipe(c) == PIPE and _by_rows(c) for c in walk(self.f.body) if isinstance(c, Call))
        return super().queries() | ({"get_block_idx"} if by_rows else set())

    def joined(self, v: Var, values: Sequence[Expr]) -> None:
        if isinstance(v.type, TileType) and any(e in self.handles.elsewhere for e in values):
            what = f"'{user_name(v)}' is handed on by control flow and may lie in the slot of a pipe: that has no .pto form"
            raise NotSupportedError(what, v.span, _OWN)
        super().joined(v, values)

    # -- the ends --

    def on_slot_buffer(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        assert var is not None
        made = self._define(var)
        name = f'name = "{c.kwargs["name"]}"'
        if op.pto == "import_reserved_buffer":
            peer = symbol(c.kwargs["peer_func"])
            self.text.op(f"{made.name} = pto.import_reserved_buffer {{{name}, peer_func = @{peer}}} -> {made.type}", span)
            return
        location = "mat" if self.f.func_type is FunctionType.AIC else "vec"
        place = "auto = true"
        if self.handles.addressed:
            base = c.kwargs.get("base", -1)
            if base < 0:
                raise NotSupportedError(f"slot buffer {c.kwargs['name']} has no address", span, "lower the program first")
            place = f"auto = false, base = {base}"
        words = f"{name}, size = {c.kwargs['size']}, location = #pto.address_space<{location}>, {place}"
        self.text.op(f"{made.name} = pto.reserve_buffer {{{words}}} -> {made.type}", span)

    def on_initialize_pipe(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        names = ("c2v_consumer_buf", "v2c_consumer_buf")
        given = [(n, self.value(e)) for n, e in zip(names, c.args, strict=False)]
        if len(c.args) > 2:
            given.insert(0, ("gm_slot_buffer", self._own_row(c, span)))
        elif self.arch == "a2a3":
            raise NotSupportedError("the cores of a2a3 pass tiles through global memory, and this pipe has none", span, _GM)
        words = [f"id = {c.kwargs['id']}"] if c.kwargs.get("id") else []
        words += [f"dir_mask = {c.kwargs['dir_mask']}", f"slot_size = {c.kwargs['slot_size']}"]
        listed = ", ".join(f"{n} = {v.name} : {v.type}" for n, v in given)
        self.text.op(f"pto.{op.pto} {{{', '.join(words)}}} ({listed})", span)

    def _own_row(self, c: Call, span: Span) -> Value:
        """The global memory of a block's pipe: a row of a matrix; otherwise all of a tensor, which one block has for itself."""
        p = self.tensor(c.args[2])
        t = p.type
        assert isinstance(t, TensorType)
        if not _by_rows(c):
            if self.blocks != 1:
                what = f"several blocks run '{self.f.name}' beside each other and pass tiles through one memory, '{p.name_hint}'"
                raise NotSupportedError(what, span, _ROWS)
            return self.pointers[p]
        rows, cols = (const_dim(d) for d in t.shape)
        if cols is None or (rows is not None and rows < self.blocks) or cols * t.dtype.get_byte() < self._slot_bytes(c):
            what = f"'{p.name_hint}' has no row for each block with room for all slots of the pipe"
            raise NotSupportedError(what, span, _ROWS)
        hidden, pointer = self.hidden["get_block_idx"], self.pointers[p]
        block = self.let(f"arith.index_cast {hidden.name} : {hidden.type} to index", "index")
        begin = self.let(f"arith.muli {block.name}, {self.text.index(cols)} : index", "index")
        kind = f"<{element(t.dtype)}>"
        return self.let(f"pto.addptr {pointer.name}, {begin.name} : {kind} -> {kind}", pointer.type)

    def _slot_bytes(self, c: Call) -> int:
        """Of the slots that this core reserves for a pipe, or one for each direction whose slots the other core reserves."""
        reserved = {s.var: s.value for s in statements(self.f.body) if isinstance(s, AssignStmt) and isinstance(s.value, Call)}
        bits = [e for e, bit in zip(c.args[:2], (1, 2), strict=True) if c.kwargs["dir_mask"] & bit]
        sizes = (reserved[e].kwargs.get("size") if isinstance(e, Var) and e in reserved else None for e in bits)
        return sum(c.kwargs["slot_size"] if n is None else n for n in sizes)

    # -- transfers --

    def on_push(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        e = c.args[0]
        source, extents = self._passed(e)
        if source.memory_space is MemorySpace.Vec:
            self._check_layout(source, span)
        tile = self.handles.tile(e, span) if extents is None else self.handles.narrowed(e, extents, False, span)
        self.on_unit(("cube" if source.memory_space is MemorySpace.Acc else "vector",), span)
        self.text.op(f"pto.{op.pto}({tile.name} : {tile.type}) {_sharing(c, c)}", span)

    def _check_layout(self, t: TileType, span: Span) -> None:
        """What the vector core gives lies as it is copied: into Mat memory as there, into global memory row by row."""
        if self.arch == "a5" and t.layout != _MAT:
            what = "the vector core of a5 copies tiles into the cube core's memory as they lie, and there they lie in boxes"
            raise NotSupportedError(what, span, _BOXED)
        if self.arch == "a2a3" and not t.layout.is_flat:
            what = "the vector core of a2a3 copies tiles into global memory row by row, and this one lies in boxes"
            raise NotSupportedError(what, span, "push it in its own layout: drop the move with blayout and slayout")

    def on_pop(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        assert var is not None
        t, extents = self._passed(var)
        d, given = descriptor(t), ""
        if -1 in d.valid_shape:
            d = d.replace(valid_shape=(-1, -1))
            given = f"({', '.join(self.index(n) for n in extents or matrix_valid(t))})"
        made = Value(self.text.named(var.name_hint), tile_buf(d), d)
        self.on_unit(("vector" if t.memory_space is MemorySpace.Vec else "cube",), span)
        self.text.op(f"{made.name} = pto.{op.pto}{given} {_sharing(c, c)} -> {made.type}", span)
        self.handles.popped(var, made, None if extents is None else (descriptor(t), matrix_valid(t)))

    def _passed(self, e: Expr) -> tuple[TileType, tuple[Expr, Expr] | None]:
        """A tile, and how much of it is passed if nothing of it may be valid: something, for tiles are counted.

        A tile of which nothing is ever valid is passed as it is: it is there for the count alone.
        """
        t = e.type
        assert isinstance(t, TileType)
        rows, cols = matrix_valid(t)
        if (const_dim(rows), const_dim(cols)) == (0, 0) or (self.surely_positive(rows) and self.surely_positive(cols)):
            return t, None
        one = const_index(1)
        return t, (arith.maximum(rows, one), arith.maximum(cols, one))

    def on_free(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        use = pipe_use(self.f)
        pops = {} if use is None else {t.var: t.call for t in use.transfers if t.kind == "pop"}
        source = c.args[0]
        pop = pops.get(source) if isinstance(source, Var) else None
        if pop is None:
            raise NotSupportedError(
                f"{op.name} of a tile that no pop gave has no .pto form", span, "free it under its first name"
            )
        self.text.op(f"pto.{op.pto} {_sharing(c, pop)}", span)


def _by_rows(c: Call) -> bool:
    """Whether the global memory that a pipe is given is a matrix, of which each block has a row."""
    t = c.args[2].type if len(c.args) > 2 else None
    return isinstance(t, TensorType) and len(t.shape) == 2


def _sharing(c: Call, pop: Call) -> str:
    """`{id = 1, split = 0}`: a free without them is the pop's."""
    number = c.kwargs.get("id", 0) or pop.kwargs.get("id", 0)
    split = c.kwargs.get("split", pop.kwargs.get("split", 0))
    return f"{{{f'id = {number}, ' if number else ''}split = {split}}}"

"""Tile-stage operators that read and write by index, make sequences, or sort, as `.pto` text."""

from __future__ import annotations

from pypto.codegen.pto.from_tile import TileOperations, elements_of, pair
from pypto.codegen.pto.text import Value
from pypto.dtypes import DataType
from pypto.errors import NotSupportedError
from pypto.ir import arith
from pypto.ir.expr import Call, Expr, Var, const_index
from pypto.ir.opdef import OpDef
from pypto.ir.ops.counter_random import WORDS
from pypto.ir.ops.gathers import COALESCE, OOB
from pypto.ir.ops.paging import row_place
from pypto.ir.scalar import dtype_of
from pypto.ir.shaped import TensorType, TileType, const_dim, const_dims
from pypto.ir.types import ScalarType
from pypto.ir.verify.ssa import user_name
from pypto.span import Span

__all__ = ["TileText"]

_PATTERNS = {1: "P0101", 2: "P1010", 3: "P0001", 4: "P0010", 5: "P0100", 6: "P1000", 7: "P1111"}
_EXHAUSTED = "vector<4xi16>"
_GATHER_ALL = (
    "pl.gather(x, index=...), without dim, counts over all elements of x: in row i and column j that is i * x.shape[1] + index "
    "for dim=1, and index * x.shape[1] + j for dim=0; make it outside of the kernel"
)
_SCATTER_ALL = "pl.tile.scatter(dst, src, indexes) counts over all elements of dst: row * dst.shape[1] + column"


class TileText(TileOperations):
    """Writes a function of the tile stage."""

    # -- tiles made out of numbers, and whole tiles in another order --

    def on_sequence(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        descending = str(bool(c.kwargs.get("descending"))).lower()
        self.write(op, c.args[:1], var, c, span, f"{{descending = {descending}}}")

    def on_random(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        self.write(op, c.args[: len(WORDS)], var, c, span, f"{{rounds = {c.kwargs.get('rounds', 10)} : i32}}")

    def on_triangle(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        assert var is not None
        out, diagonal = self.handles.define(var, span), self.value(c.args[0])
        side = int(bool(c.kwargs.get("upper")))
        diagonal = self.cast(diagonal, dtype_of(c.args[0]), DataType.INT32, c.args[0])
        self.on_unit(("vector",), span)
        with self.guarded((var,)):
            self.text.op(
                f'"pto.ttri"({diagonal.name}, {out.name}) {{upperOrLower = {side} : i32}} : ({diagonal.type}, {out.type}) -> ()',
                span,
            )

    def on_transpose(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        if len(c.args) < 4:
            raise NotSupportedError(f"{op.name} without a scratch tile has no .pto form", span, "transpose with tmp=")
        self.write(op, (c.args[0], c.args[3]), var, c, span)

    # -- gather and scatter --

    def on_gather(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        if "dim" in c.kwargs:
            raise NotSupportedError(f"{op.name} along an axis has no .pto instruction", span, _GATHER_ALL)
        self.write(op, c.args, var, c, span)

    def on_gather_mask(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        assert var is not None
        t = c.args[0].type
        assert isinstance(t, TileType)
        if c.kwargs.get("output_dtype", t.dtype) is not t.dtype:
            raise NotSupportedError(f"{op.name} into another element type has no .pto form", span, "gather, then relabel")
        out = self.handles.define(var, span)
        pattern = f"{{maskPattern = #pto.mask_pattern<{_PATTERNS[c.kwargs['mask_pattern']]}>}}"
        with self.guarded((var, c.args[0])):
            source = self.handles.tile(c.args[0], span)
            self._check(op.pto, [source], [out], span)
            self.text.op(f'pto.{op.pto} ins({source.name}, {pattern} : {source.type}, "row") outs({out.name} : {out.type})', span)

    def on_scatter(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        """All of the destination that is not hit is undefined: the instruction does not read it."""
        if "dim" in c.kwargs:
            raise NotSupportedError(f"{op.name} along an axis has no .pto instruction", span, _SCATTER_ALL)
        assert var is not None
        out = self.begin_as(var, c.args[0], span)
        with self.guarded((c.args[1], c.args[2])):
            self.instruction(op.pto, [self.handles.tile(c.args[i], span) for i in (1, 2)], [out], span)

    def on_mgather(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        assert var is not None
        out = self.handles.define(var, span)
        words = [f"coalesce = #pto<coalesce {COALESCE[c.kwargs['coalesce']]}>"]
        if c.kwargs.get("gather_oob"):
            words.append(f"gatherOob = #pto<gather_oob {OOB[c.kwargs['gather_oob']]}>")
        with self.guarded((var,)):
            window = self._all_of(c.args[0], span)
            self.instruction(op.pto, [window, self.handles.tile(c.args[1], span)], [out], span, after=f"{{{', '.join(words)}}}")

    def on_mscatter(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        with self.guarded(c.args[:2]):
            window = self._all_of(c.args[2], span)
            ins = [self.handles.tile(c.args[i], span) for i in (0, 1)]
            self.instruction(op.pto, ins, [window], span, after="{coalesce = #pto<coalesce elem>}")
        if var is not None:
            self.tensors[var] = self.tensor(c.args[2])

    def _all_of(self, e: Expr, span: Span) -> Value:
        """A whole tensor, whose extents must be known not to be zero."""
        p = self.tensor(e)
        assert isinstance(p.type, TensorType)
        if any(const_dim(n) is None for n in p.type.shape):
            what = f"{self.doing}: '{user_name(p)}', a tensor of run-time extents that is addressed by index, has no .pto form"
            raise NotSupportedError(what, span, "give the tensor constant extents")
        return self.partition(p, [const_index(0)] * len(p.type.shape), p.type.shape)

    def on_gather_row(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        """Global memory goes straight into a window of the tile; row by row where the whole window might leave the tile."""
        assert var is not None
        t = c.args[0].type
        assert isinstance(t, TileType)
        if c.kwargs.get("transpose"):
            raise NotSupportedError(f"{op.name} with transpose=True has no .pto form in this version", span)
        out = self.begin_as(var, c.args[0], span)
        shape, at, source = elements_of(c.args[4]), pair(c.args[2]), elements_of(c.args[3])
        extents = elements_of(c.args[5]) if len(c.args) > 5 and elements_of(c.args[5]) else shape
        place = row_place(t, extents, shape)
        whole, by_row = _fits(t, place, at)
        if not whole and (not by_row or len(source) != 2):
            what = f"{op.name}: a window whose place in the tile is known at run time only has no .pto form here"
            raise NotSupportedError(what, span, "gather into rows that constants number, or into a tile in Vec")
        with self.unless_empty(extents):
            if whole:
                window = self.window(out, at, place, "row", span)
                self.instruction(op.pto, [self.partition(self.tensor(c.args[1]), source, extents)], [window], span)
            else:
                self._row_by_row(op, out, place, c, at, span)

    def _row_by_row(self, op: OpDef, out: Value, place: TileType, c: Call, at: tuple[Expr, Expr], span: Span) -> None:
        counter = Var("row", ScalarType(DataType.INDEX), span)
        self.values[counter] = Value(self.text.named("row"), "index")
        ends = self.text.index(0), self.index(place.valid[0]), self.text.index(1)
        self.text.raw(f"scf.for {self.values[counter].name} = {ends[0]} to {ends[1]} step {ends[2]} {{")
        one, source = const_index(1), elements_of(c.args[3])
        view = place.get_effective_tile_view().replace(valid_shape=(one, place.valid[1]))
        row = TileType((one, place.shape[1]), place.dtype, None, view, place.memory_space)
        with self.text.region():
            window = self.window(out, (arith.add(at[0], counter), at[1]), row, "line", span)
            part = self.partition(self.tensor(c.args[1]), (arith.add(source[0], counter), source[1]), (one, place.valid[1]))
            self.instruction(op.pto, [part], [window], span)
        self.text.raw("}")

    # -- sorting --

    def on_merge_runs(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        assert var is not None
        t, length = var.type, c.kwargs["block_len"]
        assert isinstance(t, TileType)
        if length % 64 or const_dim(t.shape[0]) != 1:
            what = f"{op.name}: '{op.pto}' merges one row of runs of a multiple of 64 elements"
            raise NotSupportedError(what, span, "merge row by row")
        out = self.handles.define(var, span)
        with self.guarded((var,)):
            runs = [self.handles.tile(c.args[0], span), self.text.integer(length, "i32")]
            self.instruction(op.pto, runs, [out], span)

    def on_merge_lists(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        assert var is not None
        out = self.handles.define(var, span)
        sources = [*c.args[:2], *c.args[3:], c.args[2]]
        t = var.type
        assert isinstance(t, TileType)
        self.filled([n for e in sources[:-1] if isinstance(e.type, TileType) for n in e.type.valid], t, span)
        ended = Value(self.text.zeros(_EXHAUSTED), _EXHAUSTED)
        mode = f"{{exhausted = {str(bool(c.kwargs.get('exhausted'))).lower()}}}"
        with self.guarded((var, *sources)):
            self.instruction(op.pto, [self.handles.tile(e, span) for e in sources], [out, ended], span, inside=mode)

    # -- what has no instruction --

    def _no_instruction(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        raise NotSupportedError(f"{op.name} has no .pto form in this version", span)

    on_scatter_mask = on_scatter_update = on_compare_columns = _no_instruction
    on_compare_counts = on_paged_gather = on_lane_shard = on_lane_gather = on_clone = _no_instruction


def _fits(t: TileType, place: TileType, at: tuple[Expr, Expr]) -> tuple[bool, bool]:
    """Whether a window lies within a tile whatever numbers say, and whether each of its rows does."""
    (rows, cols), sizes, (r, c) = const_dims(t.shape) or (0, 0), const_dims(place.shape) or (1, 1), map(const_dim, at)
    beside = c is not None and 0 <= c <= cols - sizes[1]
    return beside and r is not None and 0 <= r <= rows - sizes[0], beside and t.layout.is_flat

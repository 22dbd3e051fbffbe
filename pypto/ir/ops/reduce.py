"""Row and column reductions, and their arg forms.

Only the valid rectangle takes part.  The order of combination is fixed (`opdef.Reduce`), so that every executor gives
the same bits; half-precision sums and products accumulate in binary32 and round once, integers wrap in their own width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypto.dtypes import DataType
from pypto.ir.expr import Call, Expr, MakeTuple, const_index
from pypto.ir.lanes import Builder, Lane, LaneFunction, LaneProgram, lane_type, program
from pypto.ir.opdef import Dsl, DslContext, Lower, OpDef, Operand, OpRejected, Param, Reduce, Sample, Site
from pypto.ir.ops import lanefns as fn
from pypto.ir.ops.rules import (
    ARITH,
    FLOATS,
    VEC,
    D,
    R,
    check_dtype,
    level_of,
    shape_text,
    tensor_result,
    tile_result,
)
from pypto.ir.shaped import ShapedType, TileType, TileView, const_dim, const_dims
from pypto.ir.types import Type
from pypto.named import NamedTuple

__all__ = ["DSL", "OPS"]

_AXES = (("row", 1), ("col", 0))


class Row(NamedTuple):
    """A reduction: how two values combine, and the value that leaves the other unchanged."""

    name: str
    f: LaneFunction
    identity: Mapping[str, float]  # by kind of element: "f" or "i"
    doc: str
    arg: str = ""


_INF = float("inf")
# -0.0 + x is x for every x, +0.0 included; it is the only exact identity of addition.
ROWS = (
    Row("sum", fn.add, {"f": -0.0, "i": 0}, "sum"),
    Row("prod", fn.mul, {"f": 1.0, "i": 1}, "product"),
    Row("max", fn.maximum, {"f": -_INF}, "largest element; NaN if there is one"),
    Row("min", fn.minimum, {"f": _INF}, "smallest element; NaN if there is one"),
    Row("argmax", fn.maximum, {"f": -_INF}, "index of the first largest element; of the first NaN if there is one", "max"),
    Row("argmin", fn.minimum, {"f": _INF}, "index of the first smallest element; of the first NaN if there is one", "min"),
)


def _accumulator(dtype: DataType) -> str:
    return "f32" if dtype.is_float() else lane_type(dtype)


def _to(b: Builder, x: Lane, target: str) -> Lane:
    return x.to(target)


def _convert(source: str, target: str) -> LaneProgram:
    return program(_to, (source,), target, target)


def _limit(dtype: DataType, largest: bool) -> int:
    bits = dtype.get_bit()
    if dtype.is_unsigned_int():
        return (1 << bits) - 1 if largest else 0
    return (1 << (bits - 1)) - 1 if largest else -(1 << (bits - 1))


def _semantics(row: Row, axis: int) -> Reduce:
    def combine(dtype: DataType) -> LaneProgram:
        t = _accumulator(dtype)
        return program(row.f, (t, t), t)

    def identity(dtype: DataType) -> float:
        if dtype.is_float():
            return row.identity["f"]
        if "i" in row.identity:
            return row.identity["i"]
        return _limit(dtype, largest=row.identity["f"] > 0)

    return Reduce(
        axis,
        combine,
        identity,
        lambda d: _convert(lane_type(d), _accumulator(d)),
        lambda d: _convert(_accumulator(d), lane_type(d)),
        _accumulator,
        row.arg,
    )


def _infer(s: Site, axis: int, dtypes: tuple[DataType, ...], arg: bool) -> Type:
    t = s.shaped(0)
    check_dtype(s, t.dtype, dtypes)
    if len(t.shape) < 2:
        s.reject(f"reduces tensors and tiles of rank 2 or more, got {shape_text(t.shape)}", "reshape it to two dimensions first")
    at = len(t.shape) - (1 if axis == 1 else 2)
    for i, v in enumerate(t.valid):
        if const_dim(v) == 0:
            hint = "reduce a region of one element or more: give valid_shape an extent of 1 or more there"
            s.reject(f"input valid extent on axis {i} is 0: a reduction of an empty region has no value", hint)
    one = const_index(1)
    shape = (*t.shape[:at], one, *t.shape[at + 1 :])
    valid = (*t.valid[:at], one, *t.valid[at + 1 :])
    dtype = D.INT32 if arg else t.dtype
    if not isinstance(t, TileType):
        return tensor_result(shape, dtype, valid)
    if len(s) > 1:
        _check_scratch(s, t, arg)
    return tile_result(TileType(shape, dtype, None, TileView(valid, blayout=TileType(shape, dtype).layout.blayout)))


def _check_scratch(s: Site, t: TileType, exact: bool) -> None:
    tmp = s.tile(1)
    have, want = const_dims(tmp.shape), const_dims(t.shape)
    fits = have is not None and want is not None and len(have) == len(want)
    if fits and have is not None and want is not None:
        fits = have == want if exact else all(h >= w for h, w in zip(have, want, strict=True))
    if tmp.dtype is not t.dtype or not fits:
        size = "exactly" if exact else "at least"
        hint = f"pl.create_tile({shape_text(t.shape)}, dtype=pl.{t.dtype.name})"
        s.reject(f"the scratch tile must have dtype {t.dtype} and {size} the shape {shape_text(t.shape)}", hint)


def _to_tile(row: str, needs_scratch: bool) -> Any:
    def rule(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
        x = lo.tile(args[0])
        t = x.type
        assert isinstance(t, ShapedType)
        if not needs_scratch:
            return lo.emit(f"tile.{row}", (x,))
        return lo.emit(f"tile.{row}", (x, lo.emit("tile.create", (MakeTuple(t.shape),), {"dtype": t.dtype}, "tmp")))

    return rule


def _ops(row: Row, prefix: str, axis: int) -> list[OpDef]:
    name = f"{prefix}_{row.name}"
    dtypes = FLOATS if axis == 0 and row.arg else ARITH
    scratch = axis == 1 or bool(row.arg)
    semantics = _semantics(row, axis)
    where = "over the last axis" if axis == 1 else "over the axis before the last"
    common: dict[str, Any] = {
        "dtypes": dtypes,
        "doc": f"{row.doc}, {where}; the axis stays with extent 1",
        "samples": (Sample(((8, 64), (16, 80)), dtypes),),
        "in_place": False,
    }
    arg = bool(row.arg)
    tmp = Operand("tmp_tile", "tile", optional=not scratch)
    with_tmp = scratch or name == "col_sum"
    return [
        OpDef(
            f"tensor.{name}",
            (Operand("x", "tensor"),),
            lambda s: _infer(s, axis, dtypes, arg),
            semantics,
            effects=(R,),
            to_tile=_to_tile(name, scratch),
            **common,
        ),
        OpDef(
            f"tile.{name}",
            (Operand("x", "tile"), tmp) if with_tmp else (Operand("x", "tile"),),
            lambda s: _infer(s, axis, dtypes, arg),
            semantics,
            effects=(R, R) if with_tmp else (R,),
            spaces=(VEC, VEC) if with_tmp else (VEC,),
            out_space=VEC[0],
            no_alias=(1,) if with_tmp else (),
            scratch=(1,) if with_tmp else (),
            pto=f"t{prefix}{row.name}",
            **common,
        ),
    ]


def _dsl(row: Row, prefix: str, axis: int) -> Dsl:
    name = f"{prefix}_{row.name}"
    required = axis == 1 or bool(row.arg)

    def build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
        level = level_of(name, space, (a["x"],))
        tmp = a["tmp_tile"]
        if level == "tensor":
            if tmp is not None:
                raise OpRejected(
                    f"pl.{name}: tmp_tile is only for tiles", "leave tmp_tile out: it is made for a tensor", TypeError
                )
            return ctx.op(f"tensor.{name}", (a["x"],))
        if tmp is None:
            if required:
                raise OpRejected(
                    f"pl.{name}: a tile operand needs tmp_tile",
                    "pass a scratch tile: pl.create_tile(shape, dtype, target_memory=pl.Mem.Vec)",
                    TypeError,
                )
            return ctx.op(f"tile.{name}", (a["x"],))
        if not required and name != "col_sum":
            raise OpRejected(f"pl.{name}: takes no tmp_tile", "leave tmp_tile out", TypeError)
        return ctx.op(f"tile.{name}", (a["x"], tmp))

    return Dsl(name, ("", "tensor", "tile"), (Param("x"), Param("tmp_tile", "value", None)), build, row.doc)


OPS: tuple[OpDef, ...] = tuple(op for row in ROWS for prefix, axis in _AXES for op in _ops(row, prefix, axis))
DSL: tuple[Dsl, ...] = tuple(_dsl(row, prefix, axis) for row in ROWS for prefix, axis in _AXES)

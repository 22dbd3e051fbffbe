"""What crosses the border of a vector-lane region: `aiv_shard` (whole to one lane's half) and `aic_gather` (halves to whole).

Two dimensions; `split` says which axis is halved or doubled: 1 axis 0, 2 axis 1.  A half comes into Vec memory, a whole into
Mat memory.  `lane` is the lane of this run; a shard whose operand is valid in part along that axis needs it, to say how much
of the half is valid.
"""

from __future__ import annotations

from typing import Any

from pypto.enums import MemorySpace, SplitMode
from pypto.ir import arith
from pypto.ir.expr import Call, Expr, const_index
from pypto.ir.layout import box_of, implicit_layout
from pypto.ir.opdef import Attr, Dsl, DslContext, Lower, OpDef, Operand, OpRejected, Param, Site, Special
from pypto.ir.ops.memory import window_valid
from pypto.ir.ops.rules import MOVABLE, R, check_dtype, dim_text, level_of, shape_text
from pypto.ir.shaped import ShapedType, TensorType, TensorView, TileType, TileView, const_dim
from pypto.ir.types import Type

__all__ = ["DSL", "GATHER", "OPS", "SHARD"]

SHARD, GATHER = "lane_shard", "lane_gather"  # kinds of `Special`
_MODE = {1: SplitMode.UP_DOWN, 2: SplitMode.LEFT_RIGHT}
_AXIS_NAMES = ("rows", "columns")


# -- types ---------------------------------------------------------------------------------------------------------


def _matrix(s: Site) -> tuple[ShapedType, int, int]:
    """The operand, the axis that is split, and its constant extent."""
    t = s.tensor(0) if s.name.startswith("tensor") else s.tile(0)
    split = s.kwargs["split"]
    if split not in _MODE:
        s.reject(f"'split' is {split}", "split=1 halves the rows, split=2 the columns")
    if len(t.shape) != 2:
        s.reject(
            f"lanes share matrices of two dimensions, not {shape_text(t.shape)}",
            "reshape it to [rows, cols] with pl.reshape first",
        )
    check_dtype(s, t.dtype, MOVABLE)
    extent = const_dim(t.shape[split - 1])
    if extent is None:
        s.reject(
            f"the {_AXIS_NAMES[split - 1]} that the lanes share must be a constant number",
            "work on windows of a fixed shape; pl.set_validshape says how much of one is data",
        )
    return t, split - 1, extent


def _replaced(dims: tuple[Expr, ...], axis: int, d: Expr) -> tuple[Expr, ...]:
    return tuple(d if i == axis else x for i, x in enumerate(dims))


def _result(t: ShapedType, shape: tuple[Expr, ...], valid: tuple[Expr, ...], space: MemorySpace) -> Type:
    if isinstance(t, TensorType):
        return TensorType(shape, t.dtype, None, TensorView(valid_shape=valid))
    layout = implicit_layout(space, tuple(const_dim(d) for d in shape))
    view = TileView(valid, blayout=layout.blayout, slayout=layout.slayout, fractal=layout.fractal)
    return TileType(shape, t.dtype, None, view, space)


def _shard(s: Site) -> Type:
    t, axis, extent = _matrix(s)
    if extent % 2:
        s.reject(
            f"{extent} {_AXIS_NAMES[axis]} do not fall into two halves",
            f"make it {extent + 1} {_AXIS_NAMES[axis]}, of which pl.set_validshape keeps {extent}, or split the other axis",
        )
    half = const_index(extent // 2)
    valid = t.valid[axis]
    if arith.same(valid, t.shape[axis]):
        part: Expr = half
    elif len(s) > 1:
        s.scalar(1)
        part = window_valid(valid, arith.mul(s.args[1], half), half)
    else:
        what = f"{dim_text(valid)} of {extent} {_AXIS_NAMES[axis]} are valid: how many of a half are depends on the lane"
        s.reject(what, "write pl.aiv_shard(x) inside of the pl.split_aiv loop, which knows its lane")
    return _result(t, _replaced(t.shape, axis, half), _replaced(t.valid, axis, part), MemorySpace.Vec)


def _gather(s: Site) -> Type:
    t, axis, extent = _matrix(s)
    valid = t.valid[axis]
    if not arith.same(valid, t.shape[axis]):
        s.reject(
            f"a half that is not valid in all of its {extent} {_AXIS_NAMES[axis]} leaves a gap between the halves",
            "fill the rest of the half with pl.fillpad, or store it with pl.store",
        )
    whole = const_index(2 * extent)
    made = _result(t, _replaced(t.shape, axis, whole), _replaced(t.valid, axis, whole), MemorySpace.Mat)
    if isinstance(made, TileType):
        _in_boxes(s, made)
    return made


def _in_boxes(s: Site, t: TileType) -> None:
    """What the matrix unit reads is made of whole boxes."""
    boxes = box_of(t.layout, t.dtype)
    for name, d, n in zip(_AXIS_NAMES, t.shape, boxes, strict=True):
        extent = const_dim(d)
        if extent is not None and extent % n:
            s.reject(
                f"the whole has {extent} {name}, but Mat memory holds {t.dtype} elements in boxes of {boxes[0]} x {boxes[1]}",
                f"work on more {name} than there are, whole boxes of them, and say with valid_shape= how many are data",
            )


# -- tensors to tiles ----------------------------------------------------------------------------------------------


def _to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    """The tile form of the same name; nothing is loaded for it."""
    concept, axis = call.op.name.split(".")[1], call.kwargs["split"] - 1
    if lo.is_tensor(args[0]):
        if concept == "aiv_shard":
            what = "pl.aiv_shard takes what the matrix unit made, not a tensor in global memory"
            remedy = "slice the lane's half of the tensor: pl.slice(x, [<rows>, <cols>], [lane * <rows>, 0])"
        else:
            what = "pl.aic_gather takes what this lane computed, not a tensor in global memory"
            remedy = "use the tensor itself behind the region: it is whole"
        raise OpRejected(what, remedy, TypeError)
    source = lo.stored(args[0]) if concept == "aiv_shard" else lo.tile(args[0])
    have, want = source.type, call.args[0].type
    assert isinstance(have, TileType)
    assert isinstance(want, TensorType)
    if not arith.same(have.shape[axis], want.shape[axis]):
        name = _AXIS_NAMES[axis]
        raise OpRejected(
            f"the matrix unit makes {dim_text(have.shape[axis])} {name} of {dim_text(want.shape[axis])}, whose halves are others",
            f"make the number of {name} a multiple of 16, or split the other axis",
        )
    made = lo.emit(f"tile.{concept}", (source, *args[1:]), call.kwargs)
    assert isinstance(made.type, TileType)
    assert isinstance(call.type, TensorType)
    if made.type.dtype is call.type.dtype:
        return made
    # A product is wider than its tensor: each half is narrowed where it has come to the vector unit.
    mode = {"mode": 1} if call.type.dtype.is_float() else {}
    return lo.emit("tile.cast", (made,), {"target_type": call.type.dtype, **mode}, "narrow")


# -- the language --------------------------------------------------------------------------------------------------


def _build(concept: str) -> Any:
    def build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
        spelling = f"pl.{space + '.' if space else ''}{concept}"
        x, region = a["x"], ctx.region
        if space == "tile" and isinstance(x.type, TensorType):
            raise OpRejected(f"{spelling} takes a Tile, got a Tensor", f"pl.{concept}(x), which takes both", TypeError)
        level = level_of(concept, space, (x,))
        if region is None:
            raise OpRejected(
                f"{spelling} belongs inside of a vector-lane region",
                "put it into `for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):`",
            )
        mode, lane = region
        if mode is SplitMode.NONE:
            raise OpRejected(
                f"{spelling}: the lanes of a region in mode NONE share no value",
                "mode=pl.SplitMode.UP_DOWN halves rows, LEFT_RIGHT columns; in mode NONE lanes load and store what they work on",
            )
        split = a["split"] if a.get("split") is not None else mode.value
        if split != mode.value:
            raise OpRejected(
                f"{spelling}: split={split} in a region in mode {mode.name}",
                f"split={mode.value}, or pl.{concept}(x), which knows the mode",
            )
        t = x.type
        whole = isinstance(t, ShapedType) and len(t.shape) == 2 and arith.same(t.valid[split - 1], t.shape[split - 1])
        known = () if whole or concept != "aiv_shard" else (lane,)
        return ctx.op(f"{level}.{concept}", (x, *known), {"split": split})

    return build


# -- the table -----------------------------------------------------------------------------------------------------

_SHARD_DOC = "the half of a matrix that belongs to this lane"
_GATHER_DOC = "the matrix whose halves the lanes have; it is whole behind the region"


def _ops(level: str) -> tuple[OpDef, ...]:
    tile = level == "tile"
    lane = Operand("lane", "scalar", optional=True)
    return (
        OpDef(
            f"{level}.aiv_shard",
            (Operand("x", level), lane),
            _shard,
            Special(SHARD),
            effects=(R, R),
            attrs=(Attr("split", (int,), required=True),),
            spaces=(None, None) if tile else None,
            out_space=MemorySpace.Vec if tile else None,
            in_place=False,
            to_tile=None if tile else _to_tile,
            doc=_SHARD_DOC,
        ),
        OpDef(
            f"{level}.aic_gather",
            (Operand("x", level),),
            _gather,
            Special(GATHER),
            effects=(R,),
            attrs=(Attr("split", (int,), required=True),),
            spaces=(None,) if tile else None,
            out_space=MemorySpace.Mat if tile else None,
            in_place=False,
            to_tile=None if tile else _to_tile,
            doc=_GATHER_DOC,
        ),
    )


OPS: tuple[OpDef, ...] = (*_ops("tensor"), *_ops("tile"))
_SPLIT = Param("split", "attr", None)
DSL: tuple[Dsl, ...] = tuple(
    Dsl(name, spaces, (Param("x"), *more), _build(name), doc)
    for name, doc in (("aiv_shard", _SHARD_DOC), ("aic_gather", _GATHER_DOC))
    for spaces, more in ((("",), ()), (("tensor", "tile"), (_SPLIT,)))
)

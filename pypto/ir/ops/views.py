"""Windows, relabels and padding: slice, assemble, reshape, reinterpret_view, set_validshape, fillpad.

A tile view shares its source's storage and row pitch; nothing moves.  `assemble` writes a window in place, `fillpad`
copies the valid rectangle and fills the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import ArgEffect, AtomicType, CompactMode, PadValue, WriteChannel
from pypto.ir import arith
from pypto.ir.expr import Call, ConstInt, Expr, MakeTuple, const_index
from pypto.ir.opdef import INHERIT, Attr, Lower, OpDef, Operand, OpRejected, Site, Special
from pypto.ir.ops.memory import check_window, static_shape, valid_within, window_valid
from pypto.ir.ops.rules import MOVABLE, RW, VEC, R, W, check_dtype, dim_text, shape_text
from pypto.ir.shaped import ShapedType, TensorType, TensorView, TileType, TileView, as_dims, const_dim, const_dims, same_dims
from pypto.ir.types import Type

__all__ = ["OPS"]


# -- slice ---------------------------------------------------------------------------------------------------------


def _drop(s: Site) -> frozenset[int]:
    axes = frozenset(d.value for d in s.elements(4) if isinstance(d, ConstInt)) if len(s) > 4 else frozenset()
    shape = s.elements(1)
    for a in axes:
        if not 0 <= a < len(shape) or const_dim(shape[a]) != 1:
            s.reject(
                f"axis {a} cannot be dropped: only window axes of extent 1 can", "leave it out of drop_dims, or make its extent 1"
            )
    return axes


def _slice(s: Site) -> Type:
    t = s.shaped(0)
    shape, offset = s.elements(1), s.elements(2)
    if not len(shape) == len(offset) == len(t.shape):
        s.reject(
            f"shape and offset must have rank {len(t.shape)}, got {len(shape)} and {len(offset)}",
            f"give {len(t.shape)} extents and {len(t.shape)} offsets, one for each dimension of {shape_text(t.shape)}",
        )
    for i, d in enumerate(shape):
        n = const_dim(d)
        if n is not None and n < 1:
            s.reject(f"a window's extent must be positive, got {n} for dimension {i}", "take one element or more")
    clamp = bool(s.kwargs.get("clamp"))
    if not clamp:
        tensor = isinstance(t, TensorType)
        check_window(
            s, offset, shape, t.shape, "pl.slice(..., clamp=True) cuts the window at the edge" if tensor else "move the window"
        )
    covered = tuple(window_valid(v, o, n) for v, o, n in zip(t.valid, offset, shape, strict=True))
    full = not clamp and same_dims(t.valid, t.shape)
    valid: tuple[Expr, ...] = shape if full else covered
    if len(s) > 3 and s.elements(3):
        asked = s.elements(3)
        valid_within(s, asked, shape)
        valid = asked if full else tuple(arith.minimum(a, c) for a, c in zip(asked, covered, strict=True))
    keep = [i for i in range(len(shape)) if i not in _drop(s)]
    dims, valid = tuple(shape[i] for i in keep), tuple(valid[i] for i in keep)
    pad: PadValue = s.kwargs.get("pad_value", PadValue.null)
    if isinstance(t, TensorType):
        return TensorType(dims, t.dtype, None, TensorView(valid_shape=valid, pad=pad))
    return _tile_slice(s, t, dims, valid, pad)


def _tile_slice(s: Site, t: TileType, dims: tuple[Expr, ...], valid: tuple[Expr, ...], pad: PadValue) -> Type:
    if const_dims(dims) is None:
        s.reject("a window of a tile has a static shape", "put run-time extents into valid_shape")
    layout = t.layout
    # A single column keeps its parent's pitch: it is a strided row-major window, whatever its shape implies.
    view = TileView(valid, blayout=layout.blayout, slayout=layout.slayout, fractal=layout.fractal, pad=pad)
    return TileType(dims, t.dtype, None, view, t.memory_space)


def _moving_window(extents: tuple[Expr, ...]) -> tuple[str, str]:
    """Why a window that is computed with cannot have extents of run time, and what can."""
    dims = [const_dim(d) for d in extents]
    most, data = (", ".join(f"<{what}>" if d is None else str(d) for d in dims) for what in ("most", "data"))
    remedy = f"say the most there can be, and how much of it is data: pl.slice(x, [{most}], offset, valid_shape=[{data}])"
    return "pl.slice: the shape of a window that is computed with must be known when the kernel is compiled", remedy


def _slice_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    """A window of a tensor is a load; of a tile, a view."""
    shape, offset = call.args[1], call.args[2]
    t = call.type
    assert isinstance(t, ShapedType)
    if not lo.is_tensor(args[0]):
        return lo.emit("tile.slice", args, call.kwargs)
    assert isinstance(shape, MakeTuple)
    source = args[0].type
    assert isinstance(source, TensorType)
    if const_dims(shape.elements) is None:
        raise OpRejected(*_moving_window(shape.elements))
    axes = {d.value for d in call.args[4].elements if isinstance(d, ConstInt)} if len(call.args) > 4 else set()  # type: ignore[attr-defined]
    kept = iter(t.valid)
    valid = MakeTuple(const_index(1) if i in axes else next(kept) for i in range(len(shape.elements)))
    kwargs = {"clamp": True} if call.kwargs.get("clamp") else {}
    window = lo.emit("tile.load", (args[0], offset, shape, valid), kwargs)
    if not axes:
        return window
    return lo.emit("tile.reshape", (window, MakeTuple(t.shape)))


# -- assemble ------------------------------------------------------------------------------------------------------


def _assemble(s: Site) -> Type:
    target, source = s.shaped(0), s.shaped(1)
    offset = s.elements(2)
    if isinstance(target, TileType) and not isinstance(source, TileType):
        s.reject("a window of a tile takes a tile", "load the tensor first", TypeError)
    if not len(target.shape) == len(source.shape) == len(offset):
        s.reject(
            f"target, source and offset must have one rank, got {len(target.shape)}, {len(source.shape)} and {len(offset)}",
            f"reshape the source to rank {len(target.shape)} with pl.reshape, and give {len(target.shape)} offsets",
        )
    if target.dtype is not source.dtype:
        hint = f"pl.cast(..., pl.{target.dtype.name}); a product takes out_dtype=pl.{target.dtype.name}"
        s.reject(f"cannot assemble {source.dtype} elements into {target.dtype}", hint, TypeError)
    extents = source.valid if isinstance(target, TensorType) else source.shape
    check_window(s, offset, extents, target.shape, "slice the source, or write it further ahead", "writes")
    if isinstance(target, TensorType):
        return target.replace(memref=None)
    assert isinstance(source, TileType)
    valid = _union(s, target, source, offset)
    view = target.get_effective_tile_view().replace(valid_shape=valid)
    return TileType(target.shape, target.dtype, None, view, target.memory_space)


def _union(s: Site, target: TileType, source: TileType, offset: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Valid rectangle of a tile after a window of it is written: it must stay a rectangle."""
    if target.is_fully_valid:
        return target.valid
    ends = tuple(arith.add(o, v) for o, v in zip(offset, source.valid, strict=True))
    constant = [const_dims(x) for x in (target.valid, ends, offset)]
    tv, end, low = constant
    if tv is None or end is None or low is None:
        return target.valid  # run-time extents: the window must lie inside what is valid already
    grown = [i for i in range(len(tv)) if end[i] > tv[i]]
    if not grown:
        return target.valid
    axis = grown[0]
    spans_rest = all(low[i] == 0 and end[i] >= tv[i] for i in range(len(tv)) if i != axis)
    if len(grown) > 1 or low[axis] > tv[axis] or not spans_rest:
        s.reject(
            f"the valid region {shape_text(target.valid)} and the window ending at {list(end)} do not form a rectangle",
            "assemble in row (or column) order, so that the valid region grows along one axis",
        )
    return as_dims(max(a, b) for a, b in zip(tv, end, strict=True))


def assemble_effects(kwargs: Mapping[str, Any]) -> tuple[ArgEffect, ...]:
    """A window write reads nothing of the target; an atomic one does."""
    return (RW if kwargs.get("atomic") else W, R, R)


def _assemble_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    """A tile into a tensor is a store; into a tile, a window write."""
    if not lo.is_tensor(args[0]):
        return lo.emit("tile.assemble", (args[0], lo.tile(args[1]), args[2]))
    source, t = lo.stored(args[1]), call.args[1].type
    assert isinstance(t, ShapedType)
    assert isinstance(source.type, ShapedType)
    # A product keeps its two dimensions in a window of more.
    window = () if len(source.type.shape) == len(t.shape) else (MakeTuple(t.valid),)
    return lo.emit("tile.store", (source, args[2], args[0], *window), call.kwargs, "store")


# -- reshape, reinterpret, valid shape -----------------------------------------------------------------------------


def _count(dims: tuple[Expr, ...]) -> Expr:
    return arith.product(dims)


def _reshape(s: Site) -> Type:
    t = s.shaped(0)
    shape = s.elements(1)
    if not shape or any((const_dim(d) or 1) < 1 for d in shape):
        s.reject(
            f"every extent must be positive, got {shape_text(shape)}",
            "write every extent out: none is worked out from the others",
        )
    if not arith.same(_count(t.shape), _count(shape)):
        s.reject(
            f"cannot reshape {shape_text(t.shape)} to {shape_text(shape)}: the element counts differ",
            _reshape_hint(t.shape, shape),
        )
    if isinstance(t, TileType) and not t.layout.is_flat and not arith.same(t.shape[-1], shape[-1]):
        s.reject(
            f"a tile in boxes ({t.memory_space}) cannot be relabelled from {shape_text(t.shape)} to {shape_text(shape)}",
            "reshape the tensor before it is loaded, or the tile in Vec memory",
        )
    valid = _reshaped_valid(s, t, shape)
    if isinstance(t, TensorType):
        return TensorType(shape, t.dtype, None, TensorView(valid_shape=valid))
    if const_dims(shape) is None:
        s.reject("a tile's shape must be static", "reshape to constant extents, and say with pl.set_validshape how much is data")
    layout = TileType(shape, t.dtype, None, None, t.memory_space).layout
    view = TileView(valid, blayout=layout.blayout, slayout=layout.slayout, fractal=layout.fractal)
    return TileType(shape, t.dtype, None, view, t.memory_space)


def _reshape_hint(have: tuple[Expr, ...], want: tuple[Expr, ...]) -> str:
    a, b = (const_dims(x) for x in (have, want))
    if a is None or b is None:
        return "write run-time extents as the tensor has them, with x.shape, so that both sides are seen to agree"
    return f"the extents must multiply to {math.prod(a)}, these to {math.prod(b)}; take a part with pl.slice"


def _reshaped_valid(s: Site, t: ShapedType, shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Valid extents after a relabel: full stays full, unit axes come and go, whole rows regroup."""
    valid: tuple[Expr, ...] = t.valid
    if same_dims(valid, t.shape):
        return shape
    one = const_index(1)
    core = [(n, v) for n, v in zip(t.shape, valid, strict=True) if const_dim(n) != 1]
    wide = [i for i, n in enumerate(shape) if const_dim(n) != 1]
    if [const_dim(n) for n, _ in core] == [const_dim(shape[i]) for i in wide]:
        out: list[Expr] = [one] * len(shape)
        for i, (_, v) in zip(wide, core, strict=True):
            out[i] = v
        return tuple(out)
    dims, counts = const_dims(shape), const_dims(valid)
    if dims is not None and counts is not None and same_dims(valid[1:], t.shape[1:]):
        elements, rest = 1, 1
        for c in counts:
            elements *= c
        for d in dims[1:]:
            rest *= d
        if elements % rest == 0:
            return as_dims((elements // rest, *dims[1:]))
    s.reject(
        f"the valid region {shape_text(valid)} of {shape_text(t.shape)} is no rectangle of {shape_text(shape)}",
        "fill the padding with pl.fillpad first, or reshape whole rows",
    )


def _reinterpret(s: Site) -> Type:
    t = s.shaped(0)
    dtype: DataType = s.kwargs["dtype"]
    check_dtype(s, dtype, MOVABLE)
    if dtype is t.dtype:
        s.reject("reinterpret_view must change the dtype", "use pl.reshape")
    have, want = t.dtype.get_byte(), dtype.get_byte()
    shape = s.elements(1) if len(s) > 1 else ()
    if not shape:
        last = const_dim(t.shape[-1])
        if last is None or last * have % want:
            s.reject(
                f"the last dimension {dim_text(t.shape[-1])} of {t.dtype} is no whole number of {dtype} elements",
                "pass the new shape, or slice a last dimension whose bytes divide",
            )
        shape = (*t.shape[:-1], const_index(last * have // want))
    if not arith.same(arith.mul(_count(t.shape), const_index(have)), arith.mul(_count(shape), const_index(want))):
        s.reject(
            f"{shape_text(t.shape)} of {t.dtype} and {shape_text(shape)} of {dtype} differ in bytes",
            "leave shape out: the last dimension follows the size of the elements",
        )
    if not same_dims(t.valid, t.shape):
        s.reject("only fully valid data can be reinterpreted", "pl.fillpad it first")
    if isinstance(t, TensorType):
        return TensorType(shape, dtype)
    return TileType(shape, dtype, None, None, t.memory_space)


def _set_validshape(s: Site) -> Type:
    t = s.shaped(0)
    if len(t.shape) != 2:
        s.reject(f"set_validshape takes 2-D operands, got rank {len(t.shape)}", "pl.reshape it to [rows, cols] first")
    for i in (1, 2):
        if not s.scalar(i).is_int():
            s.reject(f"a valid extent must be an integer, got {s.scalar(i)}", "pl.cast(<value>, pl.INDEX)", TypeError)
    valid = (s.args[1], s.args[2])
    valid_within(s, valid, t.shape)
    if isinstance(t, TensorType):
        return TensorType(t.shape, t.dtype, None, TensorView(valid_shape=valid))
    view: dict[str, Any] = {"valid_shape": valid}
    if arith.same(valid[0], t.shape[0]):
        view["compact"] = CompactMode.null  # with all rows valid there is one way to store them
    return t.with_view(**view).replace(memref=None)


# -- fillpad -------------------------------------------------------------------------------------------------------


def _fillpad(s: Site) -> Type:
    t = s.shaped(0)
    _check_pad(s, t)
    if isinstance(t, TensorType):
        return TensorType(t.shape, t.dtype)
    layout = t.layout
    view = TileView(t.shape, blayout=layout.blayout, slayout=layout.slayout, fractal=layout.fractal)
    return TileType(t.shape, t.dtype, None, view, VEC[0])


def _fillpad_inplace(s: Site) -> Type:
    t = s.tile(0)
    _check_pad(s, t)
    return t.with_view(valid_shape=t.shape).replace(memref=None)


def _fillpad_expand(s: Site) -> Type:
    """A larger result; what there is of the operand lies in its first rows and columns."""
    t = s.shaped(0)
    _check_pad(s, t)
    dims = static_shape(s, 1)
    have = const_dims(t.shape)
    if have is None or len(have) != 2 or len(dims) != 2:
        s.reject(f"expands matrices, from {shape_text(t.shape)} to {list(dims)}", "pl.reshape the operand to [rows, cols] first")
    if any(n < m for n, m in zip(dims, have, strict=True)):
        s.reject(f"{list(dims)} is smaller than the operand, {list(have)}", "pl.slice takes a smaller window")
    return TensorType(dims, t.dtype) if isinstance(t, TensorType) else TileType(dims, t.dtype, None, None, VEC[0])


def _check_pad(s: Site, t: ShapedType) -> None:
    if s.kwargs.get("pad_value", PadValue.zero) is PadValue.null:
        s.reject("pad_value must be zero, max or min, not null", "pad_value=pl.PadValue.zero")
    check_dtype(s, t.dtype, MOVABLE)


# -- the table -----------------------------------------------------------------------------------------------------

_SLICE = (
    Operand("src", "any"),
    Operand("shape", "shape"),
    Operand("offset", "shape"),
    Operand("valid_shape", "shape", optional=True),
    Operand("drop_dims", "shape", optional=True),
)
_SLICE_ATTRS = (Attr("pad_value", (PadValue,)), Attr("clamp", (bool,)))
_VIEW: dict[str, Any] = {"out_space": INHERIT}


def _pair(
    concept: str, operands: tuple[Operand, ...], infer: Any, tile: dict[str, Any], tensor: dict[str, Any], **common: Any
) -> list[OpDef]:
    return [
        OpDef(f"{level}.{concept}", operands, infer, **common, **extra)
        for level, extra in (("tensor", tensor), ("tile", {"spaces": (None,) * len(operands), **tile}))
    ]


def _dead_reads(n: int) -> tuple[ArgEffect, ...]:
    return (R,) * n


OPS: tuple[OpDef, ...] = (
    *_pair(
        "slice",
        _SLICE,
        _slice,
        {**_VIEW, "pto": "subview"},
        {"to_tile": _slice_to_tile},
        semantics=Special("view"),
        effects=_dead_reads(5),
        attrs=_SLICE_ATTRS,
        doc="a window; of a tile, sharing its storage and row pitch",
    ),
    OpDef(
        "tensor.assemble",
        (Operand("target", "tensor"), Operand("source", "any"), Operand("offset", "shape")),
        _assemble,
        Special("insert"),
        effects=assemble_effects,
        attrs=(Attr("atomic", (int, AtomicType)),),
        channel=WriteChannel.Dma,
        reuses=0,
        to_tile=_assemble_to_tile,
        doc="target with a window replaced",
    ),
    OpDef(
        "tile.assemble",
        (Operand("target", "tile"), Operand("source", "tile"), Operand("offset", "shape")),
        _assemble,
        Special("insert"),
        effects=(RW, R, R),
        spaces=(None, None, None),
        out_space=INHERIT,
        reuses=0,
        pto="tinsert",
        doc="target with a window replaced, in place",
    ),
    *_pair(
        "reshape",
        (Operand("x", "any"), Operand("shape", "shape")),
        _reshape,
        {**_VIEW, "pto": "treshape"},
        {},
        semantics=Special("view"),
        effects=(R, R),
        doc="the same elements in row-major order under another shape",
    ),
    *_pair(
        "reinterpret_view",
        (Operand("x", "any"), Operand("shape", "shape", optional=True)),
        _reinterpret,
        {**_VIEW},
        {},
        semantics=Special("view"),
        effects=(R, R),
        attrs=(Attr("dtype", (DataType,), required=True),),
        doc="the same bytes under another dtype",
    ),
    *_pair(
        "set_validshape",
        (Operand("x", "any"), Operand("rows", "scalar"), Operand("cols", "scalar")),
        _set_validshape,
        {"out_space": INHERIT, "reuses": 0, "pto": "set_validshape"},
        {},
        semantics=Special("view"),
        effects=(R, R, R),
        doc="the same data with another valid rectangle",
    ),
    *_pair(
        "fillpad",
        (Operand("x", "any"),),
        _fillpad,
        {"spaces": (VEC,), "out_space": VEC[0], "pto": "tfillpad"},
        {},
        semantics=Special("pad"),
        effects=(R,),
        attrs=(Attr("pad_value", (PadValue,)),),
        doc="a copy with everything outside the valid rectangle set to zero, the largest or the smallest value",
    ),
    OpDef(
        "tile.fillpad_inplace",
        (Operand("x", "tile"),),
        _fillpad_inplace,
        Special("pad"),
        effects=(RW,),
        attrs=(Attr("pad_value", (PadValue,)),),
        spaces=(VEC,),
        out_space=VEC[0],
        reuses=0,
        pto="tfillpad",
        doc="everything outside the valid rectangle set to zero, the largest or the smallest value, in place",
    ),
    *_pair(
        "fillpad_expand",
        (Operand("x", "any"), Operand("shape", "shape")),
        _fillpad_expand,
        {"spaces": (VEC, None), "out_space": VEC[0], "in_place": False, "pto": "tfillpad_expand"},
        {},
        semantics=Special("pad"),
        effects=(R, R),
        attrs=(Attr("pad_value", (PadValue,)),),
        doc="a copy in a larger shape, everything but the valid rectangle set to zero, the largest or the smallest value",
    ),
)

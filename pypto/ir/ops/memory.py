"""Storage and transfers: create, full, load, store, move, extract, element reads and writes.

A transfer moves the valid rectangle only.  A requested window that provably leaves its tensor is refused here; one that
depends on run-time values is checked once per transfer when the kernel runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import ArgEffect, AtomicType, CachePolicy, CompactMode, MemorySpace, TensorLayout, TileLayout, WriteChannel
from pypto.ir import arith
from pypto.ir.expr import Call, ConstBool, ConstFloat, ConstInt, Expr, const_index
from pypto.ir.layout import arriving_layout, implicit_layout
from pypto.ir.opdef import FROM_TARGET, INHERIT, Attr, Lower, OpDef, Operand, OpRejected, Site, Special
from pypto.ir.ops.rules import MOVABLE, RW, VEC, R, W, check_dtype, dim_text, element_const, shape_text
from pypto.ir.shaped import ShapedType, TensorType, TensorView, TileType, TileView, const_dim, const_dims
from pypto.ir.types import ScalarType, Type

__all__ = ["OPS", "check_window", "static_shape"]


def static_shape(s: Site, i: int) -> tuple[int, ...]:
    """Operand i as constant, positive extents."""
    dims = const_dims(s.elements(i))
    if dims is None:
        s.reject("a tile's shape must be static", "put run-time extents into valid_shape")
    if not dims or any(d < 1 for d in dims):
        s.reject(
            f"every extent must be positive, got {list(dims)}",
            "an empty window has nothing to compute: a tile has a row and a column at least",
        )
    return dims


def check_window(
    s: Site,
    offsets: tuple[Expr, ...],
    extents: tuple[Expr, ...],
    source: tuple[Expr, ...],
    remedy: str = "",
    verb: str = "reads",
) -> None:
    """Reject windows that provably begin before the source or end past it; `remedy` is how to cut them at the edge."""
    for i, (o, e, n) in enumerate(zip(offsets, extents, source, strict=True)):
        low, extent, size = const_dim(o), const_dim(e), const_dim(n)
        if low is not None and low < 0:
            s.reject(
                f"offset {low} of dimension {i} is provably negative",
                "offsets count from the beginning, 0 is the first; from the end, write the extent minus the distance",
            )
        if extent and size is not None and (low or 0) + extent > size:
            room = f"an extent of {extent} fits up to offset {size - extent}" if extent <= size else f"at most {size} fit"
            at = f"extent {extent}" if low is None else f"offset {low} + extent {extent}"
            s.reject(
                f"{verb} past the end of dimension {i}: {at} > {size}",
                f"{remedy}: {room}" if remedy else room,
            )
    _check_extents(s, extents)


def _check_extents(s: Site, extents: tuple[Expr, ...]) -> None:
    for i, e in enumerate(extents):
        value = const_dim(e)
        if value is not None and value < 0:
            s.reject(f"extent {value} of dimension {i} is negative", "a window has one element or more in each dimension")


def valid_within(s: Site, valid: tuple[Expr, ...], shape: tuple[Expr, ...]) -> None:
    """Constant valid extents lie in 0..shape."""
    if len(valid) != len(shape):
        s.reject(
            f"valid shape {shape_text(valid)} and shape {shape_text(shape)} differ in rank",
            f"give {len(shape)} valid extents, one for each dimension",
        )
    for i, (v, n) in enumerate(zip(valid, shape, strict=True)):
        a, b = const_dim(v), const_dim(n)
        if a is not None and (a < 0 or (b is not None and a > b)):
            s.reject(
                f"valid extent {a} of dimension {i} is not within 0..{dim_text(n)}",
                f"write at most {dim_text(n)}, or make the tile larger",
            )


# -- create, full --------------------------------------------------------------------------------------------------


def _create_tile(s: Site) -> Type:
    dims = static_shape(s, 0)
    dtype: DataType = s.kwargs["dtype"]
    check_dtype(s, dtype, MOVABLE)
    space: MemorySpace | None = s.kwargs.get("target_memory")
    layout = implicit_layout(space, dims)
    if s.kwargs.get("transpose"):
        if space is not MemorySpace.Mat or len(dims) != 2:
            s.reject("transpose=True makes a 2-D Mat tile", "use target_memory=pl.Mem.Mat")
        layout = layout._replace(blayout=TileLayout.row_major, slayout=TileLayout.col_major)
    if s.kwargs.get("flat_layout"):
        if space is not MemorySpace.Mat:
            s.reject("flat_layout=True is for Mat tiles", "use target_memory=pl.Mem.Mat")
        layout = layout._replace(blayout=TileLayout.row_major, slayout=TileLayout.none_box)
    compact = CompactMode.null
    if s.kwargs.get("compact"):
        if space is not MemorySpace.Acc or len(dims) != 2:
            s.reject("compact=True makes a 2-D Acc tile", "use target_memory=pl.Mem.Acc")
        if dims[0] > 16:  # the rows of one box lie the same way whatever is valid
            compact = CompactMode.normal
    view = TileView(blayout=layout.blayout, slayout=layout.slayout, fractal=layout.fractal, compact=compact)
    return TileType(dims, dtype, None, view, space)


def _create_tensor(s: Site) -> Type:
    shape = s.elements(0)
    dtype: DataType = s.kwargs["dtype"]
    check_dtype(s, dtype, MOVABLE)
    for i, d in enumerate(shape):
        value = const_dim(d)
        if value is not None and value < 0:
            s.reject(f"extent {value} of dimension {i} is negative", "extents are zero or more")
    init = s.kwargs.get("init_value")
    if init is not None and (init != init or init in (float("inf"), -float("inf"))):
        s.reject(f"init_value must be finite, got {init}", "fill the tensor in a kernel: o[:] = pl.full(...)")
    layout: TensorLayout = s.kwargs.get("layout", TensorLayout.ND)
    return TensorType(shape, dtype, None, TensorView(layout=layout))


def _full(s: Site) -> Type:
    dims = static_shape(s, 0)
    dtype: DataType = s.kwargs["dtype"]
    check_dtype(s, dtype, MOVABLE)
    if not isinstance(s.args[1], (ConstInt, ConstFloat, ConstBool)):
        s.reject("the fill value must be a constant", "use pl.expands for a run-time scalar")
    if s.scalar(1) is not dtype:
        hint = f"pl.const(<value>, pl.{dtype.name})"
        s.reject(f"the fill value is {s.scalar(1)}, the elements are {dtype}", hint, TypeError)
    return TensorType(dims, dtype) if s.name.startswith("tensor") else TileType(dims, dtype, None, None, MemorySpace.Vec)


def _create_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    dtype, init = call.kwargs["dtype"], call.kwargs.get("init_value")
    if call.kwargs.get("layout", TensorLayout.ND) is not TensorLayout.ND:
        raise OpRejected("a temporary of a kernel has no tensor layout", "use pl.create_tile, or create the tensor in the entry")
    if init is None:
        return lo.emit("tile.create", args, {"dtype": dtype})
    value = ConstFloat(init, DataType.FP32, call.span) if isinstance(init, float) else ConstInt(init, DataType.INDEX, call.span)
    return lo.emit("tile.full", (*args, element_const(value, dtype)), {"dtype": dtype})


# -- load, store, move ---------------------------------------------------------------------------------------------


def _load(s: Site) -> Type:
    t = s.tensor(0)
    offsets, valid = s.elements(1), s.elements(3)
    dims = static_shape(s, 2)
    if not len(offsets) == len(dims) == len(t.shape):
        s.reject(
            f"offsets, shapes and the tensor must have one rank, got {len(offsets)}, {len(dims)} and {len(t.shape)}",
            f"the tensor is {shape_text(t.shape)}: give {len(t.shape)} offsets and {len(t.shape)} extents",
        )
    shape = TensorType(dims, t.dtype).shape
    valid_within(s, valid, shape)
    space: MemorySpace | None = s.kwargs.get("target_memory")
    if space not in (None, MemorySpace.Vec, MemorySpace.Mat):
        s.reject(f"loads go to Vec or Mat, not {space.name if space else space}", "load to Mat, then pl.move")
    if s.kwargs.get("clamp"):
        rest = [arith.maximum(const_index(0), arith.sub(n, o)) for n, o in zip(t.valid, offsets, strict=True)]
        valid = tuple(arith.minimum(v, r) for v, r in zip(valid, rest, strict=True))
        check_window(s, offsets, tuple(const_index(0) for _ in offsets), t.valid)
    else:
        check_window(s, offsets, valid, t.valid, "pass clamp=True to cut the window at the edge, or a smaller valid_shape")
    return _loaded(t.dtype, dims, valid, space)


def _loaded(dtype: DataType, dims: tuple[int, ...], valid: tuple[Expr, ...], space: MemorySpace | None) -> TileType:
    layout = arriving_layout(space, dims)
    view = TileView(valid, blayout=layout.blayout, slayout=layout.slayout, fractal=layout.fractal)
    return TileType(dims, dtype, None, view, space)


def _store(s: Site) -> Type:
    tile, t = s.tile(0), s.tensor(2)
    offsets = s.elements(1)
    if len(offsets) != len(t.shape):
        s.reject(
            f"{len(offsets)} offsets for a tensor of rank {len(t.shape)}", f"give {len(t.shape)} offsets, one for each dimension"
        )
    extents = s.elements(3) if len(s) > 3 else tile.valid
    if len(s) <= 3 and len(tile.shape) != len(t.shape):
        s.reject(
            f"a tile of rank {len(tile.shape)} into a tensor of rank {len(t.shape)}",
            "pass the window's shape as the fourth argument, or reshape the tile",
        )
    if len(extents) != len(t.shape):
        hint = f"give {len(t.shape)} extents, one for each dimension"
        s.reject(f"{len(extents)} window extents for a tensor of rank {len(t.shape)}", hint)
    if tile.dtype is not t.dtype and not (tile.memory_space is MemorySpace.Acc and _acc_store(tile.dtype, t.dtype)):
        s.reject(f"cannot store {tile.dtype} elements into a {t.dtype} tensor", f"pl.cast(tile, pl.{t.dtype.name})", TypeError)
    check_window(s, offsets, extents, t.shape, "narrow the tile with pl.set_validshape, or store it further ahead", "writes")
    return t


def _acc_store(have: DataType, want: DataType) -> bool:
    D = DataType
    return (have is D.FP32 and want in (D.FP16, D.BF16, D.FP32)) or (have is D.INT32 and want is D.INT32)


def store_effects(kwargs: Mapping[str, Any]) -> tuple[ArgEffect, ...]:
    """An atomic store reads what it adds to; a plain one only writes."""
    return (R, R, RW if kwargs.get("atomic") else W, R)


def _move(s: Site) -> Type:
    t = s.tile(0)
    space: MemorySpace = s.kwargs["target_memory"]
    if space in (MemorySpace.DDR, MemorySpace.ScalarLocal):
        s.reject(f"moves go between on-chip memories, not to {space.name}", "store the tile with pl.store")
    dims = tuple(const_dim(d) for d in t.shape)
    layout = implicit_layout(space, dims)
    if space is MemorySpace.Right:
        layout = layout._replace(blayout=TileLayout.row_major)
    if space is MemorySpace.Left and dims[0] == 1:
        layout = implicit_layout(None, dims)  # a vector is read as it is
    # Half-precision biases are widened on the way.
    dtype = DataType.FP32 if space is MemorySpace.Bias and t.dtype is DataType.FP16 else t.dtype
    layout = layout._replace(blayout=s.kwargs.get("blayout", layout.blayout), slayout=s.kwargs.get("slayout", layout.slayout))
    if space is t.memory_space and layout == t.layout:
        return t.with_view(stride=(), start_offset=None).at(None)  # how the rows are packed is copied with them
    pad = t.get_effective_tile_view().pad
    view = TileView(t.valid, blayout=layout.blayout, slayout=layout.slayout, fractal=layout.fractal, pad=pad)
    return TileType(t.shape, dtype, None, view, space)


def _extract(s: Site) -> Type:
    t = s.tile(0)
    dims = static_shape(s, 3)
    space: MemorySpace = s.kwargs["target_memory"]
    if len(t.shape) != 2 or len(dims) != 2:
        s.reject("extract takes a window of a 2-D tile", "reshape the tile to [rows, cols] with pl.reshape first")
    offsets = (s.args[1], s.args[2])
    window = TensorType(dims, t.dtype).shape
    check_window(s, offsets, window, t.shape)
    # A window that leaves the tile is an error: one of a wholly valid axis is wholly valid, wherever it begins.
    valid = tuple(
        n if arith.same(v, d) else window_valid(v, o, n) for v, d, o, n in zip(t.valid, t.shape, offsets, window, strict=True)
    )
    layout = implicit_layout(None if space is MemorySpace.Left and dims[0] == 1 else space, dims)
    view = TileView(valid, blayout=layout.blayout, slayout=layout.slayout, fractal=layout.fractal)
    return TileType(dims, t.dtype, None, view, space)


def window_valid(valid: Expr, offset: Expr, extent: Expr) -> Expr:
    """Valid extent of a window: what of the source's valid region it covers."""
    rest = arith.sub(valid, offset)
    if const_dim(rest) is not None or not arith.is_const(offset, 0):
        rest = arith.maximum(const_index(0), rest)
    return arith.minimum(extent, rest)


# -- elements ------------------------------------------------------------------------------------------------------


def _indices(s: Site, i: int, rank: int) -> None:
    n = len(s.elements(i))
    if n != rank:
        s.reject(f"{n} indices for rank {rank}", f"give {rank} indices, one for each dimension")


def _check_element(s: Site, verb: str) -> ShapedType:
    t = s.shaped(0)
    _indices(s, 1, len(t.shape))
    check_window(s, s.elements(1), tuple(const_index(1) for _ in t.shape), t.shape, "correct the index", verb)
    return t


def _read(s: Site) -> Type:
    t = _check_element(s, "reads")
    for i, (at, n) in enumerate(zip(s.elements(1), t.valid, strict=True)):
        index, valid = const_dim(at), const_dim(n)
        if index is not None and valid is not None and index >= valid:
            s.reject(
                f"reads element {index} of dimension {i}, of which {valid} are valid",
                "fill the rest of the tile with pl.fillpad, or read what is valid",
            )
    return ScalarType.of(t.dtype)


def _write(s: Site) -> Type:
    t = _check_element(s, "writes")
    if s.scalar(2) is not t.dtype:
        s.reject(f"the value is {s.scalar(2)}, the elements are {t.dtype}", f"pl.cast(<value>, pl.{t.dtype.name})", TypeError)
    return t.replace(memref=None)


def _dim(s: Site) -> Type:
    t = s.shaped(0)
    axis = s.args[1]
    if not isinstance(axis, ConstInt) or not -len(t.shape) <= axis.value < len(t.shape):
        s.reject(f"the axis must be a constant within the rank {len(t.shape)}", f"axes run from 0 to {len(t.shape) - 1}")
    return ScalarType.of(DataType.INDEX)


def _index_query(s: Site) -> Type:
    return ScalarType.of(DataType.INDEX)


def _keep_gm(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    """Element access stays on the tensor while it is one, and follows it on chip once it is a tile."""
    level = "tensor" if lo.is_tensor(args[0]) else "tile"
    return lo.emit(f"{level}.{call.op.name.split('.')[1]}", args, call.kwargs)


def _full_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    return lo.emit("tile.full", args, call.kwargs)


_DTYPE = Attr("dtype", (DataType,), required=True)
_TARGET = Attr("target_memory", (MemorySpace,))
_T = Operand
OPS: tuple[OpDef, ...] = (
    OpDef(
        "tensor.create",
        (_T("shape", "shape"),),
        _create_tensor,
        Special("create"),
        effects=(R,),
        attrs=(_DTYPE, Attr("layout", (TensorLayout,)), Attr("manual_dep", (bool,)), Attr("init_value", (int, float))),
        to_tile=_create_to_tile,
        doc="a temporary tensor in global memory, undefined unless init_value is given",
    ),
    OpDef(
        "tile.create",
        (_T("shape", "shape"),),
        _create_tile,
        Special("create"),
        effects=(R,),
        attrs=(_DTYPE, _TARGET, *(Attr(n, (bool,)) for n in ("transpose", "flat_layout", "compact"))),
        spaces=(None,),
        out_space=FROM_TARGET,
        pto="alloc_tile",
        doc="an undefined tile",
    ),
    OpDef(
        "tensor.full",
        (_T("shape", "shape"), _T("value", "scalar")),
        _full,
        Special("fill"),
        effects=(R, R),
        attrs=(_DTYPE,),
        to_tile=_full_to_tile,
        doc="every element the constant value",
    ),
    OpDef(
        "tile.full",
        (_T("shape", "shape"), _T("value", "scalar")),
        _full,
        Special("fill"),
        effects=(R, R),
        attrs=(_DTYPE,),
        spaces=(None, None),
        out_space=VEC[0],
        pto="texpands",
        doc="every element the constant value",
    ),
    OpDef(
        "tile.load",
        (_T("tensor", "tensor"), _T("offsets", "shape"), _T("shapes", "shape"), _T("valid_shapes", "shape")),
        _load,
        Special("load"),
        effects=(R, R, R, R),
        attrs=(_TARGET, Attr("clamp", (bool,)), Attr("cache", (int, CachePolicy))),
        spaces=(None, None, None, None),
        out_space=FROM_TARGET,
        pto="tload",
        doc="a window of a tensor as a tile; only the valid extents are read",
    ),
    OpDef(
        "tile.store",
        (_T("tile", "tile"), _T("offsets", "shape"), _T("tensor", "tensor"), _T("shapes", "shape", optional=True)),
        _store,
        Special("store"),
        effects=store_effects,
        attrs=(Attr("atomic", (int, AtomicType)),),
        channel=WriteChannel.Dma,
        spaces=((MemorySpace.Vec, MemorySpace.Acc), None, None, None),
        reuses=2,
        pto="tstore",
        doc="the valid rectangle of a tile into a window of a tensor",
    ),
    OpDef(
        "tile.move",
        (_T("tile", "tile"),),
        _move,
        Special("copy"),
        effects=(R,),
        attrs=(
            Attr("target_memory", (MemorySpace,), required=True),
            Attr("blayout", (TileLayout,)),
            Attr("slayout", (TileLayout,)),
        ),
        spaces=(None,),
        out_space=FROM_TARGET,
        in_place=False,
        pto="tmov",
        doc="a copy of a tile in another memory, in the layout of that memory",
    ),
    OpDef(
        "tile.extract",
        (_T("src", "tile"), _T("row", "scalar"), _T("col", "scalar"), _T("shape", "shape")),
        _extract,
        Special("extract"),
        effects=(R, R, R, R),
        attrs=(Attr("target_memory", (MemorySpace,), required=True),),
        spaces=(None, None, None, None),
        out_space=FROM_TARGET,
        in_place=False,
        pto="textract",
        doc="an independent copy of a window",
    ),
    *(
        OpDef(
            f"{level}.read",
            (_T("x", level), _T("indices", "shape")),
            _read,
            Special("read"),
            effects=(R, R),
            spaces=(VEC, None) if level == "tile" else None,
            to_tile=_keep_gm if level == "tensor" else None,
            pto="load_scalar" if level == "tensor" else "tgetval",
            doc="one element as a scalar",
        )
        for level in ("tensor", "tile")
    ),
    OpDef(
        "tensor.write",
        (_T("x", "tensor"), _T("indices", "shape"), _T("value", "scalar")),
        _write,
        Special("write"),
        effects=(W, R, R),
        channel=WriteChannel.Scalar,
        reuses=0,
        to_tile=_keep_gm,
        pto="store_scalar",
        doc="one element of a tensor replaced",
    ),
    OpDef(
        "tile.write",
        (_T("x", "tile"), _T("indices", "shape"), _T("value", "scalar")),
        _write,
        Special("write"),
        effects=(RW, R, R),
        spaces=(VEC, None, None),
        out_space=INHERIT,
        reuses=0,
        pto="tsetval",
        doc="one element of a tile replaced, in place",
    ),
    OpDef(
        "tensor.dim",
        (_T("x", "tensor"), _T("axis", "scalar")),
        _dim,
        Special("query"),
        effects=(R, R),
        to_tile=lambda lo, call, args: lo.emit("tensor.dim", args),
        doc="the run-time extent of an axis",
    ),
    *(
        OpDef(
            f"{level}.{name}",
            (),
            _index_query,
            Special("query"),
            effects=(),
            to_tile=(lambda lo, call, args: lo.emit(call.op.name.replace("tensor.", "tile."), ())) if level == "tensor" else None,
            doc=f"{name.removeprefix('get_').replace('_', ' ')} of this run of the kernel",
        )
        for level in ("tensor", "tile")
        for name in ("get_block_idx", "get_block_num", "get_subblock_idx")
    ),
)

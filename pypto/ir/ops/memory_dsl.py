"""How the language spells storage, transfers, windows and element access."""

from __future__ import annotations

import math
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import AtomicType, CachePolicy, MemorySpace, PadValue, TensorLayout
from pypto.ir.expr import ConstBool, ConstFloat, ConstInt, Expr, MakeTuple
from pypto.ir.opdef import Dsl, DslContext, OpRejected, Param
from pypto.ir.ops.rules import element_const, level_of, unified
from pypto.ir.shaped import ShapedType, TileType, as_dims, same_dims

__all__ = ["DSL"]

_PADS = {0: PadValue.zero, math.inf: PadValue.max, -math.inf: PadValue.min}


def _tuple(values: Any) -> MakeTuple:
    return MakeTuple(as_dims(values))


def _dtype(value: Any, name: str) -> DataType:
    if not isinstance(value, DataType):
        what = f"pl.{name}: dtype must be a dtype such as pl.FP32, got {value!r}"
        raise OpRejected(what, "dtype=pl.FP32", TypeError)
    return value


def _create_tile(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    kwargs: dict[str, Any] = {"dtype": _dtype(a["dtype"], "create_tile")}
    # The generic namespaces make vector tiles; a printed program says the space, or leaves it open.
    if a["target_memory"] is not None:
        kwargs["target_memory"] = a["target_memory"]
        if a["target_memory"] in (MemorySpace.DDR, MemorySpace.ScalarLocal):
            what = f"tiles lie in the memories of a core, not in {a['target_memory'].name}"
            raise OpRejected(what, "pl.create_tensor(shape, dtype=...) makes a tensor in global memory")
    for flag in ("transpose", "flat_layout", "compact"):
        if a[flag]:
            kwargs[flag] = True
    return ctx.op("tile.create", (_tuple(a["shape"]),), kwargs)


def _create_tensor(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    kwargs: dict[str, Any] = {"dtype": _dtype(a["dtype"], "create_tensor")}
    if a["layout"] is not TensorLayout.ND:
        kwargs["layout"] = a["layout"]
    if a["manual_dep"]:
        kwargs["manual_dep"] = True
    init = a["init_value"]
    if init is not None:
        kwargs["init_value"] = init
        if isinstance(init, int):
            if abs(init) > 1 << 53:
                raise OpRejected(f"init_value {init} is beyond 2**53", "fill the tensor in a kernel: o[:] = pl.full(...)")
            element_const(ConstInt(init, DataType.INDEX), kwargs["dtype"])
        elif isinstance(init, float) and math.isfinite(init):
            element_const(ConstFloat(init, DataType.FP32), kwargs["dtype"])
    return ctx.op("tensor.create", (_tuple(a["shape"]),), kwargs)


def _full(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    dtype = _dtype(a["dtype"], "full")
    value = a["value"]
    if isinstance(value, bool):
        constant: Expr = element_const(ConstBool(value, ctx.span), dtype)
    elif isinstance(value, int):
        constant = element_const(ConstInt(value, DataType.INT64, ctx.span), dtype)
    elif isinstance(value, float):
        constant = element_const(ConstFloat(value, DataType.FP32, ctx.span), dtype)
    else:
        raise OpRejected(f"pl.full: value must be a constant number, got {value!r}", "use pl.expands for a scalar", TypeError)
    return ctx.op(f"{space or 'tensor'}.full", (_tuple(a["shape"]), constant), {"dtype": dtype})


def _load(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    shape = _tuple(a["shapes"])
    valid = shape if a["valid_shape"] is None else _tuple(a["valid_shape"])
    kwargs: dict[str, Any] = {"target_memory": a["target_memory"]} if a["target_memory"] is not None else {}
    if a["clamp"]:
        kwargs["clamp"] = True
    if a["cache"] is not None:
        kwargs["cache"] = a["cache"]
        if isinstance(a["cache"], int) and a["cache"] not in tuple(CachePolicy):
            raise OpRejected(f"there is no cache policy {a['cache']}", "cache=pl.CachePolicy.BYPASS, or leave it out")
    if isinstance(a["tensor"].type, TileType):
        raise OpRejected("pl.load: the first operand must be a tensor, got a tile", "slice the tile with pl.slice", TypeError)
    return ctx.op("tile.load", (a["tensor"], _tuple(a["offsets"]), shape, valid), kwargs)


def _store(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    shapes = () if a["shapes"] is None else (_tuple(a["shapes"]),)
    kwargs = {"atomic": a["atomic"]} if a["atomic"] else {}
    return ctx.op("tile.store", (a["tile"], _tuple(a["offsets"]), a["output_tensor"], *shapes), kwargs)


def _move(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    kwargs = {k: a[k] for k in ("target_memory", "blayout", "slayout") if a[k] is not None}
    return ctx.op("tile.move", (a["tile"],), kwargs)


def _extract(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    row, col = as_dims((a["index_row"], a["index_col"]))
    return ctx.op("tile.extract", (a["src"], row, col, _tuple(a["shape"])), {"target_memory": a["target_memory"]})


def _slice(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    x = a["x"]
    level = level_of("slice", space, (x,))
    kwargs: dict[str, Any] = {}
    if a["clamp"]:
        if level == "tile":
            raise OpRejected("pl.slice: clamp is only for tensors", "narrow the window with valid_shape", TypeError)
        kwargs["clamp"] = True
    pad = _pad(a["pad_value"]) if a["pad_value"] is not None else None
    if pad is not None and pad is not PadValue.null:
        kwargs["pad_value"] = pad
    args: list[Expr] = [x, _tuple(a["shape"]), _tuple(a["offset"])]
    if a["valid_shape"] is not None or a["drop_dims"] is not None:
        args.append(_tuple(a["valid_shape"] or ()))
    if a["drop_dims"] is not None:
        args.append(_tuple(a["drop_dims"]))
    call = ctx.op(f"{level}.slice", args, kwargs)
    t = call.type
    if "pad_value" in kwargs and isinstance(t, ShapedType) and same_dims(t.valid, t.shape):
        ctx.warn("pl.slice: pad_value has no effect on a fully valid window")
    return call


def _assemble(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    target = a["target"]
    level = level_of("assemble", space, (target,))
    if level == "tile" and a["atomic"]:
        raise OpRejected("pl.assemble: atomic is only for tensors", "pl.store(..., atomic=...)", TypeError)
    kwargs = {"atomic": a["atomic"]} if a["atomic"] else {}
    source = _narrowed(ctx, target, a["source"]) if level == "tile" else a["source"]
    return ctx.op(f"{level}.assemble", (target, source, _tuple(a["offset"])), kwargs)


def _narrowed(ctx: DslContext, target: Expr, source: Expr) -> Expr:
    """Single precision enters a tile of halves rounded to nearest even."""
    t, s = target.type, source.type
    if not isinstance(t, TileType) or not isinstance(s, TileType) or s.dtype is not DataType.FP32:
        return source
    if t.dtype not in (DataType.BF16, DataType.FP16):
        return source
    return ctx.op("tile.cast", (source,), {"target_type": t.dtype})


def _reshape(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    return (
        unified(ctx, space, "reshape", a["x"], (_tuple(a["shape"]),))
        if space
        else ctx.op(f"{level_of('reshape', space, (a['x'],))}.reshape", (a["x"], _tuple(a["shape"])))
    )


def _reinterpret(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    level = level_of("reinterpret_view", space, (a["x"],))
    shape = () if a["shape"] is None else (_tuple(a["shape"]),)
    return ctx.op(f"{level}.reinterpret_view", (a["x"], *shape), {"dtype": _dtype(a["dtype"], "reinterpret_view")})


def _set_validshape(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    level = level_of("set_validshape", space, (a["x"],))
    return ctx.op(f"{level}.set_validshape", (a["x"], *as_dims((a["rows"], a["cols"]))))


def _pad(value: Any) -> PadValue:
    if isinstance(value, PadValue):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value in _PADS:
        return _PADS[value]
    what = f"pad_value must be pl.PadValue.zero, max or min (or 0, inf, -inf), got {value!r}"
    raise OpRejected(what, "pad_value=pl.PadValue.zero", TypeError)


def _fillpad(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    return unified(ctx, space, "fillpad", a["x"], (), {"pad_value": _pad(a["pad_value"])})


def _fillpad_inplace(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    level_of("fillpad_inplace", space, (a["x"],))
    return ctx.op("tile.fillpad_inplace", (a["x"],), {"pad_value": _pad(a["pad_value"])})


def _fillpad_expand(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    level = level_of("fillpad_expand", space, (a["x"],))
    return ctx.op(f"{level}.fillpad_expand", (a["x"], _tuple(a["shape"])), {"pad_value": _pad(a["pad_value"])})


def _read(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    level = level_of("read", space, (a["x"],))
    return ctx.op(f"{level}.read", (a["x"], _tuple(a["indices"])))


def _write(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    x, value = a["x"], a["value"]
    level = level_of("write", space, (x,))
    assert isinstance(x.type, ShapedType)
    # A constant takes the element type; a run-time value must have it, so that no conversion hides in a store.
    if isinstance(value, (ConstInt, ConstFloat, ConstBool)):
        value = element_const(value, x.type.dtype)
    return ctx.op(f"{level}.write", (x, _tuple(a["indices"]), value))


def _dim(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    return ctx.op("tensor.dim", (a["tensor"], *as_dims((a["axis"],))))


def _query(name: str) -> Dsl:
    def build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
        return ctx.op(f"{space or 'tile'}.{name}", ())

    return Dsl(name, ("", "tensor", "tile"), (), build, "block and lane queries")


_VEC = MemorySpace.Vec
_TILE_PARAMS = (
    Param("shape", "shape"),
    Param("dtype", "attr"),
    Param("target_memory", "attr", _VEC),
    Param("transpose", "attr", None),
    Param("flat_layout", "attr", None, True),
    Param("compact", "attr", None, True),
)
_ATOMIC = Param("atomic", "attr", AtomicType.None_, True)
DSL: tuple[Dsl, ...] = (
    Dsl("create_tile", ("",), _TILE_PARAMS, _create_tile, "an undefined tile"),
    Dsl("create", ("tile",), _TILE_PARAMS, _create_tile, "an undefined tile"),
    *(
        Dsl(
            name,
            (space,),
            (
                Param("shape", "shape"),
                Param("dtype", "attr"),
                Param("layout", "attr", TensorLayout.ND),
                Param("manual_dep", "attr", False),
                Param("init_value", "attr", None),
            ),
            _create_tensor,
            "a temporary tensor in global memory",
        )
        for name, space in (("create_tensor", ""), ("create", "tensor"))
    ),
    Dsl(
        "full",
        ("", "tensor", "tile"),
        (Param("shape", "shape"), Param("dtype", "attr"), Param("value", "attr")),
        _full,
        "every element the constant value",
    ),
    Dsl(
        "load",
        ("", "tile"),
        (
            Param("tensor"),
            Param("offsets", "shape"),
            Param("shapes", "shape"),
            Param("valid_shape", "shape", None),
            Param("target_memory", "attr", _VEC),
            Param("clamp", "attr", False),
            Param("cache", "attr", None),
        ),
        _load,
        "a window of a tensor as a tile",
    ),
    Dsl(
        "store",
        ("", "tile"),
        (Param("tile"), Param("offsets", "shape"), Param("output_tensor"), Param("shapes", "shape", None), _ATOMIC),
        _store,
        "the valid rectangle of a tile into a tensor",
    ),
    Dsl(
        "move",
        ("", "tile"),
        (Param("tile"), Param("target_memory", "attr"), Param("blayout", "attr", None), Param("slayout", "attr", None)),
        _move,
        "a copy in another memory",
    ),
    Dsl(
        "extract",
        ("tile",),
        (
            Param("src"),
            Param("index_row", "index"),
            Param("index_col", "index"),
            Param("shape", "shape"),
            Param("target_memory", "attr", _VEC, True),
        ),
        _extract,
        "an independent copy of a window",
    ),
    Dsl(
        "slice",
        ("", "tensor", "tile"),
        (
            Param("x"),
            Param("shape", "shape"),
            Param("offset", "shape"),
            Param("valid_shape", "shape", None),
            Param("drop_dims", "shape", None),
            Param("pad_value", "attr", None),
            Param("clamp", "attr", False),
        ),
        _slice,
        "a window",
    ),
    Dsl(
        "assemble",
        ("", "tensor", "tile"),
        (Param("target"), Param("source"), Param("offset", "shape"), _ATOMIC),
        _assemble,
        "target with a window replaced",
    ),
    Dsl("reshape", ("", "tensor", "tile"), (Param("x"), Param("shape", "shape")), _reshape, "another shape, same elements"),
    Dsl(
        "reinterpret_view",
        ("", "tensor", "tile"),
        (Param("x"), Param("dtype", "attr"), Param("shape", "shape", None, True)),
        _reinterpret,
        "another dtype, same bytes",
    ),
    Dsl(
        "set_validshape",
        ("", "tensor", "tile"),
        (Param("x"), Param("rows", "index"), Param("cols", "index")),
        _set_validshape,
        "another valid rectangle",
    ),
    Dsl("fillpad", ("", "tensor", "tile"), (Param("x"), Param("pad_value", "attr", PadValue.zero)), _fillpad, "fill the padding"),
    Dsl(
        "fillpad_inplace",
        ("tile",),
        (Param("x"), Param("pad_value", "attr", PadValue.zero)),
        _fillpad_inplace,
        "fill the padding where it lies",
    ),
    Dsl(
        "fillpad_expand",
        ("", "tensor", "tile"),
        (Param("x"), Param("shape", "shape"), Param("pad_value", "attr", PadValue.zero)),
        _fillpad_expand,
        "a larger copy, the rest of it filled",
    ),
    Dsl("read", ("", "tensor", "tile"), (Param("x"), Param("indices", "shape")), _read, "one element as a scalar"),
    Dsl("write", ("", "tensor", "tile"), (Param("x"), Param("indices", "shape"), Param("value")), _write, "replace one element"),
    Dsl("dim", ("", "tensor"), (Param("tensor"), Param("axis", "index")), _dim, "the run-time extent of an axis"),
    *(_query(n) for n in ("get_block_idx", "get_block_num", "get_subblock_idx")),
)

"""How the language spells reading and writing by index."""

from __future__ import annotations

from typing import Any, NoReturn

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.ir import arith
from pypto.ir.expr import ConstInt, Expr, MakeTuple
from pypto.ir.opdef import Dsl, DslContext, OpRejected, Param
from pypto.ir.ops.gather_compare import compare_columns
from pypto.ir.ops.gathers import COALESCE, OOB
from pypto.ir.ops.rules import is_scalar, level_of, shape_text
from pypto.ir.shaped import ShapedType, TensorType, TileType, as_dims

__all__ = ["DSL"]


def _refuse(message: str, hint: str) -> NoReturn:
    raise OpRejected(message, hint, TypeError)


def _dim(name: str, e: Expr) -> int:
    if not isinstance(e, ConstInt):
        _refuse(f"pl.{name}: dim must be a constant integer", f"pl.{name}(x, dim=-1, ...)")
    return e.value


def _only_tensors(name: str, *values: Expr) -> None:
    for v in values:
        if not isinstance(v.type, ShapedType):
            _refuse(f"pl.{name}: expected tensors, got a number", f"docs/operators.md says how pl.{name} is called")
        if isinstance(v.type, TileType):
            _refuse(f"pl.{name} works on tensors, got a tile", f"use pl.tile.{name}, or pl.slice instead of pl.load")


def _pattern(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(f"pl.{name}: mask_pattern must be a pattern, got {value!r}", "mask_pattern=pl.tile.MaskPattern.P0101")
    return int(value)


# -- gather --------------------------------------------------------------------------------------------------------


def _gather(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr | tuple[Expr, ...]:
    x, dim, index = a["x"], a["dim"], a["index"]
    if a["kvalue"] is not None:
        if dim is not None or index is not None or a["mask_pattern"] is not None:
            _refuse(
                "pl.gather: kvalue excludes dim, index and mask_pattern", 'pl.gather(x, kvalue=0.0, cmp_mode="gt", out_cols=64)'
            )
        return compare_columns(ctx, "tensor", {**a, "tmp": None})
    if a["mask_pattern"] is not None:
        if dim is not None or index is not None:
            _refuse("pl.gather: mask_pattern excludes dim and index", "gather by pattern: pl.gather(x, mask_pattern=...)")
        return _gather_mask(ctx, "tensor", {**a, "src": x})
    if a["output_dtype"] is not None:
        _refuse("pl.gather: output_dtype needs mask_pattern", "convert the result with pl.cast")
    if dim is not None and not is_scalar(dim):
        if index is not None:
            _refuse("pl.gather: the second operand is the index, another one is given", "pl.gather(x, dim=-1, index=index)")
        dim, index = None, dim
    if index is None:
        _refuse("pl.gather: no index is given", "pl.gather(x, index), or pl.gather(x, dim=-1, index=index)")
    _only_tensors("gather", x, index)
    return ctx.op("tensor.gather", (x, index), {} if dim is None else {"dim": _dim("gather", dim)})


def _tile_gather(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    return ctx.op("tile.gather", (a["src"], a["indices"], a["tmp"]))


def _gather_mask(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    x = a["src"]
    level = level_of("gather_mask", space, (x,))
    kwargs: dict[str, Any] = {"mask_pattern": _pattern("gather", a["mask_pattern"])}
    if a["output_dtype"] is not None:
        kwargs["output_dtype"] = _dtype(a["output_dtype"])
    return ctx.op(f"{level}.gather_mask", (x,), kwargs)


def _dtype(value: Any) -> DataType:
    if not isinstance(value, DataType):
        _refuse(f"output_dtype must be a dtype such as pl.FP32, got {value!r}", "output_dtype=pl.INT32")
    return value


def _gatherb(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    kwargs = {} if a["output_dtype"] is None else {"output_dtype": _dtype(a["output_dtype"])}
    return ctx.op("tile.gatherb", (a["src"], a["offset"]), kwargs)


def _word(name: str, value: Any, words: tuple[str, ...]) -> int:
    """One of some words, or its number."""
    if isinstance(value, str) and value in words:
        return words.index(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(words):
        return value
    _refuse(f"pl.mgather: {name} must be one of {', '.join(words)}, got {value!r}", f'{name}="{words[0]}"')


def _mgather(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    if isinstance(a["mem"].type, TileType):
        _refuse("pl.mgather: the first operand must be a tensor, got a tile", "pl.tile.gather takes elements of a tile")
    if isinstance(a["idx"].type, TensorType):
        extents = shape_text(a["idx"].type.shape)
        offsets = ", ".join("0" for _ in a["idx"].type.shape)
        hint = (
            f'load it, and store what is gathered: t = pl.mgather(mem, pl.load(idx, [{offsets}], {extents}), "row"), then '
            "o = pl.store(t, [0, 0], o)"
        )
        _refuse("pl.mgather: the index must be a tile, got a tensor", hint)
    kwargs: dict[str, Any] = {"coalesce": _word("coalesce", a["coalesce"], COALESCE)}
    mode = _word("gather_oob", a["gather_oob"], OOB)
    if mode:
        kwargs["gather_oob"] = mode
    if a["target_memory"] is not None:
        kwargs["target_memory"] = a["target_memory"]
    args: list[Expr] = [a["mem"], a["idx"]]
    if a["valid_shape"] is not None or a["scratch"] is not None:
        args.append(MakeTuple(as_dims(a["valid_shape"] or ())))
    if a["scratch"] is not None:
        args.append(a["scratch"])
    return ctx.op("tile.mgather", args, kwargs)


# -- scatter -------------------------------------------------------------------------------------------------------


def _scatter(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    x = a["x"]
    if a["mask_pattern"] is not None:
        if a["dst"] is None:
            _refuse("pl.scatter: mask_pattern needs dst", "pl.scatter(x, mask_pattern=..., dst=y) writes columns of x into y")
        return _scatter_mask(ctx, "tensor", {"dst": a["dst"], "src": x, "mask_pattern": a["mask_pattern"]})
    if a["dim"] is None or a["index"] is None or a["src"] is None:
        _refuse("pl.scatter: dim, index and src are needed", "pl.scatter(x, dim=-1, index=index, src=src)")
    _only_tensors("scatter", x, a["index"], a["src"])
    return ctx.op("tensor.scatter", (x, a["index"], a["src"]), {"dim": _dim("scatter", a["dim"])})


def _tile_scatter(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    return ctx.op("tile.scatter", (a["dst"], a["src"], a["indexes"]))


def _scatter_mask(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    level = level_of("scatter_mask", space, (a["dst"], a["src"]))
    return ctx.op(f"{level}.scatter_mask", (a["dst"], a["src"]), {"mask_pattern": _pattern("scatter", a["mask_pattern"])})


def _scatter_update(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    x, index, src, dim = a["x"], a["index"], a["src"], a["dim"]
    if index is not None and is_scalar(index):  # scatter_update(x, dim, index, src)
        index, src, dim = src, dim, index
    if index is None or src is None:
        _refuse("pl.scatter_update: index and src are needed", "pl.scatter_update(x, index, src)")
    level = level_of("scatter_update", space, (x, index, src))
    kwargs = {} if dim is None else {"dim": _dim("scatter_update", dim)}
    made = ctx.op(f"{level}.scatter_update", (_as_rows(ctx, level, x), index, _as_rows(ctx, level, src)), kwargs)
    shape = x.type.shape
    return made if len(shape) == 2 else ctx.op(f"{level}.reshape", (made, MakeTuple(shape)))


def _as_rows(ctx: DslContext, level: str, x: Expr) -> Expr:
    """Four dimensions as rows: all axes but the last count them."""
    t = x.type
    if not isinstance(t, ShapedType) or len(t.shape) != 4:
        return x
    return ctx.op(f"{level}.reshape", (x, MakeTuple((arith.product(t.shape[:-1]), t.shape[-1]))))


def _mscatter(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    return ctx.op("tile.mscatter", (a["src"], a["idx"], a["output_tensor"]))


_T, _NONE = ("", "tensor"), None
_PATTERN = Param("mask_pattern", "attr")
_OUTPUT = Param("output_dtype", "attr", None)
DSL: tuple[Dsl, ...] = (
    Dsl(
        "gather",
        _T,
        (
            Param("x"),
            Param("dim", "value", None),
            Param("index", "value", None),
            Param("mask_pattern", "attr", None, True),
            Param("output_dtype", "attr", None, True),
            Param("kvalue", "value", None, True),
            Param("cmp_mode", "attr", "eq", True),
            Param("out_cols", "attr", None, True),
            Param("offset", "attr", 0, True),
            Param("count_dtype", "attr", None, True),
        ),
        _gather,
        "elements by index: along an axis, or counted over all of x; columns by a pattern, or (two values) by comparing",
    ),
    Dsl("gather", ("tile",), (Param("src"), Param("indices"), Param("tmp")), _tile_gather, "elements of a tile by index"),
    Dsl("gather_mask", ("tensor", "tile"), (Param("src"), _PATTERN, _OUTPUT), _gather_mask, "the columns a pattern takes"),
    Dsl(
        "gatherb",
        ("", "tile"),
        (Param("src"), Param("offset"), Param("output_dtype", "attr", None, True)),
        _gatherb,
        "blocks of 32 bytes by their offsets",
    ),
    Dsl(
        "mgather",
        ("", "tile"),
        (
            Param("mem"),
            Param("idx"),
            Param("coalesce", "attr"),
            Param("gather_oob", "attr", OOB[0], True),
            Param("target_memory", "attr", MemorySpace.Vec, True),
            Param("scratch", "value", None, True),
            Param("valid_shape", "shape", None, True),
        ),
        _mgather,
        'rows (coalesce="row") or elements ("elem") of a tensor by a tile of indices',
    ),
    Dsl(
        "scatter",
        _T,
        (
            Param("x"),
            Param("dim", "value", None),
            Param("index", "value", None),
            Param("src", "value", None),
            Param("mask_pattern", "attr", None, True),
            Param("dst", "value", None, True),
        ),
        _scatter,
        "x with elements of its rows replaced by index; columns of dst by a pattern",
    ),
    Dsl("scatter", ("tile",), (Param("dst"), Param("src"), Param("indexes")), _tile_scatter, "elements of a tile replaced"),
    Dsl("scatter_mask", ("tensor", "tile"), (Param("dst"), Param("src"), _PATTERN), _scatter_mask, "columns of dst replaced"),
    Dsl(
        "scatter_update",
        ("", "tensor", "tile"),
        (Param("x"), Param("index", "value", None), Param("src", "value", None), Param("dim", "value", None)),
        _scatter_update,
        "x with whole rows replaced by index",
    ),
    Dsl(
        "mscatter",
        ("", "tile"),
        (Param("src"), Param("idx"), Param("output_tensor")),
        _mscatter,
        "elements of a tensor in global memory replaced",
    ),
)

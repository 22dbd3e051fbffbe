"""Square brackets on tensors, tiles and arrays.

In: `a[i, j]`, `a[r:r + 16, :]`, `a[i]`, `dst[...] = src`.  Out: element reads, windows, window writes.
Windows have positive extents and stay within the data where that is known; a scalar index drops its axis.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NoReturn

from pypto.errors import InvalidOperationError, ParserSyntaxError, ParserTypeError, UnsupportedFeatureError
from pypto.frontend import calls
from pypto.frontend.constants import describe, index_hint
from pypto.frontend.values import dim_text, type_text
from pypto.ir import arith, ops
from pypto.ir.expr import Call, Expr, const_index
from pypto.ir.shaped import ShapedType, TensorType, TileType, as_dims, const_dim, const_dims
from pypto.ir.types import ArrayType, ScalarType
from pypto.language.annotations import Directed
from pypto.named import NamedTuple

if TYPE_CHECKING:
    from pypto.frontend.expressions import Expressions

__all__ = ["Window", "read", "window", "write"]


class Window(NamedTuple):
    """Offset and extent per axis, and the axes that a scalar index drops."""

    offset: tuple[Expr, ...]
    shape: tuple[Expr, ...]
    dropped: tuple[int, ...]


def read(x: Expressions, node: ast.Subscript, base: Expr) -> Expr:
    """The value of `base[...]`."""
    t = base.type
    if isinstance(t, ArrayType):
        index = calls.index(x, x.value(node.slice), node.slice)
        return calls.build(x, node, "array", "get_element", {"array": base, "index": index})
    assert isinstance(t, ShapedType)
    axes = _axes(x, node, t)
    if len(axes) == len(t.shape) and not any(isinstance(a, ast.Slice) for a in axes):
        indices = tuple(_index(x, a, t, i, node.value) for i, a in enumerate(axes))
        return calls.build(x, node, "", "read", {"x": base, "indices": indices}, ParserSyntaxError)
    w = window(x, node, t, axes)
    if isinstance(t, TileType):
        return _tile_window(x, node, base, t, w)
    values = {"x": base, "shape": w.shape, "offset": w.offset, "drop_dims": w.dropped or None}
    return calls.build(x, node, "", "slice", values, ParserSyntaxError)


def _axes(x: Expressions, node: ast.Subscript, t: ShapedType) -> list[ast.expr]:
    axes = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if len(axes) > len(t.shape):
        kind = "Tensor" if isinstance(t, TensorType) else "Tile"
        what = f"{kind} subscript has {len(axes)} indices but the {kind.lower()} is {len(t.shape)}D"
        hint = f"write at most {len(t.shape)}: {', '.join(map(ast.unparse, axes[: len(t.shape)]))}"
        if not t.shape:
            name = ast.unparse(node.value)
            hint = (
                f"0-d arrays are passed as scalars: annotate the parameter, {name}: pl.{t.dtype.name}, and use {name} as a number"
            )
            if isinstance(x.frame.source.annotations.get(name), Directed):
                hint = f"pl.write({name}, [], value) writes the number of a 0-d output"
        x.fail(ParserTypeError, what, node, hint)
    for a in axes:
        if isinstance(a, ast.Constant) and a.value is Ellipsis:
            x.fail(ParserTypeError, "`...` in a subscript is not supported", a, "write `:` for each axis")
        if isinstance(a, ast.Constant) and a.value is None:
            x.fail(ParserSyntaxError, "None in a subscript is not supported", a, "use pl.reshape to add an axis")
    return axes


def window(x: Expressions, node: ast.Subscript, t: ShapedType, axes: list[ast.expr] | None = None) -> Window:
    """The window that a subscript of slices and scalars names; missing trailing axes are whole."""
    axes = _axes(x, node, t) if axes is None else axes
    offset: list[Expr] = []
    shape: list[Expr] = []
    dropped: list[int] = []
    for i, a in enumerate(axes):
        if not isinstance(a, ast.Slice):
            offset.append(as_dims((_index(x, a, t, i, node.value),))[0])
            shape.append(const_index(1))
            dropped.append(i)
            continue
        start, extent = _slice(x, a, t, i)
        offset.append(start)
        shape.append(extent)
    for n in t.shape[len(axes) :]:
        offset.append(const_index(0))
        shape.append(n)
    return Window(tuple(offset), tuple(shape), tuple(dropped))


def _index(x: Expressions, node: ast.expr, t: ShapedType, axis: int, of: ast.expr) -> Any:
    given = x.value(node)
    if isinstance(given, Expr) and isinstance(given.type, ShapedType):
        _refuse_many(x, node, given.type, t, of)
    value = calls.index(x, given, node)
    _not_negative(x, value, node, axis)
    size = const_dim(t.shape[axis])
    if type(value) is int and size is not None and value >= size:
        what = f"index {value} reads past the end of dimension {axis} (extent {size})"
        x.fail(ParserSyntaxError, what, node, index_hint(size))
    return value


def _refuse_many(x: Expressions, node: ast.expr, index: ShapedType, t: ShapedType, of: ast.expr) -> NoReturn:
    """A tensor or tile as an index, which numpy takes."""
    name, numbers = ast.unparse(of), ast.unparse(node)
    what = f"an extent, offset or index must be an integer, got {type_text(index)}"
    if isinstance(t, TileType):
        hint = "elements of a tile by index: pl.tile.gather(t, indices, tmp); one element: pl.read(t, [i, j])"
    else:
        if isinstance(index, TensorType):
            zeros = ", ".join("0" for _ in index.shape)
            numbers = f"pl.load({numbers}, [{zeros}], [{', '.join(map(dim_text, index.shape))}])"
        hint = f'rows by their numbers: pl.mgather({name}, {numbers}, "row"), a tile with one row for each INT32 number'
    x.fail(InvalidOperationError, what, node, hint)


def _not_negative(x: Expressions, value: Any, node: ast.AST, axis: int) -> None:
    if type(value) is int and value < 0:
        x.fail(
            ParserSyntaxError,
            f"subscript {value} of dimension {axis} is provably negative",
            node,
            "indices count from the beginning; use the extent minus the distance",
        )


def _slice(x: Expressions, node: ast.Slice, t: ShapedType, axis: int) -> tuple[Expr, Expr]:
    if node.step is not None:
        x.fail(UnsupportedFeatureError, "a slice step is not supported", node.step, "take the whole window and select within it")
    size = t.shape[axis]
    start = 0 if node.lower is None else calls.index(x, x.value(node.lower), node.lower)
    _not_negative(x, start, node.lower or node, axis)
    begin = as_dims((start,))[0]
    if node.upper is None:
        stop = size
    else:
        end = calls.index(x, x.value(node.upper), node.upper)
        _not_negative(x, end, node.upper, axis)
        stop = as_dims((end,))[0]
    whole = node.lower is None or (type(start) is int and start == 0)
    extent = stop if whole else arith.distance(stop, begin)
    known = const_dim(extent)
    if known is not None and known < 1:
        x.fail(
            ParserSyntaxError,
            f"the window of dimension {axis} has extent {known}; it must be positive",
            node,
            "a slice runs from its first index to one past its last"
            if node.lower is not None or node.upper is not None
            else "an empty window has nothing to compute: call the kernel with arrays that have elements",
        )
    return begin, extent


def _tile_window(x: Expressions, node: ast.Subscript, base: Expr, t: TileType, w: Window) -> Expr:
    """A window of a tile: static, and kept two-dimensional."""
    calls.ask_for_static(x, *w.offset, *w.shape)
    if any(const_dim(o) is None for o in w.offset):
        x.fail(
            UnsupportedFeatureError,
            "Dynamic lower bounds are not supported in tile subscript",
            node,
            "use pl.tile.slice(tile, shape, offset)",
        )
    if const_dims(w.shape) is None:
        x.fail(UnsupportedFeatureError, "the extents of a tile subscript must be static", node, "use pl.slice with valid_shape")
    dropped = w.dropped
    if dropped and len(t.shape) - len(dropped) < 2:
        x.frame.warn("a tile subscript keeps two dimensions: the indexed axis stays with extent 1", node)
        dropped = dropped[: len(t.shape) - 2]
    values = {"x": base, "shape": w.shape, "offset": w.offset, "drop_dims": dropped or None}
    return calls.build(x, node, "", "slice", values, ParserSyntaxError)


# -- writing -------------------------------------------------------------------------------------------------------


def write(x: Expressions, node: ast.Subscript, base: Expr, value: Any, value_node: ast.expr) -> Expr:
    """`base[...] = value`: base with a window (or an array element) replaced."""
    t = base.type
    if isinstance(t, ArrayType):
        index = calls.index(x, x.value(node.slice), node.slice)
        element = x.frame.scalar(value, value_node)
        return calls.build(x, node, "array", "update_element", {"array": base, "index": index, "value": element})
    assert isinstance(t, ShapedType)
    axes = _axes(x, node, t)
    if len(axes) == len(t.shape) and not any(isinstance(a, ast.Slice) for a in axes):
        name = ast.unparse(node.value)
        indices = ", ".join(map(ast.unparse, axes))
        x.fail(UnsupportedFeatureError, "an element cannot be assigned", node, f"use pl.write({name}, [{indices}], value)")
    source = _source(x, node, t, value, value_node)
    w = window(x, node, t, axes)
    source = _fit(x, node, t, w, source)
    return calls.build(x, node, "", "assemble", {"target": base, "source": source, "offset": w.offset}, ParserSyntaxError)


def _source(x: Expressions, target: ast.Subscript, t: ShapedType, value: Any, node: ast.expr) -> Expr:
    kind = "tensor" if isinstance(t, TensorType) else "tile"
    to, text = ast.unparse(target), ast.unparse(node)
    if isinstance(value, Expr) and isinstance(value.type, ShapedType) and isinstance(value.type, type(t)):
        if isinstance(t, TensorType) and value.type.dtype is not t.dtype:
            what = f"{to} holds elements of {t.dtype}, the value assigned to it has elements of {value.type.dtype}"
            x.fail(ParserSyntaxError, what, target, _converted(to, value, node, f"pl.{t.dtype.name}"))
        return value
    if isinstance(value, Expr):
        got = "ScalarType" if isinstance(value.type, ScalarType) else type(value.type).__name__
    else:
        got = "ScalarType" if isinstance(value, (int, float)) else describe(value)
    name = ast.unparse(target.value)
    hint = {
        "ScalarType": f"fill it: {to} = pl.full([<extents>], dtype=pl.{t.dtype.name}, value={text}); one element: "
        f"pl.write({name}, [<indices>], {text})",
        "TileType": f"store the tile: {name} = pl.store({text}, [<offsets>], {name})",
        "TensorType": f"load the tensor first: pl.load({text}, [<offsets>], [<extents>])",
    }.get(got, f"assign a {kind}")
    x.fail(ParserTypeError, f"Subscript-write source must also be a {kind}, got {got}{_KINDS.get(got, '')}", node, hint)


def _converted(to: str, value: Expr, node: ast.expr, dtype: str) -> str:
    """What to write for a value of another dtype: a product makes the dtype that is wanted, anything else is cast."""
    known = ops.of(value) if isinstance(value, Call) else None
    if isinstance(node, ast.Call) and known is not None and "out_dtype" in known.attrs:
        keywords = [k for k in node.keywords if k.arg != "out_dtype"]
        wanted = ast.keyword("out_dtype", ast.parse(dtype, mode="eval").body)
        return f"a product makes them: {to} = {ast.unparse(ast.Call(node.func, node.args, [*keywords, wanted]))}"
    return f"convert them: {to} = pl.cast({ast.unparse(node)}, {dtype})"


_KINDS = {"ScalarType": ", a number", "TileType": ", a tile", "TensorType": ", a tensor"}


def _fit(x: Expressions, node: ast.Subscript, t: ShapedType, w: Window, source: Expr) -> Expr:
    """The source in the window's rank; each constant extent must agree with its shape or its valid extent."""
    s = source.type
    assert isinstance(s, ShapedType)
    kept = [i for i in range(len(w.shape)) if i not in w.dropped]
    full_rank = len(s.shape) == len(w.shape)
    if len(s.shape) == len(kept):
        axes = kept
    elif full_rank and isinstance(t, TileType) and all(const_dim(s.shape[i]) == 1 for i in w.dropped):
        axes = list(range(len(w.shape)))
    else:
        x.fail(
            ParserTypeError,
            f"Subscript-write rank mismatch: the window has {len(kept)} dimensions, the source {len(s.shape)}",
            node,
            "reshape the source with pl.reshape",
        )
    for k, i in enumerate(axes):
        want, have, valid = const_dim(w.shape[i]), const_dim(s.shape[k]), const_dim(s.valid[k])
        if want is not None and have is not None and want not in (have, valid):
            x.fail(
                ParserTypeError,
                f"Subscript-write shape mismatch on source axis {k}: window expects {want} elements, source has {have}",
                node,
                "write a window of the source's shape, or slice the source: "
                f"the source is {type_text(s)}, the window [{', '.join(map(dim_text, w.shape))}]",
            )
    if len(s.shape) == len(w.shape):
        return source
    shape = [const_index(1) if i in w.dropped else s.shape[kept.index(i)] for i in range(len(w.shape))]
    return calls.build(x, node, "", "reshape", {"x": source, "shape": tuple(shape)}, ParserSyntaxError)

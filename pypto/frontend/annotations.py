"""Annotations become IR types.

In: what stands after a colon, as values of `pypto.language.annotations` whose extents may be run-time expressions.
Out: an IR type and a direction, or a ParserTypeError at the annotation.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import CompactMode, MemorySpace, PadValue, ParamDirection, TensorLayout, TileLayout
from pypto.errors import ParserTypeError
from pypto.frontend.constants import describe
from pypto.frontend.frame import Frame
from pypto.frontend.values import is_const_expr, scalar_dtype, type_text
from pypto.ir.expr import Expr
from pypto.ir.expr import MemRef as IrMemRef
from pypto.ir.layout import implicit_layout
from pypto.ir.shaped import Dim, ShapedType, TensorType, TileType, as_dims, const_dim
from pypto.ir.shaped import TensorView as IrTensorView
from pypto.ir.shaped import TileView as IrTileView
from pypto.ir.types import (
    ArrayType,
    AsyncEventType,
    AsyncSessionType,
    MemRefType,
    PrefetchAsyncContextType,
    PtrType,
    ScalarType,
    Singleton,
    TupleType,
    Type,
    UnknownType,
)
from pypto.language.annotations import Annotation, Directed, MemRef, MemRefSlot, Opaque, Tensor, TensorView, Tile, TileView
from pypto.language.operations import Unsupported
from pypto.language.symbols import SymbolicInt

__all__ = ["contradiction", "memref", "parameter_form", "type_of"]


def parameter_form(value: Any) -> tuple[Any, ParamDirection]:
    """An annotation without its `pl.Out[...]` or `pl.InOut[...]`, and the direction."""
    return (value.inner, value.direction) if isinstance(value, Directed) else (value, ParamDirection.In)


def type_of(frame: Frame, value: Any, node: ast.AST, *, scalar_shorthand: bool = False) -> Type:
    """The IR type an annotation stands for.  `scalar_shorthand`: a bare dtype means a scalar of it."""
    if isinstance(value, Unsupported):
        error = value.error()
        frame.fail(type(error), error.message, node, error.hint or "leave it out")
    if isinstance(value, DataType):
        if scalar_shorthand:
            return ScalarType.of(value)
        frame.fail(ParserTypeError, f"Incomplete type annotation: pl.{value.name}", node, f"write pl.Scalar[pl.{value.name}]")
    if isinstance(value, type) and value in (Tensor, Tile):
        frame.fail(
            ParserTypeError,
            f"Incomplete type annotation: pl.{value.__name__}",
            node,
            f"write pl.{value.__name__}[[...], dtype]; a bare pl.Tensor is only for parameters of @pl.jit functions",
        )
    if isinstance(value, Opaque):
        return _OPAQUE[value.name].get()
    if not isinstance(value, Annotation):
        text = ast.unparse(node) if isinstance(node, ast.expr) else describe(value)
        frame.fail(
            ParserTypeError, f"Unsupported type annotation: {text}", node, "write pl.Tensor[...], pl.Tile[...] or pl.Scalar[...]"
        )
    return _FORMS[value.form](frame, value.args, node)


def _dtype(frame: Frame, value: Any, node: ast.AST, what: str) -> DataType:
    if not isinstance(value, DataType):
        form = (
            f"{what}[pl.FP32]"
            if what == "pl.Scalar"
            else f"{what}[4, pl.INT32]"
            if what == "pl.Array"
            else f"{what}[[...], pl.FP32]"
        )
        frame.fail(ParserTypeError, f"{what} needs a dtype such as pl.FP32, got {describe(value)}", node, f"write {form}")
    return value


def _tensor(frame: Frame, args: tuple[Any, ...], node: ast.AST) -> Type:
    _count(frame, args, node, "Tensor", 2, 3)
    shape = _shape(frame, args[0], node, "Tensor")
    dtype = _dtype(frame, args[1], node, "pl.Tensor")
    extra = args[2] if len(args) > 2 else None
    if extra is None:
        return TensorType(shape, dtype)
    if isinstance(extra, TensorLayout):
        return TensorType(shape, dtype, None, IrTensorView(layout=_layout(frame, extra, node)))
    if isinstance(extra, TensorView):
        stride = _dims(frame, extra.stride, node)
        return TensorType(
            shape, dtype, None, IrTensorView(stride, extra.layout, _dims(frame, extra.valid_shape, node), extra.pad)
        )
    if isinstance(extra, (MemRef, MemRefSlot, IrMemRef)):
        return TensorType(shape, dtype, memref(frame, extra, node))
    hint = "after shape and dtype may stand a layout, a pl.TensorView(...) or a pl.MemRef"
    frame.fail(ParserTypeError, f"Unsupported Tensor annotation argument: {describe(extra)}", node, hint)


def _layout(frame: Frame, layout: TensorLayout, node: ast.AST) -> TensorLayout:
    if layout is TensorLayout.DN:
        frame.fail(
            ParserTypeError,
            "pl.DN cannot be given as a shorthand: the strides of a column-major view depend on the tensor it comes from",
            node,
            "transpose the tensor where it is used, or derive the view by slice or reshape of a row-major tensor, "
            "or annotate the source shape with no layout marker",
        )
    return layout


def _tile(frame: Frame, args: tuple[Any, ...], node: ast.AST) -> Type:
    if len(args) < 2:
        _count(frame, args, node, "Tile", 2, 5)
    dims = _shape(frame, args[0], node, "Tile")
    for d in as_dims(dims):
        if (const_dim(d) or 0) < 1:
            frame.fail(
                ParserTypeError,
                "the shape of a tile must be static and positive",
                node,
                "put run-time extents into pl.TileView(valid_shape=...)",
            )
    dtype = _dtype(frame, args[1], node, "pl.Tile")
    space: MemorySpace | None = None
    view: TileView | None = None
    place: Any = None
    for a in args[2:]:
        if isinstance(a, MemorySpace):
            space = _once(frame, space, a, node, "memory space")
        elif isinstance(a, TileView):
            view = _once(frame, view, a, node, "TileView")
        elif isinstance(a, (MemRef, MemRefSlot, IrMemRef)):
            place = _once(frame, place, a, node, "MemRef")
        elif isinstance(a, (TensorLayout, TileLayout)):
            frame.fail(
                ParserTypeError, f"Tile does not accept layouts such as {a.name}", node, "use pl.TileView(blayout=, slayout=)"
            )
        else:
            hint = "after shape and dtype may stand a pl.MemRef, a memory space such as pl.Mem.Vec, and a pl.TileView(...)"
            frame.fail(ParserTypeError, f"Unsupported Tile annotation argument: {describe(a)}", node, hint)
    if place is not None and space is None:
        frame.fail(ParserTypeError, "a MemRef needs an explicit memory space", node, "add pl.Mem.Vec (or another space)")
    ref = memref(frame, place, node) if place is not None else None
    return TileType(dims, dtype, ref, _tile_view(frame, view, as_dims(dims), space, node), space)


def _tile_view(
    frame: Frame, view: TileView | None, dims: tuple[Expr, ...], space: MemorySpace | None, node: ast.AST
) -> IrTileView | None:
    """What is left out is what the shape and the memory space imply."""
    if view is None:
        return None
    implied = implicit_layout(space, tuple(const_dim(d) for d in dims))
    start = None if view.start_offset is None else _dims(frame, (view.start_offset,), node)[0]
    return IrTileView(
        _dims(frame, view.valid_shape, node),
        _dims(frame, view.stride, node),
        start,
        implied.blayout if view.blayout is None else view.blayout,
        implied.slayout if view.slayout is None else view.slayout,
        implied.fractal if view.fractal is None else view.fractal,
        PadValue.null if view.pad is None else view.pad,
        CompactMode.null if view.compact is None else view.compact,
    )


def _once(frame: Frame, old: Any, new: Any, node: ast.AST, what: str) -> Any:
    if old is not None:
        frame.fail(ParserTypeError, f"a Tile annotation takes at most one {what}", node, "keep one of them")
    return new


def _scalar(frame: Frame, args: tuple[Any, ...], node: ast.AST) -> Type:
    _count(frame, args, node, "Scalar", 1, 1)
    return ScalarType.of(_dtype(frame, args[0], node, "pl.Scalar"))


def _array(frame: Frame, args: tuple[Any, ...], node: ast.AST) -> Type:
    _count(frame, args, node, "Array", 2, 2)
    extent, dtype = args[0], _dtype(frame, args[1], node, "pl.Array")
    if is_const_expr(extent):
        extent = extent.value
    try:
        return ArrayType(dtype, extent)
    except ValueError as e:
        frame.fail(ParserTypeError, str(e), node, "write pl.Array[4, pl.INT32], with a constant extent")


def _tuple(frame: Frame, args: tuple[Any, ...], node: ast.AST) -> Type:
    types = []
    for a in args:
        if isinstance(a, Annotation) and a.form == "tuple" and not frame.raw:
            frame.fail(ParserTypeError, "Nested tuple types are not supported", node, "return the values side by side")
        types.append(type_of(frame, a, node))
    return TupleType(tuple(types))


_OPAQUE: dict[str, type[Singleton]] = {
    "Ptr": PtrType,
    "MemRefType": MemRefType,
    "PrefetchAsyncContext": PrefetchAsyncContextType,
    "AsyncEvent": AsyncEventType,
    "AsyncSession": AsyncSessionType,
    "Unknown": UnknownType,
}
_WRITTEN = {
    "Tensor": "write pl.Tensor[[...], dtype]",
    "Tile": "write pl.Tile[[...], dtype]",
    "Scalar": "write pl.Scalar[pl.FP32]",
    "Array": "write pl.Array[4, pl.INT32]",
}
_FORMS = {"tensor": _tensor, "tile": _tile, "scalar": _scalar, "array": _array, "tuple": _tuple}


def _count(frame: Frame, args: tuple[Any, ...], node: ast.AST, name: str, least: int, most: int) -> None:
    if not least <= len(args) <= most:
        frame.fail(
            ParserTypeError,
            f"Incomplete type annotation: pl.{name} takes {least if least == most else f'{least} to {most}'} arguments, "
            f"got {len(args)}",
            node,
            _WRITTEN[name],
        )


def _shape(frame: Frame, value: Any, node: ast.AST, name: str) -> tuple[Dim, ...]:
    if not isinstance(value, (list, tuple)):
        what = f"the shape of a pl.{name} is a list of extents, got {describe(value)}"
        frame.fail(ParserTypeError, what, node, _WRITTEN[name])
    return _dims(frame, value, node)


def _dims(frame: Frame, values: Iterable[Any], node: ast.AST) -> tuple[Dim, ...]:
    return tuple(_dim(frame, v, node) for v in values)


def _dim(frame: Frame, value: Any, node: ast.AST) -> Dim:
    if type(value) is int:
        return value
    if isinstance(value, SymbolicInt):
        return frame.context.program.extent(value)
    dtype = scalar_dtype(value)
    if dtype is not None and dtype.is_int():
        return value  # type: ignore[no-any-return]
    got = value.type if isinstance(value, Expr) else value
    frame.fail(
        ParserTypeError,
        f"Shape variable '{value if not isinstance(value, Expr) else '?'}' must be int or pl.dynamic(), got {type(got).__name__}",
        node,
        "write an integer, or N = pl.dynamic('N') outside the kernel and N here",
    )


def memref(frame: Frame, value: Any, node: ast.AST) -> IrMemRef:
    """A declared or printed allocation."""
    if isinstance(value, IrMemRef):
        return value
    declared, slot = (value.memref, value.index) if isinstance(value, MemRefSlot) else (value, None)
    name = declared.name or _declared_name(frame, declared, node)
    known = frame.context.program.declared.setdefault(id(declared), (name, declared))
    if known[0] != name:
        what = f"one declared allocation is called both '{known[0]}' and '{name}'"
        frame.fail(ParserTypeError, what, node, f"use '{known[0]}' everywhere")
    for other_name, other in frame.context.program.declared.values():
        if other_name == name and other is not declared:
            frame.fail(ParserTypeError, f"two declared allocations are called '{name}'", node, "give each a name of its own")
    index = frame.expr(slot, node) if slot is not None else None
    defined = frame.scope.get(name) if frame.raw else None
    owner = frame.context if frame.raw else frame.context.program
    base = defined.var if defined is not None and defined.var is not None else owner.allocation(name)
    return IrMemRef(base, 0, 0, frame.span(node), True, declared.slots, index)


def _declared_name(frame: Frame, declared: MemRef, node: ast.AST) -> str:
    """An allocation without a name of its own is called like the variable that holds it."""
    source = frame.source
    for n in [*source.cells, *source.outer, *source.globals]:
        if source.lookup(n) is declared:
            return n
    for n, b in frame.scope.names.items():
        if b.value is declared:
            return n
    frame.fail(ParserTypeError, "pl.MemRef() must be bound to a name", node, "BUF = pl.MemRef(), or pl.MemRef('name')")


# -- annotation against value ----------------------------------------------------------------------------------------


def contradiction(annotated: Type, inferred: Type) -> tuple[str, str] | None:
    """What an annotation says against what a value is, each in words; None where they agree."""
    if isinstance(annotated, ShapedType) and isinstance(inferred, ShapedType) and type(annotated) is type(inferred):
        if annotated.dtype is not inferred.dtype:
            return f"dtype {annotated.dtype}", str(inferred.dtype)
        if len(annotated.shape) != len(inferred.shape):
            return f"rank {len(annotated.shape)}", str(len(inferred.shape))
        for i, (a, b) in enumerate(zip(annotated.shape, inferred.shape, strict=True)):
            m, n = const_dim(a), const_dim(b)
            if m is not None and n is not None and m != n:
                return f"dimension {i} = {m}", str(n)
        if isinstance(annotated, TileType) and isinstance(inferred, TileType):
            return _tile_contradiction(annotated, inferred)
        return None
    if isinstance(annotated, ScalarType) and isinstance(inferred, ScalarType):
        return None if annotated.dtype is inferred.dtype else (f"dtype {annotated.dtype}", str(inferred.dtype))
    return None if type(annotated) is type(inferred) else (type_text(annotated), type_text(inferred))


def _tile_contradiction(annotated: TileType, inferred: TileType) -> tuple[str, str] | None:
    a, b = annotated.memory_space, inferred.memory_space
    if a is not None and b is not None and a is not b:
        return f"memory space {a.name}", b.name
    for i, (v, w) in enumerate(zip(annotated.valid, inferred.valid, strict=True)):
        m, n = const_dim(v), const_dim(w)
        if annotated.tile_view is not None and m is not None and n is not None and m != n:
            return f"valid extent {m} in dimension {i}", str(n)
    return None

"""Arrays of scalars on the core: create, one element read, one element replaced.

In: arrays, an integer index, a scalar of the element type.  Out: values: replacing an element gives a new array and leaves
the old one as it was.  A new array holds zeros.  A constant index that is not within the array is refused here, any other
when the kernel runs.
"""

from __future__ import annotations

from typing import Any

from pypto.dtypes import DataType
from pypto.ir.expr import Call, ConstBool, ConstInt, Expr, const_index
from pypto.ir.opdef import Attr, Dsl, DslContext, OpDef, Operand, OpRejected, Param, Site, Special
from pypto.ir.ops.rules import RW, D, R, element_const, is_scalar
from pypto.ir.shaped import as_dims
from pypto.ir.types import ArrayType, ScalarType, Type

__all__ = ["DSL", "OPS"]


def _array(s: Site) -> ArrayType:
    t = s.args[0].type
    if not isinstance(t, ArrayType):
        s.reject("the first operand must be an array", "pl.array.create(4, pl.INT32) makes one", TypeError)
    index = s.args[1]
    if not s.scalar(1).is_int():
        s.reject(f"an index is an integer, got {s.scalar(1)}", "pl.cast(<index>, pl.INDEX)", TypeError)
    if isinstance(index, ConstInt) and not 0 <= index.value < t.extent:
        s.reject(f"element {index.value} of an array of {t.extent}", f"elements are numbered from 0 to {t.extent - 1}")
    return t


def _create(s: Site) -> Type:
    extent = s.args[0]
    if not isinstance(extent, ConstInt):
        s.reject("the extent of an array is a compile-time constant", "pl.array.create(4, pl.INT32)", TypeError)
    try:
        return ArrayType(s.kwargs["dtype"], extent.value)
    except ValueError as e:
        s.reject(str(e), _created(extent.value, s.kwargs["dtype"]))


def _created(extent: int, dtype: DataType) -> str:
    """What to write instead of an array that there is not; floats have a tile."""
    if not dtype.is_float():
        return f"pl.array.create({max(extent, 1)}, pl.INT32)"
    block = 32 // dtype.get_byte()
    whole = (max(extent, 1) + block - 1) // block * block
    tile = f"pl.tile.full([1, {whole}], dtype=pl.{dtype.name}, value=0.0)"
    return f"floats are kept in a tile, h = {tile}, that pl.read(h, [0, i]) and pl.write(h, [0, i], value) read and change"


def _get(s: Site) -> Type:
    return ScalarType.of(_array(s).dtype)


def _update(s: Site) -> Type:
    t = _array(s)
    if s.scalar(2) is not t.dtype:
        hint = f"pl.cast(<value>, pl.{t.dtype.name})" if t.dtype is not D.TASK_ID else "an element is the id of a task"
        s.reject(f"the value is {s.scalar(2)}, the elements are {t.dtype}", hint, TypeError)
    return t


OPS: tuple[OpDef, ...] = (
    OpDef(
        "array.create",
        (Operand("extent", "scalar"),),
        _create,
        Special("array_create"),
        effects=(R,),
        attrs=(Attr("dtype", (DataType,), required=True),),
        doc="an array of zeros on the core",
    ),
    OpDef(
        "array.get_element",
        (Operand("array", "array"), Operand("index", "scalar")),
        _get,
        Special("array_get"),
        effects=(R, R),
        doc="one element",
    ),
    OpDef(
        "array.update_element",
        (Operand("array", "array"), Operand("index", "scalar"), Operand("value", "scalar")),
        _update,
        Special("array_update"),
        effects=(RW, R, R),
        reuses=0,
        doc="the array with one element replaced",
    ),
)


# -- the language --------------------------------------------------------------------------------------------------


def _build_create(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    extent, dtype = a["extent"], a["dtype"]
    if not isinstance(dtype, DataType):
        raise OpRejected(f"dtype must be a dtype such as pl.INT32, got {dtype!r}", "pl.array.create(4, pl.INT32)", TypeError)
    if type(extent) is not int:
        raise OpRejected(f"an array extent is a positive compile-time integer, not {extent!r}", "pl.array.create(4, pl.INT32)")
    return ctx.op("array.create", (const_index(extent),), {"dtype": dtype})


def _build_get(ctx: DslContext, space: str, a: dict[str, Any]) -> Call:
    return ctx.op("array.get_element", (a["array"], *as_dims((a["index"],))))


def _build_update(ctx: DslContext, space: str, a: dict[str, Any]) -> Call:
    array, value = a["array"], a["value"]
    if isinstance(array.type, ArrayType) and is_scalar(value):
        value = _element(value, array.type.dtype)
    return ctx.op("array.update_element", (array, *as_dims((a["index"],)), value))


def _element(value: Expr, dtype: DataType) -> Expr:
    """A plain number takes the element type; whatever says its type keeps it."""
    plain = isinstance(value, ConstBool) or (isinstance(value, ConstInt) and value.dtype is D.INDEX)
    return element_const(value, dtype) if plain and dtype is not D.TASK_ID else value  # type: ignore[arg-type]


DSL: tuple[Dsl, ...] = (
    Dsl(
        "create",
        ("array",),
        (Param("extent", "attr"), Param("dtype", "attr")),
        _build_create,
        "an array of integers, BOOL or task ids on the core, all zero",
    ),
    Dsl("get_element", ("array",), (Param("array"), Param("index", "index")), _build_get, "one element; also written array[i]"),
    Dsl(
        "update_element",
        ("array",),
        (Param("array"), Param("index", "index"), Param("value")),
        _build_update,
        "the array with one element replaced; also written array[i] = value",
    ),
)

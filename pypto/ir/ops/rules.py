"""Type rules and DSL helpers that operator families share.

In: operand types.  Out: the result type, or OpRejected naming the rule that the operands break.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import ArgEffect, MemorySpace
from pypto.ir import arith
from pypto.ir.expr import ConstBool, ConstFloat, ConstInt, Expr, const_index
from pypto.ir.node import EMPTY
from pypto.ir.opdef import DslContext, OpRejected, Site
from pypto.ir.scalar import cast
from pypto.ir.shaped import ShapedType, TensorType, TensorView, TileType, const_dim, is_less, same_dims
from pypto.ir.types import ScalarType, Type

D = DataType
FLOATS = (D.FP32, D.FP16)
ARITH = (D.FP32, D.FP16, D.INT32, D.INT16)
MOVABLE = (D.FP32, D.FP16, D.BF16, D.INT8, D.INT16, D.INT32, D.UINT8, D.UINT16, D.UINT32, D.INT64, D.UINT64, D.BOOL)
R, W, RW = ArgEffect.Read, ArgEffect.Write, ArgEffect.ReadWrite
VEC = (MemorySpace.Vec,)


def check_dtype(s: Site, dtype: DataType, allowed: Iterable[DataType]) -> None:
    allowed = tuple(allowed)
    if dtype not in allowed:
        names = ", ".join(str(d) for d in allowed)
        s.reject(
            f"does not take elements of dtype {dtype}", f"this operator takes {names}; convert with pl.cast first", TypeError
        )


def shape_text(dims: Iterable[Expr]) -> str:
    return "[" + ", ".join(dim_text(d) for d in dims) + "]"


def dim_text(d: Expr) -> str:
    value = const_dim(d)
    return str(value) if value is not None else getattr(d, "name_hint", "?")


def tile_result(like: TileType, dtype: DataType | None = None, valid: tuple[Expr, ...] | None = None) -> TileType:
    """A fresh vector tile of the shape, layout and valid rectangle of `like`; padding and place do not carry over."""
    view = like.get_effective_tile_view()
    layout = like.in_space(MemorySpace.Vec).layout
    fresh = type(view)(valid or view.valid_shape, blayout=layout.blayout, slayout=layout.slayout, fractal=layout.fractal)
    return TileType(like.shape, dtype or like.dtype, None, fresh, MemorySpace.Vec)


def tensor_result(shape: Iterable[Expr], dtype: DataType, valid: tuple[Expr, ...] | None = None) -> TensorType:
    view = TensorView(valid_shape=valid) if valid is not None else None
    return TensorType(tuple(shape), dtype, None, view)


def unary_type(s: Site, dtypes: Iterable[DataType], out: DataType | None = None) -> Type:
    """Same shape and valid rectangle."""
    t = s.shaped(0)
    check_dtype(s, t.dtype, dtypes)
    if isinstance(t, TileType):
        return tile_result(t, out)
    return tensor_result(t.shape, out or t.dtype, t.valid)


def same_dtype(s: Site, a: ShapedType, b: ShapedType, what: str = "operands") -> None:
    if a.dtype is not b.dtype:
        s.reject(f"{what} differ in dtype: {a.dtype} and {b.dtype}", "convert one with pl.cast", TypeError)


def same_kind(s: Site, a: ShapedType, b: ShapedType) -> None:
    """Two tensors or two tiles, of one dtype."""
    if type(a) is not type(b):
        s.reject("cannot mix a tensor and a tile", "load the tensor with pl.load, or use tensors throughout", TypeError)
    same_dtype(s, a, b)


def same_tiles(s: Site, a: TileType, b: TileType, what: str = "operands") -> None:
    """Equal dtype and physical shape, and the second valid wherever the first is."""
    same_dtype(s, a, b, what)
    if not same_dims(a.shape, b.shape):
        s.reject(f"{what} differ in shape: {shape_text(a.shape)} and {shape_text(b.shape)}", _shape_remedy(s, a.shape, b.shape))
    covers(s, a, b, what)


def _shape_remedy(s: Site, a: tuple[Expr, ...], b: tuple[Expr, ...]) -> str:
    """What to write for a second tile of another shape: a number, or the operator that expands a vector."""
    if arith.is_const(arith.product(b), 1):
        return f"read the number of the second one: pl.read(y, [{', '.join('0' for _ in b)}])"
    concept = s.name.rsplit(".", 1)[-1]
    suffix = {"maximum": "max", "minimum": "min"}.get(concept, concept)
    if len(a) == len(b) == 2 and suffix in ("add", "sub", "mul", "div", "max", "min"):
        for axis, along in ((1, "row"), (0, "col")):
            if arith.is_const(b[axis], 1) and arith.same(a[1 - axis], b[1 - axis]):
                return f"write pl.{along}_expand_{suffix}(x, y)"
    return "slice or expand one of them"


def covers(s: Site, a: TileType, b: TileType, what: str = "operands") -> None:
    """Reject where `b` is provably not valid everywhere that `a` is."""
    if falls_short(b.valid, a.valid):
        s.reject(
            f"{what} differ in valid shape: {shape_text(a.valid)} and {shape_text(b.valid)}",
            "narrow the first operand with pl.set_validshape: elements outside the second's valid region are undefined",
        )


def falls_short(have: tuple[Expr, ...], want: tuple[Expr, ...]) -> bool:
    """Whether a valid region is known to be less than another one along some axis."""
    return any(is_less(n, m) for n, m in zip(have, want, strict=False))


def binary_tile_type(s: Site, dtypes: Iterable[DataType]) -> Type:
    a, b = s.tile(0), s.tile(1)
    check_dtype(s, a.dtype, dtypes)
    same_tiles(s, a, b)
    return tile_result(a)


def scratch_like(s: Site, i: int, otherwise: str = "") -> None:
    """Operand i is a scratch tile of operand 0's dtype and shape; `otherwise` ends the remedy."""
    t, tmp = s.tile(0), s.tile(i)
    if tmp.dtype is not t.dtype or not same_dims(tmp.shape, t.shape):
        hint = f"pl.create_tile({shape_text(t.shape)}, dtype=pl.{t.dtype.name}){otherwise}"
        s.reject(f"the scratch tile must have dtype {t.dtype} and shape {shape_text(t.shape)}", hint)


def broadcast(s: Site, a: tuple[Expr, ...], b: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Right-aligned broadcast of two shapes, numpy style."""
    n = max(len(a), len(b))
    one = const_index(1)
    x, y = (one,) * (n - len(a)) + a, (one,) * (n - len(b)) + b
    out = []
    for d, e in zip(x, y, strict=True):
        if arith.is_const(d, 1):
            out.append(e)
        elif arith.is_const(e, 1) or arith.same(d, e):
            out.append(d)
        else:
            s.reject(f"requires compatible shapes, got {shape_text(a)} and {shape_text(b)}", "slice or expand one of them")
    return tuple(out)


def binary_tensor_type(s: Site, dtypes: Iterable[DataType]) -> Type:
    """The broadcast shape; valid where the first operand is that has this shape, as the tiles of such an operator are."""
    a, b = s.tensor(0), s.tensor(1)
    check_dtype(s, a.dtype, dtypes)
    same_dtype(s, a, b)
    shape = broadcast(s, a.shape, b.shape)
    matrix = next((t for t in (a, b) if same_dims(t.shape, shape)), None)
    return tensor_result(shape, a.dtype, matrix.valid if matrix is not None else None)


def scalar_form_type(s: Site, dtypes: Iterable[DataType]) -> Type:
    """Tile or tensor with a scalar of its own element type."""
    t = s.shaped(0)
    scalar = s.scalar(1)
    if scalar is not t.dtype:
        s.reject(f"the scalar is {scalar}, the elements are {t.dtype}", cast_hint(t.dtype), TypeError)
    return unary_type(s, dtypes)


# -- DSL -------------------------------------------------------------------------------------------------------


def level_of(name: str, space: str, values: Iterable[Expr]) -> str:
    """tensor or tile, from the kinds of the shaped operands; `space` is the namespace the user wrote."""
    values = tuple(values)
    kinds = {_level(v.type) for v in values} - {None}
    if len(kinds) > 1:
        raise OpRejected(
            f"pl.{name}: cannot mix Tensor and Tile arguments ({_kinds_text(values)})",
            "load the tensor with pl.load, or use tensors throughout",
            TypeError,
        )
    if not kinds:
        dtype = next((v.type.dtype for v in values if isinstance(v.type, ScalarType)), D.FP32)
        what = f"pl.{name}: expected Tensor or Tile operands, got ({_kinds_text(values)})"
        raise OpRejected(what, number_form(name, "x", dtype), TypeError)
    level = str(kinds.pop())
    if space and level != space:
        raise OpRejected(f"pl.{space}.{name}: expected {space} operands, got ({_kinds_text(values)})", f"pl.{name}", TypeError)
    return level


def _level(t: Type) -> str | None:
    return "tensor" if isinstance(t, TensorType) else "tile" if isinstance(t, TileType) else None


def _kinds_text(values: Iterable[Expr]) -> str:
    return ", ".join(
        {"tensor": "Tensor", "tile": "Tile"}.get(_level(v.type) or "", getattr(getattr(v.type, "dtype", None), "name", "?"))
        + (" scalar" if is_scalar(v) else "")
        for v in values
    )


_NUMBER_FORMS = {
    "abs": "pl.max({x}, -{x})",
    "neg": "-{x}",
    "recip": "1.0 / {x}",
    "relu": "pl.max({x}, 0.0)",
}
_ON_TILES = ("exp", "log", "sqrt", "rsqrt", "sin", "cos")


def number_form(name: str, text: str, dtype: DataType) -> str:
    """What to write for `pl.<name>(text)` of one number: numbers have Python's operators, the rest is done on a tile."""
    if name in _NUMBER_FORMS:
        return "for a number, write " + _NUMBER_FORMS[name].format(x=text if text.isidentifier() else f"({text})")
    if name not in _ON_TILES:
        return "numbers take + - * /, pl.min and pl.max; pl.expands(tile, x) makes a tile of one"
    if dtype not in FLOATS:
        text, dtype = f"pl.cast({text}, pl.FP32)", D.FP32
    block = f"pl.create_tile([1, {32 // dtype.get_byte()}], dtype=pl.{dtype.name})"
    return f"numbers take + - * /, pl.min and pl.max; the rest on a tile: pl.read(pl.{name}(pl.expands({block}, {text})), [0, 0])"


def is_scalar(e: Expr) -> bool:
    return isinstance(e.type, ScalarType)


def cast_hint(dtype: DataType) -> str:
    """What to write for a scalar of another dtype than the elements it meets."""
    return f"pl.cast(<value>, pl.{dtype.name})"


def element_scalar(value: Expr, dtype: DataType) -> Expr:
    """A scalar operand in the element type it meets: constants are rounded once, run-time values converted."""
    have = value.type.dtype if isinstance(value.type, ScalarType) else None
    if have is None:
        raise OpRejected("the second operand must be a tensor, a tile or a scalar", "pass one of its elements", TypeError)
    if isinstance(value, (ConstInt, ConstFloat, ConstBool)):
        return element_const(value, dtype)
    if have is D.INDEX:
        raise OpRejected(f"Scalar operand has dtype `index`, elements are {dtype}", cast_hint(dtype), ValueError)
    if have.is_float() and not dtype.is_float():
        raise OpRejected(f"a {have} scalar cannot meet {dtype} elements", cast_hint(dtype), TypeError)
    return value if have is dtype else cast(value, dtype, value.span)


def element_const(value: ConstInt | ConstFloat | ConstBool, dtype: DataType) -> Expr:
    """A constant retyped to an element dtype; the double itself is kept, so that it is rounded once where it is used."""
    if dtype.is_float():
        return ConstFloat(float(value.value), dtype, value.span)
    number = value.value
    if isinstance(number, float):
        if number != number or number in (float("inf"), float("-inf")) or number != int(number):
            raise OpRejected(f"{number!r} is not a value of {dtype} elements", "use a whole number, or floats", ValueError)
        number = int(number)
    if dtype is D.BOOL:
        return ConstBool(bool(number), value.span)
    if arith.wrap(int(number), dtype) != number:
        bits = dtype.get_bit()
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.is_signed_int() else (0, (1 << bits) - 1)
        raise OpRejected(f"{number} does not fit {dtype} elements", f"{dtype} holds {low} to {high}", ValueError)
    return ConstInt(int(number), dtype, value.span)


def unified(
    ctx: DslContext, space: str, name: str, x: Expr, rest: tuple[Expr, ...] = (), kwargs: Mapping[str, Any] = EMPTY
) -> Expr:
    """`tensor.<name>` or `tile.<name>`, by the kinds of the operands."""
    level = level_of(name, space, (x, *rest))
    return ctx.op(f"{level}.{name}", (x, *rest), kwargs)

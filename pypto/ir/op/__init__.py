"""`pypto.ir.op.tile.add(a, b)`: calls of registered operators, built by name.

In: operands, keywords and an optional `span=`.  Out: a checked call.  A Python number is a constant of the element type of the
first tensor or tile among the operands (INDEX without one), a list or tuple is a tuple of extents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pypto.dtypes import DataType
from pypto.ir import ops
from pypto.ir.expr import Call, ConstBool, ConstFloat, ConstInt, Expr, MakeTuple, const_index
from pypto.ir.registry import create_op_call
from pypto.ir.shaped import ShapedType
from pypto.span import Span

__all__ = ["array", "prefetch", "system", "tensor", "tile"]


class _Namespace:
    """The operators of one level as functions."""

    def __init__(self, level: str) -> None:
        self._level = level

    def __getattr__(self, name: str) -> Callable[..., Call]:
        full = f"{self._level}.{name.removesuffix('_')}"
        if name.startswith("__") or ops.find(full) is None:
            raise AttributeError(f"Operator '{full}' not found in registry")

        def build(*args: Any, span: Span | None = None, **kwargs: Any) -> Call:
            shaped = [a.type for a in args if isinstance(a, Expr) and isinstance(a.type, ShapedType)]
            element = shaped[0].dtype if shaped else DataType.INDEX
            return create_op_call(full, [_operand(a, element) for a in args], kwargs, span or Span.unknown())

        build.__name__ = build.__qualname__ = full
        return build

    def __dir__(self) -> list[str]:
        return sorted(o.concept for o in ops.ALL if o.level == self._level)


def _operand(value: Any, element: DataType) -> Expr:
    if isinstance(value, Expr):
        return value
    if isinstance(value, (list, tuple)):
        return MakeTuple(_operand(v, DataType.INDEX) for v in value)
    if isinstance(value, bool):
        return ConstBool(value)
    if isinstance(value, (int, float)) and element.is_float():
        return ConstFloat(float(value), element)
    if isinstance(value, int):
        return const_index(value) if element is DataType.INDEX else ConstInt(value, element)
    if isinstance(value, float):
        return ConstFloat(value, DataType.FP32)
    raise TypeError(f"an operand is an expression, a number or a sequence of extents, not {type(value).__name__}")


array, prefetch, system, tensor, tile = (_Namespace(n) for n in ("array", "prefetch", "system", "tensor", "tile"))

"""Python operators on scalar expressions.

In: expressions, ints and floats.  Out: operator nodes, typed by the promotion rule; an int operand becomes an INDEX constant,
a float an FP32 one, so that `fp32_value + 1` is a TypeError.  Loading this module installs the operators on `Expr`.
From then on `a == b` builds a node: identity is asked with `is` or `same_as`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pypto.dtypes import DataType
from pypto.ir import scalar
from pypto.ir.expr import ConstBool, ConstFloat, Expr, const_index

__all__ = ["as_expr", "install"]


def as_expr(value: Any) -> Expr | None:
    """An expression for an operand, or None for what cannot be one."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool):
        return ConstBool(value)
    if isinstance(value, int):
        return const_index(value)
    return ConstFloat(value, DataType.FP32) if isinstance(value, float) else None


def _binary(build: Callable[..., Expr], swapped: bool = False) -> Callable[[Expr, Any], Any]:
    def operator(self: Expr, other: Any) -> Any:
        operand = as_expr(other)
        if operand is None:
            return NotImplemented
        return build(operand, self, self.span) if swapped else build(self, operand, self.span)

    return operator


def _unary(build: Callable[..., Expr]) -> Callable[[Expr], Expr]:
    return lambda self: build(self, self.span)


_BINARY: dict[str, Callable[..., Expr]] = {
    "add": scalar.add,
    "sub": scalar.sub,
    "mul": scalar.mul,
    "truediv": scalar.truediv,
    "floordiv": scalar.floordiv,
    "mod": scalar.mod,
    "pow": scalar.pow,
    "and": scalar.bit_and,
    "or": scalar.bit_or,
    "xor": scalar.bit_xor,
    "lshift": scalar.bit_shift_left,
    "rshift": scalar.bit_shift_right,
}
_COMPARISONS: dict[str, Callable[..., Expr]] = {
    "eq": scalar.eq,
    "ne": scalar.ne,
    "lt": scalar.lt,
    "le": scalar.le,
    "gt": scalar.gt,
    "ge": scalar.ge,
}
_UNARY: dict[str, Callable[..., Expr]] = {"neg": scalar.neg, "invert": scalar.bit_not}


def _no_truth(self: Expr) -> bool:
    raise TypeError("comparing expressions builds an expression, which has no truth value: use `is`, or ir.structural_equal")


def install() -> None:
    """Give `Expr` its operators; doing it again changes nothing."""
    for name, build in _BINARY.items():
        setattr(Expr, f"__{name}__", _binary(build))
        setattr(Expr, f"__r{name}__", _binary(build, swapped=True))
    # Python reflects comparisons by itself; `__hash__` stays the identity's, since it was not defined together with these.
    for name, build in _COMPARISONS.items():
        setattr(Expr, f"__{name}__", _binary(build))
    for name, build in _UNARY.items():
        setattr(Expr, f"__{name}__", _unary(build))
    for kind in (scalar.Eq, scalar.Ne, scalar.Lt, scalar.Le, scalar.Gt, scalar.Ge):
        type.__setattr__(kind, "__bool__", _no_truth)


install()

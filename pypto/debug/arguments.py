"""What goes into a function and what comes out: the caller's arrays and scalars, parameters, dynamic extents, results.

In: numpy arrays and numbers.  Out: blocks over the very same memory, numbers within the parameter's dtype.
Invariant: nothing is converted silently: an argument fits its parameter exactly or is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto.debug import scalars
from pypto.debug.frame import Frame, Value
from pypto.debug.memory import ArrayPlace, Block
from pypto.dtypes import DataType
from pypto.enums import FunctionType
from pypto.errors import ArgumentTypeError, ArgumentValueError, NotSupportedError
from pypto.ir.expr import Call, ConstInt, Expr, Submit, Var
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import walk
from pypto.ir.shaped import ShapedType, TensorType
from pypto.ir.types import ScalarType
from pypto.span import Span

__all__ = ["as_result", "bind_parameters", "check_count", "entry_of", "from_user"]

_HOST = (FunctionType.Orchestration, FunctionType.Opaque, FunctionType.Graph)


def entry_of(program: Program, name: str | None) -> Function:
    """The function to start with: by name, or the one that no other calls (on the host, if several are left)."""
    if name is not None:
        f = program.get_function(name)
        if f is None:
            names = ", ".join(g.name for g in program.function_list)
            raise ArgumentValueError(f"the program has no function '{name}'", hint=f"functions: {names}")
        return f
    called = {n.op.name for f in program.function_list for n in walk(f.body) if isinstance(n, (Call, Submit))}
    roots = [f for f in program.function_list if f.name not in called]
    if len(roots) > 1:
        roots = [f for f in roots if f.func_type in _HOST] or roots
    if len(roots) != 1:
        names = ", ".join(g.name for g in roots or program.function_list)
        raise ArgumentValueError("the program has no single entry", hint=f"name one of: {names}")
    return roots[0]


def check_count(f: Function, args: Any) -> None:
    if len(args) != len(f.params):
        names = ", ".join(p.name_hint for p in f.params)
        what = f"'{f.name}' takes {len(f.params)} arguments ({names}), got {len(args)}"
        raise ArgumentTypeError(what, f.span, "pass one for each parameter, outputs too")


def from_user(f: Function, i: int, value: Any) -> Value:
    """A caller's argument as the value of parameter i."""
    p = f.params[i]
    t = p.type
    what = f"'{f.name}': argument {p.name_hint}"
    if isinstance(t, TensorType):
        if not isinstance(value, np.ndarray):
            raise ArgumentTypeError(f"{what} must be an array, got {type(value).__name__}", p.span, "pass a numpy array")
        if value.dtype != t.dtype.numpy():
            hint = f"pass an array of {t.dtype.numpy().name}"
            raise ArgumentTypeError(f"{what} must hold {t.dtype} elements, got {value.dtype}", p.span, hint)
        if value.ndim != len(t.shape):
            hint = "pass an array of that rank, made by reshape, say"
            raise ArgumentValueError(f"{what} must have {len(t.shape)} dimensions, got {value.ndim}", p.span, hint)
        return Block(ArrayPlace(value), t.dtype, value.shape, value.shape, gm=True)
    if isinstance(t, ScalarType):
        return _scalar(what, t.dtype, value, p.span)
    raise NotSupportedError(f"{what}: parameters of type {type(t).__name__} are not executed", p.span)


def _scalar(what: str, dtype: DataType, value: Any, span: Span) -> Value:
    number = value.item() if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.ndim) else value
    if dtype is DataType.BOOL and isinstance(number, (bool, int)) and number in (0, 1):
        return bool(number)
    if dtype.is_float() and isinstance(number, (int, float)):  # a bool is the number 0 or 1, as in a call
        return scalars.fit(number, dtype)
    if dtype.is_int() and isinstance(number, int):
        number = int(number)
        if scalars.fit(number, dtype) != number:
            raise ArgumentValueError(f"{what}: {number} is out of the range of {dtype}", span, f"pass a value of {dtype}")
        return number
    hint = "pass True or False" if dtype is DataType.BOOL else "pass a float" if dtype.is_float() else "pass an int"
    raise ArgumentTypeError(f"{what} must be a scalar of type {dtype}, got {type(value).__name__}", span, hint)


# -- parameters ------------------------------------------------------------------------------------------------------


def bind_parameters(f: Function, args: Sequence[Value], frame: Frame, span: Span) -> None:
    """Give the parameters their values and the symbols in their types the extents of the arguments."""
    extents: list[tuple[Var, int, Expr, int, str]] = []
    for p, value in zip(f.params, args, strict=True):
        frame.values[p] = value
        if isinstance(p.type, ShapedType) and isinstance(value, Block):
            if value.dtype is not p.type.dtype or len(value.shape) != len(p.type.shape):
                raise ArgumentTypeError(
                    f"'{f.name}': {p.name_hint} is {p.type.dtype} of rank {len(p.type.shape)}, got {value.dtype} {value.shape}",
                    span,
                )
            extents += [(p, i, d, n, "extent") for i, (d, n) in enumerate(zip(p.type.shape, value.shape, strict=True))]
            extents += [(p, i, d, n, "valid extent") for i, (d, n) in enumerate(zip(p.type.valid, value.valid, strict=True))]
    for _, _, d, n, _ in extents:
        if isinstance(d, Var):
            frame.values.setdefault(d, n)
    for p, i, d, n, what in extents:
        want = frame.integer(d)
        if want == n or (isinstance(d, ConstInt) and (want < 0 or (what == "valid extent" and want <= n))):
            continue
        shown = f"'{f.name}': {what} {i} of {p.name_hint} is {n}, its type says {want}"
        raise ArgumentValueError(shown, span, "pass an array of the extents that the program was made for")
    for p, value in zip(f.params, args, strict=True):
        if isinstance(value, Block) and isinstance(p.type, ShapedType):
            frame.values[p] = _as_parameter(p.type, value, frame, span)


def _as_parameter(t: Any, value: Block, frame: Frame, span: Span) -> Block:
    """The argument under the parameter's valid extents; whatever is passed as a tensor is global memory to the callee."""
    valid = tuple(
        v if isinstance(d, ConstInt) and d.value < 0 else frame.integer(d) for d, v in zip(t.valid, value.valid, strict=True)
    )
    return Block(value.place, value.dtype, value.shape, frame.within(valid, value.shape, span), isinstance(t, TensorType))


# -- results ---------------------------------------------------------------------------------------------------------


def as_result(values: tuple[Value, ...]) -> Any:
    """What the caller gets: nothing, one array or scalar, or a tuple."""
    made = tuple(_result(v) for v in values)
    return made if len(made) > 1 else made[0] if made else None


def _result(value: Value) -> Any:
    if not isinstance(value, Block):
        return value
    return value.place.array if isinstance(value.place, ArrayPlace) else value.whole()

"""Whether arguments fit a kernel, in Python: the reference for what every dispatcher accepts, and all the errors.

In: a launch plan and the bound arguments.  Out: the addresses and numbers to call with, or one error that names the
function, the parameter, what was expected and what came.  Invariant: nothing has been written when an error is raised.

Scalars convert by these rules.  Accepted are Python's and numpy's bools, integers and floats, arrays of rank 0 of
these, and objects with `__index__` or `__float__`.  Integers (True is 1) fit an integer parameter whose range holds
them, and every float parameter; floats fit float parameters only, and the kernel rounds them to its type (to an
infinity where the type ends); BOOL takes bools and the integers 0 and 1.  Nothing wraps, nothing is truncated.
"""

from __future__ import annotations

import operator
import reprlib
from typing import Any

import numpy as np

from pypto.dtypes import DataType
from pypto.errors import ArgumentTypeError, ArgumentValueError, InternalError
from pypto.named import NamedTuple
from pypto.runtime.arrays import Array, ArrayView, element_type, type_numbers, view
from pypto.runtime.plan import KernelPlan, Number, ScalarParam, TensorParam, limits, slot

__all__ = ["PreparedCall", "as_array", "bind_check", "other_dtype", "other_rank", "plain_scalar", "scalar_value"]


class PreparedCall(NamedTuple):
    """One checked call: an address per tensor parameter, a value per symbol, a slot per scalar parameter, the arrays
    that keep the addresses alive (hidden outputs included, fresh and zero), and what the call returns."""

    pointers: tuple[int, ...]
    dims: tuple[int, ...]
    scalars: tuple[int, ...]
    arrays: tuple[Array, ...]
    result: object


def bind_check(plan: KernelPlan, args: tuple[Any, ...]) -> PreparedCall:
    """`args` checked against `plan`, one value per visible parameter in order.

    Raises ArgumentTypeError (wrong kind or dtype) or ArgumentValueError (shape, strides, read-only, overlap, range).
    """
    visible = plan.visible()
    if len(visible) != len(args):
        raise InternalError(f"{plan.name}: {len(args)} bound arguments for {len(visible)} parameters")
    dims: list[int | None] = [None] * len(plan.symbols)
    origin: dict[int, str] = {}
    arrays: dict[int, Array] = {}
    scalars: list[int] = []
    constants: list[int] = []
    for i, (p, arg) in enumerate(zip(visible, args, strict=True)):
        if isinstance(p, ScalarParam):
            bits = _static_checked(plan, p, scalar_value(plan.name, p.name, p.dtype, arg))
            (scalars if p.static is None else constants).append(bits)
        else:
            found = as_array(plan.name, p.name, arg, _expected(plan, p), p.direction != "in")
            _check_type(plan, p, found.array)
            _check_shape(plan, p, found.array, dims, origin)
            _check_memory(plan, p, found)
            arrays[i] = found.array
    _check_overlap(plan, arrays)
    extents = tuple(d for d in dims if d is not None)
    for i, h in enumerate(plan.params[len(visible) :], len(visible)):
        assert isinstance(h, TensorParam)
        arrays[i] = np.zeros([d if d >= 0 else extents[-1 - d] for d in h.dims], h.dtype.numpy())
    handed = [args[i] if i < len(args) else arrays[i] for i in plan.returns or ()]
    result = None if plan.returns is None else handed[0] if len(handed) == 1 else tuple(handed)
    slots = (*scalars, *constants)
    return PreparedCall(tuple(_address(a) for a in arrays.values()), extents, slots, tuple(arrays.values()), result)


def as_array(function: str, name: str, obj: object, expected: str = "a tensor", written: bool = False) -> ArrayView:
    """The argument as an array over its own memory, or an error that says which argument of which function is none."""
    if type(obj) is np.ndarray:
        return ArrayView(obj, obj, None if obj.flags.writeable else "the array is read-only")
    try:
        found = view(obj)
    except (ArgumentTypeError, ArgumentValueError) as e:
        raise type(e)(f"{function}: {name!r} is {e.message}", hint=e.hint) from e.__cause__
    if found is None:
        hint = "pass a numpy array, a torch tensor, or another array that can share its memory"
        if plain_scalar(obj) is not None:
            hint = f"pass a numpy array, or, for a number, annotate {name}: pl.FP32 or another dtype"
        if isinstance(obj, (list, tuple)):
            hint = f"pass a numpy array: numpy.asarray({name}), with the dtype of the kernel"
        if isinstance(obj, (list, tuple)) and written:
            hint = "pass a numpy array for the output, made by numpy.empty, say: a list cannot be written"
        raise ArgumentTypeError(f"{function}: {name!r} expects {expected}, got {_shown(obj)}", hint=hint)
    return found


def _check_type(plan: KernelPlan, p: TensorParam, array: Array) -> None:
    dtype = array.dtype
    if dtype.num in type_numbers(p.dtype) and dtype.isnative:
        return
    hint = other_dtype(p.name, p.dtype, p.direction != "in")
    if not dtype.isnative and p.direction == "in":
        hint = f"the bytes of {dtype.str!r} are swapped: pass {p.name}.astype({dtype.newbyteorder('=').str!r})"
    raise ArgumentTypeError(f"{plan.name}: {p.name!r} expects {_expected(plan, p)}, got {_described(array)}", hint=hint)


def other_dtype(name: str, dtype: DataType, written: bool) -> str:
    """What to pass instead of an array of another dtype; the result of a kernel would be lost in a converted copy."""
    numpy_name = dtype.numpy().name
    if written:
        return f"allocate {name!r} as {numpy_name}: a converted copy would be written instead of it"
    return f"pass {name}.astype('{numpy_name}')"


def _check_shape(plan: KernelPlan, p: TensorParam, array: Array, dims: list[int | None], origin: dict[int, str]) -> None:
    """Static extents, and one value per symbol over all arguments; `origin` remembers where each value came from."""
    got = f"{plan.name}: {p.name!r} expects {_expected(plan, p)}, got {_described(array)}"
    if array.ndim != len(p.dims):
        raise ArgumentValueError(
            f"{got}: rank {array.ndim} instead of {len(p.dims)}", hint=other_rank(p.name, p.dtype, array.ndim)
        )
    for axis, (want, extent) in enumerate(zip(p.dims, array.shape, strict=True)):
        if want >= 0:
            if extent != want:
                what = f"{got}: axis {axis} has {extent} elements instead of {want}"
                raise ArgumentValueError(what, hint=f"pass an array of that shape, or annotate axis {axis} with pl.dynamic")
            continue
        k = -1 - want
        if dims[k] is None:
            dims[k] = extent
            origin[k] = f"axis {axis} of {p.name!r}"
        elif dims[k] != extent:
            what = f"{got}: {plan.symbols[k]} is {extent} on axis {axis} but {dims[k]} on {origin[k]}"
            raise ArgumentValueError(what, hint=f"pass arrays with one value of {plan.symbols[k]}")


def other_rank(name: str, dtype: DataType | None, rank: int) -> str:
    """What to pass instead of an array of another rank."""
    if rank == 0:
        return f"0-d arrays are passed as scalars: annotate {name}: pl.{dtype.name if dtype is not None else 'FP32'}"
    return f"pass {name}.reshape(...), or annotate as many axes"


def _check_memory(plan: KernelPlan, p: TensorParam, found: ArrayView) -> None:
    flags = found.array.flags
    where = f"{plan.name}: {p.name!r} has strides {found.array.strides} for shape {found.array.shape}"
    # A copy of an array that is written must find its way back.
    written = (
        p.direction != "in" and f"pass a contiguous array, buffer = {p.name}.copy(), and copy it back: {p.name}[...] = buffer"
    )
    if not flags.c_contiguous:
        raise ArgumentValueError(
            f"{where}: it is not dense in row-major order",
            hint=written or f"make it contiguous with numpy.ascontiguousarray({p.name})",
        )
    if not flags.aligned:
        raise ArgumentValueError(
            f"{where}, at an address that is no multiple of its elements' alignment", hint=written or f"pass {p.name}.copy()"
        )
    if p.direction != "in" and (found.read_only is not None or not flags.writeable):
        reason = found.read_only or "the array is read-only"
        raise ArgumentValueError(
            f"{plan.name}: {p.name!r} is written but read-only: {reason}", hint="pass an array that may be written"
        )


def _check_overlap(plan: KernelPlan, arrays: dict[int, Array]) -> None:
    # Every array is dense here, so that its bytes are one interval.
    for i, j, may_be_same in plan.pairs():
        a, b = arrays[i], arrays[j]
        start, other = _address(a), _address(b)
        if a.nbytes == 0 or b.nbytes == 0 or start + a.nbytes <= other or other + b.nbytes <= start:
            continue
        same = start == other and a.shape == b.shape
        if same and may_be_same:
            continue
        p, q = plan.params[i], plan.params[j]
        how = "are the same array" if same else "overlap in memory"
        raise ArgumentValueError(
            f"{plan.name}: {p.name!r} and {q.name!r} {how}, and at least one of them is written",
            hint="pass separate arrays, a copy of one, say",
        )


def plain_scalar(obj: object) -> Number | None:
    """The Python number that `obj` stands for, exactly a bool, an int or a float; None where it stands for none."""
    if isinstance(obj, bool):
        return obj
    if isinstance(obj, int):
        return int.__int__(obj)
    if isinstance(obj, float):
        return float.__float__(obj)
    if obj is None or isinstance(obj, (str, bytes, bytearray, complex, type)):
        return None
    if isinstance(obj, (np.generic, np.ndarray)):
        return _numpy_scalar(obj)
    shape: Any = getattr(obj, "shape", ())
    item = getattr(obj, "item", None)
    if isinstance(shape, tuple) and shape != ():
        return None
    if hasattr(obj, "shape") and item is not None:
        try:
            value = item()
        except Exception:  # the object's own code: it has no number
            return None
        return value if type(value) in (bool, int, float) else None
    convert: Any = operator.index if hasattr(type(obj), "__index__") else float if hasattr(type(obj), "__float__") else None
    try:
        number: Number | None = None if convert is None else convert(obj)
    except Exception:
        return None
    return number


def _numpy_scalar(obj: np.generic[Any] | Array) -> Number | None:
    if obj.shape != ():
        return None
    if obj.dtype.kind == "b":
        return bool(obj)
    known = element_type(obj.dtype)
    if obj.dtype.kind in "iu" or (known is not None and known.is_int()):
        return int(obj)
    return float(obj) if obj.dtype.kind == "f" or known is not None else None


def scalar_value(function: str, name: str, dtype: DataType, obj: object) -> Number:
    """The value of a scalar argument: a bool for BOOL, an int for integers, a float (not yet rounded to the type) for floats."""
    value = plain_scalar(obj)
    if value is None:
        what = f"{function}: {name!r} expects a scalar of type {dtype.name}, got {_shown(obj)}"
        raise ArgumentTypeError(what, hint="pass a number; an array of one element gives it with .item()")
    if dtype.is_float():
        try:
            return float(value)
        except OverflowError:
            what = f"{function}: {name!r} expects {dtype.name}, got an integer beyond every float"
            raise ArgumentValueError(what, hint="pass a float; math.inf is one") from None
    if type(value) is float:
        raise ArgumentTypeError(
            f"{function}: {name!r} expects {dtype.name}, got {_shown(obj)}",
            hint="convert it, with int(), if that is what you mean",
        )
    low, high = (0, 1) if dtype is DataType.BOOL else limits(dtype)
    if not low <= value <= high:
        what = f"{function}: {name!r} expects {dtype.name}, which holds {low} to {high}, got {_shown(obj)}"
        raise ArgumentValueError(what, hint="pass a number of that range, or annotate the parameter with a wider type")
    return bool(value) if dtype is DataType.BOOL else int(value)


def _static_checked(plan: KernelPlan, p: ScalarParam, value: Number) -> int:
    bits = slot(value)
    if p.static is not None and bits != slot(p.static) and (value == value or p.static == p.static):
        what = f"{plan.name}: {p.name!r} was compiled for {p.static!r}, got {value!r}"
        raise ArgumentValueError(what, hint="call the kernel itself: it compiles a program for each value")
    return bits


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _expected(plan: KernelPlan, p: TensorParam) -> str:
    extents = ", ".join(str(d) if d >= 0 else plan.symbols[-1 - d] for d in p.dims)
    return f"{p.dtype.name} [{extents}]"


def _described(array: Array) -> str:
    known = element_type(array.dtype)
    name = known.name if known is not None else array.dtype.name if array.dtype.isnative else repr(array.dtype.str)
    return f"{name} [{', '.join(map(str, array.shape))}]"


def _shown(obj: object) -> str:
    """Type and value of an argument, at most a line of it."""
    if isinstance(obj, np.ndarray):
        return f"an array of {_described(obj)}"
    shape = getattr(obj, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"a {type(obj).__name__} of shape {tuple(shape)}"
    if isinstance(obj, (list, tuple, dict, set)):
        return f"a {type(obj).__name__} of length {len(obj)}"
    text = reprlib.repr(obj)
    return f"{type(obj).__name__} {text if len(text) <= 80 else text[:77] + '...'}"

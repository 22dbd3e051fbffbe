"""Lane programs executed by numpy.

In: a `LaneProgram` and one array per input.  Out: the array of its results, bit for bit what the list of instructions in
`pypto.ir.lanes` promises: one rounding to nearest even per float instruction, wrapping integers, exact FMA.
Invariant: no numpy warning leaves this module, whatever the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from pypto.errors import InternalError
from pypto.ir.lanes import Instr, LaneProgram

__all__ = ["Array", "fma32", "lane_dtype", "rounded_constant", "run"]

Array = np.ndarray[Any, np.dtype[Any]]

_DTYPES: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "b8": np.dtype(np.bool_),
    "mask": np.dtype(np.bool_),
    **{f"{s}{n}": np.dtype(f"{s}{n // 8}") for s in "iu" for n in (8, 16, 32, 64)},
}


def lane_dtype(type: str) -> np.dtype[Any]:
    """The numpy dtype in which lanes of a type are held."""
    return _DTYPES[type]


def run(program: LaneProgram, inputs: Sequence[Array]) -> Array:
    """The program's result for each element of the inputs, which broadcast against each other; never an input itself."""
    if len(inputs) != len(program.inputs):
        raise InternalError(f"a lane program of {len(program.inputs)} inputs was given {len(inputs)}")
    values: list[Array] = []
    for array, type in zip(inputs, program.inputs, strict=True):
        if array.dtype != _DTYPES[type]:
            raise InternalError(f"a lane input of type {type} was given {array.dtype} elements")
        values.append(array)
    shape = np.broadcast_shapes(*(v.shape for v in values))
    # One-dimensional operands keep numpy from turning single elements into scalars with rules of their own.
    flat = [np.broadcast_to(v, shape).reshape(-1) for v in values]
    with np.errstate(all="ignore"):
        for instr in program.instrs:
            flat.append(_const(instr) if instr.op == "const" else _step(instr, [flat[a] for a in instr.args]))
        return np.array(np.broadcast_to(flat[program.result], (int(np.prod(shape)),))).reshape(shape)


def _const(instr: Instr) -> Array:
    assert instr.imm is not None
    return rounded_constant(instr.imm, instr.type)


def rounded_constant(value: float, type: str) -> Array:
    """An array of one element: a number in a lane type, a float rounded once from the double."""
    with np.errstate(all="ignore"):
        if type == "bf16":
            return _narrowed(np.array([value], np.float64), _DTYPES[type])
        return np.array([value], np.float64 if type[0] == "f" else None).astype(_DTYPES[type])


# -- instructions ----------------------------------------------------------------------------------------------------


def _step(instr: Instr, args: list[Array]) -> Array:
    if instr.op == "cvt":
        return _convert(args[0], _DTYPES[instr.type])
    if instr.op == "bits":
        return np.ascontiguousarray(args[0]).view(_DTYPES[instr.type])
    made = _NUMPY[instr.op](*args)
    if made.dtype != _DTYPES[instr.type]:
        raise InternalError(f"lane instruction {instr.op} of type {instr.type} gave {made.dtype}")
    return made


def _convert(x: Array, target: np.dtype[Any]) -> Array:
    """The value in another type; a float to an integer truncates, everything to a bool is "not zero"."""
    if target == np.bool_:
        nonzero: Array = x != 0
        return nonzero
    if target.itemsize == 2 and target.kind not in "iu":
        return _narrowed(x, target)
    made: Array = x.astype(target)
    return made


def _narrowed(x: Array, target: np.dtype[Any]) -> Array:
    """Round to a half type to nearest even, once; a NaN becomes the quiet NaN of its sign."""
    if x.dtype != np.float32:
        x = _odd32(*_double_with_error(x))
    made = x.astype(target)
    nan = np.where(np.signbit(x), 0x8000, 0) | (0x7E00 if target == np.float16 else 0x7FC0)
    return np.where(np.isnan(x), nan.astype(np.uint16), made.view(np.uint16)).view(target)


def _double_with_error(x: Array) -> tuple[Array, Array]:
    """A number as binary64 and the sign of what rounding it to that lost."""
    d = x.astype(np.float64)
    if x.dtype.kind not in "iu" or x.dtype.itemsize < 8:
        return d, np.zeros(d.shape)
    # 64-bit integers: compare the parts that binary64 holds exactly.
    high, low = (x >> 32).astype(np.float64) * 4294967296.0, (x & np.array(0xFFFFFFFF, x.dtype)).astype(np.float64)
    return d, (high - d) + low


def _odd32(d: Array, error: Array) -> Array:
    """`d + error` (error far below an ulp of d) rounded to odd in binary32, so that a later rounding is the only one."""
    f = d.astype(np.float32)
    back = f.astype(np.float64)
    lost = (d - back) + error
    return _to_odd(f, lost)


def _to_odd(nearest: Array, lost: Array) -> Array:
    """The neighbour with an odd last bit where something was lost; `lost` = exact value - nearest, in sign."""
    width = nearest.dtype.itemsize
    bits = nearest.view(f"i{width}")
    even = (bits & 1) == 0
    # An overflow to infinity is inexact; nothing narrower can tell it from the largest finite value.
    inexact = (lost != 0) & np.isfinite(nearest) & ~np.isnan(lost) & even
    # One step away from zero adds one to the pattern, whatever the sign; around zero the sign of the loss decides.
    step = np.where((lost > 0) == ~np.signbit(nearest), 1, -1).astype(bits.dtype)
    moved = np.where(inexact, bits + step, bits)
    tiny = np.where(lost > 0, 1, np.array(1, bits.dtype) | np.iinfo(bits.dtype).min).astype(bits.dtype)
    return np.where(inexact & (nearest == 0), tiny, moved).astype(bits.dtype).view(nearest.dtype)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of binary32 with one rounding.

    The product is exact in binary64.  The sum's rounding error is found exactly (Knuth's TwoSum, "The Art of Computer
    Programming" vol. 2, 4.2.2) and folded into the last bit (rounding to odd), after which the rounding to binary32 is the
    correct one (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008): 53 >= 24 + 2.
    """
    with np.errstate(all="ignore"):
        p, z = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
        s = p + z
        t = s - p
        lost = (p - (s - t)) + (z - t)
        made: Array = _to_odd(s, lost).astype(np.float32)
        return made


# -- integers --------------------------------------------------------------------------------------------------------


def _overflows(a: Array, b: Array) -> Array:
    """Where a / b is the one quotient out of range."""
    if a.dtype.kind == "u":
        return np.zeros(np.broadcast_shapes(a.shape, b.shape), np.bool_)
    found: Array = (a == np.iinfo(a.dtype).min) & (b == -1)
    return found


def _floor_divide(a: Array, b: Array) -> Array:
    zero, over = b == 0, _overflows(a, b)
    q = a // np.where(zero | over, np.array(1, b.dtype), b)
    return np.where(zero, np.array(0, a.dtype), q)  # MIN // 1 is the MIN that MIN // -1 wraps to


def _floor_remainder(a: Array, b: Array) -> Array:
    return np.where(b == 0, np.array(0, a.dtype), a - _floor_divide(a, b) * b)


def _truncating_divide(a: Array, b: Array) -> Array:
    q = _floor_divide(a, b)
    if a.dtype.kind == "u":
        return q
    inexact = (b != 0) & (q * b != a)
    return np.where(inexact & ((a < 0) != (b < 0)), q + np.array(1, q.dtype), q)


def _shift(x: Array, n: Array, left: bool) -> Array:
    """Amounts outside 0..width-1 shift everything out."""
    width = x.dtype.itemsize * 8
    out = (n < 0) | (n >= width)
    amount = np.where(out, np.array(0, n.dtype), n)
    if left:
        return np.where(out, np.array(0, x.dtype), x << amount)
    signs = np.where(x < 0, np.array(-1 if x.dtype.kind == "i" else 0, x.dtype), np.array(0, x.dtype))
    return np.where(out, signs, x >> amount)


_NUMPY: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "fma": fma32,
    "sqrt": np.sqrt,
    "rint": np.rint,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "neg": np.negative,
    "abs": np.abs,
    "cremf": np.fmod,
    "tdiv": _truncating_divide,
    "fdiv": _floor_divide,
    "fmod": _floor_remainder,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shl": lambda x, n: _shift(x, n, True),
    "shr": lambda x, n: _shift(x, n, False),
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "band": np.logical_and,
    "bor": np.logical_or,
    "bnot": np.logical_not,
    "select": np.where,
}

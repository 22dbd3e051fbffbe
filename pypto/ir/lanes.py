"""Lane programs: what one element of an elementwise operator is, as a short list of exact instructions.

In: a Python function over symbolic lanes.  Out: a `LaneProgram`, run by numpy in the interpreter and printed as C by the
native generator, so that both give the same bits by construction.
Invariant: every instruction has one meaning (listed below); floats are IEEE binary32/64 with one rounding
to nearest even per instruction, integers wrap, nothing is reassociated or contracted.

    add sub mul          floats and integers            fma                 f32, one rounding
    div sqrt             floats                         rint floor ceil trunc   floats
    tdiv fdiv fmod       integers: truncating and floor quotient, floor remainder; by zero 0, MIN / -1 is MIN, MIN % -1 is 0
    neg abs              floats: the sign bit           lt le gt ge eq ne   -> mask, false for NaN except ne
    band bor bnot        masks                          and or xor not shl shr  integers; shr arithmetic for signed types;
                         a shift by less than 0 or by the width and more shifts everything out (0, or the sign bits)
    select               mask ? a : b                   bits                same bits, other type of the same width
    cvt                  value conversion: integers wrap or extend; to a float, nearest even; float to integer truncates
                         and must be in range (programs clamp first)
    cremf                f32: C's fmod, exact
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from pypto.dtypes import DataType
from pypto.named import NamedTuple

__all__ = ["LANE_OF", "OPS", "Builder", "Instr", "Lane", "LaneProgram", "lane_type", "program"]

LANE_OF = {
    DataType.FP32: "f32",
    DataType.FP16: "f16",
    DataType.BF16: "bf16",
    DataType.INT8: "i8",
    DataType.INT16: "i16",
    DataType.INT32: "i32",
    DataType.INT64: "i64",
    DataType.INDEX: "i64",
    DataType.UINT8: "u8",
    DataType.UINT16: "u16",
    DataType.UINT32: "u32",
    DataType.UINT64: "u64",
    DataType.BOOL: "b8",
}
WIDTH = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "b8": 8, "mask": 0, **{f"{s}{n}": n for s in "iu" for n in (8, 16, 32, 64)}}

_FLOATS = ("f32", "f64")
_INTS = tuple(f"{s}{n}" for s in "iu" for n in (8, 16, 32, 64))
_MASK = ("mask",)
# instruction -> (number of operands, operand types it takes)
OPS: dict[str, tuple[int, tuple[str, ...]]] = {
    **{op: (2, _FLOATS + _INTS) for op in ("add", "sub", "mul")},
    "fma": (3, ("f32",)),
    "div": (2, _FLOATS),
    **{op: (1, _FLOATS) for op in ("sqrt", "rint", "floor", "ceil", "trunc", "neg", "abs")},
    "cremf": (2, ("f32",)),
    **{op: (2, _INTS) for op in ("tdiv", "fdiv", "fmod", "and", "or", "xor", "shl", "shr")},
    "not": (1, _INTS),
    **{op: (2, _FLOATS + _INTS) for op in ("lt", "le", "gt", "ge", "eq", "ne")},
    "band": (2, _MASK),
    "bor": (2, _MASK),
    "bnot": (1, _MASK),
    "select": (3, _FLOATS + _INTS + ("f16", "bf16", "b8")),
    "bits": (1, _FLOATS + _INTS + ("f16", "bf16")),
    "cvt": (1, _FLOATS + _INTS + ("f16", "bf16", "b8", "mask")),
}
_COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")


def lane_type(dtype: DataType) -> str:
    """The lane type in which elements of a dtype are loaded and stored; TypeError where the host has none."""
    try:
        return LANE_OF[dtype]
    except KeyError:
        raise TypeError(f"elements of type {dtype} are not computed with on the host") from None


class Instr(NamedTuple):
    """`type result = op(args)`; args are value numbers, `const` has its value in `imm`."""

    op: str
    type: str
    args: tuple[int, ...]
    imm: int | float | None = None


class LaneProgram(NamedTuple):
    """Value numbers 0..len(inputs)-1 are the inputs, then one per instruction; `result` is the element's value."""

    inputs: tuple[str, ...]
    instrs: tuple[Instr, ...]
    result: int

    def type_of(self, number: int) -> str:
        n = len(self.inputs)
        return self.inputs[number] if number < n else self.instrs[number - n].type

    @property
    def result_type(self) -> str:
        return self.type_of(self.result)


class Lane:
    """A symbolic value; arithmetic on it appends instructions to its builder."""

    __slots__ = ("b", "number", "type")

    def __init__(self, b: Builder, number: int, type: str) -> None:
        self.b, self.number, self.type = b, number, type

    def _with(self, op: str, other: Lane | float) -> Lane:
        return self.b.op(op, self, other if isinstance(other, Lane) else self.b.const(other, self.type))

    def __add__(self, o: Lane | float) -> Lane:
        return self._with("add", o)

    def __sub__(self, o: Lane | float) -> Lane:
        return self._with("sub", o)

    def __mul__(self, o: Lane | float) -> Lane:
        return self._with("mul", o)

    def __truediv__(self, o: Lane | float) -> Lane:
        return self._with("div", o)

    def __and__(self, o: Lane | int) -> Lane:
        return self._with("band" if self.type == "mask" else "and", o)

    def __or__(self, o: Lane | int) -> Lane:
        return self._with("bor" if self.type == "mask" else "or", o)

    def __xor__(self, o: Lane | int) -> Lane:
        return self._with("xor", o)

    def __lshift__(self, o: Lane | int) -> Lane:
        return self._with("shl", o)

    def __rshift__(self, o: Lane | int) -> Lane:
        return self._with("shr", o)

    def __invert__(self) -> Lane:
        return self.b.op("bnot" if self.type == "mask" else "not", self)

    def __neg__(self) -> Lane:
        return self.b.op("neg", self) if self.type in _FLOATS else self.b.const(0, self.type) - self

    def __lt__(self, o: Lane | float) -> Lane:
        return self._with("lt", o)

    def __le__(self, o: Lane | float) -> Lane:
        return self._with("le", o)

    def __gt__(self, o: Lane | float) -> Lane:
        return self._with("gt", o)

    def __ge__(self, o: Lane | float) -> Lane:
        return self._with("ge", o)

    def eq(self, o: Lane | float) -> Lane:
        return self._with("eq", o)

    def ne(self, o: Lane | float) -> Lane:
        return self._with("ne", o)

    def is_nan(self) -> Lane:
        return self.b.op("ne", self, self)

    def to(self, type: str) -> Lane:
        """The value converted; itself where the type is the same."""
        return self if type == self.type else self.b.op("cvt", self, type=type)

    def bits(self, type: str) -> Lane:
        return self if type == self.type else self.b.op("bits", self, type=type)


class Builder:
    """Collects instructions; equal instructions are one."""

    def __init__(self, inputs: tuple[str, ...]) -> None:
        self.inputs = inputs
        self.instrs: list[Instr] = []
        self._known: dict[tuple[object, ...], int] = {}

    def input(self, i: int) -> Lane:
        return Lane(self, i, self.inputs[i])

    def const(self, value: float, type: str) -> Lane:
        if type[0] == "i" or type[0] == "u":
            value = int(value)
        key = ("const", type, repr(value))
        return self._append(key, Instr("const", type, (), value))

    def op(self, op: str, *args: Lane, type: str | None = None) -> Lane:
        count, takes = OPS[op]
        operands = args[1:] if op == "select" else args
        first = operands[0].type
        if len(args) != count or first not in takes or (op not in ("cvt", "bits") and any(a.type != first for a in operands)):
            raise TypeError(f"lane instruction {op} does not take {[a.type for a in args]}")
        if op == "select" and args[0].type != "mask":
            raise TypeError("select chooses by a mask")
        if op == "bits" and WIDTH[type or ""] != WIDTH[first]:
            raise TypeError(f"bits: {first} and {type} differ in width")
        result = type if type is not None else "mask" if op in _COMPARE else first
        numbers = tuple(a.number for a in args)
        return self._append((op, result, numbers), Instr(op, result, numbers))

    def _append(self, key: tuple[object, ...], instr: Instr) -> Lane:
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.inputs) + len(self.instrs)
            self.instrs.append(instr)
        return Lane(self, number, instr.type)

    # -- idioms --

    def select(self, mask: Lane, a: Lane, b: Lane) -> Lane:
        return self.op("select", mask, a, b)

    def fma(self, a: Lane, b: Lane, c: Lane | float) -> Lane:
        return self.op("fma", a, b, c if isinstance(c, Lane) else self.const(c, a.type))

    def maximum(self, a: Lane, b: Lane) -> Lane:
        """The larger value; NaN if either is NaN."""
        return self._extremum(a > b, a, b)

    def minimum(self, a: Lane, b: Lane) -> Lane:
        """The smaller value; NaN if either is NaN."""
        return self._extremum(a < b, a, b)

    def _extremum(self, wins: Lane, a: Lane, b: Lane) -> Lane:
        """A choice that is b where either is NaN, which processors make at once; then a where that is NaN."""
        chosen = self.select(wins, a, b)
        return self.select(a.is_nan(), a, chosen) if a.type in _FLOATS else chosen


LaneFunction = Callable[..., Lane]


@lru_cache(maxsize=4096)
def program(f: LaneFunction, inputs: tuple[str, ...], result: str, *settings: object) -> LaneProgram:
    """Trace `f(builder, *inputs, *settings)`, whose value must have the lane type `result`; dead instructions go."""
    b = Builder(inputs)
    out = f(b, *(b.input(i) for i in range(len(inputs))), *settings)
    if out.type != result:
        raise TypeError(f"{getattr(f, '__name__', f)} gives {out.type} where {result} is stored")
    return _without_dead(LaneProgram(inputs, tuple(b.instrs), out.number))


def _without_dead(p: LaneProgram) -> LaneProgram:
    n = len(p.inputs)
    live = {p.result}
    for i in range(len(p.instrs) - 1, -1, -1):
        if n + i in live:
            live.update(p.instrs[i].args)
    renumber = {i: i for i in range(n)}
    kept: list[Instr] = []
    for i, instr in enumerate(p.instrs):
        if n + i in live:
            renumber[n + i] = n + len(kept)
            kept.append(instr._replace(args=tuple(renumber[a] for a in instr.args)))
    return LaneProgram(p.inputs, tuple(kept), renumber[p.result])

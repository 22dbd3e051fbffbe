"""Random numbers out of a key and a counter: the same for the same words, whatever else a kernel does.

Element `e` of the tile, counted row by row through its whole shape, is word `e % 16` of the ChaCha block `e // 16`.  The state
of that block (D. J. Bernstein, 2008) is the four constants, the eight key words key0, key1, 0, ..., and the counter: the 128-bit
number counter0 + 2^32 counter1 + 2^64 counter2 + 2^96 counter3, plus the block's number.  Rounds are those of columns and of
diagonals in turn; the state at the beginning is added in the end.
"""

from __future__ import annotations

from typing import Any

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.ir.expr import Call, Expr, MakeTuple
from pypto.ir.opdef import Attr, Dsl, DslContext, Lower, OpDef, Operand, OpRejected, Param, Site, Special
from pypto.ir.ops.generate import checked_dtype, number
from pypto.ir.ops.memory import static_shape, valid_within
from pypto.ir.ops.rules import D, R, check_dtype
from pypto.ir.shaped import TensorType, TileType, TileView, as_dims
from pypto.ir.types import Type

__all__ = ["DSL", "OPS", "RANDOM", "WORDS"]

RANDOM = "random"  # the kind of `Special`
WORDS = ("key0", "key1", "counter0", "counter1", "counter2", "counter3")
_DTYPES = (D.UINT32, D.INT32)
_ROUNDS = (7, 10)
_DOC = "pseudo-random words of ChaCha blocks, by key and counter"


def _type(s: Site) -> Type:
    at = len(WORDS)
    dims = static_shape(s, at)
    dtype: DataType = s.kwargs["dtype"]
    check_dtype(s, dtype, _DTYPES)
    if len(dims) != 2:
        s.reject(f"random numbers fill two dimensions, got {len(dims)}", "give [rows, cols], and reshape the result")
    for i, name in enumerate(WORDS):
        if s.scalar(i) is not D.INT32:
            s.reject(f"'{name}' is INT32, got {s.scalar(i)}", f"pl.cast(<{name}>, pl.INT32)", TypeError)
    if s.kwargs.get("rounds", 10) not in _ROUNDS:
        s.reject(f"'rounds' is {s.kwargs['rounds']}", "write rounds=7 or rounds=10")
    if s.name.startswith("tensor"):
        return TensorType(dims, dtype)
    t = TileType(dims, dtype, None, None, MemorySpace.Vec)
    if len(s) == at + 1:
        return t
    valid = s.elements(at + 1)
    valid_within(s, valid, t.shape)
    layout = t.layout
    view = TileView(valid, blayout=layout.blayout, slayout=layout.slayout, fractal=layout.fractal)
    return TileType(dims, dtype, None, view, MemorySpace.Vec)


def _to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    return lo.emit("tile.random", args, call.kwargs)


def _build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    kwargs: dict[str, Any] = {"dtype": checked_dtype("random", a["dtype"])}
    if a["rounds"] != 10:
        kwargs["rounds"] = a["rounds"]
    words = [number("random", n, a[n], D.INT32) for n in WORDS]
    valid = () if a.get("valid_shape") is None else (MakeTuple(as_dims(a["valid_shape"])),)
    if valid and space != "tile":
        raise OpRejected("pl.random: valid_shape is only for tiles", "pl.tile.random takes it", TypeError)
    return ctx.op(f"{space or 'tensor'}.random", (*words, MakeTuple(as_dims(a["shape"])), *valid), kwargs)


_OPERANDS = (*(Operand(n, "scalar") for n in WORDS), Operand("shape", "shape"))
_COMMON: dict[str, Any] = {
    "attrs": (Attr("dtype", (DataType,), required=True), Attr("rounds", (int,))),
    "dtypes": _DTYPES,
    "doc": _DOC,
}
OPS: tuple[OpDef, ...] = (
    OpDef("tensor.random", _OPERANDS, _type, Special(RANDOM), effects=(R,) * 7, to_tile=_to_tile, **_COMMON),
    OpDef(
        "tile.random",
        (*_OPERANDS, Operand("valid_shape", "shape", optional=True)),
        _type,
        Special(RANDOM),
        effects=(R,) * 8,
        spaces=(None,) * 8,
        out_space=MemorySpace.Vec,
        pto="trandom",
        **_COMMON,
    ),
)
_PARAMS = (
    *(Param(n) for n in WORDS),
    Param("shape", "shape"),
    Param("dtype", "attr", D.UINT32),
    Param("rounds", "attr", 10),
)
DSL: tuple[Dsl, ...] = (
    Dsl("random", ("", "tensor"), _PARAMS, _build, _DOC),
    Dsl("random", ("tile",), (*_PARAMS, Param("valid_shape", "shape", None)), _build, _DOC),
)

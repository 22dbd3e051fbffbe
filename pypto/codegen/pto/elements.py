"""Element types that instructions take, by chip, memories between which tiles move, and the units that execute them.

In: an instruction and the descriptors of its operands.  Out: whether the chip has it, and where.  An instruction that is
not listed takes whatever moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pypto.dtypes import DataType as D
from pypto.enums import MemorySpace
from pypto.ir.shaped import BufferType

__all__ = ["elements", "moves", "unit"]

_N = frozenset((D.INT16, D.UINT16, D.FP16, D.INT32, D.UINT32, D.FP32))
_B = frozenset((D.INT8, D.UINT8))
_BF = frozenset((D.BF16,))
_MOVED = _N | _B | _BF
_INTEGERS = frozenset((D.INT8, D.UINT8, D.INT16, D.UINT16, D.INT32, D.UINT32))
_FLOATS = frozenset((D.FP16, D.FP32))
_SCALAR = frozenset((D.INT16, D.FP16, D.INT32, D.FP32))
_I8, _I16, _I32 = frozenset((D.INT8,)), frozenset((D.INT16,)), frozenset((D.INT32,))
_FILLED = _SCALAR | _BF
_BLOCKS = frozenset((D.INT8, D.UINT8, D.FP16, D.BF16, D.FP32))

Types = frozenset[D]


def _rows(names: str, a2a3: Types, a5: Types | None = None) -> dict[str, tuple[Types, Types]]:
    return dict.fromkeys(names.split(), (a2a3, a2a3 if a5 is None else a5))


_BY_VECTORS = " ".join(f"t{w}expand{n}" for w in ("row", "col") for n in ("add", "sub", "mul", "max", "min"))
_TABLE: Mapping[str, tuple[Types, Types]] = {
    **_rows("tadd tmin", _N, _MOVED),
    **_rows("tsub tmax", _N, _N | _B),
    **_rows("tmul tfmod", _N),
    **_rows("tdiv", _FLOATS, _N),
    **_rows("trem", frozenset((D.INT32, D.UINT32, D.FP32))),
    **_rows("tpartadd tpartmul tpartmax tpartmin", _N, _MOVED),
    **_rows("tand tor tshl tshr txor", _INTEGERS),
    **_rows("tabs texp tlog tsqrt trsqrt trecip tlrelu tprelu", _FLOATS),
    **_rows("tneg", _N, _MOVED),
    **_rows("trelu", _FLOATS | {D.INT32, D.UINT32}),
    **_rows("tnot", frozenset((D.INT16, D.UINT16)), _INTEGERS),
    **_rows("tadds tsubs tmuls tmaxs tmins", _SCALAR, _SCALAR | _I8 | _BF),
    # The scalar is signless, whatever the elements are: unsigned elements would be divided as signed ones.
    **_rows("tdivs", _SCALAR, _SCALAR | _I8),
    **_rows("tfmods", _SCALAR),
    **_rows("trems", frozenset((D.INT32, D.FP32)), _SCALAR),
    **_rows("tands tors txors", _I8 | _I16, _I8 | _I16 | _I32),
    **_rows("tshls", _I8 | _I16 | _I32 | {D.INT64}),
    **_rows("tshrs", _I16 | _I32, _I8 | _I16 | _I32),
    **_rows("texpands", _FILLED, _FILLED | _I8),
    **_rows("trowsum trowmax trowmin trowprod trowargmax trowargmin tcolargmax tcolargmin", _N),
    **_rows("tcolsum tcolmax tcolmin", _N, _MOVED),
    **_rows("tcolprod", _N, _N | _BF),
    **_rows("tcolexpand trowexpand tfillpad ttrans tconcat", _MOVED),
    **_rows(_BY_VECTORS, _N, _N | _B),
    **_rows("trowexpanddiv tcolexpanddiv", _FLOATS, _N | _B),
    **_rows("trowexpandexpdif tcolexpandexpdif", _FLOATS),
    **_rows("tcmp", frozenset((D.FP16, D.INT32, D.UINT32, D.FP32)), _MOVED),
    **_rows("tcmps", _SCALAR, _SCALAR | _I8),
    **_rows("tsel", _N | _BF, _MOVED),
    **_rows("tsels", _SCALAR, _SCALAR | _I8),
    **_rows("tgather", _N, _N | _B),
    **_rows("tci", _I16 | _I32),
    **_rows("trandom", frozenset(), _I32 | {D.UINT32}),
    **_rows("tload tstore tmov", _MOVED | {D.INT64}),
    **_rows("textract", _BLOCKS),
    **_rows("tsort32 tmrgsort", _FLOATS),
}
_MOVES = frozenset(
    (
        (MemorySpace.Mat, MemorySpace.Left),
        (MemorySpace.Mat, MemorySpace.Right),
        (MemorySpace.Mat, MemorySpace.Bias),
        (MemorySpace.Vec, MemorySpace.Vec),
        (MemorySpace.Acc, MemorySpace.Mat),
        (MemorySpace.Acc, MemorySpace.Vec),
    )
)
_OF_THE_RESULT = ("tsel", "tsels")


def elements(name: str, ins: Sequence[BufferType], outs: Sequence[BufferType], arch: str) -> D | None:
    """The element type that an instruction does not take on a chip; None if it takes what it is given."""
    known = _TABLE.get(name)
    read = outs if name in _OF_THE_RESULT or not ins else ins
    if known is None or not read or read[0].dtype in known[arch == "a5"]:
        return None
    return read[0].dtype


def moves(name: str, source: BufferType, target: BufferType, arch: str) -> bool:
    """Whether a chip moves tiles, windows of tiles, or tiles into windows from one memory to another."""
    pair = source.memory_space, target.memory_space
    if name == "textract":
        return pair in _MOVES and pair != (MemorySpace.Mat, MemorySpace.Bias)
    if name == "tinsert":
        return pair == (MemorySpace.Acc, MemorySpace.Mat)
    return pair in _MOVES or (arch == "a5" and pair == (MemorySpace.Vec, MemorySpace.Mat))


def unit(operands: Sequence[BufferType]) -> frozenset[str]:
    """The units that an instruction on these buffers needs."""
    return frozenset("vector" if d.memory_space is MemorySpace.Vec else "cube" for d in operands)

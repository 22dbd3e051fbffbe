"""The matrix unit's operators on buffers: products, and what relabels and drains of its memories may do.

In: handles in Left, Right and Acc memory, [M, K] x [K, N] -> [M, N].  Out: nothing; the product is written into the last
operand, or added to it.  FP16, BF16 and FP32 are added up in FP32, INT8 in INT32.
Extents that are known only at run time (-1) cannot be compared here; whoever runs the operator checks them.
"""

from __future__ import annotations

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.ir.opdef import Matmul, OpDef, Operand, Site
from pypto.ir.ops.buffer_rules import RW, R, W
from pypto.ir.ops.rules import D
from pypto.ir.shaped import BufferType
from pypto.ir.types import Type, VoidType

__all__ = ["MATRIX", "OPS", "SUMS", "check_drain", "check_relabel"]

MATRIX = (MemorySpace.Mat, MemorySpace.Left, MemorySpace.Right, MemorySpace.Acc)
# What products of elements are added up in.
SUMS = {D.FP16: D.FP32, D.BF16: D.FP32, D.FP32: D.FP32, D.INT8: D.INT32}


def check_relabel(s: Site, src: BufferType, t: BufferType) -> None:
    """Matrices of one element type over the same bytes."""
    if src.dtype is not t.dtype:
        s.reject(f"a matrix relabel must keep the element type, got {src.dtype} and {t.dtype}")
    if len(src.physical_shape) != 2 or len(t.physical_shape) != 2:
        s.reject("a matrix relabel needs rank-2 buffers")


def check_drain(s: Site, have: DataType, want: DataType) -> None:
    """Sums leave Acc memory as they are, or FP32 rounded to 16 bits; everything else would need a scale."""
    if have is not want and not (have is D.FP32 and want in (D.FP16, D.BF16)):
        s.reject(f"cannot convert {have} to {want} without a scale")


def _operand(s: Site, i: int, name: str, space: MemorySpace) -> BufferType:
    t = s.buffer(i)
    if t.memory_space is not space or len(t.physical_shape) != 2:
        what = f"a rank-{len(t.physical_shape)} {t.memory_space.name} buffer"
        s.reject(f"the {name} must be a rank-2 {space.name} buffer, got {what}")
    return t


def _product(s: Site) -> tuple[BufferType, tuple[int, ...]]:
    """The accumulator, and the valid extents of the product."""
    a, b = _operand(s, 0, "lhs", MemorySpace.Left), _operand(s, 1, "rhs", MemorySpace.Right)
    c = _operand(s, 2, "accumulator", MemorySpace.Acc)
    if a.dtype is not b.dtype:
        s.reject(f"requires identical lhs and rhs element types, got {a.dtype} and {b.dtype}")
    if a.dtype not in SUMS:
        s.reject(f"does not support {a.dtype} Left and Right buffers")
    if c.dtype is not SUMS[a.dtype]:
        s.reject(f"{a.dtype} products need an {SUMS[a.dtype]} accumulator, got {c.dtype}")
    (m, k), (depth, n) = a.physical_shape, b.physical_shape
    if k != depth or c.physical_shape != (m, n):
        shapes = f"{list(a.physical_shape)} x {list(b.physical_shape)} -> {list(c.physical_shape)}"
        s.reject(f"requires [M, K] x [K, N] -> [M, N], got {shapes}")
    if 0 <= b.valid_shape[0] < a.valid_shape[1]:
        s.reject(f"rhs is valid in {b.valid_shape[0]} rows, lhs in {a.valid_shape[1]} columns")
    return c, (a.valid_shape[0], b.valid_shape[1])


def _extent(n: int) -> str:
    return "of run time" if n < 0 else str(n)


def _matmul(s: Site) -> Type:
    acc, product = _product(s)
    for i, (have, want) in enumerate(zip(acc.valid_shape, product, strict=True)):
        if have != want:
            what = f"accumulator valid extent {_extent(have)} of dimension {i}"
            s.reject(f"{what} must equal the product valid extent {_extent(want)}")
    return VoidType.get()


def _matmul_acc(s: Site) -> Type:
    acc, product = _product(s)
    for i, (have, want, size) in enumerate(zip(acc.valid_shape, product, acc.physical_shape, strict=True)):
        # A run-time extent of the product is contained in all of a dimension; one of the accumulator in nothing known.
        if 0 <= have < want or (want < 0 <= have < size):
            what = f"accumulator valid extent {_extent(have)} of dimension {i}"
            s.reject(f"{what} must contain the product valid extent {_extent(want)}")
    return VoidType.get()


_OPERANDS = (Operand("lhs", "buffer"), Operand("rhs", "buffer"), Operand("acc", "buffer"))
OPS: tuple[OpDef, ...] = (
    OpDef(
        "buffer.matmul",
        _OPERANDS,
        _matmul,
        Matmul(0, 1),
        effects=(R, R, W),
        in_place=False,
        dtypes=tuple(SUMS),
        pto="tmatmul",
        doc="lhs x rhs into acc, which is valid exactly where the product is",
    ),
    OpDef(
        "buffer.matmul_acc",
        _OPERANDS,
        _matmul_acc,
        Matmul(0, 1, 2),
        effects=(R, R, RW),
        in_place=False,
        dtypes=tuple(SUMS),
        pto="tmatmul.acc",
        doc="lhs x rhs added to acc, which is valid at least where the product is",
    ),
)

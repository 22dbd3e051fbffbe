"""Type rules of buffer-stage operators: everything is in the descriptors, the result of a write is void.

In: handles (`BufferType`), scalars, tuples.  Out: VoidType, or the descriptor the caller demands.
"""

from __future__ import annotations

from collections.abc import Iterable

from pypto.dtypes import DataType
from pypto.enums import MemorySpace, TileLayout
from pypto.ir.opdef import SCALAR, Attr, Lanewise, OpDef, Operand, Site
from pypto.ir.ops.rules import RW, R, W
from pypto.ir.shaped import BufferType
from pypto.ir.types import Type, VoidType

__all__ = ["RW", "R", "W", "elementwise_buffer", "is_dense_vec", "same_descriptors"]


def is_dense_vec(t: BufferType) -> bool:
    """Whether a buffer is a matrix in vector memory, row by row."""
    flat = t.blayout is TileLayout.row_major and t.slayout is TileLayout.none_box
    return len(t.physical_shape) == 2 and t.memory_space is MemorySpace.Vec and flat


def same_descriptors(s: Site, a: BufferType, b: BufferType, what: str) -> None:
    """Equal dtype, physical shape and valid descriptor."""
    if a.dtype is not b.dtype:
        s.reject(f"{what} differ in element type: {a.dtype} and {b.dtype}")
    if a.physical_shape != b.physical_shape:
        s.reject(f"{what} differ in physical shape: {a.physical_shape} and {b.physical_shape}")
    if a.valid_shape != b.valid_shape:
        s.reject(f"{what} differ in valid extents: {a.valid_shape} and {b.valid_shape}")


def elementwise_buffer(
    name: str, form: Lanewise, dtypes: Iterable[DataType], pto: str, attrs: Iterable[Attr], in_place: bool
) -> OpDef:
    """`buffer.<name>(inputs..., dst)`: all vector buffers of one descriptor."""
    allowed = frozenset(dtypes)
    n = len(form.patterns)

    def infer(s: Site) -> Type:
        dst = s.buffer(n)
        for i, pattern in enumerate(form.patterns):
            if pattern == SCALAR:
                if s.scalar(i) is not dst.dtype:
                    s.reject(f"scalar operand dtype {s.scalar(i)} must equal the destination's {dst.dtype}")
            else:
                same_descriptors(s, s.buffer(i), dst, "operand and destination")
                if s.buffer(i).memory_space is not MemorySpace.Vec:
                    s.reject("elementwise operands must be in Vec memory")
        if dst.memory_space is not MemorySpace.Vec:
            s.reject("an elementwise destination must be in Vec memory")
        if dst.dtype not in allowed:
            names = "/".join(d.name for d in sorted(allowed, key=lambda d: d.code(), reverse=True))
            s.reject(f"requires {names} elements, got {dst.dtype}")
        return VoidType.get()

    operands = [Operand(f"in{i}", "scalar" if p == SCALAR else "buffer") for i, p in enumerate(form.patterns)]
    return OpDef(
        f"buffer.{name}",
        (*operands, Operand("dst", "buffer")),
        infer,
        form,
        effects=(*(R,) * n, W),
        attrs=attrs,
        in_place=in_place,
        dtypes=allowed,
        pto=pto,
        doc=f"{name} into dst",
    )

"""Operators of the buffer stage: storage is a handle, a result is written into a destination operand.

They are internal: only the lowering to buffers makes them.  `alloc`, `subview` and `reshape` are given the descriptor of
their result and check it; everything else returns nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.ir.expr import ConstInt, Expr
from pypto.ir.opdef import SCALAR, Lanewise, OpDef, Operand, Site, Special
from pypto.ir.ops import buffer_matrix
from pypto.ir.ops.buffer_matrix import MATRIX, check_drain, check_relabel
from pypto.ir.ops.buffer_rules import R, W, is_dense_vec, same_descriptors
from pypto.ir.ops.lanefns import copy, lanes
from pypto.ir.ops.rules import D
from pypto.ir.shaped import BufferType, TensorType, const_dim
from pypto.ir.types import ScalarType, Type, VoidType

__all__ = ["OPS"]

_VOID = VoidType.get()
_RELABELS = (D.FP16, D.BF16, D.FP32, D.INT16, D.INT32, D.UINT8)


def _extents(s: Site, i: int, count: int, what: str) -> tuple[Expr, ...]:
    values = s.elements(i)
    if len(values) != count:
        s.reject(f"{what}: expected {count} values, got {len(values)}")
    return values


def _given(s: Site) -> BufferType:
    t = s.result
    if not isinstance(t, BufferType):
        s.reject("result must have BufferType")
    return t


def _check_constant_extents(s: Site, values: Iterable[Expr], limits: Iterable[int]) -> None:
    for i, (v, n) in enumerate(zip(values, limits, strict=True)):
        c = const_dim(v)
        if c is not None and not 0 <= c <= n:
            s.reject(f"valid extent for dimension {i} must be between 0 and {n}, got {c}")


def _alloc(s: Site) -> Type:
    t = _given(s)
    dynamic = [i for i, v in enumerate(t.valid_shape) if v < 0]
    values = s.elements(0)
    if len(values) != len(dynamic):
        s.reject(f"runtime valid extents: one per dynamic descriptor dimension, expected {len(dynamic)}, got {len(values)}")
    _check_constant_extents(s, values, [t.physical_shape[i] for i in dynamic])
    if len(s) > 1:
        if not s.scalar(1).is_int():
            s.reject("the effective address must be an integer or INDEX scalar")
        address = s.args[1]
        if isinstance(address, ConstInt) and address.value < 0:
            s.reject(f"the effective address must be nonnegative, got {address.value}")
    return t


def _set_validshape(s: Site) -> Type:
    t = s.buffer(0)
    values = s.elements(1)
    if len(values) != len(t.physical_shape):
        s.reject("set_validshape needs one valid extent per physical dimension")
    for i, (v, have) in enumerate(zip(values, t.valid_shape, strict=True)):
        c = const_dim(v)
        if have >= 0 and c is None:
            s.reject("the descriptor must already mark changing dimensions dynamic")
        if have >= 0 and c != have:
            s.reject(f"cannot change static valid dimension {i} from {have} to {c}")
    _check_constant_extents(s, values, t.physical_shape)
    return _VOID


def _subview(s: Site) -> Type:
    src, t = s.buffer(0), _given(s)
    if not is_dense_vec(src) or not is_dense_vec(t):
        s.reject("a subview needs rank-2 row-major Vec buffers")
    if src.dtype is not t.dtype:
        s.reject("a subview must keep the element type")
    offsets = _extents(s, 1, 2, "offsets")
    for i, (o, n, m) in enumerate(zip(offsets, t.physical_shape, src.physical_shape, strict=True)):
        if n > m:
            s.reject(f"the view's extent {n} exceeds the source extent {m} on dimension {i}")
        c = const_dim(o)
        if c is not None and c < 0:
            s.reject(f"offset {c} on dimension {i} is negative")
        if c is not None and c + n > m:
            s.reject(f"window [{c}, {c + n}) exceeds source capacity on dimension {i} ({m})")
    if 0 in t.valid_shape:
        s.reject(f"constant valid extents of a view must be positive, got {t.valid_shape}")
    if len(s) > 2:
        values = _extents(s, 2, 2, "valid extents")
        for i, (v, have) in enumerate(zip(values, t.valid_shape, strict=True)):
            c = const_dim(v)
            if have >= 0 and c != have:
                s.reject(f"valid extent must equal the static descriptor dimension {i}: {have}, got {c}")
            if have < 0 and c is not None:
                s.reject(f"dynamic dimension {i} needs a nonconstant extent")
        _check_constant_extents(s, values, t.physical_shape)
    elif any(v < 0 for v in t.valid_shape):
        s.reject("a subview with dynamic extents requires a valid-extents tuple")
    return t


def _bytes(t: BufferType) -> int:
    rows, cols = t.physical_shape if len(t.physical_shape) == 2 else (1, t.physical_shape[0])
    return rows * cols * t.dtype.get_byte()


def _reshape(s: Site) -> Type:
    src, t = s.buffer(0), _given(s)
    if src.memory_space is not t.memory_space or _bytes(src) != _bytes(t):
        s.reject("a reshape keeps the memory space and needs equal physical byte sizes")
    if any(v < 0 for v in (*src.valid_shape, *t.valid_shape)):
        s.reject("a reshape needs static valid extents")
    if src.memory_space in MATRIX:
        check_relabel(s, src, t)
        return t
    if not is_dense_vec(src) or not is_dense_vec(t):
        s.reject("a reshape needs dense rank-2 buffers")
    for b in (src, t):
        if b.dtype not in _RELABELS:
            s.reject(f"{b.dtype} buffers cannot be relabelled")
        if b.physical_shape[1] * b.dtype.get_byte() % 32:
            s.reject("a reshape needs physical rows that are multiples of 32 bytes")
    return t


def _copy(s: Site) -> Type:
    a, b = s.buffer(0), s.buffer(1)
    spaces = (a.memory_space, b.memory_space)
    if spaces == (MemorySpace.Vec, MemorySpace.Vec):
        same_descriptors(s, a, b, "a Vec copy needs identical physical descriptors: source and destination")
    elif spaces in ((MemorySpace.Mat, MemorySpace.Left), (MemorySpace.Mat, MemorySpace.Right)):
        if (a.dtype, a.physical_shape, a.valid_shape) != (b.dtype, b.physical_shape, b.valid_shape):
            s.reject("must keep the element type and the physical and valid extents")
    else:
        s.reject(f"copies go Vec -> Vec, Mat -> Left and Mat -> Right, got {spaces[0].name} -> {spaces[1].name}")
    return _VOID


def _transfer(s: Site, buffer: int, gm: int, offsets: int, valids: int, spaces: tuple[MemorySpace, ...]) -> Type:
    b, t = s.buffer(buffer), s.tensor(gm)
    if b.memory_space not in spaces:
        s.reject(f"does not support {b.memory_space.name} buffers")
    if b.memory_space is MemorySpace.Acc:
        check_drain(s, b.dtype, t.dtype)
    elif b.dtype is not t.dtype:
        s.reject(f"the tensor is {t.dtype}, the buffer {b.dtype}: a transfer does not convert")
    view = t.tensor_view
    if len(t.shape) != 2 or (view is not None and view.stride):
        s.reject("needs a packed rank-2 ND tensor")
    at, extents = _extents(s, offsets, 2, "offsets"), _extents(s, valids, 2, "valid extents")
    for i, (v, have) in enumerate(zip(extents, b.valid_shape, strict=True)):
        c = const_dim(v)
        if have >= 0 and c != have:
            s.reject(f"transfer extent {c} must equal the static valid dimension {i}: {have}")
    _check_constant_extents(s, extents, b.physical_shape)
    _check_bounds(s, at, extents, t)
    return _VOID


def _check_bounds(s: Site, at: tuple[Expr, ...], extents: tuple[Expr, ...], t: TensorType) -> None:
    for i, (o, v, n) in enumerate(zip(at, extents, t.valid, strict=True)):
        a, b, c = const_dim(o), const_dim(v), const_dim(n)
        if a is not None and a < 0:
            s.reject(f"offset {a} on dimension {i} is negative")
        if a is not None and b is not None and c is not None and a + b > c:
            s.reject(f"window [{a}, {a + b}) exceeds GM tensor physical or valid dimension {i} ({c})")


def _extract(s: Site) -> Type:
    src, dst = s.buffer(0), s.buffer(3)
    spaces = (src.memory_space, dst.memory_space)
    legal = (
        (MemorySpace.Mat, MemorySpace.Left),
        (MemorySpace.Mat, MemorySpace.Right),
        (MemorySpace.Vec, MemorySpace.Vec),
    )
    if spaces not in legal or src.dtype is not dst.dtype:
        s.reject(f"extracts go Mat -> Left, Mat -> Right and Vec -> Vec of one dtype, got {spaces[0].name} -> {spaces[1].name}")
    for name, i, n, m in zip(("row", "col"), (1, 2), dst.physical_shape, src.physical_shape, strict=True):
        c = const_dim(s.args[i])
        if not s.scalar(i).is_int():
            s.reject(f"{name} must be an integer or INDEX scalar")
        if c is not None and (c < 0 or c + n > m):
            s.reject(f"{name} window [{c}, {c + n}) exceeds the source extent {m}")
    return _VOID


def _query(s: Site) -> Type:
    return ScalarType.of(DataType.INDEX)


def _full(s: Site) -> Type:
    dst = s.buffer(1)
    if s.scalar(0) is not dst.dtype:
        s.reject(f"scalar operand dtype {s.scalar(0)} must equal the destination's {dst.dtype}")
    if dst.memory_space is not MemorySpace.Vec or dst.dtype is not D.FP32:
        s.reject(f"requires FP32 elements in Vec memory, got {dst.dtype} in {dst.memory_space.name}")
    return _VOID


_B, _S, _G = "buffer", "shape", "tensor"
OPS: tuple[OpDef, ...] = (
    OpDef(
        "buffer.alloc",
        (Operand("valids", _S), Operand("address", "scalar", optional=True)),
        _alloc,
        Special("alloc"),
        effects=(R, R),
        explicit_result=True,
        doc="a storage handle",
    ),
    OpDef(
        "buffer.set_validshape",
        (Operand("buffer", _B), Operand("extents", _S)),
        _set_validshape,
        Special("set_valid"),
        effects=(R, R),
        pto="set_validshape",
        doc="new valid extents for a handle that owns its storage",
    ),
    OpDef(
        "buffer.subview",
        (Operand("src", _B), Operand("offsets", _S), Operand("valids", _S, optional=True)),
        _subview,
        Special("view"),
        effects=(R, R, R),
        explicit_result=True,
        pto="subview",
        doc="a window with the source's row pitch",
    ),
    OpDef(
        "buffer.reshape",
        (Operand("src", _B),),
        _reshape,
        Special("view"),
        effects=(R,),
        explicit_result=True,
        pto="treshape",
        doc="the same bytes under another descriptor",
    ),
    OpDef(
        "buffer.copy",
        (Operand("src", _B), Operand("dst", _B)),
        _copy,
        Special("copy"),
        effects=(R, W),
        pto="tmov",
        doc="src into dst: in Vec what is valid, into matrix memory all of it",
    ),
    OpDef(
        "buffer.load",
        (Operand("gm", _G), Operand("offsets", _S), Operand("valids", _S), Operand("dst", _B)),
        lambda s: _transfer(s, 3, 0, 1, 2, (MemorySpace.Vec, MemorySpace.Mat)),
        Special("load"),
        effects=(R, R, R, W),
        pto="tload",
        doc="a window of a tensor into dst",
    ),
    OpDef(
        "buffer.store",
        (Operand("src", _B), Operand("offsets", _S), Operand("valids", _S), Operand("gm", _G)),
        lambda s: _transfer(s, 0, 3, 1, 2, (MemorySpace.Vec, MemorySpace.Acc)),
        Special("store"),
        effects=(R, R, R, W),
        pto="tstore",
        doc="src into a window of a tensor",
    ),
    OpDef(
        "buffer.extract",
        (Operand("src", _B), Operand("row", "scalar"), Operand("col", "scalar"), Operand("dst", _B)),
        _extract,
        Special("extract"),
        effects=(R, R, R, W),
        in_place=False,
        pto="textract",
        doc="a window of src into dst",
    ),
    *buffer_matrix.OPS,
    OpDef(
        "buffer.full",
        (Operand("scalar", "scalar"), Operand("dst", _B)),
        _full,
        Lanewise((SCALAR,), lanes(copy)),
        effects=(R, W),
        pto="texpands",
        doc="every valid element of dst the scalar",
    ),
    *(
        OpDef(f"buffer.{name}", (), _query, Special("query"), effects=(), doc="block and lane queries")
        for name in ("get_block_idx", "get_block_num", "get_subblock_idx")
    ),
)

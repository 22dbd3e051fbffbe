"""The tensor that an object exports by DLPack, read from its capsule.

In: an object with `__dlpack__`.  Out: address, shape, strides and element type of its memory.  Invariant: the capsule
is not consumed but kept as the owner: when it dies, its own destructor gives the memory back.  numpy's reader is not
used because it has no BF16.  Structures and numbers are those of the DLPack header, version 1.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from pypto.errors import ArgumentTypeError, ArgumentValueError
from pypto.named import NamedTuple
from pypto.runtime.arrays import CONVERT, named_dtype

__all__ = ["Exported", "loaded_dtypes", "read"]

# kDLCPU, and the two kinds of pinned host memory, which the CPU reads and writes as its own.
_HOST_DEVICES = (1, 3, 11)
_READ_ONLY, _COPIED = 1, 2

# (type code, bits) -> name
_NAMES = {
    **{(0, bits): f"int{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)},
    (4, 16): "bfloat16",
    (6, 8): "bool",
    (10, 8): "float8_e4m3fn",
    (12, 8): "float8_e5m2",
    (14, 8): "float8_e8m0fnu",
}


class Exported(NamedTuple):
    """Strides count elements.  `read_only` is a reason or None; `owner` must live as long as the memory is used."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    read_only: str | None
    owner: object


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


def loaded_dtypes() -> dict[tuple[int, int], Any]:
    """numpy's dtype by DLPack's type code and bits; those of `ml_dtypes` only where that is in use already."""
    numpys = (0, 1, 2, 6)
    return {key: named_dtype(name) for key, name in _NAMES.items() if key[0] in numpys or "ml_dtypes" in sys.modules}


def read(obj: Any) -> Exported:
    """The exported tensor; ArgumentTypeError or ArgumentValueError where it is not in the CPU's memory or cannot be shared."""
    device = obj.__dlpack_device__()[0]
    if int(device) not in _HOST_DEVICES:
        raise ArgumentTypeError(
            f"an array on DLPack device type {int(device)}, kernels run on the CPU", hint="copy it to the CPU"
        )
    capsule = _capsule(obj)
    tensor, flags = _open(capsule)
    if flags is not None and flags & _COPIED:
        raise ArgumentValueError("an array whose DLPack export is a copy", hint="pass an array that can share its memory")
    name = _NAMES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if name is None:
        what = f"DLPack elements of type code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes"
        raise ArgumentTypeError(what, hint=CONVERT)
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else _dense(shape)
    return Exported((tensor.data or 0) + tensor.byte_offset, shape, strides, name, _reason(flags), capsule)


def _capsule(obj: Any) -> object:
    try:
        try:
            return obj.__dlpack__(max_version=(1, 0))
        except TypeError:  # an exporter from before versions
            return obj.__dlpack__()
    except (BufferError, RuntimeError, ValueError, TypeError) as e:
        raise ArgumentValueError(f"an array that its library does not export: {e}", hint=CONVERT) from None


def _open(capsule: object) -> tuple[_Tensor, int | None]:
    """The tensor in a capsule and its flags, None where the capsule is of the kind that has none."""
    api = ctypes.pythonapi
    is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", api))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    if is_valid(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(pointer(capsule, b"dltensor_versioned"))
        if versioned.major != 1:
            raise ArgumentTypeError(f"a DLPack export of version {versioned.major}, known is 1", hint=CONVERT)
        return versioned.tensor, versioned.flags
    if is_valid(capsule, b"dltensor"):
        return _Tensor.from_address(pointer(capsule, b"dltensor")), None
    raise ArgumentTypeError("a DLPack export that is no unused tensor capsule", hint=CONVERT)


def _reason(flags: int | None) -> str | None:
    if flags is None:
        return "its DLPack export is of the kind that cannot say it may be written"
    return "its DLPack export says read-only" if flags & _READ_ONLY else None


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))

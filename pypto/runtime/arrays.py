"""Other libraries' arrays as numpy arrays over the same memory.

In: any object.  Out: an `ArrayView` whose array shares the object's bytes and keeps it alive, or None for what is no
array.  Invariant: nothing is ever copied, because an output must be written in place; whatever cannot be shared is
an error.  What must not be written comes out read-only, with the reason.

Recognised are numpy arrays and subclasses, torch tensors (without importing torch), and objects that offer the array
interface, the buffer protocol or DLPack, asked in this order: the first two say for certain what may be written.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pypto.dtypes import DataType, from_numpy
from pypto.errors import ArgumentTypeError, ArgumentValueError, Error
from pypto.named import NamedTuple

__all__ = [
    "CONVERT",
    "ArrayView",
    "adapt",
    "description",
    "element_type",
    "is_torch",
    "named_dtype",
    "type_numbers",
    "view",
    "without_memory",
]

# The remedy for arrays that only their own library understands.
CONVERT = "convert it to a numpy array first"

Array = np.ndarray[Any, np.dtype[Any]]


class ArrayView(NamedTuple):
    """`array` is over the memory of `owner`; `read_only` says why it may not be written, None where it may."""

    array: Array
    owner: object
    read_only: str | None = None


def view(obj: object) -> ArrayView | None:
    """`obj` as a numpy array over its own memory, or None where it is no array.

    Raises ArgumentTypeError or ArgumentValueError for an array that a kernel on the CPU cannot reach or share.
    """
    cls: Any = type(obj)
    adapter = _adapter(cls)
    return None if adapter is None else adapter(obj)


def adapt(obj: object) -> Array | None:
    """The array of `view`; None too where `view` would raise, so that a dispatcher can ask without a try."""
    try:
        found = view(obj)
    except (ArgumentTypeError, ArgumentValueError):
        return None
    return None if found is None else found.array


def without_memory(obj: object) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """Shape and dtype of a tensor that has nothing else (torch's "meta" device); None for every other object."""
    cls: Any = type(obj)
    if _adapter(cls) is not _from_torch:
        return None
    tensor: Any = obj
    return (tuple(tensor.shape), _torch_dtype(tensor.dtype)) if tensor.device.type == "meta" else None


def description(obj: object) -> tuple[tuple[Any, ...], Any] | None:
    """Extents and dtype (numpy's, or a DataType) of what describes an array without being one; None for every other object."""
    if isinstance(obj, (type, np.ndarray, np.generic)):
        return None
    try:
        if view(obj) is not None:
            return None
    except (ArgumentTypeError, ArgumentValueError):  # an array that is of no use
        return None
    shape, dtype = getattr(obj, "shape", None), getattr(obj, "dtype", None)
    if not isinstance(shape, (list, tuple)) or dtype is None:
        return None
    if isinstance(dtype, DataType):
        return tuple(shape), dtype
    try:
        return tuple(shape), np.dtype(dtype)
    except TypeError:
        return None


def is_torch(cls: type) -> bool:
    """Whether a class is torch's own class of tensors, no subclass."""
    return cls.__name__ == "Tensor" and cls.__module__ == "torch"


def element_type(dtype: np.dtype[Any]) -> DataType | None:
    """The element type of an array; None for byte-swapped dtypes and for those that kernels do not have."""
    if dtype.isnative and dtype.kind in "iu":
        # numpy names C's types, several of which may have one width: long and long long, say.
        return from_numpy(np.dtype(f"{dtype.kind}{dtype.itemsize}"))
    return from_numpy(dtype)


@functools.lru_cache(maxsize=64)
def type_numbers(dtype: DataType) -> tuple[int, ...]:
    """The numpy type numbers that an array of this element type may have, the usual one first.

    A BF16 parameter takes uint16 arrays too: the usual carrier of such data where `ml_dtypes` is not in use.
    """
    usual = dtype.numpy()
    if dtype is DataType.BF16:
        return usual.num, np.dtype(np.uint16).num
    if usual.kind not in "iu":
        return (usual.num,)
    same = [d.num for d in map(np.dtype, "bBhHiIlLqQ") if (d.kind, d.itemsize) == (usual.kind, usual.itemsize)]
    return (usual.num, *(n for n in same if n != usual.num))


@functools.lru_cache(maxsize=256)
def _adapter(cls: type) -> Callable[[Any], ArrayView | None] | None:
    if issubclass(cls, np.ndarray):
        return _from_subclass
    # Scalars offer the protocols of arrays as well; so does text the buffer protocol, in other Pythons.
    # A class has the methods of its instances, and is none.
    if issubclass(cls, (np.generic, int, float, complex, str, type)):
        return None
    if any(c.__module__.partition(".")[0] == "torch" and c.__name__ == "Tensor" for c in cls.__mro__):
        return _from_torch
    return _from_protocols


def _from_subclass(obj: Array) -> ArrayView:
    if isinstance(obj, np.ma.MaskedArray):
        raise ArgumentTypeError("a masked array, whose mask a kernel cannot see", hint="pass x.data, or x.filled(value)")
    array = obj.view(np.ndarray)
    return ArrayView(array, obj, None if array.flags.writeable else "the array is read-only")


class _Interface:
    """What numpy needs to make an array over foreign memory; numpy keeps it, and it keeps the owner."""

    def __init__(self, description: dict[str, Any], owner: object) -> None:
        self.__array_interface__ = description
        self.owner = owner


def _over(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any], owner: object, read_only: bool
) -> Array:
    """An array over `address`; strides in bytes.  Types that numpy cannot spell travel as unsigned integers."""
    carrier = dtype if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")
    description = {"data": (address, read_only), "shape": shape, "strides": strides, "typestr": carrier.str, "version": 3}
    array: Array = np.asarray(_Interface(description, owner))
    return array if carrier is dtype else array.view(dtype)


# The remedy for tensors that stand for elements, and have none in memory.
_ORDINARY = "pass one whose elements are in memory: torch.zeros(x.shape, dtype=x.dtype), for example"
# torch: the dtypes whose numpy name differs, or that numpy lacks.
_TORCH_NAMES = {"float": "float32", "double": "float64", "half": "float16", "short": "int16", "int": "int32", "long": "int64"}


@functools.lru_cache(maxsize=64)
def _torch_dtype(dtype: object) -> np.dtype[Any]:
    name = str(dtype).removeprefix("torch.")
    return named_dtype(_TORCH_NAMES.get(name, name))


def named_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype called `name`, those of `ml_dtypes` included; ArgumentTypeError for others."""
    found: np.dtype[Any]
    try:
        found = np.dtype(name)
    except TypeError:
        import ml_dtypes

        extra = getattr(ml_dtypes, name, None)
        if extra is None:
            raise ArgumentTypeError(f"elements of type {name}, which no kernel has", hint=CONVERT) from None
        found = np.dtype(extra)
    return found


def _from_torch(t: Any) -> ArrayView:
    """A tensor in ordinary CPU memory; one call into torch where numpy has its type."""
    dtype = _torch_dtype(t.dtype)
    if dtype.isbuiltin == 1 and not t.requires_grad:
        try:
            array = t.numpy()
        except (TypeError, RuntimeError):
            pass  # which of several reasons it was, the checks below say better
        else:
            if not array.flags.owndata:  # numpy makes up memory for a tensor that has none
                return ArrayView(array, t)
    if t.device.type != "cpu":
        raise ArgumentTypeError(f"a tensor on device {t.device}, kernels run on the CPU", hint="pass x.cpu()")
    if str(t.layout) != "torch.strided":
        raise ArgumentTypeError(f"a tensor of layout {t.layout}", hint="pass x.to_dense()")
    if t.is_conj() or t.is_neg():
        raise ArgumentValueError(
            "a tensor whose conjugate or negative is still to be taken", hint="pass x.resolve_conj() or x.resolve_neg()"
        )
    reason = "the tensor requires a gradient, which a write in place would falsify" if t.requires_grad else None
    try:
        strides, address = tuple(s * t.element_size() for s in t.stride()), t.data_ptr()
    except RuntimeError as e:
        raise ArgumentTypeError(f"a tensor that has no elements in memory: {e}", hint=_ORDINARY) from None
    if not address and math.prod(t.shape):
        raise ArgumentTypeError("a tensor that has no elements in memory", hint=_ORDINARY)
    return ArrayView(_over(address, tuple(t.shape), strides, dtype, t, reason is not None), t, reason)


def _from_protocols(obj: Any) -> ArrayView | None:
    """The first protocol that yields elements a kernel can have; else the first that yields any."""
    first: ArrayView | None = None
    for protocol in (_from_interface, _from_buffer, _from_dlpack):
        found = protocol(obj)
        if found is not None and element_type(found.array.dtype) is not None:
            return found
        first = first or found
    return first


def _from_interface(obj: Any) -> ArrayView | None:
    try:
        description = getattr(obj, "__array_interface__", None)
    except Exception as e:  # the object's own code
        raise ArgumentTypeError(f"an array interface that raises {type(e).__name__}: {e}", hint=CONVERT) from e
    if not isinstance(description, dict):
        return None
    if description.get("mask") is not None:
        raise ArgumentTypeError("an array interface with a mask, which a kernel cannot see", hint="pass the data without it")
    try:
        array: Array = np.asarray(_Interface(description, obj))
    except (TypeError, ValueError, OverflowError) as e:
        raise ArgumentTypeError(f"an array interface that numpy refuses: {e}", hint=CONVERT) from None
    return ArrayView(array, obj, None if array.flags.writeable else "its array interface says read-only")


def _from_buffer(obj: Any) -> ArrayView | None:
    try:
        buffer = memoryview(obj)
    except TypeError:
        return None
    except (BufferError, ValueError) as e:
        raise ArgumentTypeError(f"a buffer that cannot be had: {e}", hint=CONVERT) from None
    try:
        array: Array = np.asarray(buffer)
    except (TypeError, ValueError) as e:
        raise ArgumentTypeError(f"a buffer of format {buffer.format!r}, which numpy refuses: {e}", hint=CONVERT) from None
    return ArrayView(array, obj, "its buffer is read-only" if buffer.readonly else None)


def _from_dlpack(obj: Any) -> ArrayView | None:
    if not hasattr(obj, "__dlpack__") or not hasattr(obj, "__dlpack_device__"):
        return None
    from pypto.runtime import dlpack

    try:
        tensor = dlpack.read(obj)
    except Error:
        raise
    except Exception as e:  # the object's own code
        raise ArgumentTypeError(f"a DLPack export that raises {type(e).__name__}: {e}", hint=CONVERT) from e
    dtype = named_dtype(tensor.dtype)
    strides = tuple(s * dtype.itemsize for s in tensor.strides)
    array = _over(tensor.address, tensor.shape, strides, dtype, (obj, tensor.owner), tensor.read_only is not None)
    return ArrayView(array, obj, tensor.read_only)

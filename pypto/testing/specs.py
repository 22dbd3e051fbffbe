"""Tensors and scalars of a case: name, shape, element type, and what they hold before the kernel runs.

In: values as users have them (numbers, arrays of any library, factories).  Out: fresh numpy arrays of the declared type.
Invariant: torch is used where the user's values are torch's, through the module that is loaded already, and never imported.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import prod
from operator import index
from typing import Any

import numpy as np

from pypto.dtypes import DataType, from_numpy
from pypto.errors import ArgumentTypeError, ArgumentValueError
from pypto.runtime.arrays import Array, element_type, view

__all__ = ["NO_NUMBERS", "ScalarSpec", "TensorSpec", "array_of", "as_torch", "converted"]

NO_NUMBERS = "OSUMmc"  # kinds of numpy types: objects, texts, times, complex numbers
_MOST_ELEMENTS = 2**60  # of eight bytes
_CTYPES = {
    "int64": np.int64,
    "int32": np.int32,
    "uint64": np.uint64,
    "uint32": np.uint32,
    "float": np.float32,
    "double": np.float64,
}


@dataclass(frozen=True, eq=False)
class TensorSpec:
    """One tensor of a case.

    dtype: a DataType, or a dtype of numpy or torch.  init_value: None gives zeros; a number fills; an array of `shape` is
    copied and converted; a factory of torch (`torch.randn`) is called with shape and dtype, any other callable without
    arguments.  ArgumentTypeError for something else, ArgumentValueError for an array of another shape, and for extents that
    no array has.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DataType
    init_value: Any = None
    is_output: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _extents(self.name, self.shape))
        object.__setattr__(self, "dtype", _element_type(self.name, self.dtype))

    @property
    def from_torch(self) -> bool:
        return _is_torch(self.init_value) or _torch_factory(self.init_value) is not None

    def initial(self) -> Array:
        """A fresh array with what the tensor holds before the kernel runs."""
        value, dtype = self.init_value, self.dtype.numpy()
        torch = _torch_factory(value)
        if torch is not None:
            value = value(self.shape, dtype=getattr(torch, dtype.name))
        elif callable(value):
            value = value()
        if value is None:
            return np.zeros(self.shape, dtype)
        if isinstance(value, (bool, int, float, np.generic)):
            return _filled(self, value)
        array = array_of(value)
        if array is None:
            what = f"tensor '{self.name}': init_value is a {type(value).__name__}"
            raise ArgumentTypeError(what, hint="give None, a number, an array, or a function that returns one")
        if array.shape != self.shape:
            what = f"tensor '{self.name}' has shape {list(self.shape)}, its init_value {list(array.shape)}"
            raise ArgumentValueError(what, hint="give an array of that shape, or a number to fill it with")
        if array.dtype.kind in NO_NUMBERS:
            what = f"tensor '{self.name}': init_value is an array of {array.dtype}"
            raise ArgumentTypeError(what, hint="give an array of real numbers")
        return converted(array, dtype)


@dataclass(frozen=True)
class ScalarSpec:
    """One scalar argument of a case; ctype is one of int64, int32, uint64, uint32, float, double."""

    name: str
    value: Any
    ctype: str = "int64"

    def __post_init__(self) -> None:
        if not isinstance(self.value, (bool, int, float, np.number, np.bool_)) or isinstance(self.value, np.complexfloating):
            what = f"scalar '{self.name}': {self.value!r} is no number"
            raise ArgumentTypeError(what, hint="give an integer or a float")
        if self.ctype not in _CTYPES:
            what = f"scalar '{self.name}': unknown ctype {self.ctype!r}"
            raise ArgumentValueError(what, hint=f"one of {', '.join(_CTYPES)}")

    def argument(self) -> int | float:
        """The value as its C type holds it; OverflowError for an integer that it cannot hold."""
        kind = _CTYPES[self.ctype]
        if issubclass(kind, np.integer) and isinstance(self.value, (float, np.floating)) and not float(self.value).is_integer():
            what = f"scalar '{self.name}': {self.value!r} is no {self.ctype}"
            raise ArgumentValueError(what, hint='give an integer, or ctype="float"')
        held: int | float = kind(self.value).item()
        return held


def converted(array: Array, dtype: np.dtype[Any]) -> Array:
    """A dense copy in another type, by numpy's rules; uint16 carries BF16 where numpy has no such type."""
    if from_numpy(dtype) is DataType.BF16 and array.dtype == np.uint16:
        return np.array(array, order="C").view(dtype)
    with np.errstate(all="ignore"):
        return np.array(array, dtype, order="C")


def array_of(value: object) -> Array | None:
    """An array over the memory of any library's array, or None for what is none."""
    found = view(value)
    return None if found is None else found.array


def _is_torch(value: object) -> bool:
    return any(c.__module__.partition(".")[0] == "torch" and c.__name__ == "Tensor" for c in type(value).__mro__)


def as_torch(array: Array) -> Any:
    """A torch tensor over an array's memory."""
    torch: Any = sys.modules["torch"]
    if from_numpy(array.dtype) is DataType.BF16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _torch_factory(value: object) -> Any:
    """The module torch if `value` is one of its functions."""
    torch = sys.modules.get("torch")
    name = getattr(value, "__name__", None)
    return torch if torch is not None and callable(value) and name and getattr(torch, name, None) is value else None


def _extents(name: str, shape: Any) -> tuple[int, ...]:
    """A shape as integers; run-time errors of numpy's are errors of the declaration here."""
    try:
        extents = tuple(index(n) for n in shape)
    except TypeError:
        what = f"tensor '{name}': {shape!r} is no shape"
        raise ArgumentTypeError(what, hint="give a tuple of integers, as in (16, 64)") from None
    if any(n < 0 for n in extents) or prod(extents) > _MOST_ELEMENTS:
        what = f"tensor '{name}': no array has the shape {list(extents)}"
        raise ArgumentValueError(what, hint="extents are integers from 0 on, and all elements have an address")
    return extents


def _filled(t: TensorSpec, value: Any) -> Array:
    try:
        return np.full(t.shape, value, t.dtype.numpy())
    except (OverflowError, TypeError, ValueError):
        what = f"tensor '{t.name}': init_value {value!r} is no {t.dtype} number"
        raise ArgumentValueError(what, hint="give a number that the element type holds") from None


def _element_type(name: str, dtype: Any) -> DataType:
    if isinstance(dtype, DataType):
        return dtype
    import ml_dtypes

    text = str(dtype).removeprefix("torch.")
    found = None
    for candidate in (dtype, getattr(ml_dtypes, text, text)):  # numpy's own, then by name
        try:
            found = found or element_type(np.dtype(candidate))
        except TypeError:
            continue
    if found is None:
        raise ArgumentTypeError(f"tensor '{name}': {dtype!r} is no element type", hint="st.DataType.FP32, for example")
    return found

"""Sample arguments from a command line: `x=fp32[16,64]` and `n=3`.

In: texts and the kernel's parameters.  Out: what the kernel's inspection methods take.  Usage, naming what to write, for
everything that is not exactly one of the two forms or does not fit a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from pypto.dtypes import ALL_DTYPES, DataType
from pypto.language.annotations import RUNTIME, Tensor
from pypto.named import NamedTuple

if TYPE_CHECKING:
    from pypto.frontend.signatures import Parameter
    from pypto.jit import JITFunction

__all__ = ["Array", "Sample", "Usage", "for_kernel", "parse"]

_ARRAY = re.compile(r"([A-Za-z]\w*)\s*\[\s*(\d+(?:\s*,\s*\d+)*)\s*,?\s*\]")
_INTEGER = re.compile(r"[+-]?\d+")
_WORDS = {"true": True, "false": False}
MOST_AXES = 32  # of an array that a kernel is called with
MOST_BYTES = 2**63 - 1
_DIGITS = 20  # of a number of 64 bits, sign included
_FORMS = "write --arg x=fp32[16,64] for an array, --arg n=3 for a number"


class Usage(Exception):
    """What was typed cannot be carried out; the text says what to type."""


class Array(NamedTuple):
    """An array, of which only shape and dtype count."""

    dtype: DataType
    shape: tuple[int, ...]

    def make(self) -> Any:
        """A description: nothing is allocated."""
        return Tensor[list(self.shape), self.dtype]


Sample = Array | int | float | bool


def parse(texts: Iterable[str]) -> dict[str, Sample]:
    """Samples by parameter name."""
    found: dict[str, Sample] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name.isidentifier():
            raise Usage(f"--arg {text}: no name before '='; {_FORMS}")
        if name in found:
            raise Usage(f"--arg {text}: '{name}' is given twice")
        found[name] = _value(text, value)
    return found


def _value(text: str, value: str) -> Sample:
    array = _ARRAY.fullmatch(value)
    if array is not None:
        return _array(text, _dtype(text, array[1]), [n.strip() for n in array[2].split(",")])
    if value.lower() in _WORDS:
        return _WORDS[value.lower()]
    if _INTEGER.fullmatch(value):
        if len(value) > _DIGITS:
            raise Usage(f"--arg {_short(text)}: a number of {len(value)} digits; numbers have 64 bits")
        return int(value)
    try:
        return float(value)
    except ValueError:
        raise Usage(f"--arg {text}: {value!r} is neither an array nor a number; {_FORMS}") from None


def _array(text: str, dtype: DataType, extents: list[str]) -> Array:
    """The description of an array that could be; how much memory there is does not matter."""
    if len(extents) > MOST_AXES:
        raise Usage(f"--arg {_short(text)}: an array of {len(extents)} axes; arrays have at most {MOST_AXES}")
    if any(len(n) > _DIGITS for n in extents) or prod(int(n) for n in extents) * dtype.get_byte() > MOST_BYTES:
        raise Usage(f"--arg {_short(text)}: an array of more than {MOST_BYTES} bytes, which no address reaches")
    return Array(dtype, tuple(int(n) for n in extents))


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _dtype(text: str, name: str) -> DataType:
    names = {d.name.lower(): d for d in ALL_DTYPES if _has_arrays(d)}
    found = names.get(name.lower())
    if found is None:
        raise Usage(f"--arg {text}: unknown dtype {name!r}; one of {', '.join(names)}")
    return found


def _has_arrays(d: DataType) -> bool:
    try:
        d.numpy()
    except TypeError:
        return False
    return d is not DataType.INDEX


# -- what a kernel takes -----------------------------------------------------------------------------------------------


def for_kernel(kernel: JITFunction, samples: Mapping[str, Sample]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments of `kernel.lower(...)` and its like.

    Arrays that are not given are made as annotated; scalars that are not given stay open where nothing needs a value.
    """
    parameters = kernel.parameters()
    _check(kernel, parameters, samples)
    tensors = [p for p in parameters if p.kind == "tensor"]
    if tensors and all(_is_annotated(p) for p in tensors) and not any(isinstance(v, Array) for v in samples.values()):
        # By the annotations alone: extents stay open, and so do numbers.
        rest = [p.name for p in parameters if p.kind == "scalar" and p.name not in kernel.source.defaults]
        return [], {**dict.fromkeys(rest, RUNTIME), **samples}
    symbols = _symbols(parameters, samples)
    args: list[Any] = []
    keywords: dict[str, Any] = {}
    missing: list[str] = []
    for p in parameters:
        value = samples.get(p.name)
        if value is None and p.kind == "tensor":
            value = _annotated(p, symbols)
        if value is None:
            value = kernel.source.defaults.get(p.name)
        if value is None:
            missing.append(_wanted(p))
        elif p.keyword_only:
            keywords[p.name] = _made(value)
        else:
            args.append(_made(value))
    if missing:
        raise Usage(f"kernel '{kernel.__name__}' needs {'; '.join(missing)}")
    return args, keywords


def _check(kernel: JITFunction, parameters: tuple[Parameter, ...], samples: Mapping[str, Sample]) -> None:
    kinds = {p.name: p.kind for p in parameters}
    for name, value in samples.items():
        if name not in kinds:
            known = ", ".join(kinds) or "none"
            raise Usage(f"--arg {name}: kernel '{kernel.__name__}' has no such parameter; its parameters are {known}")
        if isinstance(value, Array) is not (kinds[name] == "tensor"):
            want = "an array: --arg {}=fp32[16,64]" if kinds[name] == "tensor" else "a number: --arg {}=3"
            raise Usage(f"--arg {name}: the parameter is {want.format(name)}")


def _is_annotated(p: Parameter) -> bool:
    return p.dtype is not None and p.dims is not None and None not in p.dims


def _symbols(parameters: tuple[Parameter, ...], samples: Mapping[str, Sample]) -> dict[str, int]:
    """What the open extents of the annotations are in the arrays that are given."""
    found: dict[str, int] = {}
    for p in parameters:
        given = samples.get(p.name)
        if isinstance(given, Array) and p.dims is not None and len(p.dims) == len(given.shape):
            found.update((d, n) for d, n in zip(p.dims, given.shape, strict=True) if isinstance(d, str))
    return found


def _annotated(p: Parameter, symbols: Mapping[str, int]) -> Array | None:
    if p.dtype is None or p.dims is None:
        return None
    shape = [symbols.get(d) if isinstance(d, str) else d for d in p.dims]
    return None if None in shape else Array(p.dtype, tuple(n for n in shape if n is not None))


def _wanted(p: Parameter) -> str:
    if p.kind != "tensor":
        return f"a number for '{p.name}': --arg {p.name}=3"
    dtype = (p.dtype or DataType.FP32).name.lower()
    dims = ",".join(str(d) if isinstance(d, int) else "64" for d in p.dims or (16, 64))
    return f"an array for '{p.name}': --arg {p.name}={dtype}[{dims}]"


def _made(value: Any) -> Any:
    return value.make() if isinstance(value, Array) else value

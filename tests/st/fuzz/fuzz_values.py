"""What the generators know of a program while they write it: values, where they are visible, and its two texts.

Every statement is written twice, as the language's and as its twin's (`fuzz_twin`); an expression is a pair of texts and
what it stands for.  Invariant: two expressions of equal description have equal types in the language.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

BYTES = {"FP32": 4, "FP16": 2, "BF16": 2, "INT8": 1, "INT16": 2, "INT32": 4, "INT64": 8, "UINT8": 1, "UINT16": 2, "UINT32": 4}
BITS = {n: 8 * b for n, b in BYTES.items()} | {"INDEX": 64}
FLOATS = ("FP32", "FP16")
ARITHMETIC = ("FP32", "FP16", "INT32", "INT16")
SELECTED = (*ARITHMETIC, "UINT16")
# The conversions that are instructions, and what lies between those that are chains.
CASTS = {
    "FP32": ("FP16", "INT32", "BF16", "INT16"),
    "FP16": ("FP32", "INT32", "INT16", "INT8", "UINT8"),
    "BF16": ("FP32", "INT32"),
    "INT32": ("FP32", "FP16", "INT16"),
    "INT16": ("FP32", "FP16"),
    "INT8": ("FP16",),
    "UINT8": ("FP16",),
}
CHAINS = {
    "BF16": {"FP16": ("FP32",), "INT16": ("FP32",), "INT8": ("FP32", "FP16")},
    "FP16": {"BF16": ("FP32",)},
    "FP32": {"INT8": ("FP16",), "UINT8": ("FP16",)},
    "INT16": {"BF16": ("FP32",), "INT8": ("FP16",), "UINT8": ("FP16",)},
    "INT32": {"BF16": ("FP32",), "UINT8": ("FP16",)},
    "INT8": {"UINT8": ("FP16",)},
    "UINT8": {"INT8": ("FP16",)},
}


class Scalar(NamedTuple):
    """A number; integers lie within low..high where that is known."""

    dtype: str
    low: int | None = None
    high: int | None = None

    @property
    def bounded(self) -> bool:
        return self.low is not None and self.high is not None


class Shaped(NamedTuple):
    """A tile or a computed tensor.  `valid`: extents as they are written; one that begins with `?` has no name.

    `own`: its storage is not a part of another value's.
    """

    level: str
    dtype: str
    shape: tuple[int, ...]
    valid: tuple[str, ...]
    own: bool = True

    @property
    def full(self) -> bool:
        return self.valid == tuple(map(str, self.shape))

    @property
    def nameless(self) -> bool:
        return any(v.startswith("?") for v in self.valid)


class Local(NamedTuple):
    """An array of scalars on the core."""

    dtype: str
    extent: int


class Global(NamedTuple):
    """A tensor in global memory.  `limit`: it holds multiples of `step`, fewer than that of them."""

    dtype: str
    shape: tuple[int, ...]
    writable: bool = False
    limit: int = 0
    step: int = 1


class X(NamedTuple):
    """An expression, in the language and in the twin."""

    kernel: str
    twin: str
    of: Any = None


def whole(level: str, dtype: str, *shape: int) -> Shaped:
    return Shaped(level, dtype, shape, tuple(map(str, shape)))


def aligned(dtype: str, shape: tuple[int, ...]) -> bool:
    """Rows, or a single column, are whole blocks of 32 bytes."""
    rows, cols = shape[-2:]
    return (rows if cols == 1 and rows > 1 else cols) * BYTES[dtype] % 32 == 0


class Lines:
    """Two texts of the same structure."""

    def __init__(self, depth: int = 0) -> None:
        self.kernel: list[str] = []
        self.twin: list[str] = []
        self.depth = depth

    def put(self, kernel: str, twin: str | None = None) -> None:
        pad = "    " * self.depth
        if kernel:
            self.kernel.append(pad + kernel)
        if twin != "":
            self.twin.append(pad + (kernel if twin is None else twin))

    @contextmanager
    def nested(self) -> Iterator[None]:
        self.depth += 1
        yield
        self.depth -= 1


class Scope:
    """Names and what they stand for; an inner scope sees the outer one's, and may bind those it is allowed to anew."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.names: dict[str, Any] = dict(outer.names) if outer is not None else {}
        self.fixed: set[str] = set(outer.fixed) if outer is not None else set()
        self.own: set[str] = set()

    def bind(self, name: str, of: Any, *, fixed: bool = False) -> None:
        self.names[name] = of
        self.own.add(name)
        if fixed:
            self.fixed.add(name)

    def forget(self, name: str) -> None:
        self.names.pop(name)
        self.own.discard(name)

    def owns(self, name: str) -> bool:
        """Whether a name is a value with storage of its own; parameters are none."""
        return name in self.names and bool(self.names[name].own)

    def of_kind(self, kind: type) -> list[tuple[str, Any]]:
        """Latest first: what was just computed is what programs use."""
        return [(n, v) for n, v in reversed(self.names.items()) if isinstance(v, kind)]

    def like(self, of: Any) -> list[str]:
        return [n for n, v in reversed(self.names.items()) if v == of]


class Impossible(Exception):
    """Nothing in reach has the type that a form needs: another form is taken."""


class Fresh:
    """Names that nothing else has."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

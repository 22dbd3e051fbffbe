"""The memory map of a program as data: what lives where in each on-chip memory, from which statement to which.

Statements are numbered in program order; declarations of storage do not count.  A block is occupied from the statement
that writes it first to the last one that needs it, both included, loops that it lives through included.
Invariant: everything here is immutable, and the pictures show nothing that is not here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pypto.named import NamedTuple

__all__ = ["Block", "KernelMap", "MemoryMap", "SpaceMap", "Statement"]


class Statement(NamedTuple):
    """One statement of the final program: `what` it does, `depth` loops and branches deep.

    `file`, `line` and `text` are the user's, empty and 0 where they are not known; `on_chip`: it reads or writes a tile.
    """

    ordinal: int
    depth: int
    what: str
    file: str
    line: int
    text: str
    on_chip: bool


class Block(NamedTuple):
    """Bytes [begin, end) of a memory that hold one tile during statements `first` to `last`.

    `name` is the user's, or the operator's with () for a value without a name; `variable` is the program's own word.
    `line` is the user's where it is made, `last_line` the furthest one that runs while it is there; `by` the operator that
    makes it; `allocation` what it lies in; `declared`: by the user, with pl.MemRef.
    """

    name: str
    begin: int
    end: int
    first: int
    last: int
    line: int
    last_line: int
    dtype: str
    shape: tuple[int, ...]
    by: str
    variable: str
    allocation: str
    declared: bool

    @property
    def size(self) -> int:
        return self.end - self.begin

    def is_live(self, ordinal: int) -> bool:
        return self.first <= ordinal <= self.last


class SpaceMap(NamedTuple):
    """One memory: all sizes are bytes.

    `peak` is the most that is needed at one statement, `peak_at` the statements where it is; `extent` the highest address
    in use, ever; `hole` the largest piece that is free at every statement of the peak.  `placed`: addresses are the
    planner's; where they are not, `extent` and `hole` are this host's and say nothing about the chip.
    """

    name: str
    capacity: int
    blocks: tuple[Block, ...]
    peak: int
    peak_at: tuple[int, ...]
    extent: int
    hole: int
    placed: bool

    @property
    def used(self) -> int:
        """Bytes that the kernel takes: up to the highest address, or, where the assembler places, what is live at once."""
        return self.extent if self.placed else self.peak

    @property
    def free(self) -> int:
        """Bytes that hold nothing at the peak."""
        return self.capacity - self.peak

    @property
    def unused(self) -> int:
        """Bytes that nothing ever uses: what a tile could have that is needed all the time."""
        return max(self.capacity - self.used, 0)

    @property
    def fragmentation(self) -> float:
        """The part of the bytes below the highest address that hold nothing even at the peak."""
        return 1 - self.peak / self.used if self.used else 0.0

    def live(self, ordinal: int) -> tuple[Block, ...]:
        """The blocks that a statement finds or makes."""
        return tuple(b for b in self.blocks if b.is_live(ordinal))

    def occupied(self, ordinal: int) -> int:
        """Bytes that are needed at a statement; those of two tiles that share them count once."""
        return sum(high - low for low, high in covered(self.live(ordinal)))

    @property
    def limiting(self) -> tuple[Block, ...]:
        """The blocks that are live where the peak is first reached, the largest first."""
        return tuple(sorted(self.live(self.peak_at[0]), key=lambda b: (-b.size, b.begin))) if self.peak_at else ()


class KernelMap(NamedTuple):
    """One device function; `stage` is Tile or Buffer; memories in the order of `MemorySpace`."""

    name: str
    stage: str
    file: str
    line: int
    statements: tuple[Statement, ...]
    spaces: tuple[SpaceMap, ...]

    def space(self, name: str) -> SpaceMap:
        """The memory of this name; KeyError if the kernel uses none of it."""
        found = next((s for s in self.spaces if s.name == name), None)
        if found is None:
            raise KeyError(f"kernel '{self.name}' uses no {name} memory")
        return found

    @property
    def tightest(self) -> SpaceMap | None:
        """The memory of which the largest part is in use: it decides how much larger tiles can become."""
        return max(self.spaces, key=lambda s: s.used / s.capacity if s.capacity else 0, default=None)


class MemoryMap(NamedTuple):
    """The device functions of a program, for one chip and one planner.

    `addresses` says whose they are: "planner", or "host" where the planner leaves them to the assembler; then they are
    those that native code of this host gives the allocations, one behind the other.
    """

    program: str
    chip: str
    planner: str
    addresses: str
    kernels: tuple[KernelMap, ...]

    def kernel(self, name: str) -> KernelMap:
        """The device function of this name; KeyError if there is none."""
        found = next((k for k in self.kernels if k.name == name), None)
        if found is None:
            raise KeyError(f"no kernel '{name}': there are {', '.join(k.name for k in self.kernels) or 'none'}")
        return found

    def text(self, width: int = 100, *, ascii_only: bool = False) -> str:
        """The picture for a terminal, at most `width` columns wide (40 at least)."""
        from pypto.debug.memory_map.text import render

        return render(self, width, ascii_only)

    def html(self) -> str:
        """The picture as one HTML page that needs nothing else."""
        from pypto.debug.memory_map.html import render

        return render(self)

    def as_dict(self) -> dict[str, Any]:
        """The same as dictionaries, lists, texts and numbers."""
        made: dict[str, Any] = _plain(self)
        for kernel, k in zip(made["kernels"], self.kernels, strict=True):
            kernel["tightest"] = k.tightest.name if k.tightest is not None else None
            for space, s in zip(kernel["spaces"], k.spaces, strict=True):
                space.update(used=s.used, free=s.free, unused=s.unused, fragmentation=round(s.fragmentation, 4))
        return made

    def __str__(self) -> str:
        return self.text()


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {k: _plain(v) for k, v in value._asdict().items()}
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def covered(blocks: Iterable[Block]) -> list[tuple[int, int]]:
    """The bytes of some blocks as disjoint ranges in ascending order."""
    out: list[tuple[int, int]] = []
    for low, high in sorted((b.begin, b.end) for b in blocks):
        if out and low <= out[-1][1]:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return out

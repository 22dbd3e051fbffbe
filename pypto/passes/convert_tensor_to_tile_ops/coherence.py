"""Bulk stores and element writes of one tensor do not mix.

In: the accesses of a kernel.  Out: nothing, or the tensors written through both channels: transfers in bulk bypass the
cache that element writes go through, so that either may lose the other's bytes.
The check follows aliases, carries and branches and ignores offsets: windows that look disjoint may share a cache line.
"""

from __future__ import annotations

from collections.abc import Iterable

from pypto.enums import WriteChannel
from pypto.errors import CompileError
from pypto.ir.expr import Var
from pypto.ir.verify.ssa import user_name
from pypto.passes.convert_tensor_to_tile_ops.flow import Access

__all__ = ["mixed_writes", "reject_mixed_writes"]


def mixed_writes(found: Iterable[Access]) -> frozenset[Var]:
    """The tensors that are written both in bulk and element by element."""
    by_channel: dict[WriteChannel, set[Var]] = {c: set() for c in WriteChannel}
    for a in found:
        if a.channel is not None:
            by_channel[a.channel] |= a.roots
    return frozenset(by_channel[WriteChannel.Dma] & by_channel[WriteChannel.Scalar])


def reject_mixed_writes(found: list[Access]) -> None:
    """CompileError at the second kind of write of the first tensor that is written both ways."""
    mixed = mixed_writes(found)
    if not mixed:
        return
    seen: dict[Var, WriteChannel] = {}
    for a in found:
        for r in a.roots & mixed:
            if a.channel is not None and seen.setdefault(r, a.channel) is not a.channel:
                raise CompileError(
                    f"'{user_name(r)}' is written both in bulk (store, assemble) and element by element (write) in one kernel",
                    a.call.span,
                    "fill a tile with pl.full, write the elements into it and store it once, or write every element",
                    code="C023",
                )

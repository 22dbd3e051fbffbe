"""Where an operand that is still a tensor is needed as a tile: what the tile operators behind its rule declare.

In: a tensor operator.  Out: for each operand the memories that the tile operators it turns into read it in.
Invariant: nothing is stated here; a rule that leads to several operators leads to operators that agree, each registered and
each saying where it reads every operand.  That is checked of an operator before a kernel that has it is converted.
"""

from __future__ import annotations

from collections.abc import Iterable

from pypto.enums import MemorySpace
from pypto.errors import InternalError
from pypto.ir import ops
from pypto.ir.opdef import OpDef

__all__ = ["Spaces", "bridge_spaces", "bridges_of", "check_bridges"]

Spaces = tuple[MemorySpace, ...] | None  # None: nothing is asked


def bridge_spaces(names: Iterable[str], slot: int) -> tuple[MemorySpace, ...]:
    """Where all of these operators read operand `slot`; InternalError if one is unknown or silent, or if they differ."""
    found: dict[tuple[MemorySpace, ...], str] = {}
    for name in names:
        op = ops.find(name)
        if op is None:
            raise InternalError(f"{name} is needed in a conversion, and is not registered")
        spaces = op.spaces[slot] if op.spaces is not None and slot < len(op.spaces) else None
        if not spaces:
            raise InternalError(f"{name} does not say in which memory it reads operand {slot}")
        found.setdefault(spaces, name)
    if len(found) != 1:
        what = ", ".join(f"{name} in {' or '.join(s.name for s in spaces)}" for spaces, name in found.items())
        raise InternalError(f"one conversion leads to operators that read operand {slot} in different memories: {what}")
    return next(iter(found))


def bridges_of(op: OpDef) -> tuple[Spaces, ...] | None:
    """The memories of the operands of a tensor operator, once they are tiles; None if nothing is known of any."""
    if op.becomes:
        return tuple(bridge_spaces(op.becomes, i) if o.kind == "tensor" else None for i, o in enumerate(op.operands))
    tile = ops.find("tile." + op.concept)
    return tile.spaces if tile is not None else None


def check_bridges(table: Iterable[OpDef]) -> None:
    """InternalError if a conversion of the table leads to operators that cannot take the same operands."""
    for op in table:
        bridges_of(op)

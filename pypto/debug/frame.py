"""One activation of a function: what its variables hold, and the values of expressions.

In: expressions.  Out: run-time values: int, float, bool, `Block`, tuples of these, None for what has no value.
Invariant: reading a variable that holds nothing is an internal error that names it, never a default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pypto.debug import scalars
from pypto.debug.memory import ArenaPlace, Block
from pypto.debug.storage import Storage
from pypto.errors import InternalError, KernelBoundsError
from pypto.ir.expr import (
    BinaryExpr,
    Call,
    ConstBool,
    ConstFloat,
    ConstInt,
    Expr,
    MakeTuple,
    Submit,
    TupleGetItemExpr,
    UnaryExpr,
    Var,
)
from pypto.ir.shaped import TileType
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = ["Frame", "Position", "Value"]

Value = Any  # int | float | bool | Block | tuple of values | None


class Position(NamedTuple):
    """Which run of a kernel this is, of how many, and on which vector lane."""

    block: int = 0
    blocks: int = 1
    lane: int = 0
    party: Any = None  # the block among those that wait for each other


class Frame:
    """The variables of one activation.

    `on_core`: inside device code, where windows of tensors are copies; elsewhere they are views.
    `call` evaluates calls; it is the interpreter's, so that this module knows no operator.
    """

    __slots__ = ("call", "ends", "on_core", "position", "started", "storage", "values", "wholes")

    def __init__(
        self, call: Callable[[Frame, Call | Submit, Var | None], Value], storage: Storage, position: Position, on_core: bool
    ) -> None:
        self.call, self.storage, self.position, self.on_core = call, storage, position, on_core
        self.values: dict[Var, Value] = {}
        self.wholes: dict[int, Block] = {}  # what the lanes of a region put together, by the identity of the call
        self.ends: Any = None  # of the pipes of the group that started this function
        self.started: Any = None  # the functions that this activation lets run side by side

    # -- expressions --

    def evaluate(self, e: Expr) -> Value:
        if isinstance(e, ConstInt):
            return e.value
        if isinstance(e, Var):
            if e not in self.values:
                raise InternalError(f"variable {e.name_hint} is read before it has a value")
            return self.values[e]
        if isinstance(e, BinaryExpr):
            return scalars.binary(e, self.evaluate(e.left), self.evaluate(e.right))
        if isinstance(e, UnaryExpr):
            return scalars.unary(e, self.evaluate(e.operand))
        if isinstance(e, (ConstFloat, ConstBool)):
            return scalars.fit(e.value, e.dtype)
        if isinstance(e, MakeTuple):
            return tuple(self.evaluate(x) for x in e.elements)
        if isinstance(e, TupleGetItemExpr):
            return self.evaluate(e.tuple)[e.index]
        if isinstance(e, (Call, Submit)):
            return self.call(self, e, None)
        raise InternalError(f"{type(e).__name__} is not an expression that has a value")

    def integer(self, e: Expr) -> int:
        return int(self.evaluate(e))

    def extents(self, dims: Iterable[Expr]) -> tuple[int, ...]:
        return tuple(self.integer(d) for d in dims)

    def valid(self, valid: Iterable[Expr], shape: tuple[int, ...], span: Span) -> tuple[int, ...]:
        """Valid extents at run time."""
        return self.within(self.extents(valid), shape, span)

    def within(self, valid: tuple[int, ...], shape: tuple[int, ...], span: Span) -> tuple[int, ...]:
        """The extents; KernelBoundsError where one is negative or exceeds the physical extent."""
        for axis, (v, n) in enumerate(zip(valid, shape, strict=True)):
            if not 0 <= v <= n:
                raise KernelBoundsError(
                    f"valid extent {v} of dimension {axis} is not within 0..{n}", span, "valid extents lie within the tile"
                )
        return valid

    # -- assignment --

    def bind(self, variables: Iterable[Var], values: Iterable[Value]) -> None:
        """Give variables their values simultaneously; a tile is copied where its variable lies elsewhere in memory."""
        moves: list[tuple[Block, Any]] = []
        made: list[tuple[Var, Value]] = []
        for v, value in zip(variables, values, strict=True):
            place = self._place_of(v) if isinstance(value, Block) else None
            if place is not None and not _begins_at(value.place, place):
                block = Block(place, value.dtype, value.shape, value.valid).marked(value)
                moves.append((block, value.whole()))
                value = block
            made.append((v, value))
        for block, contents in moves:
            block.write(contents)
        self.values.update(made)

    def _place_of(self, v: Var) -> ArenaPlace | None:
        return self.storage.place(v.type, self.integer) if isinstance(v.type, TileType) else None


def _begins_at(have: object, want: ArenaPlace) -> bool:
    """Whether a value already lies where its variable does; a window keeps its parent's pitch there."""
    return isinstance(have, ArenaPlace) and have.arena is want.arena and (have.start == want.start or not have.at.size)

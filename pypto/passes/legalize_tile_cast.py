"""LegalizeTileCast: every tile conversion becomes a chain of conversions the chip has.

In: `tile.cast` between any two dtypes.  Out: the shortest chain of native casts; each hop rounds.  A mode the user gave
goes to every hop, "none given" stays none given, so that each hop uses the default of its own pair.
A pair without a chain is an error at the user's line.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache

from pypto.dtypes import DataType
from pypto.errors import CompileError
from pypto.ir.expr import Call, Expr
from pypto.ir.program import Function
from pypto.ir.shaped import TileType
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.ssa_rewriter import SSARewriter
from pypto.passes.statements import applies
from pypto.target import Chip, chip_of

__all__ = ["cast_chain", "legalize_tile_cast"]


def cast_chain(chip: Chip, source: DataType, target: DataType) -> tuple[DataType, ...] | None:
    """The dtypes after each hop of the shortest native chain, the last one `target`; None where there is none."""
    return _chain(chip.name, source, target) if source is not target else ()


@lru_cache(maxsize=1024)
def _chain(chip_name: str, source: DataType, target: DataType) -> tuple[DataType, ...] | None:
    chip = chip_of(chip_name)
    integers = source.is_int() and target.is_int()

    def preference(at: DataType, d: DataType) -> tuple[bool, bool, int, int]:
        # A float of the same width first; then the kind that loses nothing the ends can hold: integers between two
        # integers, floats as soon as a float takes part; then the wider type.
        same_width = d.is_float() and d.get_bit() == at.get_bit()
        return (not same_width, d.is_int() != integers, -d.get_bit(), d.code())

    queue: deque[tuple[DataType, ...]] = deque([()])
    seen = {source}
    while queue:
        path = queue.popleft()
        at = path[-1] if path else source
        # After the first hop a chain only narrows: widening again would hand on what a narrower type has lost.
        native = {d for d in chip.casts.get(at, ()) if not path or d.get_bit() < at.get_bit()}
        if target in native:
            return (*path, target)
        for d in sorted(native, key=lambda d: preference(at, d)):
            if d not in seen:
                seen.add(d)
                queue.append((*path, d))
    return None


class _Legalizer(SSARewriter):
    def __init__(self, chip: Chip) -> None:
        super().__init__()
        self.chip = chip

    def visit_call(self, c: Call) -> Expr:
        c = super().visit_call(c)  # type: ignore[assignment]
        if c.op.name != "tile.cast":
            return c
        x = c.args[0]
        assert isinstance(x.type, TileType)
        target: DataType = c.kwargs["target_type"]
        chain = cast_chain(self.chip, x.type.dtype, target)
        if chain is None:
            raise CompileError(
                f"no native cast path from {x.type.dtype} to {target} for arch {self.chip.name}",
                c.span,
                _composed(self.chip, x.type.dtype, target) or "native casts: " + _native(self.chip, x.type.dtype),
                code="C120",
            )
        for hop in chain[:-1]:
            x = self.emit("tile.cast", (x,), {**c.kwargs, "target_type": hop}, f"as_{hop.name.lower()}")
        return c if len(chain) == 1 else self.recall(c, (x,))


def _composed(chip: Chip, source: DataType, target: DataType) -> str:
    """The casts to write where every step is native but the chain widens after it has narrowed; "" where there are none."""
    queue: deque[tuple[DataType, ...]] = deque([()])
    seen = {source}
    while queue:
        path = queue.popleft()
        for d in sorted(chip.casts.get(path[-1] if path else source, ()), key=lambda d: (-d.get_bit(), d.code())):
            if d is target:
                text = "x"
                for step in (*path, target):
                    text = f"pl.cast({text}, pl.{step.name})"
                return f"write every step, each of which rounds: {text}"
            if d not in seen:
                seen.add(d)
                queue.append((*path, d))
    return ""


def _native(chip: Chip, source: DataType) -> str:
    to = sorted(chip.casts.get(source, ()), key=lambda d: d.code())
    return f"{source} to {', '.join(str(d) for d in to)}" if to else f"{source} converts to nothing on this chip"


@function_pass("LegalizeTileCast")
def legalize_tile_cast(f: Function, options: PassOptions) -> Function:
    if not f.is_device or not applies(f, "tile.cast"):
        return f
    return _Legalizer(chip_of(options.platform)).function(f)

"""Stores that bypass the caches: which outputs of a kernel may take them, and when, at run time, they do.

In: an optimized block, and the places of stores as they are written.  Out: the name of a C flag for a store, the lines
that set the flags where the kernel begins, and the line that waits for such stores where it ends.  A flag is set for
a tensor that the kernel only writes, each element once as far as its loops tell, and more of it than caches hold.
Invariant: the flag decides about speed alone; every store is right in either form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from pypto.codegen.native.access import Exchange, ForItem, Item, Root, ScalarDef, View
from pypto.codegen.native.flow import Block, Nested, Run, values_of
from pypto.codegen.native.uses import reads
from pypto.dtypes import DataType
from pypto.ir import arith
from pypto.ir.expr import ConstInt, Expr, Var
from pypto.ir.rewrite import free_vars, opened, sources
from pypto.ir.shaped import TensorType, const_dim
from pypto.ir.types import ScalarType
from pypto.named import NamedTuple

__all__ = ["HEADER", "LINE", "Store", "Streams"]

HEADER = "pypto_stream.h"
LINE = 64  # bytes that are written at once
LARGE = 1 << 24  # bytes: PP_LARGE of the header, for extents that are known now


class Store(NamedTuple):
    """What a store writes in a trip of the loops around it; whether other blocks and calls write other parts."""

    rows: Expr
    cols: Expr
    loops: tuple[ForItem, ...]
    blocks: bool
    calls: bool


class Streams:
    """The flags of one function."""

    def __init__(self, block: Block, params: Sequence[Var], symbols: Sequence[Var], block_of: Var, blocks: Var) -> None:
        """`params`, `symbols`: what has its value where the function begins; symbols are the same in all calls of a loop.

        `calls`: how often loops around the kernel call it; None where no store depends on a number by which calls may differ.
        """
        self.read = frozenset(_read(block))
        self.block, self.blocks = block_of, blocks
        self.numbers = frozenset(p for p in params if isinstance(p.type, ScalarType))
        self.calls = Var("calls", ScalarType.of(DataType.INDEX)) if self._differ(block, values_of(block)) else None
        self.known = frozenset((*params, *symbols, block_of, blocks, *(() if self.calls is None else (self.calls,))))
        self.flags: dict[Root, str] = {}
        self.stores: dict[Root, list[Store]] = {}

    def flag(
        self, v: View, rows: Expr, cols: Expr, loops: Sequence[object], values: Mapping[Var, Expr], fresh: Callable[[str], str]
    ) -> str | None:
        """The flag of a store into a view, whose rectangle lies inside these loops; None if it is always an ordinary one."""
        if v.root.var is None or v.root in self.read or not _may_be_large(v.root.var):
            return None
        inside = [item for item in loops if isinstance(item, ForItem)]
        moving = sources(v.offset, values)
        if len(inside) != len(loops) or any(item.var not in moving for item in inside):
            return None  # another trip may write the same elements again
        blocks, calls = self.block in moving, self.calls is not None and bool(moving & self.numbers)
        if not inside and not blocks and not calls:
            return None
        self.stores.setdefault(v.root, []).append(Store(rows, cols, tuple(inside), blocks, calls))
        if v.root not in self.flags:
            self.flags[v.root] = fresh(f"past_{v.root.name}")
        return self.flags[v.root]

    def _differ(self, block: Block, values: Mapping[Var, Expr]) -> bool:
        """Whether a store into a tensor that may be large depends on a number that the kernel is given."""
        for p in block.parts:
            if isinstance(p, Nested) and any(self._differ(b, values) for b in p.blocks):
                return True
            for op in p.ops if isinstance(p, Run) else ():
                tensor = op.dst.root.var
                if tensor is not None and _may_be_large(tensor) and sources(op.dst.offset, values) & self.numbers:
                    return True
        return False

    def begin(self, text: Callable[[Expr], str], values: Mapping[Var, Expr]) -> list[str]:
        """The lines that set the flags; `values` are those of scalars that the kernel computes."""
        lines = []
        for root, name in self.flags.items():
            conditions = " && ".join(self._conditions(root, text, values))
            lines.append(f"const bool {name} = {conditions};")
        return lines

    def end(self) -> list[str]:
        """The line that waits for what was stored past the caches."""
        return [f"pp_past_end({' | '.join(self.flags.values())});"] if self.flags else []

    def _conditions(self, root: Root, text: Callable[[Expr], str], values: Mapping[Var, Expr]) -> Iterator[str]:
        """That the tensor is large, and, as far as it is known, that what the launch writes of it is."""
        assert root.var is not None
        t = root.var.type
        assert isinstance(t, TensorType)
        size = str(t.dtype.get_byte())
        yield f"pp_is_large({' * '.join([f'(double){size}', *map(text, t.shape)])})"
        parts = [self._written(s, size, text, values) for s in self.stores[root]]
        if None not in parts:
            yield f"pp_is_large({' + '.join(p for p in parts if p is not None)})"

    def _written(self, s: Store, size: str, text: Callable[[Expr], str], values: Mapping[Var, Expr]) -> str | None:
        """Bytes that a launch writes by a store; None where they are not known at the beginning."""
        extents = [opened(e, values) for e in (s.rows, s.cols)]
        loops = [tuple(opened(e, values) for e in (i.start, i.stop, i.step)) for i in s.loops]
        if any(v not in self.known for e in (*extents, *(e for loop in loops for e in loop)) for v in free_vars(e)):
            return None
        if any(not isinstance(step, ConstInt) or step.value == 0 for _, _, step in loops):
            return None  # a step of 0 is refused where the loop is, not here
        trips = [f"pp_trips({', '.join(map(text, loop))})" for loop in loops]
        blocks = [text(self.blocks)] if s.blocks else []
        if s.calls and self.calls is not None:
            blocks.append(text(self.calls))
        return " * ".join([f"(double){size}", *map(text, extents), *blocks, *trips])


def _may_be_large(tensor: Var) -> bool:
    assert isinstance(tensor.type, TensorType)
    known = const_dim(arith.product(tensor.type.shape))
    return known is None or known * tensor.type.dtype.get_byte() >= LARGE


def _read(block: Block) -> Iterator[Root]:
    """Tensors of which anything is read."""
    for p in block.parts:
        if isinstance(p, Run):
            for op in p.ops:
                yield from (r.view.root for r in reads(op))
            for item in p.prelude:
                yield from _read_by(item)
        elif isinstance(p, Nested):
            for b in p.blocks:
                yield from _read(b)
        else:
            yield from _read_by(p)


def _read_by(item: Item) -> Iterator[Root]:
    if isinstance(item, ScalarDef) and item.element is not None:
        yield item.element.root
    elif isinstance(item, Exchange):
        yield from (v.root for v in (item.src, item.dst) if v is not None)

"""Operands of products that are packed once for all loops that read them again.

In: a block, its products in their loops.  Out: which operands are kept in packed form while a launch lasts, and the C that says
where.  Kept is what lies in a tensor that the kernel never writes, if a loop around the product, or the blocks of the launch, do
not move it.
Invariant: this decides about speed alone; what a product reads is the same whether it is kept or not.
"""

from __future__ import annotations

from pypto.codegen.native.access import ForItem, Region, Root, Routine
from pypto.codegen.native.flow import Block, Nested, Run, values_of, written_roots
from pypto.ir.expr import Var
from pypto.ir.rewrite import free_vars, sources

__all__ = ["HEADER", "KEPT", "NOWHERE", "Kept"]

HEADER = "pypto_packs.h"
KEPT = ("pp_packs *", "pp_kept")  # the parameter of a kernel that says where
NOWHERE = "0"


class Kept:
    """The kept operands of one function; `roots`: the tensors that they are parts of."""

    def __init__(self, region: Region, block: Block, block_of: Var) -> None:
        """`block`: what became of the region; `block_of`: the number of this run in its launch."""
        self.written = written_roots(region)
        self.of: set[tuple[int, int]] = set()
        self.roots: list[Root] = []
        self.values = values_of(block)
        self.block_of = block_of if any(v is block_of for e in self.values.values() for v in free_vars(e)) else None
        self._walk(block, ())

    def place(self, op: Routine, i: int) -> str:
        """Where source `i` of a product of the block is kept, in C."""
        return KEPT[1] if (id(op), i) in self.of else NOWHERE

    def _walk(self, block: Block, loops: tuple[Var, ...]) -> None:
        for p in block.parts:
            if isinstance(p, Nested):
                inside = (*loops, p.item.var) if isinstance(p.item, ForItem) else loops
                for b in p.blocks:
                    self._walk(b, inside)
            elif isinstance(p, Run):
                for op in p.ops:
                    if isinstance(op, Routine):
                        self._product(op, loops)

    def _product(self, op: Routine, loops: tuple[Var, ...]) -> None:
        around = loops if self.block_of is None else (self.block_of, *loops)
        for i, v in enumerate(op.sources[: op.packs]):
            if v.root.on_chip or v.root in self.written:
                continue
            moving = sources(v.offset, self.values)
            if any(var not in moving for var in around):
                self.of.add((id(op), i))
                if v.root not in self.roots:
                    self.roots.append(v.root)

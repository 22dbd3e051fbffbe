"""On how many blocks the functions of a program run beside each other.

In: a program.  Out: a count for each function that a launch over blocks reaches; whoever is not named runs as one block.
"""

from __future__ import annotations

from collections import defaultdict

from pypto.ir.expr import Call, ConstInt, Expr, Submit
from pypto.ir.program import Program
from pypto.ir.rewrite import walk

__all__ = ["RUN_TIME", "launched_blocks"]

RUN_TIME = 0  # in the place of a count that only a run knows, or that differs from launch to launch


def launched_blocks(program: Program) -> dict[str, int]:
    """The number of blocks by function name, `RUN_TIME` where it is no constant."""
    counts: dict[str, set[int]] = defaultdict(set)
    inherited: dict[str, set[str]] = defaultdict(set)  # callees by caller
    for f in program.function_list:
        for n in walk(f.body):
            if isinstance(n, (Call, Submit)) and program.get_function(n.op.name) is not None:
                blocks = n.core_num if isinstance(n, Submit) else n.attrs.get("core_num")
                if blocks is None:
                    inherited[f.name].add(n.op.name)
                else:
                    counts[n.op.name].add(_count(blocks))
    todo = list(counts)
    while todo:
        caller = todo.pop()
        for callee in inherited[caller]:
            if not counts[caller] <= counts[callee]:
                counts[callee] |= counts[caller]
                todo.append(callee)
    return {name: found.pop() if len(found) == 1 else RUN_TIME for name, found in counts.items() if found != {1}}


def _count(blocks: Expr) -> int:
    return blocks.value if isinstance(blocks, ConstInt) else RUN_TIME

"""Kernels to which an entry passes the same memory twice, as windows or other shapes of one tensor, say.

In: a program in SSA form and its entry.  Out: names of kernels.
Invariant: of a kernel that is not among them, a parameter that is written shares no memory with another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from pypto.enums import ParamDirection
from pypto.ir.expr import Call, Expr, Submit, Var
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType
from pypto.ir.verify.roots import Flow, Roots

__all__ = ["given_memory_twice"]

Memory = frozenset[Var]  # what it may be part of; nothing where that is not known


def given_memory_twice(program: Program, main: Function, flow: Flow) -> frozenset[str]:
    """Kernels that are passed memory that they write as two of their arguments."""
    return frozenset(_within(program, flow, main, {}, ()))


def _within(program: Program, flow: Flow, f: Function, given: Mapping[Var, Memory], above: tuple[str, ...]) -> Iterator[str]:
    roots = Roots(flow, f.params, views=True)
    roots.follow(f.body)

    def memory(e: Expr) -> Memory:
        parts = [given.get(r, frozenset((r,))) for r in roots.of(e)]
        return frozenset().union(*parts) if all(parts) else frozenset()

    for call in walk(f.body):
        callee = program.get_function(call.op.name) if isinstance(call, (Call, Submit)) else None
        if not isinstance(call, (Call, Submit)) or callee is None or callee.name in above:
            continue
        passed = {p: memory(a) for p, a in zip(callee.params, call.args, strict=True) if isinstance(p.type, TensorType)}
        if not callee.is_device:
            yield from _within(program, flow, callee, passed, (*above, callee.name))
        elif _meet(callee, passed):
            yield callee.name


def _meet(kernel: Function, passed: Mapping[Var, Memory]) -> bool:
    written = {p for p, d in zip(kernel.params, kernel.param_directions, strict=True) if d is not ParamDirection.In}
    pairs = combinations(passed.items(), 2)
    return any(not (a and b and a.isdisjoint(b)) for (p, a), (q, b) in pairs if p in written or q in written)

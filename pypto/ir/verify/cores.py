"""Which core of a chip executes a call, and the judges of kernels whose cores were told apart.

In: calls over tiles that are in memories.  Out: the cube core for what is made in its memories, the vector core for what is
made in Vec memory; what touches no tile belongs to both.
Codes: 640 a kernel that keeps both cores busy, 641 work of the other core in a function of one, 642 a function of the vector
core that passes halves through a pipe and does not say which, 643 a slot that is freed otherwise than it was filled.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.enums import FunctionType, MemorySpace
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.opdef import Special
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, Stmt, value_of
from pypto.ir.types import Type
from pypto.ir.verify.lane_regions import Core
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.scopes import statements

__all__ = ["Core", "core_of_call", "core_of_type", "is_mixed", "kind_of_call", "mixed_kernel_expanded", "vector_kernel_split"]

_OF = {FunctionType.AIC: Core.CUBE, FunctionType.AIV: Core.VECTOR}
_NAMES = {Core.CUBE: "cube", Core.VECTOR: "vector"}
# What only makes room keeps no core busy.
_ROOM = ("create", "alloc")


def core_of_type(t: Type) -> Core:
    """The core whose memory a tile is in."""
    if not isinstance(t, TileType) or t.memory_space in (None, MemorySpace.DDR):
        return Core.SHARED
    return Core.VECTOR if t.memory_space is MemorySpace.Vec else Core.CUBE


def core_of_call(c: Call, var: Var | None = None) -> Core:
    """The core that executes a call whose result is `var`: that of the tile it makes, else that of the first tile it reads."""
    made = core_of_type(c.type if var is None else var.type)
    if made is not Core.SHARED:
        return made
    return next((core for a in c.args if (core := core_of_type(a.type)) is not Core.SHARED), Core.SHARED)


def is_mixed(f: Function) -> bool:
    """Whether a kernel keeps both cores busy."""
    return len({core for _, _, core in _busy(f)}) > 1


def _busy(f: Function) -> Iterator[tuple[Stmt, Call, Core]]:
    """Calls that keep one core busy; a value that comes from the other core keeps that one busy, too."""
    for s in statements(f.body):
        value: Expr | None = value_of(s)
        if not isinstance(value, Call) or kind_of_call(value) in _ROOM:
            continue
        types = [*(a.type for a in value.args), s.var.type if isinstance(s, AssignStmt) else value.type]
        for core in dict.fromkeys(core_of_type(t) for t in types):
            if core is not Core.SHARED:
                yield s, value, core


def kind_of_call(c: Call) -> str:
    op = ops.of(c)
    return op.semantics.kind if op is not None and isinstance(op.semantics, Special) else ""


def mixed_kernel_expanded(program: Program) -> Iterator[Diagnostic]:
    """Every kernel is one core's, and a function that says which core it is for is that core's."""
    for f in program.function_list:
        if f.func_type is FunctionType.InCore and is_mixed(f):
            yield _finding("MixedKernelExpanded", 640, f"kernel '{f.name}' keeps both cores busy", f)
        own = _OF.get(f.func_type, Core.SHARED)
        for s, call, core in _busy(f) if own is not Core.SHARED else ():
            if core is not own:
                what = f"'{f.name}' of the {_NAMES[own]} core applies {call.op.name} to a tile of the {_NAMES[core]} core"
                yield Diagnostic(Severity.Error, "MixedKernelExpanded", 641, what, s.span)


def vector_kernel_split(program: Program) -> Iterator[Diagnostic]:
    """Functions of the vector core say how the lanes share what goes through pipes, and free slots as they filled them."""
    for f in program.function_list:
        if f.func_type is not FunctionType.AIV:
            continue
        used = {c.kwargs.get("split", 0) for _, c, kind in _pipes(f) if kind in ("push", "pop")}
        if any(used) and f.attrs.get("split", 0) not in used:
            yield _finding("VectorKernelSplit", 642, f"'{f.name}' does not say that its lanes share what they pass", f)
        popped = {s.var: c for s, c, kind in _pipes(f) if kind == "pop" and isinstance(s, AssignStmt)}
        for s, c, kind in _pipes(f):
            pop = popped.get(c.args[0]) if kind == "free" and isinstance(c.args[0], Var) else None
            if pop is not None and any(pop.kwargs.get(k, 0) != c.kwargs.get(k, 0) for k in ("split", "id")):
                what = f"'{f.name}' frees a slot otherwise than it was filled"
                yield Diagnostic(Severity.Error, "VectorKernelSplit", 643, what, s.span)


def _pipes(f: Function) -> Iterator[tuple[Stmt, Call, str]]:
    for s in statements(f.body):
        value = value_of(s)
        if isinstance(value, Call) and kind_of_call(value) in ("push", "pop", "free"):
            yield s, value, kind_of_call(value)


def _finding(rule: str, code: int, message: str, f: Function) -> Diagnostic:
    return Diagnostic(Severity.Error, rule, code, message, f.span)

"""What the temporaries of the entry function are: whether a run sizes them, which ones loops carry.

In: the entry, or a body of it.  Out: a fact, or a set of variables.
"""

from __future__ import annotations

from pypto.ir.expr import Call, Var
from pypto.ir.program import Function
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType, const_dims
from pypto.ir.stmt import AssignStmt, Stmt, YieldStmt

__all__ = ["allocates", "carried_tensors"]


def allocates(body: Stmt) -> bool:
    """Whether a body makes temporaries whose sizes only a run knows."""
    return any(
        isinstance(n, Call) and n.op.name == "tensor.create" and const_dims(n.type.shape) is None  # type: ignore[attr-defined]
        for n in walk(body)
    )


def carried_tensors(f: Function) -> frozenset[Var]:
    """Temporaries that a loop hands from one trip to the next: each trip's must be a new one."""
    yielded: set[Var] = set()
    sources: dict[Var, list[Var]] = {}
    for n in walk(f.body):
        if isinstance(n, YieldStmt):
            yielded.update(v for v in n.value if isinstance(v, Var) and isinstance(v.type, TensorType))
        if isinstance(n, AssignStmt):
            sources[n.var] = [v for v in walk(n.value) if isinstance(v, Var) and isinstance(v.type, TensorType)]
    work = list(yielded)
    while work:
        for v in sources.get(work.pop(), ()):
            if v not in yielded:
                yielded.add(v)
                work.append(v)
    return frozenset(yielded)

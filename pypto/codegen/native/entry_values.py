"""What the tensors of the entry function are: temporaries that loops carry, results that are other names.

In: the entry, or a body of it.  Out: sets of variables and what they stand for.
"""

from __future__ import annotations

from pypto.ir.expr import Call, Var
from pypto.ir.program import Function
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType, const_dims
from pypto.ir.stmt import AssignStmt, ReturnStmt, Stmt, YieldStmt, flatten_to_stmts

__all__ = ["aliases", "allocates", "carried_tensors"]


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


def aliases(f: Function, callees: dict[str, Function]) -> dict[Var, Var]:
    """Results of calls and plain assignments, as the tensors they are."""
    out: dict[Var, Var] = {}
    for s in flatten_to_stmts(f.body):
        if not isinstance(s, AssignStmt):
            continue
        v = s.value
        if isinstance(v, Var):
            out[s.var] = v
        elif isinstance(v, Call) and v.op.name in callees and isinstance(s.var.type, TensorType):
            callee = callees[v.op.name]
            last = flatten_to_stmts(callee.body)[-1]
            if isinstance(last, ReturnStmt) and len(last.value) == 1:
                at = next((i for i, p in enumerate(callee.params) if p is last.value[0]), None)
                source = v.args[at] if at is not None else None
                if isinstance(source, Var):
                    out[s.var] = source
    return out

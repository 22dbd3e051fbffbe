"""A tensor filled whole and then written element by element is staged on the chip.

In: `o1 = assemble(o, full(...), 0)` followed by element writes of o1 and nothing else.  Out: the writes go to the filled
value itself, and one bulk store hands the result to `o` before the kernel returns.
Invariant: only tensors in `conflicts` change, and only where every use of every version is one of these.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from pypto.ir import arith
from pypto.ir.expr import Call, Expr, IterArg, MakeTuple, Var, const_index
from pypto.ir.program import Function
from pypto.ir.rewrite import substitute, walk
from pypto.ir.shaped import TensorType, same_dims
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, ReturnStmt, Stmt, WhileStmt, YieldStmt, flatten_to_stmts, seq
from pypto.passes.convert_tensor_to_tile_ops.chains import chain_of
from pypto.passes.convert_tensor_to_tile_ops.flow import GmFlow
from pypto.passes.retype import Retyper
from pypto.passes.ssa_rewriter import typed_call
from pypto.span import Span

__all__ = ["stage_element_writes"]


_WRITES, _READS = frozenset(("tensor.write",)), frozenset(("tensor.read",))


def stage_element_writes(f: Function, flow: GmFlow, conflicts: frozenset[Var]) -> Function:
    """The function with those of `conflicts` that follow the pattern staged."""
    for root in sorted(conflicts, key=lambda v: v.unique_id):
        f = _stage(f, flow, root)
    return f


def _stage(f: Function, flow: GmFlow, root: Var) -> Function:
    stmts = flatten_to_stmts(f.body)
    found = [s for s in stmts if _initializes(s, root, stmts)]
    if len(found) != 1:
        return f
    first = found[0]
    assert isinstance(first, AssignStmt)
    assert isinstance(first.value, Call)
    filled = first.value.args[1]
    chain = chain_of(f.body, first.var, _WRITES, _READS)
    others = [v for v, roots in flow.roots.items() if root in roots and v is not root and v not in chain.versions]
    if not chain.closed or others or _uses(f.body, root) != 1 or _uses(f.body, filled) != 1:
        return f
    *middle, end = stmts if isinstance(stmts[-1], ReturnStmt) else (*stmts, None)
    at = next(i for i, s in enumerate(stmts) if s is first)
    handed = _handed_on([s for s in middle[at + 1 :] if s is not None], first.var, chain.versions)
    if handed is None:
        return f
    later, final = handed
    body = seq([*(s for s in middle[:at] if s is not None), *later])
    staged = _Substitution({first.var: filled})
    new = flatten_to_stmts(staged.visit(body))
    t = root.type
    assert isinstance(t, TensorType)
    zeros = MakeTuple(const_index(0) for _ in t.shape)
    value = staged.vars.get(final, final)
    store = typed_call("tensor.assemble", (root, value, zeros), None, first.span)
    stored = Var(first.var.name_hint, store.type, first.span)
    others_now = {v: w for v, w in staged.vars.items() if v is not final}
    ending = [] if end is None else [substitute(end, {**others_now, final: stored})]
    return f.replace(body=seq([*new, AssignStmt(stored, store, first.span), *ending], f.body.span))


class _Substitution(Retyper):
    """Replacement of variables with types that follow."""


def _handed_on(stmts: Sequence[Stmt], now: Var, versions: Container[Expr]) -> tuple[list[Stmt], Var] | None:
    """The statements with every branch handing on the version it ends with, and the last version; `now` is the first one.

    A write into global memory happens whether or not its result leaves the branch; one into a value only if it does.
    None where a loop writes without carrying.
    """
    out: list[Stmt] = []
    for s in stmts:
        mine = [v for v in _defined(s) if v in versions]
        if isinstance(s, AssignStmt):
            now = mine[0] if mine else now
        elif isinstance(s, (ForStmt, WhileStmt)):
            carried = next((a for a in s.iter_args if a in versions), now)
            made = _handed_on(flatten_to_stmts(s.body), carried, versions)
            if made is None or (made[1] is not carried and not mine):
                return None
            s, now = s.replace(body=seq(made[0], s.body.span)), mine[0] if mine else now
        elif isinstance(s, IfStmt):
            arms = [_handed_on(flatten_to_stmts(b), now, versions) for b in (s.then_body, s.else_body)]
            then, other = arms
            if then is None or other is None:
                return None
            if mine or (then[1] is now and other[1] is now):
                s = s.replace(then_body=seq(then[0]), else_body=None if s.else_body is None else seq(other[0]))
                now = mine[0] if mine else now
            else:
                result = Var(now.name_hint, now.type, s.span)
                bodies = [seq(_yielding(body, last, s.span)) for body, last in (then, other)]
                s = s.replace(then_body=bodies[0], else_body=bodies[1], return_vars=(*s.return_vars, result))
                now = result
        out.append(s)
    return out, now


def _yielding(body: list[Stmt], value: Var, span: Span) -> list[Stmt]:
    """An arm that also yields a value."""
    last = body[-1] if body else None
    if isinstance(last, YieldStmt):
        return [*body[:-1], last.replace(value=(*last.value, value))]
    return [*body, YieldStmt((value,), span)]


def _initializes(s: Stmt, root: Var, stmts: list[Stmt]) -> bool:
    """`v = assemble(root, full(whole shape), zeros)`."""
    if not isinstance(s, AssignStmt) or not isinstance(s.value, Call) or s.value.op.name != "tensor.assemble":
        return False
    target, source, offset = s.value.args
    fulls = {d.var for d in stmts if isinstance(d, AssignStmt) and _applies(d.value, "tensor.full")}
    if target is not root or source not in fulls or not isinstance(offset, MakeTuple) or s.value.kwargs.get("atomic"):
        return False
    whole = (
        isinstance(source.type, TensorType)
        and isinstance(root.type, TensorType)
        and same_dims(source.type.shape, root.type.shape)
    )
    return whole and all(arith.is_const(o, 0) for o in offset.elements)


def _applies(e: Expr, name: str) -> bool:
    return isinstance(e, Call) and e.op.name == name


def _defined(s: Stmt) -> tuple[Var, ...]:
    if isinstance(s, AssignStmt):
        return (s.var,)
    return s.return_vars if isinstance(s, (ForStmt, WhileStmt, IfStmt)) else ()


def _uses(body: Stmt, v: Expr) -> int:
    """How often a variable is an operand, a carry's beginning or a yielded value."""
    count = 0
    for n in walk(body):
        if isinstance(n, Call):
            count += sum(a is v for a in n.args)
        elif isinstance(n, (ForStmt, WhileStmt)):
            count += sum(isinstance(a, IterArg) and a.initValue is v for a in n.iter_args)
        elif isinstance(n, YieldStmt):
            count += sum(a is v for a in n.value)
        elif isinstance(n, AssignStmt):
            count += n.value is v
    return count

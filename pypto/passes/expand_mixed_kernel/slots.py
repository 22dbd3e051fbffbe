"""When the slot of a popped tile is free again.

In: the statements of one core, with pops.  Out: the same with each pop where its tile is first used, as far as what goes through
pipes keeps its order, and a free behind the last use; a tile that is needed beyond its region, or while the next one is
popped, is copied out of its slot first.
Invariant: slots are freed in the order of the pops, and no core holds two slots of one pipe, so that no queue waits for itself.
"""

from __future__ import annotations

from pypto.enums import MemorySpace
from pypto.errors import NotSupportedError
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, IfStmt, ReturnStmt, Stmt, WhileStmt, YieldStmt, flatten_to_stmts, seq
from pypto.ir.verify.cores import kind_of_call
from pypto.ir.verify.scopes import statements
from pypto.ir.verify.ssa import user_name
from pypto.passes.memory.sharing import storage_operand
from pypto.passes.retype import used_vars
from pypto.passes.ssa_rewriter import typed_call
from pypto.passes.statements import calls

__all__ = ["with_frees"]


def with_frees(body: Stmt) -> Stmt:
    """Every region of a body with the slots that it takes given back."""
    return seq(_freed(_sunk([_inside(s) for s in flatten_to_stmts(body)])), body.span)


def _inside(s: Stmt) -> Stmt:
    if isinstance(s, IfStmt):
        other = None if s.else_body is None else with_frees(s.else_body)
        return s.replace(then_body=with_frees(s.then_body), else_body=other)
    return s.replace(body=with_frees(s.body)) if isinstance(s, (ForStmt, WhileStmt)) else s


def _sunk(stmts: list[Stmt]) -> list[Stmt]:
    """Pops as late as they may be: before the first use of the tile, and before whatever passes a tile next."""
    out: list[Stmt] = []
    for s in reversed(stmts):
        at = len(out)
        if _pop(s) is not None:
            assert isinstance(s, AssignStmt)
            while at and not _passes(out[at - 1]) and s.var not in used_vars(out[at - 1]):
                at -= 1
            at = at if at else len(out)  # nobody uses it
        out.insert(at, s)
    return out[::-1]


def _passes(s: Stmt) -> bool:
    return isinstance(s, (YieldStmt, ReturnStmt)) or any(kind_of_call(c) in ("push", "pop") for c in calls(s))


def _freed(stmts: list[Stmt]) -> list[Stmt]:
    """One region."""
    out: list[Stmt] = []
    due: dict[int, Stmt] = {}  # by the position of the last use
    for i, s in enumerate(stmts):
        call = _pop(s)
        if call is None:
            out.append(s)
        else:
            assert isinstance(s, AssignStmt)
            last = _last_use(stmts, i, s.var)
            if last is None:
                out += _copied(s, call)
            else:
                out.append(s)
                due[last] = _free(s.var, call)
        if i in due:
            out.append(due[i])
    return out


def _pop(s: Stmt) -> Call | None:
    value = s.value if isinstance(s, AssignStmt) else None
    return value if isinstance(value, Call) and kind_of_call(value) == "pop" else None


def _last_use(stmts: list[Stmt], at: int, popped: Var) -> int | None:
    """The last statement that reads the tile, under any name; None where it must not stay in its slot for so long."""
    names: set[Expr] = {popped}
    last = at
    space = popped.type.memory_space if isinstance(popped.type, TileType) else None
    for i in range(at + 1, len(stmts)):
        s = stmts[i]
        for inner in statements(s):
            if isinstance(inner, AssignStmt) and _alias(inner, names):
                if space is MemorySpace.Vec:
                    return None
                names.add(inner.var)
            if isinstance(inner, YieldStmt) and names & set(inner.value):
                return None
            if isinstance(inner, (ForStmt, WhileStmt)) and names & {a.initValue for a in inner.iter_args}:
                return None
        if names & used_vars(s).keys():
            last = i
    between = (inner for s in stmts[at + 1 : last + 1] for inner in statements(s))
    return None if any(_pop(s) is not None for s in between) else last


def _alias(s: AssignStmt, names: set[Expr]) -> bool:
    """Whether a statement gives one of the tiles another name."""
    if isinstance(s.value, Var):
        return s.value in names
    op = ops.of(s.value) if isinstance(s.value, Call) else None
    k = storage_operand(op) if op is not None else None
    return k is not None and isinstance(s.value, Call) and s.value.args[k] in names


def _copied(s: AssignStmt, call: Call) -> list[Stmt]:
    """The tile in memory of its own."""
    t = s.var.type
    assert isinstance(t, TileType)
    if t.memory_space is not MemorySpace.Vec:
        what = f"'{user_name(s.var)}' comes from the vector core and is needed beyond its slot in the pipe: nothing copies it"
        raise NotSupportedError(what, call.span, "use it before the next tile comes from the vector core, and in the same loop")
    popped = Var(f"{s.var.name_hint}_slot", t, s.var.span)
    copy = typed_call("tile.move", (popped,), {"target_memory": MemorySpace.Vec}, call.span)
    return [s.replace(var=popped), s.replace(value=copy), _free(popped, call)]


def _free(v: Var, call: Call) -> Stmt:
    """Split and id are the pop's: StampTfreeSplit sees to that."""
    peer = call.op.name.rsplit("_", 1)[1]
    return EvalStmt(typed_call(f"system.tfree_to_{peer}", (v,), {}, call.span), call.span)

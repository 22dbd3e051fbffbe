"""Which variables a statement reads before it sets them, which it may set, which it always sets.

In: statements in which names may be rebound.  Out: sets that do not depend on where the statement stands, so
that one object used in two places is looked at once.
"""

from __future__ import annotations

from pypto.ir.expr import Expr, Var
from pypto.ir.node import Node
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, ScopeStmt, SeqStmts, Stmt, WhileStmt
from pypto.named import NamedTuple
from pypto.passes.retype import used_vars

__all__ = ["Live", "Liveness"]

Live = frozenset[Var]
_NONE: Live = frozenset()


class _Effect(NamedTuple):
    read: Live  # read before anything in the statement sets them
    always: Live  # set whichever way control goes
    maybe: tuple[Var, ...]  # set on some way, in order of first assignment; loop variables and carries not included


class Liveness:
    """Answers for the statements of one function."""

    def __init__(self) -> None:
        # The node is kept with its answer, so that its id stays its own.
        self._known: dict[int, tuple[Node, _Effect]] = {}

    def before(self, s: Stmt, after: Live) -> Live:
        """The variables read from here on, if `after` are read after `s`."""
        e = self._effect(s)
        return e.read | (after - e.always)

    def read_first(self, n: Stmt | Expr) -> Live:
        return self._effect(n).read

    def assigned(self, s: Stmt | None) -> dict[Var, None]:
        return {} if s is None else dict.fromkeys(self._effect(s).maybe)

    def _effect(self, n: Node) -> _Effect:
        known = self._known.get(id(n))
        if known is None:
            known = self._known[id(n)] = (n, self._compute(n))
        return known[1]

    def _compute(self, n: Node) -> _Effect:
        if isinstance(n, AssignStmt):
            return _Effect(frozenset(used_vars(n.value)), frozenset((n.var,)), (n.var,))
        if isinstance(n, SeqStmts):
            return self._sequence(n)
        if isinstance(n, IfStmt):
            return self._branch(n)
        if isinstance(n, (ForStmt, WhileStmt)):
            return self._loop(n)
        if isinstance(n, ScopeStmt):
            inner = self._effect(n.body)
            return inner._replace(read=inner.read | frozenset(used_vars(n.replace(body=SeqStmts(())))))
        return _Effect(frozenset(used_vars(n)), _NONE, ())

    def _sequence(self, n: SeqStmts) -> _Effect:
        read: set[Var] = set()
        always: set[Var] = set()
        maybe: dict[Var, None] = {}
        for s in n.stmts:
            e = self._effect(s)
            read |= e.read - always
            always |= e.always
            maybe.update(dict.fromkeys(e.maybe))
        return _Effect(frozenset(read), frozenset(always), tuple(maybe))

    def _branch(self, n: IfStmt) -> _Effect:
        then = self._effect(n.then_body)
        other = self._effect(n.else_body) if n.else_body is not None else _Effect(_NONE, _NONE, ())
        read = frozenset(used_vars(n.condition)) | then.read | other.read
        always = (then.always & other.always) | frozenset(n.return_vars)
        return _Effect(read, always, tuple(dict.fromkeys((*then.maybe, *other.maybe, *n.return_vars))))

    def _loop(self, n: ForStmt | WhileStmt) -> _Effect:
        body = self._effect(n.body)
        inside = body.read
        outside: set[Var] = set()
        own: set[Var] = set(n.iter_args)
        if isinstance(n, ForStmt):
            own.add(n.loop_var)
            for e in (n.start, n.stop, n.step):
                outside |= used_vars(e).keys()
        else:
            inside |= frozenset(used_vars(n.condition))
        for a in n.iter_args:
            outside |= used_vars(a.initValue).keys()
        maybe = tuple(dict.fromkeys(v for v in (*body.maybe, *n.return_vars) if v not in own))
        return _Effect((inside - own) | outside, frozenset(n.return_vars), maybe)

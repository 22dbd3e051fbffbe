"""When values are needed: positions of statements, and whether a value is read again after one of them.

In: a function in SSA form.  Out: answers by program point that know loops (a value from outside is needed again in the
next iteration) and branches (the other arm does not follow this one).
A statement reads its operands before it writes; a loop's carries come into being inside it, its results behind it.
"""

from __future__ import annotations

from pypto.ir.expr import Call, Var
from pypto.ir.node import Node
from pypto.ir.program import Function
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, ScopeStmt, Stmt, WhileStmt, flatten_to_stmts
from pypto.named import NamedTuple
from pypto.passes.retype import used_vars

__all__ = ["Liveness", "Write"]


class Write(NamedTuple):
    """A variable that an operator makes, and where."""

    at: int
    var: Var
    call: Call


class _Region:
    """The inside of a loop, or one arm of a branch; `last` is known once the region was walked."""

    __slots__ = ("branch", "first", "last")

    def __init__(self, first: int, branch: Stmt | None) -> None:
        self.first, self.last, self.branch = first, first, branch

    def holds(self, at: int) -> bool:
        return self.first <= at <= self.last


class Liveness:
    """Answers for the variables of one function."""

    def __init__(self, f: Function) -> None:
        self.defined: dict[Var, int] = {}
        self.used: dict[Var, list[int]] = {}
        self.writes: list[Write] = []
        self.write_of: dict[Var, Write] = {}
        self.at: dict[Stmt, int] = {}  # where a statement reads its operands
        self.paths: list[tuple[_Region, ...]] = []  # the regions around each position, outermost first
        self._path: tuple[_Region, ...] = ()
        self._regions: dict[Stmt, list[_Region]] = {}
        start = self._tick()
        for p in f.params:
            self.defined[p] = start
        self._body(f.body)

    # -- questions --

    def live_after(self, v: Var, at: int) -> bool:
        """Whether what `v` holds at a position is read behind it."""
        start = self.defined.get(v)
        if start is None or start > at:
            return False
        return any(self._follows(at, u, start) for u in self.used.get(v, ()))

    def reads_at(self, v: Var, at: int) -> bool:
        return at in self.used.get(v, ())

    def last_use(self, v: Var) -> int:
        """The last position where a value is read, loops it lives through included; its definition if it never is."""
        start = self.defined[v]
        last = start
        for u in self.used.get(v, ()):
            through = [r.last for r in self.paths[u] if r.branch is None and not r.holds(start)]
            last = max(last, u, *through)
        return last

    def loops_at(self, at: int) -> int:
        """How many loops are around a position."""
        return sum(r.branch is None for r in self.paths[at])

    def inside(self, v: Var, s: Stmt) -> bool:
        """Whether a variable is defined in a statement's regions."""
        start = self.defined.get(v)
        if start is None:
            return False
        return any(r.holds(start) for r in self._regions.get(s, ()))

    def _follows(self, at: int, use: int, start: int) -> bool:
        here, there = self.paths[at], self.paths[use]
        if use > at and not self._exclusive(here, there):
            return True
        # Through the back edge of a loop around both that the value enters from outside.
        return any(r.branch is None and not r.holds(start) and r in there for r in here)

    @staticmethod
    def _exclusive(a: tuple[_Region, ...], b: tuple[_Region, ...]) -> bool:
        """Whether two paths go through different arms of one branch."""
        arms = {r.branch: r for r in a if r.branch is not None}
        return any(r.branch in arms and arms[r.branch] is not r for r in b if r.branch is not None)

    # -- construction --

    def _tick(self) -> int:
        self.paths.append(self._path)
        return len(self.paths) - 1

    def _reads(self, n: Node, at: int) -> None:
        for v in used_vars(n):
            self.used.setdefault(v, []).append(at)

    def _body(self, s: Stmt | None) -> None:
        for stmt in flatten_to_stmts(s):
            self._statement(stmt)

    def _inside(self, owner: Stmt, branch: Stmt | None) -> _Region:
        region = _Region(len(self.paths), branch)
        self._regions.setdefault(owner, []).append(region)
        self._path = (*self._path, region)
        return region

    def _leave(self, region: _Region) -> None:
        region.last = len(self.paths) - 1
        self._path = self._path[:-1]

    def _statement(self, s: Stmt) -> None:
        at = self.at[s] = self._tick()
        if isinstance(s, AssignStmt):
            self._reads(s.value, at)
            self.defined[s.var] = at
            if isinstance(s.value, Call):
                self.write_of[s.var] = Write(at, s.var, s.value)
                self.writes.append(self.write_of[s.var])
        elif isinstance(s, IfStmt):
            self._reads(s.condition, at)
            for body in (s.then_body, s.else_body):
                region = self._inside(s, s)
                self._body(body)
                self._tick()
                self._leave(region)
            self._results(s.return_vars)
        elif isinstance(s, (ForStmt, WhileStmt)):
            self._loop(s, at)
        elif isinstance(s, ScopeStmt):
            self._body(s.body)
        else:
            self._reads(s, at)

    def _loop(self, s: ForStmt | WhileStmt, at: int) -> None:
        for a in s.iter_args:
            self._reads(a.initValue, at)
        if isinstance(s, ForStmt):
            for e in (s.start, s.stop, s.step):
                self._reads(e, at)
        region = self._inside(s, None)
        head = self._tick()
        for a in s.iter_args:
            self.defined[a] = head
        if isinstance(s, ForStmt):
            self.defined[s.loop_var] = head
        else:
            self._reads(s.condition, head)
        self._body(s.body)
        self._tick()  # the back edge: what lives through it outlives the last statement
        self._leave(region)
        self._results(s.return_vars)

    def _results(self, results: tuple[Var, ...]) -> None:
        end = self._tick()
        for r in results:
            self.defined[r] = end

"""What is needed at each statement: a backward walk over structured control flow.

In: a body, and what plain statements read and make.  Out: calls of the hooks below with what is live there.
What is read in an iteration of a loop and comes from outside is needed at the end of every iteration; the arms of a
branch do not follow one another.  `LiveTiles` answers for the tile variables of a function in SSA form.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from pypto.ir.expr import Expr, Var
from pypto.ir.node import IGNORED, Node
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, ScopeStmt, Stmt, WhileStmt, flatten_to_stmts

__all__ = ["LiveTiles", "LiveWalk"]

T = TypeVar("T")


class LiveWalk(Generic[T]):
    """Subclasses say what a plain statement does; the hooks see every statement once, the last one first."""

    recording = True

    # -- what subclasses say --

    def reads(self, n: Node) -> frozenset[T]:
        """What an expression or a plain statement reads."""
        raise NotImplementedError

    def before(self, s: Stmt, behind: frozenset[T]) -> frozenset[T]:
        """What is live before a statement without regions."""
        return behind | self.reads(s)

    def without(self, live: frozenset[T], joined: Iterable[Var]) -> frozenset[T]:
        """What is live before variables come into being where control flow joins."""
        return live

    # -- hooks --

    def passed(self, s: Stmt, before: frozenset[T], behind: frozenset[T]) -> None:
        """A statement, with what is live around it."""

    def head(self, s: ForStmt | WhileStmt, live: frozenset[T]) -> None:
        """A loop, with what is live where an iteration begins."""

    def joins(self, s: Stmt, joined: tuple[Var, ...], live: frozenset[T]) -> None:
        """The results of a branch or a loop, with what is live behind it."""

    # -- the walk --

    def body(self, s: Stmt | None, live: frozenset[T]) -> frozenset[T]:
        for stmt in reversed(flatten_to_stmts(s)):
            live = self.statement(stmt, live)
        return live

    def statement(self, s: Stmt, behind: frozenset[T]) -> frozenset[T]:
        before = self._before(s, behind)
        if self.recording:
            self.passed(s, before, behind)
        return before

    def _before(self, s: Stmt, live: frozenset[T]) -> frozenset[T]:
        if isinstance(s, IfStmt):
            self._results(s, s.return_vars, live)
            behind = self.without(live, s.return_vars)
            return self.body(s.then_body, behind) | self.body(s.else_body, behind) | self.reads(s.condition)
        if isinstance(s, (ForStmt, WhileStmt)):
            self._results(s, s.return_vars, live)
            return self._loop(s, self.without(live, s.return_vars))
        if isinstance(s, ScopeStmt):
            return self.body(s.body, live)
        return self.before(s, live)

    def _results(self, s: Stmt, joined: tuple[Var, ...], live: frozenset[T]) -> None:
        if self.recording:
            self.joins(s, joined, live)

    def _loop(self, s: ForStmt | WhileStmt, behind: frozenset[T]) -> frozenset[T]:
        recording, self.recording = self.recording, False
        around = behind
        while True:
            head = self.without(self.body(s.body, around), s.iter_args)
            if head <= around:
                break
            around |= head
        self.recording = recording
        if recording:
            self.head(s, self.body(s.body, around))
        return around.union(*(self.reads(a.initValue) for a in s.iter_args))


class LiveTiles(LiveWalk[Var]):
    """Tile variables: live from their definition to the last statement that reads them."""

    def reads(self, n: Node) -> frozenset[Var]:
        found: set[Var] = set()
        stack: list[Node] = [n]
        while stack:
            x = stack.pop()
            if isinstance(x, Var):
                if isinstance(x.type, TileType):
                    found.add(x)
                continue
            for f in type(x).__fields__:
                if f.role == IGNORED:
                    continue
                value = getattr(x, f.name)
                items: Iterable[object] = value if isinstance(value, tuple) else (value,)
                stack += [y for y in items if isinstance(y, Expr)]
        return frozenset(found)

    def before(self, s: Stmt, behind: frozenset[Var]) -> frozenset[Var]:
        if isinstance(s, AssignStmt):
            return (behind - {s.var}) | self.reads(s.value)
        return behind | self.reads(s)

    def without(self, live: frozenset[Var], joined: Iterable[Var]) -> frozenset[Var]:
        return live.difference(joined)

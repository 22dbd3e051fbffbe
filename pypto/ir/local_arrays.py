"""When an array's storage is free: where control flow no longer reads the value that it holds.

In: a function in SSA form.  Out: for an array and the statement that replaces one of its elements, or carries it into a
loop, whether the new value may take the old one's storage.
Invariant: an array that another trip of a loop, another arm or another name may still read is never free.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pypto.ir.expr import Expr, Var
from pypto.ir.node import Node
from pypto.ir.program import Function
from pypto.ir.stmt import (
    AssignStmt,
    EvalStmt,
    ForStmt,
    IfStmt,
    ReturnStmt,
    ScopeStmt,
    Stmt,
    WhileStmt,
    YieldStmt,
    flatten_to_stmts,
)
from pypto.ir.types import ArrayType

__all__ = ["ArrayUses"]


class ArrayUses:
    """Where the arrays of a function are made and read, in program order."""

    def __init__(self, f: Function) -> None:
        self._now = 0
        self._loop: Stmt | None = None
        self._made: dict[Var, tuple[int, Stmt | None]] = {}  # statement by its number, and the innermost loop around it
        self._reads: dict[Var, list[int]] = {}
        self._same: dict[Var, Var] = {}  # another name of an array: the array
        self._body(f.body)

    def free(self, array: Expr, result: Var) -> bool:
        """Whether the value `array` is read for the last time by the statement that defines `result`."""
        if not isinstance(array, Var):
            return False
        array = self.of(array)
        if array not in self._made or result not in self._made:
            return False  # of another function
        at, loop = self._made[result]
        reads = self._reads.get(array, [])
        return self._made[array][1] is loop and reads.count(at) == 1 and reads[-1] == at

    def of(self, array: Var) -> Var:
        """The array that a name stands for."""
        return self._same.get(array, array)

    def _body(self, s: Stmt | None) -> None:
        for x in flatten_to_stmts(s):
            self._now += 1
            self._statement(x)

    def _statement(self, s: Stmt) -> None:
        if isinstance(s, AssignStmt):
            self._read((s.value,))
            if isinstance(s.value, Var) and isinstance(s.var.type, ArrayType):
                self._same[s.var] = self.of(s.value)
            self._make((s.var,))
        elif isinstance(s, (EvalStmt, YieldStmt, ReturnStmt)):
            self._read((s.expr,) if isinstance(s, EvalStmt) else s.value)
        elif isinstance(s, IfStmt):
            self._read((s.condition,))
            self._body(s.then_body)
            self._body(s.else_body)
            self._make(s.return_vars)
        elif isinstance(s, (ForStmt, WhileStmt)):
            self._repeated(s)
        elif isinstance(s, ScopeStmt):
            self._body(s.body)

    def _repeated(self, s: ForStmt | WhileStmt) -> None:
        self._read(a.initValue for a in s.iter_args)
        self._make(s.return_vars)  # the storage that the carries have, too
        self._now += 1
        outside, self._loop = self._loop, s
        self._make(s.iter_args)
        if isinstance(s, WhileStmt):
            self._read((s.condition,))
        self._body(s.body)
        self._loop = outside

    def _make(self, variables: Iterable[Var]) -> None:
        for v in variables:
            if isinstance(v.type, ArrayType):
                self._made[v] = self._now, self._loop

    def _read(self, values: Iterable[Expr]) -> None:
        for e in values:
            for v in _arrays(e):
                self._reads.setdefault(self.of(v), []).append(self._now)


def _arrays(n: Node) -> Iterator[Var]:
    """The arrays that an expression reads; of a loop's carry itself, not of what it begins as."""
    if isinstance(n, Var):
        if isinstance(n.type, ArrayType):
            yield n
        return
    for child in n.children():
        yield from _arrays(child)

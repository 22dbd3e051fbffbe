"""What both stages give: tiles with their bytes and the statements at which each is needed; and the statements' numbers.

In: a device function.  Out: its statements in program order (declarations of storage are none), and `Lifetime`s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pypto.debug.memory_map.model import Statement
from pypto.enums import MemorySpace
from pypto.errors import InternalError
from pypto.ir import ops
from pypto.ir.expr import Call, Var
from pypto.ir.opdef import Special
from pypto.ir.program import Function
from pypto.ir.rewrite import walk
from pypto.ir.shaped import BufferType, TileType
from pypto.ir.stmt import (
    AssignStmt,
    ForStmt,
    IfStmt,
    ReturnStmt,
    ScopeStmt,
    SeqStmts,
    Stmt,
    WhileStmt,
    YieldStmt,
    flatten_to_stmts,
    value_of,
)
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = ["Lifetime", "Numbers", "Unions", "numbered"]

Numbers = Mapping[Stmt, int]


class Lifetime(NamedTuple):
    """One tile: bytes [low, high) of a memory, or of the allocation `base` where the planner gives no addresses.

    `made`: the statement that makes it; `points`: every statement at which it is there.
    """

    name: str
    variable: str
    space: MemorySpace
    base: Var | None
    low: int
    high: int
    dtype: str
    shape: tuple[int, ...]
    made: int
    by: str
    allocation: str
    declared: bool
    points: frozenset[int]


class Unions:
    """Numbers that stand for one thing."""

    def __init__(self) -> None:
        self._up: dict[int, int] = {}

    def find(self, x: int) -> int:
        while self._up.get(x, x) != x:
            x = self._up[x]
        return x

    def join(self, a: int, b: int) -> None:
        low, high = sorted((self.find(a), self.find(b)))
        self._up[high] = low

    def groups(self, members: Iterable[int]) -> list[list[int]]:
        """The members by what they stand for, in ascending order."""
        found: dict[int, list[int]] = {}
        for m in sorted(members):
            found.setdefault(self.find(m), []).append(m)
        return list(found.values())


def numbered(f: Function) -> tuple[tuple[Statement, ...], dict[Stmt, int]]:
    """The statements of a function, and the number of each."""
    rows: list[Statement] = []
    numbers: dict[Stmt, int] = {}
    _number(f.body, f.span, 0, rows, numbers)
    return tuple(rows), numbers


def _number(body: Stmt | None, around: Span, depth: int, rows: list[Statement], numbers: dict[Stmt, int]) -> None:
    for s in flatten_to_stmts(body):
        if isinstance(s, ScopeStmt):
            _number(s.body, around, depth, rows, numbers)
            continue
        if _declares(s):
            continue
        if s in numbers:
            raise InternalError("a statement stands at two places of a function")
        numbers[s] = len(rows)
        rows.append(_row(s, around, depth, rows))
        if isinstance(s, IfStmt):
            _number(s.then_body, s.span, depth + 1, rows, numbers)
            _number(s.else_body, s.span, depth + 1, rows, numbers)
        elif isinstance(s, (ForStmt, WhileStmt)):
            _number(s.body, s.span, depth + 1, rows, numbers)


def _declares(s: Stmt) -> bool:
    """Allocations, and other words for a buffer: nothing happens there."""
    value = s.value if isinstance(s, AssignStmt) else None
    op = ops.of(value) if isinstance(value, Call) else None
    if op is None or not isinstance(s, AssignStmt) or not isinstance(op.semantics, Special):
        return False
    return op.semantics.kind == "alloc" or (op.semantics.kind == "view" and isinstance(s.var.type, BufferType))


def _row(s: Stmt, around: Span, depth: int, above: list[Statement]) -> Statement:
    """What the compiler puts into a body, its end above all, has the line of the loop: it is where the last statement is."""
    ends = isinstance(s, (YieldStmt, ReturnStmt)) or (s.span.filename, s.span.begin_line) == (around.filename, around.begin_line)
    if ends and above:
        return Statement(len(above), depth, _what(s), above[-1].file, above[-1].line, "", _is_on_chip(s))
    text = "".join(s.span.lines()).strip()
    return Statement(len(above), depth, _what(s), s.span.filename, max(s.span.begin_line, 0), text, _is_on_chip(s))


def _what(s: Stmt) -> str:
    value = value_of(s)
    if isinstance(value, Call):
        return value.op.name.split(".", 1)[-1]
    words: tuple[tuple[type[Stmt], str], ...] = (
        (ForStmt, "for"),
        (WhileStmt, "while"),
        (IfStmt, "if"),
        (YieldStmt, "yield"),
        (ReturnStmt, "return"),
        (AssignStmt, "let"),
    )
    return next((word for kind, word in words if isinstance(s, kind)), type(s).__name__.removesuffix("Stmt").lower())


def _is_on_chip(s: Stmt) -> bool:
    """Whether a plain statement has to do with a tile or a buffer; control flow is shown anyhow."""
    if isinstance(s, (IfStmt, ForStmt, WhileStmt, SeqStmts)):
        return False
    return any(isinstance(n, Var) and isinstance(n.type, (TileType, BufferType)) for n in walk(s))

"""Statements as indented DSL text.

In: the body of one function.  Out: lines.
Invariant: what carries values prints its carries: `for i, (a,) in pl.range(n, init_values=(x,))` with a final
`r = pl.yield_(...)`, preceded by bare annotations for results that are not simply of the yielded type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import ForKind, Level, ScopeMode, SplitMode
from pypto.errors import InternalError
from pypto.ir import scalar
from pypto.ir.expr import Call, ConstInt, Expr, Var
from pypto.ir.printer_expressions import Expressions
from pypto.ir.stmt import (
    AssignStmt,
    BreakStmt,
    ClusterScopeStmt,
    CommDomainScopeStmt,
    ContinueStmt,
    EvalStmt,
    ForStmt,
    HierarchyScopeStmt,
    IfStmt,
    InCoreScopeStmt,
    InlineStmt,
    ReturnStmt,
    RuntimeScopeStmt,
    ScopeStmt,
    SeqStmts,
    SplitAivScopeStmt,
    SpmdScopeStmt,
    Stmt,
    WhileStmt,
    YieldStmt,
    flatten_to_stmts,
)
from pypto.ir.structural import compare
from pypto.ir.types import ScalarType, Type, UnknownType, VoidType

__all__ = ["INDENT", "Statements"]

INDENT = "    "
_LOOPS = {
    ForKind.Sequential: "range",
    ForKind.Parallel: "parallel",
    ForKind.Unroll: "unroll",
    ForKind.Pipeline: "pipeline",
}


class Statements:
    """Collects the lines of statements; `results` of a body are the variables its final yield assigns."""

    def __init__(self, text: Expressions, concise: bool = False) -> None:
        self.text, self.names, self.pl, self.concise = text, text.names, text.pl, concise
        self.lines: list[str] = []
        self.depth = 0
        self._kinds: dict[type[Stmt], Callable[[Any], None]] = {
            AssignStmt: self.assign,
            EvalStmt: lambda s: self.line(self.text.expr(s.expr)),
            IfStmt: self.if_,
            ForStmt: self.for_,
            WhileStmt: self.while_,
            YieldStmt: lambda s: self.yield_(s, ()),
            ReturnStmt: self.return_,
            BreakStmt: lambda s: self.line("break"),
            ContinueStmt: lambda s: self.line("continue"),
            InlineStmt: lambda s: self.line(f"{self.pl}.inline({s.body!r}, language={s.language})"),
        }

    def line(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text)

    @contextmanager
    def indented(self) -> Any:
        self.depth += 1
        yield
        self.depth -= 1

    # -- bodies --

    def body(self, s: Stmt | None, results: Sequence[Var] = ()) -> None:
        """An indented block."""
        with self.indented():
            stmts = flatten_to_stmts(s)
            for one in stmts[:-1]:
                self.stmt(one)
            if not stmts:
                self.line("pass")
            elif isinstance(stmts[-1], YieldStmt):
                self.comments(stmts[-1])
                self.yield_(stmts[-1], results)
            else:
                self.stmt(stmts[-1])

    def stmt(self, s: Stmt) -> None:
        self.comments(s)
        if isinstance(s, SeqStmts):
            for one in s.stmts:
                self.stmt(one)
        elif isinstance(s, ScopeStmt):
            self.scope(s)
        else:
            self._kinds[type(s)](s)

    def comments(self, s: Stmt) -> None:
        for comment in s.leading_comments:
            for part in comment.splitlines() or [""]:
                self.line(f"# {part}".rstrip())

    # -- simple statements --

    def assign(self, s: AssignStmt) -> None:
        self.line(f"{self.names.define(s.var)}{self.annotation(s.var, s.value)} = {self.text.expr(s.value)}")

    def annotation(self, v: Var, value: Expr) -> str:
        """`: T`, unless there is nothing to say or, in concise text, the value says it."""
        if isinstance(v.type, (UnknownType, VoidType)) or (self.concise and _same_type(v.type, value.type)):
            return ""
        return f": {self.text.type(v.type)}"

    def yield_(self, s: YieldStmt, results: Sequence[Var]) -> None:
        values = ", ".join(self.text.expr(v) for v in s.value)
        if not results:
            self.line(f"{self.pl}.yield_({values})")
            return
        for r, v in zip(results, s.value, strict=False):
            if not _same_type(r.type, v.type):
                self.line(f"{self.names.define(r)}: {self.text.type(r.type)}")
        self.line(f"{', '.join(map(self.names.define, results))} = {self.pl}.yield_({values})")

    def return_(self, s: ReturnStmt) -> None:
        self.line(" ".join(["return", *([", ".join(self.text.expr(v) for v in s.value)] if s.value else [])]))

    # -- control flow --

    def if_(self, s: IfStmt, word: str = "if") -> None:
        self.line(f"{word} {self.text.expr(s.condition)}:")
        self.body(s.then_body, s.return_vars)
        arm = s.else_body
        if isinstance(arm, IfStmt) and not arm.leading_comments:
            self.if_(arm, "elif")
        elif arm is not None:
            self.line("else:")
            self.body(arm, s.return_vars)

    def for_(self, s: ForStmt) -> None:
        if s.kind is ForKind.Unroll and s.iter_args:
            raise InternalError("printing: an unrolled loop does not support iter_args")
        target = self.names.define(s.loop_var)
        if not _same_type(s.loop_var.type, ScalarType.of(_counter(s))):
            self.line(f"{target}: {self.text.type(s.loop_var.type)}")
        if s.iter_args:
            target += f", {self.carries(s.iter_args)}"
        self.line(f"for {target} in {self.pl}.{_LOOPS[s.kind]}({', '.join(self.loop_arguments(s))}):")
        self.body(s.body, s.return_vars)

    def loop_arguments(self, s: ForStmt) -> list[str]:
        whole = _is_index(s.start, 0) and _is_index(s.step, 1)
        bounds = [s.stop] if whole else [s.start, s.stop, s.step]
        parts = [self.text.expr(b) for b in bounds]
        if s.iter_args:
            parts.append(f"init_values={self.inits(s.iter_args)}")
        attrs = dict(s.attrs)
        if s.kind is ForKind.Pipeline and "pipeline_stages" in attrs:
            parts.append(f"stage={self.text.value(attrs.pop('pipeline_stages'))}")
        if attrs:
            parts.append(f"attrs={self.text.mapping(attrs)}")
        return parts

    def while_(self, s: WhileStmt) -> None:
        if not s.iter_args:
            self.line(f"while {self.text.expr(s.condition)}:")
            self.body(s.body, s.return_vars)
            return
        self.line(f"for {self.carries(s.iter_args)} in {self.pl}.while_(init_values={self.inits(s.iter_args)}):")
        with self.indented():
            self.line(f"{self.pl}.cond({self.text.expr(s.condition)})")
        self.body(s.body, s.return_vars)

    def carries(self, args: Iterable[Var]) -> str:
        names = []
        for a in args:
            if not _same_type(a.type, a.initValue.type):  # type: ignore[attr-defined]
                self.line(f"{self.names.define(a)}: {self.text.type(a.type)}")
            names.append(self.names.define(a))
        return tuple_text(names)

    def inits(self, args: Iterable[Any]) -> str:
        return tuple_text([self.text.expr(a.initValue) for a in args])

    # -- scopes --

    def scope(self, s: ScopeStmt) -> None:
        head, options = self.scope_head(s)
        if s.name_hint:
            options.append(f"name_hint={self.text.value(s.name_hint)}")
        attrs = dict(s.attrs)
        task = attrs.pop("task_id_var", None)
        if attrs:
            options.append(f"attrs={self.text.mapping(attrs)}")
        lane, body = _lane(s)
        if lane is not None:
            self.line(f"for {self.names.define(lane)} in {self.pl}.{head}({', '.join(options)}):")
        else:
            bound = f" as {self.names.define(task)}" if isinstance(task, Var) else ""
            self.line(f"with {self.pl}.{head}({', '.join(options)}){bound}:")
        self.body(body)

    def scope_head(self, s: ScopeStmt) -> tuple[str, list[str]]:
        """The function that opens the scope, and its own arguments."""
        value = self.text.value
        if isinstance(s, InCoreScopeStmt):
            split = [f"optimizations=[{self.pl}.split({value(s.split)})]"] if s.split is not SplitMode.NONE else []
            return "at", [f"level={value(Level.CORE_GROUP)}", *split]
        if isinstance(s, HierarchyScopeStmt):
            return "at", [f"level={value(s.level)}", *([f"role={value(s.role)}"] if s.role is not None else [])]
        if isinstance(s, ClusterScopeStmt):
            return "cluster", []
        if isinstance(s, SpmdScopeStmt):
            return "spmd", [self.text.expr(s.core_num), *(["sync_start=True"] if s.sync_start else [])]
        if isinstance(s, SplitAivScopeStmt):
            return "split_aiv", [str(s.count), f"mode={value(s.split)}"]
        if isinstance(s, RuntimeScopeStmt):
            return "scope", [f"mode={value(ScopeMode.MANUAL if s.manual else ScopeMode.AUTO)}"]
        assert isinstance(s, CommDomainScopeStmt)
        slots = ", ".join(self.names.define(w) for w in s.slots)
        return "comm_domain", [f"devices={list(s.devices)}", f"slots=[{slots}]"]


def tuple_text(parts: Sequence[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _same_type(a: Type, b: Type) -> bool:
    return a is b or compare(a, b) is None


def _lane(s: ScopeStmt) -> tuple[Var | None, Stmt]:
    """The variable that a vector-lane region binds to its lane, and the rest of the body."""
    stmts = flatten_to_stmts(s.body)
    first = stmts[0] if isinstance(s, SplitAivScopeStmt) and stmts else None
    if isinstance(first, AssignStmt) and isinstance(first.value, Call) and first.value.op.name == "tile.get_subblock_idx":
        return first.var, SeqStmts(stmts[1:])
    return None, s.body


def _counter(s: ForStmt) -> DataType:
    """The dtype that a loop's bounds give its variable; bare integers fit any."""
    dtype = None
    for b in (s.start, s.stop, s.step):
        if not (isinstance(b, ConstInt) and b.dtype is DataType.INDEX):
            dtype = scalar.dtype_of(b) if dtype is None else scalar.promote(dtype, scalar.dtype_of(b))
    return dtype or DataType.INDEX


def _is_index(e: Expr, value: int) -> bool:
    return isinstance(e, ConstInt) and e.value == value and e.dtype is DataType.INDEX

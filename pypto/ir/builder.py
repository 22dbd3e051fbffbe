"""Building programs by hand, statement after statement.

In: nested `with` blocks of an `IRBuilder`.  Out: the nodes they describe, normalized; ints and floats become INDEX and FP32
constants, and places default to the caller's line.
Invariant: a block that ends in an exception builds nothing and leaves the builder as it was before the block.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from pypto.enums import ForKind, FunctionType, Level, ParamDirection, Role, ScopeKind, SplitMode
from pypto.errors import ArgumentValueError
from pypto.ir.expr import Expr, GlobalVar, IterArg, MakeTuple, MemRef, Var
from pypto.ir.node import Attrs
from pypto.ir.operators import as_expr
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TensorType, TensorView, TileType, TileView
from pypto.ir.stmt import (
    AssignStmt,
    BreakStmt,
    ClusterScopeStmt,
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
    SplitAivScopeStmt,
    SpmdScopeStmt,
    Stmt,
    WhileStmt,
    attach_leading_comments,
    seq,
)
from pypto.ir.types import Type
from pypto.span import Span

__all__ = [
    "ForLoopBuilder",
    "FunctionBuilder",
    "IRBuilder",
    "IfStmtBuilder",
    "ProgramBuilder",
    "ScopeBuilder",
    "WhileLoopBuilder",
]

B = TypeVar("B", bound="_Block")
Value = Expr | int | float | bool


def _expr(value: Value) -> Expr:
    made = as_expr(value)
    if made is None:
        raise TypeError(f"expected an expression or a number, got {type(value).__name__}")
    return made


def _here() -> Span:
    """The line of the nearest caller outside this module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return Span(frame.f_code.co_filename, frame.f_lineno, 1)


class _Block:
    """One open `with` block: what it collects, and the node it becomes."""

    def __init__(self, builder: IRBuilder, span: Span | None) -> None:
        self.builder, self.span = builder, span or _here()
        self.stmts: list[Stmt] = []
        self.return_vars: list[Var] = []
        self.made: Any = None

    def __enter__(self: B) -> B:
        self.builder._blocks.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.builder._blocks.pop()
        if kind is not None:
            return
        self.made = self.build()
        if isinstance(self.made, Stmt):
            self.builder.emit(self.made)

    def build(self) -> Any:
        raise NotImplementedError

    def body(self) -> Stmt:
        return seq(self.stmts, self.span)

    def get_result(self) -> Any:
        """What the block built; only after its end."""
        if self.made is None:
            raise ArgumentValueError("the block is still open: its result exists after the end of the `with` statement")
        return self.made

    def output(self, index: int = 0) -> Var:
        """A value that the finished construct hands on."""
        return self.return_vars[index]

    def outputs(self) -> list[Var]:
        return list(self.return_vars)


class ProgramBuilder(_Block):
    """`with builder.program(name) as p`."""

    def __init__(self, builder: IRBuilder, name: str, span: Span | None) -> None:
        super().__init__(builder, span)
        self.name = name
        self.declared: dict[str, GlobalVar] = {}
        self.functions: list[Function] = []

    def declare_function(self, name: str) -> GlobalVar:
        """A reference to a function that is added before or after."""
        return self.declared.setdefault(name, GlobalVar(name))

    def get_global_var(self, name: str) -> GlobalVar:
        if name not in self.declared:
            raise ArgumentValueError(f"function '{name}' is not declared", hint="call declare_function or add_function first")
        return self.declared[name]

    def add_function(self, function: Function) -> GlobalVar:
        self.functions.append(function)
        return self.declare_function(function.name)

    def build(self) -> Program:
        return Program(self.functions, self.name, self.span)


class FunctionBuilder(_Block):
    """`with builder.function(name) as f`."""

    def __init__(self, builder: IRBuilder, name: str, span: Span | None, options: dict[str, Any]) -> None:
        super().__init__(builder, span)
        self.name, self.options = name, options
        self.attrs: dict[str, Any] = dict(options.pop("attrs", None) or {})
        self.params: list[tuple[Var, ParamDirection]] = []
        self.return_types: list[Type] = []

    def param(self, name: str, type: Type, span: Span | None = None, direction: ParamDirection = ParamDirection.In) -> Var:
        v = Var(name, type, span or _here())
        self.params.append((v, direction))
        return v

    def return_type(self, type: Type) -> None:
        self.return_types.append(type)

    def build(self) -> Function:
        return Function(
            self.name, self.params, self.return_types, self.body(), self.span, attrs=Attrs(self.attrs), **self.options
        )


class _Loop(_Block):
    iter_args: list[IterArg]

    def iter_arg(self, name: str, init: Value, type: Type | None = None, span: Span | None = None) -> IterArg:
        """A value carried from one iteration to the next; of the initial value's type unless said otherwise."""
        value = _expr(init)
        made = IterArg(name, type or value.type, value, span or _here())
        self.iter_args.append(made)
        return made

    def return_var(self, name: str, type: Type | None = None, span: Span | None = None) -> Var:
        """The final value of the next carried value."""
        n = len(self.return_vars)
        if type is None and n >= len(self.iter_args):
            raise ArgumentValueError(f"return_var '{name}' has no iter_arg to belong to", hint="add the iter_arg first")
        made = Var(name, type or self.iter_args[n].type, span or _here())
        self.return_vars.append(made)
        return made


class ForLoopBuilder(_Loop):
    """`with builder.for_loop(i, start, stop, step) as loop`."""

    def __init__(
        self, builder: IRBuilder, loop_var: Var, bounds: tuple[Expr, Expr, Expr], kind: ForKind, attrs: Any, span: Span | None
    ) -> None:
        super().__init__(builder, span)
        self.loop_var, self.bounds, self.kind, self.attrs = loop_var, bounds, kind, attrs
        self.iter_args = []

    def build(self) -> ForStmt:
        return ForStmt(
            self.loop_var, *self.bounds, self.iter_args, self.body(), self.return_vars, self.span, self.kind, self.attrs
        )


class WhileLoopBuilder(_Loop):
    """`with builder.while_loop(condition) as loop`; the condition may be set inside, where the iter_args exist."""

    def __init__(self, builder: IRBuilder, condition: Value | None, span: Span | None) -> None:
        super().__init__(builder, span)
        self.condition = None if condition is None else _expr(condition)
        self.iter_args = []

    def set_condition(self, condition: Value) -> None:
        self.condition = _expr(condition)

    def build(self) -> WhileStmt:
        if self.condition is None:
            raise ArgumentValueError("a while loop needs a condition", hint="call set_condition inside the block")
        return WhileStmt(self.condition, self.iter_args, self.body(), self.return_vars, self.span)


class IfStmtBuilder(_Block):
    """`with builder.if_stmt(condition) as branch`; statements after `branch.else_()` belong to the other arm."""

    def __init__(self, builder: IRBuilder, condition: Expr, span: Span | None) -> None:
        super().__init__(builder, span)
        self.condition = condition
        self.then: list[Stmt] | None = None

    def else_(self) -> None:
        if self.then is not None:
            raise ArgumentValueError("an if statement has one else")
        self.then, self.stmts = self.stmts, []

    def return_var(self, name: str, type: Type, span: Span | None = None) -> Var:
        made = Var(name, type, span or _here())
        self.return_vars.append(made)
        return made

    def build(self) -> IfStmt:
        if self.then is None:
            return IfStmt(self.condition, self.body(), None, self.return_vars, self.span)
        return IfStmt(self.condition, seq(self.then, self.span), self.body(), self.return_vars, self.span)


class ScopeBuilder(_Block):
    """`with builder.scope(kind)`."""

    def __init__(self, builder: IRBuilder, kind: type[ScopeStmt], options: dict[str, Any], span: Span | None) -> None:
        super().__init__(builder, span)
        self.kind, self.options = kind, options

    def build(self) -> ScopeStmt:
        return self.kind(**self.options, body=self.body(), span=self.span)


# Which of the options of `IRBuilder.scope` each kind takes, besides name_hint and attrs.
_SCOPES: dict[ScopeKind, tuple[type[ScopeStmt], tuple[str, ...]]] = {
    ScopeKind.InCore: (InCoreScopeStmt, ("split",)),
    ScopeKind.Cluster: (ClusterScopeStmt, ()),
    ScopeKind.Hierarchy: (HierarchyScopeStmt, ("level", "role")),
    ScopeKind.Spmd: (SpmdScopeStmt, ("core_num", "sync_start")),
    ScopeKind.SplitAiv: (SplitAivScopeStmt, ("split",)),
    ScopeKind.Runtime: (RuntimeScopeStmt, ("manual",)),
}


class IRBuilder:
    """Opens blocks and appends statements to the innermost one."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._comments: list[list[str]] = []

    # -- blocks --

    def program(self, name: str, span: Span | None = None) -> ProgramBuilder:
        return ProgramBuilder(self, name, span)

    def function(
        self,
        name: str,
        span: Span | None = None,
        type: FunctionType = FunctionType.Opaque,
        level: Level | None = None,
        role: Role | None = None,
        attrs: Mapping[str, Any] | None = None,
        requires_runtime_binding: bool = False,
    ) -> FunctionBuilder:
        options = {"type": type, "level": level, "role": role, "requires_runtime_binding": requires_runtime_binding}
        return FunctionBuilder(self, name, span, {**options, "attrs": attrs})

    def for_loop(
        self,
        loop_var: Var,
        start: Value,
        stop: Value,
        step: Value = 1,
        span: Span | None = None,
        kind: ForKind = ForKind.Sequential,
        attrs: Mapping[str, Any] | None = None,
    ) -> ForLoopBuilder:
        bounds = (_expr(start), _expr(stop), _expr(step))
        return ForLoopBuilder(self, loop_var, bounds, kind, dict(attrs) if attrs else None, span)

    def while_loop(self, condition: Value | None = None, span: Span | None = None) -> WhileLoopBuilder:
        return WhileLoopBuilder(self, condition, span)

    def if_stmt(self, condition: Value, span: Span | None = None) -> IfStmtBuilder:
        return IfStmtBuilder(self, _expr(condition), span)

    def scope(
        self,
        scope_kind: ScopeKind,
        span: Span | None = None,
        level: Level | None = None,
        role: Role | None = None,
        split: SplitMode | None = None,
        name_hint: str = "",
        core_num: Value | None = None,
        sync_start: bool | None = None,
        manual: bool | None = None,
        attrs: Iterable[tuple[str, Any]] | None = None,
    ) -> ScopeBuilder:
        """A scope; an option that the kind does not have is an error."""
        found = _SCOPES.get(scope_kind)
        if found is None:
            raise ArgumentValueError(f"scopes of kind {scope_kind.name} are not built here", hint="construct the node itself")
        kind, allowed = found
        given = {
            "level": level,
            "role": role,
            "split": split,
            "core_num": None if core_num is None else _expr(core_num),
            "sync_start": sync_start,
            "manual": manual,
        }
        options = {k: v for k, v in given.items() if v is not None}
        foreign = [k for k in options if k not in allowed]
        if foreign:
            raise ArgumentValueError(f"a {scope_kind.name} scope takes no {', '.join(foreign)}")
        return ScopeBuilder(self, kind, {**options, "name_hint": name_hint, "attrs": dict(attrs or ())}, span)

    # -- statements --

    def emit(self, stmt: Stmt) -> Stmt:
        """Append a statement to the innermost block."""
        if not self._blocks or isinstance(self._blocks[-1], ProgramBuilder):
            raise ArgumentValueError("a statement needs an open function", hint="use `with builder.function(...)`")
        if self._comments and self._comments[-1]:
            attach_leading_comments(stmt, self._comments[-1])
            self._comments[-1] = []
        self._blocks[-1].stmts.append(stmt)
        return stmt

    def let(self, name: str, value: Value, type: Type | None = None, span: Span | None = None) -> Var:
        """A new variable with this value; of the value's type unless said otherwise."""
        e = _expr(value)
        v = Var(name, type or e.type, span or _here())
        self.emit(AssignStmt(v, e, span or _here()))
        return v

    def assign(self, var: Var, value: Value, span: Span | None = None) -> AssignStmt:
        stmt = AssignStmt(var, _expr(value), span or _here())
        self.emit(stmt)
        return stmt

    def eval_stmt(self, expr: Value, span: Span | None = None) -> EvalStmt:
        stmt = EvalStmt(_expr(expr), span or _here())
        self.emit(stmt)
        return stmt

    def return_stmt(self, values: Value | Iterable[Value] | None = None, span: Span | None = None) -> ReturnStmt:
        stmt = ReturnStmt(_values(values), span or _here())
        self.emit(stmt)
        return stmt

    def break_stmt(self, span: Span | None = None) -> Stmt:
        return self.emit(BreakStmt(span or _here()))

    def continue_stmt(self, span: Span | None = None) -> Stmt:
        return self.emit(ContinueStmt(span or _here()))

    def inline_stmt(self, body: str, language: int = 0, span: Span | None = None) -> Stmt:
        return self.emit(InlineStmt(body, language, span or _here()))

    # -- pieces --

    def var(self, name: str, type: Type, span: Span | None = None) -> Var:
        return Var(name, type, span or _here())

    def make_tuple(self, elements: Iterable[Value], span: Span | None = None) -> MakeTuple:
        return MakeTuple(_values(elements), span or _here())

    def memref(self, *args: Any, **kwargs: Any) -> MemRef:
        return MemRef(*args, **kwargs)

    def tile_view(self, *args: Any, **kwargs: Any) -> TileView:
        return TileView(*args, **kwargs)

    def tensor_view(self, *args: Any, **kwargs: Any) -> TensorView:
        return TensorView(*args, **kwargs)

    def tensor_type(self, *args: Any, **kwargs: Any) -> TensorType:
        return TensorType(*args, **kwargs)

    def tile_type(self, *args: Any, **kwargs: Any) -> TileType:
        return TileType(*args, **kwargs)

    # -- where we are --

    def in_function(self) -> bool:
        return any(isinstance(b, FunctionBuilder) for b in self._blocks)

    def in_loop(self) -> bool:
        return any(isinstance(b, _Loop) for b in self._blocks)

    def in_if(self) -> bool:
        return any(isinstance(b, IfStmtBuilder) for b in self._blocks)

    def add_function_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Attributes for the innermost open function."""
        for block in reversed(self._blocks):
            if isinstance(block, FunctionBuilder):
                block.attrs.update(attrs)
                return
        raise ArgumentValueError("no function is open")

    def push_pending_leading_comments(self, comments: Iterable[str]) -> None:
        """Comments for the next statement that is emitted."""
        self._comments.append(list(comments))

    def pop_pending_leading_comments(self) -> list[str]:
        """Take back comments that no statement has taken."""
        return self._comments.pop() if self._comments else []


def _values(values: Value | Iterable[Value] | None) -> list[Expr]:
    if values is None:
        return []
    single = as_expr(values)
    return [single] if single is not None else [_expr(v) for v in values]  # type: ignore[union-attr]

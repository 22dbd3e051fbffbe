"""The state of reading one captured function: its names, the statements made so far, the place of errors.

In: what the statement and expression modules ask for.  Out: statements in the current body.
A `Context` belongs to the IR function being built; a `Frame` to one text: an inlined helper is a second frame in the
same context.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from pypto.dtypes import DataType
from pypto.enums import ArgEffect, FunctionType, SplitMode
from pypto.errors import Error, ParserTypeError, PyptoWarning, SSAViolationError, UndefinedVariableError, closest
from pypto.frontend.constants import describe, is_constant, is_number
from pypto.frontend.diagnostics import error_at
from pypto.frontend.names import ABSENT, Binding, Scope
from pypto.frontend.source import Source
from pypto.frontend.values import contains_expr, is_const_expr, number_expr, scalar_dtype, type_text
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.rewrite import free_vars
from pypto.ir.shaped import ShapedType, TensorType, same_dims
from pypto.ir.stmt import AssignStmt, EvalStmt, Stmt, seq
from pypto.ir.types import ArrayType, PtrType, ScalarType
from pypto.language.symbols import SymbolicInt
from pypto.span import Span

if TYPE_CHECKING:
    from pypto.frontend.builder import ProgramBuilder

__all__ = ["Context", "Frame"]


class Context:
    """One IR function under construction."""

    def __init__(self, program: ProgramBuilder, name: str, func_type: FunctionType, read: Callable[[Frame], None]) -> None:
        self.program, self.name, self.func_type = program, name, func_type
        self.read = read  # reads the body of a frame
        self.blocks: list[list[Stmt]] = [[]]
        # Inside a scope that becomes a kernel, or in a function that is one.
        self.in_core = func_type in (FunctionType.InCore, FunctionType.AIC, FunctionType.AIV)
        # Scalar variables assigned once, to see through when a constant is needed.
        self.definitions: dict[Var, Expr] = {}
        self.redefined: set[Var] = set()
        # Run-time parameters that can be made constants: name and sample value.
        self.parameters: dict[Var, tuple[str, Any]] = {}
        # What was assigned to a variable: the variable whose storage the value is, None for a value of its own.
        self.origins: dict[Var, list[Var | None]] = {}
        self.attrs: dict[str, Any] = {}  # from pl.func_attr
        self.allocations: dict[str, Var] = {}
        self.manual = False  # inside a manual runtime scope
        self.auto_scope = True  # the whole function is an AUTO runtime scope
        self.region: tuple[SplitMode, Expr] | None = None  # mode and lane of the vector-lane region around

    def allocation(self, name: str) -> Var:
        """The pointer of an allocation that printed text names without defining it."""
        made = self.allocations.get(name)
        if made is None:
            made = self.allocations[name] = Var(name, PtrType.get())
        return made

    @property
    def is_orchestration(self) -> bool:
        return self.func_type is FunctionType.Orchestration and not self.in_core

    def emit(self, stmt: Stmt) -> None:
        self.blocks[-1].append(stmt)

    def originate(self, var: Var, value: Expr) -> None:
        """Take down that `value` was assigned to `var`, or that `var` receives it from a loop or branch."""
        self.origins.setdefault(var, []).append(_written(value))

    def is_version(self, var: Var, tensor: Any) -> bool:
        """Whether all that `var` ever holds is `tensor`, written or not: whatever was assigned to it leads back there."""
        seen: set[Var | None] = {var}
        ahead: list[Var | None] = [var]
        while ahead:
            v = ahead.pop()
            if v is tensor:
                continue
            if v is None or v not in self.origins:
                return False
            new = [o for o in self.origins[v] if o not in seen]
            seen.update(new)
            ahead += new
        return True

    @contextmanager
    def body(self) -> Iterator[list[Stmt]]:
        """Statements emitted inside go to the list given."""
        block: list[Stmt] = []
        self.blocks.append(block)
        try:
            yield block
        finally:
            self.blocks.pop()

    @contextmanager
    def core(self) -> Iterator[None]:
        before, self.in_core = self.in_core, True
        try:
            yield
        finally:
            self.in_core = before


class Frame:
    """One text being read."""

    def __init__(self, context: Context, source: Source, *, strict_ssa: bool = False, jit: bool = False) -> None:
        self.context, self.source = context, source
        self.strict_ssa, self.jit, self.raw = strict_ssa, jit, source.raw
        self.index = context.program.index_of(source)
        self.scope = Scope(flat=source.raw)
        self.ordinal = 0
        self.loops: list[str] = []  # kinds of the enclosing loops, innermost last
        self.result: tuple[Any, ...] | None = None  # what an inlined helper returned
        self.inlined = False
        self.callers: tuple[Source, ...] = ()

    # -- places and errors -----------------------------------------------------------------------------------------

    def span(self, node: ast.AST) -> Span:
        return self.source.span(node, self.index, self.ordinal)

    def error(self, kind: type[Error], message: str, node: ast.AST, hint: str, note: str | None = None) -> Error:
        return error_at(kind, message, self.source, node, hint, note)

    def fail(self, kind: type[Error], message: str, node: ast.AST, hint: str, note: str | None = None) -> NoReturn:
        raise self.error(kind, message, node, hint, note)

    def warn(self, message: str, node: ast.AST) -> None:
        s = self.source.span(node)
        warnings.warn_explicit(f"{message} ({s.to_string()})", PyptoWarning, s.filename, s.begin_line)

    # -- reading names ---------------------------------------------------------------------------------------------

    def read(self, name: str, node: ast.AST) -> Any:
        """The value of a name: local, else from the surroundings of the function."""
        b = self.scope.read(name)
        if b is not None:
            if b.poison is not None:
                hint = "assign the name again before it is used, or use another one"
                self.fail(UndefinedVariableError, f"'{name}' cannot be used here: {b.poison}", node, hint)
            return b.value if b.constant is ABSENT else b.constant
        if name in self.source.locals and not self.raw:
            self.fail(
                UndefinedVariableError,
                f"Undefined variable '{name}': it is assigned later",
                node,
                "assign it before it is used",
            )
        value = self.source.lookup(name)
        if value is ABSENT:
            known = [*self.scope.names, *self.source.cells, *self.source.globals]
            hint = closest(name, known) or "assign it before this line, or define it outside the kernel"
            self.fail(UndefinedVariableError, f"Undefined variable '{name}'", node, hint)
        if isinstance(value, (list, tuple)) and _contains_itself(value, []):
            self.fail(
                ParserTypeError, f"'{name}' has no end: it is a list in itself", node, "a container must not contain itself"
            )
        return value

    def surrounding(self, value: Any, node: ast.AST) -> Any:
        """A value used as such: only kinds that the language knows."""
        if contains_expr(value) or is_constant(value):
            return tuple(value) if isinstance(value, list) else value
        about = getattr(type(value), "in_a_kernel", None)  # what the language's own objects say of themselves
        if isinstance(about, tuple):
            self.fail(ParserTypeError, f"'{ast.unparse(node)}' is {about[0]}", node, about[1])
        self.fail(
            ParserTypeError,
            f"Unsupported closure variable type: {type(value).__name__}",
            node,
            _plain(value, node),
        )

    # -- making expressions ----------------------------------------------------------------------------------------

    def expr(self, value: Any, node: ast.AST) -> Expr:
        """A value as an expression; plain numbers get their default dtypes."""
        if isinstance(value, Expr):
            return value
        if is_number(value):
            try:
                return number_expr(value, self.span(node))
            except OverflowError as e:
                self.fail(ParserTypeError, str(e), node, "integers lie within -2**63 .. 2**63 - 1")
        if isinstance(value, SymbolicInt):
            return self.context.program.extent(value)
        if not is_constant(value):
            self.surrounding(value, node)
        hint = "names of the language, texts and lists are not values that a kernel computes with"
        self.fail(ParserTypeError, f"expected a tensor, a tile or a scalar, got {describe(value)}", node, hint)

    def scalar(self, value: Any, node: ast.AST) -> Expr:
        """A scalar operand: never a nested call (it is bound to a variable first)."""
        e = self.expr(value, node)
        if not isinstance(e.type, ScalarType):
            hint = (
                "read one element with pl.read(x, indices)"
                if isinstance(e.type, (ShapedType, ArrayType))
                else "use one of its elements"
            )
            self.fail(ParserTypeError, f"expected a scalar, got {type_text(e.type)}", node, hint)
        return self.plain(e, node)

    def plain(self, e: Expr, node: ast.AST) -> Expr:
        """The expression, or a fresh variable holding it where it is a call."""
        if self.raw or not isinstance(e, Call):
            return e
        v = Var(e.op.name.rsplit(".", 1)[-1], e.type, self.span(node))
        self.context.originate(v, e)
        self.context.emit(AssignStmt(v, e, self.span(node)))
        return v

    # -- assigning names -------------------------------------------------------------------------------------------

    def assign(self, name: str, value: Any, node: ast.AST, target: ast.AST) -> None:
        """`name = value`: emit the assignment, if there is something to compute at run time, and bind the name."""
        span = self.span(target)
        if self.strict_ssa:
            self._refuse_second(name, target)
        if not contains_expr(value) and not is_number(value):
            self.scope.bind(name, value, span)
            return
        if isinstance(value, tuple):
            self.scope.bind(name, tuple(self.held(v, name, node) for v in value), span)
            return
        e = self.expr(value, node)
        var = self.target(name, e, target)
        self.context.emit(AssignStmt(var, e, self.span(node)))
        self.context.originate(var, e)
        if not self.raw:
            constant = value if is_number(value) else e if is_const_expr(e) else ABSENT
            self._note(name, var, e, constant, span)

    def held(self, value: Any, name: str, node: ast.AST) -> Any:
        """A value that will be used under a name, perhaps more than once: computed here."""
        if isinstance(value, tuple):
            return tuple(self.held(v, name, node) for v in value)
        if isinstance(value, Expr) and not isinstance(value, Var) and not is_const_expr(value):
            v = Var(name, value.type, self.span(node))
            self.context.originate(v, value)
            self.context.emit(AssignStmt(v, value, self.span(node)))
            return v
        return value

    def _note(self, name: str, var: Var, e: Expr, constant: Any, span: Span) -> None:
        b = self.scope.names[name]
        if constant is not ABSENT:
            self.scope.names[name] = b.but(constant=constant, span=span)
        # A second definition makes the first one useless for seeing through.
        context = self.context
        known = var in context.definitions or var in context.redefined or var in context.parameters
        if known or any(v is var for v in free_vars(e)):
            context.redefined.add(var)
            context.definitions.pop(var, None)
        elif isinstance(var.type, ScalarType):
            context.definitions[var] = e

    def target(self, name: str, e: Expr, node: ast.AST) -> Var:
        """The variable that an assignment of `e` to `name` goes to; binds the name."""
        old = self.scope.get(name)
        span = self.span(node)
        if self.raw and old is not None and old.var is not None and old.var.type == e.type:
            return old.var  # printed programs give each variable a name of its own
        if old is not None and not old.leaked and old.var is not None:
            if old.assignable and old.var.type == e.type:
                self.scope.rebind(name, old, ABSENT, span)
                return old.var
            same_block = old.block is self.scope.block
            if old.assignable and not (same_block and self.jit):
                self._other_type(name, old.var, e, node)
        sibling = self.scope.siblings.get(name)
        if old is None and sibling is not None and sibling.var is not None and sibling.assignable and sibling.var.type == e.type:
            self.scope.bind(name, sibling.var, span)
            return sibling.var
        var = Var(name, e.type, span)
        self.scope.bind(name, var, span)
        return var

    def _other_type(self, name: str, old: Var, e: Expr, node: ast.AST) -> NoReturn:
        hint, new = "give the new value another name", scalar_dtype(e)
        if scalar_dtype(old) is DataType.INDEX and new is not None and new.is_float():
            hint = f"begin with a float, {name} = 0.0, or give the new value another name"
        a, b = old.type, e.type
        if isinstance(a, TensorType) and isinstance(b, TensorType) and a.dtype is b.dtype and same_dims(a.shape, b.shape):
            hint = f"keep what is valid: pl.fillpad({name}) fills the rest, pl.set_validshape({name}, rows, cols) narrows"
        self.fail(
            ParserTypeError,
            f"Cannot reassign '{name}' with a different type: was {type_text(old.type)}, got {type_text(e.type)}",
            node,
            hint,
            f"'{name}' was assigned at {old.span.to_string()}",
        )

    def _refuse_second(self, name: str, node: ast.AST) -> None:
        old = self.scope.get(name)
        if old is not None and not old.leaked:
            self.fail(
                SSAViolationError,
                f"Variable '{name}' is already defined",
                node,
                "give the new value another name",
                f"previous definition at {old.span.to_string()}",
            )

    def define(self, name: str, var: Var, node: ast.AST) -> None:
        """Bind a name to a variable that a loop or conditional defined; carry it to the outer variable if there is one."""
        old = self.scope.get(name)
        outer = old is not None and not old.leaked and old.block is not self.scope.block
        if self.strict_ssa:
            self._refuse_second(name, node)
        if outer and not self.raw and old is not None and old.assignable and old.var is not None:
            if old.var.type != var.type:
                self._other_type(name, old.var, var, node)
            self.context.originate(old.var, var)
            self.context.emit(AssignStmt(old.var, var, self.span(node)))
            self.scope.rebind(name, old, ABSENT, self.span(node))
            return
        self.scope.bind(name, var, self.span(node))

    def prepare(self, names: Iterable[str], node: ast.AST) -> None:
        """Names that a loop or branch is about to assign: each gets a variable that can be assigned there."""
        for name in dict.fromkeys(names):
            b = self.scope.get(name)
            if self.raw or b is None or b.poison is not None:
                continue
            if is_number(b.value):
                self._own_variable(name, b, number_expr(b.value, self.span(node)), b.value, node)
            elif isinstance(b.value, Expr) and not b.assignable:
                self._own_variable(name, b, b.value, b.constant, node)

    def _own_variable(self, name: str, b: Binding, e: Expr, constant: Any, node: ast.AST) -> None:
        v = Var(name, e.type, self.span(node))
        self.context.emit(AssignStmt(v, e, self.span(node)))
        self.context.originate(v, e)
        self.scope.bind(name, v, b.span, constant=constant)

    def evaluate(self, e: Expr, node: ast.AST) -> None:
        """A bare expression statement."""
        self.context.emit(EvalStmt(e, self.span(node)))

    def sequence(self, statements: list[Stmt], node: ast.AST) -> Stmt:
        return seq(statements, self.span(node))


def _plain(value: Any, node: ast.AST) -> str:
    """How a value of the surroundings becomes one that kernels know."""
    name = ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else "x"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"pass the array as a parameter: {name}: pl.Tensor"
    if isinstance(shape, tuple):
        kind = {"f": "float", "b": "bool"}.get(getattr(getattr(value, "dtype", None), "kind", ""), "int")
        return f"make it a plain number outside of the kernel: {name} = {kind}({name})"
    return "use a plain int, float, bool, str, dtype, enumeration member, or a list or tuple of them"


def _written(e: Expr) -> Var | None:
    """The variable whose storage the value of `e` is: an alias, or a tensor after a write."""
    if isinstance(e, Var):
        return e
    if isinstance(e, Call):
        known = ops.of(e)
        if known is not None and known.reuses is not None and known.effect(known.reuses, e.kwargs) is not ArgEffect.Read:
            operand = e.args[known.reuses]
            return operand if isinstance(operand, Var) else None
    return None


def _contains_itself(value: Any, around: list[Any]) -> bool:
    if not isinstance(value, (list, tuple)):
        return False
    return any(value is a for a in around) or any(_contains_itself(v, [*around, value]) for v in value)

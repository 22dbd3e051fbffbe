"""Statements of a kernel's body.

In: the statements of a captured function.  Out: IR statements in the frame's current body.
What the language does not have is refused at its place, by name.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pypto._lazy import later
from pypto.enums import FunctionType
from pypto.errors import (
    InvalidOperationError,
    NotSupportedError,
    ParserSyntaxError,
    ParserTypeError,
    UnsupportedFeatureError,
)
from pypto.frontend import effects, operators, raw, scopes, subscripts
from pypto.frontend.annotations import contradiction, type_of
from pypto.frontend.constants import describe, is_number
from pypto.frontend.depth import DEEPEST, REMEDY, too_deep
from pypto.frontend.expressions import Expressions
from pypto.frontend.frame import Frame
from pypto.frontend.values import contains_expr, is_const_expr, type_text, value_text
from pypto.ir.expr import Call, Expr, TupleGetItemExpr, Var
from pypto.ir.rewrite import free_vars
from pypto.ir.shaped import ShapedType
from pypto.ir.stmt import AssignStmt, BreakStmt, ContinueStmt, ReturnStmt
from pypto.ir.types import ArrayType, ScalarType, TupleType, Type, UnknownType, VoidType
from pypto.language.annotations import Directed
from pypto.language.operations import Construct
from pypto.language.symbols import DynVar

if TYPE_CHECKING:
    from pypto.frontend import branches, directives, instead, loops
else:
    branches, directives, instead, loops = later("pypto.frontend", "branches directives instead loops")

__all__ = ["Statements", "read_frame"]


def read_frame(frame: Frame) -> None:
    """Read the whole body of a frame's function."""
    Statements(frame).function_body()


class Statements:
    """Reads statements of one frame."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.x = Expressions(frame)
        self._declared: dict[str, Type] = {}
        self.task: Var | None = None  # bound by the `as` of a printed scope

    # -- bodies --

    def function_body(self) -> None:
        body = self.frame.source.node.body
        if (
            body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
            and isinstance(body[0].value.value, str)
        ):
            body = body[1:]
        while body and self._function_attributes(body[0]):
            body = body[1:]
        self.block(body, top=True)

    def _function_attributes(self, node: ast.stmt) -> bool:
        """A leading `pl.func_attr({...})`."""
        construct = self.construct_call(node.value) if isinstance(node, ast.Expr) else None
        if construct is None or construct[0].name != "func_attr":
            return False
        call = construct[1]
        if len(call.args) != 1 or call.keywords:
            self.frame.fail(ParserSyntaxError, "pl.func_attr takes one dict literal", call, "pl.func_attr({'key': value})")
        made = raw.attributes(self.x, call.args[0])
        for name, value in made.items():
            if name in self.frame.context.attrs:
                self.frame.fail(ParserSyntaxError, f"function attribute '{name}' is given twice", call, "keep one of the two")
            if name in ("auto_scope", "external_source") and not self.frame.raw:
                what = f"'{name}' is an argument of the decorator, not a function attribute"
                self.frame.fail(ParserSyntaxError, what, call, f"@pl.function({name}=...)")
            self.frame.context.attrs[name] = value.value if isinstance(value, enum.Enum) and not self.frame.raw else value
        return True

    def block(self, body: Sequence[ast.stmt], top: bool = False) -> None:
        for i, node in enumerate(body):
            self.frame.ordinal = self.frame.source.ordinal(node)
            last = i == len(body) - 1
            if isinstance(node, ast.Return) and not (top and last):
                self._misplaced_return(node, last)
            self.statement(node)

    def _misplaced_return(self, node: ast.Return, last: bool) -> None:
        if self.frame.raw:
            return
        self.frame.fail(
            UnsupportedFeatureError,
            "`return` is supported only as the last statement of the function",
            node,
            "move it out of the `with`, to the end of the function"
            if last and self._ends_with(node)
            else "assign the result to a name in the branch and return that name at the end"
            if last
            else "statements after it never run",
        )

    def _ends_with(self, node: ast.Return) -> bool:
        """Whether it ends the function but for the `with` statements around it."""
        at: ast.stmt = self.frame.source.node
        while isinstance(at, (ast.FunctionDef, ast.With)):
            at = at.body[-1]
        return at is node

    def statement(self, node: ast.stmt) -> None:
        method = getattr(self, "on_" + type(node).__name__, None)
        if method is None:
            name = type(node).__name__
            hint = _INSTEAD.get(name, "a kernel has assignments, calls, `if`, `for`, `while`, `with` and a final `return`")
            if isinstance(node, ast.AugAssign):
                name_of = node.target.id if isinstance(node.target, ast.Name) else ""
                output = isinstance(self.frame.source.annotations.get(name_of), Directed)
                hint = instead.aug_assignment(node, output)
            self.frame.fail(UnsupportedFeatureError, f"Unsupported statement type: {name}", node, hint)
        deep = None if self.frame.raw else too_deep(node)
        if deep is not None:
            self.frame.fail(UnsupportedFeatureError, f"an expression of more than {DEEPEST} levels", deep, REMEDY)
        try:
            method(node)
        except RecursionError:
            self.frame.fail(UnsupportedFeatureError, "the statement is nested too deeply", node, REMEDY)

    def construct_call(self, node: ast.expr | None) -> tuple[Construct, ast.Call] | None:
        """The language construct that an expression calls, if it calls one."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Attribute, ast.Name)):
            return None
        found = self.peek(node.func)
        return (found, node) if isinstance(found, Construct) else None

    def peek(self, node: ast.expr) -> Any:
        """What a dotted name stands for, without reporting anything."""
        if isinstance(node, ast.Name):
            b = self.frame.scope.get(node.id)
            return b.value if b is not None else self.frame.source.lookup(node.id)
        if isinstance(node, ast.Attribute):
            base = self.peek(node.value)
            return getattr(base, node.attr, None) if getattr(base, "__name__", "").startswith("pypto.language") else None
        return None

    # -- simple statements --

    def on_Pass(self, node: ast.Pass) -> None:
        pass

    def on_Expr(self, node: ast.Expr) -> None:
        value = node.value
        if isinstance(value, ast.Constant) and (value.value is Ellipsis or isinstance(value.value, str)):
            return
        construct = self.construct_call(value)
        if construct is not None and self._directive(*construct):
            return
        if self._bind_dynamic(value):
            return
        made = self.x.value(value)
        if isinstance(made, Expr):
            effects.bare_value(self, value, made)
        elif not isinstance(value, ast.Call):
            effects.refuse_idle(self, value)

    def _directive(self, construct: Construct, call: ast.Call) -> bool:
        name = construct.name
        if name == "static_print":
            directives.static_print(self.x, call)
        elif name == "static_assert":
            directives.static_assert(self.x, call)
        elif name == "yield_":
            branches.misplaced_yield(self.frame, call)
        elif name == "dump_tag":
            directives.dump_tag(self.x, call)
        elif name == "func_attr":
            what = "pl.func_attr must be the first statement of a function"
            self.frame.fail(ParserSyntaxError, what, call, "move it to the beginning of the body")
        elif name == "cond":
            self.frame.fail(
                InvalidOperationError, "Unknown operation 'pl.cond'", call, "pl.cond is the first statement of a pl.while_ loop"
            )
        else:
            return False
        return True

    def _bind_dynamic(self, node: ast.expr) -> bool:
        """`tensor.bind_dynamic(axis, symbol)`: known to the specialization already; checked here."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "bind_dynamic"):
            return False
        base = self.x.value(node.func.value)
        args = [self.x.value(a) for a in node.args]
        if not isinstance(base, Expr) or not isinstance(base.type, ShapedType):
            self.frame.fail(ParserTypeError, "bind_dynamic belongs to a tensor parameter", node, _BIND)
        if len(args) != 2 or type(args[0]) is not int or not isinstance(args[1], DynVar):
            self.frame.fail(ParserSyntaxError, "bind_dynamic takes a constant axis and a pl.dynamic symbol", node, _BIND)
        if not -len(base.type.shape) <= args[0] < len(base.type.shape):
            what, rank = f"axis {args[0]} is not within rank {len(base.type.shape)}", len(base.type.shape)
            self.frame.fail(ParserTypeError, what, node, f"axes run from 0 to {rank - 1}")
        return True

    def on_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            self.frame.fail(ParserSyntaxError, "Unsupported assignment: several targets", node, "write one assignment per name")
        target = node.targets[0]
        construct = self.construct_call(node.value)
        if construct is not None and construct[0].name == "yield_":
            branches.misplaced_yield(self.frame, construct[1])
        if construct is not None and construct[0].name in ("submit", "spmd_submit"):
            directives.submit(self, node, target, *construct)
            return
        value = self.x.value(node.value)
        if isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target, value, node.value)
        elif isinstance(target, ast.Subscript):
            self._subscript_write(target, value, node.value)
        elif isinstance(target, ast.Name):
            self.assign_name(target, value, node.value)
        else:
            hint = "bind the value to a plain name"
            if isinstance(target, ast.Attribute):
                hint += ", or write into a tensor: x[...] = value"
            self.frame.fail(ParserSyntaxError, f"Unsupported assignment target: {ast.unparse(target)}", target, hint)

    def assign_name(self, target: ast.Name, value: Any, node: ast.expr) -> None:
        if isinstance(value, Call) and isinstance(value.type, (UnknownType, VoidType)) and not self.frame.raw:
            what = f"'{value.op.name}' returns nothing that '{target.id}' could stand for"
            name = value.op.name.rsplit(".", 1)[-1]
            hint = f"end '{name}' with `return {target.id}`, or with what else it writes"
            if isinstance(value.type, VoidType):
                hint = "leave the assignment out: the call is a statement"
            self.frame.fail(ParserTypeError, what, node, hint)
        if not isinstance(value, Expr):
            value = self.frame.surrounding(value, node)
        if isinstance(value, DynVar) is False and not contains_expr(value) and not is_number(value):
            self._no_carry(target, value)
        self.frame.assign(target.id, value, node, target)

    def _no_carry(self, target: ast.Name, value: Any) -> None:
        """A compile-time value cannot take a run-time variable's place inside a loop or branch."""
        old = self.frame.scope.get(target.id)
        if old is not None and old.poison is None and isinstance(old.value, Expr) and old.block is not self.frame.scope.block:
            self.frame.fail(
                ParserTypeError,
                f"Cannot reassign '{target.id}' with a different type: was {type_text(old.value.type)}, got {describe(value)}",
                target,
                "give the new value another name",
            )

    def _subscript_write(self, target: ast.Subscript, value: Any, node: ast.expr) -> None:
        if not isinstance(target.value, ast.Name):
            self.frame.fail(
                ParserSyntaxError,
                "the target of a subscript write must be a plain name",
                target,
                "bind the tensor to a name first",
            )
        if self.frame.strict_ssa:
            what = "a subscript write rebinds its target; strict_ssa forbids it"
            self.frame.fail(UnsupportedFeatureError, what, target, "assign what pl.assemble returns to a new name")
        base = self.x.value(target.value)
        if not isinstance(base, Expr) or not isinstance(base.type, (ShapedType, ArrayType)):
            got = type_text(base.type) if isinstance(base, Expr) else describe(base)
            what = f"only tensors, tiles and arrays can be written by subscript, got {got}"
            self.frame.fail(ParserTypeError, what, target, "assign the whole name instead")
        made = subscripts.write(self.x, target, base, value, node)
        self.frame.assign(target.value.id, made, target, target.value)

    def unpack(self, target: ast.Tuple | ast.List, value: Any, node: ast.expr) -> None:
        """`a, b = value`: every right-hand side is read before any name changes."""
        names = target.elts
        if isinstance(value, Expr) and isinstance(value.type, TupleType):
            held = value
            if not isinstance(value, Var):
                held = Var("result", value.type, self.frame.span(node))
                self.frame.context.emit(AssignStmt(held, value, self.frame.span(node)))
            value = tuple(TupleGetItemExpr(held, i, self.frame.span(node)) for i in range(len(value.type.types)))
        if not isinstance(value, (tuple, list)):
            hint = "a shape, a tuple, or a call with several results can be unpacked"
            self.frame.fail(ParserTypeError, f"cannot unpack {value_text(value)} into {len(names)} names", node, hint)
        starred = next((t for t in names if isinstance(t, ast.Starred)), None)
        if starred is not None:
            what = f"Unsupported assignment target: {ast.unparse(starred)}"
            self.frame.fail(ParserSyntaxError, what, starred, f"write a name for each of the {len(value)} values")
        if len(value) != len(names):
            what = f"cannot unpack {len(value)} values into {len(names)} names"
            hint = f"write {len(value)} names on the left; call a name that you do not need _"
            self.frame.fail(ParserTypeError, what, target, hint)
        values = list(value)
        if self._overlaps(names, values):
            values = [self._snapshot(v, node) for v in values]
        for t, v in zip(names, values, strict=True):
            if not isinstance(t, ast.Name):
                self.frame.fail(ParserSyntaxError, f"cannot unpack into {ast.unparse(t)}", t, "unpack into plain names")
            self.assign_name(t, v, node)

    def _overlaps(self, names: list[ast.expr], values: list[Any]) -> bool:
        bindings = (self.frame.scope.get(t.id) for t in names if isinstance(t, ast.Name))
        assigned = {b.var for b in bindings if b is not None and b.var is not None}
        return any(v in assigned for e in values if isinstance(e, Expr) for v in free_vars(e))

    def _snapshot(self, value: Any, node: ast.expr) -> Any:
        if not isinstance(value, Expr) or is_const_expr(value):
            return value
        v = Var("old", value.type, self.frame.span(node))
        self.frame.context.emit(AssignStmt(v, value, self.frame.span(node)))
        self.frame.context.originate(v, value)
        return v

    # -- annotated assignment --

    def on_AnnAssign(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name):
            self.frame.fail(ParserSyntaxError, "only a plain name can be annotated", node.target, "leave the annotation out")
        if node.value is None:
            if self.frame.raw:
                self._declared[node.target.id] = self.annotation(node.annotation)
                return
            self.frame.fail(UnsupportedFeatureError, f"'{node.target.id}' is declared without a value", node, "assign a value")
        annotated = self.annotation(node.annotation)
        if self.frame.raw:
            self._printed(node.target, annotated, node.value)
            return
        self.x.annotated = (node.value, annotated)
        value = self.x.value(node.value)
        if is_number(value) and isinstance(annotated, ScalarType):
            value = self._typed_number(value, annotated, node)
        if not isinstance(value, Expr):
            what = f"'{node.target.id}' is annotated but holds {describe(value)}"
            self.frame.fail(ParserTypeError, what, node, "leave the annotation out, or assign a tensor, a tile or a number")
        self._check(node.target.id, annotated, value.type, node)
        memref = annotated.memref if isinstance(annotated, ShapedType) else None
        if memref is not None and isinstance(value.type, ShapedType):
            v = Var(node.target.id, value.type.replace(memref=memref), self.frame.span(node.target))
            self.frame.context.emit(AssignStmt(v, value, self.frame.span(node)))
            self.frame.scope.bind(node.target.id, v, self.frame.span(node.target))
            return
        self.frame.assign(node.target.id, value, node.value, node.target)

    def declared(self) -> dict[str, Type]:
        """Types that a printed block states for the names of its yield."""
        found, self._declared = self._declared, {}
        return found

    def annotation(self, node: ast.expr) -> Type:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            self.frame.fail(ParserTypeError, "a quoted annotation is not supported here", node, "leave the quotes out")
        return type_of(self.frame, self.x.annotation(node), node, scalar_shorthand=self.frame.jit)

    def _printed(self, target: ast.Name, type_: Type, node: ast.expr) -> None:
        """The variable has exactly the type that the text states."""
        value = raw.as_operand(self.x, self.x.value(node), node)
        old = self.frame.scope.get(target.id)
        var = old.var if old is not None and old.var is not None and old.var.type == type_ else None
        if var is None:
            var = Var(target.id, type_, self.frame.span(target))
            self.frame.scope.bind(target.id, var, self.frame.span(target))
        value = raw.with_type(value, _without_memref(type_))
        self.frame.context.emit(AssignStmt(var, value, self.frame.span(node)))

    def _typed_number(self, value: Any, type_: ScalarType, node: ast.AnnAssign) -> Any:
        assert node.value is not None
        return operators.typed_number(self.x, node.value, value, type_.dtype)

    def _check(self, name: str, annotated: Type, inferred: Type, node: ast.AnnAssign) -> None:
        """The annotation must not contradict the value: kind, dtype, rank, constant extents, memory space."""
        problem = contradiction(annotated, inferred)
        if problem is not None:
            self.frame.fail(
                ParserTypeError,
                f"Type annotation for '{name}' has {problem[0]} but expression has {problem[1]}",
                node,
                f"Change annotation to {type_text(inferred)}",
            )

    # -- control flow --

    def on_Return(self, node: ast.Return) -> None:
        frame = self.frame
        if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None and not frame.raw):
            values: tuple[Any, ...] = ()
        else:
            value = self.x.value(node.value)
            values = value if isinstance(value, tuple) else (value,)
        if frame.inlined:
            frame.result = tuple(frame.surrounding(v, node) for v in values) if values else None
            return
        if frame.raw and node.value is not None:
            parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            exprs = tuple(raw.operand(self.x, p) for p in parts)
        else:
            exprs = tuple(frame.expr(v, node) for v in values)
        if frame.jit:
            self._no_numbers(exprs, node)
        frame.result = exprs
        frame.context.emit(ReturnStmt(exprs, frame.span(node)))

    def _no_numbers(self, values: tuple[Expr, ...], node: ast.Return) -> None:
        """Entries and kernels hand back arrays that their caller, or the launcher, provides."""
        if any(isinstance(v.type, ScalarType) for v in values):
            kind = "an entry" if self.frame.context.func_type is FunctionType.Orchestration else "a kernel"
            what = f"'{self.frame.source.name}' returns a number: {kind} returns tensors"
            hint = "write it into a pl.Out parameter, pl.write(o, [0], value), and return that"
            self.frame.fail(NotSupportedError, what, node, hint)

    def on_If(self, node: ast.If) -> None:
        branches.conditional(self, node)

    def on_For(self, node: ast.For) -> None:
        loops.for_loop(self, node)

    def on_While(self, node: ast.While) -> None:
        loops.natural_while(self, node)

    def on_With(self, node: ast.With) -> None:
        scopes.with_scope(self, node)

    def on_Break(self, node: ast.Break) -> None:
        self._leave(node, "break")
        self.frame.context.emit(BreakStmt(self.frame.span(node)))

    def on_Continue(self, node: ast.Continue) -> None:
        self._leave(node, "continue")
        self.frame.context.emit(ContinueStmt(self.frame.span(node)))

    def _leave(self, node: ast.stmt, word: str) -> None:
        kind = self.frame.loops[-1] if self.frame.loops else ""
        if kind in ("range", "while"):
            return
        where = {
            "": "outside loop",
            "parallel": "not supported in parallel loops",
            "unroll": "not supported in unrolled loops",
            "pipeline": "not supported in pipeline loops",
            "at": "cannot leave a 'with pl.at(...)' body",
            "cluster": "cannot leave a 'with pl.cluster()' body",
            "spmd": "not supported inside a 'for ... in pl.spmd(...)' body",
            "split_aiv": "not supported inside a 'for ... in pl.split_aiv(...)' body",
        }[kind]
        self.frame.fail(InvalidOperationError, f"'{word}' {where}", node, "break and continue need a pl.range or while loop")


_BIND = 'a.bind_dynamic(0, N), where a is a tensor parameter and N = pl.dynamic("N")'
_INSTEAD = {
    "AsyncFor": "write `for i in pl.range(n):`",
    "AsyncWith": "write `with`",
    "AsyncFunctionDef": "define the helper outside, with `def`, and mark it with @pl.jit.inline",
    "ClassDef": "define it outside the kernel, and bind what the kernel needs to plain names",
    "Raise": "check what is known at compile time with pl.static_assert, and arguments before the call",
    "TryStar": "a kernel raises nothing that it could catch",
    "TypeAlias": "define it outside the kernel",
    "Try": "a kernel raises nothing that it could catch",
    "FunctionDef": "define the helper outside and mark it with @pl.jit.inline",
    "Assert": "use pl.static_assert for what is known while the kernel is compiled",
    "Delete": "a name may simply be left alone",
    "Import": "import outside the kernel",
    "ImportFrom": "import outside the kernel",
    "Match": "use if / elif",
    "Global": "pass the value as a parameter",
    "Nonlocal": "pass the value as a parameter",
}


def _without_memref(t: Type) -> Type:
    return t.replace(memref=None) if isinstance(t, ShapedType) else t

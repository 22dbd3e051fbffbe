"""Expressions of a kernel's body.

In: syntax nodes.  Out: values: IR expressions where something is known only at run time, Python values elsewhere.
Extends the constant evaluator with the kernel's names, operators on run-time values, subscripts and calls.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from pypto._lazy import later
from pypto.errors import InvalidOperationError, ParserTypeError, UnsupportedFeatureError, closest
from pypto.frontend import calls, invoke, operators, raw, subscripts
from pypto.frontend.constants import Evaluator, describe, index_hint, is_number, known_names
from pypto.frontend.frame import Frame
from pypto.frontend.source import Source
from pypto.frontend.values import is_const_expr, scalar_dtype, type_text, value_text
from pypto.ir import ops
from pypto.ir.expr import Expr, MakeTuple, TupleGetItemExpr, Var
from pypto.ir.expr import MemRef as IrMemRef
from pypto.ir.shaped import ShapedType, TensorType, const_dim
from pypto.ir.types import ArrayType, TupleType, Type
from pypto.language._spelling import near as near_name
from pypto.language.annotations import MemRef
from pypto.language.annotations import const as language_const
from pypto.language.operations import Construct, Namespace, Operation, Unsupported
from pypto.language.symbols import DynVar, SymbolicInt

if TYPE_CHECKING:
    from pypto.frontend import instead
else:
    instead = later("pypto.frontend", "instead")

__all__ = ["Expressions"]

_LISTED = "docs/operators.md lists what a kernel can call"


class Expressions(Evaluator):
    """The evaluator of one frame."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame.source)
        self.frame = frame
        self.calling: ast.Call | None = None  # the call whose function is being read
        self.annotating = False
        self.annotated: tuple[ast.expr | None, Type | None] = (None, None)  # an assigned expression, the type its name states

    # -- names --

    def on_Name(self, node: ast.Name) -> Any:
        if self.annotating and self.source.function is None and self.frame.scope.get(node.id) is None:
            value = self.source.lookup(node.id)
            return DynVar(node.id) if value is Source.ABSENT else value
        return self.frame.read(node.id, node)

    def annotation(self, node: ast.expr) -> Any:
        """The value of an annotation; in a text, an unknown name there is a dynamic extent."""
        before, self.annotating = self.annotating, True
        try:
            return self.value(node)
        finally:
            self.annotating = before

    def on_Attribute(self, node: ast.Attribute) -> Any:
        base = self.value(node.value)
        if isinstance(base, Expr):
            return self._property(base, node)
        if isinstance(base, invoke.Members):
            return invoke.Callee(node.attr)
        return self.attribute(base, node)

    def _property(self, base: Expr, node: ast.Attribute) -> Any:
        t = base.type
        if isinstance(t, ShapedType) and node.attr == "dtype":
            return t.dtype
        if isinstance(t, ShapedType) and node.attr == "shape":
            return tuple(self._extent(base, i, node) for i in range(len(t.shape)))
        self.fail(
            UnsupportedFeatureError,
            f"Standalone attribute access not supported: {ast.unparse(node)}",
            node,
            self._instead_of_attribute(base, node),
        )

    def _extent(self, base: Expr, axis: int, node: ast.AST) -> Any:
        t = base.type
        assert isinstance(t, ShapedType)
        fixed = const_dim(t.shape[axis])
        if fixed is not None:
            return fixed
        held = base if isinstance(base, Var) else self.frame.plain(base, node)
        return self.frame.plain(calls.build(self, node, "tensor", "dim", {"tensor": held, "axis": axis}), node)

    def no_attribute(self, base: Any, node: ast.Attribute) -> NoReturn:
        text, names = ast.unparse(node), [n for n in dir(base) if not n.startswith("_")]
        hint = closest(node.attr, names) or known_names(names)
        if isinstance(base, Namespace):
            self.fail(InvalidOperationError, f"Unknown pl.{base.__name__} operation: {node.attr}", node, hint)
        if getattr(base, "__name__", "") == "pypto.language":
            called = self.calling is not None and node is self.calling.func
            if called and self.calling is not None:
                near = closest(node.attr, [n for n in names if callable(getattr(base, n))], likeness=0.75)
                hint = self._instead(node.attr, self.calling, default=near or known_names(names))
            else:
                hint = near_name(node.attr, names) or hint
            kind = InvalidOperationError if called else ParserTypeError
            self.fail(kind, f"Unknown operation '{text}'" if called else f"Unknown name '{text}'", node, hint)
        super().no_attribute(base, node)

    def attribute(self, base: Any, node: ast.Attribute) -> Any:
        if self.frame.raw and isinstance(base, Namespace):
            known = ops.find(f"{base.__name__}.{node.attr.rstrip('_')}") is not None
            if known or not hasattr(base, node.attr):
                return Operation(base.__name__, node.attr)
        return super().attribute(base, node)

    # -- operators --

    def _static(self, *values: Any) -> bool:
        return not self.frame.raw and all(is_number(v) for v in values)

    def _ready(self, value: Any, node: ast.AST) -> Any:
        return self.frame.expr(value, node) if isinstance(value, SymbolicInt) else self.frame.surrounding(value, node)

    def binary(self, node: ast.BinOp, f: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        left, right = self._ready(left, node.left), self._ready(right, node.right)
        if self._static(left, right):
            return super().binary(node, f, left, right)
        return operators.binary(self, node, left, right)

    def unary(self, node: ast.UnaryOp, f: Callable[[Any], Any], value: Any) -> Any:
        value = self._ready(value, node.operand)
        if self._static(value) or (is_number(value) and isinstance(node.op, ast.USub)):
            return super().unary(node, f, value)
        return operators.unary(self, node, value)

    def compare(self, node: ast.Compare, f: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        left, right = self._ready(left, node.left), self._ready(right, node.comparators[0])
        if self._static(left, right):
            return super().compare(node, f, left, right)
        if not isinstance(left, Expr) and not isinstance(right, Expr) and not self.frame.raw:
            # dtypes, enumeration members and strings can be compared while the text is read
            return bool(f(left, right))
        return operators.compare(self, node, left, right)

    def logic(self, node: ast.BoolOp, values: list[Any]) -> Any:
        values = [self._ready(v, n) for v, n in zip(values, node.values, strict=True)]
        if self._static(*values):
            return super().logic(node, values)
        return operators.logic(self, node, values)

    def apply(self, node: ast.expr, name: str, *args: Any, **keywords: Any) -> Expr:
        """The DSL entry `pl.<name>` on values that are already there."""
        entry = ops.find_dsl("", name)
        if entry is None:
            what = f"operator not available for tensors and tiles: pl.{name}"
            self.fail(
                UnsupportedFeatureError, what, node, "tensors and tiles take + - * / and comparisons; see docs/operators.md"
            )
        named = dict(zip((p.name for p in entry.params), args, strict=False))
        values = {k: self.frame.expr(v, node) for k, v in named.items()}
        return calls.build(self, node, "", name, {**values, **keywords})

    # -- subscripts --

    def subscript(self, node: ast.Subscript, base: Any) -> Any:
        if not isinstance(base, Expr):
            if isinstance(base, MemRef) or not isinstance(node.slice, ast.Slice):
                return super().subscript(node, base)
            what = f"{describe(base)} cannot be sliced"
            self.fail(ParserTypeError, what, node, "only tensors and tiles can; write the elements out")
        if isinstance(base, IrMemRef):
            return raw.slot(self, node, base)
        if isinstance(base.type, TupleType):
            return self._element(node, base)
        if isinstance(base.type, (ShapedType, ArrayType)):
            return subscripts.read(self, node, base)
        what = "only tensors, tiles, arrays and tuples can be subscripted"
        self.fail(ParserTypeError, what, node, f"this is {type_text(base.type)}: use it as it is")

    def _element(self, node: ast.Subscript, base: Expr) -> Any:
        index = self.value(node.slice)
        if type(index) is not int:
            hint = "write the number, or unpack the tuple: x, y = pair"
            self.fail(ParserTypeError, "a tuple is subscripted by a constant index", node.slice, hint)
        assert isinstance(base.type, TupleType)
        n = len(base.type.types)
        if not -n <= index < n:
            self.fail(ParserTypeError, f"index {index} is not within a tuple of {n}", node.slice, index_hint(n))
        if isinstance(base, MakeTuple) and not self.frame.raw:
            return base.elements[index]
        return TupleGetItemExpr(base, index % n, self.frame.span(node))

    # -- calls --

    def on_Call(self, node: ast.Call) -> Any:
        if self.frame.raw:
            made = raw.function_form(self, node)
            if made is not None:
                return made
        before, self.calling = self.calling, node
        f = self.value(node.func)
        self.calling = before
        return self.call(node, f)

    def call(self, node: ast.Call, f: Any) -> Any:
        if isinstance(f, Operation):
            return calls.operation(self, node, f)
        if isinstance(f, Construct):
            return self._construct(node, f)
        if f is language_const:
            return operators.constant(self, node)
        if f is MemRef and len(node.args) == 3:
            return raw.memref(self, node)
        made = invoke.function(self, node, f)
        if made is not invoke.NOT_A_FUNCTION:
            return made
        if callable(f) and not self._language(f):
            name = getattr(f, "__name__", "")
            hint = self._instead(name, node) if _is_library(f) else "mark helpers with @pl.jit.inline or @pl.jit.incore"
            self.fail(UnsupportedFeatureError, f"Unsupported function call: {ast.unparse(node)}", node, hint)
        return super().call(node, f)

    # -- what to write instead --

    def _operand(self, node: ast.expr) -> instead.Operand:
        value = self.value(node)
        parts = value if isinstance(value, tuple) else (value,)
        types = [v.type for v in parts if isinstance(v, Expr) and not is_const_expr(v)]
        return instead.Operand(ast.unparse(node), types[0] if types else None)

    def _instead(self, name: str, node: ast.Call, *receiver: instead.Operand, default: str = _LISTED) -> str:
        """A hint for a call of Python's or numpy's, or of a method of a tensor, tile or number."""
        given = () if name == "print" else tuple(map(self._operand, node.args))
        keywords = {k.arg: ast.unparse(k.value) for k in node.keywords if k.arg is not None}
        return instead.for_name(name, (*receiver, *given), keywords) or default

    def _instead_of_attribute(self, base: Expr, node: ast.Attribute) -> str:
        receiver = instead.Operand(ast.unparse(node.value), base.type)
        if self.calling is not None and self.calling.func is node:
            return self._instead(node.attr, self.calling, receiver)
        default = "a number has no attributes" if scalar_dtype(base) is not None else "a tensor or tile has .shape and .dtype"
        return instead.for_name(node.attr, (receiver,), {}) or default

    def unsupported(self, name: Unsupported, node: ast.AST) -> NoReturn:
        error = name.error()
        default = error.hint or "leave it out"
        self.fail(
            type(error),
            error.message,
            node,
            self._instead(name.name, node, default=default) if isinstance(node, ast.Call) else default,
        )

    def _float(self, node: ast.Call) -> float:
        if isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
            return super()._float(node)
        self.fail(UnsupportedFeatureError, f"Unsupported function call: {ast.unparse(node)}", node, self._instead("float", node))

    def _language(self, f: Any) -> bool:
        return str(getattr(f, "__module__", "")).startswith("pypto.") or f is float

    def _construct(self, node: ast.Call, f: Construct) -> Any:
        if f.name in ("min", "max"):
            return operators.extremum(self, node, f.name)
        if f.name == "cond":
            self.fail(
                InvalidOperationError, "Unknown operation 'pl.cond'", node, "pl.cond is the first statement of a pl.while_ loop"
            )
        if f.name == "submit" and self.frame.raw and node.args:
            kernel = self.value(node.args[0])
            if isinstance(kernel, invoke.Callee):
                return raw.submit(self, node, kernel.name)
        if f.name == "no_dep" and len(node.args) == 1 and not node.keywords:
            marked = self.value(node.args[0])
            if not isinstance(marked, Expr) or not isinstance(marked.type, TensorType):
                what = f"pl.no_dep marks a tensor, got {value_text(marked)}"
                self.fail(ParserTypeError, what, node.args[0], "kernel(pl.no_dep(a)), where a is a tensor")
            return marked
        self.fail(
            UnsupportedFeatureError,
            f"{f.spelling} cannot stand in an expression",
            node,
            "it is a statement of its own, or the right-hand side of one",
        )

    def known_names(self) -> list[str]:
        return [*self.frame.scope.names, *super().known_names()]


def _is_library(f: Any) -> bool:
    """A function of Python itself or of an array library, which nobody can mark as a helper."""
    module = str(getattr(f, "__module__", None) or type(f).__module__).partition(".")[0]
    return (module in sys.stdlib_module_names and module != "__main__") or module in ("numpy", "scipy", "torch", "ml_dtypes")

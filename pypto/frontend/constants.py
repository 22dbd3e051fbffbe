"""The constant evaluator: what an expression of names, numbers and annotations stands for, without running user code.

In: syntax nodes and a `Source` that resolves names.  Out: Python values: numbers folded by Python's rules, dtypes,
enumeration members, tuples, symbolic extents, annotations.  Only the language's own objects are ever called.
"""

from __future__ import annotations

import ast
import enum
import operator
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from pypto.dtypes import DataType
from pypto.errors import (
    Error,
    ParserSyntaxError,
    ParserTypeError,
    UndefinedVariableError,
    UnsupportedFeatureError,
    closest,
)
from pypto.frontend.diagnostics import fail_at
from pypto.frontend.source import Source, is_namespace, parse_annotation
from pypto.language.annotations import Annotation, Directed, MemRef, MemRefSlot, TensorView, TileView
from pypto.language.annotations import const as language_const
from pypto.language.operations import Namespace, Unsupported
from pypto.language.symbols import DynVar, SymbolicInt, dynamic

__all__ = ["BINARY", "COMPARE", "INSTEAD", "Evaluator", "evaluate_annotations", "is_number"]

BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", operator.pow),
    ast.LShift: ("<<", operator.lshift),
    ast.RShift: (">>", operator.rshift),
    ast.BitAnd: ("&", operator.and_),
    ast.BitOr: ("|", operator.or_),
    ast.BitXor: ("^", operator.xor),
}
# What to write for operators that the language does not have.
_BITS = "join conditions with `and` and `or`; run-time integers have << and >>, // and %, but no bitwise operators"
INSTEAD: dict[type[ast.operator], str] = {
    ast.Pow: "multiply the value by itself: x * x",
    ast.MatMult: "write pl.matmul(a, b), which also takes out_dtype, a_trans and b_trans",
    ast.BitAnd: _BITS,
    ast.BitOr: _BITS,
    ast.BitXor: _BITS,
}
# What to write for expressions that the language does not have.
_OUTSIDE = "compute the value outside the kernel and bind it to a name"
_LOOP = "write a loop, `for i in pl.range(n):`, or build the list outside the kernel"
_INSTEAD_OF_EXPRESSION: dict[type[ast.expr], str] = {
    ast.IfExp: "write an `if` with an assignment in both arms",
    ast.Lambda: "define the helper outside and mark it with @pl.jit.inline",
    ast.ListComp: _LOOP,
    ast.SetComp: _LOOP,
    ast.DictComp: _LOOP,
    ast.GeneratorExp: _LOOP,
    ast.Set: "write a list or a tuple",
    ast.NamedExpr: "assign the name in a statement of its own",
    ast.Yield: "return the results at the end of the kernel",
    ast.YieldFrom: "return the results at the end of the kernel",
    ast.Await: "leave `await` out: a kernel runs to its end",
    ast.Starred: "write the elements out",
    ast.JoinedStr: "texts can be formatted in pl.static_print only",
}
COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
# What a kernel's text may call while it is read: constructors of inert language values.
_CALLABLE: tuple[Any, ...] = (TensorView, TileView, MemRef, dynamic, DynVar, language_const)
_VALUES = (str, DataType, enum.Enum, SymbolicInt, MemRef, MemRefSlot, TensorView, TileView, Annotation, Directed)


_WRITTEN: tuple[tuple[Any, str], ...] = (
    (TensorView, "pl.TensorView(layout=pl.ND, stride=[...], valid_shape=[...])"),
    (TileView, "pl.TileView(valid_shape=[...], blayout=..., slayout=...)"),
    (MemRef, "BUF = pl.MemRef('name', slots=N) outside the kernel, and BUF[k] with k below N"),
    (dynamic, "pl.dynamic('N')"),
    (DynVar, "pl.dynamic('N')"),
    (language_const, "pl.const(1, pl.INT32)"),
)


def is_number(value: Any) -> bool:
    """A plain Python number: numpy scalars and subclasses are not."""
    return type(value) in (int, float, bool)


class Evaluator:
    """Evaluates constant expressions; subclasses add names and nodes with run-time values."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def fail(self, kind: type[Error], message: str, node: ast.AST, hint: str, note: str | None = None) -> NoReturn:
        fail_at(kind, message, self.source, node, hint, note)

    def value(self, node: ast.expr) -> Any:
        """The value of an expression."""
        method = getattr(self, "on_" + type(node).__name__, None)
        if method is None:
            what = f"Unsupported expression type: {type(node).__name__}"
            self.fail(UnsupportedFeatureError, what, node, _INSTEAD_OF_EXPRESSION.get(type(node), _OUTSIDE))
        return method(node)

    # -- leaves --

    def on_Constant(self, node: ast.Constant) -> Any:
        if node.value is None or type(node.value) in (int, float, bool, str):
            return node.value
        hint = (
            "write a float: kernels have no complex numbers"
            if isinstance(node.value, complex)
            else "numbers, True, False and texts can be written"
        )
        self.fail(UnsupportedFeatureError, f"Unsupported literal: {node.value!r}", node, hint)

    def on_Name(self, node: ast.Name) -> Any:
        value = self.source.lookup(node.id)
        if value is Source.ABSENT:
            hint = closest(node.id, self.known_names()) or "define it before this line, at the level of the module"
            self.fail(UndefinedVariableError, f"Undefined variable '{node.id}'", node, hint)
        return value

    def known_names(self) -> list[str]:
        return [*self.source.cells, *self.source.globals]

    def on_Attribute(self, node: ast.Attribute) -> Any:
        base = self.value(node.value)
        return self.attribute(base, node)

    def attribute(self, base: Any, node: ast.Attribute) -> Any:
        """`base.name` where base is a module, an enumeration or one of the language's namespaces."""
        if isinstance(base, Unsupported):
            self.unsupported(base, node)
        if (
            isinstance(base, DataType)
            or (isinstance(base, Annotation) and node.attr in ("shape", "dtype"))
            or is_namespace(base)
            or isinstance(base, Namespace)
        ):
            found = getattr(base, node.attr, Source.ABSENT)
        else:
            text = ast.unparse(node)
            self.fail(
                UnsupportedFeatureError,
                f"Standalone attribute access not supported: {text}",
                node,
                "bind the value to a plain name outside the kernel and use that name",
            )
        if found is Source.ABSENT:
            self.no_attribute(base, node)
        return found

    def no_attribute(self, base: Any, node: ast.Attribute) -> NoReturn:
        text = ast.unparse(node)
        names = [n for n in dir(base) if not n.startswith("_")]
        kind = ParserTypeError if text.startswith("pl.") else UndefinedVariableError
        what = f"Unknown name '{text}'"
        self.fail(kind, what, node, closest(node.attr, names) or known_names(names))

    def unsupported(self, name: Unsupported, node: ast.AST) -> NoReturn:
        """A name that is known, and not executed here."""
        error = name.error()
        self.fail(type(error), error.message, node, error.hint or "leave it out")

    def on_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.value(e) for e in node.elts)

    def on_List(self, node: ast.List) -> Any:
        return tuple(self.value(e) for e in node.elts)

    def on_Dict(self, node: ast.Dict) -> Any:
        found: dict[str, Any] = {}
        for k, v in zip(node.keys, node.values, strict=True):
            if not isinstance(k, ast.Constant) or not isinstance(k.value, str):
                hint = "write each key as a literal, {'key': value}"
                self.fail(ParserSyntaxError, "the keys of a dict here are string literals", k or node, hint)
            if k.value in found:
                self.fail(ParserSyntaxError, f"'{k.value}' is given twice", k, "keep one of the two")
            found[k.value] = self.value(v)
        return found

    # -- operators on constants --

    def on_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        f = _UNARY.get(type(node.op))
        if f is None:
            self.fail(UnsupportedFeatureError, f"Unsupported unary operator: {type(node.op).__name__}", node, "leave it out")
        return self.unary(node, f, value)

    def unary(self, node: ast.UnaryOp, f: Callable[[Any], Any], value: Any) -> Any:
        return self.compute(node, f, value)

    def on_BinOp(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        known = BINARY.get(type(node.op))
        if known is None:
            what = f"Unsupported binary operator: {type(node.op).__name__}"
            self.fail(UnsupportedFeatureError, what, node, INSTEAD[type(node.op)])
        return self.binary(node, known[1], left, right)

    def binary(self, node: ast.BinOp, f: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        return self.compute(node, f, left, right)

    def compute(self, node: ast.expr, f: Callable[..., Any], *values: Any) -> Any:
        """Python's own result on plain numbers and symbolic extents."""
        for v in values:
            if not is_number(v) and not isinstance(v, SymbolicInt):
                hint = "operators take numbers, tensors and tiles; compute anything else outside the kernel and bind it to a name"
                self.fail(UnsupportedFeatureError, f"operator on {describe(v)} is not supported", node, hint)
        try:
            return f(*values)
        except ZeroDivisionError:
            self.fail(ParserTypeError, "division by zero", node, "a constant divisor must not be zero")
        except (TypeError, ValueError, OverflowError) as e:
            self.fail(ParserTypeError, str(e), node, "Python computes with constants by its own rules: change the operands")

    def on_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) != 1:
            self.fail(
                ParserSyntaxError,
                "Only simple comparisons supported",
                node,
                "compare two values at a time: `a < n and n < b` for numbers, `(a < x) * (x < b)` for tensors of floats, whose "
                "comparison is 1 or 0 for each element, pl.and_(a < x, x < b) for tiles and for tensors of integers",
            )
        known = COMPARE.get(type(node.ops[0]))
        if known is None:
            what = f"Unsupported comparison: {type(node.ops[0]).__name__}"
            hint = "kernels compare with ==, !=, <, <=, > and >=; join several comparisons with `and` and `or`"
            self.fail(UnsupportedFeatureError, what, node, hint)
        return self.compare(node, known[1], self.value(node.left), self.value(node.comparators[0]))

    def compare(self, node: ast.Compare, f: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        return self.compute(node, f, left, right)

    def on_BoolOp(self, node: ast.BoolOp) -> Any:
        values = [self.value(v) for v in node.values]
        return self.logic(node, values)

    def logic(self, node: ast.BoolOp, values: list[Any]) -> Any:
        if not all(is_number(v) for v in values):
            self.fail(UnsupportedFeatureError, "`and` and `or` take numbers", node, "compare first: `x != 0 and y != 0`")
        return all(values) if isinstance(node.op, ast.And) else any(values)

    # -- brackets and calls --

    def on_Subscript(self, node: ast.Subscript) -> Any:
        return self.subscript(node, self.value(node.value))

    def subscript(self, node: ast.Subscript, base: Any) -> Any:
        """Annotations, slots of declared allocations, elements of constant tuples."""
        if isinstance(base, Unsupported):
            self.unsupported(base, node)
        index = self.value(node.slice)
        if isinstance(base, (list, tuple)):
            if type(index) is not int or not -len(base) <= index < len(base):
                what = f"index {describe(index)} is not within a tuple of {len(base)}"
                self.fail(ParserTypeError, what, node, index_hint(len(base)))
            return base[index]
        form: Any = base
        if hasattr(base, "form") and not isinstance(node.slice, ast.Tuple):
            index = (index,)  # `pl.Tensor[[4, 8]]` has one argument
        if isinstance(base, MemRef) or (isinstance(base, type) and hasattr(type(base), "__getitem__")):
            try:
                return form[index]
            except (KeyError, TypeError, ValueError) as e:
                self.fail(ParserTypeError, str(e), node, _form_of(base))
        if base is tuple:  # `tuple[T0, T1]` as a return annotation
            return Annotation("tuple", index if isinstance(index, tuple) else (index,))
        hint = "only tensors, tiles, arrays, tuples and annotations take square brackets"
        self.fail(ParserTypeError, f"{describe(base)} cannot be subscripted", node, hint)

    def on_Call(self, node: ast.Call) -> Any:
        f = self.value(node.func)
        return self.call(node, f)

    def call(self, node: ast.Call, f: Any) -> Any:
        """A call of one of the language's inert constructors, or of a dtype's own question."""
        if isinstance(f, Unsupported):
            self.unsupported(f, node)
        if f is float and len(node.args) == 1 and not node.keywords:
            return self._float(node)
        own = isinstance(getattr(f, "__self__", None), DataType) and not node.args and not node.keywords
        if not own and not any(f is c for c in _CALLABLE):
            hint = "a kernel calls operators of pypto.language, and helpers marked with @pl.jit.inline or @pl.jit.incore"
            self.fail(UnsupportedFeatureError, f"Unsupported function call: {ast.unparse(node)}", node, hint)
        args = [self.value(a) for a in node.args]
        keywords = {}
        for k in node.keywords:
            if k.arg is None:
                self.fail(UnsupportedFeatureError, "`**` in a call is not supported", node, "write the keywords out")
            keywords[k.arg] = self.value(k.value)
        try:
            return f(*args, **keywords)
        except (TypeError, ValueError) as e:
            self.fail(ParserTypeError, str(e), node, _form_of(f))

    def _float(self, node: ast.Call) -> float:
        """`float("nan")` and its like: values that have no literal."""
        text = self.value(node.args[0])
        if text not in ("nan", "inf", "-inf"):
            hint = 'float("nan"), float("inf") and float("-inf") have no literal; write any other number as it is'
            self.fail(UnsupportedFeatureError, f"Unsupported function call: {ast.unparse(node)}", node, hint)
        return float(text)


def known_names(names: Iterable[str]) -> str:
    """A hint that lists what there is, as far as that is short."""
    found = list(names)
    return (
        f"there are {', '.join(found)}"
        if 0 < len(found) <= 12
        else "the names are listed in docs/operators.md and docs/language.md"
    )


def index_hint(extent: int) -> str:
    return f"indices run from 0 to {extent - 1}" if extent else "the tuple is empty"


def _form_of(f: Any) -> str:
    """How one of the language's constructors is called, or what stands in the brackets of `f`."""
    if isinstance(f, enum.EnumMeta):
        return known_names(f.__members__)
    written = next((text for form, text in _WRITTEN if f is form or (isinstance(form, type) and isinstance(f, form))), None)
    return f"write {written}" if written else "its form is that of the language: see docs/language.md"


def describe(value: Any) -> str:
    """A value in an error message."""
    if isinstance(value, DataType):
        return f"pl.{value.name}"
    if value is None or is_number(value) or isinstance(value, (str, SymbolicInt)):
        return repr(value)
    if isinstance(value, type):
        return value.__name__
    return f"a value of type {type(value).__name__}"


def is_constant(value: Any) -> bool:
    """Values that a kernel may take from its surroundings as they are."""
    if value is None or is_number(value) or isinstance(value, _VALUES):
        return True
    return isinstance(value, (list, tuple)) and all(map(is_constant, value))


def evaluate_annotations(source: Source) -> dict[str, Any]:
    """Parameter annotations as values; Python evaluated them already unless they are postponed or quoted."""
    given = dict(source.function.__annotations__) if source.function is not None else {}
    nodes = {n: p.annotation for n, p in source.parameter_nodes.items() if p.annotation is not None}
    if source.node.returns is not None:
        nodes["return"] = source.node.returns
    found: dict[str, Any] = {}
    evaluator = Evaluator(source)
    for name, node in nodes.items():
        value = given.get(name, Source.ABSENT)
        if value is not Source.ABSENT and not isinstance(value, str):
            found[name] = value
            continue
        tree: ast.expr | None = node
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            tree = parse_annotation(node.value)
            if tree is None:
                hint = "write the annotation without quotes, or quote one expression such as 'pl.Tensor'"
                fail_at(ParserTypeError, f"annotation of '{name}' is no expression: {node.value!r}", source, node, hint)
            ast.copy_location(tree, node)
        assert tree is not None
        try:
            found[name] = evaluator.value(tree)
        except UndefinedVariableError as e:
            e.message = f"{e.message} in the annotation of '{name}'"
            e.hint = (
                e.hint or "a postponed annotation sees globals and the names that the body uses; use the name in the body too"
            )
            raise
    return found

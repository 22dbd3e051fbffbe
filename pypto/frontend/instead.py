"""What to write instead of functions, methods and attributes of Python, numpy and torch.

In: a name and its operands, as written and as what they stand for.  Out: a hint in the user's own words, None where the
name means nothing to arrays.  Invariant: what a hint spells out is accepted by the language.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from pypto.dtypes import DataType
from pypto.frontend.constants import INSTEAD
from pypto.frontend.recipes import RECIPES, in_domain
from pypto.ir import ops
from pypto.ir.ops.rules import number_form
from pypto.ir.shaped import ShapedType, TensorType, TileType
from pypto.ir.types import ScalarType, Type
from pypto.named import NamedTuple

__all__ = ["Operand", "aug_assignment", "choice", "for_name", "power"]


class Operand(NamedTuple):
    """One operand as written; `type` is None for a value that is known while the kernel is read."""

    text: str
    type: Type | None

    @property
    def shaped(self) -> bool:
        return isinstance(self.type, ShapedType)

    @property
    def tile(self) -> bool:
        return isinstance(self.type, TileType)

    @property
    def scalar(self) -> bool:
        return isinstance(self.type, ScalarType)

    @property
    def inner(self) -> str:
        """The text as an operand of `*` and the like, or before a dot."""
        node = ast.parse(self.text, mode="eval").body
        return (
            self.text if isinstance(node, (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript)) else f"({self.text})"
        )


Rule = Callable[[Operand, Sequence[Operand], Mapping[str, str]], str]


def for_name(name: str, operands: Sequence[Operand], keywords: Mapping[str, str]) -> str | None:
    """What to write for `numpy.<name>(*operands)`, `<name>(*operands)` or `operands[0].<name>(...)`."""
    rule = _RULES.get(name)
    if not operands:
        return rule(Operand("x", None), (), keywords) if rule is not None and name in _WITHOUT_OPERANDS else None
    x, rest = operands[0], operands[1:]
    if all(o.type is None for o in operands) and name not in _WITHOUT_OPERANDS:
        return _of_constant(name, x.text) or _CONSTANT
    number = next((o.type.dtype for o in operands if isinstance(o.type, ScalarType)), None)
    if number is not None and not any(o.shaped for o in operands):
        return _number(name, x, rest, number)
    known = _NAMES.get(name, name)
    entry = ops.find_dsl("", known)
    if rule is not None and (entry is None or name in ("reshape", "full", "concat")):
        return rule(x, rest, keywords)
    if entry is None:
        return None
    if known == "transpose" and len(operands) == 1 and isinstance(x.type, TensorType) and len(x.type.shape) == 2:
        return f"write pl.transpose({x.text}, 0, 1)"
    enough = len(operands) >= sum(p.required for p in entry.params)
    return f"write pl.{known}({', '.join(o.text for o in operands)})" if enough else f"write pl.{entry.signature()}"


def _of_constant(name: str, text: str) -> str | None:
    """`float(2)` and the like of a number that is written out."""
    make = {"float": float, "int": int}.get(name)
    try:
        return f"write {make(ast.literal_eval(text))!r}" if make is not None else None
    except (TypeError, ValueError, OverflowError, SyntaxError):
        return None


def _number(name: str, x: Operand, rest: Sequence[Operand], dtype: DataType) -> str | None:
    """The same where all operands are numbers, and one of them is known only at run time."""
    if name in _OF_NUMBERS:
        return _OF_NUMBERS[name].format(x=x.text, i=x.inner)
    if name in ("min", "max", "minimum", "maximum") and rest:
        word, text = f"pl.{name[:3]}", x.text
        for o in rest:
            text = f"{word}({text}, {o.text})"
        return f"write {text}"
    known = _NAMES.get(name, name)
    if known in _OPERATORS and len(rest) == 1:
        return f"write {x.inner} {_OPERATORS[known]} {rest[0].inner}"
    return number_form(known, x.text, dtype) if ops.find_dsl("", known) is not None else None


_OF_NUMBERS = {
    "abs": "write pl.max({x}, -{i})",
    "absolute": "write pl.max({x}, -{i})",
    "fabs": "write pl.max({x}, -{i})",
    "int": "write pl.cast({x}, pl.INT32), which truncates toward zero",
    "trunc": "write pl.cast({x}, pl.INT32), which truncates toward zero",
    "float": "write pl.cast({x}, pl.FP32)",
    "round": "write pl.cast({i} + 0.5, pl.INT32) for a number that is not negative: pl.cast truncates toward zero",
    "bool": "write {i} != 0, or {i} != 0.0 for a float",
    "item": "it is one number: use {x} as it is",
    "square": "write {i} * {i}",
    "neg": "write -{i}",
    "negative": "write -{i}",
    "relu": "write pl.max({x}, 0.0)",
    "print": "remove it: pl.static_print prints constants while the kernel is compiled; a run-time value is seen by writing it "
    "into an output with pl.write",
}
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%"}
_DTYPES = {
    "float": "FP32", "float32": "FP32", "single": "FP32", "float16": "FP16", "half": "FP16", "bfloat16": "BF16", "int": "INT32",
    "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64", "uint8": "UINT8", "uint16": "UINT16",
    "uint32": "UINT32", "uint64": "UINT64", "bool": "BOOL",
}  # fmt: skip
# numpy's and torch's names of operators that the language calls otherwise
_NAMES = {
    "absolute": "abs", "fabs": "abs", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div",
    "floor_divide": "floordiv", "remainder": "mod", "negative": "neg", "reciprocal": "recip", "fmax": "maximum",
    "fmin": "minimum", "leaky_relu": "lrelu", "mm": "matmul", "dot": "matmul", "T": "transpose", "mT": "transpose",
    "permute": "transpose", "swapaxes": "transpose", "t": "transpose",
}  # fmt: skip


# -- tensors and tiles ---------------------------------------------------------------------------------------------


def _fixed(text: str) -> Rule:
    """The same words for every operand: `{x}` is its text, `{i}` that text before an operator or a dot."""
    return lambda x, rest, keywords: text.format(x=x.text, i=x.inner)


def _reduction(word: str, mean: bool = False) -> Rule:
    """Reductions have a name for each axis; on tiles those along rows need a scratch tile."""

    def rule(x: Operand, rest: Sequence[Operand], keywords: Mapping[str, str]) -> str:
        if rest and rest[0].shaped and word in ("max", "min"):
            return f"write pl.{word}imum({x.text}, {rest[0].text})"
        along = {"1": "row", "-1": "row", "0": "col", "-2": "col"}
        axis = keywords.get("axis", keywords.get("dim", rest[0].text if rest else ""))
        spelled = {a: _reduced(x, a, word, mean) for a in ("row", "col")}
        scratch = f"; tmp is a scratch tile like {x.text}" if x.tile else ""
        # Python's `max(x, 0)` and numpy's `max(x, 0)` look alike.
        pair = f"pl.{word}imum({x.text}, {rest[0].text})" if rest and word in ("max", "min") else ""
        if pair and axis not in along:
            return f"write {pair}"
        pair = pair and f"; {pair} compares element by element"
        if axis in along:
            kind = along[axis]
            return f"write {spelled[kind]}" + (scratch if ", tmp)" in spelled[kind] else "") + pair
        return f"write {spelled['row']} for one value per row, {spelled['col']} for one per column{scratch}"

    return rule


def _reduced(x: Operand, along: str, word: str, mean: bool) -> str:
    tmp = ", tmp" if x.tile and (along == "row" or word.startswith("arg")) else ""
    text = f"pl.{along}_{word}({x.text}{tmp})"
    return f"{text} * (1.0 / {x.inner}.shape[{1 if along == 'row' else 0}])" if mean else text


def _cast(x: Operand, rest: Sequence[Operand], keywords: Mapping[str, str]) -> str:
    wanted = keywords.get("dtype", rest[0].text if rest else "").strip("'\"").rpartition(".")[2]
    return f"write pl.cast({x.text}, pl.{_DTYPES.get(wanted, wanted if wanted in _DTYPES.values() else 'FP32')})"


def _to(dtype: str) -> Rule:
    return lambda x, rest, keywords: f"write pl.cast({x.text}, pl.{dtype})"


def _reshape(x: Operand, rest: Sequence[Operand], keywords: Mapping[str, str]) -> str:
    text = ", ".join(o.text for o in rest).strip("()[]") or "rows, cols"
    return f"write pl.reshape({x.text}, [{text}])"


def _clip(x: Operand, rest: Sequence[Operand], keywords: Mapping[str, str]) -> str:
    low, high = [*(o.text for o in rest), "low", "high"][:2] if len(rest) > 1 else ("low", "high")
    return f"write pl.minimum(pl.maximum({x.text}, {low}), {high})"


def _where(x: Operand, rest: Sequence[Operand], keywords: Mapping[str, str]) -> str:
    a, b = (rest[0].inner, rest[1].inner) if len(rest) == 2 else ("a", "b")
    if x.tile or any(o.tile for o in rest):
        return f"write pl.sel({x.text}, {a}, {b}, tmp); tmp is a scratch tile, pl.create_tile([1, 32], dtype=pl.UINT8)"
    chosen = f"m * {in_domain(a, 'm', '(1 - m)')} + (1 - m) * {in_domain(b, '(1 - m)', 'm')}"
    return f"the comparison of tensors is 1 or 0 for each element: m = {x.text}, then {chosen.removesuffix(_NOTHING)}; {_FINITE}"


_NOTHING = " + (1 - m) * 0.0"
_FINITE = "what is not chosen must be finite, as 0 * NaN is NaN; tiles, from pl.load, are selected whatever they hold, by pl.sel"


def _axes(x: Operand, rest: Sequence[Operand], keywords: Mapping[str, str]) -> str:
    n = len(x.type.shape) if isinstance(x.type, ShapedType) else None
    return f"write the number, {n}: a rank is known while the kernel is compiled" if n else "write the number of its items"


def _extents(x: Operand, rest: Sequence[Operand], keywords: Mapping[str, str]) -> str:
    n = len(x.type.shape) if isinstance(x.type, ShapedType) else 1
    return "write " + " * ".join(f"{x.inner}.shape[{i}]" for i in range(n))


def _length(x: Operand, rest: Sequence[Operand], keywords: Mapping[str, str]) -> str:
    return f"write {x.inner}.shape[0]"


def _printing(x: Operand, rest: Sequence[Operand], keywords: Mapping[str, str]) -> str:
    inside = "pl.static_print prints constants, types and shapes while the kernel is compiled"
    return f"write pl.static_print(...), or remove it: {inside}; run-time values are seen in an output"


_OUTSIDE = "make the array outside of the kernel and pass it as a parameter"
_MADE = (
    "pl.full(shape, dtype=pl.FP32, value=0.0) is filled with a constant, pl.create_tensor and pl.create_tile make storage "
    "that is written before it is read"
)
_PARTS = "write each part into its window: o[0:8, :] = x"
_LOOP = "write a loop, `for i in pl.range(n):`"
_CANCELS = "; it is right to about 1e-7 of 1, and results near 0 keep fewer digits"
_CONSTANT = "compute it outside of the kernel, and use the result as a global"
_PRODUCT = INSTEAD[ast.MatMult]

_RULES: dict[str, Rule] = {
    **dict.fromkeys(("sum", "nansum"), _reduction("sum")),
    **dict.fromkeys(("max", "amax", "nanmax"), _reduction("max")),
    **dict.fromkeys(("min", "amin", "nanmin"), _reduction("min")),
    "prod": _reduction("prod"),
    **dict.fromkeys(("mean", "average"), _reduction("sum", mean=True)),
    "argmax": _reduction("argmax"),
    "argmin": _reduction("argmin"),
    **dict.fromkeys(("astype", "to", "type"), _cast),
    "float": _to("FP32"),
    **dict.fromkeys(("int", "round"), _to("INT32")),
    "half": _to("FP16"),
    "bfloat16": _to("BF16"),
    **dict.fromkeys(("T", "mT", "transpose", "swapaxes", "permute", "t"), _fixed("write pl.transpose({x}, 0, 1), with the axes")),
    **dict.fromkeys(("reshape", "view"), _reshape),
    **dict.fromkeys(
        ("flatten", "ravel", "squeeze", "unsqueeze", "expand_dims"),
        _fixed("write pl.reshape({x}, [rows, cols]), with its new extents"),
    ),
    **dict.fromkeys(
        ("copy", "clone", "contiguous", "ascontiguousarray", "detach"),
        _fixed(
            "use {x} as it is: operators make new values and leave their operands alone; o[:] = {x} copies a tensor into another"
        ),
    ),
    **dict.fromkeys(("item", "tolist"), _fixed("read one element: pl.read({x}, indices)")),
    **dict.fromkeys(("size", "numel", "nelement"), _extents),
    **dict.fromkeys(("ndim", "dim"), _axes),
    "len": _length,
    **dict.fromkeys(("clip", "clamp"), _clip),
    "where": _where,
    **dict.fromkeys(("power", "pow"), lambda x, rest, keywords: power(x, rest[0] if rest else Operand("2", None))),
    "square": _fixed("write {i} * {i}"),
    **{name: _fixed(text) for name, text in RECIPES.items()},
    "row_mean": lambda x, rest, keywords: f"write {_reduced(x, 'row', 'sum', True)}",
    "col_mean": lambda x, rest, keywords: f"write {_reduced(x, 'col', 'sum', True)}",
    "sigmoid": _fixed("write 1.0 / (pl.exp(-{i}) + 1.0)"),
    "tanh": _fixed("write 1.0 - 2.0 / (pl.exp({i} * 2.0) + 1.0)" + _CANCELS),
    "expm1": _fixed("write pl.exp({x}) - 1.0" + _CANCELS),
    "log1p": _fixed("write pl.log({i} + 1.0)" + _CANCELS),
    "log2": _fixed("write pl.log({x}) * 1.4426950408889634"),
    "log10": _fixed("write pl.log({x}) * 0.4342944819032518"),
    "exp2": _fixed("write pl.exp({i} * 0.6931471805599453)"),
    **{n: _fixed("write pl.cast(pl.cast({x}, pl.INT32, mode='" + n + "'), pl.FP32)") for n in ("floor", "ceil", "trunc")},
    **dict.fromkeys(("rint", "around"), _fixed("write pl.cast(pl.cast({x}, pl.INT32, mode='rint'), pl.FP32)")),
    **dict.fromkeys(("dot", "matmul", "mm", "bmm", "einsum", "inner", "tensordot"), _fixed(_PRODUCT)),
    **dict.fromkeys(("concatenate", "concat", "cat", "stack", "vstack", "hstack"), _fixed(_PARTS)),
    **dict.fromkeys(("zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like"), _fixed(_MADE)),
    **dict.fromkeys(("arange", "linspace", "eye", "array", "asarray", "tensor"), _fixed(_OUTSIDE)),
    "fill": _fixed("write o[:] = pl.full(o.shape, dtype=pl.FP32, value=0.0), with the value and the dtype"),
    "print": _printing,
    "bool": _fixed("compare one element: pl.read({x}, indices) != 0"),
    **dict.fromkeys(("range", "enumerate", "zip", "map", "iter"), _fixed(_LOOP)),
    **dict.fromkeys(
        ("list", "tuple", "sorted", "reversed", "set", "dict"), _fixed("build it outside of the kernel, as a global")
    ),
    **dict.fromkeys(("str", "format", "repr"), _fixed("texts can be formatted in pl.static_print only")),
    **dict.fromkeys(("isinstance", "type"), _fixed("compare x.dtype and x.shape, which are known while the kernel is compiled")),
}
_WITHOUT_OPERANDS = frozenset(("print", "zeros", "ones", "empty", "full", "arange", "range", "list", "dict", "set", "tuple"))


# -- operators -----------------------------------------------------------------------------------------------------


def power(x: Operand, exponent: Operand) -> str:
    """What to write for `x ** exponent`."""
    if exponent.text in ("2", "2.0"):
        return f"multiply the value by itself: {x.inner} * {x.inner}"
    if exponent.text in ("3", "3.0"):
        return f"multiply the value by itself: {x.inner} * {x.inner} * {x.inner}"
    if exponent.text in ("-1", "-1.0") and x.scalar:
        return f"write 1.0 / {x.inner}"
    known = {"0.5": "sqrt", "-0.5": "rsqrt", "-1": "recip", "-1.0": "recip"}.get(exponent.text)
    if isinstance(x.type, ScalarType):
        return number_form(known or "exp", x.text, x.type.dtype)
    if known is not None:
        return f"write pl.{known}({x.text})"
    return f"write pl.exp(pl.log({x.text}) * {exponent.inner}) for positive elements, or multiply {x.inner} by itself"


def aug_assignment(node: ast.AugAssign, output: bool) -> str:
    """`t += a` as an assignment; a window that is the whole tensor is its name, and an `output` is written by subscript."""
    target: ast.expr = node.target
    if output and isinstance(target, ast.Name):
        target = ast.Subscript(target, ast.Slice(), ast.Store())
    whole = isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice) and target.slice.step is None
    value = target.value if isinstance(target, ast.Subscript) and whole and _is_everything(target.slice) else target
    written = ast.Assign([target], ast.BinOp(value, node.op, node.value), lineno=1)
    return f"write `{ast.unparse(written)}`"


def _is_everything(node: ast.expr) -> bool:
    return isinstance(node, ast.Slice) and node.lower is None and node.upper is None


def choice(x: Operand, test: str) -> str:
    """What to write for an `if` whose test has an answer for each element of `x`."""
    by_element = (
        f"choose by element with pl.maximum, pl.minimum, or pl.sel({test}, x, y, tmp)"
        if x.tile
        else "choose by element with pl.maximum, pl.minimum, or by arithmetic, "
        f"m = {test}, which is 1 or 0: m * x + (1 - m) * y, where {_FINITE}"
    )
    return f"{by_element}; or test one element, pl.read({x.text}, indices)"

"""What a kernel's signature says: kind, direction and annotated shape of each parameter.

In: a `Source`.  Out: one `Parameter` per parameter, and the extents that the body declares dynamic.
Light: all that a call needs to be specialized, without loading the IR.
"""

from __future__ import annotations

import ast
from typing import Any, NoReturn

from pypto.dtypes import DataType
from pypto.enums import ParamDirection, TensorLayout
from pypto.errors import ParserError, ParserTypeError
from pypto.frontend.constants import Evaluator, describe
from pypto.frontend.diagnostics import fail_at
from pypto.frontend.reads import reads
from pypto.frontend.source import Chain, Source, is_namespace
from pypto.language.annotations import Annotation, Directed, InOut, Out, Tensor, TensorView
from pypto.language.symbols import DynVar
from pypto.named import NamedTuple

__all__ = ["Parameter", "dynamic_dims", "signature"]


class Parameter(NamedTuple):
    """A parameter: `dims` as annotated (an int, a symbol's name, None for a computed extent), None if left open."""

    name: str
    kind: str  # "tensor", "scalar", or "any" (not annotated)
    direction: ParamDirection
    dtype: DataType | None
    dims: tuple[int | str | None, ...] | None
    layout: TensorLayout
    keyword_only: bool
    default: Any  # Source.ABSENT where there is none


def signature(source: Source) -> tuple[Parameter, ...]:
    """The parameters of a `@pl.jit` function; ParserTypeError for annotations that such a function cannot have."""
    keyword_only = {a.arg for a in source.node.args.kwonlyargs}
    return tuple(_parameter(source, name, name in keyword_only) for name in source.parameters)


def _parameter(source: Source, name: str, keyword_only: bool) -> Parameter:
    given = source.annotations.get(name)
    form, direction = (given.inner, given.direction) if isinstance(given, Directed) else (given, ParamDirection.In)
    default = source.defaults.get(name, Source.ABSENT)

    def make(kind: str, dtype: DataType | None = None, dims: Any = None, layout: TensorLayout = TensorLayout.ND) -> Parameter:
        return Parameter(name, kind, direction, dtype, dims, layout, keyword_only, default)

    if form is None:
        return make("any")
    if form is Tensor:
        return make("tensor")
    if isinstance(form, DataType) or (isinstance(form, Annotation) and form.form == "scalar"):
        dtype = form if isinstance(form, DataType) else form.dtype
        if not isinstance(dtype, DataType):
            _refuse(source, name, f"pl.Scalar needs a dtype, got {describe(dtype)}", "pl.Scalar[pl.FP32], or a bare pl.FP32")
        if direction is ParamDirection.InOut:
            _refuse(source, name, "a scalar cannot be pl.InOut", "return it through a one-element tensor")
        return make("scalar", dtype)
    if isinstance(form, Annotation) and form.form == "tensor":
        return make("tensor", *_tensor(source, name, form))
    if (isinstance(form, Annotation) and form.form == "tuple") or form is tuple:
        _refuse(source, name, "Parameter type cannot be a tuple", "pass the values as parameters of their own")
    hint = "write pl.Tensor, pl.Tensor[[...], dtype] or a dtype"
    if form in (Out, InOut):
        hint = f"write pl.{form.__name__}[pl.Tensor], or pl.{form.__name__}[pl.Tensor[[...], dtype]]"
    _refuse(source, name, f"Unsupported type annotation: {_text(source, name)}", hint)


def _tensor(source: Source, name: str, form: Annotation) -> tuple[DataType | None, Any, TensorLayout]:
    shape, dtype = form.shape, form.dtype
    if not isinstance(shape, (list, tuple)):
        what = f"the shape of a pl.Tensor is a list of extents, got {describe(shape)}"
        _refuse(source, name, what, "pl.Tensor[[16, 64], pl.FP32]")
    if not isinstance(dtype, DataType):
        _refuse(source, name, f"pl.Tensor needs a dtype such as pl.FP32, got {describe(dtype)}", "pl.Tensor[[...], pl.FP32]")
    dims: list[int | str | None] = []
    for d in shape:
        if isinstance(d, DynVar):
            dims.append(d.name)
        elif type(d) is int and d >= 0:
            dims.append(d)
        elif type(d) is int:
            _refuse(source, name, f"an extent of a pl.Tensor must be positive, got {d}", "write 1 or more, or pl.dynamic('N')")
        elif isinstance(d, (int, float, str)) or d is None:
            what = f"Shape variable '{d}' must be int or pl.dynamic(), got {type(d).__name__}"
            _refuse(source, name, what, "write an integer, or N = pl.dynamic('N') outside the kernel and N here")
        else:
            dims.append(None)
    extra = form.args[2] if len(form.args) > 2 else TensorLayout.ND
    if isinstance(extra, TensorView):
        where = f"@pl.jit function '{source.name}': parameter '{name}'"
        raise TypeError(f"{where}: a pl.TensorView is not supported in a signature")
    if not isinstance(extra, TensorLayout) or extra is TensorLayout.DN:
        _refuse(
            source, name, f"Unsupported Tensor annotation argument: {describe(extra)}", "annotate the shape with no layout marker"
        )
    return dtype, tuple(dims), extra


def _text(source: Source, name: str) -> str:
    node = source.parameter_nodes[name].annotation
    return ast.unparse(node) if node is not None else ""


def _refuse(source: Source, name: str, message: str, hint: str) -> NoReturn:
    node = source.parameter_nodes[name]
    fail_at(ParserTypeError, f"parameter '{name}' of '{source.name}': {message}", source, node.annotation or node, hint)


# -- extents declared dynamic in the body --------------------------------------------------------------------------


def dynamic_dims(source: Source) -> dict[str, dict[int, str]]:
    """`tensor.bind_dynamic(axis, symbol)` of a kernel and of the helpers it passes its parameters to.

    Parameter name -> axis (counted from 0, or negative as written) -> symbol name.
    """
    return _dynamic(source, ())


def _dynamic(source: Source, active: tuple[Source, ...]) -> dict[str, dict[int, str]]:
    declares = any("bind_dynamic" in line for line in source.lines)
    if not declares and not any(_helper(source, chain) for chain in source.free_names()):
        return {}
    found: dict[str, dict[int, str]] = {}
    symbols = _local_symbols(source) if declares else {}
    for node in ast.walk(source.node):
        if not isinstance(node, ast.Call):
            continue
        f = node.func
        if isinstance(f, ast.Attribute) and f.attr == "bind_dynamic" and isinstance(f.value, ast.Name) and len(node.args) == 2:
            axis, symbol = _constant(source, node.args[0]), _symbol(source, symbols, node.args[1])
            if type(axis) is int and symbol is not None:
                found.setdefault(f.value.id, {})[axis] = symbol
            continue
        helper = _callee(source, f)
        if helper is None or any(h is helper for h in active) or helper is source:
            continue
        inner = _dynamic(helper, (*active, source))
        passed = dict(zip(helper.parameters, node.args, strict=False))
        passed.update({k.arg: k.value for k in node.keywords if k.arg is not None})
        for name, axes in inner.items():
            argument = passed.get(name)
            if isinstance(argument, ast.Name):
                found.setdefault(argument.id, {}).update(axes)
    return {n: axes for n, axes in found.items() if n in source.parameters}


def _local_symbols(source: Source) -> dict[str, str]:
    """`ROWS = pl.dynamic("ROWS")` in a body."""
    found = {}
    for node in ast.walk(source.node):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name):
            value = _constant(source, node.value) if _ends_with(node.value.func, "dynamic") else None
            if isinstance(value, DynVar):
                found[node.targets[0].id] = value.name
    return found


def _ends_with(node: ast.expr, name: str) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == name) or (isinstance(node, ast.Name) and node.id == name)


def _constant(source: Source, node: ast.expr) -> Any:
    try:
        return Evaluator(source).value(node)
    except ParserError:
        return None  # reported where the parser reads it


def _symbol(source: Source, symbols: dict[str, str], node: ast.expr) -> str | None:
    if isinstance(node, ast.Name) and node.id in symbols:
        return symbols[node.id]
    value = _constant(source, node)
    return value.name if isinstance(value, DynVar) else None


def _callee(source: Source, node: ast.expr) -> Source | None:
    """The source of the helper that a call names, if it names one."""
    chain = next(reads(node), ())
    return _helper(source, chain) if chain and chain[0] not in source.locals else None


def _helper(source: Source, chain: Chain) -> Source | None:
    value = source.lookup(chain[0])
    for attribute in chain[1:]:
        if not is_namespace(value):
            return None
        value = getattr(value, attribute, None)
    found = getattr(value, "source", None)
    return found if isinstance(found, Source) and getattr(value, "kind", "") in ("inline", "incore", "opaque") else None

"""What an entry's parameters are, and what a call makes of them.

In: annotations, and the arguments of one call.  Out: for each parameter, the frontend's `TensorArg` or `ScalarArg`.
A bare `pl.Tensor` takes shape and dtype from its argument; annotated extents are checked against it; a `pl.dynamic`
extent stays a symbol, so that one artifact serves every size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pypto.dtypes import DataType
from pypto.errors import ArgumentTypeError, ArgumentValueError, ParserTypeError
from pypto.frontend.source import Source
from pypto.frontend.specialization import Argument, ScalarArg, TensorArg
from pypto.language import annotations as forms
from pypto.language.symbols import DynVar

__all__ = ["Parameter", "from_arguments", "from_signature", "parameters_of"]


class Parameter(NamedTuple):
    """One parameter: `dims` are ints, symbol names or None (taken from the argument); dims None: any rank."""

    name: str
    kind: str  # tensor or scalar
    dtype: DataType | None
    dims: tuple[int | str | None, ...] | None


def parameters_of(source: Source, dynamic: Mapping[str, Mapping[int, str]]) -> tuple[Parameter, ...]:
    """Parameters by their annotations; `dynamic` adds axes that the body declares with `bind_dynamic`."""
    return tuple(_parameter(source, n, dynamic.get(n, {})) for n in source.parameters)


def _parameter(source: Source, name: str, dynamic: Mapping[int, str]) -> Parameter:
    node = source.parameter_nodes[name]
    if name not in source.annotations:
        raise ParserTypeError(
            f"Parameter '{name}' missing type annotation",
            source.span(node),
            f"write {name}: pl.Tensor, or {name}: pl.FP32 for a scalar",
            source_lines=(source.line(node.lineno),),
        )
    a = source.annotations[name]
    if isinstance(a, forms.Directed):
        a = a.inner
    if a is forms.Tensor:
        return Parameter(name, "tensor", None, None if not dynamic else _with_dynamic((), dynamic))
    if isinstance(a, DataType):
        return Parameter(name, "scalar", a, None)
    if isinstance(a, forms.Annotation) and a.form == "scalar" and isinstance(a.dtype, DataType):
        return Parameter(name, "scalar", a.dtype, None)
    if isinstance(a, forms.Annotation) and a.form == "tensor":
        return _annotated(source, name, a, dynamic)
    raise ParserTypeError(
        f"Unsupported type annotation of parameter '{name}': {a!r}",
        source.span(node),
        "an entry takes pl.Tensor parameters and scalars such as pl.FP32",
        source_lines=(source.line(node.lineno),),
    )


def _annotated(source: Source, name: str, a: forms.Annotation, dynamic: Mapping[int, str]) -> Parameter:
    if len(a.args) > 2 and isinstance(a.args[2], forms.TensorView):
        raise ArgumentTypeError(
            f"@pl.jit function '{source.name}': parameter '{name}' has a pl.TensorView, which an entry cannot take",
            hint="describe views inside the kernel: slice or reshape the tensor",
        )
    dims: list[int | str | None] = []
    for d in a.shape if isinstance(a.shape, (list, tuple)) else ():
        dims.append(d.name if isinstance(d, DynVar) else d if isinstance(d, int) and not isinstance(d, bool) else None)
    dtype = a.dtype if isinstance(a.dtype, DataType) else None
    return Parameter(name, "tensor", dtype, _with_dynamic(tuple(dims), dynamic))


def _with_dynamic(dims: tuple[int | str | None, ...], dynamic: Mapping[int, str]) -> tuple[int | str | None, ...]:
    out = list(dims)
    for axis, symbol in dynamic.items():
        out += [None] * (axis + 1 - len(out))
        out[axis] = symbol
    return tuple(out)


# -- from the arguments of a call ----------------------------------------------------------------------------------


def from_arguments(function: str, parameters: tuple[Parameter, ...], values: tuple[Any, ...]) -> dict[str, Argument]:
    """The specialization of one call; ArgumentTypeError or ArgumentValueError naming parameter, expected and got."""
    out: dict[str, Argument] = {}
    for p, v in zip(parameters, values, strict=True):
        if v is forms.RUNTIME:
            raise ArgumentTypeError(
                f"@pl.jit function '{function}': pl.RUNTIME for '{p.name}' is a compile-time marker",
                hint="use it in compile() or lower() without arguments",
            )
        out[p.name] = _tensor(function, p, v) if p.kind == "tensor" else _scalar(function, p, v)
    return out


def _tensor(function: str, p: Parameter, value: Any) -> TensorArg:
    from pypto.runtime.arrays import element_type
    from pypto.runtime.validate import as_array

    array = as_array(function, p.name, value).array
    shape = array.shape
    dtype = element_type(array.dtype)
    if dtype is None:
        raise ArgumentTypeError(
            f"{function}: {p.name!r} has dtype {array.dtype.str!r}, which kernels do not take",
            hint="kernels take float32, float16, bfloat16 (ml_dtypes), bool and integers, in the machine's byte order",
        )
    if p.dtype is not None and p.dtype is not dtype:
        if not (p.dtype is DataType.BF16 and dtype is DataType.UINT16):
            raise ArgumentTypeError(
                f"{function}: {p.name!r} expects dtype {p.dtype}, got {dtype}", hint=f"pass {p.name}.astype(...) of that type"
            )
        dtype = p.dtype
    if p.dims is None:
        return TensorArg(tuple(shape), dtype)
    if p.dtype is not None and len(p.dims) != len(shape):
        want = "[" + ", ".join(str(d) if d is not None else "?" for d in p.dims) + "]"
        raise ArgumentValueError(
            f"{function}: {p.name!r} expects shape {want}, got {list(shape)}: rank {len(shape)} instead of {len(p.dims)}"
        )
    dims: list[int | str] = []
    for axis, extent in enumerate(shape):
        want_d = p.dims[axis] if axis < len(p.dims) else None
        if isinstance(want_d, int) and want_d != extent:
            raise ArgumentValueError(
                f"{function}: {p.name!r} expects {want_d} elements on axis {axis}, got {extent} (shape {list(shape)})"
            )
        dims.append(extent if want_d is None else want_d)
    return TensorArg(tuple(dims), dtype)


def _scalar(function: str, p: Parameter, value: Any) -> ScalarArg:
    from pypto.runtime.validate import scalar_value

    assert p.dtype is not None
    return ScalarArg(p.dtype, scalar_value(function, p.name, p.dtype, value))


# -- from annotations alone ----------------------------------------------------------------------------------------


def from_signature(
    function: str, parameters: tuple[Parameter, ...], given: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Argument]:
    """Without sample arrays: every tensor fully annotated, every scalar given, defaulted or pl.RUNTIME."""
    out: dict[str, Argument] = {}
    for p in parameters:
        if p.kind == "scalar":
            value = given.get(p.name, defaults.get(p.name, _MISSING))
            if value is _MISSING:
                raise ArgumentTypeError(
                    f"@pl.jit function '{function}': scalar '{p.name}' has no value",
                    hint=f"pass {p.name}=..., or {p.name}=pl.RUNTIME to leave it a run-time argument",
                )
            assert p.dtype is not None
            out[p.name] = ScalarArg(p.dtype) if value is forms.RUNTIME else _scalar(function, p, value)
        elif p.dtype is None or p.dims is None or any(d is None for d in p.dims):
            raise ArgumentTypeError(
                f"@pl.jit function '{function}': parameter '{p.name}' is not fully annotated",
                hint="annotate it as pl.Tensor[[...], dtype], or pass sample arrays",
            )
        else:
            out[p.name] = TensorArg(tuple(d for d in p.dims if d is not None), p.dtype)
    return out


_MISSING = object()

"""What a call, or a signature alone, makes of an entry's parameters.

In: the parameters as annotated, and the arguments of one call.  Out: for each parameter, the frontend's `TensorArg` or
`ScalarArg`.  A bare `pl.Tensor` takes shape and dtype from its argument; annotated extents are checked against it; a
`pl.dynamic` extent stays a symbol, so that one artifact serves every size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pypto.dtypes import DataType
from pypto.enums import ParamDirection
from pypto.errors import ArgumentTypeError, ArgumentValueError, ParserTypeError
from pypto.frontend.signatures import Parameter, dynamic_dims, signature
from pypto.frontend.source import Source
from pypto.frontend.specialization import Argument, ScalarArg, TensorArg
from pypto.jit.binding import option_hint
from pypto.language import annotations as forms
from pypto.language.symbols import DynVar
from pypto.runtime.plan import KernelPlan, Param, ScalarParam, TensorParam

__all__ = ["check_call", "from_arguments", "from_signature", "parameters_of"]


def parameters_of(source: Source) -> tuple[Parameter, ...]:
    """Parameters by their annotations, with the axes that the body declares by `bind_dynamic`."""
    dynamic = dynamic_dims(source)
    return tuple(_entry_parameter(source, p, dynamic.get(p.name, {})) for p in signature(source))


def _entry_parameter(source: Source, p: Parameter, dynamic: Mapping[int, str]) -> Parameter:
    if p.kind == "any":
        node = source.parameter_nodes[p.name]
        raise ParserTypeError(
            f"Parameter '{p.name}' missing type annotation",
            source.span(node),
            f"write {p.name}: pl.Tensor, or {p.name}: pl.FP32 for a scalar",
            source_lines=(source.line(node.lineno),),
        )
    if p.kind != "tensor" or not dynamic:
        return p
    # Without an annotated rank, an axis counted from the end has no place among the extents yet.
    least = max((a + 1 for a in dynamic if a >= 0), default=0)
    dims: list[int | str | None] = list(p.dims) if p.dims is not None else [None] * least
    for axis, symbol in dynamic.items():
        if -len(dims) <= axis < len(dims):
            dims[axis] = symbol
        else:
            where = f"@pl.jit function '{source.name}': {p.name}.bind_dynamic({axis}, ...)"
            raise ArgumentValueError(f"{where}: '{p.name}' has no such axis", hint="annotate the rank, or count axes from 0")
    return p._replace(dims=tuple(dims))


# -- from the arguments of a call ----------------------------------------------------------------------------------


def from_arguments(function: str, parameters: tuple[Parameter, ...], values: tuple[Any, ...]) -> dict[str, Argument]:
    """The specialization of one call; ArgumentTypeError or ArgumentValueError naming parameter, expected and got.

    Only shape and dtype of a tensor count, so that one without memory (torch's "meta" device), `pl.Tensor[[16, 64], pl.FP32]`,
    or anything with a shape and a dtype is a sample too.  Beside such descriptions, not beside arrays, a number may be
    `pl.RUNTIME`: not known yet.
    """
    out: dict[str, Argument] = {}
    for p, v in zip(parameters, values, strict=True):
        if v is forms.RUNTIME and (p.kind == "tensor" or not _are_descriptions(parameters, values)):
            raise ArgumentTypeError(
                f"@pl.jit function '{function}': pl.RUNTIME for '{p.name}' is a compile-time marker",
                hint="use it in compile() or lower() without arrays",
            )
        out[p.name] = _tensor(function, p, v) if p.kind == "tensor" else _scalar(function, p, v)
    return out


def _are_descriptions(parameters: tuple[Parameter, ...], values: tuple[Any, ...]) -> bool:
    """Whether no tensor is an array that a kernel could run on."""
    from pypto.runtime.arrays import description

    given = [v for p, v in zip(parameters, values, strict=True) if p.kind == "tensor"]
    return all(isinstance(v, forms.Annotation) or description(v) is not None for v in given)


def _tensor(function: str, p: Parameter, value: Any) -> TensorArg:
    from pypto.runtime.arrays import element_type
    from pypto.runtime.validate import other_dtype, other_rank

    written = p.direction is not ParamDirection.In
    shape, stored = _described(function, p, value)
    dtype = stored if isinstance(stored, DataType) else element_type(stored)
    if dtype is None:
        raise ArgumentTypeError(
            f"{function}: {p.name!r} has dtype {_name(stored)}, which kernels do not take", hint=_hint(p, stored, written)
        )
    if p.dtype is not None and p.dtype is not dtype:
        if not (p.dtype is DataType.BF16 and dtype is DataType.UINT16):
            what = f"{function}: {p.name!r} expects dtype {p.dtype}, got {dtype}"
            raise ArgumentTypeError(what, hint=other_dtype(p.name, p.dtype, written))
        dtype = p.dtype
    if p.dims is None:
        return TensorArg(tuple(shape), dtype, p.layout)
    if p.dtype is not None and len(p.dims) != len(shape):
        want = "[" + ", ".join(str(d) if d is not None else "?" for d in p.dims) + "]"
        raise ArgumentValueError(
            f"{function}: {p.name!r} expects shape {want}, got {list(shape)}: rank {len(shape)} instead of {len(p.dims)}",
            hint=other_rank(p.name, p.dtype, len(shape)),
        )
    dims: list[int | str] = []
    for axis, extent in enumerate(shape):
        want_d = p.dims[axis] if axis < len(p.dims) else None
        if isinstance(extent, str) and want_d != extent:
            what = f"{function}: {p.name!r} has no extent pl.dynamic({extent!r}) on axis {axis}"
            raise ArgumentValueError(what, hint=f"give a number, or annotate axis {axis} of {p.name!r} with it")
        if isinstance(want_d, int) and want_d != extent:
            raise ArgumentValueError(
                f"{function}: {p.name!r} expects {want_d} elements on axis {axis}, got {extent} (shape {list(shape)})",
                hint=f"pass an array of that shape, or annotate axis {axis} with pl.dynamic",
            )
        dims.append(extent if want_d is None else want_d)
    return TensorArg(tuple(dims), dtype, p.layout)


def _described(function: str, p: Parameter, value: Any) -> tuple[tuple[int | str, ...], Any]:
    """Extents (names where they stay open), and the element type as the library of the value has it."""
    from pypto.runtime.arrays import description, without_memory
    from pypto.runtime.validate import as_array

    if isinstance(value, forms.Annotation) and value.form == "tensor":
        dims, dtype = value.shape, value.dtype
        if not isinstance(dtype, DataType) or not isinstance(dims, (list, tuple)):
            what = f"{function}: {value!r} does not describe {p.name!r}"
            raise ArgumentTypeError(what, hint="write pl.Tensor[[16, 64], pl.FP32], for example")
        return tuple(_extent(function, p, d) for d in dims), dtype
    found = without_memory(value) or description(value)
    if found is not None:
        return tuple(_extent(function, p, d) for d in found[0]), found[1]
    array = as_array(function, p.name, value, written=p.direction is not ParamDirection.In).array
    return array.shape, array.dtype


def _extent(function: str, p: Parameter, extent: Any) -> int | str:
    if isinstance(extent, DynVar):
        return extent.name
    if isinstance(extent, int) and not isinstance(extent, bool) and extent >= 0:
        return extent
    raise ArgumentValueError(f"{function}: {p.name!r} cannot have the extent {extent!r}", hint="give a number from 0 on")


def _name(dtype: Any) -> str:
    return str(dtype.name) if dtype.isnative and dtype.fields is None else repr(dtype.str)


def _hint(p: Parameter, dtype: Any, written: bool) -> str:
    from pypto.runtime.arrays import element_type
    from pypto.runtime.validate import other_dtype

    native = element_type(dtype.newbyteorder("=")) if dtype.kind in "iufb" else None
    wanted = p.dtype or native or (DataType.FP32 if dtype.kind == "f" else None)
    if written and wanted is not None:
        return other_dtype(p.name, wanted, written)
    if dtype.kind in "iufb" and not dtype.isnative:
        return f"its bytes are swapped: pass {p.name}.astype({dtype.newbyteorder('=').name!r})"
    if dtype.kind == "f":
        return f"pass {p.name}.astype('float32'); kernels have no wider floats"
    return "kernels take float32, float16, bfloat16 (ml_dtypes), bool and integers"


def _scalar(function: str, p: Parameter, value: Any) -> ScalarArg:
    from pypto.runtime.validate import scalar_value

    assert p.dtype is not None
    if value is forms.RUNTIME:
        return ScalarArg(p.dtype)
    return ScalarArg(p.dtype, scalar_value(function, p.name, p.dtype, value))


def check_call(
    function: str, parameters: tuple[Parameter, ...], arguments: Mapping[str, Argument], values: tuple[Any, ...]
) -> None:
    """What can be said of a call before its kernel exists: memory, directions as marked, extents that contradict.

    Which parameters may be one array the compiled kernel says: until then any two may that are not both written.
    """
    from pypto.runtime.validate import bind_check

    symbols: list[str] = []
    params: list[Param] = []
    for p in parameters:
        a = arguments[p.name]
        if isinstance(a, TensorArg):
            symbols += [d for d in dict.fromkeys(a.dims) if isinstance(d, str) and d not in symbols]
            dims = tuple(d if isinstance(d, int) else -1 - symbols.index(d) for d in a.dims)
            params.append(TensorParam(p.name, a.dtype, dims, _DIRECTIONS[p.direction]))
        else:
            assert p.dtype is not None
            params.append(ScalarParam(p.name, p.dtype))
    pairs = tuple((i, j) for j in range(len(params)) for i in range(j))
    bind_check(KernelPlan(function, tuple(params), tuple(symbols), pairs), values)


_DIRECTIONS: dict[ParamDirection, Literal["in", "out", "inout"]] = {
    ParamDirection.In: "in",
    ParamDirection.Out: "out",
    ParamDirection.InOut: "inout",
}


# -- from annotations alone ----------------------------------------------------------------------------------------


def from_signature(
    function: str, parameters: tuple[Parameter, ...], given: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Argument]:
    """Without sample arrays: every tensor fully annotated, every scalar given, defaulted or pl.RUNTIME."""
    out: dict[str, Argument] = {}
    for name in given:
        if all(p.name != name for p in parameters):
            what = f"@pl.jit function '{function}': {function}() got an unexpected keyword argument '{name}'"
            names = ", ".join(p.name for p in parameters)
            hint = option_hint((name,), ()) or f"its parameters are {names}"
            raise ArgumentTypeError(what, hint=hint, code="A101")
    for p in parameters:
        if p.kind == "scalar":
            value = given.get(p.name, defaults.get(p.name, _MISSING))
            if value is _MISSING:
                raise ArgumentTypeError(
                    f"@pl.jit function '{function}': scalar '{p.name}' has no value",
                    hint=f"pass {p.name}=..., or {p.name}=pl.RUNTIME to leave it a run-time argument",
                )
            out[p.name] = _scalar(function, p, value)
        elif p.dtype is None or p.dims is None or any(d is None for d in p.dims):
            raise ArgumentTypeError(
                f"@pl.jit function '{function}': parameter '{p.name}' is not fully annotated",
                hint="annotate it as pl.Tensor[[...], dtype], or pass sample arrays",
            )
        else:
            out[p.name] = TensorArg(tuple(d for d in p.dims if d is not None), p.dtype, p.layout)
    return out


_MISSING = object()

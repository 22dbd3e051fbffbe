"""A `@pl.jit` kernel for one specialization.

In: the entry's `Source`, and for each parameter what it is compiled for.  Out: the program (entry: Orchestration; its
`.incore` and `.opaque` helpers: functions of their own; `.inline` helpers: spliced where they are called) and the
sources that spans number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypto.enums import FunctionType, ParamDirection, TensorLayout
from pypto.errors import InternalError
from pypto.frontend.annotations import parameter_form
from pypto.frontend.build import Options, finish
from pypto.frontend.builder import ProgramBuilder
from pypto.frontend.frame import Context, Frame
from pypto.frontend.source import Source
from pypto.frontend.specialization import ScalarArg, Specialization, StaticArg, TensorArg
from pypto.frontend.statements import read_frame
from pypto.ir.expr import Var
from pypto.ir.program import Program
from pypto.ir.shaped import TensorType, TensorView
from pypto.ir.types import ScalarType, Type
from pypto.named import NamedTuple

__all__ = ["ParsedKernel", "parse_kernel"]


class ParsedKernel(NamedTuple):
    """`sources[span.source]` is the text a span belongs to; the entry is number 0."""

    program: Program
    sources: tuple[Source, ...]


def parse_kernel(
    entry: Source,
    specialization: Specialization,
    *,
    options: Mapping[str, Any] | None = None,
    func_type: FunctionType = FunctionType.Orchestration,
) -> ParsedKernel:
    """Read a kernel.  Raises StaticParameterNeeded where a ScalarArg must be a StaticArg; ParserError for bad source."""
    program = ProgramBuilder(entry.name)
    frame = Frame(Context(program, entry.name, func_type, read_frame), entry, jit=True)
    params: list[tuple[Var, ParamDirection]] = []
    for name in entry.parameters:
        argument = specialization.get(name)
        node = entry.parameter_nodes[name]
        span = frame.span(node)
        if isinstance(argument, StaticArg):
            frame.scope.bind(name, argument.value, span)
            continue
        if not isinstance(argument, (TensorArg, ScalarArg)):
            raise InternalError(f"no specialization for parameter '{name}' of '{entry.name}'")
        _, direction = parameter_form(entry.annotations.get(name))
        v = Var(name, _type(program, argument), span)
        params.append((v, direction))
        frame.scope.bind(name, v, span)
        if isinstance(argument, ScalarArg):
            frame.context.parameters[v] = (name, argument.value)
    finish(frame, program.fresh_name(entry.name), params, Options.of(options or {}))
    return ParsedKernel(program.finish(), tuple(program.sources))


def _type(program: ProgramBuilder, argument: TensorArg | ScalarArg) -> Type:
    if isinstance(argument, ScalarArg):
        return ScalarType.of(argument.dtype)
    dims = [program.symbol(d) if isinstance(d, str) else d for d in argument.dims]
    view = TensorView(layout=argument.layout) if argument.layout is not TensorLayout.ND else None
    return TensorType(dims, argument.dtype, None, view)

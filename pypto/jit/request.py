"""One compilation as a value: of a kernel's source for some arguments, or of a program that exists already.

`Specialized` is what both become, in the process that asks; the process that compiles needs nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pypto.dtypes import DataType
from pypto.frontend.source import NO_PINS, Pins, Source
from pypto.frontend.specialization import Argument
from pypto.named import NamedTuple
from pypto.passes.context import PassOptions
from pypto.runtime.plan import Site
from pypto.span import Span

if TYPE_CHECKING:
    from pypto.ir.program import Program

__all__ = ["Constant", "ProgramRequest", "Request", "Specialized"]


class Request(NamedTuple):
    """What is compiled, for which arguments, with which options.

    `sources` are the entry and its helpers in the order of the artifact key: failing places are numbered by them.
    `pins` are the values of the names they read that the key was made of: what is compiled is what is in the key.
    """

    source: Source
    sources: tuple[Source, ...]
    decorator: Mapping[str, Any]
    arguments: dict[str, Argument]
    options: PassOptions
    optimize: bool
    pins: Pins = NO_PINS

    @property
    def entry(self) -> str:
        return self.source.name

    def locate(self, site: Site) -> Span | None:
        """Where, in the source as this process captured it, a failing statement stands."""
        if not 0 <= site.source < len(self.sources):
            return None
        source = self.sources[site.source]
        line = source.line_of(site.ordinal)
        if line < 0:
            return None
        text = source.line(line)
        column = len(text) - len(text.lstrip()) + 1
        return Span(source.filename, line, column, line, len(text.rstrip()) + 1, site.source, site.ordinal)


class ProgramRequest(NamedTuple):
    """A program and the orchestration function that callers start."""

    program: Program
    entry: str
    options: PassOptions
    optimize: bool

    def locate(self, site: Site) -> Span | None:
        """Where the program says that a failing statement stands; None for a program without positions."""
        from pypto.ir.rewrite import walk

        for f in self.program.function_list:
            for n in walk(f.body):
                span = getattr(n, "span", None)
                if isinstance(span, Span) and (span.source, span.ordinal) == site[2:4] and span.is_valid():
                    return span
        return None


class Constant(NamedTuple):
    """A parameter that the compiled code does not have: callers pass it, and only this value fits."""

    dtype: DataType
    value: Any


class Specialized(NamedTuple):
    """A request that the frontend is done with: data only, all that the rest of a compilation needs.

    `program`: before any pass.  `parameters`: those of a kernel's entry, constants among them; None for a program, whose
    parameters are its orchestration's.  `sources`: by the number that spans have, the number that failing places have, -1
    where none; None where both are the same.
    """

    program: Program
    entry: str
    parameters: tuple[tuple[str, Constant | None], ...] | None
    sources: tuple[int, ...] | None
    options: PassOptions
    optimize: bool

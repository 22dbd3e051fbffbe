"""Places in the user's source.

In: positions of Python syntax nodes.  Out: immutable `Span` values that nodes carry and errors show.
Invariant: a span never takes part in equality, hashing or artifact bytes; `source` and `ordinal` say which
statement of which captured source it stands for, file and line only say where that was when it was read.
"""

from __future__ import annotations

import linecache

__all__ = ["Span"]


class Span:
    """A half-open region of source text; lines and columns are 1-based, -1 where unknown."""

    __slots__ = ("begin_column", "begin_line", "end_column", "end_line", "filename", "ordinal", "source")

    filename: str
    begin_line: int
    begin_column: int
    end_line: int
    end_column: int
    source: int
    ordinal: int

    def __init__(
        self,
        filename: str,
        begin_line: int,
        begin_column: int,
        end_line: int = -1,
        end_column: int = -1,
        source: int = -1,
        ordinal: int = -1,
    ) -> None:
        """`source` numbers the captured function the text belongs to, `ordinal` its statement in preorder."""
        put = object.__setattr__
        put(self, "filename", filename)
        put(self, "begin_line", begin_line)
        put(self, "begin_column", begin_column)
        put(self, "end_line", end_line)
        put(self, "end_column", end_column)
        put(self, "source", source)
        put(self, "ordinal", ordinal)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Span is immutable; cannot set {name!r}")

    @staticmethod
    def unknown() -> Span:
        return _UNKNOWN

    def is_valid(self) -> bool:
        return self.begin_line > 0

    def to_string(self) -> str:
        """`file:line:column` of the beginning."""
        return f"{self.filename}:{self.begin_line}:{self.begin_column}"

    def lines(self) -> tuple[str, ...]:
        """The source line of the beginning, without its newline, as far as Python's line cache has it."""
        if not self.is_valid():
            return ()
        text = linecache.getline(self.filename, self.begin_line)
        return (text.rstrip("\r\n"),) if text else ()

    def __repr__(self) -> str:
        return f"Span({self.to_string()!r})"

    __str__ = to_string

    def __reduce__(self) -> tuple[type[Span], tuple[object, ...]]:
        return Span, tuple(getattr(self, f) for f in _FIELDS)


_FIELDS = ("filename", "begin_line", "begin_column", "end_line", "end_column", "source", "ordinal")
_UNKNOWN = Span("", -1, -1)

"""How the frontend reports: an error class, a sentence, the syntax node it is about, and what to write instead.

Invariant: no error without a remedy; the parameter is required wherever one is made.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

from pypto.errors import Error

if TYPE_CHECKING:
    from pypto.frontend.source import Source

__all__ = ["closest", "error_at", "fail_at"]


def error_at(kind: type[Error], message: str, source: Source, node: ast.AST, hint: str, note: str | None = None) -> Error:
    """An error at a node of a captured source; the source line is taken from the capture, not from the file."""
    span = source.span(node)
    error = kind(message, span)
    error.hint, error.note = hint, note
    line = source.line(span.begin_line)
    if line:
        error.source_lines = (line,)
    return error


def fail_at(kind: type[Error], message: str, source: Source, node: ast.AST, hint: str, note: str | None = None) -> NoReturn:
    raise error_at(kind, message, source, node, hint, note)


def closest(word: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """A hint naming the known word that `word` was probably meant to be; `likeness` is between 0 and 1."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=likeness)
    return f"did you mean '{found[0]}'?" if found else None

"""How the frontend reports: an error class, a sentence, the syntax node it is about, and what to write instead.

Invariant: no error without a remedy; the parameter is required wherever one is made.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NoReturn

from pypto.errors import Error

if TYPE_CHECKING:
    from pypto.frontend.source import Source

__all__ = ["error_at", "fail_at"]


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

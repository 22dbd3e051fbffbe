"""Reads back what `Source.canonical` writes, for people.

In: the canonical text of a function, of this process or from a stored key.  Out: Python text, one statement a line, or
None for a text of another form.  Invariant: equal canonical texts give equal Python texts.
"""

from __future__ import annotations

import ast
import re
from typing import Any

__all__ = ["function_name", "python_text"]

_WORD = re.compile(r"(\w+)([(:])")
_FIELD = re.compile(r"(\w+)=")
_QUOTED = re.compile(r"b?(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", re.DOTALL)
_PLAIN = re.compile(r"[^,()\[\]]+")


def function_name(canonical: str) -> str:
    """The name of the function, "" for a text of another form."""
    found = re.match(r"\[str:'(\w+)',", canonical)
    return found[1] if found else ""


def python_text(canonical: str) -> str | None:
    """The function as Python writes it, without comments, docstring and decorators."""
    try:
        read = _Reader(canonical)
        name, (positional_only, args, keyword_only), values, returns, body = read.value()
        split = len(values) - len(keyword_only) if values else 0
        arguments = ast.arguments(positional_only, args, None, keyword_only, values[split:], None, values[:split])
        if not values:
            arguments.kw_defaults = [None] * len(keyword_only)
        made = ast.FunctionDef(name, arguments, body, [], returns, None)
        if "type_params" in ast.FunctionDef._fields:
            vars(made)["type_params"] = []
        return ast.unparse(ast.fix_missing_locations(made))
    except (ValueError, TypeError, AttributeError, IndexError, SyntaxError, RecursionError):
        return None


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def take(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise ValueError(f"unexpected text at {self.at}")
        self.at = found.end()
        return found

    def sign(self, mark: str) -> bool:
        """Whether this stands here; then it is behind."""
        if not self.text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        return True

    def value(self) -> Any:
        if self.sign("["):
            items = []
            while not self.sign("]"):
                items.append(self.value())
                self.sign(",")
            return items
        word = self.take(_WORD)
        return self.node(word[1]) if word[2] == "(" else self.leaf(word[1])

    def node(self, name: str) -> Any:
        cls: Any = getattr(ast, name)
        if not (isinstance(cls, type) and issubclass(cls, ast.AST)):
            raise ValueError(f"{name} is no syntax node")
        fields: dict[str, Any] = {}
        while not self.sign(")"):
            if self.sign("None)"):  # a constant None
                break
            field = self.take(_FIELD)[1]
            fields[field] = self.value()
            self.sign(",")
        return cls(**{f: fields.get(f, [] if f in _LISTS else None) for f in cls._fields})

    def leaf(self, kind: str) -> Any:
        text = self.take(_QUOTED if kind in ("str", "bytes") else _PLAIN)[0]
        if kind == "float":
            return float(text)
        return ... if kind == "ellipsis" else ast.literal_eval(text)


# Fields that are lists; the canonical text leaves empty ones out.
_LISTS = frozenset((
    "args", "keywords", "elts", "body", "orelse", "finalbody", "handlers", "targets", "names", "ops", "comparators", "values",
    "keys", "generators", "ifs", "items", "bases", "decorator_list", "posonlyargs", "kwonlyargs", "kw_defaults", "defaults",
    "cases", "patterns", "kwd_attrs", "kwd_patterns", "type_params",
))  # fmt: skip

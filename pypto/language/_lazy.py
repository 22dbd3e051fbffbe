"""The one upward reference of the language: names whose behaviour lives in packages above it.

In: a name of `pypto.language`, or of an operator.  Out: the object, imported when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["LAZY", "load", "operator"]

# name in pl -> (module, attribute; "" for the module itself)
LAZY: dict[str, tuple[str, str]] = {
    "jit": ("pypto.jit", "jit"),
    "JITFunction": ("pypto.jit", "JITFunction"),
    "InlineFunction": ("pypto.frontend", "InlineFunction"),
    "function": ("pypto.frontend", "function"),
    "inline": ("pypto.frontend", "inline"),
    "loads": ("pypto.frontend", "loads"),
    "loads_program": ("pypto.frontend", "loads_program"),
    "parse": ("pypto.frontend", "parse"),
    "parse_program": ("pypto.frontend", "parse_program"),
    "parser": ("pypto.language.parser", ""),
    "program": ("pypto.frontend", "program"),
}


def operator(namespace: str, name: str) -> Any:
    """The entry of `pl.<namespace>.<name>` in the operator table."""
    return importlib.import_module("pypto.ir.ops").find_dsl(namespace, name)


def load(name: str) -> Any:
    """The object behind a lazy name; KeyError for any other name."""
    module, attribute = LAZY[name]
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found

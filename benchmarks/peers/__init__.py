"""Other tools that do the same work: one module each, imported if the tool is installed.

A module has `prepare(function, data)`: a call without arguments whose result is an array, in whatever form the tool prefers, or
None where the tool has no good way; and `as_numpy(result)`.  Inputs are handed over, and code is compiled, before the clock runs.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from types import ModuleType

__all__ = ["NAMES", "found"]

NAMES = ("numpy", "numba", "jax", "torch")


def found(names: list[str]) -> tuple[dict[str, ModuleType], dict[str, str]]:
    """Of some of NAMES: the modules of those that can be imported; their versions, or why the others are left out."""
    modules, versions = {}, {}
    for name in names:
        try:
            modules[name] = importlib.import_module(f"benchmarks.peers.{name}_peer")
            versions[name] = importlib.metadata.version(name)
        except ImportError as e:
            versions[name] = f"left out: {e}"
    return modules, versions

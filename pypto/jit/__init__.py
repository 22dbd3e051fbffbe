"""The decorator and what stands behind a call: bind, specialize, look up, compile, launch.

`@pl.jit` itself loads only source capture; the compiler loads with the first kernel that no cache has.
"""

from __future__ import annotations

from typing import Any

from pypto._lazy import Facade
from pypto.jit.decorator import jit
from pypto.jit.function import JITFunction

__all__ = ["JITFunction", "jit"]

_FACADE = Facade(
    __name__,
    (
        ("pypto.jit.batch", "PrecompileRequest"),
        ("pypto.jit.compiled", "CompiledProgram"),
        ("pypto.jit.pool", "PrecompilePool"),
        ("pypto.jit.precompilation", "precompile"),
        ("pypto.jit.programs", "compile_program"),
        ("pypto.jit.work", "Precompiled"),
    ),
    modules="programs",
)


def __getattr__(name: str) -> Any:
    return _FACADE.load(name)

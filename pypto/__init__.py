"""PyPTO: a compiler for tile kernels written in Python.

`import pypto.language as pl` is what kernels use; this module resolves its own public names on first use, so that
importing the language loads nothing else.
"""

from __future__ import annotations

from typing import Any

from pypto._lazy import Facade
from pypto.dtypes import ALL_DTYPES, DataType

_LOGGING = "use Python's logging module, with loggers named after the modules"
_FACADE = Facade(
    __name__,
    (
        ("pypto.errors", "Error InternalError PyptoWarning"),
        ("pypto.jit", "PrecompilePool Precompiled precompile"),
        ("pypto.runtime.stats", "CacheStats cache_stats"),
    ),
    modules="backend errors ir language runtime testing",
    optional={
        "CacheConfig": ("pypto.jit", "CacheConfig", "set PYPTO_CACHE and PYPTO_CACHE_DIR"),
        "codegen": ("pypto.codegen", "", "compile a kernel with `kernel.compile(...)`"),
        "configure_cache": ("pypto.jit", "configure_cache", "set PYPTO_CACHE and PYPTO_CACHE_DIR"),
        "jit": ("pypto.jit", "", "decorate kernels with pypto.language.jit"),
        "passes": ("pypto.passes", "", "lower a kernel with `kernel.lower(...)`"),
    },
    unsupported=(
        (
            _LOGGING,
            "LogLevel check get_log_level internal_check internal_check_span log_debug log_error log_event log_fatal log_info "
            "log_warn set_log_level",
        ),
        ("time `kernel.compile(...)` yourself, or read pypto.cache_stats()", "compile_profiling"),
        ("dumps of passes are text: PassManager.run_passes(program, dump_ir=True), and compare the files", "tools"),
    ),
)
globals().update({f"DT_{d.name}": d for d in ALL_DTYPES})

__all__ = ["DataType", *(f"DT_{d.name}" for d in ALL_DTYPES)]


def __getattr__(name: str) -> Any:
    found = _FACADE.load(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *_FACADE.names()})

"""`pypto.pypto_core`: the older spelling of `pypto.ir`, `pypto.passes`, `pypto.backend` and of the exception types."""

from __future__ import annotations

from typing import Any

from pypto._lazy import Facade

_FACADE = Facade(
    __name__,
    (
        ("pypto.dtypes", "DataType"),
        ("pypto.errors", "Error InternalError"),
        # A user error is always a Python exception of the kind that its name says, whatever else it is.
        ("builtins", "AssertionError IndexError NotImplementedError RuntimeError TypeError ValueError"),
    ),
    aliases={"backend": ("pypto.backend", ""), "ir": ("pypto.pypto_core.ir", "")},
    optional={
        "codegen": ("pypto.codegen", "", "compile a kernel with `kernel.compile(...)`"),
        "passes": ("pypto.pypto_core.passes", "", "import pypto.passes"),
    },
    unsupported=(
        ("fold index arithmetic with the constructors in pypto.ir.arith", "arith"),
        ("ask pypto.ir.get_op_arg_effect and get_op_buffer_arg_effect", "testing"),
        (
            "use Python's logging module, with loggers named after the modules",
            "LogLevel check get_log_level internal_check internal_check_span log_debug log_error log_event log_fatal log_info "
            "log_warn set_log_level",
        ),
    ),
)


def __getattr__(name: str) -> Any:
    return _FACADE.load(name)


def __dir__() -> list[str]:
    return _FACADE.names()

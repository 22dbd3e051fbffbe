"""What happens around a finished C source: identity, storage, compiling, loading, launching.

Plain data comes in (a canonical record, source texts, arrays), artifacts and calls go out.  Nothing here knows the IR.
Importing this package loads nothing; a warm look-up loads only what `store` and `load` name at their top.
"""

from __future__ import annotations

from typing import Any

from pypto._lazy import Facade

_FACADE = Facade(
    __name__,
    (("pypto.runtime.run_config", "RunConfig"),),
    optional={"compile_program": ("pypto.jit", "compile_program", "compile a kernel with `kernel.compile(...)`")},
    unsupported=(
        ("call the kernel and compare with numpy.testing.assert_allclose", "RunResult ScalarSpec TensorSpec benchmark run"),
        ("call what kernel.compile(...) or ir.compile(...) returns", "execute_artifact execute_compiled"),
        ("call the kernel again: it runs in the calling process, where any debugger reaches it", "debug"),
        ("kernels run in the calling process, on its arrays", "ChipWorker DeviceTensor RegistrationHandle Worker"),
    ),
)


def __getattr__(name: str) -> Any:
    return _FACADE.load(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_FACADE.names()})

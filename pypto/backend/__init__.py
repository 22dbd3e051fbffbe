"""`pypto.backend`: names that programs import from here, kept where their concept lives."""

from __future__ import annotations

from typing import Any

from pypto._lazy import Facade

_PLATFORM = "choose the target with `PassContext(platform='a2a3sim')`"
_FACADE = Facade(
    __name__,
    (("pypto.ir.registry", "get_buffer_elementwise_recipe_names"),),
    optional={
        name: ("pypto.target", name, _PLATFORM)
        for name in ("BackendType", "get_backend_instance", "get_backend_type", "is_backend_configured", "reset_for_testing")
    },
    unsupported=((_PLATFORM, "set_backend_type"),),
)


def __getattr__(name: str) -> Any:
    return _FACADE.load(name)


def __dir__() -> list[str]:
    return _FACADE.names()

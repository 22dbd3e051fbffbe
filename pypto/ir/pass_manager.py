"""`pypto.ir.pass_manager`: the older place of the pass manager's public names.  No code of its own."""

from __future__ import annotations

from typing import Any

from pypto._lazy import Facade

_FACADE = Facade(__name__, (("pypto.passes.pass_manager", "OptimizationStrategy PassDumpLevel PassManager"),))


def __getattr__(name: str) -> Any:
    return _FACADE.load(name)


def __dir__() -> list[str]:
    return _FACADE.names()

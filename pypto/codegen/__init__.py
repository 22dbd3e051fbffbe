"""Generators: final programs to text for a compiler or an assembler."""

from __future__ import annotations

from typing import Any

from pypto._lazy import Facade

_FACADE = Facade(__name__, (("pypto.codegen.pto", "PTOCodegen"),))


def __getattr__(name: str) -> Any:
    return _FACADE.load(name)


def __dir__() -> list[str]:
    return _FACADE.names()

"""`pypto.pypto_core.passes`: the older spelling of `pypto.passes`."""

from __future__ import annotations

from typing import Any

import pypto.passes


def __getattr__(name: str) -> Any:
    return getattr(pypto.passes, name)


def __dir__() -> list[str]:
    return dir(pypto.passes)

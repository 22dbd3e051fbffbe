"""`pypto.pypto_core.ir`: the older spelling of `pypto.ir`."""

from __future__ import annotations

from typing import Any

import pypto.ir


def __getattr__(name: str) -> Any:
    return getattr(pypto.ir, name)


def __dir__() -> list[str]:
    return dir(pypto.ir)

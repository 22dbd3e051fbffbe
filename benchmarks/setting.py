"""What all rows of a run share: how long, how large, beside whom, on what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from benchmarks.machine import Limits
from benchmarks.measure import Watch
from benchmarks.yardsticks import Yardsticks

__all__ = ["Setting"]


class Setting(NamedTuple):
    """seconds: for each row.  tiny: sizes that only show that everything works.  folder: for whatever is built."""

    seconds: float
    tiny: bool
    threads: int
    peers: Mapping[str, ModuleType]
    yardsticks: Yardsticks
    watch: Watch
    limits: Limits
    folder: Path

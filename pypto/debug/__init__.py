"""Numpy interpreter of every stage of a program: slow, obvious, the oracle for everything else."""

from __future__ import annotations

from pypto.debug.interpreter import interpret, run
from pypto.debug.storage import Placement

__all__ = ["Placement", "interpret", "run"]

"""`pl.parser`: where the exceptions of the parser are found."""

from __future__ import annotations

from pypto.language.parser import diagnostics

__all__ = ["diagnostics"]

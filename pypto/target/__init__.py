"""What the chips are: capacities, alignments, native conversions.  Facts only; rules that use them live in passes."""

from __future__ import annotations

from pypto.target.chip import A2A3, A5, CHIPS, PLATFORMS, Chip, chip_of, require_host, runs_here

__all__ = ["A2A3", "A5", "CHIPS", "PLATFORMS", "Chip", "chip_of", "require_host", "runs_here"]

"""Numerical system tests of kernels: declare cases (`st.case`), and pytest compiles, runs and compares them.

`pypto.testing.plugin` is the pytest plugin; only it needs pytest.
"""

from __future__ import annotations

from pypto.testing import st

__all__ = ["st"]

"""Older names of `pypto.testing`, for tests that import them from here; see docs/testing.md."""

from pypto.testing import st

__all__ = ["st"]

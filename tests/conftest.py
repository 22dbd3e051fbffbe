"""For all tests: an artifact cache of their own, and Python's operators on expressions.

The operators come with `pypto.ir`, which any program may import at any time: with them, code of the compiler that compares
nodes with `==` instead of `is` fails here, whatever the order of imports.
"""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

import pypto.ir.operators  # noqa: F401

pytest_plugins = ["contract", "buffer_watch", "pto_watch", "pypto.testing.plugin"]
_OWN = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """One directory for the run; workers of a parallel run inherit it."""
    if not hasattr(config, "workerinput"):
        config.stash[_OWN] = os.environ["PYPTO_CACHE_DIR"] = tempfile.mkdtemp(prefix="pypto-tests-")
        for name in ("PYPTO_CACHE", "PYPTO_NATIVE_OPT", "PYPTO_LAUNCHER", "PYPTO_PTOAS", "PTOAS_ROOT", "CFLAGS"):
            os.environ.pop(name, None)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _OWN in config.stash:
        shutil.rmtree(config.stash[_OWN], ignore_errors=True)

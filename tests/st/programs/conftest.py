"""Makes the shared files of the system tests importable, and gives the tests a cache of their own."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory):
    """One empty cache for the whole run: every kernel is compiled by the compiler under test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYPTO_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield

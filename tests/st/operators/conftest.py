"""Surroundings of the operator tests: the modules they share with other tests, and an artifact cache of their own."""

import os
import sys
from pathlib import Path

import pytest

from pypto.config import CACHE_DIR

_TESTS = Path(__file__).resolve().parents[2]
for _shared in (_TESTS / "st", _TESTS / "ut" / "ir" / "ops"):
    if str(_shared) not in sys.path:
        sys.path.append(str(_shared))


@pytest.fixture(scope="session")
def cache_directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def _own_cache(cache_directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of the tests are built here, and never found where an earlier run left them."""
    monkeypatch.setitem(os.environ, CACHE_DIR.name, cache_directory)

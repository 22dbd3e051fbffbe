"""A cache of their own for the tests, boxes, and both launchers."""

import pytest
from jit_kit import COUNTING, Box, tool

from pypto.jit import JITFunction, dispatch, programs
from pypto.passes.context import TOKEN
from pypto.runtime import directories, launch, store


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory):
    """One empty cache for the whole run: every kernel is compiled by the compiler under test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYPTO_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def seed(tmp_path_factory):
    """A box whose cache has the units that all kernels share."""
    folder = tmp_path_factory.mktemp("seed")
    box = Box(folder / "box", tool(folder / "cc-count", COUNTING))
    assert box.scale(101.0) == 101.0
    assert box.builds() == 1
    return box


@pytest.fixture
def box(seed, tmp_path):
    return Box(tmp_path / "box", seed.cc, seed.root)


@pytest.fixture
def new_box(seed, tmp_path):
    """Makes further boxes: by default with the shared units, `empty=True` without any cache."""
    made = []

    def make(*, empty=False):
        made.append(Box(tmp_path / f"box{len(made)}", seed.cc, None if empty else seed.root))
        return made[-1]

    return make


@pytest.fixture
def here(box, monkeypatch):
    """This process uses the box, knows no root yet, and has not warned about anything."""
    for name, value in box.env().items():
        if name.startswith(("PYPTO_C", "CC_", "REAL_")):
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(directories, "_said", {})
    monkeypatch.setattr(store, "_stores", {})
    return box


@pytest.fixture(params=["native", "ctypes"])
def launcher(request, monkeypatch):
    """The test runs with the C launcher, and again with its double.  Kernels must be made inside the test."""
    monkeypatch.setattr(programs, "_programs", {})
    if request.param == "native":
        assert dispatch.the_launcher(JITFunction).native
        return request.param
    double = launch.Launcher(False, *_double())
    monkeypatch.setattr(JITFunction, "__call__", JITFunction.__dict__["__call__"])
    double.install(JITFunction, "_dispatcher", "_entry_point")
    monkeypatch.setattr(dispatch, "_launcher", [double])
    return request.param


def _double():
    from pypto.runtime import fallback
    from pypto.runtime.plan import MISSING

    fallback.configure(context_var=TOKEN, fault=launch.raise_fault)
    return fallback.Entry, fallback.Dispatcher, fallback.install, MISSING

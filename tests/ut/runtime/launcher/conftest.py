"""The C launcher and its double in ctypes: fixtures that run a test over both."""

import ctypes
import sysconfig
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import SimpleNamespace

import pytest
from launcher_kit import AFFINE, PACKAGE, Slow, compiled

from pypto.runtime import fallback, launch
from pypto.runtime.plan import MISSING


@pytest.fixture(scope="session")
def kernels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    source = Path(__file__).parent / "kernels.c"
    return ctypes.CDLL(str(compiled([source], folder / "kernels.so", "-frounding-math")))


@pytest.fixture(scope="session")
def native_module(tmp_path_factory):
    target = tmp_path_factory.mktemp("launcher") / "pypto_launcher.so"
    units = [PACKAGE / "csrc" / name for name in launch._UNITS]
    compiled(units, target, f"-I{sysconfig.get_paths()['include']}", "-Wno-unused-parameter")
    loader = ExtensionFileLoader("pypto_launcher", str(target))
    module = module_from_spec(spec_from_loader("pypto_launcher", loader))
    loader.exec_module(module)
    with pytest.raises(RuntimeError, match="configure"):
        module.Dispatcher(print, (), ())
    assert launch.configure_native(module)
    return module


@pytest.fixture(params=["native", "ctypes"])
def backend(request):
    if request.param == "native":
        module = request.getfixturevalue("native_module")
        module.configure(context_var=None, fault=launch.raise_fault)
        return module
    fallback.configure(context_var=None, fault=launch.raise_fault)
    return fallback


@pytest.fixture
def entry(backend, kernels):
    def make(plan, function, *, place=lambda site: None, **rest):
        address = ctypes.cast(getattr(kernels, function), ctypes.c_void_p).value
        return backend.Entry(plan, address, launch.Kernel(plan, kernels, place), **rest)

    return make


@pytest.fixture
def affine(backend, entry):
    slow = Slow()
    d = backend.Dispatcher(slow, ("x", "s", "n", "y"), (MISSING, 1.0, 0, MISSING))
    d.add(entry(AFFINE, "affine"))
    return SimpleNamespace(call=d, slow=slow)

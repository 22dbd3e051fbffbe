"""The kernels as one would write them in C by hand, built with this machine's compiler.

In: the C files beside this one.  Out: functions of arrays and extents.  Invariant: numerics as those of compiled kernels, so no
flag that reorders or contracts.
"""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pypto.runtime.store import default_store
from pypto.runtime.toolchain import find_compiler, processor

__all__ = ["Yardsticks", "command"]

HERE = Path(__file__).parent
FILES = ("elementwise", "norms", "products", "attention", "movement", "limits")


def command() -> list[str]:
    """The compiler that kernels are compiled with, asked for the best that it can do with unchanged numbers."""
    found = find_compiler(default_store())
    flags = ["-O3", *processor().flags(found.family), "-ffp-contract=off", "-fno-math-errno", "-Wno-psabi"]
    return [*found.command, *flags, "-shared", "-fPIC"]


class Yardsticks:
    """Compiled functions: `run(name, arrays, extents)` gives a call without arguments."""

    def __init__(self, folder: Path) -> None:
        """Build everything into a folder.  RuntimeError with the compiler's words if one does not compile."""
        self.folder = folder
        self.libraries = [ctypes.CDLL(str(self._built(name))) for name in FILES]

    def _built(self, name: str, *flags: str) -> Path:
        target = self.folder / f"{name}.so"
        done = subprocess.run(
            [*command(), *flags, str(HERE / f"{name}.c"), "-lm", "-o", str(target)], capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"{name}.c does not compile:\n{done.stderr}")
        return target

    def run(self, name: str, arrays: Sequence[np.ndarray], extents: Sequence[int], stream: bool = False) -> Callable[[], None]:
        """A call of a function; `stream`: outputs bypass the caches."""
        function = next(getattr(lib, name) for lib in self.libraries if hasattr(lib, name))
        function.restype = None
        pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        numbers = (ctypes.c_int64 * len(extents))(*extents)

        flag, held = ctypes.c_int(int(stream)), list(arrays)

        def call() -> None:
            assert held  # the call keeps its arrays alive
            function(pointers, numbers, flag)

        return call

    def constants(self, name: str, count: int) -> list[int]:
        """An array of 64-bit integers that one of the files exports."""
        library = next(lib for lib in self.libraries if hasattr(lib, name))
        return list((ctypes.c_int64 * count).in_dll(library, name))

    def extension(self) -> Any:
        """The C extension of call.c; None where Python's headers are missing."""
        include = sysconfig.get_paths()["include"]
        if not (Path(include) / "Python.h").exists():
            return None
        spec = importlib.util.spec_from_file_location("call", self._built("call", f"-I{include}"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

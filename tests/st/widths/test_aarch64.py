"""Native code for aarch64, by the ziglang wheel: all of it compiles; where there is an emulator, it gives this machine's bits.

What is compiled: the kernels that stand for all, the routines they are linked with, and the launcher.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from lab import arrays, assert_same_bits, copies
from width_kernels import CASES

from pypto.jit.compiled import CompiledProgram
from pypto.runtime import launch, toolchain
from pypto.runtime.linking import INCLUDE
from pypto.runtime.processor import Processor
from pypto.runtime.validate import bind_check

HERE = Path(__file__).parent
RUNTIME = Path(INCLUDE).parent
QEMU = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="no ziglang wheel: pip install 'pypto[toolchain]'"
)

Compile = Callable[..., str]


@pytest.fixture(scope="module")
def compile_c(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Run the compiler for aarch64 with the flags that it would have there; the path of what it makes."""
    folder = tmp_path_factory.mktemp("aarch64")
    with mock.patch.object(toolchain, "processor", return_value=Processor("armv8-a", ("asimd", "fp"), True)):
        flags = [f for f in toolchain._compile_flags("zig") if f not in ("-shared", "-Wl,-Bsymbolic", "-pipe")]
    place = os.environ.get("ZIG_GLOBAL_CACHE_DIR") or str(folder / "zig")
    env = os.environ | {"ZIG_GLOBAL_CACHE_DIR": place, "ZIG_LOCAL_CACHE_DIR": place}

    def compile_c(name: str, *arguments: str, libc: str = "gnu") -> str:
        made = folder / name
        compiler = [sys.executable, "-m", "ziglang", "cc", "-target", f"aarch64-linux-{libc}", *flags]
        done = subprocess.run([*compiler, f"-I{INCLUDE}", *arguments, "-o", str(made)], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return str(made)

    return compile_c


@pytest.fixture(scope="module")
def matmul(compile_c: Compile) -> str:
    return compile_c("matmul.o", "-c", str(RUNTIME / "routines" / "matmul.c"))


def test_the_launcher(compile_c: Compile) -> None:
    """Against this machine's Python headers: types have the same sizes."""
    headers = [f"-I{sysconfig.get_path(p)}" for p in ("include", "platinclude")]
    for unit in launch._UNITS:
        made = compile_c(f"{unit}.o", "-c", f"-I{RUNTIME / 'csrc'}", *headers, str(RUNTIME / "csrc" / unit))
        assert Path(made).read_bytes()[18:20] == b"\xb7\x00"  # ELF's number of the machine


@pytest.mark.parametrize("name", CASES)
def test_the_bits_of_this_machine(name: str, compile_c: Compile, matmul: str, tmp_path: Path) -> None:
    case = CASES[name]()
    kernel = case.kernel.compile(*case.calls[0])
    source = tmp_path / "kernel.c"
    source.write_text(kernel.inspect("c"))
    made = compile_c(f"{name}.o", "-c", str(source))
    if QEMU is None:
        return
    main = compile_c("main.o", "-c", str(HERE / "run_kernel.c"), libc="musl")
    program = compile_c(name, "-static", main, made, *([matmul] if "pypto_matmul.h" in source.read_text() else []), libc="musl")
    sent = [(arrays(call), _sent(kernel, call)) for call in case.calls]
    answer = subprocess.run([QEMU, program], input=b"".join(s for _, s in sent), capture_output=True, check=True).stdout
    for n, (call, (given, _)) in enumerate(zip(case.calls, sent, strict=True)):
        status, answer = answer[:8], answer[8:]
        assert status == bytes(8)
        got = []
        for a in given:
            got.append(np.frombuffer(answer[: a.nbytes], np.uint8).view(a.dtype).reshape(a.shape))
            answer = answer[a.nbytes :]
        here = copies(call)
        kernel(*here)
        assert_same_bits(got, arrays(here), f"call {n}")


def _sent(kernel: CompiledProgram, call: tuple[object, ...]) -> bytes:
    """A call as `run_kernel.c` reads it."""
    prepared = bind_check(kernel.plan, call)
    tensors = arrays(call)
    counts = [len(tensors), len(prepared.dims), len(prepared.scalars), kernel.plan.scratch_bytes]
    head = np.array([*counts, *prepared.dims, *prepared.scalars], np.int64).tobytes()
    return head + b"".join(np.int64(a.nbytes).tobytes() + a.tobytes() for a in tensors)

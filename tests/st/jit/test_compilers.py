"""Another compiler, other flags, another processor: a miss, and a hit again on the way back."""

import importlib.util
import os
import shutil

import pytest
from jit_kit import HEAD, NO_LAUNCHER, SCALE, tool

OTHER = """case "$*" in *--version*) echo "cc (other) 99.1"; exit 0;; *-dumpversion*|*-dumpfullversion*) echo 99.1; exit 0;; esac
case " $* " in *" -o kernel.so "*) echo x >> "$CC_LOG";; esac
exec "$REAL_CC" "$@\""""
CODE = SCALE.replace("FACTOR", "2.0")


def builds(box, **kw):
    assert box.scale(2.0, **NO_LAUNCHER, **kw) == 2.0
    return box.builds()


def test_each_compiler_has_artifacts_of_its_own(box):
    assert builds(box) == 1
    other = tool(box.dir / "cc-other", OTHER)
    for env in ({"PYPTO_CC": other}, {"CFLAGS": "-O0"}, {"PYPTO_CC": f"{box.cc} -fno-builtin"}):
        assert builds(box, **env) == 1
    assert builds(box) == 0
    assert builds(box, PYPTO_CC=None, CC=other) == 0  # by the other variable: one compiler all the same


def test_another_file_of_the_same_name(box):
    for name, text in (("first", "98.7"), ("second", "98.8")):
        folder = box.dir / name
        folder.mkdir()
        tool(folder / "cc", OTHER.replace("99.1", text))
        path = {"PYPTO_CC": None, "PATH": f"{folder}:{os.environ['PATH']}"}
        assert builds(box, **path) == 1
    (box.dir / "link").symlink_to(box.dir / "second" / "cc")
    assert builds(box, PYPTO_CC="./link", cwd=box.dir) == 0


def test_a_compiler_replaced_in_place(box):
    cc = tool(box.dir / "cc-here", OTHER)
    assert builds(box, PYPTO_CC=cc) == 1
    tool(cc, OTHER.replace("99.1", "99.2"))
    assert builds(box, PYPTO_CC=cc) == 1
    assert builds(box, PYPTO_CC=cc) == 0


def test_another_processor(box):
    probe = 'import pypto.runtime.toolchain as t\nt.cpu_features = lambda: ("none",)\n'
    assert builds(box) == 1
    assert box.run(probe + CODE, **NO_LAUNCHER).words == ["2.0"]
    assert box.builds() == 1
    assert builds(box) == 0


def test_another_level_of_processors(box):
    level = "x86-64" if os.uname().machine == "x86_64" else "armv8-a"
    assert [builds(box, PYPTO_TARGET_CPU=cpu) for cpu in ("native", level, None, level)] == [1, 1, 0, 0]


def test_an_edited_runtime_header(box):
    """The package's own sources, headers included, are part of every key; here, of a copy of the package."""
    copy = box.dir / "copy"
    from jit_kit import ROOT

    shutil.copytree(ROOT / "pypto", copy / "pypto", ignore=shutil.ignore_patterns("__pycache__", ".mypy_cache"))
    assert builds(box) == 1
    assert builds(box, PYTHONPATH=copy) == 0  # the same package elsewhere
    header = copy / "pypto" / "runtime" / "include" / "pypto_kernel.h"
    text = header.read_text()
    header.write_text(text + "\n/* edited */\n")
    assert builds(box, PYTHONPATH=copy) == 1
    module = copy / "pypto" / "codegen" / "native" / "writer.py"
    source = module.read_text()
    module.write_text(source + "\n")
    assert builds(box, PYTHONPATH=copy) == 1
    header.write_text(text)
    module.write_text(source)
    assert builds(box, PYTHONPATH=copy) == 0


def test_a_warm_process_does_not_start_it(box):
    every, starts = tool(box.dir / "cc-every", 'echo x >> "$STARTS"\nexec "$REAL_CC" "$@"'), box.dir / "starts"
    assert box.scale(2.0, PYPTO_CC=every, STARTS=starts) == 2.0
    starts.unlink()
    assert box.scale(2.0, PYPTO_CC=every, STARTS=starts) == 2.0
    assert not starts.exists()


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is not None, reason="the ziglang wheel is a compiler")
def test_no_compiler_at_all(box):
    """What was built before still runs; what was not is one error that says how to get one."""
    # The compiler that is found by itself, so that only its absence differs.
    folder = box.dir / "bin"
    folder.mkdir()
    tool(folder / "cc", f'case " $* " in *" -o kernel.so "*) echo x >> "$CC_LOG";; esac\nexec {shutil.which("cc")} "$@"')
    with_it = {"PYPTO_CC": None, "PATH": f"{folder}:/usr/bin:/bin"}
    assert builds(box, **with_it) == 1
    without = {"PYPTO_CC": None, "PATH": str(box.dir / "nowhere")}
    assert builds(box, **without) == 0
    p = box.run(SCALE.replace("FACTOR", "3.0"), ok=False, **NO_LAUNCHER, **without)
    assert p.returncode == 1
    assert "ToolchainError" in p.err
    assert "apt install gcc" in p.err
    assert "Traceback" in p.err
    assert p.err.count("error[T100]") == 1


def test_a_compiler_that_is_none(box):
    for value in ("/nonexistent/cc", "no-such-compiler", "cc -ffast-math"):
        p = box.run(CODE, ok=False, PYPTO_CC=value)
        assert p.returncode == 1
        assert "PYPTO_CC" in p.err


def test_the_launcher_is_built_with_the_same_compiler_or_replaced(box):
    """A compiler that makes kernels but not the launcher: calls go through ctypes, with the same numbers and one warning."""
    halfway = tool(
        box.dir / "cc-half",
        'case " $* " in *" -o pypto_launcher.so "*) exit 1;; *" -o kernel.so "*) echo x >> "$CC_LOG";; esac\n'
        'exec "$REAL_CC" "$@"',
    )
    p = box.run(HEAD + "k = scaled(2.0)\nprint(call(k), call(k), 'pypto.runtime.fallback' in sys.modules)", PYPTO_CC=halfway)
    assert p.words == ["2.0", "2.0", "True"]
    assert p.err.count("PyptoWarning: kernels are called by ctypes") == 1
    assert box.builds() == 1


@pytest.mark.parametrize("flags", ["-ffast-math", "-funsafe-math-optimizations -O1"])
def test_flags_that_change_numbers(box, flags):
    p = box.run(CODE, ok=False, CFLAGS=flags)
    assert p.returncode == 1
    assert "ConfigError" in p.err
    assert "CFLAGS" in p.err

"""A compiler that is missing, is none, fails or hangs: one error with the command and the ways out, and nothing is written."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from errors_kit import out, refused

import pypto
import pypto.language as pl
from pypto.errors import ConfigError, ToolchainError

_made = itertools.count()


def fresh():
    """A kernel that no cache has."""
    number = next(_made)

    @pl.jit
    def k(a: pl.Tensor, o: pl.Out[pl.Tensor]):
        pl.static_assert(number >= 0, "a constant")
        with pl.at(level=pl.Level.CORE_GROUP):
            o[:] = pl.add(a, 1.0)
        return o

    return k


def script(folder, text):
    path = folder / f"cc{next(_made)}"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def arguments():
    return np.ones((8, 16), np.float32), out(8, 16)


def test_a_compiler_that_is_not_there(monkeypatch, tmp_path):
    for name in ("/nonexistent/cc", "no-such-compiler", str(tmp_path)):
        monkeypatch.setenv("PYPTO_CC", name)
        k = fresh()
        for _ in range(2):
            e = refused(k, arguments(), ToolchainError, "PYPTO_CC", name, "is not a program", code="T100", piece=None)
            assert "fix or unset PYPTO_CC" in e.hint
            assert "apt install gcc" in e.hint
            assert "pip install pypto[toolchain]" in e.hint
            assert isinstance(e, RuntimeError)
    monkeypatch.delenv("PYPTO_CC")
    np.testing.assert_array_equal(k(*arguments()), 2)  # the same kernel, once there is one


def test_no_compiler_at_all(monkeypatch, tmp_path):
    """Neither named nor on the path nor in a wheel; what other kernels left behind does not help a new one."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PYPTO_CC", raising=False)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    e = refused(fresh(), arguments(), ToolchainError, "no C compiler was found", "cc, gcc and clang", code="T100", piece=None)
    assert "PYPTO_CC" in e.hint


def test_a_compiler_that_does_not_work(monkeypatch, tmp_path):
    monkeypatch.setenv("PYPTO_CC", script(tmp_path, "echo 'cc: licence expired' >&2\nexit 3\n"))
    e = refused(fresh(), arguments(), ToolchainError, "does not work", "command: ", "licence expired", code="T103", piece=None)
    assert e.hint


def test_a_compiler_that_fails(monkeypatch, tmp_path):
    """It answers every question, and fails when it should make a file."""
    text = """
for word in "$@"; do
    if [ "$word" = -o ]; then
        echo "kernel.c: In function 'pypto_entry':" >&2
        echo "kernel.c:7:3: error: expected a better machine" >&2
        exit 1
    fi
done
exec cc "$@"
"""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where the source is kept
    command = script(tmp_path, text)
    monkeypatch.setenv("PYPTO_CC", command)
    k = fresh()
    before = pypto.cache_stats()
    with pytest.raises(ToolchainError) as caught:
        k(*arguments())
    e, shown = caught.value, str(caught.value)
    assert e.code == "T101"
    assert "the C compiler failed with status 1" in shown
    assert f"command: {command}" in shown
    assert "kernel.c:7:3: error: expected a better machine" in shown
    kept, why = e.note.split(" was kept, ")
    assert why == "so that the failure can be repeated: the source, command.sh, output.txt"
    assert "pypto_entry" in (Path(kept) / "kernel.c").read_text()
    assert command in (Path(kept) / "command.sh").read_text()
    assert "run command.sh in the directory that was kept" in e.hint
    assert "CFLAGS" not in e.hint
    assert pypto.cache_stats().builds == before.builds
    # A failure is not remembered: with a compiler that works the call does.
    monkeypatch.delenv("PYPTO_CC")
    np.testing.assert_array_equal(k(*arguments()), 2)


def test_flags_that_the_compiler_does_not_take(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("CFLAGS", "-no-such-flag")
    with pytest.raises(ToolchainError, match="no-such-flag") as caught:
        fresh()(*arguments())
    assert caught.value.code == "T101"
    assert "look at CFLAGS='-no-such-flag', which is part of the command, or unset it" in caught.value.hint


def test_a_compiler_that_never_ends(monkeypatch, tmp_path):
    text = 'for word in "$@"; do\n    [ "$word" = -o ] && exec sleep 60\ndone\nexec cc "$@"\n'
    monkeypatch.setenv("PYPTO_CC", script(tmp_path, text))
    monkeypatch.setenv("PYPTO_COMPILER_TIMEOUT", "0.3")
    a, o = arguments()
    with pytest.raises(ToolchainError, match=r"did not finish within 0\.3 s") as e:
        fresh()(a, o)
    assert e.value.code == "T102"
    np.testing.assert_array_equal(o, -777)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("CFLAGS", "-ffast-math", ["CFLAGS", "-ffast-math", "changes the numbers"]),
        ("CFLAGS", "-O2 'unfinished", ["CFLAGS", "quotation"]),
        ("PYPTO_CC", "cc -Ofast", ["PYPTO_CC", "-Ofast"]),
        ("PYPTO_COMPILER_TIMEOUT", "soon", ["PYPTO_COMPILER_TIMEOUT", "'soon'", "seconds"]),
        ("PYPTO_NATIVE_OPT", "2", ["PYPTO_NATIVE_OPT", "'2'", "0, 1"]),
        ("PYPTO_CACHE", "maybe", ["PYPTO_CACHE", "'maybe'", "on, readonly, off"]),
    ],
)
def test_settings_that_cannot_be(name, value, words, monkeypatch):
    monkeypatch.setenv(name, value)
    refused(fresh(), arguments(), ConfigError, *words, piece=None)


@pytest.mark.parametrize("flag", ["-mabi=ms", "-m32", "-fpack-struct=1", "-mno-sse2", "-fcall-saved-rax"])
def test_flags_that_change_how_code_is_called(monkeypatch, flag):
    monkeypatch.setenv("CFLAGS", f"-g0 {flag}")
    e = refused(fresh(), arguments(), ConfigError, "CFLAGS", flag, "how compiled code is called", code="O122", piece=None)
    assert "leave it out" in e.hint


def test_flags_that_make_no_library(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("CFLAGS", "-fsyntax-only")
    with pytest.raises(ToolchainError, match=r"status 0, but made no kernel\.so") as caught:
        fresh()(*arguments())
    assert "-fsyntax-only" in caught.value.message
    assert "CFLAGS" in caught.value.hint


def test_hidden_symbols_are_no_matter(monkeypatch):
    monkeypatch.setenv("CFLAGS", "-fvisibility=hidden")
    np.testing.assert_array_equal(fresh()(*arguments()), 2)

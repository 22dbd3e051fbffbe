"""`pypto doctor`: what it finds on a sound machine and on unsound ones, and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from pypto.cli import doctor
from pypto.cli.main import main
from pypto.runtime.mounts import _kind, look

CHECKS = ["python", "packages", "options", "cpu", "cache", "compiler", "launcher", "ptoas", "devices"]


class Doctor:
    """Runs the command in process; `checks` of its JSON by name."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self.capture = capture

    def __call__(self, code: int = 0) -> dict[str, dict[str, Any]]:
        assert main(["doctor", "--json"]) == code
        out, err = self.capture.readouterr()
        assert err == ""
        read = json.loads(out)
        assert set(read) == {"ok", "checks"}
        assert read["ok"] == (code == 0)
        for c in read["checks"]:
            assert set(c) == {"name", "state", "summary", "facts", "problem", "remedy"}
            assert c["state"] in ("ok", "note", "warning", "error")
            assert c["summary"]
            if c["state"] in ("warning", "error"):
                assert c["problem"] or c["facts"].get("code"), c
                assert c["remedy"], c
        assert [c["name"] for c in read["checks"]] == CHECKS
        assert any(c["state"] == "error" for c in read["checks"]) == (code == 1)
        return {c["name"]: c for c in read["checks"]}

    def text(self, code: int = 0) -> str:
        assert main(["doctor"]) == code
        return self.capture.readouterr().out


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Doctor:
    for name in ("PYPTO_PTOAS", "PTOAS_ROOT"):
        monkeypatch.delenv(name, raising=False)
    return Doctor(capsys)


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_a_sound_machine(run: Doctor) -> None:
    c = run()
    assert c["python"]["facts"]["executable"] == sys.executable
    assert c["packages"]["facts"]["versions"]["numpy"]
    assert c["cpu"]["facts"]["usable_cpus"] >= 1
    cache = c["cache"]["facts"]
    assert (cache["root"], cache["mode"]) == (os.environ["PYPTO_CACHE_DIR"], "on")
    assert (cache["writable"], cache["noexec"], cache["exists"]) == (True, False, True)
    assert cache["free"] > 0
    compiler = c["compiler"]["facts"]
    assert os.access(compiler["command"][0], os.X_OK)
    assert compiler["version"]
    assert "-fPIC" in compiler["flags"]
    assert 0 < compiler["seconds"] < 60
    assert c["launcher"]["facts"]["native"]
    assert c["devices"]["facts"] == {"run_here": ["a2a3sim", "a5sim"], "generated": ["a2a3", "a5"]}


def test_the_text_says_the_same(run: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = run.text()
    assert text.endswith("\n\nKernels compile and run here.\n")
    assert [line[8:18].strip() for line in text.splitlines() if line[:8].strip() in ("ok", "note")] == CHECKS
    assert max(len(line) for line in text.splitlines()) <= 100
    monkeypatch.setenv("PYPTO_CACHE", "off")
    assert "to mend it: unset PYPTO_CACHE\n" in (text := run.text())
    assert text.endswith("Kernels compile and run here; look at the warnings.\n")


def test_as_a_command(tmp_path: Path) -> None:
    def ran(**env: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYPTO_CACHE_DIR": str(tmp_path / "cache"), **env}
        return subprocess.run([sys.executable, "-m", "pypto", "doctor"], env=environment, capture_output=True, text=True)

    done = ran(PYPTO_LAUNCHER="ctypes")
    assert (done.returncode, done.stderr) == (0, "")
    assert "ctypes, as PYPTO_LAUNCHER says" in done.stdout
    done = ran(PYPTO_CC="no-such-compiler", PYPTO_LAUNCHER="ctypes")
    assert (done.returncode, done.stderr) == (1, "")
    assert "error   compiler  PYPTO_CC='no-such-compiler' is not a program that can be run" in done.stdout
    assert done.stdout.endswith("Kernels do not compile or run here: look at the errors.\n")


# -- compilers --


def test_no_compiler(run: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in (("PATH", str(tmp_path)), ("PYPTO_CACHE_DIR", str(tmp_path / "cache"))):
        monkeypatch.setenv(name, value)
    for name in ("PYPTO_CC", "CC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    c = run(1)["compiler"]
    assert c["summary"].startswith("no C compiler was found")
    assert "apt install gcc" in c["remedy"]
    assert c["facts"] == {"code": "T100"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("echo 'cc: licence expired' >&2; exit 3", "licence expired"),
        (
            'for w in "$@"; do [ "$w" = probe.so ] && { echo "probe.c:1:1: error: tired" >&2; exit 1; }; done; exec cc "$@"',
            "tired",
        ),
        ('for w in "$@"; do [ "$w" = probe.so ] && exit 0; done; exec cc "$@"', "made no probe.so"),
    ],
)
def test_a_compiler_that_fails(run: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, words: str) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("PYPTO_CC", str(script(tmp_path / "cc", body)))
    c = run(1)["compiler"]
    assert c["state"] == "error"
    assert words in c["summary"] + c["problem"]


def test_a_compiler_whose_code_is_wrong(run: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    body = 'case "$*" in *probe.so*) sed -i "s/x + 1/x + 2/" probe.c;; esac; exec cc "$@"'
    monkeypatch.setenv("PYPTO_CC", str(script(tmp_path / "cc", body)))
    assert "gives wrong results" in run(1)["compiler"]["problem"]


def test_a_compiler_that_is_none(run: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    licence = "\n".join(f"echo licence {n}" for n in range(50))
    monkeypatch.setenv("PYPTO_CC", str(script(tmp_path / "cc", f"echo no compiler\n{licence}\nexit 1")))
    c = run(1)["compiler"]
    assert c["problem"].splitlines()[1:] == ["  status 1", "  no compiler", "  licence 0", "  licence 1", "  ..."]


def test_a_launcher_without_a_compiler(run: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pypto.runtime.launch.native_launcher", lambda: warnings.warn("no headers", stacklevel=1))
    monkeypatch.setenv("PYPTO_CC", "no-such-compiler")
    assert run(1)["launcher"]["remedy"] == "mend the compiler"
    monkeypatch.delenv("PYPTO_CC")
    assert "install Python's headers" in run()["launcher"]["remedy"]


# -- options --


def test_variables_that_are_no_options(run: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_CACHE_DIRECTORY", "/nowhere")
    monkeypatch.setenv("PYPTO_WHATEVER_THIS_IS", "1")
    c = run()["options"]
    assert c["state"] == "warning"
    assert "PYPTO_CACHE_DIRECTORY is no option" in c["problem"]
    assert c["remedy"].splitlines() == ["did you mean PYPTO_CACHE_DIR?", "unset PYPTO_WHATEVER_THIS_IS"]


def test_values_that_options_cannot_have(run: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_VERIFY_LEVEL", "thorough")
    monkeypatch.setenv("CFLAGS", "-ffast-math")
    c = run(1)
    assert "PYPTO_VERIFY_LEVEL='thorough': expected one of none, basic, roundtrip" in c["options"]["problem"]
    assert c["options"]["facts"]["set"]["CFLAGS"] == "-ffast-math"
    assert "changes the numbers" in c["compiler"]["summary"]
    assert c["cache"]["state"] == "ok"


# -- the cache --


def test_caches_with_something_wrong(run: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cache never keeps a kernel from running: all of it are warnings."""
    root = tmp_path / "cache"
    monkeypatch.setenv("PYPTO_CACHE_DIR", str(root))
    fresh = run()["cache"]
    assert (fresh["state"], fresh["facts"]["writable"]) == ("ok", True)
    root.chmod(0o777)
    assert "can be written by other users (mode 0777)" in run()["cache"]["problem"]
    root.chmod(0o700)
    monkeypatch.setattr(doctor, "_LEAST_ROOM", 1 << 60)
    assert run()["cache"]["problem"].endswith("are free")
    monkeypatch.undo()
    file = script(tmp_path / "file", "")
    for place in (file, file / "below"):
        monkeypatch.setenv("PYPTO_CACHE_DIR", str(place))
        c = run()["cache"]
        assert (c["state"], c["facts"]["writable"]) == ("warning", False)


def test_file_systems(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run: Doctor) -> None:
    place = look(str(tmp_path / "a" / "b"))
    assert (place.there, place.writable, place.executable) == (str(tmp_path), True, True)
    real = os.statvfs

    class Mounted:
        def __init__(self, path: str, flags: int) -> None:
            found = real(path)
            self.f_flag, self.f_bavail, self.f_frsize = found.f_flag | flags, found.f_bavail, found.f_frsize

    monkeypatch.setattr("os.statvfs", lambda path: Mounted(path, os.ST_NOEXEC | os.ST_RDONLY))
    place = look(str(tmp_path))
    assert (place.writable, place.executable) == (False, False)
    c = run()["cache"]
    assert "mounted noexec" in c["problem"]
    assert "cannot be written" in c["problem"]
    assert "PYPTO_CACHE_DIR" in c["remedy"]


def test_which_mount_a_path_is_on() -> None:
    lines = [
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw",
        "2 1 0:5 / /home rw,noexec shared:3 - nfs4 host:/home rw",
        r"3 2 0:6 / /home/a\040b rw - tmpfs tmpfs rw",
        "4 1 0:7 / /home rw - overlay overlay rw",
        "garbage",
    ]
    expected = {"/": "ext4", "/homes/x": "ext4", "/home": "overlay", "/home/c": "overlay", "/home/a b/c": "tmpfs"}
    assert {path: _kind(path, lines) for path in expected} == expected
    assert _kind("/x", []) == ""


# -- the assembler --


def test_assemblers(run: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run()["ptoas"]["state"] in ("note", "ok")
    monkeypatch.setenv("PTOAS_ROOT", str(tmp_path))
    c = run()["ptoas"]
    assert c["state"] == "warning"
    assert f"PTOAS_ROOT={tmp_path} has no ptoas" in c["problem"]
    path = script(tmp_path / "ptoas", "echo ptoas 0.60")
    c = run()["ptoas"]
    assert (c["state"], c["facts"]["version"], c["facts"]["path"]) == ("ok", "ptoas 0.60", str(path))
    path.chmod(0o644)
    c = run(1)["ptoas"]
    assert (c["state"], c["facts"]) == ("error", {"code": "T120"})
    monkeypatch.setenv("PYPTO_PTOAS", "off")
    assert run()["ptoas"]["summary"] == "off, as PYPTO_PTOAS says"


def test_what_a_check_meets_ends_nothing(run: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> doctor.Finding:
        raise OSError(5, "Input/output error", "/disk")

    monkeypatch.setattr(doctor, "_cpu", broken)
    assert main(["doctor"]) == 1
    assert "error   cpu       OSError: [Errno 5] Input/output error: '/disk'" in run.capture.readouterr().out

"""The assembler: where it is looked for, what identifies it, and what becomes of each way in which it can fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pypto.errors import ConfigError, ToolchainError
from pypto.runtime import ptoas
from pypto.runtime.assemble import assemble
from pypto.runtime.store import Store
from pypto.span import Span

TEXT = "module attributes {} {\n  func.func @k() {\n    pto.tadd\n  }\n}\n"
GOOD = 'case "$1" in --version) echo "ptoas 0.60"; echo "of a test"; exit 0;; esac\ncp "$1" "$3"; echo "// $*" >> "$3"'


def program(path: Path, body: str, log: Path | None = None) -> Path:
    """An executable script, which writes down each run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noted = f'echo "$*" >> "{log}"\n' if log is not None else ""
    path.write_text(f"#!/bin/sh\n{noted}{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No assembler on the path; failures are kept below this directory."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    monkeypatch.delenv("PTOAS_ROOT", raising=False)
    monkeypatch.delenv("PYPTO_PTOAS", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


# -- where --


@pytest.mark.parametrize("name", ["ptoas", "ptoas.sh", "bin/ptoas"])
def test_below_its_root_before_the_path(bare: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    on_path = program(bare / "path" / "ptoas", GOOD)
    assert ptoas.found_at() == str(on_path)
    there = program(bare / "root" / name, GOOD)
    monkeypatch.setenv("PTOAS_ROOT", str(bare / "root"))
    assert ptoas.found_at() == str(there)
    monkeypatch.setenv("PTOAS_ROOT", f"{bare}/root/")
    assert ptoas.found_at() == str(there)
    monkeypatch.setenv("PTOAS_ROOT", str(bare / "empty"))
    assert ptoas.found_at() == str(on_path)


def test_there_may_be_none(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(bare / "cache"))
    assert ptoas.find(store) is None
    (bare / "path" / "ptoas").mkdir(parents=True)  # no program
    assert ptoas.found_at() == ""
    (bare / "path" / "ptoas").rmdir()
    program(bare / "path" / "ptoas", GOOD).chmod(0o644)  # nor is this, as a shell looks at it
    assert ptoas.found_at() == ""
    program(bare / "path" / "ptoas", GOOD)
    monkeypatch.setenv("PYPTO_PTOAS", "off")
    assert ptoas.find(store) is None
    monkeypatch.setenv("PYPTO_PTOAS", "maybe")
    with pytest.raises(ConfigError, match="on, off"):
        ptoas.find(store)


def test_one_that_was_named_must_be_a_program(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare / "root" / "ptoas", GOOD).chmod(0o644)
    monkeypatch.setenv("PTOAS_ROOT", str(bare / "root"))
    with pytest.raises(ToolchainError, match="is not executable") as e:
        ptoas.find(Store(str(bare / "cache")))
    assert e.value.code == "T120"
    assert e.value.hint is not None
    assert "chmod +x" in e.value.hint
    assert "PYPTO_PTOAS=off" in e.value.hint
    # A script beside it that can be run is the one that is meant.
    script = program(bare / "root" / "ptoas.sh", GOOD)
    assert ptoas.found_at() == str(script)


# -- identity --


def test_it_is_asked_once_per_machine(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = bare / "log"
    path = program(bare / "path" / "ptoas", GOOD, log)
    root = str(bare / "cache")
    found = ptoas.find(Store(root))
    assert found is not None
    assert (found.path, found.version) == (str(path), "ptoas 0.60\nof a test")
    assert set(found.identity) == {"path", "version", "content"}
    monkeypatch.setattr(ptoas, "_found", {})  # as in another process
    assert ptoas.find(Store(root)) == found
    assert log.read_text() == "--version\n"


def test_another_one_is_told_apart(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By content, by version, by path, and by the program behind a script."""
    store = Store(str(bare / "cache"))
    root = bare / "root"
    monkeypatch.setenv("PTOAS_ROOT", str(root))

    def identity() -> dict[str, object]:
        found = ptoas.find(store)
        assert found is not None
        return dict(found.identity)

    script = program(root / "ptoas.sh", f'exec "{root}/bin/ptoas" "$@"')
    program(root / "bin" / "ptoas", "echo one")
    first = identity()
    assert first["version"] == "one"
    program(root / "bin" / "ptoas", "echo 2 ;:")
    second = identity()
    assert (second["version"], second["path"]) == ("2", first["path"])
    assert second["content"] != first["content"]
    program(root / "bin" / "ptoas", "exit 3")
    third = identity()
    assert third["version"] == ""
    monkeypatch.delenv("PTOAS_ROOT")
    program(bare / "path" / "ptoas", script.read_text().split("\n", 1)[1])
    assert identity()["path"] != first["path"]


def test_one_that_cannot_say_what_it_is(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(bare / "cache"))
    monkeypatch.setattr(ptoas, "_PROBE_SECONDS", 0.3)
    program(bare / "path" / "ptoas", "exec sleep 60")
    with pytest.raises(ToolchainError, match=r"--version did not finish within 0\.3 s") as e:
        ptoas.find(store)
    assert e.value.code == "T122"
    (bare / "path" / "ptoas").write_bytes(b"\x7fELF and no more")
    with pytest.raises(ToolchainError, match="cannot be run") as e:
        ptoas.find(store)
    assert e.value.code == "T120"


# -- runs --


def place(line: int) -> Span | None:
    return Span("k.py", 40 + line, 5) if line < 5 else None


def run(bare: Path, body: str, name: str = "k") -> bytes:
    path = program(bare / "path" / "ptoas", body)
    found = ptoas.Ptoas(str(path), {"path": str(path), "version": "", "content": ""})
    work = bare / "work"
    work.mkdir(exist_ok=True)
    try:
        return assemble(found, name, TEXT, "a3", "level3", str(work), place)
    finally:
        assert list(work.iterdir()) == []  # nothing half-written stays


def test_what_it_gets_and_gives(bare: Path) -> None:
    made = run(bare, GOOD + "\nmkdir rest; echo more > rest/file; echo warning: strange >&2")
    assert made.decode() == TEXT + "// k.pto -o k.cpp --enable-insert-sync --pto-level=level3 --pto-arch=a3\n"


@pytest.mark.parametrize("form", ["k.pto:3:9: ", 'loc("k.pto":3:9): ', "/some/where/k.pto:3:9: "])
def test_its_first_error_is_at_the_users_line(bare: Path, form: str) -> None:
    said = f"'k.pto:1:1: warning: odd' '{form}error: no such thing' 'k.pto:4:1: error: later'"
    body = f"echo noise >&2; printf '%s\\n' {said} >&2; exit 1"
    with pytest.raises(ToolchainError) as caught:
        run(bare, body)
    e = caught.value
    assert (e.code, e.location and e.location.to_string()) == ("T121", "k.py:43:5")
    assert e.message.startswith("ptoas compilation failed: k.pto: no such thing\n  command: ")
    assert "error: later" in e.message
    assert "PYPTO_PTOAS=off" in str(e)
    assert e.note is not None
    kept = Path(e.note.split(" was kept")[0])
    assert (kept / "k.pto").read_text() == TEXT
    assert "--pto-level=level3" in (kept / "command.sh").read_text()
    assert "noise" in (kept / "output.txt").read_text()


@pytest.mark.parametrize(
    ("body", "words", "code"),
    [
        ("exit 7", "it ended with status 7", "T121"),
        ("kill -SEGV $$", "it was ended by signal 11", "T121"),
        ("exit 0", "it ended with status 0, but made no k.cpp", "T121"),
        (": > k.cpp", "it ended with status 0, but left k.cpp empty", "T121"),
        ("ln -s k.pto k.cpp", "but made no k.cpp", "T121"),
        ("mkdir k.cpp", "but made no k.cpp", "T121"),
        ("echo half > k.cpp; echo 'k.pto:99:1: error: beyond the end' >&2; exit 1", "beyond the end", "T121"),
        ("echo 'other.pto:3:1: error: in another file' >&2; exit 1", "in another file", "T121"),
        ("printf '\\377\\001\\033[31mred\\0\\r\\n' >&2; head -c 100000 /dev/zero >&2; exit 1", "it ended with status 1", "T121"),
        ("exec sleep 60", "it did not finish within 0.5 s", "T122"),
        ("sleep 60 & wait", "it did not finish within 0.5 s", "T122"),
    ],
)
def test_other_ways_to_fail(bare: Path, monkeypatch: pytest.MonkeyPatch, body: str, words: str, code: str) -> None:
    """Without a place in the text: no line of the user's is blamed, and what is shown moves no terminal's cursor."""
    if code == "T122":
        monkeypatch.setenv("PYPTO_COMPILER_TIMEOUT", "0.5")
    with pytest.raises(ToolchainError, match="ptoas compilation failed") as caught:
        run(bare, body)
    e = caught.value
    assert (e.code, e.location) == (code, None)
    assert words in e.message
    assert "command: " in e.message
    assert all(c.isprintable() or c == "\n" for c in e.message)
    assert len(e.message) < 3000


def test_one_that_vanished(bare: Path) -> None:
    gone = ptoas.Ptoas(str(bare / "gone"), {"path": "", "version": "", "content": ""})
    with pytest.raises(ToolchainError, match="No such file") as e:
        assemble(gone, "k", TEXT, "a3", "level2", os.fspath(bare), place)
    assert e.value.code == "T121"

"""Which compiler, what identifies it, and which flags: asked once per machine, exact numbers always."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import HEAD, run, said, tool

from pypto.errors import ConfigError, ToolchainError
from pypto.runtime import build, toolchain
from pypto.runtime import store as store_module
from pypto.runtime.processor import cpu_features
from pypto.runtime.record import Record
from pypto.runtime.store import Store
from pypto.runtime.toolchain import Toolchain, find

CC = shutil.which("cc") or ""
BASELINE = "x86-64" if os.uname().machine == "x86_64" else "armv8-a"
DOES_NOT_KNOW = 'case "$*" in *%s*) echo "cc: error: unrecognized command-line option" >&2; exit 1;; esac'
pytestmark = pytest.mark.skipif(not CC, reason="no C compiler")
FIND = (
    HEAD
    + """
from pypto.runtime import toolchain
t = toolchain.find(store.default_store())
print(store.sha256(Record({"t": t.identity}).encoded))
"""
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    for name in ("PYPTO_CC", "CC", "CFLAGS", "PYPTO_TARGET_CPU"):
        monkeypatch.delenv(name, raising=False)
    yield Store(str(tmp_path / "cache"), "on")
    toolchain._found.clear()
    store_module._private.clear()


def counting(path: Path, log: Path, body: str = "") -> Path:
    return tool(path, f'echo "$*" >> {log}\n{body}\nexec {CC} "$@"')


def identity(found: Toolchain) -> bytes:
    return Record({"t": found.identity}).encoded


def test_the_order_of_the_search(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {name: tool(tmp_path / name, f'exec {CC} "$@"') for name in ("clang", "gcc", "cc", "one", "two")}
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("cc", "gcc", "clang"):
        assert find(store).command[0] == str(paths[name]) or name != "cc"
        paths[name].chmod(0o644)
        paths[name].chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, following in (("cc", "gcc"), ("gcc", "clang")):
        assert toolchain._command() == [str(paths[name])]
        paths[name].unlink()
        assert toolchain._command() == [str(paths[following])]
    monkeypatch.setenv("CC", "one -m64")
    assert toolchain._command() == [str(paths["one"]), "-m64"]
    monkeypatch.setenv("PYPTO_CC", f"'{paths['two']}' -DX='a b'")
    assert toolchain._command() == [str(paths["two"]), "-DX=a b"]


@pytest.mark.parametrize("name", ["PYPTO_CC", "CC"])
def test_a_named_compiler_must_exist(store: Store, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "no-such-compiler -x")
    with pytest.raises(ToolchainError, match=f"{name}='no-such-compiler -x'") as caught:
        find(store)
    assert caught.value.code == "T100"
    monkeypatch.setenv(name, "'unbalanced")
    with pytest.raises(ConfigError):
        find(store)


def test_no_compiler_is_one_error_that_says_how_to_get_one(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ToolchainError) as caught:
        find(store)
    assert all(word in str(caught.value) for word in ("PYPTO_CC", "$CC", "clang", "apt install", "pip install pypto[toolchain]"))


def test_no_compiler_but_a_warm_store(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = find(store)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    after = find(store)
    assert identity(after) == identity(before)
    assert after.command == ()
    with pytest.raises(ToolchainError, match="no C compiler was found"):
        build.compile_shared(after, {"kernel.c": "int x;"}, str(tmp_path), "kernel.so")


def test_a_warm_process_does_not_ask(tmp_path: Path) -> None:
    log = tmp_path / "log"
    cc = counting(tmp_path / "cc", log)
    first = run(FIND, PYPTO_CC=cc, PYPTO_CACHE_DIR=tmp_path / "cache")
    asked = log.read_text().splitlines()
    assert 1 <= len(asked) <= 4
    assert not any(" -o " in f" {line} " for line in asked)
    assert run(FIND, PYPTO_CC=cc, PYPTO_CACHE_DIR=tmp_path / "cache") == first
    assert run(FIND, PYPTO_CC=cc, PYPTO_CACHE_DIR=tmp_path / "cache", PYPTO_CACHE="readonly") == first
    assert len(log.read_text().splitlines()) == len(asked)
    imported = run(FIND + "print([m for m in ('subprocess', 'hashlib', 'shlex', 'tempfile') if m in sys.modules])",
                   PYPTO_CC=cc, PYPTO_CACHE_DIR=tmp_path / "cache")[0]  # fmt: skip
    assert imported.splitlines()[1] == "[]"


def test_what_is_done_with_a_new_compiler(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_CC", str(counting(tmp_path / "cc", tmp_path / "log")))
    told: list[toolchain.Toolchain] = []
    for _ in range(2):
        found = toolchain.find(store, told.append)
        toolchain._found.clear()
    assert told == [found]


def test_a_compiler_replaced_in_place_is_another_one(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cc, log = tmp_path / "cc", tmp_path / "log"
    monkeypatch.setenv("PYPTO_CC", str(cc))
    seen = []
    for version in ("99.1", "98.7", "99.1"):
        counting(cc, log, f'case "$*" in *--version*) echo "cc (other) {version}"; exit 0;; esac')
        seen.append(identity(find(store)))
    assert seen[0] == seen[2] != seen[1]


def test_a_wrapper_whose_compiler_is_replaced(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrapper stays the same file: named by its path, by a variable, as an argument, as the next one of its name."""
    answer = 'case "$*" in *--version*) echo "cc (other) {}"; exit 0;; esac'
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'first'}:{tmp_path / 'second'}:{os.environ['PATH']}")
    monkeypatch.setenv("CHOSEN", str(tmp_path / "behind"))
    next_one = tool(tmp_path / "first" / "masked", 'PATH="${PATH#*:}"\nexec masked "$@"')
    launcher = tool(tmp_path / "launcher", 'exec "$@"')
    ways = {
        "behind": str(tool(tmp_path / "by_path", f'exec "{tmp_path}/behind" "$@"')),
        " behind": str(tool(tmp_path / "by_variable", 'exec "${CHOSEN}" "$@"')),
        "second/launched": f"{launcher} launched",
        "second/masked": str(next_one),
    }
    for target, command in ways.items():
        monkeypatch.setenv("PYPTO_CC", command)
        seen = []
        for version in ("99.1", "98.7", "99.1"):
            counting(tmp_path / target.strip(), tmp_path / "log", answer.format(version))
            seen.append(identity(find(store)))
            (tmp_path / "log").unlink()
            toolchain._found.clear()
            assert identity(find(store)) == seen[-1]
            assert not (tmp_path / "log").exists(), "the compiler was asked again"
        assert seen[0] == seen[2] != seen[1], command


def test_where_the_compiler_lies_does_not_matter(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    for place in ("a", "with space", "\u00fc\u4e2d"):
        (tmp_path / place).mkdir()
        cc = tool(tmp_path / place / "cc", f'exec {CC} "$@"')
        monkeypatch.setenv("PYPTO_CC", str(cc))
        found = find(store)
        assert found.command == (str(cc),)
        seen.add(identity(found))
    assert len(seen) == 1


def test_arguments_flags_and_processor_are_part_of_the_identity(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = [identity(find(store))]
    monkeypatch.setenv("PYPTO_CC", f"{CC} -m64")
    seen.append(identity(find(store)))
    monkeypatch.delenv("PYPTO_CC")
    monkeypatch.setenv("CFLAGS", "-O0 -DNAME='a b'")
    with_flags = find(store)
    assert with_flags.compile_flags[-2:] == ("-O0", "-DNAME=a b")
    assert with_flags.link_flags == ()
    seen.append(identity(with_flags))
    monkeypatch.delenv("CFLAGS")
    monkeypatch.setattr(toolchain, "cpu_features", lambda: ("none",))
    seen.append(identity(find(store)))
    assert "-mprefer-vector-width=512" not in find(store).compile_flags
    monkeypatch.setattr(toolchain, "cpu_features", lambda: ("another",))
    seen.append(identity(find(store)))
    monkeypatch.undo()
    assert len(set(seen)) == 5


@pytest.mark.parametrize(
    "flag",
    ["-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-ffinite-math-only", "-fassociative-math", "-freciprocal-math",
     "-fno-signed-zeros", "-ffp-contract=fast", "-ffp-contract=on", "-ffp-model=fast", "-fno-wrapv", "-mfpmath=387", "-mrecip",
     "-mrecip=all", "-mdaz-ftz", "@flags", "-include", "-imacros", "-specs=x.specs", "-fplugin=x.so", "-fprofile-use=x.profdata",
     "-wrapper", "--config=x.cfg", "-B/opt/bin", "-Wl,-T,x.ld"],
)  # fmt: skip
def test_flags_that_change_numbers_are_refused(store: Store, monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    monkeypatch.setenv("CFLAGS", f"-O3 {flag}")
    with pytest.raises(ConfigError, match="CFLAGS") as caught:
        find(store)
    assert repr(flag) in str(caught.value)
    monkeypatch.delenv("CFLAGS")
    monkeypatch.setenv("PYPTO_CC", f"{CC} {flag}")
    with pytest.raises(ConfigError, match="PYPTO_CC"):
        find(store)


@pytest.mark.parametrize("flags", ["-O3", "-ffp-contract=off", "-fno-fast-math", "-g -Wall", "-march=x86-64", "-mrecip=none"])
def test_harmless_flags_are_taken(flags: str) -> None:
    toolchain._refuse(flags.split(), "CFLAGS")


@pytest.mark.parametrize(
    ("macros", "version", "family"),
    [
        ("#define __GNUC__ 12\n", "cc 12", "gcc"),
        ("#define __GNUC__ 4\n#define __clang__ 1\n", "clang version 17", "clang"),
        ("#define __GNUC__ 4\n#define __clang__ 1\n", "clang version 19 (https://github.com/ziglang/zig-bootstrap)", "zig"),
        ("#define __clang__ 1\n", "clang version 22\nInstalledDir: /lib/python3/site-packages/ziglang", "zig"),
        ("#define __GNUC__ 12\n#define __INTEL_COMPILER 1\n", "icc", "other"),
        ("#define __TINYC__ 1\n", "tcc", "other"),
        ("", "", "other"),
    ],
)
def test_families(macros: str, version: str, family: str) -> None:
    assert toolchain._family(macros, version, "cc") == family
    assert toolchain._family(macros, version, "zig") == "zig"
    flags = toolchain._compile_flags(family)
    assert {"-ffp-contract=off", "-fwrapv", "-fPIC", "-shared"} <= set(flags)


def test_a_compiler_that_does_not_know_a_flag_gets_fewer(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for word, left in (("-nostdlib", toolchain._compile_flags("gcc")), ("-pipe", toolchain._MINIMUM)):
        monkeypatch.setenv("PYPTO_CC", str(counting(tmp_path / f"cc{word}", tmp_path / "log", DOES_NOT_KNOW % word)))
        found = find(store)
        assert (found.compile_flags, found.link_flags) == (left, ())


def test_a_passing_trouble_is_not_remembered(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "failed"
    body = f'case "$*" in *-nostdlib*) [ -e {mark} ] || {{ touch {mark}; echo "No space left on device" >&2; exit 1; }};; esac'
    monkeypatch.setenv("PYPTO_CC", str(counting(tmp_path / "cc", tmp_path / "log", body)))
    with pytest.raises(ToolchainError, match="No space left on device") as caught:
        find(store)
    assert caught.value.code == "T103"
    assert "-nostdlib" in find(store).link_flags


def test_a_program_that_is_no_compiler(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_CC", str(tool(tmp_path / "cc", "echo nonsense; exit 5")))
    with pytest.raises(ToolchainError, match="nonsense"):
        find(store)
    (tmp_path / "cc2").write_bytes(b"\0\1\2")
    (tmp_path / "cc2").chmod(0o755)
    monkeypatch.setenv("PYPTO_CC", str(tmp_path / "cc2"))
    with pytest.raises(ToolchainError, match="does not work"):
        find(store)


def test_a_damaged_memory_of_the_compiler_is_replaced(store: Store) -> None:
    before = identity(find(store))
    entry = store.entries()[0]
    Path(entry.path, "compiler").write_text("gcc")
    toolchain._found.clear()
    with said(entry.digest):
        assert identity(find(store)) == before


def test_a_level_of_processors(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made for one has the same identity on all machines that reach it, and another one than what is made for this."""
    native = identity(find(store))
    seen = []
    for has in (cpu_features(), (*cpu_features(), "more")):
        monkeypatch.setattr(toolchain, "cpu_features", lambda has=has: has)
        monkeypatch.setenv("PYPTO_TARGET_CPU", BASELINE)
        found = find(store)
        assert "native" not in "".join(found.compile_flags)
        seen.append(identity(found))
    assert seen[0] == seen[1] != native
    monkeypatch.setenv("CFLAGS", "-march=native")
    with pytest.raises(ConfigError, match=f"CFLAGS has '-march=native', and PYPTO_TARGET_CPU is {BASELINE}") as caught:
        find(store)
    assert caught.value.code == "O123"
    monkeypatch.delenv("PYPTO_TARGET_CPU")
    assert "-march=native" in find(store).compile_flags
    monkeypatch.setattr(toolchain, "cpu_features", lambda: ("none",))
    monkeypatch.setenv("PYPTO_TARGET_CPU", "x86-64-v3")
    with pytest.raises(ConfigError, match="PYPTO_TARGET_CPU=x86-64-v3: this "):
        find(store)


def test_a_level_is_not_given_up(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that does not know it is an error; one that does not know other flags still makes code for it."""
    monkeypatch.setenv("PYPTO_TARGET_CPU", BASELINE)
    flag = toolchain.processor().flags("gcc")[0]
    monkeypatch.setenv("PYPTO_CC", str(tool(tmp_path / "cc", f'{DOES_NOT_KNOW % "-pipe"}\nexec {CC} "$@"')))
    assert find(store).compile_flags == (*toolchain._MINIMUM, flag)
    monkeypatch.setenv("PYPTO_CC", str(tool(tmp_path / "other", f'{DOES_NOT_KNOW % flag}\nexec {CC} "$@"')))
    with pytest.raises(ToolchainError, match="unrecognized command-line option") as caught:
        find(store)
    assert caught.value.code == "T103"


def test_variables_that_choose_the_compiler_proper_count(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity(find(store))
    monkeypatch.setenv("COMPILER_PATH", str(tmp_path))
    assert identity(find(store)) != before

"""The assembler in compilations: what it is given, what is kept, what is part of the key, and whose line its errors blame."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path

import numpy as np
import pytest
from jit_kit import HEAD, NO_LAUNCHER, tool

import pypto
import pypto.language as pl
from pypto import ir
from pypto.enums import MemoryPlanner
from pypto.errors import ToolchainError
from pypto.passes import PassContext

FAKE = """
echo "$*" >> "$(dirname "$0")/log"
case "$1" in --version) echo "ptoas 0.60"; exit 0;; esac
echo "// made with $*" > "$3"
grep -o 'pto\\.t[a-z]* ins' "$1" >> "$3"
"""
X = np.ones((16, 32), np.float32)
_numbers = itertools.count()


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """A directory that is PTOAS_ROOT; `runs()` are the arguments of each run since it was last asked."""

    class Fake:
        root, log = tmp_path / "root", tmp_path / "root" / "log"

        def write(self, body=FAKE):
            self.root.mkdir(exist_ok=True)
            return tool(self.root / "ptoas", body)

        def runs(self):
            lines = self.log.read_text().splitlines() if self.log.exists() else []
            self.log.unlink(missing_ok=True)
            return [line for line in lines if line != "--version"]

    made = Fake()
    made.write()
    monkeypatch.setenv("PTOAS_ROOT", str(made.root))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return made


def fresh():
    """A kernel of two device functions that no cache has."""
    number = next(_numbers)

    @pl.jit.incore
    def twice(x: pl.Tensor[[16, 32], pl.FP32], o: pl.Out[pl.Tensor[[16, 32], pl.FP32]]):
        pl.static_assert(number >= 0, "a constant")
        t = pl.load(x, [0, 0], [16, 32])
        return pl.store(pl.add(t, t), [0, 0], o)

    @pl.jit.incore
    def square(x: pl.Tensor[[16, 32], pl.FP32], o: pl.Out[pl.Tensor[[16, 32], pl.FP32]]):
        t = pl.load(x, [0, 0], [16, 32])
        u = pl.mul(t, t)
        return pl.store(u, [0, 0], o)

    @pl.jit
    def k(x: pl.Tensor[[16, 32], pl.FP32], o: pl.Out[pl.Tensor[[16, 32], pl.FP32]]):
        o = twice(x, o)
        o = square(o, o)
        return o

    return k


def line_of(words: str) -> int:
    return next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if words in line)


@pytest.mark.parametrize("planner", list(MemoryPlanner))
@pytest.mark.parametrize("platform", ["a2a3sim", "a5sim"])
def test_each_text_is_assembled_at_the_planners_level(fake, tmp_path, planner, platform):
    with PassContext(memory_planner=planner, platform=platform):
        made = fresh().compile(X, X)
    level = "level2" if planner is MemoryPlanner.PTOAS else "level3"
    rest = f"--enable-insert-sync --pto-level={level} --pto-arch={'a3' if platform == 'a2a3sim' else 'a5'}"
    names = ["twice", "square"]
    assert sorted(fake.runs()) == sorted(f"{n}.pto -o {n}.cpp {rest}" for n in names)
    made.copy_to(str(tmp_path / "out"))
    kept = tmp_path / "out" / "ptoas"
    assert {p.name for p in kept.iterdir()} == {f"{n}.{e}" for n in names for e in ("pto", "cpp")}
    for name, op in zip(names, ("tadd", "tmul"), strict=True):
        lines = (kept / f"{name}.cpp").read_text().splitlines()
        assert lines == [f"// made with {name}.pto -o {name}.cpp {rest}", "pto.tload ins", f"pto.{op} ins", "pto.tstore ins"]
        assert (" addr = " in (kept / f"{name}.pto").read_text()) == (level == "level3")
    shown = made.inspect("ptoas")
    assert shown.startswith("// square.cpp\n// made with square.pto")
    assert "\n// twice.cpp\n// made with twice.pto" in shown


def test_hits_do_not_run_it(fake, box):
    """Nor does a second process that finds everything stored; calls and compile() share what was built."""
    code = HEAD + "k = scaled(2.0)\nprint(call(k)); k.compile(ones(), ones())\nprint(k.inspect('ptoas'))\n"
    env = {"PTOAS_ROOT": fake.root, **NO_LAUNCHER}
    assert "// made with k_incore_0.pto" in box.run(code, **env).out
    assert len(fake.runs()) == 1
    assert box.builds() == 1
    assert "// made with k_incore_0.pto" in box.run(code, **env).out
    assert not fake.log.exists()  # not even for its version
    assert box.builds() == 0


def test_it_is_part_of_the_key_where_it_is_run(fake, box):
    code = HEAD + "k = scaled(3.0)\nprint(k.explain(ones(), ones())); print(call(k)); print(pypto.cache_stats().ptoas_runs)\n"

    def run(**env):
        ran = box.run(code, **NO_LAUNCHER, **env)
        lines = ran.out.splitlines()
        assert lines[-2] == "3.0"
        return "\n".join(lines[:-2]), box.builds(), int(lines[-1])

    without, with_it = {"PTOAS_ROOT": None}, {"PTOAS_ROOT": fake.root}
    assert run(**without)[1:] == (1, 0)
    why, *counts = run(**with_it)
    assert counts == [1, 1]
    assert f"  ptoas: none -> {fake.root}/ptoas ptoas 0.60 (content " in why
    assert run(**with_it)[1:] == (0, 0)
    # Gone, switched off, or at a place where there is none: the artifact without it.
    assert run(**without)[1:] == (0, 0)
    assert run(PYPTO_PTOAS="off", **with_it)[1:] == (0, 0)
    assert run(PTOAS_ROOT=fake.root / "nowhere")[1:] == (0, 0)
    # Another content, another artifact; the first one's comes back with it.
    before = (fake.root / "ptoas").read_text()
    fake.write(FAKE + "echo more >> $3\n")
    assert run(**with_it)[1:] == (1, 1)
    (fake.root / "ptoas").write_text(before)
    assert run(**with_it)[1:] == (0, 0)


def test_where_there_is_none_it_is_said_where_one_looks(monkeypatch, tmp_path, caplog, recwarn):
    monkeypatch.delenv("PTOAS_ROOT", raising=False)
    k = fresh()
    with caplog.at_level(logging.INFO, "pypto"):
        made = k.compile(X, X)
        k(X, X.copy())
    assert made.inspect("ptoas").startswith("// ptoas was not run: none is in $PTOAS_ROOT or on the PATH")
    assert [r.getMessage() for r in caplog.records] == [made.inspect("ptoas")[3:-1]]  # once, for the one that was built
    made.copy_to(str(tmp_path / "out"))
    assert {p.suffix for p in (tmp_path / "out" / "ptoas").iterdir()} == {".pto"}
    assert not recwarn.list


REFUSES = """
case "$1" in --version) exit 0;; esac
line=$(grep -n 'pto.tmul' "$1" | cut -d: -f1)
if [ -n "$line" ]; then
    echo "$1:$line:7: error: 'pto.tmul' op is not to its taste" >&2
    exit 1
fi
echo half > "$3"
"""


@pytest.mark.parametrize("places", ["0", "1"])
def test_errors_are_at_the_users_line(fake, monkeypatch, places):
    """Whether the text that is shown has places or not; nothing is kept of what failed, and the next call tries anew."""
    monkeypatch.setenv("PYPTO_EMIT_PTO_LOC", places)
    fake.write(REFUSES)
    k, o = fresh(), np.full((16, 32), -777, np.float32)
    before = pypto.cache_stats()
    for attempt in (k, k.compile, k):
        with pytest.raises(ToolchainError) as caught:
            attempt(X, o)
        e = caught.value
        assert e.code == "T121"
        assert e.message.startswith("ptoas compilation failed: square.pto: 'pto.tmul' op is not to its taste\n")
        assert e.span is not None
        assert (e.span["file"], e.span["line"]) == (__file__, line_of("u = pl.mul(t, t)"))
        assert "u = pl.mul(t, t)" in str(e)
        assert isinstance(e, RuntimeError)
    after = pypto.cache_stats()
    assert (after.builds, after.compiler_runs) == (before.builds, before.compiler_runs)
    assert (o == -777).all()
    fake.write()
    k(X, o)
    np.testing.assert_array_equal(o, 4)


BLAMES = """
case "$1" in twice*) ;; *) echo made > "$3"; exit;; esac
echo "$1:$(grep -n 'WHERE' "$1" | head -1 | cut -d: -f1):1: error: no" >&2
exit 1
"""


def test_errors_in_lines_that_stand_for_none_of_the_users(fake):
    """The head of the text belongs to the first instruction that needs it; the end of the module to nobody."""
    for where, line in (("arith.constant", "t = pl.load(x, [0, 0], [16, 32])"), ("^}", None)):
        fake.write(BLAMES.replace("WHERE", where))
        with pytest.raises(ToolchainError, match="ptoas compilation failed") as e:
            fresh().compile(X, X)
        found = None if e.value.span is None else e.value.span["line"]
        assert found == (None if line is None else line_of(line))


def test_what_it_makes_does_not_depend_on_places(fake, tmp_path):
    """The text that it gets names no file of the user's: the same kernel elsewhere is the same artifact."""
    fake.write('case "$1" in --version) exit 0;; esac\n! grep -q "loc(" "$1" && cp "$1" "$3"')
    made = fresh().compile(X, X)
    assert "loc(" in made.inspect("pto")
    assert "pto.tadd" in made.inspect("ptoas")


def test_programs_are_assembled_too_unless_told_not_to(fake, tmp_path):
    program = fresh().specialize(X, X)
    ir.compile(program, output_dir=tmp_path / "a", dump_passes=False)
    assert len(fake.runs()) == 2
    assert {p.name for p in (tmp_path / "a" / "ptoas").glob("*.cpp")} == {"twice.cpp", "square.cpp"}
    ir.compile(program, output_dir=tmp_path / "b", dump_passes=False, skip_ptoas=True)
    skipped, assembled = ir.compile(program, skip_ptoas=True), ir.compile(program)
    assert len(fake.runs()) == 2
    assert {p.suffix for p in (tmp_path / "b" / "ptoas").iterdir()} == {".pto"}
    assert skipped is not assembled
    assert "made with" in assembled.inspect("ptoas")
    assert "made with" not in skipped.inspect("ptoas")


def test_kernels_without_a_text(fake):
    """What has no .pto form runs on the host; the assembler has nothing to do."""

    @pl.jit
    def k(x: pl.Tensor[[16, 32], pl.INT64], o: pl.Out[pl.Tensor[[16, 32], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            o[:] = pl.cast(x, pl.FP32)
        return o

    ints = np.arange(512, dtype=np.int64).reshape(16, 32)
    made = k.compile(ints, X)
    texts = [n for n in made._artifact.files if n.endswith(".pto")]
    assert len(fake.runs()) == len(texts)
    np.testing.assert_array_equal(k(ints, X.copy()), ints)

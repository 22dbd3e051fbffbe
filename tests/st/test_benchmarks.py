"""The benchmarks run: every row at a small size, each result compared with float64; and what counts as a time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(ROOT))
    yield
    for name in [n for n in sys.modules if n.split(".")[0] == "benchmarks"]:
        del sys.modules[name]


def tiny(sections: str, directory: Path) -> dict[str, Any]:
    found = directory / "found.json"
    command = [sys.executable, "-m", "benchmarks", "--tiny", "--peers", "numpy", "--sections", sections, "--json", str(found)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(found.read_text())
    for row in made["rows"]:
        assert row["name"] in done.stdout
        assert all(c["median"] > 0 for c in row["contenders"].values())
    return made


def test_rows_of_this_process(tmp_path: Path) -> None:
    from benchmarks.cases import CASES

    rows = {r["name"]: r for r in tiny("elementwise,rows,products,attention,movement,calls", tmp_path)["rows"]}
    calls = {"three arrays", "a global is looked at", "by keyword"}
    assert set(rows) - calls == {c.name for c in CASES}
    assert calls < set(rows)
    for case in CASES:
        facts = rows[case.name]["facts"]
        assert set(facts["errors"]) == {"pypto", "C", "C past the caches", "numpy"}
        assert facts["stage"] in ("buffer", "tile")
        assert facts["shared"]


def test_rows_of_child_processes(tmp_path: Path) -> None:
    rows = tiny("threads,start,compile", tmp_path)["rows"]
    assert [r["section"] for r in rows] == ["threads"] * 6 + ["start"] * 4 + ["compile"] * 3
    assert all(r["facts"]["sharing"] for r in rows if r["section"] == "threads")


def test_a_wrong_result_is_no_row() -> None:
    from benchmarks.case import check
    from benchmarks.cases import CASES

    case = CASES[0]
    want = np.linspace(1, 2, 64).reshape(8, 8)
    assert check(case, "right", want.astype(np.float32), want) < 1e-7
    wrong = want.astype(np.float32)
    wrong[3, 4] *= 1.00001
    with pytest.raises(AssertionError, match="wrong: error"):
        check(case, "wrong", wrong, want)
    with pytest.raises(AssertionError, match="shape"):
        check(case, "wrong", wrong[:4], want)


class Times:
    """A contender whose rounds take what is written down."""

    def __init__(self, *seconds: float) -> None:
        self.seconds = [1.0, *seconds]  # the first call warms up

    def __call__(self, times: int) -> float:
        assert times == 1
        return self.seconds.pop(0)


class Disturbed:
    """The machine was disturbed where it is written down: asked once before, and once after each batch."""

    def __init__(self, *quiet: bool) -> None:
        self.quiet = [True, *quiet]

    def was_quiet(self) -> bool:
        return self.quiet.pop(0)


def rounds(a: list[float], b: list[float], quiet: list[bool], monkeypatch: pytest.MonkeyPatch) -> Any:
    """As many rounds as there are times: a clock that shows a second more for each."""
    from benchmarks import measure

    clock = iter(range(1000))
    monkeypatch.setattr(measure.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(measure, "PATIENCE", 1.0)
    contenders = [measure.Contender("a", Times(*a), True), measure.Contender("b", Times(*b), True)]
    return measure.measured(contenders, len(a) + 1.0, Disturbed(*quiet))


def test_a_disturbed_round_counts_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = [True, True, True, False, True, True, True, True]
    found = rounds([2, 90, 4, 6], [1, 1, 1, 2], quiet, monkeypatch)
    assert found.times == {"a": [2, 4, 6], "b": [1, 1, 2]}
    assert (found.kept, found.discarded, found.is_disturbed) == (3, 1, False)
    assert (found.median("a"), found.least("a"), found.ratio("a", "b")) == (4, 2, 3)


def test_where_all_rounds_are_disturbed_the_row_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rounds([2, 4, 6], [1, 1, 1], [True, True, False, False, False, False], monkeypatch)
    assert found.times["a"] == [2, 4, 6]
    assert (found.kept, found.discarded, found.is_disturbed) == (1, 2, True)


def test_unknown_names_are_refused() -> None:
    for arguments, what in ((["--sections", "norms"], "unknown section 'norms'"), (["--peers", "scipy"], "unknown peer 'scipy'")):
        command = [sys.executable, "-m", "benchmarks", "--tiny", *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert done.returncode == 1
        assert what in done.stderr


def test_peers_that_are_missing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.peers import found

    monkeypatch.setitem(sys.modules, "jax", None)
    modules, versions = found(["numpy", "jax"])
    assert list(modules) == ["numpy"]
    assert versions["numpy"] == np.__version__
    assert versions["jax"].startswith("left out: ")

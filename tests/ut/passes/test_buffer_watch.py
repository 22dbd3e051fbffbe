"""What counts kernels of buffers in all tests notices one that falls to tiles, and says why."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import buffer_watch
import pto_watch
import pytest
from buffer_watch import Found, Kernel, check_program, fallen, read_table

from pypto.enums import MemoryPlanner
from pypto.passes.context import PassOptions

ROOT = Path(__file__).resolve().parents[3]
BODY = "t = pl.load(x, [0, 0], [16, 64])\npl.store(pl.adds(t, 1.0), [0, 0], o)"
PARAMS = "x: pl.Tensor[[16, 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]"


def seen(options: PassOptions | None = None, body: str = BODY) -> list[Kernel]:
    from back_lab import scope

    before = len(buffer_watch._kernels)
    buffer_watch.lower(scope(body, PARAMS), options)
    made = buffer_watch._kernels[before:]
    del buffer_watch._kernels[before:]
    return made


def test_nothing_lowers_unseen() -> None:
    assert pto_watch._lower is buffer_watch.lower


def test_a_kernel_that_falls_fails_its_test_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = seen(PassOptions(MemoryPlanner.PTOAS))
    assert (one.planner, one.reason) == ("PTOAS", "")
    table = {"tests/a.py": [f"test_it::{one.name}", f"test_other[1]::{one.name}"]}
    assert fallen("tests/a.py::test_it[0]", [one], table) == []
    monkeypatch.setattr(
        import_module("pypto.passes.select_buffer_ir_functions"), "reason_against", lambda f, options: "the moon is full"
    )
    (other,) = seen()
    words = f"'{one.name}' (PYPTO) stays at tile stage: the moon is full"
    for test, found in (("test_it", 1), ("test_it[0]", 1), ("test_other[1]", 1), ("test_other[0]", 0), ("test_third", 0)):
        assert fallen(f"tests/a.py::{test}", [other, other], table) == [words] * found
    assert fallen("tests/b.py::test_it", [other], table) == []


def test_the_failure_is_the_test_s_own(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch, request) -> None:
    """As the hook around a test raises it."""
    name, case = Path(__file__).relative_to(ROOT).as_posix(), request.node
    held = pytestconfig.getoption("--buffer-ir") != "update" and not pytestconfig.getoption("--contract-mutations")
    with monkeypatch.context() as m:
        m.setitem(pytestconfig.stash[buffer_watch._CHOSEN], name, [f"{case.name}::k"])
        m.setattr(buffer_watch, "_kernels", [Kernel("k", "PYPTO", "no")])
        around = buffer_watch.pytest_runtest_call(case)
        next(around)
        words = r"'k' \(PYPTO\) stays at tile stage: no; .*--buffer-ir=update"
        with pytest.raises(pytest.fail.Exception, match=words) if held else pytest.raises(StopIteration):
            around.send(None)


def test_kernels_for_which_nobody_asked_for_buffers_do_not_count() -> None:
    assert seen(PassOptions(enable_buffer_ir=False)) == []


def test_the_summary() -> None:
    found = Found()
    assert list(found.summary(False)) == []
    found.tests["a::t[1]"] = {Kernel("k", "PYPTO", ""), Kernel("j", "PYPTO", "'t' holds int8")}
    found.tests["a::t[2]"] = {Kernel("k", "PYPTO", "it calls 'f'"), Kernel("j", "PYPTO", "'u' holds int8")}
    found.tests["a::s"] = {Kernel("k", "PYPTO", ""), Kernel("k", "PTOAS", "")}
    rest = ["2 x … holds int8", "1 x it calls …"]
    assert list(found.summary(False)) == [f"buffer ir: 3 of 6 kernels selected; reasons of the rest: {', '.join(rest)}"]
    assert list(found.summary(True)) == ["buffer ir: 3 of 6 kernels selected", *(f"  {line}" for line in rest)]
    assert found.chosen() == {"a": ["s::k", "t[1]::k"]}


def test_the_table_is_of_what_there_is(pytestconfig: pytest.Config) -> None:
    table = read_table()
    examples = {f"examples/{p.name}" for p in (ROOT / "examples").glob("*.py")}
    assert examples <= set(table["programs"])
    assert all((ROOT / name).exists() for name in table["programs"])
    for module, entries in table["tests"].items():
        text = (ROOT / module).read_text(encoding="utf-8")
        lost = [e for e in entries if f"def {e.partition('[')[0].partition('::')[0]}(" not in text]
        assert not lost, f"{module} has no such tests any more: run it with --buffer-ir=update"
    if pytestconfig.getoption("--buffer-ir") == "check":
        with pytest.raises(AssertionError, match=r"examples/01_hello.py are of other stages .*--buffer-ir=update"):
            check_program("examples/01_hello.py", {"add_incore_0": "tile: no"}, pytestconfig)


# Files about buffers, and how many of their kernels are chosen at least.
LEAST = {
    "tests/st/runtime/control_flow/test_buffer_ir.py": 5,
    "tests/st/runtime/ops/test_buffer_ir.py": 13,
    "tests/st/runtime/ops/test_buffer_views.py": 4,
    "tests/st/operators/test_matmul_buffers.py": 4,
    "tests/st/programs/test_buffer_programs.py": 5,
    "tests/st/programs/test_buffer_tasks.py": 6,
    "tests/ut/ir/transforms/test_lower_buffer_matrix.py": 13,
    "tests/ut/ir/transforms/test_lower_buffer_views.py": 16,
    "tests/ut/ir/transforms/test_lower_tile_to_buffer.py": 20,
}


def test_what_the_table_guards_at_least() -> None:
    counts = {module: len(entries) for module, entries in read_table()["tests"].items()}
    assert {module: counts.get(module, 0) for module, least in LEAST.items() if counts.get(module, 0) < least} == {}

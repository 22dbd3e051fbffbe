"""The programs of the documentation run, and what its prose claims about errors, casts and limits holds."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import buffer_watch
import numpy as np
import pto_watch
import pytest

import pypto.language as pl
from pypto import Error
from pypto.enums import MemoryPlanner
from pypto.errors import (
    ArgumentValueError,
    CompileError,
    InvalidOperationError,
    KernelBoundsError,
    NotSupportedError,
    PyptoWarning,
)
from pypto.jit import JITFunction
from pypto.jit.device_text import device_text
from pypto.language.unsupported import UNSUPPORTED
from pypto.passes import PassOptions
from pypto.passes.pipeline import lower
from pypto.target import chip_of

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
TEXTS = {
    str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
}
PAGES = [name for name, text in TEXTS.items() if BLOCK.search(text)]
H = pl.dynamic("H")


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_a_page_run_in_order(page: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    path = tmp_path / "page.py"
    path.write_text("\n".join(BLOCK.findall(TEXTS[page])), encoding="utf-8")
    module = load(path)
    if page == "README.md":
        x, o = module.x, module.o
        e = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(module.rows_softmax(x, o), e / e.sum(1, keepdims=True), rtol=1e-5)
    buffer_watch.check_program(page, stages(module), pytestconfig)


def stages(module: ModuleType) -> dict[str, str]:
    """The stages of the kernels that a module called, and why some are no buffers."""
    compiled = [c for k in vars(module).values() if isinstance(k, JITFunction) for c in k.kernels.values()]
    return {name: stage for c in compiled for name, stage in c.stages.items()}


def test_the_pages_with_programs_are_found() -> None:
    names = ("command_line", "language", "performance", "precompile", "testing")
    assert ["README.md", *(f"docs/{name}.md" for name in names)] == PAGES


@pytest.mark.parametrize("example", sorted(p.name for p in (ROOT / "examples").glob("*.py")))
def test_examples_run(
    example: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [example, str(tmp_path / "out")])
    module = load(ROOT / "examples" / example)
    if hasattr(module, "main"):
        module.main()
    shown = capsys.readouterr().out
    if example.startswith("01"):
        assert "[[3. 3. 3." in shown
    if example.startswith("02"):
        assert "levels from float64" in shown
        assert len(list((tmp_path / "out").glob("*.png"))) == 2
    buffer_watch.check_program(f"examples/{example}", stages(module), pytestconfig)
    check_texts(module)


def check_texts(module: ModuleType) -> None:
    """Each kernel that a module called has a .pto text under each planner, and the judge has nothing against it."""
    programs = [next(iter(k.kernels.values())).program for k in vars(module).values() if isinstance(k, JITFunction) and k.kernels]
    assert programs
    for program in programs:
        for planner in MemoryPlanner:
            options = PassOptions(memory_planner=planner)
            made = lower(program, options)
            texts = device_text(made.host, options, True, made.whole)
            assert (texts.refused, texts.broken) == ({}, {})
            assert texts.modules
            for kernel, text in texts.modules.items():
                pto_watch.judge_text(text, kernel, options)


# -- what the guide says about errors ------------------------------------------------------------------------------


TOO_LARGE = """\
import pypto.language as pl


@pl.jit
def k(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, 2048, 1024):
            # 256 KiB
            t = pl.load(x, [i, 0], [1024, 64])
            out = pl.store(t, [i, 0], out)
    return out
"""


def test_the_error_of_the_guide_is_the_error_of_its_kernel(tmp_path: Path) -> None:
    shown = re.search(r"```\n(error\[.*?)```", TEXTS["docs/language.md"], re.DOTALL)
    assert shown is not None
    path = tmp_path / "kernel.py"
    path.write_text(TOO_LARGE, encoding="utf-8")
    x = np.ones((2048, 64), np.float32)
    with pytest.raises(CompileError) as caught:
        load(path).k(x, x.copy())
    assert str(caught.value).replace(str(path), "kernel.py") == shown[1].rstrip()


def test_the_memory_of_the_guide_is_the_chip_s() -> None:
    limit = chip_of(PassOptions().platform).capacity[pl.Mem.Vec]
    assert f"{limit} bytes of Vec on a2a3sim, the default platform" in " ".join(TEXTS["docs/language.md"].split())


@pl.jit
def added_to_a_full_tile(x: pl.Tensor[[H, 64], pl.FP32], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    h = x.shape[0]
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.tile.full([8, 64], dtype=pl.FP32, value=0.0)
        for i in pl.range(0, h, 8):
            acc = acc + pl.load(x, [i, 0], [8, 64], valid_shape=[pl.min(8, h - i), 64])
        out = pl.store(acc, [0, 0], out)
    return out


@pl.jit
def five_rows_added_to_eight(x: pl.Tensor[[13, 64], pl.FP32], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        full = pl.load(x, [0, 0], [8, 64])
        out = pl.store(full + pl.load(x, [8, 0], [8, 64], valid_shape=[5, 64]), [0, 0], out)
    return out


def test_an_operand_that_is_not_valid_where_the_first_one_is() -> None:
    out = np.zeros((8, 64), np.float32)
    with pytest.raises(KernelBoundsError, match="fillpad") as caught:
        added_to_a_full_tile(np.ones((13, 64), np.float32), out)
    assert caught.value.code == "K100"
    assert (added_to_a_full_tile(np.ones((16, 64), np.float32), out) == 2).all()
    with pytest.raises(InvalidOperationError, match="valid shape"):
        five_rows_added_to_eight(np.ones((13, 64), np.float32), out)


@pl.jit
def written_without_a_mark(x: pl.Tensor, out: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + x
    return out


@pl.jit
def named_but_not_written(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out = x + x
    return out


def test_what_is_written_is_found_from_the_body() -> None:
    x = np.ones((9, 64), np.float32)
    assert (written_without_a_mark(x, np.zeros_like(x)) == 2).all()
    with pytest.raises(ArgumentValueError, match="overlap"):
        written_without_a_mark(x[:8], x[1:])
    fixed = np.zeros_like(x)
    fixed.flags.writeable = False
    with pytest.raises(ArgumentValueError, match="read-only"):
        written_without_a_mark(x, fixed)
    out = np.zeros_like(x)
    with pytest.warns(PyptoWarning, match="OutParamWriteDropped"):
        given = named_but_not_written(x, out)
    assert (given == 2).all()
    assert (out == 0).all()


# -- what the pages say does not exist ------------------------------------------------------------------------------


def test_the_operators_that_the_readme_misses_are_refused(tmp_path: Path) -> None:
    listed = TEXTS["README.md"].split("<!-- missing: written by tools/reference.py -->")[1].split("<!-- end -->")[0]
    for name in re.findall(r"`pl\.(\w+)`", listed):
        assert name in UNSUPPORTED[""]
        path = tmp_path / f"uses_{name}.py"
        body = f"with pl.at(level=pl.Level.CORE_GROUP):\n        out[:] = pl.{name}(x, x)"
        path.write_text(f"import pypto.language as pl\n@pl.jit\ndef k(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    {body}\n")
        x = np.ones((8, 64), np.float32)
        with pytest.raises(NotSupportedError, match=name):
            load(path).k(x, x.copy())


# -- casts ---------------------------------------------------------------------------------------------------------


def cast(values: list[float], source: str, target: str, mode: str | None = None) -> list[float]:
    to = getattr(pl, target.upper().replace("FLOAT", "FP"))

    @pl.jit
    def convert(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.cast(x, to, mode=mode)
        return out

    x = np.resize(np.array(values, source), (1, 32))
    return list(convert(x, np.zeros((1, 32), target))[0, : len(values)].tolist())


def test_chains_of_casts_round_and_saturate_at_each_hop() -> None:
    assert cast([2.4999], "float32", "int8") == [3]
    assert cast([2.4999, 2.5001, 2.6], "float32", "int8", "rint") == [2, 2, 3]
    assert cast([2.4999], "float32", "int32") == [2]
    assert cast([300, -300, 2049], "int32", "int8") == [127, -128, 127]
    assert cast([40000, 65539], "int32", "int16") == [-25536, 3]


def test_modes_of_casts() -> None:
    assert cast([0.5, 1.5, 2.5, -2.5], "float32", "int32") == [1, 2, 3, -3]
    assert cast([0.5, 1.5, 2.5, -2.5], "float32", "int32", "rint") == [0, 2, 2, -2]
    assert cast([0.5, 1.5, 2.5, -2.5], "float32", "int32", "odd") == [1, 1, 3, -3]
    assert cast([1.7, -1.7], "float32", "int32", "none") == cast([1.7, -1.7], "float32", "int32", "trunc") == [1, -1]
    assert cast([65536, -65536], "float32", "float16", "trunc") == [65504, -65504]
    assert cast([1 + 2.0**-11], "float32", "float16", "none") == [1]
    for mode in (None, "rint", "floor", "ceil", "trunc", "odd"):
        assert cast([16777217, 16777219], "int32", "float32", mode) == [16777216, 16777220]


@pytest.mark.parametrize("source", ["float32", "float16", "int8", "int16", "int32", "uint8", "int64", "uint16", "bool"])
def test_the_table_of_conversions_is_what_kernels_accept(source: str) -> None:
    table = TEXTS["docs/operators.md"].split("## Conversions")[1].split("##")[0]
    rows = [[c.strip(" *") for c in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
    name = source.upper().replace("FLOAT", "FP")
    row = next((r[1:] for r in rows if r[0] == name), ["none"] * len(rows[0][1:]))
    for target, cell in zip(rows[0][1:], row, strict=True):
        if target in (name, "BF16"):
            continue
        to = target.lower().replace("fp", "float")
        if cell == "direct" or cell.startswith("via "):
            assert cast([1], source, to) == [1]
        else:
            with pytest.raises(Error) as caught:
                cast([1], source, to)
            assert caught.value.code == "C120", (source, target, cell)

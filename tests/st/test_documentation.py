"""The programs of the documentation run."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What a page's blocks may use without making it themselves.
GIVEN = {
    "README.md": "import pypto\nx = np.random.default_rng(0).standard_normal((45, 128)).astype('f4'); o = np.zeros_like(x)\n",
    "docs/language.md": "",
}


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", GIVEN)
def test_blocks_of_a_page_run_in_order(page: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) > 2
    path = tmp_path / "page.py"
    path.write_text("\n".join([blocks[0], GIVEN[page], *blocks[1:]]), encoding="utf-8")
    module = load(path)
    if page == "README.md":
        x, o = module.x, module.o
        e = module.np.exp(x - x.max(1, keepdims=True))
        module.np.testing.assert_allclose(module.rows_softmax(x, o), e / e.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("example", sorted(p.name for p in (ROOT / "examples").glob("*.py")))
def test_examples_run(example: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
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

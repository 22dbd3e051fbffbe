"""Generated C under the address and undefined-behaviour sanitizers: the kernels of the documentation and the examples."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined"


def _libraries() -> list[str]:
    gcc = shutil.which("gcc")
    if gcc is None:
        return []
    found = [
        subprocess.run([gcc, f"-print-file-name={n}"], capture_output=True, text=True).stdout.strip()
        for n in ("libasan.so", "libubsan.so")
    ]
    return found if all(os.path.isabs(f) for f in found) else []


@pytest.mark.skipif(not _libraries(), reason="gcc's sanitizer libraries are not installed")
@pytest.mark.parametrize("optimize", ["1", "0"])
def test_no_access_out_of_place(optimize: str, tmp_path: Path) -> None:
    page = tmp_path / "page.py"
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "language.md").read_text(encoding="utf-8"), re.DOTALL)
    page.write_text("\n".join(blocks), encoding="utf-8")
    cache = tmp_path / "cache"
    env = os.environ | {
        "LD_PRELOAD": " ".join(_libraries()),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYPTO_CC": "gcc",
        "CFLAGS": FLAGS,
        "PYPTO_CACHE_DIR": str(cache),
        "PYPTO_NATIVE_OPT": optimize,
    }
    for script in (page, ROOT / "examples" / "02_photo.py"):
        done = subprocess.run([sys.executable, str(script), str(tmp_path)], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    kernels = list(cache.rglob("kernel.so"))
    assert len(kernels) > 5
    assert all(b"__asan_report" in k.read_bytes() for k in kernels)

"""Indices that lead to nothing, operands that do not fit: errors at the user's line, whatever executes the kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from indexing_kernels import CASES, Case, wrong_calls
from lab import everywhere, native
from operator_kit import OPTIMIZED, PLAIN, import_text
from test_sanitizers import FLAGS, _libraries

from pypto.debug import interpret
from pypto.errors import Error, KernelBoundsError
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import lower


@pytest.mark.parametrize("case", [c for c in CASES if c.wrong], ids=lambda c: c.kernel.__name__)
def test_an_index_that_leads_to_nothing(case: Case) -> None:
    """The error names the line, and a tensor that is written by index is as it was."""
    program = case.kernel.specialize(*case.arguments)
    lowered = lower(program, PassOptions()).host
    for args in wrong_calls(case):
        for way in (OPTIMIZED, PLAIN):
            with pytest.raises(KernelBoundsError, match=r"indexing_kernels\.py:\d+"):
                native(case.kernel, args, way)
        for p in (program, lowered):
            given = [a.copy() for a in args]
            with pytest.raises(KernelBoundsError):
                interpret(p, given, case.kernel.__name__)
            assert (given[-1] == -7).all()
        with pytest.raises(KernelBoundsError):
            case.kernel(*args)
        assert (args[-1] == -7).all()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.kernel.__name__)
def test_every_way_gives_the_same(case: Case) -> None:
    """Every stage interpreted, its text and its binary form read back, every way to native code: one result."""
    everywhere(case.kernel, *case.arguments)


@pytest.mark.skipif(not _libraries(), reason="gcc's sanitizer libraries are not installed")
@pytest.mark.parametrize("optimize", ["1", "0"])
def test_no_access_out_of_place(optimize: str, tmp_path: Path) -> None:
    env = os.environ | {
        "LD_PRELOAD": " ".join(_libraries()),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYPTO_CC": "gcc",
        "CFLAGS": FLAGS,
        "PYPTO_CACHE_DIR": str(tmp_path),
        "PYPTO_NATIVE_OPT": optimize,
    }
    script = Path(__file__).with_name("indexing_kernels.py")
    done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    kernels = list(tmp_path.rglob("kernel.so"))
    assert len(kernels) >= len(CASES)
    assert all(b"__asan_report" in k.read_bytes() for k in kernels)


REFUSED = {
    "pl.transpose(t, 0, 0)": ("two axes", "two different axes"),
    "pl.transpose(t, 0, 2)": ("out of range", "axes run from 0 to 1"),
    "pl.concat(t, pl.load(x, [0, 0], [8, 32]))": ("differ in rows", "slice one"),
    "pl.concat(t, pl.load(x, [0, 0], [16, 32], [3, 3]))": ("valid shape", "set_validshape"),
    "pl.concat(t, x)": ("cannot mix", "pl.load"),
    "pl.gather(t, x)": ("works on tensors", "pl.tile.gather"),
    "pl.gather(x, 0)": ("no index", "pl.gather(x, index)"),
    "pl.gather(x, dim=2, index=i)": ("out of range", "axes run from"),
    "pl.gather(x, dim=1, index=x)": ("index has dtype fp32", "pl.cast(index, pl.INT32)"),
    "pl.gather(x, dim=1, index=pl.reshape(i, [64]))": ("differ in rank", "pl.reshape the index to 2 dimensions"),
    "pl.gather(x, mask_pattern=9)": ("no pattern", "P0101"),
    "pl.gather(x, mask_pattern=1, output_dtype=pl.INT16)": ("differ in size", "pl.cast"),
    "pl.tile.gather(t, k, t)": ("scratch tile", "pl.create_tile([8, 8], dtype=pl.INT32)"),
    "pl.gatherb(t, k)": ("offset has dtype int32", "pl.UINT32"),
    'pl.mgather(x, k, "column")': ("coalesce must be one of row, elem", 'coalesce="row"'),
    'pl.mgather(x, k, "row", gather_oob="stop")': ("gather_oob must be one of", "undefined"),
    'pl.mgather(t, k, "row")': ("must be a tensor", "pl.tile.gather"),
    'pl.mgather(x, pl.load(i, [0, 0], [8, 8], [8, 5]), "row")': ("no run of elements", "[1, n]"),
    "pl.scatter(x, dim=0, index=i, src=v)": ("along dim -1", "pl.transpose"),
    "pl.scatter(x, dim=1, index=i, src=x)": ("differ in shape", "each element of src"),
    "pl.scatter(v, mask_pattern=1)": ("needs dst", "dst="),
    "pl.scatter(v, mask_pattern=1, dst=x)": ("must have shape [8, 16]", "every column of 2"),
    "pl.tile.scatter(t, w, pl.cast(k, pl.INT16))": ("index has dtype int16", "pl.INT32"),
    "pl.tile.scatter(t, pl.load(v, [0, 0], [8, 8], [3, 8]), k)": ("valid", "narrow the index"),
    "pl.scatter_update(x, 0, i, v)": ("not dim 0", "dim=-2"),
    "pl.scatter_update(x, i, v)": ("src must have shape [64, 32]", "one row of src"),
    "pl.sort32(t, k)": ("index must be uint32", "pl.UINT32"),
    "pl.sort32(w, pl.create_tile([8, 8], dtype=pl.UINT32))": ("blocks of 32", "pl.fillpad"),
    "pl.mrgsort(t)": ("neither block_len nor a second list", "block_len=64"),
    "pl.mrgsort(t, t)": ("need tmp", "pl.create_tile"),
    "pl.mrgsort(t, block_len=32)": ("multiple of 64", "64"),
    "pl.tensor.view(x)": ("neither shape nor layout", "pl.tensor.view(x, [rows, cols])"),
    "pl.tensor.view(x, [16, 31])": ("element counts differ", "pl.slice"),
}


@pytest.mark.parametrize("value", REFUSED)
def test_what_is_refused_says_what_to_write(value: str, tmp_path: Path) -> None:
    text = f"""import pypto.language as pl

@pl.jit
def refused(x: pl.Tensor, i: pl.Tensor, v: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 32])
        w = pl.load(v, [0, 0], [8, 8])
        k = pl.load(i, [0, 0], [8, 8])
        y = {value}
        pl.store(t, [0, 0], o)
    return o
"""
    kernel = import_text("refused", text, tmp_path)
    x, i, v = np.zeros((16, 32), np.float32), np.zeros((8, 8), np.int32), np.zeros((8, 8), np.float32)
    with pytest.raises(Error) as e:
        kernel(x, i, v, x.copy())
    found = str(e.value).split("= help: ")
    assert REFUSED[value][0] in found[0], found[0]
    assert REFUSED[value][1] in found[1], found[1]
    assert "refused.py:9" in found[0]

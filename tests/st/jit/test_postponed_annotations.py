"""Annotations that are strings when the kernel is defined: the same artifact under the same key, or an error that names both."""

from jit_kit import HEAD

MODULE = """
import atexit, json, os
import numpy as np, pypto, pypto.language as pl
def note_counters():
    with open(os.environ["COUNTERS"], "a") as log: log.write(json.dumps(pypto.cache_stats()._asdict()) + chr(10))
atexit.register(note_counters)
M, K = 64, 2.0
@pl.jit
def k(x: pl.Tensor[[M, M // 2], pl.FP32], y: pl.Out[pl.Tensor[[M, M // 2], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, K)
    return y
x = np.ones((64, 32), np.float32); y = np.zeros_like(x); k(x, y); print(float(y[0, 0]))
"""
FACTORY = (
    MODULE.split("M, K = ")[0]
    + """
def make(n):
    K = 3.0
    @pl.jit
    def k(x: pl.Tensor[[64, n], pl.FP32], y: pl.Out[pl.Tensor[[64, n], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:, 0:COLS] = pl.mul(x[:, 0:COLS], K)
        return y
    return k
x = np.ones((64, 32), np.float32); y = np.zeros_like(x); make(32)(x, y); print(float(y[0, 0]))
"""
)
LATER = "from __future__ import annotations"


def test_names_of_the_module(box):
    assert box.run(MODULE).words == ["2.0"]
    assert box.builds() == 1
    assert box.run(LATER + MODULE).words == ["2.0"]
    assert box.builds() == 0  # the same key
    quoted = MODULE.replace("pl.Tensor[[M, M // 2], pl.FP32], y", '"pl.Tensor[[M, M // 2], pl.FP32]", y')
    assert quoted != MODULE
    assert box.run(quoted).words == ["2.0"]
    assert box.builds() == 0


def test_names_of_the_function_around(box):
    for columns in ("n", "32"):  # in annotation and body, and in the annotation alone
        text = FACTORY.replace("COLS", columns)
        assert box.run(text).words == ["3.0"]
        assert box.builds() == 1
        assert box.run(LATER + text).words == ["3.0"]
        assert box.builds() == 0


def test_what_cannot_be_found_is_named(box):
    p = box.run(LATER + MODULE.replace("M // 2], pl.FP32], y", "MISSING], pl.FP32], y"), ok=False)
    assert p.returncode == 1
    assert "'MISSING'" in p.err
    assert "annotation" in p.err
    assert "t.py:" in p.err


REBOUND = (
    HEAD.replace("\nimport atexit", "import atexit")
    + """
M = 64
@pl.jit
def k(x: pl.Tensor[[M, 64], pl.FP32], y: pl.Out[pl.Tensor[[M, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, 2.0)
    return y
M = 32
try: print(call(k))
except pypto.Error as e: print("expects", "64" in str(e), "32" in str(e))
"""
)


def test_a_name_bound_anew_before_the_first_call(box):
    """Without postponement the annotation has been evaluated: its value decides.  With it, the name is read at the first use."""
    assert box.run(REBOUND).words == ["2.0"]
    assert box.run(LATER + "\n" + REBOUND).words in (["2.0"], ["expects", "True", "True"])


DYNAMIC = (
    HEAD.replace("\nimport atexit", "import atexit")
    + """
import typing
N = pl.dynamic("N")
Rows = pl.Tensor[[N, 64], pl.FP32]
@pl.jit
def k(x: Rows, y: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, N, 8):
            y[i:i + 8, :] = pl.mul(x[i:i + 8, :], 2.0)
    return y
print(call(k), call(k, np.ones((8, 64), np.float32)), call(k, np.ones((24, 64), np.float32)))
"""
)


def test_dynamic_extents(box):
    for text in (DYNAMIC, LATER + "\n" + DYNAMIC, DYNAMIC.replace("x: Rows", 'x: "Rows"')):
        assert box.run(text).words == ["2.0"] * 3
    assert box.builds() == 1

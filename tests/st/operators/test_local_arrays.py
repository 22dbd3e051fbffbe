"""Arrays of scalars on the core: values that loops and branches hand on, the same in every way of running them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lab import ALL, agree, everywhere

import pypto.language as pl
from pypto import ir
from pypto.debug import interpret
from pypto.errors import CompileError, InvalidOperationError, KernelBoundsError, ParserTypeError, UnsupportedFeatureError
from pypto.jit import JITFunction

I32 = np.int32


def numbers(n: int = 16) -> np.ndarray:
    return (np.arange(n) * 5 % 4).astype(I32).reshape(1, n)


def blank() -> np.ndarray:
    return np.full((2, 8), -7, I32)


@pl.jit
def histogram(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        h = pl.array.create(4, pl.INT32)
        for i in pl.range(16):
            j = pl.read(a, [0, i])
            h[j] = h[j] + 1
        for i in pl.range(4):
            pl.write(o, [0, i], h[i])
    return o


def test_counts() -> None:
    want = blank()
    want[0, :4] = np.bincount(numbers()[0], minlength=4)
    np.testing.assert_array_equal(everywhere(histogram, numbers(), blank(), ways=ALL)[1], want)


@pl.jit
def values(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        h = pl.array.create(3, pl.INT32)
        h[0] = 1
        old = h
        h[0] = 2
        new = pl.array.update_element(h, 1, pl.read(a, [0, 1]))
        if pl.read(a, [0, 0]) == 0:
            h[2] = 9
        else:
            old[2] = 8
        pl.array.update_element(h, 1, 5)
        for i in pl.range(3):
            pl.write(o, [0, i], h[i])
            pl.write(o, [0, i + 3], old[i])
            pl.write(o, [1, i], new[i])
    return o


@pytest.mark.parametrize("first", [0, 1])
def test_an_old_value_stays_what_it_was(first: int) -> None:
    a = np.array([[first, 40]], I32)
    want = blank()
    want[0, :6] = [2, 5, 0, 1, 0, 0]
    want[0, 2 if first == 0 else 5] = 9 if first == 0 else 8
    want[1, :3] = [2, 40, 0]
    np.testing.assert_array_equal(everywhere(values, a, blank())[1], want)


@pl.jit
def exchanged(n: pl.INT32, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.array.create(2, pl.INT32)
        y = pl.array.create(2, pl.INT32)
        x[0] = 10
        y[0] = 20
        for k in pl.range(n):
            x, y = y, x
            x[0] = x[0] + 1
            y[1] = x[0]
        k = pl.const(0, pl.INDEX)
        while x[0] < 40:
            x[0] = x[0] + 7
            k = k + 1
        pl.write(o, [0, 0], x[0])
        pl.write(o, [0, 1], x[1])
        pl.write(o, [0, 2], y[0])
        pl.write(o, [0, 3], y[1])
        pl.write(o, [0, 4], pl.cast(k, pl.INT32))
    return o


def test_carried_by_loops_that_exchange_them() -> None:
    calls = [(n, blank()) for n in range(4)]
    for (n, _), got in zip(calls, agree(exchanged, *calls), strict=True):
        x, y, k = [10, 0], [20, 0], 0
        for _ in range(n):
            x, y = y, x
            x[0] += 1
            y[1] = x[0]
        while x[0] < 40:
            x[0] += 7
            k += 1
        np.testing.assert_array_equal(got[0][0, :5], [*x, *y, k])


@pl.jit
def kinds(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        f = pl.array.create(2, pl.BOOL)
        z = pl.array.create(2, pl.INDEX)
        u = pl.array.create(2, pl.UINT8)
        s = pl.array.create(2, pl.INT16)
        f[1] = pl.read(a, [0, 1]) == 1
        z[0] = z[0] - 3
        u[1] = u[1] - 1
        s[0] = pl.cast(pl.read(a, [0, 2]) + 32767, pl.INT16)
        if f[1] and not f[0]:
            pl.write(o, [0, 0], 1)
        pl.write(o, [0, 1], pl.cast(z[0], pl.INT32))
        pl.write(o, [0, 2], pl.cast(u[1], pl.INT32))
        pl.write(o, [0, 3], pl.cast(s[0], pl.INT32))
    return o


def test_element_types_wrap_as_numbers_do() -> None:
    got = everywhere(kinds, np.array([[0, 1, 2]], I32), blank(), ways=ALL)[1]
    np.testing.assert_array_equal(got[0, :4], [1, -3, 255, -32767])


@pl.jit
def outside(o: pl.Out[pl.Tensor]):
    h = pl.array.create(4, pl.INDEX)
    for i in pl.range(4):
        h[i] = 6 - i * 2
    for i in pl.range(4):
        if i > 1:
            h[i] = h[i] + 1
        k = h[i]
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.write(o, [0, k], pl.cast(k, pl.INT32))
    return o


def test_between_kernels() -> None:
    want = blank()
    want[0, [6, 4, 3, 1]] = [6, 4, 3, 1]
    np.testing.assert_array_equal(everywhere(outside, blank())[0], want)


@pl.jit.inline
def counted(h: pl.Array[2, pl.INT32]):
    h[0] = h[0] + 1
    return h


@pl.jit
def helped(o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        h = counted(pl.array.create(2, pl.INT32))
        g = counted(counted(h))
        pl.write(o, [0, 0], h[0])
        pl.write(o, [0, 1], g[0])
    return o


def test_a_helper_has_arrays_of_its_own() -> None:
    np.testing.assert_array_equal(everywhere(helped, blank())[0][0, :2], [1, 3])


@pl.jit.incore
def given(h, o: pl.Out[pl.Tensor]):
    pl.write(o, [0, 0], h[0])
    return o


@pl.jit
def giving(o: pl.Out[pl.Tensor]):
    h = pl.array.create(2, pl.INT32)
    o = given(h, o)
    return o


def test_a_kernel_is_given_no_array() -> None:
    with pytest.raises(ParserTypeError, match="arrays stay in the function that makes them") as caught:
        giving(blank())
    assert caught.value.source_lines[0].strip() == "o = given(h, o)"


# -- refused -----------------------------------------------------------------------------------------------------------


@pl.jit
def indexed(n: pl.INT32, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        h = pl.array.create(4, pl.INT32)
        h[n] = 5
        pl.write(o, [0, 0], h[3])
    return o


@pytest.mark.parametrize("n", [4, -1, 2147483647])
def test_an_index_that_is_not_within(n: int) -> None:
    for call in (indexed, lambda *args: interpret(indexed.specialize(*args), args)):
        o = blank()
        with pytest.raises(KernelBoundsError, match=f"element {n} of an array of 4") as caught:
            call(n, o)
        assert caught.value.span is not None
        assert caught.value.source_lines[0].strip() == "h[n] = 5"
        np.testing.assert_array_equal(o, blank())
    assert everywhere(indexed, 3, blank())[0][0, 0] == 5


def refusing(folder: Any, lines: str) -> JITFunction:
    import importlib.util

    text = "import pypto.language as pl\n\n@pl.jit\ndef k(a: pl.Tensor, o: pl.Out[pl.Tensor]):\n"
    path = folder / "refused.py"
    path.write_text(text + "".join(f"    {x}\n" for x in lines.split("\n")) + "    return o\n")
    spec = importlib.util.spec_from_file_location("refused", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    kernel: JITFunction = made.k
    return kernel


IN = "with pl.at(level=pl.Level.CORE_GROUP):\n    h = pl.array.create(4, pl.INT32)\n    "


@pytest.mark.parametrize(
    ("lines", "kind", "words", "line"),
    [
        (IN + "h[4] = 1", InvalidOperationError, "element 4 of an array of 4", "h[4] = 1"),
        (IN + "pl.write(o, [0, 0], h[-1])", InvalidOperationError, "element -1 of an array", "pl.write(o, [0, 0], h[-1])"),
        (IN + "pl.write(o, [0, 0], h[0:2])", UnsupportedFeatureError, "Slice", "pl.write(o, [0, 0], h[0:2])"),
        (IN + "h[0] = 1.5", InvalidOperationError, "the value is fp32, the elements are int32", "h[0] = 1.5"),
        (IN + "h[0] = 1 << 40", InvalidOperationError, "does not fit int32", "h[0] = 1 << 40"),
        (IN + "h[0] = h", ParserTypeError, "expected a scalar, got pl.Array[4, pl.INT32]", "h[0] = h"),
        (IN + "h[0.5] = 1", InvalidOperationError, "an extent, offset or index must be an integer", "h[0.5] = 1"),
        (IN + "g = pl.array.create(4, pl.FP32)", InvalidOperationError, "not fp32", "g = pl.array.create(4, pl.FP32)"),
        (IN + "g = pl.array.create(0, pl.INT32)", InvalidOperationError, "positive", "g = pl.array.create(0, pl.INT32)"),
        (
            IN + "if a[0, 0] > 0:\n        h = pl.array.create(6, pl.INT32)",
            ParserTypeError,
            "Cannot reassign 'h'",
            "h = pl.array.create(6, pl.INT32)",
        ),
        (
            "h = pl.array.create(4, pl.INT32)\nwith pl.at(level=pl.Level.CORE_GROUP):\n    pl.write(o, [0, 0], h[1])",
            CompileError,
            "the array 'h' is used outside of the scope that made it",
            "pl.write(o, [0, 0], h[1])",
        ),
        (
            IN + "h[1] = 3\npl.write(o, [0, 0], h[1])",
            CompileError,
            "used outside of the scope",
            "h = pl.array.create(4, pl.INT32)",
        ),
    ],
)
def test_refusals(tmp_path: Any, lines: str, kind: type[Exception], words: str, line: str) -> None:
    with pytest.raises(kind) as caught:
        refusing(tmp_path, lines)(numbers(), blank())
    assert words in str(caught.value)
    assert caught.value.source_lines[0].strip() == line  # type: ignore[attr-defined]
    assert caught.value.hint  # type: ignore[attr-defined]


def test_the_operator_by_name() -> None:
    made = ir.op.array.create(4, dtype=pl.INT32)
    assert str(made.type) == str(ir.ArrayType(pl.INT32, 4))
    new = ir.op.array.update_element(made, 1, ir.ConstInt(3, pl.INT32))
    assert new.type == made.type
    with pytest.raises(ValueError, match="element 4 of an array of 4"):
        ir.op.array.get_element(new, 4)

"""What only the running kernel can see: an error at the user's line, before the offending transfer, with the values."""

import itertools

import numpy as np
import pytest
from errors_kit import arrays, cfg, module, out, shown

import pypto.language as pl
from pypto.debug import interpret
from pypto.errors import ArgumentValueError, KernelBoundsError, KernelError


def fault(call, args, kind, *words, piece, file=__file__):
    """The fault of a call, which is the same the second time and in the interpreter; nothing was written before it."""
    for _ in range(2):
        before = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
        with pytest.raises(kind) as caught:
            call(*args)
        e = caught.value
        assert type(e) is kind
        assert e.hint
        shown(e, piece, file)
        assert all(w in str(e) for w in words), str(e)
        for x, y in zip(args, before, strict=True):
            if isinstance(x, np.ndarray):
                np.testing.assert_array_equal(x, y)
    with pytest.raises(kind) as caught:
        interpret(call.specialize(*args), args, call.__name__)
    assert type(caught.value) is kind
    assert caught.value.span["line"] == e.span["line"], f"{e}\n\n{caught.value}"
    return e


@pl.jit
def windows(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.cast(pl.read(c, [0]), pl.INDEX)
        n = pl.cast(pl.read(c, [1]), pl.INDEX)
        t = pl.load(a, [r, n], [8, 16])
        to = pl.cast(pl.read(c, [2]), pl.INDEX)
        pl.store(t, [to, 0], o)
    return o


def test_windows_outside_of_a_tensor():
    a, _, _, o = arrays()
    windows(a, cfg(8, 48, 8), o)
    np.testing.assert_array_equal(o[8:, :16], a[8:, 48:])
    load, store = "t = pl.load(a, [r, n], [8, 16])", "pl.store(t, [to, 0], o)"
    for values, line, word in (
        ((9, 0, 0), load, "9"),
        ((-1, 0, 0), load, "-1"),
        ((0, 49, 0), load, "49"),
        ((0, -8, 0), load, "-8"),
        ((0, 0, 9), store, "9"),
        ((0, 0, -1), store, "-1"),
        ((2**31 - 1, 0, 0), load, "2147483647"),
        ((0, -(2**31), 0), load, "-2147483648"),
    ):
        e = fault(windows, (a, cfg(*values), out(16, 64)), KernelBoundsError, "windows", word, piece=line)
        assert isinstance(e, IndexError)
        assert e.code == "K100"
        assert "clamp=True" in e.hint
        assert ("valid_shape=" in e.hint, "pl.set_validshape" in e.hint) == (line == load, line == store)


@pl.jit
def subscripts(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.cast(pl.read(c, [0]), pl.INDEX)
        to = pl.cast(pl.read(c, [1]), pl.INDEX)
        x = a[r : r + 8, :] * 2.0
        o[to : to + 8, :] = x
    return o


def test_windows_of_subscripts_and_what_their_help_says():
    a = arrays()[0]
    fault(subscripts, (a, cfg(9, 0), out(16, 64)), KernelBoundsError, "9", piece="x = a[r : r + 8, :]")
    e = fault(subscripts, (a, cfg(0, 9), out(16, 64)), KernelBoundsError, "9", piece="o[to : to + 8, :] = x")
    assert "valid_shape=" not in e.hint
    assert "pl.slice(x, shape, offsets, clamp=True)" in e.hint
    assert "out = pl.assemble(out, y, offsets)" in e.hint


@pl.jit
def extents(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.cast(pl.read(c, [0]), pl.INDEX)
        n = pl.cast(pl.read(c, [1]), pl.INDEX)
        t = pl.load(a, [0, 0], [8, 16], valid_shape=[r, 16])
        u = pl.set_validshape(pl.load(a, [8, 0], [8, 16]), 8, n)
        pl.store(t, [0, 0], o)
        pl.store(u, [8, 0], o)
    return o


def test_extents_larger_than_their_tile():
    a, _, _, o = arrays()
    extents(a, cfg(8, 16), o)
    extents(a, cfg(0, 0), o)
    for values, piece in (
        ((9, 3), "t = pl.load"),
        ((-1, 3), "t = pl.load"),
        ((3, 17), "u = pl.set_validshape"),
        ((3, -1), "u = "),
    ):
        bad = next(v for v in values if v != 3)
        e = fault(extents, (a, cfg(*values), out(16, 64)), KernelBoundsError, str(bad), piece=piece)
        assert "larger tile, or a loop over pieces" in e.hint


@pl.jit
def elements(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.cast(pl.read(c, [0]), pl.INDEX)
        j = pl.cast(pl.read(c, [1]), pl.INDEX)
        v = pl.read(a, [i, 3])
        pl.write(o, [j, 5], v)
    return o


@pl.jit
def tile_elements(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.cast(pl.read(c, [0]), pl.INDEX)
        t = pl.load(a, [0, 0], [8, 16])
        s = pl.slice(t, [4, 16], [i, 0])
        pl.store(s, [0, 0], o)
    return o


def test_elements_and_windows_of_tiles():
    a = arrays()[0]
    for values, piece in (((16, 0), "v = pl.read"), ((-1, 0), "v = pl.read"), ((0, 16), "pl.write"), ((0, -2), "pl.write")):
        e = fault(elements, (a, cfg(*values), out(16, 64)), KernelBoundsError, str(sum(values)), piece=piece)
        assert e.hint == "correct the index"
    for i in (5, -1, 100):
        e = fault(tile_elements, (a, cfg(i), out(16, 64)), KernelBoundsError, str(i), piece="s = pl.slice")
        assert "take a smaller window" in e.hint


@pl.jit
def steps(c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        by = pl.cast(pl.read(c, [0]), pl.INDEX)
        s = pl.const(0, pl.INDEX)
        for i in pl.range(0, 8, by):
            s = s + i
        pl.write(o, [0], pl.cast(s, pl.INT32))
    return o


@pl.jit
def steps_outside(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    by = pl.cast(pl.read(c, [0]), pl.INDEX)
    for i in pl.range(0, 8, by):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(a, [i, 0], [1, 64]), [i, 0], o)
    return o


def test_a_loop_that_does_not_advance():
    assert steps(cfg(2), out(8, dtype=np.int32))[0] == 12
    e = fault(steps, (cfg(0), out(8, dtype=np.int32)), KernelError, "step", piece="for i in pl.range(0, 8, by):")
    assert e.code == "K000"
    a = arrays()[0]
    fault(steps_outside, (a, cfg(0), out(16, 64)), KernelError, "step", piece="for i in pl.range(0, 8, by):")


@pl.jit
def empty(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        w = pl.create_tile([8, 16], dtype=pl.FP32)
        t = pl.load(a, [0, 0], [8, 16], valid_shape=[8, n])
        m = pl.row_max(pl.mul(t, 2.0), w)
        pl.store(m, [0, 0], o)
    return o


def test_a_reduction_of_nothing():
    a = arrays()[0]
    np.testing.assert_array_equal(empty(a, cfg(3), out(8, 1))[:, 0], 2 * a[:8, 2])
    fault(empty, (a, cfg(0), out(8, 1)), KernelError, "row_max", "empty", piece="m = pl.row_max(")


# -- where the line is ---------------------------------------------------------------------------------------------

N = pl.dynamic("N")


@pl.jit.inline
def row_of(x: pl.Tensor, i: pl.INDEX):
    t = pl.load(x, [i, 0], [1, 64])
    return t


@pl.jit.incore
def copied(x: pl.Tensor, y: pl.Out[pl.Tensor], i: pl.INDEX):
    t = row_of(x, i)
    y = pl.store(t, [i, 0], y)
    return y


@pl.jit
def through_helpers(a: pl.Tensor[[N, 64], pl.FP32], c: pl.Tensor, o: pl.Out[pl.Tensor[[N, 64], pl.FP32]]):
    n = pl.cast(pl.read(c, [0]), pl.INDEX)
    for i in pl.range(n):
        o = copied(a, o, i + 14)
    return o


def test_the_line_is_the_helpers():
    a, _, _, o = arrays()
    through_helpers(a, cfg(2), o)
    np.testing.assert_array_equal(o[14:], a[14:])
    o = out(16, 64)
    with pytest.raises(KernelBoundsError, match="16") as e:
        through_helpers(a, cfg(3), o)
    shown(e.value, "t = pl.load(x, [i, 0], [1, 64])", __file__)
    np.testing.assert_array_equal(o[14:], a[14:])  # what ran before the fault has run
    np.testing.assert_array_equal(o[:14], -777)


_made = itertools.count()


def test_the_line_after_the_file_has_moved(tmp_path):
    """Lines are those of the source as this process captured it, also where the artifact is another one's."""
    text = """
    import pypto.language as pl

    @pl.jit
    def k(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            i = pl.cast(pl.read(c, [0]), pl.INDEX)
            o[0:1, :] = a[i : i + 1, :]
        return o
    """
    a = arrays()[0]
    for blank_lines in (0, 7):
        made = module(tmp_path, "\n" * blank_lines + text)
        e = fault(made.k, (a, cfg(16), out(16, 64)), KernelBoundsError, "16", piece="o[0:1, :] = a[", file=made.__file__)
        assert e.span["line"] == 8 + blank_lines


@pl.jit
def prepared(a: pl.Tensor[[N, 64], pl.FP32], c: pl.Tensor, o: pl.Out[pl.Tensor[[N, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [8, 64])
        pl.store(pl.neg(t), [0, 0], o)
    return o


def test_a_constant_window_of_a_tensor_that_is_smaller():
    a = arrays()[0]
    np.testing.assert_array_equal(prepared(a, cfg(), out(16, 64))[:8], -a[:8])
    for rows in (7, 1, 0):
        fault(prepared, (a[:rows], cfg(), out(rows, 64)), KernelBoundsError, str(rows), piece="t = pl.load(a, [0, 0], [8, 64])")


def test_a_kernel_goes_on_after_its_faults():
    a = arrays()[0]
    for k in range(30):
        values, o = cfg(k, 0, 0), out(16, 64)
        if k <= 8:
            np.testing.assert_array_equal(windows(a, values, o)[:8, :16], a[k : k + 8, :16])
        else:
            with pytest.raises(KernelBoundsError):
                windows(a, values, o)
    with pytest.raises(ArgumentValueError):
        windows(a[::2], cfg(), out(16, 64))

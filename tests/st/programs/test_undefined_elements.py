"""Elements outside a tile's valid rectangle are never taken for values."""

import numpy as np
import pytest
from programs_kit import BRIEF, agree, cfg, module, on_the_way, out, same, whole

import pypto.language as pl
from pypto.debug import interpret
from pypto.errors import CompileError, Error, KernelBoundsError


@pl.jit
def element(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.cast(pl.read(c, [0]), pl.INDEX)
        n = pl.cast(pl.read(c, [1]), pl.INDEX)
        t = pl.load(a, [0, 0], [8, 32], valid_shape=[r, n])
        pl.write(o, [0], pl.read(t, [pl.cast(pl.read(c, [2]), pl.INDEX), pl.cast(pl.read(c, [3]), pl.INDEX)]))
    return o


@pl.jit
def window(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.cast(pl.read(c, [0]), pl.INDEX)
        n = pl.cast(pl.read(c, [1]), pl.INDEX)
        at = pl.cast(pl.read(c, [2]), pl.INDEX)
        t = pl.load(a, [0, 0], [8, 32])
        pl.store(pl.assemble(t, pl.load(a, [8, 0], [4, 32], valid_shape=[r, n]), [at, 0]), [0, 0], o)
    return o


@pl.jit
def beyond(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    """The target is valid in its first rows only, and what is written beyond them is not valid afterwards either."""
    with pl.at(level=pl.Level.CORE_GROUP):
        m = pl.cast(pl.read(c, [0]), pl.INDEX)
        at = pl.cast(pl.read(c, [1]), pl.INDEX)
        t = pl.load(a, [0, 0], [8, 32], valid_shape=[m, 32])
        pl.store(pl.assemble(t, pl.load(a, [8, 0], [4, 32], valid_shape=[2, 32]), [at, 0]), [0, 0], o)
    return o


def refused(kernel, args, words, on_tiles):
    given = [*args]
    for way in BRIEF:
        with on_the_way(way), pytest.raises(KernelBoundsError, match=words) as e:
            kernel.compile(*given)(*given)
        assert e.value.span
        assert "pl.fillpad" in str(e.value)
    with pytest.raises(KernelBoundsError, match=on_tiles):
        interpret(kernel.lower(*given), given, kernel.__name__)
    same(args[-1], -777)


@pytest.mark.parametrize(
    ("valid", "at", "words"), [((3, 32), (3, 0), "element 3 of axis 0"), ((8, 5), (7, 31), "element 31 of axis 1")]
)
def test_an_element_that_is_not_valid_is_not_read(valid, at, words):
    refused(element, [whole(8, 32), cfg(*valid, *at), out(1)], words, "of which . are valid")


def test_valid_elements_are_read():
    a = whole(8, 32)
    calls = [[a, cfg(3, 5, 2, 4), out(1)], [a, cfg(8, 32, 7, 31), out(1)]]
    first, last = agree(element, *calls)
    same(first[2], a[2, 4])
    same(last[2], a[7, 31])


@pytest.mark.parametrize("valid", [(3, 32), (4, 31), (0, 32), (4, 32)])
def test_a_window_brings_its_valid_elements(valid):
    """The rest of the window keeps what the target held: it is no more undefined than before."""
    a = whole(12, 32)
    (got,) = agree(window, [a, cfg(*valid, 2), out(8, 32)])
    want = a[:8].copy()
    want[2 : 2 + valid[0], : valid[1]] = a[8 : 8 + valid[0], : valid[1]]
    same(got[2], want)


def test_undefined_elements_may_lie_beyond_what_the_result_counts_as_valid():
    a = whole(12, 32)
    calls = [[a, cfg(4, 2), out(8, 32)], [a, cfg(3, 4), out(8, 32)], [a, cfg(6, 2), out(8, 32)]]
    inside, outside, within = agree(beyond, *calls)
    want = out(8, 32)
    want[:4] = a[:4]
    want[2:4] = a[8:10]
    same(inside[2], want)
    want = out(8, 32)
    want[:3] = a[:3]
    same(outside[2], want)
    want = out(8, 32)
    want[:6] = a[:6]
    want[2:4] = a[8:10]
    same(within[2], want)


def test_what_is_known_is_refused_at_its_line(tmp_path):
    text = """import pypto.language as pl

@pl.jit
def k(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [8, 32])
        u = pl.load(a, [8, 0], [4, 32], valid_shape=[2, 32])
        pl.store(pl.add(t, pl.read(u, [2, 0])), [0, 0], o)
    return o
"""
    with pytest.raises(Error, match="reads element 2 of dimension 0, of which 2 are valid") as e:
        module(text, tmp_path).k(np.zeros((12, 32), np.float32), np.zeros((8, 32), np.float32))
    assert e.value.span["line"] == 8
    assert e.value.hint


# -- storage that was created and never written ------------------------------------------------------------------------

# What may not write the tile `t`, for n of the call, and for which n something is there.
MAYBE = {
    "a loop": ("for i in pl.range(n):\n    t = pl.load(a, [i, 0], [8, 32])", lambda n: n > 0),
    "a loop downwards": ("for i in pl.range(n, 0, -1):\n    t = pl.load(a, [i, 0], [8, 32])", lambda n: n > 0),
    "a pipelined loop": ("for i in pl.pipeline(n, 3, stage=2):\n    t = pl.load(a, [i, 0], [8, 32])", lambda n: n < 3),
    "a while loop": ("i = n\nwhile i > 1:\n    t = pl.load(a, [i, 0], [8, 32])\n    i = i - 1", lambda n: n > 1),
    "a branch": ("if n > 1:\n    t = pl.load(a, [0, 0], [8, 32])", lambda n: n > 1),
    "the other arm": ("if n > 1:\n    pl.store(u, [0, 0], o)\nelse:\n    t = pl.add(u, 1.0)", lambda n: n <= 1),
    "a branch in a loop": ("for i in pl.range(4):\n    if i * 2 == n:\n        t = pl.add(u, 1.0)", lambda n: n in (0, 2)),
    "a loop in a branch": ("if n > 0:\n    for i in pl.range(1, n):\n        t = pl.add(u, 1.0)", lambda n: n > 1),
    "a loop that is left": (
        "for i in pl.range(4):\n    if i >= n:\n        break\n    t = pl.add(u, 1.0)",
        lambda n: n > 0,
    ),
    "places changed": ("for i in pl.range(n):\n    t, u = u, t\n    u = pl.load(a, [i, 0], [8, 32])", lambda n: n > 0),
    "a window": ("for i in pl.range(n):\n    t = pl.assemble(u, pl.load(a, [i, 0], [4, 32]), [i, 0])", lambda n: n > 0),
    "a window cut": ("w = t\nif n > 1:\n    w = pl.load(a, [0, 0], [8, 32])\nt = pl.slice(w, [8, 32], [0, 0])", lambda n: n > 1),
}
# What reads it.
READERS = (
    "pl.store(pl.add(u, pl.exp(t)), [0, 0], o)",
    "pl.store(pl.add(u, pl.read(t, [0, 0])), [0, 0], o)",
    "pl.store(pl.row_expand_add(u, pl.row_max(t, pl.create_tile([8, 32], dtype=pl.FP32))), [0, 0], o)",
)
KERNEL = """import pypto.language as pl

@pl.jit
def k(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        u = pl.load(a, [8, 0], [8, 32])
        t = pl.create_tile([8, 32], dtype=pl.FP32)
{body}
        {reader}
    return o
"""


def kernel_of(tmp_path, body, reader):
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return module(KERNEL.format(body=lines, reader=reader), tmp_path).k


@pytest.mark.parametrize("name", MAYBE)
def test_what_a_run_did_not_write_is_not_read(name, tmp_path):
    body, written = MAYBE[name]
    k, a = kernel_of(tmp_path, body, READERS[len(name) % 3]), whole(16, 32)
    calls = {n: [a, cfg(n), out(8, 32)] for n in range(4)}
    agree(k, *(calls[n] for n in calls if written(n)))
    for n in (n for n in calls if not written(n)):
        for way in BRIEF[:1] + BRIEF[3:]:
            with on_the_way(way), pytest.raises(KernelBoundsError, match="is read, and nothing has written it") as e:
                k.compile(*calls[n])(*calls[n])
            assert e.value.code == "K100"
            assert e.value.span
        for program in (k.specialize(*calls[n]), k.lower(*calls[n])):
            with pytest.raises(KernelBoundsError, match="is read, and nothing has written it"):
                interpret(program, calls[n], "k")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "body", ["if n > 0:\n    u = pl.add(u, 1.0)", "t = pl.slice(t, [8, 32], [0, 0])\nu = pl.add(u, pl.cast(n, pl.FP32))"]
)
def test_what_nothing_can_have_written_is_refused_at_its_line(body, reader, tmp_path):
    k = kernel_of(tmp_path, body, reader)
    with pytest.raises(CompileError, match="'t' is read, and nothing has written it") as e:
        k(whole(16, 32), cfg(1), out(8, 32))
    assert e.value.code == "C062"
    assert e.value.span["line"] == 9 + len(body.splitlines())
    assert "pl.full" in e.value.hint


@pl.jit
def inner_blocks(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        acc = pl.create_tensor([32, 32], dtype=pl.FP32)
        for k in pl.range(0, n, 32):
            acc = pl.matmul_acc(acc, a[:, k : k + 32], b[k : k + 32, :])
        o[:] = acc
    return o


@pl.jit
def some_blocks(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    """Blocks in front of the n-th are left out."""
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        acc = pl.create_tensor([32, 32], dtype=pl.FP32)
        for k in pl.range(0, 64, 32):
            if k >= n:
                acc = pl.matmul_acc(acc, a[:, k : k + 32], b[k : k + 32, :], init_cond=(k == n))
        o[:] = pl.add(acc, 0.0)
    return o


def test_sums_of_no_blocks():
    a, b = whole(32, 64), whole(64, 32)
    for kernel, there, empty in ((inner_blocks, (32, 64), 0), (some_blocks, (0, 32), 64)):
        calls = [[a, b, cfg(n), out(32, 32)] for n in there]
        for n, got in zip(there, agree(kernel, *calls), strict=True):
            blocks = slice(0, n) if kernel is inner_blocks else slice(n, 64)
            same(got[3], a[:, blocks] @ b[blocks])
        given = [a, b, cfg(empty), out(32, 32)]
        for way in BRIEF:
            with on_the_way(way), pytest.raises(KernelBoundsError, match="'acc' is read, and nothing has written it"):
                kernel.compile(*given)(*given)
        with pytest.raises(KernelBoundsError, match="'acc' is read, and nothing has written it"):
            interpret(kernel.specialize(*given), given, kernel.__name__)


@pl.jit
def no_elements(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tile([8, 32], dtype=pl.FP32)
        pl.store(pl.load(a, [0, 0], [8, 32]), [0, 0], o)
        pl.store(pl.set_validshape(t, 0, 32), [0, 0], o)
    return o


def test_of_no_elements_there_is_nothing_to_read():
    a = whole(8, 32)
    ((_, o),) = agree(no_elements, [a, out(8, 32)])
    same(o, a)

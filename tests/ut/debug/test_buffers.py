"""The buffer stage: handles over storage, results written into operands."""

import numpy as np
import pytest
from kit import OUT, Kernel, expr

from pypto.debug import interpret
from pypto.dtypes import DataType as D
from pypto.enums import FunctionIRStage, MemorySpace, TileLayout
from pypto.errors import KernelBoundsError
from pypto.ir import scalar as s
from pypto.ir.shaped import BufferType

VEC = MemorySpace.Vec
X = np.arange(1, 16 * 32 + 1, dtype=np.float32).reshape(16, 32)


def out(*shape):
    return np.full(shape, -777, np.float32)


class Buffers(Kernel):
    def __init__(self, rows=16, cols=32):
        super().__init__()
        self.x, self.o = self.tensor("x", [rows, cols], D.FP32), self.tensor("o", [rows, cols], D.FP32, OUT)

    def alloc(self, shape=(16, 32), address=None, valid=None, dtype=D.FP32, given=()):
        at = () if address is None else (address,)
        return self.op("buffer.alloc", list(given), *at, result=BufferType(shape, dtype, VEC, valid))

    def finish(self):
        return self.done(self.o, ir_stage=FunctionIRStage.Buffer)


@pytest.mark.parametrize("addresses", [(0, 2048), (0, 0), (None, None)])
def test_an_elementwise_kernel(addresses):
    k = Buffers()
    a, b = (k.alloc(address=n) for n in addresses)
    k.op("buffer.load", k.x, [0, 0], [16, 32], a)
    k.op("buffer.muls", a, expr(2.0), b)
    k.op("buffer.store", b, [0, 0], [16, 32], k.o)
    np.testing.assert_array_equal(interpret(k.finish(), [X, out(16, 32)]), 2 * X)


def test_addressed_buffers_share_bytes_and_addressless_ones_never_do():
    for address, want in ((0, -X), (None, X)):
        k = Buffers()
        a, b = k.alloc(address=address), k.alloc(address=address)
        k.op("buffer.load", k.x, [0, 0], [16, 32], a)
        k.op("buffer.neg", a, b)
        k.op("buffer.store", a, [0, 0], [16, 32], k.o)
        np.testing.assert_array_equal(interpret(k.finish(), [X, out(16, 32)]), want)


def test_run_time_extents():
    k = Buffers()
    r, n = k.scalar("r", D.INDEX), k.scalar("n", D.INDEX)
    d = k.alloc(valid=(-1, -1), given=(16, 32))
    k.op("buffer.set_validshape", d, [r, n])

    def guarded():
        k.op("buffer.load", k.x, [0, 0], [r, n], d)
        k.op("buffer.adds", d, expr(1.0), d)
        k.op("buffer.store", d, [0, 0], [r, n], k.o)

    k.if_(s.gt(n, expr(0)), guarded, None)
    f = k.finish()
    for n_ in (0, 5, 32):
        want = out(16, 32)
        want[:3, :n_] = X[:3, :n_] + 1
        np.testing.assert_array_equal(interpret(f, [X, out(16, 32), 3, n_]), want)
    for n_ in (-1, 33):
        with pytest.raises(KernelBoundsError, match="valid extent"):
            interpret(f, [X, out(16, 32), 3, n_])


@pytest.mark.contract("B069", "B070")
def test_windows_keep_their_parents_pitch():
    k = Buffers()
    r = k.scalar("r", D.INDEX)
    whole, tmp, canvas = k.alloc(address=0), k.alloc((4, 8), 4096), k.alloc(address=8192)
    k.op("buffer.load", k.x, [0, 0], [16, 32], whole)
    k.op("buffer.load", k.x, [0, 0], [16, 32], canvas)
    win = k.op("buffer.subview", whole, [r, 16], [4, 8], result=BufferType((4, 8), D.FP32, VEC))
    k.op("buffer.add", win, win, tmp)
    dst = k.op("buffer.subview", canvas, [12, 0], [4, 8], result=BufferType((4, 8), D.FP32, VEC))
    k.op("buffer.copy", tmp, dst)
    k.op("buffer.store", canvas, [0, 0], [16, 32], k.o)
    f = k.finish()
    want = X.copy()
    want[12:, :8] = 2 * X[5:9, 16:24]
    np.testing.assert_array_equal(interpret(f, [X, out(16, 32), 5]), want)
    with pytest.raises(KernelBoundsError, match=r"buffer.subview reads"):
        interpret(f, [X, out(16, 32), 13])


def test_byte_roots():
    k = Buffers()
    root = k.alloc((128, 32), 8192, dtype=D.UINT8)
    window = k.op("buffer.subview", root, [2, 0], result=BufferType((64, 32), D.UINT8, VEC))
    v = k.op("buffer.reshape", window, result=BufferType((16, 32), D.FP32, VEC))
    direct = k.alloc((16, 32), 8192 + 64)
    k.op("buffer.load", k.x, [0, 0], [16, 32], v)
    k.op("buffer.store", direct, [0, 0], [16, 32], k.o)
    np.testing.assert_array_equal(interpret(k.finish(), [X, out(16, 32)]), X)


@pytest.mark.contract("B230")
def test_swapped_carries_as_copies():
    k = Buffers(32, 32)
    n = k.scalar("n", D.INDEX)
    left, right, s1, s2 = (k.alloc(address=2048 * i) for i in range(4))
    k.op("buffer.load", k.x, [0, 0], [16, 32], left)
    k.op("buffer.load", k.x, [16, 0], [16, 32], right)

    def body(i, r):
        k.op("buffer.copy", right, s1)
        k.op("buffer.copy", left, s2)
        k.op("buffer.copy", s1, left)
        k.op("buffer.copy", s2, right)
        return [k.let(s.sub(expr(16), r))]

    (r,) = k.loop(0, n, 1, [k.let(expr(0))], body)
    k.op("buffer.store", left, [r, 0], [16, 32], k.o)
    f = k.finish()
    x = np.vstack([X, -X])
    for trips in (0, 1, 2, 3):
        want = out(32, 32)
        at = 16 * (trips % 2)
        want[at : at + 16] = x[at : at + 16]
        np.testing.assert_array_equal(interpret(f, [x, out(32, 32), trips]), want)


def test_operations_that_need_a_distinct_destination_show_when_they_have_none():
    k = Buffers()
    a, b = k.alloc(address=0), k.alloc(address=0)
    k.op("buffer.load", k.x, [0, 0], [16, 32], a)
    k.op("buffer.recip", a, b)
    k.op("buffer.store", b, [0, 0], [16, 32], k.o)
    assert np.isnan(interpret(k.finish(), [X, out(16, 32)])).all()


def test_matrix_memories_and_queries():
    k = Kernel()
    x, o = k.tensor("x", [32, 32], D.FP16), k.tensor("o", [8], D.INT32, OUT)
    nz = (TileLayout.col_major, TileLayout.row_major, 512)
    mat = k.op("buffer.alloc", [], 0, result=BufferType((32, 32), D.FP16, MemorySpace.Mat, None, *nz))
    left = k.op("buffer.alloc", [], 0, result=BufferType((16, 32), D.FP16, MemorySpace.Left, None, *nz))
    k.op("buffer.load", x, [0, 0], [32, 32], mat)
    k.op("buffer.extract", mat, 16, 0, left)
    n = k.op("buffer.get_block_num")
    f = k.done(k.op("tensor.write", o, [0], k.let(s.cast(n, D.INT32))))
    assert interpret(f, [np.zeros((32, 32), np.float16), np.zeros(8, np.int32)]).tolist() == [1] + [0] * 7

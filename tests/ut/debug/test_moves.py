"""Transfers, windows, views, padding and element access; what leaves its tensor is refused before anything moves."""

import numpy as np
import pytest
from kit import INOUT, OUT, Kernel, expr

from pypto.debug import interpret
from pypto.dtypes import DataType as D
from pypto.enums import AtomicType, FunctionType, MemorySpace, PadValue
from pypto.errors import KernelBoundsError, KernelError, NotSupportedError
from pypto.ir import scalar as s
from pypto.ir.expr import Var
from pypto.ir.program import Program
from pypto.ir.shaped import TensorType

GRID = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)


def out(*shape, dtype=np.float32, fill=-777):
    return np.full(shape, fill, dtype)


def kernel(build, shape=(8, 16), dtype=D.FP32, scalars=("r", "c"), direction=OUT, source=(8, 16)):
    """`build(k, x, o, *scalars)` gives what is returned."""
    k = Kernel()
    x = k.tensor("x", list(source), dtype)
    o = k.tensor("o", list(shape), dtype, direction)
    return k.done(build(k, x, o, *(k.scalar(n, D.INDEX) for n in scalars)))


# -- transfers ---------------------------------------------------------------------------------------------------------


def test_only_the_valid_rectangle_is_moved():
    f = kernel(lambda k, x, o, r, c: k.store(k.load(x, [0, 0], [8, 16], [r, c]), [0, 0], o))
    for r, c in [(0, 16), (8, 0), (0, 0), (3, 5), (8, 16)]:
        want = out(8, 16)
        want[:r, :c] = GRID[:r, :c]
        np.testing.assert_array_equal(interpret(f, [GRID, out(8, 16), r, c]), want)


def test_windows_at_run_time_offsets():
    f = kernel(lambda k, x, o, r, c: k.store(k.load(x, [r, c], [2, 4]), [c, r], o), shape=(16, 8))
    for r, c in [(0, 0), (4, 12), (3, 5)]:
        want = out(16, 8)
        want[c : c + 2, r : r + 4] = GRID[r : r + 2, c : c + 4]
        np.testing.assert_array_equal(interpret(f, [GRID, out(16, 8), r, c]), want)


@pytest.mark.parametrize(("r", "c", "axis"), [(-1, 0, 0), (7, 0, 0), (0, -1, 1), (0, 13, 1), (2**62, 0, 0)])
def test_a_load_that_leaves_its_tensor_is_refused(r, c, axis):
    f = kernel(lambda k, x, o, r, c: k.store(k.load(x, [r, c], [2, 4]), [0, 0], o))
    got = out(8, 16)
    with pytest.raises(KernelBoundsError, match=f"tile.load reads elements .* of dimension {axis}") as e:
        interpret(f, [GRID, got, r, c])
    assert e.value.location.filename == "kernel.py"
    assert (got == -777).all()


def test_a_store_that_leaves_its_tensor_is_refused():
    f = kernel(lambda k, x, o, r, c: k.store(k.load(x, [0, 0], [2, 4]), [r, c], o))
    got = out(8, 16)
    for r, c in [(-1, 0), (7, 0), (0, 13)]:
        with pytest.raises(KernelBoundsError, match=r"tile.store writes elements"):
            interpret(f, [GRID, got, r, c])
    assert (got == -777).all()
    interpret(f, [GRID, got, 6, 12])


def test_a_window_without_elements_is_never_wrong():
    f = kernel(lambda k, x, o, r, c: k.store(k.load(x, [r, 0], [8, 16], [c, 16]), [r, 0], o))
    np.testing.assert_array_equal(interpret(f, [GRID, out(8, 16), 10**9, 0]), out(8, 16))
    with pytest.raises(KernelBoundsError):
        interpret(f, [GRID, out(8, 16), 10**9, 1])


def test_valid_extents_lie_within_the_tile():
    f = kernel(lambda k, x, o, r, c: k.store(k.load(x, [0, 0], [4, 8], [r, c]), [0, 0], o))
    for r, c in [(5, 8), (4, 9), (-1, 8)]:
        with pytest.raises(KernelBoundsError, match=r"valid extent .* is not within 0..(4|8)"):
            interpret(f, [GRID, out(8, 16), r, c])


def test_clamped_loads_are_cut_at_the_edge():
    f = kernel(lambda k, x, o, r, c: k.store(k.load(x, [r, c], [4, 8], clamp=True), [0, 0], o))
    for r, c in [(6, 12), (0, 0), (8, 0), (100, 100)]:
        want = out(8, 16)
        part = GRID[r : r + 4, c : c + 8]
        want[: part.shape[0], : part.shape[1]] = part
        np.testing.assert_array_equal(interpret(f, [GRID, out(8, 16), r, c]), want)
    with pytest.raises(KernelBoundsError):
        interpret(f, [GRID, out(8, 16), -1, 0])


def test_atomic_stores_add():
    def build(k, x, o):
        t = k.load(x, [0, 0], [8, 16])
        return k.store(t, [0, 0], k.store(t, [0, 0], o, atomic=AtomicType.Add), atomic=AtomicType.Add)

    for dtype in (D.FP32, D.INT16):
        f = kernel(build, scalars=(), direction=INOUT, dtype=dtype)
        np.testing.assert_array_equal(
            interpret(f, [GRID.astype(dtype.numpy()), out(8, 16, fill=1, dtype=dtype.numpy())]), 1 + 2 * GRID
        )
    f = kernel(build, scalars=(), direction=INOUT, dtype=D.INT16)
    assert interpret(f, [out(8, 16, dtype=np.int16, fill=20000), out(8, 16, dtype=np.int16, fill=0)])[0, 0] == 40000 - 65536


def test_a_tile_goes_row_by_row_into_a_window_of_higher_rank():
    k = Kernel()
    x, o = k.tensor("x", [6, 8], D.FP32), k.tensor("o", [4, 5, 8], D.FP32, OUT)
    r = k.scalar("r", D.INDEX)
    f = k.done(k.op("tile.store", k.load(x, [0, 0], [6, 8], [r, 8]), [1, 2, 0], o, [2, 3, 8]))
    for rows in (6, 4, 0):
        want = out(4, 5, 8)
        flat = GRID.reshape(-1)[:48].reshape(6, 8)
        for i in range(rows):
            want[1 + i // 3, 2 + i % 3] = flat[i]
        np.testing.assert_array_equal(interpret(f, [flat, out(4, 5, 8), rows]), want)


def test_tensors_of_any_rank():
    x = np.arange(2 * 3 * 8, dtype=np.float32).reshape(2, 3, 8)
    k = Kernel()
    a, o = k.tensor("a", [2, 3, 8], D.FP32), k.tensor("o", [2, 3, 8], D.FP32, OUT)
    f = k.done(k.store(k.op("tile.neg", k.load(a, [0, 0, 0], [2, 3, 8], [2, 2, 5])), [0, 1, 3], o))
    want = out(2, 3, 8)
    want[:, 1:3, 3:8] = -x[:, :2, :5]
    np.testing.assert_array_equal(interpret(f, [x, out(2, 3, 8)]), want)


def test_caller_strides_do_not_matter():
    f = kernel(lambda k, x, o: k.store(k.load(x, [0, 0], [8, 16]), [0, 0], o), scalars=())
    wide = np.full((16, 40), -1, np.float32)
    view = wide[::2, 3:35:2]
    assert interpret(f, [np.asfortranarray(GRID), view]) is view
    np.testing.assert_array_equal(wide[::2, 3:35:2], GRID)
    assert (wide[1::2] == -1).all()


# -- windows of tiles and tensors --------------------------------------------------------------------------------------


def test_slices_of_tiles_keep_what_is_valid():
    def build(k, x, o, r, c):
        t = k.load(x, [0, 0], [8, 16], [r, 16])
        return k.store(k.op("tile.slice", t, [4, 8], [c, 4]), [0, 0], o)

    f = kernel(build)
    for r, c in [(8, 2), (5, 3), (3, 4), (0, 0)]:
        want = out(8, 16)
        rows = max(0, min(4, r - c))
        want[:rows, :8] = GRID[c : c + rows, 4:12]
        np.testing.assert_array_equal(interpret(f, [GRID, out(8, 16), r, c]), want)
    with pytest.raises(KernelBoundsError, match=r"tile.slice reads"):
        interpret(f, [GRID, out(8, 16), 8, 5])


def test_assembling_does_not_touch_the_tile_it_starts_from():
    def build(k, x, o):
        t = k.load(x, [0, 0], [8, 16])
        w = k.op("tile.slice", t, [2, 16], [0, 0])
        t2 = k.op("tile.assemble", t, k.op("tile.neg", w), [4, 0])
        t3 = k.op("tile.write", t2, [0, 0], expr(99.0))
        o = k.store(t3, [0, 0], o)
        return k.store(w, [6, 0], k.store(t, [8, 0], o))

    f = kernel(build, shape=(16, 16), scalars=())
    want = np.vstack([GRID, GRID])
    want[4:6] = -GRID[:2]
    want[0, 0] = 99
    want[6:8] = GRID[:2]
    np.testing.assert_array_equal(interpret(f, [GRID, out(16, 16)]), want)


def test_assembling_at_a_run_time_offset_is_checked():
    def build(k, x, o, r, c):
        t = k.load(x, [0, 0], [8, 16])
        return k.store(k.op("tile.assemble", t, k.op("tile.slice", t, [2, 4], [0, 0]), [r, c]), [0, 0], o)

    f = kernel(build)
    want = GRID.copy()
    want[6:8, 12:16] = GRID[:2, :4]
    np.testing.assert_array_equal(interpret(f, [GRID, out(8, 16), 6, 12]), want)
    with pytest.raises(KernelBoundsError, match=r"tile.assemble writes"):
        interpret(f, [GRID, out(8, 16), 7, 0])


def test_a_slice_in_device_code_holds_what_the_tensor_held_then():
    def build(k, x, o):
        w = k.op("tensor.slice", o, [2, 16], [0, 0])
        o2 = k.op("tensor.assemble", o, k.op("tensor.slice", x, [2, 16], [2, 0]), [0, 0])
        return k.op("tensor.assemble", o2, k.op("tensor.neg", w), [4, 0])

    f = kernel(build, scalars=(), direction=INOUT)
    got = interpret(f, [GRID, out(8, 16, fill=5)])
    assert (got[4:6] == -5).all()
    np.testing.assert_array_equal(got[:2], GRID[2:4])


def test_a_slice_in_orchestration_is_a_window_through_which_kernels_write():
    inner = kernel(lambda k, x, o: k.store(k.load(x, [0, 0], [2, 16]), [0, 0], o), shape=(2, 16), source=(2, 16), scalars=())
    m = Kernel("main", FunctionType.Orchestration)
    x, o = m.tensor("x", [8, 16], D.FP32), m.tensor("o", [8, 16], D.FP32, OUT)
    r = m.scalar("r", D.INDEX)
    m.invoke(inner, m.op("tensor.slice", x, [2, 16], [r, 0]), m.op("tensor.slice", o, [2, 16], [4, 0]))
    program = Program([inner, m.done(o)])
    got = interpret(program, [GRID, out(8, 16), 3])
    np.testing.assert_array_equal(got[4:6], GRID[3:5])
    assert (np.delete(got, [4, 5], 0) == -777).all()
    with pytest.raises(KernelBoundsError, match=r"tensor.slice reads"):
        interpret(program, [GRID, out(8, 16), 7])


def test_relabels():
    def build(k, x, o):
        t = k.load(x, [0, 0], [8, 16])
        o = k.store(k.op("tile.reshape", t, [4, 32]), [0, 0], o)
        half = k.op("tile.reinterpret_view", k.op("tile.reinterpret_view", t, dtype=D.INT32), dtype=D.FP32)
        return k.store(k.op("tile.reshape", half, [1, 128]), [4, 0], o)

    f = kernel(build, shape=(5, 128), scalars=())
    got = interpret(f, [GRID, out(5, 128)])
    np.testing.assert_array_equal(got[:4, :32], GRID.reshape(4, 32))
    np.testing.assert_array_equal(got[4], GRID.reshape(-1))


def test_a_window_that_is_not_contiguous_is_not_reshaped_in_orchestration():
    m = Kernel("main", FunctionType.Orchestration)
    x = m.tensor("x", [8, 16], D.FP32)
    w = m.op("tensor.slice", x, [8, 8], [0, 0])
    f = m.done(m.op("tensor.reshape", w, [64]))
    with pytest.raises(NotSupportedError, match="not contiguous"):
        interpret(f, [GRID])


def test_narrowing_and_widening_the_valid_rectangle_keeps_the_data():
    def build(k, x, o, r, c):
        t = k.op("tile.set_validshape", k.load(x, [0, 0], [8, 16]), r, c)
        o = k.store(t, [0, 0], o)
        return k.store(k.op("tile.set_validshape", t, 8, 16), [8, 0], o)

    f = kernel(build, shape=(16, 16))
    got = interpret(f, [GRID, out(16, 16), 3, 5])
    want = out(8, 16)
    want[:3, :5] = GRID[:3, :5]
    np.testing.assert_array_equal(got, np.vstack([want, GRID]))


def test_what_is_not_valid_is_poison():
    """Widening a tile's valid rectangle shows what memory held."""

    def build(k, x, o, r, c):
        part = k.load(x, [0, 0], [8, 16], [r, c])
        return k.store(k.op("tile.set_validshape", part, 8, 16), [0, 0], o)

    got = interpret(kernel(build), [GRID, out(8, 16), 3, 5])
    np.testing.assert_array_equal(got[:3, :5], GRID[:3, :5])
    got[:3, :5] = np.nan
    assert np.isnan(got).all()


def test_an_operand_is_valid_wherever_it_is_read():
    def build(k, x, o, r, c):
        whole, part = k.load(x, [0, 0], [8, 16]), k.load(x, [0, 0], [8, 16], [r, c])
        return k.store(k.op("tile.add", whole, part), [0, 0], o)

    np.testing.assert_array_equal(interpret(kernel(build), [GRID, out(8, 16), 8, 16]), 2 * GRID)
    for r, c in ((3, 16), (8, 5)):
        with pytest.raises(KernelBoundsError, match="elements of operand 1 along dimension"):
            interpret(kernel(build), [GRID, out(8, 16), r, c])


@pytest.mark.parametrize(
    ("dtype", "pad", "value"),
    [
        (D.FP32, PadValue.max, np.inf),
        (D.FP32, PadValue.min, -np.inf),
        (D.FP16, PadValue.zero, 0),
        (D.INT16, PadValue.max, 32767),
        (D.INT32, PadValue.min, -(2**31)),
        (D.UINT8, PadValue.max, 255),
        (D.UINT8, PadValue.min, 0),
        (D.BF16, PadValue.max, np.inf),
    ],
)
def test_padding(dtype, pad, value):
    f = kernel(
        lambda k, x, o, r, c: k.store(k.op("tile.fillpad", k.load(x, [0, 0], [8, 16], [r, c]), pad_value=pad), [0, 0], o),
        dtype=dtype,
    )
    x = (GRID % 50).astype(dtype.numpy())
    got = interpret(f, [x, np.full((8, 16), 77).astype(dtype.numpy()), 5, 7])
    want = np.full((8, 16), value).astype(dtype.numpy())
    want[:5, :7] = x[:5, :7]
    np.testing.assert_array_equal(got.astype(float), want.astype(float))


def test_moves_and_extracts_through_fractal_memories():
    def build(k, x, o):
        m = k.load(x, [0, 0], [32, 32], [20, 32], target_memory=MemorySpace.Mat)
        e = k.op("tile.extract", m, 16, 16, [16, 16], target_memory=MemorySpace.Left)
        v = k.op("tile.move", e, target_memory=MemorySpace.Vec)
        return k.store(v, [0, 0], o)

    x = np.arange(32 * 32, dtype=np.float32).reshape(32, 32).astype(np.float16)
    f = kernel(build, shape=(16, 16), source=(32, 32), dtype=D.FP16, scalars=())
    want = out(16, 16, dtype=np.float16)
    want[:4] = x[16:20, 16:]
    np.testing.assert_array_equal(interpret(f, [x, out(16, 16, dtype=np.float16)]), want)


# -- elements ----------------------------------------------------------------------------------------------------------


def test_elements_are_read_and_written():
    def build(k, x, o, r, c):
        t = k.load(x, [0, 0], [8, 16])
        v = k.op("tile.read", t, [r, c])
        w = k.op("tensor.read", x, [c, r])
        o = k.op("tensor.write", o, [0, 0], k.let(s.add(v, w)))
        return k.op("tensor.write", o, [r, c], v)

    f = kernel(build)
    got = interpret(f, [GRID, out(8, 16), 3, 5])
    assert got[0, 0] == GRID[3, 5] + GRID[5, 3]
    assert got[3, 5] == GRID[3, 5]
    for r, c in [(8, 0), (0, 16), (-1, 0)]:
        with pytest.raises(KernelBoundsError):
            interpret(f, [GRID, out(8, 16), r, c])


def test_dynamic_extents_are_those_of_the_arrays():
    n = Var("N", expr(0).type)
    k = Kernel("main", FunctionType.Orchestration)
    x = k.param(Var("x", TensorType([n, 16], D.FP32)))
    o = k.param(Var("o", TensorType([n, 16], D.FP32)), OUT)
    f = k.done(k.op("tensor.dim", x, expr(0)), k.let(s.mul(n, expr(2))), k.op("tensor.dim", x, expr(-1)), o)
    for rows in (0, 5):
        result = interpret(f, [out(rows, 16), out(rows, 16)])
        assert result[:3] == (rows, 2 * rows, 16)


def test_temporaries_start_undefined_or_with_their_value():
    m = Kernel("main", FunctionType.Orchestration)
    f = m.done(
        m.op("tensor.create", [2, 4], dtype=D.FP32),
        m.op("tensor.create", [3], dtype=D.INT32, init_value=7),
        m.op("tensor.full", [2], expr(1.0004882812509095, D.FP16), dtype=D.FP16),
    )
    undefined, sevens, once = interpret(f, [])
    assert np.isnan(undefined).all()
    assert sevens.tolist() == [7, 7, 7]
    assert once.tolist() == [1.0009765625] * 2


@pytest.mark.parametrize("name", ["row_sum", "row_max", "row_argmin", "col_min", "col_prod"])
def test_reductions_of_nothing_are_refused(name):
    def build(k, x, o, r, c):
        t = k.load(x, [0, 0], [8, 16], [r, c])
        tmp = [k.op("tile.create", [8, 16], dtype=D.FP32)] if name.startswith("row") else []
        made = k.op(f"tile.{name}", t, *tmp)
        return k.store(k.op("tile.cast", made, target_type=D.FP32) if "arg" in name else made, [0, 0], o)

    f = kernel(build)
    empty = (8, 0) if name.startswith("row") else (0, 16)
    with pytest.raises(KernelError, match=f"{name}: the valid region is empty"):
        interpret(f, [GRID, out(8, 16), *empty])
    # No row at all is no reduction of nothing.
    np.testing.assert_array_equal(interpret(f, [GRID, out(8, 16), *((0, 16) if empty[0] else (8, 0))]), out(8, 16))

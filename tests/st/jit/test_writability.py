"""An output that cannot be written is refused before anything runs; an input that cannot be written is welcome."""

import numpy as np
import pytest
from jit_kit import full, scaled

import pypto.language as pl


def of_three():
    @pl.jit
    def k(x: pl.Tensor, z: pl.InOut[pl.Tensor], y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, 2.0)
            z[:] = pl.add(z, 1.0)
        return z, y

    return k


def go(kernel, ro):
    a = {n: full(v) for n, v in (("x", 1), ("z", 10), ("y", 100))}
    a[ro].flags.writeable = False
    if ro != "x":
        with pytest.raises(ValueError, match=rf"'{ro}'.*read-only"):
            kernel(a["x"], a["z"], a["y"])
    else:
        kernel(a["x"], a["z"], a["y"])
    return [float(a[n][0, 0]) for n in "xzy"]


@pytest.mark.parametrize("order", ["xyzxy", "yzxyz"])
def test_cold_and_warm(launcher, order):
    kernel = of_three()
    for ro in order:
        assert go(kernel, ro) == ([1.0, 11.0, 2.0] if ro == "x" else [1.0, 10.0, 100.0]), ro
    assert len(kernel.kernels) == 1


def read_only_file(tmp_path):
    np.save(tmp_path / "a.npy", full(1.0))
    return np.load(tmp_path / "a.npy", mmap_mode="r")


READ_ONLY = {
    "bytes": lambda tmp_path: np.frombuffer(full(1.0).tobytes(), np.float32).reshape(64, 64),
    "file": read_only_file,
    "broadcast": lambda tmp_path: np.broadcast_to(full(1.0)[:1], (64, 64)),
    "view": lambda tmp_path: (lambda a: (a.setflags(write=False), a.reshape(64, 64))[1])(full(1.0, (4096,))),
    "memoryview": lambda tmp_path: memoryview(full(1.0)).toreadonly(),
}


@pytest.mark.parametrize("kind", READ_ONLY)
def test_kinds_of_read_only_memory(launcher, tmp_path, kind):
    kernel = scaled(2.0)
    y = READ_ONLY[kind](tmp_path)
    for _ in range(2):
        with pytest.raises(ValueError, match="'y'"):
            kernel(full(3.0), y)
        if kind != "broadcast":
            z = full(0.0)
            kernel(y, z)
            assert (z == 2).all()
    assert (np.asarray(y) == 1).all()


def test_a_file_opened_for_writing(launcher, tmp_path):
    np.save(tmp_path / "a.npy", full(1.0))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r+")
    scaled(2.0)(full(3.0), mapped)
    mapped.flush()
    assert (np.load(tmp_path / "a.npy") == 6).all()


def unmarked():
    @pl.jit
    def k(x: pl.Tensor, y: pl.Tensor):
        with pl.at(level=pl.Level.CORE_GROUP):
            y = pl.store(pl.mul(pl.load(x, [0, 0], [64, 64]), 2.0), [0, 0], y)
        return y

    return k


def test_a_parameter_that_is_written_without_saying_so(launcher):
    kernel, y = unmarked(), full(0.0)
    kernel(full(1.0), y)
    assert (y == 2).all()
    y.flags.writeable = False
    with pytest.raises(ValueError, match=r"'y'.*read-only"):
        kernel(full(5.0), y)
    assert (y == 2).all()


def test_an_output_over_the_memory_of_a_read_only_array(launcher):
    """What may be written is a property of the array that is passed."""
    base = full(1.0)
    shown = base.view()
    shown.flags.writeable = False
    kernel = scaled(2.0)
    kernel(full(3.0), base)
    assert (shown == 6).all()


def test_of_a_compiled_program(launcher):
    made = scaled(2.0).compile(full(1.0), full(1.0))
    y = full(0.0)
    y.flags.writeable = False
    with pytest.raises(ValueError, match=r"'y'.*read-only"):
        made(full(1.0), y)
    assert (y == 0).all()

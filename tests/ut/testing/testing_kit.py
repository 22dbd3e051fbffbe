"""Shared by the tests of the harness: kernels, cases of them, and what stands in for torch."""

import sys
from types import ModuleType

import ml_dtypes
import numpy as np

import pypto.language as pl
from pypto.testing import st


@pl.jit
def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.FP32 = 2.0):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 32])
        out = pl.store(pl.muls(t, n), [0, 0], out)
    return out


@pl.jit
def kept(x: pl.Tensor, keep: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
    """Writes the upper half of `keep`, and all of `out`."""
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 32])
        keep = pl.store(pl.adds(t, 1.0), [0, 0], keep)
        out = pl.store(pl.adds(t, 2.0), [0, 0], out)
    return keep, out


X = np.arange(512, dtype=np.float32).reshape(16, 32)
ZEROS = np.zeros_like(X)


def doubled(**options):
    """A case that passes."""
    return st.case(scaled, X, ZEROS, **{"name": "doubled", "golden": lambda t: t["x"] * 2, **options})


class Tensor:
    """The part of torch's tensors that the harness touches."""

    __module__ = "torch"
    requires_grad = False

    def __init__(self, base, name=None):
        self.base, self.dtype = base, f"torch.{name or base.dtype.name}"
        self.shape = base.shape

    def numpy(self):
        if self.base.dtype == ml_dtypes.bfloat16:
            raise TypeError("no such type")
        return self.base.view()  # memory that torch owns

    def view(self, name):
        return Tensor(self.base.view(ml_dtypes.bfloat16), name)

    def __mul__(self, factor):
        return Tensor(self.base * self.base.dtype.type(factor))


class Words:
    """What torch's devices and layouts are to those who only read them."""

    type = "cpu"

    def __str__(self):
        return "torch.strided"


def bf16_parts(tensor):
    """What `numpy()` cannot give is read at its address."""
    tensor.device, tensor.layout = Words(), Words()
    tensor.is_conj = tensor.is_neg = lambda: False
    tensor.stride = lambda: tuple(s // tensor.base.itemsize for s in tensor.base.strides)
    tensor.element_size, tensor.data_ptr = lambda: tensor.base.itemsize, lambda: tensor.base.ctypes.data
    return tensor


def torch_stand_in(monkeypatch):
    torch = ModuleType("torch")

    def randn(shape, dtype):
        return Tensor(np.full(shape, 0.5, dtype))

    torch.float32, torch.float16, torch.bfloat16 = np.float32, np.float16, "bfloat16"
    torch.randn, torch.from_numpy = randn, lambda a: bf16_parts(Tensor(a))
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch

"""What counts as an array: whatever can share its memory works in place; everything else is an error that names the argument."""

import array
import gc
import weakref

import ml_dtypes
import numpy as np
import pytest
from jit_kit import full, scaled, untouched

import pypto
import pypto.language as pl

# -- other libraries' arrays, reduced to what they offer --


class Interface:
    """`__array_interface__` and nothing else."""

    def __init__(self, base):
        self.base, self.__array_interface__ = base, base.__array_interface__


class DLPack:
    """DLPack and nothing else."""

    def __init__(self, base):
        self.base = base

    def __dlpack__(self, **kwargs):
        return self.base.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.base.__dlpack_device__()


class Words:
    """What torch's dtypes, devices and layouts are to those who only read them."""

    def __init__(self, text, **attributes):
        self.text = text
        self.__dict__.update(attributes)

    def __str__(self):
        return self.text


class Tensor:
    """The part of a torch tensor that is looked at; BF16 has no numpy form there either."""

    __module__ = "torch"

    def __init__(self, base, *, name=None, device="cpu", requires_grad=False):
        self.base, self.requires_grad, self.shape = base, requires_grad, base.shape
        self.dtype = Words("torch." + (name or {"uint16": "bfloat16"}.get(base.dtype.name, base.dtype.name)))
        self.device, self.layout = Words(device, type=device), Words("torch.strided")

    def numpy(self):
        if self.device.type != "cpu" or self.requires_grad:
            raise RuntimeError("not this one")
        if "bfloat16" in self.dtype.text:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.base.view(np.ndarray)[...]

    def is_conj(self):
        return False

    def is_neg(self):
        return False

    def stride(self):
        return tuple(s // self.base.itemsize for s in self.base.strides)

    def element_size(self):
        return self.base.itemsize

    def data_ptr(self):
        return self.base.__array_interface__["data"][0]


class Sub(np.ndarray):
    pass


KINDS = {
    "numpy": lambda a: a,
    "subclass": lambda a: a.view(Sub),
    "matrix": np.asmatrix,
    "memmap-like": lambda a: a.view(np.recarray) if a.dtype.fields else a,
    "memoryview": memoryview,
    "interface": Interface,
    "dlpack": DLPack,
    "torch": Tensor,
}
pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")


@pytest.mark.parametrize("kind", KINDS)
def test_written_in_place_and_handed_back_themselves(launcher, kind):
    kernel = scaled(2.0)
    for value in (1.0, 2.0):
        x, y = full(value), untouched()
        given = KINDS[kind](y)
        assert kernel(KINDS[kind](x), given) is given
        assert (y == 2 * value).all()
        assert (x == value).all()
    assert len(kernel.kernels) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_mix_with_each_other(launcher, kind):
    kernel, y = scaled(2.0), untouched()
    kernel(full(1.0), y)
    for x_kind in (kind, "numpy"):
        y = untouched()
        kernel(KINDS[x_kind](full(3.0)), KINDS[kind](y))
        assert (y == 6).all()


def one_axis():
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.add(x, x)
        return y

    return k


def test_arrays_of_the_standard_library(launcher):
    kernel = one_axis()
    x, y = array.array("f", [1.0] * 64), array.array("f", [0.0] * 64)
    for _ in range(2):
        assert kernel(x, y) is y
        assert y.tolist() == [2.0] * 64
    i, j = array.array("i", range(64)), array.array("i", [0] * 64)
    kernel(i, j)
    assert j.tolist() == [2 * v for v in range(64)]
    with pytest.raises(TypeError, match=r"'x' has dtype float64") as caught:
        kernel(array.array("d", [1.0] * 64), y)
    assert "astype" in str(caught.value)
    with pytest.raises(TypeError, match="'x'"):
        kernel("x" * 64, y)


def copying():
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y = pl.store(pl.load(x, [0, 0], [64, 64]), [0, 0], y)
        return y

    return k


DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_element_types(launcher, dtype):
    kernel = copying()
    x = np.arange(4096).reshape(64, 64).astype(dtype)
    for _ in range(2):
        y = np.zeros_like(x)
        kernel(x, y)
        assert y.tobytes() == x.tobytes()


def test_one_width_of_integers_is_one_kernel(launcher):
    """numpy has two types of 64 bits (and other systems two of 32), which print alike."""
    kernel = copying()
    for a, b in ((np.intc, np.int32), (np.dtype("l"), np.dtype("q"))):
        if np.dtype(a).itemsize == 8:
            continue  # tiles have no 64-bit elements
        for dtype in (a, b):
            x = np.arange(4096).reshape(64, 64).astype(dtype)
            y = np.zeros_like(x)
            kernel(x, y)
            assert (y == x).all()
    assert len(kernel.kernels) == 1


def widened(dtype):
    @pl.jit
    def k(x: pl.Tensor[[64, 64], dtype], y: pl.Out[pl.Tensor[[64, 64], dtype]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.cast(pl.mul(pl.cast(x, pl.FP32), 2.0), dtype)
        return y

    return k


def test_bf16_in_every_carrier(launcher):
    """ml_dtypes' own type, uint16 where BF16 is annotated, torch's tensors, DLPack."""
    kernel = widened(pl.BF16)
    x = np.arange(4096, dtype=np.float32).reshape(64, 64).astype(ml_dtypes.bfloat16)
    want = (x.astype(np.float32) * 2).astype(ml_dtypes.bfloat16)
    for kind in (lambda a: a, lambda a: a.view(np.uint16), lambda a: Tensor(a.view(np.uint16)), lambda a: DLPack16(a)):
        for _ in range(2):
            y = np.zeros_like(x)
            kernel(kind(x), kind(y))
            assert y.tobytes() == want.tobytes()
    assert len(kernel.kernels) == 1


class DLPack16:
    """BF16 by DLPack: numpy exports no such thing, so that its description of uint16 is amended."""

    def __init__(self, base):
        self.base = base.view(np.uint16)

    def __dlpack_device__(self):
        return self.base.__dlpack_device__()

    def __dlpack__(self, **kwargs):
        import ctypes

        from pypto.runtime import dlpack

        capsule = self.base.__dlpack__(max_version=(1, 0))
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        record = dlpack._Versioned.from_address(get(capsule, b"dltensor_versioned"))
        assert (record.tensor.code, record.tensor.bits) == (1, 16)
        record.tensor.code = 4
        return capsule


def test_a_bare_parameter_takes_the_carriers_own_type(launcher):
    """Without an annotation, uint16 is uint16."""
    made = copying().compile(np.zeros((64, 64), np.uint16), np.zeros((64, 64), np.uint16))
    assert [p.dtype for p in made.plan.params] == [pl.UINT16, pl.UINT16]


def hollow():
    """A tensor that has no elements in memory: numpy gives it memory that nobody else sees."""
    made = Tensor(full(0.0))
    made.numpy, made.data_ptr = untouched, lambda: 0
    return made


REFUSED = {
    "float64": (lambda: np.zeros((64, 64)), "float64", "astype('float32')"),
    "longdouble": (lambda: np.zeros((64, 64), np.longdouble), "longdouble|float128", "astype('float32')"),
    "complex": (lambda: np.zeros((64, 64), np.complex64), "complex64", "kernels take"),
    "object": (lambda: np.full((64, 64), None), "object", "kernels take"),
    "structured": (lambda: np.zeros((64, 64), [("a", np.float32)]), "V4", "kernels take"),
    "dates": (lambda: np.zeros((64, 64), "M8[s]"), "datetime64", "kernels take"),
    "text": (lambda: np.zeros((64, 64), "U4"), "str128", "kernels take"),
    "swapped": (lambda: np.zeros((64, 64), ">f4"), ">f4", "astype('float32')"),
    "swapped integers": (lambda: np.zeros((64, 64), ">i4"), ">i4", "astype('int32')"),
    "masked": (lambda: np.ma.zeros((64, 64), np.float32), "masked", "filled"),
    "list": (lambda: [[0.0] * 64] * 64, "expects a tensor|expects FP32", "numpy array"),
    "tuple": (lambda: ((0.0,) * 64,) * 64, "expects a tensor|expects FP32", "numpy array"),
    "number": (lambda: 1.0, "expects a tensor|expects FP32", "numpy array"),
    "numpy's number": (lambda: np.float32(1), "expects a tensor|expects FP32", "numpy array"),
    "none": (lambda: None, "expects a tensor|expects FP32", "numpy array"),
    "text itself": (lambda: "text", "expects a tensor|expects FP32", "numpy array"),
    "on a device": (lambda: Tensor(full(0.0), device="cuda"), "cuda", "cpu()"),
    "without memory": (lambda: Tensor(full(0.0), device="meta"), "meta", "cpu()"),
    "with memory made up": (hollow, "no elements in memory", "torch.zeros"),
}


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_no_kernel_takes(launcher, name, warm):
    make, words, hint = REFUSED[name]
    kernel = scaled(2.0)
    if warm:
        kernel(full(1.0), untouched())
    for position in "xy":
        given = {"x": full(1.0), "y": untouched()}
        given[position] = make()
        with pytest.raises(TypeError, match=f"'{position}'.*({words})") as caught:
            kernel(given["x"], given["y"])
        if not warm:
            # A converted copy of an output would be written in its place.
            converts = position == "y" and hint.startswith("astype")
            assert (hint.replace("astype('", "allocate 'y' as ").rstrip("')") if converts else hint) in str(caught.value)
            assert not (converts and "astype" in str(caught.value))
        if position == "x":
            assert (given["y"] == 77).all()


def test_an_array_without_axes(launcher):
    with pytest.raises(pypto.Error):
        scaled(2.0)(np.zeros((), np.float32), np.zeros((), np.float32))


N = pl.dynamic("N")


def of_rows():
    @pl.jit
    def rows(x: pl.Tensor[[N, 64], pl.FP32], y: pl.Out[pl.Tensor[[N, 64], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(0, N, 8):
                y[i : i + 8, :] = pl.mul(x[i : i + 8, :], 2.0)
        return y

    return rows


def test_arrays_of_no_elements(launcher):
    kernel = of_rows()
    for n in (0, 8, 0, 24):
        x, y = full(3.0, (n, 64)), untouched((n, 64))
        kernel(x, y)
        assert (y == 6).all()
    assert len(kernel.kernels) == 1
    odd = np.lib.stride_tricks.as_strided(full(1.0, (1, 64)), (0, 64), (7, 4))
    kernel(odd, untouched((0, 64)))
    with pytest.raises(pypto.Error, match=r"extent 0|positive"):
        scaled(2.0)(full(1.0, (0, 64)), untouched((0, 64)))


def test_a_shape_that_does_not_fit_the_annotation(launcher):
    kernel = widened(pl.FP16)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"'x' expects .*64.*got"):
            kernel(np.zeros((32, 64), np.float16), np.zeros((64, 64), np.float16))
        with pytest.raises(ValueError, match=r"'y' expects .*\[64, 64\].*got.*rank 1 instead of 2"):
            kernel(np.zeros((64, 64), np.float16), np.zeros((4096,), np.float16))
        with pytest.raises(TypeError, match=r"'x' expects .*(fp16|FP16).*got.*(fp32|FP32)"):
            kernel(full(1.0), np.zeros((64, 64), np.float16))
        kernel(np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float16))


def test_extents_that_disagree(launcher):
    kernel = of_rows()
    for _ in range(2):
        with pytest.raises(ValueError, match=r"'y'.*N is 16 on axis 0 but 8 on axis 0 of 'x'"):
            kernel(full(1.0, (8, 64)), untouched((16, 64)))
        kernel(full(1.0, (8, 64)), untouched((8, 64)))


def test_overlapping_arguments(launcher):
    """The same array for input and output where that is right; never two that overlap in part."""
    kernel = scaled(2.0)
    for _ in range(2):
        a = full(3.0)
        assert kernel(a, a) is a
        assert (a == 6).all()
        b = full(3.0, (65, 64))
        with pytest.raises(ValueError, match=r"'x' and 'y' overlap"):
            kernel(b[:-1], b[1:])
        assert (b == 3).all()
        kernel(b[:-1], b[:-1])
        assert (b[:-1] == 6).all()
        assert (b[-1] == 3).all()
        kernel(KINDS["interface"](a), KINDS["torch"](a))
        assert (a == 12).all()


def test_a_sample_without_memory():
    """torch's "meta" tensors say shape and dtype: enough to compile, and not to call."""
    kernel = scaled(2.0)
    meta = Tensor(full(0.0), device="meta")
    made = kernel.compile(meta, meta)
    assert made is kernel.compile(full(0.0), full(0.0))
    assert kernel.specialize(meta, meta).name == "k"
    half = Tensor(np.zeros((64, 64), np.uint16), device="meta")
    assert [p.dtype for p in copying().compile(half, half).plan.params] == [pl.BF16, pl.BF16]


def test_nothing_is_kept_alive(launcher):
    kernel = scaled(2.0)
    for kind in ("interface", "dlpack", "torch", "memoryview", "subclass"):
        x, y = full(1.0), untouched()
        base = y.view(Sub)
        died = weakref.ref(base)
        kernel(KINDS[kind](x), KINDS[kind](base))
        del base
        gc.collect()
        assert died() is None, kind

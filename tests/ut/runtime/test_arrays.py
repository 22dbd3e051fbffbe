"""Arrays of other libraries: the same bytes, kept alive, and what may not be written is read-only with a reason."""

import array
import ctypes
import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

from pypto.dtypes import DataType
from pypto.errors import ArgumentTypeError, ArgumentValueError
from pypto.runtime import arrays
from pypto.runtime.arrays import adapt, element_type, type_numbers, view


def address(a):
    return a.__array_interface__["data"][0]


# --- a tensor class with the surface of torch's ------------------------------------------------------------------


class Named:
    def __init__(self, text, **attributes):
        self.text = text
        self.__dict__.update(attributes)

    def __str__(self):
        return self.text


class Tensor:
    __module__ = "torch"

    def __init__(self, base, *, name=None, device="cpu", layout="torch.strided", requires_grad=False, conj=False, neg=False):
        self.base, self.requires_grad, self.conj, self.neg = base, requires_grad, conj, neg
        self.dtype = torch_dtype("torch." + (name or base.dtype.name))
        self.device = Named(device, type=device.partition(":")[0])
        self.layout = Named(layout)
        self.shape = base.shape

    def numpy(self):
        if self.device.type != "cpu" or self.requires_grad or self.conj or self.neg or "strided" not in str(self.layout):
            raise RuntimeError("not this one")
        if self.dtype.text in ("torch.bfloat16", "torch.float8_e5m2"):
            raise TypeError("no such type")
        return self.base[...]

    def is_conj(self):
        return self.conj

    def is_neg(self):
        return self.neg

    def stride(self):
        return tuple(s // self.base.itemsize for s in self.base.strides)

    def element_size(self):
        return self.base.itemsize

    def data_ptr(self):
        return address(self.base)


DTYPES = {}


def torch_dtype(text):
    return DTYPES.setdefault(text, Named(text))


Parameter = type("Parameter", (Tensor,), {"__module__": "elsewhere"})


@pytest.mark.parametrize("cls", [Tensor, Parameter])
def test_a_torch_tensor_is_seen_in_place(cls):
    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = view(cls(base[:, 1:3]))
    assert address(found.array) == address(base) + 4
    assert found.array.strides == (16, 4)
    assert found.read_only is None
    found.array[0, 0] = 99
    assert base[0, 1] == 99


@pytest.mark.parametrize(("name", "dtype"), [("bfloat16", ml_dtypes.bfloat16), ("float8_e5m2", ml_dtypes.float8_e5m2)])
def test_torch_types_that_numpy_lacks(name, dtype):
    base = np.arange(6, dtype=f"u{np.dtype(dtype).itemsize}").reshape(2, 3)
    found = view(Tensor(base, name=name))
    assert found.array.dtype == np.dtype(dtype)
    assert address(found.array) == address(base)
    assert found.array.tobytes() == base.tobytes()
    assert found.array.flags.writeable


def test_a_tensor_that_requires_a_gradient_may_be_read_only():
    base = np.ones(4, np.float32)
    found = view(Tensor(base, requires_grad=True))
    assert address(found.array) == address(base)
    assert not found.array.flags.writeable
    assert "gradient" in found.read_only


@pytest.mark.parametrize(
    ("how", "error", "word"),
    [
        ({"device": "cuda:0"}, ArgumentTypeError, "cuda:0"),
        ({"device": "meta"}, ArgumentTypeError, "meta"),
        ({"layout": "torch.sparse_coo"}, ArgumentTypeError, "sparse_coo"),
        ({"conj": True}, ArgumentValueError, "resolve_conj"),
        ({"neg": True}, ArgumentValueError, "resolve_neg"),
        ({"name": "qint8"}, ArgumentTypeError, "qint8"),
    ],
)
def test_tensors_out_of_reach_are_refused(how, error, word):
    tensor = Tensor(np.ones(4, np.float16), **how)
    with pytest.raises(error, match=word):
        view(tensor)
    assert adapt(tensor) is None


class Nothing(Tensor):
    """A tensor that stands for elements and has none: of zeros that were never written, say, or with its storage given up."""

    __module__ = "torch.elsewhere"

    def __init__(self, base, gives, address=0, **how):
        super().__init__(base, **how)
        self.gives, self.address = gives, address

    def numpy(self):
        return self.ask(self.gives)

    def data_ptr(self):
        return self.ask(self.address)

    @staticmethod
    def ask(what):
        if isinstance(what, Exception):
            raise what
        return what


@pytest.mark.parametrize("gives", [np.zeros(4, np.float32), RuntimeError("a ZeroTensor"), TypeError("no such type")])
@pytest.mark.parametrize("address", [0, RuntimeError("no storage")])
@pytest.mark.parametrize("how", [{}, {"name": "bfloat16"}, {"requires_grad": True}])
def test_tensors_without_elements_in_memory_are_refused(gives, address, how):
    """Not with numpy's own words, and no kernel writes into memory that numpy made up for one of them."""
    base = np.zeros(4, np.uint16 if how.get("name") else np.float32)
    tensor = Nothing(base, gives, address, **how)
    with pytest.raises(ArgumentTypeError, match="no elements in memory") as e:
        view(tensor)
    assert "torch.zeros" in e.value.hint
    assert adapt(tensor) is None
    if not address:  # there is nothing to have
        assert view(Nothing(base[:0], gives, **how)).array.shape == (0,)


def test_real_torch_agrees():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.float16, torch.int8, torch.int64, torch.bool, torch.bfloat16, torch.uint8):
        t = torch.zeros(4, 6, dtype=dtype)
        found = view(t[:, ::2])
        assert (address(found.array), found.array.shape) == (t.data_ptr(), (4, 3))
        assert found.array.strides == (6 * t.element_size(), 2 * t.element_size())
        assert element_type(found.array.dtype).to_string() == str(dtype).removeprefix("torch.").replace(
            "float16", "fp16"
        ).replace("bfp16", "bfloat16").replace("float32", "fp32")
    assert view(torch.zeros(2, requires_grad=True)).read_only is not None
    with pytest.raises(ArgumentTypeError):
        view(torch.zeros(2, device="meta"))
    with pytest.raises(ArgumentTypeError):
        view(torch.zeros(2, 2).to_sparse())
    with pytest.raises(ArgumentTypeError, match="no elements in memory"):
        view(torch._efficientzerotensor((2,)))


# --- DLPack -----------------------------------------------------------------------------------------------------


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


class Exporter:
    """An array library that speaks nothing but DLPack."""

    def __init__(self, base, code, bits, *, flags=0, version=1, device=1, lanes=1, dense=False, offset=0):
        self.base, self.device, self.version = base, device, version
        self.shape_ = (ctypes.c_int64 * base.ndim)(*base.shape)
        self.strides_ = (ctypes.c_int64 * base.ndim)(*(s // base.itemsize for s in base.strides))
        tensor = DLTensor(address(base) - offset, device, 0, base.ndim, code, bits, lanes, ctypes.addressof(self.shape_))
        tensor.strides = None if dense else ctypes.addressof(self.strides_)
        tensor.byte_offset = offset
        self.record = tensor if version is None else Versioned(version, 0, None, None, flags, tensor)
        self.name = b"dltensor" if version is None else b"dltensor_versioned"
        self.exports = 0

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, **kwargs):
        if self.version is None and kwargs:
            raise TypeError("an old exporter takes no keywords")
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self.exports += 1
        return new(ctypes.addressof(self.record), self.name, None)


BF16 = np.arange(12, dtype=np.uint16).reshape(3, 4)


@pytest.mark.parametrize("dense", [False, True])
def test_dlpack_bf16_is_seen_in_place(dense):
    found = view(Exporter(BF16, 4, 16, dense=dense, offset=2))
    assert found.array.dtype == np.dtype(ml_dtypes.bfloat16)
    assert (address(found.array), found.array.shape, found.array.strides) == (address(BF16), (3, 4), (8, 2))
    assert found.read_only is None
    assert found.array.flags.writeable


def test_dlpack_strides():
    found = view(Exporter(np.zeros((4, 6), np.float32)[::2, ::3], 2, 32))
    assert (found.array.shape, found.array.strides, found.array.dtype) == ((2, 2), (48, 12), np.dtype(np.float32))


@pytest.mark.parametrize(("how", "word"), [({"flags": 1}, "read-only"), ({"version": None}, "cannot say")])
def test_dlpack_exports_that_may_not_be_written(how, word):
    found = view(Exporter(np.zeros(4, np.int32), 0, 32, **how))
    assert word in found.read_only
    assert not found.array.flags.writeable


@pytest.mark.parametrize(
    ("how", "error", "word"),
    [
        ({"flags": 2}, ArgumentValueError, "copy"),
        ({"device": 2}, ArgumentTypeError, "device type 2"),
        ({"version": 2}, ArgumentTypeError, "version 2"),
        ({"lanes": 4}, ArgumentTypeError, "4 lanes"),
    ],
)
def test_dlpack_exports_that_cannot_be_shared(how, error, word):
    with pytest.raises(error, match=word):
        view(Exporter(np.zeros(4, np.int32), 0, 32, **how))


def test_dlpack_memory_outlives_its_exporter():
    exporter = Exporter(np.full(8, 7, np.float32), 2, 32)
    alive = weakref.ref(exporter)
    found = view(exporter).array
    del exporter
    gc.collect()
    assert alive() is not None
    assert (found == 7).all()
    del found
    gc.collect()
    assert alive() is None


# --- the other protocols ----------------------------------------------------------------------------------------


class Interface:
    def __init__(self, base, read_only=False):
        self.base = base
        self.__array_interface__ = {**base.__array_interface__, "data": (address(base), read_only)}


def test_array_interface():
    base = np.arange(6, dtype=np.int16).reshape(2, 3)
    found = view(Interface(base.T))
    assert (address(found.array), found.array.shape, found.array.strides) == (address(base), (3, 2), (2, 6))
    assert found.read_only is None
    assert "read-only" in view(Interface(base, True)).read_only


def test_array_interface_that_means_nothing():
    odd = Interface(np.zeros(3))
    odd.__array_interface__ = {"typestr": "<f8", "shape": "three", "version": 3, "data": (8, False)}
    with pytest.raises(ArgumentTypeError, match="array interface"):
        view(odd)


def test_memory_of_an_interface_outlives_its_object():
    base = np.full(100, 3.0)
    found = view(Interface(base)).array
    del base
    gc.collect()
    assert (found == 3).all()


@pytest.mark.parametrize("make", [bytearray, lambda b: memoryview(bytearray(b)), lambda b: array.array("B", b)])
def test_buffers_are_seen_in_place(make):
    buffer = make(b"\1\2\3\4")
    found = view(buffer)
    assert (found.array.dtype, found.array.tolist(), found.read_only) == (np.dtype(np.uint8), [1, 2, 3, 4], None)
    found.array[0] = 9
    assert buffer[0] == 9


def test_a_buffer_keeps_its_format():
    assert view(array.array("f", [1, 2])).array.dtype == np.dtype(np.float32)
    assert view(memoryview(bytearray(16)).cast("q")).array.dtype == np.dtype(np.int64)
    assert view((ctypes.c_float * 3)()).array.shape == (3,)


def test_bytes_are_read_only():
    assert "read-only" in view(b"abcd").read_only
    assert "read-only" in view(memoryview(bytearray(4)).toreadonly()).read_only


class Sub(np.ndarray):
    pass


def test_subclasses_lose_their_class_and_nothing_else():
    base = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = view(base.view(Sub)[:, ::2])
    assert type(found.array) is np.ndarray
    assert (address(found.array), found.array.strides) == (address(base), (12, 8))
    locked = base.view(Sub)
    locked.flags.writeable = False
    assert "read-only" in view(locked).read_only


def test_masked_arrays_are_refused():
    with pytest.raises(ArgumentTypeError, match="mask"):
        view(np.ma.masked_array(np.ones(3), [True, False, False]))


@pytest.mark.parametrize(
    "what", [3, 2.5, True, 1j, "text", None, [1.0], (1,), {}, np.float32(1), np.int64(1), np.bool_(True), object()]
)
def test_what_is_no_array(what):
    assert view(what) is None
    assert adapt(what) is None


def test_nothing_is_ever_copied(monkeypatch):
    base = np.zeros((2, 3), np.float32)
    for obj in (
        base.view(Sub),
        Tensor(base),
        Tensor(base, requires_grad=True),
        Interface(base),
        memoryview(base),
        Exporter(base, 2, 32),
    ):
        assert np.shares_memory(view(obj).array, base), type(obj)


# --- element types ----------------------------------------------------------------------------------------------


def test_element_types():
    assert (
        element_type(np.dtype(np.longlong))
        is element_type(np.dtype("long"))
        is element_type(np.dtype(np.int64))
        is DataType.INT64
    )
    assert element_type(np.dtype(ml_dtypes.bfloat16)) is DataType.BF16
    assert element_type(np.dtype(np.bool_)) is DataType.BOOL
    for none in (">f4", ">i8", "f8", "c8", "V2", "U3", "M8[s]"):
        assert element_type(np.dtype(none)) is None


def test_type_numbers_cover_every_spelling_of_a_width():
    assert set(type_numbers(DataType.INT64)) == {np.dtype(t).num for t in ("l", "q")}
    assert type_numbers(DataType.INDEX) == type_numbers(DataType.INT64)
    assert type_numbers(DataType.FP32) == (np.dtype("f").num,)
    assert type_numbers(DataType.BF16) == (np.dtype(ml_dtypes.bfloat16).num, np.dtype("H").num)


def test_adapters_are_found_once_per_type():
    arrays._adapter.cache_clear()
    for _ in range(3):
        view(bytearray(2))
    assert arrays._adapter.cache_info()[:2] == (2, 1)

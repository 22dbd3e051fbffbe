"""Tensors whose library describes them by DLPack's C functions: a stand-in for torch's, without torch."""

import ctypes

import numpy as np
import pytest
from launcher_kit import COUNT, INT64, Interface, Slow, f32, tensor

from pypto.runtime.dlpack import _Tensor, loaded_dtypes
from pypto.runtime.launch import Kernel
from pypto.runtime.plan import HEAVY_BYTES, MISSING

HOST, GPU, FLOAT, INTEGER = 1, 2, 2, 0


class Tensor(Interface):
    """float32 in memory of its own.  `change` edits the description; numpy() is what is asked where that is of no use."""

    def __init__(self, base, change=None, requires_grad=False, neg=False):
        super().__init__(base)
        self.change, self.grad, self.neg, self.asked = change, requires_grad, neg, 0
        self.shape = (ctypes.c_int64 * base.ndim)(*base.shape)
        self.strides = (ctypes.c_int64 * base.ndim)(*(s // base.itemsize for s in base.strides))

    @property
    def requires_grad(self):
        if isinstance(self.grad, BaseException):
            raise self.grad
        return self.grad

    def is_neg(self):
        return self.neg

    def numpy(self):
        self.asked += 1
        return np.asarray(self.base)


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Tensor))
def describe(t, into):
    address, code, bits = (
        t.base.__array_interface__["data"][0],
        FLOAT if t.base.dtype.kind == "f" else INTEGER,
        8 * t.base.itemsize,
    )
    into[0] = _Tensor(address, HOST, 0, t.base.ndim, code, bits, 1, t.shape, t.strides, 0)
    if t.change == "fails":
        return -1
    if t.change is not None:
        t.change(into[0])
    return 0


class Table(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("others", ctypes.c_void_p * 4),
        ("describe", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    )


def exchange(major=1, name=b"dlpack_exchange_api", function=describe):
    table = Table(major, 3, (ctypes.c_void_p * 4)(), ctypes.cast(function, ctypes.c_void_p))
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    capsule = new(("PyCapsule_New", ctypes.pythonapi))(ctypes.addressof(table), name, None)
    return table, (capsule, tuple((*key, dtype) for key, dtype in loaded_dtypes().items()))


@pytest.fixture
def module(native_module):
    table, given = exchange()
    native_module.configure(context_var=None, direct=Tensor, exchange=given)
    yield native_module
    native_module.configure(direct=None, exchange=None)
    assert table.major == 1


@pytest.fixture
def entry(module, kernels):
    address = ctypes.cast(kernels.count, ctypes.c_void_p).value
    return lambda plan=COUNT, **rest: module.Entry(plan, address, Kernel(plan, kernels), **rest)


@pytest.fixture
def made(module, entry):
    def make(plan=COUNT, **rest):
        d = module.Dispatcher(Slow(), ("x", "n", "y"), (MISSING,) * 3)
        d.add(entry(plan, **rest))
        return d

    return make


def test_tensors_are_written_in_place_without_an_array_of_them(made):
    d, x, y = made(), Tensor(f32(4, 8)), Tensor(f32(4, 8))
    assert d(x, 1, y) is y
    assert y.base[0, 0] == 1
    assert d(f32(4, 8), 2, y=y) is y
    assert y.base[0, 0] == 2
    assert x.asked == y.asked == 0
    assert d(y, 3, y) == "slow"
    whole = f32(5, 8)
    assert d(Tensor(whole[1:]), 3, Tensor(whole[:4])) == "slow"
    assert not whole.any()


def test_a_view_is_checked_as_an_array_is(made):
    d, y = made(), f32(4, 8)
    odd = np.zeros(4 * 8 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(4, 8)
    for x in (f32(4, 7), f32(8, 4).T, f32(4, 16)[:, ::2], f32(4, 8, 1), np.zeros((4, 8)), np.zeros((4, 8), np.int32), odd):
        assert d(Tensor(x), 1, y) == "slow"
    assert not y.any()
    assert d(Tensor(f32(4, 8), lambda t: setattr(t, "strides", None)), 1, y) is y
    dense = made(COUNT._replace(params=(tensor("x", (1, 8)), *COUNT.params[1:])))
    assert dense(Tensor(f32(3, 8)[1:2]), 2, y) is y
    wide = Tensor(f32(2, 8)[1:])
    wide.strides[0] = 77  # of the only row
    assert dense(wide, 3, y) is y
    assert y[0, 0] == 3
    whole = made(COUNT._replace(params=(tensor("x", (4, 8), dtype=INT64), *COUNT.params[1:])))
    assert whole(Tensor(np.zeros((4, 8), np.int64)), 4, y) is y


@pytest.mark.parametrize(
    "change",
    [
        "fails",
        lambda t: setattr(t, "device_type", GPU),
        lambda t: setattr(t, "data", None),
        lambda t: setattr(t, "lanes", 2),
        lambda t: setattr(t, "code", 99),
    ],
)
def test_what_the_description_does_not_serve_is_asked_for_an_array(made, change):
    d, x, y = made(), Tensor(f32(4, 8), change), Tensor(f32(4, 8))
    assert d(x, 1, y) is y
    assert y.base[0, 0] == 1
    assert (x.asked, y.asked) == (1, 1)
    assert d(y, 1, Tensor(y.base)) == "slow"


def test_gradients_and_negatives_are_asked_for_an_array(made):
    d, y = made(), f32(4, 8)
    for x in (Tensor(f32(4, 8), requires_grad=True), Tensor(f32(4, 8), neg=True), Tensor(f32(4, 8), requires_grad=ValueError())):
        assert d(x, 1, y) is y
        assert x.asked == 1
    with pytest.raises(KeyboardInterrupt):
        d(Tensor(f32(4, 8), requires_grad=KeyboardInterrupt()), 1, y)


def test_guards_that_are_python_code_get_arrays(made):
    """Such a guard may move what a view would show."""
    d, x, y = made(guards=(("call", lambda: True),)), Tensor(f32(4, 8)), f32(4, 8)
    assert d(x, 1, y) is y
    assert x.asked == 1


def test_many_shapes_are_found_by_their_views(made, entry):
    d, y = made(), Tensor(f32(4, 8))
    for n in range(40):
        d.add(entry(COUNT._replace(params=(tensor("x", (n + 1, 3)), *COUNT.params[1:]))))
    for n in range(40):
        assert d(Tensor(f32(n + 1, 3)), 1, y) is y
        assert y.base[0, 0] == n + 1
    assert d(Tensor(f32(41, 3)), 1, y) == "slow"
    assert y.asked == 0


def test_calls_beside_which_other_threads_run_hold_arrays(made):
    heavy = made(COUNT._replace(work=HEAVY_BYTES))
    x, y = Tensor(f32(4, 8)), Tensor(f32(4, 8))
    assert heavy(x, 1, y) is y
    assert y.base[0, 0] == 1
    assert (x.asked, y.asked) == (1, 1)
    assert heavy(Tensor(f32(4, 8)), 1, y.base) is y.base
    assert heavy(y, 1, y) == "slow"


@pytest.mark.parametrize("other", [{"major": 2}, {"name": b"something"}, {"function": None}])
def test_a_table_of_another_kind_is_left_alone(module, made, other):
    d, x, y = made(), Tensor(f32(4, 8)), f32(4, 8)
    kept, given = exchange(**other)
    module.configure(exchange=given)
    assert d(x, 1, y) is y
    assert x.asked == 1
    assert kept is not None
    with pytest.raises(TypeError, match="exchange"):
        module.configure(exchange=3)

"""Binding, and which arrays fit: the same for the C launcher and for ctypes."""

import ml_dtypes
import numpy as np
import pytest
from launcher_kit import AFFINE, COUNT, INT64, Interface, Slow, Sub, f32, tensor

from pypto.dtypes import DataType
from pypto.runtime.plan import MISSING, KernelPlan


@pytest.mark.parametrize(
    ("args", "kwargs", "want"),
    [
        ("xsny", {}, 25),
        ("xsn", {"y": "y"}, 25),
        ("", {"y": "y", "n": "n", "s": "s", "x": "x"}, 25),
        ("x", {"y": "y"}, 3),
        ("x", {"y": "y", "n": "n"}, 8),
        ("xs", {"y": "y"}, 20 - 0.0),
    ],
)
def test_arguments_bind_like_pythons(affine, args, kwargs, want):
    values = {"x": f32(5, fill=3), "s": 20 / 3, "n": 5, "y": f32(5)}
    got = affine.call(*[values[a] for a in args], **{k: values[v] for k, v in kwargs.items()})
    assert got is values["y"]
    assert np.allclose(got, want)
    assert not affine.slow.calls


def test_a_keyword_need_not_be_the_same_object(affine):
    y = f32(5)
    assert affine.call(f32(5), **{"".join(["y"]): y, "".join(list("s")): 2.0}) is y
    assert not affine.slow.calls


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        ((1,), {}),
        ((1, 2, 3, 4, 5), {}),
        ((1,), {"x": 1, "y": 2}),
        ((1,), {"y": 2, "z": 3}),
        ((1,), {"config": None, "y": 2}),
    ],
)
def test_what_python_would_refuse_reaches_the_slow_path_unchanged(affine, args, kwargs):
    x = f32(3)
    args, kwargs = tuple(x if a == 1 else a for a in args), {k: x for k in kwargs}
    assert affine.call(*args, **kwargs) == "slow"
    ((got_args, got_kwargs),) = affine.slow.calls
    assert all(g is a for g, a in zip(got_args, args, strict=True))
    assert list(got_kwargs) == list(kwargs)
    assert all(got_kwargs[k] is kwargs[k] for k in kwargs)


def test_keywords_of_any_kind_reach_the_slow_path(affine):
    many = {f"k{i}": i for i in range(100)}
    assert affine.call(**many) == "slow"
    assert affine.slow.calls.pop() == ((), many)
    mine = {"z": 1}
    assert type(affine.call).__call__(affine.call, **mine) == "slow"
    affine.slow.calls.pop()[1]["z"] = 2
    assert mine == {"z": 1}


def test_positional_only_and_keyword_only(backend, entry):
    slow = Slow()
    d = backend.Dispatcher(slow, ("x", "s", "n", "y"), (MISSING, 1.0, 0, MISSING), positional_only=1, keyword_only=2)
    d.add(entry(AFFINE, "affine"))
    x, y = f32(3, fill=1), f32(3)
    assert d(x, 2.0, n=3, y=y) is y
    assert y[0] == 5
    assert d(x, y=y, s=4.0) is y
    assert d(x, 2.0, 3, y) == "slow"
    assert d(x=x, y=y) == "slow"
    assert len(slow.calls) == 2


def test_without_entries_everything_is_slow(backend):
    slow = Slow()
    d = backend.Dispatcher(slow, ("x",), (MISSING,))
    assert len(d) == 0
    assert d(1, 2, z=3) == "slow"
    assert slow.calls == [((1, 2), {"z": 3})]


@pytest.mark.parametrize("bad", [(("x",), ()), (("x",), (1,), 2), (("x",), (1,), 0, 2), (("x",), (1,), -1)])
def test_a_dispatcher_whose_parts_disagree(backend, bad):
    with pytest.raises(ValueError, match="agree"):
        backend.Dispatcher(print, *bad)


def test_exceptions_of_the_slow_path_pass(backend):
    def slow(args, kwargs):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        backend.Dispatcher(slow, (), ())()


# --- arguments -----------------------------------------------------------------------------------------------------


@pytest.fixture
def counted(backend, entry):
    """A dispatcher over one kernel that adds 1 to y[0]; did it run, or was it the slow path?"""
    slow = Slow()
    d = backend.Dispatcher(slow, ("x", "n", "y"), (MISSING,) * 3)
    d.add(entry(COUNT, "count"))

    def ran(x, y, n=1):
        before = len(slow.calls)
        result = d(x, n, y)
        assert (result is y) == (len(slow.calls) == before)
        return result is y

    return ran


BASE = np.zeros((8, 16), np.float32)
RAW = np.zeros(4096, np.uint8)


def locked(a):
    a.flags.writeable = False
    return a


@pytest.mark.parametrize(
    ("x", "y", "fits"),
    [
        (f32(4, 8), f32(4, 8), True),
        (locked(f32(4, 8)), f32(4, 8), True),
        (f32(4, 9), f32(4, 8), False),
        (f32(4, 8, 1), f32(4, 8), False),
        (f32(32), f32(4, 8), False),
        (f32(4, 8).astype(np.float64), f32(4, 8), False),
        (f32(4, 8).view(np.int32), f32(4, 8), False),
        (f32(4, 8).astype(">f4"), f32(4, 8), False),
        (f32(4, 8).view(f32(1).dtype.newbyteorder()), f32(4, 8), False),
        (f32(8, 4).T, f32(4, 8), False),
        (BASE[:4, ::2], f32(4, 8), False),
        (f32(4, 8), BASE[:4, ::2], False),
        (f32(4, 8)[::-1], f32(4, 8), False),
        (np.broadcast_to(np.float32(0), (4, 8)), f32(4, 8), False),
        (RAW[1:129].view(np.float32).reshape(4, 8), f32(4, 8), False),
        (f32(4, 8), locked(f32(4, 8)), False),
        (BASE[:2].reshape(4, 8), BASE[:2].reshape(4, 8), False),
        (BASE[:2].reshape(4, 8), BASE[1:3].reshape(4, 8), False),
        (BASE[1:3].reshape(4, 8), BASE[:2].reshape(4, 8), False),
        (BASE[:2].reshape(4, 8), BASE[2:4].reshape(4, 8), True),
        (3.0, f32(4, 8), False),
        (None, f32(4, 8), False),
        (np.float32(1), f32(4, 8), False),
        ([[0.0] * 8] * 4, f32(4, 8), False),
    ],
)
def test_arrays_fit_or_go_the_slow_way(counted, x, y, fits):
    first = y.flat[0]
    assert counted(x, y) is fits
    assert y.flat[0] == first + fits


@pytest.mark.parametrize("wrap", [lambda a: a.view(Sub), Interface, memoryview])
def test_other_arrays_are_written_in_place_and_handed_back_themselves(counted, wrap):
    base = f32(4, 8)
    assert counted(wrap(f32(4, 8)), wrap(base))
    assert base[0, 0] == 1
    # Overlap is seen through them, too.
    assert not counted(wrap(base), base)
    assert base[0, 0] == 1


def test_torch_tensors_are_written_in_place(counted):
    torch = pytest.importorskip("torch")
    x, y = torch.zeros(4, 8), torch.zeros(4, 8)
    assert counted(x, y)
    assert y[0, 0].item() == 1
    assert not counted(x, torch.zeros(8, 4).t())
    assert not counted(x, torch.zeros(4, 8, requires_grad=True))
    assert not counted(x, torch.zeros(4, 8, device="meta"))
    assert not counted(y, y)
    assert counted(torch.zeros(4, 8, requires_grad=True), y)
    assert y[0, 0].item() == 2


class Own(Interface):
    """An array with a method that gives numpy's array over it, or raises."""

    raises, asked = None, 0

    def numpy(self):
        Own.asked += 1
        if Own.raises is not None:
            raise Own.raises
        return np.asarray(self)


def test_the_direct_class_is_asked_first_and_what_it_refuses_goes_the_usual_way(counted, native_module, monkeypatch):
    monkeypatch.setattr(Own, "asked", 0)
    native_module.configure(direct=Own)
    try:
        y = f32(4, 8)
        for raises, fits in ((None, True), (RuntimeError("has a gradient"), True)):
            monkeypatch.setattr(Own, "raises", raises)
            assert counted(Own(f32(4, 8)), Own(y)) is fits
        monkeypatch.setattr(Own, "raises", KeyboardInterrupt())
        if Own.asked:
            with pytest.raises(KeyboardInterrupt):
                counted(Own(f32(4, 8)), Own(y))
    finally:
        native_module.configure(direct=None)
    assert y[0, 0] == 2
    assert Own.asked in (0, 5)  # ctypes asks nobody


class Hollow:
    """What has no memory of its own, and whose array therefore has memory that nobody else sees."""

    def numpy(self):
        return f32(4, 8)


def test_memory_that_was_made_up_is_not_written(counted, native_module):
    native_module.configure(direct=Hollow)
    try:
        assert not counted(f32(4, 8), Hollow())
        assert not counted(Hollow(), f32(4, 8))
    finally:
        native_module.configure(direct=None)


def test_foreign_read_only_memory_is_not_written(counted):
    assert not counted(f32(4, 8), memoryview(f32(4, 8)).toreadonly())


class Trouble:
    @property
    def __array_interface__(self):
        raise KeyboardInterrupt


def test_what_adapting_raises_passes(counted):
    with pytest.raises(KeyboardInterrupt):
        counted(Trouble(), f32(4, 8))


@pytest.mark.parametrize("n", [0, 1, 5])
def test_symbols_and_empty_arrays(affine, n):
    x, y = f32(n, fill=2), f32(n)
    assert affine.call(x, 3.0, 1, y) is y
    assert (y == 7).all()
    assert affine.call(x, 3.0, 1, f32(n + 1)) == "slow"
    assert len(affine.slow.calls) == 1


def test_empty_arrays_never_overlap(backend, entry):
    slow = Slow()
    d = backend.Dispatcher(slow, ("x", "n", "y"), (MISSING,) * 3)
    d.add(entry(COUNT._replace(params=(tensor("x", (0, 8)), COUNT.params[1], COUNT.params[2])), "count"))
    y = f32(4, 8)
    x = np.lib.stride_tricks.as_strided(y[1:], (0, 8), (-5, 12))
    assert d(x, 1, y) is y


def test_exact_aliases_of_a_listed_pair(affine):
    x = f32(5, fill=3)
    assert affine.call(x, 2.0, 0, x) is x
    assert (x == 6).all()
    assert affine.call(x, 2.0, 0, x[:]) is not None
    assert (x == 12).all()
    both = f32(9)
    assert affine.call(both[:5], 2.0, 0, both[4:]) == "slow"


def test_aliases_need_one_shape(backend, entry):
    slow = Slow()
    p = KernelPlan("k", (tensor("x", (-1, -2)), tensor("y", (-2, -1), "out")), ("N", "M"), ((0, 1),))
    d = backend.Dispatcher(slow, ("x", "y"), (MISSING,) * 2)
    d.add(entry(p, "count"))
    a = f32(2, 3)
    assert d(a, a.reshape(3, 2)) == "slow"
    square = f32(2, 2)
    assert d(square, square) is None
    assert len(slow.calls) == 1


def test_two_outputs_are_never_the_same(backend, entry):
    slow = Slow()
    p = KernelPlan("k", (tensor("a", (4,), "out"), tensor("b", (4,), "inout")), (), ((0, 1),))
    d = backend.Dispatcher(slow, ("a", "b"), (MISSING,) * 2)
    d.add(entry(p, "count"))
    a = f32(8)
    assert d(a[:4], a[:4]) == "slow"
    assert d(a[:4], a[3:7]) == "slow"
    assert d(a[:4], a[4:]) is None


def test_integer_types_of_one_width_and_bf16_carriers(backend, entry):
    for dtype, yes, no in (
        (INT64, (np.int64, np.longlong), (np.uint64, np.int32, np.float64)),
        (DataType.BF16, (ml_dtypes.bfloat16, np.uint16), (np.int16, np.float16)),
        (DataType.BOOL, (np.bool_,), (np.uint8, np.int8)),
    ):
        slow = Slow()
        d = backend.Dispatcher(slow, ("x", "n", "y"), (MISSING,) * 3)
        d.add(entry(COUNT._replace(params=(tensor("x", (2,), dtype=dtype), *COUNT.params[1:])), "count"))
        y = f32(4, 8)
        assert all(d(np.zeros(2, t), 1, y) is y for t in yes)
        assert all(d(np.zeros(2, t), 1, y) == "slow" for t in no)
        assert y[0, 0] == len(yes)

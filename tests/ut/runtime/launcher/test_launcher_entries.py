"""Which entry is used: guards, context, many entries; the same for the C launcher and for ctypes."""

import contextvars
import sys
import threading
from types import CellType

import numpy as np
import pytest
from launcher_kit import AFFINE, COUNT, INT64, Slow, Sub, f32, tensor

from pypto.dtypes import DataType
from pypto.runtime.plan import MISSING, KernelPlan


@pytest.fixture
def guarded(backend, entry):
    """Makes a function that says whether an entry with these guards was used."""

    def make(*guards, **rest):
        d = backend.Dispatcher(Slow(), ("x", "n", "y"), (MISSING,) * 3)
        d.add(entry(COUNT, "count", guards=guards, **rest))
        x, y = f32(4, 8), f32(4, 8)
        return lambda: d(x, 1, y) is y

    return make


def test_global_guards_compare_the_object(guarded):
    one, other = float("1.5"), float("1.5")
    names = {"A": one, "B": 2}
    used = guarded(("global", names, "A", one), ("global", names, "absent", MISSING))
    assert used()
    assert used()
    names["A"] = other
    assert not used()
    names["A"] = one
    assert used()
    names["unrelated"] = 1
    assert used()
    names["absent"] = 1
    assert not used()
    del names["absent"], names["A"]
    assert not used()
    names.update(A=one)
    assert used()
    names.clear()
    assert not used()
    names |= {"A": one}
    assert used()


def test_a_global_rebound_by_the_running_code_is_seen(guarded):
    space = {}
    exec("SCALE = 2.0\ndef rebind(v):\n    global SCALE\n    SCALE = v\n", space)
    old, used = space["SCALE"], guarded(("global", space, "SCALE", space["SCALE"]))
    for _ in range(50):  # long enough for the interpreter to specialize the store
        assert used()
        space["rebind"](3.0)
        assert not used()
        space["rebind"](old)
    module = type(sys)("m")
    module.X = old
    used = guarded(("global", vars(module), "X", old))
    for _ in range(50):
        assert used()
        module.X = 5
        assert not used()
        module.X = old


def test_cell_guards(guarded):
    value = object()
    cell, empty = CellType(value), CellType()
    used = guarded(("cell", cell, value), ("cell", empty, MISSING))
    assert used()
    cell.cell_contents = object()
    assert not used()
    cell.cell_contents = value
    assert used()
    empty.cell_contents = 1
    assert not used()
    del empty.cell_contents, cell.cell_contents
    assert not used()


def test_called_guards(guarded):
    answers = [True, 1, False, None, []]
    used = guarded(("call", lambda: answers.pop(0)))
    assert [used() for _ in range(5)] == [True, True, False, False, False]
    with pytest.raises(IndexError):
        used()


def test_a_guard_may_move_an_array(backend, entry):
    y = f32(4, 8)

    def grow():
        y.resize((4, 4096), refcheck=False)
        return True

    slow = Slow()
    d = backend.Dispatcher(slow, ("x", "n", "y"), (MISSING,) * 3)
    d.add(entry(COUNT, "count", guards=(("call", grow),)))
    assert d(f32(4, 8), 1, y) == "slow"
    assert not y.any()


def test_a_guard_may_change_the_dispatcher(backend, entry):
    d = backend.Dispatcher(Slow(), ("x", "n", "y"), (MISSING,) * 3)
    y = f32(4, 8)

    def clear():
        d.clear()
        return False

    for _ in range(3):
        d.add(entry(COUNT, "count"))
    for _ in range(12):
        d.add(entry(COUNT, "count", guards=(("call", clear),)))
    result = d(f32(4, 8), 1, y)
    assert result is y or isinstance(result, str)
    assert len(d) == 0
    assert d(f32(4, 8), 1, y) == "slow"


@pytest.mark.parametrize("bad", [("global", {}, "x"), ("cell", 3, 3), ("call", 3), ("other",), (), "call", ("global", 3, "x", 1)])
def test_what_is_no_guard(entry, bad):
    with pytest.raises(TypeError, match="guard"):
        entry(COUNT, "count", guards=(bad,))


def test_context_tokens(backend, entry):
    var = contextvars.ContextVar("context")
    backend.configure(context_var=var)
    slow, token = Slow(), object()
    d = backend.Dispatcher(slow, ("x", "n", "y"), (MISSING,) * 3)
    d.add(entry(COUNT, "count"))
    d.add(entry(COUNT._replace(returns=None), "count", context_token=token))
    x, y = f32(4, 8), f32(4, 8)
    assert d(x, 1, y) is y
    before = var.set(token)
    assert d(x, 1, y) is None
    var.set(object())
    assert d(x, 1, y) == "slow"
    var.reset(before)
    assert d(x, 1, y) is y
    seen = []
    thread = threading.Thread(target=lambda: seen.append(d(x, 1, y)))
    var.set(token)
    thread.start()
    thread.join()
    assert seen[0] is y
    backend.configure(context_var=None)


# --- many entries --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shapes", [1, 8, 9, 200])
def test_many_shapes(backend, entry, shapes):
    slow = Slow()
    d = backend.Dispatcher(slow, ("x", "n", "y"), (MISSING,) * 3)
    params = COUNT.params
    for n in range(shapes):
        p = COUNT._replace(
            params=(tensor("x", (n, 3)), params[1], tensor("y", (n + 1, 3), "out")), returns=(0,) if n % 2 else (2,)
        )
        d.add(entry(p, "count"))
    assert len(d) == shapes
    for n in (*range(shapes), *reversed(range(shapes))):
        x, y = f32(n, 3), f32(n + 1, 3)
        assert d(x, 1, y) is (x if n % 2 else y)
        assert y[0, 0] == 1
        z = x.view(Sub)
        assert d(z, np.int64(2), y) is (z if n % 2 else y)
        assert y[0, 0] == 2
    assert d(f32(shapes, 3), 1, f32(shapes + 1, 3)) == "slow"
    assert d(f32(shapes - 1, 3), 1, f32(shapes + 1, 3)) == "slow"
    d.clear()
    assert len(d) == 0
    assert d(f32(0, 3), 1, f32(1, 3)) == "slow"


def test_entries_of_one_shape_beside_entries_of_any(backend, entry):
    """Twelve entries of one shape that differ in a global, ten of varying shape, thirty of others."""
    names = {"K": 0}
    d = backend.Dispatcher(Slow(), ("x", "n", "y"), (MISSING,) * 3)
    ran = []
    values = [object() for _ in range(12)]

    def plan(x, y, key):
        return COUNT._replace(
            name=str(key), params=(x, COUNT.params[1], y), returns=None, symbols=("N",) if x.dims[0] < 0 else ()
        )

    for i, value in enumerate(values):
        note = ("call", lambda i=i: ran.append(i) is None)
        d.add(entry(plan(tensor("x", (4,)), tensor("y", (4,), "out"), i), "count", guards=(("global", names, "K", value), note)))
    for i, dtype in enumerate((DataType.INT8, DataType.INT16, DataType.INT32, INT64, DataType.FP16)):
        note = ("call", lambda i=i: ran.append(100 + i) is None)
        d.add(entry(plan(tensor("x", (-1,), dtype=dtype), tensor("y", (-1,), "out"), 100 + i), "count", guards=(note,)))
    for n in range(10, 40):
        note = ("call", lambda n=n: ran.append(n) is None)
        d.add(entry(plan(tensor("x", (n,)), tensor("y", (n,), "out"), n), "count", guards=(note,)))
    assert len(d) == 47
    for i in (*range(12), *reversed(range(12))):
        names["K"] = values[i]
        assert d(f32(4), 1, f32(4)) is None
        assert ran.pop() == i
    for i, dtype in enumerate((np.int8, np.int16, np.int32, np.int64, np.float16)):
        assert d(np.zeros(33, dtype), 1, f32(33)) is None
        assert ran.pop() == 100 + i
    assert d(f32(39), 1, f32(39)) is None
    assert ran.pop() == 39
    names["K"] = None
    assert d(f32(4), 1, f32(4)) == "slow"
    assert not ran


def test_the_newest_entry_is_tried_first(backend, entry):
    d = backend.Dispatcher(Slow(), ("x", "n", "y"), (MISSING,) * 3)
    for returns in (None, (0,), (2,)):
        d.add(entry(COUNT._replace(returns=returns), "count"))
    y = f32(4, 8)
    assert d(f32(4, 8), 1, y) is y


def test_entries_must_have_the_dispatchers_parameters(backend, entry):
    d = backend.Dispatcher(Slow(), ("x", "n", "y"), (MISSING,) * 3)
    with pytest.raises(ValueError, match="parameters"):
        d.add(entry(AFFINE, "affine"))
    d.add(entry(COUNT, "count"))
    swapped = COUNT._replace(params=(COUNT.params[1], COUNT.params[0], COUNT.params[2]), returns=None)
    for other in (entry(swapped, "count"), entry(AFFINE, "affine")):
        with pytest.raises(ValueError, match="parameters"):
            d.add(other)
    with pytest.raises(TypeError, match="Entry"):
        d.add(3)
    assert len(d) == 1


def test_very_many_parameters(backend, entry):
    names = tuple(f"p{i}" for i in range(300))
    plan = KernelPlan("count", tuple(tensor(n, (2,), "out" if i == 0 else "in") for i, n in enumerate(names)), returns=(0,))
    d = backend.Dispatcher(Slow(), names, (MISSING,) * 300)
    d.add(entry(plan, "count"))
    arrays = [f32(2) for _ in names]
    assert d(*arrays) is arrays[0]
    assert d(*[memoryview(a) for a in arrays[:-1]], **{names[-1]: arrays[-1]}) == arrays[0].data
    assert d(*arrays[:-1], arrays[0]) == "slow"

"""Callable classes, and what the C module checks of its own surroundings."""

import ctypes
import gc
import sys
import weakref

import numpy as np
import pytest
from launcher_kit import COUNT, Slow, f32

from pypto.runtime import launch
from pypto.runtime.plan import MISSING


@pytest.fixture
def function_class(backend):
    class Function:
        __slots__ = ("__weakref__", "_dispatch", "_word", "name")

        def __init__(self, dispatcher=None):
            self._dispatch = dispatcher

        def _call_slow(self, *args, **kwargs):
            return "class", args, kwargs

    backend.install(Function, "_dispatch", "_word")
    return Function


def test_instances_call_their_dispatcher(backend, entry, function_class):
    slow = Slow()
    d = backend.Dispatcher(slow, ("x", "n", "y"), (MISSING, 1, MISSING))
    d.add(entry(COUNT, "count"))
    f, x, y = function_class(d), f32(4, 8), f32(4, 8)
    assert f(x, 1, y) is y
    assert f(x, y=y) is y
    assert f.__call__(x, 1, y) is y
    assert function_class.__call__(f, x, 1, y) is y
    assert y[0, 0] == 4
    assert f(1, z=2) == "slow"
    assert slow.calls == [((1,), {"z": 2})]
    many = {f"k{i}": i for i in range(100)}
    assert f(**many) == "slow"
    assert slow.calls[1] == ((), many)
    assert callable(f)


def test_calls_of_instances_keep_no_reference_and_change_no_dict(backend, entry, function_class):
    slow = Slow()
    d = backend.Dispatcher(slow, ("x", "n", "y"), (MISSING, 1, MISSING))
    d.add(entry(COUNT, "count"))
    f, x, y, small = function_class(d), f32(4, 8), f32(4, 8), f32(1)
    things = (f, x, y, small, d)
    before = [sys.getrefcount(t) for t in things]
    for _ in range(100):
        f(x, y=y)
        f(x, 1, y)
        f(x, y=small)
        slow.calls.clear()
    assert [sys.getrefcount(t) for t in things] == before
    call = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.py_object)
    mine = {"z": 1}
    assert call(("PyObject_Call", ctypes.pythonapi))(f, (), mine) == "slow"
    slow.calls[0][1]["z"] = 2
    assert mine == {"z": 1}


def test_without_a_dispatcher_an_instance_goes_the_slow_way(function_class):
    f = function_class()
    assert f(1, b=2) == ("class", (1,), {"b": 2})
    del f._dispatch
    assert f() == ("class", (), {})
    f._dispatch = "nonsense"
    assert f(3) == ("class", (3,), {})


def test_subclasses_are_callable_too(backend, entry, function_class):
    class Special(function_class):
        __slots__ = ("more",)

    d = backend.Dispatcher(Slow(), ("x", "n", "y"), (MISSING,) * 3)
    d.add(entry(COUNT, "count"))
    y = f32(4, 8)
    assert Special(d)(f32(4, 8), 1, y) is y

    class Own(function_class):
        __slots__ = ()

        def __call__(self):
            return "own"

    assert Own(d)() == "own"


@pytest.fixture
def instance(backend, entry, function_class):
    """An instance whose dispatcher takes x by position only, called twice: its first call is made another way."""
    d = backend.Dispatcher(Slow(), ("x", "n", "y"), (MISSING, 1, MISSING), 1)
    d.add(entry(COUNT, "count"))
    f = function_class(d)
    for _ in range(2):
        y = f32(4, 8)
        assert f(f32(4, 8), 1, y) is y
    return f


def test_keywords_go_where_they_belong(instance):
    x = f32(4, 8)

    def added(call):
        y = f32(4, 8)
        assert call(y) is y
        return y[0, 0]

    once = added(lambda y: instance(x, 1, y))
    assert once != 0
    assert added(lambda y: instance(x, n=1, y=y)) == once
    assert added(lambda y: instance(x, y=y, n=1)) == once
    assert added(lambda y: instance(x, **{"".join("n"): 1, "".join(("", "y")): y})) == once
    assert added(lambda y: instance(*(x, 1), **{"y": y})) == once
    y = f32(4, 8)
    for call in (
        lambda: instance(x=x, n=1, y=y),
        lambda: instance(x, 1, n=1),
        lambda: instance(x, n=1, z=y),
        lambda: instance(x, x=1, y=y),
        lambda: instance(x, 1, y, y=y),
        lambda: instance(x, n=1),
    ):
        assert call() == "slow"
    assert not y.any()


def test_another_call_method_takes_the_place_of_the_installed_one(instance, function_class):
    function_class.__call__ = lambda self, *args, **kwargs: ("other", args, kwargs)
    for _ in range(2):
        assert instance(1, b=2) == ("other", (1,), {"b": 2})


def test_instances_that_were_called_can_be_looked_through(instance):
    dispatcher = instance._dispatch
    assert dispatcher in gc.get_referents(instance)
    assert not [r for r in gc.get_referents(instance) if isinstance(r, int)]


def test_an_instance_that_was_called_is_collected_with_its_cycle(entry, backend, function_class):
    d = backend.Dispatcher(Slow(), ("x", "n", "y"), (MISSING, 1, MISSING))
    d.add(entry(COUNT, "count"))
    f = function_class(d)
    for _ in range(2):
        f(f32(4, 8), 1, f32(4, 8))
    f.name, gone = f, weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None


def test_the_slot_may_change_during_a_call(backend, entry, function_class):
    f = function_class()

    def drop():
        f._dispatch = None
        gc.collect()
        return True

    d = backend.Dispatcher(Slow(), ("x", "n", "y"), (MISSING,) * 3)
    d.add(entry(COUNT, "count", guards=(("call", drop),)))
    f._dispatch = d
    del d
    y = f32(4, 8)
    assert f(f32(4, 8), 1, y) is y


def test_install_wants_a_slot(backend):
    class Plain:
        value = 3

    with pytest.raises(TypeError, match="slot"):
        backend.install(Plain, "value", "value")


# --- the C module alone --------------------------------------------------------------------------------------------


def test_the_word_that_the_launcher_took_is_not_for_others(native_module):
    class Function:
        __slots__ = ("_dispatch", "_word")

    native_module.install(Function, "_dispatch", "_word")
    with pytest.raises(AttributeError):
        Function()._word = print
    with pytest.raises(TypeError, match="slot"):
        native_module.install(Function, "_dispatch", "_word")


def test_the_self_test_notices_a_different_layout(native_module):
    probes = launch._probes()
    assert native_module.self_test(probes)
    for field, wrong in (
        (1, 64),
        (2, (5, 3)),
        (2, (3,)),
        (3, np.dtype("c16")),
        (4, 77),
        (5, True),
        (6, False),
        (7, False),
        (8, False),
    ):
        row = list(probes[0])
        row[field] = wrong
        assert not native_module.self_test([tuple(row)]), field


def test_configure_checks_what_it_is_given(native_module):
    for wrong in ({"nonsense": 1}, {"context_var": 3}):
        with pytest.raises(TypeError, match="configure"):
            native_module.configure(**wrong)
    with pytest.raises(TypeError, match="keywords"):
        native_module.configure(1)


@pytest.mark.parametrize(
    "change", [(0, 7), (1, -1), (2, ((0,),)), (3, ((9, True, 0, 1, None),)), (4, ((0, 9, True),)), (5, (9,)), (6, -1)]
)
def test_the_c_module_refuses_a_preparation_it_does_not_understand(native_module, kernels, change):
    def prepare(plan):
        made = list(launch.prepare(plan))
        made[change[0]] = change[1]
        return tuple(made)

    native_module.configure(prepare=prepare)
    try:
        with pytest.raises(TypeError):
            native_module.Entry(COUNT, 1234, None)
    finally:
        native_module.configure(prepare=launch.prepare)


@pytest.mark.parametrize("address", [0, -1, 2**70])
def test_an_entry_needs_an_address(native_module, address):
    with pytest.raises((ValueError, OverflowError)):
        native_module.Entry(COUNT, address, None)

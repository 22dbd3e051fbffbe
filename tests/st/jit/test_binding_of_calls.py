"""Arguments bind to kernels as they do to Python's functions, before anything is compiled; methods, defaults, keywords."""

import functools
import inspect
import re

import numpy as np
import pytest
from jit_kit import call, full, untouched

import pypto
import pypto.language as pl


def kinds():
    """Kernels in a class, in every way to put them there."""

    class A:
        factor = 2.0

        @pl.jit
        def plain(x: pl.Tensor, y: pl.Out[pl.Tensor]):
            with pl.at(level=pl.Level.CORE_GROUP):
                y[:] = pl.mul(x, 2.0)
            return y

        @staticmethod
        @pl.jit
        def inner(x: pl.Tensor, y: pl.Out[pl.Tensor]):
            with pl.at(level=pl.Level.CORE_GROUP):
                y[:] = pl.mul(x, 3.0)
            return y

        @pl.jit
        @staticmethod
        def outer(x: pl.Tensor, y: pl.Out[pl.Tensor]):
            with pl.at(level=pl.Level.CORE_GROUP):
                y[:] = pl.mul(x, 4.0)
            return y

    return A


def test_kernels_in_classes(launcher):
    A = kinds()

    class B(A):
        inner = staticmethod(A.outer)

    assert [call(k) for k in (A.plain, A.inner, A().inner, A.outer, A().outer, B.plain, B().inner, B.outer)] == [
        2.0,
        3.0,
        3.0,
        4.0,
        4.0,
        2.0,
        4.0,
        4.0,
    ]
    for make in (A, B):
        with pytest.raises(TypeError, match=r"'plain'.*staticmethod"):
            make().plain(full(1.0), untouched())
    a = A()
    a.mine = A.plain  # an instance's own attribute is no method
    assert call(a.mine) == 2.0


def test_class_methods_are_refused():
    with pytest.raises(pypto.Error, match="class method"):

        class A:
            @pl.jit
            @classmethod
            def k(cls, x: pl.Tensor, y: pl.Out[pl.Tensor]):
                return y


def with_defaults():
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor], s: pl.FP32 = 5.0, *, t: pl.FP32 = 1.0):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.add(pl.mul(x, s), t)
        return y

    return k


def plain(x, y, s=5.0, *, t=1.0):
    pass


GOOD = [
    (("X", "Y"), {}, 6.0),
    (("X", "Y", 6.0), {}, 7.0),
    ((), {"y": "Y", "x": "X"}, 6.0),
    (("X",), {"s": 2.0, "t": 0.5, "y": "Y"}, 2.5),
    (("X", "Y"), {"t": 3.0}, 8.0),
    ((), {"t": 0.0, "s": 0.0, "y": "Y", "x": "X"}, 0.0),
]
BAD = [
    ((), {}),
    (("X",), {}),
    (("X", "Y", 1.0, 2.0), {}),
    (("X", "Y"), {"x": "X"}),
    (("X", "Y"), {"z": 1.0}),
    (("X", "Y"), {"s": 1.0, "bad": 2}),
    (("X", "Y", 1.0, 2.0, 3.0), {"t": 1.0}),
    ((), {"s": 1.0}),
]


def fill(args, kwargs):
    x, y = full(1.0), untouched()
    fix = {"X": x, "Y": y}
    return (
        y,
        [fix.get(a, a) if isinstance(a, str) else a for a in args],
        {n: fix.get(v, v) if isinstance(v, str) else v for n, v in kwargs.items()},
    )


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_as_python_binds(launcher, warm):
    kernel = with_defaults()
    if warm:
        kernel(full(1.0), untouched())
    for args, kwargs, want in GOOD:
        y, args, kwargs = fill(args, kwargs)
        assert kernel(*args, **kwargs) is y
        assert (y == want).all()
    assert len(kernel.kernels) == 1


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize(("args", "kwargs"), BAD)
def test_as_python_complains(launcher, warm, args, kwargs):
    """Python's own words, with the kernel's name, and nothing compiled or written."""
    kernel = with_defaults()
    if warm:
        kernel(full(1.0), untouched())
    y, args, kwargs = fill(args, kwargs)
    with pytest.raises(TypeError) as of_python:
        plain(*args, **kwargs)
    words = str(of_python.value).replace("plain()", "k()")
    before = pypto.cache_stats()
    with pytest.raises(TypeError, match=re.escape(words)) as caught:
        kernel(*args, **kwargs)
    assert "@pl.jit function 'k': " in str(caught.value)
    for ask in (kernel.compile, kernel.lower, kernel.specialize):
        # Without tensors, `compile` and its like read the signature instead.
        if any(isinstance(a, np.ndarray) for a in (*args, *kwargs.values())):
            with pytest.raises(TypeError, match=re.escape(words)):
                ask(*args, **kwargs)
    assert pypto.cache_stats().requests == before.requests
    assert (y == 77).all()


def positional_only():
    @pl.jit
    def k(x: pl.Tensor, /, y: pl.Out[pl.Tensor], *, s: pl.FP32):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, s)
        return y

    return k


def test_positional_only_and_required_keywords(launcher):
    kernel = positional_only()
    for _ in range(2):
        y = untouched()
        kernel(full(1.0), s=2.0, y=y)
        assert (y == 2).all()
        with pytest.raises(TypeError, match="positional-only arguments passed as keyword"):
            kernel(x=full(1.0), y=y, s=2.0)
        with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 's'"):
            kernel(full(1.0), y)
        with pytest.raises(TypeError, match="takes 2 positional arguments but 3"):
            kernel(full(1.0), y, 2.0)


def test_partial_applications(launcher):
    kernel = with_defaults()
    y = untouched()
    functools.partial(kernel, full(1.0), s=2.0)(y, t=4.0)
    assert (y == 6).all()


def test_a_default_is_taken_at_definition(launcher):
    start = 5.0

    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor], s: pl.FP32 = start):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, s)
        return y

    start = 6.0
    assert call(k) == 5.0
    assert start == 6.0


def test_a_default_may_be_an_array(launcher):
    buffer = untouched()

    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor] = buffer):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, 2.0)
        return y

    for value in (1.0, 2.0):
        assert k(full(value)) is buffer
        assert (buffer == 2 * value).all()


def test_defaults_are_no_part_of_the_key():
    def make(default):
        @pl.jit
        def k(x: pl.Tensor, y: pl.Out[pl.Tensor], s: pl.FP32 = default):
            with pl.at(level=pl.Level.CORE_GROUP):
                y[:] = pl.mul(x, s)
            return y

        return k

    assert call(make(2.0)) == 2.0
    before = pypto.cache_stats()
    assert call(make(3.0)) == 3.0
    assert pypto.cache_stats().builds == before.builds


@pytest.mark.parametrize("star", ["*rest", "**rest"])
def test_stars_are_refused_at_decoration(tmp_path, star):
    import importlib.util

    path = tmp_path / "starred.py"
    path.write_text(f"import pypto.language as pl\n@pl.jit\ndef k(x: pl.Tensor, {star}):\n    return x\n")
    spec = importlib.util.spec_from_file_location("starred", path)
    with pytest.raises(pypto.Error, match=re.escape(star)):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_options_of_the_decorators():
    for wrong in (
        lambda: pl.jit(level=3),
        lambda: pl.jit.incore(auto_scope=False),
        lambda: pl.jit.opaque(level=2),
        lambda: pl.jit.inline(level=2),
    ):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            wrong()


def test_what_a_kernel_looks_like_from_outside():
    kernel = with_defaults()

    @pl.jit
    def documented(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        """What it is for."""
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, 2.0)
        return y

    assert inspect.signature(kernel) == inspect.signature(kernel.__wrapped__)
    assert list(inspect.signature(kernel).parameters) == ["x", "y", "s", "t"]
    assert inspect.get_annotations(kernel.__wrapped__)["s"] is pl.FP32
    assert kernel.__name__ == "k"
    assert kernel.__qualname__.endswith("with_defaults.<locals>.k")
    assert kernel.__module__ == __name__
    assert repr(kernel) == f"<@pl.jit {kernel.__qualname__}>"
    assert documented.__doc__ == inspect.getdoc(documented) == "What it is for."
    assert inspect.unwrap(documented).__name__ == "documented"
    assert inspect.getsource(documented).strip().startswith("@pl.jit")
    assert callable(documented)

    @functools.wraps(documented)
    def around(*args):
        return documented(*args)

    assert around.__name__ == "documented"
    assert call(around) == 2.0


def test_help(capsys):
    import pydoc

    @pl.jit
    def documented(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        """What it is for."""
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, 2.0)
        return y

    text = pydoc.render_doc(documented, renderer=pydoc.plaintext)
    assert "What it is for." in text
    assert "documented" in text

"""What is said of kernels that are compiled ahead: errors as if they were compiled here, warnings, progress."""

from __future__ import annotations

import io
import linecache
import os
import pickle
import pty
import threading
import warnings
from contextlib import suppress

import pytest
from jit_kit import call, full, scaled

import pypto
import pypto.language as pl
from pypto.errors import InternalError, PyptoWarning
from pypto.jit import PrecompilePool, work
from pypto.passes import PassContext

X = pl.Tensor[[64, 64], pl.FP32]
KINDS = pytest.mark.parametrize("kind", ["process", "thread"])


def typed(source: str, name: str):
    """A kernel out of a notebook's cell: the text is in no file."""
    where = f"<cell {name}>"
    linecache.cache[where] = (len(source), None, source.splitlines(True), where)
    space = {"pl": pl}
    exec(compile(source, where, "exec"), space)
    return space[name]


# For each stage that refuses something: the frontend; a pass, at an operator inside a statement; the C compiler.
UNKNOWN = """
@pl.jit
def unknown(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.no_such_op(x, 2.0)
    return y
"""
LARGE = """
@pl.jit
def large(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4096, 64])
        y = pl.store(pl.add(t, pl.mul(t, 2.0)), [0, 0], y)
    return y
"""
TALL = pl.Tensor[[4096, 64], pl.FP32]


@KINDS
@pytest.mark.parametrize(("name", "source", "sample"), [("unknown", UNKNOWN, X), ("large", LARGE, TALL)])
def test_errors_are_those_of_compiling_here(here, kind, name, source, sample):
    kernel = typed(source, name)
    with pytest.raises(pypto.Error) as inline:
        kernel.compile(sample, sample)
    with PrecompilePool(workers=1, kind=kind) as pool:
        error = pool.submit(kernel, sample, sample).exception(60)
    assert type(error) is type(inline.value)
    assert str(error) == str(inline.value) == str(pickle.loads(pickle.dumps(error)))
    assert error.span == inline.value.span
    assert f"<cell {name}>:" in str(error)
    assert "^" in str(error)


def test_errors_of_the_compiler(here, monkeypatch):
    kernel = scaled(2.0)
    assert call(kernel) == 2.0  # the launcher is there
    monkeypatch.setenv("CFLAGS", "-Dvoid=+")
    with pytest.raises(pypto.Error) as inline:
        kernel.compile(full(1.0), full(1.0))
    with PrecompilePool(workers=1) as pool:
        error = pool.submit(kernel, X, X).exception(60)
    assert (type(error), error.code) == (type(inline.value), "T101")
    # The command names a directory of its own each time.
    assert error.message.splitlines()[2:] == inline.value.message.splitlines()[2:] != []


class Stubborn(Exception):
    """Does not survive pickling."""

    def __init__(self, one, two):
        super().__init__(one)


def test_errors_that_do_not_travel():
    e = work._portable(Stubborn("what happened", 2))
    assert isinstance(e, InternalError)
    assert str(e) == "Stubborn: what happened"
    same = KeyError("x")
    assert work._portable(same) is same


def test_calls_that_do_not_fit(here):
    with PrecompilePool(workers=1) as pool:
        for args, error in (((X,), TypeError), ((X, 3), TypeError), ((X, pl.Tensor[[64], pl.FP32]), pypto.Error)):
            assert isinstance(pool.submit(scaled(2.0), *args).exception(60), error)
        assert isinstance(pool.submit(print).exception(0), TypeError)
    with pytest.raises(RuntimeError, match="closed") as closed:
        pool.submit(scaled(2.0), X, X)
    assert isinstance(closed.value, pypto.Error)


@pytest.mark.parametrize("entries", [lambda k: (k, X, X), lambda k: k, lambda k: k.request(X, X), lambda k: None])
def test_one_entry_is_no_list(entries):
    with pytest.raises(pypto.errors.ArgumentTypeError, match="takes a list") as caught:
        pypto.precompile(entries(scaled(2.0)))
    assert "precompile([(kernel, sample, ...)])" in caught.value.hint


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (lambda k: pypto.precompile(k, X, X), "takes 1 positional argument but 3 were given", "its arguments: kernels"),
        (lambda k: pypto.precompile([k], worker=2), "unexpected keyword argument 'worker'", "did you mean 'workers'?"),
        (lambda k: k.inspect(), "missing 1 required positional argument: 'stage'", "its arguments: stage"),
        (lambda k: PassContext(memory_planer=1), "argument 'memory_planer'", "did you mean 'memory_planner'?"),
    ],
)
def test_calls_of_pypto_that_do_not_fit(call, message, hint):
    with pytest.raises(pypto.errors.ArgumentTypeError) as caught:
        call(scaled(2.0))
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_an_error_inside_of_a_call_stays_what_it_is():
    def instruments():
        raise TypeError("of the instruments")
        yield

    with pytest.raises(TypeError, match="of the instruments") as caught:
        PassContext(instruments())
    assert not isinstance(caught.value, pypto.Error)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": -1}, "must not be negative"),
        ({"workers": True}, "must be an integer"),
        ({"kind": "fibre"}, "unknown kind 'fibre'"),
        ({"executor": 3}, "executor must be"),
    ],
)
def test_pools_that_cannot_be(options, words):
    with pytest.raises(pypto.Error, match=words):
        PrecompilePool(**options)


def unread():
    @pl.jit
    def unread(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            waste = pl.mul(x, 3.0)  # noqa: F841
            y[:] = pl.mul(x, 2.0)
        return y

    return unread


@KINDS
def test_warnings_reach_whoever_asked(here, kind):
    with (
        PrecompilePool(workers=1, kind=kind) as pool,
        pytest.warns(PyptoWarning, match="'waste' is assigned but never read") as seen,
    ):
        pool.submit(unread(), X, X).result(60)
    (warning,) = seen
    assert (warning.filename, warning.category) == (__file__, PyptoWarning)
    assert linecache.getline(__file__, warning.lineno).strip().startswith("waste = pl.mul(x, 3.0)")


@KINDS
def test_warnings_that_are_errors(here, kind):
    with PrecompilePool(workers=1, kind=kind) as pool, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(pool.submit(unread(), X, X).exception(60), PyptoWarning)


# -- many at once ------------------------------------------------------------------------------------------------------


def annotated(factor):
    @pl.jit
    def annotated(x: pl.Tensor[[64, 64], pl.FP32], y: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, factor)
        return y

    return annotated


def test_results_come_in_order_and_lines_tell_them(here):
    good, bad, text = annotated(2.0), typed(UNKNOWN, "unknown"), io.StringIO()
    entries = [good, (bad, X, X), good.request(), (scaled(3.0), X, X), 7]
    done = pypto.precompile(entries, workers=0, progress=text, return_exceptions=True)
    assert [getattr(d, "outcome", type(d).__name__) for d in done] == [
        "built",
        "InvalidOperationError",
        "cached",
        "built",
        "ArgumentTypeError",
    ]
    lines = text.getvalue().splitlines()
    assert len(lines) == 5
    assert sorted(line[:5] for line in lines) == [f"[{i}/5]" for i in range(1, 6)]
    assert any("annotated: compiled in " in line for line in lines)
    assert any("annotated: was compiled already" in line for line in lines)
    assert any("unknown: failed: " in line and "no_such_op" in line for line in lines)
    with pytest.raises(pypto.Error, match="no_such_op") as caught:
        pypto.precompile(entries, workers=0)
    assert "2 of 5 kernels failed; the others: ?" in caught.value.note
    assert pypto.precompile([], workers=1, progress=text) == []


def test_a_bar_on_a_terminal(here):
    pytest.importorskip("rich", reason="rich is not installed: pip install 'pypto[test]'")
    master, slave = pty.openpty()
    parts: list[bytes] = []

    def read():
        with suppress(OSError):  # of a terminal that nobody writes to any more
            while data := os.read(master, 1 << 16):
                parts.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(slave, "w") as stream:
        pypto.precompile([annotated(2.0), (scaled(3.0), X, X)], workers=0, progress=stream)
    reader.join()
    os.close(master)
    shown = b"".join(parts).decode()
    assert "2/2" in shown
    assert "2 kernels in" in shown
    assert "[1/2]" not in shown


def test_lines_where_there_is_no_bar(here, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rich.progress", None)
    text = io.StringIO()
    text.isatty = lambda: True
    pypto.precompile([annotated(2.0)], workers=0, progress=text)
    assert text.getvalue().startswith("[1/1] annotated: compiled in")

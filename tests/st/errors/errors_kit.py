"""What the error tests share: kernels from text through `@pl.jit`, and the whole of what an error must do.

In: the body of a kernel, or a call.  Out: the error, after checking its class, code, place, source line, caret and hint,
that nothing was compiled for it, and that no array was written.
"""

import importlib.util
import itertools
import pickle
import textwrap

import numpy as np

import pypto
import pypto.language as pl
from pypto.errors import Error

__all__ = ["SIGNATURE", "arrays", "cfg", "kernel", "module", "out", "pointed", "refused", "shown"]

_numbers = itertools.count()
SIGNATURE = "a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]"


def out(*shape, dtype=np.float32, fill=-777):
    return np.full(shape, fill, dtype)


def cfg(*values):
    c = np.zeros(8, np.int32)
    c[: len(values)] = values
    return c


def arrays():
    """Arguments of SIGNATURE: a, b and o FP32 [16, 64], c INT32 [8]."""
    a = np.arange(1024, dtype=np.float32).reshape(16, 64)
    return a, a[::-1].copy(), np.arange(8, dtype=np.int32), out(16, 64)


def module(folder, text, **names):
    """A module in a file of its own, with these names in it."""
    path = folder / f"kernels_{next(_numbers)}.py"
    path.write_text(textwrap.dedent(text))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)
    made.__dict__.update({"pl": pl, "np": np, **names})
    spec.loader.exec_module(made)
    return made


def kernel(folder, body, signature=SIGNATURE, scoped=True, before="", **names):
    """A `@pl.jit` kernel `k` with this body, inside one scope unless `scoped` is off."""
    lines = textwrap.dedent(body).strip("\n")
    if scoped:
        lines = "with pl.at(level=pl.Level.CORE_GROUP):\n" + textwrap.indent(lines, "    ")
    text = f"{textwrap.dedent(before)}\n@pl.jit\ndef k({signature}):\n" + textwrap.indent(lines, "    ") + "\n    return o\n"
    return module(folder, text, **names).k


def refused(call, args, kind, *words, code=None, piece=None, file=None):
    """The error of `call(*args)`: of exactly this class, complete, before anything is compiled or written.

    piece: the beginning of the source that the caret stands under (None: the error has no place, "": anywhere).
    """
    before = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
    builds, runs = pypto.cache_stats().builds, pypto.cache_stats().compiler_runs
    try:
        call(*args)
    except Error as e:
        error = e
    else:
        raise AssertionError("accepted")
    now = pypto.cache_stats()
    assert (now.builds, now.compiler_runs) == (builds, runs), "something was compiled"
    for x, y in zip(args, before, strict=True):
        if isinstance(x, np.ndarray):
            np.testing.assert_array_equal(x, y)
    text = str(error)
    assert type(error) is kind, text
    for w in words:
        assert w in text, text
    assert text.startswith(f"error[{error.code}]: "), text
    if code is not None:
        assert error.code == code, text
    assert error.hint, text
    assert f"help: {error.hint}" in text
    shown(error, piece, file)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == text
    return error


def shown(error, piece, file=None):
    """Place, line and caret of an error; `piece` None means that it has no place in a source."""
    if piece is None:
        assert error.span is None, str(error)
        return
    span, text = error.span, str(error)
    assert span is not None, text
    place = f"{span['filename']}:{span['line']}:{span['column']}"
    assert f"  --> {place}\n" in text, text
    if file is not None:
        assert span["filename"] == str(file)
    with open(span["filename"], encoding="utf-8") as f:
        line = f.read().splitlines()[span["line"] - 1]
    assert error.source_lines[0] == line
    assert line[span["column"] - 1 :].startswith(piece), text
    lines = text.splitlines()
    at = next(i for i, t in enumerate(lines) if t.strip().startswith("-->"))
    number, source = lines[at + 2].split(" | ", 1)
    assert int(number) == span["line"]
    assert source == line
    # The caret stands exactly under the piece.
    caret = lines[at + 3].split(" | ", 1)[1]
    assert caret.index("^") == span["column"] - 1, text


def pointed(error):
    """The source under the caret, to the end of the line."""
    return error.source_lines[0][error.span["column"] - 1 :]

"""A compilation that fails: one and the same error each time, nothing stored, nothing written, and no trace once it is mended."""

import pickle

import pytest
from jit_kit import HEAD, NO_LAUNCHER, full, scaled, tool, untouched

import pypto
import pypto.language as pl
from pypto import errors

BAD = (
    HEAD
    + """
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.no_such_op(x, 2.0)
    return y
line = next(i for i, l in enumerate(open(__file__), 1) if "pl.no_such_op" in l)
def attempt():
    y = np.full((64, 64), -777, np.float32)
    try: k(ones(), y)
    except Exception as e:
        assert f"{os.path.basename(__file__)}:{line}:" in str(e) and "no_such_op" in str(e) and (y == -777).all()
        return type(e).__name__ + str(e)
    return "no error"
texts = [attempt() for _ in range(3)]
ts = [threading.Thread(target=lambda: texts.append(attempt())) for _ in range(2)]
[t.start() for t in ts]; [t.join() for t in ts]
assert len(texts) == 5 and len(set(texts)) == 1 and texts[0] != "no error", texts
print("same")
"""
)


def test_the_same_error_each_time(box):
    for _ in range(2):
        assert box.run(BAD).words == ["same"]
        assert box.builds() == 0
    assert box.run(BAD.split("line = ")[0].replace("no_such_op", "mul") + "print(call(k))").words == ["2.0"]
    assert box.builds() == 1


def test_a_passing_trouble_of_the_compiler(box):
    flaky = tool(
        box.dir / "cc-flaky",
        f'case " $* " in *" -o kernel.so "*) if [ ! -e {box.dir}/failed ]; then touch {box.dir}/failed; '
        'echo "No space left on device" >&2; exit 1; fi;; esac\nexec "$REAL_CC" "$@"',
    )
    twice = """
k = scaled(8.0)
try: call(k)
except Exception as e: print("No space left on device" in str(e))
print(call(k))
"""
    assert box.run(HEAD + twice, PYPTO_CC=flaky, **NO_LAUNCHER).words == ["True", "8.0"]
    assert box.scale(8.0, PYPTO_CC=flaky, **NO_LAUNCHER) == 8.0
    assert [n["builds"] for n in box.stats()] == [1, 0]


STAGES = {
    "parse": ("pypto.frontend.kernels", "parse_kernel"),
    "passes": ("pypto.passes.pipeline", "lower"),
    "generate": ("pypto.codegen.native.unit", "generate"),
    "compile": ("pypto.runtime.linking", "compile_kernel"),
}


@pytest.mark.parametrize("error", [pypto.InternalError, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("stage", STAGES)
def test_a_failure_in_any_stage(monkeypatch, launcher, stage, error):
    from pypto.jit import driver

    def fail(*args, **kwargs):
        raise error("on purpose")

    kernel, y = scaled(9.0), untouched()
    before = pypto.cache_stats().builds
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYPTO_CACHE", "off")  # nobody has built it before
        patch.setattr(driver, STAGES[stage][1], fail)
        for _ in range(2):
            with pytest.raises(error, match="on purpose"):
                kernel(full(1.0), y)
        assert (y == 77).all()
        assert pypto.cache_stats().builds == before
    kernel(full(1.0), y)
    assert (y == 9).all()


def test_a_failure_to_load(monkeypatch, launcher):
    from pypto.runtime import load

    kernel, y = scaled(9.5), untouched()

    def fail(path):
        raise OSError("undefined symbol: nothing")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "_libraries", {})
        patch.setattr(load.ctypes, "CDLL", fail)
        for _ in range(2):
            with pytest.raises(pypto.Error, match="undefined symbol"):
                kernel(full(1.0), y)
    assert (y == 77).all()
    kernel(full(1.0), y)
    assert (y == 9.5).all()


def test_only_the_users_of_a_failing_helper_fail():
    @pl.jit.inline
    def bad(t: pl.Tensor):
        return pl.no_such_op(t)

    @pl.jit
    def uses(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = bad(x)
            y[:] = t
        return y

    @pl.jit
    def mentions(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, 2.0)
        return y

    y = untouched()
    with pytest.raises(errors.ParserError, match=r"no_such_op"):
        uses(full(1.0), y)
    mentions(full(1.0), y)
    assert (y == 2).all()


def equal(a, b):
    """Class, text and attributes; a place compares by what it says."""
    assert type(a) is type(b)
    assert str(a) == str(b)
    assert a.args == b.args
    assert vars(a).keys() == vars(b).keys()
    assert getattr(a, "span", None) == getattr(b, "span", None)


def test_a_compile_error_survives_a_process_boundary():
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.no_such_op(x, 2.0)
        return y

    with pytest.raises(errors.ParserError) as caught:
        k(full(1.0), untouched())
    error = caught.value
    again = pickle.loads(pickle.dumps(error))
    equal(error, again)
    assert "test_failed_compiles.py:" in str(again)
    assert "^" in str(again)
    assert "no_such_op" in str(again)
    assert again.span is not None
    equal(again, pickle.loads(pickle.dumps(again)))


@pytest.mark.parametrize("name", [n for n in errors.__all__ if n not in ("PyptoWarning",)])
def test_every_class_of_error_pickles(name):
    from pypto.span import Span

    cls = getattr(errors, name)
    if not issubclass(cls, errors.Error):
        equal(cls("text"), pickle.loads(pickle.dumps(cls("text"))))
        return
    error = cls("text", Span("f.py", 3, 4, 3, 9))
    error.hint, error.note, error.source_lines, error.code = "do this", "long " * 5000, ("  y = x",), "Z999"
    equal(error, pickle.loads(pickle.dumps(error)))


def test_a_long_output_of_the_compiler_survives():
    from pypto.errors import ToolchainError

    error = ToolchainError("the C compiler failed\n" + "x" * 100_000, hint="h", note="n" * 1000, code="T101")
    try:
        raise ValueError("inner")
    except ValueError as inner:
        error.__cause__ = inner
    equal(error, pickle.loads(pickle.dumps(error)))

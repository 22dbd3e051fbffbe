"""What an entry accepts, what its symbols become, what comes back."""

import ml_dtypes
import numpy as np
import pytest
from kit import OUT, Kernel, expr

from pypto.debug import interpret, run
from pypto.dtypes import DataType as D
from pypto.enums import FunctionType
from pypto.errors import ArgumentTypeError, ArgumentValueError, NotSupportedError
from pypto.ir import scalar as s
from pypto.ir.expr import Call, GlobalVar, Var
from pypto.ir.program import Program
from pypto.ir.shaped import TensorType, TensorView
from pypto.ir.stmt import InlineStmt
from pypto.ir.types import ScalarType


def copying(dtype=D.FP32):
    k = Kernel("copying")
    x, o = k.tensor("x", [4, 8], dtype), k.tensor("o", [4, 8], dtype, OUT)
    return k.done(k.store(k.load(x, [0, 0], [4, 8]), [0, 0], o))


def identity(dtype):
    k = Kernel("identity", FunctionType.Orchestration)
    return k.done(k.scalar("x", dtype))


X = np.arange(32, dtype=np.float32).reshape(4, 8)


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        ([X], ArgumentTypeError, r"takes 2 arguments \(x, o\), got 1"),
        ([X, X.tolist()], ArgumentTypeError, "argument o must be an array, got list"),
        ([X.astype(np.float64), X], ArgumentTypeError, "argument x must hold fp32 elements, got float64"),
        ([X.astype(">f4"), X], ArgumentTypeError, "argument x must hold fp32 elements"),
        ([X[0], X], ArgumentValueError, "argument x must have 2 dimensions, got 1"),
        ([X[:3], X], ArgumentValueError, "extent 0 of x is 3, its type says 4"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(args, error, words):
    with pytest.raises(error, match=words):
        interpret(copying(), args)


def test_the_result_is_the_callers_array():
    o = np.zeros((4, 8), np.float32)
    assert interpret(copying(), [X, o]) is o
    np.testing.assert_array_equal(o, X)


@pytest.mark.parametrize("dtype", [D.BF16, D.FP16, D.BOOL, D.INT64, D.UINT8], ids=lambda d: d.name)
def test_every_element_type_passes_through(dtype):
    x = (X > 9) if dtype is D.BOOL else X.astype(dtype.numpy())
    got = interpret(copying(dtype), [x, np.zeros_like(x)])
    assert got.tobytes() == x.tobytes()
    assert np.dtype(ml_dtypes.bfloat16) == D.BF16.numpy()


@pytest.mark.parametrize(
    ("dtype", "value", "want"),
    [
        (D.INT32, 5, 5),
        (D.INT32, np.int64(5), 5),
        (D.FP32, 0.1, float(np.float32(0.1))),
        (D.FP16, 3, 3.0),
        (D.FP32, np.float64(0.1), float(np.float32(0.1))),
        (D.BOOL, np.True_, True),
        (D.BOOL, 1, True),
        (D.INT32, True, 1),
        (D.FP32, True, 1.0),
        (D.INDEX, np.array(7), 7),
    ],
)
def test_scalars(dtype, value, want):
    got = interpret(identity(dtype), [value])
    assert got == want
    assert type(got) is type(want)


@pytest.mark.parametrize(
    ("dtype", "value", "error"),
    [
        (D.INT32, 2**31, ArgumentValueError),
        (D.INT32, 1.0, ArgumentTypeError),
        (D.BOOL, 2, ArgumentTypeError),
        (D.FP32, "1", ArgumentTypeError),
        (D.UINT8, -1, ArgumentValueError),
    ],
)
def test_scalars_that_do_not_fit(dtype, value, error):
    with pytest.raises(error, match="argument x"):
        interpret(identity(dtype), [value])


def test_symbols_bind_to_extents_and_must_agree():
    n = Var("N", ScalarType.of(D.INDEX))
    k = Kernel("main", FunctionType.Orchestration)
    k.param(Var("x", TensorType([n, 8], D.FP32)))
    k.param(Var("y", TensorType([n], D.FP32)))
    f = k.done(k.let(s.add(n, expr(1))))
    assert interpret(f, [X, X[:, 0]]) == 5
    with pytest.raises(ArgumentValueError, match="extent 0 of y is 3, its type says 4"):
        interpret(f, [X, X[:3, 0]])


def test_symbols_of_valid_extents_bind_to_what_is_valid():
    v = Var("V", ScalarType.of(D.INDEX))
    k = Kernel("inner")
    x = k.param(Var("x", TensorType([4, 8], D.FP32, None, TensorView(valid_shape=[4, v]))))
    o = k.tensor("o", [4, 8], D.FP32, OUT)
    inner = k.done(k.store(k.load(x, [0, 0], [4, 8], [4, v]), [0, 0], o))
    m = Kernel("main", FunctionType.Orchestration)
    a, b = m.tensor("a", [4, 8], D.FP32), m.tensor("b", [4, 8], D.FP32, OUT)
    c = m.scalar("c", D.INDEX)
    m.invoke(inner, m.op("tensor.set_validshape", a, 4, c), b)
    got = interpret(Program([inner, m.done(b)]), [X, np.full((4, 8), -1, np.float32), 3])
    np.testing.assert_array_equal(got[:, :3], X[:, :3])
    assert (got[:, 3:] == -1).all()


def test_the_entry_is_found_or_asked_for():
    inner = copying()
    m = Kernel("main", FunctionType.Orchestration)
    x, o = m.tensor("x", [4, 8], D.FP32), m.tensor("o", [4, 8], D.FP32, OUT)
    program = Program([inner, m.done(m.invoke(inner, x, o))])
    out = np.zeros((4, 8), np.float32)
    assert interpret(program, [X, out]) is out
    assert run(program, "copying", [X, out]) is out
    with pytest.raises(ArgumentValueError, match="no function 'nothing'"):
        run(program, "nothing", [])
    with pytest.raises(ArgumentValueError, match="no single entry"):
        run(Program([copying(), Kernel("other").done()]), None, [])


def test_functions_that_return_nothing():
    assert interpret(Kernel("empty").done(), []) is None


def test_what_the_host_does_not_execute_is_said():
    k = Kernel("main")
    k.let(Call(GlobalVar("somewhere"), [], ScalarType.of(D.INDEX), k.span()))
    with pytest.raises(NotSupportedError, match="'somewhere' is not executed on the host"):
        interpret(k.done(), [])
    k = Kernel("main")
    k.add(InlineStmt("print()"))
    with pytest.raises(NotSupportedError, match="InlineStmt"):
        interpret(k.done(), [])
    k = Kernel("main")
    t = k.op("tile.create", [4, 8], dtype=D.FP32)
    k.param(Var("t", t.type))
    with pytest.raises(NotSupportedError, match="parameters of type TileType"):
        interpret(k.done(), [X])


def test_a_tile_is_not_stored_into_a_value():
    k = Kernel("main")
    x = k.tensor("x", [4, 8], D.FP32)
    w = k.op("tensor.neg", x)
    k.store(k.load(x, [0, 0], [4, 8]), [0, 0], w)
    with pytest.raises(NotSupportedError, match="the target is a value, not a tensor in global memory"):
        interpret(k.done(), [X])

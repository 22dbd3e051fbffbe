"""What makes a case and what does not, and what its tensors hold."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from testing_kit import ZEROS, Tensor, X, doubled, kept, scaled, torch_stand_in

import pypto.language as pl
from pypto import ir
from pypto.enums import MemoryPlanner
from pypto.errors import ArgumentTypeError, ArgumentValueError
from pypto.runtime import RunConfig
from pypto.testing import st

FP32 = st.DataType.FP32
SPECS = [st.TensorSpec("x", [16, 32], FP32), st.TensorSpec("out", [16, 32], FP32, is_output=True)]


@pl.program
class Doubling:
    @pl.function(type=pl.FunctionType.InCore)
    def double(self, x: pl.Tensor[[16, 32], pl.FP32], out: pl.Out[pl.Tensor[[16, 32], pl.FP32]]) -> pl.Tensor[[16, 32], pl.FP32]:
        t = pl.load(x, [0, 0], [16, 32])
        return pl.store(pl.add(t, t), [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[16, 32], pl.FP32], out: pl.Out[pl.Tensor[[16, 32], pl.FP32]]) -> pl.Tensor[[16, 32], pl.FP32]:
        out = self.double(x, out)
        return out


def test_tensors_follow_from_the_signature() -> None:
    full = np.full_like(X, -777)
    x, keep, out = st.case(kept, X, full, full).tensors
    assert [(t.name, t.shape, t.dtype, t.is_output) for t in (x, keep, out)] == [
        ("x", (16, 32), FP32, False),
        ("keep", (16, 32), FP32, True),
        ("out", (16, 32), FP32, True),
    ]
    assert (x.initial() == X).all()
    assert (keep.initial() == -777).all()
    assert (out.initial() == 0).all()
    assert x.initial() is not x.initial()


def test_arguments_by_position_by_name_and_by_default() -> None:
    for made in (
        st.case(scaled, X, ZEROS, 2.0),
        st.case(scaled, X, ZEROS),
        st.case(scaled, X, ZEROS, n=2),
        st.case(scaled, inputs={"x": X, "out": ZEROS, "n": 2.0}),
        st.case(scaled, X, inputs={"out": ZEROS}),
    ):
        assert made.scalars == {"n": 2.0}
        assert made.order == ("x", "out", "n")
        assert made.name == "scaled__x_16x32_fp32__out_16x32_fp32__n_2.0"
    assert st.case(scaled, X, ZEROS, n=-1.5).name.endswith("__n_-1.5")


def test_a_uint16_array_may_carry_bf16() -> None:
    @pl.jit
    def wide(x: pl.Tensor[[16, 32], pl.BF16], out: pl.Out[pl.Tensor[[16, 32], pl.BF16]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x
        return out

    carried = X.astype(ml_dtypes.bfloat16)
    made = st.case(wide, carried.view(np.uint16), carried)
    assert made.tensors[0].dtype is st.DataType.BF16
    assert (made.tensors[0].initial() == carried).all()


@pytest.mark.parametrize(
    ("kind", "words", "make"),
    [
        (ValueError, "unknown platform 'a9'", lambda: doubled(platform="a9")),
        (ValueError, "no outputs", lambda: st.case(Doubling, name="d", tensors=SPECS[:1])),
        (ValueError, "no tensors", lambda: st.case(Doubling, name="d")),
        (ValueError, "has no name", lambda: st.case(Doubling, tensors=SPECS)),
        (ValueError, "no sample arguments", lambda: st.case(Doubling, X, name="d", tensors=SPECS)),
        (ValueError, "two arguments of one name", lambda: st.case(Doubling, name="d", tensors=SPECS + SPECS)),
        (ValueError, "its parameters say", lambda: doubled(tensors=SPECS)),
        (ValueError, "rtol=-1", lambda: doubled(rtol=-1)),
        (ValueError, "unknown strategy", lambda: doubled(strategy="Fast")),
        (TypeError, "config= is not taken", lambda: doubled(config=RunConfig())),
        (TypeError, "unexpected keyword argument 'size'", lambda: doubled(size=2)),
        (TypeError, "compare is a float", lambda: doubled(compare=0.1)),
        (TypeError, "golden is a ndarray", lambda: doubled(golden=X)),
        (TypeError, "enable_buffer_ir must be a bool", lambda: doubled(enable_buffer_ir=1)),
        (TypeError, "memory_planner must be", lambda: doubled(memory_planner="PYPTO")),
        (TypeError, "got function", lambda: st.case(lambda x: x, X)),
        (ValueError, "unknown ctype 'short'", lambda: st.ScalarSpec("n", 1, "short")),
        (ValueError, "1.5 is no int64", lambda: st.ScalarSpec("n", 1.5).argument()),
        (TypeError, "no element type", lambda: st.TensorSpec("x", [2], "nonsense")),
        (TypeError, "'ab' is no shape", lambda: st.TensorSpec("x", "ab", st.DataType.FP32)),
        (TypeError, "None is no shape", lambda: st.TensorSpec("x", None, st.DataType.FP32)),
        (TypeError, "1.5, 2. is no shape", lambda: st.TensorSpec("x", (1.5, 2), st.DataType.FP32)),
        (ValueError, r"no array has the shape \[-1\]", lambda: st.TensorSpec("x", [-1], st.DataType.FP32)),
        (ValueError, "no array has the shape", lambda: st.TensorSpec("x", [10**12, 10**12], st.DataType.FP32)),
        (ValueError, "300 is no int8 number", lambda: st.TensorSpec("x", [2], st.DataType.INT8, 300).initial()),
        (TypeError, "an array of <U1", lambda: st.TensorSpec("x", [1], st.DataType.FP32, np.array(["a"])).initial()),
        (TypeError, "an array of complex128", lambda: st.TensorSpec("x", [1], st.DataType.FP32, np.array([1j])).initial()),
        (TypeError, "'many' is no number", lambda: st.ScalarSpec("n", "many")),
        (ValueError, "nan is no int64", lambda: st.ScalarSpec("n", float("nan")).argument()),
        (ValueError, "rtol='a'", lambda: doubled(rtol="a")),
        (TypeError, "takes a number, got str", lambda: st.rel_err_under("a")),
    ],
)
def test_what_makes_no_case_says_why(kind, words, make) -> None:
    with pytest.raises(kind, match=words) as caught:
        make()
    assert isinstance(caught.value, (ArgumentTypeError, ArgumentValueError))


def test_several_cases_are_one_decorator() -> None:
    one, two = doubled(name="one"), doubled(name="two")
    mark = st.cases(one, pytest.param(two, marks=pytest.mark.slow)).mark
    assert [p.id for p in mark.args[1]] == ["one", "two"]
    assert [m.name for m in mark.args[1][1].marks] == ["slow"]
    for kind, words, entries in (
        (ValueError, "no cases", ()),
        (ValueError, "two cases are called one", (one, one)),
        (TypeError, "takes cases, got int", (1,)),
        (TypeError, "takes cases", (pytest.param(one, two),)),
    ):
        with pytest.raises(kind, match=words):
            st.cases(*entries)


def test_what_tensors_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    def held(value, dtype=FP32):
        return st.TensorSpec("x", (2, 3), dtype, value).initial()

    assert (held(None) == np.zeros((2, 3))).all()
    assert (held(-555) == -555).all()
    assert (held(lambda: np.ones((2, 3))) == 1).all()
    given = np.ones((2, 3), np.float32)
    assert not np.shares_memory(held(given), given)
    assert held(given, np.float16).dtype == np.float16
    assert held(given, "torch.bfloat16").dtype == ml_dtypes.bfloat16
    torch = torch_stand_in(monkeypatch)
    assert (held(torch.randn) == 0.5).all()
    assert (held(Tensor(given)) == 1).all()
    for kind, value in ((ArgumentValueError, np.ones(6)), (ArgumentTypeError, "ones")):
        with pytest.raises(kind, match="init_value"):
            held(value)


def test_scalars_are_what_their_c_types_hold() -> None:
    assert st.ScalarSpec("n", 3.0).argument() == 3
    assert st.ScalarSpec("n", 0.1, "float").argument() == float(np.float32(0.1))
    assert st.ScalarSpec("n", 0.1, "double").argument() == 0.1
    with pytest.raises(OverflowError):
        st.ScalarSpec("n", 1 << 31, "int32").argument()


class Legacy(st.PTOTestCase):
    def get_name(self):
        return "legacy"

    def define_tensors(self):
        return [st.TensorSpec("x", [16, 32], FP32, 3.0), st.TensorSpec("out", [16, 32], FP32, is_output=True)]

    def get_program(self):
        return Doubling

    def compute_expected(self, tensors, params=None):
        tensors["out"][:] = tensors["x"] * 2


def test_a_test_class_is_a_case() -> None:
    made = st.from_legacy(Legacy(RunConfig(memory_planner=MemoryPlanner.DSA_RP, rtol=0.5)))
    assert isinstance(made.kernel, ir.Program)
    assert (made.name, made.memory_planner, made.rtol) == ("legacy", MemoryPlanner.DSA_RP, 0.5)
    tensors = {t.name: t.initial() for t in made.tensors}
    assert made.golden(tensors) is None
    assert (tensors["out"] == 6).all()

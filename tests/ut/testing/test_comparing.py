"""What a golden function may return, and when outputs are right."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from testing_kit import Tensor, torch_stand_in

from pypto.testing import st
from pypto.testing.comparing import difference, expected_outputs

F = st.DataType.FP32
IN = st.TensorSpec("x", (2, 3), F, 3.0)
OUT, MORE = (st.TensorSpec(n, (2, 3), d, -7.0, is_output=True) for n, d in (("out", st.DataType.FP16), ("more", F)))


def expected(golden, *tensors):
    return expected_outputs(golden, tensors, {t.name: t.initial() for t in tensors})


def test_what_golden_may_return() -> None:
    def in_place(t):
        t["out"][0] = t["x"][0]
        t["x"][:] = 0

    held = {t.name: t.initial() for t in (IN, OUT)}
    for golden in (lambda t: t["x"] + 0.5, lambda t: {"out": t["x"].astype(np.float64) + 0.5}):
        found = expected(golden, IN, OUT)["out"]
        assert found.dtype == np.float16
        assert (found == 3.5).all()
    found = expected_outputs(in_place, (IN, OUT), held)["out"]
    assert (found[0] == 3).all()
    assert (found[1] == -7).all()
    assert (held["out"] == -7).all()
    assert (held["x"] == 3).all()


@pytest.mark.parametrize(
    ("kind", "words", "returned"),
    [
        (ValueError, "no output 'more'", {"out": np.ones((2, 3))}),
        (ValueError, "'x' is no output", {"out": np.ones((2, 3)), "more": np.ones((2, 3)), "x": np.ones((2, 3))}),
        (ValueError, r"shape \[3\] for output 'out'", {"out": np.ones(3), "more": np.ones((2, 3))}),
        (TypeError, "a list for output 'out'", {"out": [1], "more": np.ones((2, 3))}),
        (TypeError, "one ndarray for the outputs out, more", np.ones((2, 3))),
        (TypeError, "one int for", 1),
        (TypeError, "<U1 for output 'out'", {"out": np.full((2, 3), "a"), "more": np.ones((2, 3))}),
        (TypeError, "complex128 for output 'more'", {"out": np.ones((2, 3)), "more": np.full((2, 3), 1j)}),
    ],
)
def test_what_golden_may_not_return(kind, words, returned) -> None:
    with pytest.raises(kind, match=words):
        expected(lambda t: returned, OUT, MORE)
    if not isinstance(returned, dict):
        with pytest.raises(TypeError, match="one"):
            expected(lambda t: returned, OUT, MORE)


def test_torch_in_torch_out(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = torch_stand_in(monkeypatch)
    spec = st.TensorSpec("x", (2, 3), F, torch.randn)
    seen = []

    def golden(t):
        seen.extend(t.values())
        return t["x"] * 3

    assert (expected(golden, spec, MORE)["more"] == 1.5).all()
    assert [type(t) for t in seen] == [Tensor, Tensor]
    assert expected(lambda t: Tensor(np.ones((2, 3))), IN, MORE)["more"].dtype == np.float32
    half = st.TensorSpec("o", (2, 3), st.DataType.BF16, is_output=True)
    ones = np.ones((2, 3), ml_dtypes.bfloat16)

    def compare(actual, expected):
        assert str(actual["o"].dtype) == "torch.bfloat16"
        assert (expected["o"].base == 1).all()
        raise AssertionError("seen")

    assert difference({"o": ones}, {"o": ones}, (spec, half), 0, 0, compare) == "golden validation failed (custom compare): seen"


def differs(actual, wanted, rtol=0.0, atol=0.0, compare=None):
    return difference({"o": np.array(actual)}, {"o": np.array(wanted)}, (MORE,), rtol, atol, compare)


def test_tolerances() -> None:
    assert differs([1.0, 2.0], [1.0, 2.1]) == (
        "golden validation failed (rtol=0, atol=0): output 'o': 1 of 2 elements differ, first at [1]: "
        "got 2.0, expected 2.1; largest error 0.10000000000000009"
    )
    assert differs([1.0, 2.0], [1.0, 2.1], atol=0.11) is None
    assert differs([1.0, 2.0], [1.0, 2.1], rtol=0.05) is None
    assert differs([1.0, 2.1], [1.0, 2.0], rtol=0.04)
    assert differs([np.inf], [np.inf]) is None
    assert differs([np.inf], [-np.inf], rtol=0.5)
    assert differs([np.nan], [np.nan], rtol=1, atol=1)
    assert differs([True, False], [True, True])


def test_integers_are_compared_exactly() -> None:
    big = 1 << 62
    assert differs([big], [big + 1])
    assert differs([big], [big + 1], atol=1) is None
    assert differs([-big], [big], atol=float(big))
    assert differs(np.array([0], np.uint8), np.array([255], np.uint8), atol=1)


def test_relative_errors_of_whole_outputs() -> None:
    close, half = st.rel_err_under(0.01), np.float16
    assert differs(np.ones(4, half), np.full(4, 1.001, half), compare=close) is None
    found = differs(np.ones(4, half), np.full(4, 2, half), compare=close)
    assert found == "golden validation failed (custom compare): output 'o': relative error 0.5, limit 0.01"
    assert differs([0.0], [0.0], compare=close) is None
    assert "inf" in differs([1.0], [0.0], compare=close)
    assert differs([np.nan, 1.0], [1.0, 1.0], compare=close)


def test_a_comparison_that_returns_something_has_not_compared():
    spec, ones = st.TensorSpec("o", (2, 3), F, is_output=True), np.ones((2, 3), np.float32)
    assert difference({"o": ones}, {"o": ones}, (spec,), 0, 0, lambda a, e: None) is None
    found = difference({"o": ones}, {"o": ones}, (spec,), 0, 0, lambda a, e: False)
    assert found is not None
    assert "compare returned False" in found

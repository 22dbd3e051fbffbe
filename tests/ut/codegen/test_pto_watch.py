"""What watches all tests notices: a text that breaks a rule, and one that gives other numbers."""

from __future__ import annotations

import numpy as np
import pto_lab
import pto_watch
import pytest
from pto_lab import kernel

import pypto.codegen.pto
from pypto.jit import driver
from pypto.testing import running

BODY = "a = pl.load(x, [0, 0], [16, 32])\npl.store(pl.add(a, a), [0, 0], o)"
PARAMS = "x: pl.Tensor[[16, 32], pl.FP32], o: pl.Out[pl.Tensor[[16, 32], pl.FP32]]"


def test_nothing_lowers_unseen() -> None:
    assert driver.lower is pto_watch.lower
    assert running.lower is pto_watch.lower
    assert pto_lab.lower is pto_watch.lower
    assert pto_lab.interpret is pto_watch.interpret


def test_a_wrong_text(monkeypatch: pytest.MonkeyPatch) -> None:
    right = pypto.codegen.pto.module_of
    monkeypatch.setattr(pto_watch, "_programs", {})
    pto_watch.lower(kernel("k", PARAMS, BODY))
    monkeypatch.setattr(pypto.codegen.pto, "module_of", lambda *a: right(*a).replace("pto.tadd", "pto.tand"))
    with pytest.raises(AssertionError, match=r"'k' \(PYPTO\).*pto.tand: f32 elements"):
        pto_watch.lower(kernel("k", PARAMS, BODY))


def test_wrong_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    right, args = pto_lab.module_of, [np.ones((16, 32), np.float32), np.zeros((16, 32), np.float32)]
    monkeypatch.setattr(pto_watch, "_programs", {})
    program = pto_watch.lower(kernel("k", PARAMS, BODY)).host
    pto_watch.interpret(program, args, "k")
    assert (args[1] == 2).all()
    monkeypatch.setattr(pto_lab, "module_of", lambda *a: right(*a).replace("pto.tadd", "pto.tmul"))
    with pytest.raises(AssertionError, match="elements differ"):
        pto_watch.interpret(program, args, "k")


def test_a_refusal_without_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise pypto.errors.NotSupportedError("no form")

    monkeypatch.setattr(pto_watch, "_programs", {})
    monkeypatch.setattr(pypto.codegen.pto, "module_of", refuse)
    with pytest.raises(AssertionError, match="no place"):
        pto_watch.lower(kernel("k", PARAMS, BODY))

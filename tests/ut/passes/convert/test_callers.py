"""Kernels that gained outputs are called with them: wrappers hand them on, all other callers create them."""

from __future__ import annotations

import numpy as np
import pytest
from back_lab import applied, call_of, raw
from convert_kit import IN, OUT, T, calls_of, convert, directions, values
from pass_lab import agree, out, outputs

from pypto.ir.expr import Call
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import ReturnStmt, flatten_to_stmts

contract = pytest.mark.contract
KERNEL = f"""
    @pl.function(type=pl.FunctionType.InCore)
    def k(x: {T}) -> {T}:
        y: {T} = pl.tensor.add(x, x)
        return y
"""
# Two results, of which one is computed from the other.
TWO = f"""
    @pl.function(type=pl.FunctionType.InCore)
    def k(x: {T}) -> tuple[{T}, pl.Tensor[[16, 1], pl.FP32]]:
        y: {T} = pl.tensor.add(x, x)
        z = pl.tensor.row_max(y)
        return y, z
"""
STORING = f"""
    @pl.function(type=pl.FunctionType.InCore)
    def k(x: {T}, o: pl.Out[{T}]) -> {T}:
        y: {T} = pl.tensor.add(x, x)
        r: {T} = pl.tensor.assemble(o, y, [0, 0])
        return r
"""


def caller(kind: str, name: str, callee: str, params: str = f"x: {T}", args: str = "x") -> str:
    return f"""
    @pl.function(type=pl.FunctionType.{kind})
    def {name}(self, {params}) -> {T}:
        r: {T} = self.{callee}({args})
        return r
"""


def converted(*functions: str):
    return convert(raw("@pl.program\nclass test:" + "".join(functions)))


@contract("T001", "T005", "T025", "T069", "T070")
@pytest.mark.parametrize("kind", ["Orchestration", "Opaque"])
def test_a_caller_creates_what_the_kernel_gained(kind):
    p = converted(KERNEL, caller(kind, "main", "k"))
    f, k = p.get_function("main"), p.get_function("k")
    assert applied(f) == ["tensor.create", "k"]
    (created,) = values(f, "tensor.create")
    assert call_of(f, "k").args == (f.params[0], created)
    assert created.name_hint == k.params[-1].name_hint == "ret0_out"
    assert created.type.shape == k.params[-1].type.shape
    assert created.type.dtype is k.params[-1].type.dtype
    assert directions(f) == {"x": IN}


@contract("T025", "T069", "T070")
def test_each_result_has_its_own_output_in_order():
    text = f"""
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: {T}) -> {T}:
        p = self.k(x)
        r: {T} = p[0]
        return r
"""
    p = converted(TWO, text)
    k = p.get_function("k")
    assert directions(k) == {"x": IN, "ret0_out": OUT, "ret1_out": OUT}
    stores = calls_of(k, "tile.store")
    assert [c.args[2] for c in stores] == list(k.params[1:])
    assert [[e.value for e in c.args[1].elements] for c in stores] == [[0, 0], [0, 0]]
    last = flatten_to_stmts(k.body)[-1]
    assert isinstance(last, ReturnStmt)
    assert list(last.value) == values(k, "tile.store")
    assert applied(p.get_function("main")) == ["tensor.create", "tensor.create", "k"]


@contract("T065", "T066", "T067", "T071")
@pytest.mark.parametrize("kind", ["Spmd", "Group"])
def test_a_wrapper_gains_the_same_outputs_and_hands_them_on(kind):
    p = converted(KERNEL, caller(kind, "w", "k"), caller("Orchestration", "main", "w"))
    k, w, main = (p.get_function(n) for n in ("k", "w", "main"))
    assert directions(w) == {"x": IN, "ret0_out": OUT}
    assert w.params[1] is not k.params[1]
    assert w.params[1].type == k.params[1].type
    assert w.params[1].name_hint == k.params[1].name_hint
    assert applied(w) == ["k"]
    inner = call_of(w, "k")
    assert inner.args == w.params
    assert inner.type == k.return_types[0]
    assert applied(main) == ["tensor.create", "w"]
    assert call_of(main, "w").args == (main.params[0], values(main, "tensor.create")[0])


@contract("T065", "T067")
def test_wrappers_of_wrappers_hand_on_too():
    p = converted(caller("Group", "g", "w"), caller("Spmd", "w", "k"), KERNEL, caller("Orchestration", "main", "g"))
    assert [len(p.get_function(n).params) for n in ("k", "w", "g", "main")] == [2, 2, 2, 1]
    assert applied(p.get_function("g")) == ["w"]
    assert applied(p.get_function("main")) == ["tensor.create", "g"]


@contract("T068")
def test_a_wrapper_of_a_kernel_that_gained_nothing_stays_as_it_is():
    pair = f"x: {T}, o: pl.Out[{T}]"
    p = raw("@pl.program\nclass test:" + STORING + caller("Spmd", "w", "k", pair, "x, o") + KERNEL.replace("def k", "def j"))
    assert convert(p).get_function("w") is p.get_function("w")


@contract("T071")
def test_kernels_that_call_and_were_not_changed_stay_as_they_are():
    p = raw(
        "@pl.program\nclass test:"
        + KERNEL
        + f"""
    @pl.function(type=pl.FunctionType.AIV)
    def v(x: {T}) -> {T}:
        return x
"""
        + caller("Orchestration", "main", "k")
    )
    after = convert(p)
    assert after.get_function("v") is p.get_function("v")
    assert "tensor.create" not in applied(after.get_function("k"))


@contract("T066")
def test_a_wrapper_s_result_has_the_type_the_kernel_now_returns():
    p = converted(KERNEL, caller("Spmd", "w", "k"), caller("Orchestration", "main", "w"))
    w = p.get_function("w")
    (result,) = values(w, "k")
    assert isinstance(result.type, TensorType)
    assert result.type == w.return_types[0] == p.get_function("k").return_types[0]


ROW = "pl.Tensor[[16, 1], pl.FP32]"


@contract("T005", "T065", "T069")
@pytest.mark.parametrize(
    ("results", "given"), [("p[0], p[1]", f"tuple[{T}, {ROW}]"), ("p[1], p[0]", f"tuple[{ROW}, {T}]"), ("p[1]", ROW), ("p[0]", T)]
)
def test_created_tensors_have_their_kernel_s_shapes_whatever_a_wrapper_returns(results, given):
    parts = results.split(", ")
    names = ["a", "b"][: len(parts)]
    taken = "\n".join(f"        {n} = {part}" for n, part in zip(names, parts, strict=True))
    wrapper = f"""
    @pl.function(type=pl.FunctionType.Spmd)
    def w(self, x: {T}) -> {given}:
        p = self.k(x)
{taken}
        return {", ".join(names)}
"""
    main = f"""
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: {T}) -> {given}:
        r = self.w(x)
        return r
"""
    if len(parts) == 2:
        main = main.replace("        return r", "        u = r[0]\n        v = r[1]\n        return u, v")
    f = converted(TWO, wrapper, main).get_function("main")
    assert [[d.value for d in v.type.shape] for v in values(f, "tensor.create")] == [[16, 64], [16, 1]]


@contract("T065", "T066", "T067")
@pytest.mark.parametrize("second", ["k", "j"])
def test_every_call_of_a_wrapper_gets_outputs_of_its_own(second):
    wrapper = f"""
    @pl.function(type=pl.FunctionType.Group)
    def w(self, x: {T}) -> tuple[{T}, {T}]:
        r: {T} = self.k(x)
        s: {T} = self.{second}(r)
        return r, s
"""
    main = f"""
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: {T}, o: pl.Out[{T}]) -> {T}:
        p = self.w(x)
        q: {T} = p[1]
        r: {T} = self.c(q, o)
        return r
"""
    copy = STORING.replace("def k", "def c")
    p = raw("@pl.program\nclass test:" + KERNEL + KERNEL.replace("def k", "def j") + copy + wrapper + main)
    after = convert(p)
    w = after.get_function("w")
    assert len(w.params) == 3
    assert [c.args for c in walk(w.body) if isinstance(c, Call)] == [(w.params[0], w.params[1]), (values(w, "k")[0], w.params[2])]
    x = np.arange(1024, dtype=np.float32).reshape(16, 64)
    agree(p, after, [x, out(16, 64)])
    np.testing.assert_array_equal(outputs(after, [x, out(16, 64)])[1], x * 8)

"""NormalizeReturnOrder: returns are parameters, in their order."""

import numpy as np
from pass_lab import agree, apply, findings, main, out, program, same

from pypto.ir.verify.properties import IRProperty

X = "pl.Tensor[[16, 16], pl.FP32]"
A = np.arange(256, dtype=np.float32).reshape(16, 16)


def pair(returned: str, first: int, second: int, through: str = ""):
    return program(f"""
        @pl.program
        class P:
            @pl.function(type=pl.FunctionType.InCore)
            def k(x: {X}, a: pl.Out[{X}], b: pl.Out[{X}]) -> tuple[{X}, {X}]:
                t = pl.load(x, [0, 0], [16, 16])
                a1 = pl.store(t, [0, 0], a)
                b1 = pl.store(pl.add(t, t), [0, 0], b)
                {through}
                return {returned}

            @pl.function(type=pl.FunctionType.Orchestration)
            def main(self, x: {X}, a: pl.Out[{X}], b: pl.Out[{X}]):
                r = self.k(x, a, b)
                u = r[{first}]
                v = r[{second}]
                return u, v
        """)


def test_aliases_become_the_parameters():
    same(apply(pair("a1, b1", 0, 1), "normalize_return_order"), pair("a, b", 0, 1))


def test_swapped_returns_are_put_in_order_and_callers_follow():
    before = pair("b1, a1", 1, 0)
    assert findings(before, IRProperty.ReturnParamsExplicit)
    got = apply(before, "normalize_return_order")
    same(got, pair("a, b", 0, 1))
    assert findings(got, IRProperty.ReturnParamsExplicit, IRProperty.TypeChecked, IRProperty.SSAForm) == []
    agree(before, got, [A, out(16, 16), out(16, 16)])


def test_normal_programs_are_the_same_objects():
    p = pair("a, b", 0, 1)
    assert apply(p, "normalize_return_order") is p


def test_a_value_the_kernel_computes_stays_behind_what_it_writes():
    before = program(f"""
        @pl.program
        class P:
            @pl.function(type=pl.FunctionType.InCore)
            def k(x: {X}, a: pl.Out[{X}]) -> tuple[pl.Scalar[pl.FP32], {X}]:
                s = pl.read(x, [0, 0])
                a1 = pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], a)
                return s, a1

            @pl.function(type=pl.FunctionType.Orchestration)
            def main(self, x: {X}, a: pl.Out[{X}]):
                r = self.k(x, a)
                s = r[0]
                u = r[1]
                return u
        """)
    got = apply(before, "normalize_return_order")
    k = got.get_function("k")
    assert k.body.stmts[-1].value[0] is k.params[1]
    assert [s.value.index for s in main(got).body.stmts[1:3]] == [1, 0]
    agree(before, got, [A, out(16, 16)])

"""InlineFunctions: bodies in the place of calls."""

import numpy as np
import pytest
from pass_lab import agree, apply, findings, out, outputs, program, same

from pypto.enums import FunctionType
from pypto.ir.expr import Call, GlobalVar
from pypto.ir.program import Function, Program
from pypto.ir.stmt import EvalStmt
from pypto.ir.verify.properties import IRProperty

X = "pl.Tensor[[16, 16], pl.FP32]"
A = np.arange(256, dtype=np.float32).reshape(16, 16)


def test_a_helper_called_twice_gets_locals_of_its_own():
    before = program(f"""
        @pl.program
        class P:
            @pl.function(type=pl.FunctionType.Inline)
            def helper(self, v: {X}) -> {X}:
                t = pl.tensor.mul(v, v)
                return t

            @pl.function
            def main(self, a: {X}, b: {X}) -> {X}:
                z = self.helper(a)
                w = self.helper(b)
                r = pl.tensor.add(z, w)
                return r
        """)
    after = program(f"""
        @pl.program
        class P:
            @pl.function
            def main(self, a: {X}, b: {X}) -> {X}:
                t0 = pl.tensor.mul(a, a)
                z = t0
                t1 = pl.tensor.mul(b, b)
                w = t1
                r = pl.tensor.add(z, w)
                return r
        """)
    got = apply(before, "inline_functions")
    same(got, after)
    names = [s.var.name_hint for s in got.function_list[0].body.stmts[:3]]
    assert names == ["t_inline0", "z", "t_inline1"]
    assert findings(got, IRProperty.InlineFunctionsEliminated) == []


def test_helpers_of_helpers_and_several_results():
    before = program(f"""
        @pl.program
        class P:
            @pl.function(type=pl.FunctionType.Inline)
            def inner(self, v: {X}) -> {X}:
                return pl.tensor.neg(v)

            @pl.function(type=pl.FunctionType.Inline)
            def outer(self, v: {X}, k: pl.Scalar[pl.INDEX]) -> tuple[{X}, pl.Scalar[pl.INDEX]]:
                n = self.inner(v)
                m = k + 1
                return n, m

            @pl.function
            def main(self, a: {X}, k: pl.Scalar[pl.INDEX], o: pl.Out[{X}]):
                with pl.at(level=pl.Level.CORE_GROUP):
                    n, m = self.outer(a, k)
                    o = pl.tensor.assemble(o, n, [0, 0])
                return o
        """)
    got = apply(before, "inline_functions")
    assert [f.name for f in got.function_list] == ["main"]
    agree(before, got, [A, 3, out(16, 16)])


def test_what_a_helper_writes_through_a_parameter_the_caller_sees():
    before = program(f"""
        @pl.program
        class P:
            @pl.function(type=pl.FunctionType.Inline)
            def put(self, v: {X}, o: pl.Out[{X}]):
                t = pl.load(v, [0, 0], [16, 16])
                pl.store(t, [0, 0], o)

            @pl.function
            def main(self, a: {X}, o: pl.Out[{X}]):
                with pl.at(level=pl.Level.CORE_GROUP):
                    self.put(a, o)
                return o
        """)
    after = program(f"""
        @pl.program
        class P:
            @pl.function
            def main(self, a: {X}, o: pl.Out[{X}]):
                with pl.at(level=pl.Level.CORE_GROUP):
                    t = pl.load(a, [0, 0], [16, 16])
                    o = pl.store(t, [0, 0], o)
                return o
        """)
    same(apply(before, "inline_functions"), after)


def test_a_parameter_that_a_helper_rebinds_is_a_copy():
    before = program("""
        @pl.program
        class P:
            @pl.function(type=pl.FunctionType.Inline)
            def bump(self, k: pl.Scalar[pl.INDEX]) -> pl.Scalar[pl.INDEX]:
                for i in pl.range(3):
                    k = k + i
                return k

            @pl.function
            def main(self, c: pl.Tensor[[8], pl.INT32], o: pl.Out[pl.Tensor[[8], pl.INT32]]):
                with pl.at(level=pl.Level.CORE_GROUP):
                    k = pl.cast(pl.read(c, [0]), pl.INDEX)
                    m = self.bump(k)
                    pl.write(o, [0], pl.cast(k, pl.INT32))
                    pl.write(o, [1], pl.cast(m, pl.INT32))
                return o
        """)
    got = apply(before, "inline_functions")
    c = np.full(8, 5, np.int32)
    agree(before, got, [c, out(8, dtype=np.int32)])
    assert outputs(got, [c, out(8, dtype=np.int32)])[1][:2].tolist() == [5, 8]


def test_calls_inside_expressions_are_computed_before_the_statement():
    before = program("""
        @pl.program
        class P:
            @pl.function(type=pl.FunctionType.Inline)
            def twice(self, k: pl.Scalar[pl.INDEX]) -> pl.Scalar[pl.INDEX]:
                return k * 2

            @pl.function
            def main(self, k: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor[[8], pl.INDEX]]):
                with pl.at(level=pl.Level.CORE_GROUP):
                    if self.twice(k) + self.twice(k + 1) > 4:
                        pl.write(o, [0], self.twice(self.twice(k)))
                return o
        """)
    got = apply(before, "inline_functions")
    assert findings(got, IRProperty.InlineFunctionsEliminated) == []
    agree(before, got, [0, out(8, dtype=np.int64)], [3, out(8, dtype=np.int64)])


def _calling(name: str, callee: str) -> Function:
    return Function(name, [], [], EvalStmt(Call(GlobalVar(callee), ())), type=FunctionType.Inline)


def test_recursion_names_the_cycle():
    with pytest.raises(ValueError, match="a -> b -> a"):
        apply(Program([_calling("a", "b"), _calling("b", "a")]), "inline_functions")


def test_dynamic_extents_of_a_helper_become_those_of_the_argument():
    got = apply(
        program("""
        N = pl.dynamic("N")

        @pl.program
        class P:
            @pl.function(type=pl.FunctionType.Inline)
            def double(self, v: pl.Tensor[[N, 16], pl.FP32]) -> pl.Tensor[[N, 16], pl.FP32]:
                t = pl.create_tensor([N, 16], dtype=pl.FP32)
                return t

            @pl.function
            def main(self, a: pl.Tensor[[32, 16], pl.FP32]) -> pl.Tensor[[32, 16], pl.FP32]:
                z = self.double(a)
                return z
        """),
        "inline_functions",
    )
    assert findings(got, IRProperty.TypeChecked, IRProperty.AssignTypeSymmetry) == []
    assert got.function_list[0].body.stmts[0].var.type.dims == (32, 16)

"""OutlineIncoreScopes: kernels, what they take, what they write, what they return."""

import textwrap

import numpy as np
import pytest
from pass_lab import agree, apply, body, findings, main, out, outputs, program, same

from pypto.enums import FunctionType, ParamDirection
from pypto.errors import CompileError
from pypto.ir.expr import Var
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.scopes import definitions

X = "pl.Tensor[[16, 16], pl.FP32]"
XO = f"x: {X}, o: pl.Out[{X}]"
IN, OUT, INOUT = ParamDirection.In, ParamDirection.Out, ParamDirection.InOut
JUDGES = (IRProperty.SSAForm, IRProperty.TypeChecked, IRProperty.SplitIncoreOrch, IRProperty.InOutUseValid)


def outlined(text: str, params: str = XO):
    got = apply(body(text, params), "convert_to_ssa", "outline_incore_scopes")
    assert findings(got, *JUDGES) == []
    return got


def kernel(p, name="main_incore_0"):
    f = p.get_function(name)
    assert f is not None, [g.name for g in p.function_list]
    return f


def test_a_scope_becomes_a_kernel_and_a_call():
    got = outlined("""
        with pl.at(level=pl.Level.CORE_GROUP):
            y = pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], o)
        return y
        """)
    want = program(f"""
        @pl.program
        class P:
            @pl.function(type=pl.FunctionType.InCore)
            def main_incore_0(x: {X}, o: pl.Out[{X}]) -> {X}:
                r = pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], o)
                return o

            @pl.function(type=pl.FunctionType.Orchestration)
            def main(self, {XO}):
                y = self.main_incore_0(x, o)
                return y
        """)
    same(got, want)
    assert main(got).func_type is FunctionType.Orchestration


def test_directions_come_from_what_the_operators_do():
    got = outlined(
        """
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [16, 16])
            pl.store(pl.add(t, pl.load(u, [0, 0], [16, 16])), [0, 0], u)
            pl.store(t, [0, 0], o)
            pl.write(o, [0, 0], pl.read(v, [0, 0]))
        return o
        """,
        f"x: {X}, u: pl.InOut[{X}], v: {X}, o: pl.Out[{X}]",
    )
    k = kernel(got)
    assert [(p.name_hint, d) for p, d in zip(k.params, k.param_directions, strict=True)] == [
        ("x", IN), ("u", INOUT), ("o", OUT), ("v", IN)
    ]  # fmt: skip


def test_asking_for_an_extent_reads_nothing():
    got = outlined("""
        with pl.at(level=pl.Level.CORE_GROUP):
            n = pl.tensor.dim(o, 0)
            pl.store(pl.load(x, [0, 0], [16, 16], valid_shape=[n, 16]), [0, 0], o)
        return o
        """)
    assert dict(zip([p.name_hint for p in kernel(got).params], kernel(got).param_directions, strict=True)) == {"x": IN, "o": OUT}


def test_an_atomic_store_reads_what_it_adds_to():
    got = outlined("""
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], o, atomic=pl.AtomicType.Add)
        return o
        """)
    assert kernel(got).param_directions == (IN, INOUT)


def test_scalars_become_parameters_in_order_of_first_use():
    got = outlined(
        """
        for i in pl.range(2):
            with pl.at(level=pl.Level.CORE_GROUP):
                t = pl.load(x, [i * 8, 0], [8, 16])
                pl.store(pl.mul(t, f), [n + i * 8, 0], o)
        return o
        """,
        f"x: {X}, f: pl.Scalar[pl.FP32], n: pl.Scalar[pl.INDEX], o: pl.Out[{X}]",
    )
    assert [p.name_hint.split("__")[0] for p in kernel(got).params] == ["x", "i", "f", "n", "o"]
    assert not set(kernel(got).params) & set(main(got).params)


def test_writes_in_loops_and_branches_return_the_parameter():
    got = outlined(
        """
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [8, 16])
            for i in pl.range(2):
                if n > i:
                    pl.store(t, [i * 8, 0], o)
        return o
        """,
        f"{XO}, n: pl.Scalar[pl.INDEX]",
    )
    k = kernel(got)
    assert findings(got, IRProperty.ReturnParamsExplicit) == []
    assert k.body.stmts[-1].value == (k.params[[p.name_hint for p in k.params].index("o")],)
    assert dict(zip([p.name_hint for p in k.params], k.param_directions, strict=True))["o"] is OUT


def test_several_results_come_as_a_tuple():
    text = """
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [16, 16])
            n = pl.read(c, [0])
            o = pl.store(t, [0, 0], o)
            q = pl.store(pl.add(t, t), [0, 0], q)
        if n > 3:
            with pl.at(level=pl.Level.CORE_GROUP):
                q = pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], q)
        return o, q
        """
    params = f"x: {X}, c: pl.Tensor[[8], pl.INT32], o: pl.Out[{X}], q: pl.Out[{X}]"
    p = body(text, params)
    got = outlined(text, params)
    assert [s.var.name_hint.split("__")[0] for s in main(got).body.stmts[:4]] == ["main_incore_0_results", "n", "o", "q"]
    a = np.arange(256, dtype=np.float32).reshape(16, 16)
    agree(p, got, *([a, np.full(8, k, np.int32), out(16, 16), out(16, 16)] for k in (1, 5)))


def test_tensors_the_kernel_makes_are_returned_as_values():
    text = """
        with pl.at(level=pl.Level.CORE_GROUP):
            y = pl.tensor.add(x, x)
        with pl.at(level=pl.Level.CORE_GROUP):
            o = pl.tensor.assemble(o, y, [0, 0])
        return o
        """
    got = outlined(text)
    assert isinstance(kernel(got).body.stmts[-1].value[0], Var)
    assert kernel(got, "main_incore_1").param_directions == (OUT, IN)
    a = np.arange(256, dtype=np.float32).reshape(16, 16)
    agree(body(text, XO), got, [a, out(16, 16)])


def test_symbols_come_with_their_tensors_and_local_extents_become_symbols():
    text = """
        n = pl.tensor.dim(x, 0)
        u = pl.create_tensor([n, 64], dtype=pl.FP32)
        for k in pl.range(n // 16):
            with pl.at(level=pl.Level.CORE_GROUP):
                pl.store(pl.add(pl.load(x, [k * 16, 0], [16, 64]), 1.0), [k * 16, 0], u)
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(u, [0, 0], [16, 64]), [0, 0], o)
        return o
        """
    p = program(
        'N = pl.dynamic("N")\n@pl.function(type=pl.FunctionType.Orchestration)\n'
        "def main(x: pl.Tensor[[N, 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):\n"
        + textwrap.indent(textwrap.dedent(text), "    ")
    )
    got = apply(p, "convert_to_ssa", "outline_incore_scopes")
    assert findings(got, *JUDGES) == []
    first, second = kernel(got), kernel(got, "main_incore_1")
    assert [q.name_hint.split("__")[0] for q in first.params] == ["x", "k", "u"]
    symbol = first.params[2].type.shape[0]
    assert symbol not in definitions(main(got).body)
    assert symbol is second.params[0].type.shape[0]
    assert symbol is not first.params[0].type.shape[0]
    a = np.arange(32 * 64, dtype=np.float32).reshape(32, 64)
    agree(p, got, [a, out(16, 64)])


def test_extents_of_opaque_functions_are_read_as_symbols():
    p = program("""
        N = pl.dynamic("N")

        @pl.function
        def main(x: pl.Tensor[[N, 16], pl.FP32], o: pl.Out[pl.Tensor[[N, 16], pl.FP32]]):
            n = pl.tensor.dim(x, 0)
            for k in pl.range(n // 16):
                with pl.at(level=pl.Level.CORE_GROUP):
                    pl.store(pl.load(x, [k * 16, 0], [16, 16]), [k * 16, 0], o)
            return o
        """)
    got = apply(p, "convert_to_ssa", "outline_incore_scopes")
    assert main(got).body.stmts[0].value is main(got).params[0].type.shape[0]
    a = np.arange(32 * 16, dtype=np.float32).reshape(32, 16)
    agree(p, got, [a, out(32, 16)])


def test_names_by_hint_and_by_number():
    text = """
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="stage"):
            o = pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], o)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="stage"):
            o = pl.store(pl.load(x, [0, 0], [8, 16]), [0, 0], o)
        with pl.at(level=pl.Level.CORE_GROUP):
            o = pl.store(pl.load(x, [0, 0], [8, 16]), [8, 0], o)
        return o
        """
    assert [f.name for f in outlined(text).function_list] == ["main", "main_incore_0", "main_stage", "stage"]


def test_a_tile_that_leaves_its_scope_is_refused():
    p = body(
        """
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [16, 16])
        with pl.at(level=pl.Level.CORE_GROUP):
            o = pl.store(t, [0, 0], o)
        return o
        """,
        XO,
    )
    with pytest.raises(CompileError, match="the tile 't' is used outside of the scope") as e:
        apply(p, "convert_to_ssa", "outline_incore_scopes")
    assert e.value.span["line"] == 6


def test_programs_without_scopes_are_the_same_objects():
    p = outlined("return x")
    assert apply(p, "outline_incore_scopes") is p


def test_an_output_that_nobody_returns_is_written_all_the_same():
    text = """
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], o)
        """
    got = outlined(text)
    assert kernel(got).param_directions == (IN, OUT)
    a = np.arange(256, dtype=np.float32).reshape(16, 16)
    assert (outputs(got, [a, out(16, 16)])[1] == a).all()

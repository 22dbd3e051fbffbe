"""DeriveCallDirections: how a call uses each argument."""

from pass_lab import apply, findings, main, program

from pypto.enums import ArgDirection, ParamDirection
from pypto.ir.expr import Call
from pypto.ir.rewrite import walk
from pypto.ir.verify.properties import IRProperty

X = "pl.Tensor[[16, 16], pl.FP32]"
IN, OUT, INOUT, SCALAR = ArgDirection.Input, ArgDirection.OutputExisting, ArgDirection.InOut, ArgDirection.Scalar


def directions(text: str, params: str = f"x: {X}, n: pl.Scalar[pl.INDEX], o: pl.Out[{X}]", wrapper: str = ""):
    p = program(f"""
        @pl.program
        class P:
            @pl.function(type=pl.FunctionType.InCore)
            def k(x: {X}, n: pl.Scalar[pl.INDEX], o: pl.Out[{X}]) -> {X}:
                o1 = pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], o)
                return o
{wrapper}
            @pl.function(type=pl.FunctionType.Orchestration)
            def main(self, {params}):
{text}
        """)
    got = apply(p, "derive_call_directions")
    assert findings(got, IRProperty.CallDirectionsResolved) == []
    assert apply(got, "derive_call_directions") is got
    calls = [n for n in walk(main(got).body) if isinstance(n, Call) and n.op.name in ("k", "w")]
    return got, [list(c.arg_directions) for c in calls]


def test_the_first_writer_of_a_tensor_and_the_next():
    _, got = directions("""
                o1 = self.k(x, n, o)
                o2 = self.k(x, n, o1)
                return o2
        """)
    assert got == [[IN, SCALAR, OUT], [IN, SCALAR, INOUT]]


def test_different_tensors_do_not_disturb_each_other():
    _, got = directions("""
                u = pl.create_tensor([16, 16], dtype=pl.FP32)
                u1 = self.k(x, n, u)
                o1 = self.k(u1, n, o)
                return o1
        """)
    assert got == [[IN, SCALAR, OUT], [IN, SCALAR, OUT]]


def test_sequential_loops_write_again_and_parallel_ones_do_not():
    text = """
                for i, (c,) in pl.{kind}(4, init_values=(o,)):
                    r = pl.yield_(self.k(x, i, c))
                return r
        """
    assert directions(text.format(kind="range"))[1] == [[IN, SCALAR, INOUT]]
    assert directions(text.format(kind="parallel"))[1] == [[IN, SCALAR, OUT]]


def test_an_inout_parameter_of_the_caller():
    _, got = directions(
        "                r = self.k(x, n, o)\n                return r", f"x: {X}, n: pl.Scalar[pl.INDEX], o: pl.InOut[{X}]"
    )
    assert got == [[IN, SCALAR, INOUT]]


def test_branches_are_one_writer_each_for_what_follows():
    _, got = directions("""
                if n > 2:
                    r = pl.yield_(self.k(x, n, o))
                else:
                    r = pl.yield_(self.k(x, n, o))
                s = self.k(x, n, r)
                return s
        """)
    assert got == [[IN, SCALAR, OUT], [IN, SCALAR, OUT], [IN, SCALAR, INOUT]]


def test_what_one_arm_wrote_counts_behind_the_branch():
    _, got = directions("""
                if n > 2:
                    r = pl.yield_(self.k(x, n, o))
                else:
                    r = pl.yield_(o)
                s = self.k(x, n, o)
                return r, s
        """)
    assert got == [[IN, SCALAR, OUT], [IN, SCALAR, INOUT]]


def test_a_window_of_a_tensor_is_a_piece_of_it():
    _, got = directions(
        """
                w = pl.tensor.slice(o, [16, 16], [16, 0])
                r = self.k(x, n, w)
                v = pl.tensor.slice(o, [16, 16], [0, 0])
                s = self.k(x, n, v)
                return o
        """,
        f"x: {X}, n: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor[[32, 16], pl.FP32]]",
    )
    assert got == [[IN, SCALAR, OUT], [IN, SCALAR, INOUT]]


def test_wrappers_write_what_they_let_others_write():
    wrapper = f"""
            @pl.function(type=pl.FunctionType.Spmd)
            def w(self, x: {X}, n: pl.Scalar[pl.INDEX], o: {X}) -> {X}:
                r = self.k(x, n, o)
                return r
        """
    got, calls = directions("                r = self.w(x, n, o)\n                return r", wrapper=wrapper)
    assert got.get_function("w").param_directions == (ParamDirection.In, ParamDirection.In, ParamDirection.Out)
    assert calls == [[IN, SCALAR, OUT]]

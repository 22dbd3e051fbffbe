"""A tensor in global memory stays what it is, whatever is loaded from it; reads and writes keep their order."""

from __future__ import annotations

import numpy as np
import pytest
from back_lab import applied, kernel_of, raw
from convert_kit import INOUT, OUT, C, T, both, calls_of, convert, directions, kernel, of_params, param, raw_converted, values
from pass_lab import agree, ints, out

from pypto.ir.expr import Var
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType, TileType
from pypto.ir.stmt import ForStmt, IfStmt, ReturnStmt, flatten_to_stmts

X = np.arange(1024, dtype=np.float32).reshape(16, 64) % 37 - 9
contract = pytest.mark.contract


@contract("T014")
def test_parameters_keep_their_identity_and_type():
    before, after = both("o[:] = pl.add(x, 1.0)\npl.write(q, [0, 0], pl.read(x, [0, 0]))", f"x: {T}, o: {T}, q: {T}")
    assert [a is b for a, b in zip(kernel_of(before).params, kernel_of(after).params, strict=True)] == [True] * 3


@contract("T035", "T036")
def test_an_element_write_after_a_reduction_goes_to_global_memory():
    f = kernel(
        "r = pl.row_max(x)\no[0:16, 0:1] = r\npl.tensor.write(x, [0, 0], pl.const(1.0, pl.FP32))",
        f"x: pl.InOut[{T}], o: pl.Out[pl.Tensor[[16, 1], pl.FP32]]",
    )
    assert [n for n in applied(f) if n != "tile.create"] == ["tile.load", "tile.row_max", "tile.store", "tensor.write"]
    assert of_params(f, calls_of(f, "tensor.write")[0]) == "x"


@contract("T013", "T020", "T088")
def test_a_window_of_a_tensor_that_is_loaded_whole_is_loaded_from_the_tensor():
    f = kernel("o[:] = pl.add(x, 1.0)\nq[0:4, :] = pl.mul(x[4:8, :], 2.0)", f"x: {T}, o: {T}, q: {T}")
    assert "tile.slice" not in applied(f)
    assert [of_params(f, c) for c in calls_of(f, "tile.load")] == ["x", "x"]


@contract("T038")
def test_an_element_read_after_a_load_reads_global_memory():
    f = kernel("o[:] = pl.add(x, pl.row_max(x))\ns = pl.read(x, [1, 2])\nq[:] = pl.mul(x, s)", f"x: {T}, o: {T}, q: {T}")
    assert "tile.read" not in applied(f)
    assert of_params(f, calls_of(f, "tensor.read")[0]) == "x"


@contract("T039")
def test_a_returned_alias_is_the_parameter():
    f = raw_converted("y = pl.tensor.muls(x, 2.0)\nr = pl.tensor.assemble(o, y, [0, 0])\nz = x\nreturn r, z", f"x: {T}, o: {T}")
    last = flatten_to_stmts(f.body)[-1]
    assert isinstance(last, ReturnStmt)
    assert last.value[1] is param(f, "x")
    assert len(f.params) == 2


@contract("T018", "T019", "T040", "T041")
def test_a_read_behind_a_write_loads_what_was_written():
    body = "a = pl.add(x, 1.0)\npl.write(x, [0, 0], pl.const(5.0, pl.FP32))\no[:] = pl.mul(x, 2.0)\nq[:] = a"
    params = f"x: pl.InOut[{T}], o: pl.Out[{T}], q: pl.Out[{T}]"
    f = kernel(body, params)
    assert applied(f) == ["tile.load", "tile.adds", "tensor.write", "tile.load", "tile.muls", "tile.store", "tile.store"]
    (written,) = values(f, "tensor.write")
    assert calls_of(f, "tile.load")[1].args[0] is written
    agree(*both(body, params), [X, out(16, 64), out(16, 64)])


@contract("T019")
def test_each_use_of_a_tensor_that_is_written_loads_it():
    f = kernel(
        "o[:] = pl.add(x, 1.0)\nq[:] = pl.add(x, 2.0)\npl.write(x, [0, 0], pl.const(5.0, pl.FP32))", f"x: {T}, o: {T}, q: {T}"
    )
    assert applied(f).count("tile.load") == 2


@contract("T042")
def test_branches_and_rounds_load_for_themselves():
    f = kernel(
        """
        pl.write(x, [0, 0], pl.const(5.0, pl.FP32))
        if pl.read(c, [0]) > 0:
            o[:] = pl.add(x, 1.0)
        else:
            o[:] = pl.add(x, 2.0)
        for i in pl.range(4):
            q[:] = pl.add(x, 3.0)
        """,
        f"x: {T}, c: {C}, o: {T}, q: {T}",
    )
    (branch,) = [n for n in walk(f.body) if isinstance(n, IfStmt)]
    (loop,) = [n for n in walk(f.body) if isinstance(n, ForStmt)]
    places = (branch.then_body, branch.else_body, loop.body)
    assert [len(calls_of(n, "tile.load")) for n in places if n is not None] == [1, 1, 1]
    assert applied(f).count("tile.load") == 3


@contract("T043")
@pytest.mark.parametrize("result", ["return r", "return"])
def test_a_write_that_is_not_returned_happens(result):
    arrow = T if result == "return r" else ""
    f = raw_converted(
        f"w = pl.tensor.write(x, [0, 0], pl.const(1.0, pl.FP32))\ny = pl.tensor.muls(v, 2.0)\n"
        f"r = pl.tensor.assemble(o, y, [0, 0])\n{result}",
        f"x: {T}, v: {T}, o: {T}",
        arrow,
    )
    assert "tensor.write" in applied(f)
    assert directions(f)["x"] is OUT


@contract("T044")
def test_a_tensor_declared_both_ways_is_not_stored_as_a_whole():
    f = kernel("pl.write(x, [0, 0], pl.read(x, [0, 0]) + 1.0)", f"x: pl.InOut[{T}]")
    assert applied(f) == ["tensor.read", "tensor.write"]
    assert directions(f) == {"x": INOUT}


# -- what is shared --------------------------------------------------------------------------------------------------

USES = "o[:] = pl.add(x, 1.0)\nq[:] = pl.add(x, 2.0)\n"
PARAMS = f"x: {T}, o: {T}, q: {T}, c: {C}"


@contract("T010")
def test_one_load_at_the_beginning_serves_every_whole_use():
    f = kernel("if pl.read(c, [0]) > 0:\n    o[:] = pl.add(x, 1.0)\nq[:] = pl.mul(pl.add(x, 2.0), x)", PARAMS)
    assert applied(f).count("tile.load") == 1
    first = flatten_to_stmts(f.body)[0]
    assert calls_of(first, "tile.load")


@contract("T011")
@pytest.mark.parametrize(
    "write",
    [
        "p = x\npl.write(p, [0, 0], pl.const(1.0, pl.FP32))",
        "for i in pl.range(4):\n    pl.write(x, [i, 0], pl.const(1.0, pl.FP32))",
        "if pl.read(c, [0]) > 0:\n    pl.write(x, [2, 0], pl.const(1.0, pl.FP32))",
    ],
)
def test_a_write_to_what_stands_for_a_parameter_ends_sharing(write):
    f = kernel(USES + write, PARAMS)
    assert applied(f).count("tile.load") == 2


@contract("T012")
def test_a_call_that_may_write_anything_ends_sharing():
    text = f"""
        @pl.program
        class test:
            @pl.function(type=pl.FunctionType.AIV)
            def g(v: {C}) -> {C}:
                return v

            @pl.function(type=pl.FunctionType.InCore)
            def k(self, x: {T}, o: {T}, q: {T}, c: {C}):
                a = pl.tensor.adds(x, 1.0)
                p = pl.tensor.assemble(o, a, [0, 0])
                {{call}}
                b = pl.tensor.adds(x, 2.0)
                s = pl.tensor.assemble(q, b, [0, 0])
        """
    loads = {}
    for call in ("d = self.g(c)", "d = c"):
        f = convert(raw(text.format(call=call))).get_function("k")
        loads[call] = applied(f).count("tile.load")
    assert loads == {"d = self.g(c)": 2, "d = c": 1}


# -- carries and branch results --------------------------------------------------------------------------------------


@contract("T021", "T022")
def test_results_of_loops_and_branches_that_are_computed_are_tiles():
    f = kernel(
        """
        e = x
        for i in pl.range(4):
            e = pl.add(e, 1.0)
        if pl.read(c, [0]) > 0:
            g = pl.mul(e, 2.0)
        else:
            g = e
        o[:] = g
        """,
        f"x: {T}, c: {C}, o: {T}",
    )
    (loop,) = [n for n in walk(f.body) if isinstance(n, ForStmt)]
    (branch,) = [n for n in walk(f.body) if isinstance(n, IfStmt)]
    yielded = [flatten_to_stmts(b)[-1].value[0].type for b in (loop.body, branch.then_body, branch.else_body) if b is not None]
    types = [loop.iter_args[0].type, loop.return_vars[0].type, branch.return_vars[0].type, *yielded]
    assert all(isinstance(t, TileType) and t == types[0] for t in types)
    assert [n for n in applied(f) if n.startswith("tensor.")] == ["tensor.read"]


@contract("T023")
def test_a_tensor_that_a_loop_writes_and_hands_on_stays_a_tensor():
    f = kernel("for i in pl.range(4):\n    o[i * 4:i * 4 + 4, :] = x[i * 4:i * 4 + 4, :]", f"x: {T}, o: {T}")
    (loop,) = [n for n in walk(f.body) if isinstance(n, ForStmt)]
    assert loop.iter_args[0].type is param(f, "o").type
    assert loop.iter_args[0].initValue is param(f, "o")
    assert isinstance(loop.return_vars[0].type, TensorType)


@contract("T024")
def test_a_computed_carry_has_one_type_from_its_beginning_on():
    f = kernel("e = x\nfor i in pl.range(4):\n    e = pl.add(e, 1.0)\no[:] = e", f"x: {T}, o: {T}")
    (loop,) = [n for n in walk(f.body) if isinstance(n, ForStmt)]
    carry = loop.iter_args[0]
    (yielded,) = flatten_to_stmts(loop.body)[-1].value
    assert isinstance(carry.type, TileType)
    assert isinstance(carry.initValue, Var)
    assert carry.initValue.type == carry.type == yielded.type == loop.return_vars[0].type


@contract("T024")
@pytest.mark.parametrize("later", ["x", "y"])
def test_a_tensor_that_is_yielded_for_a_computed_carry_is_loaded(later):
    body = f"e = pl.add(x, 1.0)\nfor i in pl.range(2):\n    o[:] = e\n    e = {later}\nq[:] = e\n"
    body += "pl.write(y, [0, 0], pl.const(1.0, pl.FP32))"
    params = f"x: {T}, y: pl.InOut[{T}], o: pl.Out[{T}], q: pl.Out[{T}]"
    f = kernel(body, params)
    (loop,) = [n for n in walk(f.body) if isinstance(n, ForStmt)]
    at = next(i for i, a in enumerate(loop.iter_args) if a.name_hint.startswith("e"))
    assert isinstance(flatten_to_stmts(loop.body)[-1].value[at].type, TileType)
    agree(*both(body, params), [X, X + 1, out(16, 64), out(16, 64)])


def test_kernels_with_all_of_this_keep_the_numbers():
    body = """
        e = x
        for i in pl.range(4):
            e = pl.add(e, x)
            pl.write(x, [i, 1], pl.read(x, [i + 1, 2]))
        if pl.read(c, [0]) > 0:
            g = pl.mul(e, 2.0)
        else:
            g = x
        o[:] = g
        """
    before, after = both(body, f"x: pl.InOut[{T}], c: {C}, o: pl.Out[{T}]")
    agree(before, after, [X, ints(1), out(16, 64)], [X, ints(-1), out(16, 64)])

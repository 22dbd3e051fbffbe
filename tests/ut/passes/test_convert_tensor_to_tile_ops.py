"""Tensors become tiles: where operands are loaded, where results go, what stays in global memory."""

import numpy as np
import pytest
from back_lab import applied, call_of, kernel_of, raw, scope, through
from pass_lab import FRONT, agree, apply, ints, out, program, same

from pypto.enums import MemorySpace, ParamDirection
from pypto.errors import CompileError
from pypto.ir.expr import Call
from pypto.ir.rewrite import walk
from pypto.passes.context import PassOptions
from pypto.passes.convert_tensor_to_tile_ops import convert_tensor_to_tile_ops

T = "pl.Tensor[[16, 64], pl.FP32]"
IN, OUT, INOUT = ParamDirection.In, ParamDirection.Out, ParamDirection.InOut


def convert(p):
    made = convert_tensor_to_tile_ops.run(p, PassOptions())
    assert convert_tensor_to_tile_ops.run(made, PassOptions()) is made
    return made


def kernel(body: str, params: str):
    return kernel_of(through(scope(body, params), "convert_tensor_to_tile_ops"))


def directions(f):
    return {p.name_hint: d for p, d in zip(f.params, f.param_directions, strict=True)}


@pytest.mark.contract("T001", "T005", "T025", "T183")
def test_operands_are_loaded_and_results_stored_into_parameters_that_callers_create():
    before = raw(f"""
        @pl.program
        class test:
            @pl.function(type=pl.FunctionType.InCore)
            def k(x: {T}) -> {T}:
                y: {T} = pl.tensor.add(x, x)
                return y

            @pl.function(type=pl.FunctionType.Orchestration)
            def main(self, a: {T}) -> {T}:
                r: {T} = self.k(a)
                return r
        """)
    after = raw(f"""
        @pl.program
        class test:
            @pl.function(type=pl.FunctionType.InCore)
            def k(x: {T}, ret0_out: pl.Out[{T}]) -> {T}:
                t = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)
                y = pl.tile.add(t, t)
                s: {T} = pl.tile.store(y, [0, 0], ret0_out)
                return s

            @pl.function(type=pl.FunctionType.Orchestration)
            def main(self, a: {T}) -> {T}:
                ret0_out: {T} = pl.tensor.create([16, 64], dtype=pl.FP32)
                r: {T} = self.k(a, ret0_out)
                return r
        """)
    same(convert(before), after)


@pytest.mark.contract("T065", "T066", "T067")
def test_wrappers_forward_the_new_parameter_and_allocate_nothing():
    after = convert(
        raw(f"""
        @pl.program
        class test:
            @pl.function(type=pl.FunctionType.InCore)
            def k(x: {T}) -> {T}:
                y: {T} = pl.tensor.add(x, x)
                return y

            @pl.function(type=pl.FunctionType.Spmd)
            def k_spmd(self, x: {T}) -> {T}:
                r: {T} = self.k(x)
                return r

            @pl.function(type=pl.FunctionType.Orchestration)
            def main(self, a: {T}) -> {T}:
                r: {T} = self.k_spmd(a)
                return r
        """)
    )
    spmd = after.get_function("k_spmd")
    assert directions(spmd) == {"x": IN, "ret0_out": OUT}
    assert [n.op.name for n in walk(spmd.body) if isinstance(n, Call)] == ["k"]
    assert call_of(spmd, "k").args == spmd.params
    assert len(call_of(after.get_function("main"), "k_spmd").args) == 2
    assert applied(after.get_function("main")) == ["tensor.create", "k_spmd"]


@pytest.mark.contract("T010")
def test_one_load_serves_every_use_of_a_tensor_that_is_never_written():
    f = kernel("o[:] = pl.add(pl.mul(x, x), pl.row_expand_sub(x, pl.row_max(x)))", f"x: {T}, o: pl.Out[{T}]")
    assert applied(f).count("tile.load") == 1


@pytest.mark.contract("T019", "T036", "T040")
def test_a_tensor_that_is_written_is_loaded_at_each_use():
    f = kernel(
        """
        r = pl.row_max(x)
        pl.write(x, [0, 0], pl.const(1.0, pl.FP32))
        o[:] = pl.row_expand_add(x, r)
        """,
        f"x: pl.InOut[{T}], o: pl.Out[{T}]",
    )
    names = [n for n in applied(f) if n in ("tile.load", "tensor.write", "tile.row_max")]
    assert names == ["tile.load", "tile.row_max", "tensor.write", "tile.load"]
    assert "tile.write" not in applied(f)


def test_slices_are_loaded_where_they_are_written_down():
    f = kernel("o[0:4, 0:32] = pl.mul(x[4:8, 32:64], 2.0)", f"x: {T}, o: pl.Out[{T}]")
    assert applied(f) == ["tile.load", "tile.muls", "tile.store"]


@pytest.mark.contract("T027", "T030")
def test_directions_follow_what_is_written():
    f = kernel(
        """
        o[0:8, :] = pl.mul(x[0:8, :], 2.0)
        q[:] = pl.add(q, 1.0)
        """,
        f"x: {T}, o: {T}, q: {T}",
    )
    assert directions(f) == {"x": IN, "o": OUT, "q": INOUT}


def test_a_computed_carry_starts_from_a_tile_and_a_handle_stays_a_handle():
    f = kernel(
        """
        e = x
        for i in pl.range(4):
            e = pl.add(e, 1.0)
            o[i * 4:i * 4 + 4, :] = e[0:4, :]
        """,
        f"x: {T}, o: pl.Out[{T}]",
    )
    names = applied(f)
    assert names.count("tile.load") == 1
    assert names.count("tile.store") == 1
    assert "tile.slice" in names


def test_branches_that_mix_tensor_and_computed_value_load_in_the_arm():
    f = kernel(
        """
        if pl.read(c, [0]) > 0:
            e = pl.mul(x, 2.0)
        else:
            e = y
        o[:] = pl.add(e, 1.0)
        """,
        f"x: {T}, y: {T}, c: pl.Tensor[[8], pl.INT32], o: pl.Out[{T}]",
    )
    assert applied(f).count("tile.load") == 2


@pytest.mark.contract("T026")
def test_a_result_that_is_only_assembled_never_has_to_fit_on_the_chip():
    f = kernel_of(
        convert(
            raw("""
        @pl.program
        class test:
            @pl.function(type=pl.FunctionType.InCore)
            def k(x: pl.Tensor[[4096, 64], pl.FP32]) -> pl.Tensor[[4096, 64], pl.FP32]:
                acc0 = pl.tensor.create([4096, 64], dtype=pl.FP32)
                for i, (acc,) in pl.range(256, init_values=(acc0,)):
                    s = pl.tensor.slice(x, [16, 64], [i * 16, 0])
                    d = pl.tensor.muls(s, 2.0)
                    acc1 = pl.tensor.assemble(acc, d, [i * 16, 0])
                    r = pl.yield_(acc1)
                return r
        """)
        )
    )
    assert applied(f) == ["tile.load", "tile.muls", "tile.store"]
    assert directions(f) == {"x": IN, "ret0_out": OUT}


@pytest.mark.contract("T026")
@pytest.mark.parametrize(("second", "one"), [("a1", True), ("acc0", False)])
def test_a_result_assembled_into_twice_from_one_state_is_two_tensors(second, one):
    f = kernel_of(
        convert(
            raw(f"""
        @pl.program
        class test:
            @pl.function(type=pl.FunctionType.InCore)
            def k(x: {T}) -> pl.Tensor[[32, 64], pl.FP32]:
                acc0 = pl.tensor.create([32, 64], dtype=pl.FP32)
                d = pl.tensor.muls(x, 2.0)
                a1 = pl.tensor.assemble(acc0, d, [0, 0])
                a2 = pl.tensor.assemble({second}, d, [16, 0])
                return a2
        """)
        )
    )
    assert ("tile.assemble" in applied(f)) is not one
    assert applied(f).count("tile.store") == (2 if one else 1)


def test_a_result_that_is_read_while_it_is_assembled_stays_a_tile():
    f = kernel(
        """
        acc = pl.full([16, 64], dtype=pl.FP32, value=0.0)
        for i in pl.range(4):
            acc = pl.add(acc, x)
        o[:] = acc
        """,
        f"x: {T}, o: pl.Out[{T}]",
    )
    assert applied(f).count("tile.store") == 1


# -- bulk stores and element writes ----------------------------------------------------------------------------------

I = "pl.Tensor[[4, 32], pl.INT32]"  # noqa: E741


@pytest.mark.contract("T045", "T046", "T047", "T048")
@pytest.mark.parametrize(
    "body",
    [
        "o[0:1, :] = pl.full([1, 32], dtype=pl.INT32, value=-1)\nfor i in pl.range(4):\n    pl.write(o, [1, i], v)",
        "p = o\np[0:1, :] = pl.full([1, 32], dtype=pl.INT32, value=-1)\npl.write(o, [3, 0], v)",
        "for i in pl.range(4):\n    pl.write(o, [0, i], v)\n    o[2:3, :] = pl.full([1, 32], dtype=pl.INT32, value=-1)",
    ],
)
def test_both_kinds_of_write_of_one_tensor_are_refused(body):
    with pytest.raises(CompileError, match="both in bulk") as e:
        kernel("v = pl.read(c, [0])\n" + body, f"c: pl.Tensor[[8], pl.INT32], o: pl.Out[{I}]")
    assert e.value.code == "C023"
    assert e.value.span["line"] > 4
    assert e.value.hint


@pytest.mark.contract("T049")
def test_different_tensors_may_be_written_differently():
    f = kernel(
        "o[0:1, :] = pl.full([1, 32], dtype=pl.INT32, value=-1)\npl.write(q, [1, 2], pl.const(3, pl.INT32))", f"o: {I}, q: {I}"
    )
    assert directions(f) == {"o": OUT, "q": OUT}


@pytest.mark.contract("T055")
def test_a_whole_fill_followed_by_element_writes_is_staged():
    f = kernel(
        """
        v = pl.read(c, [0])
        o[:] = pl.full([4, 32], dtype=pl.INT32, value=-1)
        for i in pl.range(4):
            pl.write(o, [i, 0], v)
        """,
        f"c: pl.Tensor[[8], pl.INT32], o: pl.Out[{I}]",
    )
    assert applied(f) == ["tensor.read", "tile.full", "tile.write", "tile.store"]


@pytest.mark.contract("T056")
def test_a_partial_fill_is_not_staged():
    with pytest.raises(CompileError, match="both in bulk"):
        kernel(
            "o[0:2, :] = pl.full([2, 32], dtype=pl.INT32, value=-1)\npl.write(o, [3, 0], pl.read(c, [0]))",
            f"c: pl.Tensor[[8], pl.INT32], o: {I}",
        )


FILL = "for i in pl.range({n}):\n    pl.write(o, [{at}], pl.const(7, pl.INT32))\n"


@pytest.mark.contract("T052", "T053", "T054")
@pytest.mark.parametrize(
    ("n", "at", "bulk"),
    [
        (32, "2, i", True),
        (8, "1, i + 8", True),
        (32, "i // 8, i % 8", False),
        (6, "1, i", False),
        (8, "1, i + 4", False),
        (4, "i, 0", False),
    ],
)
def test_contiguous_aligned_constant_fills_are_bulk(n, at, bulk):
    f = kernel(FILL.format(n=n, at=at), f"o: pl.Out[{I}]")
    assert applied(f) == (["tile.full", "tile.store"] if bulk else ["tensor.write"])


@pytest.mark.contract("T052")
@pytest.mark.parametrize(
    ("n", "second", "bulk"),
    [(8, "o, [0, i + 8]", True), (16, "o, [0, i + 8]", False), (16, "o, [1, i]", True), (16, "q, [0, i]", True)],
)
def test_fills_that_interleave_stay_as_they_are(n, second, bulk):
    first = f"for i in pl.range({n}):\n    pl.write(o, [0, i], pl.const(1, pl.INT32))\n"
    text = first + f"    pl.write({second}, pl.const(2, pl.INT32))\n"
    f = kernel(text, f"o: pl.Out[{I}], q: pl.Out[{I}]")
    assert applied(f) == (["tile.full", "tile.store"] * 2 if bulk else ["tensor.write"] * 2)


def test_a_fill_may_meet_a_bulk_store():
    f = kernel(FILL.format(n=32, at="2, i") + "o[0:1, :] = pl.full([1, 32], dtype=pl.INT32, value=-1)", f"o: pl.Out[{I}]")
    assert applied(f) == ["tile.full", "tile.store", "tile.full", "tile.store"]


# -- what cannot be loaded -------------------------------------------------------------------------------------------


def test_a_tensor_larger_than_the_memory_is_refused_with_both_sizes():
    with pytest.raises(CompileError, match=r"'x' is used as a whole: 1048576 bytes, but Vec memory holds 188416 bytes") as e:
        kernel("o[:] = pl.add(x, 1.0)", "x: pl.Tensor[[4096, 64], pl.FP32], o: pl.Out[pl.Tensor[[4096, 64], pl.FP32]]")
    assert "pl.slice" in e.value.hint
    assert e.value.span["line"] == 5


def test_a_tensor_of_run_time_shape_is_refused_as_a_whole():
    text = "@pl.function\ndef main(x: pl.Tensor[[pl.dynamic('M'), 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):\n"
    p = program(text + "    with pl.at(level=pl.Level.CORE_GROUP):\n        o[:] = pl.add(x, 1.0)[0:16, :]\n")
    with pytest.raises(CompileError, match="known only at run time"):
        through(p, "convert_tensor_to_tile_ops")


def test_windows_of_a_tensor_of_run_time_shape_are_loaded():
    text = "@pl.function\ndef main(x: pl.Tensor[[pl.dynamic('M'), 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):\n"
    p = program(text + "    with pl.at(level=pl.Level.CORE_GROUP):\n        o[:] = pl.add(pl.slice(x, [16, 64], [0, 0]), 1.0)\n")
    assert applied(kernel_of(through(p, "convert_tensor_to_tile_ops"))) == ["tile.load", "tile.adds", "tile.store"]


# -- cache policy ----------------------------------------------------------------------------------------------------


@pytest.mark.contract("T059", "T060", "T061", "T062", "T063")
def test_a_declared_cache_policy_reaches_every_load_and_leaves_the_function():
    before = raw(f"""
        @pl.program
        class test:
            @pl.function(type=pl.FunctionType.InCore)
            def k(x: {T}, y: {T}, o: pl.Out[{T}]) -> {T}:
                pl.func_attr({{"cache_policy": [(0, 1)]}})
                t = pl.tile.load(x, [0, 0], [16, 64], [16, 64], cache=0)
                v = pl.tile.load(x, [0, 0], [16, 64], [16, 64])
                u = pl.tensor.add(x, y)
                r = pl.tensor.assemble(o, u, [0, 0])
                return r
        """)
    f = kernel_of(convert(before))
    assert "cache_policy" not in f.attrs
    loads = [n for n in walk(f.body) if isinstance(n, Call) and n.op.name == "tile.load"]
    caches = {n.args[0].name_hint: [c.kwargs.get("cache") for c in loads if c.args[0] is n.args[0]] for n in loads}
    assert caches == {"x": [1, 0, 1], "y": [None]}


def test_loads_go_where_their_consumer_reads():
    f = kernel("o[:] = pl.add(x, 1.0)", f"x: {T}, o: pl.Out[{T}]")
    assert call_of(f, "tile.load").kwargs["target_memory"] is MemorySpace.Vec


def test_the_input_program_is_untouched():
    p = apply(
        scope("o[:] = pl.add(x, 1.0)", f"x: {T}, o: pl.Out[{T}]"), "convert_to_ssa", "flatten_call_expr", "outline_incore_scopes"
    )
    before = p.function_list
    convert_tensor_to_tile_ops.run(p, PassOptions())
    assert p.function_list is before
    assert applied(kernel_of(p)) == ["tensor.adds", "tensor.assemble"]


@pytest.mark.parametrize(
    "body",
    [
        "o[:] = pl.full([4, 32], dtype=pl.INT32, value=-1)\nfor i in pl.range(4):\n    pl.write(o, [i, 0], pl.read(c, [0]))",
        "if pl.read(c, [1]) > 0:\n    pl.write(o, [3, 1], pl.read(c, [0]))\n" + FILL.format(n=32, at="2, i"),
        FILL.format(n=8, at="1, i + 8") + "o[0:1, :] = pl.full([1, 32], dtype=pl.INT32, value=-1)",
    ],
)
def test_fills_and_staging_keep_the_numbers(body):
    p = apply(scope(body, f"c: pl.Tensor[[8], pl.INT32], o: pl.Out[{I}]"), *FRONT)
    if "if " in body:
        with pytest.raises(CompileError, match="both in bulk"):
            convert(p)
    else:
        agree(p, convert(p), [ints(5, 1), out(4, 32, dtype=np.int32)], [ints(6, 0), out(4, 32, dtype=np.int32)])

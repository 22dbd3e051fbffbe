"""`@pl.function`, `@pl.program`, `@pl.inline`: what the decorated definitions become."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from frontend_kit import error, f32, module

import pypto.language as pl
from pypto.debug import interpret
from pypto.enums import FunctionType, Level, MemorySpace, ParamDirection, Role, SplitMode
from pypto.errors import NotSupportedError, ParserSyntaxError, PyptoWarning
from pypto.ir.expr import ConstInt
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TensorType, TileType
from pypto.ir.stmt import AssignStmt, flatten_to_stmts
from pypto.ir.types import ScalarType, TupleType

N = pl.dynamic("N")


@pl.function(type=pl.FunctionType.InCore)
def scale(
    x: pl.Tensor[[32, 32], pl.FP32], k: pl.Scalar[pl.FP32], o: pl.Out[pl.Tensor[[32, 32], pl.FP32]]
) -> pl.Tensor[[32, 32], pl.FP32]:
    """Doubles, and more."""
    t = pl.load(x, [0, 0], [32, 32])
    return pl.store(pl.mul(t, k), [0, 0], o)


@pl.inline
def bump(t):  # type: ignore[no-untyped-def]
    return pl.add(t, 1.0)


@pl.program
class Whole:
    @pl.function(type=pl.FunctionType.InCore)
    def twice(self, x: pl.Tensor[[16, 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]) -> pl.Tensor[[16, 64], pl.FP32]:
        o[:] = pl.add(bump(x), bump(x))
        return o

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[16, 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]) -> pl.Tensor[[16, 64], pl.FP32]:
        o = self.twice(x, o)
        return o

    @pl.function(type=pl.FunctionType.InCore)
    def without_self(x: pl.Tensor[[4], pl.FP32]):  # type: ignore[no-untyped-def]
        pass


def test_a_function() -> None:
    assert isinstance(scale, Function)
    assert (scale.name, scale.func_type) == ("scale", FunctionType.InCore)
    assert (scale.level, scale.role) == (Level.CHIP_DIE, Role.SubWorker)
    assert [p.name_hint for p in scale.params] == ["x", "k", "o"]
    assert scale.param_directions == (ParamDirection.In, ParamDirection.In, ParamDirection.Out)
    assert scale.return_types == (TensorType([32, 32], pl.FP32),)
    first, last = flatten_to_stmts(scale.body)
    assert isinstance(first, AssignStmt)
    assert first.var.type == TileType([32, 32], pl.FP32, None, None, MemorySpace.Vec)
    assert last.span.begin_line == first.span.begin_line + 1
    assert (first.span.source, first.span.ordinal) == (0, 2)


def test_a_program() -> None:
    assert isinstance(Whole, Program)
    assert Whole.name == "Whole"
    assert [f.name for f in Whole.function_list] == ["main", "twice", "without_self"]
    a, o = np.ones((16, 64), np.float32), f32(16, 64)
    interpret(Whole, [a, o], entry="main")
    np.testing.assert_array_equal(o, 4.0)
    assert len({s.span.source for f in Whole.function_list for s in flatten_to_stmts(f.body) if s.span.is_valid()}) == 2


def test_a_module_level_function_joins_the_program() -> None:
    space = module(
        """
        @pl.program
        class P:
            @pl.function(type=pl.FunctionType.Orchestration)
            def main(self, x: pl.Tensor[[32, 32], pl.FP32], o: pl.Out[pl.Tensor[[32, 32], pl.FP32]]):
                o = scale(x, 2.0, o)
                return o
        """,
        scale=scale,
    )
    assert [f.name for f in space["P"].function_list] == ["main", "scale"]
    o = f32(32, 32)
    interpret(space["P"], [np.ones((32, 32), np.float32), o], entry="main")
    np.testing.assert_array_equal(o, 2.0)


def test_two_programs_of_one_name_in_one_file() -> None:
    space = module(
        """
        def build(k):
            if k == 1:
                @pl.program
                class P:
                    @pl.function
                    def f(self, x: pl.Tensor[[4], pl.FP32]): return x
            else:
                @pl.program
                class P:
                    @pl.function
                    def g(self, x: pl.Tensor[[k], pl.FP32]): return x
            return P
        p, q = build(1), build(2)
        """
    )
    assert [f.name for f in space["p"].function_list] == ["f"]
    assert [f.name for f in space["q"].function_list] == ["g"]
    assert space["q"].get_function("g").params[0].type.dims == (2,)


def test_symbols_are_one_variable_in_a_program() -> None:
    space = module(
        """
        @pl.program
        class P:
            @pl.function
            def f(self, x: pl.Tensor[[pl.dynamic("N"), 4], pl.FP32]): return x
            @pl.function
            def g(self, x: pl.Tensor[[pl.dynamic("N") * 2, 4], pl.FP32], y: pl.Tensor[[N, 4], pl.FP32]): return y
        """,
        N=N,
    )
    f, g = space["P"].get_function("f"), space["P"].get_function("g")
    assert f.params[0].type.shape[0] is g.params[1].type.shape[0] is g.params[0].type.shape[0].left


def test_results_of_calls_speak_the_callers_extents() -> None:
    space = module(
        """
        @pl.program
        class P:
            @pl.function(type=pl.FunctionType.InCore)
            def f(self, x: pl.Tensor[[N, 4], pl.FP32], o: pl.Out[pl.Tensor[[N, 4], pl.FP32]]) -> pl.Tensor[[N, 4], pl.FP32]:
                return o
            @pl.function(type=pl.FunctionType.Orchestration)
            def main(self, x: pl.Tensor[[8, 4], pl.FP32], o: pl.Out[pl.Tensor[[8, 4], pl.FP32]]):
                o = self.f(x, o)
                return o
        """,
        N=N,
    )
    call = flatten_to_stmts(space["P"].get_function("main").body)[0].value  # type: ignore[attr-defined]
    assert call.type.dims == (8, 4)


def test_missing_return_annotations_leave_return_types_empty() -> None:
    space = module(
        """
        @pl.program
        class P:
            @pl.function
            def f(self, x: pl.Tensor[[4], pl.FP32]):
                return x, x
            @pl.function
            def g(self, x: pl.Tensor[[4], pl.FP32]) -> tuple[pl.Tensor[[4], pl.FP32], pl.Tensor[[4], pl.FP32]]:
                y, z = self.f(x)
                return y, z
        """
    )
    f, g = space["P"].get_function("f"), space["P"].get_function("g")
    assert f.return_types == ()
    assert len(g.return_types) == 2
    call = flatten_to_stmts(g.body)[0].value  # type: ignore[attr-defined]
    assert isinstance(call.type, TupleType)


def test_function_attributes() -> None:
    space = module(
        """
        @pl.function(type=pl.FunctionType.AIV, auto_scope=False)
        def f(x: pl.Tensor[[4], pl.FP32]):
            "doc"
            pl.func_attr({"split": pl.SplitMode.UP_DOWN})
            pl.func_attr({"windowize": True})
            return x
        """
    )
    f = space["f"]
    assert dict(f.attrs) == {"auto_scope": False, "split": 1, "windowize": True}
    assert f.split is SplitMode.UP_DOWN
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        module("@pl.function(attrs={'split': pl.SplitMode.UP_DOWN})\ndef f(x: pl.Tensor[[4], pl.FP32]): return x\n")
    assert [w.category for w in seen] == [PyptoWarning]


def test_decorator_arguments_are_checked() -> None:
    with pytest.raises(ParserSyntaxError, match=r"pl\.FunctionType"):
        pl.function(type="InCore")
    with pytest.raises(ParserSyntaxError, match="auto_scope"):
        pl.function(auto_scope=1)
    with pytest.raises(NotSupportedError, match="external_source"):
        pl.function(external_source="k.cpp")


def test_annotated_types() -> None:
    space = module(
        """
        BUF = pl.MemRef(slots=2)
        @pl.function(type=pl.FunctionType.InCore)
        def f(x: pl.Tensor[[16, 64], pl.FP16, pl.TensorView(stride=[128, 1], layout=pl.ND)],
              y: pl.Tensor[[16, 64], pl.FP16, pl.NZ], n: pl.Scalar[pl.INDEX]):
            t: pl.Tile[[8, 64], pl.FP16, BUF[1], pl.Mem.Vec, pl.TileView(valid_shape=[8, n])] = pl.load(
                x, [0, 0], [8, 64], valid_shape=[8, n])
            k: pl.Scalar[pl.INT32] = 7
            return t
        """
    )
    x, y, n = (p.type for p in space["f"].params)
    assert [d.value for d in x.tensor_view.stride] == [128, 1]
    assert y.tensor_view.layout is pl.NZ
    assert n == ScalarType(pl.INDEX)
    t, k = flatten_to_stmts(space["f"].body)[:2]
    memref = t.var.type.memref  # type: ignore[attr-defined]
    assert (memref.name_hint, memref.slot_count_, memref.is_pinned_) == ("BUF", 2, True)
    assert isinstance(k.value, ConstInt)  # type: ignore[attr-defined]
    assert k.value.dtype is pl.INT32  # type: ignore[attr-defined]


def test_declared_allocations_have_one_name() -> None:
    text = """
    A = pl.MemRef()
    {}
    @pl.function
    def f(x: pl.Tensor[[16, 64], pl.FP16]):
        t: pl.Tile[[8, 64], pl.FP16, A, pl.Mem.Vec] = pl.load(x, [0, 0], [8, 64])
        u: pl.Tile[[8, 64], pl.FP16, B, pl.Mem.Vec] = pl.load(x, [0, 0], [8, 64])
        return t
    """
    module(text.format("B = pl.MemRef('other')"))
    assert "two declared allocations" in error(lambda: module(text.format("B = pl.MemRef('A')"))).message


def test_inline_splices_with_its_own_names() -> None:
    space = module(
        """
        @pl.inline
        def norm(t, eps=1.0):
            s = pl.mul(t, t)
            return pl.add(s, eps)
        @pl.function
        def f(x: pl.Tensor[[4, 4], pl.FP32], s: pl.Scalar[pl.FP32]):
            y = norm(norm(x), eps=s)
            return y
        @pl.function
        def g(x: pl.Tensor[[4, 4], pl.FP32], s: pl.Scalar[pl.FP32]):
            a = pl.mul(x, x)
            b = pl.add(a, 1.0)
            c = pl.mul(b, b)
            y = pl.add(c, s)
            return y
        """
    )
    text = space["f"].as_python(concise=True)
    assert text.count("pl.tensor.mul") == 2
    assert "pl.tensor.adds" in text
    with pytest.raises(TypeError, match="only inside a kernel"):
        space["norm"](1)

"""`@pl.jit` kernels for one specialization: parameters, constants on demand, symbols, helpers, places."""

from __future__ import annotations

import pickle
import types
from typing import Any

import numpy as np
import pytest
from frontend_kit import Kernel, entry, error, f32, i32, incore, inline, kernel, module, opaque, printed, round_trip

import pypto.language as pl
from pypto.debug import interpret
from pypto.enums import FunctionType, ParamDirection
from pypto.errors import PyptoWarning
from pypto.frontend import ScalarArg, StaticArg, StaticParameterNeeded, TensorArg, dynamic_dims, parse_kernel, signature
from pypto.ir.expr import Call, Var
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import ForStmt, InCoreScopeStmt, flatten_to_stmts

N = pl.dynamic("N")


@entry
def saxpy(a: pl.Tensor, b: pl.Tensor, s: pl.FP32 = 3.0, *, o: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.add(pl.mul(a, s), b)
    return o


def test_the_entry() -> None:
    chosen = saxpy.specialization(f32(32, 128), f32(32, 128), o=f32(32, 128))
    made = parse_kernel(saxpy.source, chosen)
    f = made.program.get_function("saxpy")
    assert f is not None
    assert f.func_type is FunctionType.Orchestration
    assert [p.name_hint for p in f.params] == ["a", "b", "s", "o"]
    assert f.param_directions[-1] is ParamDirection.Out
    assert f.return_types == (TensorType([32, 128], pl.FP32),)
    assert made.sources == (saxpy.source,)
    scope, _ = flatten_to_stmts(f.body)
    assert isinstance(scope, InCoreScopeStmt)


def test_signatures() -> None:
    a, _, s, o = signature(saxpy.source)
    assert (a.kind, a.dims, a.direction) == ("tensor", None, ParamDirection.In)
    assert (s.kind, s.dtype, s.default, s.keyword_only) == ("scalar", pl.FP32, 3.0, False)
    assert (o.keyword_only, o.direction) == (True, ParamDirection.Out)

    @entry
    def k(a: pl.Tensor[[N, 64, N * 2], pl.FP16], b):  # type: ignore[no-untyped-def]
        return a

    a, b = signature(k.source)
    assert (a.dtype, a.dims) == (pl.FP16, ("N", 64, None))
    assert b.kind == "any"


# -- constants on demand -------------------------------------------------------------------------------------------

SCALARS = "a: pl.Tensor, n: pl.INDEX, o: pl.Out[pl.Tensor]"


@pytest.mark.parametrize(
    "body",
    [
        "t = pl.load(a, [0, 0], [n, 64])\npl.store(t, [0, 0], o)",
        "m = n * 2\npl.store(pl.load(a, [0, 0], [m // 2, 64]), [0, 0], o)",
        "t = pl.create_tile([n, 64], dtype=pl.FP32)",
        "o[0:n, :] = pl.mul(a[0:n, :], 2.0)",
        "o[:] = pl.mul(a, n)",
        "for i in pl.unroll(n):\n    o[:] = pl.add(a, 1.0)",
        "for i in pl.pipeline(4, stage=n):\n    o[:] = pl.add(a, 1.0)",
        "pl.static_assert(n > 3, 'too small')",
        "t = pl.load(a, [0, 0], [8, 64])\nu = t[0:n, :]",
    ],
)
def test_a_parameter_that_must_be_static_is_named(body: str) -> None:
    k = kernel(body, SCALARS)
    chosen = k.specialization(f32(16, 64), 4, f32(16, 64))
    with pytest.raises(StaticParameterNeeded) as e:
        parse_kernel(k.source, chosen)
    assert (e.value.name, e.value.function) == ("n", "k")
    assert pickle.loads(pickle.dumps(e.value)).name == "n"
    made = parse_kernel(k.source, {**chosen, "n": StaticArg(4)}).program
    f = made.get_function("k")
    assert f is not None
    assert [p.name_hint for p in f.params] == ["a", "o"]


@pytest.mark.parametrize(
    "body",
    [
        "t = pl.load(a, [n, 0], [8, 64], valid_shape=[n, 64])",
        "for i in pl.range(n):\n    o[:] = pl.add(a, 1.0)",
        "if n > 3:\n    o[:] = pl.add(a, 1.0)",
        "o[n:n + 8, :] = a[0:8, :]",
        "x = pl.min(n * 3 + 1, 7) // 2",
        "pl.write(o, [n, 0], 1.0)",
    ],
)
def test_other_scalars_stay_run_time_values(body: str) -> None:
    k = kernel(body, SCALARS)
    made = parse_kernel(k.source, k.specialization(f32(16, 64), 4, f32(16, 64))).program
    f = made.get_function("k")
    assert f is not None
    assert [p.name_hint for p in f.params] == ["a", "n", "o"]


def test_a_reassigned_parameter_is_no_constant() -> None:
    k = kernel("n = n + pl.cast(pl.read(a, [0, 0]), pl.INDEX)\nt = pl.load(a, [0, 0], [n, 64])", SCALARS)
    e = error(lambda: k.parse(f32(16, 64), 4, f32(16, 64)))
    assert "static" in str(e)


def test_static_values_of_every_kind() -> None:
    body = "t = pl.create_tile(shape, dtype=dt)\nif flag:\n    pl.store(pl.load(a, [0, 0], shape), [0, 0], o)"
    k = kernel(body, "a: pl.Tensor, shape, dt, flag, o: pl.Out[pl.Tensor]")
    values = {"shape": StaticArg((8, 64)), "dt": StaticArg(pl.FP16), "flag": StaticArg(True)}
    chosen = {n: TensorArg((16, 64), pl.FP32) for n in ("a", "o")}
    text = parse_kernel(k.source, {**chosen, **values}).program.as_python(concise=True)
    assert "pl.tile.create([8, 64], dtype=pl.FP16" in text
    assert "if True:" in text


# -- closure values ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1.0"), (1.0, "1.0"), (-0.0, "pl.const(-0.0, pl.FP32)"), (float("nan"), 'pl.const(float("nan"), pl.FP32)')],
)
def test_numbers_take_the_element_type(value: Any, text: str) -> None:
    assert f"pl.tensor.muls(a, {text})" in printed("o[:] = pl.mul(a, v)", v=value)


def test_constants_fold_by_pythons_rules() -> None:
    text = printed("x = -7 // 2\ny = -7 % 2\nz = 1 / 4\nv = LST[1]", LST=[4, 5])
    assert "x = -4" in text
    assert "y = 1" in text
    assert "z = 0.25" in text
    assert "v = 5" in text
    m = types.ModuleType("m")
    m.K = 10  # type: ignore[attr-defined]
    assert "w = 16" in printed("w = H * 2 + M.K", H=3, M=m)


def test_a_local_name_hides_a_global() -> None:
    assert "pl.tensor.muls" not in printed("S = pl.add(a, b)\no[:] = pl.add(S, S)", S=3.0)


# -- symbols -------------------------------------------------------------------------------------------------------


def test_dynamic_dims_come_from_annotations_and_from_the_body() -> None:
    @inline
    def helper(x, y):  # type: ignore[no-untyped-def]
        y.bind_dynamic(1, pl.dynamic("C"))
        return x

    @entry
    def k(a: pl.Tensor, b: pl.Tensor[[N, 4], pl.FP32], o: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
        ROWS = pl.dynamic("ROWS")
        a.bind_dynamic(0, ROWS)
        o.bind_dynamic(0, N)
        with pl.at(level=pl.Level.CORE_GROUP):
            z = helper(a, y=o)
            m, n = a.shape
            for r in pl.range(m // 4):
                o[r * 4 : r * 4 + 4, 0:n] = pl.mul(z[r * 4 : r * 4 + 4, :], 2.0)
        return o

    assert dynamic_dims(k.source) == {"a": {0: "ROWS"}, "o": {0: "N", 1: "C"}}
    program = k.parse(f32(8, 64), f32(8, 4), f32(8, 64)).program
    f = program.get_function("k")
    assert f is not None
    a, b, o = (p.type.shape for p in f.params)  # type: ignore[attr-defined]
    assert isinstance(a[0], Var)
    assert b[0] is o[0]
    text = program.as_python(concise=True)
    assert "m = pl.tensor.dim(a, 0)" in text or "dim = pl.tensor.dim(a, 0)" in text
    round_trip(program)
    got = f32(8, 64)
    interpret(program, [f32(8, 64, fill=3), f32(8, 4), got], entry="k")
    np.testing.assert_array_equal(got, 6.0)


def test_a_symbol_is_a_value() -> None:
    @entry
    def k(a: pl.Tensor[[N, 64], pl.FP32], o: pl.Out[pl.Tensor[[N, 64], pl.FP32]]):  # type: ignore[no-untyped-def]
        u = pl.create_tensor([N, 64], dtype=pl.FP32)
        for i in pl.parallel(0, N // 8):
            with pl.at(level=pl.Level.CORE_GROUP):
                pl.store(pl.load(a, [i * 8, 0], [8, 64]), [i * 8, 0], u)
        if N > 4:
            o[:] = u
        return o

    program = k.parse(f32(16, 64), f32(16, 64)).program
    f = program.get_function("k")
    assert f is not None
    symbol = f.params[0].type.shape[0]  # type: ignore[attr-defined]
    loop = next(s for s in walk(f) if isinstance(s, ForStmt))
    assert any(x is symbol for x in walk(loop.stop))
    round_trip(program)


# -- helpers -------------------------------------------------------------------------------------------------------


@incore
def scale_rows(a: pl.Tensor, u: pl.Out[pl.Tensor], k: pl.Scalar[pl.INDEX], rows=8):  # type: ignore[no-untyped-def]
    t = pl.load(a, [k * rows, 0], [rows, 64])
    pl.store(pl.mul(t, 2.0), [k * rows, 0], u)
    return u


@opaque
def stage(a: pl.Tensor, o: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.add(a, 1.0)
    return o


def functions(k: Kernel, *args: Any) -> list[str]:
    return [f"{f.name}/{len(f.params)}" for f in k.parse(*args).program.function_list]


def test_kernels_of_their_own() -> None:
    @entry
    def k(a: pl.Tensor, o: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
        for i in pl.range(2):
            o = scale_rows(a, o, i)
        o = scale_rows(k=1, a=a, u=o)
        o = stage(o, o)
        return o

    a, o = f32(16, 64, fill=1), f32(16, 64)
    # `rows` is needed in a shape: it is a constant of the specialization, and both calls share it.
    assert functions(k, a, o) == ["k/2", "scale_rows/3", "stage/2"]
    program = k.parse(a, o).program
    kinds = {f.name: f.func_type for f in program.function_list}
    assert kinds == {"k": FunctionType.Orchestration, "scale_rows": FunctionType.InCore, "stage": FunctionType.Opaque}
    interpret(program, [a, o], entry="k")
    np.testing.assert_array_equal(o, 3.0)
    round_trip(program)


def test_one_function_per_combination_of_types_and_constants() -> None:
    @entry
    def k(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
        o = scale_rows(a, o, 0)
        o = scale_rows(a, o, 1, 4)
        p = scale_rows(b, p, 0)
        o = scale_rows(a, o, 1)
        return o, p

    a, b = f32(16, 64), f32(32, 64)
    assert functions(k, a, b, a, b) == ["k/4", "scale_rows/3", "scale_rows_1/3", "scale_rows_2/3"]


def test_extents_of_the_caller_become_symbols_of_the_helper() -> None:
    @entry
    def k(a: pl.Tensor[[N, 64], pl.FP32], c: pl.Tensor, o: pl.Out[pl.Tensor[[N, 64], pl.FP32]]):  # type: ignore[no-untyped-def]
        m = pl.cast(pl.read(c, [0]), pl.INDEX)
        u = pl.create_tensor([m, 64], dtype=pl.FP32)
        u = scale_rows(a, u, 0)
        o = scale_rows(u, o, 0)
        return o

    program = k.parse(f32(16, 64), i32(8), f32(16, 64)).program
    helper = program.get_function("scale_rows")
    assert helper is not None
    own, dynamic = (p.type.shape[0] for p in helper.params[:2])  # type: ignore[attr-defined]
    assert own is not dynamic
    main = program.get_function("k")
    assert main is not None
    calls = [s.value for s in flatten_to_stmts(main.body) if isinstance(getattr(s, "value", None), Call)]  # type: ignore[attr-defined]
    assert calls[-1].type == main.params[2].type
    defined = {v.name_hint for v in walk(helper, types=True) if isinstance(v, Var)}
    assert "m" not in defined
    round_trip(program)


def test_helpers_by_attribute_and_from_factories() -> None:
    lib = types.ModuleType("lib")
    space = module("def make(c):\n    @inline\n    def f(t):\n        return pl.mul(t, c)\n    return f\n")
    lib.double, lib.triple = space["make"](2.0), space["make"](3.0)  # type: ignore[attr-defined]
    text = printed("o[:] = pl.add(lib.double(a), lib.triple(a))", lib=lib)
    assert "muls(a, 2.0)" in text
    assert "muls(a, 3.0)" in text


def test_annotated_helper_parameters_are_checked() -> None:
    @incore
    def sized(x: pl.Tensor[[16, 64], pl.FP32], o: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
        return o

    for shape, dtype, words in (((8, 64), np.float32, "dimension 0 is 16, got 8"), ((16, 64), np.float16, "FP32")):
        k = kernel("o = sized(a, o)", "a: pl.Tensor, o: pl.Out[pl.Tensor]", scoped=False, sized=sized)
        x = np.zeros(shape, dtype)
        e = error(lambda k=k, x=x: k.parse(x, x))
        assert words in e.message
        assert "'x'" in e.message


def test_recursion_between_kernels_is_an_error() -> None:
    space = module(
        """
        @opaque
        def a(x: pl.Tensor):
            y = b(x)
            return y
        @opaque
        def b(x: pl.Tensor):
            y = a(x)
            return y
        @entry
        def k(x: pl.Tensor):
            y = a(x)
            return y
        """
    )
    e = error(lambda: space["k"].parse(f32(4, 4)))
    assert "recursion" in e.message
    assert "a -> b -> a" in e.message


# -- places --------------------------------------------------------------------------------------------------------


def test_spans_number_sources_and_statements() -> None:
    @inline
    def helper(t):  # type: ignore[no-untyped-def]
        u = pl.exp(t)
        return u

    k = kernel(
        "x = pl.load(a, [0, 0], [16, 64])\npl.store(helper(x), [0, 0], o)", "a: pl.Tensor, o: pl.Out[pl.Tensor]", helper=helper
    )
    made = k.parse(f32(16, 64), f32(16, 64))
    assert made.sources == (k.source, helper.source)
    places = {}
    for n in walk(made.program):
        if isinstance(n, Call):
            places[n.op.name] = (n.span.source, n.span.ordinal, n.span.filename)
    assert places["tile.load"][:2] == (0, 2)
    assert places["tile.exp"] == (1, 1, helper.source.filename)
    assert places["tile.store"][:2] == (0, 3)
    assert k.source.line_of(3) == 5
    assert helper.source.line_of(1) == helper.source.node.body[0].lineno


def test_warnings_have_a_place() -> None:
    body = "t = pl.load(a, [0, 0], [16, 64])\nr = t[3]\npl.store(r, [0, 0], o)"
    k = kernel(body, "a: pl.Tensor, o: pl.Out[pl.Tensor]")
    with pytest.warns(PyptoWarning, match="keeps two dimensions") as seen:
        k.parse(f32(16, 64), f32(16, 64))
    assert seen[0].filename == k.source.filename
    assert seen[0].lineno == 5


def test_unknown_parameters_are_defects() -> None:
    with pytest.raises(RuntimeError, match="no specialization for parameter 'a'"):
        parse_kernel(saxpy.source, {"b": ScalarArg(pl.INDEX)})

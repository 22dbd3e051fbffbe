"""The text of programs: exact where the parser depends on it, unique names, every kind of node."""

from __future__ import annotations

import ast
from typing import Any

import ir_samples
import pytest
from ir_samples import INDEX, VEC, dims, index

from pypto.dtypes import DataType as D
from pypto.enums import ForKind, FunctionType, ParamDirection, SplitMode
from pypto.errors import InternalError
from pypto.ir import ops
from pypto.ir.expr import (
    Call,
    ConstBool,
    ConstInt,
    GlobalVar,
    IterArg,
    MakeTuple,
    MemRef,
    Var,
    const_index,
)
from pypto.ir.printer import python_print
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TensorType, TileType
from pypto.ir.stmt import (
    AssignStmt,
    EvalStmt,
    ForStmt,
    IfStmt,
    ReturnStmt,
    SeqStmts,
    SplitAivScopeStmt,
    Stmt,
    WhileStmt,
    YieldStmt,
    attach_leading_comments,
    seq,
)
from pypto.ir.types import PtrType, ScalarType, TupleType, UnknownType


def function(stmts: list[Stmt], params: list[Any] | None = None, **options: Any) -> Function:
    return Function("f", params or [], [], SeqStmts(stmts), **options)


def body(node: Function, **options: Any) -> list[str]:
    """The lines of a function's body, without the common indentation."""
    lines = python_print(node, **options).splitlines()
    start = next(i for i, line in enumerate(lines) if line.endswith(":") and not line.startswith((" ", "@"))) + 1
    return [line[4:] for line in lines[start:]]


# -- whole programs --------------------------------------------------------------------------------------------------


def test_a_kernel() -> None:
    assert python_print(Program([ir_samples.kernel(1)], "P")) == (
        """\
# pypto.program: P
import pypto.language as pl


@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore, level=pl.Level.CHIP_DIE, role=pl.Role.SubWorker)
    def kernel(x: pl.Tensor[[64, 64], pl.FP32], o: pl.Out[pl.Tensor[[64, 64], pl.FP32]]) -> pl.Tensor[[64, 64], pl.FP32]:
        pl.func_attr({"split": 1})
        mem_vec_0: pl.Ptr = pl.tile.alloc(pl.const(16384, pl.INT64), memory_space=pl.Mem.Vec)
        t: pl.Tile[[64, 64], pl.FP32, pl.MemRef(mem_vec_0, 0, 16384), pl.Mem.Vec] = """
        """pl.tile.load(x, [0, 0], [64, 64], [64, 64], target_memory=pl.Mem.Vec)
        t_1: pl.Tile[[64, 64], pl.FP32, pl.MemRef(mem_vec_0, 0, 16384), pl.Mem.Vec] = pl.tile.add(t, t)
        o_1: pl.Tensor[[64, 64], pl.FP32] = pl.tile.store(t_1, [0, 0], o)
        return o_1
"""
    )


def test_a_lone_function_says_so_and_has_no_self() -> None:
    text = function([ReturnStmt()], [index("n")], type=FunctionType.Orchestration).as_python()
    assert text.startswith("# pypto.function: f\nimport pypto.language as pl\n")
    assert "def f(n: pl.Scalar[pl.INDEX]):" in text


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        (FunctionType.Opaque, "self"),
        (FunctionType.Orchestration, "self"),
        (FunctionType.Group, "self"),
        (FunctionType.InCore, "n: pl.Scalar[pl.INDEX]"),
        (FunctionType.AIC, "n: pl.Scalar[pl.INDEX]"),
        (FunctionType.AIV, "n: pl.Scalar[pl.INDEX]"),
    ],
)
def test_methods_have_self_unless_they_run_on_a_core(kind: FunctionType, first: str) -> None:
    text = Program([function([ReturnStmt()], [index("n")], type=kind)], "P").as_python()
    assert f"    def f({first}" in text
    assert f"@pl.function(type=pl.FunctionType.{kind.name}" in text


def test_the_whole_sample_is_python_and_the_same_every_time() -> None:
    text = ir_samples.program().as_python()
    ast.parse(text)
    ast.parse(ir_samples.program().as_python(concise=True))
    assert ir_samples.program().as_python() == text


def test_an_empty_program_and_an_empty_function_are_python() -> None:
    ast.parse(Program([], "").as_python())
    ast.parse(function([]).as_python())
    assert body(function([])) == ["pass"]


def test_another_prefix() -> None:
    text = ir_samples.program().as_python(prefix="lang")
    assert "import pypto.language as lang\n" in text
    assert "pl." not in text


def test_directions_returns_and_options_of_functions() -> None:
    a, b, c = (Var(n, TensorType([8], D.FP32)) for n in "abc")
    f = Function(
        "f",
        [a, (b, ParamDirection.Out), (c, ParamDirection.InOut)],
        [a.type, INDEX],
        ReturnStmt([b, const_index(1)]),
        attrs={"auto_scope": False, "external_source": "k.cpp", "x": 1},
        requires_runtime_binding=True,
    )
    assert python_print(f).splitlines()[4:] == [
        '@pl.function(type=pl.FunctionType.Opaque, auto_scope=False, external_source="k.cpp", requires_runtime_binding=True)',
        "def f(",
        "    a: pl.Tensor[[8], pl.FP32],",
        "    b: pl.Out[pl.Tensor[[8], pl.FP32]],",
        "    c: pl.InOut[pl.Tensor[[8], pl.FP32]],",
        ") -> pl.Tuple[pl.Tensor[[8], pl.FP32], pl.Scalar[pl.INDEX]]:",
        '    pl.func_attr({"x": 1})',
        "    return b, 1",
    ]


def test_one_returned_tuple_is_not_two_returned_values() -> None:
    t = TupleType([INDEX, INDEX])
    one = Function("f", [], [t], ReturnStmt([MakeTuple([const_index(1), const_index(2)])]))
    two = Function("f", [], t.types, ReturnStmt([const_index(1), const_index(2)]))
    assert "-> pl.Tuple[pl.Tuple[pl.Scalar[pl.INDEX], pl.Scalar[pl.INDEX]]]:\n    return [1, 2]\n" in python_print(one)
    assert "-> pl.Tuple[pl.Scalar[pl.INDEX], pl.Scalar[pl.INDEX]]:\n    return 1, 2\n" in python_print(two)


# -- names -----------------------------------------------------------------------------------------------------------


def test_names_are_unique_and_the_rebound_variable_keeps_its_name() -> None:
    a, b, c = index("x"), index("x"), index("x_1")
    stmts: list[Stmt] = [AssignStmt(v, const_index(i)) for i, v in enumerate((a, b, c, a))]
    assert body(function(stmts), concise=True) == ["x = 0", "x_1 = 1", "x_1_1 = 2", "x = 3"]


@pytest.mark.parametrize(
    ("hint", "name"),
    [
        ("if", "if_"),
        ("a.b", "a_b"),
        ("1x", "v1x"),
        ("", "v"),
        ("self", "self_1"),
        ("pl", "pl_1"),
        ("float", "float_1"),
        ("ﬁ", "fi"),
    ],
)
def test_hints_that_are_no_free_names(hint: str, name: str) -> None:
    assert body(function([AssignStmt(index(hint), const_index(0))]), concise=True) == [f"{name} = 0"]


def test_variables_that_nothing_defines_are_marked_once() -> None:
    loose = index("loose")
    assert body(function([EvalStmt(loose)])) == ["loose__FREE_VAR"]
    assert body(function([EvalStmt(index("loose__FREE_VAR"))])) == ["loose__FREE_VAR"]
    assert python_print(EvalStmt(loose)) == "loose"
    assert loose.as_python() == "loose"


def test_symbols_of_extents_are_declared_once_per_program() -> None:
    m, other = index("M"), index("M")
    f = Function("f", [Var("x", TensorType([m, other], D.FP32))], [], AssignStmt(index("M"), m))
    g = Function("g", [Var("x", TensorType([m, 4], D.FP32))], [], EvalStmt(other))
    text = Program([f, g], "P").as_python()
    assert 'pl\n\nM = pl.dynamic("M")\nM_1 = pl.dynamic("M_1")\n\n\n' in text
    assert "x: pl.Tensor[[M, M_1], pl.FP32]" in text
    assert "        M_2: pl.Scalar[pl.INDEX] = M\n" in text
    assert text.endswith("x: pl.Tensor[[M, 4], pl.FP32]):\n        M_1\n")


def test_an_extent_that_is_a_parameter_is_no_symbol() -> None:
    n = index("n")
    text = Function("f", [Var("x", TensorType([n], D.FP32)), n], [], ReturnStmt()).as_python()
    assert "dynamic" not in text
    assert "x: pl.Tensor[[n], pl.FP32], n: pl.Scalar[pl.INDEX]" in text


# -- statements ------------------------------------------------------------------------------------------------------


def test_control_flow_with_carried_values() -> None:
    lines = body(ir_samples.control(), concise=True)
    assert lines[3:15] == [
        "whole = pl.tile.create([16, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)",
        "t = pl.tile.set_validshape(whole, n, 64)",
        'for i, (a, k) in pl.pipeline(n, init_values=(t, 0), stage=2, attrs={"mixed": '
        '[1, 2.0, "s", True, None, pl.FP16, n, pl.const(3, pl.INDEX), pl.Mem.Vec]}):',
        "    if i < n and not k == 3:",
        "        y = pl.yield_(a)",
        "    else:",
        "        y = pl.yield_(t)",
        "    r, s = pl.yield_(y, k + (i - (n - -1)) * 2)",
        "for (w,) in pl.while_(init_values=(1.5,)):",
        "    pl.cond(w < 100.0)",
        "    w_1 = pl.yield_(w * -2.0)",
        "c = pl.cast(n, pl.INDEX)",
    ]
    assert lines[15:22] == [
        "while c > n:",
        "    c = c - n",
        "for j in pl.range(n, 8, -2):",
        "    if flag:",
        "        break",
        "    else:",
        "        continue",
    ]


def test_comments_stand_above_their_statement() -> None:
    assert body(ir_samples.control())[:3] == ["# first", "# two", "# lines"]
    last = attach_leading_comments(YieldStmt([const_index(1)]), ["why", ""])
    loop = WhileStmt(ConstBool(True), [IterArg("a", INDEX, const_index(0))], last, [index("r")])
    assert body(function([loop]))[2:] == ["    # why", "    #", "    r = pl.yield_(1)"]


def test_results_of_another_type_than_the_yielded_value_are_announced() -> None:
    placed = TileType([8, 8], D.FP32, MemRef(Var("m", PtrType.get()), 0, 256), None, VEC)
    t, r = Var("t", TileType([8, 8], D.FP32, None, None, VEC)), Var("r", placed)
    loop = ForStmt(index("i"), *map(const_index, (0, 4, 1)), [IterArg("a", t.type, t)], YieldStmt([t]), [r])
    assert body(function([loop], [t])) == [
        "for i, (a,) in pl.range(4, init_values=(t,)):",
        "    r: pl.Tile[[8, 8], pl.FP32, pl.MemRef(m, 0, 256), pl.Mem.Vec]",
        "    r = pl.yield_(t)",
    ]


@pytest.mark.parametrize(
    ("kind", "bounds", "text"),
    [
        (ForKind.Sequential, (0, 4, 1), "pl.range(4)"),
        (ForKind.Sequential, (1, 4, 1), "pl.range(1, 4, 1)"),
        (ForKind.Sequential, (0, 4, 2), "pl.range(0, 4, 2)"),
        (ForKind.Parallel, (0, 4, 1), "pl.parallel(4)"),
        (ForKind.Unroll, (0, 4, 1), "pl.unroll(4)"),
        (ForKind.Pipeline, (0, 4, 1), "pl.pipeline(4)"),
    ],
)
def test_loop_kinds_and_bounds(kind: ForKind, bounds: tuple[int, ...], text: str) -> None:
    loop = ForStmt(index("i"), *map(const_index, bounds), [], SeqStmts([]), [], kind=kind)
    assert body(function([loop])) == [f"for i in {text}:", "    pass"]


def test_a_start_of_another_dtype_is_not_left_out() -> None:
    i = Var("i", ScalarType.of(D.INT32))
    zero, four, one = (ConstInt(v, D.INT32) for v in (0, 4, 1))
    assert body(function([ForStmt(i, zero, four, one, [], SeqStmts([]), [])])) == [
        "for i in pl.range(pl.const(0, pl.INT32), pl.const(4, pl.INT32), pl.const(1, pl.INT32)):",
        "    pass",
    ]


def test_a_loop_variable_of_another_type_than_its_bounds_is_announced() -> None:
    bounds = [const_index(v) for v in (0, 4, 1)]
    assert body(function([ForStmt(Var("i", ScalarType.of(D.INT32)), *bounds, [], SeqStmts([]), [])])) == [
        "i: pl.Scalar[pl.INT32]",
        "for i in pl.range(4):",
        "    pass",
    ]


def test_a_lane_region_binds_its_lane_where_it_begins_with_it() -> None:
    lane = index("lane")
    query = AssignStmt(lane, ops.create_op_call("tile.get_subblock_idx", []))
    bound = SplitAivScopeStmt(SplitMode.UP_DOWN, body=seq([query, EvalStmt(lane)]))
    assert body(function([bound])) == ["for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):", "    lane"]
    plain = SplitAivScopeStmt(SplitMode.NONE, body=EvalStmt(const_index(1)))
    assert body(function([plain])) == ["with pl.split_aiv(2, mode=pl.SplitMode.NONE):", "    1"]


def test_an_unrolled_loop_with_carries_has_no_spelling() -> None:
    carry = IterArg("a", INDEX, const_index(0))
    loop = ForStmt(index("i"), *map(const_index, (0, 4, 1)), [carry], YieldStmt([carry]), [index("r")], kind=ForKind.Unroll)
    with pytest.raises(InternalError, match="does not support iter_args"):
        python_print(loop)


def test_elif_only_where_it_is_the_same_tree() -> None:
    inner = IfStmt(ConstBool(False), EvalStmt(const_index(1)), EvalStmt(const_index(2)))
    outer = IfStmt(ConstBool(True), EvalStmt(const_index(0)), inner)
    assert python_print(outer).splitlines() == ["if True:", "    0", "elif False:", "    1", "else:", "    2"]
    attach_leading_comments(inner, ["note"])
    assert "elif" not in python_print(outer)
    r, q = index("r"), index("q")
    inner = IfStmt(ConstBool(False), YieldStmt([const_index(1)]), YieldStmt([const_index(2)]), [q])
    outer = IfStmt(ConstBool(True), YieldStmt([const_index(0)]), seq([inner, YieldStmt([q])]), [r])
    assert python_print(outer).splitlines()[2:] == [
        "else:",
        "    if False:",
        "        q = pl.yield_(1)",
        "    else:",
        "        q = pl.yield_(2)",
        "    r = pl.yield_(q)",
    ]


def test_scopes_and_launches() -> None:
    text = "\n".join(body(ir_samples.orchestration(), concise=True))
    directions = 'attrs={"arg_directions": [pl.adir.input, pl.adir.output_existing]}'
    for line in (
        f"y = self.kernel(x, out, {directions})",
        "with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.UP_DOWN)], "
        'name_hint="named", attrs={"windowize": True}) as tid:',
        "with pl.at(level=pl.Level.HOST, role=pl.Role.Orchestrator):",
        "with pl.scope(mode=pl.ScopeMode.MANUAL):",
        "    with pl.cluster():",
        "        with pl.spmd(4, sync_start=True):",
        f"            v = pl.submit(self.kernel, x, out, deps=[n], core_num=n, sync_start=True, {directions})",
        "            first = v[0]",
        "with pl.split_aiv(2, mode=pl.SplitMode.LEFT_RIGHT):",
        "tid",
    ):
        assert f"\n{line}\n" in f"\n{text}\n", line
    assert 'pl.func_attr({"cache_policy": [[0, 1]], "names": {"a": 1.0, "b": [True]}, "hints": [1, "x"]})' in text


def test_concise_text_keeps_annotations_that_say_something() -> None:
    t = Var("t", TileType([8, 8], D.FP32, MemRef(Var("m", PtrType.get()), 0, 256), None, VEC))
    call = ops.create_op_call("tile.create", [dims(8, 8)], {"dtype": D.FP32, "target_memory": VEC})
    n = Var("n", UnknownType.get())
    stmts = [AssignStmt(t, call), AssignStmt(Var("u", call.type), call), AssignStmt(n, Call(GlobalVar("g"), []))]
    lines = body(function(stmts), concise=True)
    assert lines[0].startswith("t: pl.Tile[[8, 8], pl.FP32, pl.MemRef(m, 0, 256), pl.Mem.Vec] = ")
    assert lines[1].startswith("u = ")
    assert lines[2] == "n = self.g()"
    assert body(function(stmts))[1].startswith("u: pl.Tile[[8, 8], pl.FP32, pl.Mem.Vec] = ")


# -- the buffer stage ------------------------------------------------------------------------------------------------


def test_buffer_functions_print_in_the_short_notation() -> None:
    text = ir_samples.buffer_function().as_python()
    assert text.startswith("# pypto.function: device\nimport pypto\nimport pypto.language as pl\n")
    assert "# buffer stage: for reading only\n@pl.function(" in text
    assert text[text.index("def device") :].splitlines()[1:] == [
        "    a = buffer.alloc((n,), 0)  : Buffer[[16, 64] valid [-1, 64], FP32, Vec]",
        "    c = buffer.alloc(())  : Buffer[[16, 16], FP16, Left, col/row/512]",
        "    if n > 0:",
        "        buffer.load(x, (0, 0), (n, 64), a)",
        "    b = buffer.subview(a, (0, 32))  : Buffer[[16, 32], FP32, Vec]",
        "    (r,) = for j in range(0, n, 1), (k=0):",
        "        yield (k + j)",
        "    buffer.add(b, b, b)",
        "    return r",
    ]


def test_what_is_no_node_is_refused() -> None:
    with pytest.raises(TypeError, match="int"):
        python_print(3)  # type: ignore[arg-type]

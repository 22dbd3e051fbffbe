"""Programs as text: what people write, and what the printer writes."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from frontend_kit import error, pointed, same_ir

import pypto.language as pl
from pypto.enums import FunctionType, SplitMode
from pypto.errors import (
    InvalidOperationError,
    ParserSyntaxError,
    ParserTypeError,
    UndefinedVariableError,
    UnsupportedFeatureError,
)
from pypto.ir.expr import Call, ConstFloat, ConstInt, Submit, Var
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType, TileType
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, IfStmt, SpmdScopeStmt, WhileStmt, flatten_to_stmts
from pypto.ir.types import ScalarType

HEAD = "import pypto.language as pl\n"


def text(body: str) -> str:
    return HEAD + textwrap.dedent(body)


def function(body: str) -> Function:
    made = pl.parse(text(body))
    assert isinstance(made, Function)
    return made


def raw(params: str, body: str, head: str = "") -> Function:
    """A printed function with these statements."""
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    source = f"# pypto.function: f\nimport pypto.language as pl\n{head}\n@pl.function(type=pl.FunctionType.InCore)\n"
    made = pl.parse(f"{source}def f({params}):\n{lines}\n")
    assert isinstance(made, Function)
    again = pl.parse(made.as_python())
    assert isinstance(again, Function)
    same_ir(made, again)
    return made


def stmts(f: Function) -> list[Any]:
    return flatten_to_stmts(f.body)


# -- what people write -----------------------------------------------------------------------------------------------


def test_a_function_and_its_module() -> None:
    f = function(
        """
        from __future__ import annotations
        import math
        from pypto.language import FP32, Tensor as T
        TILE = 8 * 2
        N = pl.dynamic("N")
        LIMIT: int = -math.inf
        "a docstring"

        @pl.inline
        def twice(t):
            return pl.mul(t, 2.0)

        @pl.function(type=pl.FunctionType.InCore, strict_ssa=True)
        def f(x: T[[N, TILE], FP32], y: pl.Tensor[[M, 4], pl.FP32]) -> pl.Tensor[[N, TILE], pl.FP32]:
            z = twice(x)
            return z
        """
    )
    assert f.func_type is FunctionType.InCore
    x, y = (p.type for p in f.params)
    assert isinstance(x, TensorType)
    assert x.shape[1].value == 16  # type: ignore[attr-defined]
    assert [d.name_hint for d in (x.shape[0], y.shape[0])] == ["N", "M"]  # type: ignore[attr-defined]
    assert isinstance(stmts(f)[0].value, Call)


def test_a_program_calls_its_functions_in_any_order() -> None:
    p = pl.parse_program(
        text(
            """
            @pl.program
            class P:
                @pl.function(type=pl.FunctionType.Orchestration)
                def a(self, x: pl.Tensor[[4], pl.FP32]):
                    y = self.b(x)
                    return y
                @pl.function
                def b(self, x: pl.Tensor[[4], pl.FP32]):
                    return x
            """
        )
    )
    assert [f.name for f in p.function_list] == ["a", "b"]


def test_files(tmp_path: Path) -> None:
    body = "@pl.{}\n{}def f({}x: pl.Tensor[[4], pl.FP32]):\n{}    return y\n"
    path = tmp_path / "k.py"
    path.write_text(HEAD + body.format("function", "", "", "").replace("return y", "return x"))
    assert isinstance(pl.loads(path), Function)
    with pytest.raises(ValueError, match=r"function 'f', not a program; use pl\.parse"):
        pl.loads_program(path)
    path.write_text(HEAD + body.format("function", "", "", ""))
    e = error(lambda: pl.loads(path))
    assert e.span is not None
    assert (e.span["filename"], e.span["line"], e.span["column"]) == (str(path), 4, 12)


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("x = 1", ValueError, "nothing is decorated"),
        ("@pl.function\ndef f(): pass\n@pl.function\ndef g(): pass", ValueError, "several definitions, expected one: f, g"),
        ("import os", UnsupportedFeatureError, "may import pypto.language, not os"),
        ("for i in x: pass", UnsupportedFeatureError, "Unsupported statement type at module level: For"),
        ("def f(): pass", ParserSyntaxError, "not decorated with @pl.function"),
        ("@pl.function(color=1)\ndef f(): pass", ParserSyntaxError, "unknown argument 'color'"),
        ("class P: pass", ParserSyntaxError, "not decorated with @pl.program"),
        ("@pl.program\nclass P:\n    x = 1", UnsupportedFeatureError, "functions only"),
        ("@pl.program\nclass P:\n    pass", ParserSyntaxError, "class 'P' has no functions"),
        ("x = open('f')", UnsupportedFeatureError, "Unsupported function call: open"),
        ("x = pl.FP99", ParserTypeError, "pl.FP99"),
        ("def f(:", SyntaxError, "Failed to compile code from <string>"),
    ],
)
def test_other_texts_are_refused(body: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match="(?s)" + words.replace("(", r"\(").replace(".", r"\.")):
        pl.parse(text(body))


def test_errors_quote_the_text() -> None:
    e = error(lambda: pl.parse(text("@pl.function\ndef f(x: pl.Tensor[[4], pl.FP32]):\n    return pl.exp(y)\n")))
    assert isinstance(e, UndefinedVariableError)
    assert pointed(e) == "y"
    assert "return pl.exp(y)" in str(e)


# -- what the printer writes -----------------------------------------------------------------------------------------

X = "x: pl.Tensor[[16, 64], pl.FP32]"


def test_nothing_is_defaulted() -> None:
    f = raw(X, "t: pl.Tile[[8, 64], pl.FP32] = pl.tile.load(x, [0, 0], [8, 64], [8, 64])\nreturn t")
    load = stmts(f)[0]
    assert load.value.kwargs == {}
    assert load.var.type == TileType([8, 64], pl.FP32)
    e = error(lambda: raw(X, "t = pl.tile.load(x, [0, 0], [8, 64])"))
    assert isinstance(e, InvalidOperationError)
    assert "operands" in e.message


def test_annotations_are_taken_as_they_are() -> None:
    f = raw(
        X,
        """
        base: pl.Ptr = pl.tile.alloc(pl.const(4096, pl.INT64), memory_space=pl.Mem.Vec)
        t: pl.Tile[[8, 64], pl.FP32, pl.MemRef(base, 1024, 2048), pl.Mem.Vec] = pl.tile.load(x, [0, 0], [8, 64], [8, 64])
        u: pl.Tile[[8, 64], pl.FP32, pl.MemRef(other, 0, 2048, slots=2)[1], pl.Mem.Vec] = pl.tile.exp(t)
        v: pl.Tile[[8, 64], pl.FP32, pl.MemRef(other, 0, 2048, is_pinned=True), pl.Mem.Vec] = pl.tile.exp(u)
        return v
        """,
    )
    base, t, u, v = stmts(f)[:4]
    assert t.var.type.memref.base_ is base.var
    assert (t.var.type.memref.byte_offset_.value, t.var.type.memref.size_) == (1024, 2048)
    assert u.var.type.memref.base_ is v.var.type.memref.base_
    assert (u.var.type.memref.slot_count_, u.var.type.memref.slot_index_.value) == (2, 1)
    assert v.var.type.memref.is_pinned_
    assert u.value.type.memref is None


def test_scalars_keep_their_shape() -> None:
    f = raw(
        "n: pl.Scalar[pl.INDEX], k: pl.Scalar[pl.INT32], b: pl.Scalar[pl.BOOL]",
        """
        a1: pl.Scalar[pl.INDEX] = 2 * 3 + n - -1
        a2: pl.Scalar[pl.INT32] = -pl.const(1, pl.INT32) + k
        a3: pl.Scalar[pl.FP32] = pl.const(float("nan"), pl.FP32)
        a4: pl.Scalar[pl.FP32] = pl.const(-0.0, pl.FP32)
        a5: pl.Scalar[pl.FP16] = pl.cast(k, pl.FP16)
        a6: pl.Scalar[pl.BOOL] = not b and (n < 3 or b)
        a7: pl.Scalar[pl.INDEX] = pl.min(n, pl.max(n, 4)) // 0 % 3
        a8: pl.Scalar[pl.INDEX] = n << 2 >> 1
        a9: pl.Scalar[pl.INDEX] = (n ** 2 & 3 | 4) ^ ~n
        a10: pl.Scalar[pl.INDEX] = abs(n)
        a11: pl.Scalar[pl.BOOL] = xor(b, b)
        a12: pl.Scalar[pl.FP32] = 1e400
        """,
    )
    first, second, third, fourth = stmts(f)[:4]
    assert type(first.value).__name__ == "Sub"
    assert isinstance(first.value.right, ConstInt)
    assert first.value.right.value == -1
    assert type(second.value.left).__name__ == "Neg"
    assert isinstance(third.value, ConstFloat)
    assert third.value.value != third.value.value
    assert str(fourth.value.value) == "-0.0"


def test_loops_carry_explicitly() -> None:
    f = raw(
        X + ", n: pl.Scalar[pl.INDEX], k: pl.Scalar[pl.INT32]",
        """
        for i, (a, b) in pl.range(0, n, 2, init_values=(x, k)):
            r, s = pl.yield_(a, b)
        for (c,) in pl.while_(init_values=(s,)):
            pl.cond(c < pl.const(3, pl.INT32))
            d = pl.yield_(c)
        j: pl.Scalar[pl.INT32]
        for j in pl.pipeline(n, stage=2, attrs={"x": [1, "two", 3.0, True], "e": pl.SplitMode.NONE, "d": pl.FP16}):
            pass
        for m in pl.parallel(pl.const(0, pl.INT32), k, pl.const(1, pl.INT32)):
            pl.tensor.dim(x, 0)
        while n < 3:
            if n > 2:
                break
            elif n > 1:
                continue
        return r, d
        """,
    )
    carry, repeat, pipeline, parallel, natural, _ = stmts(f)
    assert isinstance(carry, ForStmt)
    assert [a.type for a in carry.iter_args] == [v.type for v in carry.return_vars]
    assert isinstance(repeat, WhileStmt)
    assert pipeline.loop_var.type == ScalarType(pl.INT32)
    assert pipeline.attrs == {"pipeline_stages": 2, "x": (1, "two", 3.0, True), "e": SplitMode.NONE, "d": pl.FP16}
    assert parallel.loop_var.type == ScalarType(pl.INT32)
    assert isinstance(natural, WhileStmt)
    assert isinstance(stmts(f)[-1].value[0], Var)


def test_branches_and_stated_result_types() -> None:
    f = raw(
        X + ", b: pl.Scalar[pl.BOOL]",
        """
        if b:
            t: pl.Tile[[8, 64], pl.FP32, pl.Mem.Vec] = pl.tile.load(x, [0, 0], [8, 64], [8, 64], target_memory=pl.Mem.Vec)
            r: pl.Tile[[8, 64], pl.FP32, pl.MemRef(m, 0, 2048), pl.Mem.Vec]
            r = pl.yield_(t)
        else:
            u: pl.Tile[[8, 64], pl.FP32, pl.Mem.Vec] = pl.tile.load(x, [8, 0], [8, 64], [8, 64], target_memory=pl.Mem.Vec)
            r: pl.Tile[[8, 64], pl.FP32, pl.MemRef(m, 0, 2048), pl.Mem.Vec]
            r = pl.yield_(u)
        if b:
            y: pl.Scalar[pl.INDEX] = 1
        else:
            y: pl.Scalar[pl.INDEX] = 2
        z: pl.Scalar[pl.INDEX] = y
        return r
        """,
    )
    first, second, third, _ = stmts(f)
    assert isinstance(first, IfStmt)
    assert first.return_vars[0].type.memref is not None
    assert second.then_body.var is second.else_body.var is third.value


def test_scopes() -> None:
    f = raw(
        X + ", n: pl.Scalar[pl.INDEX]",
        """
        with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.UP_DOWN)], name_hint="k", attrs={"a": 1}):
            for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
                pl.tensor.dim(x, 0)
            with pl.split_aiv(2, mode=pl.SplitMode.LEFT_RIGHT):
                pass
        with pl.at(level=pl.Level.HOST, role=pl.Role.Orchestrator) as t:
            pass
        with pl.spmd(n, sync_start=True):
            pass
        with pl.cluster(name_hint="c"):
            pass
        with pl.scope(mode=pl.ScopeMode.MANUAL):
            with pl.scope(mode=pl.ScopeMode.AUTO):
                pass
        """,
    )
    core, host, spmd, _, runtime = stmts(f)
    assert (core.split, core.name_hint, dict(core.attrs)) == (SplitMode.UP_DOWN, "k", {"a": 1})
    assert isinstance(host.attrs["task_id_var"], Var)
    assert isinstance(spmd, SpmdScopeStmt)
    assert runtime.manual


def test_calls_submissions_and_attributes() -> None:
    source = """\
# pypto.program: some program
import pypto.language as pl

N = pl.dynamic("N")


@pl.program
class some_program:
    @pl.function(type=pl.FunctionType.InCore, level=pl.Level.CHIP_DIE, role=pl.Role.SubWorker)
    def k(x: pl.Tensor[[N, 4], pl.FP32], o: pl.Out[pl.Tensor[[N, 4], pl.FP32]]) -> pl.Tensor[[N, 4], pl.FP32]:
        pl.func_attr({"split": 1, "buffer_ir_selected": True})
        return o

    @pl.function(type=pl.FunctionType.Orchestration, level=pl.Level.CHIP, role=pl.Role.Orchestrator, auto_scope=False)
    def main(self, x: pl.Tensor[[N, 4], pl.FP32], o: pl.InOut[pl.Tensor[[N, 4], pl.FP32]]):
        y: pl.Tensor[[N, 4], pl.FP32] = self.k(x, o, attrs={"arg_directions": [pl.adir.input, pl.adir.output_existing]})
        s: pl.Tuple[pl.Tensor[[N, 4], pl.FP32], pl.Scalar[pl.TASK_ID]] = pl.submit(self.k, x, y, core_num=4, sync_start=True)
        z: pl.Tensor[[N, 4], pl.FP32] = s[0]
        pair: pl.Tuple[pl.Tensor[[N, 4], pl.FP32], pl.Tensor[[N, 4], pl.FP32]] = [y, z]
        self.unknown(x)
        return pair[1], z
"""
    p = pl.parse(source)
    assert isinstance(p, Program)
    assert p.name == "some program"
    again = pl.parse(p.as_python())
    assert isinstance(again, Program)
    same_ir(p, again)
    main = p.get_function("main")
    assert main is not None
    call, submit, *_, unknown, _ = stmts(main)
    assert len(call.value.arg_directions) == 2
    assert isinstance(submit.value, Submit)
    assert submit.value.sync_start
    assert isinstance(unknown, EvalStmt)
    assert dict(main.attrs) == {"auto_scope": False}


def test_printed_names_are_one_variable_each() -> None:
    f = raw(
        "n: pl.Scalar[pl.INDEX]",
        """
        a: pl.Scalar[pl.INDEX] = n
        for i in pl.range(n):
            a: pl.Scalar[pl.INDEX] = a + i
            t: pl.Scalar[pl.INDEX] = a
        for j in pl.range(n):
            t: pl.Scalar[pl.INDEX] = j
        return a, t
        """,
    )
    assigned = [s for s in walk(f) if isinstance(s, AssignStmt)]
    assert len({s.var for s in assigned}) == 2


def test_every_memory_space_and_view() -> None:
    views = [
        "pl.Mem.Mat",
        "pl.Mem.Acc, pl.TileView(valid_shape=[5, 64])",
        "pl.Mem.Left, pl.TileView(blayout=pl.TileLayout.row_major, slayout=pl.TileLayout.row_major, fractal=512)",
        "pl.Mem.Right, pl.TileView(compact=pl.CompactMode.normal)",
        "pl.Mem.Vec, pl.TileView(valid_shape=[8, n], stride=[128, 1], start_offset=n, pad=pl.PadValue.zero)",
    ]
    for v in views:
        f = raw(f"n: pl.Scalar[pl.INDEX], t: pl.Tile[[16, 64], pl.FP16, {v}]", "return t")
        assert isinstance(f.params[1].type, TileType)

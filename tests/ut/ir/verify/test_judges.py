"""Every judge finds what it is for, and nothing in a sound program."""

import textwrap

import pytest

from pypto.dtypes import DataType
from pypto.enums import ForKind, FunctionType, MemorySpace, PadValue
from pypto.errors import VerificationError
from pypto.frontend import parse
from pypto.ir import ops, scalar
from pypto.ir.expr import Call, GlobalVar, IterArg, MakeTuple, Var, const_index
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TensorType, TensorView, TileType
from pypto.ir.stmt import (
    AssignStmt,
    BreakStmt,
    EvalStmt,
    ForStmt,
    IfStmt,
    InCoreScopeStmt,
    ReturnStmt,
    SeqStmts,
    WhileStmt,
    YieldStmt,
    seq,
)
from pypto.ir.types import ArrayType, ScalarType
from pypto.ir.verify import registry
from pypto.ir.verify.properties import IRProperty as P

D = DataType
INDEX = ScalarType.of(D.INDEX)
SOUND = """
import pypto.language as pl
N = pl.dynamic("N")

@pl.program
class Sound:
    @pl.function(type=pl.FunctionType.InCore)
    def k(
        x: pl.Tensor[[N, 16], pl.FP32], n: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor[[N, 16], pl.FP32]]
    ) -> pl.Tensor[[N, 16], pl.FP32]:
        t = pl.load(x, [0, 0], [16, 16], valid_shape=[n, 16])
        for i, (c, w) in pl.range(0, n, 1, init_values=(t, o)):
            u = pl.add(c, 1.0)
            if i > 2:
                d = pl.add(u, u)
                r = pl.yield_(d)
            else:
                r = pl.yield_(u)
            w1 = pl.store(r, [0, 0], w)
            c2, w2 = pl.yield_(r, w1)
        return o

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[N, 16], pl.FP32], n: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor[[N, 16], pl.FP32]]):
        o1 = self.k(x, n, o)
        return o1
"""
# What holds only later: places in memory and the directions of calls.
LATER = (
    P.HasMemRefs,
    P.CallDirectionsResolved,
    P.AllocatedMemoryAddr,
    P.TileStorageLegalized,
    P.TileStorageAllocated,
    P.BufferIR,
)
ALWAYS = tuple(p for p in P if registry.has_judge(p) and p not in LATER)


def found(p: Program, prop: P) -> list[int]:
    return [d.error_code for d in registry.judge_of(prop)(p)]


@pytest.mark.parametrize("prop", ALWAYS, ids=lambda p: p.name)
def test_a_sound_program_passes(prop):
    assert found(parse(SOUND), prop) == []


def test_every_judge_of_the_table_exists():
    assert len(ALWAYS) > 25
    for p in P:
        if registry.has_judge(p):
            assert callable(registry.judge_of(p))


# -- broken programs, built by hand --------------------------------------------------------------------------------


def scalar_var(name: str, dtype: DataType = D.INDEX) -> Var:
    return Var(name, ScalarType.of(dtype))


A, B, N = scalar_var("a"), scalar_var("b"), scalar_var("n")
ONE, TRUE = const_index(1), scalar.lt(const_index(1), const_index(2))
X = Var("x", TensorType((16, 16), D.FP32))
TILE = TileType((16, 16), D.FP32, None, None, MemorySpace.Vec)
T = Var("t", TILE)


def let(v: Var, e=ONE) -> AssignStmt:
    return AssignStmt(v, e)


def one(*stmts, params=(N, X), kind=FunctionType.Opaque) -> Program:
    return Program([Function("f", params, [], seq(stmts), type=kind)])


def loop(body, carried=(), results=(), kind=ForKind.Sequential, attrs=None) -> ForStmt:
    return ForStmt(scalar_var("i"), const_index(0), N, ONE, carried, body, results, kind=kind, attrs=attrs)


def carry(init=ONE):
    return IterArg("c", init.type, init)


def read(x=X):
    return ops.create_op_call("tensor.read", (x, MakeTuple((ONE, ONE))))


def load(valid=16):
    shape = MakeTuple((const_index(16), const_index(16)))
    origin = MakeTuple((const_index(0), const_index(0)))
    return ops.create_op_call("tile.load", (X, origin, shape, MakeTuple((const_index(valid), const_index(16)))))


INNER = scalar_var("inner")
CARRY = carry()
CUBE = Var("t", TileType((2, 4, 8), D.FP32))
BROKEN = {
    "assigned twice": (P.SSAForm, 1, one(let(A), let(A))),
    "branch without yield": (P.SSAForm, 3, one(IfStmt(TRUE, let(A), None, (B,)))),
    "results without carries": (P.SSAForm, 4, one(loop(let(A), (), (B,)))),
    "loop without yield": (P.SSAForm, 3, one(loop(let(A), (CARRY,), (B,)))),
    "too few yields": (P.SSAForm, 5, one(loop(YieldStmt(()), (CARRY,), (B,)))),
    "out of scope": (P.SSAForm, 6, one(loop(let(INNER)), ReturnStmt((INNER,)))),
    "never set": (P.SSAForm, 6, one(ReturnStmt((A,)))),
    "yield in the middle": (P.SSAForm, 7, one(IfStmt(TRUE, seq([YieldStmt((ONE,)), let(A)]), YieldStmt((ONE,)), (B,)))),
    "yield at the top": (P.SSAForm, 7, one(YieldStmt((ONE,)))),
    "kind": (P.TypeChecked, 101, one(let(T, X))),
    "dtype": (P.TypeChecked, 102, one(let(scalar_var("h", D.FP32)))),
    "rank": (P.TypeChecked, 103, one(let(Var("y", TensorType((16,), D.FP32)), X))),
    "dimension": (P.TypeChecked, 104, one(let(Var("y", TensorType((16, 8), D.FP32)), X))),
    "condition of a tensor": (P.TypeChecked, 106, one(IfStmt(X, let(A), None))),
    "condition of an integer": (P.TypeChecked, 108, one(IfStmt(N, let(A), None))),
    "while of an integer": (P.TypeChecked, 108, one(WhileStmt(N, (), let(A), ()))),
    "range of a tensor": (P.TypeChecked, 107, one(ForStmt(scalar_var("i"), ONE, X, ONE, (), let(A), ()))),
    "layout": (
        P.TypeChecked,
        109,
        one(let(Var("y", TensorType((16, 16), D.FP32, None, TensorView(pad=PadValue.zero))), X)),
    ),
    "valid extents": (P.TypeChecked, 111, one(let(Var("u", load(8).type), load()))),
    "memory": (P.TypeChecked, 111, one(let(T, load()), let(Var("m", TILE.in_space(MemorySpace.Mat)), T))),
    "yielded type": (P.TypeChecked, 102, one(loop(YieldStmt((TRUE,)), (CARRY,), (B,)))),
    "deduced type": (
        P.AssignTypeSymmetry,
        112,
        one(let(Var("v", load(8).type), load().replace(type=load(8).type))),
    ),
    "call in a call": (
        P.NoNestedCalls,
        201,
        one(let(T, load()), EvalStmt(ops.create_op_call("tensor.write", (X, MakeTuple((ONE, ONE)), read())))),
    ),
    "call in a condition": (P.NoNestedCalls, 204, one(IfStmt(scalar.lt(read(), read()), let(A), None))),
    "call as a bound": (P.NoNestedCalls, 203, one(ForStmt(scalar_var("i"), ONE, read(), ONE, (), let(A), ()))),
    "call returned": (P.NoNestedCalls, 206, one(ReturnStmt((read(),)))),
    "call under a cast": (P.NoNestedCalls, 205, one(let(A, scalar.cast(read(), D.INDEX)))),
    "sequence of one": (P.NormalizedStmtStructure, 311, one(loop(SeqStmts((let(A),))))),
    "sequence in a sequence": (P.NoRedundantBlocks, 312, one(loop(SeqStmts((SeqStmts((let(A), let(B))), let(INNER)))))),
    "read before set": (P.UseAfterDef, 401, one(let(B, A), let(A))),
    "hidden by results": (
        P.UseAfterDef,
        401,
        one(IfStmt(TRUE, seq([let(A), YieldStmt((A,))]), YieldStmt((ONE,)), (B,)), ReturnStmt((A,))),
    ),
    "break outside": (P.BreakContinueValid, 301, one(BreakStmt())),
    "break in a parallel loop": (P.BreakContinueValid, 301, one(loop(BreakStmt(), kind=ForKind.Parallel))),
    "break left": (P.StructuredCtrlFlow, 302, one(loop(BreakStmt()))),
    "unrolled loop left": (P.UnrollResolved, 303, one(loop(let(A), kind=ForKind.Unroll))),
    "pipeline without stages": (P.PipelineLoopValid, 304, one(loop(let(A), kind=ForKind.Pipeline))),
    "stages without pipeline": (P.PipelineLoopValid, 304, one(loop(let(A), attrs={"pipeline_stages": 2}))),
    "pipeline left": (P.PipelineResolved, 305, one(loop(let(A), kind=ForKind.Pipeline, attrs={"pipeline_stages": 2}))),
    "inline left": (P.InlineFunctionsEliminated, 306, one(let(A), kind=FunctionType.Inline)),
    "nested core scopes": (P.NoNestedInCore, 512, one(InCoreScopeStmt(body=InCoreScopeStmt(body=let(A))))),
    "array parameter": (P.ArrayNotEscaped, 513, one(let(A), params=(Var("r", ArrayType(D.INT32, 4)),))),
    "core scope left": (P.SplitIncoreOrch, 523, one(InCoreScopeStmt(body=let(A)))),
    "unknown function": (P.OrchestrationReferencesResolved, 521, one(EvalStmt(Call(GlobalVar("g"), ())))),
    "no directions": (P.CallDirectionsResolved, 526, one(EvalStmt(Call(GlobalVar("g"), (N,))))),
    "tensor operator on a core": (
        P.IncoreTileOps,
        601,
        one(let(Var("y", X.type), ops.create_op_call("tensor.add", (X, X))), kind=FunctionType.InCore),
    ),
    "three dimensions": (
        P.TileOps2D,
        602,
        one(let(A), params=(Var("t", TileType((2, 4, 8), D.FP32)),), kind=FunctionType.InCore),
    ),
    "no memory": (P.TileMemoryInferred, 603, one(let(Var("t", TileType((16, 16), D.FP32)), load()), kind=FunctionType.InCore)),
    "no place": (P.HasMemRefs, 606, one(let(T, load()), kind=FunctionType.InCore)),
    "stride without rank": (
        P.TensorViewCanonical,
        541,
        one(let(A), params=(Var("x", TensorType((4, 4), D.FP32, None, TensorView(stride=(4,)))),)),
    ),
}


@pytest.mark.parametrize(("prop", "code", "p"), BROKEN.values(), ids=list(BROKEN))
def test_a_broken_program_is_found(prop, code, p):
    assert code in found(p, prop)


def changed(old: str, new: str) -> Program:
    assert old in SOUND
    return parse(SOUND.replace(old, new))


def test_a_written_argument_read_under_its_old_name():
    p = changed("o1 = self.k(x, n, o)\n        return o1", "o1 = self.k(x, n, o)\n        return o")
    (d,) = registry.judge_of(P.InOutUseValid)(p)
    assert d.rule_name == "InOutUseDiscipline"
    assert "read the post-call return value" in d.message
    bare = changed("o1 = self.k(x, n, o)\n        return o1", "self.k(x, n, o)\n        return o")
    assert found(bare, P.InOutUseValid) == [501]
    rebound = changed("o1 = self.k(x, n, o)\n        return o1", "o = self.k(x, n, o)\n        return o")
    assert found(rebound, P.InOutUseValid) == []


def test_what_one_arm_writes_the_other_may_read():
    text = textwrap.dedent("""
        if n > 2:
            r = pl.yield_(self.k(x, n, o))
        else:
            r = pl.yield_(self.k(x, 2, o))
        return r
        """)
    p = changed("        o1 = self.k(x, n, o)\n        return o1", textwrap.indent(text.strip(), "        "))
    assert found(p, P.InOutUseValid) == []
    both = text.strip().replace("return r", "return r, o")
    q = changed("        o1 = self.k(x, n, o)\n        return o1", textwrap.indent(both, "        "))
    assert found(q, P.InOutUseValid) == [501]


def test_a_parameter_returned_under_another_name():
    assert found(changed("        return o\n\n", "        return w2\n\n"), P.ReturnParamsExplicit) == [531]


def test_a_parameter_rebound_to_a_new_tensor():
    p = changed(
        "o1 = self.k(x, n, o)\n        return o1",
        "o = pl.create_tensor([N, 16], dtype=pl.FP32)\n        o1 = self.k(x, n, o)\n        return o1",
    )
    assert found(p, P.OutParamNotShadowed) == [511]


def test_a_manual_dependency_on_a_plain_call():
    p = parse(SOUND)
    f = p.get_function("main")
    call = f.body.stmts[0]
    bad = call.replace(value=call.value.replace(attrs=call.value.attrs.with_(manual_dep_edges=())))
    p = p.with_functions([g if g is not f else f.replace(body=seq([bad, f.body.stmts[1]])) for g in p.function_list])
    assert found(p, P.ManualDepsOnSubmitOnly) == [514]


def test_verify_or_throw_shows_every_finding_at_the_first_place():
    p = one(let(A), let(A), ReturnStmt((B,)))
    with pytest.raises(VerificationError, match="for properties") as e:
        registry.verify_or_throw((P.SSAForm,), p, "X")
    assert len(e.value.diagnostics) == 2
    registry.verify_or_throw((P.TypeChecked,), p)


def test_the_sets_of_properties():
    assert P.BufferIR not in registry.STRUCTURAL | registry.VERIFIED | registry.DEFAULT
    assert P.UseAfterDef in registry.STRUCTURAL
    assert P.UseAfterDef not in registry.VERIFIED

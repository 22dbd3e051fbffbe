"""FlattenCallExpr: one call a statement."""

import numpy as np
from pass_lab import agree, apply, body, findings, main, out, same

from pypto.dtypes import DataType
from pypto.ir import ops
from pypto.ir.expr import MakeTuple, Var, const_index
from pypto.ir.program import Program
from pypto.ir.scalar import cast, gt
from pypto.ir.stmt import AssignStmt, IfStmt, ReturnStmt, seq
from pypto.ir.verify.properties import IRProperty

PARAMS = "c: pl.Tensor[[8], pl.INT32], x: pl.Tensor[[8, 8], pl.FP32], o: pl.Out[pl.Tensor[[8, 8], pl.FP32]]"


def read(x, i):
    return ops.create_op_call("tensor.read", (x, MakeTuple((const_index(i),))))


def nested() -> Program:
    """`t = load(x, [0, 0], [8, 8], valid [cast(read(c, [0])), 8]); if read(c, [1]) > 3: o = store(add(t, t), ...)`"""
    p = body("return o", PARAMS)
    f = main(p)
    c, x, o = f.params
    n = cast(read(c, 0), DataType.INDEX)
    eight, zero = const_index(8), const_index(0)
    shape, origin = MakeTuple((eight, eight)), MakeTuple((zero, zero))
    load = ops.create_op_call("tile.load", (x, origin, shape, MakeTuple((n, eight))))
    t = Var("t", load.type)
    add = ops.create_op_call("tile.add", (t, t))
    store = ops.create_op_call("tile.store", (add, origin, o))
    o1 = Var("o1", store.type)
    arm = seq([AssignStmt(o1, store)])
    branch = IfStmt(gt(cast(read(c, 1), DataType.INDEX), const_index(3)), arm, None)
    return p.with_functions([f.replace(body=seq([AssignStmt(t, load), branch, ReturnStmt((o,))]))])


def test_inner_calls_first_and_from_left_to_right():
    p = nested()
    assert findings(p, IRProperty.NoNestedCalls)
    got = apply(p, "flatten_call_expr")
    assert findings(got, IRProperty.NoNestedCalls, IRProperty.SSAForm, IRProperty.AssignTypeSymmetry) == []
    stmts = main(got).body.stmts
    assert [s.var.name_hint for s in stmts if isinstance(s, AssignStmt)] == ["t__tmp_v0", "t", "t__tmp_v1"]
    branch = stmts[3]
    assert [s.var.name_hint for s in branch.then_body.stmts] == ["t__tmp_v2", "o1"]


def test_extents_name_the_temporary():
    got = main(apply(nested(), "flatten_call_expr"))
    tmp, load = got.body.stmts[:2]
    assert load.var.type.valid[0].operand is tmp.var


def test_the_numbers_stay():
    p = nested()
    args = [[np.full(8, k, np.int32), np.ones((8, 8), np.float32), out(8, 8)] for k in (2, 5)]
    agree(p, apply(p, "flatten_call_expr"), *args)


def test_flat_programs_are_the_same_objects_and_numbering_goes_on():
    got = apply(nested(), "flatten_call_expr")
    assert main(apply(got, "flatten_call_expr")) is main(got)
    same(apply(got, "flatten_call_expr"), got)

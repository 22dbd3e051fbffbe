"""Statements: carries assign simultaneously, loops leave as Python's do, an if gives the value of the arm that ran."""

import numpy as np
import pytest
from kit import OUT, Kernel, expr

from pypto.debug import interpret
from pypto.dtypes import DataType as D
from pypto.enums import FunctionType, SplitMode
from pypto.errors import InternalError, KernelError
from pypto.ir import scalar as s
from pypto.ir.expr import GlobalVar, Submit, TupleGetItemExpr, Var
from pypto.ir.node import EMPTY
from pypto.ir.program import Program
from pypto.ir.stmt import ReturnStmt, SplitAivScopeStmt, SpmdScopeStmt, seq
from pypto.ir.types import ScalarType, TupleType

INDEX = ScalarType.of(D.INDEX)
INT32 = ScalarType.of(D.INT32)


def rows(*values):
    return np.repeat(np.float32(values), 8)[:, None] * np.ones((1, 8), np.float32)


def out(n, fill=-777, dtype=np.float32):
    return np.full((n, 8), fill, dtype)


def tile_kernel(blocks):
    """A kernel with `a`, a run-time count `n` and an output of so many blocks of 8 rows."""
    k = Kernel()
    a = k.tensor("a", [24, 8], D.FP32)
    n = k.scalar("n", D.INDEX)
    o = k.tensor("o", [8 * blocks, 8], D.FP32, OUT)
    return k, n, o, [k.load(a, [8 * i, 0], [8, 8]) for i in range(3)]


def finish(k, o, tiles):
    for i, t in enumerate(tiles):
        o = k.store(t, [8 * i, 0], o)
    return k.done(o)


FIBONACCI = lambda k: lambda i, f, g: (g, k.op("tile.add", f, g))  # noqa: E731
CARRIES = [
    ("swap", lambda k: lambda i, p, q: (q, p), 2, {0: (0, 1), 1: (1, 0), 2: (0, 1), 3: (1, 0)}),
    ("fibonacci", FIBONACCI, 2, {0: (0, 1), 1: (1, 1), 4: (3, 5), 10: (55, 89)}),
    ("cycle", lambda k: lambda i, x, y, z: (y, z, x), 3, {0: (0, 1, 2), 1: (1, 2, 0), 4: (1, 2, 0)}),
    ("fan-out", lambda k: lambda i, r, q: (q, q), 2, {0: (0, 1), 1: (1, 1), 4: (1, 1)}),
]


@pytest.mark.parametrize(("make", "count", "table"), [c[1:] for c in CARRIES], ids=[c[0] for c in CARRIES])
def test_carries_are_a_parallel_copy(make, count, table):
    k, n, o, tiles = tile_kernel(count + 3)
    results = k.loop(0, n, 1, tiles[:count], make(k))
    f = finish(k, o, [*results, *tiles])
    for trips, want in table.items():
        got = out(8 * (count + 3))
        interpret(f, [rows(0, 1, 2), trips, got])
        np.testing.assert_array_equal(got, rows(*want, 0, 1, 2))


def test_one_seed_two_updates():
    k, n, o, (t0, *_) = tile_kernel(2)
    results = k.loop(0, n, 1, [t0, t0], lambda i, d, e: (k.op("tile.adds", d, expr(1.0)), k.op("tile.add", e, d)))
    f = finish(k, o, results)
    for trips, want in {0: (0, 0), 1: (1, 0), 4: (4, 6), 10: (10, 45)}.items():
        got = out(16)
        interpret(f, [rows(0, 1, 2), trips, got])
        np.testing.assert_array_equal(got, rows(*want))


def test_inner_carries_seeded_by_crossed_outer_ones():
    k = Kernel()
    a, n, m = k.tensor("a", [16, 8], D.FP32), k.scalar("n", D.INDEX), k.scalar("m", D.INDEX)
    o = k.tensor("o", [16, 8], D.FP32, OUT)
    ta, tb = (k.load(a, [i, 0], [8, 8]) for i in (0, 8))

    def outer(i, p, q):
        return k.loop(0, m, 1, [q, p], lambda j, u, w: (w, k.op("tile.add", u, w)))

    f = finish(k, o, k.loop(0, n, 1, [ta, tb], outer))
    for (i, j), want in {(0, 3): (1, 2), (1, 0): (2, 1), (1, 1): (1, 3), (2, 2): (7, 10), (3, 3): (56, 97)}.items():
        got = out(16)
        interpret(f, [rows(1, 2), i, j, got])
        np.testing.assert_array_equal(got, rows(*want))


def test_an_if_gives_the_value_of_the_arm_that_ran():
    k = Kernel()
    a, b, c = k.tensor("a", [8, 8], D.FP32), k.tensor("b", [8, 8], D.FP32), k.scalar("c", D.INT32)
    o = k.tensor("o", [40, 8], D.FP32, OUT)
    t, u = k.load(a, [0, 0], [8, 8]), k.load(b, [0, 0], [8, 8])
    positive = s.gt(c, expr(0, D.INT32))
    (r,) = k.if_(positive, lambda: [k.op("tile.mul", t, t)], lambda: [k.op("tile.add", t, t)], [t.type])
    (q,) = k.if_(positive, lambda: [t], lambda: [u], [t.type])
    q2 = k.op("tile.muls", q, expr(10.0))
    inner = lambda: k.if_(positive, lambda: [q2], lambda: [q2], [t.type])  # noqa: E731
    (w,) = k.if_(s.gt(c, expr(1, D.INT32)), lambda: [u], inner, [t.type])
    f = finish(k, o, [r, q, q2, w, t])
    for value, want in {0: [6, 5, 50, 50, 3], 1: [9, 3, 30, 30, 3], 2: [9, 3, 30, 5, 3]}.items():
        got = out(40)
        interpret(f, [out(8, 3), out(8, 5), value, got])
        np.testing.assert_array_equal(got, rows(*want))


# -- scalars in loops: what Python gives -------------------------------------------------------------------------------


def scalar_kernel(build):
    """`build(k, n)` gives INDEX values that go to the first elements of the output."""
    k = Kernel()
    n, o = k.scalar("n", D.INDEX), k.tensor("o", [8], D.INT32, OUT)
    for i, v in enumerate(build(k, n)):
        o = k.op("tensor.write", o, [i], k.let(s.cast(v, D.INT32)))
    f = k.done(o)

    def run(n):
        got = np.full(8, -777, np.int32)
        interpret(f, [n, got])
        return got.tolist()

    return run


def test_loops_that_count_down():
    def build(k, n):
        total = k.let(expr(0), "total")
        (r,) = k.loop(10, n, -4, [total], lambda i, u: [k.let(s.add(s.mul(u, expr(100)), i))])
        return [r]

    run = scalar_kernel(build)
    assert run(0)[0] == 100602
    assert run(10)[0] == 0
    assert run(2)[0] == 1006


def test_a_step_of_zero_is_an_error():
    def build(k, n):
        k.loop(0, 3, n, [], lambda i: None)
        return []

    with pytest.raises(KernelError, match="step of this loop is 0") as e:
        scalar_kernel(build)(0)
    assert e.value.location.begin_line > 0


def test_break_and_continue_with_plain_rebinding():
    """for i in range(4): for j in range(4): if j > i: break; if j == n: continue; total = total + 10 * i + j"""

    def build(k, n):
        total = k.let(expr(0), "total")

        def inner(i):
            def body(j):
                k.if_(s.gt(j, i), k.break_, None)
                k.if_(s.eq(j, n), k.continue_, None)
                k.set(total, s.add(s.add(total, s.mul(expr(10), i)), j))

            k.loop(0, 4, 1, [], body)

        k.loop(0, 4, 1, [], inner)
        return [total]

    run = scalar_kernel(build)
    assert [run(n)[0] for n in (0, 1, 9)] == [150, 147, 210]


def test_a_break_keeps_the_carries_of_its_iteration():
    def build(k, n):
        def body(i, c):
            k.if_(s.eq(i, n), k.break_, None)
            return [k.let(s.add(c, expr(1)))]

        return k.loop(0, 5, 1, [k.let(expr(100))], body)

    run = scalar_kernel(build)
    assert [run(n)[0] for n in (0, 3, 9)] == [100, 103, 105]


def test_while_loops_test_their_carries():
    def build(k, n):
        more = lambda x, y, i: s.and_(s.lt(i, n), s.le(x, expr(8)))  # noqa: E731

        def body(x, y, i):
            y2 = k.let(s.add(x, expr(1)))
            return [k.let(s.add(y2, expr(2))), y2, k.let(s.add(i, expr(1)))]

        zero = k.let(expr(0))
        return k.while_(more, [zero, zero, zero], body)

    run = scalar_kernel(build)
    assert run(4)[:3] == [9, 7, 3]
    assert run(0)[:3] == [0, 0, 0]


def test_a_return_inside_a_loop_leaves_the_function():
    k = Kernel()
    n = k.scalar("n", D.INDEX)

    def body(i):
        def leave():
            k.add(ReturnStmt([k.let(s.mul(i, expr(7)))]))

        k.if_(s.eq(i, n), leave, None)

    k.loop(0, 9, 1, [], body)
    f = k.done(k.let(expr(-1)))
    assert interpret(f, [3]) == 21
    assert interpret(f, [99]) == -1


def test_variables_without_a_value_are_named():
    k = Kernel()
    ghost = Var("ghost", INDEX)
    f = k.done(k.let(s.add(ghost, expr(1))))
    with pytest.raises(InternalError, match="ghost is read before it has a value"):
        interpret(f, [])


# -- calls -------------------------------------------------------------------------------------------------------------


def block_writer():
    """o[block] = 10 * blocks + block"""
    k = Kernel("write_block")
    o = k.tensor("o", [8], D.INT32, OUT)
    i, n = k.op("tile.get_block_idx"), k.op("tile.get_block_num")
    value = k.let(s.cast(s.add(s.mul(n, expr(10)), i), D.INT32))
    return k.done(k.op("tensor.write", o, [i], value))


def test_blocks_run_one_after_the_other():
    writer = block_writer()
    k = Kernel("main", FunctionType.Orchestration)
    o = k.tensor("o", [8], D.INT32, OUT)
    f = k.done(k.invoke(writer, o, core_num=expr(3)))
    got = np.zeros(8, np.int32)
    assert interpret(Program([writer, f]), [got]) is got
    assert got.tolist() == [30, 31, 32, 0, 0, 0, 0, 0]
    # Called plainly, a kernel is block 0 of 1.
    assert interpret(writer, [np.zeros(8, np.int32)]).tolist() == [10] + [0] * 7


def test_results_of_several_values_come_apart():
    k = Kernel("pair", FunctionType.Opaque)
    x = k.scalar("x", D.INDEX)
    pair = k.done(k.let(s.add(x, expr(1))), k.let(s.mul(x, expr(2))))
    m = Kernel("main", FunctionType.Orchestration)
    y = m.scalar("y", D.INDEX)
    r = m.invoke(pair, y)
    f = m.done(m.let(TupleGetItemExpr(r, 1)), m.let(TupleGetItemExpr(r, 0)))
    assert interpret(Program([pair, f]), [20]) == (40, 21)


def test_a_submitted_kernel_yields_its_results_and_a_task():
    k = Kernel("double", FunctionType.Opaque)
    x = k.scalar("x", D.INDEX)
    double = k.done(k.let(s.mul(x, expr(2))))
    m = Kernel("main", FunctionType.Orchestration)
    y = m.scalar("y", D.INDEX)
    t = TupleType((INDEX, ScalarType.of(D.TASK_ID)))
    r = m.let(Submit(GlobalVar("double"), (y,), (), EMPTY, EMPTY, t, m.span(), None, False, False, None))
    f = m.done(m.let(TupleGetItemExpr(r, 0)))
    assert interpret(Program([double, f]), [21]) == 42


def test_a_launch_of_no_blocks_is_an_error():
    writer = block_writer()
    m = Kernel("main", FunctionType.Orchestration)
    o, n = m.tensor("o", [8], D.INT32, OUT), m.scalar("n", D.INDEX)
    program = Program([writer, m.done(m.invoke(writer, o, core_num=n))])
    with pytest.raises(KernelError, match="a launch of 0 blocks"):
        interpret(program, [np.zeros(8, np.int32), 0])


@pytest.mark.parametrize(
    "make", [lambda body: SpmdScopeStmt(3, body=body), lambda body: SplitAivScopeStmt(SplitMode.UP_DOWN, 3, body=body)]
)
def test_scopes_run_once_per_block_or_lane(make):
    k = Kernel("main", FunctionType.Orchestration)
    o = k.tensor("o", [8], D.INT32, OUT)
    with k.body() as stmts:
        i, lane = k.op("tile.get_block_idx"), k.op("tile.get_subblock_idx")
        value = k.let(s.cast(s.add(s.mul(i, expr(10)), lane), D.INT32))
        k.op("tensor.write", o, [k.let(s.add(i, lane))], value)
    k.add(make(seq(stmts)))
    last = k.op("tile.get_block_num")
    f = k.done(last, o)
    blocks, got = interpret(f, [np.zeros(8, np.int32)])
    assert blocks == 1  # outside the scope it is one again
    assert got.tolist()[:3] in ([0, 10, 20], [0, 1, 2])

"""What the front half of the pipeline may not change: numbers.  Every pass runs before and after on the interpreter."""

import textwrap

import numpy as np
import pytest
from pass_lab import FRONT, agree_through, apply, body, findings, ints, main, out, outputs

from pypto.ir.program import Program
from pypto.ir.verify.properties import IRProperty


def kernel(text: str, params: str) -> Program:
    return body("with pl.at(level=pl.Level.CORE_GROUP):\n" + textwrap.indent(text.strip(), "    "), params)


SCALARS = "c: pl.Tensor[[8], pl.INT32], o: pl.Out[pl.Tensor[[8], pl.INT32]]"

DOWN = """
s = pl.const(0, pl.INDEX)
for i in pl.range(3, -1, -1):
    if i == 2:
        continue
    s = s + i
t = pl.const(0, pl.INDEX)
for j in pl.range(3, -1, -1):
    if j == 1:
        break
    t = t + j
u = pl.const(0, pl.INDEX)
for k in pl.range(10, 0, -4):
    u = u * 100 + k
pl.write(o, [0], pl.cast(s, pl.INT32))
pl.write(o, [1], pl.cast(t, pl.INT32))
pl.write(o, [2], pl.cast(u, pl.INT32))
"""

WHILES = """
v = pl.read(c, [0])
n = pl.const(0, pl.INDEX)
q = pl.const(0, pl.INDEX)
while v != 0:
    n = n + 1
    v = v - 1
    if v == 1:
        continue
    q = q + 1
x = pl.const(0, pl.INDEX)
y = pl.const(0, pl.INDEX)
i = pl.const(0, pl.INDEX)
while i < 4:
    y = x + 1
    x = y + 2
    i = i + 1
    if x > 8:
        break
pl.write(o, [0], pl.cast(n, pl.INT32))
pl.write(o, [1], pl.cast(x, pl.INT32))
pl.write(o, [2], pl.cast(y, pl.INT32))
pl.write(o, [3], pl.cast(i, pl.INT32))
pl.write(o, [4], pl.cast(q, pl.INT32))
"""

INNER_BREAK = """
n = pl.cast(pl.read(c, [0]), pl.INDEX)
s = pl.const(0, pl.INDEX)
for i in pl.range(4):
    for j in pl.range(4):
        if j > i:
            break
        if j == n:
            continue
        s = s + 10 * i + j
pl.write(o, [0], pl.cast(s, pl.INT32))
"""

RUN_TIME_STEP = """
a = pl.cast(pl.read(c, [0]), pl.INDEX)
b = pl.cast(pl.read(c, [1]), pl.INDEX)
d = pl.cast(pl.read(c, [2]), pl.INDEX)
stop_at = pl.cast(pl.read(c, [3]), pl.INDEX)
s = pl.const(0, pl.INDEX)
for i in pl.range(a, b, d):
    if i == stop_at:
        break
    s = s * 7 + i
pl.write(o, [0], pl.cast(s, pl.INT32))
"""

DEEP = """
n = pl.cast(pl.read(c, [0]), pl.INDEX)
s = pl.const(0, pl.INDEX)
for i in pl.range(8):
    if i > 1:
        if i == n:
            s = s + 100
            break
        else:
            if i == 3:
                continue
            s = s + 1
    else:
        if n == 7:
            continue
    s = s + 10
    if i == n + 2:
        break
    s = s + 1000
pl.write(o, [0], pl.cast(s, pl.INT32))
"""

EXPLICIT_EXITS = """
n = pl.cast(pl.read(c, [0]), pl.INDEX)
for i, (p, q) in pl.range(0, 6, 1, init_values=(pl.const(1, pl.INDEX), pl.const(2, pl.INDEX))):
    if i == n:
        break
    if i == 1:
        continue
    p2, q2 = pl.yield_(q, p + q)
pl.write(o, [0], pl.cast(p2, pl.INT32))
pl.write(o, [1], pl.cast(q2, pl.INT32))
"""

MIXED_CARRIES = """
n = pl.cast(pl.read(c, [0]), pl.INDEX)
w = pl.const(5, pl.INDEX)
for i, (p,) in pl.range(0, n, 1, init_values=(w,)):
    w = w + p
    p2 = pl.yield_(p + w)
pl.write(o, [0], pl.cast(p2, pl.INT32))
pl.write(o, [1], pl.cast(w, pl.INT32))
"""

BOTH_ARMS = """
n = pl.read(c, [0])
if n > 0:
    r = n * 2
elif n == 0:
    r = n + 100
else:
    r = n - 1
k = pl.const(0, pl.INT32)
if n > 5:
    k = r
for i in pl.range(3):
    if n > 1:
        k = k + r
    else:
        k = k - 1
pl.write(o, [0], r)
pl.write(o, [1], k)
"""


def numbers(text: str, *configs: tuple[int, ...]) -> list[list[int]]:
    """The outputs of a scalar kernel before and after all passes, which must agree."""
    p = kernel(text, SCALARS)
    args = [[ints(*c), out(8, dtype=np.int32)] for c in configs]
    after = agree_through(p, FRONT, *args)
    assert findings(after, IRProperty.SSAForm, IRProperty.TypeChecked, IRProperty.NoNestedCalls) == []
    return [outputs(after, a)[1].tolist() for a in args]


def test_loops_that_count_down():
    assert numbers(DOWN, ())[0][:3] == [4, 5, 100602]


def test_whiles():
    got = numbers(WHILES, (0,), (1,), (2,), (3,), (5,))
    assert [g[:5] for g in got] == [[n, 9, 7, 3, q] for n, q in ((0, 0), (1, 1), (2, 1), (3, 2), (5, 4))]


def test_break_leaves_the_inner_loop_only():
    assert [g[0] for g in numbers(INNER_BREAK, (0,), (1,), (9,))] == [150, 147, 210]


def python_range(a: int, b: int, d: int, stop_at: int) -> int:
    s = 0
    for i in range(a, b, d):
        if i == stop_at:
            break
        s = s * 7 + i
    return s


def test_run_time_bounds_and_step_of_either_sign():
    configs = [(0, 5, 1, 9), (0, 5, 2, 4), (5, 0, -1, 9), (9, -3, -4, 1), (0, 5, -1, 0), (5, 0, 1, 0), (3, 3, 1, 3)]
    assert [g[0] for g in numbers(RUN_TIME_STEP, *configs)] == [python_range(*c) for c in configs]


def test_a_zero_step_stays_an_error():
    p = kernel(RUN_TIME_STEP, SCALARS)
    with pytest.raises(Exception, match="step"):
        outputs(apply(p, *FRONT), [ints(0, 5, 0, 9), out(8, dtype=np.int32)])


def python_deep(n: int) -> int:
    s = 0
    for i in range(8):
        if i > 1:
            if i == n:
                s += 100
                break
            else:
                if i == 3:
                    continue
                s += 1
        else:
            if n == 7:
                continue
        s += 10
        if i == n + 2:
            break
        s += 1000
    return s


def test_exits_under_nested_branches():
    assert [g[0] for g in numbers(DEEP, *((n,) for n in range(9)))] == [python_deep(n) for n in range(9)]


def test_exits_of_loops_with_explicit_carries_keep_the_carries():
    def python(n: int) -> list[int]:
        p, q = 1, 2
        for i in range(6):
            if i == n:
                break
            if i == 1:
                continue
            p, q = q, p + q
        return [p, q]

    got = numbers(EXPLICIT_EXITS, *((n,) for n in range(8)))
    assert [g[:2] for g in got] == [python(n) for n in range(8)]


def test_explicit_and_implicit_carries_of_one_loop():
    def python(n: int) -> list[int]:
        w = p = 5
        for _ in range(n):
            w = w + p
            p = p + w
        return [p, w]

    assert [g[:2] for g in numbers(MIXED_CARRIES, (0,), (1,), (4,))] == [python(n) for n in (0, 1, 4)]


def test_names_set_in_both_arms_and_in_one():
    def python(n: int) -> list[int]:
        r = n * 2 if n > 0 else n + 100 if n == 0 else n - 1
        k = r if n > 5 else 0
        for _ in range(3):
            k = k + r if n > 1 else k - 1
        return [r, k]

    assert [g[:2] for g in numbers(BOTH_ARMS, (7,), (2,), (0,), (-3,))] == [python(n) for n in (7, 2, 0, -3)]


TILES = "a: pl.Tensor[[16, 8], pl.FP32], c: pl.Tensor[[8], pl.INT32], o: pl.Out[pl.Tensor[[32, 8], pl.FP32]]"
A = np.repeat(np.float32([1, 2]), 8)[:, None] * np.ones((1, 8), np.float32)


def rows(text: str, *configs: tuple[int, ...]) -> list[list[float]]:
    """The value of every block of eight rows of `o`, which must be constant."""
    p = kernel(text, TILES)
    args = [[A, ints(*c), out(32, 8)] for c in configs]
    after = agree_through(p, FRONT, *args)
    assert findings(after, IRProperty.SSAForm, IRProperty.TypeChecked, IRProperty.NoNestedCalls) == []
    found = []
    for a in args:
        blocks = outputs(after, a)[2].reshape(4, 64)
        assert (blocks == blocks[:, :1]).all()
        found.append(blocks[:, 0].tolist())
    return found


def test_swapped_tile_carries():
    text = """
ta = pl.load(a, [0, 0], [8, 8])
tb = pl.load(a, [8, 0], [8, 8])
n = pl.cast(pl.read(c, [0]), pl.INDEX)
for i, (p, q) in pl.range(0, n, 1, init_values=(ta, tb)):
    p2, q2 = pl.yield_(q, p)
pl.store(p2, [0, 0], o)
pl.store(q2, [8, 0], o)
pl.store(ta, [16, 0], o)
pl.store(tb, [24, 0], o)
"""
    assert rows(text, (0,), (1,), (2,), (3,)) == [[1, 2, 1, 2], [2, 1, 1, 2], [1, 2, 1, 2], [2, 1, 1, 2]]


def test_tiles_rebound_in_loops_and_left_by_break():
    text = """
t = pl.load(a, [0, 0], [8, 8])
u = pl.load(a, [8, 0], [8, 8])
n = pl.cast(pl.read(c, [0]), pl.INDEX)
for i in pl.range(6):
    t = pl.add(t, u)
    if i == n:
        break
    u = pl.add(u, 1.0)
    pl.store(u, [8, 0], o)
pl.store(t, [0, 0], o)
pl.store(u, [16, 0], o)
"""

    def python(n: int) -> list[float]:
        t, u, stored = 1, 2, -777
        for i in range(6):
            t = t + u
            if i == n:
                break
            u = u + 1
            stored = u
        return [t, stored, u, -777]

    assert rows(text, (0,), (3,), (9,)) == [python(0), python(3), python(9)]


def test_branch_results_that_are_live_inputs():
    text = """
t = pl.load(a, [0, 0], [8, 8])
u = pl.load(a, [8, 0], [8, 8])
k = pl.read(c, [0])
if k > 0:
    s = pl.yield_(t)
else:
    s = pl.yield_(u)
if k > 1:
    w = pl.yield_(u)
else:
    if k > 0:
        w1 = pl.yield_(s)
    else:
        w1 = pl.yield_(s)
    w = pl.yield_(w1)
pl.store(s, [0, 0], o)
pl.store(w, [8, 0], o)
pl.store(t, [16, 0], o)
pl.store(u, [24, 0], o)
"""
    assert rows(text, (0,), (1,), (2,)) == [[2, 2, 1, 2], [1, 1, 1, 2], [1, 2, 1, 2]]


def test_zero_trips_keep_what_was_there():
    text = """
lo = pl.cast(pl.read(c, [0]), pl.INDEX)
hi = pl.cast(pl.read(c, [1]), pl.INDEX)
t = pl.load(a, [0, 0], [8, 8])
for i in pl.range(lo, hi):
    t = pl.add(t, 1.0)
for i, (u,) in pl.range(lo, hi, 1, init_values=(t,)):
    v = pl.yield_(pl.mul(u, 2.0))
k = lo
while k < hi:
    v = pl.add(v, 100.0)
    k = k + 1
for b in pl.range(4):
    pl.store(v, [b * 8, 0], o)
"""
    assert [r[0] for r in rows(text, (0, 0), (5, 2), (3, 3), (0, 2))] == [1, 1, 1, 212]


def test_a_condition_that_reads_memory_is_read_again_every_time():
    text = """
i = pl.const(0, pl.INDEX)
while pl.read(c, [i]) > 0:
    i = i + 1
    if i == 8:
        break
pl.write(o, [0], pl.cast(i, pl.INT32))
"""
    # Eight positive entries: after the break the ninth must not be asked for.
    assert [g[0] for g in numbers(text, (1, 1, 0), (0,), (1,) * 8)] == [2, 0, 8]


ORCHESTRATION = """
n = pl.cast(pl.read(c, [0]), pl.INDEX)
for k in pl.range(4):
    if k == n:
        break
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [8, 8])
        pl.store(pl.add(t, pl.cast(k, pl.FP32)), [k * 8, 0], o)
"""


def test_loops_around_scopes_end_where_they_should():
    p = body(ORCHESTRATION, TILES)
    args = [[A, ints(n), out(32, 8)] for n in (0, 2, 9)]
    after = agree_through(p, FRONT, *args)
    assert [f.func_type.name for f in after.function_list] == ["Orchestration", "InCore"]
    for n, a in zip((0, 2, 9), args, strict=True):
        got = outputs(after, a)[2].reshape(4, 64)[:, 0]
        assert got.tolist() == [1 + k if k < min(n, 4) else -777 for k in range(4)]


def test_spmd_blocks_and_their_index():
    text = """
for b in pl.spmd(4):
    t = pl.load(a, [0, 0], [8, 8])
    pl.store(pl.mul(t, pl.cast(b, pl.FP32)), [b * 8, 0], o)
"""
    p = body(text, TILES)
    after = agree_through(p, FRONT, [A, ints(), out(32, 8)])
    assert sorted(f.func_type.name for f in after.function_list) == ["InCore", "Orchestration", "Spmd"]
    assert outputs(after, [A, ints(), out(32, 8)])[2].reshape(4, 64)[:, 0].tolist() == [0, 1, 2, 3]


def test_unchanged_functions_are_the_same_objects():
    p = body("with pl.at(level=pl.Level.CORE_GROUP):\n    pl.store(pl.load(a, [0, 0], [8, 8]), [0, 0], o)", TILES)
    done = apply(p, *FRONT)
    for name in FRONT:
        assert main(apply(done, name)) is main(done), name


def test_a_while_around_a_for_that_is_left():
    text = """
n = pl.cast(pl.read(c, [0]), pl.INDEX)
s = pl.const(0, pl.INDEX)
k = pl.const(0, pl.INDEX)
while k < 3:
    for i in pl.range(k, 9):
        if i == n:
            break
        s = s + i
    k = k + 1
    if s > 20:
        continue
    s = s + 100
pl.write(o, [0], pl.cast(s, pl.INT32))
"""

    def python(n: int) -> int:
        s = k = 0
        while k < 3:
            for i in range(k, 9):
                if i == n:
                    break
                s += i
            k += 1
            if s > 20:
                continue
            s += 100
        return s

    assert [g[0] for g in numbers(text, *((n,) for n in (0, 2, 4, 20)))] == [python(n) for n in (0, 2, 4, 20)]

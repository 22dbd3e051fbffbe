"""Kernels that functions make: each has the values that its own function had, in this process and in the next one."""

from jit_kit import HEAD

FACTORY = (
    HEAD
    + """
C = 128.0
def build(c):
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, c)
        return y
    return k
def shadowing():
    C = 64.0
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, C)
        return y
    return k
kernels = [build(float(c)) for c in sys.argv[1:]] + [shadowing()]
print(*[call(k) for k in kernels], *[call(k) for k in reversed(kernels)])
"""
)


def test_a_cell_is_the_kernels_own_and_beats_a_global(box):
    assert box.run(FACTORY, 2, 3).words == ["2.0", "3.0", "64.0", "64.0", "3.0", "2.0"]
    assert box.builds() == 3
    assert box.run(FACTORY, 3, 2).words == ["3.0", "2.0", "64.0", "64.0", "2.0", "3.0"]
    assert box.builds() == 0


KINDS = (
    HEAD
    + """
import enum
class Mode(enum.Enum):
    FAST = 1
    SLOW = 2
def nested(a):
    def inner(b):
        @pl.jit
        def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
            with pl.at(level=pl.Level.CORE_GROUP):
                y[:] = pl.add(pl.mul(x, a), b)
            return y
        return k
    return inner
def helped(a):
    @pl.jit.inline
    def h(t: pl.Tensor):
        return pl.mul(t, a)
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = h(x)
            y[:] = t
        return y
    return k
def incore(a):
    @pl.jit.incore
    def h(t: pl.Tensor, y: pl.Out[pl.Tensor]):
        y[:] = pl.mul(t, a)
        return y
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        y = h(x, y)
        return y
    return k
def typed(dtype):
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.cast(pl.mul(x, 1.001), dtype)
            y[:] = pl.cast(t, pl.FP32)
        return y
    return k
def shaped(shape, start):
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.slice(x, shape, start)
            y[0:32, 0:32] = pl.mul(t, 2.0)
        return y
    return k
def chosen(first, on):
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            if on:
                r = pl.yield_(pl.mul(x, first))
            else:
                r = pl.yield_(pl.mul(x, 3.0))
            y[:] = r
        return y
    return k
def worded(mode):
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.cast(pl.cast(pl.mul(x, 2.5), pl.INT32, mode=mode), pl.FP32)
        return y
    return k
looped = []
for v in (5.0, 6.0):
    looped.append(nested(v)(0.0))
print(*[call(k) for k in looped])
print(call(nested(2)(3.0)), call(nested(3.0)(2)), call((lambda: nested(4.0))()(1.0)),
      *[call(k(1.0)) for k in [nested(2.0), nested(7.0)]])
print(call(helped(2.0)), call(helped(3.0)), call(incore(2.0)), call(incore(3.0)))
print(call(typed(pl.FP16)), call(typed(pl.BF16)))
def corner(k):
    y = np.zeros((64, 64), np.float32); k(ones(), y); return float(y.sum())
print(corner(shaped([32, 32], [0, 8])), corner(shaped((32, 32), (0, 8))))
print(call(chosen(2.0, True)), call(chosen(2.0, False)))
print(call(worded("floor")), call(worded("ceil")))
"""
)


def test_cells_of_every_kind(box):
    want = [
        "5.0 6.0",
        "5.0 5.0 5.0 3.0 8.0",
        "2.0 3.0 2.0 3.0",
        "1.0009765625 1.0",
        "2048.0 2048.0",
        "2.0 3.0",
        "2.0 3.0",
    ]
    assert box.run(KINDS).out.splitlines() == want
    first = box.builds()
    assert first > 15
    assert box.run(KINDS).out.splitlines() == want
    assert box.builds() == 0


REBOUND = (
    HEAD
    + """
def make(c):
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, c)
        return y
    def bind(v):
        nonlocal c
        c = v
    def drop():
        nonlocal c
        del c
    return k, bind, drop
k, bind, drop = make(2.0)
bind(3.0); print(call(k))                       # before the first call
bind(4.0); print(call(k))                       # after it
bind(3.0); print(call(k))
drop()
try: call(k)
except Exception as e: print(type(e).__name__, "'c'" in str(e))
bind(4.0); print(call(k))
"""
)


def test_a_cell_may_be_bound_anew_at_any_time(box):
    assert box.run(REBOUND).words == ["3.0", "4.0", "3.0", "UndefinedVariableError", "True", "4.0"]
    assert box.builds() == 2


VALUES = (
    HEAD
    + """
def build(v):
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, v)
        return y
    return k
def flag(v):
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            if v:
                r = pl.yield_(pl.mul(x, 2.0))
            else:
                r = pl.yield_(pl.mul(x, 3.0))
            y[:] = r
        return y
    return k
"""
)
EACH = VALUES + "print(*[call(build(eval(v))) for v in sys.argv[1].split()])\n"
FLAG = (
    VALUES
    + """
def one(v):
    try: return call(flag(v))
    except Exception as e: return "refused"
print(*[one(eval(v)) for v in sys.argv[1].split()])
"""
)


def test_values_that_compare_equal_are_not_the_same(box):
    def go(values):
        return box.run(EACH, values).words, box.builds()

    assert go("1 1.0 0.0 -0.0 1e400-1e400 2.5") == (["1.0", "1.0", "0.0", "-0.0", "nan", "2.5"], 6)
    assert go("1e400-1e400 -0.0 0.0 1.0 1 2.5") == (["nan", "-0.0", "0.0", "1.0", "1.0", "2.5"], 0)
    assert go('float("nan") int(str(10**6)) int(str(10**6))') == (["nan", "1000000.0", "1000000.0"], 1)


def test_a_condition_is_a_bool_whichever_value_came_first(box):
    for order, want in (
        ("True False 1 1.0 0", ["2.0", "3.0", "refused", "refused", "refused"]),
        ("1 1.0 0 True False", ["refused", "refused", "refused", "2.0", "3.0"]),
    ):
        assert box.run(FLAG, order).words == want


NEIGHBOURS = (
    VALUES
    + """
import enum
class Count(enum.IntEnum): ONE = 1
class MyInt(int): pass
class MyFloat(float): pass
class Thing: pass
first = [call(build(1)), call(build(1.0)), call(build(2.5))]
odd = (np.int64(1), np.float32(1), np.float64(2.5), Count.ONE, MyInt(1), MyFloat(2.5), Thing())
for v in (*odd, 2**64, -2**63 - 1, "1", None, [1], (1.0,), b"1", 1j):
    try: got = call(build(v))
    except Exception as e:
        assert isinstance(e, pypto.Error), repr(e)
        assert e.source_lines[0].strip() == "y[:] = pl.mul(x, v)" and "t.py:" in str(e), str(e)
        print("refused", end=" ")
    else: print(got, end=" ")
"""
)


def test_what_is_no_plain_number_is_refused_by_name(box):
    assert box.run(NEIGHBOURS).words == ["refused"] * 15
    assert box.builds() == 3

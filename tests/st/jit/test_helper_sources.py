"""Helpers in other files: the key follows them one by one, through whatever name a kernel reaches them by."""

from jit_kit import HEAD

A = (
    HEAD
    + """
from b import inc
from b import inc as alias
from c import other
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = inc(x)
    return y
@pl.jit
def k2(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = alias(x)
    return y
print(call(k), call(k2), call(other))
"""
)
B = """
import pypto.language as pl
from c import inc2
@pl.jit.inline
def inc(t):
    return pl.add(inc2(t), 1.0)
"""
C = """
import pypto.language as pl
@pl.jit.inline
def inc2(t):
    return pl.add(t, 10.0)
@pl.jit
def other(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, 7.0)
    return y
"""


def test_an_edit_recompiles_what_uses_it(box):
    def go(b, c):
        (box.dir / "b.py").write_text(b)
        (box.dir / "c.py").write_text(c)
        return box.run(A).words, box.builds()

    assert go(B, C) == (["12.0", "12.0", "7.0"], 3)
    assert go(B, C) == (["12.0", "12.0", "7.0"], 0)
    assert go(B, C.replace("10.0", "20.0")) == (["22.0", "22.0", "7.0"], 2)  # `other` in the same file is still a hit
    assert go(B.replace("1.0", "2.0"), C.replace("10.0", "20.0")) == (["23.0", "23.0", "7.0"], 2)
    assert go(B, C + "\n# a comment\n\n") == (["12.0", "12.0", "7.0"], 0)


WAYS = (
    HEAD
    + """
import helpers, helpers as h2
from helpers import *
LIST, DICT = [helpers.shift], {"s": helpers.shift}
@pl.jit
def by_module(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = helpers.shift(x)
        y[:] = t
    return y
@pl.jit
def by_star(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = shift(x)
        y[:] = t
    return y
@pl.jit
def by_incore(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    y = helpers.kernel(x, y)
    return y
@pl.jit
def by_nothing(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, 3.0)
    return y
@pl.jit
def by_list(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = LIST[0](x)
        y[:] = t
    return y
@pl.jit
def by_dict(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = DICT["s"](x)
        y[:] = t
    return y
print(call(by_module), call(by_star), call(by_incore), call(by_nothing))
for k in (by_list, by_dict):
    try: print(call(k))
    except pypto.Error as e: print("refused", "t.py" in str(e), "LIST" in str(e) or "DICT" in str(e))
"""
)
HELPERS = """
import pypto.language as pl
OFFSET = 1.0
@pl.jit.inline
def shift(t: pl.Tensor):
    return pl.add(t, OFFSET)
@pl.jit.incore
def kernel(t: pl.Tensor, y: pl.Out[pl.Tensor]):
    y[:] = pl.mul(t, 5.0)
    return y
@pl.jit.inline
def never_called(t: pl.Tensor):
    return pl.add(t, 99.0)
"""
REFUSED = ["refused", "True", "True"] * 2


def test_every_way_to_a_helper_is_followed_or_refused(box):
    def go(text):
        (box.dir / "helpers.py").write_text(text)
        return box.run(WAYS).words, box.builds()

    assert go(HELPERS) == (["2.0", "2.0", "5.0", "3.0", *REFUSED], 4)
    assert go(HELPERS.replace("OFFSET = 1.0", "OFFSET = 2.0").replace("99.0", "98.0")) == (
        ["3.0", "3.0", "5.0", "3.0", *REFUSED],
        2,
    )
    assert go(HELPERS.replace("5.0", "6.0")) == (["2.0", "2.0", "6.0", "3.0", *REFUSED], 1)
    # A helper of another name with the same text is another helper; one that is called under a new name is not.
    renamed = HELPERS.replace("def shift", "def moved").replace("@pl.jit.incore", "shift = moved\n@pl.jit.incore")
    assert go(renamed.replace("OFFSET = 1.0\n", 'OFFSET = 1.0\n__all__ = ["shift"]\n')) == (
        ["2.0", "2.0", "5.0", "3.0", *REFUSED],
        2,
    )


def test_helpers_that_call_each_other_are_an_error(box):
    code = """
@pl.jit.inline
def one(t: pl.Tensor):
    return two(t)
@pl.jit.inline
def two(t: pl.Tensor):
    return one(t)
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = one(x)
        y[:] = t
    return y
for _ in range(2):
    try: call(k)
    except pypto.Error as e: print("recursion" in str(e) and "one" in str(e) and "two" in str(e))
"""
    assert box.run(HEAD + code).words == ["True", "True"]
    assert box.builds() == 0


def test_a_helper_bound_anew_is_seen_by_the_next_call(box):
    code = """
@pl.jit.inline
def h(t: pl.Tensor):
    return pl.mul(t, 2.0)
@pl.jit.inline
def outer(t: pl.Tensor):
    return h(t)
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = outer(x)
        y[:] = t
    return y
print(call(k)); first = h
@pl.jit.inline
def h(t: pl.Tensor):
    return pl.mul(t, 3.0)
print(call(k))
h = first; print(call(k))
h = 5
try: call(k)
except pypto.Error as e: print("h(t)" in str(e))
"""
    assert box.run(HEAD + code).words == ["2.0", "3.0", "2.0", "True"]
    assert box.builds() == 2


def test_a_default_of_a_helper_is_part_of_the_key(box):
    """It was evaluated when the helper was defined: its value counts, whatever the text says."""
    code = """
D = float(sys.argv[1])
@pl.jit.inline
def h(t: pl.Tensor, s: pl.FP32 = D):
    return pl.mul(t, s)
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = h(x)
        y[:] = t
    return y
D = 9.0
print(call(k))
"""
    for value, builds in ((2.0, 1), (3.0, 1), (2.0, 0)):
        assert box.run(HEAD + code, value).words == [str(value)]
        assert box.builds() == builds


def test_helpers_are_not_called_from_python_and_kernels_are_not_called_from_kernels(box):
    code = """
@pl.jit.inline
def h(t: pl.Tensor):
    return pl.mul(t, 2.0)
@pl.jit
def entry(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, 2.0)
    return y
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    y = entry(x, y)
    return y
for f in (lambda: h(ones()), lambda: call(k)):
    try: f()
    except pypto.Error as e: print(bool(e.hint))
"""
    assert box.run(HEAD + code).words == ["True", "True"]
    assert box.builds() == 0

"""UnrollLoops: one copy of the body per iteration."""

import pytest
from pass_lab import apply, body, findings, main, same

from pypto.enums import ForKind
from pypto.errors import CompileError
from pypto.ir.expr import ConstInt, const_index
from pypto.ir.program import Program
from pypto.ir.stmt import ForStmt
from pypto.ir.verify.properties import IRProperty
from pypto.passes.unroll_loops import MAX_COPIES

X = "x: pl.Tensor[[64, 16], pl.FP32], k: pl.Scalar[pl.INDEX]"


def test_copies_hand_on_what_they_rebind():
    before = body("for i in pl.unroll(0, 4, 2):\n    k = k + i\nreturn k", X)
    after = body("k = k + 0\nk = k + 2\nreturn k", X)
    got = apply(before, "unroll_loops")
    same(got, after)
    assert findings(got, IRProperty.UnrollResolved) == []


def test_nested_and_descending():
    before = body("for i in pl.unroll(2, 0, -1):\n    for j in pl.unroll(2):\n        k = k * i + j\nreturn k", X)
    after = body("k = k * 2 + 0\nk = k * 2 + 1\nk = k * 1 + 0\nk = k * 1 + 1\nreturn k", X)
    same(apply(before, "unroll_loops"), after)


def test_types_follow_the_constant():
    text = """
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.unroll(2):
                t = pl.load(x, [i * 16, 0], [16, 16], valid_shape=[i + 1, 16])
                pl.store(t, [0, 0], x)
        return x
        """
    got = apply(body(text, X), "unroll_loops")
    assert findings(got, IRProperty.AssignTypeSymmetry) == []


def test_no_iteration_leaves_nothing():
    same(apply(body("for i in pl.unroll(3, 3):\n    k = k + i\nreturn k", X), "unroll_loops"), body("return k", X))


def _loop(stop, step=1):
    """A loop whose bounds a parser would have refused."""
    p = body("for i in pl.unroll(2):\n    k = k + i\nreturn k", X)
    f = main(p)
    loop = f.body.stmts[0]
    assert isinstance(loop, ForStmt)
    assert loop.kind is ForKind.Unroll
    stop = f.params[1] if stop is None else const_index(stop)
    new = loop.replace(stop=stop, step=ConstInt(step, loop.step.dtype))
    return Program([f.replace(body=f.body.replace(stmts=(new, *f.body.stmts[1:])))])


@pytest.mark.parametrize(
    ("stop", "step", "words"), [(None, 1, "must be a constant"), (4, 0, "zero"), (MAX_COPIES + 1, 1, "copies")]
)
def test_bounds_that_cannot_be_unrolled(stop, step, words):
    with pytest.raises(CompileError, match=words):
        apply(_loop(stop, step), "unroll_loops")


def test_comments_stay_with_the_first_copy():
    p = body("# what follows\nfor i in pl.unroll(2):\n    k = k + i\nreturn k", X)
    loop = main(p).body.stmts[0]
    got = main(apply(p, "unroll_loops")).body.stmts
    assert got[0].leading_comments == loop.leading_comments
    assert not got[1].leading_comments

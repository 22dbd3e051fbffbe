"""Simplify: what is folded, lifted and dropped, and what is not."""

import pytest
from pass_lab import apply, body, findings, main, same

from pypto.errors import CompileError
from pypto.ir.verify.properties import IRProperty

K = "n: pl.Scalar[pl.INDEX], k: pl.Scalar[pl.INDEX], x: pl.Out[pl.Tensor[[16], pl.INDEX]], f: pl.Scalar[pl.FP32]"


def check(before: str, after: str, params: str = K) -> None:
    got = apply(body(before, params), "convert_to_ssa", "simplify")
    same(got, body(after, params))
    same(apply(got, "simplify"), got)
    assert findings(got, IRProperty.SSAForm, IRProperty.TypeChecked, IRProperty.AssignTypeSymmetry) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("k + 0", "k"),
        ("0 + k", "k"),
        ("k * 1", "k"),
        ("k * 0", "0"),
        ("k - k", "0"),
        ("(k + n) - n", "k"),
        ("k // 1", "k"),
        ("k % 1", "0"),
        ("(k + 3) + 4", "k + 7"),
        ("(k + 3) - 3", "k"),
        ("(k - 3) + 1", "k - 2"),
        ("(k * 3) * 4", "k * 12"),
        ("pl.min(k, k)", "k"),
    ],
)
def test_identities(before, after):
    check(f"return {before}", f"return {after}")


@pytest.mark.parametrize("kept", ["f - f", "f * 0.0", "f + 0.0", "f / f", "pl.max(f, f)"])
def test_floats_are_left_alone(kept):
    p = body(f"g = {kept}\nreturn g", K)
    assert main(apply(p, "simplify")) is main(p)


def test_integers_wrap_in_their_dtype():
    params = "a: pl.Scalar[pl.INT32]"
    check("return (a + 2147483647) + 1", "return a + pl.const(-2147483648, pl.INT32)", params)


def test_what_could_wrap_is_not_decided():
    text = "r = n\nif n + 1 > n:\n    r = k\nreturn r"
    got = apply(body(text, K), "convert_to_ssa", "simplify")
    assert type(main(got).body.stmts[1]).__name__ == "IfStmt"


def test_a_constant_zero_divisor_is_an_error_at_its_place():
    p = body("z = n - n\nr = k // z\nreturn r", K)
    with pytest.raises(CompileError, match="division by zero") as e:
        apply(p, "convert_to_ssa", "simplify")
    assert e.value.span["line"] == 5
    assert e.value.span["column"] == 9


def test_a_zero_divisor_in_a_branch_that_never_runs_is_none():
    check("z = n - n\nr = k\nif z != 0:\n    r = k // z\nreturn r", "r = k\nreturn r")


def test_constants_go_where_they_are_used():
    before = """
        c = n - n
        d = c + 4
        for i in pl.range(d):
            e = d + 1
            pl.write(x, [i + e], k)
        return x
        """
    got = apply(body(before, K), "convert_to_ssa", "simplify")
    loop = main(got).body.stmts[0]
    assert loop.stop.value == 4
    # In a loop a constant stays a variable: it only bounds.
    assert [s.var.name_hint for s in loop.body.stmts[:1]] == ["e"]
    assert loop.body.stmts[0].value.value == 5


def test_an_arm_that_always_runs_is_lifted():
    before = """
        for i in pl.range(4):
            if i < 7:
                j = i + 1
            else:
                j = k
            pl.write(x, [j], k)
        return x
        """
    after = """
        for i in pl.range(4):
            j = i + 1
            pl.write(x, [j], k)
        return x
        """
    same(apply(body(before, K), "convert_to_ssa", "simplify"), apply(body(after, K), "convert_to_ssa"))


def test_an_inner_condition_that_an_outer_one_decides():
    before = """
        r = k
        if n < k:
            if n + 1 <= k:
                r = n
            else:
                r = k + 1
        return r
        """
    after = """
        s = k
        if n < k:
            t = n
            r = pl.yield_(t)
        else:
            r = pl.yield_(s)
        return r
        """
    # n < k bounds n away from the largest index, so that n + 1 cannot wrap.
    check(before, after)


def test_a_single_trip_is_inlined_and_no_trip_dropped():
    before = """
        s = n
        for i in pl.range(0, 64, 64):
            if i == 0:
                s = s + k
            else:
                s = s * 2
        for j in pl.range(5, 2):
            s = s * 3
        return s
        """
    after = """
        s = n
        s1 = s + k
        r = s1
        return r
        """
    check(before, after)


def test_loops_that_are_not_sequential_stay():
    p = body("for i in pl.parallel(0, 1):\n    pl.write(x, [i], k)\nreturn x", K)
    got = apply(p, "convert_to_ssa", "simplify")
    assert type(main(got).body.stmts[0]).__name__ == "ForStmt"


def test_dead_scalars_go_and_calls_stay():
    before = """
        a = n + 1
        b = a * 2
        c = pl.read(x, [0])
        if n > 3:
            d = b + 1
        return k
        """
    after = """
        c = pl.read(x, [0])
        return k
        """
    check(before, after)


def test_extents_fold_with_their_operands():
    text = """
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(2):
                t = pl.load(a, [0, 0], [8, 8], valid_shape=[pl.min(8, i + 8), 8])
                pl.store(t, [0, 0], o)
        return o
        """
    p = body(text, "a: pl.Tensor[[8, 8], pl.FP32], o: pl.Out[pl.Tensor[[8, 8], pl.FP32]]")
    got = apply(p, "convert_to_ssa", "simplify")
    assert findings(got, IRProperty.TypeChecked, IRProperty.AssignTypeSymmetry) == []
    load = main(got).body.stmts[0].body.body.stmts[0]
    assert load.var.type.is_fully_valid


def test_a_step_of_zero_found_late():
    with pytest.raises(CompileError, match="step"):
        apply(body("z = n - n\nfor i in pl.range(0, 4, z):\n    k = k + i\nreturn k", K), "convert_to_ssa", "simplify")

"""CtrlFlowTransform: the shapes it gives loops.  That they compute the same is in test_front_semantics."""

import pytest
from pass_lab import apply, body, findings, main, same

from pypto.errors import CompileError
from pypto.ir.stmt import BreakStmt, IfStmt
from pypto.ir.verify.properties import IRProperty

P = "n: pl.Scalar[pl.INDEX], k: pl.Scalar[pl.INDEX]"
DONE = (IRProperty.StructuredCtrlFlow,)


def check(before: str, after: str, params: str = P) -> None:
    got = apply(body(before, params), "ctrl_flow_transform")
    same(got, body(after, params))
    assert findings(got, *DONE) == []


def test_what_follows_a_continue_moves_into_the_other_arm():
    before = """
        for i in pl.range(n):
            if i == 2:
                k = k + 1
                continue
            k = k * i
        return k
        """
    after = """
        for i in pl.range(n):
            if i == 2:
                k = k + 1
            else:
                k = k * i
        return k
        """
    check(before, after)


def test_an_arm_of_nothing_but_continue_is_negated():
    before = """
        for i in pl.range(n):
            if i == 2:
                continue
            k = k * i
        return k
        """
    after = """
        for i in pl.range(n):
            if not (i == 2):
                k = k * i
        return k
        """
    check(before, after)


def test_a_break_ends_the_loop_by_its_condition():
    before = """
        for i in pl.range(9, 0, -2):
            if k > 5:
                break
            k = k + i
        return k
        """
    after = """
        i: pl.Scalar[pl.INDEX] = 9
        stopped: pl.Scalar[pl.BOOL] = False
        while i > 0 and not stopped:
            if k > 5:
                stopped = True
            else:
                k = k + i
            if not stopped:
                i = i + -2
        return k
        """
    check(before, after)


def test_a_while_loop_gains_the_flag():
    before = """
        while k < n:
            k = k + 1
            if k == 7:
                break
        return k
        """
    after = """
        stopped: pl.Scalar[pl.BOOL] = False
        while k < n and not stopped:
            k = k + 1
            if k == 7:
                stopped = True
        return k
        """
    check(before, after)


def test_a_bound_that_the_body_changes_is_kept():
    before = """
        for i in pl.range(0, n, 2):
            n = n - 1
            if n == 3:
                break
        return n
        """
    after = """
        bound = n
        i: pl.Scalar[pl.INDEX] = 0
        stopped: pl.Scalar[pl.BOOL] = False
        while i < bound and not stopped:
            n = n - 1
            if n == 3:
                stopped = True
            if not stopped:
                i = i + 2
        return n
        """
    check(before, after)


def test_a_step_known_at_run_time_only_keeps_the_loop():
    before = """
        for i in pl.range(0, 9, n):
            if k > 5:
                break
            k = k + i
        return k
        """
    after = """
        stopped: pl.Scalar[pl.BOOL] = False
        for i in pl.range(0, 9, n):
            if not stopped:
                if k > 5:
                    stopped = True
                else:
                    k = k + i
        return k
        """
    check(before, after)


def test_loops_without_exits_are_the_same_objects():
    p = body("for i in pl.range(n):\n    if i > 2:\n        k = k + i\nwhile k > 5:\n    k = k - 3\nreturn k", P)
    assert main(apply(p, "ctrl_flow_transform")) is main(p)


def test_a_break_out_of_a_scope_is_refused_at_its_line():
    p = body("for i in pl.range(n):\n    with pl.at(level=pl.Level.CORE_GROUP):\n        k = k + i\nreturn k", P)
    f = main(p)
    loop = f.body.stmts[0]
    at = loop.body.body.span
    leaving = loop.body.replace(body=IfStmt(loop.start, BreakStmt(at), None))
    bad = f.replace(body=f.body.replace(stmts=(loop.replace(body=leaving), f.body.stmts[1])))
    with pytest.raises(CompileError, match="cannot leave the scope") as e:
        apply(p.with_functions([bad]), "ctrl_flow_transform")
    assert e.value.location is at


def test_a_counter_narrower_than_an_index_cannot_wrap():
    text = """
        for i in pl.range(pl.const(0, pl.INT32), m, pl.const(2, pl.INT32)):
            if k > 5:
                break
            k = k + 1
        return k
        """
    got = apply(body(text, "m: pl.Scalar[pl.INT32], k: pl.Scalar[pl.INDEX]"), "ctrl_flow_transform")
    loops = [s for s in main(got).body.stmts if type(s).__name__ == "WhileStmt"]
    counter = loops[0].condition.left.left
    assert str(counter.type.dtype) == "index"

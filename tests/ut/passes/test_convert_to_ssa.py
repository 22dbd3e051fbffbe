"""ConvertToSSA: the shapes of carries and results, and random programs whose numbers must stay."""

import textwrap

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pass_lab import agree, apply, body, findings, ints, main, out, outputs, program, same

from pypto.ir.verify.properties import IRProperty

K = "n: pl.Scalar[pl.INDEX], k: pl.Scalar[pl.INDEX]"
JUDGES = (IRProperty.SSAForm, IRProperty.TypeChecked, IRProperty.AssignTypeSymmetry)


def check(before: str, after: str, params: str = K) -> None:
    got = apply(body(before, params), "convert_to_ssa")
    same(got, body(after, params))
    assert findings(got, *JUDGES) == []


def test_a_sum_over_a_loop():
    before = """
        s = n - 1
        for i in pl.range(4):
            s = s + i
        return s
        """
    after = """
        s = n - 1
        for i, (c,) in pl.range(4, init_values=(s,)):
            d = c + i
            r = pl.yield_(d)
        return r
        """
    check(before, after)
    text = apply(body(before, K), "convert_to_ssa").as_python()
    for name in ("s__ssa_v0", "s__iter_v1", "s__ssa_v2", "s__rv_v3"):
        assert name in text


def test_one_arm_of_a_branch():
    before = """
        if n > 2:
            k = k + 1
        return k
        """
    after = """
        if n > 2:
            a = k + 1
            r = pl.yield_(a)
        else:
            r = pl.yield_(k)
        return r
        """
    check(before, after)


def test_only_what_is_read_later_is_a_result():
    before = """
        t = n + 1
        if n > 2:
            t = k + 1
            k = t * 2
        t = k
        return t
        """
    after = """
        if n > 2:
            a = k + 1
            b = a * 2
            r = pl.yield_(b)
        else:
            r = pl.yield_(k)
        t = r
        return t
        """
    check(before, after.replace("        if n > 2", "        z = n + 1\n        if n > 2"))


def test_only_what_is_read_later_is_carried():
    before = """
        t = n + 1
        u = n + 2
        for i in pl.range(n):
            t = i * 2
            u = u + t
        t = u
        return t
        """
    after = """
        t = n + 1
        u = n + 2
        for i, (c,) in pl.range(n, init_values=(u,)):
            t1 = i * 2
            d = c + t1
            r = pl.yield_(d)
        t2 = r
        return t2
        """
    check(before, after)


def test_a_while_condition_reads_the_carry():
    before = """
        while k < n:
            k = k * 2
        return k
        """
    after = """
        for (c,) in pl.while_(init_values=(k,)):
            pl.cond(c < n)
            d = c * 2
            r = pl.yield_(d)
        return r
        """
    check(before, after)


def test_implicit_carries_join_explicit_ones():
    before = """
        for i, (a,) in pl.range(n, init_values=(n,)):
            k = k + a
            b = pl.yield_(a + 1)
        return b, k
        """
    after = """
        for i, (a, c) in pl.range(n, init_values=(n, k)):
            d = c + a
            b, e = pl.yield_(a + 1, d)
        return b, e
        """
    check(before, after)


def test_results_of_written_tensors_start_from_the_tensor():
    before = """
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [8, 8])
            for i in pl.range(2):
                o2 = pl.store(t, [i * 8, 0], o)
        return o2
        """
    after = """
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [8, 8])
            for i, (c,) in pl.range(2, init_values=(o,)):
                o2 = pl.store(t, [i * 8, 0], o)
                r = pl.yield_(o2)
        return r
        """
    check(before, after, "x: pl.Tensor[[16, 8], pl.FP32], o: pl.Out[pl.Tensor[[16, 8], pl.FP32]]")


def test_other_names_of_a_loop_body_do_not_leave_it():
    text = """
        for i in pl.range(n):
            y = i + 1
        return k
        """
    p = body(text, K)
    f = main(p)
    y = f.body.stmts[0].body.var
    leaking = f.replace(body=f.body.replace(stmts=(f.body.stmts[0], f.body.stmts[1].replace(value=(y,)))))
    got = apply(p.with_functions([leaking]), "convert_to_ssa")
    assert findings(got, IRProperty.SSAForm) == [(6, "Variable 'y' used outside its defining scope")]


def test_extents_in_types_follow_the_version_they_were_read_at():
    text = """
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [8, 8], valid_shape=[n, 8])
            n = n - 1
            u = pl.add(t, 1.0)
            pl.store(u, [0, 0], o)
        return o
        """
    p = body(text, "n: pl.Scalar[pl.INDEX], x: pl.Tensor[[8, 8], pl.FP32], o: pl.Out[pl.Tensor[[8, 8], pl.FP32]]")
    got = apply(p, "convert_to_ssa")
    assert findings(got, *JUDGES) == []
    f = main(got)
    load, _, add, _ = f.body.stmts[0].body.stmts
    assert load.var.type.valid[0] is f.params[0]
    assert add.var.type.valid[0] is f.params[0]
    for rows in (1, 5, 8):
        written = outputs(got, [rows, np.ones((8, 8), np.float32), out(8, 8)])[2]
        assert (written[:, 0] == 2).sum() == rows


def test_functions_in_ssa_form_are_the_same_objects():
    p = body("for i, (a,) in pl.range(n, init_values=(n,)):\n    b = pl.yield_(a + k)\nreturn b", K)
    assert main(apply(p, "convert_to_ssa")) is main(p)


def test_a_break_that_is_left_is_taken_care_of():
    text = "for i in pl.range(n):\n    k = k + i\n    if k > 9:\n        break\nreturn k"
    assert findings(apply(body(text, K), "convert_to_ssa"), IRProperty.SSAForm, IRProperty.StructuredCtrlFlow) == []


def test_calls_of_functions_rebind_what_they_write():
    got = apply(
        program(
            """
        X = pl.Tensor[[16, 16], pl.FP32]

        @pl.program
        class P:
            @pl.function(type=pl.FunctionType.InCore)
            def k(a: pl.Tensor[[16, 16], pl.FP32], o: pl.Out[pl.Tensor[[16, 16], pl.FP32]]) -> pl.Tensor[[16, 16], pl.FP32]:
                o = pl.store(pl.load(a, [0, 0], [16, 16]), [0, 0], o)
                return o

            @pl.function(type=pl.FunctionType.Orchestration)
            def main(self, a: pl.Tensor[[16, 16], pl.FP32], o: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
                for i in pl.range(3):
                    o = self.k(a, o)
                return o
        """.replace("X = pl.Tensor[[16, 16], pl.FP32]\n", "")
        ),
        "convert_to_ssa",
    )
    assert findings(got, *JUDGES, IRProperty.InOutUseValid) == []
    loop = main(got).body.stmts[0]
    assert len(loop.iter_args) == 1
    assert loop.iter_args[0].initValue is main(got).params[1]


# -- random programs -----------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d")


@st.composite
def expressions(draw) -> str:
    parts = st.one_of(st.sampled_from(NAMES), st.integers(-3, 5).map(str))
    op = draw(st.sampled_from(("+", "-", "*", "//", "%")))
    left, right = draw(parts), draw(parts)
    if op in ("//", "%"):
        right = str(draw(st.sampled_from((-3, -2, 2, 3, 5))))
    return f"pl.const({left}, pl.INDEX) + {right}" if left.lstrip("-").isdigit() else f"{left} {op} {right}"


@st.composite
def conditions(draw) -> str:
    return f"{draw(st.sampled_from(NAMES))} {draw(st.sampled_from(('<', '>', '==', '<=')))} {draw(st.integers(-2, 6))}"


@st.composite
def blocks(draw, depth: int = 3, loop: bool = False, counter: tuple[int, ...] = ()) -> str:
    lines = []
    for position in range(draw(st.integers(1, 3))):
        kinds = ["assign", "assign"] + (["if", "for", "while"] if depth else []) + (["exit"] if loop else [])
        kind = draw(st.sampled_from(kinds))
        inner = (*counter, position)
        if kind == "assign":
            lines.append(f"{draw(st.sampled_from(NAMES))} = {draw(expressions())}")
        elif kind == "if":
            lines.append(f"if {draw(conditions())}:")
            lines.append(textwrap.indent(draw(blocks(depth - 1, loop, inner)), "    "))
            if draw(st.booleans()):
                lines.append("else:")
                lines.append(textwrap.indent(draw(blocks(depth - 1, loop, inner)), "    "))
        elif kind == "for":
            step = draw(st.sampled_from((1, 2, -1)))
            bounds = "0, 3" if step > 0 else "3, 0"
            name = "i" + "_".join(map(str, inner))
            lines.append(f"for {name} in pl.range({bounds}, {step}):")
            lines.append(textwrap.indent(f"a = a + {name}\n" + draw(blocks(depth - 1, True, inner)), "    "))
        elif kind == "while":
            name = "w" + "_".join(map(str, inner))
            lines.append(f"{name} = pl.const(0, pl.INDEX)\nwhile {name} < 3:")
            lines.append(textwrap.indent(f"{name} = {name} + 1\n" + draw(blocks(depth - 1, True, inner)), "    "))
        else:
            lines.append(f"if {draw(conditions())}:\n    {draw(st.sampled_from(('break', 'continue')))}")
    return "\n".join(lines)


def scalar_kernel(text: str):
    head = "".join(f"{v} = pl.cast(pl.read(c_in, [{i}]), pl.INDEX)\n" for i, v in enumerate(NAMES))
    tail = "".join(f"pl.write(o, [{i}], pl.cast({v}, pl.INT32))\n" for i, v in enumerate(NAMES))
    inner = textwrap.indent(head + text + "\n" + tail, "    ")
    return body(
        f"with pl.at(level=pl.Level.CORE_GROUP):\n{inner}",
        "c_in: pl.Tensor[[8], pl.INT32], o: pl.Out[pl.Tensor[[8], pl.INT32]]",
    )


@settings(max_examples=60, deadline=None)
@given(blocks(), st.lists(st.integers(-3, 6), min_size=4, max_size=4))
def test_random_programs_keep_their_numbers(text, values):
    p = scalar_kernel(text)
    args = [ints(*values), out(8, dtype=np.int32)]
    structured = apply(p, "ctrl_flow_transform")
    agree(p, structured, args)
    ssa = apply(structured, "convert_to_ssa")
    assert findings(ssa, *JUDGES) == []
    agree(p, ssa, args)
    simple = apply(ssa, "simplify")
    assert findings(simple, *JUDGES) == []
    agree(p, simple, args)
    same(apply(simple, "simplify"), simple)
    front = apply(simple, "normalize_stmt_structure", "flatten_call_expr", "outline_incore_scopes")
    assert findings(front, *JUDGES, IRProperty.NoNestedCalls) == []
    agree(p, front, args)

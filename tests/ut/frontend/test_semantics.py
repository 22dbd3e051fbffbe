"""A kernel's text means what Python says it means: random programs, read by the parser and run by the interpreter,
against Python itself."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from frontend_kit import arrays, f32, i32, inline, kernel, round_trip

import pypto.language as pl


class Shim:
    """`pl` as plain Python, for scalars."""

    INT32 = INDEX = BOOL = None

    @staticmethod
    def range(*bounds: int, init_values: tuple[int, ...] = ()) -> range:
        return range(*bounds)

    @staticmethod
    def cast(v: int, _: Any) -> int:
        return v

    const = cast

    @staticmethod
    def min(a: int, b: int) -> int:
        return min(a, b)

    max = staticmethod(max)

    @staticmethod
    def read(x: Any, at: list[int]) -> int:
        return int(x[tuple(at)])

    @staticmethod
    def write(x: Any, at: list[int], v: int) -> None:
        x[tuple(at)] = v


class Writer:
    """A random structured program over int variables that are all assigned before they are read."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.fresh = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def expr(self, names: list[str]) -> str:
        r = self.r
        a = r.choice(names)
        b = r.choice([*names, str(r.randrange(-3, 7))])
        op = r.choice(["+", "-", "*", "//", "%", "min", "max"])
        if op in ("min", "max"):
            return f"pl.{op}({a}, {b})"
        if op in ("//", "%"):
            return f"{a} {op} {r.choice([-3, 2, 5])}"
        return f"({a} {op} {b}) % 1000"

    def block(self, depth: int, names: list[str], loops: int) -> list[str]:
        """Statements; returns the names that are certainly bound afterwards."""
        r = self.r
        names = list(names)
        self.line(depth, "pass")
        for _ in range(r.randrange(1, 4)):
            kind = r.choice("aaasuifwcbx")
            if kind == "a":
                self.line(depth, f"{r.choice(names)} = {self.expr(names)}")
            elif kind == "s" and len(names) > 1:
                x, y = r.sample(names, 2)
                self.line(depth, f"{x}, {y} = {y}, {self.expr(names)}")
            elif kind == "u":
                self.fresh += 1
                name = f"t{self.fresh}"
                self.line(depth, f"{name} = {self.expr(names)}")
                names.append(name)
            elif kind == "x":
                self.line(depth, f"tmp = {self.expr(names)}")  # one name, reused everywhere
                self.line(depth, f"{r.choice(names)} = tmp + 1")
            elif depth < 5 and kind == "i":
                self.branch(depth, names, loops)
            elif depth < 4 and kind in "fw":
                self.loop(depth, names, kind)
            elif kind in "cb" and loops:
                self.line(depth, f"if {r.choice(names)} % 3 == 1:")
                self.line(depth + 1, "continue" if kind == "c" and loops == 1 else "break")
        return names

    def branch(self, depth: int, names: list[str], loops: int) -> None:
        self.line(depth, f"if {self.r.choice(names)} > {self.r.randrange(5)}:")
        first = self.block(depth + 1, names, loops)
        both = "both" if self.r.random() < 0.5 else ""
        if both:
            self.fresh += 1
            both = f"p{self.fresh}"
            self.line(depth + 1, f"{both} = {self.expr(first)}")
        if both or self.r.random() < 0.6:
            self.line(depth, "else:")
            second = self.block(depth + 1, names, loops)
            if both:
                self.line(depth + 1, f"{both} = {self.expr(second)}")
                names.append(both)

    def loop(self, depth: int, names: list[str], kind: str) -> None:
        self.fresh += 1
        i = f"i{self.fresh}"
        if kind == "f":
            bounds = self.r.choice(["3", "n", "1, n", "5, -1, -2", "n, 0, -1"])
            self.line(depth, f"for {i} in pl.range({bounds}):")
            self.block(depth + 1, [*names, i], 1)
            return
        self.line(depth, f"{i} = 0")
        names.append(i)
        self.line(depth, f"while {i} < 3:")
        self.line(depth + 1, f"{i} = {i} + 1")
        inner = [n for n in names if n != i]
        self.block(depth + 1, inner, 1)

    def program(self) -> str:
        for n in ("x", "y", "z"):
            self.line(0, f"{n} = pl.cast(pl.read(c, [{'xyz'.index(n)}]), pl.INDEX)")
        self.line(0, "n = pl.cast(pl.read(c, [3]), pl.INDEX)")
        self.block(0, ["x", "y", "z"], 0)
        self.block(0, ["x", "y", "z"], 0)
        for k, n in enumerate(("x", "y", "z")):
            self.line(0, f"pl.write(o, [{k}], pl.cast({n}, pl.INT32))")
        return "\n".join(self.lines)


@pytest.mark.parametrize("seed", range(60))
def test_scalar_programs(seed: int) -> None:
    text = Writer(seed).program()
    k = kernel(text, "c: pl.Tensor, o: pl.Out[pl.Tensor]")
    for values in ((1, 2, 3, 2), (7, -4, 0, 0), (5, 5, 1, 4)):
        got, want = i32(0, 0, 0), i32(0, 0, 0)
        k(i32(*values), got)
        space: dict[str, Any] = {"pl": Shim, "c": i32(*values), "o": want}
        exec(text, space)
        np.testing.assert_array_equal(got, want, err_msg=text)
    round_trip(k.parse(i32(1, 2, 3, 2), i32(0, 0, 0)).program)


def run(body: str, params: str = "a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]", *c: int, **names: Any) -> Any:
    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    o = f32(8, 8, fill=-777)
    kernel(body, params, **names)(a, i32(*(c or (0,) * 8)), o)
    return o


A = np.arange(64, dtype=np.float32).reshape(8, 8)


def test_a_swap_reads_both_sides_first() -> None:
    got = run("""
        p = pl.load(a, [0, 0], [8, 8])
        q = pl.add(p, 100.0)
        p, q = q, p
        pl.store(pl.sub(p, q), [0, 0], o)
    """)
    np.testing.assert_array_equal(got, 100.0)


def test_one_name_of_two_types_in_one_block() -> None:
    got = run("""
        t = pl.load(a, [0, 0], [4, 8])
        pl.store(t, [0, 0], o)
        t = pl.load(a, [4, 0], [2, 8])
        pl.store(t, [4, 0], o)
        t = pl.cast(pl.read(c, [0]), pl.INDEX)
        pl.store(pl.load(a, [6, 0], [2, 8]), [6, t], o)
    """)
    np.testing.assert_array_equal(got, A)


def test_a_temporary_of_another_type_in_a_later_loop() -> None:
    got = run("""
        for i in pl.range(2):
            t = pl.load(a, [i * 2, 0], [2, 8])
            pl.store(t, [i * 2, 0], o)
        for i in pl.range(1):
            t = pl.load(a, [4, 0], [4, 8])
            pl.store(t, [4, 0], o)
    """)
    np.testing.assert_array_equal(got, A)


def test_a_leaked_name_that_is_read_again_is_carried() -> None:
    got = run("""
        for i in pl.range(1):
            t = pl.load(a, [0, 0], [8, 8])
        for j in pl.range(3):
            t = pl.add(t, 1.0)
            pl.store(t, [0, 0], o)
    """)
    np.testing.assert_array_equal(got, A + 3)


def test_a_name_of_both_arms_is_carried_by_a_loop() -> None:
    got = run("""
        t = pl.load(a, [0, 0], [8, 8])
        if pl.read(c, [0]) == 0:
            r = pl.add(t, 1.0)
        elif pl.read(c, [0]) == 1:
            r = pl.add(t, 2.0)
        else:
            r = t
        for i in pl.range(3):
            r = pl.mul(r, 2.0)
        pl.store(r, [0, 0], o)
    """)
    np.testing.assert_array_equal(got, (A + 1) * 8)


def test_carries_assigned_again_in_a_branch() -> None:
    got = run("""
        t = pl.load(a, [0, 0], [8, 8])
        for i, (s,) in pl.range(4, init_values=(t,)):
            if i > 1:
                s = pl.add(s, 10.0)
            u = pl.yield_(pl.add(s, 1.0))
        pl.store(u, [0, 0], o)
    """)
    np.testing.assert_array_equal(got, A + 24)


def test_the_yield_may_take_the_seed_name() -> None:
    got = run("""
        s = pl.load(a, [0, 0], [8, 8])
        for i in pl.range(2):
            for j, (s,) in pl.range(3, init_values=(s,)):
                s = pl.yield_(pl.add(s, 1.0))
        pl.store(s, [0, 0], o)
    """)
    np.testing.assert_array_equal(got, A + 6)


def test_branch_results_reach_an_outer_variable() -> None:
    got = run("""
        r = pl.load(a, [0, 0], [8, 8])
        for i in pl.range(4):
            if i == 2:
                r = pl.yield_(pl.add(r, 100.0))
            else:
                r = pl.yield_(pl.add(r, 1.0))
        pl.store(r, [0, 0], o)
    """)
    np.testing.assert_array_equal(got, A + 103)


@pytest.mark.parametrize(("left", "want"), [("1.0 - t", 1 - A), ("2.0 * t", 2 * A), ("t / 4.0", A / 4), ("-t", -A)])
def test_operators_on_tiles(left: str, want: Any) -> None:
    np.testing.assert_array_equal(run(f"t = pl.load(a, [0, 0], [8, 8])\npl.store({left}, [0, 0], o)"), want)


def test_a_scalar_divided_by_a_tile() -> None:
    got = run("t = pl.load(a, [0, 0], [8, 8])\npl.store(2.0 / (t + 1.0), [0, 0], o)")
    np.testing.assert_array_equal(got, np.float32(2) / (A + 1))


def test_comparisons_of_tensors_either_way() -> None:
    np.testing.assert_array_equal(run("o[:] = a < 10.0"), A < 10)
    np.testing.assert_array_equal(run("o[:] = 10.0 < a"), A > 10)
    np.testing.assert_array_equal(run("o[:] = 10.0 >= a"), A <= 10)


def test_a_condition_of_a_while_is_read_each_time() -> None:
    got = run("""
        v = pl.load(a, [0, 0], [8, 8])
        pl.store(v, [0, 0], o)
        while pl.read(o, [0, 0]) < 5.0:
            v = pl.add(v, 2.0)
            if pl.read(c, [0]) == 0:
                pl.store(v, [0, 0], o)
                continue
            v = pl.add(v, 1000.0)
    """)
    np.testing.assert_array_equal(got, A + 6)


def test_what_an_inlined_helper_writes_is_written() -> None:
    @inline
    def fill(x, out, n):  # type: ignore[no-untyped-def]
        for i in pl.range(n):
            pl.store(pl.load(x, [i * 4, 0], [4, 8]), [i * 4, 0], out)
        x = 0  # its own name
        return x

    text = "y = fill(a, o, 2)\nfor i in pl.range(1):\n    z = fill(a, o, 1)"
    np.testing.assert_array_equal(run(text, fill=fill), A)
    # For the caller, too, `o` is the written tensor from here on.
    program = kernel(text, "a: pl.Tensor, o: pl.Out[pl.Tensor]", fill=fill).parse(A, A).program
    assert program.as_python(concise=True).count("    o = out") == 2


def test_helpers_of_helpers_take_tiles_tensors_and_numbers() -> None:
    @inline
    def twice(t, by=2.0):  # type: ignore[no-untyped-def]
        return pl.mul(t, by)

    @inline
    def both(t, shape):  # type: ignore[no-untyped-def]
        u = twice(t)
        return u, twice(t=u, by=3.0), shape[0]

    got = run(
        "x, y, n = both(pl.load(a, [0, 0], (8, 8)), (8, 8))\npl.store(pl.add(x, twice(y)), [n - 8, 0], o)", both=both, twice=twice
    )
    np.testing.assert_array_equal(got, A * 2 + A * 12)


def test_static_values_choose_code_but_loops_see_variables() -> None:
    got = run("""
        k = 1
        n = 8
        for i in pl.range(3):
            k = k + i
        t = pl.load(a, [0, 0], [n, 8])
        pl.store(pl.add(t, pl.cast(k, pl.FP32)), [0, 0], o)
    """)
    np.testing.assert_array_equal(got, A + 4)


def test_arrays_are_the_callers() -> None:
    a, b, c, o = arrays()
    kernel("o[0:8, :] = pl.add(a[0:8, :], b[8:16, :])")(a, b, c, o)
    np.testing.assert_array_equal(o[:8], a[:8] + b[8:])
    np.testing.assert_array_equal(o[8:], -777)

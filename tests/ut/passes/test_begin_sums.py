"""The first product of a sum: where it is found, and that it says so itself."""

from __future__ import annotations

import textwrap

import pytest
from back_lab import kernel_of, scope, through

from pypto.errors import CompileError
from pypto.ir.expr import Call, ConstBool, Expr
from pypto.ir.printer import python_print
from pypto.ir.stmt import AssignStmt
from pypto.passes.begin_sums import begin_sums
from pypto.passes.statements import statements

PARAMS = (
    "a: pl.Tensor[[64, 64], pl.FP32], b: pl.Tensor[[64, 32], pl.FP32], n: pl.Scalar[pl.INDEX], "
    "o: pl.Out[pl.Tensor[[64, 32], pl.FP32]]"
)
ADD = "acc = pl.matmul_acc(acc, a[:, 0:32], b[0:32, :]{})\n"


def inits(body: str) -> list[str | bool | None]:
    """What each sum of a kernel asks to begin: its condition's text, a constant, or nothing."""
    text = "acc = pl.create_tensor([64, 32], dtype=pl.FP32)\n" + textwrap.dedent(body).lstrip("\n") + "o[:] = acc\n"
    f = kernel_of(through(scope(text, PARAMS), "flatten_tile_nd_to_2d"))
    assert begin_sums(f) is f
    scalars: dict[Expr, Expr] = {s.var: s.value for s in statements(f.body) if isinstance(s, AssignStmt)}
    found: list[str | bool | None] = []
    for s in statements(f.body):
        if isinstance(s, AssignStmt) and isinstance(s.value, Call) and s.value.op.name == "tile.matmul_acc":
            init = s.value.args[3] if len(s.value.args) > 3 else None
            while init in scalars:
                init = scalars[init]
            found.append(init.value if isinstance(init, ConstBool) else None if init is None else shown(init))
    return found


def shown(e: Expr) -> str:
    """Without the numbers that make names unique."""
    return " ".join(w.split("__")[0] + ")" * w.count(")") if "__" in w else w for w in python_print(e).split())


def looped(more: str, loop: str = "for k in pl.range(0, 64, 32):") -> str:
    return f"{loop}\n    " + ADD.format(more)


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (ADD.format(""), [True]),
        (ADD.format("") + ADD.format(""), [True, None]),
        (ADD.format(", init_cond=(n > 3)"), [True]),
        (looped(""), ["k == 0"]),
        (looped(", init_cond=(k == 0)"), ["k == 0"]),
        (looped(", init_cond=(k < 32)"), ["k < 32"]),
        (looped(", init_cond=True"), [True]),
        (looped("", "for k in pl.range(n, 64, 32):") + ADD.format(""), ["k == n", "64 <= n"]),
        (looped("") + ADD.format(""), ["k == 0", None]),
        ("for i in pl.range(2):\n" + textwrap.indent(looped(""), "    "), ["i == 0 and k == 0"]),
        ("for i in pl.range(2):\n" + textwrap.indent(looped("", "for k in pl.range(n):"), "    "), ["i == 0 and k == 0"]),
        (
            "for k in pl.range(4):\n    if k > 0:\n        " + ADD.format("") + "    else:\n        " + ADD.format(""),
            [None, True],
        ),
        ("acc = pl.matmul(a, b, out_dtype=pl.FP32)\n" + looped(""), [None]),
        ("k = 0\n" + looped(", init_cond=(k == n)", "while k < 4:") + "    k = k + 1\n", ["k == n"]),
    ],
)
def test_first_products_say_that_they_are(body, want):
    assert inits(body) == want


def test_a_condition_that_does_not_say_it_is_widened():
    (init,) = inits(looped(", init_cond=(k == n)"))
    assert init == "k == n or k == 0"


@pytest.mark.parametrize(
    "body",
    [
        "k = 0\n" + looped("", "while k < n:") + "    k = k + 1\n",
        "for k in pl.range(4):\n    if k > n:\n        " + ADD.format(""),
        "if n > 3:\n    " + ADD.format("") + ADD.format(""),
        # The inner loop may have no trip in the first of the outer one.
        "for i in pl.range(4):\n" + textwrap.indent(looped("", "for k in pl.range(i):"), "    "),
    ],
)
def test_what_nobody_can_tell_is_refused(body):
    with pytest.raises(CompileError, match="whether this product is the first of 'acc'") as e:
        inits(body)
    assert e.value.code == "C058"

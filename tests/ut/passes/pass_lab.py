"""Shared by the tests of the passes: programs from text, passes by name, comparison, and runs of every stage."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import numpy as np

import pypto.ir.operators  # noqa: F401  under it, comparing expressions by mistake is an error
from pypto.debug import run
from pypto.frontend import parse
from pypto.ir.printer import python_print
from pypto.ir.program import Function, Program
from pypto.ir.structural import compare
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.registry import judge_of
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import find_pass

HEAD = "import pypto.language as pl\n"
# The passes up to kernels of their own.
FRONT = (
    "inline_functions",
    "unroll_loops",
    "ctrl_flow_transform",
    "convert_to_ssa",
    "simplify",
    "normalize_stmt_structure",
    "flatten_call_expr",
    "outline_hierarchy_scopes",
    "outline_incore_scopes",
    "outline_cluster_scopes",
)


def program(text: str) -> Program:
    """The function or program that the text defines; `main` if it is one function."""
    made = parse(HEAD + textwrap.dedent(text))
    return made if isinstance(made, Program) else Program([made], "test")


def body(text: str, params: str = "c: pl.Tensor[[8], pl.INT32], o: pl.Out[pl.Tensor[[8], pl.INT32]]") -> Program:
    """A function `main` with these parameters and statements."""
    return program(f"@pl.function\ndef main({params}):\n" + textwrap.indent(textwrap.dedent(text), "    "))


def apply(p: Program, *names: str) -> Program:
    for name in names:
        p = find_pass(name).run(p, PassOptions())
    return p


def main(p: Program) -> Function:
    f = p.get_function("main")
    assert f is not None
    return f


def same(got: Program, want: Program) -> None:
    """Structurally equal, whatever the names."""
    found = compare(got, want, auto_map=True)
    assert found is None, f"{found.where()}:\n{python_print(got)}\n{python_print(want)}"


def findings(p: Program, *properties: IRProperty) -> list[tuple[int, str]]:
    return [(d.error_code, d.message) for q in properties for d in judge_of(q)(p)]


def copies(args: Iterable[object]) -> list[object]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def outputs(p: Program, args: Iterable[object]) -> list[object]:
    """All arguments after a run."""
    given = copies(args)
    run(p, "main", given)
    return given


def agree(p: Program, q: Program, *argument_lists: Iterable[object]) -> None:
    """Both programs leave the same bits in every argument."""
    for args in argument_lists:
        for a, b in zip(outputs(p, args), outputs(q, args), strict=True):
            if isinstance(a, np.ndarray):
                assert a.tobytes() == b.tobytes(), (a, b, python_print(p), python_print(q))


def agree_through(p: Program, names: Iterable[str], *argument_lists: Iterable[object]) -> Program:
    """Every pass in turn keeps what the program computes."""
    for name in names:
        after = apply(p, name)
        agree(p, after, *argument_lists)
        p = after
    return p


def ints(*values: int) -> np.ndarray:
    return np.array([*values, *[0] * (8 - len(values))], np.int32)


def out(*shape: int, dtype: type = np.float32, fill: float = -777) -> np.ndarray:
    return np.full(shape, fill, dtype)

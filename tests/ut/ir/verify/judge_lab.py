"""Shared by the tests of the storage judges: kernels in the operators' own words, with places written by hand."""

from __future__ import annotations

import textwrap

from pypto.frontend import parse
from pypto.ir.program import Function, Program

LEAD = """# pypto.program: test
import pypto.language as pl
@pl.program
class test:
    @pl.function(type=pl.FunctionType.InCore)
"""


def kernel_program(body: str, params: str, result: str = "") -> Program:
    """A program whose one kernel is called `k`; every call in it is the operator it names."""
    arrow = f" -> {result}" if result else ""
    made = parse(f"{LEAD}    def k({params}){arrow}:\n" + textwrap.indent(textwrap.dedent(body), "        "))
    assert isinstance(made, Program)
    return made


def kernel(body: str, params: str, result: str = "") -> Function:
    """The kernel itself."""
    f = kernel_program(body, params, result).get_function("k")
    assert f is not None
    return f


def tile(base: str, offset: int, shape: str = "[16, 16]", dtype: str = "FP32", size: int = 1024, space: str = "Vec") -> str:
    """A tile type at a place."""
    return f"pl.Tile[{shape}, pl.{dtype}, pl.MemRef({base}, {offset}, {size}), pl.Mem.{space}]"


def alloc(*bases: str, size: int = 1024, space: str = "Vec") -> str:
    """Allocations under these names."""
    return "".join(f"{b}: pl.Ptr = pl.tile.alloc(pl.const({size}, pl.INT64), memory_space=pl.Mem.{space})\n" for b in bases)


def load(name: str, base: str, offset: int, **more: str) -> str:
    """A 16 x 16 load of `x` to a place."""
    return f"{name}: {tile(base, offset, **more)} = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)\n"

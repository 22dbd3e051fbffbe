"""Shared by the tests of the C generator: a kernel with tiles at chosen addresses, its groups, and its numbers.

In: statements of a kernel in which `[8, 64] @ 2048` stands for a tile type at that byte address of Vec.  Out: how the
generator groups them, or what the compiled kernel and the interpreter compute.
"""

from __future__ import annotations

import ctypes
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pypto.codegen.native import flow
from pypto.codegen.native.device import build_access
from pypto.codegen.native.flow import Block, Nested, Run
from pypto.codegen.native.groups import form_groups
from pypto.codegen.native.unit import generate
from pypto.debug import interpret
from pypto.frontend import parse
from pypto.ir.program import Function, Program
from pypto.jit import JITFunction
from pypto.jit.dispatch import the_launcher
from pypto.jit.driver import plan_of, specialize
from pypto.jit.request import ProgramRequest
from pypto.passes.context import PassOptions
from pypto.runtime.launch import Kernel
from pypto.runtime.linking import compile_kernel
from pypto.runtime.store import default_store
from pypto.runtime.toolchain import find

_TENSOR = "pl.Tensor[[64, 64], pl.FP32]"
PARAMS = f"a: {_TENSOR}, b: {_TENSOR}, o: pl.Out[{_TENSOR}], n: pl.Scalar[pl.INDEX]"
_TILE = re.compile(r"\[(\w+), (\w+)\] ?(?:valid \[(\w+), (\w+)\] ?)?(?:of (\w+) ?)?@ (\d+)")
_BYTES = {"FP32": 4, "FP16": 2, "INT32": 4, "UINT8": 1}


def _tile_type(m: re.Match[str]) -> str:
    rows, cols, vr, vc, dtype, at = m.groups()
    dtype = dtype or "FP32"
    size = int(rows) * int(cols) * _BYTES[dtype]
    view = f", pl.TileView(valid_shape=[{vr}, {vc}])" if vr else ""
    if cols == "1" and not view:
        view = ", pl.TileView(blayout=pl.TileLayout.col_major, slayout=pl.TileLayout.none_box, fractal=512)"
    elif cols == "1":
        view = view[:-1] + ", blayout=pl.TileLayout.col_major, slayout=pl.TileLayout.none_box, fractal=512)"
    return f"pl.Tile[[{rows}, {cols}], pl.{dtype}, pl.MemRef(vec, {at}, {size}), pl.Mem.Vec{view}]"


def program(body: str, params: str = PARAMS, launch: str = "") -> Program:
    """The kernel `k` and an entry `main` that calls it, with the keywords of `launch`."""
    body = _TILE.sub(_tile_type, textwrap.dedent(body))
    names = [p.split(":")[0].strip() for p in re.split(r", (?=\w+: )", params)]
    text = (
        "# pypto.program: test\nimport pypto.language as pl\n\n\n@pl.program\nclass test:\n"
        "    @pl.function(type=pl.FunctionType.InCore)\n"
        f"    def k({params}):\n"
        "        vec: pl.Ptr = pl.tile.alloc(pl.const(131072, pl.INT64), memory_space=pl.Mem.Vec)\n"
        + textwrap.indent(body, "        ")
        + "\n    @pl.function(type=pl.FunctionType.Orchestration)\n"
        f"    def main(self, {params}):\n        self.k({', '.join([*names, launch] if launch else names)})\n"
    )
    made = parse(text)
    assert isinstance(made, Program)
    return made


def kernel(body: str, params: str = PARAMS) -> Function:
    f = program(body, params).get_function("k")
    assert f is not None
    return f


class Formed(NamedTuple):
    """One group: its operators in order, those whose results reach memory, how many passes over a row it makes, and of
    which results a row at a time is in memory."""

    ops: tuple[str, ...]
    stored: tuple[str, ...]
    phases: int
    by_row: tuple[str, ...]


def formed(f: Function) -> list[Formed]:
    """The groups of every run of a kernel, in program order, whatever they are nested in."""
    base = build_access(f, addressed=True)
    return _formed(flow.optimize(base.body, base.tensors.values()))


def _formed(block: Block) -> list[Formed]:
    out: list[Formed] = []
    for p in block.parts:
        if isinstance(p, Run):
            for g in form_groups(p):
                names = {k: p.ops[k].name for k in g.indices}
                stored = tuple(n for k, n in names.items() if k in g.stored)
                by_row = tuple(n for k, n in names.items() if k in g.by_row)
                out.append(Formed(tuple(names.values()), stored, sum(s.cols is not None for s in g.steps), by_row))
        elif isinstance(p, Nested):
            for b in p.blocks:
                out += _formed(b)
    return out


def run(p: Program, args: Sequence[Any], directory: Path, optimize: bool = True) -> list[np.ndarray]:
    """The arrays after a native call of `main` on copies."""
    request = ProgramRequest(p, "main", PassOptions(), optimize)
    unit = generate(p, "main", optimize=optimize)
    directory.mkdir(parents=True, exist_ok=True)
    store = default_store()
    compile_kernel(find(store), store, unit.source, unit.routines, str(directory))
    plan = plan_of(specialize(request), unit)
    library = ctypes.CDLL(str(directory / "kernel.so"))
    address = ctypes.cast(library.pypto_entry, ctypes.c_void_p).value
    given = copies(args)
    the_launcher(JITFunction).Entry(plan, address, Kernel(plan, library)).call(tuple(given))
    return [a for a in given if isinstance(a, np.ndarray)]


def copies(args: Sequence[Any]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def interpreted(p: Program, args: Sequence[Any]) -> list[np.ndarray]:
    """The arrays after interpreting `main` on copies."""
    given = copies(args)
    interpret(p, given, "main")
    return [a for a in given if isinstance(a, np.ndarray)]


def agree(
    body: str,
    directory: Path,
    n: int = 8,
    params: str = PARAMS,
    arrays: Sequence[np.ndarray] | None = None,
    launch: str = "",
) -> np.ndarray:
    """The last array, which the interpreter and native code with and without optimizations agree on to the bit."""
    p = program(body, params, launch)
    if arrays is None:
        rng = np.random.default_rng(0)
        arrays = [*rng.integers(-8, 9, (2, 64, 64)).astype(np.float32), np.full((64, 64), -777, np.float32)]
    args = [*arrays, n]
    want = interpreted(p, args)
    for optimize in (True, False):
        got = run(p, args, directory / str(optimize), optimize)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g.view(np.uint8), w.view(np.uint8), err_msg=f"optimize={optimize}")
    return want[-1]

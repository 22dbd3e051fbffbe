"""Shared by the tests of the conversion to buffers: kernels in buffer form, planned kernels as text, and what they apply.

In: statements of a kernel over x, y, o and scalars n, m.  Out: its function in buffer form, which gives to the bit what the
program gives that it was made from.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from back_lab import kernel_of, raw_kernel, scope, through
from pass_lab import out
from test_back_semantics import executed

from pypto.codegen.pto import PTOCodegen
from pypto.debug import Placement
from pypto.enums import FunctionIRStage, MemoryPlanner
from pypto.ir.expr import Call, ConstInt, Expr, MakeTuple, Var
from pypto.ir.printer import python_print
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import defined_vars, walk
from pypto.ir.shaped import BufferType, TileType
from pypto.ir.stmt import AssignStmt, EvalStmt, Stmt
from pypto.ir.verify.buffer_ir import buffer_ir
from pypto.passes.context import PassOptions
from pypto.passes.lower_tile_to_buffer import lower_tile_to_buffer
from pypto.passes.materialize_semantic_aliases import materialize_all_semantic_aliases
from pypto.passes.pipeline import find_pass, lower
from pypto.passes.statements import statements

PLANNERS = list(MemoryPlanner)
PYPTO, PTOAS, DSA_RP = MemoryPlanner.PYPTO, MemoryPlanner.PTOAS, MemoryPlanner.DSA_RP
ADDRESSED = [PYPTO, DSA_RP]
TARGETS = ["a2a3sim", "a5sim"]
T = "pl.Tensor[[16, 64], pl.FP32]"
X = f"x: {T}, y: {T}, n: pl.Scalar[pl.INDEX], m: pl.Scalar[pl.INDEX], o: pl.Out[{T}]"
LOAD = "t = pl.load(x, [0, 0], [16, 64])\n"
LOADS = LOAD + "u = pl.load(y, [0, 0], [16, 64])\n"
STORE = "\npl.store(r, [0, 0], o)"
NUMBERS = np.arange(1024, dtype=np.float32).reshape(16, 64) * 7 % 13 - 6
Trips = Iterable[tuple[int, int]]
TRIPS: Trips = ((0, 0), (1, 5), (3, 8))
_PLACED = {PYPTO: ("memory_reuse", "allocate_memory_addr"), DSA_RP: ("allocate_memory_addr",), PTOAS: ()}


def is_sound(device: Program, of: Program, trips: Trips) -> Function:
    """The one kernel of a program in buffer form; it runs to the bit as the program it was made of."""
    f = kernel_of(device)
    assert f.ir_stage is FunctionIRStage.Buffer, python_print(f)
    assert list(buffer_ir(device)) == []
    assert not any(isinstance(v.type, TileType) for v in defined_vars(f.body))
    for n, m in trips:
        args = [NUMBERS, NUMBERS[::-1].copy(), n, m, out(16, 64)]
        assert executed(device, args, None) == executed(of, args, Placement.VALUES)
    return f


def lowered(body: str, planner: MemoryPlanner = PYPTO, trips: Trips = TRIPS) -> Function:
    """The kernel as the default pipeline converts it."""
    p = scope(body, X)
    return is_sound(lower(p, PassOptions(memory_planner=planner)).device, p, trips)


def planned_tiles(body: str, planner: MemoryPlanner = PYPTO, target: str = "a2a3sim", chosen: bool = False) -> Program:
    """A kernel with planned tiles that selection never saw; `chosen`: its storage is planned as that of a chosen one."""
    options = PassOptions(planner, False, platform=target)
    p = through(scope(body, X), "init_mem_ref", planner, buffers=False)
    if chosen:
        p = p.with_functions(
            f.replace(attrs=f.attrs.with_(buffer_ir_selected=True)) if f.is_device else f for f in p.function_list
        )
    p = materialize_all_semantic_aliases.run(p, options)
    for name in _PLACED[planner]:
        p = find_pass(name).run(p, options)
    return p


def by_hand(
    body: str, planner: MemoryPlanner = PYPTO, target: str = "a2a3sim", trips: Trips = TRIPS, chosen: bool = False
) -> Function:
    """The kernel as passes applied one by one convert it, whether or not the default pipeline would; it has a text."""
    made = lower_tile_to_buffer.run(planned_tiles(body, planner, target, chosen), PassOptions(planner, platform=target))
    text = PTOCodegen().generate(made, arch=target.removesuffix("sim"), emit_tile_addr=planner is not PTOAS)
    assert text.count("pto.alloc_tile") == operations(kernel_of(made)).count("alloc")
    return is_sound(made, scope(body, X), trips)


def planned(text: str, params: str = X, planner: MemoryPlanner = PYPTO, attrs: str = "") -> Function:
    """The buffer form of a planned kernel in the operators' own words."""
    return kernel_of(lower_tile_to_buffer.run(raw_kernel(text, params, attrs=attrs), PassOptions(planner)))


def tile(
    base: str, at: int = 0, shape: tuple[int, int] = (16, 64), view: str = "", space: str = "Vec", dtype: str = "FP32"
) -> str:
    """The type of a placed tile of 4-byte elements, as text."""
    size = shape[0] * shape[1] * 4
    more = f", pl.TileView({view})" if view else ""
    return f"pl.Tile[{list(shape)}, pl.{dtype}, pl.MemRef({base}, {at}, {size}), pl.Mem.{space}{more}]"


def alloc(name: str, size: int = 4096, space: str = "Vec") -> str:
    return f"{name}: pl.Ptr = pl.tile.alloc(pl.const({size}, pl.INT64), memory_space=pl.Mem.{space})\n"


def load(name: str, type_: str, shape: str = "[16, 64]", valid: str = "") -> str:
    space = "Mat" if "pl.Mem.Mat" in type_ else "Vec"
    return f"{name}: {type_} = pl.tile.load(x, [0, 0], {shape}, {valid or shape}, target_memory=pl.Mem.{space})\n"


# -- what a function applies -------------------------------------------------------------------------------------------


def operations(f: Function | Stmt) -> list[str]:
    """The buffer operations of a function, in order."""
    body = f.body if isinstance(f, Function) else f
    return [n.op.name.removeprefix("buffer.") for n in walk(body) if isinstance(n, Call) and n.op.name.startswith("buffer.")]


def calls(f: Function | Stmt, name: str) -> list[Call]:
    body = f.body if isinstance(f, Function) else f
    return [n for n in walk(body) if isinstance(n, Call) and n.op.name == f"buffer.{name}"]


def definition(f: Function, handle: Expr) -> Call:
    """The operation that made a handle."""
    (s,) = [s for s in statements(f.body) if isinstance(s, AssignStmt) and s.var is handle]
    assert isinstance(s.value, Call)
    return s.value


def root(f: Function, handle: Expr) -> Expr:
    """The allocation that a handle is a view of."""
    while definition(f, handle).op.name != "buffer.alloc":
        handle = definition(f, handle).args[0]
    return handle


def handles(f: Function) -> list[Var]:
    return [s.var for s in statements(f.body) if isinstance(s, AssignStmt) and isinstance(s.var.type, BufferType)]


def values(e: Expr) -> list[object]:
    """The elements of a tuple: numbers, and variables as they are."""
    assert isinstance(e, MakeTuple)
    return [x.value if isinstance(x, ConstInt) else x for x in e.elements]


def names(stmts: Iterable[Stmt]) -> list[str]:
    """What each statement applies; the class of those that apply nothing."""
    found = []
    for s in stmts:
        e = s.value if isinstance(s, AssignStmt) else s.expr if isinstance(s, EvalStmt) else None
        found.append(e.op.name.removeprefix("buffer.") if isinstance(e, Call) else type(s).__name__)
    return found

"""MaterializeSemanticAliases: values that the program makes one lie in one place.

In: kernels with a place per value.  Out: in functions chosen for legalization (those selected for buffers, or all),
storage that gives exactly the values: see `legalize`.  In the others, what must be one is one: a value that replaces a
carry is produced in the carry's place where nothing else needs it.
Invariant: a function whose storage already gives its values is returned as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pypto._lazy import later
from pypto.errors import CompileError
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.opdef import Special
from pypto.ir.ops.buffer_matrix import MATRIX
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, WhileStmt, YieldStmt, last_yield
from pypto.ir.verify.placement import overlapping_tiles
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.ssa import user_name
from pypto.ir.verify.tile_storage import check_storage
from pypto.passes.context import PassOptions
from pypto.passes.framework import Pass
from pypto.passes.materialize_semantic_aliases.coalesce import BRANCH, CARRY, Pair, coalesce
from pypto.passes.statements import statements
from pypto.target import Chip, chip_of

if TYPE_CHECKING:
    from pypto.passes.materialize_semantic_aliases import legalize as _legalize
else:
    _legalize = later("pypto.passes.materialize_semantic_aliases", "legalize")

__all__ = [
    "gives_its_values",
    "legalized",
    "materialize_all_semantic_aliases",
    "materialize_semantic_aliases",
    "matrix_copy",
    "semantic_aliases",
]


def gives_its_values(f: Function) -> bool:
    """Whether executing a placed function on its storage gives the values of its variables."""
    return not check_storage(f, physical=False) and not overlapping_tiles(f, addressed=False) and not _joins_windows(f)


def _joins_windows(f: Function) -> bool:
    """Whether control flow takes a window: its storage is another's, and at run-time offsets no memref says where it is."""
    windows: set[Expr] = set()
    for s in statements(f.body):
        if isinstance(s, YieldStmt):
            taken: Iterable[Expr] = s.value
        elif isinstance(s, (ForStmt, WhileStmt)):
            taken = (a.initValue for a in s.iter_args)
        else:
            taken = ()
            if isinstance(s, AssignStmt) and isinstance(s.var.type, TileType) and _is_window(s.value, windows):
                windows.add(s.var)
        if any(e in windows for e in taken):
            return True
    return False


def _is_window(value: Expr, windows: set[Expr]) -> bool:
    if not isinstance(value, Call):
        return value in windows
    op = ops.of(value)
    if op is None or not isinstance(op.semantics, Special) or op.semantics.kind != "view":
        return False
    return value.args[0] in windows or op.concept == "slice"


def legalized(f: Function, chip: Chip) -> Function:
    """A placed function with storage that gives its values; itself if it does already."""
    return f if gives_its_values(f) else _legalize.legalize_storage(f, chip)


def matrix_copy(f: Function) -> Var | None:
    """The first matrix that is copied from a place in its own memory, which has no way for that."""
    for s in statements(f.body):
        if isinstance(s, AssignStmt) and isinstance(s.value, Call) and s.value.op.name == "tile.move":
            source, target = s.value.args[0].type, s.var.type
            assert isinstance(source, TileType)
            assert isinstance(target, TileType)
            if target.memory_space in MATRIX and source.memory_space is target.memory_space:
                return s.var
    return None


def _for_buffers(f: Function, chip: Chip) -> Function:
    """A selected function with legal storage; CompileError where that takes a copy from accumulator to accumulator."""
    made = legalized(f, chip)
    copied = matrix_copy(made)
    if copied is not None:
        raise CompileError(
            f"kernel '{f.name}': '{user_name(copied)}' would be a move within matrix memory",
            copied.span,
            "let one accumulator go on through the loop or branch, and start it with init_cond=",
            code="C083",
        )
    return made


def _must_aliases(f: Function) -> Function:
    """Producers of carries and branch results in the place of what they replace, where nothing else needs it."""
    pairs: list[Pair] = []
    for n in statements(f.body):
        if isinstance(n, (ForStmt, WhileStmt)):
            y = last_yield(n.body)
            joined = zip(n.iter_args, y.value if y is not None else (), strict=False)
            pairs += [Pair(CARRY, v, a, n) for a, v in joined if isinstance(a.type, TileType) and isinstance(v, Var)]
        elif isinstance(n, IfStmt):
            then, other = last_yield(n.then_body), last_yield(n.else_body)
            arms = zip(then.value, other.value, strict=True) if then is not None and other is not None else ()
            for x, v in arms:
                if isinstance(x.type, TileType) and isinstance(x, Var) and isinstance(v, Var):
                    pairs.append(Pair(BRANCH, v, x, n))
    return coalesce(f, pairs)


def semantic_aliases(legalize: str) -> Pass:
    """The pass; `legalize`: "selected" (functions selected for buffers) or "all"."""

    def run(program: Program, options: PassOptions) -> Program:
        chip = chip_of(options.platform)

        def one(f: Function) -> Function:
            if not f.is_device:
                return f
            if f.attrs.get("buffer_ir_selected"):
                return _for_buffers(f, chip)
            return legalized(f, chip) if legalize == "all" else _must_aliases(f)

        return program.with_functions(one(f) for f in program.function_list)

    return Pass(
        "MaterializeSemanticAliases",
        run,
        requires=(
            IRProperty.SplitIncoreOrch,
            IRProperty.IncoreTileOps,
            IRProperty.HasMemRefs,
            IRProperty.TileOps2D,
            IRProperty.NormalizedStmtStructure,
        ),
        produces=(IRProperty.NormalizedStmtStructure,),
    )


materialize_semantic_aliases = semantic_aliases("selected")
materialize_all_semantic_aliases = semantic_aliases("all")

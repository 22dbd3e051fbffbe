"""MaterializeSemanticAliases: values that the program makes one lie in one place.

In: kernels with a place per value.  Out: in functions chosen for legalization (those selected for buffers, or all),
storage that gives exactly the values: see `legalize`.  In the others, what must be one is one: a value that replaces a
carry is produced in the carry's place where nothing else needs it.
Invariant: a function whose storage already gives its values is returned as it is.
"""

from __future__ import annotations

from pypto.ir.expr import Var
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TileType
from pypto.ir.stmt import ForStmt, IfStmt, WhileStmt, last_yield
from pypto.ir.verify.placement import overlapping_tiles
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.tile_storage import check_storage
from pypto.passes.context import PassOptions
from pypto.passes.framework import Pass
from pypto.passes.materialize_semantic_aliases.coalesce import BRANCH, CARRY, Pair, coalesce
from pypto.passes.materialize_semantic_aliases.legalize import legalize_storage
from pypto.passes.statements import statements
from pypto.target import Chip, chip_of

__all__ = [
    "gives_its_values",
    "legalized",
    "materialize_all_semantic_aliases",
    "materialize_semantic_aliases",
    "semantic_aliases",
]


def gives_its_values(f: Function) -> bool:
    """Whether executing a placed function on its storage gives the values of its variables."""
    return not check_storage(f, physical=False) and not overlapping_tiles(f, addressed=False)


def legalized(f: Function, chip: Chip) -> Function:
    """A placed function with storage that gives its values; itself if it does already."""
    return f if gives_its_values(f) else legalize_storage(f, chip)


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
            return legalized(f, chip) if legalize == "all" or f.attrs.get("buffer_ir_selected") else _must_aliases(f)

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

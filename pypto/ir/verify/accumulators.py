"""Judge of AccCompactValid: whether what products are added up in is read as the matrix unit writes it.

The unit writes a product at the row distance of its valid rows, rounded up to boxes of 16.  A reader goes by the stored
rows, unless the tile says that it is compact.  Code 609: a product in more than one box of rows whose stored rows are not
provably that distance, and which does not say so.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.enums import CompactMode, MemorySpace
from pypto.ir import arith, ops
from pypto.ir.expr import Call
from pypto.ir.opdef import Matmul
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TileType, const_dim
from pypto.ir.stmt import AssignStmt
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.scopes import statements
from pypto.ir.verify.ssa import user_name

__all__ = ["acc_compact_valid", "accumulator_findings"]

_ROWS = 16  # of a box, for every element type
_REMEDY = "create it with compact=True: pl.create_tile([<rows>, <cols>], dtype, target_memory=pl.Mem.Acc, compact=True)"


def acc_compact_valid(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        if f.is_device:
            yield from accumulator_findings(f)


def accumulator_findings(f: Function) -> Iterator[Diagnostic]:
    """The products of one kernel that are read otherwise than they are written."""
    for s in statements(f.body):
        op = ops.of(s.value) if isinstance(s, AssignStmt) and isinstance(s.value, Call) else None
        if op is None or not isinstance(op.semantics, Matmul):
            continue
        assert isinstance(s, AssignStmt)
        t = s.var.type
        if isinstance(t, TileType) and t.memory_space is MemorySpace.Acc and len(t.shape) == 2 and _is_loose(t):
            rows = const_dim(t.valid[0])
            held = f"{rows}" if rows is not None else "a number known at run time"
            what = f"'{user_name(s.var)}' has {const_dim(t.shape[0])} rows, of which {held} are valid, and is not compact"
            yield Diagnostic(Severity.Error, "AccCompactValid", 609, what, s.value.span, hint=_REMEDY)


def _is_loose(t: TileType) -> bool:
    """Whether the stored rows may not be the distance that the unit writes at, and the type does not say so."""
    stored, valid = const_dim(t.shape[0]), const_dim(t.valid[0])
    if stored is None or stored <= _ROWS or arith.same(t.shape[0], t.valid[0]):
        return False
    written = None if valid is None else -(-valid // _ROWS) * _ROWS
    return written != stored and t.get_effective_tile_view().compact is not CompactMode.normal

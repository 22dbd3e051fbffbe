"""The rules by which matrix kernels are chosen for buffers.

In: tiles in Mat, Left, Right and Acc memory and the operators on them.  Out: why a kernel stays at tile stage, or None.
The path is global memory -> Mat -> Left and Right -> Acc -> global memory: loads, moves, extracts, transposed readings, plain
products and stores.  Extents are constant, and storage is legal without a copy from one accumulator into another.
"""

from __future__ import annotations

from pypto.enums import CompactMode, MemorySpace
from pypto.ir.expr import Call, Var
from pypto.ir.layout import box_of, product_fits
from pypto.ir.opdef import Matmul, OpDef
from pypto.ir.ops.buffer_matrix import MATRIX, SUMS
from pypto.ir.program import Function
from pypto.ir.shaped import TileType, const_dim, const_dims
from pypto.ir.types import Type
from pypto.passes.lower_tile_to_buffer.matrix import product_type
from pypto.passes.materialize_semantic_aliases import legalized, matrix_copy
from pypto.passes.statements import definitions
from pypto.target import Chip

__all__ = ["reason_against_move", "reason_against_product", "reason_against_storage", "reason_against_tile"]

_OPERANDS, _SUMS = frozenset(SUMS), frozenset(SUMS.values())


def reason_against_tile(v: Var, t: TileType) -> str | None:
    """A matrix is stored in whole boxes, valid in constant extents, and holds what is multiplied or added up there."""
    dims, valid = const_dims(t.shape), const_dims(t.valid)
    if dims is None or len(dims) != 2:
        return f"'{v.name_hint}' has no static rank-2 shape"
    if t.layout.is_flat or any(n % box for n, box in zip(dims, box_of(t.layout, t.dtype), strict=True)):
        return f"'{v.name_hint}' is not stored in whole boxes"
    if valid is None or 0 in valid:
        return f"'{v.name_hint}' has run-time extents, or holds nothing"
    if t.dtype not in (_SUMS if t.memory_space is MemorySpace.Acc else _OPERANDS):
        return f"'{v.name_hint}' holds {t.dtype}"
    if t.memref is None or t.memref.slot_count_ != 1:
        return f"'{v.name_hint}' lies in a slot"
    return None


def reason_against_move(source: Type, target: Type) -> str | None:
    """Operands go from Mat to Left and Right memory, as they are."""
    assert isinstance(source, TileType)
    assert isinstance(target, TileType)
    path = (source.memory_space, target.memory_space)
    known = path in ((MemorySpace.Mat, MemorySpace.Left), (MemorySpace.Mat, MemorySpace.Right))
    return None if known and source.dtype is target.dtype else "a move between memories that has no buffer form"


def reason_against_product(op: OpDef, form: Matmul, c: Call, var: Var | None) -> str | None:
    """Plain products; beside them, an accumulator keeps what it held, which only whole boxes do."""
    if op.name not in ("tile.matmul", "tile.matmul_acc") or c.kwargs or var is None:
        return f"{op.name} has no buffer form"
    t = var.type
    assert isinstance(t, TileType)
    product = product_type(form, c, t)
    made, dims = const_dim(product.valid[0]), const_dims(t.shape)
    compact = t.get_effective_tile_view().compact is not CompactMode.null
    if made is not None and dims is not None and not compact and not product_fits(made, *dims):
        return f"a product of {made} rows is written into an accumulator of {dims[0]}"
    if product is t:
        return None
    extents = zip(const_dims(product.valid) or (), const_dims(t.valid) or (), box_of(t.layout, t.dtype), strict=True)
    if any(n < all_ and n % box for n, all_, box in extents):
        return "a product covers boxes of its accumulator in part"
    return None


def reason_against_storage(f: Function, chip: Chip) -> str | None:
    """Carries, branch results and accumulators of matrices each stay in one place."""
    if not any(isinstance(v.type, TileType) and v.type.memory_space in MATRIX for v in definitions(f.body)):
        return None
    copied = matrix_copy(legalized(f, chip))
    return None if copied is None else f"'{copied.name_hint}' would be a copy within matrix memory"

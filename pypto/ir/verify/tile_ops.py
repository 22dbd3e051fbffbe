"""Judges of device functions: tile level, two dimensions, memory spaces, places, transfers.

Codes: 601 a tensor-level operator left, 602 a tile of more than two dimensions, 603 a tile without a memory space, 604 an
operand in a memory its operator cannot read, 605 a tile view that is not canonical, 606 a tile without a place, 607 a
store of accumulator elements that the memory cannot take, 608 an atomic store of elements that cannot be added.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.ir import ops
from pypto.ir.expr import Call, MakeTuple, Var
from pypto.ir.opdef import OpDef, Special
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TensorType, TileType
from pypto.ir.stmt import value_of
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.scopes import definitions, statements
from pypto.span import Span

__all__ = [
    "acc_to_gm_store_valid",
    "atomic_add_dtype_valid",
    "has_mem_refs",
    "incore_tile_ops",
    "tile_memory_inferred",
    "tile_ops_2d",
    "tile_type_coherence",
]

_GM_KINDS = ("read", "write", "query", "view", "create")  # tensor operators that stay tensor operators on a core
_ACC_STORES = frozenset((DataType.INT32, DataType.FP32, DataType.FP16, DataType.BF16))
_ATOMIC = frozenset((DataType.FP32, DataType.FP16, DataType.INT32, DataType.INT16, DataType.INT8, DataType.BF16))


def _finding(rule: str, code: int, message: str, span: Span) -> Diagnostic:
    return Diagnostic(Severity.Error, rule, code, message, span)


def _device(program: Program) -> Iterator[Function]:
    return (f for f in program.function_list if f.is_device)


def _calls(f: Function) -> Iterator[tuple[Call, OpDef]]:
    for n in statements(f.body):
        e = value_of(n)
        op = ops.of(e) if isinstance(e, Call) else None
        if isinstance(e, Call) and op is not None:
            yield e, op


def _tiles(f: Function) -> Iterator[tuple[Var, TileType]]:
    for v in (*f.params, *definitions(f.body)):
        if isinstance(v.type, TileType):
            yield v, v.type


def incore_tile_ops(program: Program) -> Iterator[Diagnostic]:
    for f in _device(program):
        for call, op in _calls(f):
            stays = isinstance(op.semantics, Special) and op.semantics.kind in _GM_KINDS
            if op.level == "tensor" and not stays:
                yield _finding("IncoreTileOps", 601, f"'{f.name}' still applies {op.name} to tensors", call.span)


def tile_ops_2d(program: Program) -> Iterator[Diagnostic]:
    for f in _device(program):
        for v, t in _tiles(f):
            if t.rank > 2:
                yield _finding("TileOps2D", 602, f"the tile '{v.name_hint}' of '{f.name}' has {t.rank} dimensions", v.span)
        for call, op in _calls(f):
            offset = call.args[2] if op.name == "tile.assemble" else None
            if isinstance(offset, MakeTuple) and len(offset.elements) != 2:
                yield _finding("TileOps2D", 602, f"{op.name} takes two offsets, got {len(offset.elements)}", call.span)


def tile_memory_inferred(program: Program) -> Iterator[Diagnostic]:
    for f in _device(program):
        for v, t in _tiles(f):
            if t.memory_space is None:
                yield _finding("TileMemoryInferred", 603, f"the tile '{v.name_hint}' of '{f.name}' has no memory", v.span)
        for call, op in _calls(f):
            yield from _operands(call, op)


def _operands(call: Call, op: OpDef) -> Iterator[Diagnostic]:
    for a, allowed in zip(call.args, op.spaces or (), strict=False):
        space = a.type.memory_space if isinstance(a.type, TileType) else None
        if allowed is not None and space is not None and space not in allowed:
            names = " or ".join(s.name for s in allowed)
            yield _finding("TileMemoryInferred", 604, f"{op.name} reads from {names}, not from {space.name}", call.span)


def tile_type_coherence(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        for v, t in _tiles(f):
            if TileType(t.shape, t.dtype, t.memref, t.tile_view, t.memory_space) != t:
                yield _finding("TileTypeCoherence", 605, f"the view of '{v.name_hint}' says what is implied", v.span)


def has_mem_refs(program: Program) -> Iterator[Diagnostic]:
    for f in _device(program):
        for v, t in _tiles(f):
            if t.memref is None:
                yield _finding("HasMemRefs", 606, f"the tile '{v.name_hint}' of '{f.name}' has no place in memory", v.span)


def acc_to_gm_store_valid(program: Program) -> Iterator[Diagnostic]:
    for f in _device(program):
        for call, op in _calls(f):
            if op.name != "tile.store":
                continue
            source, target = call.args[0].type, call.args[2].type
            from_acc = isinstance(source, TileType) and source.memory_space is MemorySpace.Acc
            if from_acc and isinstance(target, TensorType) and target.dtype not in _ACC_STORES:
                message = f"an accumulator cannot be stored as {target.dtype}"
                yield _finding("AccToGmStoreValid", 607, message, call.span)


def atomic_add_dtype_valid(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        for call, op in _calls(f):
            if not call.kwargs.get("atomic") or op.reuses is None:
                continue
            target = call.args[op.reuses].type
            if isinstance(target, TensorType) and target.dtype not in _ATOMIC:
                message = f"elements of {target.dtype} cannot be added atomically"
                yield _finding("AtomicAddDtypeValid", 608, message, call.span)

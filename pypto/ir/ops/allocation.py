"""Allocations, as printed programs write them: bytes of a memory, which windows of storage then name.

In: a number of bytes and a memory.  Out: the identity of the allocation.
"""

from __future__ import annotations

from typing import Any

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.ir.expr import ConstInt, Expr
from pypto.ir.opdef import Attr, Dsl, DslContext, OpDef, Operand, Param, Site, Special
from pypto.ir.ops.rules import R
from pypto.ir.types import PtrType, Type

__all__ = ["DSL", "OPS"]


def _alloc(s: Site) -> Type:
    if not isinstance(s.args[0], ConstInt) or s.args[0].value < 1:
        s.reject("the size of an allocation is a positive constant of bytes", "write the number of bytes as an integer")
    return PtrType.get()


def _build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    kwargs = {"memory_space": a["memory_space"], **({"pinned": True} if a["pinned"] else {})}
    return ctx.op(f"{space}.alloc", (ConstInt(a["size"], DataType.INT64, ctx.span),), kwargs)


OPS: tuple[OpDef, ...] = tuple(
    OpDef(
        f"{level}.alloc",
        (Operand("size", "scalar"),),
        _alloc,
        Special("alloc"),
        effects=(R,),
        attrs=(Attr("memory_space", (MemorySpace,), required=True), Attr("pinned", (bool,))),
        doc=f"bytes of {memory}",
    )
    for level, memory in (("tensor", "global memory"), ("tile", "an on-chip memory"))
)
DSL: tuple[Dsl, ...] = (
    Dsl(
        "alloc",
        ("tensor", "tile"),
        (Param("memory_space", "attr"), Param("size", "attr"), Param("pinned", "attr", False, True)),
        _build,
        "bytes of a memory, as printed programs write them",
    ),
)

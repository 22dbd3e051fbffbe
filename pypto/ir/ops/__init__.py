"""The operator table: every registered operator and every DSL entry, in one explicit, frozen order.

In: the families' rows.  Out: look-up by IR name, by DSL spelling, and checked creation of calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pypto.ir.expr import Call, Expr
from pypto.ir.opdef import Dsl, OpDef, OpRejected
from pypto.ir.ops import (
    allocation,
    arrays,
    bitwise,
    buffer,
    casts,
    combined,
    compare,
    counter_random,
    elementwise,
    expand,
    expectations,
    gather_compare,
    gathers,
    generate,
    indexing_dsl,
    lanes,
    matmul,
    memory,
    memory_dsl,
    paging,
    pipes,
    rearrange,
    reduce,
    scatters,
    sorting,
    system,
    trigonometry,
    views,
)
from pypto.ir.types import Type
from pypto.span import Span

__all__ = ["ALL", "DSL", "TABLE", "create_op_call", "find", "find_dsl", "get"]

ALL: tuple[OpDef, ...] = (
    *elementwise.OPS,
    *combined.OPS,
    *bitwise.OPS,
    *trigonometry.OPS,
    *compare.OPS,
    *casts.OPS,
    *reduce.OPS,
    *expand.OPS,
    *memory.OPS,
    *views.OPS,
    *generate.OPS,
    *rearrange.OPS,
    *gathers.OPS,
    *gather_compare.OPS,
    *scatters.OPS,
    *sorting.OPS,
    *paging.OPS,
    *matmul.OPS,
    *lanes.OPS,
    *pipes.OPS,
    *arrays.OPS,
    *allocation.OPS,
    *counter_random.OPS,
    *system.OPS,
    *expectations.OPS,
    *buffer.OPS,
)
TABLE: Mapping[str, OpDef] = MappingProxyType({op.name: op for op in ALL})
DSL: tuple[Dsl, ...] = (
    *elementwise.DSL,
    *combined.DSL,
    *bitwise.DSL,
    *trigonometry.DSL,
    *compare.DSL,
    *casts.DSL,
    *reduce.DSL,
    *expand.DSL,
    *memory_dsl.DSL,
    *generate.DSL,
    *rearrange.DSL,
    *indexing_dsl.DSL,
    *gather_compare.DSL,
    *sorting.DSL,
    *paging.DSL,
    *matmul.DSL,
    *lanes.DSL,
    *pipes.DSL,
    *arrays.DSL,
    *allocation.DSL,
    *counter_random.DSL,
    *system.DSL,
)
_DSL_TABLE: Mapping[tuple[str, str], Dsl] = MappingProxyType({(space, d.name): d for d in DSL for space in d.namespaces})

if len(TABLE) != len(ALL) or len(_DSL_TABLE) != sum(len(d.namespaces) for d in DSL):
    raise AssertionError("two operators or two DSL entries share a name")


def find(name: str) -> OpDef | None:
    return TABLE.get(name)


def get(name: str) -> OpDef:
    """The operator of a registered name; ValueError for an unknown one."""
    op = TABLE.get(name)
    if op is None:
        raise ValueError(f"Operator '{name}' not found in registry")
    return op


def of(call: Call) -> OpDef | None:
    """The operator a call applies; None for a call of a program function."""
    return TABLE.get(call.op.name)


def find_dsl(namespace: str, name: str) -> Dsl | None:
    """The language's function `pl.<namespace>.<name>` (`pl.<name>` for an empty namespace)."""
    return _DSL_TABLE.get((namespace, name))


def create_op_call(
    name: str, args: Iterable[Expr], kwargs: Mapping[str, Any] | None = None, span: Span | None = None, result: Type | None = None
) -> Call:
    """A checked, typed call.  TypeError or ValueError, prefixed with the operator's name, for what it refuses."""
    op = get(name)
    try:
        return op.call(args, kwargs, span or Span.unknown(), result)
    except OpRejected as e:
        raise e.kind(f"{name}: {e.message}") from None

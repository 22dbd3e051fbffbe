"""The operator table: every registered operator and every DSL entry, in one explicit, frozen order.

In: the families' rows.  Out: look-up by IR name, by DSL spelling, and checked creation of calls.
Invariant: a family loads when something of it is looked up; `_index`, made of the rows, says which that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pypto.errors import InternalError, unknown_name
from pypto.ir.expr import Call, Expr
from pypto.ir.opdef import Dsl, OpDef, OpRejected
from pypto.ir.ops._index import ENTRIES, OPERATORS
from pypto.ir.types import Type
from pypto.span import Span

if TYPE_CHECKING:
    ALL: tuple[OpDef, ...]
    DSL: tuple[Dsl, ...]
    TABLE: Mapping[str, OpDef]

__all__ = ["ALL", "DSL", "FAMILIES", "TABLE", "create_op_call", "find", "find_dsl", "get"]

FAMILIES = (
    *("elementwise", "combined", "bitwise", "trigonometry", "compare", "casts", "reduce", "expand", "memory", "memory_dsl"),
    *("views", "generate", "rearrange", "gathers", "indexing_dsl", "gather_compare", "scatters", "sorting", "paging"),
    *("matmul", "lanes", "pipes", "arrays", "allocation", "counter_random", "system", "expectations", "buffer"),
)
"""Modules of this package, each with its operators, `OPS`, or its functions of the language, `DSL`, or both."""

_HOMES: dict[str, str] = {name: family for family, names in OPERATORS.items() for name in names.split()}
_DSL_HOMES: dict[tuple[str, str], str] = {
    (space, name): family for family, spaces in ENTRIES.items() for space, names in spaces.items() for name in names.split()
}
# Of the families that have been loaded.
_table: dict[str, OpDef] = {}
_dsl: dict[tuple[str, str], Dsl] = {}


def _load(family: str) -> None:
    module = import_module(f"{__name__}.{family}")
    _table.update((op.name, op) for op in getattr(module, "OPS", ()))
    _dsl.update(((space, d.name), d) for d in getattr(module, "DSL", ()) for space in d.namespaces)


def _rows(kind: str) -> tuple[Any, ...]:
    return tuple(row for family in FAMILIES for row in getattr(import_module(f"{__name__}.{family}"), kind, ()))


def __getattr__(name: str) -> Any:
    """`ALL`, `DSL` and `TABLE`: everything there is, which loads it all."""
    if name == "ALL":
        found: Any = _rows("OPS")
    elif name == "DSL":
        found = _rows("DSL")
        if len({(space, d.name) for d in found for space in d.namespaces}) != sum(len(d.namespaces) for d in found):
            raise AssertionError("two DSL entries share a name")
    elif name == "TABLE":
        rows = _rows("OPS")
        found = MappingProxyType({op.name: op for op in rows})
        if len(found) != len(rows):
            raise AssertionError("two operators share a name")
    else:
        raise unknown_name(f"module {__name__!r}", name, __all__)
    globals()[name] = found
    return found


def find(name: str) -> OpDef | None:
    op = _table.get(name)
    if op is None and name in _HOMES:
        _load(_HOMES[name])
        op = _table.get(name)
        if op is None:
            raise InternalError(f"{_HOMES[name]} has no operator {name!r}: run python tools/stubs.py")
    return op


def get(name: str) -> OpDef:
    """The operator of a registered name; ValueError for an unknown one."""
    op = find(name)
    if op is None:
        raise ValueError(f"Operator '{name}' not found in registry")
    return op


def of(call: Call) -> OpDef | None:
    """The operator a call applies; None for a call of a program function."""
    return find(call.op.name)


def find_dsl(namespace: str, name: str) -> Dsl | None:
    """The language's function `pl.<namespace>.<name>` (`pl.<name>` for an empty namespace)."""
    family = _DSL_HOMES.get((namespace, name))
    if family is not None and (namespace, name) not in _dsl:
        _load(family)
    return _dsl.get((namespace, name))


def create_op_call(
    name: str, args: Iterable[Expr], kwargs: Mapping[str, Any] | None = None, span: Span | None = None, result: Type | None = None
) -> Call:
    """A checked, typed call.  TypeError or ValueError, prefixed with the operator's name, for what it refuses."""
    op = get(name)
    try:
        return op.call(args, kwargs, span or Span.unknown(), result)
    except OpRejected as e:
        raise e.kind(f"{name}: {e.message}") from None

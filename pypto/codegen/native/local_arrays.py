"""Arrays of scalars on the core, as C structures that are assigned like scalars.

In: an `ArrayOp`.  Out: its statement.  An element is replaced in place where nobody reads the old value any more, else in a
copy; an index that is not within the array is a fault.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from pypto.codegen.native.access import ArrayOp, FaultKind
from pypto.codegen.native.scalars import C_TYPES, array_type, scalar_type
from pypto.codegen.native.writer import Writer
from pypto.dtypes import DataType
from pypto.errors import NotSupportedError
from pypto.ir.expr import Call, ConstInt, Expr, Var
from pypto.ir.local_arrays import ArrayUses
from pypto.ir.program import Function
from pypto.ir.rewrite import walk
from pypto.ir.types import ArrayType
from pypto.span import Span

__all__ = ["array_op", "definitions", "write_array"]


class _Sites(Protocol):
    def add(self, kind: FaultKind, message: str, span: Span) -> int: ...


class _Names(Protocol):
    of: dict[Var, str]

    def bind(self, v: Var) -> str: ...


class _Place(Protocol):
    """Where C text is written: a kernel, or the entry."""

    w: Writer

    @property
    def sites(self) -> _Sites: ...

    @property
    def names(self) -> _Names: ...

    def expr(self, e: Expr) -> str: ...


def array_op(var: Var | None, call: Call, uses: ArrayUses, span: Span) -> ArrayOp:
    """What an operator on arrays does; `var` takes its result."""
    if call.op.name == "array.create":
        return ArrayOp(var, None, None, None, False, span)
    array, index, *value = call.args
    in_place = bool(value) and var is not None and uses.free(array, var)
    return ArrayOp(var, array, index, value[0] if value else None, in_place, span)


def write_array(to: _Place, op: ArrayOp) -> None:
    """One operation on an array; without a variable for its result only what can fail is left."""
    w = to.w
    if op.array is None:
        if op.var is not None:
            w.line(f"{scalar_type(op.var)} {to.names.bind(op.var)} = {{0}};")
        return
    source = to.expr(op.array)
    if op.at is None:  # another name
        assert op.var is not None
        to.names.of[op.var] = source
        return
    t = op.array.type
    assert isinstance(t, ArrayType)
    at = to.expr(op.at)
    if not isinstance(op.at, ConstInt):
        remedy = "make sure that the index is within it, or create a longer one"
        site = to.sites.add("bounds", f"element {{0}} of an array of {t.extent}\n{remedy}", op.span)
        with w.block(f"if ((uint64_t)(int64_t)({at}) >= {t.extent}u)"):
            w.line(f"return pp_fault(call, {site}, (int64_t)({at}), 0, 0);")
    if op.var is None:
        return
    if op.value is None:
        w.line(f"const {scalar_type(op.var)} {to.names.bind(op.var)} = {source}.v[{at}];")
        return
    value = to.expr(op.value)
    if op.in_place:
        to.names.of[op.var] = source
    else:
        w.line(f"{scalar_type(op.var)} {to.names.bind(op.var)} = {source};")
    w.line(f"{to.names.of[op.var]}.v[{at}] = {value};")


def definitions(functions: Iterable[Function]) -> list[str]:
    """The structures of the arrays that functions have."""
    found: dict[ArrayType, None] = {}
    for f in functions:
        for n in walk(f.body):
            t = n.type if isinstance(n, Call) else None
            if isinstance(t, ArrayType) and t.dtype is not DataType.TASK_ID:
                if t.dtype not in C_TYPES:
                    assert isinstance(n, Call)
                    raise NotSupportedError(f"an array of {t.dtype} is not executed", n.span, "use an array of INT8")
                found[t] = None
    return [f"typedef struct {{ {C_TYPES[t.dtype]} v[{t.extent}]; }} {array_type(t)};" for t in found]

"""The operator registry, as users ask it: by name, for effects, memory spaces and checked calls.

In: registered names.  Out: facts of the operator table in the shapes of the public interface.
Invariant: everything here is read from `OpDef`; nothing is stated twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from pypto.enums import ArgDirection, ArgEffect, MemorySpace, OpIRStage, WriteChannel
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, Op
from pypto.ir.node import Attrs
from pypto.ir.opdef import Lanewise, OpDef, Special
from pypto.ir.types import Type, UnknownType
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = [
    "BufferAccess",
    "BufferArgEffect",
    "BufferResultBehavior",
    "BufferResultSpec",
    "create_internal_op_call",
    "create_op_call",
    "get_buffer_elementwise_recipe_names",
    "get_op",
    "get_op_arg_effect",
    "get_op_buffer_arg_effect",
    "get_op_buffer_result_spec",
    "get_op_ir_stage",
    "get_op_memory_spec",
    "get_op_output_arity",
    "get_op_write_channel",
    "is_op_registered",
    "make_call",
    "op_arg_is_workspace",
    "op_has_declared_arg_effect",
    "op_has_declared_arg_effects",
    "set_call_attrs",
]


class BufferAccess(Enum):
    """What a buffer operator does to the contents, or to the descriptor, of an operand."""

    None_ = 0
    Read = 1
    Write = 2
    ReadWrite = 3


class BufferResultBehavior(Enum):
    """Where the handle that a buffer operator returns comes from."""

    None_ = 0
    Allocate = 1
    Alias = 2


class BufferArgEffect(NamedTuple):
    """`non_memory` operands (scalars, offsets, extents) have neither contents nor a descriptor."""

    data: BufferAccess
    metadata: BufferAccess
    non_memory: bool


class BufferResultSpec(NamedTuple):
    """`alias_arg` is the operand whose storage the result shares, None where it shares none."""

    behavior: BufferResultBehavior
    alias_arg: int | None


# -- names and calls -------------------------------------------------------------------------------------------------


def is_op_registered(name: str) -> bool:
    return ops.find(name) is not None


def get_op(name: str) -> Op:
    """The operator reference of a registered name; ValueError for an unknown one."""
    return ops.get(name).op


def create_op_call(name: str, args: Iterable[Expr], *rest: Any) -> Call:
    """`create_op_call(name, args, [kwargs,] span)`: a checked call with its deduced type.

    ValueError for an unknown operator or keyword and for operands it refuses, TypeError for operands of the wrong kind.
    Buffer-stage operators only come into being in lowering: ValueError.
    """
    if ops.get(name).stage is OpIRStage.Buffer:
        raise ValueError(f"{name} is internal-only: buffer operators come from lowering tile operators")
    kwargs, span, _ = _rest(rest)
    return ops.create_op_call(name, args, kwargs, span)


def create_internal_op_call(name: str, args: Iterable[Expr], *rest: Any) -> Call:
    """`(name, args, kwargs, [result_type,] span)`: as create_op_call, buffer operators included."""
    kwargs, span, result = _rest(rest)
    return ops.create_op_call(name, args, kwargs, span, result)


def _rest(rest: tuple[Any, ...]) -> tuple[Mapping[str, Any] | None, Span | None, Type | None]:
    kwargs: Mapping[str, Any] | None = None
    span: Span | None = None
    result: Type | None = None
    for value in rest:
        if isinstance(value, Span):
            span = value
        elif isinstance(value, Type):
            result = value
        elif isinstance(value, Mapping):
            kwargs = value
        else:
            raise TypeError(f"unexpected argument {value!r}: expected keywords, a result type or a span")
    return kwargs, span, result


def make_call(
    op: Op,
    args: Iterable[Expr],
    *,
    directions: Iterable[ArgDirection] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    type: Type | None = None,
    span: Span | None = None,
) -> Call:
    """An unchecked call; ValueError unless there is one direction per argument."""
    values = tuple(args)
    attrs: dict[str, Any] = {}
    if directions is not None:
        attrs["arg_directions"] = tuple(directions)
        if len(attrs["arg_directions"]) != len(values):
            raise ValueError(f"{op.name}: {len(attrs['arg_directions'])} directions for {len(values)} arguments")
    return Call(op, values, Attrs(kwargs or {}), Attrs(attrs), type or UnknownType.get(), span or Span.unknown())


def set_call_attrs(call: Call, attrs: Mapping[str, Any]) -> Call:
    """A copy of a call with these attributes instead of its own."""
    return call.replace(attrs=Attrs(attrs))


# -- facts -----------------------------------------------------------------------------------------------------------


def get_op_memory_spec(name: str) -> dict[str, Any] | None:
    """`{"input_constraints": [[MemorySpace, ...], ...], "output_memory": ...}`, or None where nothing is declared.

    The output memory is a space, "inherit_from_input" (the first tile operand's), "deferred" (a keyword or the consumers
    decide), or None.  An empty list of constraints allows every space.
    """
    op = ops.find(name)
    if op is None or (op.spaces is None and op.out_space is None):
        return None
    constraints: list[list[MemorySpace]] = [list(s or ()) for s in op.spaces or ()]
    return {"input_constraints": constraints, "output_memory": op.out_space}


def get_op_arg_effect(name: str, index: int, **kwargs: Any) -> ArgEffect:
    """What a call with these keywords does to an operand; operands beyond the signature are read."""
    op = ops.get(name)
    if op.stage is OpIRStage.Buffer:
        raise ValueError(f"{name} requires GetBufferArgEffect: contents and descriptor have effects of their own")
    return op.effect(index, kwargs)


def op_has_declared_arg_effects(name: str) -> bool:
    """Whether the operator says what it does to its operands; every registered one does."""
    return bool(ops.get(name).operands)


def op_has_declared_arg_effect(name: str, index: int) -> bool:
    return 0 <= index < len(ops.get(name).operands)


def get_op_write_channel(name: str) -> WriteChannel | None:
    return ops.get(name).channel


def get_op_ir_stage(name: str) -> OpIRStage:
    return ops.get(name).stage


def get_op_output_arity(name: str) -> int:
    """1 for operators with a result, 0 for those that only act."""
    op = ops.get(name)
    if op.stage is OpIRStage.Functional:
        return int(op.returns)
    return int(op.explicit_result or _is(op, "query"))


def op_arg_is_workspace(name: str, index: int) -> bool:
    """Whether an operand is scratch memory."""
    return index in ops.get(name).scratch


def get_op_buffer_arg_effect(name: str, index: int) -> BufferArgEffect:
    """The effects of a buffer operator on one operand; ValueError where there are none to tell."""
    op = _buffer(name)
    if not 0 <= index < len(op.operands):
        raise ValueError(f"{name} declares no buffer effect for operand {index}")
    kind = op.operands[index].kind
    if kind not in ("buffer", "tensor"):
        return BufferArgEffect(BufferAccess.None_, BufferAccess.None_, True)
    if _is(op, "view"):
        return BufferArgEffect(BufferAccess.None_, BufferAccess.Read, False)
    if _is(op, "set_valid"):
        return BufferArgEffect(BufferAccess.None_, BufferAccess.Write, False)
    # A tensor in global memory has contents but no descriptor that could change.
    metadata = BufferAccess.Read if kind == "buffer" else BufferAccess.None_
    return BufferArgEffect(BufferAccess[op.effect(index).name], metadata, False)


def get_op_buffer_result_spec(name: str) -> BufferResultSpec:
    """Whether a buffer operator's result is new storage, shares an operand's, or is none."""
    op = _buffer(name)
    if _is(op, "alloc"):
        return BufferResultSpec(BufferResultBehavior.Allocate, None)
    if _is(op, "view"):
        return BufferResultSpec(BufferResultBehavior.Alias, 0)
    return BufferResultSpec(BufferResultBehavior.None_, None)


def get_buffer_elementwise_recipe_names() -> list[str]:
    """The `tile.*` operators with an elementwise buffer form, sorted."""
    return sorted(o.name for o in ops.ALL if o.level == "tile" and o.buffer is not None and isinstance(o.semantics, Lanewise))


def _buffer(name: str) -> OpDef:
    op = ops.get(name)
    if op.stage is not OpIRStage.Buffer:
        raise ValueError(f"{name} has no buffer effect: it is no buffer operator")
    return op


def _is(op: OpDef, kind: str) -> bool:
    return isinstance(op.semantics, Special) and op.semantics.kind == kind

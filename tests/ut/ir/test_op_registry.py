"""The registry's public questions, answered from the operator table."""

from __future__ import annotations

import pytest
from ir_samples import VEC, dims

from pypto.dtypes import DataType as D
from pypto.enums import ArgDirection, ArgEffect, AtomicType, MemorySpace, OpIRStage, WriteChannel
from pypto.ir import ops, registry
from pypto.ir.expr import Op, Var, const_index
from pypto.ir.registry import BufferAccess, BufferResultBehavior
from pypto.ir.shaped import BufferType, TileType
from pypto.ir.types import UnknownType, VoidType
from pypto.span import Span

TILE = TileType([16, 64], D.FP32, None, None, VEC)
HANDLE = BufferType([16, 64], D.FP32, VEC)


def test_names() -> None:
    assert registry.is_op_registered("tile.add")
    assert registry.is_op_registered("buffer.add")
    assert not registry.is_op_registered("tile.nonsense")
    assert registry.get_op("tile.add").name == "tile.add"
    with pytest.raises(ValueError, match=r"Operator 'tile\.nonsense' not found in registry"):
        registry.get_op("tile.nonsense")


def test_calls() -> None:
    t = Var("t", TILE)
    span = Span("f.py", 3, 1)
    call = registry.create_op_call("tile.add", [t, t], span)
    assert (call.type, call.span) == (TILE, span)
    full = registry.create_op_call("tile.create", [dims(16, 64)], {"dtype": D.FP32, "target_memory": VEC}, span)
    assert full.type == TILE
    with pytest.raises(ValueError, match="Unknown kwarg 'x'"):
        registry.create_op_call("tile.create", [dims(16, 64)], {"dtype": D.FP32, "x": 1}, span)
    with pytest.raises(TypeError, match="'dtype' must be DataType"):
        registry.create_op_call("tile.create", [dims(16, 64)], {"dtype": 1}, span)
    with pytest.raises(TypeError, match="unexpected argument"):
        registry.create_op_call("tile.add", [t, t], 3)


def test_buffer_calls_are_internal() -> None:
    b = Var("b", HANDLE)
    with pytest.raises(ValueError, match="internal-only"):
        registry.create_op_call("buffer.add", [b, b, b], Span.unknown())
    made = registry.create_internal_op_call("buffer.add", [b, b, b], {}, Span.unknown())
    assert made.type is VoidType.get()
    with pytest.raises(ValueError, match="explicit result type"):
        registry.create_internal_op_call("buffer.alloc", [dims()], {}, Span.unknown())
    handle = registry.create_internal_op_call("buffer.alloc", [dims(), const_index(0)], {}, HANDLE, Span.unknown())
    assert handle.type == HANDLE


def test_make_call_checks_only_the_directions() -> None:
    t = Var("t", TILE)
    call = registry.make_call(Op("f"), [t], directions=[ArgDirection.Input], kwargs={"a": 1})
    assert call.attrs["arg_directions"] == (ArgDirection.Input,)
    assert (call.kwargs["a"], call.type) == (1, UnknownType.get())
    with pytest.raises(ValueError, match="2 directions for 1 arguments"):
        registry.make_call(Op("f"), [t], directions=[ArgDirection.Input] * 2)
    changed = registry.set_call_attrs(call, {"x": 2})
    assert (changed.attrs, call.attrs["arg_directions"]) == ({"x": 2}, (ArgDirection.Input,))


def test_memory_specs() -> None:
    assert registry.get_op_memory_spec("tile.add") == {"input_constraints": [[VEC], [VEC]], "output_memory": VEC}
    assert registry.get_op_memory_spec("tile.load")["output_memory"] == "deferred"  # type: ignore[index]
    store = registry.get_op_memory_spec("tile.store")
    assert store is not None
    assert store["input_constraints"][0] == [VEC, MemorySpace.Acc]
    assert registry.get_op_memory_spec("tile.slice")["output_memory"] == "inherit_from_input"  # type: ignore[index]
    assert registry.get_op_memory_spec("tensor.add") is None
    assert registry.get_op_memory_spec("tile.nonsense") is None


def test_effects_follow_the_keywords() -> None:
    assert registry.get_op_arg_effect("tile.add", 0) is ArgEffect.Read
    assert registry.get_op_arg_effect("tile.store", 2) is ArgEffect.Write
    assert registry.get_op_arg_effect("tile.store", 2, atomic=AtomicType.Add) is ArgEffect.ReadWrite
    assert registry.get_op_arg_effect("tile.store", 9) is ArgEffect.Read
    assert registry.get_op_write_channel("tile.store") is WriteChannel.Dma
    assert registry.get_op_write_channel("tile.add") is None
    assert registry.op_has_declared_arg_effects("tile.store")
    assert registry.op_has_declared_arg_effect("tile.store", 2)
    assert not registry.op_has_declared_arg_effect("tile.store", 9)
    assert not registry.op_arg_is_workspace("tile.add", 0)
    with pytest.raises(ValueError, match="requires GetBufferArgEffect"):
        registry.get_op_arg_effect("buffer.add", 0)


def test_stages_and_arity() -> None:
    assert registry.get_op_ir_stage("tile.add") is OpIRStage.Functional
    assert registry.get_op_ir_stage("buffer.add") is OpIRStage.Buffer
    with_result = {"alloc", "subview", "reshape", "get_block_idx", "get_block_num", "get_subblock_idx"}
    acts = {"push", "free", "initialize_pipe", "meet", "flag", "expect"}
    for o in ops.ALL:
        acts_only = getattr(o.semantics, "kind", "") in acts or o.name == "prefetch.wait"
        functional = o.level != "buffer" and not acts_only
        want = int(functional or (o.level == "buffer" and o.concept in with_result))
        assert registry.get_op_output_arity(o.name) == want, o.name


N, R, W = BufferAccess.None_, BufferAccess.Read, BufferAccess.Write


@pytest.mark.parametrize(
    ("name", "effects"),
    [
        ("buffer.alloc", [(N, N, True), (N, N, True)]),
        ("buffer.set_validshape", [(N, W, False), (N, N, True)]),
        ("buffer.subview", [(N, R, False), (N, N, True), (N, N, True)]),
        ("buffer.reshape", [(N, R, False)]),
        ("buffer.copy", [(R, R, False), (W, R, False)]),
        ("buffer.load", [(R, N, False), (N, N, True), (N, N, True), (W, R, False)]),
        ("buffer.store", [(R, R, False), (N, N, True), (N, N, True), (W, N, False)]),
        ("buffer.add", [(R, R, False), (R, R, False), (W, R, False)]),
        ("buffer.adds", [(R, R, False), (N, N, True), (W, R, False)]),
        ("buffer.full", [(N, N, True), (W, R, False)]),
    ],
)
def test_buffer_effects(name: str, effects: list[tuple[BufferAccess, BufferAccess, bool]]) -> None:
    got = [registry.get_op_buffer_arg_effect(name, i) for i in range(len(effects))]
    assert [(e.data, e.metadata, e.non_memory) for e in got] == effects
    with pytest.raises(ValueError, match="no buffer effect"):
        registry.get_op_buffer_arg_effect(name, len(effects))


def test_buffer_results() -> None:
    def spec(name: str) -> tuple[BufferResultBehavior, int | None]:
        return tuple(registry.get_op_buffer_result_spec(name))  # type: ignore[return-value]

    assert spec("buffer.alloc") == (BufferResultBehavior.Allocate, None)
    assert spec("buffer.subview") == (BufferResultBehavior.Alias, 0)
    assert spec("buffer.reshape") == (BufferResultBehavior.Alias, 0)
    assert spec("buffer.add") == (BufferResultBehavior.None_, None)
    with pytest.raises(ValueError, match="no buffer effect"):
        registry.get_op_buffer_result_spec("tile.add")


def test_recipes_are_a_fresh_sorted_list() -> None:
    names = registry.get_buffer_elementwise_recipe_names()
    assert names == sorted(names)
    assert {"tile.add", "tile.muls", "tile.exp"} <= set(names)
    assert all(n.startswith("tile.") for n in names)
    names.clear()
    assert registry.get_buffer_elementwise_recipe_names()

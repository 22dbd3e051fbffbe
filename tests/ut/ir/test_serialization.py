"""Bytes of programs: both laws, what may and may not count, the written form of descriptors."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import ir_samples
import msgpack
import pytest
from ir_bytes import buffer_var, find, load, scalar_var, tree

from pypto import enums
from pypto.dtypes import DataType
from pypto.enums import MemorySpace, PadValue, ParamDirection
from pypto.errors import SerializationError
from pypto.ir import expr, program, scalar, shaped, stmt, types
from pypto.ir.expr import Call, ConstFloat, ConstInt, IRNode, MakeTuple, Op, Var, const_index
from pypto.ir.node import Node
from pypto.ir.program import Function
from pypto.ir.serialization import deserialize, deserialize_from_file, serialize, serialize_to_file
from pypto.ir.serialization_forms import TAGS, class_named, form_of
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, SeqStmts, WhileStmt
from pypto.ir.structural import compare
from pypto.ir.types import ScalarType, TupleType, VoidType
from pypto.span import Span

SAMPLES = [ir_samples.program, ir_samples.kernel, ir_samples.control, ir_samples.orchestration, ir_samples.buffer_function]


# -- the laws --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", SAMPLES)
def test_loading_gives_an_equal_program_and_the_same_bytes(make: Any) -> None:
    node = make()
    data = serialize(node)
    loaded = deserialize(data)
    difference = compare(node, loaded, auto_map=True)
    assert difference is None, difference.where()
    assert serialize(loaded) == data
    assert loaded.as_python() == node.as_python()


def test_two_builds_of_one_program_give_the_same_bytes() -> None:
    assert serialize(ir_samples.program()) == serialize(ir_samples.program())


def test_sharing_survives_and_separate_nodes_stay_separate() -> None:
    a, b = scalar_var(), scalar_var()
    shared = scalar.add(a, b)
    loaded = deserialize(serialize(MakeTuple([shared, shared, scalar.add(a, b)])))
    assert isinstance(loaded, MakeTuple)
    one, two, three = loaded.elements
    assert one is two
    assert three is not one
    assert three.left is one.left  # type: ignore[attr-defined]


def test_variables_keep_name_and_type_and_get_a_serial_number_of_their_own() -> None:
    v = scalar_var()
    loaded = deserialize(serialize(v))
    assert isinstance(loaded, Var)
    assert (loaded.name_hint, loaded.type) == ("v", v.type)
    assert loaded.unique_id != v.unique_id


@pytest.mark.contract("B235")
def test_while_conditions_read_the_very_carries_of_their_loop() -> None:
    loaded = deserialize(serialize(ir_samples.control()))
    assert isinstance(loaded, Function)
    loop = next(s for s in loaded.body.stmts if isinstance(s, WhileStmt))  # type: ignore[attr-defined]
    assert loop.condition.left is loop.iter_args[0]  # type: ignore[attr-defined]


@pytest.mark.contract("B240")
def test_comments_and_stage_and_void_results_survive() -> None:
    loaded = deserialize(serialize(ir_samples.control()))
    assert loaded.body.stmts[0].leading_comments == ("first", "two\nlines")  # type: ignore[attr-defined]
    device = deserialize(serialize(ir_samples.buffer_function()))
    assert device.ir_stage is enums.FunctionIRStage.Buffer  # type: ignore[attr-defined]
    add = device.body.stmts[5]  # type: ignore[attr-defined]
    assert isinstance(add, EvalStmt)
    assert add.expr.type is VoidType.get()


def test_attribute_values_keep_their_types() -> None:
    values = (
        1,
        True,
        1.0,
        "1",
        None,
        DataType.INT32,
        MemorySpace.Vec,
        enums.PipeType.V,
        (1, (2.5, ())),
        [1, [True]],
        {"k": (1,)},
    )
    attrs = {f"a{i}": v for i, v in enumerate(values)} | {"index": const_index(4), "indices": (const_index(5),)}
    call = Call(Op("tile.add"), [], attrs, ScalarType.of(DataType.FP32), Span.unknown())
    loaded = deserialize(serialize(call))
    assert compare(call, loaded) is None
    for given_, got in zip(call.kwargs.values(), loaded.kwargs.values(), strict=True):  # type: ignore[attr-defined]
        assert isinstance(got, type(given_))
    assert isinstance(loaded.kwargs["index"], ConstInt)  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", [0.0, -0.0, float("inf"), float("nan"), 5e-324, 0.1])
def test_float_constants_keep_their_bits(value: float) -> None:
    loaded = deserialize(serialize(ConstFloat(value, DataType.FP16)))
    assert struct.pack("<d", loaded.value) == struct.pack("<d", value)  # type: ignore[attr-defined]


def test_long_sequences_and_long_programs() -> None:
    n = 5000
    body = SeqStmts([EvalStmt(const_index(i)) for i in range(n)])
    loaded = deserialize(serialize(body))
    assert [s.expr.value for s in loaded.stmts] == list(range(n))  # type: ignore[attr-defined]
    assert serialize(loaded) == serialize(body)


# -- what may and may not count --------------------------------------------------------------------------------------


def test_files_and_lines_are_not_part_of_the_bytes() -> None:
    here = EvalStmt(const_index(1), Span("a.py", 10, 4, 10, 9, 0, 3))
    there = EvalStmt(const_index(1), Span("b/c.py", 99, 1, 99, 6, 0, 3))
    assert serialize(here) == serialize(there)
    assert b"a.py" not in serialize(here)
    span = deserialize(serialize(here)).span
    assert (span.filename, span.begin_line, span.source, span.ordinal) == ("", -1, 0, 3)


def test_files_and_lines_travel_where_they_are_asked_for() -> None:
    for span in (Span("a.py", 10, 4, 11, 9, 0, 3), Span("a.py", 10, 4), Span("", -1, -1, source=0, ordinal=3), Span.unknown()):
        node = EvalStmt(const_index(1), span)
        data = serialize(node, positions=True)
        assert deserialize(data).span.__reduce__() == span.__reduce__()
        assert serialize(deserialize(data)) == serialize(node)


def test_the_statement_that_a_node_stands_for_is_part_of_the_bytes() -> None:
    spans = [Span("a.py", 1, 1, source=0, ordinal=i) for i in (1, 2)]
    assert serialize(EvalStmt(const_index(1), spans[0])) != serialize(EvalStmt(const_index(1), spans[1]))


def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    code = "import ir_samples, hashlib; from pypto.ir.serialization import serialize; "
    code += "print(hashlib.sha256(serialize(ir_samples.program())).hexdigest())"
    root = Path(__file__).parents[3]
    digests = set()
    for seed in ("1", "2"):
        path = os.pathsep.join([str(root), str(Path(__file__).parent)])
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        digests.add(subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True).stdout)
    assert len(digests) == 1


def test_no_field_of_a_node_looks_like_a_tag() -> None:
    reserved = {"id", "ref", "schema", "type_kind", "is_global_var", *TAGS}
    for module in (expr, scalar, shaped, stmt, program, types):
        for name in vars(module):
            kind = class_named(name, Node)
            if kind is not None and kind is not Op:
                assert not reserved & form_of(kind).names, name


# -- descriptors -----------------------------------------------------------------------------------------------------


def test_the_written_form_of_a_buffer_descriptor() -> None:
    assert find(tree(buffer_var()), "type_kind", "BufferType") == {
        "blayout": 1,
        "compact": 0,
        "dtype": 0x34,
        "fractal": 512,
        "memory_space": 1,
        "pad": 0,
        "physical_shape": [16, 32],
        "slayout": 0,
        "type_kind": "BufferType",
        "valid_shape": [-1, 32],
    }
    written = find(tree(buffer_var()), "type_kind", "BufferType")
    assert list(written) == sorted(written)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "fp32"}, "must be an integer"),
        ({"dtype": 0x99}, "data type"),
        ({"dtype": 0x50}, "element data type"),
        ({"physical_shape": "16"}, "integer array"),
        ({"physical_shape": [16, True]}, "integer array"),
        ({"physical_shape": [16, 0]}, "physical extent"),
        ({"physical_shape": []}, "physical shape"),
        ({"valid_shape": [17, 32]}, "valid"),
        ({"fractal": 512.0}, "must be an integer"),
        ({"fractal": 0}, "fractal"),
        ({"blayout": 0}, "block layout"),
        ({"memory_space": 0}, "on-chip tile memory"),
        ({"memory_space": 77}, "77 is no MemorySpace"),
        ({"address": 0}, "unexpected fields 'address'"),
    ],
)
def test_wrong_descriptors_are_refused(change: dict[str, Any], message: str) -> None:
    data = tree(buffer_var())
    find(data, "type_kind", "BufferType").update(change)
    with pytest.raises(SerializationError, match=message):
        load(data)


def test_each_descriptor_field_is_mandatory() -> None:
    for name in find(tree(buffer_var()), "type_kind", "BufferType"):
        data = tree(buffer_var())
        del find(data, "type_kind", "BufferType")[name]
        message = "Var.type: must be a Type" if name == "type_kind" else f"missing required field '{name}'"
        with pytest.raises(SerializationError, match=message):
            load(data)


def test_a_repeated_field_is_refused() -> None:
    data = serialize(buffer_var())
    once = msgpack.packb("dtype") + msgpack.packb(0x34)
    assert data.count(once) == 1
    grown = data.replace(once, once + once).replace(b"\x8a" + msgpack.packb("blayout"), b"\x8b" + msgpack.packb("blayout"))
    with pytest.raises(SerializationError, match="duplicate field 'dtype'"):
        deserialize(grown)


# -- the public functions --------------------------------------------------------------------------------------------


def test_types_and_other_objects_are_not_serialized() -> None:
    for value in (ScalarType.of(DataType.FP32), TupleType([]), Op("tile.add"), 1, None):
        with pytest.raises(TypeError, match="IR node"):
            serialize(value)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bytes"):
        deserialize("text")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "node",
    [
        ConstInt(2**64, DataType.INT64),
        ConstInt(-(2**63) - 1, DataType.INT64),
        Call(Op("tile.add"), [], {"x": object()}, ScalarType.of(DataType.FP32), Span.unknown()),
        Call(Op("tile.add"), [], {"x": {1, 2}}, ScalarType.of(DataType.FP32), Span.unknown()),
        Var("\ud800", ScalarType.of(DataType.FP32)),
    ],
)
def test_values_that_cannot_be_written_are_one_error(node: IRNode) -> None:
    with pytest.raises(SerializationError, match="serialize"):
        serialize(node)


def test_files(tmp_path: Path) -> None:
    f = ir_samples.kernel()
    serialize_to_file(f, tmp_path / "k.msgpack")
    loaded = deserialize_from_file(str(tmp_path / "k.msgpack"))
    assert compare(f, loaded) is None
    with pytest.raises(SerializationError, match="cannot read"):
        deserialize_from_file(tmp_path / "absent")
    with pytest.raises(SerializationError, match="cannot write"):
        serialize_to_file(f, tmp_path / "absent" / "k")
    with pytest.raises(ValueError, match="insufficient bytes"):
        deserialize(serialize(f)[:-1])


def test_loops_and_types_keep_every_field() -> None:
    loaded = deserialize(serialize(ir_samples.control()))
    loop = next(s for s in loaded.body.stmts if isinstance(s, ForStmt))  # type: ignore[attr-defined]
    assert loop.kind is enums.ForKind.Pipeline
    assert loop.attrs["pipeline_stages"] == 2
    view = loop.return_vars[0].type.tile_view  # type: ignore[attr-defined]
    assert view.valid_shape[0] is loaded.params[0]  # type: ignore[attr-defined]
    first = loaded.body.stmts[0]  # type: ignore[attr-defined]
    assert isinstance(first, AssignStmt)
    main = deserialize(serialize(ir_samples.orchestration()))
    assert main.param_directions == (ParamDirection.In, ParamDirection.InOut, ParamDirection.In)  # type: ignore[attr-defined]
    x = main.params[0].type  # type: ignore[attr-defined]
    assert isinstance(x, TensorType)
    assert x.tensor_view is not None
    assert x.tensor_view.pad is PadValue.zero
    assert x.tensor_view.valid_shape[0] is main.params[2]  # type: ignore[attr-defined]

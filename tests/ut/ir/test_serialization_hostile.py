"""Bytes that no program wrote: one error each, in little time and memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import ir_samples
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_bytes import load, scalar_var, tree

from pypto import enums
from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.errors import SerializationError
from pypto.ir import scalar
from pypto.ir.expr import Call, IRNode, MakeTuple, Op, Var
from pypto.ir.program import Program
from pypto.ir.serialization import SCHEMA, deserialize, serialize
from pypto.ir.shaped import TileType, TileView
from pypto.ir.types import ScalarType
from pypto.span import Span

SAMPLES = [ir_samples.program, ir_samples.kernel, ir_samples.control, ir_samples.orchestration, ir_samples.buffer_function]


# -- malformed -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [SCHEMA + 1, 0, -1, True, 1.0, "1", None])
def test_an_unknown_schema_is_refused(schema: Any) -> None:
    data = tree(scalar_var())
    data["schema"] = schema
    with pytest.raises(SerializationError, match="schema"):
        load(data)


def test_a_missing_schema_is_refused() -> None:
    data = tree(scalar_var())
    del data["schema"]
    with pytest.raises(SerializationError, match="Expected map for IR node"):
        load(data)


def test_every_truncation_is_refused() -> None:
    data = serialize(ir_samples.kernel(1))
    for n in range(len(data)):
        with pytest.raises(SerializationError):
            deserialize(data[:n])


def test_bytes_after_the_end_are_refused() -> None:
    with pytest.raises(SerializationError, match="follow"):
        deserialize(serialize(scalar_var()) + b"\x00")


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, {"ref": 0}, [1, 2], {"id": 0}, 1.5, {"type_kind": "PtrType"}])
def test_what_is_no_program_is_refused(value: Any) -> None:
    with pytest.raises(SerializationError):
        load(value)


def change_root(**changes: Any) -> dict[str, Any]:
    data = tree(MakeTuple([scalar_var()]))
    data.update(changes)
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (change_root(type="Expr"), "no node type"),
        (change_root(type="TileType"), "no node type"),
        (change_root(type="Nonsense"), "no node type"),
        (change_root(type=3), "no node type"),
        (change_root(id="0"), "no new node id"),
        (change_root(id=True), "no new node id"),
        (change_root(fields=[]), "Expected map"),
        (change_root(fields={}), "missing required field 'elements'"),
        (change_root(fields={"elements": [], "span": None, "x": 1}), "unexpected fields 'x'"),
        (change_root(extra=1), "unexpected fields 'extra'"),
        (change_root(fields={"elements": 5, "span": None}), "array"),
        (change_root(fields={"elements": ["x"], "span": None}), "must be a Expr, got a string"),
        (change_root(fields={"elements": [True], "span": None}), "must be a Expr, got a bool"),
        (change_root(fields={"elements": [], "span": [1]}), "span"),
        (change_root(fields={"elements": [], "span": [1, 2.0]}), "span"),
        (change_root(fields={"elements": [], "span": [1, 2, "a.py"]}), "span"),
        (change_root(fields={"elements": [], "span": [1, 2, "a.py", 1, 1, 1, "1"]}), "span"),
        (change_root(fields={"elements": [], "span": [1, 2, 3, 1, 1, 1, 1]}), "the name of a file, got an integer"),
        (change_root(fields={"elements": [{"ref": 7}], "span": None}), "no node read before"),
        (change_root(fields={"elements": [{"ref": "0"}], "span": None}), "no node read before"),
        (change_root(fields={"elements": [{"schema": 1}], "span": None}), "missing required field 'id'"),
        (change_root(fields={"elements": [{"type_kind": "ScalarType", "dtype": 52}], "span": None}), "got ScalarType"),
        (change_root(fields={"elements": [{"is_global_var": False, "name": "tile.add"}], "span": None}), "got Op"),
        (change_root(fields={"elements": {"$long": [1]}, "span": None}), "long sequence"),
    ],
)
def test_malformed_nodes_are_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(SerializationError, match=message):
        load(data)


def test_cycles_and_repeated_ids_are_refused() -> None:
    inner = {"id": 1, "type": "MakeTuple", "fields": {"elements": [{"ref": 0}], "span": None}}
    with pytest.raises(SerializationError, match="no node read before"):
        load(change_root(fields={"elements": [inner], "span": None}))
    leaf = {"id": 1, "type": "ConstBool", "fields": {"value": True, "span": None}}
    with pytest.raises(SerializationError, match="no new node id"):
        load(change_root(fields={"elements": [leaf, leaf], "span": None}))


def test_what_constructors_refuse_is_refused() -> None:
    f = ir_samples.kernel(1)
    data = tree(f)
    data["fields"]["param_directions"] = [0]
    with pytest.raises(SerializationError, match="1 directions for 2 parameters"):
        load(data)
    data = tree(f)
    data["fields"]["level"] = enums.Level.HOST.value
    with pytest.raises(SerializationError, match="contradicts"):
        load(data)
    data = tree(Program([f], "p"))
    again = dict(data["fields"]["function_list"][0], id=9999)
    again["fields"] = dict(again["fields"], params=[], param_directions=[], body={"ref": 1}, return_types=[])
    data["fields"]["function_list"].append(again)
    with pytest.raises(SerializationError):
        load(data)
    tile = Var("t", TileType([16, 16], DataType.FP32, None, TileView([4, 16]), MemorySpace.Vec))
    call = Call(Op("tile.add"), [tile], {}, {"arg_directions": (enums.ArgDirection.Input,)}, tile.type, Span.unknown())
    data = tree(call)
    data["fields"]["attrs"][0][1] = []
    assert load(data).arg_directions == ()  # type: ignore[attr-defined]
    data["fields"]["attrs"][0][1] = [1, 2]
    with pytest.raises(SerializationError, match="arg_directions"):
        load(data)


def test_values_of_the_wrong_kind_in_any_field_are_refused() -> None:
    """Each field of each node of a program, replaced by values of every kind, is refused or accepted, and never crashes."""
    wrong: list[Any] = [
        None,
        -1,
        2**63,
        1.5,
        "x",
        True,
        [],
        [[]],
        {},
        {"ref": 0},
        {"type_kind": "VoidType"},
        {"$enum": ["Level", 5]},
    ]
    refused = 0
    for path in paths(tree(ir_samples.kernel(1))):
        for value in wrong:
            data = tree(ir_samples.kernel(1)) if path else value
            if path:
                at = data
                for step in path[:-1]:
                    at = at[step]
                at[path[-1]] = value
            try:
                load(data)
            except SerializationError:
                refused += 1
    assert refused > 1000


def paths(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [at]
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        found += paths(value, (*at, key))
    return found


# -- hostile ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bomb",
    [
        b"\x91" * 100_000,  # arrays in arrays
        b"\x81\xa1a" * 100_000,  # maps in maps
        b"\xdd\xff\xff\xff\xff" * 1000,  # arrays that claim four billion elements
        b"\xdf\xff\xff\xff\xff" * 1000,
        b"\xdb\xff\xff\xff\xff",  # a string that claims four gigabytes
        b"\xc6\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01",
        b"\xdc\x03\xff" * 2000,  # nested arrays of the greatest permitted length
        b"\xdc\xff\xff" * 30_000,  # and beyond it, though shorter than the data
        b"\xde\xff\xff\xa1a" * 40_000,
        b"\xd6\xff" + b"\x00" * 4,  # a timestamp
        b"\xc1",  # no MessagePack
        b"\xa4\xff\xfe\xfd\xfc",  # no UTF-8
        b"",
    ],
)
def test_bombs_are_refused_with_little_memory(bomb: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(SerializationError):
            deserialize(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20


def test_an_expression_that_doubles_at_each_step_is_read_in_linear_time() -> None:
    e: Any = scalar_var()
    for _ in range(60):
        e = MakeTuple([e, e])
    loaded = deserialize(serialize(e))
    assert serialize(loaded) == serialize(e)
    # The extents of a view would be compared with those of the shape.
    n, extents = Var("n", ScalarType.of(DataType.INDEX)), []
    for _ in range(2):
        d: Any = n
        for _ in range(60):
            d = scalar.add(d, d)
        extents.append(d)
    t = TileType.make((extents[0],), DataType.FP32, None, TileView([extents[1]]), None)
    assert serialize(deserialize(serialize(Var("t", t)))) == serialize(Var("t", t))


def test_nesting_too_deep_to_write_is_one_error() -> None:
    e: Any = scalar_var()
    for _ in range(2000):
        e = scalar.neg(e)
    with pytest.raises(SerializationError, match="recursion limit"):
        serialize(e)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutated_bytes_load_or_are_refused(data: st.DataObject) -> None:
    original = ORIGINALS[data.draw(st.integers(0, len(ORIGINALS) - 1))]
    out = bytearray(original)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(out) - 1))
        kind = data.draw(st.sampled_from(["replace", "insert", "delete", "copy"]))
        if kind == "replace":
            out[at] = data.draw(st.integers(0, 255))
        elif kind == "insert":
            out[at:at] = data.draw(st.binary(min_size=1, max_size=6))
        elif kind == "delete":
            del out[at : at + data.draw(st.integers(1, 8))]
        else:
            start = data.draw(st.integers(0, len(original) - 1))
            out[at:at] = original[start : start + data.draw(st.integers(1, 64))]
        if not out:
            break
    try:
        loaded = deserialize(bytes(out))
    except SerializationError:
        return
    assert isinstance(loaded, IRNode)
    serialize(loaded)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(SerializationError):
        deserialize(data)


ORIGINALS = [serialize(make()) for make in SAMPLES]

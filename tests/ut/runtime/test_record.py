"""Canonical records: different values give different bytes, equal ones the same, and bytes give the values back."""

from __future__ import annotations

import contextlib
import enum
import itertools
import struct
import subprocess
import sys

import numpy as np
import pytest
from box import environment
from hypothesis import given
from hypothesis import strategies as st

from pypto.dtypes import DataType
from pypto.enums import MemoryPlanner, MemorySpace
from pypto.errors import ArgumentTypeError, ArgumentValueError, SerializationError
from pypto.runtime.record import EnumValue, Record, decode, diff, encode, sha256


class Mode(enum.IntEnum):
    A = 1


class Other(enum.Enum):
    A = 1


LOOK_ALIKES = [
    None, False, True, 0, 1, -1, 0.0, -0.0, 1.0, -1.0, float("nan"), float("inf"), "", "1", "True", "None", "nan", b"", b"1", (),
    [], {}, frozenset(), (1,), [1], (1.0,), (True,), ((),), ((), ()), ([],), {"a": 1}, {"a": 1.0}, {"a": {"b": 1}},
    {"a": {}, "b": 1}, frozenset({"a"}), ("a",), ["a"], "a", "ab", ("a", "b"), ("ab",), Mode.A, Other.A, DataType.FP32,
    DataType.FP16, "FP32", "Mode.A",
    MemoryPlanner.PYPTO, MemorySpace.DDR, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), "\ud800", "é", "e\u0301",
    0.1, 0.1 + 2**-56, 5e-324,
]  # fmt: skip
JSONISH = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text()
    | st.binary()
    | st.sampled_from(list(MemoryPlanner))
    | st.sampled_from([DataType.FP32, DataType.INDEX])
    | st.frozensets(st.text(max_size=3), max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


def test_values_that_look_alike_differ() -> None:
    encoded = [encode(v) for v in LOOK_ALIKES]
    assert len(set(encoded)) == len(LOOK_ALIKES)


def test_no_encoding_is_the_beginning_of_another() -> None:
    encoded = sorted(encode(v) for v in LOOK_ALIKES)
    assert not any(b.startswith(a) for a, b in itertools.pairwise(encoded))


@given(JSONISH)
def test_round_trip(value: object) -> None:
    data = encode(value)
    assert encode(decode(data)) == data


@given(JSONISH, JSONISH)
def test_equal_bytes_mean_equal_values(a: object, b: object) -> None:
    if encode(a) == encode(b):
        assert repr(decode(encode(a))) == repr(decode(encode(b)))


def test_every_nan_is_the_same() -> None:
    odd = struct.unpack(">d", b"\xff\xf8\0\0\0\0\x12\x34")[0]
    assert encode(odd) == encode(float("nan")) == encode(-float("nan"))


def test_order_of_dicts_and_sets_does_not_matter() -> None:
    assert encode({"b": 1, "a": 2}) == encode({"a": 2, "b": 1})
    code = "from pypto.runtime.record import encode; print(encode(frozenset(map(str, range(50)))).hex())"
    texts = {
        subprocess.run([sys.executable, "-c", code], env=environment(PYTHONHASHSEED=seed), capture_output=True, check=True).stdout
        for seed in (0, 1)
    }
    assert len(texts) == 1


def test_the_encoding_is_fixed() -> None:
    # Changing it makes every stored artifact a miss: then the store's directory or the schema part must change as well.
    sample = Record({"x": (1, -0.0, "é", None, True), "p": {"m": MemoryPlanner.DSA_RP, "d": DataType.BF16}})
    assert sha256(sample.encoded) == "3e9a9c9e78661b7fcbe4d14ac533e0a2c0b209a776849b64ab000376d2372410"


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        ({"g": {"SCALE": [1, object()]}}, ArgumentTypeError, ["['g']['SCALE'][1]", "builtins.object"]),
        ((np.float64(1),), ArgumentTypeError, ["[0]", "numpy.float64"]),
        (np.float32(1), ArgumentTypeError, ["numpy.float32"]),
        (np.zeros(2), ArgumentTypeError, ["numpy.ndarray"]),
        ({1: 2}, ArgumentTypeError, ["key of type int"]),
        (frozenset({1}), ArgumentTypeError, ["item of type int"]),
        ({"a"}, ArgumentTypeError, ["builtins.set"]),
        (lambda: 0, ArgumentTypeError, ["function"]),
        ([2**64], ArgumentValueError, ["[0]", "18446744073709551616"]),
        (-(2**63) - 1, ArgumentValueError, ["-9223372036854775809"]),
        ([10**5000], ArgumentValueError, ["16610 bits"]),
    ],
)
def test_what_cannot_be_encoded_is_named(value: object, kind: type[Exception], words: list[str]) -> None:
    with pytest.raises(kind) as caught:
        encode(value)
    assert all(word in str(caught.value) for word in words), caught.value


def test_the_part_is_named_first() -> None:
    with pytest.raises(ArgumentTypeError, match=r"at globals\['S'\]\[0\] is a builtins\.object"):
        Record({"kernel": 1, "globals": {"S": [object()]}})


def test_a_container_in_itself_is_an_error() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(ArgumentValueError, match="deeper"):
        encode(loop)


def test_subclasses_are_not_taken_for_their_bases() -> None:
    class Text(str):
        pass

    class Number(int):
        pass

    for value in (Text("a"), Number(1), np.str_("a")):
        with pytest.raises(ArgumentTypeError):
            encode(value)


HOSTILE = [
    b"", b"\xc1", b"Z", b"I", b"I\0", b"S" + b"\xff" * 8, b"B" + b"\x7f" + b"\xff" * 7, b"(" + b"\0" * 7 + b"\x05N",
    b"{" + b"\xff" * 8,
    b"[" + b"\0" * 7 + b"\x01" * 9, (b"(" + b"\0" * 7 + b"\x01") * 100_000, b"NN", b"U" + b"\0" * 8, b"D\x7f\xf8\0\0\0\0\0\x01",
    b"S" + b"\0" * 7 + b"\x01\xff", b"Y\xff\xff", b"E" + encode("M") + encode("A"), b"{" + b"\0" * 7 + b"\x01NN",
    b"{" + b"\0" * 7 + b"\x02" + (encode("a") + b"N") * 2, b"{" + b"\0" * 7 + b"\x02" + encode("b") + b"N" + encode("a") + b"N",
    b"<" + b"\0" * 7 + b"\x02" + encode("a") * 2, b"pypto-record", b"\x80", b"null", b"\xdf\xff\xff\xff\xff",
]  # fmt: skip


@pytest.mark.parametrize("data", HOSTILE, ids=lambda data: data[:8].hex() or "empty")
def test_other_bytes_are_one_typed_error(data: bytes) -> None:
    with pytest.raises(SerializationError):
        decode(data)
    with pytest.raises(SerializationError):
        Record.decode(Record({"a": 1}).encoded[:13] + data)


@given(st.binary(max_size=60), st.integers(0, 200))
def test_altered_records_are_refused_or_canonical(noise: bytes, at: int) -> None:
    good = Record({"x": (1, 2.5, "text", {"k": [None, True]}), "e": MemoryPlanner.PYPTO}).encoded
    bad = good[:at] + noise + good[at + len(noise) :]
    with contextlib.suppress(SerializationError):
        assert Record.decode(bad).encoded == bad


def test_records_decode_and_show_what_differs() -> None:
    old = Record({"source": "def k():\n  return 1\n", "g": {"S": 2.0, "T": (1, 2)}, "planner": MemoryPlanner.PYPTO, "gone": 1})
    new = Record(
        {"source": "def k():\n  return 2\n", "g": {"S": 2.0, "T": (1, 3)}, "planner": MemoryPlanner.DSA_RP, "here": None}
    )
    again = Record.decode(old.encoded)
    assert again.encoded == old.encoded
    assert again.parts["planner"] == EnumValue("MemoryPlanner", "PYPTO", 0)
    assert diff(again, old) == ()
    assert diff(again, new) == (
        ("source", "'  return 1'", "'  return 2'"),
        ("g", "['T'][1]: 2", "['T'][1]: 3"),
        ("planner", "MemoryPlanner.PYPTO", "MemoryPlanner.DSA_RP"),
        ("here", "absent", "None"),
        ("gone", "1", "absent"),
    )


def test_diff_tells_apart_what_equality_does_not() -> None:
    assert [d.name for d in diff(Record({"a": 1, "b": 0.0, "c": 1}), Record({"a": True, "b": -0.0, "c": 1}))] == ["a", "b"]
    assert diff(Record({"a": float("nan")}), Record({"a": float("nan")})) == ()


def test_records_are_immutable() -> None:
    sample = Record({"a": 1})
    with pytest.raises(AttributeError):
        sample.encoded = b""
    with pytest.raises(TypeError):
        sample.parts["a"] = 2  # type: ignore[index]

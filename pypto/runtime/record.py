"""The identity of an artifact as bytes: a record of named parts in one canonical, type-tagged encoding.

In: None, bool, int, float, str, bytes, tuple, list, dict with str keys, frozenset of str, DataType, enum members.
Out: bytes, equal if and only if the values are the same (1, True and 1.0 differ, 0.0 and -0.0 differ, every NaN is
the same), and back, so that a stored record can be shown and compared.  Nothing is ever identified by repr, str or
hash; a value of another type is an error that says where it stands.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any

from pypto.dtypes import DataType
from pypto.errors import ArgumentTypeError, ArgumentValueError, SerializationError
from pypto.named import NamedTuple

__all__ = ["Difference", "EnumValue", "Record", "decode", "diff", "encode", "plain", "sha256"]

MAX_DEPTH = 100
_HEAD = b"pypto-record\x01"
_NAN = b"\x7f\xf8\0\0\0\0\0\0"


def _find_sha256() -> Callable[[bytes], Any]:
    # hashlib loads OpenSSL, which costs more than everything else that a warm first call does.
    for module in ("_sha2", "_sha256", "hashlib"):
        try:
            found: Callable[[bytes], Any] = importlib.import_module(module).sha256
            return found
        except ImportError:
            continue
    raise ImportError("no sha256")


_sha256 = _find_sha256()


def sha256(data: bytes) -> str:
    """SHA-256 as 64 hexadecimal digits."""
    text: str = _sha256(data).hexdigest()
    return text


class EnumValue(NamedTuple):
    """An enum member as a decoded record has it: the class may not exist in the process that reads it."""

    type: str
    name: str
    value: object


class _Refused(Exception):
    """A value that cannot be encoded, with its path from the inside out."""

    def __init__(self, message: str, code: str, hint: str) -> None:
        super().__init__(message)
        self.code, self.hint, self.path = code, hint, ""

    def error(self) -> ArgumentTypeError | ArgumentValueError:
        kind = ArgumentTypeError if self.code == "A110" else ArgumentValueError
        where = f" at {self.path}" if self.path else ""
        return kind(f"the value{where} {self}", hint=self.hint, code=self.code)


def encode(value: object) -> bytes:
    """The canonical bytes of `value`.

    ArgumentTypeError (A110) for an unsupported type, ArgumentValueError for an integer beyond 64 bits (A210) or
    nesting beyond 100 levels (A211); each names the place inside `value`.
    """
    out = bytearray()
    try:
        _put(out, value, 0)
    except _Refused as refused:
        raise refused.error() from None
    return bytes(out)


def _put(out: bytearray, value: object, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _Refused(f"is nested deeper than {MAX_DEPTH} levels", "A211", "a container must not contain itself")
    put = _ENCODERS.get(type(value))
    if put is not None:
        put(out, value, depth)
    elif isinstance(value, Enum):
        _put_enum(out, value, depth)
    else:
        cls = type(value)
        raise _Refused(
            f"is a {cls.__module__}.{cls.__qualname__}, which cannot be part of a kernel's identity",
            "A110",
            "use None, bool, int, float, str, bytes, a data type, an enum member, or a tuple, list or dict of these",
        )


def _put_sized(out: bytearray, tag: bytes, data: bytes) -> None:
    out += tag
    out += len(data).to_bytes(8, "big")
    out += data


def _put_int(out: bytearray, value: Any, depth: int) -> None:
    if -(1 << 63) <= value < 1 << 63:
        out += b"I" + value.to_bytes(8, "big", signed=True)
    elif 0 <= value < 1 << 64:
        out += b"U" + value.to_bytes(8, "big")
    else:
        # Python refuses to print integers of more than 4300 digits.
        text = str(value) if value.bit_length() < 1000 else f"of {value.bit_length()} bits"
        raise _Refused(f"is the integer {text}, which does not fit in 64 bits", "A210", "no device integer is wider")


def _put_float(out: bytearray, value: Any, depth: int) -> None:
    out += b"D" + (_NAN if value != value else struct.pack(">d", value))


def _put_items(tag: bytes) -> Callable[[bytearray, Any, int], None]:
    def put(out: bytearray, value: Any, depth: int) -> None:
        out += tag
        out += len(value).to_bytes(8, "big")
        for i, item in enumerate(value):
            try:
                _put(out, item, depth + 1)
            except _Refused as refused:
                refused.path = f"[{i}]{refused.path}"
                raise

    return put


def _put_dict(out: bytearray, value: Any, depth: int) -> None:
    out += b"{"
    out += len(value).to_bytes(8, "big")
    for key in value:
        if type(key) is not str:
            raise _Refused(f"is a dict with a key of type {type(key).__qualname__}", "A110", "keys must be str")
    for key in sorted(value):
        _put_str(out, key, depth)
        try:
            _put(out, value[key], depth + 1)
        except _Refused as refused:
            refused.path = f"[{key!r}]{refused.path}"
            raise


def _put_frozenset(out: bytearray, value: Any, depth: int) -> None:
    out += b"<"
    out += len(value).to_bytes(8, "big")
    for item in value:
        if type(item) is not str:
            raise _Refused(f"is a frozenset with an item of type {type(item).__qualname__}", "A110", "items must be str")
    for item in sorted(value):
        _put_str(out, item, depth)


def _put_str(out: bytearray, value: Any, depth: int) -> None:
    _put_sized(out, b"S", value.encode("utf-8", "surrogatepass"))


def _put_enum(out: bytearray, value: Enum, depth: int) -> None:
    # Not the module: a kernel file run as a script and imported under its name is the same kernel.
    _put_member(out, EnumValue(type(value).__qualname__, value.name or "", value.value), depth)


def _put_member(out: bytearray, value: EnumValue, depth: int) -> None:
    out += b"E"
    _put_str(out, value.type, depth)
    _put_str(out, value.name, depth)
    try:
        _put(out, value.value, depth + 1)
    except _Refused as refused:
        refused.path = f".value{refused.path}"
        raise


_ENCODERS: dict[type, Callable[[bytearray, Any, int], None]] = {
    type(None): lambda out, value, depth: out.extend(b"N"),
    bool: lambda out, value, depth: out.extend(b"T" if value else b"F"),
    int: _put_int,
    float: _put_float,
    str: _put_str,
    bytes: lambda out, value, depth: _put_sized(out, b"B", value),
    tuple: _put_items(b"("),
    list: _put_items(b"["),
    dict: _put_dict,
    MappingProxyType: _put_dict,
    frozenset: _put_frozenset,
    EnumValue: _put_member,
    DataType: lambda out, value, depth: out.extend(b"Y" + value.code().to_bytes(2, "big")),
}


class _Reader:
    """A cursor over untrusted bytes; nothing is allocated that is not there."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data, self.position = data, position

    def take(self, size: int) -> bytes:
        start, self.position = self.position, self.position + size
        if self.position > len(self.data):
            raise ValueError("the bytes end early")
        return self.data[start : self.position]

    def length(self) -> int:
        """A count of bytes or items, not to be believed before they are taken one by one."""
        return int.from_bytes(self.take(8), "big")

    def text(self) -> str:
        if self.take(1) != b"S":
            raise ValueError("expected a string")
        return self.take(self.length()).decode("utf-8", "surrogatepass")

    def value(self, depth: int = 0) -> object:
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
        tag = self.take(1)
        read = _DECODERS.get(tag)
        if read is None:
            raise ValueError(f"unknown tag {tag!r}")
        return read(self, depth)


def _get_float(reader: _Reader, depth: int) -> float:
    value: float = struct.unpack(">d", reader.take(8))[0]
    return value


def _get_dict(reader: _Reader, depth: int) -> dict[str, object]:
    return {reader.text(): reader.value(depth + 1) for _ in range(reader.length())}


_DECODERS: dict[bytes, Callable[[_Reader, int], object]] = {
    b"N": lambda reader, depth: None,
    b"T": lambda reader, depth: True,
    b"F": lambda reader, depth: False,
    b"I": lambda reader, depth: int.from_bytes(reader.take(8), "big", signed=True),
    b"U": lambda reader, depth: int.from_bytes(reader.take(8), "big"),
    b"D": _get_float,
    b"S": lambda reader, depth: reader.take(reader.length()).decode("utf-8", "surrogatepass"),
    b"B": lambda reader, depth: reader.take(reader.length()),
    b"(": lambda reader, depth: tuple(reader.value(depth + 1) for _ in range(reader.length())),
    b"[": lambda reader, depth: [reader.value(depth + 1) for _ in range(reader.length())],
    b"{": _get_dict,
    b"<": lambda reader, depth: frozenset(reader.text() for _ in range(reader.length())),
    b"Y": lambda reader, depth: DataType.from_code(int.from_bytes(reader.take(2), "big")),
    b"E": lambda reader, depth: EnumValue(reader.text(), reader.text(), reader.value(depth + 1)),
}


def decode(data: bytes) -> object:
    """The value whose encoding is `data`, enum members as `EnumValue`; SerializationError (S120) for any other bytes."""
    reader = _Reader(data)
    try:
        value = reader.value()
        # Only the canonical form counts: no second spelling of a value, no repeated key, nothing behind the end.
        if reader.position != len(data) or encode(value) != data:
            raise ValueError("not in canonical form")
    except (ValueError, RecursionError) as e:
        raise SerializationError(f"not a canonical record: {e}", code="S120") from None
    return value


class Record:
    """Named parts in a fixed order, and `encoded`, the bytes that are the identity; immutable."""

    __slots__ = ("encoded", "parts")

    parts: Mapping[str, object]
    encoded: bytes

    def __init__(self, parts: Mapping[str, object]) -> None:
        """Raises as `encode` does; the error begins with the name of the part."""
        out = bytearray(_HEAD)
        out += len(parts).to_bytes(8, "big")
        for name, value in parts.items():
            _put_str(out, name, 0)
            try:
                _put(out, value, 0)
            except _Refused as refused:
                refused.path = name + refused.path
                raise refused.error() from None
        object.__setattr__(self, "parts", MappingProxyType(dict(parts)))
        object.__setattr__(self, "encoded", bytes(out))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Record is immutable; cannot set {name!r}")

    @staticmethod
    def decode(data: bytes) -> Record:
        """The record with these bytes; SerializationError (S120) for any others."""
        if not data.startswith(_HEAD):
            raise SerializationError("not a record of this version", code="S120")
        reader = _Reader(data, len(_HEAD))
        try:
            record = Record(_get_dict(reader, 0))
            if record.encoded != data:
                raise ValueError("not in canonical form")
        except (ValueError, RecursionError) as e:
            raise SerializationError(f"not a canonical record: {e}", code="S120") from None
        return record


def plain(record: Record) -> dict[str, Any]:
    """The parts as JSON has them, for people and their tools; never part of an identity."""
    return {name: _plain(value) for name, value in record.parts.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if type(value) in (tuple, list):
        return [_plain(v) for v in value]
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, bytes):
        return f"{len(value)} bytes, SHA-256 {sha256(value)}"
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return repr(value)
    return value if value is None or type(value) in (bool, int, float, str) else _describe(value)


class Difference(NamedTuple):
    """One part that differs, with a few words on where; "absent" where only one side has the part."""

    name: str
    old: str
    new: str


def diff(old: Record, new: Record) -> tuple[Difference, ...]:
    """The parts that differ, in the order of `new`, then those that only `old` has; empty for equal records."""
    found = []
    for name in [*new.parts, *(n for n in old.parts if n not in new.parts)]:
        if name not in old.parts:
            found.append(Difference(name, "absent", _describe(new.parts[name])))
        elif name not in new.parts:
            found.append(Difference(name, _describe(old.parts[name]), "absent"))
        elif encode(old.parts[name]) != encode(new.parts[name]):
            found.append(Difference(name, *_first_difference("", old.parts[name], new.parts[name])))
    return tuple(found)


_ABSENT = object()


def _first_difference(path: str, a: Any, b: Any) -> tuple[str, str]:
    """Texts of the first leaf in which two different values differ, each with its path."""
    if isinstance(a, str) and isinstance(b, str):
        left, right = _first_line(a, b)
    else:
        for step, x, y in _pairs(a, b):
            if x is _ABSENT or y is _ABSENT or encode(x) != encode(y):
                return _first_difference(path + step, x, y)
        left, right = _describe(a), _describe(b)
    prefix = f"{path}: " if path else ""
    return prefix + left, prefix + right


def _pairs(a: Any, b: Any) -> list[tuple[str, Any, Any]]:
    """Corresponding items of two containers of one kind; empty for everything else."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return [(f"[{k!r}]", a.get(k, _ABSENT), b.get(k, _ABSENT)) for k in sorted({*a, *b})]
    if type(a) is type(b) and type(a) in (tuple, list) and len(a) == len(b):
        return [(f"[{i}]", x, y) for i, (x, y) in enumerate(zip(a, b, strict=True))]
    return []


def _first_line(a: str, b: str) -> tuple[str, str]:
    """The first lines in which two texts differ, from shortly before the first differing character."""
    left, right = a.split("\n"), b.split("\n")
    n = next((i for i, (x, y) in enumerate(zip(left, right, strict=False)) if x != y), min(len(left), len(right)))
    if n >= len(left) or n >= len(right):
        return f"{len(left)} lines", f"{len(right)} lines"
    at = next((i for i, (x, y) in enumerate(zip(left[n], right[n], strict=False)) if x != y), 0)
    start = max(0, at - 20)
    return _describe(left[n][start:]), _describe(right[n][start:])


def _describe(value: Any) -> str:
    """A short text for people; never part of an identity."""
    if value is _ABSENT:
        return "absent"
    if isinstance(value, DataType):
        return value.name
    if isinstance(value, Enum):
        value = EnumValue(type(value).__qualname__, value.name or "", value.value)
    if isinstance(value, EnumValue):
        return f"{value.type}.{value.name or value.value}"
    if isinstance(value, (str, bytes)):
        return repr(value) if len(value) <= 60 else f"{value[:57]!r}..."
    if isinstance(value, (Mapping, tuple, list, frozenset)):
        return f"{type(value).__name__} of {len(value)}"
    return repr(value)

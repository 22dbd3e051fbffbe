"""Programs as bytes, and back.

In: an IR node.  Out: MessagePack; the first occurrence of a node is `{"id", "type", "fields"}`, later ones are `{"ref"}`, so
that sharing survives; types are `{"type_kind", ...}` by value.  Both directions run once over the tree, driven by
msgpack's hooks and the fields that each node class declares: no recursion, no table of node kinds.
Invariant: equal programs give equal bytes wherever they were built: no files, no lines, no object identities (but where they
are asked for, for a compilation in another process).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import msgpack  # type: ignore[import-untyped]

from pypto.errors import SerializationError
from pypto.ir.expr import GlobalVar, IRNode, Op
from pypto.ir.node import Node
from pypto.ir.serialization_forms import LONGEST, TAGS, class_named, form_of, is_plain_index, kind_of, refuse
from pypto.ir.types import Type
from pypto.span import Span

__all__ = ["SCHEMA", "deserialize", "deserialize_from_file", "serialize", "serialize_to_file"]

SCHEMA = 1

_WIDEST = 32  # no map has more keys


def serialize(node: IRNode, *, positions: bool = False) -> bytes:
    """The bytes of a node and everything below it; with `positions`, its files and lines as well.

    TypeError for anything that is not a node, SerializationError for what cannot be written (integers beyond 64 bits,
    attribute values of foreign types, nesting beyond some 170 statements).
    """
    if not isinstance(node, IRNode):
        raise TypeError(f"serialize takes an IR node, not {type(node).__name__}")
    encoder = _Encoder(positions)
    packer = msgpack.Packer(default=encoder.encode)
    try:
        packed: bytes = packer.pack({"schema": SCHEMA, **encoder.node(node)})
    except (ValueError, OverflowError, TypeError, RecursionError) as e:
        raise SerializationError(f"this program cannot be serialized: {e}") from e
    return packed


def deserialize(data: bytes) -> IRNode:
    """The node that `serialize` wrote; SerializationError for any other bytes."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"deserialize takes bytes, not {type(data).__name__}")
    decoder = _Decoder()
    try:
        root = msgpack.unpackb(
            data,
            object_pairs_hook=decoder.decode,
            use_list=False,
            max_array_len=LONGEST,
            max_map_len=_WIDEST,
            max_bin_len=0,
            max_ext_len=0,
        )
    except SerializationError:
        raise
    except msgpack.exceptions.ExtraData:
        refuse("bytes follow the end of the program")
    except msgpack.exceptions.StackError:
        refuse("nested too deeply")
    except (ValueError, TypeError, OverflowError, RecursionError) as e:
        incomplete = "incomplete" in str(e) or not len(data)
        refuse("insufficient bytes: the data end before the program does" if incomplete else f"malformed data: {e}")
    if not isinstance(root, _Root):
        refuse(f"Expected map for IR node with a schema number, got {kind_of(root)}")
    return root.node


def serialize_to_file(node: IRNode, path: str | Path) -> None:
    """Write the bytes of a node to a file; SerializationError where the file cannot be written."""
    data = serialize(node)
    try:
        Path(path).write_bytes(data)
    except OSError as e:
        raise SerializationError(f"cannot write {path}: {e.strerror or e}") from e


def deserialize_from_file(path: str | Path) -> IRNode:
    """The node in a file; SerializationError where it cannot be read or holds something else."""
    try:
        data = Path(path).read_bytes()
    except OSError as e:
        raise SerializationError(f"cannot read {path}: {e.strerror or e}") from e
    return deserialize(data)


# -- the two directions ----------------------------------------------------------------------------------------------


class _Encoder:
    """Called by msgpack for each object it does not know, in the order of the bytes."""

    def __init__(self, positions: bool) -> None:
        self.positions = positions
        self.ids: dict[int, int] = {}  # of objects that the root keeps alive
        self.types: dict[int, dict[str, Any]] = {}

    def encode(self, n: Any) -> Any:
        if type(n) is Span:
            return self.span(n)
        if isinstance(n, Type):
            return self.type(n)
        if isinstance(n, Op):
            return {"is_global_var": isinstance(n, GlobalVar), "name": n.name}
        if isinstance(n, Node):
            known = self.ids.get(id(n))
            if known is not None:
                return {"ref": known}
            return n.value if is_plain_index(n) else self.node(n)  # type: ignore[attr-defined]
        raise SerializationError(f"a value of type {type(n).__name__} cannot be serialized")

    def span(self, s: Span) -> tuple[Any, ...] | None:
        if self.positions and s.is_valid():
            return (s.source, s.ordinal, s.filename, s.begin_line, s.begin_column, s.end_line, s.end_column)
        return None if s.source < 0 and s.ordinal < 0 else (s.source, s.ordinal)

    def node(self, n: Node) -> dict[str, Any]:
        number = self.ids[id(n)] = len(self.ids)
        form = form_of(type(n))
        return {"id": number, "type": form.name, "fields": form.encode(n)}

    def type(self, t: Type) -> dict[str, Any]:
        made = self.types.get(id(t))
        if made is None:
            form = form_of(type(t))
            made = self.types[id(t)] = dict(sorted({"type_kind": form.name, **form.encode(t)}.items()))
        return made


class _Root:
    """The outermost node; accepted nowhere below."""

    __slots__ = ("node",)

    def __init__(self, node: IRNode) -> None:
        self.node = node


class _Decoder:
    """Called by msgpack for each map once everything inside has been decoded; a cycle therefore has nothing to refer to."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}

    def decode(self, pairs: list[tuple[Any, Any]]) -> Any:
        d = dict(pairs)
        if len(d) != len(pairs):
            self.duplicate(pairs)
        if "ref" in d:
            return self.reference(d)
        if "id" in d or "schema" in d:
            return self.node(d)
        if "type_kind" in d:
            return self.type(d)
        if "is_global_var" in d:
            return self.op(d)
        if len(d) == 1:
            ((tag, value),) = d.items()
            special = TAGS.get(tag)
            if special is not None:
                return special(value)
        return d

    def duplicate(self, pairs: Iterable[tuple[Any, Any]]) -> NoReturn:
        seen = set()
        for k, _ in pairs:
            if k in seen:
                refuse(f"duplicate field {k!r}")
            seen.add(k)
        refuse("duplicate field")

    def reference(self, d: dict[str, Any]) -> Node:
        number = d["ref"]
        found = self.nodes.get(number) if type(number) is int else None
        if found is None or len(d) != 1:
            refuse(f"a reference to {number!r}, which is no node read before")
        return found

    def node(self, d: dict[str, Any]) -> Node | _Root:
        root = "schema" in d
        if root and (type(d["schema"]) is not int or d["schema"] != SCHEMA):
            refuse(f"schema {d['schema']!r} is not the schema {SCHEMA} of this version")
        for key in ("id", "type", "fields"):
            if key not in d:
                refuse(f"node: missing required field '{key}'")
        if len(d) != 3 + root:
            refuse(f"node: unexpected fields {', '.join(sorted(map(repr, d.keys() - {'schema', 'id', 'type', 'fields'})))}")
        number, fields = d["id"], d["fields"]
        kind = class_named(d["type"], IRNode)
        if kind is None:
            refuse(f"{d['type']!r} is no node type")
        if type(number) is not int or number in self.nodes:
            refuse(f"{number!r} is no new node id")
        if type(fields) is not dict:
            refuse(f"Expected map for the fields of {kind.__name__}, got {kind_of(fields)}")
        made = self.nodes[number] = form_of(kind).decode(fields)
        return _Root(made) if root else made  # type: ignore[arg-type]

    def type(self, d: dict[str, Any]) -> Node:
        name = d.pop("type_kind")
        kind = class_named(name, Type)
        if kind is None:
            refuse(f"{name!r} is no type kind")
        return form_of(kind).decode(d)

    def op(self, d: dict[str, Any]) -> Op:
        name, is_global = d.get("name"), d["is_global_var"]
        if type(name) is not str or type(is_global) is not bool or len(d) != 2:
            refuse("malformed operator reference")
        return GlobalVar(name) if is_global else Op(name)

"""Bytes of programs taken apart and put together again.

In: nodes.  Out: their bytes as plain maps and arrays, and nodes from such maps.
"""

from __future__ import annotations

from typing import Any

import msgpack

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.ir.expr import IRNode, Var
from pypto.ir.serialization import deserialize, serialize
from pypto.ir.shaped import BufferType
from pypto.ir.types import ScalarType


def tree(node: IRNode) -> Any:
    """The bytes as plain maps and arrays."""
    return msgpack.unpackb(serialize(node), strict_map_key=False)


def load(data: Any) -> IRNode:
    return deserialize(msgpack.packb(data))


def find(data: Any, key: str, value: Any) -> dict[str, Any]:
    """The first map inside `data` with this entry."""
    stack = [data]
    while stack:
        top = stack.pop(0)
        if isinstance(top, dict):
            if top.get(key) == value:
                return top
            stack.extend(top.values())
        elif isinstance(top, (list, tuple)):
            stack.extend(top)
    raise AssertionError(f"no map with {key} = {value!r}")


def scalar_var() -> Var:
    return Var("v", ScalarType.of(DataType.FP32))


def buffer_var() -> Var:
    return Var("b", BufferType([16, 32], DataType.FP32, MemorySpace.Vec, [-1, 32]))

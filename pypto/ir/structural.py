"""Structural equality and hashing, generic over field roles.

In: two nodes or types.  Out: nothing when they mean the same, else the path to the first difference.
Variables at definitions map one to one; free variables must be the same object, or map consistently when asked to.
Spans, name hints and comments never count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pypto.ir.node import DEFINITION, IGNORED, MANY, MAP, ONE, Node

__all__ = ["Difference", "compare", "structural_hash"]


class Difference:
    """Where two trees part: a path of field names from the root, and both sides there."""

    __slots__ = ("left", "path", "right")

    def __init__(self, left: object, right: object) -> None:
        self.left, self.right, self.path = left, right, [""]

    def under(self, step: str) -> Difference:
        self.path.append(step)
        return self

    def where(self) -> str:
        return "".join(reversed(self.path)).lstrip(".") or "root"


def compare(left: Any, right: Any, auto_map: bool = False, ignore: frozenset[str] = frozenset()) -> Difference | None:
    """The first difference between two nodes, types or plain values; `ignore` names fields to leave out."""
    return _Comparison(auto_map, ignore).value(left, right)


class _Comparison:
    def __init__(self, auto_map: bool, ignore: frozenset[str]) -> None:
        self.auto_map, self.ignore = auto_map, ignore
        self.forward: dict[Node, Node] = {}
        self.backward: dict[Node, Node] = {}

    def value(self, a: Any, b: Any) -> Difference | None:
        if isinstance(a, Node):
            return self.node(a, b)
        if isinstance(a, (tuple, list)) and type(a) is type(b):
            return self.many(a, b)
        if isinstance(a, dict) and isinstance(b, dict):
            return self.mapping(a, b)
        # 1, True and 1.0 are different attribute values.
        return None if type(a) is type(b) and (a == b or (a != a and b != b)) else Difference(a, b)

    def many(self, a: Sequence[Any], b: Sequence[Any]) -> Difference | None:
        if len(a) != len(b):
            return Difference(a, b)
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            d = self.value(x, y)
            if d is not None:
                return d.under(f"[{i}]")
        return None

    def mapping(self, a: dict[str, Any], b: dict[str, Any]) -> Difference | None:
        if a.keys() != b.keys():
            return Difference(a, b)
        for k in a:
            d = self.value(a[k], b[k])
            if d is not None:
                return d.under(f"[{k!r}]")
        return None

    def node(self, a: Node, b: Any) -> Difference | None:
        if a is b and not self.forward and not self.auto_map:
            return None
        if a.__identity__:
            return self.use(a, b)
        key = getattr(a, "_compare_key", None)
        if key is not None and getattr(b, "_compare_key", None) is not None:
            return None if key() == b._compare_key() else Difference(a, b)
        if type(a) is not type(b):
            return Difference(a, b)
        return self.fields(a, b)

    def fields(self, a: Node, b: Node) -> Difference | None:
        for f in type(a).__fields__:
            if f.role == IGNORED or f.name in self.ignore:
                continue
            x, y = getattr(a, f.name), getattr(b, f.name)
            d = self.definitions(x, y) if f.role == DEFINITION else self.value(x, y)
            if d is not None:
                return d.under("." + f.name)
        return None

    def definitions(self, a: Any, b: Any) -> Difference | None:
        xs, ys = (a if isinstance(a, tuple) else (a,)), (b if isinstance(b, tuple) else (b,))
        if len(xs) != len(ys):
            return Difference(a, b)
        for x, y in zip(xs, ys, strict=True):
            if x is None or y is None:
                if x is not y:
                    return Difference(x, y)
                continue
            if self.forward.get(x, y) is not y or self.backward.get(y, x) is not x or type(x) is not type(y):
                return Difference(x, y)
            d = self.fields(x, y)
            if d is not None:
                return d
            self.forward[x], self.backward[y] = y, x
        return None

    def use(self, a: Node, b: Any) -> Difference | None:
        known = self.forward.get(a)
        if known is not None:
            return None if known is b else Difference(a, b)
        if b in self.backward:
            return Difference(a, b)
        if not self.auto_map:
            return None if a is b else Difference(a, b)
        if type(a) is not type(b):
            return Difference(a, b)
        d = self.fields(a, b)
        if d is None:
            self.forward[a], self.backward[b] = b, a
        return d


def structural_hash(value: Any, auto_map: bool = False) -> int:
    """Equal nodes hash equally for the same `auto_map`; stable within one process only."""
    return _Hasher(auto_map).value(value)


class _Hasher:
    def __init__(self, auto_map: bool) -> None:
        self.auto_map = auto_map
        self.numbers: dict[Node, int] = {}

    def value(self, a: Any) -> int:
        if isinstance(a, Node):
            return self.node(a)
        if isinstance(a, (tuple, list)):
            return hash((type(a).__name__, *(self.value(x) for x in a)))
        if isinstance(a, dict):
            return hash(frozenset((k, self.value(v)) for k, v in a.items()))
        return hash((type(a).__name__, 0.0 if a != a else a))

    def node(self, a: Node) -> int:
        if a.__identity__:
            if a in self.numbers:
                return hash(("var", self.numbers[a]))
            if not self.auto_map:
                return hash(("free", id(a)))
            self.numbers[a] = len(self.numbers)
            return hash(("var", self.numbers[a], self.fields(a)))
        key = getattr(a, "_compare_key", None)
        return hash(key()) if key is not None else self.fields(a)

    def fields(self, a: Node) -> int:
        parts: list[Any] = [type(a).__name__]
        for f in type(a).__fields__:
            if f.role == IGNORED:
                continue
            v = getattr(a, f.name)
            if f.role == DEFINITION:
                for x in v if isinstance(v, tuple) else (v,):
                    if x is not None:
                        parts.append(self.fields(x))
                        self.numbers.setdefault(x, len(self.numbers))
            elif f.walk in (ONE, MANY, MAP):
                parts.append(self.value(v) if v is not None else 0)
            else:
                parts.append(self.value(v))
        return hash(tuple(parts))

"""Our NamedTuple is typing's, but for what it costs to make a class."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import get_type_hints

import pytest

from pypto.named import NamedTuple


class Point(NamedTuple):
    """A place."""

    x: int
    y: Nowhere = 2  # type: ignore[name-defined] # noqa: F821
    names = ("x", "y")

    def length(self) -> int:
        return self.x + self.y

    @property
    def swapped(self) -> Point:
        return Point(self.y, self.x)

    @classmethod
    def origin(cls) -> Point:
        return cls(0, 0)


class Nested:
    class Inner(NamedTuple):
        text: str


def test_a_tuple_with_names():
    p = Point(1)
    assert p == (1, 2)
    assert (p.x, p.y, p.length(), p.swapped, Point.origin()) == (1, 2, 3, (2, 1), (0, 0))
    assert repr(p) == "Point(x=1, y=2)"
    assert p._replace(y=5) == Point(x=1, y=5)
    assert Point._fields == ("x", "y")
    assert Point._field_defaults == {"y": 2}
    assert Point.names == ("x", "y")
    with pytest.raises(TypeError):
        Point()
    with pytest.raises(AttributeError):
        p.x = 3
    with pytest.raises(AttributeError):
        p.z = 3
    match p:
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_a_class_says_where_it_is_from():
    assert Point.__mro__[1] is tuple
    assert (Point.__module__, Point.__doc__) == (__name__, "A place.")
    assert Nested.Inner.__qualname__ == "Nested.Inner"
    for made in (Point(3), Nested.Inner("a")):
        assert pickle.loads(pickle.dumps(made)) == made
        assert type(pickle.loads(pickle.dumps(made))) is type(made)


def test_annotations_are_text_until_somebody_asks():
    assert Point.__annotations__ == {"x": "int", "y": "Nowhere"}
    assert get_type_hints(Nested.Inner) == {"text": str}
    with pytest.raises(NameError, match="Nowhere"):
        get_type_hints(Point)


class Wide(NamedTuple):
    a: int
    b: int
    c: int = 3

    def __repr__(self) -> str:
        return "wide"


class Nothing(NamedTuple):
    """No field."""


def test_classes_of_as_many_fields_share_no_names():
    class Other(NamedTuple):
        left: int
        right: int
        third: int = 4

    assert Wide(b=1, a=2) == (2, 1, 3)
    assert Other(right=1, left=2) == (2, 1, 4)
    assert (Other(1, 2).third, Wide(1, 2).c) == (4, 3)
    for wrong in ({"left": 1}, {"left": 1, "right": 2, "a": 3}, {"a": 1, "b": 2}):
        with pytest.raises(TypeError):
            Other(**wrong)
    with pytest.raises(TypeError, match=r"Other.__new__\(\) .*'right'"):
        Other(1)
    assert not hasattr(Wide(1, 2), "left")


def test_what_a_named_tuple_has():
    assert (repr(Wide(1, 2)), Wide(1, 2)._asdict()) == ("wide", {"a": 1, "b": 2, "c": 3})
    assert type(Wide._make([1, 2, 3])) is Wide
    assert (Nothing(), Nothing._fields) == ((), ())
    assert copy.copy(Wide(1, 2)) == copy.deepcopy(Wide(1, 2)) == Wide(1, 2)
    assert Wide.__new__.__defaults__ == (3,)
    assert list(inspect.signature(Wide).parameters) == ["a", "b", "c"]
    for made in (lambda: Wide._make([1, 2]), lambda: Wide(1, 2)._replace(x=1)):
        with pytest.raises(TypeError):
            made()


def test_fields_without_defaults_come_first():
    with pytest.raises(TypeError, match="field without a default"):

        class _Wrong(NamedTuple):
            a: int = 1
            b: int

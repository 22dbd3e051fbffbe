"""The written form of each node class: how its fields travel, and what a reader checks.

In: the fields that node classes declare, by their annotations.  Out: one `Form` per class, which turns an instance into plain
values and checked values into an instance.
Invariant: what a public constructor would refuse is refused here too, in time linear in what was read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any, NoReturn

from pypto import enums
from pypto.dtypes import DataType
from pypto.errors import SerializationError
from pypto.ir import expr, program, scalar, shaped, stmt, types
from pypto.ir.expr import BinaryExpr, Call, ConstInt, MakeTuple, Submit, TupleGetItemExpr, UnaryExpr, Var, const_index
from pypto.ir.node import Attrs, Node
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TensorType, TileType, const_dims
from pypto.ir.stmt import AssignStmt
from pypto.ir.types import ScalarType, TupleType, Type, VoidType
from pypto.span import Span

__all__ = ["LONGEST", "TAGS", "Form", "class_named", "form_of", "is_plain_index", "kind_of", "refuse"]

# An array header makes msgpack allocate the whole array before it has read one element, and headers nest: without a small
# limit a short hostile file would claim gigabytes.  Longer sequences travel as an array of arrays.
LONGEST = 1024

Encode = Callable[[Any], Any]
Decode = Callable[[Any], Any]
_UNKNOWN = Span.unknown()


def refuse(message: str) -> NoReturn:
    raise SerializationError(message)


def kind_of(value: Any) -> str:
    return _KINDS.get(type(value), type(value).__name__)


_KINDS = {
    type(None): "nothing",
    bool: "a bool",
    dict: "a map",
    float: "a float",
    int: "an integer",
    str: "a string",
    tuple: "an array",
}


# -- how one field travels -------------------------------------------------------------------------------------------


def is_plain_index(n: Any) -> bool:
    """An INDEX constant without a place: sharing it says nothing, so it travels as its value."""
    return type(n) is ConstInt and n.dtype is DataType.INDEX and n.span.source < 0 and n.span.ordinal < 0


def _encode_span(s: Span) -> Span | None:
    """The encoder decides how much of a place travels."""
    return None if s is _UNKNOWN else s


def _encode_many(values: tuple[Any, ...]) -> Any:
    if len(values) <= LONGEST:
        return values
    if len(values) > LONGEST**2:
        raise SerializationError(f"a sequence of {len(values)} elements is too long to serialize")
    return {"$long": [values[i : i + LONGEST] for i in range(0, len(values), LONGEST)]}


def _encode_attrs(attrs: Attrs) -> Any:
    return _encode_many(tuple((k, _encode_attr(v)) for k, v in attrs.items()))


def _encode_attr(v: Any) -> Any:
    """Attribute values keep their Python type, because 1, True, 1.0 and an enumerator are different values."""
    if v is None or type(v) in (bool, int, float, str):
        return v
    if isinstance(v, Enum):
        return {"$enum": (type(v).__name__, v.value)}
    if isinstance(v, DataType):
        return {"$dtype": v.code()}
    if isinstance(v, Node):
        return {"$index": v.value} if is_plain_index(v) else v  # type: ignore[attr-defined]
    if type(v) is tuple:
        return _encode_many(tuple(_encode_attr(x) for x in v))
    if type(v) is list:
        return {"$list": _encode_many(tuple(_encode_attr(x) for x in v))}
    if isinstance(v, dict):
        return {"$map": _encode_attrs(Attrs(v))}
    raise SerializationError(f"an attribute of type {type(v).__name__} cannot be serialized")


def _expect(kind: type, what: str) -> Decode:
    def decode(v: Any) -> Any:
        if type(v) is not kind:
            refuse(f"must be {what}, got {kind_of(v)}")
        return v

    return decode


def _decode_span(v: Any) -> Span:
    if v is None:
        return _UNKNOWN
    if type(v) is not tuple or len(v) not in (2, 7) or any(type(x) is not int for x in (*v[:2], *v[3:])):
        refuse("must be a span: nothing, or two integers, with a file and four integers where lines travel")
    if len(v) == 2:
        return Span("", -1, -1, source=v[0], ordinal=v[1])
    if type(v[2]) is not str:
        refuse(f"must be the name of a file, got {kind_of(v[2])}")
    return Span(v[2], v[3], v[4], v[5], v[6], v[0], v[1])


def _decode_dtype(v: Any) -> DataType:
    if type(v) is not int:
        refuse(f"must be an integer, the code of a data type, got {kind_of(v)}")
    return DataType.from_code(v)


def _decode_enum(kind: type[Enum]) -> Decode:
    members = {m.value: m for m in kind}

    def decode(v: Any) -> Enum:
        if type(v) is not int:
            refuse(f"must be an integer, got {kind_of(v)}")
        found = members.get(v)
        if found is None:
            refuse(f"{v} is no {kind.__name__}")
        return found

    return decode


def _decode_node(kind: type[Node]) -> Decode:
    index = issubclass(ConstInt, kind)

    def decode(v: Any) -> Any:
        if isinstance(v, kind):
            return v
        if index and type(v) is int:
            return const_index(v)
        refuse(f"must be a {kind.__name__}, got {kind_of(v)}")

    return decode


def _decode_many(element: Decode, what: str) -> Decode:
    def decode(v: Any) -> tuple[Any, ...]:
        if type(v) is not tuple:
            refuse(f"must be {what} array, got {kind_of(v)}")
        return tuple([element(x) for x in v])

    return decode


def _decode_ints(v: Any) -> tuple[int, ...]:
    if type(v) is not tuple or any(type(x) is not int for x in v):
        refuse("must be an integer array")
    ints: tuple[int, ...] = v
    return ints


def _decode_attrs(v: Any) -> Attrs:
    if type(v) is not tuple:
        refuse(f"must be an array of names and values, got {kind_of(v)}")
    made: dict[str, Any] = {}
    for item in v:
        if type(item) is not tuple or len(item) != 2 or type(item[0]) is not str:
            refuse("must be an array of names and values")
        if item[0] in made:
            refuse(f"duplicate attribute '{item[0]}'")
        made[item[0]] = _decode_attr(item[1])
    return Attrs(made)


_ATTR_KINDS = (bool, int, float, str, type(None))


def _decode_attr(v: Any) -> Any:
    if type(v) in _ATTR_KINDS or isinstance(v, (DataType, Enum, Node)):
        return v
    if type(v) is tuple:
        return tuple([_decode_attr(x) for x in v])
    if type(v) is list:
        return [_decode_attr(x) for x in v]
    if type(v) is Attrs:
        return v
    refuse(f"{kind_of(v)} is no attribute value")


def _codec(annotation: str) -> tuple[Encode | None, Decode]:
    """How values of a field with this annotation are written (None: as they are) and read."""
    base = annotation.removesuffix(" | None")
    if base != annotation:
        encode, decode = _codec(base)
        to = None if encode is None else (lambda v, f=encode: None if v is None else f(v))
        return to, lambda v: None if v is None else decode(v)
    if base.startswith("tuple["):
        return _many_codec(base[6:].split(",")[0])
    if base in _SCALARS:
        return _SCALARS[base]
    kind = getattr(enums, base, None)
    if kind is not None:
        return (lambda v: v.value), _decode_enum(kind)
    return None, _decode_node(_CLASSES[base])


def _many_codec(element: str) -> tuple[Encode | None, Decode]:
    if element == "int":
        return _encode_many, _decode_ints
    encode, decode = _codec(element)
    read = _decode_many(decode, f"a {element}")
    return (_encode_many if encode is None else lambda v: _encode_many(tuple(encode(x) for x in v))), read


_SCALARS: dict[str, tuple[Encode | None, Decode]] = {
    "int": (None, _expect(int, "an integer")),
    "str": (None, _expect(str, "a string")),
    "bool": (None, _expect(bool, "a bool")),
    "float": (float, _expect(float, "a float")),
    "DataType": (lambda d: d.code(), _decode_dtype),
    "Span": (_encode_span, _decode_span),
    "Attrs": (_encode_attrs, _decode_attrs),
}

# -- node classes ----------------------------------------------------------------------------------------------------

_ABSTRACT = {"BinaryExpr", "Expr", "IRNode", "ScopeStmt", "ShapedType", "Singleton", "Stmt", "Type", "UnaryExpr"}
_CLASSES: dict[str, type[Node]] = {
    name: c
    for module in (types, expr, scalar, shaped, stmt, program)
    for name, c in vars(module).items()
    if isinstance(c, type) and issubclass(c, Node)
}


def class_named(name: Any, base: type[Node]) -> type[Node] | None:
    """The class of nodes with this name below `base`, or None."""
    kind = _CLASSES.get(name) if type(name) is str and name not in _ABSTRACT else None
    return kind if kind is not None and issubclass(kind, base) else None


class Form:
    """The written form of one node class: its fields in order, and how to build an instance from their values."""

    __slots__ = ("build", "fields", "name", "names")

    def __init__(self, kind: type[Node]) -> None:
        annotations: dict[str, str] = {}
        for c in reversed(kind.__mro__):
            annotations.update(inspect.get_annotations(c))
        self.name = kind.__name__
        # A serial number of this process means nothing in another one.
        written = [f.name for f in kind.__fields__ if f.name != "unique_id"]
        self.fields = [(name, *_codec(annotations[name])) for name in written]
        self.names = frozenset(written)
        self.build = _builder(kind)

    def encode(self, n: Node) -> dict[str, Any]:
        return {name: getattr(n, name) if encode is None else encode(getattr(n, name)) for name, encode, _ in self.fields}

    def decode(self, d: dict[str, Any]) -> Node:
        """An instance from its written fields; `d` holds nothing else."""
        values = []
        for name, _, decode in self.fields:
            if name not in d:
                refuse(f"{self.name}: missing required field '{name}'")
            try:
                values.append(decode(d[name]))
            except ValueError as e:
                refuse(f"{self.name}.{name}: {getattr(e, 'message', e)}")
        if len(d) != len(values):
            refuse(f"{self.name}: unexpected fields {', '.join(sorted(map(repr, d.keys() - self.names)))}")
        try:
            return self.build(*values)
        except (ValueError, TypeError) as e:
            refuse(f"{self.name}: {getattr(e, 'message', e)}")


_FORMS: dict[type[Node], Form] = {}


def form_of(kind: type[Node]) -> Form:
    made = _FORMS.get(kind)
    return made if made is not None else _FORMS.setdefault(kind, Form(kind))


# -- building what constructors would have checked -------------------------------------------------------------------


def _builder(kind: type[Node]) -> Callable[..., Node]:
    """`make`, behind the checks of the public constructor where it has any."""
    if issubclass(kind, Var):
        return lambda name_hint, type, span, *rest: kind.make(name_hint, type, span, None, *rest)
    if issubclass(kind, (BinaryExpr, UnaryExpr)):
        return lambda *values: _checked(kind.make(*values), _has_scalar_type)
    check = _CHECKS.get(kind)
    if check is not None:
        return lambda *values: _checked(kind.make(*values), check)
    return _CONSTRUCTORS.get(kind, kind.make)


def _checked(n: Node, check: Callable[[Any], str | None]) -> Node:
    problem = check(n)
    if problem:
        refuse(problem)
    return n


def _has_scalar_type(n: Any) -> str | None:
    return None if type(n.type) is ScalarType else "the type of scalar arithmetic is a ScalarType"


def _call_problem(c: Call) -> str | None:
    directions = c.arg_directions
    fits = type(directions) is tuple and len(directions) in (0, len(c.args))
    return None if fits else f"arg_directions do not fit {len(c.args)} arguments"


def _assign_problem(s: AssignStmt) -> str | None:
    void = isinstance(s.value, (Call, Submit)) and isinstance(s.value.type, VoidType)
    return "a void call has no value to assign" if void else None


def _item_problem(e: TupleGetItemExpr) -> str | None:
    """The range check of the constructor, where the arity is known without computing types."""
    source = e.tuple
    if isinstance(source, MakeTuple):
        arity = len(source.elements)
    elif isinstance(source, (Var, Call, Submit)) and isinstance(source.type, TupleType):
        arity = len(source.type.types)
    else:
        return None
    return None if 0 <= e.index < arity else f"index {e.index} is out of range for {arity} elements"


def _function(*values: Any) -> Function:
    f = Function.make(*values)
    if len(f.params) != len(f.param_directions):
        refuse(f"{len(f.param_directions)} directions for {len(f.params)} parameters")
    params = zip(f.params, f.param_directions, strict=True)
    binding = f.requires_runtime_binding
    return Function(f.name, params, f.return_types, f.body, f.span, f.func_type, f.level, f.role, f.attrs, binding, f.ir_stage)


def _shaped(kind: type[TensorType] | type[TileType]) -> Callable[..., Type]:
    def build(shape: Any, dtype: Any, memref: Any, view: Any, *space: Any) -> Type:
        # The constructor compares the view's extents with the shape; only constant ones are sure to be small.
        if view is None or const_dims((*shape, *view.valid_shape)) is not None:
            return kind(shape, dtype, memref, view, *space)
        kind(shape, dtype, memref, None, *space)
        return kind.make(shape, dtype, memref, view, *space)

    return build


_CHECKS: dict[type[Node], Callable[[Any], str | None]] = {
    Call: _call_problem,
    AssignStmt: _assign_problem,
    TupleGetItemExpr: _item_problem,
}
_CONSTRUCTORS: dict[type[Node], Callable[..., Node]] = {
    Function: _function,
    Program: lambda name, functions, span: Program(functions, name, span),
    ScalarType: ScalarType.of,
    TensorType: _shaped(TensorType),
    TileType: _shaped(TileType),
    shaped.BufferType: shaped.BufferType,
    types.ArrayType: types.ArrayType,
}

# -- values that need a tag -------------------------------------------------------------------------------------------


def _tagged_enum(v: Any) -> Enum:
    if type(v) is not tuple or len(v) != 2 or type(v[0]) is not str:
        refuse("malformed enumerator")
    kind = getattr(enums, v[0], None) if v[0] in enums.__all__ else None
    if kind is None:
        refuse(f"{v[0]!r} is no enumeration")
    member: Enum = _decode_enum(kind)(v[1])
    return member


def _tagged_index(v: Any) -> ConstInt:
    return const_index(_expect(int, "an integer")(v))


def _tagged_long(v: Any) -> tuple[Any, ...]:
    if type(v) is not tuple or any(type(x) is not tuple for x in v):
        refuse("malformed long sequence")
    return tuple([x for part in v for x in part])


def _tagged_list(v: Any) -> list[Any]:
    return list(_expect(tuple, "an array")(v))


TAGS: dict[str, Decode] = {
    "$dtype": _decode_dtype,
    "$enum": _tagged_enum,
    "$index": _tagged_index,
    "$list": _tagged_list,
    "$long": _tagged_long,
    "$map": _decode_attrs,
}

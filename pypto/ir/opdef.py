"""What an operator is: the one declaration that every other module reads.

An `OpDef` stands for one registered IR name (`tensor.add`, `tile.add`, `buffer.add`); families make the three from one
row.  It sees passes and generators only through the small protocols below, so operator files import nothing above.
Invariant: a definition that does not say how it touches each operand, or names an unknown facet, fails when the table
is built, not when a kernel is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, NoReturn, Protocol

from pypto.dtypes import DataType
from pypto.enums import ArgEffect, MemorySpace, OpIRStage, SplitMode, WriteChannel
from pypto.ir.expr import Call, Expr, Op, Var
from pypto.ir.lanes import LaneProgram
from pypto.ir.node import EMPTY, Attrs
from pypto.ir.shaped import BufferType, TensorType, TileType
from pypto.ir.types import ScalarType, TupleType, Type
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = [
    "COL",
    "FROM_TARGET",
    "FULL",
    "INHERIT",
    "MASK",
    "PART",
    "REQUIRED",
    "ROW",
    "SCALAR",
    "UNUSED",
    "Attr",
    "BufferRecipe",
    "Dsl",
    "DslContext",
    "Lanewise",
    "Lower",
    "Matmul",
    "OpDef",
    "OpRejected",
    "Operand",
    "Param",
    "Reduce",
    "Sample",
    "Semantics",
    "Site",
    "Special",
]

# -- signatures ------------------------------------------------------------------------------------------------


class Operand(NamedTuple):
    """A positional operand of the IR form; `kind` is tensor, tile, buffer, scalar, shape (a tuple of extents) or any."""

    name: str
    kind: str
    optional: bool = False


class Attr(NamedTuple):
    """A keyword of the IR form."""

    name: str
    types: tuple[type, ...]
    required: bool = False


class OpRejected(Exception):
    """An operator refuses its operands; becomes an error at the user's call.  `kind` is TypeError or ValueError."""

    def __init__(self, message: str, hint: str | None = None, kind: type[Exception] = ValueError) -> None:
        super().__init__(message)
        self.message, self.hint, self.kind = message, hint, kind


class Site:
    """One application of an operator, for its type rule."""

    __slots__ = ("args", "kwargs", "name", "result", "span")

    def __init__(
        self, name: str, args: tuple[Expr, ...], kwargs: Mapping[str, Any], span: Span, result: Type | None = None
    ) -> None:
        self.name, self.args, self.kwargs, self.span, self.result = name, args, kwargs, span, result

    def __len__(self) -> int:
        return len(self.args)

    def tile(self, i: int) -> TileType:
        t = self.args[i].type
        if not isinstance(t, TileType):
            hint = "it takes tiles only: pl.load(x, offsets, shapes) makes one of a tensor" if isinstance(t, TensorType) else None
            self.reject(f"operand {i} must be a tile, got {_kind(t)}", hint, TypeError)
        return t

    def tensor(self, i: int) -> TensorType:
        t = self.args[i].type
        if not isinstance(t, TensorType):
            self.reject(f"operand {i} must be a tensor, got {_kind(t)}", kind=TypeError)
        return t

    def shaped(self, i: int) -> TensorType | TileType:
        t = self.args[i].type
        if not isinstance(t, (TensorType, TileType)):
            self.reject(f"operand {i} must be a tensor or a tile, got {_kind(t)}", kind=TypeError)
        return t

    def buffer(self, i: int) -> BufferType:
        t = self.args[i].type
        if not isinstance(t, BufferType):
            self.reject(f"operand {i} must be a buffer, got {_kind(t)}", kind=TypeError)
        return t

    def scalar(self, i: int) -> DataType:
        t = self.args[i].type
        if not isinstance(t, ScalarType):
            self.reject(f"operand {i} must be a scalar, got {_kind(t)}", kind=TypeError)
        return t.dtype

    def elements(self, i: int) -> tuple[Expr, ...]:
        """The entries of a shape operand."""
        e = self.args[i]
        values = getattr(e, "elements", None)
        if values is None or not isinstance(e.type, TupleType):
            self.reject(f"operand {i} must be a tuple of extents", kind=TypeError)
        for v in values:
            if not isinstance(v.type, ScalarType) or not v.type.dtype.is_int():
                self.reject(f"operand {i}: an extent or offset must be an integer, got {_kind(v.type)}", kind=TypeError)
        return tuple(values)

    def reject(self, message: str, hint: str | None = None, kind: type[Exception] = ValueError) -> NoReturn:
        raise OpRejected(message, hint, kind)


def _kind(t: Type) -> str:
    names = {"TensorType": "a tensor", "TileType": "a tile", "BufferType": "a buffer"}
    if isinstance(t, ScalarType):
        return f"a scalar of type {t.dtype}"
    return names.get(type(t).__name__, type(t).__name__)


# -- semantics: what interpreter and generators execute ----------------------------------------------------------

FULL = "full"  # element (r, c)
ROW = "row"  # element (r, 0): one value per row
COL = "col"  # element (0, c): one value per column
SCALAR = "scalar"  # the same value everywhere
MASK = "mask"  # bit c % 8 of byte (r, c // 8), least significant first
PART = "part"  # element (r, c), where the operand is valid; where it is not, the result is operand 0's element
UNUSED = "unused"  # scratch, or an operand that only gives type and shape


class Lanewise(NamedTuple):
    """Element (r, c) of the result from one element of each operand; runs over the result's valid rectangle.

    With `result=MASK` it runs over the valid rectangle of operand 0 and packs bits; the rest of a row's last byte is 0.
    `build(operand dtypes, result dtype, kwargs)` gives the program over the operands that are not UNUSED.
    """

    patterns: tuple[str, ...]
    build: Callable[[tuple[DataType, ...], DataType, Mapping[str, Any]], LaneProgram]
    result: str = FULL


class Reduce(NamedTuple):
    """Reduction of operand 0's valid rectangle along `axis` (1: to a column, 0: to a row).

    Order along axis 1: element c goes to lane c % 64; each lane starts at `identity` and combines its elements in
    ascending c; then lane i takes lane i + 32 for i < 32, i + 16 for i < 16, ... down to lane 0.  Along axis 0: each
    column starts at `identity` and combines its rows in ascending order.  `combine` and `identity` work in the
    accumulator's lane type `accumulator(dtype)`; `enter` and `leave` convert.  With `arg`, the result is the index of
    the first element that `combine` would keep (the first NaN, if any), as INT32.
    """

    axis: int
    combine: Callable[[DataType], LaneProgram]
    identity: Callable[[DataType], float]
    enter: Callable[[DataType], LaneProgram]
    leave: Callable[[DataType], LaneProgram]
    accumulator: Callable[[DataType], str]
    arg: str = ""


class Matmul(NamedTuple):
    """The product of two matrices, by numbers of operands: element (r, c) of the result is the sum of lhs[r, k] * rhs[k, c].

    Each element starts at 0 (at its column's element of a bias [1, N]; at the accumulator's element, unless `init` is true or
    nothing was added to the accumulator yet) and adds its products in ascending k, by fused multiply-add in FP32 (one rounding
    for product and sum), or wrapping in INT32.  K is the valid extent of lhs; the result is valid as lhs in its rows and as
    rhs in its columns.  Leading axes are batches and broadcast; the keywords `a_trans` and `b_trans` swap the last two axes
    of an operand.
    """

    lhs: int
    rhs: int
    acc: int | None = None
    init: int | None = None
    bias: int | None = None


class Special(NamedTuple):
    """Operators that move, alias or query rather than compute; executors know each `kind`.

    view        operand 0 under another descriptor (slice, reshape, set_validshape, reinterpret_view)
    load        GM window -> result            store   tile -> GM window          copy    tile -> tile, whole
    insert      source -> window of target     extract window -> result           pad     copy and fill outside valid
    create      undefined storage              fill    one scalar value           read / write   one element
    query       a scalar from the environment or from a shape                     alloc   storage without contents
    clone       operand 0 repeated along an axis of extent 1, into all of operand 1
    sequence    each element from the one to its left, by one                     triangle   1 on one side of a diagonal
    random      words of ChaCha blocks, by key and counter
    transpose   two axes exchanged             concat  columns behind columns
    gather      elements by index              gather_mask / scatter_mask   columns that a pattern takes
    gatherb     blocks of bytes by offset      mgather   rows or elements of GM by index
    scatter     elements replaced by index     scatter_update   rows replaced      mscatter   elements of GM replaced
    compare_columns / compare_counts           which columns compare with a value, how many
    sort32      blocks to runs of pairs        merge_runs / merge_lists   runs merged
    gather_row  GM window -> window of operand 0                        paged_gather   GM rows by index and page
    array_create / array_get / array_update   an array of scalars on the core, one element read, one replaced
    lane_shard  the half of operand 0 that belongs to this vector lane            lane_gather  halves of the lanes -> whole
    meet        every block of the launch waits for all others                    task    the id of one that only waits
    flag / prefetch   what cores tell each other and memory, without effect where blocks run one after the other
    push        a copy of operand 0 into a pipe to the other core                 pop     the next tile of a pipe, in a slot
    expect      an error unless operand 0 holds
    free        the slot of operand 0 given back       initialize_pipe / slot_buffer   the ends of a pipe, and their memory
    """

    kind: str


Semantics = Lanewise | Reduce | Matmul | Special

# -- memory ----------------------------------------------------------------------------------------------------

INHERIT = "inherit_from_input"  # the space of the first tile operand
FROM_TARGET = "deferred"  # the `target_memory` keyword, else decided by consumers


class BufferRecipe(NamedTuple):
    """How a tile operator becomes `buffer.<name>(operands..., dst)`, and for which element types by default."""

    name: str
    dtypes: frozenset[DataType]


class Sample(NamedTuple):
    """Shapes and dtypes the table-driven tests use."""

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[DataType, ...]


# -- protocols that passes and the frontend implement ------------------------------------------------------------


class Lower(Protocol):
    """What the tensor -> tile conversion offers to an operator's own rule."""

    def tile(self, e: Expr) -> Expr:
        """The operand as a tile: loaded from global memory here if it is a tensor."""

    def emit(self, name: str, args: Iterable[Expr], kwargs: Mapping[str, Any] | None = None, hint: str = "") -> Var:
        """Apply a tile operator and bind its result to a fresh variable."""

    def compact(self, e: Expr) -> Expr:
        """The operand as a tile whose rows follow each other without gaps: copied where that is not known."""

    def loop(self, stop: Expr, initial: Expr, body: Callable[[Expr, Expr], Expr]) -> Expr:
        """`initial` carried through a loop from 0 to `stop`; body(counter, value) emits what gives the next value."""

    def is_tensor(self, e: Expr) -> bool:
        """Whether the operand is (still) a tensor in global memory."""

    def boxed(self, call: Call, args: tuple[Expr, ...], i: int) -> Expr:
        """Operand i as a tile whose extents are whole boxes, as `OpDef.boxes` asks."""

    def stored(self, e: Expr) -> Expr:
        """The operand as a tile to be stored: a product converts as it goes to global memory."""

    def narrowed(self, e: Var, t: Type) -> Expr:
        """A tile whose elements become those of `t` where they are stored, or computed with by the vector unit."""


ToTile = Callable[[Lower, Call, tuple[Expr, ...]], Expr]


class DslContext(Protocol):
    """What the frontend offers to a DSL entry."""

    span: Span

    @property
    def region(self) -> tuple[SplitMode, Expr] | None:
        """Mode and lane of the vector-lane region around the call."""

    @property
    def expected(self) -> Type | None:
        """The type that the user's annotation states for the call's value."""

    def op(self, name: str, args: Iterable[Expr], kwargs: Mapping[str, Any] | None = None) -> Call:
        """A typed call of a registered operator at the user's place."""

    def warn(self, message: str) -> None:
        """A warning at the user's place."""


# -- the DSL surface -------------------------------------------------------------------------------------------

REQUIRED = object()


class Param(NamedTuple):
    """A parameter of a DSL function.  `kind`: value (tensor, tile or scalar), shape, index (one scalar), tasks (ids), or attr."""

    name: str
    kind: str = "value"
    default: Any = REQUIRED
    keyword_only: bool = False

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    def text(self) -> str:
        """As in a signature: `shape`, `clamp=False`, `layout=pl.TensorLayout.ND`."""
        if self.required:
            return self.name
        d = self.default
        return f"{self.name}={f'pl.{type(d).__name__}.{d.name}' if isinstance(d, Enum) else repr(d)}"


class Dsl(NamedTuple):
    """A function of the language: `pl.<name>` ("" in namespaces), `pl.tile.<name>`, `pl.tensor.<name>`."""

    name: str
    namespaces: tuple[str, ...]
    params: tuple[Param, ...]
    build: Callable[[DslContext, str, dict[str, Any]], Expr | tuple[Expr, ...]]
    doc: str

    def signature(self) -> str:
        """`load(tensor, offsets, shapes, valid_shape=None, …)`, without a namespace."""
        parts = [p.text() for p in self.params]
        star = next((i for i, p in enumerate(self.params) if p.keyword_only), None)
        if star is not None:
            parts.insert(star, "*")
        return f"{self.name}({', '.join(parts)})"


# -- the definition --------------------------------------------------------------------------------------------


class OpDef:
    """One registered operator."""

    def __init__(
        self,
        name: str,
        operands: Iterable[Operand],
        infer: Callable[[Site], Type],
        semantics: Semantics,
        *,
        effects: Iterable[ArgEffect] | Callable[[Mapping[str, Any]], tuple[ArgEffect, ...]],
        attrs: Iterable[Attr] = (),
        channel: WriteChannel | None = None,
        spaces: Iterable[tuple[MemorySpace, ...] | None] | None = None,
        out_space: MemorySpace | str | None = None,
        reuses: int | None = None,
        in_place: bool = True,
        no_alias: Iterable[int] = (),
        scratch: Iterable[int] = (),
        explicit_result: bool = False,
        ordered: bool = False,
        returns: bool = True,
        to_tile: ToTile | None = None,
        becomes: Iterable[str] = (),
        boxes: Callable[[Call], tuple[tuple[int, int] | None, ...]] | None = None,
        buffer: BufferRecipe | None = None,
        pto: str = "",
        samples: Iterable[Sample] = (),
        dtypes: Iterable[DataType] = (),
        doc: str = "",
    ) -> None:
        self.name, self.operands, self.infer, self.semantics = name, tuple(operands), infer, semantics
        self.attrs = {a.name: a for a in attrs}
        self._effects = effects if callable(effects) else tuple(effects)
        self.channel, self.reuses, self.in_place = channel, reuses, in_place
        self.spaces = tuple(spaces) if spaces is not None else None
        self.out_space = out_space
        self.no_alias, self.scratch = frozenset(no_alias), frozenset(scratch)
        self.to_tile, self.buffer, self.pto = to_tile, buffer, pto
        # Tile operators that `to_tile` gives the operands to, position by position, if not the one of the same concept.
        self.becomes = tuple(becomes)
        # What the extents of each operand's tile are rounded up to (rows, columns), for a tensor operator.
        self.boxes = boxes
        self.samples, self.dtypes, self.doc = tuple(samples), frozenset(dtypes), doc
        # The caller says the result type and `infer` checks it (it finds the type in `Site.result`).
        self.explicit_result = explicit_result
        # Whether it acts on something beyond its operands (the cores' pipes), so that it keeps its place among its like.
        self.ordered = ordered
        # Whether an application has a value; of the buffer stage, `explicit_result` says it.
        self.returns = returns
        self.op = Op(name)
        self._check()

    @property
    def level(self) -> str:
        """tensor, tile, buffer, array or system."""
        return self.name.split(".", 1)[0]

    @property
    def concept(self) -> str:
        return self.name.split(".", 1)[1]

    @property
    def stage(self) -> OpIRStage:
        return OpIRStage.Buffer if self.level == "buffer" else OpIRStage.Functional

    def signature(self) -> str:
        """`tile.load(tensor, offsets, shapes, valid_shapes; target_memory, clamp, cache)`: operands, then keywords."""
        operands = ", ".join(f"[{o.name}]" if o.optional else o.name for o in self.operands)
        return f"{self.name}({operands}{'; ' + ', '.join(self.attrs) if self.attrs else ''})"

    def effects(self, kwargs: Mapping[str, Any] = EMPTY) -> tuple[ArgEffect, ...]:
        """What the operator does to each operand; keywords may decide."""
        return self._effects(kwargs) if callable(self._effects) else self._effects

    def effect(self, index: int, kwargs: Mapping[str, Any] = EMPTY) -> ArgEffect:
        effects = self.effects(kwargs)
        return effects[index] if index < len(effects) else ArgEffect.Read

    def is_pure(self, kwargs: Mapping[str, Any] = EMPTY) -> bool:
        """Whether the operator acts on nothing: its result is all there is of it.

        Of the buffer stage only what gives handles does: to set valid extents reads and writes no data, and is no idle call.
        """
        if self.ordered or (self.stage is OpIRStage.Buffer and not self.explicit_result):
            return False
        return all(e is ArgEffect.Read for e in self.effects(kwargs))

    def call(self, args: Iterable[Expr], kwargs: Mapping[str, Any] | None, span: Span, result: Type | None = None) -> Call:
        """A checked, typed call; raises OpRejected."""
        values = tuple(args)
        least = sum(not o.optional for o in self.operands)
        if not least <= len(values) <= len(self.operands):
            want = str(least) if least == len(self.operands) else f"{least} to {len(self.operands)}"
            raise OpRejected(f"takes {want} operands, got {len(values)}", kind=TypeError)
        named = Attrs(kwargs) if kwargs else EMPTY
        self._check_kwargs(named)
        if self.explicit_result and result is None:
            raise OpRejected("needs an explicit result type")
        type_ = self.infer(Site(self.name, values, named, span, result))
        return Call.make(self.op, values, named, EMPTY, type_, span)

    def _check_kwargs(self, kwargs: Attrs) -> None:
        for k, v in kwargs.items():
            a = self.attrs.get(k)
            if a is None:
                raise OpRejected(f"Unknown kwarg '{k}'")
            if not isinstance(v, a.types) or (isinstance(v, bool) and bool not in a.types):
                want = " or ".join(t.__name__ for t in a.types)
                raise OpRejected(f"'{k}' must be {want}, got {type(v).__name__}", kind=TypeError)
        for a in self.attrs.values():
            if a.required and a.name not in kwargs:
                raise OpRejected(f"'{a.name}' is required", kind=TypeError)

    def _check(self) -> None:
        effects = self.effects() if not callable(self._effects) else self._effects(EMPTY)
        n = len(self.operands)
        problem = None
        if len(effects) != n:
            problem = f"{len(effects)} effects for {n} operands"
        elif self.spaces is not None and len(self.spaces) != n:
            problem = f"{len(self.spaces)} memory constraints for {n} operands"
        elif self.channel is not None and all(e is ArgEffect.Read for e in effects):
            problem = "a write channel without a written operand"
        elif self.reuses is not None and not 0 <= self.reuses < n:
            problem = f"reuses operand {self.reuses} of {n}"
        elif isinstance(self.semantics, Lanewise) and self.level != "buffer" and len(self.semantics.patterns) != n:
            problem = f"{len(self.semantics.patterns)} operand patterns for {n} operands"
        if problem:
            raise AssertionError(f"operator {self.name}: {problem}")

    def __repr__(self) -> str:
        return f"<OpDef {self.name}>"

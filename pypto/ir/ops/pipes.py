"""FIFOs between the cube core and the two vector cores: push a tile, pop it on the other side, free its slot.

A pipe has an id and a direction; `split` says how a matrix is shared by the vector lanes: 0 not at all, 1 rows halved, 2 columns
halved.  What is pushed to the lanes is the whole and each pops its half; what the lanes push are halves, and the cube core pops
the whole.  A push copies the valid rectangle; a pop gives it in the order of the pushes, and its slot is taken until it is freed.
Invariant: these operators act on more than their operands, so none of them is idle, and they keep their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import MemorySpace, SplitMode
from pypto.ir import arith
from pypto.ir.expr import ConstInt, Expr, MakeTuple
from pypto.ir.layout import arriving_layout
from pypto.ir.opdef import REQUIRED, Attr, Dsl, DslContext, OpDef, Operand, OpRejected, Param, Site, Special
from pypto.ir.ops.memory import static_shape, valid_within
from pypto.ir.ops.rules import MOVABLE, R, W, check_dtype, dim_text, shape_text
from pypto.ir.shaped import TileType, TileView, as_dims, const_dim
from pypto.ir.types import ScalarType, Type, VoidType

__all__ = ["AUTO", "BUFFER", "DSL", "FREE", "OPS", "PIPE", "POP", "PUSH", "axis_of"]

# Kinds of `Special`.
PUSH, POP, FREE, PIPE, BUFFER = "push", "pop", "free", "initialize_pipe", "slot_buffer"
AUTO = -1  # the base of a slot buffer that the compiler places
_AXIS_NAMES = ("rows", "columns")
_SPLIT_HINT = "split=0 passes the whole tile, split=1 (UP_DOWN) halves its rows, split=2 (LEFT_RIGHT) its columns"
_C2V, _V2C = 1, 2  # bits of `dir_mask`


def axis_of(split: int) -> int | None:
    """The axis that the lanes share; None where they share nothing."""
    return split - 1 if split else None


# -- types ---------------------------------------------------------------------------------------------------------


def _split(s: Site) -> int:
    split: int = s.kwargs.get("split", 0)
    if split in (3, 4):
        s.reject(
            f"split={split} halves an odd number of {_AXIS_NAMES[split - 3]}, and nothing says which lane has the larger half",
            "make the number even, and say with pl.set_validshape how many are data; " + _SPLIT_HINT,
        )
    if split not in (0, 1, 2):
        s.reject(f"'split' is {split}", _SPLIT_HINT)
    return split


def _id(s: Site) -> None:
    if s.kwargs.get("id", 0) < 0:
        s.reject(f"'id' is {s.kwargs['id']}", "pipes are numbered from 0")


def _matrix(s: Site, shape: tuple[Expr, ...]) -> None:
    if len(shape) != 2 or any(const_dim(d) is None for d in shape):
        s.reject(
            f"pipes pass matrices of two constant extents, not {shape_text(shape)}",
            "reshape the tile to [rows, cols] with pl.reshape first",
        )


def _whole_halves(s: Site, valid: Expr, extent: Expr, axis: int) -> None:
    """Halves that the lanes push lie next to each other in the whole."""
    if not arith.same(valid, extent):
        s.reject(
            f"{dim_text(valid)} of {dim_text(extent)} {_AXIS_NAMES[axis]} are valid: that leaves a gap between the lanes' halves",
            "fill the rest of the half with pl.fillpad, or pass it with split=0",
        )


def _push(s: Site) -> Type:
    t, split, to_vector = s.tile(0), _split(s), s.name.endswith("to_aiv")
    _id(s)
    _matrix(s, t.shape)
    check_dtype(s, t.dtype, MOVABLE)
    want = MemorySpace.Acc if to_vector else MemorySpace.Vec
    if t.memory_space not in (None, want):
        remedy = "push what the matrix unit made" if to_vector else "move it to Vec memory with pl.move, or load it there"
        s.reject(f"takes a tile in {want.name} memory, not in {t.memory_space.name}", remedy)
    axis, stride = axis_of(split), s.kwargs.get("lane_stride")
    extent = const_dim(t.shape[axis]) if axis is not None else None
    if axis is not None and extent is not None:
        if to_vector and extent % 2:
            s.reject(f"{extent} {_AXIS_NAMES[axis]} do not fall into two halves", "split the other axis, or pad the matrix")
        if not to_vector:
            _whole_halves(s, t.valid[axis], t.shape[axis], axis)
        extent = extent // 2 if to_vector else extent
    if stride is not None and stride != extent:
        what = (
            "has no meaning without a split"
            if axis is None
            else f"is {stride}, but lane 1 begins {extent} {_AXIS_NAMES[axis]} on"
        )
        s.reject(f"'lane_stride' {what}", "leave lane_stride out: lane 1 has the second half")
    return VoidType.get()


def _pop(s: Site) -> Type:
    dims, split, on_vector = static_shape(s, 0), _split(s), s.name.endswith("from_aic")
    _id(s)
    dtype: DataType = s.kwargs["dtype"]
    check_dtype(s, dtype, MOVABLE)
    space = MemorySpace.Vec if on_vector else MemorySpace.Mat
    layout = arriving_layout(space, dims)
    shape = TileType(dims, dtype, None, None, space).shape
    _matrix(s, shape)
    valid = s.elements(1)
    valid_within(s, valid, shape)
    axis = axis_of(split)
    if axis is not None and not on_vector:
        if dims[axis] % 2:
            s.reject(f"{dims[axis]} {_AXIS_NAMES[axis]} are not made of two halves", "pop what both lanes pushed together")
        _whole_halves(s, valid[axis], shape[axis], axis)
    view = TileView(valid, blayout=layout.blayout, slayout=layout.slayout, fractal=layout.fractal)
    return TileType(dims, dtype, None, view, space)


def _free(s: Site) -> Type:
    s.tile(0)
    _split(s)
    _id(s)
    return VoidType.get()


def _initialize(s: Site) -> Type:
    _id(s)
    for i in (0, 1):
        if not s.scalar(i).is_int():
            s.reject(f"operand {i} is the address of a slot buffer, got a scalar of type {s.scalar(i)}", _ADDRESS, TypeError)
    if len(s) > 2:
        s.tensor(2)
    if s.kwargs["dir_mask"] not in (_C2V, _V2C, _C2V | _V2C):
        s.reject(
            f"'dir_mask' is {s.kwargs['dir_mask']}", "dir_mask=1 passes from cube to vector, 2 from vector to cube, 3 both ways"
        )
    if s.kwargs["slot_size"] < 1:
        s.reject(f"'slot_size' is {s.kwargs['slot_size']}", "a slot has as many bytes as the tile that the other core pops")
    return VoidType.get()


_ADDRESS = "pl.reserve_buffer(name=..., size=...) in the function that pops, pl.import_peer_buffer(...) in the one that pushes"


def _reserve(s: Site) -> Type:
    _named(s)
    if s.kwargs["size"] < 1:
        s.reject(f"'size' is {s.kwargs['size']}", "give the bytes of all slots: slot_size times the number of slots")
    base = s.kwargs.get("base", AUTO)
    if base != AUTO and (base < 0 or base % 32):
        s.reject(f"'base' is {base}", "a multiple of 32 bytes, or pl.AUTO, which leaves the place to the compiler")
    return ScalarType.of(DataType.INT32)


def _import(s: Site) -> Type:
    _named(s)
    if not s.kwargs["peer_func"]:
        s.reject("'peer_func' is empty", 'name the function that reserves the buffer: peer_func="vector"')
    return ScalarType.of(DataType.INT32)


def _named(s: Site) -> None:
    if not s.kwargs["name"]:
        s.reject("'name' is empty", 'name the buffer: name="slots"')


# -- the language --------------------------------------------------------------------------------------------------


def _spelled(space: str, concept: str) -> str:
    return f"pl.{space + '.' if space else ''}{concept}"


def _number(a: dict[str, Any], name: str, what: str) -> int:
    value = a[name].value if isinstance(a[name], SplitMode) else a[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise OpRejected(
            f"{what}: '{name}' must be an integer constant, got {value!r}", _SPLIT_HINT if name == "split" else None, TypeError
        )
    return value


def _numbers(space: str, concept: str, a: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The keywords that are given, except an id that is the first pipe's."""
    what = _spelled(space, concept)
    found = {n: _number(a, n, what) for n in names if a[n] is not None}
    if found.get("id") == 0:
        del found["id"]
    return found


def _build_push(concept: str) -> Any:
    def build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
        return ctx.op(f"tile.{concept}", (a["tile"],), _numbers(space, concept, a, ("split", "lane_stride", "id")))

    return build


def _build_pop(concept: str) -> Any:
    def build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
        what = _spelled(space, concept)
        shape, dtype, valid = a["shape"], a["dtype"], a["valid_shape"]
        form = f"{what}(shape=[16, 64], dtype=pl.FP32, split=0)"
        remedy = f"{form}, or annotate the name: t: pl.Tile[[16, 64], pl.FP32] = {what}(split=0)"
        if (shape is None) != (dtype is None):
            raise OpRejected(f"{what}: 'shape' and 'dtype' are given both, or neither", remedy, TypeError)
        if shape is None:
            t = ctx.expected
            if not isinstance(t, TileType):
                raise OpRejected(f"{what}: nothing says what tile comes out of the pipe", remedy, TypeError)
            shape, dtype, valid = t.shape, t.dtype, t.valid if valid is None else valid
        if not isinstance(dtype, DataType):
            raise OpRejected(f"{what}: 'dtype' must be a dtype such as pl.FP32, got {dtype!r}", remedy, TypeError)
        dims = MakeTuple(as_dims(shape))
        known = dims if valid is None else MakeTuple(as_dims(valid))
        return ctx.op(f"tile.{concept}", (dims, known), {"dtype": dtype, **_numbers(space, concept, a, ("split", "id"))})

    return build


def _build_free(concept: str) -> Any:
    def build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
        return ctx.op(f"system.{concept}", (a["tile"],), _numbers(space, concept, a, ("split", "id")))

    return build


def _build_pipe(concept: str) -> Any:
    def build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
        none = ConstInt(0, DataType.INT32, ctx.span)
        buffers = [none if a[n] is None else a[n] for n in ("c2v_consumer_buf", "v2c_consumer_buf")]
        more = () if a["gm_slot_buffer"] is None else (a["gm_slot_buffer"],)
        numbers = _numbers(space, concept, a, ("dir_mask", "slot_size", "id"))
        return ctx.op(f"system.{concept}", (*buffers, *more), numbers)

    return build


def _build_reserve(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    numbers = _numbers(space, "reserve_buffer", a, ("size", "base"))
    if numbers["base"] == AUTO:
        del numbers["base"]
    return ctx.op("system.reserve_buffer", (), {"name": a["name"], **numbers})


def _build_import(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    return ctx.op(
        "system.import_peer_buffer", (), {"name": a["name"], "peer_func": getattr(a["peer_func"], "name", a["peer_func"])}
    )


# -- the table -----------------------------------------------------------------------------------------------------

_INT = (int,)
_SPLIT, _ID = Attr("split", _INT), Attr("id", _INT)
_PUSH_DOC = {
    "aiv": "a copy of an accumulator into the pipe to the vector lanes",
    "aic": "a copy of this lane's tile, or half, into the pipe to the cube core",
}
_POP_DOC = {"aic": "the next tile, or this lane's half of it, from the cube core", "aiv": "the next tile from the vector lanes"}


def _push_op(peer: str) -> OpDef:
    return OpDef(
        f"tile.tpush_to_{peer}",
        (Operand("tile", "tile"),),
        _push,
        Special(PUSH),
        effects=(R,),
        attrs=(_SPLIT, Attr("lane_stride", _INT), _ID),
        spaces=((MemorySpace.Acc if peer == "aiv" else MemorySpace.Vec,),),
        ordered=True,
        returns=False,
        pto=f"tpush_to_{peer}",
        doc=_PUSH_DOC[peer],
    )


def _pop_op(peer: str) -> OpDef:
    return OpDef(
        f"tile.tpop_from_{peer}",
        (Operand("shape", "shape"), Operand("valid_shape", "shape")),
        _pop,
        Special(POP),
        effects=(R, R),
        attrs=(Attr("dtype", (DataType,), required=True), _SPLIT, _ID),
        spaces=(None, None),
        out_space=MemorySpace.Vec if peer == "aic" else MemorySpace.Mat,
        in_place=False,
        ordered=True,
        pto=f"tpop_from_{peer}",
        doc=_POP_DOC[peer],
    )


def _free_op(peer: str) -> OpDef:
    return OpDef(
        f"system.tfree_to_{peer}",
        (Operand("tile", "tile"),),
        _free,
        Special(FREE),
        effects=(R,),
        attrs=(_SPLIT, _ID),
        ordered=True,
        returns=False,
        pto=f"tfree_from_{peer}",
        doc="the slot of a tile that was popped may be filled again",
    )


def _pipe_op(core: str) -> OpDef:
    return OpDef(
        f"system.{core}_initialize_pipe",
        (
            Operand("c2v_consumer_buf", "scalar"),
            Operand("v2c_consumer_buf", "scalar"),
            Operand("gm_slot_buffer", "tensor", optional=True),
        ),
        _initialize,
        Special(PIPE),
        effects=(R, R, W),
        attrs=(Attr("dir_mask", _INT, required=True), Attr("slot_size", _INT, required=True), _ID),
        ordered=True,
        returns=False,
        pto=f"{core}_initialize_pipe",
        doc="this core's end of a pipe: its directions, its slots' size, and the buffers of who pops",
    )


_NAME = Attr("name", (str,), required=True)
OPS: tuple[OpDef, ...] = (
    *(make(peer) for make in (_push_op, _pop_op, _free_op) for peer in ("aiv", "aic")),
    *(_pipe_op(core) for core in ("aic", "aiv")),
    OpDef(
        "system.reserve_buffer",
        (),
        _reserve,
        Special(BUFFER),
        effects=(),
        attrs=(_NAME, Attr("size", _INT, required=True), Attr("base", _INT)),
        ordered=True,
        pto="reserve_buffer",
        doc="bytes of this core's memory for the slots of a pipe that it pops from; their address",
    ),
    OpDef(
        "system.import_peer_buffer",
        (),
        _import,
        Special(BUFFER),
        effects=(),
        attrs=(_NAME, Attr("peer_func", (str,), required=True)),
        ordered=True,
        pto="import_reserved_buffer",
        doc="the address of a buffer that the function on the other core reserves",
    ),
)


def _attr(name: str, default: Any = REQUIRED) -> Param:
    return Param(name, "attr", default, keyword_only=True)


_ALL = ("", "tile", "system")
_SYSTEM = ("", "system")
_ID_P = _attr("id", 0)
DSL: tuple[Dsl, ...] = (
    *(
        Dsl(
            f"tpush_to_{p}",
            _ALL,
            (Param("tile"), _attr("split"), _attr("lane_stride", None), _ID_P),
            _build_push(f"tpush_to_{p}"),
            doc,
        )
        for p, doc in _PUSH_DOC.items()
    ),
    *(
        Dsl(
            f"tpop_from_{p}",
            _ALL,
            (
                Param("shape", "shape", None, keyword_only=True),
                _attr("dtype", None),
                _attr("split", 0),
                Param("valid_shape", "shape", None, keyword_only=True),
                _ID_P,
            ),
            _build_pop(f"tpop_from_{p}"),
            doc,
        )
        for p, doc in _POP_DOC.items()
    ),
    *(
        Dsl(f"tfree_to_{p}", _SYSTEM, (Param("tile"), _attr("split", None), _ID_P), _build_free(f"tfree_to_{p}"), OPS[4].doc)
        for p in ("aiv", "aic")
    ),
    *(
        Dsl(
            f"{core}_initialize_pipe",
            _SYSTEM,
            (
                Param("c2v_consumer_buf", "value", None),
                Param("v2c_consumer_buf", "value", None),
                Param("gm_slot_buffer", "value", None),
                _attr("dir_mask"),
                _attr("slot_size"),
                _ID_P,
            ),
            _build_pipe(f"{core}_initialize_pipe"),
            OPS[6].doc,
        )
        for core in ("aic", "aiv")
    ),
    Dsl("reserve_buffer", _SYSTEM, (_attr("name"), _attr("size"), _attr("base", AUTO)), _build_reserve, OPS[8].doc),
    Dsl("import_peer_buffer", _SYSTEM, (_attr("name"), _attr("peer_func")), _build_import, OPS[9].doc),
)

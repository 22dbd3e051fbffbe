"""Operators of pipes between cores: their types, what they refuse, and that programs with them print and persist."""

from __future__ import annotations

import pytest

import pypto.language as pl
from pypto.dtypes import DataType as D
from pypto.enums import MemorySpace
from pypto.errors import InvalidOperationError, ParserTypeError
from pypto.ir import ops
from pypto.ir.equality import assert_structural_equal
from pypto.ir.expr import Call, ConstInt, Expr, MakeTuple, Var
from pypto.ir.serialization import deserialize, serialize
from pypto.ir.shaped import TileType, TileView, as_dims
from pypto.ir.types import ScalarType, VoidType

VEC, MAT, ACC = MemorySpace.Vec, MemorySpace.Mat, MemorySpace.Acc
ZERO = ConstInt(0, D.INT32)

PROGRAM = """
import pypto.language as pl

@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIV)
    def vec(self, a: pl.Tensor[[32, 64], pl.FP32], o: pl.Out[pl.Tensor[[32, 64], pl.FP32]]):
        buf = pl.reserve_buffer(name="c2v", size=8192)
        peer = pl.import_peer_buffer(name="v2c", peer_func="cube")
        pl.aiv_initialize_pipe(buf, peer, dir_mask=3, slot_size=8192)
        x = pl.load(a, [0, 0], [16, 64])
        pl.tpush_to_aic(x, split=1)
        t: pl.Tile[[16, 64], pl.FP32] = pl.tpop_from_aic(split=1)
        u = pl.tpop_from_aic(shape=[16, 64], dtype=pl.FP32, split=1, valid_shape=[16, 60])
        pl.store(t, [0, 0], o)
        pl.tfree_to_aic(t)
        pl.tfree_to_aic(u, split=1)

    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, b: pl.Tensor[[64, 64], pl.FP32]):
        buf = pl.system.reserve_buffer(name="v2c", size=16384, base=0)
        peer = pl.system.import_peer_buffer(name="c2v", peer_func="vec")
        pl.system.aic_initialize_pipe(peer, buf, dir_mask=3, slot_size=8192)
        t = pl.system.tpop_from_aiv(shape=[32, 64], dtype=pl.FP32, split=1)
        left = pl.move(t, target_memory=pl.Mem.Left)
        w = pl.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
        c = pl.matmul(left, pl.move(w, target_memory=pl.Mem.Right))
        pl.system.tfree_to_aiv(t, split=1)
        pl.system.tpush_to_aiv(c, split=pl.SplitMode.UP_DOWN)
        pl.tile.tpush_to_aiv(c, split=1, lane_stride=16, id=2)
"""


def test_programs_with_pipes_print_and_persist() -> None:
    p = pl.parse_program(PROGRAM)
    text = p.as_python()
    assert "u: pl.Tile[[16, 64], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[16, 60])] = pl.tile.tpop_from_aic(" in text
    assert "pl.tile.tpush_to_aiv(c, split=1, lane_stride=16, id=2)" in text
    assert_structural_equal(pl.parse_program(text), p, enable_auto_mapping=True)
    assert_structural_equal(deserialize(serialize(p)), p, enable_auto_mapping=True)


def dims(*extents: int) -> MakeTuple:
    return MakeTuple(as_dims(extents))


def tile(space: MemorySpace | None, rows: int = 32, cols: int = 64, valid: tuple[int, int] | None = None) -> Var:
    return Var("t", TileType([rows, cols], D.FP32, None, TileView(list(valid)) if valid else None, space))


def pop(name: str, *extents: int, valid: tuple[int, ...] | None = None, **kwargs: int) -> Call:
    return ops.create_op_call(name, [dims(*extents), dims(*(valid or extents))], {"dtype": D.FP32, **kwargs})


def test_results() -> None:
    assert ops.create_op_call("tile.tpush_to_aiv", [tile(ACC)], {"split": 1}).type is VoidType.get()
    half, whole = pop("tile.tpop_from_aic", 16, 64, split=1).type, pop("tile.tpop_from_aiv", 32, 64).type
    assert isinstance(half, TileType)
    assert isinstance(whole, TileType)
    assert (half.memory_space, whole.memory_space) == (VEC, MAT)
    assert whole.layout == TileType([32, 64], D.FP32, None, None, MAT).layout
    reserved = ops.create_op_call("system.reserve_buffer", [], {"name": "x", "size": 64})
    assert reserved.type == ScalarType.of(D.INT32)


def test_no_operator_of_a_pipe_is_idle() -> None:
    kinds = ("push", "pop", "free", "initialize_pipe", "slot_buffer")
    found = [o for o in ops.ALL if getattr(o.semantics, "kind", "") in kinds]
    assert len(found) == 10
    assert not any(o.is_pure() for o in found)
    assert ops.get("tile.add").is_pure()


REFUSED: list[tuple[str, list[Expr], dict[str, object], str]] = [
    ("tile.tpush_to_aiv", [tile(VEC)], {}, "a tile in Acc memory, not in Vec"),
    ("tile.tpush_to_aic", [tile(ACC)], {}, "a tile in Vec memory, not in Acc"),
    ("tile.tpush_to_aiv", [tile(ACC, 17)], {"split": 1}, "17 rows do not fall into two halves"),
    ("tile.tpush_to_aiv", [tile(ACC)], {"split": 3}, "odd number of rows"),
    ("tile.tpush_to_aiv", [tile(ACC)], {"split": 5}, "'split' is 5"),
    ("tile.tpush_to_aiv", [tile(ACC)], {"split": 1, "lane_stride": 8}, "lane 1 begins 16 rows on"),
    ("tile.tpush_to_aiv", [tile(ACC)], {"lane_stride": 8}, "no meaning without a split"),
    ("tile.tpush_to_aic", [tile(VEC, valid=(30, 64))], {"split": 1}, "a gap between the lanes' halves"),
    ("tile.tpush_to_aiv", [tile(ACC)], {"id": -1}, "'id' is -1"),
    ("tile.tpop_from_aiv", [dims(32, 65), dims(32, 65)], {"dtype": D.FP32, "split": 2}, "65 columns are not made of two halves"),
    ("tile.tpop_from_aiv", [dims(32), dims(32)], {"dtype": D.FP32}, "matrices of two constant extents"),
    ("tile.tpop_from_aic", [dims(16, 64), dims(16, 65)], {"dtype": D.FP32}, "valid extent 65"),
    ("system.aic_initialize_pipe", [ZERO, ZERO], {"dir_mask": 4, "slot_size": 64}, "'dir_mask' is 4"),
    ("system.aiv_initialize_pipe", [ZERO, ZERO], {"dir_mask": 1, "slot_size": 0}, "'slot_size' is 0"),
    ("system.reserve_buffer", [], {"name": "x", "size": 0}, "'size' is 0"),
    ("system.reserve_buffer", [], {"name": "x", "size": 64, "base": 8}, "'base' is 8"),
    ("system.import_peer_buffer", [], {"name": "x", "peer_func": ""}, "'peer_func' is empty"),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "message"), REFUSED)
def test_refusals(name: str, args: list[Expr], kwargs: dict[str, object], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        ops.create_op_call(name, args, kwargs)


def lane(line: str) -> str:
    head = "import pypto.language as pl\n@pl.function(type=pl.FunctionType.AIV)\n"
    return f"{head}def f(a: pl.Tensor[[16, 64], pl.FP32]):\n    {line}\n"


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ("t = pl.tpop_from_aic(split=0)", InvalidOperationError, "nothing says what tile comes out of the pipe"),
        ("t = pl.tpop_from_aic(shape=[16, 64], split=0)", InvalidOperationError, "given both, or neither"),
        (
            "t = pl.tpush_to_aic(pl.load(a, [0, 0], [16, 64]), split=0)",
            ParserTypeError,
            "returns nothing that 't' could stand for",
        ),
        ("pl.tpush_to_aic(pl.load(a, [0, 0], [16, 64]))", InvalidOperationError, "missing required argument 'split'"),
        (
            "pl.tpush_to_aic(pl.load(a, [0, 0], [16, 64]), split='x')",
            InvalidOperationError,
            "'split' must be an integer constant",
        ),
    ],
)
def test_what_the_language_refuses(line: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as e:
        pl.parse(lane(line))
    assert ":4:" in str(e.value)

"""Every elementwise operator and reduction of the table, at every level, over every kind of valid rectangle."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
from kit import OUT, Kernel, expr

from pypto.debug import Placement, interpret
from pypto.dtypes import DataType as D
from pypto.enums import MemorySpace
from pypto.ir import ops
from pypto.ir.expr import MemRef, Var
from pypto.ir.opdef import COL, FULL, MASK, ROW, SCALAR, UNUSED, Lanewise, OpDef, Reduce
from pypto.ir.ops.rules import MOVABLE
from pypto.ir.program import Function
from pypto.ir.shaped import BufferType, TensorType
from pypto.ir.types import PtrType, ScalarType

SHAPE = (8, 80)
RECTANGLES = [(8, 80), (5, 37), (1, 80), (8, 1), (1, 1), (3, 64), (8, 79), (7, 65)]
VEC = MemorySpace.Vec
EVERYWHERE = ("tensor.cmp", "tensor.xor", "tensor.part_")
SCALARS = {"f": -1.5, "i": 3, "u": 3, "b": True}


def cases() -> list[Any]:
    out = []
    for op in ops.ALL:
        if not isinstance(op.semantics, (Lanewise, Reduce)):
            continue
        if op.level == "buffer" and op.concept != "full":
            dtypes: Any = [d for d in (D.FP32, D.FP16, D.INT32) if d in _buffer_dtypes(op)]
        else:
            dtypes = sorted(op.dtypes or ((D.FP32,) if op.level == "buffer" else MOVABLE), key=lambda d: d.code())
        out += [pytest.param(op, d, id=f"{op.name}-{d.name}") for d in dtypes]
    return out


def _buffer_dtypes(op: OpDef) -> frozenset[D]:
    recipes = [t.buffer for t in ops.ALL if t.buffer is not None and f"buffer.{t.buffer.name}" == op.name]
    return frozenset(d for r in recipes for d in r.dtypes)


def roles(op: OpDef) -> list[str]:
    """What to pass for each operand."""
    if isinstance(op.semantics, Reduce):
        return [FULL, *("tmp" for o in op.operands[1:] if not o.optional)]
    found = []
    for i, pattern in enumerate(op.semantics.patterns):
        if not op.operands[i].optional:
            found.append(pattern if pattern != UNUSED else "tmp" if i in op.scratch else "like")
    return found


def data(dtype: D, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Small numbers, with every special value a float has."""
    rng = np.random.default_rng(seed)
    if dtype is D.BOOL:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if not dtype.is_float():
        info = np.iinfo(dtype.numpy())
        x = rng.integers(max(info.min, -9), 10, shape).astype(dtype.numpy())
        x.reshape(-1)[::11] = info.max
        x.reshape(-1)[5::13] = info.min
        return x
    x = rng.normal(0, 3, shape).astype(np.float32)
    flat = x.reshape(-1)
    for i, v in enumerate([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 6e-8, 1.0, -2.0]):
        flat[i * 7 + seed :: 97] = v
    with np.errstate(all="ignore"):
        return x.astype(dtype.numpy())


def exact_numbers(dtype: D, shape: tuple[int, ...]) -> np.ndarray:
    """For conversions, which have tests of their own: numbers that every type holds."""
    return (np.arange(int(np.prod(shape))).reshape(shape) % 100).astype(dtype.numpy())


def vector_shape(role: str) -> tuple[int, int]:
    return (SHAPE[0], 1) if role == ROW else (1, SHAPE[1]) if role == COL else SHAPE


class Case:
    """One kernel that applies one operator to operands of one dtype, valid in one rectangle."""

    def __init__(self, op: OpDef, dtype: D, rect: tuple[int, int], kwargs: dict[str, Any], level: str, dynamic: bool) -> None:
        self.op, self.dtype, self.rect, self.kwargs, self.level = op, dtype, rect, kwargs, level
        self.k = Kernel()
        self.arrays: list[Any] = []
        self.read: list[Any] = []  # the operands as the oracle sees them
        self.offset = 0
        if dynamic:
            self.extents: list[Any] = [self.argument(Var(n, ScalarType.of(D.INDEX)), v) for n, v in zip("rc", rect, strict=True)]
        else:
            self.extents = list(rect)

    def argument(self, v: Var, value: Any) -> Var:
        self.arrays.append(value)
        return self.k.param(v)

    def place(self, shape: tuple[int, ...], dtype: D) -> MemRef | None:
        if self.level not in ("private", "addressed"):
            return None
        size = int(np.prod(shape)) * dtype.get_byte()
        base = Var(f"mem_{self.offset}", PtrType.get())
        made = MemRef(base, self.offset if self.level == "addressed" else 0, size)
        self.offset += (size + 31) // 32 * 32
        return made

    # -- operands --

    def input(self, role: str, dtype: D, seed: int) -> Any:
        shape = vector_shape(role)
        values = exact_numbers(dtype, shape) if self.op.concept == "cast" else data(dtype, shape, seed)
        x = self.argument(Var(f"x{seed}", TensorType(shape, dtype)), values)
        valid = [1 if n == 1 else e for n, e in zip(shape, self.extents, strict=True)]
        self.read.append(values[tuple(slice(0, 1 if n == 1 else e) for n, e in zip(shape, self.rect, strict=True))])
        if self.level == "tensor":
            return self.k.op("tensor.slice", x, list(shape), [0, 0], valid)
        if self.level == "buffer":
            return self.loaded(x, shape, dtype, valid)
        return self.k.load(x, [0, 0], list(shape), valid, at=self.place(shape, dtype), target_memory=VEC)

    def buffer(self, shape: tuple[int, ...], dtype: D, valid: list[Any]) -> Var:
        static = [v if isinstance(v, int) else -1 for v in valid]
        b = self.k.op("buffer.alloc", [v for v in valid if not isinstance(v, int)], result=BufferType(shape, dtype, VEC, static))
        return b

    def loaded(self, x: Var, shape: tuple[int, ...], dtype: D, valid: list[Any]) -> Var:
        b = self.buffer(shape, dtype, valid)
        self.k.op("buffer.load", x, [0, 0], valid, b)
        return b

    def operand(self, i: int, role: str) -> Any:
        if role == SCALAR:
            kind = "f" if self.dtype.is_float() else "b" if self.dtype is D.BOOL else "i"
            value = SCALARS[kind]
            self.read.append(np.asarray(value, self.dtype.numpy()))
            return self.argument(Var("s", ScalarType.of(self.dtype)), value)
        if role == MASK:
            shown = len(self.read)
            x = self.input(FULL, D.INT32, i + 1)
            zero = self.k.call("tile.cmps", x, self.k.let(expr(0, D.INT32)), cmp_type=4)
            del self.read[shown:]
            self.read.append(data(D.INT32, SHAPE, i + 1)[: self.rect[0], : self.rect[1]] > 0)
            at = self.place((8, 32), D.UINT8)
            return self.k.let(zero, "m", zero.type.replace(memref=at) if at is not None else None)  # type: ignore[attr-defined]
        if role == "tmp":
            masked = self.op.concept in ("sel", "sels", "prelu")
            shape, dtype = ((1, 32), D.UINT8) if masked else (SHAPE, self.dtype)
            return self.k.op("tile.create", list(shape), at=self.place(shape, dtype), dtype=dtype, target_memory=VEC)
        made = self.input(role, self.dtype, i + 1)
        if role == "like":
            self.read.pop()
        return made

    # -- the kernel --

    def build(self) -> tuple[Function, np.ndarray]:
        args = [self.operand(i, role) for i, role in enumerate(roles(self.op))]
        if self.level == "buffer":
            d = self.buffer(SHAPE, self.dtype, self.extents)
            self.k.op(self.op.name, *args, d)
            shape, dtype = SHAPE, self.dtype
        else:
            call = self.k.call(self.op.name, *args, **self.kwargs)
            dtype = call.type.dtype  # type: ignore[attr-defined]
            shape = tuple(n.value for n in call.type.shape)  # type: ignore[attr-defined]
            at = self.place(shape, dtype)
            d = self.k.let(call, "d", call.type.replace(memref=at) if at is not None else None)  # type: ignore[attr-defined]
        fill = np.ones(shape, np.bool_) if dtype is D.BOOL else np.full(shape, 77).astype(dtype.numpy())
        o = self.k.tensor("o", list(shape), dtype, OUT)
        self.arrays.append(fill)
        if self.level == "tensor":
            r = self.k.op("tensor.assemble", o, d, [0, 0])
        elif self.level == "buffer":
            self.k.op("buffer.store", d, [0, 0], self.extents, o)
            r = o
        else:
            r = self.k.store(d, [0, 0], o)
        return self.k.done(r), fill


def wanted(case: Case, dtype: D) -> tuple[np.ndarray, bool]:
    """The defined rectangle of the result, and whether it is exact."""
    op, rect = case.op, case.rect
    if isinstance(op.semantics, Reduce):
        return oracle.reduction(op.concept, case.read[0]), True
    if op.concept == "cast":
        return case.read[0].astype(dtype.numpy()), True
    f = oracle.elementwise(op.concept, case.dtype, case.kwargs)
    assert f is not None, f"say in oracle.py what {op.name} gives"
    out = np.broadcast_to(f(*case.read), rect)
    if op.semantics.result == MASK:
        out = np.packbits(out, axis=-1, bitorder="little")
    return out, not oracle.approximate(op.concept, case.dtype)


def keyword_choices(op: OpDef, dtype: D) -> list[dict[str, Any]]:
    if "cmp_type" in op.attrs:
        return [{"cmp_type": i} for i in range(6)]
    if "target_type" in op.attrs:
        return [{"target_type": t} for t in (D.FP32, D.INT64, D.FP16) if t is not dtype]
    return [{}]


def check(case: Case, placement: Placement | None = None) -> np.ndarray:
    f, o = case.build()
    with np.errstate(all="raise"):
        got = interpret(f, case.arrays, placement=placement)
    assert got is o
    want, exact = wanted(case, f.return_types[0].dtype)  # type: ignore[attr-defined]
    inside = np.zeros(o.shape, bool)
    inside[tuple(slice(0, n) for n in want.shape)] = True
    have = o[inside].reshape(want.shape)
    with np.errstate(over="ignore"):
        want = want.astype(have.dtype)
    if have.dtype.kind not in "iub":
        have, want = have.astype(np.float64), want.astype(np.float64)
    if exact:
        np.testing.assert_array_equal(have, want)
    else:
        # Sine and cosine are exact in absolute terms.
        within = 3e-7 if case.op.concept in ("sin", "cos") else 0
        np.testing.assert_allclose(have, want, rtol=2**-23 if o.itemsize == 4 else 2**-10, atol=within)
    # Some results of tensors are valid everywhere, though defined only where their operands are.
    if o.dtype != np.bool_ and not case.op.name.startswith(EVERYWHERE):
        assert (o[~inside] == 77).all()
    return o


@pytest.mark.parametrize(("op", "dtype"), cases())
def test_operator(op, dtype):
    level = op.level
    for i, rect in enumerate(RECTANGLES):
        for kwargs in keyword_choices(op, dtype):
            got = check(Case(op, dtype, rect, kwargs, level, dynamic=i % 2 == 1))
            if level == "tile" and i in (0, 1, 7):
                for placed, placement in (("private", Placement.PRIVATE), ("addressed", Placement.ADDRESSED)):
                    again = check(Case(op, dtype, rect, kwargs, placed, dynamic=i % 2 == 1), placement)
                    assert again.tobytes() == got.tobytes()


def test_the_table_is_covered():
    levels = {p.values[0].level for p in cases()}
    assert levels == {"tensor", "tile", "buffer"}
    assert len(cases()) > 400

"""What instructions of `.pto` text do to bytes on the chip and to arrays.

In: an instruction, and the handles, parts of arrays and numbers that it names.  Out: the value that it gives, if any.
Elementwise meanings are the lane programs of `pypto.ir`; which operand plays which part is said here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pto_memory import DTYPES, Array, Handle, MachineError
from pto_scattered import SCATTERED
from pto_syntax import Op

from pypto.debug import apply
from pypto.debug.lanes import fma32, rounded_constant, run
from pypto.debug.memory import ArenaPlace, addresses, everything, poisoned
from pypto.dtypes import DataType
from pypto.enums import TileLayout
from pypto.ir import ops
from pypto.ir.lanes import lane_type
from pypto.ir.layout import BoxLayout
from pypto.ir.opdef import Lanewise, Reduce
from pypto.ir.ops.casts import MODES, cast_lanes
from pypto.ir.ops.compare import COMPARISONS

__all__ = ["execute"]

# The operator, and the part that each printed operand plays: F element (r, c), R (r, 0), C (0, c), S a scalar, M a bit of a
# mask, P element (r, c) where it is valid, x a scratch.
_LANES: dict[str, tuple[str, str]] = {
    "tadd": ("add", "FF"),
    "tsub": ("sub", "FF"),
    "tmul": ("mul", "FF"),
    "tdiv": ("div", "FF"),
    "tmax": ("maximum", "FF"),
    "tmin": ("minimum", "FF"),
    "tand": ("and", "FF"),
    "tor": ("or", "FF"),
    "tshl": ("shl", "FF"),
    "tshr": ("shr", "FF"),
    "tfmod": ("fmod", "FF"),
    "trem": ("rem", "FFx"),
    "txor": ("xor", "FFx"),
    "tprelu": ("prelu", "FFx"),
    "taddc": ("addc", "FFF"),
    "tsubc": ("subc", "FFF"),
    "tadds": ("adds", "FS"),
    "tsubs": ("subs", "FS"),
    "tmuls": ("muls", "FS"),
    "tdivs": ("divs", "FS"),
    "tmaxs": ("maximums", "FS"),
    "tmins": ("minimums", "FS"),
    "tfmods": ("fmods", "FS"),
    "tands": ("ands", "FS"),
    "tors": ("ors", "FS"),
    "tshls": ("shls", "FS"),
    "tshrs": ("shrs", "FS"),
    "tlrelu": ("lrelu", "FS"),
    "trems": ("rems", "FSx"),
    "txors": ("xors", "FSx"),
    "taddsc": ("addsc", "FSF"),
    "tsubsc": ("subsc", "FSF"),
    "tsel": ("sel", "MFFx"),
    "tsels": ("sels", "MFxS"),
    "texpands": ("expands", "S"),
    **{f"t{n}": (n, "F") for n in ("abs", "exp", "log", "sqrt", "recip", "neg", "not", "relu")},
    "trsqrt": ("rsqrt", "Fx"),
    "tcmp": ("cmp", "FF"),
    "tcmps": ("cmps", "FS"),
    "trowexpand": ("row_expand", "R"),
    "tcolexpand": ("col_expand", "C"),
    **{f"trowexpand{n}": (f"row_expand_{n}", "FRx") for n in ("add", "sub", "mul", "div", "max", "min", "expdif")},
    **{f"tcolexpand{n}": (f"col_expand_{n}", "FC") for n in ("add", "sub", "mul", "div", "max", "min", "expdif")},
    **{f"tpart{n}": (f"part_{n}", "FP") for n in ("add", "mul", "max", "min")},
}
_REDUCTIONS = {f"t{w}{n}": f"{w}_{n}" for w in ("row", "col") for n in ("sum", "prod", "max", "min", "argmax", "argmin")}
_PAD = {1: "zero", 2: "max", 3: "min"}
_IN_PLACE = {"F", "M", "C", "R", "P"}


def execute(op: Op, args: Sequence[Any], outs: Sequence[Any]) -> Any:
    """Do what an instruction says; MachineError for what is not defined."""
    name = op.name.removeprefix("pto.")
    for h in (*args, *outs):
        if isinstance(h, Handle) and 0 in h.valid:
            raise MachineError(f"{h.name} is empty")
    if name in _LANES:
        return _lanes(op, name, args, outs[0])
    if name in _REDUCTIONS:
        return _reduce(_REDUCTIONS[name], args, outs[0])
    method = _OTHERS.get(name) or SCATTERED.get(name)
    if method is None:
        raise MachineError("unknown instruction")
    return method(op, args, outs)


def _prepare(sources: Sequence[Any], scratch: Sequence[Any], out: Handle, in_place: bool) -> None:
    """Scratches lose what they held; the destination lies apart from what is read, or is one of the operands' places."""
    for t in scratch:
        if t.overlaps(out) or any(isinstance(s, Handle) and s.overlaps(t) for s in sources):
            raise MachineError(f"the scratch {t.name} is in use")
        t.poison()
    for s in sources:
        if not isinstance(s, Handle) or not s.overlaps(out) or (in_place and s.coincides(out)):
            continue
        if in_place and s.place.start == out.place.start and s.tile.size > out.tile.size:
            continue  # smaller results stay behind what is still to be read
        raise MachineError(f"{s.name} and the destination {out.name} overlap")


# -- elementwise and reductions ---------------------------------------------------------------------------------------


def _lanes(op: Op, name: str, args: Sequence[Any], out: Handle) -> None:
    concept, parts = _LANES[name]
    form = ops.get(f"tile.{concept}").semantics
    assert isinstance(form, Lanewise)
    masked = name in ("tcmp", "tcmps")
    rect = args[0].valid if masked else out.valid
    used = [(p, a, t) for p, a, t in zip(parts, args, op.types, strict=False) if p != "x"]
    _prepare([a for p, a, _ in used], [a for p, a in zip(parts, args, strict=False) if p == "x"], out, not masked)
    dtypes = tuple(a.dtype if isinstance(a, Handle) else DTYPES[t] for _, a, t in used)
    kwargs: dict[str, Any] = {"high_precision": True} if "precisionType" in op.attrs else {}
    if "cmpMode" in op.attrs:
        kwargs["cmp_type"] = COMPARISONS.index(op.attrs["cmpMode"].removeprefix("#pto<cmp ").removesuffix(">"))
    program = form.build(dtypes, DataType.BOOL if masked and out.dtype is not DataType.UINT8 else out.dtype, kwargs)
    if "P" in parts:
        _in_part(program, args, out)
        return
    read = [_operand(p, a, d, rect) for (p, a, _), d in zip(used, dtypes, strict=True)]
    made = np.broadcast_to(run(program, read), rect)
    if masked:
        if out.valid != (rect[0], (rect[1] + 7) // 8):
            raise MachineError(f"a mask of {out.valid} for {rect}")
        made = np.packbits(made, axis=-1, bitorder="little")
    out.write(made)


def _operand(part: str, value: Any, dtype: DataType, rect: tuple[int, int]) -> Array:
    if part == "S":
        return rounded_constant(value, lane_type(dtype)).reshape(())
    rows, cols = rect
    want = {"F": rect, "R": (rows, 1), "C": (1, cols), "M": (rows, (cols + 7) // 8)}[part]
    have = value.valid if part != "R" else (value.valid[0], 1)
    if have != want:
        raise MachineError(f"{value.name} is valid in {value.valid}, wanted is {want}")
    found = value.read(want)
    if part == "M":
        return np.unpackbits(found.view(np.uint8), axis=-1, bitorder="little")[:, :cols].astype(np.bool_)
    return found


def _in_part(program: Any, args: Sequence[Handle], out: Handle) -> None:
    a, b = args
    if a.valid != out.valid:
        raise MachineError(f"{a.name} is valid in {a.valid}, the result in {out.valid}")
    made = a.read(a.valid)
    common = (min(a.valid[0], b.valid[0]), min(a.valid[1], b.valid[1]))
    made[everything(common)] = run(program, [a.read(common), b.read(common)])
    out.write(made)


def _reduce(concept: str, args: Sequence[Handle], out: Handle) -> None:
    source = args[0]
    form = ops.get(f"tile.{concept}").semantics
    assert isinstance(form, Reduce)
    _prepare([source], args[1:], out, False)
    axis = 1 if concept.startswith("row") else 0
    want = (source.valid[0], 1) if axis else (1, source.valid[1])
    if out.valid != want:
        raise MachineError(f"the result is valid in {out.valid}, the reduction gives {want}")
    x = np.moveaxis(run(form.enter(source.dtype), [source.read(source.valid)]), axis, -1)
    whole = (apply._in_lanes if axis else apply._in_rows)(form, source.dtype, x)
    made = apply._first(x, whole) if form.arg else run(form.leave(source.dtype), [whole])
    out.write(np.expand_dims(made, axis).astype(out.dtype.numpy()))


def _convert(op: Op, args: Sequence[Handle], outs: Sequence[Handle]) -> None:
    source, out = args[0], outs[0]
    _prepare([source], args[1:], out, True)
    if source.valid != out.valid:
        raise MachineError(f"{source.valid} elements become {out.valid}")
    mode = op.attrs["rmode"].removeprefix("#pto<round_mode ").removesuffix(">").lower()
    out.write(run(cast_lanes(source.dtype, out.dtype, MODES.index(mode)), [source.read(source.valid)]))


# -- moves ------------------------------------------------------------------------------------------------------------


def _rows_of(part: Array) -> Array:
    """A part of a tensor as rows: all its axes but the last, in row-major order."""
    return np.reshape(part, (math.prod(part.shape[:-1]), part.shape[-1]))


def _check_transfer(handle: Handle, part: Array) -> None:
    if (math.prod(part.shape[:-1]), part.shape[-1]) != handle.valid:
        raise MachineError(f"a part of {part.shape} for {handle.name}, which is valid in {handle.valid}")


def _load(op: Op, args: Sequence[Array], outs: Sequence[Handle]) -> None:
    _check_transfer(outs[0], args[0])
    outs[0].write(_rows_of(args[0]))


def _store(op: Op, args: Sequence[Handle], outs: Sequence[Array]) -> None:
    source, target = args[0], outs[0]
    _check_transfer(source, target)
    dtype = DTYPES[op.out_types[0].rsplit("x", 1)[1].rstrip(">")]
    data = source.read(source.valid)
    if dtype is not source.dtype:
        data = run(cast_lanes(source.dtype, dtype, None), [data])
    data = data.reshape(target.shape)
    if "atomicType" in op.attrs:
        add = ops.get("tile.add").semantics
        assert isinstance(add, Lanewise)
        data = run(add.build((dtype, dtype), dtype, {}), [np.array(target), data])
    target[...] = data


def _move(op: Op, args: Sequence[Handle], outs: Sequence[Handle]) -> None:
    source, out = args[0], outs[0]
    if source.valid != out.valid:
        raise MachineError(f"{source.valid} elements are moved to {out.valid}")
    if source.overlaps(out):
        raise MachineError("a move within the same bytes")
    data = source.read(source.valid)
    out.write(data if source.dtype is out.dtype else run(cast_lanes(source.dtype, out.dtype, None), [data]))


def _extract(op: Op, args: Sequence[Any], outs: Sequence[Handle]) -> None:
    source, r, c = args
    out = outs[0]
    _prepare([source], [], out, False)
    rows, cols = out.valid
    if r < 0 or c < 0 or r + out.tile.rows > source.tile.rows or c + out.tile.cols > source.tile.cols:
        raise MachineError(f"the window at {(r, c)} leaves {source.name}")
    data = source.place.get((slice(r, r + rows), slice(c, c + cols)))
    out.write(data if source.dtype is out.dtype else run(cast_lanes(source.dtype, out.dtype, None), [data]))


def _insert(op: Op, args: Sequence[Any], outs: Sequence[Handle]) -> None:
    source, r, c = args
    out = outs[0]
    rows, cols = source.valid
    if r < 0 or c < 0 or r + source.tile.rows > out.tile.rows or c + source.tile.cols > out.tile.cols:
        raise MachineError(f"the window at {(r, c)} leaves {out.name}")
    data = run(cast_lanes(source.dtype, out.dtype, None), [source.read(source.valid)])
    out.place.put((slice(r, r + rows), slice(c, c + cols)), data)


def _fill_pad(op: Op, args: Sequence[Handle], outs: Sequence[Handle]) -> None:
    source, out = args[0], outs[0]
    _prepare([source], [], out, True)
    data = source.read(source.valid)
    out.write(np.full(out.valid, _pad_value(out.dtype, _PAD[out.tile.pad])).astype(out.dtype.numpy()))
    rows, cols = (min(n, v) for n, v in zip(source.valid, out.valid, strict=True))
    out.write(data[:rows, :cols])


def _pad_value(dtype: DataType, what: str) -> Any:
    if what == "zero":
        return 0
    if dtype.is_float():
        return math.inf if what == "max" else -math.inf
    info = np.iinfo(dtype.numpy())
    return info.max if what == "max" else info.min


def _transpose(op: Op, args: Sequence[Handle], outs: Sequence[Handle]) -> None:
    _prepare(args[:1], args[1:], outs[0], False)
    if outs[0].valid != args[0].valid[::-1]:
        raise MachineError(f"{args[0].valid} turned is not {outs[0].valid}")
    outs[0].write(args[0].read(args[0].valid).T)


def _concat(op: Op, args: Sequence[Handle], outs: Sequence[Handle]) -> None:
    _prepare(args, [], outs[0], False)
    made = np.concatenate([a.read(a.valid) for a in args], axis=1)
    if made.shape != outs[0].valid:
        raise MachineError(f"{made.shape} columns become {outs[0].valid}")
    outs[0].write(made)


def _sequence(op: Op, args: Sequence[Any], outs: Sequence[Handle]) -> None:
    out = outs[0]
    step = -1 if op.attrs["descending"] == "true" else 1
    made = np.int64(args[0]) + step * np.arange(out.valid[1], dtype=np.int64)
    out.write(np.broadcast_to(made.astype(out.dtype.numpy()), out.valid))


def _triangle(op: Op, args: Sequence[Any], outs: Sequence[Handle]) -> None:
    diagonal, out = args
    rows, cols = (np.arange(n) for n in out.valid)
    at = rows[:, None] + diagonal
    made = cols[None, :] >= at if op.attrs["upper"] == "1" else cols[None, :] <= at
    out.write(made.astype(out.dtype.numpy()))


def _get(op: Op, args: Sequence[Any], outs: Sequence[Handle]) -> Any:
    source, at = args
    where = np.unravel_index(at, source.tile.shape)
    if any(i >= v for i, v in zip(where, source.valid, strict=True)):
        raise MachineError(f"element {where} of {source.name}, which is valid in {source.valid}")
    value = source.place.get(where)
    return float(value) if source.dtype.is_float() else int(value)


def _set(op: Op, args: Sequence[Any], outs: Sequence[Handle]) -> None:
    out = outs[0]
    out.place.put(np.unravel_index(args[0], out.tile.shape), rounded_constant(args[1], lane_type(out.dtype)).reshape(()))


# -- products ---------------------------------------------------------------------------------------------------------

_BOXES = BoxLayout(TileLayout.col_major, TileLayout.row_major, 1024)


def _product(op: Op, args: Sequence[Handle], outs: Sequence[Handle]) -> None:
    """One k after the other; all boxes that the product touches are written, with the pitch of its own rows."""
    acc, rest = outs[0], args[1:] if op.name.endswith(".acc") else args
    left, right = rest[:2]
    (m, k), n = left.valid, right.valid[1]
    if right.valid[0] < k or acc.valid != (m, n):
        raise MachineError(f"{left.valid} times {right.valid} is not {acc.valid}")
    sums = np.int32 if left.dtype is DataType.INT8 else np.float32
    a, b = left.read((m, k)).astype(sums), right.read((k, n)).astype(sums)
    rows, cols = -(-m // 16) * 16, -(-n // 16) * 16
    place = ArenaPlace(acc.arena, addresses(_BOXES, acc.dtype, (rows, cols), acc.base), acc.dtype)
    c = np.zeros((m, n), sums)
    if op.name.endswith(".acc"):
        c = place.get(everything((m, n)))
    elif op.name.endswith(".bias"):
        c = np.broadcast_to(rest[2].read((1, n)), (m, n)).astype(sums)
    with np.errstate(all="ignore"):
        for i in range(k):
            x, y = np.broadcast_arrays(a[:, i, None], b[None, i, :])
            c = fma32(x, y, c) if sums is np.float32 else c + x * y
    place.put(everything((rows, cols)), poisoned((rows, cols), acc.dtype))
    place.put(everything((m, n)), c)


_OTHERS: dict[str, Callable[[Op, Sequence[Any], Sequence[Any]], Any]] = {
    "tcvt": _convert,
    "tload": _load,
    "tstore": _store,
    "tmov": _move,
    "textract": _extract,
    "tinsert": _insert,
    "tfillpad": _fill_pad,
    "ttrans": _transpose,
    "tconcat": _concat,
    "tci": _sequence,
    "ttri": _triangle,
    "tgetval": _get,
    "tsetval": _set,
    **dict.fromkeys(("tmatmul", "tmatmul.acc", "tmatmul.bias", "tgemv", "tgemv.acc", "tgemv.bias"), _product),
}

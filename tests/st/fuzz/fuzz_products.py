"""Products of matrices: as expressions, summed up in loops, with biases, of vectors, of batches, shared between lanes.

In: a text under construction.  Out: expressions of what is wanted, and statements that store or bind a product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from fuzz_kernel import _store as store
from fuzz_moves import _tensor_window as tensor_window
from fuzz_scalars import index
from fuzz_shapes import element, expression, op, operand
from fuzz_values import Shaped, X, aligned, whole

if TYPE_CHECKING:
    from fuzz_body import Body

Form = Callable[["Body", Shaped, int], "X | None"]

# Of the operands, and of what their product may be.
_OPERANDS = {"FP32": ("FP32", "FP16", "BF16"), "FP16": ("FP16", "FP32", "BF16"), "BF16": ("BF16", "FP32"), "INT32": ("INT8",)}
_OWN = {"FP32": "FP32", "FP16": "FP16", "BF16": "BF16"}
_BOX = {"FP32": 16, "FP16": 16, "BF16": 16, "INT8": 32}


class Factors(NamedTuple):
    """Two operands and how they lie."""

    x: X
    y: X
    a_trans: bool = False
    b_trans: bool = False

    @property
    def flags(self) -> str:
        return "".join(f", {n}=True" for n in ("a_trans", "b_trans") if getattr(self, n))


def _inner(b: Body, dtype: str, m: int, n: int) -> int:
    return _BOX[dtype] * b.r.pick([1, 1, 2, 3])


def _factor(b: Body, dtype: str, rows: int, cols: int, depth: int) -> X:
    """A window of a tensor, or a value."""
    of = whole("tensor", dtype, rows, cols)
    if rows % 16 == 0 and cols % _BOX[dtype] == 0 and b.r.chance(15):
        return _put_together(b, dtype, rows, cols)
    if aligned(dtype, (rows, cols)) and dtype != "INT8" and b.r.chance(25):
        return operand(b, of, depth)
    return tensor_window(b, of)


def _put_together(b: Body, dtype: str, rows: int, cols: int) -> X:
    """An accumulator of the matrix unit, filled in two parts whose lengths the run decides."""
    name, g = b.source(dtype, rows, cols)
    n, acc, shape = b.fresh("m"), b.fresh("v"), [rows, cols]
    e = index(b, 0, rows)
    b.lines.put(f"{n} = {e.kernel}", f"{n} = {e.twin}")
    top, left = b.r.number(0, g.shape[0] - rows), b.r.number(0, g.shape[1] - cols)
    create = b.r.pick(["pl.create_l1", "pl.tensor.create_l1"])
    b.lines.put(f"{acc} = {create}({shape}, pl.{dtype})", f'{acc} = R.undefined({shape}, "{dtype}")')
    for to, length in (("0", n), (n, f"{rows} - {n}")):
        where = f"[{to}, 0], [{top if to == '0' else 0}, {left}]"
        b.lines.put(
            f"{acc} = pl.gather_row({acc}, {name}, {where}, {shape}, valid_shape=[{length}, {cols}])",
            f"{acc} = R.gather_row({acc}, {name}, {where}, [{length}, {cols}])",
        )
    return X(acc, acc)


def _factors(b: Body, dtype: str, m: int, k: int, n: int, depth: int) -> Factors:
    a_trans, b_trans = b.r.chance(25), b.r.chance(25)
    # A transposed operand has boxes of its own.
    a_trans = a_trans and m % _BOX[dtype] == 0
    x = _factor(b, dtype, *((k, m) if a_trans else (m, k)), depth)
    y = _factor(b, dtype, *((n, k) if b_trans else (k, n)), depth)
    return Factors(x, y, a_trans, b_trans)


def product(b: Body, of: Shaped, depth: int) -> X | None:
    if b.lane is not None or of.dtype not in _OPERANDS or of.nameless or of.shape[1] == 1:
        return None
    if b.level == "tile":
        return _of_tiles(b, of, depth)
    if not of.full:
        return None
    if of.shape[0] % 2 == 0 and of.dtype != "INT32" and b.r.chance(15):
        return _of_batches(b, of)
    m, n = of.shape
    dtype = b.r.pick(_OPERANDS[of.dtype])
    k = _inner(b, dtype, m, n)
    f = _factors(b, dtype, m, k, n, depth)
    out = "" if _OWN.get(dtype) == of.dtype and b.r.chance(60) else f", out_dtype=pl.{of.dtype}"
    twin = f'R.matmul({f.x.twin}, {f.y.twin}, "{of.dtype}", {f.a_trans}, {f.b_trans})'
    return X(f"{op(b, 'matmul')}({f.x.kernel}, {f.y.kernel}{out}{f.flags})", twin, of)


def _of_batches(b: Body, of: Shaped) -> X:
    """Two matrices, one above the other."""
    m, n = of.shape[0] // 2, of.shape[1]
    dtype = b.r.pick(["FP32", "FP16"])
    k = _inner(b, dtype, m, n)
    x, _ = b.block_of(dtype, (2, m, k))
    y, _ = b.block_of(dtype, (2, k, n))
    name = b.r.pick(["batch_matmul", "matmul"])
    made, said = f"{op(b, name)}({x}, {y}, out_dtype=pl.{of.dtype})", f'R.matmul({x}, {y}, "{of.dtype}")'
    if of.dtype == "FP32" and b.r.chance(40):
        p, _ = b.block_of(dtype, (2, m, k))
        made, said = f"{op(b, 'matmul_acc')}({made}, {p}, {y})", f"R.matmul_acc({said}, {p}, {y})"
    return X(f"pl.reshape({made}, {list(of.shape)})", f"R.reshape({said}, {list(of.shape)})", of)


# -- of tiles ------------------------------------------------------------------------------------------------------------


def _tile(b: Body, dtype: str, shape: tuple[int, int], rows: str | None = None, space: str = "") -> X:
    """In the matrix unit's memory; perhaps only the first rows of it."""
    name, g = b.source(dtype, *shape)
    at = [index(b, 0, n - s) for n, s in zip(g.shape, shape, strict=True)]
    where, said = f"[{at[0].kernel}, {at[1].kernel}]", f"[{at[0].twin}, {at[1].twin}]"
    valid = "" if rows is None else f", valid_shape=[{rows}, {shape[1]}]"
    twin = "" if rows is None else f", [{rows}, {shape[1]}]"
    text = f"pl.load({name}, {where}, {list(shape)}{valid}, target_memory=pl.Mem.Mat)"
    if space and b.r.chance(50):
        text = f"pl.move({text}, target_memory=pl.Mem.{space})"
    return X(text, f"R.load({name}, {said}, {list(shape)}{twin})")


def _right(b: Body, dtype: str, k: int, n: int) -> X:
    """The right operand; perhaps read transposed."""
    if b.r.chance(50) and n % 16 == 0 and k % _BOX[dtype] == 0:
        x = _tile(b, dtype, (n, k))
        return X(f"pl.tile.transpose_view({x.kernel})", f"R.transpose({x.twin})")
    return _tile(b, dtype, (k, n), None, "Right")


def _boxes(of: Shaped, dtype: str) -> bool:
    return of.shape[0] % 16 == 0 and of.shape[1] % _BOX[dtype] == 0 and of.valid[1] == str(of.shape[1])


def _of_tiles(b: Body, of: Shaped, depth: int) -> X | None:
    """The product, and what a vector operator makes of it."""
    dtype = b.r.pick([d for d in _OPERANDS[of.dtype] if d in ("FP32", "FP16", "INT8")])
    if of.dtype not in ("FP32", "INT32") or not _boxes(of, dtype):
        return None
    m, n = of.shape
    k = _inner(b, dtype, m, n)
    rows = None if of.full else of.valid[0]
    x, y = _tile(b, dtype, (m, k), rows, "Left"), _right(b, dtype, k, n)
    made = f"{op(b, 'matmul')}({x.kernel}, {y.kernel})"
    said = f'R.matmul({x.twin}, {y.twin}, "{of.dtype}")'
    name = b.r.pick(["add", "maximum", "sub"])
    if b.r.chance(50):
        s = element(b, of.dtype)
        return X(f"pl.{name}({made}, {s.kernel})", f'R.lane("{name}s", {said}, {s.twin})', of)
    z = operand(b, of, depth)
    return X(f"pl.{name}({made}, {z.kernel})", f'R.lane("{name}", {said}, {z.twin})', of)


def small_products(b: Body) -> None:
    """Products with a bias, and of one row; stored as they are."""
    if b.level != "tile" or b.lane is not None:
        return
    dtype = b.r.pick(["FP32", "FP16", "INT8"])
    out = "INT32" if dtype == "INT8" else "FP32"
    kind = b.r.pick(["matmul_bias", "gemv", "gemv_acc", "gemv_bias"])
    m, n, k = (b.r.pick([16, 32]) if kind == "matmul_bias" else 1), _BOX[dtype] * b.r.pick([1, 2]), _inner(b, dtype, 1, 1)
    x, y = _tile(b, dtype, (m, k), None, "Left" if m > 1 else ""), _tile(b, dtype, (k, n), None, "Right" if m > 1 else "")
    of = Shaped("tile", out, (m, n), (str(m), str(n)))
    said = f'R.matmul({x.twin}, {y.twin}, "{out}"'
    if kind == "gemv":
        _put(b, of, f"{op(b, 'gemv')}({x.kernel}, {y.kernel})", f"{said})")
        return
    if kind == "gemv_acc":
        p, q = _tile(b, dtype, (1, k)), _tile(b, dtype, (k, n))
        acc = b.define(None, f'pl.gemv({x.kernel}, {y.kernel}, acc_phase="partial")', f"{said})")
        _put(b, of, f"{op(b, 'gemv_acc')}({acc}, {p.kernel}, {q.kernel})", f"R.matmul_acc({acc}, {p.twin}, {q.twin})")
        return
    bias, g = b.source(out, 1, n)
    row = index(b, 0, g.shape[0] - 1)
    z = X(f"pl.load({bias}, [{row.kernel}, 0], [1, {n}])", f"R.load({bias}, [{row.twin}, 0], [1, {n}])")
    _put(b, of, f"{op(b, kind)}({x.kernel}, {y.kernel}, {z.kernel})", f"{said}, start={z.twin})")


def batches(b: Body) -> None:
    """Two products of tiles, one above the other."""
    if b.level != "tile" or b.lane is not None:
        return
    dtype, m, n, k = b.r.pick(["FP32", "FP16"]), 16, 16 * b.r.pick([1, 2]), 16 * b.r.pick([1, 2])
    x, _ = b.block_of(dtype, (2, m, k))
    y, _ = b.block_of(dtype, (2, k, n))
    p = X(f"pl.load({x}, [0, 0, 0], [2, {m}, {k}], target_memory=pl.Mem.Mat)", f"R.value({x})")
    q = X(f"pl.load({y}, [0, 0, 0], [2, {k}, {n}], target_memory=pl.Mem.Mat)", f"R.value({y})")
    acc = b.define(None, f"{op(b, 'batch_matmul')}({p.kernel}, {q.kernel})", f'R.matmul({p.twin}, {q.twin}, "FP32")')
    b.scope.forget(acc)
    for _ in range(b.r.number(0, 2)):
        name = op(b, "batch_matmul_acc")
        acc = b.define(None, f"{name}({acc}, {p.kernel}, {q.kernel})", f"R.matmul_acc({acc}, {p.twin}, {q.twin})")
        b.scope.forget(acc)
    of = whole("tile", "FP32", 2 * m, n)
    _put(
        b,
        of,
        f"pl.reshape(pl.add({acc}, 0.5), {[2 * m, n]})",
        f'R.lane("adds", R.reshape({acc}, {[2 * m, n]}), R.element("FP32", 0.5))',
    )


def _put(b: Body, of: Shaped, kernel: str, twin: str) -> None:
    name = b.define(None, kernel, twin)
    b.scope.forget(name)
    store(b, name, name, of)


# -- sums of products ----------------------------------------------------------------------------------------------------


def summed(b: Body) -> None:
    """A product in pieces along the inner axis, whose sum begins in several ways."""
    if b.lane is not None or b.level not in ("tensor", "tile"):
        return
    dtype = b.r.pick(["FP32", "FP16", "INT8"])
    out = "INT32" if dtype == "INT8" else "FP32"
    step, trips = _BOX[dtype], b.r.number(1, 3)
    if b.level == "tile":
        _summed_tiles(b, dtype, out, step, trips)
        return
    m, n = b.base
    if n % _BOX[dtype]:
        return
    x, g = b.source(dtype, m, trips * step)
    y, h = b.source(dtype, trips * step, n)
    top, left = b.r.number(0, g.shape[0] - m), b.r.number(0, h.shape[1] - n)
    k = b.fresh("k")
    # Slices of tensors in memory, at constant rows and columns and run-time pieces.
    a = (f"{x}[{top}:{top + m}, {{0}} : {{0}} + {step}]", f"R.slice_({x}, [{m}, {step}], [{top}, {{0}}])")
    c = (f"{y}[{{0}} : {{0}} + {step}, {left}:{left + n}]", f"R.slice_({y}, [{step}, {n}], [{{0}}, {left}])")
    acc, of = b.fresh("v"), whole("tensor", out, m, n)
    kind = b.r.pick(["range", "range", "pipeline"])
    stage = ", stage=2" if kind == "pipeline" else ""
    first = b.r.chance(50)
    if first:
        zero = (f"{x}[{top}:{top + m}, 0:{step}]", f"{y}[0:{step}, {left}:{left + n}]")
        said = f'R.matmul({a[1].format(0)}, {c[1].format(0)}, "{out}")'
        b.lines.put(f"{acc} = pl.matmul({zero[0]}, {zero[1]}, out_dtype=pl.{out})", f"{acc} = {said}")
    else:
        b.lines.put(f"{acc} = pl.create_tensor([{m}, {n}], dtype=pl.{out})", f'{acc} = R.undefined([{m}, {n}], "{out}")')
    end = index(b, 1, trips) if first and b.r.chance(50) else X(str(trips), str(trips))
    begin = step if first else 0
    b.lines.put(
        f"for {k} in pl.{kind}({begin}, {end.kernel} * {step}, {step}{stage}):",
        f"for {k} in range({begin}, {end.twin} * {step}, {step}):",
    )
    more, said = ("", "") if first else (f", init_cond=({k} == 0)", f", {k} == 0")
    if first and b.r.chance(20):
        more, said = b.r.pick([(", init_cond=False", ", False"), (", init_cond=True", ", True")])
    with b.lines.nested():
        b.lines.put(
            f"{acc} = {op(b, 'matmul_acc')}({acc}, {a[0].format(k)}, {c[0].format(k)}{more})",
            f"{acc} = R.matmul_acc({acc}, {a[1].format(k)}, {c[1].format(k)}{said})",
        )
    if m % 16 or b.r.chance(30):
        store(b, acc, acc, of)
    else:
        b.scope.bind(acc, of)


def _summed_tiles(b: Body, dtype: str, out: str, step: int, trips: int) -> None:
    """Of the first rows only, as many as the run says."""
    m, n = b.r.pick([16, 32]), step * b.r.pick([1, 2])
    rows = index(b, 1, m) if b.r.chance(60) else X(str(m), str(m))
    x, g = b.source(dtype, m, trips * step)
    y, h = b.source(dtype, trips * step, n)
    del g, h
    r, acc, k = b.fresh("m"), b.fresh("v"), b.fresh("k")
    b.lines.put(f"{r} = {rows.kernel}", f"{r} = {rows.twin}")
    a = f"pl.load({x}, [0, {{0}}], [{m}, {step}], valid_shape=[{r}, {step}], target_memory=pl.Mem.Mat)"
    c = f"pl.load({y}, [{{0}}, 0], [{step}, {n}], target_memory=pl.Mem.Mat)"
    said = f"R.load({x}, [0, {{0}}], [{m}, {step}], [{r}, {step}])", f"R.load({y}, [{{0}}, 0], [{step}, {n}])"
    b.lines.put(
        f"{acc} = pl.matmul({a.format(0)}, {c.format(0)})", f'{acc} = R.matmul({said[0].format(0)}, {said[1].format(0)}, "{out}")'
    )
    end = index(b, 1, trips)
    b.lines.put(
        f"for {k} in pl.range({step}, {end.kernel} * {step}, {step}):", f"for {k} in range({step}, {end.twin} * {step}, {step}):"
    )
    with b.lines.nested():
        b.lines.put(
            f"{acc} = {op(b, 'matmul_acc')}({acc}, {a.format(k)}, {c.format(k)})",
            f"{acc} = R.matmul_acc({acc}, {said[0].format(k)}, {said[1].format(k)})",
        )
    store(b, acc, acc, Shaped("tile", out, (m, n), (r, str(n))))


# -- lanes ---------------------------------------------------------------------------------------------------------------


def shared(b: Body) -> None:
    """A product whose halves two vector lanes compute with; then the whole again, for another product or a store."""
    if b.level != "tensor" or b.lane is not None or b.loops or b.block is not None:
        return
    m, n = b.r.pick([(32, 16), (32, 32), (16, 64)])
    axis = b.r.pick([0, 1]) if n > 16 and m > 16 else int(m == 16)
    c = b.define(None, *_pair(b, m, n))
    b.scope.forget(c)
    lane, halves, g = b.fresh("b"), b.fresh("w"), b.fresh("v")
    mode = ("UP_DOWN", "LEFT_RIGHT")[axis]
    b.lines.put("", f"{halves} = []")
    b.lines.put(f"for {lane} in pl.split_aiv(2, mode=pl.SplitMode.{mode}):", f"for {lane} in range(2):")
    half = whole("tensor", "FP32", *((m // 2, n) if axis == 0 else (m, n // 2)))
    base, b.base = b.base, half.shape
    b.lane = X(lane, lane)
    with b.inner("lanes"):
        if b.r.chance(30):
            b.lines.put(f"{lane} = pl.get_subblock_idx()", "")
        name = b.fresh("v")
        b.lines.put(f"{name} = pl.aiv_shard({c})", f"{name} = R.shard({c}, {lane}, {axis})")
        b.scope.bind(name, half)
        for _ in range(b.r.number(0, 2)):
            e = expression(b, half, 1)
            b.define(half, e.kernel, e.twin)
        e = expression(b, half, 1)
        # What is put together was computed here, not only loaded.
        last = b.define(half, f"pl.add({e.kernel}, 0.5)", f'R.lane("adds", {e.twin}, R.element("FP32", 0.5))')
        text = f"pl.aic_gather({last})"
        b.lines.put(f"{g} = {text}", f"{halves}.append({last})")
    b.lane, b.base = None, base
    b.lines.put("", f"{g} = R.whole_of({halves}, {axis})")
    _after_lanes(b, g, m, n)


def _after_lanes(b: Body, g: str, m: int, n: int) -> None:
    """What was put together is an operand of a product."""
    p = b.r.pick([16, 32, 5])
    y = tensor_window(b, whole("tensor", "FP32", n, p))
    of = whole("tensor", "FP32", m, p)
    made = b.define(of, f"pl.matmul({g}, {y.kernel})", f'R.matmul({g}, {y.twin}, "FP32")')
    store(b, made, made, of)
    if not aligned("FP32", of.shape):
        b.scope.forget(made)


def _pair(b: Body, m: int, n: int) -> tuple[str, str]:
    k = 16 * b.r.pick([1, 2])
    x, y = tensor_window(b, whole("tensor", "FP32", m, k)), tensor_window(b, whole("tensor", "FP32", k, n))
    return f"pl.matmul({x.kernel}, {y.kernel})", f'R.matmul({x.twin}, {y.twin}, "FP32")'


def tasks(b: Body) -> None:
    """Two lanes that each do as they like, with rows of their own."""
    if b.lane is not None or b.loops or b.block is not None or b.level not in ("tensor", "tile"):
        return
    lane = b.fresh("b")
    b.lines.put(f"for {lane} in pl.split_aiv(2, mode=pl.SplitMode.NONE):", f"for {lane} in range(2):")
    b.lane = b.block = X(lane, lane, _lane_of())
    with b.inner("lanes") as scope:
        scope.fixed |= set(scope.names)
        scope.bind(lane, _lane_of(), fixed=True)
        of = whole(b.level, b.dtypes[0], *b.base)
        for _ in range(b.r.number(1, 2)):
            e = expression(b, of, 1)
            name = b.define(of, e.kernel, e.twin)
        store(b, name, name, of)
    b.lane = b.block = None


def _lane_of() -> Any:
    from fuzz_values import Scalar

    return Scalar("INDEX", 0, 1)


FORMS: list[tuple[int, Form]] = [(3, product)]
STATEMENTS: list[tuple[int, Callable[[Body], None]]] = [(1, small_products), (2, summed), (1, batches)]
# Of a kernel in which the vector unit works in regions only.
LANES: list[tuple[int, Callable[[Body], None]]] = [(2, shared), (1, tasks)]

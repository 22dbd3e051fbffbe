"""Accumulators that say how they are written, and loop carries that are valid from the start in what the loop makes of them."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from back_lab import applied, call_of, kernel_of, raw_kernel, scope, through
from convert_kit import both, calls_of, convert, raw_converted, values
from pass_lab import agree, apply, copies, findings, out

from pypto.debug import run
from pypto.enums import CompactMode, MemorySpace
from pypto.errors import CompileError
from pypto.ir import ops
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TileType
from pypto.ir.stmt import ForStmt, IfStmt
from pypto.ir.verify.properties import IRProperty as P
from pypto.passes.convert_tensor_to_tile_ops.carries import narrow_acc_carries

contract = pytest.mark.contract
M = MemorySpace
PARAMS = (
    "x: pl.Tensor[[64, 64], pl.FP32], w: pl.Tensor[[64, 32], pl.FP32], c: pl.Tensor[[8], pl.INT32], "
    "o: pl.Out[pl.Tensor[[64, 32], pl.FP32]]"
)
# One accumulator, begun by a product and continued; `v` rows of the left operand are valid.
SPLIT = """
{before}acc = pl.tensor.create([{m}, 32], dtype=pl.FP32)
for k, (carry,) in pl.range(0, 64, 32, init_values=(acc,)):
    {inside}xk = pl.tensor.slice(x, [{m}, 32], [0, k], [{v}, 32])
    wk = pl.tensor.slice(w, [32, 32], [k, 0])
    if k == 0:
        first = pl.tensor.matmul(xk, wk, out_dtype=pl.FP32)
        sum = pl.yield_(first)
    else:
        more = pl.tensor.matmul_acc(carry, xk, wk)
        sum = pl.yield_(more)
    total = pl.yield_(sum)
done = pl.tensor.assemble(o, total, [0, 0])
"""
READ = "v = pl.cast(pl.tensor.read(c, [0]), pl.INDEX)\n"


def split(v: object = 50, m: int = 64, before: str = "", inside: str = ""):
    return raw_kernel(SPLIT.format(v=v, m=m, before=before, inside=inside), PARAMS)


def arrays(rows: int = 0) -> list[np.ndarray]:
    r = np.random.default_rng(3)
    counts = np.array([rows] * 8, np.int32)
    return [r.integers(-3, 4, s).astype(np.float32) for s in ((64, 64), (64, 32))] + [counts, out(64, 32)]


def stored(p: Program, args: list[np.ndarray]) -> np.ndarray:
    """What the kernel leaves in its last argument."""
    given = copies(args)
    run(p, "k", given)
    return given[3]


def loop_of(f: Function) -> ForStmt:
    (loop,) = [n for n in walk(f.body) if isinstance(n, ForStmt)]
    return loop


def valid(t: object) -> list[object]:
    assert isinstance(t, TileType)
    return [getattr(d, "value", d) for d in t.valid]


# -- how products are written ----------------------------------------------------------------------------------------

TILES = """
acc = pl.tile.create([{m}, 32], dtype=pl.FP32, target_memory=pl.Mem.Acc{compact})
acc2 = pl.tile.set_validshape(acc, {v}, 32)
xk = pl.tile.load(x, [0, 0], [{m}, 32], [{v}, 32], target_memory=pl.Mem.Mat)
wk = pl.tile.load(w, [0, 0], [32, 32], [32, 32], target_memory=pl.Mem.Mat)
s = pl.tile.matmul_acc(acc2, xk, wk, True)
r = pl.tile.store(s, [0, 0], o)
"""
LOOSE = [(64, 20), (48, 1), (32, 5), (64, "pl.cast(pl.tensor.read(c, [0]), pl.INDEX)")]
TIGHT = [(64, 50), (48, 33), (64, 64), (16, 5), (32, 17), (16, "pl.cast(pl.tensor.read(c, [0]), pl.INDEX)")]


def tiles(m: int, v: object, compact: str = ""):
    before = "" if isinstance(v, int) else f"v = {v}\n"
    return raw_kernel(before + TILES.format(m=m, v=v if isinstance(v, int) else "v", compact=compact), PARAMS)


@contract("T111")
@pytest.mark.parametrize(("m", "v"), LOOSE)
def test_an_accumulator_that_is_read_otherwise_than_written_is_refused(m, v):
    p = tiles(m, v)
    assert [code for code, _ in findings(p, P.AccCompactValid)] == [609]
    with pytest.raises(CompileError, match="is not compact") as e:
        convert(p)
    assert e.value.code == "C057"
    assert "compact=True" in e.value.hint
    good = tiles(m, v, ", compact=True")
    assert findings(good, P.AccCompactValid) == []
    assert "tile.matmul_acc" in applied(kernel_of(convert(good)))


@contract("T111")
@pytest.mark.parametrize(("m", "v"), TIGHT)
def test_an_accumulator_that_lies_one_way_only_needs_to_say_nothing(m, v):
    assert findings(tiles(m, v), P.AccCompactValid) == []
    convert(tiles(m, v))


@contract("T110", "T111")
@pytest.mark.parametrize(("m", "v", "says"), [(64, 50, True), (112, 100, True), (64, 64, False), (16, 5, False)])
def test_products_say_that_they_are_written_by_their_valid_rows(m, v, says):
    body = (
        f"a = pl.tile.load(x, [0, 0], [{m}, 32], [{v}, 32], target_memory=pl.Mem.Mat)\n"
        "b = pl.tile.load(w, [0, 0], [32, 32], [32, 32], target_memory=pl.Mem.Mat)\nr = pl.tile.matmul(a, b)"
    )
    f = kernel_of(raw_kernel(body, PARAMS.replace("[64, 64]", "[112, 64]")))
    made = values(f, "tile.matmul")[0].type.get_effective_tile_view().compact
    assert made is (CompactMode.normal if says else CompactMode.null)


@contract("T107", "T110", "T111")
@pytest.mark.parametrize("m", [17, 33, 100])
def test_accumulators_of_tensors_are_compact_through_the_loop(m):
    text = (
        f"acc = pl.create_tensor([{m}, 32], dtype=pl.FP32)\nfor k in pl.range(0, 64, 32):\n"
        "    acc = pl.matmul_acc(acc, a[:, k : k + 32], b[k : k + 32, :], init_cond=(k == 0))\no[:] = acc"
    )
    params = f"a: pl.Tensor[[{m}, 64], pl.FP32], b: pl.Tensor[[64, 32], pl.FP32], o: pl.Tensor[[{m}, 32], pl.FP32]"
    for last in ("convert_tensor_to_tile_ops", "infer_tile_memory_space"):
        p = through(scope(text, params), last)
        loop = loop_of(kernel_of(p))
        for v in (*loop.iter_args, *loop.return_vars, *values(kernel_of(p), "tile.matmul_acc")):
            assert v.type.get_effective_tile_view().compact is CompactMode.normal
        assert findings(p, P.AccCompactValid, P.TypeChecked) == []


# -- carries that are narrowed ---------------------------------------------------------------------------------------


@contract("T173", "T174", "T175")
@pytest.mark.parametrize(("rows", "before"), [(50, ""), (1, ""), ("v", READ)])
def test_a_carry_begins_as_valid_as_the_loop_makes_it(rows, before):
    f = kernel_of(convert(split(rows, before=before)))
    (create,), (narrow,) = calls_of(f, "tile.create"), calls_of(f, "tile.set_validshape")
    assert create.kwargs["compact"] is True
    assert create.kwargs["target_memory"] is M.Acc
    assert narrow.args[0] is values(f, "tile.create")[0]
    loop = loop_of(f)
    (branch,) = [n for n in walk(f.body) if isinstance(n, IfStmt)]
    assert loop.iter_args[0].initValue is values(f, "tile.set_validshape")[0]
    known = values(f, "tile.matmul")[0].type
    if before:
        assert valid(known)[0] is valid(narrow.type)[0] is narrow.args[1]
    else:
        assert valid(known) == valid(narrow.type) == [rows, 32]
    carried = (*loop.iter_args, *branch.return_vars, *loop.return_vars, *values(f, "tile.matmul_acc"))
    assert len(carried) == 4
    for v in carried:
        assert v.type == known
    assert findings(convert(split(rows, before=before)), P.TypeChecked, P.AssignTypeSymmetry, P.AccCompactValid) == []


@contract("T173", "T175")
def test_which_branch_begins_the_sum_makes_no_difference():
    swapped = SPLIT.format(v=50, m=64, before="", inside="").replace("k == 0", "k > 0")
    one, other = "first = pl.tensor.matmul(xk, wk, out_dtype=pl.FP32)", "more = pl.tensor.matmul_acc(carry, xk, wk)"
    swapped = swapped.replace(one, "?").replace(other, one.replace("first", "more")).replace("?", other.replace("more", "first"))
    p = convert(raw_kernel(swapped, PARAMS))
    loop = loop_of(kernel_of(p))
    assert [valid(v.type) for v in (*loop.iter_args, *loop.return_vars)] == [[50, 32]] * 2
    assert findings(p, P.TypeChecked, P.AccCompactValid) == []
    assert stored(p, arrays())[:50].tobytes() == (arrays()[0] @ arrays()[1])[:50].tobytes()


@contract("T173", "T175")
@pytest.mark.parametrize("rows", [64, 50, 17, 1])
def test_narrowed_carries_keep_the_numbers(rows):
    args = arrays(rows)
    p = split("v", before=READ)
    q = apply(convert(p), "flatten_tile_nd_to_2d", "auto_tile_matmul_l0", "infer_tile_memory_space", "init_mem_ref")
    got = stored(q, args)
    np.testing.assert_array_equal(got[:rows], (args[0] @ args[1])[:rows])
    assert (got[rows:] == args[3][rows:]).all()


@contract("T173")
def test_the_carries_of_loops_in_loops_are_narrowed_from_the_outside():
    text = """
acc = pl.tile.create([64, 32], dtype=pl.FP32, target_memory=pl.Mem.Acc)
for i, (outer,) in pl.range(0, 64, 32, init_values=(acc,)):
    for k, (inner,) in pl.range(0, 64, 32, init_values=(outer,)):
        a = pl.tile.load(x, [0, k], [64, 32], [50, 32], target_memory=pl.Mem.Mat)
        b = pl.tile.load(w, [i, 0], [32, 32], [32, 32], target_memory=pl.Mem.Mat)
        made = pl.tile.matmul(a, b)
        one = pl.yield_(made)
    two = pl.yield_(one)
done = pl.tile.store(two, [0, 0], o)
"""
    f = raw_converted(text, PARAMS)
    assert applied(f).count("tile.create") == 1
    for loop in (n for n in walk(f.body) if isinstance(n, ForStmt)):
        assert [valid(v.type) for v in (*loop.iter_args, *loop.return_vars)] == [[50, 32], [50, 32]]


@contract("T174")
def test_what_else_reads_the_beginning_keeps_it():
    text = SPLIT.format(v=50, m=64, before="", inside="").replace(
        "tensor.create([64, 32], ", "tile.create([64, 32], target_memory=pl.Mem.Acc, "
    )
    text = text.replace(
        "pl.tensor.slice(x, [64, 32], [0, k], [50, 32])", "pl.tile.load(x, [0, k], [64, 32], [50, 32], target_memory=pl.Mem.Mat)"
    )
    text = text.replace(
        "pl.tensor.slice(w, [32, 32], [k, 0])", "pl.tile.load(w, [k, 0], [32, 32], [32, 32], target_memory=pl.Mem.Mat)"
    )
    text = text.replace("tensor.matmul(xk, wk, out_dtype=pl.FP32)", "tile.matmul(xk, wk)").replace(
        "tensor.matmul_acc", "tile.matmul_acc"
    )
    text = text.replace(
        "tensor.assemble(o, total, [0, 0])", "tile.store(total, [0, 0], o)\nagain = pl.tile.store(acc, [0, 0], done)"
    )
    f = raw_converted(text, PARAMS)
    assert [valid(v.type) for v in values(f, "tile.create")] == [[64, 32], [64, 32]]
    assert call_of(f, "tile.store").args[0] is loop_of(f).return_vars[0]
    assert calls_of(f, "tile.store")[1].args[0] is values(f, "tile.create")[0]


@contract("T175")
def test_an_operator_that_needs_the_whole_accumulator_keeps_it_whole(monkeypatch):
    """Types are deduced by the operators' own rules, and what they refuse is not done."""
    infer = ops.get("tile.matmul_acc").infer

    def rule(s):
        if not s.tile(0).is_fully_valid:
            s.reject("takes whole accumulators")
        return infer(s)

    monkeypatch.setattr(ops.get("tile.matmul_acc"), "infer", rule)
    with pytest.raises(CompileError, match=r"valid in \[64, 32\] and in \[50, 32\]") as e:
        convert(split(50))
    assert e.value.code == "C056"


# -- carries that are left alone -------------------------------------------------------------------------------------

PLAIN = """
acc = pl.tile.create([{m}, 32], dtype=pl.FP32, target_memory=pl.Mem.Acc)
for k, (carry,) in pl.range(0, 64, 32, init_values=(acc,)):
    a = pl.tile.load(x, [0, k], [{m}, 32], [{v}, 32], target_memory=pl.Mem.Mat)
    b = pl.tile.load(w, [k, 0], [32, 32], [32, 32], target_memory=pl.Mem.Mat)
    made = pl.tile.matmul(a, b)
    total = pl.yield_(made)
done = pl.tile.store(total, [0, 0], o)
"""
INSIDE = "    a = pl.tile.load(", "    v = pl.cast(pl.tensor.read(c, [0]), pl.INDEX)\n    a = pl.tile.load("


def plain(m: int, v: object, *change: str) -> Function:
    text = PLAIN.format(m=m, v=v)
    return kernel_of(raw_kernel(text.replace(*change) if change else text, PARAMS))


@contract("T176")
@pytest.mark.parametrize("v", [1, 5, 15])
def test_one_box_of_rows_is_stored_as_it_was(v):
    """It lies the same way however much of it is valid: only what is stored of it follows the products."""
    f, wider = narrow_acc_carries(plain(16, v)), narrow_acc_carries(plain(32, v))
    for g, compact in ((f, CompactMode.null), (wider, CompactMode.normal)):
        assert applied(g)[:2] == ["tile.create", "tile.set_validshape"]
        loop = loop_of(g)
        for x in (*values(g, "tile.create"), *loop.iter_args, *loop.return_vars):
            assert x.type.get_effective_tile_view().compact is compact
        assert [valid(x.type) for x in (*loop.iter_args, *loop.return_vars)] == [[v, 32]] * 2
    assert "compact" not in call_of(f, "tile.create").kwargs


@contract("T177")
@pytest.mark.parametrize(("v", "change"), [("64 - k", ()), ("v", INSIDE)])
def test_extents_that_have_no_name_in_front_of_the_loop_leave_it_alone(v, change):
    f = plain(64, v, *change)
    assert narrow_acc_carries(f) is f
    with pytest.raises(CompileError, match="valid in") as e:
        raw_converted(PLAIN.format(m=64, v=v).replace(*change) if change else PLAIN.format(m=64, v=v), PARAMS)
    assert e.value.code == "C056"
    assert "pl.set_validshape" in e.value.hint


@contract("T173")
def test_what_is_valid_in_as_much_or_in_different_parts_is_left_alone():
    f = plain(64, 64)
    assert narrow_acc_carries(f) is f
    two = SPLIT.format(v=50, m=64, before="", inside="").replace(
        "pl.tensor.matmul_acc(carry, xk, wk)", "pl.tensor.matmul(xn, wk, out_dtype=pl.FP32)"
    )
    with pytest.raises(CompileError, match=r"'carry' that is valid in \[64, 32\]"):
        raw_converted(two.replace("    wk =", "    xn = pl.tensor.slice(x, [64, 32], [0, k], [40, 32])\n    wk ="), PARAMS)


# -- batches ---------------------------------------------------------------------------------------------------------

BATCH = """
acc = pl.tile.create([1, {m}, 32], dtype=pl.FP32, target_memory=pl.Mem.Acc)
for k, (carry,) in pl.range(0, 64, 32, init_values=(acc,)):
    a = pl.tile.load(x, [0, 0, k], [1, {m}, 32], [1, {v}, 32], target_memory=pl.Mem.Mat)
    b = pl.tile.load(w, [0, k, 0], [1, 32, 32], [1, 32, 32], target_memory=pl.Mem.Mat)
    if k == 0:
        first = pl.tile.batch_matmul(a, b)
        sum = pl.yield_(first)
    else:
        more = pl.tile.batch_matmul_acc(carry, a, b)
        sum = pl.yield_(more)
    total = pl.yield_(sum)
done = pl.tile.store(total, [0, 0, 0], o)
"""
BATCHED = PARAMS.replace("[64, 64]", "[1, 64, 64]").replace("[64, 32]", "[1, 64, 32]")


@contract("T178")
@pytest.mark.parametrize("v", [50, 17])
def test_accumulators_of_batches_are_narrowed_as_matrices(v):
    p = convert(raw_kernel(BATCH.format(m=64, v=v), BATCHED))
    assert valid(loop_of(kernel_of(p)).iter_args[0].type) == [1, 64, 32]
    q = apply(p, "flatten_tile_nd_to_2d")
    f = kernel_of(q)
    create, narrow = call_of(f, "tile.create"), call_of(f, "tile.set_validshape")
    assert create.kwargs["compact"] is True
    assert [d.value for d in narrow.args[1:]] == [v, 32]
    loop = loop_of(f)
    assert [valid(x.type) for x in (*loop.iter_args, *loop.return_vars)] == [[v, 32], [v, 32]]
    assert findings(q, P.TypeChecked, P.AccCompactValid) == []
    args = [a[None] if a.ndim == 2 else a for a in arrays()]
    args[3] = out(1, 64, 32)
    got = stored(apply(q, "infer_tile_memory_space", "init_mem_ref"), args)
    np.testing.assert_array_equal(got[0, :v], (args[0][0] @ args[1][0])[:v])


@contract("T176", "T178")
def test_a_batch_of_one_box_of_rows_is_stored_as_it_was_there_too():
    q = apply(convert(raw_kernel(BATCH.format(m=16, v=5), BATCHED)), "flatten_tile_nd_to_2d")
    create = call_of(kernel_of(q), "tile.create")
    assert "compact" not in create.kwargs
    assert [valid(x.type) for x in loop_of(kernel_of(q)).return_vars] == [[5, 32]]


@pytest.mark.parametrize("batch", [1, 2])
def test_sums_of_batches_are_one_for_each_matrix(batch):
    text = (
        "acc = pl.create_tensor([2, 32, 32], dtype=pl.FP32)\nfor k in pl.range(0, 64, 32):\n"
        "    acc = pl.matmul_acc(acc, a[:, :, k : k + 32], b[:, k : k + 32, :], init_cond=(k == 0))\no[:] = acc"
    )
    params = (
        "a: pl.Tensor[[{0}, 32, 64], pl.FP32], b: pl.Tensor[[{0}, 64, 32], pl.FP32], o: pl.Out[pl.Tensor[[{0}, 32, 32], pl.FP32]]"
    )
    before, after = both(text.replace("[2,", f"[{batch},"), params.format(batch))
    r = np.random.default_rng(5)
    args = [r.integers(-3, 4, s).astype(np.float32) for s in ((batch, 32, 64), (batch, 64, 32))] + [out(batch, 32, 32)]
    after = apply(after, "flatten_tile_nd_to_2d", "infer_tile_memory_space")
    assert [valid(a.type) for a in loop_of(kernel_of(after)).iter_args] == [[32, 32]] * batch
    agree(before, after, args)


def test_both_passes_narrow_by_one_function():
    package, flatten = (import_module(f"pypto.passes.{n}") for n in ("convert_tensor_to_tile_ops", "flatten_tile_nd_to_2d"))
    assert package.narrow_acc_carries is flatten.narrow_acc_carries is narrow_acc_carries

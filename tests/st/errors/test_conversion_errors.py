"""What cannot become tiles, and scopes that cannot stand where they are: one complete error each, by a call and by `lower`.

Rows: the body, the class, the code, words of the message, where the caret stands, words of the help.
"""

import numpy as np
import pytest
from errors_kit import SIGNATURE, arrays, kernel, module, refused

from pypto.errors import (
    CompileError,
    InvalidOperationError,
    NotSupportedError,
    ParserSyntaxError,
    ParserTypeError,
    UnsupportedFeatureError,
)

F32 = np.float32


def matrices(m, k, n, *batch):
    return np.ones((*batch, m, k), F32), np.ones((*batch, k, n), F32), np.arange(8, dtype=np.int32), np.zeros((*batch, m, n), F32)


def cubes():
    return np.ones((2, 4, 8), F32), np.ones((2, 4, 8), F32), np.arange(8, dtype=np.int32), np.zeros((2, 4, 8), F32)


def check(folder, row, args, **how):
    body, kind, code, words, piece, hint = row
    k = kernel(folder, body, **how)
    for call in (k, k.lower):
        e = refused(call, args, kind, words, code=code, piece=piece, file=k.source.filename)
        assert hint in e.hint, str(e)


def name(row):
    return row[0].replace("\n", "; ")[-70:]


# -- one tensor, two ways of writing -------------------------------------------------------------------------------

BULK = "o[0:8, :] = a[0:8, :]\n"
BOTH = "'o' is written both in bulk (store, assemble) and element by element (write)"
ROWS = "for i in pl.range(2):\n    o[i * 8 : i * 8 + 8, :] = a[i * 8 : i * 8 + 8, :]\n"
PARTLY = "o[0:1, 0:16] = pl.full([1, 16], dtype=pl.FP32, value=-1.0)\n"
STORES = [
    ("x = o\nx[0:8, :] = a[0:8, :]\n", "pl.write(o, [12, 0], 1.0)"),
    ("if pl.read(c, [0]) > 0:\n    " + BULK + "else:\n    ", "pl.write(o, [0, 0], 1.0)"),
    (ROWS + "for j in pl.range(3):\n    ", "pl.write(o, [j, 0], 1.0)"),
    ("pl.store(pl.load(a, [0, 0], [16, 64]), [0, 0], o, atomic=pl.AtomicType.Add)\n", "pl.write(o, [0, 0], 3.0)"),
    (PARTLY + "for i in pl.range(4):\n    ", "pl.write(o, [0, i], pl.read(a, [0, i]))"),
]


@pytest.mark.parametrize("row", STORES, ids=name)
def test_bulk_and_elements(row, tmp_path):
    check(tmp_path, ("".join(row), CompileError, "C023", BOTH, "pl.write(o", "fill a tile with pl.full"), arrays())


def test_bulk_and_elements_in_one_block_of_a_launch(tmp_path):
    body = "for q in pl.spmd(2):\n    o[q * 8 : q * 8 + 8, :] = a[q * 8 : q * 8 + 8, :]\n    pl.write(o, [0, 0], 7.0)"
    check(tmp_path, (body, CompileError, "C023", BOTH, "pl.write(o", "store it once"), arrays(), scoped=False)


SCATTER = "t = pl.load(a, [0, 0], [1, 8])\nx = pl.load(c, [0, 0], [1, 8])\npl.mscatter(t, x, o)"


@pytest.mark.parametrize(
    ("body", "element", "shape"),
    [("pl.expand_clone(a, o)", "pl.write(o, [0, 0, 0], 1.0)", (4, 8, 8)), (SCATTER, "pl.write(o, [0, 0], 1.0)", (16, 64))],
)
def test_every_operator_that_stores_counts(body, element, shape, tmp_path):
    a = np.ones((1, *shape[1:]) if len(shape) == 3 else shape, F32)
    args = (a, a, np.zeros((1, 8), np.int32), np.zeros(shape, F32))
    refused(kernel(tmp_path, f"{body}\n{element}"), args, CompileError, BOTH, code="C023", piece="pl.write(o")


def test_two_kernels_may_differ(tmp_path):
    a, b, c, o = arrays()
    scope = "with pl.at(level=pl.Level.CORE_GROUP):\n    "
    kernel(tmp_path, scope + "o[:] = a\n" + scope + "pl.write(o, [0, 0], 7.0)", scoped=False)(a, b, c, o)
    assert o[0, 0] == 7
    np.testing.assert_array_equal(o[1:], a[1:])


# -- rows gathered by hand, pages ----------------------------------------------------------------------------------

KV = "k = pl.create_l1([16, 64], pl.FP32)\n"
PAGES = "x = pl.paged_gather(a, c, c, 4, 64, "
ROW = "k = pl.gather_row(k, a, [0, 0], [0, 0], [8, 64]"
TILE = "t = pl.create_tile([16, 64], pl.FP32)\n"
SIZED = "n = pl.read(c, [1])\n" + KV
GATHERS = [
    (
        KV + "k = pl.gather_row(k, a, [8, 0], [0, 0], [16, 64])",
        "writes past the end of dimension 0: offset 8 + extent 16",
        "valid",
    ),
    (
        KV + "k = pl.gather_row(k, a, [0, 0], [12, 0], [8, 64])",
        "reads past the end of dimension 0: offset 12 + extent 8",
        "valid",
    ),
    (KV + ROW + ", valid_shape=[9, 64])", "valid extent 9 of dimension 0 is not within 0..8", "at most 8"),
    (KV + ROW + ", valid_shape=[-1, 64])", "valid extent -1 of dimension 0", "at most 8"),
    (KV + "k = pl.gather_row(k, a, [0, 0], [0, 0], [8, 16], True, valid_shape=[7, 16])", "transpose", ""),
    (SIZED + "k = pl.gather_row(k, a, [0, 0], [0, 0], [n, 64])", "shapes must be constant and positive", "valid_shape"),
    (KV.replace("32", "16") + ROW + ")", "acc holds fp16, src fp32", "pl.FP32"),
    (TILE + "t = pl.gather_row(t, a, [0, 0], [0, 0], [1, 16], True)", "transpose=True fills Mat tiles", "pl.create_l1"),
    (PAGES + "8, space=pl.Mem.Vec, is_trans=True)", "is_trans=True fills Mat tiles", "space=pl.Mem.Mat"),
    (PAGES + "8, space=pl.Mem.Acc)", "gathers to Mat or Vec, not Acc", "space=pl.Mem.Mat"),
    ("x = pl.create_l1([2, 16, 64], pl.FP32)", "makes matrices of static, positive extents", "pl.create_l1([rows, cols], dtype)"),
    ("x = pl.scatter_update(a, -1, c, b)", "dim", ""),
]


@pytest.mark.parametrize("row", GATHERS, ids=name)
def test_rows_and_pages(row, tmp_path):
    body, words, hint = row
    piece = body.rsplit("\n", 1)[-1].split(" = ", 1)[1][:12]
    check(tmp_path, (body + "\no[:] = a", InvalidOperationError, "P600", words, piece, hint), arrays())


# -- more than two dimensions --------------------------------------------------------------------------------------

T3 = "t = pl.load(a, [0, 0, 0], [2, 4, 8])\n"
MERGED = "all axes but the last are merged into rows"
KEEP = "\npl.store(t, [0, 0, 0], o)"
U = "u = pl.load(a, [0, 0, 0], [{}, {}, 8])\n"
CUBES = [
    (T3 + "u = pl.col_sum(t)\npl.store(u, [0, 0, 0], o)", "C030", MERGED, "pl.col_sum(t)", "pl.reshape"),
    ("o[:, 0:1, :] = pl.col_sum(a)", "C030", MERGED, "pl.col_sum(a)", "in a loop"),
    (T3 + "u = pl.slice(t, [2, 2, 8], [0, 0, 0])\npl.store(u, [0, 0, 0], o)", "C030", "not adjacent", "pl.slice(t", ""),
    (T3 + "u = t[0:2, 0:2, :]\npl.store(u, [0, 0, 0], o)", "C030", "not adjacent", "t[0:2", ""),
    (T3 + U.format(2, 2) + "t = pl.assemble(t, u, [0, 1, 0])" + KEEP, "C030", "not adjacent", "pl.assemble(t", ""),
    (T3 + "u = pl.transpose(t, 0, 1)\nt = pl.transpose(u, 0, 1)" + KEEP, "C030", "exchanges axes 0 and 1", "pl.transpose(t", ""),
    ("t = pl.load(a, [0, 0, 0], [2, 4, 8], valid_shape=[2, 3, 8])" + KEEP, "C010", "no rectangle", "pl.load(", "pl.fillpad"),
]


@pytest.mark.parametrize("row", CUBES, ids=name)
def test_tiles_of_three_dimensions(row, tmp_path):
    body, code, words, piece, hint = row
    check(tmp_path, (body, CompileError, code, words, piece, hint), cubes())


KNOWN = [
    ("n = pl.read(c, [1])\nt = pl.load(a, [0, 0, 0], [n, 4, 8])", "a tile's shape must be static", "pl.load("),
    (
        T3 + U.format(1, 4) + "t = pl.assemble(t, pl.reshape(u, [4, 8]), [0, 0])",
        "must have one rank, got 3, 2 and 2",
        "pl.assemble(",
    ),
    (T3 + "t = pl.set_validshape(t, 2, 3)", "takes 2-D operands, got rank 3", "pl.set_validshape("),
    (T3 + "t = pl.concat(t, t)", "joins matrices", "pl.concat("),
]


@pytest.mark.parametrize("row", KNOWN, ids=name)
def test_what_the_operators_know_themselves(row, tmp_path):
    body, words, piece = row
    check(tmp_path, (body + "\no[:] = b", InvalidOperationError, "P600", words, piece, ""), cubes())


MOVING = "the shape of a window that is computed with must be known when the kernel is compiled"


@pytest.mark.parametrize(
    ("body", "piece"),
    [
        ("n = pl.read(c, [1])\no[0:n, :] = a[0:n, :]", "a[0:n, :]"),
        ("n = pl.cast(pl.read(c, [1]), pl.INDEX)\nx = pl.slice(a, [n, 64], [0, 0])\no[0:n, :] = pl.add(x, 1.0)", "pl.slice(a"),
    ],
)
def test_windows_whose_extent_is_known_at_run_time(body, piece, tmp_path):
    remedy = "pl.slice(x, [<most>, 64], offset, valid_shape=[<data>, 64])"
    check(tmp_path, (body, CompileError, "C010", MOVING, piece, remedy), arrays())


# -- the matrix unit -----------------------------------------------------------------------------------------------

MAT = "l = pl.load(a, [0, 0], [{}, {}], target_memory=pl.Mem.Mat)\nr = pl.load(b, [0, 0], [{}, {}], target_memory=pl.Mem.Mat)\n"
PLACED = "pl.store(pl.matmul(pl.move(l, pl.Mem.Left), pl.move(r, pl.Mem.Right)), [0, 0], o)"
NAMED = "x = pl.move(l, pl.Mem.Left)\ny = pl.move(r, pl.Mem.Right)\npl.store(pl.matmul(x, y), [0, 0], o)"
SMALL = "leave the operand in Mat memory"
ACC = "x = pl.create_tile([64, 64], dtype=pl.FP32, target_memory=pl.Mem.Acc)\n"
FULL = "needs 131072 bytes of {} memory, which holds 65536 bytes"
ADDS = "x = pl.create_tile([512, 256], dtype=pl.FP32, target_memory=pl.Mem.Acc)\n"
INTO = "{0} = pl.matmul_acc({0}, l, r, init_cond=True)\npl.store({0}, [0, 0], o)"
WINDOW = ACC + "w = pl.slice(x, [16, 64], [16, 0])\n" + INTO.format("w")
BIG, WIDE = "operand ([256, 128] of fp32) ", "operand ([128, 256] of fp32) "
PRODUCTS = [
    ((256, 128, 16), NAMED, "C053", "'x' ([256, 128] of fp32) " + FULL.format("Left"), "pl.matmul(x, y)", SMALL),
    ((16, 128, 256), NAMED, "C053", "'y' ([128, 256] of fp32) " + FULL.format("Right"), "pl.matmul(x, y)", SMALL),
    ((256, 128, 16), PLACED, "C053", "the left " + BIG + FULL.format("Left"), "pl.matmul(", "loop over K"),
    ((16, 128, 256), PLACED, "C053", "the right " + WIDE + FULL.format("Right"), "pl.matmul(", "loop over K"),
    ((512, 32, 256), ADDS + INTO.format("x"), "C054", "needs 524288 bytes of Acc memory", "pl.matmul_acc(", ""),
    ((16, 32, 64), WINDOW, "C032", "the accumulator is a window of another tile", "pl.matmul_acc(", "acc = pl.matmul(a, b)"),
]


@pytest.mark.parametrize("row", PRODUCTS, ids=lambda r: f"{r[2]} {r[3][:20]}")
def test_products_that_do_not_fit(row, tmp_path):
    (m, k, n), body, code, words, piece, hint = row
    body = MAT.format(m, k, k, n) + body
    check(tmp_path, (body, CompileError, code, words, piece, hint), matrices(m, k, n))


@pytest.mark.parametrize("space", ["Left", "Acc", "Bias"])
def test_memories_that_nothing_is_loaded_into(space, tmp_path):
    body = f"t = pl.load(a, [0, 0], [16, 64], target_memory=pl.Mem.{space})\no[:] = b"
    check(tmp_path, (body, InvalidOperationError, "P600", f"loads go to Vec or Mat, not {space}", "pl.load(", ""), arrays())


@pytest.mark.parametrize("space", ["DDR", "ScalarLocal"])
def test_memories_that_hold_no_tiles(space, tmp_path):
    body = f"t = pl.create_tile([16, 64], dtype=pl.FP32, target_memory=pl.Mem.{space})\npl.store(t, [0, 0], o)"
    check(tmp_path, (body, InvalidOperationError, "P600", f"not in {space}", "pl.create_tile(", "pl.create_tensor"), arrays())


BATCH = "acc = pl.create_tensor([300, 16, 16], dtype=pl.FP32)\no[:] = pl.matmul_acc(acc, a, b)"


@pytest.mark.parametrize(
    ("body", "batch", "code", "words", "hint"),
    [
        (BATCH, (300,), "C031", "that adds to 300 accumulators at once is not made", "loop over the batch"),
        ("o[:] = pl.matmul_acc(o, a, b)", (), "C010", "cannot be loaded into Acc memory", ""),
    ],
)
def test_accumulators_that_are_not_made(body, batch, code, words, hint, tmp_path):
    check(tmp_path, (body, CompileError, code, words, "pl.matmul_acc(", hint), matrices(16, 16, 16, *batch))


# -- loops ---------------------------------------------------------------------------------------------------------

EACH = "\n    o[i : i + 1, :] = a[i : i + 1, :]"
STEP = "n = pl.cast(pl.read(c, [1]), pl.INDEX)\n"
LOOPS = [
    (STEP + "for i in pl.pipeline(0, 16, n, stage=2):" + EACH, "the step of a pipelined loop must be a constant"),
    (STEP + "for i in pl.pipeline(n, 0, -1, stage=2):" + EACH, "only counts upwards"),
    ("for i in pl.unroll(1000000):\n    o[:] = a", "the loop unrolls to 1000000 copies; the limit is"),
]


@pytest.mark.parametrize("row", LOOPS, ids=name)
def test_loops_that_cannot_be_unrolled(row, tmp_path):
    check(tmp_path, (row[0], CompileError, "C000", row[1], "for i in", "pl.range"), arrays())


# -- scopes --------------------------------------------------------------------------------------------------------

IN_A_KERNEL = [
    ("with pl.cluster():\n    o[:] = a", "pl.cluster inside a kernel", "pl.cluster()", "put it around the kernel's scope"),
    (
        "with pl.manual_scope():\n    o[:] = a",
        "pl.manual_scope inside a kernel",
        "pl.manual_scope()",
        "around the kernel's scope",
    ),
    (
        "with pl.scope(mode=pl.ScopeMode.MANUAL):\n    o[:] = a",
        "pl.scope inside a kernel",
        "pl.scope(",
        "around the kernel's scope",
    ),
    (
        "with pl.at(level=pl.Level.HOST):\n    o[:] = a",
        "pl.at(level=HOST) inside a kernel",
        "pl.at(",
        "around the kernel's scope",
    ),
    ("pl.dump_tag(a)\no[:] = a", "pl.dump_tag inside a kernel", "pl.dump_tag(a)", "in front of the kernel's scope"),
]
AT = "with pl.at(level=pl.Level.CORE_GROUP{}):\n    o[:] = a"
TASK = AT.format("").replace(":\n", " as tid:\n")
BLOCKS = "\n    o[q * 8 : q * 8 + 8, :] = a[q * 8 : q * 8 + 8, :]"
SYNTAX, TYPE, OTHER = (ParserSyntaxError, "P100"), (ParserTypeError, "P200"), (UnsupportedFeatureError, "P500")
HAND = "an AUTO scope placed by hand"
SLOTS = ", optimizations=[pl.cross_core_slot(slot_num=0)]"
AROUND = [
    (
        "with pl.cluster():\n    with pl.cluster():\n        pass",
        *SYNTAX,
        "pl.cluster inside a pl.cluster",
        "pl.cluster():",
        "drop",
    ),
    ("with pl.scope(mode=pl.ScopeMode.AUTO):\n    pass", *SYNTAX, HAND, "pl.scope(", "auto_scope=False"),
    ("with pl.scope():\n    pass", *SYNTAX, HAND, "pl.scope()", "auto_scope=False"),
    ("with pl.spmd(2):\n    o[:] = a", *SYNTAX, "every block of this launch does the same", "pl.spmd(2)", "for b in pl.spmd(4)"),
    (
        "for q in pl.spmd(2, predicate=pl.read(c, [0]) > 0):" + BLOCKS,
        *OTHER,
        "predicate= of pl.spmd",
        "pl.read(",
        "an `if` around",
    ),
    (AT.format(SLOTS), *SYNTAX, "'slot_num' of pl.cross_core_slot must be positive, got 0", "0)", "slot_num=2"),
    (AT.format(", deps=[a]"), *TYPE, "'deps' of pl.at cannot hold a", "a]", "`as tid`"),
    (AT.format(", no_dep_args=[3]"), *TYPE, "'no_dep_args' of pl.at cannot hold 3", "3]", "by their names"),
    (TASK + "\npl.write(c, [0], tid)", *TYPE, "'tid' is the identity of a task", "tid)", "deps=[...]"),
    ("x = pl.no_dep(3)", *TYPE, "pl.no_dep marks a tensor, got 3", "3)", "pl.no_dep(a)"),
]


@pytest.mark.parametrize("row", IN_A_KERNEL, ids=name)
def test_scopes_that_hold_kernels_are_in_none(row, tmp_path):
    body, words, piece, hint = row
    check(tmp_path, (body, ParserSyntaxError, "P100", words, piece, hint), arrays())


@pytest.mark.parametrize("row", AROUND, ids=name)
def test_scopes_around_kernels(row, tmp_path):
    check(tmp_path, row, arrays(), scoped=False)


@pytest.mark.parametrize("level", ["HOST", "AIV"])
def test_levels_that_are_not_executed(level, tmp_path):
    k = kernel(tmp_path, f"with pl.at(level=pl.Level.{level}):\n    " + AT.format("").replace("\n", "\n    "), scoped=False)
    e = refused(k, arrays(), NotSupportedError, "not executed on the host", code="N000", piece="with pl.at(")
    assert "pl.Level.CORE_GROUP" in e.hint


def test_a_scope_by_hand_in_a_function_that_has_none(tmp_path):
    """The remedies of the rows above are accepted."""
    text = f"""
@pl.jit(auto_scope=False)
def k({SIGNATURE}):
    with pl.scope(mode=pl.ScopeMode.AUTO):
        with pl.cluster():
            for q in pl.spmd(2):
                o[q * 8 : q * 8 + 8, :] = a[q * 8 : q * 8 + 8, :]
    return o
"""
    a, b, c, o = arrays()
    module(tmp_path, text).k(a, b, c, o)
    np.testing.assert_array_equal(o, a)


# -- values --------------------------------------------------------------------------------------------------------

MADE = "x = pl.create_tensor([16, 64], dtype=pl.{}, init_value={})"
TILED = "n = pl.cast(pl.read(c, [1]), pl.INDEX)\nt = pl.load(a, [0, 0], [16, 64])\n"
PRINTED = "allocations stand in printed programs only"
VALUES = [
    ("x = pl.rems(3, 2, pl.create_tile([16, 64], dtype=pl.FP32))", "must be a tile", "pl.rems(", ""),
    ("x = pl.tile.alloc(pl.Mem.Vec, 4096)", PRINTED, "pl.tile.alloc(", "pl.create_tile(shape, dtype)"),
    ("t = pl.load(a, [0, 0], [16, 64], cache=7)", "there is no cache policy 7", "pl.load(", "pl.CachePolicy.BYPASS"),
    (MADE.format("INT32", 1.5), "1.5 is not a value of int32 elements", "pl.create_tensor(", "whole number"),
    (MADE.format("INT32", 2**40), "does not fit int32 elements", "pl.create_tensor(", "int32 holds"),
    (MADE.format("FP32", 2**60), "beyond 2**53", "pl.create_tensor(", "pl.full"),
    (
        TILED + "x = pl.slice(t[0:8, :], [16, 8], [n, 0])",
        "reads past the end of dimension 0: extent 16 > 8",
        "pl.slice(",
        "at most 8 fit",
    ),
    (
        TILED + "x = pl.load(a, [n, 0], [32, 64])",
        "reads past the end of dimension 0: extent 32 > 16",
        "pl.load(",
        "at most 16 fit",
    ),
]


@pytest.mark.parametrize("row", VALUES, ids=name)
def test_values_that_operators_do_not_take(row, tmp_path):
    body, words, piece, hint = row
    check(tmp_path, (body + "\no[:] = a", InvalidOperationError, "P600", words, piece, hint), arrays())

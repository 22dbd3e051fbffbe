"""Functions of the two cores that pass tiles through pipes, run side by side: natively, interpreted, on every planner."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from lab import BRIEF
from programs_kit import agree_program, out, same, whole

import pypto.language as pl
from pypto import ir
from pypto.debug import interpret
from pypto.errors import KernelBoundsError, KernelError
from pypto.ir.program import Program

HEAD = "import pypto.language as pl\nN = pl.dynamic('N')\n@pl.program\nclass P:\n"


def text(indented: str, spaces: int) -> str:
    return "".join(f"{' ' * spaces}{line}\n" for line in indented.strip("\n").split("\n"))


def function(kind: str, name: str, params: str, body: str) -> str:
    return f"    @pl.function(type=pl.FunctionType.{kind})\n    def {name}(self, {params}):\n" + text(body, 8)


def program(params: str, cube: tuple[str, str], vec: tuple[str, str], launch: str = "self.both({all})") -> Program:
    """Functions `cube` and `vec` (parameters by name, `-` behind those that are only read; body), a group, and what starts it."""
    known = dict(p.split(": ", 1) for p in params.split("; "))

    def given(names: str) -> str:
        read = {n: re.sub(r"pl\.InOut\[(.*)\]", r"\1", t) for n, t in known.items()}
        return ", ".join(f"{n[:-1]}: {read[n[:-1]]}" if n[-1] == "-" else f"{n}: {known[n]}" for n in names.split())

    every = ", ".join(known)
    parts = [HEAD]
    parts += [function(k, n, given(f[0]), f[1]) for k, n, f in (("AIC", "cube", cube), ("AIV", "vec", vec))]
    starts = "\n".join(f"self.{n}({', '.join(f[0].replace('-', '').split())})" for n, f in (("cube", cube), ("vec", vec)))
    parts.append(function("Group", "both", ", ".join(f"{n}: {t}" for n, t in known.items()), starts))
    parts.append(function("Orchestration", "main", ", ".join(f"{n}: {t}" for n, t in known.items()), launch.format(all=every)))
    return pl.parse_program("".join(parts))


def ends(core: str, c2v: int = 0, v2c: int = 0, slots: int = 2, id: int = 0) -> str:
    """The lines that open one end of a pipe: bytes of a slot from cube to vector, and back."""
    lines, operands = [], []
    for way, size, popper in (("c2v", c2v, "vec"), ("v2c", v2c, "cube")):
        if not size:
            operands.append("pl.const(0, pl.INT32)")
            continue
        mine = (popper == "cube") == (core == "aic")
        name = f'name="{way}{id}"'
        largest = max(c2v, v2c)
        made = f"reserve_buffer({name}, size={largest * slots})" if mine else f'import_peer_buffer({name}, peer_func="{popper}")'
        lines.append(f"{way}_{id} = pl.{made}")
        operands.append(f"{way}_{id}")
    mask = (1 if c2v else 0) | (2 if v2c else 0)
    return "\n".join(
        [*lines, f"pl.{core}_initialize_pipe({', '.join(operands)}, dir_mask={mask}, slot_size={max(c2v, v2c)}, id={id})"]
    )


TENSORS = "a: pl.Tensor[[64, 32], pl.FP32]; b: pl.Tensor[[32, 64], pl.FP32]; o: pl.Out[pl.Tensor[[64, 64], pl.FP32]]"
PRODUCT = """
x = pl.load(a, [{row}, 0], [16, 32], target_memory=pl.Mem.Mat)
y = pl.load(b, [0, 0], [32, 64], target_memory=pl.Mem.Mat)
c = pl.matmul(pl.move(x, target_memory=pl.Mem.Left), pl.move(y, target_memory=pl.Mem.Right))
"""


def loop(body: str, trips: str = "4") -> str:
    return f"for i in pl.range({trips}):\n" + text(body, 4)


def run(p: Program, *args: Any) -> list[np.ndarray]:
    return agree_program(p, "main", args, ways=BRIEF)[0]


# -- one way -------------------------------------------------------------------------------------------------------

SPLITS = {
    0: ("[16, 64]", "[i * 16, 0]"),
    1: ("[8, 64]", "[i * 16 + pl.get_subblock_idx() * 8, 0]"),
    2: ("[16, 32]", "[i * 16, pl.get_subblock_idx() * 32]"),
}


@pytest.mark.parametrize("split", SPLITS)
def test_products_come_to_the_vector_core_whole_or_in_halves(split: int) -> None:
    shape, at = SPLITS[split]
    cube = ends("aic", c2v=4096) + "\n" + loop(PRODUCT.format(row="i * 16") + f"pl.tpush_to_aiv(c, split={split})")
    vec = (
        ends("aiv", c2v=4096)
        + "\n"
        + loop(
            f"t = pl.tpop_from_aic(shape={shape}, dtype=pl.FP32, split={split})\n"
            f"pl.store(pl.adds(t, 1.0), {at}, o)\npl.tfree_to_aic(t)"
        )
    )
    a, b = whole(64, 32), whole(32, 64)
    *_, o = run(program(TENSORS, ("a b", cube), ("o", vec)), a, b, out(64, 64))
    same(o, a @ b + 1)


BACK = TENSORS.replace("; o", "; n: pl.Scalar[pl.INDEX]; o")
HALVES = {
    0: ("[16, 32]", "[i * 16, 0]", "[16, 64]", "[i * 16, 0]"),
    1: ("[8, 32]", "[i * 16 + pl.get_subblock_idx() * 8, 0]", "[8, 64]", "[i * 16 + pl.get_subblock_idx() * 8, 0]"),
    2: ("[16, 16]", "[i * 16, pl.get_subblock_idx() * 16]", "[16, 32]", "[i * 16, pl.get_subblock_idx() * 32]"),
}


def round_trip(split: int, slots: int) -> Program:
    """The vector core doubles, the cube core multiplies, the vector core adds; as often as a number says."""
    give, at, take, to = HALVES[split]
    cube = (
        ends("aic", 4096, 4096, slots)
        + """
y = pl.load(b, [0, 0], [32, 64], target_memory=pl.Mem.Mat)
r = pl.move(y, target_memory=pl.Mem.Right)
"""
        + loop(
            f"x = pl.tpop_from_aiv(shape=[16, 32], dtype=pl.FP32, split={split})\n"
            "c = pl.matmul(pl.move(x, target_memory=pl.Mem.Left), r)\n"
            f"pl.tfree_to_aiv(x)\npl.tpush_to_aiv(c, split={split})",
            "n",
        )
    )
    vec = (
        ends("aiv", 4096, 4096, slots)
        + "\n"
        + loop(
            f"x = pl.load(a, {at}, {give})\n"
            f"pl.tpush_to_aic(pl.add(x, x), split={split})\n"
            f"t: pl.Tile[{take}, pl.FP32] = pl.tpop_from_aic(split={split})\n"
            f"pl.store(pl.adds(t, 1.0), {to}, o)\npl.tfree_to_aic(t)",
            "n",
        )
    )
    return program(BACK, ("b n", cube), ("a n o", vec))


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("split", HALVES)
def test_tiles_go_to_the_cube_core_and_come_back(split: int, slots: int) -> None:
    a, b = whole(64, 32), whole(32, 64)
    p = round_trip(split, slots)
    for n in (0, 1, 4):
        *_, o = agree_program(p, "main", (a, b, n, out(64, 64)), ways=BRIEF[:2])[0]
        want = out(64, 64)
        want[: 16 * n] = (2 * a @ b + 1)[: 16 * n]
        same(o, want)


def test_several_pipes_of_two_functions_keep_their_tiles_apart() -> None:
    cube = (
        "\n".join(ends("aic", c2v=4096, slots=4, id=i) for i in (0, 3))
        + PRODUCT.format(row=0)
        + (
            "pl.tpush_to_aiv(c, split=0, id=3)\n"
            + PRODUCT.format(row=16).replace("c =", "d =")
            + "pl.tpush_to_aiv(d, split=0, id=0)\npl.tpush_to_aiv(c, split=0, id=0)"
        )
    )
    pops = "".join(
        f"{v} = pl.tpop_from_aic(shape=[16, 64], dtype=pl.FP32, id={i})\npl.store({v}, [{row}, 0], o)\npl.tfree_to_aic({v})\n"
        for v, i, row in (("s", 0, 0), ("t", 0, 16), ("u", 3, 32))
    )
    vec = "\n".join(ends("aiv", c2v=4096, slots=4, id=i) for i in (0, 3)) + "\n" + pops
    a, b = whole(64, 32), whole(32, 64)
    *_, o = run(program(TENSORS, ("a b", cube), ("o", vec)), a, b, out(64, 64))
    same(o[:48], np.vstack([(a @ b)[16:32], (a @ b)[:16], (a @ b)[:16]]))


def test_tiles_that_are_valid_in_part_are_passed_as_far_as_they_are_valid() -> None:
    params = TENSORS + "; n: pl.Scalar[pl.INDEX]"
    cube = (
        ends("aic", c2v=4096)
        + """
x = pl.load(a, [0, 0], [16, 32], target_memory=pl.Mem.Mat, valid_shape=[n, 32])
y = pl.load(b, [0, 0], [32, 64], target_memory=pl.Mem.Mat)
c = pl.matmul(pl.move(x, target_memory=pl.Mem.Left), pl.move(y, target_memory=pl.Mem.Right))
pl.tpush_to_aiv(c, split=1)
"""
    )
    vec = (
        ends("aiv", c2v=4096)
        + """
lane = pl.get_subblock_idx()
rows = pl.max(pl.min(n - lane * 8, 8), 0)
t = pl.tpop_from_aic(shape=[8, 64], dtype=pl.FP32, split=1, valid_shape=[rows, 64])
pl.store(t, [lane * 8, 0], o)
pl.tfree_to_aic(t)
"""
    )
    a, b = whole(64, 32), whole(32, 64)
    for n in (3, 8, 13, 16):
        given = (a, b, out(64, 64), n)
        _, _, o = agree_program(program(params, ("a b n", cube), ("o n", vec)), "main", given, ways=BRIEF[:2])[0]
        want = out(64, 64)
        want[:n] = (a @ b)[:n]
        same(o, want)


def test_what_was_loaded_before_an_exchange_is_what_was_there_then() -> None:
    """The cube core overwrites a tensor when the vector core says that it has read it."""
    params = TENSORS.replace("o: pl.Out", "o: pl.InOut") + "; q: pl.Out[pl.Tensor[[16, 64], pl.FP32]]"
    cube = (
        ends("aic", v2c=4096)
        + PRODUCT.format(row=0)
        + """
t = pl.tpop_from_aiv(shape=[16, 64], dtype=pl.FP32)
pl.store(c, [0, 0], o)
pl.tfree_to_aiv(t)
"""
    )
    vec = (
        ends("aiv", v2c=4096)
        + """
x = pl.load(o, [0, 0], [16, 64])
pl.tpush_to_aic(x, split=0)
pl.store(pl.adds(x, 1.0), [0, 0], q)
"""
    )
    a, b, held = whole(64, 32), whole(32, 64), whole(64, 64)
    _, _, o, q = run(program(params, ("a b o", cube), ("o- q", vec)), a, b, held, out(16, 64))
    same(o[:16], (a @ b)[:16])
    same(q, held[:16] + 1)


NARROW = "a: pl.Tensor[[32, 32], pl.{0}]; b: pl.Tensor[[32, 32], pl.{0}]; o: pl.Out[pl.Tensor[[32, 32], pl.{1}]]"


@pytest.mark.parametrize(("given", "sums"), [("FP16", "FP32"), ("BF16", "FP32"), ("INT8", "INT32")])
def test_element_types(given: str, sums: str) -> None:
    import ml_dtypes

    cube = (
        ends("aic", 4096, 4096)
        + f"""
x = pl.tpop_from_aiv(shape=[32, 32], dtype=pl.{given}, split=1)
y = pl.load(b, [0, 0], [32, 32], target_memory=pl.Mem.Mat)
c = pl.matmul(pl.move(x, target_memory=pl.Mem.Left), pl.move(y, target_memory=pl.Mem.Right))
pl.tfree_to_aiv(x)
pl.tpush_to_aiv(c, split=2)
"""
    )
    vec = (
        ends("aiv", 4096, 4096)
        + f"""
lane = pl.get_subblock_idx()
pl.tpush_to_aic(pl.load(a, [lane * 16, 0], [16, 32]), split=1)
t = pl.tpop_from_aic(shape=[32, 16], dtype=pl.{sums}, split=2)
pl.store(t, [0, lane * 16], o)
pl.tfree_to_aic(t)
"""
    )
    dtype = {"FP16": np.float16, "BF16": ml_dtypes.bfloat16, "INT8": np.int8}[given]
    a, b = whole(32, 32).astype(dtype), whole(32, 32).astype(dtype)
    wide = np.int32 if given == "INT8" else np.float32
    *_, o = run(program(NARROW.format(given, sums), ("b", cube), ("a o", vec)), a, b, out(32, 32, dtype=wide))
    same(o, a.astype(wide) @ b.astype(wide))


# -- what goes wrong when it runs ----------------------------------------------------------------------------------


def fails(p: Program, kind: type[Exception], message: str, *args: Any) -> None:
    """Natively and interpreted, with one message, at one line of the user's."""
    seen = []
    for call in (lambda: interpret(p, list(args)), lambda: ir.compile(p)(*args)):
        with pytest.raises(kind, match=message) as e:
            call()
        assert e.value.hint
        seen.append((e.value.location.begin_line, re.sub(r"^main: ", "", e.value.message)))
    assert seen[0][1].split(";")[0] == seen[1][1]
    assert seen[0][0] == seen[1][0]


def one(cube: str, vec: str, slots: int = 2) -> Program:
    heads = [ends(core, c2v=4096, slots=slots) + "\n" for core in ("aic", "aiv")]
    return program(BACK, ("a b n", heads[0] + PRODUCT.format(row=0) + cube), ("n o", heads[1] + vec))


POP = "t = pl.tpop_from_aic(shape=[16, 64], dtype=pl.FP32)\npl.store(t, [0, 0], o)\npl.tfree_to_aic(t)"
ARGS = (whole(64, 32), whole(32, 64))


def test_a_pop_that_nobody_pushes_for_is_an_error_that_says_who_waits() -> None:
    p = one(loop("pl.tpush_to_aiv(c, split=0)", "n"), loop(POP, "n + 1"))
    fails(p, KernelError, "wait for each other: 'vec' waits for a tile from pipe 0 from cube to vector", *ARGS, 2, out(64, 64))


def test_slots_that_are_all_taken_are_an_error_that_says_who_waits() -> None:
    late = POP.replace("pl.tfree", "if i > n:\n    pl.tfree")
    p = one(loop("pl.tpush_to_aiv(c, split=0)", "n"), loop(late, "n"))
    fails(p, KernelError, "wait for each other: 'cube' waits to push into pipe 0", *ARGS, 3, out(64, 64))


def test_tiles_that_nobody_pops_are_an_error() -> None:
    p = one(loop("pl.tpush_to_aiv(c, split=0)", "n + 1"), loop(POP, "n"))
    fails(p, KernelError, "1 tiles were pushed", *ARGS, 2, out(64, 64))


def test_a_slot_that_is_freed_more_often_than_popped_is_an_error() -> None:
    p = one("pl.tpush_to_aiv(c, split=0)", POP.replace("pl.tfree", "for i in pl.range(n):\n    pl.tfree"))
    fails(p, KernelError, "a slot is freed that no pop has", *ARGS, 2, out(64, 64))


def test_tiles_of_another_form_than_the_next_one_are_an_error() -> None:
    other = PRODUCT.format(row=16).replace("[16, 32]", "[32, 32]")
    other = re.sub(r"\b([xyc])\b(?! core)", r"\1_2", other)
    wide = re.sub(r"\bt\b", "u", POP.replace("[16, 64]", "[32, 64]"))
    heads = [ends(core, c2v=8192) + "\n" for core in ("aic", "aiv")]
    cube = PRODUCT.format(row=0) + "pl.tpush_to_aiv(c, split=0)\n" + other + "pl.tpush_to_aiv(c_2, split=0)"
    p = program(BACK, ("a b", heads[0] + cube), ("o", heads[1] + wide + "\n" + POP))
    fails(p, KernelError, r"the next tile is no tile \[32, 64\] of fp32, split=0", *ARGS, 2, out(64, 64))


def test_more_of_a_tile_than_was_pushed_is_an_error() -> None:
    part = PRODUCT.format(row=0).replace("pl.Mem.Mat)\ny", "pl.Mem.Mat, valid_shape=[n, 32])\ny")
    heads = [ends(core, c2v=4096) + "\n" for core in ("aic", "aiv")]
    p = program(BACK, ("a b n", heads[0] + part + "pl.tpush_to_aiv(c, split=0)"), ("o", heads[1] + POP))
    fails(p, KernelBoundsError, "takes more of a dimension than the 5 that were pushed", *ARGS, 5, out(64, 64))

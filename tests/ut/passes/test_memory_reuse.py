"""Allocations that are never needed at the same time become one."""

import pytest
from back_lab import applied, kernel_of, named, raw_kernel, scope, through

from pypto.ir import ops
from pypto.ir.expr import Call
from pypto.ir.rewrite import walk
from pypto.ir.verify.placement import overlapping_tiles
from pypto.passes.context import PassOptions
from pypto.passes.init_mem_ref import init_mem_ref
from pypto.passes.memory_reuse import memory_reuse

X = (
    "x: pl.Tensor[[64, 64], pl.FP32], h: pl.Tensor[[64, 64], pl.FP16], "
    "q: pl.Out[pl.Tensor[[64, 64], pl.FP16]], o: pl.Out[pl.Tensor[[64, 64], pl.FP32]]"
)


def reused(body: str):
    p = through(scope(body, X), "memory_reuse", buffers=False)
    f = kernel_of(p)
    assert overlapping_tiles(f, addressed=False) == []
    assert memory_reuse.run(p, PassOptions()) is p
    return f


def allocations(f) -> list[int]:
    return [n.args[0].value for n in walk(f.body) if isinstance(n, Call) and n.op.name == "tile.alloc"]


def base(f, name: str):
    return named(f, name).type.memref.base_


@pytest.mark.contract("B137")
def test_a_chain_of_elementwise_operators_takes_one_allocation():
    f = reused("a = pl.load(x, [0, 0], [16, 64])\nb = pl.adds(a, 1.0)\nd = pl.exp(b)\npl.store(d, [0, 0], o)")
    assert allocations(f) == [4096]


def test_values_needed_together_keep_apart():
    f = reused(
        "a = pl.load(x, [0, 0], [16, 64])\nb = pl.adds(a, 1.0)\nd = pl.add(a, b)\npl.store(d, [0, 0], o)\npl.store(b, [16, 0], o)"
    )
    assert len(allocations(f)) == 2
    assert base(f, "d") is base(f, "a")


def test_the_largest_tile_gives_the_size():
    f = reused(
        "a = pl.load(x, [0, 0], [8, 64])\npl.store(a, [0, 0], o)\nb = pl.load(x, [0, 0], [32, 64])\npl.store(b, [0, 0], o)"
    )
    assert allocations(f) == [8192]


def test_a_wider_element_is_not_written_over_its_source():
    f = reused("a = pl.load(h, [0, 0], [16, 64])\nb = pl.cast(a, pl.FP32)\npl.store(b, [0, 0], o)")
    assert base(f, "a") is not base(f, "b")


def test_a_narrower_element_may_be():
    f = reused("a = pl.load(x, [0, 0], [16, 64])\nb = pl.cast(a, pl.FP16)\npl.store(b, [0, 0], q)")
    assert base(f, "a") is base(f, "b")


@pytest.mark.contract("B084")
def test_a_window_family_is_no_place_for_what_is_computed_from_the_window():
    f = reused("a = pl.load(x, [0, 0], [16, 64])\nw = pl.slice(a, [16, 64], [0, 0])\nb = pl.adds(w, 1.0)\npl.store(b, [0, 0], o)")
    assert base(f, "a") is not base(f, "b")


def test_what_a_loop_reads_from_outside_lives_to_its_end():
    loop = "for i in pl.range(3):\n    b = pl.adds(a, 1.0)\n    d = pl.exp(b)\n    pl.store(d, [0, 0], o)"
    f = reused("a = pl.load(x, [0, 0], [16, 64])\n" + loop)
    assert base(f, "a") is not base(f, "b")
    assert base(f, "b") is base(f, "d")


def test_a_value_made_in_the_last_statement_of_a_loop_spares_what_the_loop_reads():
    f = reused(
        "a = pl.load(x, [0, 0], [16, 64])\nb = pl.load(x, [16, 0], [16, 64])\n"
        "for i in pl.range(3):\n    d = pl.add(b, b)\n    e = pl.add(a, a)\npl.store(b, [0, 0], o)"
    )
    assert base(f, "e") is not base(f, "a")


def test_declared_memory_is_shared_with_nothing():
    f = reused(
        'buf = pl.MemRef("buf")\nt: pl.Tile[[16, 64], pl.FP32, buf, pl.Mem.Vec] = pl.load(x, [0, 0], [16, 64])\n'
        "pl.store(t, [0, 0], o)\na = pl.load(x, [16, 0], [16, 64])\npl.store(a, [16, 0], o)"
    )
    assert len(allocations(f)) == 2


def out_of_place_operators():
    """Every tile operator that may not write over one of its operands, and which."""
    for op in ops.ALL:
        if op.level == "tile" and op.samples and op.spaces is not None and (not op.in_place or op.no_alias):
            yield op.name


@pytest.mark.parametrize("name", sorted(set(out_of_place_operators())))
def test_operators_that_cannot_run_in_place_get_a_place_of_their_own(name):
    op = ops.get(name)
    dtype = op.samples[0].dtypes[0]
    shape = [16, 64]
    lines, args = [], []
    for i, operand in enumerate(op.operands):
        if operand.kind == "scalar":
            args.append(f"pl.const(1, pl.{dtype.name})" if dtype.is_int() else f"pl.const(1.0, pl.{dtype.name})")
            continue
        vector = {"row": [16, 1], "col": [1, 64]}.get(
            getattr(op.semantics, "patterns", ("full",) * 9)[i] if hasattr(op.semantics, "patterns") else "full"
        )
        size = vector or shape
        if (name, operand.name) == ("tile.prelu", "tmp"):  # a mask, whatever the elements are
            lines.append(f"t{i} = pl.tile.create({size}, dtype=pl.UINT8, target_memory=pl.Mem.Vec)")
        else:
            lines.append(f"t{i} = pl.tile.load(x, [0, 0], {size}, {size}, target_memory=pl.Mem.Vec)")
        args.append(f"t{i}")
    kwargs = ", target_type=pl.FP32" if name == "tile.cast" else ""
    lines.append(f"r = pl.{name}({', '.join(args)}{kwargs})")
    params = f"x: pl.Tensor[[64, 64], pl.{dtype.name}]"
    p = raw_kernel("\n".join(lines), params)
    f = kernel_of(memory_reuse.run(init_mem_ref.run(p, PassOptions()), PassOptions()))
    result = base(f, "r")
    for i, operand in enumerate(op.operands):
        if operand.kind == "tile" and (not op.in_place or i in op.no_alias):
            assert base(f, f"t{i}") is not result
    assert applied(f)[-1] == name


def test_marks_of_pipelined_loops_are_gone():
    p = raw_kernel(
        "t = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec, attrs={'pipeline_membership': ['0:1']})",
        "x: pl.Tensor[[64, 64], pl.FP32]",
    )
    f = kernel_of(memory_reuse.run(init_mem_ref.run(p, PassOptions()), PassOptions()))
    assert all("pipeline_membership" not in n.attrs for n in walk(f.body) if isinstance(n, Call))

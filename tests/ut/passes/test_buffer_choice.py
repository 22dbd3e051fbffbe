"""Single reasons for which a kernel is, or is not, chosen for buffers."""

from __future__ import annotations

import pytest
from back_lab import kernel_of, scope, through
from test_select_buffer_ir_functions import LOADS, STORE, reason

from pypto.errors import CompileError
from pypto.ir.expr import Call
from pypto.ir.rewrite import walk
from pypto.ir.stmt import AssignStmt
from pypto.ir.types import ScalarType
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import lower

contract = pytest.mark.contract
DYNAMIC = "a = pl.load(x, [0, 0], [16, 64], valid_shape=[n, 64])\n"
UNSIGNED = "k = pl.cast(n, pl.UINT32) + pl.cast(m, pl.UINT32)\nr = pl.muls(t, pl.cast(k, pl.FP32))"
EITHER = "if n > 0:\n    p = o\nelse:\n    p = q\npl.store(t, [0, 0], p)\nr = u"
NESTED = "r = pl.adds(pl.slice(pl.slice({}, [8, 64], [0, 0]), [4, 64], [{}, 0]), 1.0)"
SWAPS = "k = pl.const(0, pl.INDEX)\nwhile k < n:\n    k = k + 1\n    t, u = u, t\nr = t"
Q = ", q: pl.Out[pl.Tensor[[64, 64], pl.FP32]]"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param("a = pl.load(x, [0, 0], [16, 64], valid_shape=[7, 64])\nr = pl.maximum(a, t)", "", marks=contract("B031")),
        pytest.param(UNSIGNED, "unsigned scalars", marks=contract("B064")),
        pytest.param(EITHER, "chooses a tensor", marks=contract("B057", "B062")),
        pytest.param("pl.set_validshape(t, 16, n)\nr = u", "is not used", marks=contract("B123")),
        pytest.param(DYNAMIC + "r = pl.assemble(t, a, [0, 0])", "run-time extents", marks=contract("B131")),
        pytest.param(DYNAMIC + NESTED.format("a", 0), "window of a window", marks=contract("B132")),
    ],
)  # fmt: skip
def test_what_keeps_a_kernel_at_tile_stage(body: str, words: str) -> None:
    why = reason(LOADS + body + "\n" + STORE, more=Q)
    assert why is not None
    assert words in why


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(UNSIGNED.replace("UINT", "INT"), marks=contract("B064")),
        pytest.param("i = pl.get_block_idx()\nr = pl.load(x, [i, 0], [16, 64])", marks=contract("B068")),
        pytest.param("r = pl.adds(pl.slice(pl.slice(t, [8, 32], [0, 8]), [4, 16], [n, 8]), 1.0)", marks=contract("B071")),
        pytest.param("r = pl.adds(pl.reshape(pl.slice(t, [1, 32], [4, 0]), [2, 16]), 1.0)", marks=contract("B074")),
        pytest.param("r = pl.adds(pl.slice(t, [16, 8], [0, n * 8]), 1.0)", marks=contract("B088", "B089")),
        pytest.param(SWAPS, marks=contract("B054", "B055")),
    ],
)  # fmt: skip
def test_what_is_chosen(body: str) -> None:
    assert reason(LOADS + body + "\n" + STORE) is None


@contract("B046")
def test_a_fill_of_bf16_is_not_chosen() -> None:
    why = reason("r = pl.tile.full([16, 64], dtype=pl.BF16, value=2.0)\n" + STORE, "BF16")
    assert why == "tile.full of bfloat16 has no buffer form"
    assert reason("r = pl.load(x, [0, 0], [16, 64])\n" + STORE, "BF16") is None


@contract("B027")
def test_rows_that_are_no_whole_blocks_are_refused_before() -> None:
    with pytest.raises(CompileError, match="blocks of 32 bytes"):
        reason("r = pl.load(x, [0, 0], [16, 12])\n" + STORE)


@contract("B068", "B236")
def test_queries_become_queries_of_the_buffer_stage() -> None:
    t = "pl.Tensor[[64, 64], pl.FP32]"
    text = "i = pl.get_block_idx()\nr = pl.load(x, [i, 0], [16, 64])\npl.store(r, [0, 0], o)"
    f = kernel_of(lower(scope(text, f"x: {t}, o: pl.Out[{t}]"), PassOptions()).device)
    (query,) = [s for s in walk(f.body) if isinstance(s, AssignStmt) and isinstance(s.value, Call) and "block" in s.value.op.name]
    assert isinstance(query.value, Call)
    assert query.value.op.name.startswith("buffer.")
    assert isinstance(query.value.type, ScalarType)
    assert query.value.type.dtype.name == "INDEX"


@contract("B007")
def test_the_choice_is_not_made_again() -> None:
    t = "pl.Tensor[[64, 64], pl.FP32]"
    text = "r = pl.load(x, [0, 0], [16, 64])\nfor i in pl.range(3):\n    r = pl.add(r, r)\npl.store(r, [0, 0], o)"
    p = scope(text, f"x: {t}, o: pl.Out[{t}]")
    for last in ("select_buffer_ir_functions", "materialize_semantic_aliases", "memory_reuse", "allocate_memory_addr"):
        assert kernel_of(through(p, last)).attrs["buffer_ir_selected"] is True

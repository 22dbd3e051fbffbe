"""A declared cache policy reaches every load of its tensor, and no other."""

from __future__ import annotations

import pytest
from back_lab import kernel_of, raw_kernel
from convert_kit import T, calls_of, of_params, raw_converted
from pass_lab import apply

from pypto.enums import MemorySpace
from pypto.passes.pipeline import ORDER

contract = pytest.mark.contract
ATTRS = '{"cache_policy": [(0, 1)]}'
PARAMS = f"x: {T}, y: {T}, o: pl.Out[{T}]"
LOAD = "pl.tile.load(x, [0, 0], [16, 64], [16, 64]{})\n"


def caches(f) -> dict[str, list[int | None]]:
    """The policies of the loads, by parameter."""
    found: dict[str, list[int | None]] = {}
    for c in calls_of(f, "tile.load"):
        found.setdefault(of_params(f, c), []).append(c.kwargs.get("cache"))
    return found


@contract("T058", "T059", "T060", "T063")
def test_loads_that_the_pass_makes_say_the_policy():
    f = raw_converted("u = pl.tensor.add(x, y)\nr = pl.tensor.assemble(o, u, [0, 0])", PARAMS, attrs=ATTRS)
    assert caches(f) == {"x": [1], "y": [None]}
    assert "cache_policy" not in f.attrs


@contract("T060")
def test_loads_at_each_use_and_of_slices_say_the_policy():
    body = (
        "a = pl.tensor.adds(x, 1.0)\nw = pl.tensor.write(x, [0, 0], pl.const(1.0, pl.FP32))\n"
        "b = pl.tensor.adds(w, 2.0)\ns = pl.tensor.slice(w, [4, 64], [0, 0])\nt = pl.tensor.adds(s, 1.0)\n"
        "z = pl.tensor.adds(y, 1.0)"
    )
    f = raw_converted(body, PARAMS, attrs=ATTRS)
    loads = calls_of(f, "tile.load")
    assert [c.kwargs.get("cache") for c in loads if of_params(f, c) != "y"] == [1, 1, 1]
    assert [c.kwargs.get("cache") for c in loads if of_params(f, c) == "y"] == [None]


@contract("T060")
def test_loads_for_the_matrix_unit_say_the_policy():
    mat = "pl.Tensor[[64, 64], pl.FP16]"
    f = raw_converted(
        "s = pl.tensor.slice(x, [32, 64], [0, 0])\nm = pl.tensor.matmul(s, y, out_dtype=pl.FP32)\n"
        "r = pl.tensor.assemble(o, m, [0, 0])",
        f"x: {mat}, y: {mat}, o: pl.Out[pl.Tensor[[32, 64], pl.FP32]]",
        attrs='{"cache_policy": [(0, 1), (1, 0)]}',
    )
    assert caches(f) == {"x": [1], "y": [0]}
    assert {c.kwargs["target_memory"] for c in calls_of(f, "tile.load")} == {MemorySpace.Mat}


@contract("T061", "T062")
@pytest.mark.parametrize(("own", "declared", "want"), [("", 1, 1), (", cache=0", 1, 0), (", cache=1", 0, 1), (", cache=1", 1, 1)])
def test_a_load_of_the_body_says_the_policy_or_keeps_its_own(own, declared, want):
    body = "t = " + LOAD.format(own) + "r = pl.tile.store(t, [0, 0], o)"
    f = raw_converted(body, PARAMS, attrs=ATTRS.replace("(0, 1)", f"(0, {declared})"))
    assert caches(f) == {"x": [want]}


@contract("T063")
def test_the_declaration_is_gone_even_where_nothing_else_changes():
    f = raw_converted("t = " + LOAD.format("") + "r = pl.tile.store(t, [0, 0], o)", PARAMS, attrs=ATTRS)
    assert dict(f.attrs) == {}


@contract("T064")
def test_the_policy_travels_to_the_end():
    body = "u = pl.tensor.add(x, y)\nr = pl.tensor.assemble(o, u, [0, 0])\nreturn r"
    p = raw_kernel(body, PARAMS, T, ATTRS)
    for name in ORDER[ORDER.index("convert_tensor_to_tile_ops") :]:
        p = apply(p, name)
        assert caches(kernel_of(p)) == {"x": [1], "y": [None]}, name

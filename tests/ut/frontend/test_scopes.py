"""Scopes and windows: the IR that `with`, `pl.spmd` and square brackets stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from frontend_kit import Kernel, arrays, entry, f32, incore, kernel, module, parsed, printed, round_trip

import pypto.language as pl
from pypto.enums import Level, Role, SplitMode
from pypto.ir.expr import Submit, TupleGetItemExpr
from pypto.ir.program import Program
from pypto.ir.rewrite import walk
from pypto.ir.stmt import (
    ClusterScopeStmt,
    HierarchyScopeStmt,
    InCoreScopeStmt,
    RuntimeScopeStmt,
    SplitAivScopeStmt,
    SpmdScopeStmt,
    flatten_to_stmts,
)


def statements(program: Program, name: str = "k") -> list[Any]:
    f = program.get_function(name)
    assert f is not None
    return flatten_to_stmts(f.body)


def test_at() -> None:
    program = parsed(
        """
        with pl.at(pl.Level.CORE_GROUP, name_hint="stage0", windowize=True, allow_early_resolve=False,
                   optimizations=[pl.split(pl.SplitMode.LEFT_RIGHT), pl.cross_core_slot(slot_num=4)]):
            x = pl.load(a, [0, 0], [16, 64])
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(a, [0, 0], [16, 64]), [0, 0], o)
        with pl.at(level=pl.Level.HOST, role=pl.Role.Orchestrator):
            pass
        """,
        scoped=False,
    )
    first, second, third, _ = statements(program)
    assert isinstance(first, InCoreScopeStmt)
    assert (first.split, first.name_hint) == (SplitMode.LEFT_RIGHT, "stage0")
    assert dict(first.attrs) == {"slot_num": 4, "windowize": True}
    assert second.split is SplitMode.NONE
    assert isinstance(third, HierarchyScopeStmt)
    assert (third.level, third.role) == (Level.HOST, Role.Orchestrator)
    round_trip(program)


def test_tasks_run_in_program_order() -> None:
    made = kernel(
        """
        with pl.manual_scope():
            with pl.at(level=pl.Level.CORE_GROUP, dumps=[a], no_dep_args=[b]) as t0:
                o[:] = pl.exp(a)
            with pl.at(level=pl.Level.CORE_GROUP, deps=[t0, None]) as t1:
                o[:] = pl.exp(a)
            with pl.spmd(2, deps=[t1]) as t2:
                i = pl.tile.get_block_idx()
                pl.store(pl.load(a, [i * 8, 0], [8, 64]), [i * 8, 0], o)
        with pl.scope(mode=pl.ScopeMode.AUTO):
            pl.dump_tag(a)
        """,
        scoped=False,
    )
    made.options["auto_scope"] = False
    program = made.parse(*arrays()).program
    manual, auto, _ = statements(program)
    assert isinstance(manual, RuntimeScopeStmt)
    assert (manual.manual, auto.manual) == (True, False)
    round_trip(program)


def test_spmd_makes_kernels_of_its_body() -> None:
    program = parsed(
        """
        for blk in pl.spmd(4, name_hint="rows", sync_start=True):
            pl.store(pl.load(a, [blk * 4, 0], [4, 64]), [blk * 4, 0], o)
        """,
        scoped=False,
    )
    spmd, _ = statements(program)
    assert isinstance(spmd, SpmdScopeStmt)
    assert spmd.sync_start
    assert isinstance(spmd.body, InCoreScopeStmt)
    assert spmd.body.name_hint == "rows"
    assert "blk = pl.tile.get_block_idx()" in program.as_python(concise=True)
    round_trip(program)


@incore
def half(a: pl.Tensor, o: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
    i = pl.tile.get_block_idx()
    pl.store(pl.load(a, [i * 8, 0], [8, 64]), [i * 8, 0], o)
    return o


def test_spmd_may_dispatch_a_kernel() -> None:
    @entry
    def k(a: pl.Tensor, o: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
        with pl.cluster(name_hint="pair"), pl.spmd(2):
            o = half(a, o)
        return o

    @entry
    def nested(a: pl.Tensor, n: pl.INDEX, o: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
        with pl.cluster(name_hint="pair"):
            with pl.spmd(n):
                o = half(a, o)
        return o

    made: Kernel = nested
    program = made.parse(f32(16, 64), 2, f32(16, 64)).program
    cluster, _ = statements(program, "nested")
    assert isinstance(cluster, ClusterScopeStmt)
    assert isinstance(cluster.body, SpmdScopeStmt)
    assert not any(isinstance(s, InCoreScopeStmt) for s in walk(cluster))
    round_trip(program)
    with pytest.raises(Exception, match="one context manager"):
        k.parse(f32(16, 64), f32(16, 64))


def test_vector_lanes() -> None:
    program = parsed(
        """
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            pl.store(pl.load(a, [lane * 8, 0], [8, 64]), [lane * 8, 0], o)
        """
    )
    scope, _ = statements(program)
    assert isinstance(scope.body, SplitAivScopeStmt)
    assert (scope.body.split, scope.body.count) == (SplitMode.UP_DOWN, 2)
    round_trip(program)


def test_submissions() -> None:
    space = module(
        """
        T = pl.Tensor[[16, 64], pl.FP32]
        @pl.program
        class P:
            @pl.function(type=pl.FunctionType.InCore)
            def k(self, a: pl.Tensor[[16, 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
                return o
            @pl.function(type=pl.FunctionType.Orchestration)
            def main(self, a: pl.Tensor[[16, 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
                with pl.manual_scope():
                    o, t0 = pl.submit(self.k, a, o)
                    o, t1 = pl.spmd_submit(self.k, pl.no_dep(a), o, core_num=8, sync_start=True, deps=[t0, None])
                return o
        """
    )
    submits = [s for s in walk(space["P"]) if isinstance(s, Submit)]
    assert [len(s.deps) for s in submits] == [0, 1]
    assert submits[1].core_num.value == 8  # type: ignore[union-attr]
    assert submits[1].sync_start
    assert sum(isinstance(s, TupleGetItemExpr) for s in walk(space["P"])) == 4
    round_trip(space["P"])


# -- windows -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("x = a[2, 3]", "x = pl.tensor.read(a, [2, 3])"),
        ("x = a[2:6, :]", "x = pl.tensor.slice(a, [4, 64], [2, 0])"),
        ("x = a[4:]", "x = pl.tensor.slice(a, [12, 64], [4, 0])"),
        ("x = a[:]", "x = pl.tensor.slice(a, [16, 64], [0, 0])"),
        ("x = a[3]", "x = pl.tensor.slice(a, [1, 64], [3, 0], [], [0])"),
        ("x = a[3, 8:16]", "x = pl.tensor.slice(a, [1, 8], [3, 8], [], [0])"),
        ("x = a[8:16][0:4, 1]", "x = pl.tensor.slice(pl.tensor.slice(a, [8, 64], [8, 0]), [4, 1], [0, 1], [], [1])"),
        ("for i in pl.range(4):\n    x = a[i * 4:i * 4 + 4, :]", "x = pl.tensor.slice(a, [4, 64], [i * 4, 0])"),
        ("t = pl.load(a, [0, 0], [16, 64])\nx = t[2, 3]", "x = pl.tile.read(t, [2, 3])"),
        ("t = pl.load(a, [0, 0], [16, 64])\nx = t[0:8, 16:32]", "x = pl.tile.slice(t, [8, 16], [0, 16])"),
        ("o[2:6, :] = a[0:4, :]", "o = pl.tensor.assemble(o, pl.tensor.slice(a, [4, 64], [0, 0]), [2, 0])"),
        ("o[3, 8:16] = a[3, 0:8]", "pl.tensor.reshape(pl.tensor.slice(a, [1, 8], [3, 0], [], [0]), [1, 8]), [3, 8])"),
        ("o[3] = a[4]", "pl.tensor.reshape(pl.tensor.slice(a, [1, 64], [4, 0], [], [0]), [1, 64]), [3, 0])"),
    ],
)
def test_square_brackets(text: str, made: str) -> None:
    assert made in printed(text), printed(text)


def test_windows_of_tiles_are_written_in_place() -> None:
    o = f32(8, 8)
    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    kernel(
        """
        t = pl.load(a, [0, 0], [8, 8])
        t[0:4, :] = pl.add(t[4:8, :], 100.0)
        pl.write(t, [7, 7], pl.const(-1, pl.FP32))
        pl.store(t, [0, 0], o)
        """,
        "a: pl.Tensor, o: pl.Out[pl.Tensor]",
    )(a, o)
    want = a.copy()
    want[:4] = a[4:] + 100
    want[7, 7] = -1
    np.testing.assert_array_equal(o, want)

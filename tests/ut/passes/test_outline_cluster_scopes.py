"""OutlineClusterScopes: wrappers, and what a launch carries."""

import numpy as np
from pass_lab import agree, apply, body, findings, main, out

from pypto.enums import FunctionType, ParamDirection
from pypto.ir.verify.properties import IRProperty

X = "pl.Tensor[[32, 16], pl.FP32]"
XO = f"x: {X}, n: pl.Scalar[pl.INDEX], o: pl.Out[{X}]"
A = np.arange(512, dtype=np.float32).reshape(32, 16)
PASSES = ("convert_to_ssa", "outline_incore_scopes", "outline_cluster_scopes")


def done(text: str):
    p = body(text, XO)
    got = apply(p, *PASSES)
    assert findings(got, IRProperty.SSAForm, IRProperty.TypeChecked) == []
    assert findings(got, IRProperty.ClusterOutlined) == []
    assert findings(got, IRProperty.OrchestrationReferencesResolved) == []
    agree(p, got, [A, 2, out(32, 16)], [A, 4, out(32, 16)])
    return got


def of_type(p, kind):
    return [f for f in p.function_list if f.func_type is kind]


def test_spmd_blocks():
    got = done("""
        for b in pl.spmd(n, sync_start=True):
            pl.store(pl.load(x, [b * 8, 0], [8, 16]), [b * 8, 0], o)
        return o
        """)
    (wrapper,) = of_type(got, FunctionType.Spmd)
    assert wrapper.name == "main_spmd_0"
    assert "core_num" not in wrapper.attrs
    call = main(got).body.stmts[0].value
    assert call.attrs["core_num"] is main(got).params[1]
    assert call.attrs["sync_start"] is True
    assert wrapper.param_directions == (ParamDirection.In, ParamDirection.Out)
    assert wrapper.body.stmts[-1].value == (wrapper.params[1],)


def test_clusters_take_the_block_count_of_their_region():
    got = done("""
        with pl.cluster():
            for b in pl.spmd(4):
                pl.store(pl.load(x, [b * 8, 0], [8, 16]), [b * 8, 0], o)
        return o
        """)
    (group,) = of_type(got, FunctionType.Group)
    assert group.attrs["spmd_unwrapped"] is True
    assert not of_type(got, FunctionType.Spmd)
    call = main(got).body.stmts[0].value
    assert call.attrs["core_num"].value == 4
    assert "sync_start" not in call.attrs

"""MaterializeTensorStrides: a view of a tensor in a kernel says its strides.

In: kernels whose parameters may have a view without strides (packed).  Out: the view has the packed strides of its
layout written out; a tensor without a view stays without one.
"""

from __future__ import annotations

from typing import Any

from pypto.enums import TensorLayout
from pypto.errors import NotSupportedError
from pypto.ir import arith
from pypto.ir.expr import Expr, Var, const_index
from pypto.ir.program import Function
from pypto.ir.shaped import TensorType
from pypto.ir.types import Type
from pypto.ir.verify.properties import IRProperty
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.ssa_rewriter import SSARewriter

__all__ = ["materialize_tensor_strides", "packed_strides"]


def packed_strides(shape: tuple[Expr, ...], layout: TensorLayout) -> tuple[Expr, ...]:
    """Strides in elements of a packed tensor: row-major for ND, the last two axes exchanged for DN.

    NotSupportedError for layouts that flat strides cannot express.
    """
    if layout not in (TensorLayout.ND, TensorLayout.DN):
        what = f"{layout.name} tensors have no flat strides"
        raise NotSupportedError(what, hint="annotate the tensor without a layout, or with pl.ND")
    strides: list[Expr] = [const_index(1)] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = arith.mul(strides[i + 1], shape[i + 1])
    if layout is TensorLayout.DN and len(shape) > 1:
        strides[-2:] = [const_index(1), shape[-2]]
    return tuple(strides)


def _materialized(t: Type) -> Type:
    if not isinstance(t, TensorType) or t.tensor_view is None or t.tensor_view.stride:
        return t
    return t.replace(tensor_view=t.tensor_view.replace(stride=packed_strides(t.shape, t.tensor_view.layout)))


@function_pass("MaterializeTensorStrides", produces=(IRProperty.TensorViewCanonical,))
def materialize_tensor_strides(f: Function, options: PassOptions) -> Function:
    if not f.is_device:
        return f
    rewriter = SSARewriter()
    params: list[Var] = []
    for p in f.params:
        t = _materialized(p.type)
        new = p if t is p.type else Var(p.name_hint, t, p.span)
        if new is not p:
            rewriter.vars[p] = new
        params.append(new)
    if not rewriter.vars:
        return f
    changes: dict[str, Any] = {"params": tuple(params), "return_types": tuple(_materialized(t) for t in f.return_types)}
    return rewriter.function(f).replace(**changes)

"""torch on the CPU, operator by operator, or one call where it has one; arrays are shared with numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.case import Data
from benchmarks.kernels.attention import SCALE
from benchmarks.kernels.norms import EPSILON

Tensor = torch.Tensor


def _sum_times(out: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.add(a, b, out=out).mul_(b)


def _chain(out: Tensor, a: Tensor, b: Tensor) -> Tensor:
    e = torch.mul(a, -0.5).exp_()
    r = torch.mul(b, b).add_(1).sqrt_()
    return torch.add(e, a, out=out).div_(r).sub_(b).clamp_(min=0.25).mul_(e)


def _softmax(out: Tensor, x: Tensor) -> Tensor:
    return torch.softmax(x, 1, out=out)


def _rms_norm(out: Tensor, x: Tensor, gain: Tensor) -> Tensor:
    return F.rms_norm(x, (x.shape[1],), gain[0], EPSILON)


def _layer_norm(out: Tensor, x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    return F.layer_norm(x, (x.shape[1],), gain[0], shift[0], EPSILON)


def _product(out: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.mm(a, b, out=out)


def _widened(out: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """A product of halves is a half in torch; the sum in FP32 is asked for by converting first."""
    return torch.mm(a.float(), b.float(), out=out)


def _int8(out: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch._int_mm(a, b)


def _linear(out: Tensor, x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    return torch.addmm(bias, x, w, out=out).relu_()


def _attention(out: Tensor, q: Tensor, k: Tensor, v: Tensor, length: int) -> Tensor:
    q4, k4, v4 = (x.view(1, -1, length, x.shape[1]) for x in (q, k, v))
    return F.scaled_dot_product_attention(q4, k4, v4, scale=SCALE).view(q.shape)


def _transpose(out: Tensor, x: Tensor) -> Tensor:
    return out.copy_(x.T)


def _columns(out: Tensor, x: Tensor, first: int) -> Tensor:
    return out.copy_(x[:, first : first + out.shape[1]])


def _side_by_side(out: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.cat((a, b), 1, out=out)


def _rows_by_number(out: Tensor, x: Tensor, index: Tensor) -> Tensor:
    return torch.index_select(x, 0, index[0], out=out)


CALLS: dict[str, Callable[..., Tensor]] = {
    "sum_times": _sum_times,
    "chain": _chain,
    "softmax": _softmax,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "product_f32": _product,
    "product_f16": _widened,
    "product_bf16": _widened,
    "product_i8": _int8,
    "linear": _linear,
    "attention": _attention,
    "transpose": _transpose,
    "columns": _columns,
    "side_by_side": _side_by_side,
    "rows_by_number": _rows_by_number,
}


def _tensor(x: np.ndarray) -> Tensor:
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def prepare(function: str, data: Data) -> Callable[[], Any] | None:
    call, inputs, out = CALLS[function], [_tensor(x) for x in data.inputs], _tensor(np.empty_like(data.out))

    def run() -> Tensor:
        with torch.inference_mode():
            return call(out, *inputs, *data.numbers)

    return run


def as_numpy(result: Any) -> np.ndarray:
    return result.numpy()

"""Kernels of any number of operators, as text: for PyPTO, and as a loop in C.

`salt` makes a kernel that no cache knows.
"""

from __future__ import annotations

__all__ = ["c_source", "module"]

STEPS = (
    "t + b",
    "t * 0.75",
    "maximum(t, 0.25)",
    "t - 0.125",
    "t * b",
    "sqrt(t)",
    "t + 0.5",
    "minimum(t, 2.5)",
    "t / 1.25",
    "b - t",
)


def _steps(n: int) -> list[str]:
    return ["t = a", *(f"t = {STEPS[i % len(STEPS)]}" for i in range(n))]


def module(n: int, salt: int) -> str:
    """A module with a kernel of n operators, and `expected(n, x)`, the result for a = b = x of FP32."""
    for_kernel = [
        s.replace("maximum", "pl.maximum").replace("minimum", "pl.minimum").replace("sqrt", "pl.sqrt") for s in _steps(n - 1)
    ]
    for_numpy = [
        s.replace("maximum", "np.maximum").replace("minimum", "np.minimum").replace("sqrt", "np.sqrt") for s in _steps(n - 1)
    ]
    return "\n".join(
        [
            "import numpy as np",
            "import pypto.language as pl",
            "@pl.jit",
            f"def k{n}(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):",
            "    with pl.at(level=pl.Level.CORE_GROUP):",
            *(f"        {s}" for s in for_kernel),
            f"        out[:] = t + {salt}.0",
            "    return out",
            "def expected(n, x):",
            "    a = b = x.astype(np.float64)",
            *(f"    {s}" for s in for_numpy),
            f"    return t + {salt}.0",
            "",
        ]
    )


def c_source(n: int) -> str:
    """A loop over 512 elements with as many operators."""
    steps = [s.replace("maximum", "fmaxf").replace("minimum", "fminf").replace("sqrt", "sqrtf") for s in _steps(n)]
    lines = [s.replace(".75", ".75f").replace(".25", ".25f").replace(".125", ".125f").replace(".5", ".5f") for s in steps]
    lines = [s.replace("ff", "f").replace(".25f", ".25f") for s in lines]
    body = "\n".join(f"        {s};" for s in lines).replace("t = a", "float t = x[i]").replace(" b", " y[i]")
    head = "#include <math.h>\nvoid many(const float *restrict x, const float *restrict y, float *restrict o)\n{\n"
    return head + "    for (int i = 0; i < 512; ++i) {\n" + body + "\n        o[i] = t;\n    }\n}\n"

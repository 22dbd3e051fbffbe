"""What a name that the language does not have was probably meant to be.

In: the name, and those there are.  Out: a hint.
"""

from __future__ import annotations

from collections.abc import Iterable

from pypto.errors import meant

__all__ = ["near"]

_WIDE = "there is no float wider than FP32: write pl.FP32"
_ELSEWHERE = {
    **dict.fromkeys(("FP64", "FLOAT64", "DOUBLE", "F64"), _WIDE),
    **dict.fromkeys(("FLOAT32", "FLOAT", "F32", "SINGLE"), "did you mean 'FP32'?"),
    **dict.fromkeys(("FLOAT16", "F16", "HALF"), "did you mean 'FP16'?"),
    **dict.fromkeys(("BFLOAT16",), "did you mean 'BF16'?"),
    **dict.fromkeys(("INT", "I32"), "did you mean 'INT32'?"),
}


def near(name: str, known: Iterable[str]) -> str | None:
    """A hint: a dtype that is called otherwise elsewhere, or a name that looks alike."""
    return _ELSEWHERE.get(name.upper()) or meant(name, known)

"""Python source of kernels -> `ir.Program`; nothing of a kernel's body is executed.

`source.py` captures text at decoration and is all that a warm call needs; the parser modules load on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

# public name -> module that has it; resolved on first use, so that capturing source does not load the IR
_PUBLIC = {
    "Helper": "invoke",
    "InlineFunction": "functions",
    "Parameter": "signatures",
    "ParsedKernel": "kernels",
    "ScalarArg": "specialization",
    "Source": "source",
    "StaticArg": "specialization",
    "StaticParameterNeeded": "specialization",
    "TensorArg": "specialization",
    "capture": "source",
    "dynamic_dims": "signatures",
    "function": "functions",
    "inline": "functions",
    "loads": "text",
    "loads_program": "text",
    "parse": "text",
    "parse_function": "functions",
    "parse_kernel": "kernels",
    "parse_program": "text",
    "program": "functions",
    "signature": "signatures",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)

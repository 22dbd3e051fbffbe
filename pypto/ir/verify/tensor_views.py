"""Judge of TensorViewCanonical: a tensor view that is present has strides, and packed strides are written as such.

Code 541, in the strict form that follows the materialization of strides.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.ir.program import Program
from pypto.ir.shaped import TensorType
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.scopes import definitions

__all__ = ["tensor_view_canonical"]


def tensor_view_canonical(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        for v in (*f.params, *definitions(f.body)):
            t = v.type
            view = t.tensor_view if isinstance(t, TensorType) else None
            if isinstance(t, TensorType) and view is not None and len(view.stride) != t.rank:
                message = f"the view of '{v.name_hint}' has {len(view.stride)} strides for rank {t.rank}"
                yield Diagnostic(Severity.Error, "TensorViewCanonical", 541, message, v.span)

"""What a kernel expects of its run: that storage was written before it is read.

In: a condition, computed from the kernel's scalars.  Out: nothing; where the condition does not hold the call ends there.
The compiler puts these in (`passes/check_written.py`); nobody types them, and the chip has no instruction for them.
"""

from __future__ import annotations

from pypto.dtypes import DataType
from pypto.ir.opdef import Attr, OpDef, Operand, Site, Special
from pypto.ir.ops.rules import R
from pypto.ir.types import Type, VoidType

__all__ = ["OPS"]


def _expected(s: Site) -> Type:
    if s.scalar(0) is not DataType.BOOL:
        s.reject(f"the condition must be a bool, got {s.scalar(0)}", kind=TypeError)
    return VoidType.get()


OPS = tuple(
    OpDef(
        f"{level}.expect_written",
        (Operand("written", "scalar"),),
        _expected,
        Special("expect"),
        effects=(R,),
        attrs=(Attr("name", (str,), required=True),),
        ordered=True,
        returns=False,
        doc="an error where the variable of that name is read and nothing has written it",
    )
    for level in ("tile", "buffer")
)

"""Barriers and flags between cores, as `.pto` text.

In: operators of `pypto.ir.ops.system`.  Out: one instruction each; a prefetch, which changes no number, has none.
"""

from __future__ import annotations

from pypto.codegen.pto.local_arrays import LocalArrays
from pypto.codegen.pto.text import Value
from pypto.errors import NotSupportedError
from pypto.ir.expr import Call, ConstInt, Expr, Var
from pypto.ir.opdef import OpDef
from pypto.ir.ops.system import HARD
from pypto.span import Span

__all__ = ["System"]


class System(LocalArrays):
    """What cores tell each other."""

    def tensor_pointer(self, e: Expr) -> Value:
        """The pointer of a tensor."""
        raise NotImplementedError

    def on_meet(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        if c.kwargs.get("mode", HARD) != HARD:
            what = "a barrier that counts in global memory has no .pto form"
            raise NotSupportedError(what, span, 'launch as many blocks as there are cores, and write mode="hard"')
        core = c.kwargs.get("core_type", "mix")
        self.text.op(f"pto.syncall() mode = #pto.sync_all_mode<hard>, core_type = #pto.sync_core_type<{core}>", span)

    def on_flag(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        if op.concept == "set_ffts":
            pointer = self.tensor_pointer(c.args[0])
            self.text.op(f"pto.set_ffts {pointer.name} : {pointer.type}", span)
            return
        event = c.args[0]
        number = str(event.value) if isinstance(event, ConstInt) else self.index(event)
        words = [f"{k} = {v} : i32" for k, v in c.kwargs.items() if k == "ffts_mode"]
        words += [f"core_type = #pto.sync_core_type<{v}>" for k, v in c.kwargs.items() if k == "core_type"]
        more = f" {{{', '.join(words)}}}" if words else ""
        self.text.op(f"pto.{op.pto} <PIPE_{c.kwargs['pipe'].name}>, {number}{more}", span)

    def on_prefetch(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        """A hint, for which the text has no instruction."""

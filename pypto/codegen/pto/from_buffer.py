"""Buffer-stage functions as `.pto` text: one operation each.

In: a device function of the buffer stage.  Out: its text.  A handle is an SSA value; an operation that writes a
destination names it under `outs`.  Nothing is found out here that the function does not say.
"""

from __future__ import annotations

from pypto.codegen.pto.function import FunctionText
from pypto.codegen.pto.instructions import attributes
from pypto.codegen.pto.text import Value
from pypto.codegen.pto.types import tile_buf
from pypto.dtypes import DataType
from pypto.enums import ArgEffect
from pypto.errors import InternalError
from pypto.ir.expr import Call, ConstInt, Expr, MakeTuple, Var
from pypto.ir.opdef import Matmul, OpDef
from pypto.ir.scalar import dtype_of
from pypto.ir.shaped import BufferType
from pypto.span import Span

__all__ = ["BufferText"]


class BufferText(FunctionText):
    """Writes a function of the buffer stage."""

    def handle(self, e: Expr) -> Value:
        """Storage, by its handle."""
        known = self.values.get(e) if isinstance(e, Var) else None
        if known is None:
            raise InternalError(f"{self.f.name}: {e!r} is no handle")
        return known

    def _bind(self, var: Var | None) -> Value:
        assert var is not None
        assert isinstance(var.type, BufferType)
        made = self.values[var] = Value(self.text.named(var.name_hint), tile_buf(var.type), var.type)
        return made

    def _extents(self, e: Expr) -> list[str]:
        assert isinstance(e, MakeTuple)
        return [self.index(x) for x in e.elements]

    # -- storage --

    def on_alloc(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        made = self._bind(var)
        assert var is not None
        assert isinstance(var.type, BufferType)
        words = [f"addr = {self._address(c.args[1])}"] if len(c.args) > 1 else []
        dynamic = [n for n, v in zip(("valid_row", "valid_col"), var.type.valid_shape, strict=True) if v < 0]
        words += [f"{n} = {x}" for n, x in zip(dynamic, self._extents(c.args[0]), strict=True)]
        self.text.op(f"{' '.join([f'{made.name} = pto.alloc_tile', *words])} : {made.type}", span)

    def _address(self, e: Expr) -> str:
        if isinstance(e, ConstInt):
            return self.text.integer(e.value, "i64").name
        return self.cast(self.value(e), dtype_of(e), DataType.INT64, e).name

    def on_set_valid(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        handle = self.handle(c.args[0])
        self.text.op(f"pto.set_validshape {', '.join((handle.name, *self._extents(c.args[1])))} : {handle.type}", span)

    def on_view(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        source = self.handle(c.args[0])
        assert var is not None
        assert isinstance(var.type, BufferType)
        if op.concept == "reshape":
            made = self._bind(var)
            self.text.op(f"{made.name} = pto.treshape {source.name} : {source.type} -> {made.type}", span)
            return
        at = self._extents(c.args[1])
        valid = f" valid [{', '.join(self._extents(c.args[2]))}]" if len(c.args) > 2 else ""
        made = self._bind(var)
        sizes = ", ".join(str(n) for n in var.type.physical_shape)
        self.text.op(
            f"{made.name} = pto.subview {source.name}[{', '.join(at)}] sizes [{sizes}]{valid} : {source.type} -> {made.type}",
            span,
        )

    # -- transfers --

    def on_load(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        tensor, offsets, valids, destination = c.args
        window = self._window(tensor, offsets, valids)
        self.instruction("tload", [window], [self.handle(destination)], span)

    def on_store(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        source, offsets, valids, tensor = c.args
        window = self._window(tensor, offsets, valids)
        self.instruction("tstore", [self.handle(source)], [window], span)

    def _window(self, tensor: Expr, offsets: Expr, valids: Expr) -> Value:
        assert isinstance(offsets, MakeTuple)
        assert isinstance(valids, MakeTuple)
        return self.partition(self.tensor(tensor), offsets.elements, valids.elements)

    def operation(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        """Operands, then the destination; a product that accumulates reads its destination first."""
        *operands, destination = c.args
        ins = [self.handle(a) if isinstance(a.type, BufferType) else self.operand(a) for a in operands]
        out = self.handle(destination)
        if isinstance(op.semantics, Matmul):
            self.check_pitch(ins[0], out, span)
        if op.effect(len(operands), c.kwargs) is ArgEffect.ReadWrite:
            ins.insert(0, out)
        assert isinstance(destination.type, BufferType)
        dtype = destination.type.dtype
        inside, after = attributes(op, c.kwargs, dtype, dtype)
        self.instruction(op.pto, ins, [out], span, inside, after)

    def operand(self, e: Expr) -> Value:
        """A scalar operand; positions are indices."""
        v = self.value(e)
        return Value(self.index(e), "index") if dtype_of(e) is DataType.INDEX else v

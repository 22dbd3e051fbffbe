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
from pypto.errors import InternalError, NotSupportedError
from pypto.ir.expr import Call, ConstInt, Expr, MakeTuple, Var
from pypto.ir.opdef import Matmul, OpDef
from pypto.ir.program import Function
from pypto.ir.scalar import dtype_of
from pypto.ir.shaped import BufferType
from pypto.span import Span

__all__ = ["BufferText"]


class BufferText(FunctionText):
    """Writes a function of the buffer stage."""

    def __init__(self, f: Function, arch: str, locations: bool) -> None:
        super().__init__(f, arch, locations)
        self.addresses: dict[str, str] = {}  # of handles

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
        if len(c.args) > 1:
            self.addresses[made.name] = self._address(c.args[1])
        words = [f"addr = {self.addresses[made.name]}"] if len(c.args) > 1 else []
        dynamic = [n for n, v in zip(("valid_row", "valid_col"), var.type.valid_shape, strict=True) if v < 0]
        words += [f"{n} = {x}" for n, x in zip(dynamic, self._extents(c.args[0]), strict=True)]
        self.text.alloc_tile(made, words, span)

    def _address(self, e: Expr) -> str:
        if isinstance(e, ConstInt):
            return self.text.integer(e.value, "i64").name
        return self.cast(self.value(e), dtype_of(e), DataType.INT64, e).name

    def on_set_valid(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        self.text.set_validshape(self.handle(c.args[0]), self._extents(c.args[1]), span)

    def on_view(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        source = self.handle(c.args[0])
        assert var is not None
        assert isinstance(var.type, BufferType)
        if op.concept == "reshape":
            self.text.treshape(self._bind(var), source, span)
            return
        at = self._extents(c.args[1])
        valid = self._extents(c.args[2]) if len(c.args) > 2 else []
        self.text.subview(self._bind(var), source, at, var.type.physical_shape, valid, span)

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
            left = ins[0].descriptor
            assert left is not None
            self.check_pitch(left.valid_shape[0] if left.valid_shape[0] >= 0 else None, out, span)
            ins[1] = self.as_deep(ins[0], ins[1], span)
        if op.effect(len(operands), c.kwargs) is ArgEffect.ReadWrite:
            ins.insert(0, out)
        assert isinstance(destination.type, BufferType)
        dtype = destination.type.dtype
        inside, after = attributes(op, c.kwargs, dtype, dtype)
        self.instruction(op.pto, ins, [out], span, inside, after)

    def as_deep(self, lhs: Value, rhs: Value, span: Span) -> Value:
        """The right operand with as many rows as the left one has columns, where constants say how many these are."""
        left, right = lhs.descriptor, rhs.descriptor
        assert left is not None
        assert right is not None
        depth, have = (d.physical_shape[i] if d.valid_shape[i] < 0 else d.valid_shape[i] for d, i in ((left, 1), (right, 0)))
        if depth == have:
            return rhs
        made = right.replace(valid_shape=(depth, right.valid_shape[1]))
        if right.valid_shape[1] < 0 or left.valid_shape[1] < 0:
            what = f"{self.doing}: {have} rows of the right operand are valid, {depth} columns of the left one"
            raise NotSupportedError(what, span, "narrow both of them with pl.set_validshape")
        alias = Value(self.text.named("rows"), tile_buf(made), made)
        address = self.addresses.get(rhs.name)
        if address is None:
            self.text.treshape(alias, rhs, span)
        else:
            self.text.alloc_tile(alias, [f"addr = {address}"], span)
        return alias

    def operand(self, e: Expr) -> Value:
        """A scalar operand; positions are indices."""
        v = self.value(e)
        return Value(self.index(e), "index") if dtype_of(e) is DataType.INDEX else v

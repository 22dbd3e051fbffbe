"""What products need of the conversion: operands in whole boxes, results in the tensor's own shape and element type.

In: operands and results of the matrix unit's operators, while a kernel's body is converted.  Out: tiles whose extents are
whole boxes, wherever an operand comes from; a result leaves the boxes where anything but a store or a product reads it.
Invariant: what lies in a box beside the tensor's elements is never valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypto.enums import MemorySpace
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, MakeTuple, Var, const_index
from pypto.ir.program import Function
from pypto.ir.shaped import TensorType, TileType, const_dim, const_dims, same_dims
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, ReturnStmt, Stmt, WhileStmt, YieldStmt, value_of
from pypto.ir.types import Type
from pypto.passes.convert_tensor_to_tile_ops.boxing import ACCUMULATORS, Box, boxed_shape, demanded_boxes
from pypto.passes.memory.spaces import staging_space
from pypto.passes.retype import used_vars
from pypto.passes.ssa_rewriter import SSARewriter
from pypto.passes.statements import statements

__all__ = ["ProductConverter"]


def _only_stored(body: Stmt) -> frozenset[Var]:
    """Values that nothing but writes of windows take."""
    stored: set[Var] = set()
    used: set[Var] = set()
    for s in statements(body):
        c = value_of(s)
        if isinstance(c, Call) and c.op.name == "tensor.assemble" and isinstance(c.args[1], Var):
            stored.add(c.args[1])
            used.update(used_vars(c.args[0]))
        elif isinstance(s, (AssignStmt, EvalStmt, YieldStmt, ReturnStmt)):
            used.update(used_vars(s))
        elif isinstance(s, (ForStmt, WhileStmt)):
            used.update(a.initValue for a in s.iter_args if isinstance(a.initValue, Var))
    return frozenset(stored - used)


class ProductConverter(SSARewriter):
    """The part of `opdef.Lower` that products use."""

    demand: Mapping[Var, MemorySpace]

    def __init__(self, f: Function) -> None:
        super().__init__()
        self.box: Box | None = None  # what the extents of the operand being bridged are rounded up to
        self.boxes = demanded_boxes(f.body)
        self.in_pieces = False  # the operand being bridged is one of a product, which is made of pieces if it does not fit
        self.only_stored = _only_stored(f.body)
        self.products: dict[Var, TensorType] = {}  # results, and the tensors they stand for
        self.binding: Var | None = None  # the variable whose value is being converted
        self.wanted: MemorySpace | None = None  # where the operand being bridged is needed

    def tile(self, e: Expr) -> Expr:
        raise NotImplementedError

    def allowed(self, call: Call, i: int) -> tuple[MemorySpace, ...] | None:
        """The memories in which the tile form of an operator reads operand i."""
        raise NotImplementedError

    # -- operands --

    def boxed(self, call: Call, args: tuple[Expr, ...], i: int) -> Expr:
        outer = self.wanted, self.box
        op = ops.of(call)
        boxes = op.boxes(call) if op is not None and op.boxes is not None else ()
        spaces = self.allowed(call, i)
        self.wanted, self.box = staging_space(spaces[0]) if spaces else None, boxes[i] if i < len(boxes) else None
        self.in_pieces = True
        made = self._in_boxes(self.tile(args[i]))
        self.wanted, self.box = outer
        self.in_pieces = False
        return made

    def _in_boxes(self, e: Expr) -> Expr:
        """A computed tile that is no whole boxes, copied into one that is."""
        t = e.type
        if not isinstance(t, TileType) or self.box is None or len(t.shape) != 2:
            return e
        shape = boxed_shape(t.shape, self.box)
        if same_dims(shape, t.shape):
            return e
        # Where it was computed: no instruction brings a part of a box from one core to the other.
        space = MemorySpace.Mat if t.memory_space is MemorySpace.Mat else MemorySpace.Vec
        made: Expr = self.emit("tile.create", (MakeTuple(shape),), {"dtype": t.dtype, "target_memory": space}, "boxed")
        made = self.emit("tile.assemble", (made, e, MakeTuple((const_index(0), const_index(0)))), None, "boxed")
        return self.emit("tile.set_validshape", (made, *t.valid), None, "boxed")

    def boxed_load(self, values: tuple[Expr, ...], hint: str) -> tuple[Expr, ...]:
        """A window that the matrix unit takes: its extents whole boxes, of which the user's are valid."""
        box = self.boxes.get(self.binding) if self.binding is not None and not hint else None
        shape = values[2]
        if box is None or not isinstance(shape, MakeTuple):
            return values
        return (*values[:2], MakeTuple(boxed_shape(shape.elements, box)), *values[3:])

    def boxed_relabel(self, values: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """A window of a tensor of more dimensions as a matrix: rounded up as the window was."""
        box = self.boxes.get(self.binding) if self.binding is not None else None
        shape, t = values[1], values[0].type
        if box is None or not isinstance(shape, MakeTuple) or not isinstance(t, TileType):
            return values
        whole = boxed_shape(shape.elements, box)
        return (values[0], MakeTuple(whole)) if same_dims(t.shape[-2:], whole) else values

    def accumulator(self, values: tuple[Expr, ...], named: dict[str, Any]) -> Var:
        """Storage that products are added up in: whole boxes, stored as the matrix unit stores them."""
        shape = values[0]
        assert isinstance(shape, MakeTuple)
        assert self.binding is not None
        rows, cols = boxed_shape(shape.elements, self.boxes.get(self.binding))
        whole = MakeTuple((rows, cols))
        compact = {} if const_dim(rows) == 16 else {"compact": True}
        named = {**named, "target_memory": self.demand[self.binding], **compact}
        made = super().emit("tile.create", (whole, *values[1:]), named, f"{self.binding.name_hint}_tile")
        return super().emit("tile.set_validshape", (made, *shape.elements), {}, f"{self.binding.name_hint}_tile")

    # -- results --

    def narrowed(self, e: Var, t: Type) -> Expr:
        assert isinstance(t, TensorType)
        if isinstance(e.type, TileType) and (e.type.dtype is not t.dtype or not same_dims(e.type.shape, t.shape)):
            self.products[e] = t
        return e

    def stored(self, e: Expr) -> Expr:
        return e if e in self.products else self.tile(e)

    def relabelled(self, c: Call, args: tuple[Expr, ...]) -> Expr | None:
        """A product under leading axes of extent 1, where it is only stored: itself, for its boxes cannot be relabelled."""
        e, t = args[0], c.type
        known = self.products.get(e) if isinstance(e, Var) else None
        if known is None or self.binding not in self.only_stored or not isinstance(t, TensorType):
            return None
        ones = [const_dim(d) == 1 for d in (*known.shape, *t.shape)]
        row = all(ones[: len(known.shape) - 1]) and all(ones[len(known.shape) : -1]) and same_dims(t.shape[-1:], known.shape[-1:])
        matrix = same_dims(t.shape[-2:], known.shape) and all(ones[len(known.shape) : -2])
        return e if row or matrix else None

    def as_computed_with(self, e: Expr) -> Expr:
        """A product in the shape and the element type of its tensor; a store converts by itself."""
        t = self.products.get(e) if isinstance(e, Var) else None
        if t is None or (self.binding is not None and self.demand.get(self.binding) in ACCUMULATORS):
            return e  # what is added to stays where it is
        assert isinstance(e.type, TileType)
        if not same_dims(e.type.shape, t.shape) and const_dims(t.shape) is not None and len(t.shape) == 2:
            zero = const_index(0)
            e = self.emit("tile.extract", (e, zero, zero, MakeTuple(t.shape)), {"target_memory": MemorySpace.Vec}, "product")
        if e.type.dtype is t.dtype:  # type: ignore[attr-defined]
            return e
        mode = {"mode": 1} if t.dtype.is_float() else {}
        return self.emit("tile.cast", (e,), {"target_type": t.dtype, **mode}, "narrow")

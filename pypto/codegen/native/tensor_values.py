"""Tensor values of the entry function: temporaries, windows, single elements.

In: tensor operators outside kernels.  Out: C pointers.  A slice or reshape is a pointer into its parent; temporaries of
constant size have fixed places in the arena, others come from the call's allocator.
"""

from __future__ import annotations

from collections.abc import Collection

from pypto.codegen.native import windows
from pypto.codegen.native.access import ZERO, Root, View
from pypto.codegen.native.emit import Emitter, Names, Sites
from pypto.codegen.native.emit_group import element_type
from pypto.codegen.native.functions import LaneFunctions
from pypto.codegen.native.scalars import expr_text, float_text, scalar_type, stored_text
from pypto.codegen.native.writer import Writer
from pypto.enums import MemorySpace
from pypto.errors import Error, InternalError, NotSupportedError
from pypto.ir import arith
from pypto.ir.expr import Call, ConstInt, Expr, MakeTuple, TupleGetItemExpr, Var, const_index
from pypto.ir.layout import physical_bytes
from pypto.ir.ops.rearrange import transposed_axes
from pypto.ir.shaped import TensorType, TensorView, const_dims
from pypto.ir.stmt import Stmt
from pypto.ir.types import ScalarType
from pypto.ir.verify.ssa import user_name
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = ["TensorValue", "TensorValues", "is_packed", "number_out_of_a_kernel"]


class TensorValue(NamedTuple):
    """A tensor value: its C pointer, its type as seen here, and the parameter it is, if it is one."""

    pointer: str
    type: TensorType
    param: int | None


def number_out_of_a_kernel(value: Expr, returned: Stmt) -> Error | InternalError:
    """Kernels hand back what they have written; a number that they compute stays in them."""
    if not isinstance(value.type, ScalarType):
        return InternalError(f"a kernel returns {value!r}, which is no parameter")
    span = value.span if value.span.is_valid() else returned.span
    name = user_name(value) if isinstance(value, Var) else ""
    what = f"the number '{name}' is used" if name else "a number is used"
    remedy = f"compute it outside of the kernel, or write it into a tensor there, pl.write(t, [0], {name or 'n'}), and read that"
    return NotSupportedError(f"{what} outside of the kernel that computes it", span, remedy)


class TensorValues:
    """What the entry knows of its tensors, and the operators on them."""

    def __init__(self, name: str, sites: Sites, arena: int, carried: Collection[Var]) -> None:
        self.name, self.sites, self.arena, self.carried = name, sites, arena, carried
        self.names, self.w = Names(), Writer()
        self.tensors: dict[Var, TensorValue] = {}
        self.tuples: dict[Var, tuple[Expr | TensorValue, ...]] = {}
        self.direct: set[int] = set()  # parameters touched element by element
        self.hidden: dict[Var, None] = {}  # temporaries that the caller provides

    def expr(self, e: Expr) -> str:
        return expr_text(e, self.names.of)

    def tensor(self, e: Expr) -> TensorValue:
        if isinstance(e, TupleGetItemExpr) and isinstance(e.tuple, Var):
            item = self.tuples[e.tuple][e.index]
            assert isinstance(item, TensorValue)
            return item
        known = self.tensors.get(e) if isinstance(e, Var) else None
        if known is None:
            raise InternalError(f"{self.name}: {e!r} is no tensor")
        return known

    def on_tensor_alloc(self, var: Var | None, call: Call, span: Span) -> None:
        """Only names what windows of storage lie in."""

    def on_tensor_create(self, var: Var | None, call: Call, span: Span) -> None:
        if var is None:
            return
        assert isinstance(var.type, TensorType)
        t = var.type
        if var not in self.hidden:
            kind, name = element_type(t.dtype), self.names.bind(var)
            dims = const_dims(t.shape)
            if dims is not None and var not in self.carried:
                self.w.line(f"{kind} *const {name} = ({kind} *)(mem + {self.place(physical_bytes(t.dtype, dims))});")
            else:
                size = str(t.dtype.get_byte())
                for extent in t.shape:
                    size = f"pp_bytes({size}, {self.expr(extent)})"
                what = f"no memory for the temporary tensor '{var.name_hint}' of {{0}} bytes\nwork on smaller tensors"
                site = self.sites.add("memory", what, span)
                self.w.line(f"{kind} *const {name} = ({kind} *)call->arena->alloc(call->arena, {size});")
                self.w.line(f"if ({name} == 0) {{")
                self.w.line(f"    return pp_fault(call, {site}, {size}, 0, 0);")
                self.w.line("}")
            self.tensors[var] = TensorValue(name, t, None)
        init = call.kwargs.get("init_value")
        if init is not None:
            self.fill(self.tensors[var], init)

    def place(self, size: int) -> int:
        at = self.arena
        self.arena += (size + 63) // 64 * 64
        return at

    def fill(self, t: TensorValue, value: float) -> None:
        dtype = t.type.dtype
        text = float_text(float(value)) if dtype.is_float() else str(int(value))
        with self.w.block(f"for (int64_t i = 0; i < {self.expr(arith.product(t.type.shape))}; ++i)"):
            self.w.line(f"{t.pointer}[i] = {stored_text(text, dtype)};")

    def on_tensor_slice(self, var: Var | None, call: Call, span: Span) -> None:
        """A pointer to the window's first element; strides stay the parent's."""
        if var is None:
            return
        parent = self.tensor(call.args[0])
        offsets, shape = call.args[2], call.args[1]
        assert isinstance(offsets, MakeTuple)
        assert isinstance(shape, MakeTuple)
        self.window_check(offsets.elements, shape.elements, parent.type.shape, span)
        strides = windows.tensor_strides(parent.type)
        offset: Expr = ZERO
        for o, st in zip(offsets.elements, strides, strict=True):
            offset = arith.add(offset, arith.mul(o, st))
        assert isinstance(var.type, TensorType)
        name = self.names.bind(var)
        self.w.line(f"{element_type(var.type.dtype)} *const {name} = {parent.pointer} + {self.expr(offset)};")
        kept = strides if len(call.args) < 5 else _without(strides, call.args[4])
        view = var.type.replace(tensor_view=_strided(var.type, kept))
        self.tensors[var] = TensorValue(name, view, parent.param)

    def window_check(
        self, offsets: tuple[Expr, ...], extents: tuple[Expr, ...], limits: tuple[Expr, ...], span: Span, what: str = "window"
    ) -> None:
        check = windows.transfer_check(offsets, extents, limits, span, what)
        if check is not None:
            Emitter(self.w, self.names, self.sites, {}, 0, LaneFunctions()).check(check)

    def on_tensor_reshape(self, var: Var | None, call: Call, span: Span) -> None:
        if var is None:
            return
        parent = self.tensor(call.args[0])
        assert isinstance(var.type, TensorType)
        if not is_packed(parent.type):
            raise NotSupportedError("a reshape of a strided window", span, "reshape the whole tensor first, then slice it")
        self.tensors[var] = parent._replace(type=var.type)

    def on_tensor_transpose(self, var: Var | None, call: Call, span: Span) -> None:
        """The same pointer under exchanged strides."""
        if var is None:
            return
        parent = self.tensor(call.args[0])
        a, b = transposed_axes(call)
        strides = list(windows.tensor_strides(parent.type))
        strides[a], strides[b] = strides[b], strides[a]
        assert isinstance(var.type, TensorType)
        self.tensors[var] = parent._replace(type=var.type.replace(tensor_view=_strided(var.type, tuple(strides))))

    on_tensor_view = on_tensor_set_validshape = on_tensor_reshape

    def on_tensor_dim(self, var: Var | None, call: Call, span: Span) -> None:
        axis = call.args[1]
        assert isinstance(axis, ConstInt)
        if var is not None:
            t = self.tensor(call.args[0]).type
            self.w.line(f"const int64_t {self.names.bind(var)} = {self.expr(t.shape[axis.value])};")

    def element(self, call: Call, span: Span) -> tuple[Emitter, View]:
        t = self.tensor(call.args[0])
        if t.param is not None:
            self.direct.add(t.param)
        indices = call.args[1]
        assert isinstance(indices, MakeTuple)
        ones = (const_index(1),) * len(indices.elements)
        self.window_check(indices.elements, ones, t.type.shape, span, "place")
        pointer = Var(t.pointer, t.type, span)
        self.names.of[pointer] = t.pointer
        view = windows.window_view(Root(MemorySpace.DDR, pointer), t.type, indices.elements, ones)
        assert view is not None
        return Emitter(self.w, self.names, self.sites, {}, 0, LaneFunctions()), view

    def on_tensor_read(self, var: Var | None, call: Call, span: Span) -> None:
        if var is not None:
            e, view = self.element(call, span)
            self.w.line(f"const {scalar_type(var)} {self.names.bind(var)} = {e.load(view)};")

    def on_tensor_write(self, var: Var | None, call: Call, span: Span) -> None:
        e, view = self.element(call, span)
        self.w.line(f"{e.element(view)} = {stored_text(self.expr(call.args[2]), view.dtype)};")
        if var is not None:
            self.tensors[var] = self.tensor(call.args[0])


# -- helpers -------------------------------------------------------------------------------------------------------


def is_packed(t: TensorType) -> bool:
    view = t.tensor_view
    if view is None or not view.stride:
        return True
    packed = windows.tensor_strides(TensorType(t.shape, t.dtype))
    return all(arith.same(a, b) or arith.is_const(n, 1) for a, b, n in zip(view.stride, packed, t.shape, strict=True))


def _strided(t: TensorType, strides: tuple[Expr, ...]) -> TensorView | None:
    packed = windows.tensor_strides(TensorType(t.shape, t.dtype))
    if all(arith.same(a, b) or arith.is_const(n, 1) for a, b, n in zip(strides, packed, t.shape, strict=True)):
        return t.tensor_view
    return TensorView(strides, valid_shape=t.valid)


def _without(strides: tuple[Expr, ...], dropped: Expr) -> tuple[Expr, ...]:
    assert isinstance(dropped, MakeTuple)
    axes = {d.value for d in dropped.elements if isinstance(d, ConstInt)}
    return tuple(s for i, s in enumerate(strides) if i not in axes)

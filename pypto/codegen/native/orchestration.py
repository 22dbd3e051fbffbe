"""The entry function: temporaries, loops and kernel calls as C.

In: an orchestration function of a final program.  Out: `pypto_entry`.  Tensors are pointer variables here; a slice or
reshape is a pointer into its parent.  Temporaries of constant size have fixed places in the arena, others come from the
call's allocator, given back after each trip of a loop that does not carry them.
"""

from __future__ import annotations

from typing import NamedTuple

from pypto.codegen.native import windows
from pypto.codegen.native.access import ZERO, Root, View
from pypto.codegen.native.device import DeviceCode, symbols_of
from pypto.codegen.native.emit import Emitter, Names, Sites
from pypto.codegen.native.emit_group import element_type
from pypto.codegen.native.functions import LaneFunctions
from pypto.codegen.native.scalars import C_TYPES, expr_text, float_text
from pypto.codegen.native.writer import Writer
from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.errors import CompileError, InternalError, NotSupportedError
from pypto.ir import arith, ops
from pypto.ir.expr import Call, ConstInt, Expr, MakeTuple, TupleGetItemExpr, Var, const_index
from pypto.ir.layout import physical_bytes
from pypto.ir.program import Function
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType, const_dims
from pypto.ir.stmt import (
    AssignStmt,
    BreakStmt,
    ContinueStmt,
    EvalStmt,
    ForStmt,
    IfStmt,
    ReturnStmt,
    RuntimeScopeStmt,
    Stmt,
    WhileStmt,
    YieldStmt,
    flatten_to_stmts,
)
from pypto.ir.types import ScalarType, Type
from pypto.span import Span

__all__ = ["Entry", "Launch", "emit_entry"]


class Launch(NamedTuple):
    """One call of a device function: which entry parameters its tensor parameters are (None: a temporary)."""

    callee: str
    arguments: tuple[int | None, ...]
    in_loop: bool


class Entry(NamedTuple):
    """The entry's C text, results (parameter indices, hidden outputs last), hidden outputs, and launches."""

    text: str
    returns: tuple[int, ...] | None
    hidden: tuple[Var, ...]
    launches: tuple[Launch, ...]
    direct: frozenset[int]  # parameters the entry itself reads or writes element by element
    scratch: int


class _Tensor(NamedTuple):
    """A tensor value: its C pointer, its type as seen here, and the parameter it is, if it is one."""

    pointer: str
    type: TensorType
    param: int | None


class EntryWriter:
    """Writes the body of `pypto_entry`."""

    def __init__(self, function: Function, devices: dict[str, DeviceCode], sites: Sites, arena: int) -> None:
        self.function, self.devices, self.sites = function, devices, sites
        self.names, self.w = Names(), Writer()
        self.tensors: dict[Var, _Tensor] = {}
        self.tuples: dict[Var, tuple[Expr | _Tensor, ...]] = {}
        self.launches: list[Launch] = []
        self.direct: set[int] = set()
        self.depth = 0
        self.arena = arena
        self.returned: tuple[Expr, ...] = ()
        self.hidden: list[Var] = []
        self.carried = _carried_tensors(function)

    # -- the function --

    def emit(self) -> Entry:
        f, w = self.function, self.w
        self.hidden = self.hidden_outputs()
        with w.block("int64_t pypto_entry(pypto_call *call)"):
            w.line("unsigned char *const mem = call->arena->base;")
            w.line("(void)mem;")
            self.parameters()
            self.body(f.body)
            w.line("return 0;")
        return Entry(w.text(), self.results(), tuple(self.hidden), tuple(self.launches), frozenset(self.direct), self.arena)

    def parameters(self) -> None:
        data = scalars = 0
        for k, s in enumerate(symbols_of(self.function)):
            self.w.line(f"const int64_t {self.names.bind(s)} = call->dims[{k}];")
        for i, p in enumerate(self.function.params):
            if isinstance(p.type, TensorType):
                t = element_type(p.type.dtype)
                self.w.line(f"{t} *const {self.names.bind(p)} = ({t} *)call->data[{data}];")
                self.tensors[p] = _Tensor(self.names.of[p], p.type, i)
                data += 1
            else:
                self.w.line(f"const {_scalar(p)} {self.names.bind(p)} = {_scalar_argument(p.type, scalars)};")
                scalars += 1
        for h in self.hidden:
            assert isinstance(h.type, TensorType)
            t = element_type(h.type.dtype)
            self.w.line(f"{t} *const {self.names.bind(h)} = ({t} *)call->data[{data}];")
            self.tensors[h] = _Tensor(self.names.of[h], h.type, len(self.function.params) + self.hidden.index(h))
            data += 1

    def hidden_outputs(self) -> list[Var]:
        """Temporaries that the function returns: the caller provides them."""
        created: dict[Var, Var] = {}
        top = flatten_to_stmts(self.function.body)
        for s in top:
            if isinstance(s, AssignStmt) and isinstance(s.value, Call) and s.value.op.name == "tensor.create":
                created[s.var] = s.var
        found: dict[Var, None] = {}
        sources = _aliases(self.function, self.devices)
        for s in top:
            if isinstance(s, ReturnStmt):
                for v in s.value:
                    while isinstance(v, Var) and v in sources:
                        v = sources[v]
                    if isinstance(v, Var) and v in created:
                        found[v] = None
        return list(found)

    def results(self) -> tuple[int, ...] | None:
        out = []
        for v in self.returned:
            t = self.tensors.get(v) if isinstance(v, Var) else None
            if t is None or t.param is None:
                raise NotSupportedError(
                    f"{self.function.name}: a returned value is neither a parameter nor a temporary of the entry",
                    v.span,
                    "write it into a pl.Out parameter and return that",
                )
            out.append(t.param)
        return tuple(out) or None

    # -- statements --

    def body(self, body: Stmt | None) -> tuple[Expr, ...]:
        yielded: tuple[Expr, ...] = ()
        for s in flatten_to_stmts(body):
            if isinstance(s, YieldStmt):
                yielded = s.value
            else:
                self.stmt(s)
        return yielded

    def stmt(self, s: Stmt) -> None:
        if isinstance(s, AssignStmt):
            self.assign(s)
        elif isinstance(s, EvalStmt):
            if isinstance(s.expr, Call):
                self.call(None, s.expr, s.span)
        elif isinstance(s, IfStmt):
            self.branch(s)
        elif isinstance(s, ForStmt):
            self.loop(s)
        elif isinstance(s, WhileStmt):
            self.while_(s)
        elif isinstance(s, ReturnStmt):
            self.returned = s.value
        elif isinstance(s, RuntimeScopeStmt):
            self.body(s.body)
        elif isinstance(s, BreakStmt):
            self.w.line("break;")
        elif isinstance(s, ContinueStmt):
            self.w.line("continue;")
        else:
            raise NotSupportedError(f"{type(s).__name__} in an orchestration function is not executed on the host yet", s.span)

    def expr(self, e: Expr) -> str:
        return expr_text(e, self.names.of)

    def assign(self, s: AssignStmt) -> None:
        v = s.value
        if isinstance(v, Call):
            self.call(s.var, v, s.span)
        elif isinstance(s.var.type, ScalarType):
            self.w.line(f"const {_scalar(s.var)} {self.names.bind(s.var)} = {self.expr(v)};")
        elif isinstance(v, TupleGetItemExpr) and isinstance(v.tuple, Var):
            item = self.tuples[v.tuple][v.index]
            assert isinstance(item, _Tensor)
            self.tensors[s.var] = item
        elif isinstance(v, MakeTuple):
            self.tuples[s.var] = tuple(self.tensor(e) if isinstance(e.type, TensorType) else e for e in v.elements)
        else:
            self.tensors[s.var] = self.tensor(v)

    def tensor(self, e: Expr) -> _Tensor:
        if isinstance(e, TupleGetItemExpr) and isinstance(e.tuple, Var):
            item = self.tuples[e.tuple][e.index]
            assert isinstance(item, _Tensor)
            return item
        known = self.tensors.get(e) if isinstance(e, Var) else None
        if known is None:
            raise InternalError(f"{self.function.name}: {e!r} is no tensor")
        return known

    # -- control flow --

    def declare(self, v: Var, incoming: _Tensor | None = None) -> None:
        """A variable that control flow assigns."""
        if isinstance(v.type, TensorType):
            t = element_type(v.type.dtype)
            self.w.line(f"{t} *{self.names.bind(v)};")
            self.tensors[v] = _Tensor(self.names.of[v], v.type, None)
        else:
            self.w.line(f"{_scalar(v)} {self.names.bind(v)};")

    def give(self, targets: tuple[Var, ...], values: tuple[Expr, ...]) -> None:
        """All values are read before any target changes."""
        live = [(t, v) for t, v in zip(targets, values, strict=True) if self.names.of.get(t)]
        texts = [self.tensor(v).pointer if isinstance(t.type, TensorType) else self.expr(v) for t, v in live]
        if len(live) == 1:
            self.w.line(f"{self.names.of[live[0][0]]} = {texts[0]};")
            return
        fresh = [self.names.fresh("next_") for _ in live]
        for (t, _), name, text in zip(live, fresh, texts, strict=True):
            kind = f"{element_type(t.type.dtype)} *" if isinstance(t.type, TensorType) else _scalar(t)
            self.w.line(f"{kind} const {name} = {text};")
        for (t, _), name in zip(live, fresh, strict=True):
            self.w.line(f"{self.names.of[t]} = {name};")

    def branch(self, s: IfStmt) -> None:
        for v in s.return_vars:
            self.declare(v)
        with self.w.block(f"if ({self.expr(s.condition)})", tail="} else {"):
            then = self.body(s.then_body)
            arms = [[self.tensors.get(e) if isinstance(e, Var) else None for e in then]]
            self.give(s.return_vars, then)
        self.w.depth += 1
        otherwise = self.body(s.else_body)
        arms.append([self.tensors.get(e) if isinstance(e, Var) else None for e in otherwise])
        if s.return_vars:
            self.give(s.return_vars, otherwise)
        self.w.depth -= 1
        self.w.line("}")
        for v, a, b in zip(s.return_vars, *arms, strict=False):
            if a is not None and b is not None and a.param is not None and a.param == b.param:
                self.tensors[v] = self.tensors[v]._replace(param=a.param)

    def begin(self, s: ForStmt | WhileStmt) -> None:
        """A carried value lives in the variable that holds the loop's result; an unchanged tensor needs none."""
        for r, a in zip(s.return_vars, s.iter_args, strict=True):
            if isinstance(a.type, TensorType):
                incoming = self.tensor(a.initValue)
                t = element_type(a.type.dtype)
                self.w.line(f"{t} *{self.names.bind(r)} = {incoming.pointer};")
                self.tensors[a] = self.tensors[r] = _Tensor(self.names.of[r], incoming.type, incoming.param)
            else:
                self.w.line(f"{_scalar(r)} {self.names.bind(r)} = {self.expr(a.initValue)};")
            self.names.of[a] = self.names.of[r]

    def end(self, s: ForStmt | WhileStmt, yielded: tuple[Expr, ...]) -> None:
        for r, a, y in zip(s.return_vars, s.iter_args, yielded, strict=True):
            if isinstance(a.type, TensorType) and self.tensor(y).param != self.tensors[a].param:
                self.tensors[r] = self.tensors[r]._replace(param=None)
        self.give(tuple(s.iter_args), yielded)
        for a in s.iter_args:
            del self.names.of[a]

    def loop(self, s: ForStmt) -> None:
        self.begin(s)
        if not isinstance(s.step, ConstInt):
            site = self.sites.add("value", "a loop step of 0", s.span)
            self.w.line(f"if ({self.expr(s.step)} == 0) {{")
            self.w.line(f"    return pp_fault(call, {site}, 0, 0, 0);")
            self.w.line("}")
        t, i = _scalar(s.loop_var), self.names.bind(s.loop_var)
        stop, by, at = (self.names.fresh(n) for n in ("stop_", "step_", "at_"))
        up = f"{at} < {stop}" if isinstance(s.step, ConstInt) and s.step.value > 0 else f"{at} > {stop}"
        test = up if isinstance(s.step, ConstInt) else f"{by} > 0 ? {at} < {stop} : {at} > {stop}"
        with self.w.block(""):
            self.w.line(f"const {t} {stop} = {self.expr(s.stop)}, {by} = {self.expr(s.step)};")
            with self.w.block(f"for ({t} {at} = {self.expr(s.start)}; {test}; {at} += {by})"):
                self.w.line(f"const {t} {i} = {at};")
                self.trip(s)

    def while_(self, s: WhileStmt) -> None:
        self.begin(s)
        with self.w.block(f"while ({self.expr(s.condition)})"):
            self.trip(s)

    def trip(self, s: ForStmt | WhileStmt) -> None:
        self.depth += 1
        temporary = _allocates(s.body) and not any(isinstance(a.type, TensorType) for a in s.iter_args)
        mark = self.names.fresh("mark_")
        if temporary:
            self.w.line(f"const int64_t {mark} = call->arena->mark(call->arena);")
        yielded = self.body(s.body)
        self.end(s, yielded)
        if temporary:
            self.w.line(f"call->arena->release(call->arena, {mark});")
        self.depth -= 1

    # -- calls --

    def call(self, var: Var | None, call: Call, span: Span) -> None:
        op = ops.of(call)
        if op is None:
            self.launch(var, call, span)
            return
        handler = getattr(self, "on_" + op.name.replace(".", "_"), None)
        if handler is None:
            raise CompileError(
                f"Misplaced tensor op '{op.name}': it should be inside InCore block",
                span,
                "put it under `with pl.at(level=pl.Level.CORE_GROUP):`",
                code="C110",
            )
        handler(var, call, span)

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
                size = self.expr(arith.mul(arith.product(t.shape), const_index(t.dtype.get_byte())))
                site = self.sites.add("memory", f"a temporary tensor of {{0}} bytes ('{var.name_hint}')", span)
                self.w.line(f"{kind} *const {name} = ({kind} *)call->arena->alloc(call->arena, {size});")
                self.w.line(f"if ({name} == 0) {{")
                self.w.line(f"    return pp_fault(call, {site}, {size}, 0, 0);")
                self.w.line("}")
            self.tensors[var] = _Tensor(name, t, None)
        init = call.kwargs.get("init_value")
        if init is not None:
            self.fill(self.tensors[var], init)

    def place(self, size: int) -> int:
        at = self.arena
        self.arena += (size + 63) // 64 * 64
        return at

    def fill(self, t: _Tensor, value: float) -> None:
        dtype = t.type.dtype
        text = float_text(float(value)) if dtype.is_float() else str(int(value))
        if dtype in (DataType.FP16, DataType.BF16):
            text = f"pp_f32_to_{'f16' if dtype is DataType.FP16 else 'bf16'}({text})"
        with self.w.block(f"for (int64_t i = 0; i < {self.expr(arith.product(t.type.shape))}; ++i)"):
            self.w.line(f"{t.pointer}[i] = {text};")

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
        self.tensors[var] = _Tensor(name, view, parent.param)

    def window_check(self, offsets: tuple[Expr, ...], extents: tuple[Expr, ...], limits: tuple[Expr, ...], span: Span) -> None:
        check = windows.transfer_check(offsets, extents, limits, span)
        if check is not None:
            Emitter(self.w, self.names, self.sites, {}, 0, False, LaneFunctions()).check(check)

    def on_tensor_reshape(self, var: Var | None, call: Call, span: Span) -> None:
        if var is None:
            return
        parent = self.tensor(call.args[0])
        assert isinstance(var.type, TensorType)
        if not _packed(parent.type):
            raise NotSupportedError("a reshape of a strided window", span, "reshape the whole tensor first, then slice it")
        self.tensors[var] = parent._replace(type=var.type)

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
        self.window_check(indices.elements, ones, t.type.shape, span)
        pointer = Var(t.pointer, t.type, span)
        self.names.of[pointer] = t.pointer
        view = windows.window_view(Root(MemorySpace.DDR, pointer), t.type, indices.elements, ones)
        assert view is not None
        return Emitter(self.w, self.names, self.sites, {}, 0, False, LaneFunctions()), view

    def on_tensor_read(self, var: Var | None, call: Call, span: Span) -> None:
        if var is not None:
            e, view = self.element(call, span)
            self.w.line(f"const {_scalar(var)} {self.names.bind(var)} = {e.load(view)};")

    def on_tensor_write(self, var: Var | None, call: Call, span: Span) -> None:
        e, view = self.element(call, span)
        text = self.expr(call.args[2])
        if view.dtype in (DataType.FP16, DataType.BF16):
            text = f"pp_f32_to_{'f16' if view.dtype is DataType.FP16 else 'bf16'}({text})"
        self.w.line(f"{e.element(view)} = {text};")
        if var is not None:
            self.tensors[var] = self.tensor(call.args[0])

    def launch(self, var: Var | None, call: Call, span: Span) -> None:
        """A device function, called directly."""
        code = self.devices.get(call.op.name)
        if code is None:
            raise NotSupportedError(f"a call of '{call.op.name}' is not executed on the host yet", span)
        callee = code.function
        arguments = ["call", "mem"]
        known: dict[Var, Expr] = {}
        roots: list[int | None] = []
        for p, a in zip(callee.params, call.args, strict=True):
            if isinstance(p.type, TensorType):
                t = self.tensor(a)
                arguments.append(t.pointer)
                roots.append(t.param)
                self.match(p.type, t.type, known, callee, span)
            else:
                arguments.append(self.expr(a))
                roots.append(None)
        arguments += [self.expr(known[s]) for s in code.symbols]
        self.launches.append(Launch(call.op.name, tuple(roots), self.depth > 0))
        with self.w.block(""):
            self.w.line(f"const int64_t failed = pp_{callee.name}({', '.join(arguments)});")
            self.w.line("if (failed) {")
            self.w.line("    return failed;")
            self.w.line("}")
        self.bind_results(var, callee, call)

    def match(self, want: TensorType, have: TensorType, known: dict[Var, Expr], callee: Function, span: Span) -> None:
        """The caller's extents and strides for the callee's symbols."""
        pairs = list(zip(want.shape, have.shape, strict=True))
        if want.tensor_view is not None and want.tensor_view.stride:
            pairs += list(zip(want.tensor_view.stride, windows.tensor_strides(have), strict=True))
        elif not _packed(have):
            raise NotSupportedError(
                f"a strided window passed to '{callee.name}'", span, "pass the whole tensor and slice it inside the kernel"
            )
        for w, h in pairs:
            if isinstance(w, Var):
                known.setdefault(w, h)

    def bind_results(self, var: Var | None, callee: Function, call: Call) -> None:
        if var is None:
            return
        last = flatten_to_stmts(callee.body)[-1]
        values = last.value if isinstance(last, ReturnStmt) else ()
        results = []
        for v in values:
            at = next((i for i, p in enumerate(callee.params) if p is v), None)
            if at is None:
                raise InternalError(f"{callee.name} returns something that is not a parameter")
            results.append(self.tensor(call.args[at]))
        if len(results) == 1 and isinstance(var.type, TensorType):
            self.tensors[var] = results[0]
        else:
            self.tuples[var] = tuple(results)


# -- helpers -------------------------------------------------------------------------------------------------------


def _scalar(v: Var) -> str:
    if not isinstance(v.type, ScalarType):
        raise InternalError(f"{v!r} is no scalar")
    return C_TYPES[v.type.dtype]


def _scalar_argument(t: Type, index: int) -> str:
    """A scalar parameter from its 8-byte slot: floats are doubles, rounded here once."""
    assert isinstance(t, ScalarType)
    slot = f"call->scalars[{index}]"
    if t.dtype is DataType.FP32:
        return f"(float)pp_bits_i64_f64({slot})"
    if t.dtype is DataType.FP16:
        return f"pp_round_f16(pp_odd_f32(pp_bits_i64_f64({slot})))"
    if t.dtype is DataType.BF16:
        return f"pp_round_bf16(pp_odd_f32(pp_bits_i64_f64({slot})))"
    if t.dtype is DataType.BOOL:
        return f"{slot} != 0"
    return f"({C_TYPES[t.dtype]}){slot}"


def _packed(t: TensorType) -> bool:
    view = t.tensor_view
    if view is None or not view.stride:
        return True
    packed = windows.tensor_strides(TensorType(t.shape, t.dtype))
    return all(arith.same(a, b) or arith.is_const(n, 1) for a, b, n in zip(view.stride, packed, t.shape, strict=True))


def _strided(t: TensorType, strides: tuple[Expr, ...]) -> object:
    from pypto.ir.shaped import TensorView

    packed = windows.tensor_strides(TensorType(t.shape, t.dtype))
    if all(arith.same(a, b) or arith.is_const(n, 1) for a, b, n in zip(strides, packed, t.shape, strict=True)):
        return t.tensor_view
    return TensorView(strides, valid_shape=t.valid)


def _without(strides: tuple[Expr, ...], dropped: Expr) -> tuple[Expr, ...]:
    assert isinstance(dropped, MakeTuple)
    axes = {d.value for d in dropped.elements if isinstance(d, ConstInt)}
    return tuple(s for i, s in enumerate(strides) if i not in axes)


def _allocates(body: Stmt) -> bool:
    return any(
        isinstance(n, Call) and n.op.name == "tensor.create" and const_dims(n.type.shape) is None  # type: ignore[attr-defined]
        for n in walk(body)
    )


def _carried_tensors(f: Function) -> frozenset[Var]:
    """Temporaries that a loop hands from one trip to the next: each trip's must be a new one."""
    yielded: set[Var] = set()
    sources: dict[Var, list[Var]] = {}
    for n in walk(f.body):
        if isinstance(n, YieldStmt):
            yielded.update(v for v in n.value if isinstance(v, Var) and isinstance(v.type, TensorType))
        if isinstance(n, AssignStmt):
            sources[n.var] = [v for v in walk(n.value) if isinstance(v, Var) and isinstance(v.type, TensorType)]
    work = list(yielded)
    while work:
        for v in sources.get(work.pop(), ()):
            if v not in yielded:
                yielded.add(v)
                work.append(v)
    return frozenset(yielded)


def _aliases(f: Function, devices: dict[str, DeviceCode]) -> dict[Var, Var]:
    """Results of calls and plain assignments, as the tensors they are."""
    out: dict[Var, Var] = {}
    for s in flatten_to_stmts(f.body):
        if not isinstance(s, AssignStmt):
            continue
        v = s.value
        if isinstance(v, Var):
            out[s.var] = v
        elif isinstance(v, Call) and v.op.name in devices and isinstance(s.var.type, TensorType):
            callee = devices[v.op.name].function
            last = flatten_to_stmts(callee.body)[-1]
            if isinstance(last, ReturnStmt) and len(last.value) == 1:
                at = next((i for i, p in enumerate(callee.params) if p is last.value[0]), None)
                source = v.args[at] if at is not None else None
                if isinstance(source, Var):
                    out[s.var] = source
    return out


def emit_entry(function: Function, devices: dict[str, DeviceCode], sites: Sites, arena: int) -> Entry:
    """`pypto_entry` for an orchestration function."""
    return EntryWriter(function, devices, sites, arena).emit()

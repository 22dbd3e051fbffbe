"""The entry function: temporaries, loops and kernel calls as C.

In: an orchestration function of a final program.  Out: `pypto_entry`.  Tensors are pointer variables here; a slice or
reshape is a pointer into its parent.  Temporaries of constant size have fixed places in the arena, others come from the
call's allocator, given back after each trip of a loop that does not carry them.
"""

from __future__ import annotations

from contextlib import ExitStack

from pypto.codegen.native import windows
from pypto.codegen.native.access import ArrayOp
from pypto.codegen.native.device import DeviceCode, symbols_of
from pypto.codegen.native.emit import STEP, Sites
from pypto.codegen.native.emit_group import element_type
from pypto.codegen.native.entry_values import allocates, carried_tensors
from pypto.codegen.native.launches import Launch, Launches
from pypto.codegen.native.local_arrays import array_op, write_array
from pypto.codegen.native.scalars import C_TYPES, scalar_type
from pypto.codegen.native.shared_loops import LoopCall, loop_call
from pypto.codegen.native.structure import is_idle
from pypto.codegen.native.tensor_values import TensorValue, is_packed
from pypto.dtypes import DataType
from pypto.enums import ForKind
from pypto.errors import CompileError, NotSupportedError
from pypto.ir import arith, ops
from pypto.ir.expr import Call, ConstInt, Expr, MakeTuple, TupleGetItemExpr, Var
from pypto.ir.local_arrays import ArrayUses
from pypto.ir.program import Function
from pypto.ir.shaped import TensorType, same_dims
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
from pypto.ir.types import ArrayType, ScalarType, Type
from pypto.ir.verify.roots import Roots
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = ["Entry", "EntryLoop", "Launch", "emit_entry"]


class Entry(NamedTuple):
    """The entry's C text, results (parameter indices, hidden outputs last), hidden outputs, and launches."""

    text: str
    returns: tuple[int, ...] | None
    hidden: tuple[Var, ...]
    launches: tuple[Launch, ...]
    direct: frozenset[int]  # parameters the entry itself reads or writes element by element
    scratch: int
    loops: tuple[EntryLoop, ...]


class EntryLoop(NamedTuple):
    """A parallel loop of the entry, and why threads do not share its trips; None where they do."""

    span: Span
    apart: str | None


class EntryWriter(Launches):
    """Writes the body of `pypto_entry`."""

    def __init__(
        self,
        function: Function,
        devices: dict[str, DeviceCode],
        wrappers: dict[str, Function],
        sites: Sites,
        arena: int,
        roots: Roots,
    ) -> None:
        carried = (carried_tensors(f) for f in (function, *wrappers.values()))
        super().__init__(function.name, devices, wrappers, sites, arena, frozenset().union(*carried))
        self.function, self.roots = function, roots
        self.arrays = ArrayUses(function)
        self.loops: list[EntryLoop] = []
        self.copied: dict[Var, Var] = {}  # returned values that are no outputs, and the outputs that they are copied into

    # -- the function --

    def emit(self) -> Entry:
        f, w = self.function, self.w
        self.hidden = self.hidden_outputs()
        with w.block("int64_t pypto_entry(pypto_call *call)"):
            w.line("unsigned char *const mem = call->arena->base;")
            w.line("(void)mem;")
            self.parameters()
            self.body(f.body)
            self.copy_results()
            w.line("return 0;")
        text = "\n".join([*self.shared.texts.values(), w.text()])
        return Entry(
            text, self.results(), tuple(self.hidden), tuple(self.launches), frozenset(self.direct), self.arena, tuple(self.loops)
        )

    def parameters(self) -> None:
        data = scalars = 0
        for k, s in enumerate(symbols_of(self.function)):
            self.w.line(f"const int64_t {self.names.bind(s)} = call->dims[{k}];")
        for i, p in enumerate(self.function.params):
            if isinstance(p.type, TensorType):
                t = element_type(p.type.dtype)
                self.w.line(f"{t} *const {self.names.bind(p)} = ({t} *)call->data[{data}];")
                self.tensors[p] = TensorValue(self.names.of[p], p.type, i)
                data += 1
            else:
                self.w.line(f"const {scalar_type(p)} {self.names.bind(p)} = {_scalar_argument(p.type, scalars)};")
                scalars += 1
        for at, h in enumerate(self.hidden, len(self.function.params)):
            assert isinstance(h.type, TensorType)
            t = element_type(h.type.dtype)
            self.w.line(f"{t} *const {self.names.bind(h)} = ({t} *)call->data[{data}];")
            self.tensors[h] = TensorValue(self.names.of[h], h.type, at)
            data += 1

    def hidden_outputs(self) -> dict[Var, None]:
        """What the caller provides: temporaries that the function returns, and places for copies of others."""
        top = flatten_to_stmts(self.function.body)
        created = {
            s.var for s in top if isinstance(s, AssignStmt) and isinstance(s.value, Call) and s.value.op.name == "tensor.create"
        }
        found: dict[Var, None] = {}
        for v in (v for s in top if isinstance(s, ReturnStmt) for v in s.value):
            roots = self.roots.of(v)
            if not isinstance(v, Var) or not isinstance(v.type, TensorType) or not roots or roots & {*self.function.params}:
                continue  # what may be a parameter is handed back as that, or not at all
            root = self.roots.only(v)
            whole = root is not None and isinstance(root.type, TensorType) and same_dims(v.type.shape, root.type.shape)
            if root is not None and root in created and whole and is_packed(v.type):
                found[root] = None
            else:
                copy = self.copied.setdefault(v, Var(v.name_hint, TensorType(v.type.shape, v.type.dtype), v.span))
                found[copy] = None
        return found

    def copy_results(self) -> None:
        """Results that control flow chooses, or that lie in a larger temporary: their elements, one by one."""
        for v, copy in self.copied.items():
            source, target = self.tensor(v), self.tensors[copy]
            extents = target.type.shape
            at = [self.names.fresh("at_") for _ in extents]
            places = []
            for t in (target, source):
                strides = windows.tensor_strides(t.type)
                offset = " + ".join(f"{i} * ({self.expr(n)})" for i, n in zip(at, strides, strict=True))
                places.append(f"{t.pointer}[{offset}]")
            with ExitStack() as loops:
                for i, n in zip(at, extents, strict=True):
                    loops.enter_context(self.w.block(f"for (int64_t {i} = 0; {i} < {self.expr(n)}; ++{i})"))
                self.w.line(f"{places[0]} = {places[1]};")

    def type_of(self, param: int) -> TensorType:
        t = (*self.function.params, *self.hidden)[param].type
        assert isinstance(t, TensorType)
        return t

    def is_whole(self, t: TensorValue) -> bool:
        """Whether a value is all of its parameter, in the same order."""
        assert t.param is not None
        return arith.same(arith.product(t.type.shape), arith.product(self.type_of(t.param).shape)) and is_packed(t.type)

    def results(self) -> tuple[int, ...] | None:
        out = []
        for v in self.returned:
            t = self.tensors.get(self.copied.get(v, v)) if isinstance(v, Var) else None
            if t is None or t.param is None:
                raise NotSupportedError(
                    f"{self.function.name}: a returned value is neither a parameter nor a temporary of the entry",
                    v.span,
                    "write it into a pl.Out parameter and return that",
                )
            if not self.is_whole(t) or not same_dims(t.type.shape, self.type_of(t.param).shape):
                raise NotSupportedError(
                    f"{self.function.name}: a returned value is a window or a view of a parameter",
                    v.span,
                    "write it into a pl.Out parameter and return that, or take the window of what the kernel returns",
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
            if isinstance(s.expr, Call) and not is_idle(s.expr):
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
            raise NotSupportedError("such scopes are not executed on the host", s.span, "write pl.Level.CORE_GROUP")

    def assign(self, s: AssignStmt) -> None:
        v = s.value
        if isinstance(v, Call):
            self.call(s.var, v, s.span)
        elif isinstance(s.var.type, ArrayType):
            write_array(self, ArrayOp(s.var, v, None, None, False, s.span))
        elif isinstance(s.var.type, ScalarType):
            self.w.line(f"const {scalar_type(s.var)} {self.names.bind(s.var)} = {self.expr(v)};")
        elif isinstance(v, TupleGetItemExpr) and isinstance(v.tuple, Var):
            item = self.tuples[v.tuple][v.index]
            assert isinstance(item, TensorValue)
            self.tensors[s.var] = item
        elif isinstance(v, MakeTuple):
            self.tuples[s.var] = tuple(self.tensor(e) if isinstance(e.type, TensorType) else e for e in v.elements)
        else:
            self.tensors[s.var] = self.tensor(v)

    # -- control flow --

    def declare(self, v: Var, incoming: TensorValue | None = None) -> None:
        """A variable that control flow assigns."""
        if isinstance(v.type, TensorType):
            t = element_type(v.type.dtype)
            self.w.line(f"{t} *{self.names.bind(v)};")
            self.tensors[v] = TensorValue(self.names.of[v], v.type, None)
        else:
            self.w.line(f"{scalar_type(v)} {self.names.bind(v)};")

    def give(self, targets: tuple[Var, ...], values: tuple[Expr, ...]) -> None:
        """All values are read before any target changes."""
        live = [(t, v) for t, v in zip(targets, values, strict=True) if self.names.of.get(t)]
        texts = [self.tensor(v).pointer if isinstance(t.type, TensorType) else self.expr(v) for t, v in live]
        if len(live) == 1:
            self.w.line(f"{self.names.of[live[0][0]]} = {texts[0]};")
            return
        fresh = [self.names.fresh("next_") for _ in live]
        for (t, _), name, text in zip(live, fresh, texts, strict=True):
            kind = f"{element_type(t.type.dtype)} *" if isinstance(t.type, TensorType) else scalar_type(t)
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
                self.tensors[a] = self.tensors[r] = TensorValue(self.names.of[r], incoming.type, incoming.param)
            else:
                self.w.line(f"{scalar_type(r)} {self.names.bind(r)} = {self.expr(a.initValue)};")
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
        if s.kind is ForKind.Parallel:
            found = loop_call(s, self.devices, self.roots.flow)
            self.loops.append(EntryLoop(s.span, None if isinstance(found, LoopCall) else found))
            if isinstance(found, LoopCall):
                self.shared_loop(s, found)
                return
        if not isinstance(s.step, ConstInt):
            site = self.sites.add("value", STEP, s.span)
            self.w.line(f"if ({self.expr(s.step)} == 0) {{")
            self.w.line(f"    return pp_fault(call, {site}, 0, 0, 0);")
            self.w.line("}")
        t, i = scalar_type(s.loop_var), self.names.bind(s.loop_var)
        stop, by, at = (self.names.fresh(n) for n in ("stop_", "step_", "at_"))
        up = f"{at} < {stop}" if isinstance(s.step, ConstInt) and s.step.value > 0 else f"{at} > {stop}"
        test = up if isinstance(s.step, ConstInt) else f"{by} > 0 ? {at} < {stop} : {at} > {stop}"
        with self.w.block(""):
            self.w.line(f"const {t} {stop} = {self.expr(s.stop)}, {by} = {self.expr(s.step)};")
            self.turns.append(f"pp_trips({self.expr(s.start)}, {stop}, {by})")
            with self.w.block(f"for ({t} {at} = {self.expr(s.start)}; {test}; {at} += {by})"):
                self.w.line(f"const {t} {i} = {at};")
                self.trip(s)
            self.turns.pop()

    def shared_loop(self, s: ForStmt, found: LoopCall) -> None:
        """All trips, by as many threads as there are: the numbers of the first one, and how they move on."""
        self.depth += 1
        with self.w.block(""):
            counts = []
            for loop, scalars in zip(found.loops, found.scalars, strict=True):
                if loop is not s:
                    self.begin(loop)
                counts.append(self.first_trip(loop))
                for x in scalars:
                    self.assign(x)
            self.turns += counts
            arguments = self.arguments(found.code, found.call, found.span)
            del self.turns[-len(counts) :]
            with self.keeping(found.code, found.call, arguments):
                self.w.all(self.shared.trips(found.code, found.steps, found.shared, counts, arguments))
                self.or_fail()
        self.depth -= 1
        for loop in found.loops:
            for a in loop.iter_args:
                del self.names.of[a]

    def first_trip(self, s: ForStmt) -> str:
        """Write the loop's variable as the first trip has it; the name of how many trips there are."""
        t = scalar_type(s.loop_var)
        stop, by, trips = (self.names.fresh(n) for n in ("stop_", "step_", "trips_"))
        self.w.line(f"const {t} {self.names.bind(s.loop_var)} = {self.expr(s.start)};")
        self.w.line(f"const {t} {stop} = {self.expr(s.stop)}, {by} = {self.expr(s.step)};")
        self.w.line(f"const int64_t {trips} = pp_trips({self.names.of[s.loop_var]}, {stop}, {by});")
        return trips

    def while_(self, s: WhileStmt) -> None:
        self.begin(s)
        with self.w.block(f"while ({self.expr(s.condition)})"):
            self.trip(s)

    def trip(self, s: ForStmt | WhileStmt) -> None:
        self.depth += 1
        temporary = allocates(s.body) and not any(isinstance(a.type, TensorType) for a in s.iter_args)
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
        if op.level == "array":
            write_array(self, array_op(var, call, self.arrays, span))
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


# -- helpers -------------------------------------------------------------------------------------------------------


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


def emit_entry(
    function: Function, devices: dict[str, DeviceCode], wrappers: dict[str, Function], sites: Sites, arena: int, roots: Roots
) -> Entry:
    """`pypto_entry` for an orchestration function; `wrappers`: the functions that launch blocks or groups of kernels.

    `roots`: whose storage its tensors are.
    """
    return EntryWriter(function, devices, wrappers, sites, arena, roots).emit()

"""One device function as `.pto` text, whatever its stage: arguments, views of tensors, structured control flow.

In: a device function of a final program.  Out: its `func.func`.  Tensors come first among the arguments, then scalars,
then run-time extents of tensor shapes in order of appearance, then the block numbers that the launch supplies.
Invariant: only scalars are results of regions; tiles lie where they lie, and a tensor is the parameter it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from pypto.codegen.pto.elements import elements, moves, unit
from pypto.codegen.pto.system import System
from pypto.codegen.pto.text import Text, Value
from pypto.codegen.pto.types import partition_type, pointer, scalar_type, view_type
from pypto.dtypes import DataType
from pypto.enums import CompactMode, FunctionType, TensorLayout
from pypto.errors import InternalError, NotSupportedError
from pypto.ir import arith, ops, scalar
from pypto.ir.analyzer import Interval
from pypto.ir.expr import Call, ConstInt, Expr, Var, const_index
from pypto.ir.layout import product_fits
from pypto.ir.opdef import OpDef, Special
from pypto.ir.program import Function
from pypto.ir.rewrite import free_vars, walk
from pypto.ir.scalar import dtype_of
from pypto.ir.shaped import TensorType, const_dim
from pypto.ir.stmt import (
    AssignStmt,
    EvalStmt,
    ForStmt,
    IfStmt,
    ReturnStmt,
    Stmt,
    WhileStmt,
    YieldStmt,
    flatten_to_stmts,
    last_yield,
)
from pypto.ir.types import ArrayType, ScalarType
from pypto.ir.verify.ssa import user_name
from pypto.span import Span

__all__ = ["FunctionText"]

_KINDS = {FunctionType.AIC: "cube", FunctionType.AIV: "vector"}
# Numbers that a launch supplies, by the query that asks for them, and the hidden argument that brings each.
_QUERIES = {
    "get_block_idx": "__pypto_spmd_block_idx",
    "get_block_num": "__pypto_spmd_block_num",
    "get_subblock_idx": "__pypto_spmd_subblock_idx",
}
_TOGETHER = ("get_block_idx", "get_block_num")
_COUNT = Interval(0, (1 << 48) - 1)  # of an extent in memory
_NUMBERS = "hold 0 and 1 in a tensor of INT8 or UINT8"
_OUT = "write it into a pl.Out tensor with pl.write"
_ALONE = "put it into a kernel of its own: it runs on the host, and the program's other kernels have their text"
_APART = "write what the cube computes and what the vector unit computes as kernels of their own"


class FunctionText(System):
    """Writes a function; stages say what calls become."""

    def __init__(self, f: Function, arch: str, locations: bool) -> None:
        super().__init__(Text(locations), f)
        self.f, self.arch = f, arch
        self.doing = ""  # the operator whose call is being written
        self.units: dict[str, str] = {}  # by unit, the first operator that needs it
        self.pointers: dict[Var, Value] = {}
        self.tensors: dict[Var, Var] = {}  # other names of tensors: the parameter
        self.views: dict[Var, Value] = {}
        self.hidden: dict[str, Value] = {}
        self.computed: dict[Var, Expr] = {}  # from what a scalar is computed

    def lines(self) -> list[str]:
        """The function's lines."""
        arguments = self._arguments()
        kind = _KINDS.get(self.f.func_type)
        if kind is not None:
            self.units[kind] = f"a function of kind {self.f.func_type.name}"
        self.body(self.f.body)
        attributes = f" attributes {{pto.kernel_kind = #pto.kernel_kind<{kind}>}}" if kind is not None else ""
        listed = ", ".join(f"{v.name}: {v.type}" for v in arguments)
        return self.text.function(f"func.func @{symbol(self.f.name)}({listed}){attributes}")

    # -- arguments --

    def _arguments(self) -> list[Value]:
        found: list[Value] = []

        def add(type_: str) -> Value:
            found.append(Value(f"%arg{len(found)}", type_))
            return found[-1]

        tensors = [p for p in self.f.params if isinstance(p.type, TensorType)]
        for p in tensors:
            assert isinstance(p.type, TensorType)
            self.tensors[p] = p
            if p.type.dtype in (DataType.BOOL, DataType.INDEX):
                raise NotSupportedError(f"'{p.name_hint}', a tensor of {p.type.dtype}, has no .pto form", p.span, _NUMBERS)
            self.pointers[p] = add(pointer(p.type.dtype))
        for p in self.f.params:
            if isinstance(p.type, ScalarType):
                self.values[p] = add(scalar_type(p.type.dtype))
            elif p not in self.pointers:
                raise NotSupportedError(f"parameter '{p.name_hint}' of '{self.f.name}' has no .pto form", p.span, _ALONE)
        for p in tensors:
            assert isinstance(p.type, TensorType)
            for v in (v for d in p.type.shape for v in free_vars(d)):
                if v not in self.values:
                    self.values[v] = add("index")
                    self.known.bound(v, _COUNT)
        asked = self.queries()
        if asked & set(_TOGETHER):
            asked |= set(_TOGETHER)
        for query, name in _QUERIES.items():
            if query in asked:
                self.hidden[query] = Value(f"%{name}", "i32")
                found.append(self.hidden[query])
        return found

    def queries(self) -> set[str]:
        """What the function asks of its launch."""
        return {n.op.name.split(".", 1)[1] for n in walk(self.f.body) if isinstance(n, Call)} & set(_QUERIES)

    # -- tensors --

    def tensor(self, e: Expr) -> Var:
        """The parameter that a tensor value is."""
        known = self.tensors.get(e) if isinstance(e, Var) else None
        if known is None:
            raise InternalError(f"{self.f.name}: {e!r} does not stand for a tensor parameter")
        return known

    def tensor_pointer(self, e: Expr) -> Value:
        return self.pointers[self.tensor(e)]

    def view(self, p: Var) -> Value:
        """The view of a whole tensor, made at the function's head where it is first needed."""
        known = self.views.get(p)
        if known is None:
            known = self.views[p] = self._view(p)
        return known

    def _view(self, p: Var) -> Value:
        t = p.type
        assert isinstance(t, TensorType)
        with self.text.head():
            shape = [self.index(d) for d in t.shape]
            strides, layout = self._strides(p, t, shape)
            made = Value(self.text.named(f"{p.name_hint}_view"), view_type(len(shape), t.dtype))
            self.text.op(
                f"{made.name} = pto.make_tensor_view {self.pointers[p].name}, shape = [{', '.join(shape)}], "
                f"strides = [{', '.join(strides)}] {{layout = #pto.layout<{layout}>}} : {made.type}"
            )
        return made

    def _strides(self, p: Var, t: TensorType, shape: Sequence[str]) -> tuple[list[str], str]:
        view = t.tensor_view
        if view is not None and view.layout not in (TensorLayout.ND, TensorLayout.DN):
            raise NotSupportedError(f"tensors in layout {view.layout.name} have no .pto form here", p.span, _ALONE)
        if view is not None and view.stride:
            return [self.index(d) for d in view.stride], view.layout.name.lower()
        column = len(t.shape) == 2 and const_dim(t.shape[1]) == 1
        if not column and (view is None or view.layout is TensorLayout.ND):
            return self._products(t.shape), "nd"
        # Column by column: the last two axes lie the other way round.
        *outer, last = self._products((*t.shape[:-2], t.shape[-1], t.shape[-2]))
        return [*outer[:-1], last, outer[-1]], "dn"

    def _products(self, shape: Sequence[Expr]) -> list[str]:
        """Row-major strides, in elements; products of constants are constants."""
        strides: list[Expr] = [const_index(1)]
        for d in reversed(shape[1:]):
            strides.append(arith.mul(strides[-1], d))
        return [self.index(e) for e in reversed(strides)]

    def partition(self, p: Var, offsets: Iterable[Expr], sizes: Sequence[Expr]) -> Value:
        """A window of a tensor: offsets known at run time are kept from being negative."""
        t = p.type
        assert isinstance(t, TensorType)
        view = self.view(p)
        at = [self._offset(o) for o in offsets]
        extents = [self.index(n) for n in sizes]
        type_ = partition_type([const_dim(n) for n in sizes], t.dtype)
        made = Value(self.text.named(f"{p.name_hint}_pview"), type_)
        self.text.op(
            f"{made.name} = pto.partition_view {view.name}, offsets = [{', '.join(at)}], sizes = [{', '.join(extents)}] "
            f": {view.type} -> {type_}"
        )
        return made

    def _offset(self, e: Expr) -> str:
        n = const_dim(e)
        if n is not None:
            return self.text.index(max(n, 0))
        return self.let(f"arith.maxsi {self.index(e)}, {self.text.index(0)} : index", "index").name

    # -- instructions --

    def instruction(
        self, name: str, ins: Sequence[Value], outs: Sequence[Value], span: Span, inside: str = "", after: str = ""
    ) -> None:
        """`pto.name ins(values {inside} : types) outs(values : types) {after}`."""
        self._check(name, ins, outs, span)
        named = ", ".join(v.name for v in ins)
        read = f"ins({named}{' ' + inside if inside else ''} : {', '.join(v.type for v in ins)}) " if ins else ""
        written = f"outs({', '.join(v.name for v in outs)} : {', '.join(v.type for v in outs)})"
        self.text.op(f"pto.{name} {read}{written}{' ' + after if after else ''}", span)

    def _check(self, name: str, ins: Sequence[Value], outs: Sequence[Value], span: Span) -> None:
        """The chip has the instruction for these elements, and the function stays on one unit."""
        read = [v.descriptor for v in ins if v.descriptor is not None]
        written = [v.descriptor for v in outs if v.descriptor is not None]
        wrong = elements(name, read, written, self.arch)
        if wrong is not None:
            what = f"{self.doing}: 'pto.{name}' takes no {wrong} elements on {self.arch}"
            raise NotSupportedError(what, span, "compute in another element type, with pl.cast before and after")
        if name in ("tmov", "textract", "tinsert") and not moves(name, read[0], written[0], self.arch):
            pair = f"{read[0].memory_space.name} to {written[0].memory_space.name}"
            raise NotSupportedError(f"{self.doing}: no instruction moves a tile from {pair}", span, "load or compute it anew")
        self.on_unit(unit((*read, *written)), span)

    def check_pitch(self, made: int | None, acc: Value, span: Span) -> None:
        """NotSupportedError for a product that would lie in Acc otherwise than its tile."""
        out = acc.descriptor
        assert out is not None
        rows, cols = out.physical_shape
        if out.compact is CompactMode.null and not product_fits(-1 if made is None else made, rows, cols):
            few = "run-time" if made is None else made
            what = f"{self.doing}: a product of {few} rows lies in Acc otherwise than a tile of {rows} rows"
            raise NotSupportedError(what, span, "accumulate into a tile of as many rows as the product has, rounded up to 16")

    def on_expect(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        """The chip has nothing that could end a kernel."""

    def on_unit(self, units: Iterable[str], span: Span) -> None:
        """What is written next runs on these units; a function has one."""
        for u in units:
            self.units.setdefault(u, self.doing)
        if len(self.units) > 1:
            one, other = self.units["cube"], self.units["vector"]
            what = f"'{self.f.name}' needs the cube unit ({one}) and the vector unit ({other}): it has no .pto form as one kernel"
            raise NotSupportedError(what, span, _APART)

    def surely_positive(self, n: Expr) -> bool:
        """Whether an extent is more than zero whenever this place is reached."""
        if self.known.bounds(n).low > 0 or self.known.decide(scalar.gt(n, const_index(0))):
            return True
        e = self.computed.get(n, n) if isinstance(n, Var) else n
        if isinstance(e, (scalar.Min, scalar.Max)):
            sides = [self.surely_positive(x) for x in (e.left, e.right)]
            return all(sides) if isinstance(e, scalar.Min) else any(sides)
        return e is not n and self.surely_positive(e)

    # -- statements --

    def body(self, s: Stmt | None) -> None:
        """The statements of a region; its yield is its owner's business."""
        for stmt in flatten_to_stmts(s):
            self.statement(stmt)

    def statement(self, s: Stmt) -> None:
        if isinstance(s, AssignStmt):
            self.assign(s)
            if isinstance(s.var.type, ScalarType) and not isinstance(s.value, Call):
                self.known.bind(s.var, s.value)
                self.computed[s.var] = s.value
        elif isinstance(s, ReturnStmt):
            self.returned(s)
        elif isinstance(s, EvalStmt):
            assert isinstance(s.expr, Call)
            op = ops.of(s.expr)
            if op is None or not op.is_pure(s.expr.kwargs):
                self._call(None, s.expr, _span(s.expr, s))
        elif isinstance(s, IfStmt):
            self.branch(s)
        elif isinstance(s, ForStmt):
            self.loop(s)
        elif isinstance(s, WhileStmt):
            self.while_loop(s)
        elif not isinstance(s, YieldStmt):
            raise NotSupportedError(f"{type(s).__name__} has no .pto form", s.span, _ALONE)

    def returned(self, s: ReturnStmt) -> None:
        """Tensors are the caller's own: nothing is handed back."""
        for v in s.value:
            if not isinstance(v.type, TensorType):
                raise NotSupportedError(f"'{self.f.name}' returns a value that is no tensor: that has no .pto form", s.span, _OUT)
            self.tensor(v)

    def assign(self, s: AssignStmt) -> None:
        value = s.value
        if isinstance(value, Call):
            self._call(s.var, value, _span(value, s))
        elif isinstance(s.var.type, ScalarType):
            self.values[s.var] = self.value(value)
        elif isinstance(s.var.type, TensorType) and isinstance(value, Var):
            self.tensors[s.var] = self.tensor(value)
        elif isinstance(s.var.type, ArrayType):
            self.arrays[s.var] = self.array(value)
        else:
            self.alias(s.var, value)

    def alias(self, var: Var, value: Expr) -> None:
        """Another name of something on the chip."""
        raise InternalError(f"{self.f.name}: no .pto form of '{var.name_hint}' as a name of a {type(value).__name__}")

    def _call(self, var: Var | None, c: Call, span: Span) -> None:
        op = ops.of(c)
        if op is None:
            raise NotSupportedError(f"a call of '{c.op.name}' within '{self.f.name}' has no .pto form", span, _ALONE)
        self.doing = op.name
        if op.concept in _QUERIES:
            assert var is not None
            hidden = self.hidden[op.concept]
            made = Value(self.text.named(var.name_hint), "index")
            self.text.op(f"{made.name} = arith.index_cast {hidden.name} : {hidden.type} to index", span)
            self.values[var] = made
            self.known.bound(var, Interval(int(op.concept == "get_block_num"), (1 << 31) - 1))
            return
        kind = op.semantics.kind if isinstance(op.semantics, Special) else ""
        handler: Callable[[OpDef, Var | None, Call, Span], None] | None = getattr(self, f"on_{kind}", None) if kind else None
        try:
            (handler or self.operation)(op, var, c, span)
        except NotSupportedError as e:
            if e.location is not None and e.hint:
                raise
            what = e.message if e.location is not None else f"{op.name}: {e.message}"
            raise NotSupportedError(what, e.location or span, e.hint or _ALONE) from None

    def operation(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        """A call that has no method of its own."""
        raise NotImplementedError

    # -- control flow --

    def branch(self, s: IfStmt) -> None:
        kept = [i for i, v in enumerate(s.return_vars) if isinstance(v.type, ScalarType)]
        results = [self._define(s.return_vars[i]) for i in kept]
        condition = self.truth(s.condition)
        types = ", ".join(r.type for r in results)
        for v in s.return_vars:
            if isinstance(v.type, ArrayType):
                self.declared(v, s.span)
        head = (
            f"{', '.join(r.name for r in results)} = scf.if {condition} -> ({types}) {{" if results else f"scf.if {condition} {{"
        )
        self.text.raw(head)
        with self.arm():
            self.known.assume(s.condition)
            self._region(s.then_body, kept, s.return_vars)
        if s.else_body is not None or results:
            self.text.raw("} else {")
            with self.arm():
                self.known.assume(s.condition, False)
                self._region(s.else_body, kept, s.return_vars)
        self.text.raw("}")
        self._joined(s.return_vars, (last_yield(s.then_body), last_yield(s.else_body)))

    @contextmanager
    def arm(self, repeated: bool = False) -> Iterator[None]:
        """A region of which it is not known whether it is executed, or how often."""
        with self.known.region():
            yield

    def _region(self, s: Stmt | None, kept: Sequence[int], results: Sequence[Var]) -> None:
        with self.text.region():
            self.body(s)
            self._yield(last_yield(s), kept, results)

    def _yield(self, y: YieldStmt | None, kept: Sequence[int], results: Sequence[Var]) -> None:
        if y is not None:
            self.handed_on(results, y.value, y.span)
        if kept:
            assert y is not None
            values = [self.value(y.value[i]) for i in kept]
            self.text.op(f"scf.yield {', '.join(v.name for v in values)} : {', '.join(v.type for v in values)}", y.span)

    def _define(self, v: Var) -> Value:
        """A name for a scalar that control flow defines."""
        self.values[v] = Value(self.text.named(v.name_hint), scalar_type(dtype_of(v)))
        return self.values[v]

    def _carried(self, s: ForStmt | WhileStmt) -> tuple[list[int], list[Value], list[Value], str]:
        """Positions of the scalar carries, their initial values, the names inside the loop, and the results' names."""
        kept = [i for i, a in enumerate(s.iter_args) if isinstance(a.type, ScalarType)]
        for a, r in zip(s.iter_args, s.return_vars, strict=True):
            if isinstance(a.type, ArrayType):
                self.arrays[a] = self.renewed(r, a.initValue, s.span)
            elif not isinstance(a.type, ScalarType):
                self.joined(a, (a.initValue,))
        initial = [self.value(s.iter_args[i].initValue) for i in kept]
        inner = [self._define(s.iter_args[i]) for i in kept]
        results = ", ".join(self._define(s.return_vars[i]).name for i in kept)
        return kept, initial, inner, f"{results} = " if results else ""

    def loop(self, s: ForStmt) -> None:
        up = isinstance(s.step, ConstInt) and s.step.value > 0
        if up:
            low, high, by = self.index(s.start), self.index(s.stop), self.index(s.step)
        else:
            low, high, by = self.text.index(0), self._trips(s), self.text.index(1)
        kept, initial, inner, results = self._carried(s)
        counter = Value(self.text.named(s.loop_var.name_hint), "index")
        head = f"{results}scf.for {counter.name} = {low} to {high} step {by}"
        if kept:
            pairs = ", ".join(f"{a.name} = {b.name}" for a, b in zip(inner, initial, strict=True))
            head += f" iter_args({pairs}) -> ({', '.join(v.type for v in inner)})"
        self.text.raw(head + " {")
        with self.arm(repeated=True):
            with self.text.region():
                self.values[s.loop_var] = self._counted(s, counter, up)
            self._region(s.body, kept, s.return_vars)
        self.text.raw("}")
        self._joined(s.return_vars, (last_yield(s.body),), s.iter_args)

    def _trips(self, s: ForStmt) -> str:
        """How often a loop runs that counts down, or by a step known at run time."""
        start, stop, step = (self.index(e) for e in (s.start, s.stop, s.step))
        zero, one = self.text.index(0), self.text.index(1)
        upward = self.let(f"arith.cmpi sgt, {step}, {zero} : index", "i1").name
        up, down = (self.let(f"arith.subi {a}, {b} : index", "index").name for a, b in ((stop, start), (start, stop)))
        way = self.let(f"arith.select {upward}, {up}, {down} : index", "index").name
        size = self.let(f"math.absi {step} : index", "index").name
        size = self.let(f"arith.maxsi {size}, {one} : index", "index").name
        last = self.let(f"arith.addi {way}, {size} : index", "index").name
        last = self.let(f"arith.subi {last}, {one} : index", "index").name
        return self.let(f"arith.divsi {last}, {size} : index", "index").name

    def _counted(self, s: ForStmt, counter: Value, up: bool) -> Value:
        """The loop's variable, of its own type, inside the loop."""
        dtype = dtype_of(s.loop_var)
        if up:
            low, high = self.known.bounds(s.start), self.known.bounds(s.stop)
            self.known.bound(s.loop_var, Interval(low.low, max(low.low, high.high - 1)))
            self.known.assume(scalar.lt(s.loop_var, s.stop))
        else:
            away = self.let(f"arith.muli {counter.name}, {self.index(s.step)} : index", "index").name
            counter = self.let(f"arith.addi {self.index(s.start)}, {away} : index", "index")
        return self.cast(counter, DataType.INDEX, dtype, s.loop_var)

    def while_loop(self, s: WhileStmt) -> None:
        kept, initial, inner, results = self._carried(s)
        types = ", ".join(v.type for v in inner)
        pairs = ", ".join(f"{a.name} = {b.name}" for a, b in zip(inner, initial, strict=True))
        given = f" ({pairs})" if kept else ""
        self.text.raw(f"{results}scf.while{given} : ({types}) -> ({types}) {{")
        with self.arm(repeated=True):
            with self.text.region():
                condition = self.truth(s.condition)
                carried = f" {', '.join(v.name for v in inner)} : {types}" if kept else ""
                self.text.op(f"scf.condition({condition}){carried}", s.span)
            self.text.raw("} do {")
            if kept:
                again = [self._define(s.iter_args[i]) for i in kept]
                self.text.raw(f"^bb0({', '.join(f'{v.name} : {v.type}' for v in again)}):")
            self._region(s.body, kept, s.return_vars)
            if not kept:
                with self.text.region():
                    self.text.op("scf.yield")
        self.text.raw("}")
        self._joined(s.return_vars, (last_yield(s.body),), s.iter_args)

    def _joined(self, results: Sequence[Var], arms: Sequence[YieldStmt | None], carries: Sequence[Var] = ()) -> None:
        """What is no scalar must already be one thing wherever it comes from."""
        for i, v in enumerate(results):
            if not isinstance(v.type, (ScalarType, ArrayType)):
                values = [y.value[i] for y in arms if y is not None]
                self.joined(v, (*values, *(c for c in carries[i : i + 1])))

    def joined(self, v: Var, values: Sequence[Expr]) -> None:
        """A result or carry that is a tensor: all that meet in it are one parameter."""
        if not isinstance(v.type, TensorType):
            raise InternalError(f"{self.f.name}: '{v.name_hint}' is carried by control flow and is no scalar")
        roots = {self.tensor(e) for e in values}
        if len(roots) != 1:
            raise NotSupportedError(
                f"'{user_name(v)}' is one of several tensors: that has no .pto form",
                v.span,
                "write each tensor under its own name",
            )
        self.tensors[v] = roots.pop()


def symbol(name: str) -> str:
    """A function's name as the text spells it: letters outside of ASCII by their bytes."""
    return name if name.isascii() else f"kernel_{name.encode().hex()}"


def _span(c: Call, s: Stmt) -> Span:
    """The call's place where it lies within the statement's, else the statement's."""
    return c.span if c.span.is_valid() and (not s.span.is_valid() or s.span.begin_line <= c.span.begin_line) else s.span

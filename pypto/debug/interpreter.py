"""The interpreter: statements, functions and calls, at every stage of a program.

In: a program and the arrays and scalars of its entry.  Out: what the entry returns; output arrays are changed in place.
Invariant: it is the oracle.  Statements run one after the other in program order, yields assign simultaneously, blocks of a
launch run in ascending order; it knows operators only through their table, and nothing of passes and generators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from functools import partial
from math import prod
from typing import Any

from pypto.debug.apply import Application, lanewise, reduce
from pypto.debug.arguments import as_result, bind_parameters, check_count, entry_of, from_user
from pypto.debug.frame import Frame, Position, Value
from pypto.debug.generators import GENERATORS
from pypto.debug.held import typed_as_held
from pypto.debug.indexing import INDEXING
from pypto.debug.local_arrays import LOCAL_ARRAYS
from pypto.debug.meeting import SYSTEM, Party, in_step
from pypto.debug.memory import ArenaPlace, Block
from pypto.debug.moves import SPECIAL
from pypto.debug.paging import PAGING
from pypto.debug.pipes import PIPES, Cluster, Ends
from pypto.debug.products import matmul
from pypto.debug.rearrange import REARRANGE
from pypto.debug.regions import REGIONS
from pypto.debug.sorting import SORTING
from pypto.debug.storage import Placement, Storage, placement_of
from pypto.debug.written import EXPECTATIONS, expect_written, hand_on
from pypto.enums import FunctionType
from pypto.errors import ArgumentTypeError, InternalError, KernelError, NotSupportedError
from pypto.ir import ops
from pypto.ir.expr import Call, ConstInt, Expr, Submit, Var
from pypto.ir.opdef import Lanewise, Matmul, Reduce, Special
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TileType, const_dim
from pypto.ir.stmt import (
    AssignStmt,
    BreakStmt,
    ClusterScopeStmt,
    ContinueStmt,
    EvalStmt,
    ForStmt,
    IfStmt,
    InCoreScopeStmt,
    ReturnStmt,
    ScopeStmt,
    SeqStmts,
    SplitAivScopeStmt,
    SpmdScopeStmt,
    Stmt,
    WhileStmt,
    YieldStmt,
)
from pypto.ir.types import Type
from pypto.ir.verify.pipe_ends import PipeUse, pipe_use
from pypto.ir.verify.roots import Flow
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = ["interpret", "run"]


def run(program: Program, entry: str | None, args: Sequence[Any], placement: Placement | None = None) -> Any:
    """Execute `entry` (by default the one function that no other calls) on numpy arrays and scalars, in its parameters' order.

    Returns what the function returns: None, an array or scalar, or a tuple of them; a returned parameter is the caller's own
    array.  `placement` says what memrefs mean; by default each function's own memrefs decide (`placement_of`).
    Raises ArgumentTypeError and ArgumentValueError for arguments that do not fit, KernelBoundsError for a window that
    leaves its tensor, KernelError for an empty reduction or a loop that does not advance, NotSupportedError for what only the
    device executes.
    """
    f = entry_of(program, entry)
    check_count(f, args)
    values = [from_user(f, i, a) for i, a in enumerate(args)]
    return as_result(_Run(program, placement).enter(f, values, Position(), False, f.span))


def interpret(
    target: Program | Function, args: Sequence[Any], entry: str | None = None, placement: Placement | None = None
) -> Any:
    """As `run`, of a program or of a function that calls no other."""
    if not isinstance(target, (Program, Function)):
        what = f"interpret takes a Program or a Function, got {type(target).__name__}"
        raise ArgumentTypeError(what, hint="kernel.specialize(...) gives the program of a @pl.jit kernel")
    return run(Program([target]) if isinstance(target, Function) else target, entry, args, placement)


_KINDS = {
    **SPECIAL, **GENERATORS, **LOCAL_ARRAYS, **SYSTEM, **REARRANGE, **INDEXING, **SORTING, **PAGING, **REGIONS, **PIPES,
    **EXPECTATIONS,
}  # fmt: skip


def _applied(app: Application) -> Value:
    form = app.op.semantics
    if isinstance(form, Lanewise):
        return lanewise(app, form)
    if isinstance(form, Reduce):
        return reduce(app, form)
    return matmul(app, form) if isinstance(form, Matmul) else _KINDS[form.kind](app)


class _Flow(Enum):
    YIELD = 0
    BREAK = 1
    CONTINUE = 2
    RETURN = 3


class _Leave(NamedTuple):
    """How a body was left before, or at, its end."""

    how: _Flow
    values: tuple[Value, ...] = ()


class _Run:
    """One execution of a program."""

    def __init__(self, program: Program, placement: Placement | None) -> None:
        self.program = program
        self.functions = {f.name: f for f in program.function_list}
        self.flow = Flow(program)
        self.pipes: dict[str, PipeUse | None] = {}
        self.placement = placement
        self.tasks = 0
        self.meeting: dict[Stmt, bool] = {}  # by body: whether blocks wait for each other in it

    # -- functions --

    def enter(
        self, f: Function, args: Sequence[Value], position: Position, on_core: bool, span: Span, ends: Ends | None = None
    ) -> tuple[Value, ...]:
        """Execute a function; what it returns."""
        storage = Storage(self.placement if self.placement is not None else placement_of(f))
        frame = Frame(self.call, storage, position, on_core or f.is_device)
        frame.ends = ends
        bind_parameters(f, args, frame, span)
        left = self._together(frame, f.body, span) if f.func_type is FunctionType.Group else self.body(frame, f.body)
        return left.values if left is not None and left.how is _Flow.RETURN else ()

    def call(self, frame: Frame, e: Call | Submit, var: Var | None) -> Value:
        """The value of an operator or function applied; `var` is the variable it is assigned to."""
        op = ops.find(e.op.name)
        if isinstance(e, Call) and op is not None:
            args = [frame.evaluate(a) for a in e.args]
            call = typed_as_held(op, e, args)
            expect_written(op, call, args)
            value = hand_on(op, call, args, _applied(Application(frame, op, call, args, var)))
            if call is not e and isinstance(value, Block) and not value.gm:
                value.narrow = True
            return value
        return self._call_function(frame, e)

    def _call_function(self, frame: Frame, e: Call | Submit) -> Value:
        f = self.functions.get(e.op.name)
        if f is None:
            raise NotSupportedError(f"'{e.op.name}' is not executed on the host", e.span)
        args = [frame.evaluate(a) for a in e.args]
        if len(args) != len(f.params):
            raise InternalError(f"'{f.name}' takes {len(f.params)} arguments, the call has {len(args)}")
        if isinstance(e, Submit) and e.predicate is not None:
            raise NotSupportedError("a launch under a predicate is not executed on the host", e.span, "launch it inside an `if`")
        use = self._pipes_of(f) if frame.started is not None else None
        if use is not None:
            return self._start(frame, use, args, e.span)
        blocks = e.core_num if isinstance(e, Submit) else e.attrs.get("core_num")
        results: tuple[Value, ...] = ()
        positions = self._positions(frame, blocks, e.span)
        if len(positions) > 1 and self._meets(f.body):
            results = in_step([partial(self._block, f, args, p, frame.on_core, e.span) for p in positions])[-1]
        else:
            for position in positions:
                results = self.enter(f, args, position, frame.on_core, e.span, frame.ends)
        if not frame.on_core:
            # What a kernel hands out lies in global memory from here on.
            results = tuple(_global(r) for r in results)
        if isinstance(e, Submit):
            self.tasks += 1
            return (*results, self.tasks)
        return results if len(results) > 1 else results[0] if results else None

    def _block(
        self, f: Function, args: Sequence[Value], position: Position, on_core: bool, span: Span, party: Party
    ) -> tuple[Value, ...]:
        return self.enter(f, args, position._replace(party=party), on_core, span)

    def _meets(self, body: Stmt) -> bool:
        """Whether blocks that execute this body wait for each other."""
        known = self.meeting.get(body)
        if known is None:
            applied = [n.op.name for n in walk(body) if isinstance(n, (Call, Submit))]
            inner = (self.functions[n].body for n in applied if n in self.functions)
            known = self.meeting[body] = "system.syncall" in applied or any(self._meets(b) for b in inner)
        return known

    # -- functions that run side by side --

    def _pipes_of(self, f: Function) -> PipeUse | None:
        if f.name not in self.pipes:
            self.pipes[f.name] = pipe_use(f) if f.is_device else None
        return self.pipes[f.name]

    def _together(self, frame: Frame, body: Stmt, span: Span) -> _Leave | None:
        """A body whose calls of functions with pipes run side by side, when it has started all of them."""
        called = (self.functions.get(c.op.name) for c in walk(body) if isinstance(c, Call))
        members = {f.name: use for f in called if f is not None and (use := self._pipes_of(f)) is not None}
        if not members:
            return self.body(frame, body)
        outside, frame.started = frame.started, Cluster(members.values())
        left = self.body(frame, body)
        cluster, frame.started = frame.started, outside
        cluster.run(span)
        return left

    def _start(self, frame: Frame, use: PipeUse, args: list[Value], span: Span) -> Value:
        """Enter a function among those that will run; its results are the tensors that it is given."""
        f, position = use.function, frame.position
        if self._meets(f.body):
            what = f"'{f.name}' waits for other blocks and passes tiles through pipes: that is not executed on the host"
            raise NotSupportedError(what, span, "let blocks meet in a kernel of its own")
        for lane in range(use.lanes):
            at = position._replace(lane=lane)
            frame.started.add(use, lane, lambda ends, at=at: self.enter(f, args, at, True, span, ends))
        returned = self.flow.returned(f.name)
        if None in returned:
            what = f"'{f.name}' has one end of a pipe and returns what is none of its parameters"
            raise NotSupportedError(what, span, "write it into a pl.Out tensor")
        results = tuple(args[i] for i in returned if i is not None)
        return results if len(results) > 1 else results[0] if results else None

    @staticmethod
    def _positions(frame: Frame, blocks: Expr | int | None, span: Span) -> list[Position]:
        if blocks is None:
            return [frame.position]
        n = blocks if isinstance(blocks, int) else frame.integer(blocks)
        if n < 1:
            raise KernelError(f"a launch of {n} blocks", span, "the number of blocks must be positive")
        return [frame.position._replace(block=i, blocks=n) for i in range(n)]

    # -- statements --

    def body(self, frame: Frame, s: Stmt) -> _Leave | None:
        """Execute a statement; how control leaves it, None at its end."""
        if isinstance(s, SeqStmts):
            for inner in s.stmts:
                left = self.body(frame, inner)
                if left is not None:
                    return left
            return None
        if isinstance(s, AssignStmt):
            self._assign(frame, s)
            return None
        if isinstance(s, EvalStmt):
            frame.evaluate(s.expr)
            return None
        if isinstance(s, (ForStmt, WhileStmt)):
            return self._loop(frame, s)
        if isinstance(s, IfStmt):
            return self._if(frame, s)
        if isinstance(s, (YieldStmt, ReturnStmt)):
            how = _Flow.YIELD if isinstance(s, YieldStmt) else _Flow.RETURN
            return _Leave(how, tuple(frame.evaluate(v) for v in s.value))
        if isinstance(s, (BreakStmt, ContinueStmt)):
            return _Leave(_Flow.BREAK if isinstance(s, BreakStmt) else _Flow.CONTINUE)
        if isinstance(s, ScopeStmt):
            return self._scope(frame, s)
        raise NotSupportedError(f"{type(s).__name__} is not executed on the host", s.span)

    def _assign(self, frame: Frame, s: AssignStmt) -> None:
        value = self.call(frame, s.value, s.var) if isinstance(s.value, Call) else frame.evaluate(s.value)
        if isinstance(s.value, Call) and _aliases(s.value, s.var):
            _check_alias(frame, s.value, s.var, value)
            frame.values[s.var] = value
        elif isinstance(s.value, Var) and _same_storage(s.value.type, s.var.type):
            frame.values[s.var] = value  # at a run-time offset, perhaps, which the memref does not say
        else:
            frame.bind((s.var,), (value,))

    def _if(self, frame: Frame, s: IfStmt) -> _Leave | None:
        arm = s.then_body if frame.evaluate(s.condition) else s.else_body
        left = self.body(frame, arm) if arm is not None else None
        if left is None or left.how is not _Flow.YIELD:
            return left
        frame.bind(s.return_vars, left.values)
        return None

    def _loop(self, frame: Frame, s: ForStmt | WhileStmt) -> _Leave | None:
        frame.bind(s.iter_args, [frame.evaluate(a.initValue) for a in s.iter_args])
        for _ in self._trips(frame, s):
            left = self.body(frame, s.body)
            if left is None or left.how is _Flow.CONTINUE:
                continue
            if left.how is _Flow.RETURN:
                return left
            if left.how is _Flow.BREAK:
                break
            frame.bind(s.iter_args, left.values)
        # Left by break or never entered, the carries are what they were.
        frame.bind(s.return_vars, [frame.values[a] for a in s.iter_args])
        return None

    @staticmethod
    def _trips(frame: Frame, s: ForStmt | WhileStmt) -> Iterable[None]:
        if isinstance(s, WhileStmt):
            while frame.evaluate(s.condition):
                yield
            return
        start, stop, step = (frame.integer(e) for e in (s.start, s.stop, s.step))
        if step == 0:
            raise KernelError("the step of this loop is 0", s.span, "a loop advances by a step other than 0")
        for i in range(start, stop, step):
            frame.values[s.loop_var] = i
            yield

    def _scope(self, frame: Frame, s: ScopeStmt) -> _Leave | None:
        outside = frame.position, frame.on_core
        positions = [frame.position]
        if isinstance(s, SpmdScopeStmt):
            positions = self._positions(frame, s.core_num, s.span)
        elif isinstance(s, SplitAivScopeStmt):
            return self._lanes(frame, s)
        elif isinstance(s, ClusterScopeStmt):
            return self._together(frame, s.body, s.span)
        left = None
        if len(positions) > 1 and self._meets(s.body):
            frames = in_step([partial(self._block_of_scope, frame, s, p) for p in positions])
            frame.values = frames[-1].values
            return None
        for position in positions:
            frame.position, frame.on_core = position, frame.on_core or isinstance(s, InCoreScopeStmt)
            left = self.body(frame, s.body)
            frame.position, frame.on_core = outside
            if left is not None:
                break
        return left

    def _block_of_scope(self, frame: Frame, s: ScopeStmt, position: Position, party: Party) -> Frame:
        """One of the blocks of a scope, with variables of its own."""
        own = Frame(frame.call, frame.storage, position._replace(party=party), frame.on_core)
        own.values = dict(frame.values)
        self.body(own, s.body)
        return own

    def _lanes(self, frame: Frame, s: SplitAivScopeStmt) -> _Leave | None:
        """The lanes one after the other: each begins with what there was before the region."""
        outside, before = frame.position, dict(frame.values)
        left = None
        for i in range(s.count):
            frame.values = dict(before)
            frame.position = outside._replace(lane=i)
            left = self.body(frame, s.body)
        frame.position = outside
        return left


def _global(value: Value) -> Value:
    if isinstance(value, Block) and not isinstance(value.place, ArenaPlace) and not value.gm:
        return Block(value.place, value.dtype, value.shape, value.valid, gm=True)
    return value


# -- aliases in modelled memories --------------------------------------------------------------------------------------


def _aliases(call: Call, var: Var) -> bool:
    """Whether a view's variable belongs to its source's allocation, so that nothing moves."""
    op = ops.of(call)
    if op is None or not isinstance(op.semantics, Special) or op.semantics.kind != "view" or not isinstance(var.type, TileType):
        return False
    source = call.args[0].type
    a, b = var.type.memref, source.memref if isinstance(source, TileType) else None
    return a is not None and b is not None and a.base_ is b.base_


def _same_storage(a: Type, b: Type) -> bool:
    """Whether the memrefs of two tiles name one part of one allocation."""
    m, n = (t.memref if isinstance(t, TileType) else None for t in (a, b))
    if m is None or n is None or m.base_ is not n.base_:
        return False
    return m is n or (m.size_ == n.size_ and const_dim(m.byte_offset_) == const_dim(n.byte_offset_) is not None)


def _check_alias(frame: Frame, call: Call, var: Var, value: Value) -> None:
    """A view at a constant offset of a tile that lies where its type says must lie where its own type says."""
    if any(not isinstance(x, ConstInt) for a in call.args[1:] for x in getattr(a, "elements", (a,))):
        return
    source = frame.evaluate(call.args[0])
    if prod(value.shape) < prod(source.shape) and _same_storage(call.args[0].type, var.type):
        return  # a part of a window at a run-time offset: both memrefs name the tile that was cut
    begins = [_begins(frame, e, v) for e, v in ((call.args[0], source), (var, value))]
    if begins[0] is not None and begins[0][0] == begins[0][1] and begins[1] is not None and begins[1][0] != begins[1][1]:
        raise InternalError(f"{var.name_hint} views address {begins[1][0]}, its memref says {begins[1][1]}")


def _begins(frame: Frame, e: Expr, value: Value) -> tuple[int, int] | None:
    """Where a tile begins and where its type says it does; None where the type does not, or the tile has no bytes."""
    want = frame.storage.place(e.type, frame.integer)  # type: ignore[arg-type]
    place = value.place
    return None if want is None or not isinstance(place, ArenaPlace) or not place.at.size else (place.start, want.start)

"""What each argument of a call is to the callee: read, written, both, or a scalar.

In: functions with directions on their parameters.  Out: `arg_directions` on every call of a function.  A written argument
is InOut where the same storage was written before in the same scope, where the call runs more than once in a sequential
loop, or where it is an InOut parameter of the caller; else it is an existing output.
Invariant: directions already there stay; wrappers (Group, Spmd) are as demanding as what they call; idempotent.
"""

from __future__ import annotations

from pypto.enums import ArgDirection, ForKind, FunctionType, ParamDirection
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, Submit, Var
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, IfStmt, ScopeStmt, SeqStmts, Stmt, WhileStmt
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.roots import Access, Flow, accesses, merged_direction
from pypto.passes.context import PassOptions
from pypto.passes.framework import program_pass

__all__ = ["derive_call_directions"]

_WRAPPERS = (FunctionType.Group, FunctionType.Spmd)
_In, _Out, _InOut = ParamDirection.In, ParamDirection.Out, ParamDirection.InOut
_RANK = {_In: 0, _Out: 1, _InOut: 2}


@program_pass("DeriveCallDirections", requires=(IRProperty.SplitIncoreOrch,), produces=(IRProperty.CallDirectionsResolved,))
def derive_call_directions(program: Program, options: PassOptions) -> Program:
    program = _with_wrapper_directions(program)
    flow = Flow(program)
    return program.with_functions(f.replace(body=_Directions(f, flow).enter(f.body)) for f in program.function_list)


def _with_wrapper_directions(program: Program) -> Program:
    """Wrappers write what they let others write; repeated, since wrappers may call wrappers."""
    while True:
        flow = Flow(program)
        new = program.with_functions(_wrapper(f, flow) if f.func_type in _WRAPPERS else f for f in program.function_list)
        if new is program:
            return program
        program = new


def _wrapper(f: Function, flow: Flow) -> Function:
    found = accesses(f.body, flow.roots(f))
    wanted = [merged_direction(found.get(p, Access())) for p in f.params]
    merged = tuple(max(a, b, key=_RANK.__getitem__) for a, b in zip(f.param_directions, wanted, strict=True))
    return f if merged == f.param_directions else f.replace(param_directions=merged)


class _Directions:
    """Walks one function in order; `written` are the roots that something before wrote in this scope."""

    def __init__(self, f: Function, flow: Flow) -> None:
        self.flow, self.roots = flow, flow.roots(f)
        self.inout = {p for p, d in zip(f.params, f.param_directions, strict=True) if d is _InOut}
        self.written: set[Var] = set()
        self.loops = 0

    def enter(self, s: Stmt) -> Stmt:
        if isinstance(s, SeqStmts):
            return s.replace(stmts=_same(s.stmts, tuple(self.enter(x) for x in s.stmts)))
        if isinstance(s, AssignStmt):
            return s.replace(value=self._call(s.value))
        if isinstance(s, EvalStmt):
            return s.replace(expr=self._call(s.expr))
        if isinstance(s, IfStmt):
            before = set(self.written)
            then = self.enter(s.then_body)
            after, self.written = self.written, before
            other = None if s.else_body is None else self.enter(s.else_body)
            self.written |= after
            return s.replace(then_body=then, else_body=other)
        if isinstance(s, (ForStmt, WhileStmt)):
            sequential = isinstance(s, WhileStmt) or s.kind is not ForKind.Parallel
            self.loops += sequential
            body = self.enter(s.body)
            self.loops -= sequential
            return s.replace(body=body)
        return s.replace(body=self.enter(s.body)) if isinstance(s, ScopeStmt) else s

    def _call(self, e: Expr) -> Expr:
        if not isinstance(e, (Call, Submit)) or ops.find(e.op.name) is not None:
            return e
        f = self.flow.function(e.op.name)
        if f is None or not e.args:
            return e
        directions = tuple(self._argument(a, f, i) for i, a in enumerate(e.args))
        for i, a in enumerate(e.args):
            if i < len(f.param_directions) and f.param_directions[i] is not _In:
                self.written |= self.roots.of(a)
        if e.attrs.get("arg_directions"):
            return e
        overrides = e.attrs.get("arg_direction_overrides", ())
        directions = tuple(ArgDirection.NoDep if i in overrides else d for i, d in enumerate(directions))
        return e.replace(attrs=e.attrs.with_(arg_directions=directions))

    def _argument(self, a: Expr, f: Function, i: int) -> ArgDirection:
        if not isinstance(a.type, TensorType):
            return ArgDirection.Scalar
        direction = f.param_directions[i] if i < len(f.param_directions) else _In
        if direction is _In:
            return ArgDirection.Input
        roots = self.roots.of(a)
        again = self.loops > 0 or bool(roots & self.written) or bool(roots & self.inout)
        return ArgDirection.InOut if direction is _InOut or again else ArgDirection.OutputExisting


def _same(old: tuple[Stmt, ...], new: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return old if all(a is b for a, b in zip(old, new, strict=True)) else new

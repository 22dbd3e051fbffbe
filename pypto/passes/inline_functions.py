"""Inline functions, spliced into their callers.

In: a program in which functions of type Inline are called as `x = f(...)` or `f(...)`.  Out: the program without them;
each call replaced by a copy of the body with renamed locals, the result bound to what the call was bound to.
Invariant: an argument that the body writes through (store, write, assemble on the parameter's name) is the caller's own
variable; a parameter that the body rebinds to something else is a local copy.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.enums import FunctionType
from pypto.errors import CompileError
from pypto.ir import ops
from pypto.ir.expr import Call, ConstBool, ConstFloat, ConstInt, Expr, IterArg, MakeTuple, Var
from pypto.ir.node import MANY
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import Mutator, walk
from pypto.ir.shaped import ShapedType
from pypto.ir.stmt import AssignStmt, EvalStmt, ReturnStmt, Stmt, WhileStmt, flatten_to_stmts, seq
from pypto.ir.types import Type
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.scopes import definitions, statements
from pypto.passes.context import PassOptions
from pypto.passes.framework import program_pass
from pypto.passes.retype import Retyper, rebuilt, rededuce

__all__ = ["inline_functions"]


@program_pass("InlineFunctions", produces=(IRProperty.InlineFunctionsEliminated,))
def inline_functions(program: Program, options: PassOptions) -> Program:
    inline = {f.name: f for f in program.function_list if f.func_type is FunctionType.Inline}
    if not inline:
        return program
    splicer = _Splicer({})
    # Callees first, so that what is spliced holds no inline calls itself.
    for name in _callees_first(inline):
        f = inline[name]
        splicer.ready[name] = f.replace(body=splicer.body(f.body))
    kept = [f for f in program.function_list if f.func_type is not FunctionType.Inline]
    return program.with_functions(f.replace(body=splicer.body(f.body)) for f in kept)


def _callees_first(inline: dict[str, Function]) -> list[str]:
    order: list[str] = []
    path: list[str] = []

    def enter(name: str, at: Call | None) -> None:
        if name in order:
            return
        if name in path:
            cycle = " -> ".join([*path[path.index(name) :], name])
            what = f"inline functions call each other in a cycle: {cycle}"
            raise CompileError(what, at.span if at is not None else None, "write a loop instead of the recursion")
        path.append(name)
        for call in _calls(inline[name].body):
            if call.op.name in inline:
                enter(call.op.name, call)
        path.pop()
        order.append(name)

    for name in inline:
        enter(name, None)
    return order


def _calls(s: Stmt) -> Iterator[Call]:
    return (n for n in walk(s) if isinstance(n, Call))


class _Splicer(Mutator):
    """Replaces calls of the functions in `ready`; what a nested call computes stands before its statement."""

    def __init__(self, ready: dict[str, Function]) -> None:
        super().__init__()
        self.ready = ready
        self.count = 0
        self.pending: list[Stmt] = []

    def visit_type(self, t: Type) -> Type:
        return t

    def body(self, s: Stmt) -> Stmt:
        """A body keeps what its own calls compute."""
        outer, self.pending = self.pending, []
        made = rebuilt(s, [x for old in flatten_to_stmts(s) for x in self._with_pending(old)])
        self.pending = outer
        return made

    def _with_pending(self, s: Stmt) -> list[Stmt]:
        made: Stmt | list[Stmt] = self.visit(s)
        before, self.pending = self.pending, []
        return [*before, *(made if isinstance(made, list) else [made])]

    def visit_assign_stmt(self, s: AssignStmt) -> Stmt | list[Stmt]:
        f = self._callee(s.value)
        if f is None:
            return s.replace(value=self.expr(s.value))
        assert isinstance(s.value, Call)
        body, values = self._copy(f, self._arguments(s.value))
        if not values:
            raise CompileError(f"'{f.name}' returns nothing that could be assigned", s.span, f"end '{f.name}' with a return")
        value = values[0] if len(values) == 1 else MakeTuple(values, s.span)
        return body if value is s.var else [*body, s.replace(value=value)]

    def visit_eval_stmt(self, s: EvalStmt) -> Stmt | list[Stmt]:
        f = self._callee(s.expr)
        if f is None:
            return s.replace(expr=self.expr(s.expr))
        assert isinstance(s.expr, Call)
        return self._copy(f, self._arguments(s.expr))[0]

    def visit_while_stmt(self, s: WhileStmt) -> Stmt:
        nested = next((n for n in walk(s.condition) if isinstance(n, Call) and self._callee(n)), None)
        if nested is not None:
            what = f"the condition of a loop calls the inline function '{nested.op.name}'"
            raise CompileError(what, nested.span, "assign its result to a name before the loop and at the end of the body")
        return self.rebuild(s)

    def visit_call(self, c: Call) -> Expr:
        f, new = self._callee(c), self._arguments(c)
        if f is None:
            return c if new is c else rededuce(new)
        body, values = self._copy(f, new)
        if not values:
            raise CompileError(f"'{f.name}' returns nothing that could be used", c.span, f"end '{f.name}' with a return")
        self.pending += body
        return values[0] if len(values) == 1 else MakeTuple(values, c.span)

    def _arguments(self, c: Call) -> Call:
        return c.replace(args=self._value(c.args, MANY))

    def _callee(self, e: Expr) -> Function | None:
        return self.ready.get(e.op.name) if isinstance(e, Call) and ops.of(e) is None else None

    def _copy(self, f: Function, call: Call) -> tuple[list[Stmt], tuple[Expr, ...]]:
        if len(call.args) != len(f.params):
            what = f"'{f.name}' expects {len(f.params)} argument(s), got {len(call.args)}"
            raise CompileError(what, call.span, f"call it as {f.name}({', '.join(p.name_hint for p in f.params)})")
        suffix = f"_inline{self.count}"
        self.count += 1
        written = _assigned_params(f)
        before: list[Stmt] = []
        mapping: dict[Var, Expr] = dict(_bound_symbols(f, call))
        renewed: dict[Var, Var] = {}
        for p, a in zip(f.params, call.args, strict=True):
            if written.get(p, True) and (isinstance(a, Var) if p in written else _atomic(a)):
                mapping[p] = a
                if p in written:
                    assert isinstance(a, Var)
                    renewed[p] = a
            else:
                local = Var(p.name_hint + suffix, a.type, p.span)
                before.append(AssignStmt(local, a, call.span))
                mapping[p] = renewed[p] = local
        copier = _Copy(mapping, renewed, suffix)
        stmts = [x for s in flatten_to_stmts(f.body) for x in flatten_to_stmts(copier.body(s))]
        values: tuple[Expr, ...] = ()
        if stmts and isinstance(stmts[-1], ReturnStmt):
            values = stmts.pop().value  # type: ignore[attr-defined]
        if any(isinstance(n, ReturnStmt) for s in stmts for n in statements(s)):
            what = f"'{f.name}' returns before its end; an inline function has one exit"
            raise CompileError(what, call.span, "assign the result to a name in each branch, and return that name at the end")
        return flatten_to_stmts(seq([*before, *stmts])), values


def _atomic(e: Expr) -> bool:
    """Whether reading the argument again costs and changes nothing."""
    return not any(isinstance(n, Call) for n in walk(e)) or isinstance(e, (Var, ConstInt, ConstFloat, ConstBool))


def _assigned_params(f: Function) -> dict[Var, bool]:
    """The parameters that the body assigns, and whether it only writes through them."""
    through: dict[Var, bool] = {}
    params = set(f.params)
    assigned = params & definitions(f.body).keys()
    for n in statements(f.body):
        if isinstance(n, AssignStmt) and n.var in params:
            op = ops.of(n.value) if isinstance(n.value, Call) else None
            same = isinstance(n.value, Call) and op is not None and op.reuses is not None and n.value.args[op.reuses] is n.var
            through[n.var] = through.get(n.var, True) and same
    return {p: through.get(p, False) for p in f.params if p in assigned}


def _bound_symbols(f: Function, call: Call) -> Iterator[tuple[Var, Expr]]:
    """Dynamic extents of the callee's parameter types, with what they are at this call."""
    for p, a in zip(f.params, call.args, strict=True):
        if isinstance(p.type, ShapedType) and isinstance(a.type, ShapedType) and p.type.rank == a.type.rank:
            for symbol, extent in zip(p.type.shape, a.type.shape, strict=True):
                if isinstance(symbol, Var) and symbol is not extent:
                    yield symbol, extent


class _Copy(Retyper):
    """Copies a body: every definition gets one new variable, however often it is assigned."""

    def __init__(self, mapping: dict[Var, Expr], renewed: dict[Var, Var], suffix: str) -> None:
        super().__init__(mapping)
        self.renewed, self.suffix = renewed, suffix

    def define_as(self, v: Var, type_: Type) -> Var:
        known = self.renewed.get(v)
        if known is None:
            known = self.renewed[v] = Var(v.name_hint + self.suffix, type_, v.span)
        self.vars[v] = known
        return known

    def carried(self, iter_args: tuple[IterArg, ...]) -> tuple[IterArg, ...]:
        inits = [self.expr(a.initValue) for a in iter_args]
        made = []
        for a, init in zip(iter_args, inits, strict=True):
            new = IterArg(a.name_hint + self.suffix, self.type_after(a, a.initValue, init), init, a.span)
            self.vars[a] = new
            made.append(new)
        return tuple(made)

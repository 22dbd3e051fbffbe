"""BufferIR: a function of the buffer stage says everything by handles, and nothing else.

In: device functions of the buffer stage; others are not looked at.  Out: tiles, memrefs or tile operators that are left,
handles that control flow, tuples, attributes or other operators carry, calls that their operators refuse or type
differently, unproved storage (see `buffer_storage`), and what the judges of SSA form, order of definitions and types say.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.enums import FunctionIRStage, OpIRStage
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, IterArg, MakeTuple, MemRef, Submit, TupleGetItemExpr, Var
from pypto.ir.node import Node, attr_nodes
from pypto.ir.opdef import OpRejected
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import defined_vars, walk
from pypto.ir.shaped import BufferType, TensorType, TileType
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, IfStmt, ReturnStmt, Stmt, WhileStmt, YieldStmt
from pypto.ir.types import MemRefType, PtrType, TupleType, Type, VoidType
from pypto.ir.verify.buffer_storage import check_buffer_storage
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.ssa import ssa_form
from pypto.ir.verify.types import assign_type_symmetry
from pypto.ir.verify.use_after_def import use_after_def
from pypto.span import Span

__all__ = ["buffer_ir", "check_buffer_function"]

RULE = "BufferIR"


def buffer_ir(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        if f.is_device and f.ir_stage is FunctionIRStage.Buffer:
            yield from check_buffer_function(f)


def check_buffer_function(f: Function) -> list[Diagnostic]:
    """Every finding about one function of the buffer stage."""
    alone = Program([f])
    found = [*ssa_form(alone), *use_after_def(alone), *assign_type_symmetry(alone)]
    form = _Form(f)
    form.run()
    found += form.found
    if not found:
        check_buffer_storage(f, form.report)
        found += form.found
    return found


def _holds_handle(t: Type) -> bool:
    return isinstance(t, BufferType) or (isinstance(t, TupleType) and any(_holds_handle(x) for x in t.types))


class _Form:
    def __init__(self, f: Function) -> None:
        self.f = f
        self.found: list[Diagnostic] = []

    def report(self, message: str, span: Span) -> None:
        self.found.append(Diagnostic(Severity.Error, RULE, 1, f"kernel '{self.f.name}': {message}", span))

    def run(self) -> None:
        for v in (*self.f.params, *defined_vars(self.f.body)):
            self.type(v.type, f"'{v.name_hint}'", v.span)
        for t in self.f.return_types:
            self.type(t, "a return type", self.f.span)
        if any(_holds_handle(n.type) for n in attr_nodes(self.f.attrs) if isinstance(n, Expr)):
            self.report("attributes of the function cannot carry buffer handles", self.f.span)
        params = set(self.f.params)
        for n in walk(self.f.body):
            if isinstance(n, Stmt):
                self.statement(n, params)
            elif isinstance(n, (Call, Submit)):
                self.call(n)

    def type(self, t: Type, what: str, span: Span) -> None:
        if isinstance(t, TileType):
            self.report(f"Logical TileType of {what}", span)
        elif isinstance(t, (PtrType, MemRefType)):
            self.report(f"Standalone MemRef/Ptr value {what}", span)
        elif isinstance(t, TensorType) and any(_holds_handle(n.type) for n in walk(t, types=True) if isinstance(n, Expr)):
            self.report(f"Type metadata of {what} cannot carry buffer handles", span)
        elif isinstance(t, TupleType):
            for x in t.types:
                self.type(x, what, span)

    def statement(self, s: Stmt, params: set[Var]) -> None:
        if isinstance(s, AssignStmt):
            self.assignment(s, params)
        elif isinstance(s, EvalStmt):
            void = isinstance(s.expr.type, VoidType)
            if isinstance(s.expr, Call) and s.expr.op.name.startswith("buffer.") and not void:
                self.report(f"the result of {s.expr.op.name} must be assigned", s.span)
        elif isinstance(s, (ForStmt, WhileStmt, IfStmt)):
            self.control_flow(s)
        elif isinstance(s, (YieldStmt, ReturnStmt)) and any(_holds_handle(v.type) for v in s.value):
            self.report("handles cannot be yielded or returned", s.span)

    def assignment(self, s: AssignStmt, params: set[Var]) -> None:
        if s.var in params and isinstance(s.var.type, BufferType):
            self.report(f"Incoming buffer parameter '{s.var.name_hint}' cannot be redefined", s.span)
        if not _holds_handle(s.var.type):
            return
        if isinstance(s.value, Var):
            self.report(f"'{s.var.name_hint}' is an implicit alias of '{s.value.name_hint}'", s.span)
        elif isinstance(s.value, (MakeTuple, TupleGetItemExpr)):
            self.report(f"'{s.var.name_hint}': handles are direct results of registered buffer operations", s.span)
        elif not isinstance(s.value, Call) or _stage(s.value) is not OpIRStage.Buffer:
            self.report(f"'{s.var.name_hint}': only buffer operations can produce a buffer handle", s.span)

    def control_flow(self, s: ForStmt | WhileStmt | IfStmt) -> None:
        carried: list[Expr] = list(s.return_vars)
        if isinstance(s, (ForStmt, WhileStmt)):
            carried += s.iter_args
            carried += [a.initValue for a in s.iter_args if isinstance(a, IterArg)]
        if isinstance(s, ForStmt) and any(_holds_handle(n.type) for n in attr_nodes(s.attrs) if isinstance(n, Expr)):
            self.report("attributes of a loop cannot carry buffer handles", s.span)
        if any(_holds_handle(e.type) for e in carried):
            self.report("control flow cannot carry buffer handles", s.span)

    def call(self, c: Call | Submit) -> None:
        name = c.op.name
        if name.startswith(("tile.", "pld.tile.")):
            self.report(f"Logical tile operation {name}", c.span)
            return
        if any(isinstance(a, MemRef) for a in c.args):
            self.report("Standalone MemRef/Ptr value as an operand", c.span)
        op = ops.of(c) if isinstance(c, Call) else None
        if name.startswith("buffer.") and op is None:
            self.report(f"{name} has no registered buffer-stage contract", c.span)
        elif op is None or op.stage is not OpIRStage.Buffer:
            if any(_holds_handle(a.type) for a in c.args) or any(_holds_handle(n.type) for n in _attr_exprs(c)):
                self.report(f"{name} cannot carry buffer handles", c.span)
        else:
            assert isinstance(c, Call)
            self.buffer_call(c)

    def buffer_call(self, c: Call) -> None:
        op = ops.get(c.op.name)
        try:
            fresh = op.call(c.args, c.kwargs, c.span, c.type if op.explicit_result else None)
        except OpRejected as e:
            self.report(f"Invalid buffer call {c.op.name}: {e.message}", c.span)
            return
        if fresh.type != c.type:
            self.report(f"Invalid buffer call {c.op.name}: its type is not what it deduces", c.span)


def _stage(c: Call) -> OpIRStage | None:
    op = ops.of(c)
    return op.stage if op is not None else None


def _attr_exprs(c: Call | Submit) -> list[Expr]:
    nodes: list[Node] = [*attr_nodes(c.attrs), *attr_nodes(c.kwargs)]
    return [n for n in nodes if isinstance(n, Expr)]

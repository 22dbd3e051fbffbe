"""Callers of kernels that gained Out parameters.

In: a program whose kernels were converted, and what each gained.  Out: wrappers (Spmd, Group) gain the same parameters
and forward them; every other caller creates one tensor per parameter and appends it to the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypto.enums import ArgDirection, FunctionType
from pypto.errors import CompileError
from pypto.ir.expr import Call, Expr, MakeTuple, Submit, TupleGetItemExpr, Var
from pypto.ir.program import Function
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import AssignStmt, ReturnStmt, flatten_to_stmts
from pypto.ir.types import TupleType, Type
from pypto.passes.convert_tensor_to_tile_ops.outputs import NOT_A_RESULT, AddedOutput, append_outputs
from pypto.passes.ssa_rewriter import SSARewriter

__all__ = ["update_callers"]

Added = Mapping[str, list[AddedOutput]]
_WRAPPERS = (FunctionType.Spmd, FunctionType.Group)


def update_callers(functions: list[Function], added: dict[str, list[AddedOutput]]) -> list[Function]:
    """The functions with every call of a changed kernel completed."""
    known = dict(added)
    pending = [f for f in functions if f.func_type in _WRAPPERS]
    done: dict[str, Function] = {}
    while True:  # a wrapper may wrap a wrapper
        ready = [f for f in pending if f.name not in done and _changed_calls(f, known)]
        if not ready:
            break
        for f in ready:
            done[f.name], known[f.name] = _forward(f, known)
    out = []
    for f in functions:
        if f.name in done:
            out.append(done[f.name])
        elif f.is_device or f.func_type in _WRAPPERS:
            out.append(f)
        else:
            out.append(_CallSites(known).function(f))
    return out


def _changed_calls(f: Function, added: Added) -> list[Call | Submit]:
    return [n for n in walk(f.body) if isinstance(n, (Call, Submit)) and added.get(n.op.name)]


def _forward(f: Function, added: Added) -> tuple[Function, list[AddedOutput]]:
    """A wrapper with its callees' new parameters, call by call; it allocates nothing itself."""
    mine: list[AddedOutput] = []
    params: dict[Call | Submit, list[Var]] = {}
    for call in _changed_calls(f, added):
        gained = added[call.op.name]
        params[call] = [Var(a.param.name_hint, a.param.type, a.param.span) for a in gained]
        mine += [AddedOutput(_handed_out(f, call, a.result), v) for a, v in zip(gained, params[call], strict=True)]
    return append_outputs(_Forwarding(params).function(f), mine), mine


def _handed_out(f: Function, call: Call | Submit, i: int) -> int:
    """Which result of a wrapper a call's result i is; NOT_A_RESULT if it is none."""
    values: dict[Expr, int | None] = {}  # variables for the call's result: one of several, or all that there is
    for s in flatten_to_stmts(f.body):
        if isinstance(s, AssignStmt):
            e = s.value
            if e is call:
                values[s.var] = None if isinstance(e.type, TupleType) else 0
            elif isinstance(e, TupleGetItemExpr) and e.tuple in values:
                values[s.var] = e.index
            elif e in values:
                values[s.var] = values[e]
        elif isinstance(s, ReturnStmt):
            return next((k for k, v in enumerate(s.value) if values.get(v) == i), NOT_A_RESULT)
    return NOT_A_RESULT


class _Forwarding(SSARewriter):
    def __init__(self, params: Mapping[Call | Submit, list[Var]]) -> None:
        super().__init__()
        self.params = params

    def visit_call(self, c: Call) -> Expr:
        made = super().visit_call(c)
        return _append(made, self.params[c]) if c in self.params else made

    def visit_submit(self, c: Submit) -> Expr:
        made: Any = self.rebuild(c)
        return _append(made, self.params[c]) if c in self.params else made


class _CallSites(SSARewriter):
    def __init__(self, added: Added) -> None:
        super().__init__()
        self.added = added

    def visit_call(self, c: Call) -> Expr:
        return self._complete(super().visit_call(c))

    def visit_submit(self, c: Submit) -> Expr:
        return self._complete(self.rebuild(c))

    def _complete(self, c: Any) -> Expr:
        added = self.added.get(c.op.name)
        if not added:
            made: Expr = c
            return made
        return _append(c, [self._create(c, a) for a in added])

    def _create(self, c: Call | Submit, a: AddedOutput) -> Var:
        """A tensor for one result, of the shape it has where the call stands."""
        result = _result_type(c.type, a.result)
        t = result if isinstance(result, TensorType) else a.param.type
        assert isinstance(t, TensorType)
        if not isinstance(result, TensorType) and t.dims is None:
            raise CompileError(
                f"'{c.op.name}' makes a result of run-time shape that it does not return",
                c.span,
                "return every result of the kernel from its wrapper",
            )
        return self.emit("tensor.create", (MakeTuple(t.shape),), {"dtype": t.dtype}, a.param.name_hint)


def _result_type(t: Type, i: int) -> Type | None:
    if isinstance(t, TupleType):
        return t.types[i] if 0 <= i < len(t.types) else None
    return t if i == 0 else None


def _append(c: Any, args: list[Var]) -> Expr:
    directions = c.attrs.get("arg_directions")
    attrs = c.attrs
    if directions:
        attrs = attrs.with_(arg_directions=(*directions, *(ArgDirection.OutputExisting for _ in args)))
    made: Expr = c.replace(args=(*c.args, *args), attrs=attrs)
    return made

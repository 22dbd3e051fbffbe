"""A region of a function made into a function of its own.

In: a body in SSA form and the values of it that are used elsewhere.  Out: a function whose parameters are what the body
captured, in order of first use, and the statements that call it in the body's place.
Invariant: a value that is a captured tensor, written or not, is returned as that parameter; the callee shares no variable
with the caller except the symbols of dynamic extents, which every array brings along.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import FunctionType, Level, ParamDirection, Role
from pypto.errors import CompileError, InternalError
from pypto.ir.expr import Call, Expr, GlobalVar, TupleGetItemExpr, Var
from pypto.ir.node import EMPTY, Attrs
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import Mutator
from pypto.ir.shaped import ShapedType, TileType
from pypto.ir.stmt import AssignStmt, EvalStmt, ReturnStmt, ScopeStmt, Stmt, flatten_to_stmts, seq
from pypto.ir.types import ArrayType, ScalarType, TupleType, Type, UnknownType
from pypto.ir.verify.roots import Flow, Roots, accesses, merged_direction
from pypto.ir.verify.scopes import definitions, statements
from pypto.named import NamedTuple
from pypto.passes.convert_to_ssa import base_name
from pypto.passes.normalize_stmt_structure import flat
from pypto.passes.retype import Retyper, count_uses, used_vars
from pypto.span import Span

__all__ = ["Names", "Outliner", "Region", "outline_scopes"]


class Names:
    """Names of functions and of symbols in a program, those to come included."""

    def __init__(self, program: Program) -> None:
        self.taken = {f.name for f in program.function_list}
        self._numbers: Counter[str] = Counter()
        types = (p.type for f in program.function_list for p in f.params)
        self._symbol_names = {d.name_hint for t in types for d in used_vars(t, types=True)}
        self._symbols: dict[Var, Var] = {}

    def symbol(self, extent: Var) -> Var:
        """The symbol that stands for a variable of the caller in the types of its callees."""
        known = self._symbols.get(extent)
        if known is None:
            name, n = extent.name_hint, 0
            while name in self._symbol_names:
                name, n = f"{extent.name_hint}_{n}", n + 1
            self._symbol_names.add(name)
            known = self._symbols[extent] = Var(name, ScalarType.of(DataType.INDEX), extent.span)
        return known

    def numbered(self, stem: str) -> str:
        """`<stem>_<n>` with the next free number."""
        while True:
            name = f"{stem}_{self._numbers[stem]}"
            self._numbers[stem] += 1
            if name not in self.taken:
                self.taken.add(name)
                return name

    def hinted(self, hint: str, function: str) -> str:
        """A name the user asked for: as it is, else with the function's name, else numbered."""
        for name in (hint, f"{function}_{hint}"):
            if name not in self.taken:
                self.taken.add(name)
                return name
        return self.numbered(hint)


class Region(NamedTuple):
    """What becomes a function: the body, what is used outside of it, and what the function is to be."""

    scope: ScopeStmt
    outputs: list[Var]
    name: str
    func_type: FunctionType
    attrs: Mapping[str, Any] = EMPTY
    call_attrs: Mapping[str, Any] = EMPTY
    level: Level | None = None
    role: Role | None = None
    # Whether writes through captured tensors show in the directions of the parameters and in what is returned.
    exports_writes: bool = True


class Outliner(Mutator):
    """Replaces scopes of one function; subclasses say which, and what each becomes."""

    def __init__(self, f: Function, names: Names, flow: Flow) -> None:
        super().__init__()
        self.f, self.names, self.flow = f, names, flow
        self.uses = count_uses(f.body)
        self.made: list[Function] = []

    def visit_expr(self, e: Expr) -> Expr:
        return e

    def outputs(self, body: Stmt) -> list[Var]:
        """The variables defined in `body` that are read outside of it, in order of definition."""
        inside = count_uses(body)
        return [v for v in definitions(body) if self.uses.get(v, 0) > inside.get(v, 0)]

    def name(self, hint: str, suffix: str) -> str:
        return self.names.hinted(hint, self.f.name) if hint else self.names.numbered(f"{self.f.name}_{suffix}")

    def outlined(self, region: Region) -> list[Stmt]:
        """The region as a function, and the call that replaces it."""
        function, call = _outline(region, self.f, self.flow, self.names)
        self.made.append(function)
        return call


def outline_scopes(
    program: Program, outliner: type[Outliner], scopes: tuple[type[ScopeStmt], ...], parents: Container[FunctionType]
) -> Program:
    """The program with the scopes of the parents' bodies outlined; itself if there are none."""
    names, flow = Names(program), Flow(program)
    functions: list[Function] = []
    for f in program.function_list:
        if f.func_type in parents and any(isinstance(n, scopes) for n in statements(f.body)):
            at_work = outliner(f, names, flow)
            outer = flat(at_work.f.replace(body=at_work.body(at_work.f.body)))
            functions += [outer, *at_work.made]
        else:
            functions.append(f)
    return program.with_functions(sorted(functions, key=lambda f: f.name))


def _outline(region: Region, parent: Function, flow: Flow, names: Names) -> tuple[Function, list[Stmt]]:
    body = region.scope.body
    captured = _captured(body, parent)
    params = _parameters(captured, parent, names)
    roots = Roots(flow, captured)
    roots.follow(body)
    moved = _Move({v: p for v, p in params.items()}, set(region.outputs))
    stmts = [moved.body(s) for s in flatten_to_stmts(body)]
    values = [_returned(v, roots, params, moved, region) for v in region.outputs]
    if values:
        stmts.append(ReturnStmt(values, region.scope.span))
    found = accesses(body, roots) if region.exports_writes else {}
    directions = [merged_direction(found[v]) if v in found else ParamDirection.In for v in captured]
    function = Function(
        region.name,
        list(zip((params[v] for v in captured), directions, strict=True)),
        [v.type for v in values],
        seq(stmts, region.scope.span),
        region.scope.span,
        region.func_type,
        region.level,
        region.role,
        region.attrs,
    )
    return function, _call(region, captured)


def _symbols(f: Function) -> set[Var]:
    """The dynamic extents in the types of the parameters."""
    return {d for p in f.params for d in used_vars(p.type, types=True)} - set(f.params)


def _captured(body: Stmt, parent: Function) -> list[Var]:
    """Variables the body reads from around it, in order of first use, without symbols that captured arrays bring."""
    inside, symbols = definitions(body), _symbols(parent)
    read = [v for v in used_vars(body) if v not in inside]
    brought = {d for v in read if isinstance(v.type, ShapedType) for d in v.type.shape if d in symbols}
    for v in read:
        if isinstance(v.type, (TileType, ArrayType)):
            raise _stays(v, _first_use(body, v).span, True)
        if isinstance(v.type, TupleType):
            raise InternalError(f"the tuple '{v.name_hint}' is captured whole")
    return [v for v in read if v not in brought]


def _first_use(body: Stmt, v: Var) -> Stmt:
    return next((s for s in flatten_to_stmts(body) if v in used_vars(s)), body)


def _parameters(captured: list[Var], parent: Function, names: Names) -> dict[Var, Var]:
    """A fresh parameter for each captured variable; extents that are variables of the parent become symbols."""
    params: dict[Var, Var] = {}
    known = _symbols(parent)
    extents: dict[Var, Expr] = {}
    for v in captured:
        if isinstance(v.type, ScalarType):
            params[v] = extents[v] = Var(v.name_hint, v.type, v.span)
    for v in captured:
        if v in params:
            continue
        for d in used_vars(v.type, types=True):
            if d not in known and d not in extents:
                extents[d] = names.symbol(d)
        type_: Type = Retyper(extents).visit(v.type)
        params[v] = Var(v.name_hint, type_, v.span)
    return params


class _Move(Retyper):
    """The body in its new function; what the caller keeps under its own name gets a variable of its own here."""

    def __init__(self, mapping: Mapping[Var, Expr], renewed: set[Var]) -> None:
        super().__init__(mapping)
        self.renewed = renewed

    def define_as(self, v: Var, type_: Type) -> Var:
        if v not in self.renewed:
            return Retyper.define_as(self, v, type_)
        new = Var(v.name_hint, type_, v.span)
        self.vars[v] = new
        return new


def _returned(v: Var, roots: Roots, params: Mapping[Var, Var], moved: _Move, region: Region) -> Expr:
    root = roots.only(v)
    if root is not None and root in params and region.exports_writes:
        return params[root]
    if isinstance(v.type, (TileType, ArrayType)):
        raise _stays(v, v.span if v.span.is_valid() else region.scope.span, False)
    return moved.expr(v)


def _stays(v: Var, span: Span, into: bool) -> CompileError:
    """What lies on the core does not leave the function that makes it."""
    if isinstance(v.type, TileType):
        kind, hint = (
            "tile",
            "store it to a tensor in the scope that makes it and load it here" if into else "store it to a tensor in this scope",
        )
    else:
        kind = "array"
        hint = "create it in this scope" if into else "write its elements into a tensor in this scope, with pl.write"
    return CompileError(f"the {kind} '{base_name(v.name_hint)}' is used outside of the scope that made it", span, hint)


def _call(region: Region, captured: list[Var]) -> list[Stmt]:
    span = region.scope.span
    outputs = region.outputs
    types = [v.type for v in outputs]
    type_: Type = UnknownType.get() if not types else types[0] if len(types) == 1 else TupleType(tuple(types))
    call = Call(GlobalVar(region.name), captured, EMPTY, Attrs(region.call_attrs), type_, span)
    if not outputs:
        return [EvalStmt(call, span)]
    if len(outputs) == 1:
        return [AssignStmt(outputs[0], call, span)]
    whole = Var(f"{region.name}_results", type_, span)
    parts = (AssignStmt(v, TupleGetItemExpr(whole, i, span), span) for i, v in enumerate(outputs))
    return [AssignStmt(whole, call, span), *parts]

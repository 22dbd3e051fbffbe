"""Walking and rewriting IR, generic over field roles.

`Visitor` and `Mutator` call `visit_<class in snake case>` of the nearest class in a node's ancestry that has one, else
they recurse.  Invariant of `Mutator`: what does not change is returned as the very same object; a variable whose
definition is rebuilt is replaced at every use; a statement made in place of another inherits its span and comments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from pypto.ir.expr import Expr, IterArg, Var
from pypto.ir.node import DEFINITION, MANY, ONE, Attrs, Node
from pypto.ir.stmt import SeqStmts, Stmt
from pypto.ir.types import Type

__all__ = ["Mutator", "Visitor", "deep_clone", "defined_vars", "free_vars", "sources", "substitute", "walk"]

N = TypeVar("N", bound=Node)
Replacement = Stmt | Iterable[Stmt] | None


class _Dispatch:
    """Finds the most specific `visit_*` method for a node class, once per pair of classes."""

    __slots__ = ()
    _handlers: ClassVar[dict[type[Node], str | None]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._handlers = {}

    @classmethod
    def _find(cls, kind: type[Node]) -> str | None:
        for c in kind.__mro__:
            hook = c.__dict__.get("__hook__") or _hook_name(c)
            name = f"visit_{hook}"
            if hook and hasattr(cls, name):
                cls._handlers[kind] = name
                return name
        cls._handlers[kind] = None
        return None


def _hook_name(c: type) -> str | None:
    return {"Expr": "expr", "Type": "type", "IRNode": "ir_node"}.get(c.__name__)


class Visitor(_Dispatch):
    """Reads a tree.  `walks_types`: whether extents inside types are visited too."""

    walks_types: ClassVar[bool] = False

    def visit(self, n: Node) -> None:
        kind = type(n)
        name = self._handlers[kind] if kind in self._handlers else self._find(kind)
        if name is not None:
            getattr(self, name)(n)
        else:
            self.walk(n)

    def walk(self, n: Node) -> None:
        """Visit everything below."""
        for child in n.children() if self.walks_types else n.parts():
            self.visit(child)


class Mutator(_Dispatch):
    """Rebuilds a tree.  `vars` maps variables to what their uses become."""

    def __init__(self, vars: Mapping[Var, Expr] | None = None) -> None:
        self.vars: dict[Var, Expr] = dict(vars) if vars else {}

    # -- entry points --

    def visit(self, n: Node) -> Any:
        kind = type(n)
        name = self._handlers[kind] if kind in self._handlers else self._find(kind)
        return getattr(self, name)(n) if name is not None else self.rebuild(n)

    def expr(self, e: Expr) -> Expr:
        made: Expr = self.visit(e)
        return made

    def body(self, s: Stmt) -> Stmt:
        """A statement in a place that holds exactly one."""
        return _one(self.visit(s), s)

    # -- defaults --

    def visit_var(self, v: Var) -> Expr:
        known = self.vars.get(v)
        if known is not None:
            return known
        return v

    def visit_mem_ref(self, m: Node) -> Node:
        return self.rebuild(m)

    def visit_type(self, t: Type) -> Type:
        # Extents change only through variables: without a mapping there is nothing to look for.
        return self.rebuild(t) if self.vars else t

    def visit_seq_stmts(self, s: SeqStmts) -> Stmt:
        out: list[Stmt] = []
        same = True
        for old in s.stmts:
            new = self.visit(old)
            if new is old:
                out.append(old)
                continue
            same = False
            _extend(out, new, old)
        return s if same else SeqStmts(out, s.span)

    def rebuild(self, n: N) -> N:
        """The node with everything below it rewritten; itself if nothing changed."""
        changes: dict[str, Any] = {}
        for f in type(n).__walked__:
            old = getattr(n, f.name)
            new = self._definitions(old) if f.role == DEFINITION else self._value(old, f.walk)
            if new is not old:
                changes[f.name] = new
        if not changes:
            return n
        made = n.replace(**changes)
        if isinstance(made, Stmt) and isinstance(n, Stmt):
            object.__setattr__(made, "leading_comments", n.leading_comments)
        return made

    def define(self, v: Var) -> Var:
        """A variable at its definition: renewed, and its uses with it, when its type or initial value changes."""
        type_ = self.visit(v.type)
        if isinstance(v, IterArg):
            init = self.visit(v.initValue)
            if type_ is v.type and init is v.initValue:
                return v
            new: Var = IterArg(v.name_hint, type_, init, v.span)
        elif type_ is v.type:
            return v
        else:
            new = Var(v.name_hint, type_, v.span)
        self.vars[v] = new
        return new

    def _definitions(self, old: Any) -> Any:
        if old is None:
            return None
        if not isinstance(old, tuple):
            return self.define(old)
        new = tuple(self.define(v) for v in old)
        return old if all(a is b for a, b in zip(old, new, strict=True)) else new

    def _value(self, old: Any, walk: int) -> Any:
        if walk == ONE:
            return old if old is None else self._child(old)
        if walk == MANY:
            new = tuple(self._child(x) for x in old)
            return old if all(a is b for a, b in zip(old, new, strict=True)) else new
        return self._attrs(old)

    def _child(self, x: Any) -> Any:
        made = self.visit(x)
        return _one(made, x) if isinstance(x, Stmt) else made

    def _attrs(self, old: Attrs) -> Attrs:
        new = {k: self._attr(v) for k, v in old.items()}
        return old if all(new[k] is old[k] for k in old) else Attrs(new)

    def _attr(self, v: Any) -> Any:
        if isinstance(v, Node):
            return self.visit(v)
        if isinstance(v, tuple) and any(isinstance(x, Node) for x in v):
            new = tuple(self.visit(x) if isinstance(x, Node) else x for x in v)
            return v if all(a is b for a, b in zip(v, new, strict=True)) else new
        return v


def _extend(out: list[Stmt], new: Replacement, old: Stmt) -> None:
    if new is None:
        return
    if isinstance(new, SeqStmts):
        new = new.stmts
    items = [new] if isinstance(new, Stmt) else list(new)
    if items and old.leading_comments and not items[0].leading_comments and not isinstance(items[0], SeqStmts):
        object.__setattr__(items[0], "leading_comments", old.leading_comments)
    for s in items:
        if isinstance(s, SeqStmts):
            out.extend(s.stmts)
        else:
            out.append(s)


def _one(new: Replacement, old: Stmt) -> Stmt:
    if isinstance(new, Stmt):
        return new
    items: list[Stmt] = []
    _extend(items, new, old)
    return items[0] if len(items) == 1 else SeqStmts(items, old.span)


# -- questions and simple rewrites ---------------------------------------------------------------------------------


def walk(n: Node, types: bool = False) -> Iterator[Node]:
    """Every node below and including `n`, parents first; extents inside types only on request."""
    stack = [n]
    while stack:
        top = stack.pop()
        yield top
        stack += (top.children() if types else top.parts())[::-1]


def defined_vars(n: Node) -> list[Var]:
    """Variables that come into being in `n`, in program order."""
    found: dict[Var, None] = {}
    for x in walk(n):
        for f in type(x).__fields__:
            if f.role == DEFINITION:
                value = getattr(x, f.name)
                for v in value if isinstance(value, tuple) else (value,):
                    if v is not None:
                        found[v] = None
    return list(found)


def free_vars(n: Node, types: bool = False) -> list[Var]:
    """Variables used in `n` but not defined in it, in order of first use."""
    defined = set(defined_vars(n))
    found: dict[Var, None] = {}
    for x in walk(n, types):
        if isinstance(x, Var) and x.__identity__ and x not in defined:
            found[x] = None
    return list(found)


def sources(e: Expr, values: Mapping[Var, Expr]) -> set[Var]:
    """Variables that an expression is computed from, through those of `values`, which are assigned once."""
    found: set[Var] = set()
    work = free_vars(e)
    while work:
        v = work.pop()
        if v not in found:
            found.add(v)
            if v in values:
                work += free_vars(values[v])
    return found


def substitute(n: N, mapping: Mapping[Var, Expr]) -> N:
    """`n` with uses of the mapped variables replaced, inside types and attributes too."""
    if not mapping:
        return n
    made: N = Mutator(mapping).visit(n)
    return made


def opened(e: Expr, values: Mapping[Var, Expr]) -> Expr:
    """The expression, variables of `values`, which are assigned once, replaced by what they are computed from."""
    while inner := {v: values[v] for v in free_vars(e) if v in values}:
        e = substitute(e, inner)
    return e


class _Clone(Mutator):
    """Renews every definition, so that two copies of a body share no variable."""

    def __init__(self, vars: Mapping[Var, Expr], rename: Callable[[str], str]) -> None:
        super().__init__(vars)
        self.rename = rename
        self.fresh: list[tuple[Var, Var]] = []

    def define(self, v: Var) -> Var:
        type_ = self.visit(v.type)
        name = self.rename(v.name_hint)
        if isinstance(v, IterArg):
            new: Var = IterArg(name, type_, self.visit(v.initValue), v.span)
        else:
            new = Var(name, type_, v.span)
        self.vars[v] = new
        self.fresh.append((v, new))
        return new


def deep_clone(
    n: N, mapping: Mapping[Var, Expr] | None = None, rename: Callable[[str], str] = str
) -> tuple[N, list[tuple[Var, Var]]]:
    """A copy with fresh definitions and the mapped variables replaced, and the pairs (old, new) of definitions."""
    cloner = _Clone(mapping or {}, rename)
    return cloner.visit(n), cloner.fresh

"""Scopes: `with pl.at(...)`, `pl.spmd`, `pl.cluster`, `pl.split_aiv`, `pl.scope`, `pl.manual_scope`.

In: `with` statements and the two loop forms.  Out: scope statements.  Names bound inside stay visible afterwards.
Keywords are read from the text: literals, no computation.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from pypto._lazy import later
from pypto.dtypes import DataType
from pypto.enums import Level, Role, ScopeMode, SplitMode
from pypto.errors import ParserSyntaxError, ParserTypeError, UnsupportedFeatureError, closest
from pypto.frontend import raw
from pypto.frontend.constants import describe
from pypto.frontend.invoke import Callee, is_helper
from pypto.frontend.tasks import Task, identifies
from pypto.frontend.values import constant_of, scalar_dtype, value_text
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.program import Function
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import (
    AssignStmt,
    ClusterScopeStmt,
    HierarchyScopeStmt,
    InCoreScopeStmt,
    RuntimeScopeStmt,
    SplitAivScopeStmt,
    SpmdScopeStmt,
    Stmt,
)
from pypto.ir.types import ScalarType

if TYPE_CHECKING:
    from pypto.frontend import branches
    from pypto.frontend.statements import Statements
else:
    branches = later("pypto.frontend", "branches")

__all__ = ["split_aiv_loop", "spmd_loop", "with_scope"]


def with_scope(s: Statements, node: ast.With) -> None:
    if len(node.items) != 1:
        s.frame.fail(UnsupportedFeatureError, "one context manager per `with`", node, "nest the `with` statements")
    item = node.items[0]
    construct = s.construct_call(item.context_expr)
    handler = _WITH.get(construct[0].name) if construct is not None else None
    if construct is None or handler is None:
        s.frame.fail(
            UnsupportedFeatureError,
            f"Unsupported context manager: {ast.unparse(item.context_expr)}",
            item.context_expr,
            "a kernel has pl.at, pl.spmd, pl.cluster, pl.scope and pl.manual_scope",
        )
    if item.optional_vars is not None and construct[0].name not in ("at", "spmd"):
        what = f"{construct[0].spelling} binds no task"
        s.frame.fail(ParserSyntaxError, what, item.optional_vars, "leave `as` out; pl.at and pl.spmd bind tasks")
    target = item.optional_vars
    if target is not None and not isinstance(target, ast.Name):
        s.frame.fail(ParserSyntaxError, "`as` binds one name", target, "with pl.at(...) as tid:")
    if isinstance(target, ast.Name):
        span = s.frame.span(target)
        task: Any = Var(target.id, ScalarType.of(DataType.TASK_ID), span) if s.frame.raw else Task()
        s.frame.scope.bind(target.id, task, span)
        s.task = task if s.frame.raw else None
    handler(s, node, construct[1])


# -- keywords ------------------------------------------------------------------------------------------------------


_EXAMPLES = {
    "a pl.Level": "pl.Level.CORE_GROUP",
    "a pl.Role": "pl.Role.Orchestrator",
    "a pl.ScopeMode": "pl.ScopeMode.AUTO",
    "a pl.SplitMode": "pl.SplitMode.UP_DOWN",
    "a string literal": "'stage'",
    "an integer": "2",
    "an integer literal": "2",
    "True or False": "True",
}


class Keywords:
    """The arguments of a scope: each name at most once, unknown ones refused."""

    def __init__(self, s: Statements, call: ast.Call, what: str, positional: tuple[str, ...], allowed: tuple[str, ...]) -> None:
        self.s, self.call, self.what = s, call, what
        self.task = s.task  # the variable of `as tid` in a printed program
        s.task = None
        self.nodes: dict[str, ast.expr] = {}
        known = [*positional, *(a for a in allowed if a != "attrs")]
        takes = f"{what} takes {', '.join(known)}" if known else f"{what} takes no arguments"
        if len(call.args) > len(positional):
            message = f"{what} takes {len(positional)} positional arguments, got {len(call.args)}"
            s.frame.fail(ParserSyntaxError, message, call.args[len(positional)], f"{takes}; give the others by keyword")
        self.nodes.update(zip(positional, call.args, strict=False))
        for k in call.keywords:
            if k.arg is None or k.arg not in (*positional, *allowed):
                hint = closest(k.arg or "", known) or takes
                s.frame.fail(ParserSyntaxError, f"Unknown keyword argument '{k.arg}' in {what}()", k, hint)
            if k.arg in self.nodes:
                s.frame.fail(ParserSyntaxError, f"'{k.arg}' is given twice in {what}()", k, "keep one of the two")
            self.nodes[k.arg] = k.value

    def get(self, name: str, kind: type | tuple[type, ...], default: Any, want: str) -> Any:
        """A literal of the kind wanted."""
        node = self.nodes.get(name)
        if node is None:
            return default
        value = self.s.x.value(node)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            message = f"'{name}' of {self.what} must be {want}, got {describe(value)}"
            self.s.frame.fail(
                ParserSyntaxError, message, node, f"write {name}={_EXAMPLES[want]}, or another constant of that kind"
            )
        return value

    def name_hint(self) -> str:
        hint: str = self.get("name_hint", str, "", "a string literal")
        if hint and not hint.isidentifier():
            remedy = "use letters, digits and _, not beginning with a digit: name_hint='stage_1'"
            message = f"name_hint must be an identifier, got {hint!r}"
            self.s.frame.fail(ParserSyntaxError, message, self.nodes["name_hint"], remedy)
        return hint

    def attrs(self) -> dict[str, Any]:
        node = self.nodes.get("attrs")
        attrs = raw.attributes(self.s.x, node) if node is not None else {}
        if self.s.frame.raw and self.task is not None:
            attrs["task_id_var"] = self.task
        return attrs

    def optimizations(self) -> tuple[SplitMode, dict[str, Any]]:
        """`optimizations=[pl.split(mode), pl.cross_core_slot(slot_num=N)]`."""
        node = self.nodes.get("optimizations")
        split = SplitMode.NONE
        attrs: dict[str, Any] = {}
        if node is None:
            return split, attrs
        frame = self.s.frame
        if not isinstance(node, (ast.List, ast.Tuple)):
            frame.fail(ParserSyntaxError, "optimizations must be a list literal", node, "optimizations=[pl.split(mode)]")
        seen: set[str] = set()
        for e in node.elts:
            construct = self.s.construct_call(e)
            name = construct[0].name if construct is not None else ""
            if construct is None or name not in ("split", "cross_core_slot"):
                frame.fail(
                    ParserSyntaxError,
                    f"unknown optimization {ast.unparse(e)}",
                    e,
                    "pl.split(mode), pl.cross_core_slot(slot_num=N)",
                )
            if name in seen:
                frame.fail(ParserSyntaxError, f"optimization pl.{name} is given twice", e, "keep one of the two")
            seen.add(name)
            parts = Keywords(self.s, construct[1], f"pl.{name}", ("mode",) if name == "split" else ("slot_num",), ())
            if name == "split":
                split = parts.get("mode", SplitMode, SplitMode.UP_DOWN, "a pl.SplitMode")
            else:
                attrs["slot_num"] = parts.get("slot_num", int, 2, "an integer literal")
                if attrs["slot_num"] < 1 and not frame.raw:
                    what = f"'slot_num' of pl.cross_core_slot must be positive, got {attrs['slot_num']}"
                    frame.fail(ParserSyntaxError, what, parts.nodes["slot_num"], "slot_num=2 lets a core work ahead")
        return split, attrs

    def tasks(self) -> None:
        """Check `deps`, `no_dep_args` and `dumps`: they order or observe tasks, which run in program order here."""
        for name in ("deps", "no_dep_args", "dumps"):
            node = self.nodes.get(name)
            if node is None:
                continue
            if not isinstance(node, (ast.List, ast.Tuple, ast.ListComp)):
                hint = f"{name}=[{ast.unparse(node)}]"
                self.s.frame.fail(ParserTypeError, f"'{name}' of {self.what} must be a list", node, hint)
            for e in node.elts if isinstance(node, (ast.List, ast.Tuple)) else ():
                value = self.s.x.value(e)
                is_task = isinstance(value, Task) or (isinstance(value, Expr) and identifies(value))
                is_tensor = isinstance(value, Expr) and isinstance(value.type, TensorType)
                fits = value is None or is_task if name == "deps" else is_tensor
                if not fits and not self.s.frame.raw:
                    message = f"'{name}' of {self.what} cannot hold {ast.unparse(e)}"
                    hint = "list names bound by `as tid`, or None" if name == "deps" else "list tensors by their names"
                    self.s.frame.fail(ParserTypeError, message, e, hint)


# -- bodies --------------------------------------------------------------------------------------------------------


@contextmanager
def _inside(s: Statements, core: bool) -> Iterator[list[Stmt]]:
    context = s.frame.context
    with context.core() if core else nullcontext(), context.body() as body:
        yield body


@contextmanager
def _closed(s: Statements, kind: str) -> Iterator[None]:
    """`break` and `continue` inside do not reach a loop outside: the body becomes a function of its own."""
    s.frame.loops.append(kind)
    yield
    s.frame.loops.pop()


def _orchestrates(s: Statements, call: ast.Call, what: str) -> None:
    """A scope that holds kernels cannot stand in one."""
    if s.frame.context.in_core and not s.frame.raw:
        hint = "it groups or orders kernels: put it around the kernel's scope, or drop it"
        s.frame.fail(ParserSyntaxError, f"{what} inside a kernel", call, hint)


def _task_attrs(k: Keywords) -> dict[str, Any]:
    k.tasks()
    attrs = k.attrs()
    for flag in ("allow_early_resolve", "windowize"):
        if flag in k.nodes and k.get(flag, bool, False, "True or False"):
            attrs[flag] = True
    return attrs


def _at(s: Statements, node: ast.With, call: ast.Call) -> None:
    allowed = ("optimizations", "deps", "no_dep_args", "dumps", "allow_early_resolve", "name_hint", "windowize", "attrs")
    k = Keywords(s, call, "pl.at", ("level", "role"), allowed)
    frame = s.frame
    if "level" not in k.nodes:
        frame.fail(ParserSyntaxError, "pl.at needs a level", call, "pl.at(level=pl.Level.CORE_GROUP)")
    level: Level = k.get("level", Level, None, "a pl.Level")
    role: Role | None = k.get("role", Role, None, "a pl.Role")
    hint = k.name_hint()
    split, slots = k.optimizations()
    attrs = {**slots, **_task_attrs(k)}
    core = level is Level.CORE_GROUP
    if core and role is not None:
        what = "role= does not go with level CORE_GROUP"
        frame.fail(ParserSyntaxError, what, k.nodes["role"], "leave role= out, or choose another level")
    if not core and "optimizations" in k.nodes:
        what = "optimizations= is for level CORE_GROUP"
        frame.fail(ParserSyntaxError, what, k.nodes["optimizations"], "give them to the pl.at(level=pl.Level.CORE_GROUP) inside")
    if core and frame.context.in_core and not frame.raw:
        frame.fail(
            ParserSyntaxError,
            "pl.at(level=CORE_GROUP) inside a kernel",
            call,
            "a kernel holds no other kernel: drop the inner scope",
        )
    if not core:
        _orchestrates(s, call, f"pl.at(level={level.name})")
    span = frame.span(node)
    with _inside(s, core) as body, _closed(s, "at"):
        s.block(node.body)
    inner = frame.sequence(body, node)
    if core:
        frame.context.emit(InCoreScopeStmt(split, hint, body=inner, span=span, attrs=attrs))
    else:
        frame.context.emit(HierarchyScopeStmt(level, role, hint, body=inner, span=span, attrs=attrs))


def _cluster(s: Statements, node: ast.With, call: ast.Call) -> None:
    k = Keywords(s, call, "pl.cluster", (), ("name_hint", "attrs"))
    hint, attrs = k.name_hint(), k.attrs()
    _orchestrates(s, call, "pl.cluster")
    if "cluster" in s.frame.loops and not s.frame.raw:
        s.frame.fail(ParserSyntaxError, "pl.cluster inside a pl.cluster", call, "one cluster is one task: drop the inner one")
    span = s.frame.span(node)
    with _inside(s, core=False) as body, _closed(s, "cluster"):
        s.block(node.body)
    s.frame.context.emit(ClusterScopeStmt(hint, body=s.frame.sequence(body, node), span=span, attrs=attrs))


def _runtime(s: Statements, node: ast.With, call: ast.Call) -> None:
    k = Keywords(s, call, "pl.scope", ("mode",), ("name_hint", "attrs"))
    mode: ScopeMode = k.get("mode", ScopeMode, ScopeMode.AUTO, "a pl.ScopeMode")
    _emit_runtime(s, node, k, mode is ScopeMode.MANUAL)


def _manual(s: Statements, node: ast.With, call: ast.Call) -> None:
    _emit_runtime(s, node, Keywords(s, call, "pl.manual_scope", (), ("name_hint", "attrs")), True)


def _emit_runtime(s: Statements, node: ast.With, k: Keywords, manual: bool) -> None:
    frame, context = s.frame, s.frame.context
    _orchestrates(s, k.call, k.what)
    if not manual and context.auto_scope and not frame.raw:
        hint = "write @pl.jit(auto_scope=False), or leave the scope out: the whole function is one"
        frame.fail(ParserSyntaxError, "an AUTO scope placed by hand needs auto_scope=False", node.items[0].context_expr, hint)
    if context.manual and not frame.raw:
        what = "a manual scope inside a manual scope" if manual else "an AUTO scope inside a manual scope"
        frame.fail(ParserSyntaxError, what, node.items[0].context_expr, "leave the inner scope out")
    hint, attrs = k.name_hint(), k.attrs()
    span = frame.span(node)
    before, context.manual = context.manual, manual
    with _inside(s, core=False) as body:
        s.block(node.body)
    context.manual = before
    context.emit(RuntimeScopeStmt(manual, hint, body=frame.sequence(body, node), span=span, attrs=attrs))


# -- SPMD ----------------------------------------------------------------------------------------------------------

_SPMD = ("sync_start", "name_hint", "optimizations", "deps", "allow_early_resolve", "predicate", "attrs")


def _spmd(s: Statements, node: ast.With, call: ast.Call) -> None:
    k = Keywords(s, call, "pl.spmd", ("core_num",), _SPMD)
    if s.frame.raw or _dispatches(s, node.body):
        _emit_spmd(s, node, k, None, core=False)
    else:
        _emit_spmd(s, node, k, None, core=True)


def spmd_loop(s: Statements, node: ast.For, call: ast.Call) -> None:
    """`for b in pl.spmd(n):`; b is the block index."""
    k = Keywords(s, call, "pl.spmd", ("core_num",), _SPMD)
    if "deps" in k.nodes:
        what = "deps= is for `with pl.spmd(...) as tid:`"
        s.frame.fail(ParserSyntaxError, what, k.nodes["deps"], "leave it out: the blocks of this loop run in program order")
    if not isinstance(node.target, ast.Name):
        s.frame.fail(ParserSyntaxError, "the target of pl.spmd is the block index", node.target, "for b in pl.spmd(4):")
    _emit_spmd(s, node, k, node.target, core=True)


def _emit_spmd(s: Statements, node: ast.With | ast.For, k: Keywords, block: ast.Name | None, core: bool) -> None:
    frame, context = s.frame, s.frame.context
    if context.in_core and not frame.raw:
        frame.fail(
            ParserSyntaxError, "pl.spmd inside a kernel", k.call, "pl.spmd starts kernels: use it at the orchestration level"
        )
    if "predicate" in k.nodes and not frame.raw:
        what = "predicate= of pl.spmd is not supported"
        frame.fail(UnsupportedFeatureError, what, k.nodes["predicate"], "put an `if` around the launch")
    span = frame.span(node)
    blocks = _blocks(s, k)
    sync: bool = k.get("sync_start", bool, False, "True or False")
    hint = k.name_hint()
    split, slots = k.optimizations()
    attrs = {**slots, **_task_attrs(k)}
    frame.prepare((n for n in branches.assigned(s, node.body) if block is None or n != block.id), node)
    with _inside(s, core) as body, _closed(s, "spmd"):
        if block is not None:
            _bind_query(s, block, "get_block_idx")
        s.block(node.body)
    inner = frame.sequence(body, node)
    if core and block is None and not _asks_for_its_block(inner):
        what = "every block of this launch does the same: nothing in it reads pl.get_block_idx()"
        frame.fail(ParserSyntaxError, what, k.call, "for b in pl.spmd(4): binds the number of the block; or read it there")
    if core:
        inner = InCoreScopeStmt(split, hint, body=inner, span=span)
    context.emit(SpmdScopeStmt(blocks, sync, "" if core else hint, body=inner, span=span, attrs=attrs))


def _asks_for_its_block(body: Stmt) -> bool:
    known = (ops.of(n) for n in walk(body) if isinstance(n, Call))
    return any(op is not None and op.concept == "get_block_idx" for op in known)


def _bind_query(s: Statements, name: ast.Name, query: str) -> Var:
    """`name = pl.tile.<query>()`."""
    frame = s.frame
    span = frame.span(name)
    call = ops.get(f"tile.{query}").call((), None, span)
    v = Var(name.id, call.type, span)
    frame.context.emit(AssignStmt(v, call, span))
    frame.scope.bind(name.id, v, span, assignable=False)
    return v


def _blocks(s: Statements, k: Keywords) -> int | Expr:
    node = k.nodes.get("core_num")
    if node is None:
        s.frame.fail(ParserSyntaxError, "pl.spmd needs the number of blocks", k.call, "pl.spmd(4)")
    value = s.x.value(node)
    dtype = scalar_dtype(value)
    if type(constant_of(value)) is int:
        if constant_of(value) < 1:
            what = f"the number of blocks must be positive, got {constant_of(value)}"
            s.frame.fail(ParserSyntaxError, what, node, "pl.spmd(1) runs one block")
        return s.frame.expr(value, node)
    if dtype is None or not dtype.is_int():
        what = f"the number of blocks must be an integer, got {value_text(value)}"
        s.frame.fail(ParserSyntaxError, what, node, "pl.spmd(4), or pl.cast(value, pl.INDEX)")
    return s.frame.scalar(value, node)


def _dispatches(s: Statements, body: list[ast.stmt]) -> bool:
    """Whether a body is one call of a kernel."""
    if len(body) != 1:
        return False
    value = body[0].value if isinstance(body[0], (ast.Assign, ast.Expr)) else None
    if not isinstance(value, ast.Call):
        return False
    f = value.func
    if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) and f.value.id == "self":
        return True
    found = s.peek(f)
    return isinstance(found, (Callee, Function)) or (is_helper(found) and found.kind != "inline")


def split_aiv_loop(s: Statements, node: ast.For, call: ast.Call) -> None:
    """`for lane in pl.split_aiv(2, mode=...):`."""
    k = Keywords(s, call, "pl.split_aiv", ("count", "mode"), ("name_hint", "attrs"))
    frame = s.frame
    count_node = k.nodes.get("count")
    if not isinstance(count_node, ast.Constant) or count_node.value != 2:
        what = "pl.split_aiv takes the literal 2: there are two vector lanes"
        frame.fail(ParserSyntaxError, what, count_node or call, "for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):")
    if "mode" not in k.nodes:
        frame.fail(ParserSyntaxError, "pl.split_aiv needs mode=", call, "mode=pl.SplitMode.UP_DOWN, LEFT_RIGHT or NONE")
    mode: SplitMode = k.get("mode", SplitMode, None, "a pl.SplitMode")
    if frame.context.region is not None or "split_aiv" in frame.loops:
        frame.fail(ParserSyntaxError, "pl.split_aiv cannot be nested", call, "drop the inner one: its body runs on one lane")
    if not frame.context.in_core and not frame.raw:
        frame.fail(ParserSyntaxError, "pl.split_aiv belongs inside a kernel", call, "put it under `with pl.at(...)`")
    if not isinstance(node.target, ast.Name):
        what = "the target of pl.split_aiv is the lane"
        frame.fail(ParserSyntaxError, what, node.target, "for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):")
    hint, attrs = k.name_hint(), k.attrs()
    span = frame.span(node)
    with _inside(s, core=False) as body, _closed(s, "split_aiv"):
        lane = _bind_query(s, node.target, "get_subblock_idx")
        frame.context.region = mode, lane
        s.block(node.body)
        frame.context.region = None
    inner = frame.sequence(body, node)
    frame.context.emit(SplitAivScopeStmt(mode, 2, hint, body=inner, span=span, attrs=attrs))


def _printed_split(s: Statements, node: ast.With, call: ast.Call) -> None:
    """`with pl.split_aiv(2, mode=...):`, a printed region without a lane variable."""
    if not s.frame.raw:
        s.frame.fail(ParserSyntaxError, "pl.split_aiv is a loop", call, "for lane in pl.split_aiv(2, mode=...):")
    k = Keywords(s, call, "pl.split_aiv", ("count", "mode"), ("name_hint", "attrs"))
    span = s.frame.span(node)
    with _inside(s, core=False) as body:
        s.block(node.body)
    mode = k.get("mode", SplitMode, SplitMode.NONE, "a pl.SplitMode")
    count = k.get("count", int, 2, "an integer")
    inner = s.frame.sequence(body, node)
    s.frame.context.emit(SplitAivScopeStmt(mode, count, k.name_hint(), body=inner, span=span, attrs=k.attrs()))


_WITH = {
    "at": _at,
    "cluster": _cluster,
    "manual_scope": _manual,
    "scope": _runtime,
    "split_aiv": _printed_split,
    "spmd": _spmd,
}

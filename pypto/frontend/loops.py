"""Loops.

In: `for ... in pl.range(...)` and its relatives, `pl.while_`, and Python's `while`.  Out: `ForStmt` and `WhileStmt`.
With `init_values` the carried values are explicit: targets name them inside, the yield's names receive them; without,
variables that the body assigns carry themselves.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pypto.dtypes import DataType
from pypto.enums import ForKind
from pypto.errors import ParserSyntaxError, ParserTypeError, UnsupportedFeatureError, closest
from pypto.frontend import raw, scopes
from pypto.frontend.branches import Yield, assigned, condition, read_yield, split_yield
from pypto.frontend.calls import need_constant
from pypto.frontend.constants import describe, is_number
from pypto.frontend.values import number_expr, retag, scalar_dtype, type_text
from pypto.ir import scalar
from pypto.ir.expr import ConstInt, Expr, IterArg, Var
from pypto.ir.stmt import BreakStmt, ForStmt, IfStmt, Stmt, WhileStmt, YieldStmt
from pypto.ir.types import ScalarType, Type
from pypto.named import NamedTuple

if TYPE_CHECKING:
    from pypto.frontend.statements import Statements

__all__ = ["for_loop", "natural_while"]

_KINDS = {
    "range": ForKind.Sequential,
    "parallel": ForKind.Parallel,
    "unroll": ForKind.Unroll,
    "pipeline": ForKind.Pipeline,
}
_ITERATORS = "pl.range, pl.parallel, pl.unroll, pl.pipeline, pl.while_, pl.spmd or pl.split_aiv"


class Bounds(NamedTuple):
    start: Expr
    stop: Expr
    step: Expr
    dtype: DataType


def for_loop(s: Statements, node: ast.For) -> None:
    if node.orelse:
        s.frame.fail(UnsupportedFeatureError, "`else` of a loop is not supported", node.orelse[0], "put it after the loop")
    construct = s.construct_call(node.iter)
    if construct is None:
        s.frame.fail(ParserSyntaxError, f"a loop must iterate over {_ITERATORS}", node.iter, "use pl.range(...)")
    name, call = construct[0].name, construct[1]
    if name in _KINDS:
        _counted(s, node, name, call)
    elif name == "while_":
        _explicit_while(s, node, call)
    elif name == "spmd":
        scopes.spmd_loop(s, node, call)
    elif name == "split_aiv":
        scopes.split_aiv_loop(s, node, call)
    else:
        what = f"a loop must iterate over {_ITERATORS}, not {construct[0].spelling}"
        s.frame.fail(ParserSyntaxError, what, node.iter, "for i in pl.range(n):")


# -- counted loops -------------------------------------------------------------------------------------------------


def _counted(s: Statements, node: ast.For, name: str, call: ast.Call) -> None:
    frame, context = s.frame, s.frame.context
    span = frame.span(node)
    keywords = _keywords(s, call, name)
    bounds = _bounds(s, call, name)
    attrs = raw.attributes(s.x, keywords["attrs"]) if "attrs" in keywords else {}
    if name == "pipeline":
        attrs["pipeline_stages"] = _stage(s, call, keywords)
    declared = s.declared()
    index, carries = _targets(s, node, call, keywords.get("init_values"), declared)
    own = {index.id, *_own(carries)}
    names = [n for n in assigned(s, node.body) if n not in own]
    frame.prepare(names, node)
    frame.scope.forget_constants(names)
    loop_var = Var(index.id, declared.get(index.id) or ScalarType.of(bounds.dtype), frame.span(index))
    with frame.scope.borrowed([index.id, *_own(carries)]), frame.scope.inner(), context.body() as body:
        frame.scope.bind(index.id, loop_var, frame.span(index), assignable=False)
        yielded = _body(s, node.body, name, carries)
    results = _close(s, body, carries, yielded, node)
    args = [a for _, a in carries]
    context.emit(
        ForStmt(
            loop_var,
            bounds.start,
            bounds.stop,
            bounds.step,
            args,
            frame.sequence(body, node),
            [v for v, _ in results],
            span,
            _KINDS[name],
            attrs,
        )
    )
    if not frame.raw:
        frame.scope.poison(index.id, "the loop variable has no value after the loop", span)
    _after(s, carries, results, node)


def _keywords(s: Statements, call: ast.Call, name: str) -> dict[str, ast.expr]:
    allowed = {"init_values", "attrs"} | ({"stage"} if name == "pipeline" else set())
    found: dict[str, ast.expr] = {}
    for k in call.keywords:
        if k.arg == "stage" and name != "pipeline":
            what = f"'stage' belongs to pl.pipeline, not to pl.{name}"
            s.frame.fail(ParserSyntaxError, what, k, "write pl.pipeline(..., stage=2), or leave stage= out")
        if k.arg not in allowed:
            hint = (
                closest(k.arg or "", allowed)
                or f"pl.{name} takes bounds by position, and the keywords {', '.join(sorted(allowed))}"
            )
            s.frame.fail(ParserSyntaxError, f"Unknown keyword argument '{k.arg}' in pl.{name}()", k, hint)
        found[k.arg] = k.value
    if name == "unroll" and "init_values" in found and not s.frame.raw:
        s.frame.fail(
            ParserSyntaxError,
            "pl.unroll takes no init_values",
            found["init_values"],
            "rebind the name in the body: it is carried from copy to copy",
        )
    return found


def _bounds(s: Statements, call: ast.Call, name: str) -> Bounds:
    frame = s.frame
    if not 1 <= len(call.args) <= 3:
        hint = f"pl.{name}(stop), pl.{name}(start, stop) or pl.{name}(start, stop, step)"
        frame.fail(ParserSyntaxError, f"pl.{name} takes 1 to 3 bounds, got {len(call.args)}", call, hint)
    values = [s.x.value(a) for a in call.args]
    nodes = list(call.args)
    if name == "unroll":
        values = [need_constant(s.x, v, n, "a bound of pl.unroll") for v, n in zip(values, nodes, strict=True)]
    dtype: DataType | None = None
    for v, n in zip(values, nodes, strict=True):
        d = scalar_dtype(v)
        if isinstance(v, (bool, float)) or (d is not None and not d.is_int()) or (isinstance(v, Expr) and d is None):
            got = type_text(v.type) if isinstance(v, Expr) else describe(v)
            frame.fail(ParserTypeError, f"loop bounds must be integers, got {got}", n, "pl.cast(value, pl.INDEX)")
        if d is not None:
            dtype = d if dtype is None else scalar.promote(dtype, d)
    dtype = dtype or DataType.INDEX
    made = [_bound(s, v, n, dtype) for v, n in zip(values, nodes, strict=True)]
    if len(made) == 1:
        made = [_bound(s, 0, call, dtype), *made]
    if len(made) == 2:
        made.append(_bound(s, 1, call, dtype))
    if isinstance(made[2], ConstInt) and made[2].value == 0:
        hint = "step 1 visits every index, -1 counts down; leave the step out for 1"
        frame.fail(ParserSyntaxError, f"the step of pl.{name} must not be zero", nodes[-1], hint)
    return Bounds(made[0], made[1], made[2], dtype)


def _bound(s: Statements, value: Any, node: ast.AST, dtype: DataType) -> Expr:
    if is_number(value):
        return number_expr(value, s.frame.span(node)) if s.frame.raw else retag(value, dtype, s.frame.span(node))
    return s.frame.scalar(value, node)


def _stage(s: Statements, call: ast.Call, keywords: dict[str, ast.expr]) -> int:
    node = keywords.get("stage")
    if node is None:
        s.frame.fail(ParserSyntaxError, "pl.pipeline needs stage=", call, "pl.pipeline(..., stage=2)")
    value = need_constant(s.x, s.x.value(node), node, "'stage' of pl.pipeline")
    if type(value) is not int or value < 1:
        what = f"'stage' of pl.pipeline must be a positive integer, got {describe(value)}"
        s.frame.fail(ParserSyntaxError, what, node, "stage=2 doubles the buffers, stage=1 is pl.range")
    return value


# -- carries -------------------------------------------------------------------------------------------------------

Carries = list[tuple[ast.Name, IterArg]]


def _targets(
    s: Statements, node: ast.For, call: ast.Call, init: ast.expr | None, declared: dict[str, Type]
) -> tuple[ast.Name, Carries]:
    """The loop variable, and the carried names with their initial values."""
    target = node.target
    if init is None:
        if not isinstance(target, ast.Name):
            s.frame.fail(
                ParserSyntaxError,
                "a loop without init_values has one target",
                target,
                "for i in pl.range(...), or add init_values=",
            )
        return target, []
    if not isinstance(target, (ast.Tuple, ast.List)) or len(target.elts) != 2 or not isinstance(target.elts[0], ast.Name):
        s.frame.fail(
            ParserSyntaxError,
            "For loop target must be a tuple when init_values is provided",
            target,
            "for i, (a, b) in pl.range(..., init_values=(x, y))",
        )
    return target.elts[0], carried(s, target.elts[1], init, declared)


def carried(s: Statements, target: ast.expr, init: ast.expr, declared: dict[str, Type]) -> Carries:
    frame = s.frame
    values = s.x.value(init)
    if not isinstance(init, (ast.Tuple, ast.List)) or not isinstance(values, tuple):
        frame.fail(ParserSyntaxError, "init_values must be a tuple or a list", init, "init_values=(x,)")
    names = list(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else [target]
    if len(names) != len(values):
        what = f"Mismatch: {len(names)} iter_args but {len(values)} init_values"
        frame.fail(
            ParserSyntaxError, what, target, "give each carried name its initial value: (x, y) goes with init_values=(x0, y0)"
        )
    out: Carries = []
    for t, v, n in zip(names, values, init.elts, strict=True):
        if not isinstance(t, ast.Name):
            what = f"a carried value needs a plain name, got {ast.unparse(t)}"
            frame.fail(ParserSyntaxError, what, t, "for i, (x, y) in pl.range(..., init_values=(x0, y0))")
        e = frame.expr(v, n)
        e = e if frame.raw else frame.held(e, t.id, n)
        out.append((t, IterArg(t.id, declared.get(t.id) or e.type, e, frame.span(t))))
    return out


def _own(carries: Carries) -> list[str]:
    return [t.id for t, _ in carries]


def _body(s: Statements, body: Sequence[ast.stmt], kind: str, carries: Carries) -> Yield | None:
    """Read a loop's body with its carried names bound."""
    frame = s.frame
    for t, a in carries:
        frame.scope.bind(t.id, a, frame.span(t), assignable=False)
    rest, yielded = split_yield(s, body)
    frame.loops.append(kind)
    s.block(rest)
    frame.loops.pop()
    return read_yield(s, yielded) if yielded is not None else None


def _close(s: Statements, body: list[Stmt], carries: Carries, yielded: Yield | None, node: ast.AST) -> list[tuple[Var, ast.Name]]:
    """End the body with its yield; the variables that hold the carried values after the loop."""
    frame = s.frame
    if yielded is None:
        if carries:
            frame.fail(
                ParserSyntaxError,
                "a loop with init_values must end in pl.yield_: without it nothing is carried",
                node,
                f"{', '.join(t.id + '_next' for t, _ in carries)} = pl.yield_(...)",
            )
        return []
    if not carries and not frame.raw:
        frame.fail(ParserSyntaxError, "pl.yield_ in a loop without init_values", yielded.node, "add init_values=(...)")
    if len(yielded.names) != len(carries) and not frame.raw:
        frame.fail(
            ParserSyntaxError,
            f"For loop has {len(carries)} iteration arguments but {len(yielded.names)} return variables",
            yielded.node,
            f"{', '.join(t.id + '_next' for t, _ in carries)} = pl.yield_({', '.join(t.id for t, _ in carries)})",
        )
    like = [a.type for _, a in carries] if len(carries) == len(yielded.values) else yielded.values
    values = yielded.exprs(frame, like)
    results = []
    for (t, a), target, e in zip(carries, yielded.names, values, strict=False):
        declared = yielded.types.get(target.id)
        if e.type != a.type and declared is None and not frame.raw:
            frame.fail(
                ParserTypeError,
                f"the loop carries '{t.id}' as {type_text(a.type)} but yields {type_text(e.type)}",
                yielded.node,
                "the yielded value must have the type of the initial one",
            )
        results.append((Var(target.id, declared or e.type, frame.span(target)), target))
        for v in (a, results[-1][0]):
            frame.context.originate(v, a.initValue)
            frame.context.originate(v, e)
    body.append(YieldStmt(values, frame.span(yielded.node)))
    return results


def _after(s: Statements, carries: Carries, results: list[tuple[Var, ast.Name]], node: ast.AST) -> None:
    """After the loop only the yield's names exist."""
    frame = s.frame
    if not frame.raw:
        names = ", ".join(f"'{v.name_hint}'" for v, _ in results)
        for t, _ in carries:
            frame.scope.poison(t.id, f"after the loop only the names of its pl.yield_ exist ({names})", frame.span(t))
    for v, target in results:
        frame.define(v.name_hint, v, target)


# -- while ---------------------------------------------------------------------------------------------------------


def natural_while(s: Statements, node: ast.While) -> None:
    """`while condition:`; a condition that calls operators is evaluated at the head of each iteration."""
    frame, context = s.frame, s.frame.context
    span = frame.span(node)
    if node.orelse:
        frame.fail(UnsupportedFeatureError, "`else` of a loop is not supported", node.orelse[0], "put it after the loop")
    names = list(assigned(s, node.body))
    frame.prepare(names, node)
    frame.scope.forget_constants(names)
    with context.body() as before:
        test = condition(s, node.test, "while")
    with frame.scope.inner(), context.body() as body:
        if before:
            for stmt in before:
                context.emit(stmt)
            context.emit(IfStmt(scalar.not_(test, test.span), BreakStmt(test.span), None, (), span))
            test = number_expr(True, span)
        yielded = _body(s, node.body, "while", [])
    _close(s, body, [], yielded, node)
    context.emit(WhileStmt(test, (), frame.sequence(body, node), (), span))


def _explicit_while(s: Statements, node: ast.For, call: ast.Call) -> None:
    """`for (k, v) in pl.while_(init_values=(k0, v0)):` with `pl.cond(...)` first."""
    frame, context = s.frame, s.frame.context
    span = frame.span(node)
    keywords = {k.arg: k.value for k in call.keywords}
    if call.args or set(keywords) != {"init_values"}:
        frame.fail(ParserSyntaxError, "pl.while_ takes init_values= and nothing else", call, "pl.while_(init_values=(x,))")
    if not isinstance(node.target, (ast.Tuple, ast.List)):
        frame.fail(ParserSyntaxError, "the target of pl.while_ is a tuple of names", node.target, "for (x,) in pl.while_(...)")
    carries = carried(s, node.target, keywords["init_values"], s.declared())
    first = s.construct_call(node.body[0].value) if isinstance(node.body[0], ast.Expr) else None
    if first is None or first[0].name != "cond":
        what = "the first statement of a pl.while_ loop must be pl.cond(...)"
        frame.fail(
            ParserSyntaxError, what, node.body[0], f"begin the body with pl.cond({carries[0][0].id if carries else 'x'} < limit)"
        )
    if len(first[1].args) != 1 or first[1].keywords:
        frame.fail(
            ParserSyntaxError, "pl.cond takes one condition", first[1], "join several with `and`: pl.cond(x < n and y > 0)"
        )
    names = [n for n in assigned(s, node.body) if n not in _own(carries)]
    frame.prepare(names, node)
    frame.scope.forget_constants(names)
    with frame.scope.borrowed(_own(carries)), frame.scope.inner(), context.body() as body:
        _bind(s, carries)
        with context.body() as before:
            test = condition(s, first[1].args[0], "while_")
        if before:
            frame.fail(
                UnsupportedFeatureError,
                "pl.cond cannot call operators",
                first[1],
                "compute the value before the loop and in its body, and carry it",
            )
        yielded = _body(s, node.body[1:], "while", carries)
    results = _close(s, body, carries, yielded, node)
    args = [a for _, a in carries]
    context.emit(WhileStmt(test, args, frame.sequence(body, node), [v for v, _ in results], span))
    _after(s, carries, results, node)


def _bind(s: Statements, carries: Iterable[tuple[ast.Name, IterArg]]) -> None:
    for t, a in carries:
        s.frame.scope.bind(t.id, a, s.frame.span(t), assignable=False)

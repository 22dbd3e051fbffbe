"""Judge of pipes between the cores: each end fits the other, and tiles come out as they go in.

Codes: 650 an operator in a function that has no such end, 651 an end that is not opened or opened twice, 652 an end whose
buffer is not where it belongs, 653 tiles that lanes share in two ways, 654 a slot that is not freed, or freed wrongly, 655 a tile
that is used when its slot is free, 656 functions that are not started together, 657 ends that do not fit each other, 658 tiles
that nobody pops or pushes, 659 numbers of pushes and pops that differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pypto.enums import FunctionType
from pypto.ir import arith, ops
from pypto.ir.expr import Call, Expr, Submit, Var
from pypto.ir.opdef import Special
from pypto.ir.ops.pipes import BUFFER, FREE, PIPE, POP, PUSH, axis_of
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TileType, const_dims
from pypto.ir.stmt import (
    AssignStmt,
    ClusterScopeStmt,
    EvalStmt,
    ForStmt,
    IfStmt,
    SeqStmts,
    Stmt,
    WhileStmt,
    flatten_to_stmts,
    value_of,
)
from pypto.ir.verify.pipe_ends import C2V, RESERVE, Channel, PipeUse, Transfer, pipe_use
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.scopes import statements, uses_in
from pypto.ir.verify.ssa import user_name
from pypto.span import Span

__all__ = ["group_findings", "pipes_valid"]

Findings = Iterator[Diagnostic]


def pipes_valid(program: Program) -> Findings:
    """What is wrong with the pipes of a program."""
    uses = {f.name: use for f in program.function_list if (use := pipe_use(f)) is not None}
    if not uses:
        return
    for use in uses.values():
        yield from _function(use)
    for f in program.function_list:
        yield from group_findings(f, uses)


def _finding(code: int, message: str, span: Span, hint: str) -> Diagnostic:
    return Diagnostic(Severity.Error, "PipesValid", code, message, span, hint=hint)


# -- one function --------------------------------------------------------------------------------------------------

_KIND = {"aic": "AIC", "aiv": "AIV"}


def _function(use: PipeUse) -> Findings:
    f = use.function
    wrong = list(_misplaced(use))
    yield from wrong
    if wrong:
        return
    yield from _ends(use)
    yield from _sharing(use)
    yield from _freed(use)
    yield from _stale(f)


def _misplaced(use: PipeUse) -> Findings:
    for kind, call in use.calls:
        concept = call.op.name.split(".", 1)[1]
        core = _core(concept)
        if core and core != use.core:
            what = f"pl.{concept} in '{use.function.name}', which is no function of kind {_KIND[core]}"
            yield _finding(650, what, call.span, f"put it into a function with type=pl.FunctionType.{_KIND[core]}")
        elif not use.core:
            what = f"pl.{concept} in '{use.function.name}', which is a function of neither core"
            remedy = "put it into a function with type=pl.FunctionType.AIC, or AIV"
            yield _finding(650, what, call.span, remedy)
        elif kind == BUFFER and not any(b is call for b in use.buffers.values()):
            yield _finding(652, f"the address that pl.{concept} gives is not used", call.span, "give it to initialize_pipe")


def _core(concept: str) -> str:
    """The core whose functions apply an operator; empty for both."""
    if concept.endswith("initialize_pipe"):
        return concept[:3]
    if concept.startswith(("tpush", "tpop", "tfree")):
        return "aic" if concept.endswith("aiv") else "aiv"
    return ""


def _ends(use: PipeUse) -> Findings:
    top = {id(s.expr) for s in flatten_to_stmts(use.function.body) if isinstance(s, EvalStmt)}
    for kind, call in use.calls:
        if kind != PIPE:
            continue
        number = call.kwargs.get("id", 0)
        if use.ends[number] is not call:
            yield _finding(651, f"pipe {number} is opened twice", call.span, "give the other pipe another id")
        elif id(call) not in top:
            what = f"pipe {number} is opened inside of a loop or a branch"
            yield _finding(651, what, call.span, "open it at the beginning of the function")
        else:
            yield from _buffers(use, call)
    opened = set(use.channels())
    missing = {t.channel: t for t in reversed(use.transfers) if t.channel not in opened}
    for t in missing.values():
        bits = 3 if sum(x.id == t.channel.id for x in (*opened, *missing)) > 1 else t.channel.direction
        remedy = f"pl.{use.core}_initialize_pipe(..., dir_mask={bits}, slot_size=<bytes>{_with_id(t.channel.id)})"
        yield _finding(651, f"{t.channel.text()} is not opened in '{use.function.name}'", t.call.span, remedy)


def _with_id(number: int) -> str:
    return f", id={number}" if number else ""


def _buffers(use: PipeUse, end: Call) -> Findings:
    number = end.kwargs.get("id", 0)
    for direction in (1, 2):
        channel = Channel(direction, number)
        if not end.kwargs["dir_mask"] & direction:
            continue
        buffer, consumes = use.buffer(channel), use.consumes(direction)
        if consumes and (buffer is None or "size" not in buffer.kwargs):
            what = f"{channel.text()}: '{use.function.name}' pops from it and reserves no buffer for it"
            yield _finding(652, what, end.span, RESERVE)
        elif not consumes and (buffer is None or "peer_func" not in buffer.kwargs):
            what = f"{channel.text()}: '{use.function.name}' pushes into it and does not say whose buffer that is"
            yield _finding(652, what, end.span, 'peer = pl.import_peer_buffer(name=..., peer_func="<who pops>")')
        elif consumes and buffer is not None and buffer.kwargs["size"] < end.kwargs["slot_size"]:
            size, slot = buffer.kwargs["size"], end.kwargs["slot_size"]
            what = f"buffer '{buffer.kwargs['name']}' of {size} bytes has no room for a slot of {slot}"
            yield _finding(652, what, buffer.span, f"size={2 * slot} has room for two slots")


def _sharing(use: PipeUse) -> Findings:
    passed = [t for t in use.transfers if t.kind != FREE]
    other = next((t for t in passed if bool(t.split) != bool(passed[0].split)), None)
    if other is not None and use.core == "aiv" and not use.function.attrs.get("dual_aiv_dispatch"):
        what = f"'{use.function.name}' passes some tiles in halves and others whole: nothing says which lane has the whole ones"
        yield _finding(
            653, what, other.call.span, "pass all tiles with a split, or put what is passed whole into another function"
        )


def _freed(use: PipeUse) -> Findings:
    popped = {t.var: t for t in use.transfers if t.kind == POP}
    freed: dict[Var | None, list[Transfer]] = {}
    for t in use.transfers:
        if t.kind != FREE:
            continue
        source = t.call.args[0]
        pop = popped.get(source) if isinstance(source, Var) else None
        if pop is None:
            what = f"{t.call.op.name} takes the very tile that a pop gave"
            yield _finding(654, what, t.call.span, "free a tile under its first name, in the same function")
            continue
        freed.setdefault(pop.var, []).append(t)
        if pop.channel != t.channel or t.call.kwargs.get("split", pop.split) != pop.split:
            what = f"'{_called(pop.var)}' came with split={pop.split} and id={pop.channel.id}, and is freed otherwise"
            yield _finding(654, what, t.call.span, "leave split= and id= out: they are the pop's")
    for v, t in popped.items():
        peer = t.call.op.name.rsplit("_", 1)[1]
        name = _called(v)
        if v is None or v not in freed:
            what = f"the slot of '{name}' is never freed: the pipe runs full" if v is not None else "a popped tile has no name"
            remedy = f"pl.tfree_to_{peer}({name}) behind its last use" if v is not None else f"t = pl.{t.call.op.name}(...)"
            yield _finding(654, what, t.call.span, remedy)


def _called(v: Var | None) -> str:
    return user_name(v) if v is not None else "t"


def _stale(f: Function) -> Findings:
    """Uses of a popped tile, or a view of it, behind its free in the same sequence of statements."""
    roots: dict[Var, Var] = {}
    for s in statements(f.body):
        if isinstance(s, AssignStmt):
            source = _seen_through(s.value)
            if source is not None:
                roots[s.var] = roots.get(source, source)
    for block in statements(f.body):
        free: dict[Var, Stmt] = {}
        for s in block.stmts if isinstance(block, SeqStmts) else ():
            used = [v for x in statements(s) for v in _reads(x) if roots.get(v, v) in free]
            for v in used[:1]:
                again = isinstance(s, EvalStmt) and isinstance(s.expr, Call) and _is_kind(s.expr, FREE)
                what = f"'{_called(v)}' is {'freed twice' if again else 'used when its slot is free again'}"
                yield _finding(654 if again else 655, what, s.span, "free it behind its last use, once")
            if isinstance(s, EvalStmt) and isinstance(s.expr, Call) and _is_kind(s.expr, FREE):
                freed = s.expr.args[0]
                if isinstance(freed, Var):
                    free[roots.get(freed, freed)] = s
            elif isinstance(s, AssignStmt):
                free.pop(s.var, None)


def _reads(s: Stmt) -> Iterable[Var]:
    if isinstance(s, AssignStmt):
        return uses_in(s.value)
    if isinstance(s, (SeqStmts, IfStmt, ForStmt, WhileStmt)):
        starts = [a.initValue for a in s.iter_args] if isinstance(s, (ForStmt, WhileStmt)) else []
        return [v for e in starts for v in uses_in(e)]
    return uses_in(s) if not hasattr(s, "body") else ()


def _is_kind(c: Call, kind: str) -> bool:
    op = ops.of(c)
    return op is not None and isinstance(op.semantics, Special) and op.semantics.kind == kind


def _seen_through(e: Expr) -> Var | None:
    """What a view or another name shows."""
    if isinstance(e, Var):
        return e
    first = e.args[0] if isinstance(e, Call) and e.args and _is_kind(e, "view") else None
    return first if isinstance(first, Var) else None


# -- functions that run together -----------------------------------------------------------------------------------


def group_findings(f: Function, uses: dict[str, PipeUse]) -> Findings:
    """What a function starts: functions with pipes run together, once each, from a group."""
    bodies: list[Stmt] = [f.body] if f.func_type is FunctionType.Group else []
    bodies += [s.body for s in statements(f.body) if isinstance(s, ClusterScopeStmt)]
    together = {id(c) for b in bodies for c in _top_calls(b)}
    for c in _started(f.body, uses):
        if id(c) not in together:
            what = f"'{c.op.name}' is one end of a pipe, and the other end does not run beside it"
            remedy = "call both from a function with type=pl.FunctionType.Group, outside of loops and branches"
            yield _finding(656, what, c.span, remedy)
    for b in bodies:
        calls = [c for c in _top_calls(b) if c.op.name in uses]
        names = [c.op.name for c in calls]
        for i, c in enumerate(calls):
            if c.op.name in names[:i]:
                yield _finding(656, f"'{c.op.name}' is started twice in one group", c.span, "start it once, with a loop inside")
        members = {n: uses[n] for n in names}
        for c in _top_calls(b) if members else ():
            if c.op.name not in uses:
                what = f"'{c.op.name}' has no pipe and is started beside functions that have: nothing says when it runs"
                yield _finding(656, what, c.span, "start it before the group, or behind it")
        if members and all(u.core for u in members.values()):
            yield from _together(members, calls)


def _started(body: Stmt, uses: dict[str, PipeUse]) -> Iterator[Call | Submit]:
    for n in walk(body):
        if isinstance(n, (Call, Submit)) and n.op.name in uses:
            yield n


def _top_calls(body: Stmt) -> list[Call]:
    found = (value_of(s) for s in flatten_to_stmts(body))
    return [c for c in found if isinstance(c, Call) and ops.find(c.op.name) is None]


def _together(members: dict[str, PipeUse], calls: list[Call]) -> Findings:
    place = {c.op.name: c.span for c in calls}
    owners: dict[tuple[Channel, str], PipeUse] = {}
    for use in members.values():
        for channel in use.channels():
            other = owners.setdefault((channel, use.core), use)
            if other is not use:
                what = f"'{other.function.name}' and '{use.function.name}' both have the {use.core} end of pipe {channel.id}"
                yield _finding(657, what, use.ends[channel.id].span, "give one of them another id")
    for (channel, core), use in owners.items():
        peer = owners.get((channel, "aiv" if core == "aic" else "aic"))
        if peer is None:
            what = f"{channel.text()}: '{use.function.name}' has one end, and no function beside it has the other"
            kind = _KIND["aiv" if core == "aic" else "aic"]
            remedy = f"start a function of kind {kind} that opens pipe {channel.id} in the same group"
            yield _finding(657, what, use.ends[channel.id].span if use.ends else place[use.function.name], remedy)
        elif use.consumes(channel.direction):
            yield from _fits(channel, peer, use)


def _fits(channel: Channel, pusher: PipeUse, popper: PipeUse) -> Findings:
    """Both ends of one direction of a pipe."""
    push_end, pop_end = pusher.ends[channel.id], popper.ends[channel.id]
    for name in ("dir_mask", "slot_size"):
        a, b = push_end.kwargs[name], pop_end.kwargs[name]
        if a != b:
            what = f"pipe {channel.id} has {name}={a} in '{pusher.function.name}' and {name}={b} in '{popper.function.name}'"
            yield _finding(657, what, pop_end.span, "describe the pipe alike at both ends")
    imported, reserved = pusher.buffer(channel), popper.buffer(channel)
    if imported is not None and reserved is not None:
        want = (reserved.kwargs["name"], popper.function.name)
        if (imported.kwargs["name"], imported.kwargs.get("peer_func")) != want:
            what = f"{channel.text()}: '{pusher.function.name}' names another buffer than '{popper.function.name}' reserves"
            yield _finding(657, what, imported.span, f'pl.import_peer_buffer(name="{want[0]}", peer_func="{want[1]}")')
    yield from _tiles(channel, pusher, popper)


_Form = tuple[tuple[int, ...], object, int]


def _form(t: Transfer) -> _Form:
    """What a pop has to give, or gives: extents, dtype, split."""
    tile = t.call.args[0].type if t.kind == PUSH else t.call.type
    assert isinstance(tile, TileType)
    dims = list(const_dims(tile.shape) or ())
    axis = axis_of(t.split)
    if t.kind == PUSH and axis is not None:
        dims[axis] = dims[axis] // 2 if t.channel.direction == C2V else dims[axis] * 2
    return tuple(dims), tile.dtype, t.split


def _form_text(f: _Form) -> str:
    return f"a tile {list(f[0])} of {f[1]}, split={f[2]}"


def _tiles(channel: Channel, pusher: PipeUse, popper: PipeUse) -> Findings:
    pushes = [t for t in pusher.transfers if t.kind == PUSH and t.channel == channel]
    pops = [t for t in popper.transfers if t.kind == POP and t.channel == channel]
    given, taken = {_form(t): t for t in reversed(pushes)}, {_form(t): t for t in reversed(pops)}
    slot = popper.ends[channel.id].kwargs["slot_size"]
    for form, t in taken.items():
        size = form[1].get_byte() * form[0][0] * form[0][1]  # type: ignore[attr-defined]
        if form not in given:
            what = f"{channel.text()}: '{popper.function.name}' pops {_form_text(form)}, which nobody pushes"
            remedy = f"'{pusher.function.name}' pushes {' and '.join(map(_form_text, given)) or 'nothing'}"
            yield _finding(658, what, t.call.span, remedy)
        elif size > slot:
            what = f"{_form_text(form)} has {size} bytes, and a slot of pipe {channel.id} has {slot}"
            yield _finding(657, what, t.call.span, f"slot_size={size} at both ends")
    for form, t in given.items():
        if form not in taken:
            what = f"{channel.text()}: '{pusher.function.name}' pushes what gives {_form_text(form)}, which nobody pops"
            remedy = f"'{popper.function.name}' pops {' and '.join(map(_form_text, taken)) or 'nothing'}"
            yield _finding(658, what, t.call.span, remedy)
    counts = [_count(u.function.body, k, channel, u) for u, k in ((pusher, PUSH), (popper, POP))]
    if pushes and pops and None not in counts and counts[0] != counts[1]:
        what = f"{channel.text()}: {counts[0]} tiles are pushed and {counts[1]} popped"
        place = pops[0] if (counts[1] or 0) > (counts[0] or 0) else pushes[0]
        yield _finding(659, what, place.call.span, "let both loops have the same number of trips")


def _count(body: Stmt | None, kind: str, channel: Channel, use: PipeUse) -> int | None:
    """How often a function pushes or pops; None where that depends on run-time values."""
    mine = {id(t.stmt) for t in use.transfers if t.kind == kind and t.channel == channel}

    def count(s: Stmt | None) -> int | None:
        if s is None:
            return 0
        if isinstance(s, SeqStmts):
            parts = [count(x) for x in s.stmts]
            return None if None in parts else sum(p for p in parts if p is not None)
        if isinstance(s, IfStmt):
            then, other = count(s.then_body), count(s.else_body)
            return then if then == other else None
        inner = count(getattr(s, "body", None)) if hasattr(s, "body") else int(id(s) in mine)
        if not isinstance(s, (ForStmt, WhileStmt)) or not inner:
            return inner
        trips = _trips(s)
        return None if trips is None else trips * inner

    return count(body)


def _trips(s: ForStmt | WhileStmt) -> int | None:
    if not isinstance(s, ForStmt) or any(type(x).__name__ == "BreakStmt" for x in statements(s.body)):
        return None
    return arith.trips(s.start, s.stop, s.step)

"""What cores, tasks and memory are told: barriers, flags, prefetches, tasks that only wait.

In: operands and keywords that say whom it concerns.  Out: nothing, or the identity of a task, a prefetch, a session.
A barrier makes every block of a launch wait for all others: what they wrote before it is there behind it.  Everything else
here changes no number where blocks run one after the other.
Invariant: these operators act on more than their operands, so none of them is idle, and they keep their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pypto.enums import PipeType
from pypto.ir.expr import ConstInt, Expr, MakeTuple
from pypto.ir.opdef import REQUIRED, Attr, Dsl, DslContext, OpDef, Operand, OpRejected, Param, Site, Special
from pypto.ir.ops.rules import RW, D, R
from pypto.ir.shaped import as_dims
from pypto.ir.types import (
    ArrayType,
    AsyncEventType,
    AsyncSessionType,
    PrefetchAsyncContextType,
    ScalarType,
    Type,
    VoidType,
)

__all__ = ["DSL", "FENCES", "FLAG", "HARD", "IN_KERNELS", "MEET", "OPS", "PREFETCH", "SOFT", "TASK"]

# Kinds of `Special`.
MEET, FLAG, TASK, PREFETCH = "meet", "flag", "task", "prefetch"
FENCES = frozenset((MEET, FLAG))  # no statement changes sides with them
IN_KERNELS = frozenset((MEET, FLAG, PREFETCH))
HARD, SOFT = "hard", "soft"
MODES = (HARD, SOFT)
CORES = ("mix", "aic_only", "aiv_only")
_EVENTS = 16
_EVERY_CORE = 0  # the reach of a flag: every core; 1: the vector cores of a cluster; 2: a cluster's cube and vector cores


def _word(s: Site, name: str, value: Any, allowed: Iterable[str]) -> None:
    if value not in allowed:
        s.reject(f"'{name}' is {value!r}", "write " + ", ".join(f'"{x}"' for x in allowed))


# -- barriers ------------------------------------------------------------------------------------------------------


def _syncall(s: Site) -> Type:
    mode = s.kwargs.get("mode", HARD)
    _word(s, "core_type", s.kwargs.get("core_type", "mix"), CORES)
    _word(s, "mode", mode, MODES)
    if mode == HARD:
        if len(s):
            s.reject("a hard barrier has no workspace", 'mode="soft" is the one that counts in memory')
        return VoidType.get()
    if not len(s):
        hint = "gm_workspace=w, w being an INT32 tensor of 8 elements for each core, all 0"
        s.reject("a soft barrier counts in global memory: it needs 'gm_workspace'", hint)
    if s.tensor(0).dtype is not D.INT32:
        s.reject(f"the workspace holds INT32, not {s.tensor(0).dtype}", "pass an INT32 tensor, all 0", TypeError)
    if len(s) > 1:
        if not s.scalar(1).is_int():
            s.reject(f"'used_cores' is {s.scalar(1)}", "pl.cast(<cores>, pl.INT32)", TypeError)
        if isinstance(s.args[1], ConstInt) and s.args[1].value < 1:
            s.reject(f"'used_cores' is {s.args[1].value}", "it is the number of cores that meet: that of the launch")
    return VoidType.get()


def _build_syncall(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    if ctx.region is not None:
        raise OpRejected(
            "a barrier inside of a vector-lane region", "put it before or behind the region: both lanes reach it once"
        )
    if a["used_cores"] is not None and a["gm_workspace"] is None:
        raise OpRejected("'used_cores' goes with 'gm_workspace'", 'mode="soft" takes both')
    operands = [] if a["gm_workspace"] is None else [a["gm_workspace"]]
    operands += [] if a["used_cores"] is None else as_dims((a["used_cores"],))
    return ctx.op("system.syncall", operands, {"core_type": a["core_type"], "mode": a["mode"]})


# -- flags ---------------------------------------------------------------------------------------------------------


def _flag(s: Site) -> Type:
    if not s.scalar(0).is_int():
        s.reject(f"an event is an integer, got {s.scalar(0)}", "events are numbered from 0 to 15", TypeError)
    if isinstance(s.args[0], ConstInt) and not 0 <= s.args[0].value < _EVENTS:
        s.reject(f"event {s.args[0].value}", f"events are numbered from 0 to {_EVENTS - 1}")
    if s.kwargs.get("ffts_mode", _EVERY_CORE) not in (0, 1, 2):
        s.reject(
            f"'ffts_mode' is {s.kwargs['ffts_mode']}",
            "0: every core, 1: the vector cores of a cluster, 2: all cores of a cluster",
        )
    if "core_type" in s.kwargs:
        _word(s, "core_type", s.kwargs["core_type"], CORES)
    return VoidType.get()


def _set_ffts(s: Site) -> Type:
    t = s.tensor(0)
    if not t.dtype.is_int():
        s.reject(f"the workspace of flags holds integers, not {t.dtype}", "pass an INT64 tensor", TypeError)
    return VoidType.get()


def _build_flag(name: str) -> Any:
    def build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
        if not isinstance(a["pipe"], PipeType):
            raise OpRejected(f"'pipe' must be a pl.PipeType, got {a['pipe']!r}", "pipe=pl.PipeType.MTE3", TypeError)
        kwargs = {k: a[k] for k in ("pipe", "ffts_mode", "core_type") if a.get(k) is not None}
        return ctx.op(f"system.{name}", as_dims((a["event"],)), kwargs)

    return build


# -- tasks ---------------------------------------------------------------------------------------------------------


def _task_dummy(s: Site) -> Type:
    deps = s.args[0]
    if not isinstance(deps, MakeTuple):
        s.reject("'deps' is a list of task ids", "deps=[tid], with the names bound by earlier tasks", TypeError)
    for i, e in enumerate(deps.elements):
        if not isinstance(e.type, (ScalarType, ArrayType)) or e.type.dtype is not D.TASK_ID:
            s.reject(f"entry {i} of 'deps' is no task id", "list names bound by earlier tasks, or an array of them", TypeError)
    return ScalarType.of(D.TASK_ID)


# -- prefetches ----------------------------------------------------------------------------------------------------


def _opaque(s: Site, i: int, want: type[Type], how: str) -> None:
    if not isinstance(s.args[i].type, want):
        s.reject(f"operand {i} must be what {how} gives", f"bind it to a name first: x = {how}", TypeError)


def _context(s: Site) -> Type:
    return PrefetchAsyncContextType.get()


def _async_prefetch(s: Site) -> Type:
    s.tensor(0)
    _opaque(s, 1, PrefetchAsyncContextType, "pl.prefetch.make_context()")
    return AsyncEventType.get()


def _session(s: Site) -> Type:
    _opaque(s, 0, PrefetchAsyncContextType, "pl.prefetch.make_context()")
    return AsyncSessionType.get()


def _wait(s: Site) -> Type:
    _opaque(s, 0, AsyncEventType, "pl.prefetch.async_prefetch(src, ctx)")
    _opaque(s, 1, AsyncSessionType, "pl.prefetch.session(ctx)")
    return VoidType.get()


def _build_plain(name: str, parameters: tuple[str, ...]) -> Any:
    return lambda ctx, space, a: ctx.op(name, [a[p] for p in parameters])


# -- the table -----------------------------------------------------------------------------------------------------

_SYNCALL_DOC = "every block of the launch waits here for all others"
_SET_DOC = "a flag that other cores wait for; without effect where blocks run one after the other"
_WAIT_DOC = "waits for a flag; without effect where blocks run one after the other"
_FFTS_DOC = "where the flags between cores lie; without effect on a host"
_PIPE, _CORE = Attr("pipe", (PipeType,), required=True), Attr("core_type", (str,))
_DEPS_DOC = "a task that does nothing but wait for others; its id"


def _op(name: str, operands: tuple[Operand, ...], infer: Any, kind: str, doc: str, **more: Any) -> OpDef:
    more.setdefault("effects", (R,) * len(operands))
    return OpDef(name, operands, infer, Special(kind), ordered=True, doc=doc, **more)


_PREFETCHES: tuple[tuple[str, tuple[tuple[str, str], ...], Any, str], ...] = (
    ("make_context", (), _context, "what prefetches are made with"),
    (
        "async_prefetch",
        (("src", "tensor"), ("ctx", "any")),
        _async_prefetch,
        "a tensor that will be read soon; changes no number",
    ),
    ("session", (("ctx", "any"),), _session, "what prefetches are waited for with"),
    ("wait", (("event", "any"), ("session", "any")), _wait, "waits for a prefetch; changes no number"),
)
OPS: tuple[OpDef, ...] = (
    _op(
        "system.syncall",
        (Operand("gm_workspace", "tensor", optional=True), Operand("used_cores", "scalar", optional=True)),
        _syncall,
        MEET,
        _SYNCALL_DOC,
        effects=(RW, R),
        attrs=(_CORE, Attr("mode", (str,))),
        returns=False,
        pto="syncall",
    ),
    _op(
        "system.sync_set",
        (Operand("event", "scalar"),),
        _flag,
        FLAG,
        _SET_DOC,
        attrs=(_PIPE, Attr("ffts_mode", (int,)), _CORE),
        returns=False,
        pto="sync.set",
    ),
    _op(
        "system.sync_wait",
        (Operand("event", "scalar"),),
        _flag,
        FLAG,
        _WAIT_DOC,
        attrs=(_PIPE, _CORE),
        returns=False,
        pto="sync.wait",
    ),
    _op("system.set_ffts", (Operand("workspace", "tensor"),), _set_ffts, FLAG, _FFTS_DOC, returns=False, pto="set_ffts"),
    _op("system.task_dummy", (Operand("deps", "any"),), _task_dummy, TASK, _DEPS_DOC),
    *(
        _op(f"prefetch.{n}", tuple(Operand(*o) for o in operands), infer, PREFETCH, doc, returns=n != "wait")
        for n, operands, infer, doc in _PREFETCHES
    ),
)


def _attr(name: str, default: Any = REQUIRED, keyword: bool = True) -> Param:
    return Param(name, "attr", default, keyword_only=keyword)


_SYSTEM = ("system",)
DSL: tuple[Dsl, ...] = (
    Dsl(
        "syncall",
        _SYSTEM,
        (
            _attr("core_type", "mix", False),
            _attr("mode", HARD, False),
            Param("gm_workspace", default=None),
            Param("used_cores", "index", None),
        ),
        _build_syncall,
        _SYNCALL_DOC,
    ),
    Dsl(
        "sync_set",
        _SYSTEM,
        (Param("event", "index"), _attr("pipe"), _attr("ffts_mode", None), _attr("core_type", None)),
        _build_flag("sync_set"),
        _SET_DOC,
    ),
    Dsl(
        "sync_wait",
        _SYSTEM,
        (Param("event", "index"), _attr("pipe"), _attr("core_type", None)),
        _build_flag("sync_wait"),
        _WAIT_DOC,
    ),
    Dsl("set_ffts", _SYSTEM, (Param("workspace"),), _build_plain("system.set_ffts", ("workspace",)), _FFTS_DOC),
    Dsl(
        "task_dummy",
        _SYSTEM,
        (Param("deps", "tasks", keyword_only=True),),
        _build_plain("system.task_dummy", ("deps",)),
        _DEPS_DOC,
    ),
    *(
        Dsl(
            n,
            ("prefetch",),
            tuple(Param(p) for p, _ in operands),
            _build_plain(f"prefetch.{n}", tuple(p for p, _ in operands)),
            doc,
        )
        for n, operands, _, doc in _PREFETCHES
    ),
)

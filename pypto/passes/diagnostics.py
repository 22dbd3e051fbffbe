"""Warnings and performance hints: what a program may do, but its author probably did not mean.

In: a program and the point of the pipeline.  Out: findings that never stop a compilation; they go to stderr, performance
hints into a report where there is one.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, IntEnum
from pathlib import Path
from typing import ClassVar

from pypto.config import WARNING_LEVEL
from pypto.dtypes import DataType
from pypto.enums import ArgEffect, ParamDirection
from pypto.errors import caution
from pypto.ir import ops
from pypto.ir.expr import Call, ConstBool, ConstFloat, ConstInt, Submit, Var
from pypto.ir.opdef import Special
from pypto.ir.program import Program
from pypto.ir.shaped import TensorType, TileType, const_dim
from pypto.ir.stmt import (
    AssignStmt,
    EvalStmt,
    ForStmt,
    IfStmt,
    InCoreScopeStmt,
    ScopeStmt,
    SplitAivScopeStmt,
    Stmt,
    WhileStmt,
    flatten_to_stmts,
)
from pypto.ir.types import ArrayType, ScalarType
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.property_set import EnumSet
from pypto.ir.verify.roots import Flow, accesses, merged_direction
from pypto.ir.verify.scopes import statements
from pypto.ir.verify.ssa import user_name
from pypto.passes.context import CURRENT, effective
from pypto.passes.retype import count_uses, used_vars
from pypto.target.chip import chip_of

__all__ = [
    "DiagnosticCheck",
    "DiagnosticCheckRegistry",
    "DiagnosticCheckSet",
    "DiagnosticPhase",
    "VerificationLevel",
    "chosen_phase",
    "findings",
    "get_default_diagnostic_phase",
    "show",
    "warn",
]


class VerificationLevel(IntEnum):
    """How much is checked between passes: nothing, what passes say they produced, written forms as well."""

    NONE = 0
    BASIC = 1
    ROUNDTRIP = 2


class DiagnosticPhase(Enum):
    """When diagnostics run."""

    NONE = 0
    PRE_PIPELINE = 1
    POST_PASS = 2
    POST_PIPELINE = 3


class DiagnosticCheck(Enum):
    UnusedVariable = 0
    UnusedControlFlowResult = 1
    TileInnermostDimGranularity = 2
    OutParamWriteDropped = 3


class DiagnosticCheckSet(EnumSet[DiagnosticCheck]):
    """Diagnostic checks."""


def get_default_diagnostic_phase() -> DiagnosticPhase:
    """What PYPTO_WARNING_LEVEL says, else before the pipeline."""
    return DiagnosticPhase[WARNING_LEVEL.get().upper()]


def _unused_variable(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        read = used_vars(f.body, types=True)
        counters = {id(_counter(s)) for s in statements(f.body) if isinstance(s, (InCoreScopeStmt, SplitAivScopeStmt))}
        for s in statements(f.body):
            if isinstance(s, EvalStmt) and isinstance(s.expr, Call):
                op = ops.of(s.expr)
                if op is not None and op.is_pure(s.expr.kwargs):
                    yield _warning(
                        "UnusedVariable", f"this statement has no effect: nothing uses what pl.{op.concept} returns", s
                    )
            if not isinstance(s, AssignStmt) or s.var in read or s.var.name_hint.startswith("_") or _writes(s):
                continue
            if id(s) in counters or (isinstance(s.var.type, ScalarType) and s.var.type.dtype is DataType.TASK_ID):
                continue
            if not isinstance(
                s.value, (ConstInt, ConstFloat, ConstBool, Var)
            ):  # those stand for themselves wherever they are read
                yield _warning("UnusedVariable", f"'{user_name(s.var)}' is assigned but never read", s)


def _lost_writes(program: Program) -> Iterator[Diagnostic]:
    """Values of a kernel that are changed and then never read: a window of a tensor is a copy there."""
    for f in program.function_list:
        uses, written = count_uses(f.body), Counter[Var]()
        last: dict[Var, AssignStmt] = {}
        made: dict[Var, list[bool]] = {}
        kernels = [f.body] if f.is_device else [s for s in statements(f.body) if isinstance(s, InCoreScopeStmt)]
        inside = {id(s) for k in kernels for s in statements(k)}
        for s in (s for s in statements(f.body) if isinstance(s, AssignStmt)):
            op = ops.of(s.value) if isinstance(s.value, Call) else None
            if op is not None and isinstance(s.value, Call) and op.reuses is not None and s.value.args[op.reuses] is s.var:
                written[s.var] += 1
                last[s.var] = s
            else:
                made.setdefault(s.var, []).append(op is not None and op.is_pure(s.value.kwargs) and id(s) in inside)  # type: ignore[attr-defined]
        for v, s in last.items():
            if uses.get(v, 0) == written[v] and all(made.get(v, [False])) and not v.name_hint.startswith("_"):
                why = "" if isinstance(v.type, ArrayType) else ": it is a copy, so write into the tensor itself"
                text = f"'{user_name(v)}' is changed but never read{why}"
                yield _warning("UnusedVariable", text, s)


def _unused(program: Program) -> Iterator[Diagnostic]:
    yield from _unused_variable(program)
    yield from _lost_writes(program)


def _counter(s: ScopeStmt) -> Stmt | None:
    """The statement that binds the variable of a loop over blocks or lanes."""
    first = next(iter(flatten_to_stmts(s.body)), None)
    call = first.value if isinstance(first, AssignStmt) else None
    return first if isinstance(call, Call) and call.op.name in ("tile.get_block_idx", "tile.get_subblock_idx") else None


def _writes(s: AssignStmt) -> bool:
    """Whether a statement is there for more than its value, or for nothing that matters."""
    e = s.value
    op = ops.of(e) if isinstance(e, Call) else None
    if op is not None and isinstance(op.semantics, Special) and op.semantics.kind == "query":
        return True  # an extent that nothing needs costs nothing
    if isinstance(e, Submit) or (isinstance(e, Call) and op is None):
        return True
    return op is not None and isinstance(e, Call) and any(x is not ArgEffect.Read for x in op.effects(e.kwargs))


def _unused_result(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        read = used_vars(f.body, types=True)
        for s in (n for n in statements(f.body) if isinstance(n, (IfStmt, ForStmt, WhileStmt))):
            for v in s.return_vars:
                if v not in read:
                    yield _warning("UnusedControlFlowResult", f"the result '{user_name(v)}' is never read", s)


def _dropped_write(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        written = {p for p, d in zip(f.params, f.param_directions, strict=True) if d is not ParamDirection.In}
        for s in statements(f.body):
            if not isinstance(s, AssignStmt) or s.var not in written or not isinstance(s.value, Call):
                continue
            if not (any(a is s.var for a in s.value.args) if ops.of(s.value) is None else _writes(s)):
                name = user_name(s.var)
                text = f"'{name} = …' names a new value and writes nothing to the output '{name}'; write '{name}[:] = …'"
                yield _warning("OutParamWriteDropped", text, s)


def _replaced_unseen(program: Program) -> Iterator[Diagnostic]:
    """Tensor parameters, not marked as outputs, whose name goes to a new value before anything reads or writes the array."""
    for f in program.function_list:
        plain = {
            p
            for p, d in zip(f.params, f.param_directions, strict=True)
            if d is ParamDirection.In and isinstance(p.type, TensorType)
        }
        for s in _certain(f.body):
            unseen = plain - set(used_vars(s.value if isinstance(s, AssignStmt) else s))
            if isinstance(s, AssignStmt) and s.var in unseen and isinstance(s.value, Call) and not _writes(s):
                name = user_name(s.var)
                text = (
                    f"'{name} = …' names a new value: the array that is passed as '{name}' is neither read nor written; "
                    f"write '{name}[:] = …', and annotate it with pl.Out"
                )
                yield _warning("OutParamWriteDropped", text, s)
            plain = unseen - {s.var} if isinstance(s, AssignStmt) else unseen


def _certain(body: Stmt | None) -> Iterator[Stmt]:
    """The statements of a body in order; those of scopes one by one, conditionals and loops as they are."""
    for s in flatten_to_stmts(body):
        if isinstance(s, ScopeStmt):
            yield from _certain(s.body)
        else:
            yield s


def _never_written(program: Program) -> Iterator[Diagnostic]:
    """Outputs that nothing in their function writes: their caller finds what was there before."""
    flow = Flow(program, rebinds=True)
    for f in program.function_list:
        declared = {p for p, d in zip(f.params, f.param_directions, strict=True) if d is not ParamDirection.In}
        if declared:
            found = accesses(f.body, flow.roots(f))
            dropped = {s.var for s in statements(f.body) if isinstance(s, AssignStmt)}
            for p in (p for p in f.params if p in declared - dropped):
                if p not in found or merged_direction(found[p]) is ParamDirection.In:
                    name = user_name(p)
                    text = f"nothing writes the output '{name}'; write '{name}[:] = …', or annotate it without pl.Out"
                    yield Diagnostic(Severity.Warning, "OutParamWriteDropped", 0, text, p.span)


def _outputs(program: Program) -> Iterator[Diagnostic]:
    yield from _dropped_write(program)
    yield from _replaced_unseen(program)
    yield from _never_written(program)


def _innermost_granularity(program: Program) -> Iterator[Diagnostic]:
    wanted = chip_of(effective().platform).granularity
    for f in program.function_list:
        for s in statements(f.body) if f.is_device else ():
            if not isinstance(s, AssignStmt) or not isinstance(s.value, Call):
                continue
            call = s.value
            tile = call.type if call.op.name == "tile.load" else call.args[0].type if call.op.name == "tile.store" else None
            columns = const_dim(tile.shape[-1]) if isinstance(tile, TileType) else None
            if isinstance(tile, TileType) and columns is not None and columns * tile.dtype.get_byte() < wanted:
                have = columns * tile.dtype.get_byte()
                text = f"{call.op.name} moves rows of {have} bytes; transfers are fastest in rows of {wanted} bytes or more"
                yield Diagnostic(Severity.PerfHint, "TileInnermostDimGranularity", 0, text, s.span, "PH001")


def _warning(rule: str, message: str, at: AssignStmt | EvalStmt | IfStmt | ForStmt | WhileStmt) -> Diagnostic:
    return Diagnostic(Severity.Warning, rule, 0, message, at.span)


_PRE, _POST = DiagnosticPhase.PRE_PIPELINE, DiagnosticPhase.POST_PIPELINE
_CHECKS: dict[DiagnosticCheck, tuple[Callable[[Program], Iterator[Diagnostic]], DiagnosticPhase]] = {
    DiagnosticCheck.UnusedVariable: (_unused, _PRE),
    DiagnosticCheck.UnusedControlFlowResult: (_unused_result, _PRE),
    DiagnosticCheck.TileInnermostDimGranularity: (_innermost_granularity, _POST),
    DiagnosticCheck.OutParamWriteDropped: (_outputs, _PRE),
}


class DiagnosticCheckRegistry:
    """The checks there are, and running them."""

    OFF_BY_DEFAULT: ClassVar[frozenset[DiagnosticCheck]] = frozenset((DiagnosticCheck.UnusedControlFlowResult,))

    @staticmethod
    def run_checks(checks: Iterable[DiagnosticCheck], phase: DiagnosticPhase, program: Program) -> list[Diagnostic]:
        """Findings of the checks that belong to a phase; warnings run in every phase they are asked for."""
        found: list[Diagnostic] = []
        for c in sorted(checks, key=lambda c: c.value):
            check, own = _CHECKS[c]
            if own is _PRE or phase is own:
                found += check(program)
        return found

    @staticmethod
    def get_all_checks() -> DiagnosticCheckSet:
        return DiagnosticCheckSet(DiagnosticCheck)

    @staticmethod
    def get_warning_checks() -> DiagnosticCheckSet:
        return DiagnosticCheckSet(c for c in DiagnosticCheck if _CHECKS[c][1] is _PRE)

    @staticmethod
    def get_perf_hint_checks() -> DiagnosticCheckSet:
        return DiagnosticCheckSet(c for c in DiagnosticCheck if _CHECKS[c][1] is _POST)


def chosen_phase() -> DiagnosticPhase:
    """When warnings run here: as the context says, else the environment."""
    context = CURRENT.get()
    if context is None:
        return get_default_diagnostic_phase()
    chosen = context.diagnostic_phase
    return DiagnosticPhase.PRE_PIPELINE if chosen is None else DiagnosticPhase(getattr(chosen, "value", chosen))


def findings(now: DiagnosticPhase, program: Program) -> list[Diagnostic]:
    """Warnings in the phase chosen for them, performance hints after the pipeline; none of the checks that are disabled."""
    chosen, context = chosen_phase(), CURRENT.get()
    if chosen is DiagnosticPhase.NONE:
        return []
    wanted = list(DiagnosticCheckRegistry.get_warning_checks()) if now is chosen else []
    if now is DiagnosticPhase.POST_PIPELINE:
        wanted += DiagnosticCheckRegistry.get_perf_hint_checks()
    disabled = context.disabled_diagnostics if context is not None else None
    if disabled is None:
        disabled = DiagnosticCheckRegistry.OFF_BY_DEFAULT
    return DiagnosticCheckRegistry.run_checks([c for c in wanted if c not in disabled], now, program)


def warn(program: Program, phase: DiagnosticPhase) -> None:
    """What `findings` has as Python warnings at the user's lines; performance hints are for reports, not for calls."""
    for d in findings(phase, program):
        if d.severity is Severity.Warning:
            at = d.span
            text = f"{d.rule_name}: {d.message}, at {at.to_string()}"
            caution(text, at.filename, at.begin_line)


def show(found: Iterable[Diagnostic], where: str, report_dir: str | None = None) -> None:
    """Warnings to stderr; hints into `perf_hints.log` of the report with one line on stderr, or to stderr in full."""
    hints = []
    for d in found:
        if d.severity is Severity.PerfHint and report_dir is not None:
            hints.append(f"{d.hint_code} {d.text()}")
        else:
            print(f"{d.severity.name.lower()}: {d.text()} ({where})", file=sys.stderr)
    if hints and report_dir is not None:
        path = Path(report_dir) / "perf_hints.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{h}\n" for h in hints))
        print(f"{len(hints)} performance hint(s) in {path}", file=sys.stderr)

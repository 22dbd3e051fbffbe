"""Programs run as `.pto` text: kernels by the machine, whatever launches them by the interpreter.

In: a final program and its arguments.  Out: the arrays that it changed; the text that was run.  Tests compare them with what
the interpreter and native code give.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import dedent, indent
from typing import Any, NamedTuple

import numpy as np
from pto_grammar import check
from pto_machine import Machine
from pto_syntax import Func, parse

from pypto import frontend
from pypto.codegen.pto import module_of
from pypto.debug import Placement, interpret, interpreter
from pypto.debug.arguments import check_count, entry_of, from_user
from pypto.debug.frame import Position
from pypto.debug.memory import ArrayPlace, Block
from pypto.enums import MemoryPlanner
from pypto.errors import NotSupportedError
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.opdef import Special
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, ReturnStmt, WhileStmt, last_yield
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import lower
from pypto.span import Span

__all__ = ["WAYS", "Ran", "agree", "function", "kernel", "lowered", "run_text", "same_bits", "text_of"]

# Planner and Buffer IR.
WAYS = tuple((p, b) for p in MemoryPlanner for b in (True, False))


def kernel(name: str, params: str, body: str, kind: str = "InCore", raw: bool = False) -> Program:
    """A program of one kernel; `raw`: calls are the operators they name."""
    text = f"    @pl.function(type=pl.FunctionType.{kind})\n    def {name}({params}):\n" + indent(
        dedent(body).strip(), "        "
    )
    head = "# pypto.program: test\n" if raw else ""
    made = frontend.parse(f"{head}import pypto.language as pl\n\n\n@pl.program\nclass test:\n{text}\n")
    assert isinstance(made, Program)
    return made


def lowered(p: Program, planner: MemoryPlanner = MemoryPlanner.PYPTO, buffers: bool = True) -> Program:
    """The program whose kernels are printed."""
    return lower(p, PassOptions(memory_planner=planner, enable_buffer_ir=buffers)).host


def function(p: Program, addressed: bool = True) -> Func:
    """The one kernel of a final program, as text that was read again."""
    (f,) = [f for f in p.function_list if f.is_device]
    (made,) = parse(text_of(f, addressed)).functions
    return made


def same_bits(got: Sequence[Any], want: Sequence[Any], what: str) -> None:
    """Equal to the bit; NaNs of floats count as equal."""
    for n, (g, w) in enumerate(zip(got, want, strict=True)):
        if not isinstance(g, np.ndarray):
            continue
        differs = g.view(f"u{g.dtype.itemsize}") != w.view(f"u{w.dtype.itemsize}")
        if g.dtype.kind not in "iub":
            with np.errstate(invalid="ignore"):
                differs &= ~((g != g) & (w != w))
        if differs.any():
            at = tuple(int(i) for i in np.argwhere(differs)[0])
            raise AssertionError(
                f"{what}: array {n}, {int(differs.sum())} elements differ, first at {at}: {g[at]!r}, not {w[at]!r}"
            )


def agree(p: Program, entry: str, *calls: Sequence[Any], ways: Sequence[tuple[MemoryPlanner, bool]] = WAYS) -> list[Ran]:
    """Demand that every way's text runs to the bit as the interpreter, on each of the argument lists."""
    made = []
    for planner, buffers in ways:
        program, addressed = lowered(p, planner, buffers), planner is not MemoryPlanner.PTOAS
        for args in calls:
            want, got = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
            interpret(program, want, entry, Placement.ADDRESSED if addressed else Placement.PRIVATE)
            made.append(run_text(program, entry, got, addressed))
            same_bits(got, want, f"{entry} as text, {planner.name}, Buffer IR {'on' if buffers else 'off'}")
    return made


def text_of(f: Function, addressed: bool, arch: str = "a2a3") -> str:
    """A kernel's text, which the judge has nothing against."""
    text = module_of([f], arch, addressed, True)
    check(text, addressed, alone=True)
    return text


class Ran(NamedTuple):
    """The texts of the kernels that ran, why others have none (those were interpreted), and which instructions were executed.

    `slots`: where the slots of pipes were in global memory, with the block and the group's part that has them there.
    """

    texts: dict[str, str]
    refused: dict[str, NotSupportedError]
    executed: Counter[str]
    slots: list[tuple[int, str, tuple[int, int]]]


def run_text(program: Program, entry: str | None, args: Sequence[Any], addressed: bool, arch: str = "a2a3") -> Ran:
    """Run a program whose kernels are text.  Arrays are changed in place."""
    f = entry_of(program, entry)
    check_count(f, args)
    execution = _Texts(program, addressed, arch)
    execution.enter(f, [from_user(f, i, a) for i, a in enumerate(args)], Position(), False, f.span)
    return execution.ran


class _Texts(interpreter._Run):
    """The interpreter, but that kernels are entered as text."""

    def __init__(self, program: Program, addressed: bool, arch: str) -> None:
        super().__init__(program, Placement.ADDRESSED if addressed else Placement.PRIVATE)
        self.addressed, self.arch = addressed, arch
        self.ran = Ran({}, {}, Counter(), [])
        self.parsed: dict[str, Func] = {}

    def enter(
        self, f: Function, args: Sequence[Any], position: Position, on_core: bool, span: Span, ends: Any = None
    ) -> tuple[Any, ...]:
        if f.is_device and f.name not in self.parsed and f.name not in self.ran.refused:
            try:
                self.ran.texts[f.name] = text_of(f, self.addressed, self.arch)
                (self.parsed[f.name],) = parse(self.ran.texts[f.name]).functions
            except NotSupportedError as e:
                self.ran.refused[f.name] = e
        if f.name not in self.parsed:
            return super().enter(f, args, position, on_core, span, ends)
        machine = Machine(self.parsed[f.name], _operands(f, args), _launch(position), position.party, ends)
        machine.run()
        self.ran.executed.update(machine.executed)
        self.ran.slots.extend((position.block, f.name, s) for s in machine.slots)
        returned = [s for s in walk(f.body) if isinstance(s, ReturnStmt)]
        sources, given = _Sources(f), dict(zip(f.params, args, strict=True))
        return tuple(given[sources.of(v)] for s in returned for v in s.value)


def _launch(p: Position) -> Mapping[str, int]:
    prefix = "%__pypto_spmd_"
    return {f"{prefix}block_idx": p.block, f"{prefix}block_num": p.blocks, f"{prefix}subblock_idx": p.lane}


def _operands(f: Function, args: Sequence[Any]) -> list[Any]:
    """Tensors, scalars, and the run-time extents of the tensors' shapes, each once."""
    tensors = [(p, a) for p, a in zip(f.params, args, strict=True) if isinstance(a, Block)]
    made = [_array(a) for _, a in tensors]
    made += [a for a in args if not isinstance(a, Block)]
    known = {p for p, a in zip(f.params, args, strict=True) if not isinstance(a, Block)}
    for p, a in tensors:
        assert isinstance(p.type, TensorType)
        for d, n in zip(p.type.shape, a.shape, strict=True):
            for v in (v for v in walk(d) if isinstance(v, Var)):
                assert v is d, "an extent of a parameter is a variable"
                if v not in known:
                    known.add(v)
                    made.append(n)
    return made


def _array(b: Block) -> np.ndarray:
    assert isinstance(b.place, ArrayPlace)
    return b.place.array


class _Sources:
    """Which parameter a tensor value is."""

    def __init__(self, f: Function) -> None:
        self.params = set(f.params)
        self.made: dict[Var, Expr] = {}
        for s in walk(f.body):
            if isinstance(s, AssignStmt):
                self.made[s.var] = s.value
            elif isinstance(s, IfStmt):
                self._results(s.return_vars, s.then_body)
            elif isinstance(s, (ForStmt, WhileStmt)):
                self.made.update((a, a.initValue) for a in s.iter_args)
                self.made.update(zip(s.return_vars, (a.initValue for a in s.iter_args), strict=True))

    def _results(self, results: Sequence[Var], body: Any) -> None:
        y = last_yield(body)
        if y is not None:
            self.made.update(zip(results, y.value, strict=True))

    def of(self, e: Expr) -> Var:
        while e not in self.params:
            if isinstance(e, Call):
                op = ops.of(e)
                assert op is not None
                kind = op.semantics.kind if isinstance(op.semantics, Special) else ""
                e = e.args[0 if kind == "write" else 2]
            else:
                assert isinstance(e, Var)
                e = self.made[e]
        assert isinstance(e, Var)
        return e

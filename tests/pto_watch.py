"""Whatever a test lowers is also written as `.pto` text, judged, and run beside the interpreter.

In: the programs that tests lower, and what they interpret of them.  Out: nothing, or a failure of the test.  A kernel has
a text that the judge has nothing against and that gives the interpreter's numbers to the bit, or it is refused with an
error that says where, why, and what to write instead.  By default this is done for some tests, always the same ones; with
`--pto=all` for all.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto.debug as debug
import pypto.passes.pipeline as pipeline
from pypto.enums import MemoryPlanner
from pypto.errors import CompileError, NotSupportedError
from pypto.ir.program import Program
from pypto.ir.verify.cores import is_mixed
from pypto.passes.context import PassOptions, effective

sys.path.append(str(Path(__file__).parent / "ut" / "codegen"))  # judge and machine, imported where a text is met
_ONE_IN = 4
_OWN = "tests/ut/codegen/test_pto_"  # these do it themselves
_lower: Callable[..., pipeline.Lowered] = pipeline.lower
_interpret: Callable[..., Any] = debug.interpret
# What the test that is running has lowered, by identity; None while nobody looks.
_programs: dict[int, tuple[Program, PassOptions]] | None = None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--pto", choices=("some", "all", "none"), default="some", help="whose kernels are judged and run as .pto text"
    )


def lower(program: Program, options: PassOptions | None = None, **more: Any) -> pipeline.Lowered:
    """As `pypto.passes.pipeline.lower`; its kernels are judged."""
    made = _lower(program, options, **more)
    if _programs is not None:
        chosen = effective() if options is None else options
        shown = told_apart(made, chosen)
        _programs[id(made.host)] = shown, chosen
        judge(shown, chosen)
    return made


def told_apart(made: pipeline.Lowered, options: PassOptions) -> Program:
    """The program with its mixed kernels as functions of one core, if it has any and each can be told apart."""
    if not any(f.is_device and is_mixed(f) for f in made.whole.function_list):
        return made.host
    try:
        return pipeline.split_program(made.whole, options)
    except (NotSupportedError, CompileError) as e:
        if e.location is None or not e.hint:
            raise AssertionError(f"no place of what keeps a kernel in one piece, or no remedy: {e}") from None
        return made.host


def interpret(target: Any, args: Sequence[Any], entry: str | None = None, placement: debug.Placement | None = None) -> Any:
    """As `pypto.debug.interpret`; a program that was lowered gives the same arrays as text."""
    known = _programs.get(id(target)) if _programs is not None else None
    before = [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in args] if known is not None else []
    returned = _interpret(target, args, entry, placement)
    if known is not None:
        _run(*known, entry, before, args)
    return returned


def _run(program: Program, options: PassOptions, entry: str | None, given: Sequence[Any], want: Sequence[Any]) -> None:
    from pto_lab import run_text, same_bits

    run_text(program, entry, given, _addressed(options), _arch(options))
    same_bits(given, want, f"as .pto text ({options.memory_planner.name})")


def _addressed(options: PassOptions) -> bool:
    return options.memory_planner is not MemoryPlanner.PTOAS


def _arch(options: PassOptions) -> str:
    return "a5" if options.platform.startswith("a5") else "a2a3"


def judge(program: Program, options: PassOptions) -> None:
    """AssertionError for a kernel whose text breaks a rule, or is refused without a place or a remedy."""
    from pypto.codegen.pto import module_of

    for f in program.function_list:
        if not f.is_device:
            continue
        try:
            text = module_of([f], _arch(options), _addressed(options), True)
        except NotSupportedError as e:
            if e.location is None or not e.hint:
                raise AssertionError(f"no place of the refusal of '{f.name}', or no remedy: {e}") from None
            continue
        judge_text(text, f.name, options, alone=True)


def judge_text(text: str, kernel: str, options: PassOptions, alone: bool = False) -> None:
    """AssertionError for a text that breaks a rule; `alone`: what runs beside it is in other texts."""
    from pto_grammar import check
    from pto_syntax import PtoError

    try:
        check(text, _addressed(options), alone)
    except PtoError as e:
        line = re.search(r"line (\d+)", str(e))
        shown = text.split("\n")[int(line[1]) - 1].strip() if line is not None else ""
        raise AssertionError(f"the .pto text of '{kernel}' ({options.memory_planner.name}): {e}\n{shown}") from None


# Before anything takes them by name.
pipeline.lower = lower
debug.interpret = interpret


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    global _programs
    asked, name = item.config.getoption("--pto"), item.nodeid
    chosen = asked == "all" or (asked == "some" and zlib.crc32(name.encode()) % _ONE_IN == 0)
    _programs = {} if chosen and not name.startswith(_OWN) else None
    try:
        return (yield)
    finally:
        _programs = None

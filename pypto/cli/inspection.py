"""`pypto inspect` and `pypto lower`: a kernel's stages, its memory map, its program after each pass."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto.cli.arguments import Usage, for_kernel, parse
from pypto.cli.loading import loaded
from pypto.target import PLATFORMS, runs_here

if TYPE_CHECKING:
    from pypto.debug.memory_map import MemoryMap
    from pypto.ir.program import Program
    from pypto.passes.context import PassContext

__all__ = ["add_inspect", "add_lower", "add_options", "common", "context"]

_TENSOR, _MEMORY_MAP = "tensor", "memory-map"
_STAGES = (_TENSOR, "tile_ir", "buffer_ir", "c", "pto", "ptoas", "report", _MEMORY_MAP)
_PLANNERS = ("pypto", "dsa_rp", "ptoas")


def add_inspect(commands: Any) -> None:
    p = commands.add_parser("inspect", help="show a stage of a kernel, or what lives where in on-chip memory")
    common(p)
    stages = "tensor: before any pass; tile_ir: planned tiles; buffer_ir: the final program (default); c: the C; report: loops"
    p.add_argument("--stage", choices=_STAGES, help=stages)
    p.add_argument("--memory-map", action="store_true", help="the same as --stage memory-map")
    p.add_argument("--html", metavar="OUT.html", type=Path, help="write the memory map as a page instead of printing it")
    p.set_defaults(run=_inspect)


def add_lower(commands: Any) -> None:
    p = commands.add_parser("lower", help="print a kernel's program after all passes; nothing is compiled")
    common(p)
    p.add_argument("--emit", choices=("program", "pto"), default="program", help="what to print; default: the program")
    p.add_argument("--dump", metavar="DIR", type=Path, help="also write the program before and after each pass")
    p.set_defaults(run=_lower)


def common(p: argparse.ArgumentParser) -> None:
    """What every command that is about a kernel takes."""
    p.add_argument("target", metavar="FILE.py[:kernel]", help="the file, and the kernel where it has several")
    add_options(p)


def add_options(p: argparse.ArgumentParser) -> None:
    """What commands about kernels take; `context` reads it."""
    what = "a sample argument: x=fp32[16,64], n=3; not needed where the annotations say all"
    p.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help=what)
    p.add_argument("--platform", choices=tuple(PLATFORMS), help="default: a2a3sim")
    p.add_argument("--planner", choices=_PLANNERS, help="the memory planner; default: pypto")
    p.add_argument("--no-buffer-ir", action="store_true", help="kernels stay at tile stage")
    p.add_argument("--json", action="store_true", help="print one JSON object")


def context(a: argparse.Namespace) -> PassContext:
    """The options of the compilation that the command line names."""
    from pypto.enums import MemoryPlanner
    from pypto.passes.context import PassContext

    options: dict[str, Any] = {"enable_buffer_ir": not a.no_buffer_ir}
    if a.planner is not None:
        options["memory_planner"] = MemoryPlanner[a.planner.upper()]
    if a.platform is not None:
        options["platform"] = a.platform
    return PassContext(**options)


def _inspect(a: argparse.Namespace) -> None:
    if a.memory_map and a.stage not in (None, _MEMORY_MAP):
        raise Usage(f"--memory-map and --stage {a.stage}: one of them")
    stage = _MEMORY_MAP if a.memory_map or (a.html is not None and a.stage is None) else a.stage or "buffer_ir"
    if a.html is not None and stage != _MEMORY_MAP:
        raise Usage(f"--html shows the memory map, not --stage {stage}")
    samples = parse(a.arg)
    with loaded(a.target) as kernel, context(a):
        args, keywords = for_kernel(kernel, samples)
        if stage == _MEMORY_MAP:
            _show_map(kernel.memory_map(*args, **keywords), a)
            return
        if stage == _TENSOR:
            text = kernel.specialize(*args, **keywords).as_python()
        elif stage in ("pto", "report"):
            text = kernel.inspect(stage, *args, **keywords)
        else:
            made = kernel.compile if a.platform is None or runs_here(a.platform) else kernel.generate
            text = made(*args, **keywords).inspect(stage)
    _show(a, {"kernel": kernel.__name__, "stage": stage}, text)


def _show_map(m: MemoryMap, a: argparse.Namespace) -> None:
    if a.html is not None:
        _write(a.html, m.html())
    if a.json:
        print(json.dumps(m.as_dict(), indent=1), file=a.out)
    elif a.html is not None:
        print(a.html)
    else:
        print(m.text(shutil.get_terminal_size((100, 24)).columns, ascii_only=not _speaks_unicode()), end="")


def _speaks_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") in ("utf8", "utf16", "utf32")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise Usage(f"--html {path}: {e.strerror}") from None


def _show(a: argparse.Namespace, facts: dict[str, Any], text: str) -> None:
    if a.json:
        file = os.path.abspath(a.target.rpartition(":")[0] or a.target)
        print(json.dumps({"file": file, **facts, "text": text}, indent=1), file=a.out)
    else:
        print(text, end="" if text.endswith("\n") else "\n")


def _lower(a: argparse.Namespace) -> None:
    samples = parse(a.arg)
    with loaded(a.target) as kernel, context(a):
        args, keywords = for_kernel(kernel, samples)
        if a.emit == "pto":
            if a.dump is not None:
                raise Usage("--emit pto and --dump: one of them")
            _show(a, {"kernel": kernel.__name__, "stage": "pto"}, kernel.inspect("pto", *args, **keywords))
            return
        whole = kernel.lower if a.dump is None else kernel.specialize
        program = whole(*args, **keywords)
        text = (program if a.dump is None else _dumped(program, a.dump)).as_python()
    _show(a, {"kernel": kernel.__name__, "stage": "lowered"}, text)


def _dumped(program: Program, directory: Path) -> Program:
    from pypto.passes.pass_manager import PassManager

    try:
        return PassManager().run_passes(program, dump_ir=True, output_dir=directory)
    except OSError as e:
        raise Usage(f"--dump {directory}: {e.strerror}") from None

"""The `.pto` text of a compiled program, kernel by kernel.

In: the lowered program, and what it was while mixed kernels could still be told apart.  Out: a module for each kernel that has a
form, and why the others have none.  A mixed kernel is a module of two functions; the passes that make them run for it alone.
Invariant: what is stored with an artifact names no place in anybody's files; only what is shown does.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pypto.codegen.pto import module_of, symbol
from pypto.enums import FunctionType, MemoryPlanner
from pypto.errors import CompileError, InternalError, NotSupportedError
from pypto.ir.program import Function, Program
from pypto.ir.verify.cores import is_mixed
from pypto.ir.verify.launched_blocks import launched_blocks
from pypto.ir.verify.pipe_ends import pipes_started
from pypto.named import NamedTuple
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import split_program
from pypto.runtime.assemble import assemble
from pypto.runtime.ptoas import Ptoas
from pypto.span import Span
from pypto.target import chip_of

__all__ = ["DeviceText", "assembled", "device_text", "file_name"]

_ARCHITECTURES = {"a2a3": "a3", "a5": "a5"}  # as the assembler calls the chips
_INTERNAL = "internal error: "
_PLACE = re.compile(r' loc\("((?:[^"\\]|\\.)*)":(\d+):(\d+)\)$')


class DeviceText(NamedTuple):
    """Modules by kernel, refusals, and what broke in the compiler: that hurts whoever asks for the text, and nobody else."""

    modules: dict[str, str]
    refused: dict[str, NotSupportedError | CompileError]
    broken: dict[str, Exception]

    def shown(self) -> str:
        """All modules, one after the other; a comment stands for a kernel that has none.

        NotSupportedError if none has; InternalError if the compiler broke over one.
        """
        for name, e in self.broken.items():
            raise InternalError(f"no .pto text of '{name}': {e}") from e
        if not self.modules and self.refused:
            raise next(iter(self.refused.values()))
        comments = [f"// '{name}' has no .pto form: {e.message}\n" for name, e in self.refused.items()]
        return "\n".join([*comments, *self.modules.values()])

    def reasons(self) -> dict[str, str]:
        """Why kernels have no text, without places."""
        causes = {name: _innermost(e) for name, e in self.broken.items()}
        internal = {name: f"{_INTERNAL}{type(e).__name__}: {e}" for name, e in causes.items()}
        return {name: e.message for name, e in self.refused.items()} | internal


def _innermost(e: BaseException) -> BaseException:
    return e if e.__cause__ is None else _innermost(e.__cause__)


def device_text(host: Program, options: PassOptions, locations: bool, whole: Program | None = None) -> DeviceText:
    """The text of the kernels of a program whose storage is final; `locations`: with the user's files and lines.

    `whole`: the program before that, of which mixed kernels are told apart (`pypto.passes.lower` gives both).
    """
    arch = chip_of(options.platform).name
    made, launched = DeviceText({}, {}, {}), launched_blocks(host)
    for name, functions in _kernels(host).items():
        try:
            parts = _told_apart(functions, whole, options)
            beside = {f.name: launched[name] for f in parts if name in launched}
            made.modules[name] = module_of(parts, arch, options.addressed, locations, beside)
        except (NotSupportedError, CompileError) as e:
            made.refused[name] = e
        except Exception as e:  # native code has no part in it: it is there all the same
            made.broken[name] = e
    return made


def _told_apart(functions: tuple[Function, ...], whole: Program | None, options: PassOptions) -> tuple[Function, ...]:
    """A kernel that keeps both cores busy as a function for each of them; other functions as they are."""
    before = whole.get_function(functions[0].name) if whole is not None else None
    if len(functions) > 1 or before is None or before.func_type is not FunctionType.InCore or not is_mixed(before):
        return functions
    assert whole is not None
    split = split_program(whole, options, kernel=before.name)
    return tuple(f for f in split.function_list if f.is_device)


def _kernels(program: Program) -> dict[str, tuple[Function, ...]]:
    """The functions of each module: a kernel, or the functions that a group lets run side by side on pipes."""
    found: dict[str, tuple[Function, ...]] = {}
    beside: set[str] = set()
    for f in program.function_list:
        members = pipes_started(program, f) if f.func_type is FunctionType.Group else {}
        if members:
            found[f.name] = tuple(use.function for use in members.values())
            beside |= members.keys()
    alone = {f.name: (f,) for f in program.function_list if f.is_device and f.name not in beside}
    return {f.name: made for f in program.function_list if (made := found.get(f.name) or alone.get(f.name))}


def file_name(kernel: str) -> str:
    """The file of a kernel's module among those of an artifact."""
    return f"{symbol(kernel)[:170]}.pto"


def assembled(
    texts: DeviceText, host: Program, whole: Program, options: PassOptions, ptoas: Ptoas, directory: str
) -> dict[str, bytes]:
    """Files: what the assembler makes of each module.  ToolchainError, at the user's line, for one that it does not take.

    `host`, `whole`: what the texts are of.  `directory`: where it may work.
    """
    level = "level2" if options.memory_planner is MemoryPlanner.PTOAS else "level3"
    arch = _ARCHITECTURES[chip_of(options.platform).name]

    @lru_cache(maxsize=1)
    def lines(kernel: str) -> list[str]:
        # The same text line by line, with places: made only for a text that is refused.
        return device_text(host, options, True, whole).modules[kernel].split("\n")

    files = {}
    for kernel, text in texts.modules.items():
        name = file_name(kernel).removesuffix(".pto")

        def place(line: int, kernel: str = kernel) -> Span | None:
            return _place(lines(kernel), line)

        files[f"{name}.cpp"] = assemble(ptoas, name, text, arch, level, directory, place)
    return files


def _place(lines: list[str], number: int) -> Span | None:
    """The user's place behind a line of a text with places; for a line without one (a constant, a view) the next line's.

    What has no place of its own stands before the instruction that needs it.
    """
    for line in lines[max(number - 1, 0) :]:
        m = _PLACE.search(line)
        if m is not None:
            file = re.sub(r"\\(.)", r"\1", m[1])
            return Span(file, int(m[2]), int(m[3]))
    return None

"""One `.pto` module through the assembler, by a child process that is bounded in number, time and fate.

In: an assembler, a module's text, who knows which line of the user's stands for which line of the text.  Out: the C++
that it made, or one ToolchainError with the command, the first diagnostics and the user's line.  Whatever else it leaves
behind is gone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from pypto import config
from pypto.errors import ToolchainError
from pypto.runtime.build import first_diagnostics, keep, run_patiently
from pypto.runtime.directories import fresh_directory, remove_tree
from pypto.runtime.ptoas import Ptoas, printable
from pypto.span import Span

__all__ = ["assemble"]

_SECONDS = 60.0
_HINT = "PYPTO_PTOAS=off leaves the text as it is: the kernel runs on the host all the same"
# As MLIR writes it, with the place as a file's or as a location's: `k.pto:12:5: error: ...`, `loc("k.pto":12:5): error: ...`.
_DIAGNOSTIC = re.compile(r'(?:loc\()?"?([^\s":()]+)"?:(\d+):(\d+)\)?: (error|warning|note|remark): (.*)')


def assemble(
    ptoas: Ptoas, name: str, text: str, arch: str, level: str, directory: str, place: Callable[[int], Span | None]
) -> bytes:
    """The C++ of the module that is called `name` (a file's name without its ending).

    `arch`: a3 or a5.  `level`: level3 for a text with addresses, level2 for one without.  `directory`: where it may
    work; nothing stays there.  `place(line)`: the user's line behind a line of the text, from 1 on.
    ToolchainError: T121 it failed, T122 it did not finish within 60 s (or PYPTO_COMPILER_TIMEOUT, if that is less).
    """
    source, made = f"{name}.pto", f"{name}.cpp"
    command = [ptoas.path, source, "-o", made, "--enable-insert-sync", f"--pto-level={level}", f"--pto-arch={arch}"]
    limit = min(_SECONDS, config.COMPILER_TIMEOUT.get())
    work = fresh_directory(directory, "ptoas-")
    try:
        with open(os.path.join(work, source), "wb") as file:
            file.write(text.encode())
        code, output = run_patiently(command, work, limit, "ptoas_runs")
        result, problem = (b"", "") if code != 0 else _made(os.path.join(work, made))
    finally:
        remove_tree(work)
    if code == 0 and not problem:
        return result
    raise _failure(command, code, printable(output), {source: text}, limit, problem, place)


def _made(path: str) -> tuple[bytes, str]:
    """The file's bytes, or why there are none."""
    name = os.path.basename(path)
    if os.path.islink(path) or not os.path.isfile(path):
        return b"", f"made no {name}"
    with open(path, "rb") as file:
        data = file.read()
    return data, "" if data.strip() else f"left {name} empty"


def _failure(
    command: list[str],
    code: int | None,
    output: str,
    sources: dict[str, str],
    limit: float,
    problem: str,
    place: Callable[[int], Span | None],
) -> ToolchainError:
    (source,) = sources
    said, span = _first_error(output, source, place)
    import shlex

    shown = f"\n  command: {shlex.join(command)}" + "".join(f"\n  {line}" for line in first_diagnostics(output))
    kept = keep(sources, shlex.join(command), output)
    note = f"{kept} was kept, so that the failure can be repeated: the text, command.sh, output.txt" if kept else None
    head = f"ptoas compilation failed: {source}"
    if code is None:
        what = f"{head}: it did not finish within {limit:g} s{shown}"
        return ToolchainError(what, span, _HINT, note, code="T122")
    if problem:
        fate = f"it ended with status 0, but {problem}"
    elif code < 0:
        fate = f"it was ended by signal {-code}"
    else:
        fate = said or f"it ended with status {code}"
    return ToolchainError(f"{head}: {fate}{shown}", span, _HINT, note, code="T121")


def _first_error(output: str, source: str, place: Callable[[int], Span | None]) -> tuple[str, Span | None]:
    """The first error's message, and the user's line that it is about; the first of any kind where none is called an error."""
    found = list(_DIAGNOSTIC.finditer(output))
    first = next((m for m in found if m[4] == "error"), found[0] if found else None)
    if first is None:
        return "", None
    there = os.path.basename(first[1]) == source and len(first[2]) < 10
    return first[5].strip()[:300], place(int(first[2])) if there else None

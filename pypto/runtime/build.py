"""C sources into a shared object, by a child process that is bounded in number, time and fate.

In: a toolchain, sources, a directory to work in.  Out: the path of the shared object, or one ToolchainError with the
command, the first diagnostic and the place where the sources were kept.  At most as many compilers run at a time as
there are CPUs, over all processes of this user; none outlives its caller's interest.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar, copy_context

from pypto import config
from pypto.errors import ToolchainError
from pypto.runtime import stats
from pypto.runtime.cpus import available_cpus
from pypto.runtime.directories import distrust
from pypto.runtime.locks import FileLock
from pypto.runtime.process import run
from pypto.runtime.record import sha256
from pypto.runtime.toolchain import Toolchain

__all__ = ["compile_object", "compile_objects", "compile_shared", "first_diagnostics", "keep", "run_patiently", "when_crowded"]

_TELLING = ("error", "fatal", "failed", "undefined", "cannot", "no space", "not found")
_CROWDED = ("resource temporarily unavailable", "cannot fork")
_CROWDED_FOR = 2.0  # seconds in which another try may find room, before a worker makes room by ending
_kept: dict[str, str] = {}
_crowd = threading.Lock()
_turns = threading.Lock()  # of threads whose compilers found no room: together they might never find it
# What else to do where the system has no room for a compiler; it may raise.
when_crowded: ContextVar[Callable[[], object] | None] = ContextVar("when_crowded", default=None)


def compile_shared(
    toolchain: Toolchain,
    sources: Mapping[str, str | bytes],
    output_dir: str,
    output_name: str,
    extra_flags: Sequence[str] = (),
    include_dirs: Sequence[str] = (),
    meanwhile: Callable[[], object] | None = None,
) -> str:
    """Write `sources` (flat names) to `output_dir`, compile and link them, and return the path of the shared object.

    Files named `.c` are compiled, and those named `.o` linked with them.  `meanwhile` may be called while that is done;
    it raises no Exception.
    ToolchainError: T100 no compiler, T101 it failed, T102 it did not finish in PYPTO_COMPILER_TIMEOUT seconds.
    OSError if the sources cannot be written.
    """
    names = [name for name in sources if name.endswith((".c", ".o"))]
    arguments = [*extra_flags, *toolchain.prefix_map(output_dir), *_including(include_dirs), *names]
    _compile(toolchain, sources, output_dir, [*arguments, "-o", output_name, *toolchain.link_flags], output_name, meanwhile)
    return os.path.join(output_dir, output_name)


def compile_object(
    toolchain: Toolchain, main: str, sources: Mapping[str, str | bytes], output_dir: str, output_name: str
) -> None:
    """Write `sources` (flat names) to `output_dir`, and compile `main`, one of them, to an object file that can be linked
    into a shared object; raises as `compile_shared` does."""
    arguments = [*toolchain.prefix_map(output_dir), "-c", main, "-o", output_name]
    _compile(toolchain, sources, output_dir, arguments, output_name)


def compile_objects(
    toolchain: Toolchain,
    units: Mapping[str, tuple[str | bytes, Sequence[str]]],
    output_dir: str,
    include_dirs: Sequence[str] = (),
) -> dict[str, bytes]:
    """Compile units, each a text with flags of its own, under their flat names.

    As many at a time as there are slots, the first one first.  Their object files by name, `unit.o` of `unit.c`; none is left
    in `output_dir`.  Raises as `compile_shared` does, for the first unit in order that failed.
    """
    made: dict[str, bytes] = {}
    errors: dict[str, BaseException] = {}

    def make(name: str, meanwhile: Callable[[], object] | None = None) -> None:
        text, flags = units[name]
        output = f"{name[:-2]}.o"
        arguments = [*flags, *toolchain.prefix_map(output_dir), *_including(include_dirs), "-c", name, "-o", output]
        try:
            _compile(toolchain, {name: text}, output_dir, arguments, output, meanwhile)
            path = os.path.join(output_dir, output)
            with open(path, "rb") as file:
                made[output] = file.read()
            os.unlink(path)
        except BaseException as e:
            errors[name] = e

    first, *rest = units
    threads = [threading.Thread(target=copy_context().run, args=(make, name), daemon=True) for name in rest]
    begun: list[threading.Thread] = []

    def begin_rest() -> None:
        with suppress(RuntimeError):  # where the system has no room for another thread
            for thread in threads:
                thread.start()
                begun.append(thread)

    try:
        make(first, begin_rest)
        for name in rest[len(begun) :]:
            make(name)
    finally:
        for thread in begun:
            thread.join()
    for name in units:
        if name in errors:
            raise errors[name]
    return made


def _including(folders: Sequence[str]) -> list[str]:
    return [f"-I{os.path.abspath(path)}" for path in folders]


def _compile(
    toolchain: Toolchain,
    sources: Mapping[str, str | bytes],
    directory: str,
    arguments: Sequence[str],
    output: str,
    meanwhile: Callable[[], object] | None = None,
) -> None:
    """Run the compiler on sources written to `directory`; there must be a file `output` then."""
    if not toolchain.command:
        raise ToolchainError(toolchain.problem, hint=toolchain.hint, code="T100")
    for name, text in sources.items():
        with open(os.path.join(directory, name), "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
    # Names relative to the working directory, and a map for debug information: the place of the build leaves no trace.
    command = [*toolchain.command, *toolchain.compile_flags, *arguments]
    limit = config.COMPILER_TIMEOUT.get()
    code, said = run_patiently(command, directory, limit, meanwhile=meanwhile)
    made = os.path.join(directory, output)
    problem = "" if code else _unlike_code(made, 1 if output.endswith(".o") else 3)
    if code != 0 or problem:
        raise _failure(command, code, said, sources, limit, problem)


def _unlike_code(path: str, kind: int) -> str:
    """Why a file is no object file (ELF's `kind` 1) or shared object (3) for this process, or an empty text."""
    try:
        with open(path, "rb") as file:
            head = file.read(20)
    except OSError as e:
        return f"made no {os.path.basename(path)} ({e.strerror or e})"
    if not sys.platform.startswith("linux"):
        return "" if head else f"left {os.path.basename(path)} empty"
    with open("/proc/self/exe", "rb") as file:
        own = file.read(20)
    # ELF: word size and byte order, then the type and the machine.
    if head[:4] != b"\x7fELF" or head[16:18] != kind.to_bytes(2, sys.byteorder):
        return f"made a {os.path.basename(path)} that is no {'shared object' if kind == 3 else 'object file'}"
    if own[:4] == head[:4] and (head[4:6], head[18:20]) != (own[4:6], own[18:20]):
        return f"made a {os.path.basename(path)} for another machine, or for another word size"
    return ""


def run_patiently(
    command: list[str],
    directory: str,
    limit: float,
    counter: str = "compiler_runs",
    meanwhile: Callable[[], object] | None = None,
) -> tuple[int | None, str]:
    """Exit status (None: it took too long) and output; while the system has no room for processes, wait and try again."""
    begin = time.monotonic()
    pause, make_room = 0.1, when_crowded.get()
    turn: AbstractContextManager[object] = nullcontext()
    while True:
        with turn, _compiler_slot():
            stats.count(counter)
            try:
                code, output = run(command, directory, limit, meanwhile=meanwhile)
            except BlockingIOError as e:
                code, output = 1, f"cannot fork: {e}"
            except OSError as e:
                code, output = 127, f"{e.filename or command[0]}: {e.strerror or e}"
        crowded = code not in (0, None) and any(words in output.lower() for words in _CROWDED)
        waited = time.monotonic() - begin
        if not crowded or waited + pause > limit:
            return code, output
        if make_room is not None and waited > _CROWDED_FOR:
            make_room()
        time.sleep(pause)
        pause, turn, meanwhile = min(pause * 1.5, 2.0), _turns, None


def _failure(
    command: list[str], code: int | None, output: str, sources: Mapping[str, str | bytes], limit: float, problem: str = ""
) -> ToolchainError:
    import shlex

    shown = shlex.join(command)
    place = keep(sources, shown, output)
    note = "the source could not be kept: no room for temporary files"
    hint = "make room for temporary files, and call again to see all of the compiler's output"
    if place:
        note = f"{place} was kept, so that the failure can be repeated: the source, command.sh, output.txt"
        hint = "run command.sh in the directory that was kept to see all of the compiler's output"
    flags = config.CFLAGS.text()
    if flags:
        hint = f"look at CFLAGS={flags!r}, which is part of the command, or unset it; {hint}"
    shown = f"\n  command: {shown}" + "".join(f"\n  {line}" for line in first_diagnostics(output))
    if code is None:
        slow = f"the C compiler did not finish within {limit:g} s (PYPTO_COMPILER_TIMEOUT){shown}"
        return ToolchainError(slow, hint=hint, note=note, code="T102")
    if code < 0:
        memory = " (out of memory?)" if code == -signal.SIGKILL else ""
        return ToolchainError(f"the C compiler was ended by signal {-code}{memory}{shown}", hint=hint, note=note, code="T101")
    fate = f"ended with status 0, but {problem}" if problem else f"failed with status {code}"
    return ToolchainError(f"the C compiler {fate}{shown}", hint=hint, note=note, code="T101")


def first_diagnostics(output: str) -> list[str]:
    """The first few lines that say what went wrong."""
    lines = [line.rstrip()[:300] for line in output.splitlines() if line.strip()]
    first = next((i for i, line in enumerate(lines) if any(word in line.lower() for word in _TELLING)), 0)
    return lines[first : first + 5]


def keep(sources: Mapping[str, str | bytes], command: str, output: str) -> str:
    """A private directory, which stays, with what is needed to repeat a failure; one for each different source text."""
    texts = {name: text if isinstance(text, bytes) else text.encode() for name, text in sources.items()}
    key = sha256(b"\0".join([command.encode(errors="surrogateescape"), *texts.values()]))
    place = _kept.get(key, "")
    if place and os.path.isdir(place):
        return place
    try:
        import tempfile

        place = tempfile.mkdtemp(prefix="pypto-failed-")
        texts |= {"command.sh": command.encode(errors="surrogateescape") + b"\n", "output.txt": output.encode(errors="replace")}
        for name, text in texts.items():
            with open(os.path.join(place, name), "wb") as file:
                file.write(text)
    except OSError:
        return ""
    _kept[key] = place
    return place


# How many compilers at a time.


@contextmanager
def _compiler_slot() -> Iterator[None]:
    """Waits for one of as many slots as there are CPUs: OS locks, shared by all processes of this user."""
    slot = _take_slot()
    if slot is None:
        # No place for locks: one compiler at a time in this process.
        with _crowd:
            yield
        return
    try:
        yield
    finally:
        slot.release()


def _take_slot() -> FileLock | None:
    """A lock that is ours, or None where there can be none, or where all stay taken for longer than builds are waited for."""
    directory = _slot_directory()
    slots = [FileLock(f"{directory}/{i}") for i in range(available_cpus())] if directory else []
    pause, deadline = 0.001, time.monotonic() + config.CACHE_LOCK_TIMEOUT.get()
    # Owners may have been stopped: they must not stop everybody else for good.
    while slots and time.monotonic() < deadline:
        for slot in list(slots):
            try:
                if slot.try_acquire():
                    return slot
            except OSError:
                slots.remove(slot)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
    return None


def _slot_directory() -> str:
    """A directory that all processes of this user find and only they can write, or an empty text.

    Its name can be foreseen, so somebody else may have made it: then it is not used.  It holds locks and nothing else.
    """
    path = os.path.join(_temporary(), f"pypto-compilers-{os.geteuid()}")
    with suppress(OSError):
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
        status = os.stat(path, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not distrust(status):
            return path
    return ""


def _temporary() -> str:
    """Where temporary files go, for all processes of this environment alike."""
    given = (config.environment().get(name, "") for name in ("TMPDIR", "TEMP", "TMP"))
    places = (*given, "/tmp", "/var/tmp", "/usr/tmp")
    return next((p for p in places if os.path.isabs(p) and os.access(p, os.W_OK | os.X_OK)), "/nonexistent")


def _unlock_in_child() -> None:
    global _crowd, _turns
    _crowd, _turns = threading.Lock(), threading.Lock()


os.register_at_fork(after_in_child=_unlock_in_child)

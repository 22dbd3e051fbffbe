"""The C compiler of this machine: which one, what identifies it, which flags make code fast and its numbers exact.

In: PYPTO_CC, CC, CFLAGS, PATH, the processor that code is made for.  Out: a `Toolchain`, or one ToolchainError that
names the ways to get a compiler.  The compiler is asked once per machine: the answer is an entry of the store, under the
compiler file's path, size, time and inode, so that a warm process only looks at the file.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from pypto import config
from pypto.errors import ConfigError, InternalError, SerializationError, ToolchainError
from pypto.named import NamedTuple
from pypto.runtime import ptoas
from pypto.runtime.processor import Processor, cpu_features, made_for
from pypto.runtime.record import Record

if TYPE_CHECKING:
    from pypto.runtime.store import Store

__all__ = ["Toolchain", "find", "find_compiler", "processor"]

_PROBE = 3
_ANSWER = "compiler"
_PROBE_SECONDS = 120.0
_HOW_TO_GET_ONE = (
    "install one (Debian, Ubuntu: `apt install gcc`; Fedora: `dnf install gcc`; macOS: `xcode-select --install`),"
    " or `pip install pypto[toolchain]`, which brings its own, or set PYPTO_CC to the command of one"
)
# They choose programs and files that belong to the compiler itself; everything else of the kind is kept from it.
_CHOOSING = (
    *("GCC_EXEC_PREFIX", "COMPILER_PATH", "SDKROOT", "MACOSX_DEPLOYMENT_TARGET"),
    *("NIX_CFLAGS_COMPILE", "NIX_CFLAGS_LINK", "NIX_LDFLAGS", "NIX_HARDENING_ENABLE"),
)

# By question, user's flags and store: what this process has found before.
_found: dict[tuple[bytes, tuple[str, ...], str, str], Toolchain] = {}


class Toolchain(NamedTuple):
    """A compiler and how to call it.  `identity` is what of it decides the bytes it makes, fit to be a part of a record.

    Without `command` there is no compiler, but what the last one made can still be found; `problem` says what to do.
    """

    command: tuple[str, ...]
    family: str
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    identity: Mapping[str, object]
    problem: str = ""
    hint: str = ""
    ptoas: ptoas.Ptoas | None = None
    """The assembler of `.pto` texts, no part of `identity`."""

    def hosted(self) -> Toolchain:
        """The same, linking start-up code and libraries as usual: for units that use more of libc than is loaded anyway.

        The lean way finds what libc exports, but not what each library gets a copy of (`atexit`, `pthread_atfork`).
        """
        return self._replace(link_flags=())

    def prefix_map(self, directory: str) -> tuple[str, ...]:
        """Flags that keep the name of the build directory out of what is built."""
        return (f"-ffile-prefix-map={directory}=.",) if self.family != "other" else ()


def find(store: Store, new: Callable[[Toolchain], object] | None = None) -> Toolchain:
    """The tools of this machine, as `find_compiler` and `ptoas.find` find them; raises as they do."""
    return find_compiler(store, new)._replace(ptoas=ptoas.find(store))


def find_compiler(store: Store, new: Callable[[Toolchain], object] | None = None) -> Toolchain:
    """The compiler that PYPTO_CC, CC or the PATH name, or the ziglang wheel's; its identity is remembered in `store`.

    ToolchainError T100: there is none, or the one that was named is none.  T103: it does not work.  ConfigError O120:
    CFLAGS or the command has a flag that would change numbers.  O123: PYPTO_TARGET_CPU is not for this machine, or is
    contradicted by a flag.  `new` is called with a compiler that nobody had asked before; it raises no Exception.
    """
    user = _split(config.CFLAGS.text() or "", "CFLAGS")
    _refuse(user, "CFLAGS")
    command = _command()
    if command is None:
        return _without_compiler(store, user)
    try:
        status = os.stat(command[0])
    except OSError as e:
        raise ToolchainError(f"{command[0]}: {e.strerror}", hint=_HOW_TO_GET_ONE, code="T100") from e
    question = Record(
        {
            "kind": _ANSWER,
            "probe": _PROBE,
            "command": tuple(command),
            "file": _stamp(status),
            "programs": _stamps([*_same_name(command[0]), *_named_programs(command)]),
            "environment": _choosing(),
            **_target(),
        }
    ).encoded
    key = (question, tuple(user), store.root, store.mode)
    if key not in _found:
        known = store.lookup(question, (_ANSWER,), counted=False)
        entry = known or store.build_once(
            question,
            lambda directory: _ask(command, directory),
            (_ANSWER,),
            label=f"the identity of {command[0]}",
            counted=False,
        )
        _found[key] = _toolchain(tuple(command), entry.read(_ANSWER), user)
        if known is None and new is not None:
            new(_found[key])
    return _found[key]


def _toolchain(command: tuple[str, ...], answer: bytes, user: Sequence[str]) -> Toolchain:
    family, content, compiling, linking, arguments, version = answer.decode().split("\0")
    compile_flags = (*compiling.split("\n"), *user)
    # The user's flags may need libraries (sanitizers, profiling): link as the compiler would by itself.
    link_flags = () if user or not linking else tuple(linking.split("\n"))
    identity = {
        "family": family,
        "version": version,
        "content": content,
        "arguments": arguments,
        "environment": _choosing(),
        "machine": os.uname().machine,
        "cpu": " ".join(processor().features),
        "flags": (*compile_flags, *link_flags),
    }
    return Toolchain(command, family, compile_flags, link_flags, MappingProxyType(identity))


def _without_compiler(store: Store, user: Sequence[str]) -> Toolchain:
    """What the compiler used last made on this machine can still be loaded; only building fails."""
    problem = "no C compiler was found: tried $PYPTO_CC, $CC, cc, gcc and clang on the PATH, and the ziglang wheel"
    for found in store.entries() if store.root else ():
        try:
            record = found.record()
            if record.parts.get("kind") == _ANSWER and _target().items() <= record.parts.items():
                entry = store.lookup(record.encoded, (_ANSWER,), counted=False)
                if entry is not None:
                    kept = _toolchain((), entry.read(_ANSWER), user)
                    return kept._replace(problem=problem, hint=_HOW_TO_GET_ONE)
        except SerializationError:
            continue
    raise ToolchainError(problem, hint=_HOW_TO_GET_ONE, code="T100")


def processor() -> Processor:
    """The one that code is made for; ConfigError O123 as `made_for`."""
    return made_for(cpu_features())


def _target() -> dict[str, str]:
    """What of the processor decides which flags a compiler is asked about."""
    made = processor()
    return {"cpu": " ".join(made.features), "target": made.name}


# Which compiler.


def _command() -> list[str] | None:
    """Absolute path and arguments of the compiler to use; ToolchainError for a named one that does not exist."""
    for option in (config.PYPTO_CC, config.CC):
        text = option.text()
        if text is not None:
            words = [text] if os.path.isfile(text) else _split(text, option.name)
            program = _which(words[0]) if words else None
            if program is None:
                problem = f"{option.name}={text!r} is not a program that can be run"
                raise ToolchainError(
                    problem, hint=f"fix or unset {option.name}; without a compiler, {_HOW_TO_GET_ONE}", code="T100"
                )
            _refuse(words[1:], option.name)
            return [program, *words[1:]]
    for name in ("cc", "gcc", "clang"):
        program = _which(name)
        if program is not None:
            return [program]
    import importlib.util

    wheel = importlib.util.find_spec("ziglang")
    for place in (wheel.submodule_search_locations if wheel is not None else None) or ():
        program = _which(os.path.join(place, "zig"))
        if program is not None:
            return [program, "cc"]
    return None


def _which(name: str) -> str | None:
    """The absolute path of a program, as the shell would find it."""
    places = [""] if os.path.dirname(name) else os.get_exec_path()
    for place in places:
        path = f"{place}/{name}" if place else name
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return os.path.abspath(path)
    return None


def _split(text: str, origin: str) -> list[str]:
    if not any(c in text for c in "\"'\\"):
        return text.split()
    import shlex

    try:
        return shlex.split(text)
    except ValueError as e:
        raise ConfigError(f"{origin}={text!r}: {e}", hint="write it as in a shell", code="O121") from None


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    """What tells that a file was replaced or written, even by tools that keep its time."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _stamps(paths: Sequence[str]) -> dict[str, tuple[int, ...]]:
    found = {}
    for path in paths:
        with suppress(OSError):
            found[path] = _stamp(os.stat(path))
    return found


def _same_name(program: str) -> list[str]:
    """All programs of the name on the PATH: some that are called as a compiler (ccache) call the next one."""
    name = os.path.basename(program)
    places = [os.path.join(place, name) for place in os.get_exec_path()]
    return [path for path in places if os.access(path, os.X_OK) and os.path.isfile(path)]


_WORD = re.compile(rb"[^\s'\"`;|&()<>=]+")
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_MAX_SCRIPT = 1 << 16


def _named_programs(command: Sequence[str]) -> list[str]:
    """Programs that the command's arguments and, if it is a script, its text name, by paths, names or variables.

    A wrapper stays the same file when what it calls becomes another.
    """
    with open(command[0], "rb") as file:
        head = file.read(2)
        text = file.read(_MAX_SCRIPT) if head == b"#!" else b""
    words = [*command[1:], *dict.fromkeys(os.fsdecode(word) for word in _WORD.findall(text))]
    found: dict[str, None] = {}
    for word in words:
        spelled = _VARIABLE.sub(lambda m: config.environment().get(m[1], ""), word)
        for name in spelled.split():
            program = _which(name) if "\0" not in name else None
            if program is not None and program != command[0]:
                found[program] = None
    return list(found)


def _choosing() -> dict[str, str]:
    found = config.environment()
    return {name: found[name] for name in _CHOOSING if name in found}


# What it is.


def _ask(command: Sequence[str], directory: str) -> None:
    """Run the compiler and write down what it is and which flags it takes.

    Never with `-o`: whatever counts, delays or replaces builds by that flag is not meant for a question.
    """
    import hashlib

    from pypto.runtime.process import run

    def ask(*arguments: str, text: str = "") -> str:
        try:
            code, output = run([*command, *arguments], directory, _PROBE_SECONDS, text)
        except OSError as e:
            code, output = 127, f"{command[0]}: {e.strerror or e}"
        if code != 0:
            shown = " ".join([*command, *arguments])
            reason = "took too long" if code is None else "\n  ".join([f"status {code}", *_first_lines(output)])
            problem = f"the C compiler does not work\n  command: {shown}\n  {reason}"
            raise ToolchainError(problem, hint=_HOW_TO_GET_ONE, code="T103")
        return output

    said = ask("--version")
    # The place of the installation is no part of what it is.
    version = "\n".join(line for line in said.splitlines() if not line.startswith("InstalledDir"))
    family = _family(ask("-dM", "-E", "-x", "c", os.devnull), said, os.path.basename(command[0]))
    compile_flags, link_flags = _accepted(ask, family, directory)
    content = hashlib.sha256()
    for path in (command[0], *_named_programs(command)):
        with open(path, "rb") as file:
            for block in iter(lambda file=file: file.read(1 << 20), b""):  # type: ignore[misc]
                content.update(block)
    fields = (family, content.hexdigest(), "\n".join(compile_flags), "\n".join(link_flags), "\n".join(command[1:]), version)
    with open(os.path.join(directory, _ANSWER), "wb") as answer:
        answer.write("\0".join(field.replace("\0", "") for field in fields).encode())


def _first_lines(output: str) -> list[str]:
    """What a program that fails has to say stands first; what follows may be a licence, or all that it takes."""
    lines = [line[:200] for line in output.splitlines() if line.strip()]
    return [*lines[:3], "..."] if len(lines) > 4 else lines


def _family(macros: str, said: str, program: str) -> str:
    """gcc, clang, zig or other: from what the compiler defines, because wrappers and links print what they like.

    Zig defines what clang does, and by its version is clang too; only its name and the place of its wheel say it.
    """
    if program == "zig" or "ziglang" in said:
        return "zig"
    if "#define __clang__ " in macros:
        return "clang"
    # Other compilers define __GNUC__ too, and then say what they are.
    claims = ("#define __INTEL_COMPILER ", "#define __TINYC__ ", "#define __PGI ", "#define __NVCOMPILER ")
    return "gcc" if "#define __GNUC__ " in macros and not any(claim in macros for claim in claims) else "other"


_DIALECT = (
    *("unrecogni", "unknown", "unsupported", "not supported", "invalid", "bad value"),
    *("cannot find -l", "unable to find library"),
)


def _accepted(ask: Callable[..., str], family: str, directory: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The first of: all flags, without those of the linker, the exact minimum, that make a shared object of a small text."""
    compile_flags, link_flags, minimum = _compile_flags(family), _link_flags(family), _minimum(family)
    attempts = [(compile_flags, link_flags), (compile_flags, ()), (minimum, ())]
    for compiling, linking in attempts:
        try:
            ask(*compiling, "-x", "c", "-", *linking, text="int f(int x) { return x + 1; }\n")
            return compiling, linking
        except ToolchainError as e:
            # Only if it does not know a flag: a disk that is full for a moment must not decide for good.
            if compiling == minimum or not any(words in e.message.lower() for words in _DIALECT):
                raise
        finally:
            with suppress(OSError):
                os.unlink(os.path.join(directory, "a.out"))
    raise InternalError("unreachable")


# Flags.

_MINIMUM = ("-O2", "-ffp-contract=off", "-fwrapv", "-fPIC", "-shared")


def _minimum(family: str) -> tuple[str, ...]:
    """What a compiler must take: a level that was asked for is not given up silently."""
    made = processor()
    return _MINIMUM if made.name == "native" else (*_MINIMUM, *made.flags(family)[:1])


_INEXACT_WORDS = (
    "-ffast-math -Ofast -funsafe-math-optimizations -ffinite-math-only -fassociative-math -freciprocal-math -fno-signed-zeros"
    " -fapprox-func -fno-honor-nans -fno-honor-infinities -fsingle-precision-constant -fno-wrapv -ftrapv -fstrict-overflow"
    " -mdaz-ftz -mrecip -mlow-precision-recip-sqrt -mlow-precision-sqrt -mlow-precision-div"
)
_INEXACT = frozenset(_INEXACT_WORDS.split())
_INEXACT_VALUES = {
    "-ffp-contract": ("off",),
    "-ffp-model": ("strict",),
    "-mfpmath": ("sse",),
    "-ffp-eval-method": ("source",),
    "-fdenormal-fp-math": ("ieee",),
    "-fdenormal-fp-math-f32": ("ieee",),
    "-mrecip": ("none",),
}


# Of another calling convention or another layout of structures: such code can be linked, and then fails in any way it likes.
_FOREIGN = (
    *("-m32", "-mx32", "-m16", "-miamcu", "-mabi=", "-mregparm", "-mrtd", "-msseregparm", "-mgeneral-regs-only", "-msoft-float"),
    *("-mno-sse", "-fpack-struct", "-fcall-", "-ffixed-", "-fpcc-struct-return", "-freg-struct-return", "-mms-bitfields"),
)


# What these files hold decides about the code, and an edit of them would go unseen.
_FILES_OF_FLAGS = frozenset(
    (
        *("-include", "-imacros", "-include-pch", "-specs", "--specs", "-fplugin", "-fpass-plugin", "-wrapper", "--config"),
        *("-fprofile-use", "-fprofile-instr-use", "-fauto-profile", "-Xclang", "-load", "-T"),
    )
)
_LOADED = ("-fplugin", "-B", "-Wl,-T", "-Wl,--script")


def _refuse(words: Sequence[str], origin: str) -> None:
    made = processor().name
    for word in words:
        name, mark, value = word.partition("=")
        if made != "native" and value == "native" and name in ("-march", "-mcpu", "-mtune"):
            raise ConfigError(
                f"{origin} has {word!r}, and {config.TARGET_CPU.name} is {made}",
                hint="leave one of them out: what is made for a level is taken for the same on every machine",
                code="O123",
            )
        if word in _INEXACT or (mark and value not in _INEXACT_VALUES.get(name, (value,))):
            raise ConfigError(
                f"{origin} has {word!r}, which changes the numbers that kernels compute",
                hint="leave it out: the results are defined to the bit",
                code="O120",
            )
        if word.startswith(_FOREIGN):
            raise ConfigError(
                f"{origin} has {word!r}, which changes how compiled code is called",
                hint="leave it out: kernels are called by this process, as its own code is",
                code="O122",
            )
        if word.startswith("@") or name in _FILES_OF_FLAGS or word.startswith(_LOADED):
            raise ConfigError(
                f"{origin} has {word!r}, which reads a file that the cache cannot watch",
                hint="leave it out, or write the flags themselves",
                code="O120",
            )


def _compile_flags(family: str) -> tuple[str, ...]:
    """What makes fast code with the numbers that are written: no reordering, no contraction, wrapping integers."""
    if family == "other":
        return _minimum(family)
    flags = ["-O2", "-ftree-vectorize", *processor().flags(family)]
    flags += ["-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv", "-fno-strict-aliasing"]
    flags += ["-fPIC", "-shared", "-pipe"]
    if family == "gcc":
        flags += ["-fno-use-linker-plugin", "-fno-ident"]
    if family == "zig":
        flags += ["-fno-sanitize=undefined"]
    if sys.platform.startswith("linux"):
        # Calls inside a library stay inside, whatever other libraries define.
        flags.append("-Wl,-Bsymbolic")
    return tuple(flags)


def _link_flags(family: str) -> tuple[str, ...]:
    """A small file that links and loads fast: no start-up code, no padding, and libc as the process has it anyway."""
    if family not in ("gcc", "clang") or not sys.platform.startswith("linux"):
        return ()
    return ("-nostdlib", "-Wl,-z,noseparate-code,-z,norelro,--build-id=none", "-lgcc")

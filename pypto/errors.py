"""Exceptions that reach users, and how they look.

In: a message, a place, a remedy.  Out: one exception whose text is complete: code, `file:line:col`, the source
line, a caret, the help.  Every class pickles to an equal object, so that an error survives a worker process.

    Error                        everything the user can cause; also VerificationError
    +- ParserError               the source of a kernel: Syntax, Type, Undefined, SSA, Unsupported, Invalid, Isolation
    +- CompileError (ValueError) a kernel that parses but cannot be compiled
    +- ArgumentTypeError (TypeError), ArgumentValueError (ValueError)    a call that does not fit its kernel
    +- KernelError (RuntimeError), KernelBoundsError (IndexError)        found while a kernel ran
    +- UnknownNameError (AttributeError), MissingPackageError (ImportError), ClosedError (RuntimeError)
    +- ToolchainError (RuntimeError)                                     compiler missing, failing, timing out
    +- SerializationError (ValueError), ConfigError (ValueError), NotSupportedError (NotImplementedError)
    InternalError (RuntimeError) a defect of pypto itself; deliberately not an Error
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pypto.named import NamedTuple
from pypto.span import Span

__all__ = [
    "ArgumentTypeError",
    "ArgumentValueError",
    "ClosedError",
    "CompileError",
    "ConfigError",
    "Error",
    "InternalError",
    "InvalidOperationError",
    "KernelBoundsError",
    "KernelError",
    "MissingPackageError",
    "NotSupportedError",
    "ParserError",
    "ParserSyntaxError",
    "ParserTypeError",
    "PyptoWarning",
    "SSAViolationError",
    "ScopeIsolationError",
    "SerializationError",
    "ToolchainError",
    "UndefinedVariableError",
    "UnknownNameError",
    "UnsupportedFeatureError",
    "VerificationError",
]


_P = ParamSpec("_P")
_R = TypeVar("_R")


class Error(Exception):
    """Base of everything a user can cause; `str(e)` is the full rendering, `e.message` the bare sentence."""

    code = "E000"

    def __init__(
        self,
        message: str,
        span: Span | None = None,
        hint: str | None = None,
        note: str | None = None,
        source_lines: tuple[str, ...] | None = None,
        *,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.location = span
        self.hint = hint
        self.note = note
        # Taken now: the file may have changed, or not exist, where the error is printed.
        self.source_lines = span.lines() if source_lines is None and span is not None else source_lines or ()
        if code is not None:
            self.code = code

    @property
    def span(self) -> dict[str, Any] | None:
        """The place as a dict (filename, file, line, column, begin_line, begin_column), or None."""
        s = self.location
        if s is None or not s.is_valid():
            return None
        return {
            "filename": s.filename,
            "file": s.filename,
            "line": s.begin_line,
            "column": s.begin_column,
            "begin_line": s.begin_line,
            "begin_column": s.begin_column,
        }

    def __str__(self) -> str:
        return render(self)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {k: v for k, v in self.__dict__.items() if not k.startswith("_")}
        return _rebuild, (type(self), self.message, state)


def _rebuild(cls: type[Error], message: str, state: dict[str, Any]) -> Error:
    error = cls.__new__(cls)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error


def render(error: Error) -> str:
    """`error[CODE]: message`, then place, source line, caret, help and note, each only where known."""
    parts = [f"error[{error.code}]: {error.message}"]
    at = error.location
    if at is not None and at.is_valid():
        parts.append(f"  --> {at.to_string()}")
        if error.source_lines:
            parts += _excerpt(at, error.source_lines[0])
    if error.hint:
        parts.append(f"   = help: {error.hint}")
    if error.note:
        parts.append(f"   = note: {error.note}")
    return "\n".join(parts)


def _excerpt(at: Span, line: str) -> list[str]:
    number = str(at.begin_line)
    column = max(at.begin_column, 1)
    width = at.end_column - at.begin_column if at.end_line == at.begin_line and at.end_column > at.begin_column else 1
    # Tabs stay tabs under the line, so that the caret stands below what it means in any editor.
    lead = "".join("\t" if c == "\t" else " " for c in line[: column - 1])
    gutter = " " * len(number)
    return [f" {gutter} |", f" {number} | {line}", f" {gutter} | {lead}^{'~' * (min(width, 60) - 1)}"]


class ParserError(Error):
    """A kernel's source says something that the language does not."""

    code = "P000"


class ParserSyntaxError(ParserError):
    """A construct in a form that the language does not have."""

    code = "P100"


class ParserTypeError(ParserError):
    """A value of the wrong type, shape or dtype for where it stands."""

    code = "P200"


class UndefinedVariableError(ParserError):
    """A name that has no value there."""

    code = "P300"


class SSAViolationError(ParserError):
    """A name bound twice where that is not allowed."""

    code = "P400"


class UnsupportedFeatureError(ParserError):
    """Python that kernels cannot use."""

    code = "P500"


class InvalidOperationError(ParserError):
    """An operator that does not exist, or not there."""

    code = "P600"


class ScopeIsolationError(ParserError):
    """A name of another scope used where scopes are isolated."""

    code = "P700"


class CompileError(Error, ValueError):
    """A kernel that parses but that the compiler must refuse: placement, capacity, alignment, coherence."""

    code = "C000"


class VerificationError(Error):
    """Properties that do not hold after a pass; `diagnostics` lists every finding as text."""

    code = "V000"

    def __init__(
        self, message: str, span: Span | None = None, hint: str | None = None, *, diagnostics: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, span, hint)
        self.diagnostics = diagnostics


class ArgumentTypeError(Error, TypeError):
    """An argument of the wrong kind, dtype or count; names parameter, expected and got."""

    code = "A100"


class ArgumentValueError(Error, ValueError):
    """An argument of the right type that cannot be used: shape, strides, overlap, read-only, range."""

    code = "A200"


class UnknownNameError(Error, AttributeError):
    """A name that a module of pypto does not have."""

    code = "A300"
    _asked: tuple[str, tuple[str, ...]] = ("", ())

    def __getattr__(self, name: str) -> Any:
        # Python asks packages for names that are modules still to be imported: only who reads the error waits for its hint.
        if name != "hint":
            raise AttributeError(name)
        self.hint = meant(*self._asked)
        return self.hint

    def __reduce__(self) -> tuple[Any, ...]:
        self.__dict__.setdefault("hint", self.hint)
        return super().__reduce__()


class ClosedError(Error, RuntimeError):
    """Work for a pool that takes none any more."""

    code = "A400"


class MissingPackageError(Error, ImportError):
    """What needs a package that is not installed."""

    code = "A500"


class KernelError(Error, RuntimeError):
    """A condition that only the running kernel could see; outputs may be partly written."""

    code = "K000"


class KernelBoundsError(KernelError, IndexError):
    """A run-time window that leaves its tensor or tile; raised before the offending transfer."""

    code = "K100"


class ToolchainError(Error, RuntimeError):
    """No C compiler, or one that failed or did not finish."""

    code = "T000"


class SerializationError(Error, ValueError):
    """Bytes that are not a serialized program of this version."""

    code = "S000"


class ConfigError(Error, ValueError):
    """An environment variable, or a field of RunConfig or PassContext, with a value outside its domain."""

    code = "O000"


class NotSupportedError(Error, NotImplementedError):
    """A public name of the language that this implementation does not execute, with what to use instead."""

    code = "N000"


def closest(word: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """A hint naming the known word that `word` was probably meant to be; `likeness` is between 0 and 1."""
    from difflib import get_close_matches

    found = get_close_matches(word, list(known), n=1, cutoff=likeness)
    return f"did you mean '{found[0]}'?" if found else None


def meant(name: str, known: Iterable[str]) -> str | None:
    """A hint with the known name that `name` is in other letters, or looks like."""
    names = list(known)
    return next((f"did you mean '{n}'?" for n in names if n.lower() == name.lower()), None) or closest(name, names)


def unknown_name(owner: str, name: str, known: Iterable[str], hint: str | None = None) -> AttributeError:
    """The error of a `__getattr__`.  What Python itself looks for is plainly not there."""
    what = f"{owner} has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(what)
    error = UnknownNameError(what, hint=hint)
    if not hint:
        error._asked = (name, tuple(n for n in known if not n.startswith("_")))
        del error.hint
    return error


def well_called(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A public function whose calls that do not fit its signature are ArgumentTypeErrors."""

    @wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except TypeError as e:
            if e.__traceback__ is None or e.__traceback__.tb_next is not None:
                raise  # from the inside
            raise _misfit(function, e, kwargs) from None

    return called


def _misfit(function: Callable[..., Any], error: TypeError, given: Mapping[str, object]) -> ArgumentTypeError:
    from inspect import signature

    parameters = [p for p in signature(function).parameters.values() if p.name != "self"]
    names = [p.name for p in parameters]
    near = next((hint for k in given if k not in names and (hint := meant(k, names))), None)
    written = ", ".join(str(p.replace(annotation=p.empty)) for p in parameters if p.default is p.empty)
    return ArgumentTypeError(str(error), hint=near or f"its arguments: {written or ', '.join(names)}")


class InternalError(RuntimeError):
    """A broken invariant of the compiler: never the user's fault, never caught and hidden."""


class PyptoWarning(UserWarning):
    """Category of every warning that pypto issues."""


class Caution(NamedTuple):
    """A warning that has not been issued yet."""

    text: str
    filename: str
    line: int

    def issue(self) -> None:
        warnings.warn_explicit(self.text, PyptoWarning, self.filename, self.line)


_held: ContextVar[list[Caution] | None] = ContextVar("pypto.warnings", default=None)


def caution(text: str, filename: str, line: int) -> None:
    """Issue a PyptoWarning at a place; inside `cautions_held`, keep it for whoever the work is done for."""
    held = _held.get()
    if held is None:
        Caution(text, filename, line).issue()
    else:
        held.append(Caution(text, filename, line))


def holding() -> bool:
    """Whether warnings are kept here for somebody else."""
    return _held.get() is not None


@contextmanager
def cautions_held() -> Iterator[list[Caution]]:
    """The warnings of this thread or task, instead of issuing them, until the block ends."""
    found: list[Caution] = []
    token = _held.set(found)
    try:
        yield found
    finally:
        _held.reset(token)

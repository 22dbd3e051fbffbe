"""The options that can change what a compilation produces, and who sets them.

`PassOptions` is the value: frozen, serializable, part of the artifact key, an argument of every pass.  `PassContext`
is the user's edge: a `with` block per thread and per asyncio task (`contextvars`).  Entering one replaces the whole
configuration; nothing of an outer context leaks into an inner one.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

from pypto.config import VERIFY_LEVEL
from pypto.enums import MemoryPlanner, RuntimeKind
from pypto.errors import ArgumentTypeError, ConfigError, well_called
from pypto.named import NamedTuple
from pypto.target.chip import PLATFORMS

__all__ = ["BUFFER_SEMANTICS", "CURRENT", "TOKEN", "Captured", "PassContext", "PassOptions", "capture", "effective"]

NONE, BASIC, ROUNDTRIP = 0, 1, 2  # verification levels
# Part of every artifact key: raised whenever the meaning or the default selection of Buffer IR changes.
BUFFER_SEMANTICS = 4


class PassOptions(NamedTuple):
    """Everything of a context that can change an artifact.  `platform` names the chip (`target.PLATFORMS`)."""

    memory_planner: MemoryPlanner = MemoryPlanner.PYPTO
    enable_buffer_ir: bool = True
    enable_pypto_l0c_double_buffer: bool = False
    runtime: RuntimeKind = RuntimeKind.TENSORMAP_AND_RINGBUFFER
    platform: str = "a2a3sim"

    @property
    def addressed(self) -> bool:
        """Whether tiles get final addresses; else allocations are identities, and the assembler places them."""
        return self.memory_planner is not MemoryPlanner.PTOAS


class PassContext:
    """`with PassContext([instruments], memory_planner=..., enable_buffer_ir=...)`.

    Instruments, verification level and diagnostics never change an artifact; a context with instruments makes its
    compilations diagnostic requests, which neither read nor fill the artifact cache.
    """

    @well_called
    def __init__(
        self,
        instruments: Iterable[Any] = (),
        verification_level: int | None = None,
        diagnostic_phase: Any = None,
        disabled_diagnostics: Any = None,
        memory_planner: MemoryPlanner = MemoryPlanner.PYPTO,
        enable_pypto_l0c_double_buffer: bool = False,
        runtime: RuntimeKind = RuntimeKind.TENSORMAP_AND_RINGBUFFER,
        enable_buffer_ir: bool = True,
        *,
        platform: str = "a2a3sim",
    ) -> None:
        if not isinstance(enable_buffer_ir, bool):
            what = f"enable_buffer_ir must be a bool, got {type(enable_buffer_ir).__name__}"
            raise ArgumentTypeError(what, hint="pass True or False")
        if not isinstance(memory_planner, MemoryPlanner):
            what = f"memory_planner must be a passes.MemoryPlanner, got {memory_planner!r}"
            raise ArgumentTypeError(what, hint=f"passes.MemoryPlanner.{MemoryPlanner.PYPTO.name}, for example")
        if platform not in PLATFORMS:
            what = f"platform must be one of {', '.join(PLATFORMS)}, got {platform!r}"
            raise ConfigError(what, hint='PassContext(platform="a2a3sim")')
        self.instruments = tuple(instruments) if isinstance(instruments, Iterable) else (instruments,)
        if not all(hasattr(i, "run_after_pass") for i in self.instruments):
            what = f"instruments must be a list of passes.PassInstrument, got {instruments!r}"
            raise ArgumentTypeError(what, hint="PassContext([instrument], ...), or PassContext([], ...) without any")
        self.verification_level = (
            BASIC if verification_level is None else int(getattr(verification_level, "value", verification_level))
        )
        self.diagnostic_phase, self.disabled_diagnostics = diagnostic_phase, disabled_diagnostics
        self.options = PassOptions(memory_planner, enable_buffer_ir, enable_pypto_l0c_double_buffer, runtime, platform)
        self._tokens: list[tuple[Token[PassContext | None], Token[object]]] = []

    @staticmethod
    def current() -> PassContext | None:
        """The innermost context of this thread or task, or None."""
        return CURRENT.get()

    def effective(self) -> PassOptions:
        return self.options

    def get_instruments(self) -> list[Any]:
        return list(self.instruments)

    def get_verification_level(self) -> int:
        return self.verification_level

    def get_diagnostic_phase(self) -> Any:
        return self.diagnostic_phase

    def get_disabled_diagnostics(self) -> Any:
        return self.disabled_diagnostics

    def get_memory_planner(self) -> MemoryPlanner:
        return self.options.memory_planner

    def get_runtime(self) -> RuntimeKind:
        return self.options.runtime

    def get_enable_pypto_l0c_double_buffer(self) -> bool:
        return self.options.enable_pypto_l0c_double_buffer

    def get_enable_buffer_ir(self) -> bool:
        return self.options.enable_buffer_ir

    @property
    def is_diagnostic(self) -> bool:
        """Whether compilations in this context must really happen, so that its instruments see them."""
        return bool(self.instruments)

    def token(self) -> object:
        """What a dispatcher compares by identity: one object per set of options, a fresh one for diagnostics."""
        if self.is_diagnostic:
            return self
        return None if self.options == _DEFAULT else _TOKENS.setdefault(self.options, self.options)

    def __enter__(self) -> PassContext:
        self._tokens.append((CURRENT.set(self), TOKEN.set(self.token())))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        current, token = self._tokens.pop()
        CURRENT.reset(current)
        TOKEN.reset(token)


CURRENT: ContextVar[PassContext | None] = ContextVar("pypto.PassContext", default=None)
TOKEN: ContextVar[object] = ContextVar("pypto.PassContext.token", default=None)
_DEFAULT = PassOptions()
_TOKENS: dict[PassOptions, PassOptions] = {}


def effective() -> PassOptions:
    """The options in force here: the innermost context's, or the defaults."""
    context = CURRENT.get()
    return _DEFAULT if context is None else context.options


class Captured(NamedTuple):
    """What a context says, as a value that other threads and, without instruments, other processes can enter."""

    options: PassOptions
    verification_level: int
    diagnostic_phase: Any
    disabled_diagnostics: Any
    instruments: tuple[Any, ...] = ()

    def context(self) -> PassContext:
        """A context of one's own that says the same."""
        o = self.options
        return PassContext(
            self.instruments,
            self.verification_level,
            self.diagnostic_phase,
            self.disabled_diagnostics,
            o.memory_planner,
            o.enable_pypto_l0c_double_buffer,
            o.runtime,
            o.enable_buffer_ir,
            platform=o.platform,
        )


def capture() -> Captured | None:
    """The context in force here, None where there is none: options are then the defaults, levels the environment's."""
    c = CURRENT.get()
    if c is None:
        return None
    return Captured(c.options, c.verification_level, c.diagnostic_phase, c.disabled_diagnostics, c.instruments)


def default_verification_level() -> int:
    """Without a context: what PYPTO_VERIFY_LEVEL says, else BASIC."""
    return {"none": NONE, "basic": BASIC, "roundtrip": ROUNDTRIP}[VERIFY_LEVEL.get()]

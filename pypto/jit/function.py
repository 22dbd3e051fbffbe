"""`JITFunction`: what `@pl.jit` makes of a function.

A call goes to the dispatcher in C once there is one; whatever the dispatcher does not know comes to `_slow`, which binds,
specializes, finds or compiles, teaches the dispatcher, and runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pypto.errors import ArgumentTypeError, ArgumentValueError, Error, ParserSyntaxError, well_called
from pypto.frontend.depth import REMEDY
from pypto.frontend.signatures import Parameter
from pypto.frontend.source import Source
from pypto.jit import package  # noqa: F401  (takes the stamps of the code that is being loaded)
from pypto.jit.binding import Binder
from pypto.jit.dependencies import Dependencies, collect
from pypto.jit.parameters import check_call, from_arguments, from_signature, parameters_of
from pypto.passes.context import TOKEN, PassOptions, capture, effective
from pypto.runtime.plan import MISSING
from pypto.target import runs_here

if TYPE_CHECKING:
    from pypto.debug.memory_map import MemoryMap
    from pypto.frontend.specialization import Argument
    from pypto.ir.program import Program
    from pypto.jit.batch import PrecompileRequest
    from pypto.jit.compiled import CompiledProgram
    from pypto.jit.explanation import Explanation
    from pypto.jit.generated import Generated
    from pypto.jit.work import Precompiled

__all__ = ["JITFunction"]


# A name that is bound anew all the time makes a new entry each time: beyond this, looking through them costs more than
# learning the few in use again.
_MOST_ENTRIES = 256


_F = TypeVar("_F", bound=Callable[..., Any])


def _shortly(f: _F) -> _F:
    """Errors of the user's leave without the frames of this package, which say nothing about the user's code.

    `python -X dev` keeps them.
    """

    @wraps(f)
    def entry(self: JITFunction, *args: Any, **kwargs: Any) -> Any:
        try:
            return f(self, *args, **kwargs)
        except RecursionError:  # readers of the text recurse over its expressions
            what = f"'{self.source.name}' has expressions that are nested too deeply"
            raise ParserSyntaxError(what, hint=REMEDY) from None
        except Error as e:
            if not sys.flags.dev_mode:
                e.__traceback__ = None
            raise

    return cast(_F, entry)


class JITFunction:
    """A kernel entry.  Call it with arrays; `pl.Out` and `pl.InOut` arrays are written in place.

    A call returns the arrays that the function's `return` names (one array, or a tuple of several).
    """

    # The launcher reads the dispatcher's slot, and takes the one of the entry point for itself; everything else is an
    # ordinary attribute.
    __slots__ = ("__dict__", "__weakref__", "_dispatcher", "_entry_point")

    kind: str

    def __init__(self, source: Source, function: Any, options: dict[str, Any]) -> None:
        self.kind, self.source, self.options = "entry", source, dict(options)
        plain = source.function
        self.__wrapped__ = plain
        self.__name__, self.__qualname__ = source.name, source.qualname
        self.__doc__ = plain.__doc__ if plain is not None else None
        self.__module__ = plain.__module__ if plain is not None else ""
        self.kernels: dict[bytes, CompiledProgram] = {}
        self.static: dict[bytes, str] = {}
        self._dispatcher: Any = None
        self._binder: Binder | None = None
        self._parameters: tuple[Parameter, ...] | None = None
        self._last: CompiledProgram | None = None
        self._is_static = isinstance(function, staticmethod)

    # -- calling ---------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Replaced by the launcher's own entry point when the first kernel of the process is called."""
        return self._call_slow(*args, **kwargs)

    def _call_slow(self, *args: Any, **kwargs: Any) -> Any:
        return self._slow(args, kwargs)

    @_shortly
    def _slow(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        config = kwargs.pop("config", None) if "config" in kwargs and "config" not in self.source.parameters else None
        values = self.binder(args, kwargs)
        arguments = from_arguments(self.source.name, self.parameters(), values)
        compiled = self._obtain(arguments, config, lambda: check_call(self.source.name, self.parameters(), arguments, values))
        from pypto.jit.dispatch import entry_of

        return entry_of(compiled).call(values)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A kernel is no method: found on an instance, it would take `self` for its first tensor."""
        if instance is None or self._is_static:
            return self
        raise TypeError(f"@pl.jit function '{self.__name__}' takes no self: put @staticmethod above @pl.jit")

    @property
    def binder(self) -> Binder:
        if self._binder is None:
            self._binder = Binder(self.source)
        return self._binder

    def parameters(self) -> tuple[Parameter, ...]:
        if self._parameters is None:
            self._parameters = parameters_of(self.source)
        return self._parameters

    def dependencies(self) -> Dependencies:
        """What the kernel's code depends on beside its arguments, as of now."""
        return collect(self.source, self.options, MISSING)

    def _obtain(self, arguments: dict[str, Argument], config: Any, check: Callable[[], object] = lambda: None) -> CompiledProgram:
        """The compiled kernel for these arguments; the dispatcher learns it.  `check` as for `obtain`."""
        from pypto.jit.dispatch import here, obtain, the_launcher

        at = here()
        dependencies = self.dependencies()
        compiled, reusable = obtain(self, dependencies, arguments, _options(config), at, check)
        self._last = compiled
        launcher = the_launcher(JITFunction, at)
        if reusable and config is None:
            self._teach(launcher, compiled, dependencies)
        return compiled

    def _teach(self, launcher: Any, compiled: CompiledProgram, dependencies: Dependencies) -> None:
        dispatcher = self._dispatcher
        if dispatcher is None:
            a = self.source.node.args
            names = self.source.parameters
            defaults = tuple(self.source.defaults.get(n, launcher.missing) for n in names)
            dispatcher = launcher.Dispatcher(self._slow, names, defaults, len(a.posonlyargs), len(a.kwonlyargs))
        elif len(dispatcher) >= _MOST_ENTRIES:
            dispatcher.clear()
        entry = launcher.Entry(compiled.plan, compiled.address, compiled, dependencies.guards, TOKEN.get())
        dispatcher.add(entry)
        compiled.entry = compiled.entry or entry
        # Without a lock, which a forked child could find taken: of two threads that come here first, one teaches again.
        self._dispatcher = dispatcher

    # -- compiling without calling ---------------------------------------------------------------------------------

    @_shortly
    def compile(self, *args: Any, config: Any = None, **kwargs: Any) -> CompiledProgram:
        """The compiled kernel, without running it; equal requests give the identical object.

        Without arrays, every tensor parameter must be fully annotated and every scalar given (or `pl.RUNTIME`).
        """
        return self._obtain(self._arguments(args, kwargs), config)

    @_shortly
    def request(self, *args: Any, config: Any = None, **kwargs: Any) -> PrecompileRequest:
        """What `compile(...)` with these arguments would compile, under the options that are in force now.

        `pypto.precompile` and pools take it.  A tensor may be an array, `pl.Tensor[[16, 64], pl.FP32]`, or anything with a
        shape and a dtype; a number, or `pl.RUNTIME` where its value does not matter.
        """
        from pypto.jit.batch import PrecompileRequest

        return PrecompileRequest(self, self._arguments(args, kwargs), _options(config), capture())

    @_shortly
    def precompile(self, *args: Any, config: Any = None, **kwargs: Any) -> Precompiled:
        """Compile in this process, and keep the artifact, without loading it; arguments as for `request`."""
        from pypto.jit.batch import work_of
        from pypto.jit.work import Precompiled, carried_out

        work = work_of(self.request(*args, config=config, **kwargs))
        return work if isinstance(work, Precompiled) else carried_out(work)

    @_shortly
    def lower(self, *args: Any, config: Any = None, **kwargs: Any) -> Program:
        """The program after the whole pass pipeline, as the device would run it; never cached."""
        from pypto.jit import driver
        from pypto.jit.specializing import with_statics

        request = self._request(self._arguments(args, kwargs), config)
        return with_statics(request, driver.lower_request).device

    @_shortly
    def specialize(self, *args: Any, config: Any = None, **kwargs: Any) -> Program:
        """The program before any pass."""
        from pypto.jit import driver
        from pypto.jit.specializing import with_statics

        return with_statics(self._request(self._arguments(args, kwargs), config), driver.parse_request).program

    @_shortly
    def generate(self, *args: Any, config: Any = None, **kwargs: Any) -> Generated:
        """Programs and texts for the chip, without machine code: also for `"a2a3"` and `"a5"`, which cannot run here.

        `lowered`, `inspect(stage)` and `copy_to(directory)` as of a compiled kernel; never cached.
        """
        from pypto.jit.generated import generate

        return generate(self._request(self._arguments(args, kwargs), config))

    @_shortly
    @well_called
    def inspect(self, stage: str, *args: Any, config: Any = None, **kwargs: Any) -> str:
        """A stage as text ("c", "tile_ir", "buffer_ir", "pto", "ptoas", "report"), for these arguments or what was compiled last.

        The text for the assembler, "pto", and the report need no C compiler, and no arguments where the annotations say all.
        """
        if not isinstance(stage, str):
            what = f"inspect() takes the name of a stage first, got {type(stage).__name__}"
            raise ArgumentTypeError(what, hint=f'{self.__name__}.inspect("c", ...); also "tile_ir", "buffer_ir", "pto", "report"')
        if stage in ("pto", "report") and (args or kwargs or self._last is None):
            from pypto.jit.inspection import pto_text, report_text

            show = pto_text if stage == "pto" else report_text
            return show(self._request(self._arguments(args, kwargs), config))
        if not runs_here(_options(config).platform) and (args or kwargs or self._last is None):
            return self.generate(*args, config=config, **kwargs).inspect(stage)
        if args or kwargs:
            return self.compile(*args, config=config, **kwargs).inspect(stage)
        if self._last is None:
            what = f"'{self.__name__}' has not been compiled"
            raise ArgumentValueError(what, hint="call it first, or pass sample arguments to inspect()")
        return self._last.inspect(stage)

    @_shortly
    def memory_map(self, *args: Any, config: Any = None, **kwargs: Any) -> MemoryMap:
        """What lives where in each on-chip memory, for these arguments, or for what was compiled last, or by the annotations.

        The map draws itself: `.text()` for a terminal, `.html()` as a page.
        """
        from pypto.jit.inspection import map_memory

        if not args and not kwargs and config is None and self._last is not None:
            return self._last.memory_map()
        return map_memory(self._request(self._arguments(args, kwargs), config))

    @_shortly
    def explain(self, *args: Any, config: Any = None, **kwargs: Any) -> str:
        """Why a call with these arguments would hit or miss: the parts that differ from the nearest stored artifact."""
        return str(self.explanation(*args, config=config, **kwargs))

    @_shortly
    def explanation(self, *args: Any, config: Any = None, **kwargs: Any) -> Explanation:
        """The same as data: `hit`, `state`, `path`, `differences`."""
        from pypto.jit.explanation import explain

        return explain(self, self._arguments(args, kwargs), _options(config), self.dependencies())

    def _request(self, arguments: dict[str, Argument], config: Any) -> Any:
        from pypto.config import NATIVE_OPT
        from pypto.jit.request import Request

        found, optimize = self.dependencies(), NATIVE_OPT.get() == "1"
        return Request(self.source, found.sources, self.options, arguments, _options(config), optimize, found.pins)

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Argument]:
        tensors = {p.name for p in self.parameters() if p.kind == "tensor"}
        if not args and not tensors & kwargs.keys() and tensors:
            return from_signature(self.source.name, self.parameters(), kwargs, self.source.defaults)
        return from_arguments(self.source.name, self.parameters(), self.binder(args, kwargs))

    def __reduce__(self) -> str:
        """Pickled, and copied, by name like a function: the other side imports it."""
        return self.__qualname__

    def __repr__(self) -> str:
        return f"<@pl.jit {self.__qualname__}>"


def _options(config: Any) -> PassOptions:
    """The context's options, with what a RunConfig says on top."""
    options = effective()
    if config is None:
        return options
    from pypto.runtime.run_config import checked

    run = checked(config)
    planner = options.memory_planner if run.memory_planner is None else run.memory_planner
    return options._replace(platform=run.platform, memory_planner=planner)

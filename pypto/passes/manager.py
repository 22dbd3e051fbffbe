"""Pipelines: passes in a checked order, run with verification, instruments and dumps.

In: passes and a program.  Out: the program after the last pass.
Invariant: an order in which a pass lacks what it requires fails when the pipeline is built; an error of the user passes
through as it is; any other exception becomes an InternalError that names the pass and the file with the pass's input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pypto.errors import CompileError, Error, InternalError
from pypto.ir.node import Node
from pypto.ir.program import Program
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.registry import STRUCTURAL, VERIFIED, verify_or_throw
from pypto.passes.context import BASIC, CURRENT, NONE, ROUNDTRIP, PassOptions, default_verification_level, effective
from pypto.passes.framework import Pass
from pypto.passes.instruments import PassInstrument
from pypto.span import Span

__all__ = ["PassPipeline", "Pipeline", "Watcher", "nested_too_deeply", "verification_level"]

# Called with the number of the pass (from 1), the pass, and the program after it.
Watcher = Callable[[int, Pass, Program], None]


def verification_level() -> int:
    """The level in force here: the innermost context's, or what the environment says."""
    context = CURRENT.get()
    return default_verification_level() if context is None else context.verification_level


class Pipeline:
    """A fixed sequence of passes.

    `given` are the properties of the programs it starts from.  None: programs come as the passes need them, and only
    what a pass has invalidated is known to be missing.  `closing` are checked on what leaves it, whatever its passes say.
    ValueError for an order that cannot work.
    """

    def __init__(
        self, passes: Iterable[Pass], given: Iterable[IRProperty] | None = None, closing: Iterable[IRProperty] = ()
    ) -> None:
        self.passes: tuple[Pass, ...] = tuple(passes)
        self.closing = frozenset(closing)
        check_order(self.passes, given)

    @property
    def names(self) -> list[str]:
        return [p.name for p in self.passes]

    def run(
        self,
        program: Program,
        options: PassOptions | None = None,
        *,
        level: int | None = None,
        verified: Iterable[IRProperty] = (),
        watch: Watcher | None = None,
    ) -> Program:
        """The program after all passes.  `verified` are properties that need no check; `level` defaults to the context's."""
        options = effective() if options is None else options
        level = verification_level() if level is None else level
        context = CURRENT.get()
        instruments: Sequence[PassInstrument] = context.instruments if context is not None else ()
        held = set(verified)
        if level >= BASIC:
            wanted = (STRUCTURAL & VERIFIED) - held
            verify_or_throw(wanted, program, "pipeline_input")
            held |= wanted
        for number, p in enumerate(self.passes, 1):
            for i in instruments:
                i.run_before_pass(p, program)
            program = _step(p, program, options)
            held -= p.invalidates
            if level != NONE:
                self._check(p, program, held, level)
            for i in instruments:
                i.run_after_pass(p, program)
            if watch is not None:
                watch(number, p, program)
        if level >= BASIC and self.closing:
            verify_or_throw(self.closing, program, "pipeline_output")
        return program

    def _check(self, p: Pass, program: Program, held: set[IRProperty], level: int) -> None:
        wanted = (p.produces & VERIFIED) - held
        if wanted:
            verify_or_throw(wanted, program, p.name)
            held |= wanted
        if level >= ROUNDTRIP:
            from pypto.passes.round_trip import check_round_trip

            check_round_trip(program, p.name)


def check_order(passes: Iterable[Pass], given: Iterable[IRProperty] | None) -> None:
    """ValueError if a pass requires a property that is not there when its turn comes."""
    held = set(given or ())
    gone: dict[IRProperty, str] = {}
    for p in passes:
        for r in sorted(p.requires, key=lambda r: r.value):
            if r in gone:
                raise ValueError(f"'{p.name}' requires {r.name}, which '{gone[r]}' invalidated before it")
            if given is not None and r not in held:
                raise ValueError(f"'{p.name}' requires {r.name}, not held here: neither given nor produced by an earlier pass")
        lost = p.invalidates - p.produces
        held = (held - lost) | p.produces
        gone.update(dict.fromkeys(lost, p.name))
        for q in p.produces:
            gone.pop(q, None)


def _step(p: Pass, program: Program, options: PassOptions) -> Program:
    try:
        return p.run(program, options)
    except Error:
        raise
    except InternalError as e:
        raise InternalError(f"in pass {p.name}: {e} ({_reproducer(program)})") from e
    except RecursionError:
        raise nested_too_deeply(program) from None
    except Exception as e:
        raise InternalError(f"in pass {p.name}: {type(e).__name__}: {e} ({_reproducer(program)})") from e


def nested_too_deeply(program: Program) -> Error:
    """What to say where a program cannot be walked, at its deepest expression; found without recursion."""
    most, deepest = 0, Span.unknown()
    work: list[tuple[Node, int, Span]] = [(f, 0, Span.unknown()) for f in program.function_list]
    while work:
        node, level, span = work.pop()
        own = getattr(node, "span", span)
        span = own if own.is_valid() else span
        if level > most:
            most, deepest = level, span
        work += [(n, level + 1, span) for n in node.children()]
    return CompileError("the program is nested too deeply here", deepest, "give parts of it names in statements of their own")


def _reproducer(program: Program) -> str:
    """Where the program that a pass failed on was saved, in words."""
    try:
        import tempfile

        from pypto.ir.serialization import serialize

        with tempfile.NamedTemporaryFile(prefix="pypto-repro-", suffix=".msgpack", delete=False) as file:
            file.write(serialize(program))
        return f"input saved as {file.name}"
    except Exception as e:  # the first failure is the one to report
        return f"input could not be saved: {e}"


class PassPipeline:
    """A pipeline put together pass by pass."""

    def __init__(self) -> None:
        self._passes: list[Pass] = []

    def add_pass(self, p: Pass) -> None:
        """Append a pass; ValueError if it requires what an earlier one invalidated."""
        check_order([*self._passes, p], None)
        self._passes.append(p)

    def run(self, program: Program) -> Program:
        return Pipeline(self._passes).run(program)

    def get_pass_names(self) -> list[str]:
        return [p.name for p in self._passes]

    def get_passes(self) -> list[Pass]:
        return list(self._passes)

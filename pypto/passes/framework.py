"""What a pass is: a pure function with a contract.

In: a function over `Function` or `Program` and the options.  Out: a `Pass` that can be called by hand, put into a
pipeline, and checked: unlisted properties persist, so contracts name only what a pass needs, makes or breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pypto.ir.program import Function, Program
from pypto.ir.verify.properties import IRProperty
from pypto.passes.context import CURRENT, PassOptions, effective

__all__ = ["FunctionTransform", "Pass", "ProgramTransform", "function_pass", "program_pass"]

FunctionTransform = Callable[[Function, PassOptions], Function]
ProgramTransform = Callable[[Program, PassOptions], Program]


class Pass:
    """One pass.  `run` is the bare transformation; calling it runs the instruments of the current context around it."""

    def __init__(
        self,
        name: str,
        run: ProgramTransform,
        requires: Iterable[IRProperty] = (),
        produces: Iterable[IRProperty] = (),
        invalidates: Iterable[IRProperty] = (),
    ) -> None:
        self.name, self.run = name, run
        self.requires, self.produces, self.invalidates = frozenset(requires), frozenset(produces), frozenset(invalidates)

    def __call__(self, program: Program) -> Program:
        context = CURRENT.get()
        instruments = context.instruments if context is not None else ()
        for i in instruments:
            i.run_before_pass(self, program)
        result = self.run(program, effective())
        for i in instruments:
            i.run_after_pass(self, result)
        return result

    def get_name(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Pass {self.name}>"


def function_pass(
    name: str, *, requires: Iterable[IRProperty] = (), produces: Iterable[IRProperty] = (), invalidates: Iterable[IRProperty] = ()
) -> Callable[[FunctionTransform], Pass]:
    """A pass that looks at one function at a time."""

    def wrap(f: FunctionTransform) -> Pass:
        def run(program: Program, options: PassOptions) -> Program:
            return program.with_functions(f(g, options) for g in program.function_list)

        return Pass(name, run, requires, produces, invalidates)

    return wrap


def program_pass(
    name: str, *, requires: Iterable[IRProperty] = (), produces: Iterable[IRProperty] = (), invalidates: Iterable[IRProperty] = ()
) -> Callable[[ProgramTransform], Pass]:
    """A pass that sees the whole program."""

    def wrap(f: ProgramTransform) -> Pass:
        return Pass(name, f, requires, produces, invalidates)

    return wrap

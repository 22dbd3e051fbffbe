"""A compiled kernel: its plan, its code, and how it is called."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pypto.errors import ArgumentTypeError, ArgumentValueError
from pypto.jit.stages import Stages
from pypto.runtime.load import library
from pypto.runtime.plan import KernelPlan, ScalarParam, TensorParam

if TYPE_CHECKING:
    from pypto.jit.request import ProgramRequest, Request
    from pypto.runtime.entry import Entry
    from pypto.runtime.record import Record

__all__ = ["CompiledProgram"]


class CompiledProgram(Stages):
    """What `kernel.compile()` gives: call it with arrays, or inspect it.

    Called with every parameter, it writes outputs in place; called without the `pl.Out` parameters, it makes them,
    zero-filled, and returns them.
    """

    def __init__(self, artifact: Entry, record: Record, request: Request | ProgramRequest) -> None:
        """`request`: what was compiled, of which nothing but the places in the user's text is needed to run it."""
        super().__init__(artifact, request)
        self.record = record
        self.platform, self.locate = request.options.platform, request.locate
        self._directory, self._is_stored = artifact.path, not artifact.private
        self.entry: Any = None  # of the launcher, made by the first direct call
        self.plan = KernelPlan.from_bytes(artifact.read("plan.msgpack"))
        self.library = library(artifact)
        self.address = self.library.address("pypto_entry")

    # -- facts --

    @property
    def output_dir(self) -> Any:
        from pathlib import Path

        return Path(self._directory)

    @property
    def is_stored(self) -> bool:
        """Whether other processes find the artifact."""
        return self._is_stored

    def export(self, directory: str) -> None:
        """Put copies of the artifact's files into a directory, which becomes `output_dir`."""
        self.copy_to(directory)
        self._directory = os.path.abspath(directory)

    def explain(self) -> str:
        """What this artifact is an answer to: its name in the cache, and the key, part by part."""
        import json

        from pypto.runtime.record import plain
        from pypto.runtime.store import digest

        parts = [f"  {name}: {json.dumps(value)}" for name, value in plain(self.record).items()]
        return "\n".join([f"'{self.plan.name}': artifact {digest(self.record.encoded)} in {self._directory}", *parts])

    @property
    def param_names(self) -> list[str]:
        return [p.name for p in self.plan.visible()]

    @property
    def output_indices(self) -> list[int]:
        """Positions of the pure outputs."""
        return [i for i, p in enumerate(self.plan.visible()) if isinstance(p, TensorParam) and p.direction == "out"]

    @property
    def has_return(self) -> bool:
        return self.plan.returns is not None

    # -- calling --

    def __call__(self, *args: Any, config: Any = None, **named: Any) -> Any:
        """`config`: a RunConfig that agrees with how the program was compiled; ArgumentValueError otherwise."""
        from pypto.runtime.validate import bind_check

        if named:
            raise ArgumentTypeError(
                f"{self.plan.name}: a compiled program takes its arguments by position, got {', '.join(named)} by name",
                hint=f"call it with ({', '.join(self.param_names)}), or call the kernel itself",
            )
        if config is not None:
            self._check(config)
        visible = self.plan.visible()
        outputs = self.output_indices
        if len(args) == len(visible):
            return self._run(args)
        if len(args) != len(visible) - len(outputs):
            raise ArgumentTypeError(
                f"CompiledProgram expects {len(visible)} (in-place) or {len(visible) - len(outputs)} (return) arguments,"
                f" got {len(args)}. Parameters: {self.param_names}",
                hint="pass every array, or all but the outputs to get those returned",
            )
        import numpy as np

        given = iter(args)
        full: list[Any] = []
        for i, p in enumerate(visible):
            if i not in outputs:
                full.append(next(given))
                continue
            assert isinstance(p, TensorParam)
            if any(d < 0 for d in p.dims):
                what = f"{self.plan.name}: output '{p.name}' has a dynamic extent and cannot be allocated; pass it"
                raise ArgumentValueError(what, hint=f"allocate it: {p.name} = numpy.empty(shape, numpy.{p.dtype.numpy().name})")
            full.append(np.zeros(p.dims, p.dtype.numpy()))
        bind_check(self.plan, tuple(full))
        self._run(tuple(full))
        made = tuple(full[i] for i in outputs)
        return made[0] if len(made) == 1 else made

    def _check(self, config: Any) -> None:
        from pypto.runtime.run_config import checked

        run, planner = checked(config), self.record.parts["memory_planner"]
        for name, wanted, have in (("platform", run.platform, self.platform), ("memory planner", run.memory_planner, planner)):
            if wanted is not None and wanted != have:
                raise ArgumentValueError(
                    f"{self.plan.name}: config asks for {name} {wanted}, the program was compiled for {have}",
                    hint="compile it with that configuration",
                )

    def _run(self, args: tuple[Any, ...]) -> Any:
        from pypto.jit.dispatch import entry_of

        return entry_of(self).call(args)

    def __fspath__(self) -> str:
        return self._directory

    def __str__(self) -> str:
        return self.__fspath__()

    def __repr__(self) -> str:
        scalars = sum(isinstance(p, ScalarParam) for p in self.plan.params)
        return f"<CompiledProgram {self.plan.name}: {len(self.plan.params)} parameters, {scalars} of them scalars>"

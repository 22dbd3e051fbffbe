"""A compiled kernel: its plan, its code, and a look at how it came about."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pypto.errors import ArgumentTypeError, ArgumentValueError
from pypto.runtime.load import library
from pypto.runtime.plan import KernelPlan, ScalarParam, TensorParam

if TYPE_CHECKING:
    from pypto.debug.memory_map import MemoryMap
    from pypto.ir.program import Program
    from pypto.jit.request import ProgramRequest, Request
    from pypto.runtime.entry import Entry
    from pypto.runtime.record import Record

__all__ = ["STAGES", "CompiledProgram"]

STAGES = ("c", "tile_ir", "buffer_ir", "pto")
STAYS = "stays.record"  # of an artifact: kernels that are not buffers, and why


class CompiledProgram:
    """What `kernel.compile()` gives: call it with arrays, or inspect it.

    Called with every parameter, it writes outputs in place; called without the `pl.Out` parameters, it makes them,
    zero-filled, and returns them.
    """

    def __init__(self, artifact: Entry, record: Record, request: Request | ProgramRequest) -> None:
        """`request`: what was compiled, of which nothing but the places in the user's text is needed to run it."""
        self._artifact, self.record, self._request = artifact, record, request
        self.platform, self.locate = request.options.platform, request.locate
        self._directory = artifact.path
        self.entry: Any = None  # of the launcher, made by the first direct call
        self.plan = KernelPlan.from_bytes(artifact.read("plan.msgpack"))
        self.library = library(artifact)
        self.address = self.library.address("pypto_entry")

    # -- facts --

    @property
    def output_dir(self) -> Any:
        from pathlib import Path

        return Path(self._directory)

    def copy_to(self, directory: str) -> None:
        """Put copies of the artifact's files into a directory; texts for the assembler go to `ptoas/` in it."""
        for name in self._artifact.files:
            place = os.path.join(directory, "ptoas") if name.endswith(".pto") else directory
            os.makedirs(place, exist_ok=True)
            with open(os.path.join(place, name), "wb") as f:
                f.write(self._artifact.read(name))

    def export(self, directory: str) -> None:
        """Put copies of the artifact's files into a directory, which becomes `output_dir`."""
        self.copy_to(directory)
        self._directory = os.path.abspath(directory)

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

    @property
    def program(self) -> Program:
        """The program that was compiled, before any pass."""
        from pypto.jit import driver
        from pypto.jit.request import ProgramRequest

        request = self._request
        return request.program if isinstance(request, ProgramRequest) else driver.parse_request(request).program

    @property
    def lowered(self) -> Program:
        """The final program, as the device would run it."""
        return self._load("device.msgpack")

    def _load(self, name: str) -> Program:
        from pypto.ir.program import Program
        from pypto.ir.serialization import deserialize

        loaded = deserialize(self._artifact.read(name))
        assert isinstance(loaded, Program)
        return loaded

    def inspect(self, stage: str) -> str:
        """The text of a stage: "c", "tile_ir" (planned tiles), "buffer_ir" (the final program), "pto" (for the assembler).

        In the final program a comment above each kernel that is not made of buffers says why.
        """
        if stage == "c":
            return self._artifact.read("kernel.c").decode()
        if stage == "pto":
            from pypto.jit.inspection import pto_text

            return pto_text(self._request)
        if stage not in STAGES:
            what = f"unknown stage {stage!r}: expected one of {', '.join(STAGES)}"
            raise ArgumentValueError(what, hint=f"inspect({STAGES[0]!r}), for example")
        from pypto.ir.printer import python_print

        name = "tile.msgpack" if stage == "tile_ir" and "tile.msgpack" in self._artifact.files else "device.msgpack"
        text = python_print(self._load(name))
        return self._commented(text) if stage == "buffer_ir" else text

    def memory_map(self) -> MemoryMap:
        """What lives where in each on-chip memory, and when; it draws itself: `.text()`, `.html()`."""
        from pypto.jit.inspection import map_memory

        return map_memory(self._request)

    def _commented(self, text: str) -> str:
        from pypto.runtime.record import Record

        stays = Record.decode(self._artifact.read(STAYS)).parts if STAYS in self._artifact.files else {}
        lines = text.split("\n")
        for name, reason in stays.items():
            at = next((i for i, line in enumerate(lines) if line.lstrip().startswith(f"def {name}(")), None)
            while at is not None and not lines[at].lstrip().startswith("@"):
                at -= 1
            if at is not None:
                indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
                lines.insert(at, f"{indent}# '{name}' stays at tile stage: {reason}")
        return "\n".join(lines)

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

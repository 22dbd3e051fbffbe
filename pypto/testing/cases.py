"""`st.case` and `st.cases`: what is compiled and compared, as values.

In: a kernel or program, its arguments, a golden function and options.  Out: a `Case`, complete and checked.
Invariant: nothing is compiled or run here, so that a test module with mistakes in its kernels can be collected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pypto.dtypes import DataType
from pypto.enums import MemoryPlanner, ParamDirection
from pypto.errors import ArgumentTypeError, ArgumentValueError, MissingPackageError
from pypto.ir.program import Program
from pypto.jit import JITFunction
from pypto.passes.context import PassContext
from pypto.runtime.arrays import element_type
from pypto.runtime.validate import as_array, scalar_value
from pypto.target.chip import PLATFORMS
from pypto.testing.comparing import Compare, Golden
from pypto.testing.specs import ScalarSpec, TensorSpec

__all__ = ["Case", "case", "cases"]


@dataclass(frozen=True, eq=False)
class Case:
    """One kernel on one set of arguments, under one set of options; None leaves an option to the session.

    `scalars` are values by name; `order` names all arguments as they are declared.
    """

    name: str
    kernel: JITFunction | Program
    tensors: tuple[TensorSpec, ...]
    scalars: Mapping[str, Any]
    order: tuple[str, ...]
    golden: Golden | None = None
    platform: str | None = None
    memory_planner: MemoryPlanner | None = None
    enable_buffer_ir: bool = True
    enable_pypto_l0c_double_buffer: bool = False
    rtol: float = 1e-5
    atol: float = 1e-5
    compare: Compare | None = None
    keyword_only: frozenset[str] = field(default=frozenset())

    def __post_init__(self) -> None:
        if not self.tensors:
            raise ArgumentValueError(
                f"case '{self.name}' has no tensors", hint="pass sample arrays, or tensors=[TensorSpec(...)]"
            )
        if not any(t.is_output for t in self.tensors):
            how = "mark parameters that are written with pl.Out or pl.InOut, or TensorSpec(is_output=True)"
            raise ArgumentValueError(f"case '{self.name}' has no outputs", hint=how)
        if len(set(self.order)) != len(self.order):
            raise ArgumentValueError(f"case '{self.name}' has two arguments of one name: {', '.join(self.order)}")
        if self.platform is not None and self.platform not in PLATFORMS:
            what = f"case '{self.name}': unknown platform {self.platform!r}"
            raise ArgumentValueError(what, hint=f"one of {', '.join(PLATFORMS)}")
        for what, function in (("golden", self.golden), ("compare", self.compare)):
            if function is not None and not callable(function):
                raise ArgumentTypeError(f"case '{self.name}': {what} is a {type(function).__name__}", hint="pass a function")
        if not all(isinstance(n, (int, float, np.number)) and n >= 0 for n in (self.rtol, self.atol)):
            raise ArgumentValueError(f"case '{self.name}': rtol={self.rtol!r}, atol={self.atol!r}", hint="pass numbers from 0 on")
        PassContext(memory_planner=self.memory_planner or MemoryPlanner.PYPTO, enable_buffer_ir=self.enable_buffer_ir)


def case(
    kernel: Any,
    *sample_args: Any,
    name: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    golden: Golden | None = None,
    tensors: Sequence[TensorSpec] | None = None,
    scalars: Sequence[ScalarSpec] | None = None,
    platform: str | None = None,
    strategy: Any = None,
    memory_planner: MemoryPlanner | None = None,
    enable_pypto_l0c_double_buffer: bool | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-5,
    compare: Compare | None = None,
    enable_buffer_ir: bool = True,
    **sample_scalars: Any,
) -> Case:
    """A case of a `@pl.jit` function with sample arguments (also by name, in `inputs`), or of a program with `tensors`.

    Samples of inputs are what the kernel gets; those of `pl.InOut` are what it finds in its output; `pl.Out` begins with
    zeros.  golden: takes a dict of all tensors and gives the outputs.  Outputs are compared with rtol and atol, or by
    compare(actual, expected), which raises AssertionError.
    ArgumentTypeError and ArgumentValueError (a TypeError and a ValueError) for what makes no case.
    """
    _check_strategy(strategy)
    given = {**(inputs or {}), **sample_scalars}
    if isinstance(kernel, JITFunction):
        if tensors is not None or scalars is not None:
            what = f"'{kernel.__name__}' is a @pl.jit function: its parameters say what its tensors and scalars are"
            raise ArgumentValueError(what, hint="pass sample arguments")
        parts = _of_kernel(kernel, sample_args, given)
    else:
        parts = _of_program(kernel, name, bool(sample_args or given), tensors, scalars)
    return Case(
        name or _default_name(kernel.__name__, parts),
        kernel,
        **parts,
        golden=golden,
        platform=platform,
        memory_planner=memory_planner,
        enable_buffer_ir=enable_buffer_ir,
        enable_pypto_l0c_double_buffer=bool(enable_pypto_l0c_double_buffer),
        rtol=rtol,
        atol=atol,
        compare=compare,
    )


def cases(*entries: Any) -> Any:
    """The decorator of a test that takes `case_run`: it runs once for each case.

    Entries are cases, or `pytest.param(case, marks=...)`.  ValueError for none, or for two of one name.
    """
    try:
        from pypto.testing.parameters import parametrized
    except ModuleNotFoundError as e:
        if e.name != "pytest":
            raise
        raise MissingPackageError("st.cases makes tests of pytest, which is not installed", hint="pip install pytest") from None
    return parametrized(entries)


def _check_strategy(strategy: Any) -> None:
    if strategy is not None:
        from pypto.passes.pass_manager import OptimizationStrategy

        if strategy is not OptimizationStrategy.Default:
            raise ArgumentValueError(f"unknown strategy {strategy!r}", hint="OptimizationStrategy.Default is the only one")


def _of_kernel(kernel: JITFunction, args: tuple[Any, ...], given: dict[str, Any]) -> dict[str, Any]:
    name, parameters = kernel.__name__, kernel.parameters()
    if "config" in given and all(p.name != "config" for p in parameters):
        hint = "platform= and memory_planner= are arguments of st.case"
        raise ArgumentTypeError(f"case of '{name}': config= is not taken", hint=hint)
    tensors, scalars = [], {}
    for p, value in zip(parameters, kernel.binder(args, given), strict=True):
        if p.kind != "tensor":
            assert p.dtype is not None
            scalars[p.name] = scalar_value(name, p.name, p.dtype, value)
            continue
        written = p.direction is not ParamDirection.In
        array = as_array(name, p.name, value).array
        dtype = p.dtype if p.dtype is DataType.BF16 and array.dtype == np.uint16 else element_type(array.dtype)
        if dtype is None:
            raise ArgumentTypeError(f"{name}: {p.name!r} has dtype {array.dtype}, which kernels do not take")
        held = None if p.direction is ParamDirection.Out else value
        tensors.append(TensorSpec(p.name, array.shape, dtype, held, written))
    keyword_only = frozenset(p.name for p in parameters if p.keyword_only)
    order = tuple(p.name for p in parameters)
    return {"tensors": tuple(tensors), "scalars": scalars, "order": order, "keyword_only": keyword_only}


def _of_program(
    program: Any,
    name: str | None,
    samples: bool,
    tensors: Sequence[TensorSpec] | None,
    scalars: Sequence[ScalarSpec] | None,
) -> dict[str, Any]:
    if not isinstance(program, Program):
        what = f"st.case takes a @pl.jit function or a program, got {type(program).__name__}"
        raise ArgumentTypeError(what, hint="put @pl.jit above the function, or @pl.program above the class")
    if not name:
        raise ArgumentValueError(f"a case of program '{program.name}' has no name", hint="pass name=")
    if samples:
        what = f"case '{name}' of a program takes no sample arguments"
        raise ArgumentValueError(what, hint="pass tensors=[TensorSpec(...)], scalars=[ScalarSpec(...)]")
    specs, values = tuple(tensors or ()), {s.name: s.argument() for s in scalars or ()}
    return {"tensors": specs, "scalars": values, "order": (*(t.name for t in specs), *values)}


def _default_name(kernel: str, parts: Mapping[str, Any]) -> str:
    tensors = (f"{t.name}_{'x'.join(map(str, t.shape))}_{t.dtype.name.lower()}" for t in parts["tensors"])
    return "__".join([kernel, *tensors, *_words(parts["scalars"].items())])


def _words(scalars: Iterable[tuple[str, Any]]) -> Iterable[str]:
    return (re.sub(r"[^\w.+-]", "_", f"{name}_{value}") for name, value in scalars)

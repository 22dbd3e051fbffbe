"""Functions and programs.

Invariant: a program's functions are sorted by name, names are unique; level and role follow from the function type
where it decides them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from pypto.enums import FunctionIRStage, FunctionType, Level, ParamDirection, Role, SplitMode
from pypto.ir.expr import GlobalVar, IRNode, Var
from pypto.ir.node import EMPTY, Attrs, definition, ignored, node
from pypto.ir.stmt import Stmt
from pypto.ir.types import Type
from pypto.span import Span

__all__ = ["Function", "Program", "is_device_type", "is_incore_type"]

_put = object.__setattr__
_UNKNOWN = Span.unknown()

_DERIVED = {
    FunctionType.Orchestration: (Level.CHIP, Role.Orchestrator),
    FunctionType.Graph: (Level.CHIP, Role.Orchestrator),
    FunctionType.InCore: (Level.CHIP_DIE, Role.SubWorker),
    FunctionType.AIC: (Level.AIC, Role.SubWorker),
    FunctionType.AIV: (Level.AIV, Role.SubWorker),
    FunctionType.Group: (Level.CORE_GROUP, Role.SubWorker),
}
_DEVICE = (FunctionType.InCore, FunctionType.AIC, FunctionType.AIV)


def is_incore_type(func_type: FunctionType) -> bool:
    """InCore, AIC or AIV: a function that runs on the core."""
    return func_type in _DEVICE


is_device_type = is_incore_type


@node
class Function(IRNode):
    """One function: parameters with directions, a body, and facts for the passes in `attrs`."""

    name: str
    func_type: FunctionType
    ir_stage: FunctionIRStage
    level: Level | None
    role: Role | None
    attrs: Attrs
    requires_runtime_binding: bool
    params: tuple[Var, ...] = definition()
    param_directions: tuple[ParamDirection, ...]
    return_types: tuple[Type, ...]
    body: Stmt
    span: Span = ignored()

    def __init__(
        self,
        name: str,
        params: Iterable[Var | tuple[Var, ParamDirection]],
        return_types: Iterable[Type],
        body: Stmt,
        span: Span = _UNKNOWN,
        type: FunctionType = FunctionType.Opaque,
        level: Level | None = None,
        role: Role | None = None,
        attrs: Mapping[str, Any] | None = None,
        requires_runtime_binding: bool = False,
        ir_stage: FunctionIRStage = FunctionIRStage.Functional,
    ) -> None:
        pairs = [p if isinstance(p, tuple) else (p, ParamDirection.In) for p in params]
        derived = _DERIVED.get(type)
        if derived is not None:
            for what, given, want in (("level", level, derived[0]), ("role", role, derived[1])):
                if given is not None and given is not want:
                    raise ValueError(f"function '{name}': {what} {given} contradicts its type {type.name} ({want})")
            level, role = derived
        _put(self, "name", name)
        _put(self, "func_type", type)
        _put(self, "ir_stage", ir_stage)
        _put(self, "level", level)
        _put(self, "role", role)
        _put(self, "attrs", Attrs(attrs) if attrs else EMPTY)
        _put(self, "requires_runtime_binding", requires_runtime_binding)
        _put(self, "params", tuple(v for v, _ in pairs))
        _put(self, "param_directions", tuple(d for _, d in pairs))
        _put(self, "return_types", tuple(return_types))
        _put(self, "body", body)
        _put(self, "span", span)

    @property
    def split(self) -> SplitMode | None:
        stored = self.attrs.get("split", 0)
        return SplitMode(stored) if stored else None

    @property
    def is_device(self) -> bool:
        return self.func_type in _DEVICE

    def direction_of(self, param: Var) -> ParamDirection | None:
        """The direction of a parameter, None for any other variable."""
        for p, d in zip(self.params, self.param_directions, strict=True):
            if p is param:
                return d
        return None


@node
class Program(IRNode):
    """All functions, sorted by name; `name` does not count in comparisons."""

    name: str = ignored()
    function_list: tuple[Function, ...]
    span: Span = ignored()

    def __init__(self, functions: Iterable[Function], name: str = "", span: Span = _UNKNOWN) -> None:
        ordered = tuple(sorted(functions, key=lambda f: f.name))
        for a, b in pairwise(ordered):
            if a.name == b.name:
                raise ValueError(f"program '{name}' has two functions named '{a.name}'")
        _put(self, "name", name)
        _put(self, "function_list", ordered)
        _put(self, "span", span)

    @property
    def functions(self) -> dict[GlobalVar, Function]:
        return {GlobalVar(f.name): f for f in self.function_list}

    def get_function(self, name: str) -> Function | None:
        for f in self.function_list:
            if f.name == name:
                return f
        return None

    def get_global_var(self, name: str) -> GlobalVar | None:
        return GlobalVar(name) if self.get_function(name) is not None else None

    def __getitem__(self, name: str) -> Function | None:
        return self.get_function(name)

    def with_functions(self, functions: Iterable[Function]) -> Program:
        """The program with these functions; the same object if none changed."""
        new = tuple(functions)
        same = len(new) == len(self.function_list) and all(a is b for a, b in zip(new, self.function_list, strict=True))
        return self if same else Program(new, self.name, self.span)

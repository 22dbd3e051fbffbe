"""What existing programs use to write passes of their own and to call judges by hand.

In: Python callables, property sets.  Out: passes, findings, sets.  Thin names over `framework` and `ir/verify/registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pypto.enums import RuntimeKind
from pypto.ir.program import Function, Program
from pypto.ir.verify import registry
from pypto.ir.verify.properties import Diagnostic, IRProperty
from pypto.ir.verify.property_set import IRPropertySet
from pypto.named import NamedTuple
from pypto.passes.context import PassOptions, default_verification_level
from pypto.passes.diagnostics import VerificationLevel
from pypto.passes.framework import Pass

__all__ = [
    "PassProperties",
    "PropertyVerifierRegistry",
    "create_function_pass",
    "create_program_pass",
    "get_default_verification_level",
    "get_default_verify_properties",
    "get_structural_properties",
    "get_verified_properties",
    "run_verifier",
    "runtime_kind_from_name",
    "runtime_kind_to_name",
    "verify_properties",
    "verify_tensor_view_canonical",
]

Properties = Iterable[IRProperty]


class PassProperties(NamedTuple):
    """The contract of a pass."""

    required: Properties = ()
    produced: Properties = ()
    invalidated: Properties = ()


def create_function_pass(
    transform: Callable[[Function], Function], name: str = "", properties: PassProperties | None = None
) -> Pass:
    """A pass that maps each function by itself."""

    def run(program: Program, options: PassOptions) -> Program:
        return program.with_functions(transform(f) for f in program.function_list)

    return Pass(name or getattr(transform, "__name__", "pass"), run, *(properties or PassProperties()))


def create_program_pass(
    transform: Callable[[Program], Program], name: str = "", properties: PassProperties | None = None
) -> Pass:
    """A pass that maps the whole program."""

    def run(program: Program, options: PassOptions) -> Program:
        return transform(program)

    return Pass(name or getattr(transform, "__name__", "pass"), run, *(properties or PassProperties()))


def run_verifier(properties: Properties | None = None) -> Pass:
    """A pass that changes nothing and raises VerificationError where a property does not hold."""
    wanted = frozenset(registry.DEFAULT if properties is None else properties)

    def run(program: Program, options: PassOptions) -> Program:
        registry.verify_or_throw(wanted, program)
        return program

    return Pass("IRVerifier", run)


def verify_properties(properties: Properties, program: Program, pass_name: str) -> None:
    """VerificationError, naming the pass, where a property does not hold."""
    registry.verify_or_throw(properties, program, pass_name)


def verify_tensor_view_canonical(program: Program, require_materialized: bool = False) -> list[Diagnostic]:
    """Findings about tensor views; without `require_materialized` packed strides may be left out."""
    found = registry.verify((IRProperty.TensorViewCanonical,), program)
    return found if require_materialized else [d for d in found if " has 0 strides " not in d.message]


class PropertyVerifierRegistry:
    """The judges by property."""

    @staticmethod
    def verify(properties: Properties, program: Program) -> list[Diagnostic]:
        return registry.verify(properties, program)

    @staticmethod
    def verify_or_throw(properties: Properties, program: Program) -> None:
        registry.verify_or_throw(properties, program)

    @staticmethod
    def generate_report(diagnostics: Iterable[Diagnostic]) -> str:
        return registry.report(diagnostics)


def get_verified_properties() -> IRPropertySet:
    """Properties a pipeline checks when a pass produced them."""
    return IRPropertySet(registry.VERIFIED)


def get_structural_properties() -> IRPropertySet:
    """Properties every program has."""
    return IRPropertySet(registry.STRUCTURAL)


def get_default_verify_properties() -> IRPropertySet:
    """Properties `run_verifier()` checks."""
    return IRPropertySet(registry.DEFAULT)


def get_default_verification_level() -> VerificationLevel:
    return VerificationLevel(default_verification_level())


def runtime_kind_to_name(kind: RuntimeKind) -> str:
    return kind.name.lower()


def runtime_kind_from_name(name: str) -> RuntimeKind:
    """ValueError for an unknown name."""
    try:
        return RuntimeKind[name.upper()]
    except KeyError:
        raise ValueError(f"unknown runtime '{name}'; known: {', '.join(k.name.lower() for k in RuntimeKind)}") from None

"""Tests that are classes: a name, tensors, a program and a method that computes what is expected."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from pypto.runtime.run_config import RunConfig, checked
from pypto.testing.cases import Case, case
from pypto.testing.specs import ScalarSpec, TensorSpec

__all__ = ["PTOTestCase", "from_legacy"]


class PTOTestCase(ABC):
    """Subclasses say what is run; `config` gives planner and tolerances."""

    __test__ = False  # pytest does not collect it for its name

    def __init__(self, config: RunConfig | None = None) -> None:
        self.config = RunConfig() if config is None else checked(config)

    @abstractmethod
    def get_name(self) -> str: ...

    @abstractmethod
    def define_tensors(self) -> list[TensorSpec]: ...

    def define_scalars(self) -> list[ScalarSpec]:
        return []

    @abstractmethod
    def get_program(self) -> Any: ...

    @abstractmethod
    def compute_expected(self, tensors: dict[str, Any], params: dict[str, Any] | None = None) -> None:
        """Put what is expected into the output tensors."""


def from_legacy(test: PTOTestCase) -> Case:
    """The case that a test class describes."""
    return case(
        test.get_program(),
        name=test.get_name(),
        tensors=test.define_tensors(),
        scalars=test.define_scalars(),
        golden=lambda tensors: test.compute_expected(tensors),
        memory_planner=test.config.memory_planner,
        rtol=test.config.rtol,
        atol=test.config.atol,
    )

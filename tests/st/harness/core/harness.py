"""`from harness.core.harness import PTOTestCase, TensorSpec, DataType`: the names of `pypto.testing.st`."""

from pypto.testing.st import DataType, PTOTestCase, RunResult, ScalarSpec, TensorSpec

__all__ = ["DataType", "PTOTestCase", "RunResult", "ScalarSpec", "TensorSpec"]

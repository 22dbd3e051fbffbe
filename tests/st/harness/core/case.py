"""`from harness.core.case import Case, ...`: the cases of `pypto.testing.st`."""

from pypto.testing.st import Case, CaseRun, ScalarSpec, TensorSpec, case, cases, from_legacy, rel_err_under

__all__ = ["Case", "CaseRun", "ScalarSpec", "TensorSpec", "case", "cases", "from_legacy", "rel_err_under"]

"""What a test file imports: `from pypto.testing import st`."""

from __future__ import annotations

from pypto.dtypes import DataType
from pypto.testing.cases import Case, case, cases
from pypto.testing.comparing import rel_err_under
from pypto.testing.legacy import PTOTestCase, from_legacy
from pypto.testing.running import CaseRun, RunResult
from pypto.testing.specs import ScalarSpec, TensorSpec

__all__ = [
    "Case",
    "CaseRun",
    "DataType",
    "PTOTestCase",
    "RunResult",
    "ScalarSpec",
    "TensorSpec",
    "case",
    "cases",
    "from_legacy",
    "rel_err_under",
]

"""Names of the properties a program can have, and findings about them.

A property is what a pass may require or produce; its judge lives in a module of its own and sees no pass.
"""

from __future__ import annotations

from enum import Enum

from pypto.named import NamedTuple
from pypto.span import Span

__all__ = ["Diagnostic", "IRProperty", "Severity"]


class IRProperty(Enum):
    SSAForm = 0
    TypeChecked = 1
    NoNestedCalls = 2
    NormalizedStmtStructure = 3
    NoRedundantBlocks = 4
    SplitIncoreOrch = 5
    ClusterOutlined = 6
    HierarchyOutlined = 7
    IncoreTileOps = 8
    TileOps2D = 9
    TileMemoryInferred = 10
    BreakContinueValid = 11
    UseAfterDef = 12
    HasMemRefs = 13
    AllocatedMemoryAddr = 14
    MixedKernelExpanded = 15
    VectorKernelSplit = 16
    OutParamNotShadowed = 17
    NoNestedInCore = 18
    InOutUseValid = 19
    PipelineLoopValid = 20
    ArrayNotEscaped = 21
    ManualDepsOnSubmitOnly = 22
    AtomicAddDtypeValid = 23
    InlineFunctionsEliminated = 24
    UnrollResolved = 25
    StructuredCtrlFlow = 26
    PipelineResolved = 27
    OrchestrationReferencesResolved = 28
    AivSplitValid = 29
    AccToGmStoreValid = 30
    AccCompactValid = 31
    ReturnParamsExplicit = 32
    TileTypeCoherence = 33
    TensorViewCanonical = 34
    AssignTypeSymmetry = 35
    CallDirectionsResolved = 36
    HardSyncallOccupancyValid = 37
    RuntimeScopesMaterialized = 38
    IterArgCarryClassified = 39
    DistTensorCtxMaterialized = 40
    CommDomainScopesMaterialized = 41
    TileStorageLegalized = 42
    TileStorageAllocated = 43
    BufferIR = 44
    PipesValid = 45


class Severity(Enum):
    Error = 0
    Warning = 1
    PerfHint = 2


class Diagnostic(NamedTuple):
    """One finding: the rule, its number, what is wrong, and where."""

    severity: Severity
    rule_name: str
    error_code: int
    message: str
    span: Span
    hint_code: str = ""
    hint: str = ""  # what to write instead

    def text(self) -> str:
        place = f" [{self.span.to_string()}]" if self.span.is_valid() else ""
        return f"{self.rule_name}[{self.error_code}]: {self.message}{place}"

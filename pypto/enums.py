"""Enumerations of the language and the IR; the numbers are part of the serialized form.

Below every other package, because both what a user types (`pl.Mem.Vec`) and what a node stores are these members.
"""

from __future__ import annotations

from enum import Enum, IntEnum

__all__ = [
    "ArgDirection",
    "ArgEffect",
    "AtomicType",
    "CachePolicy",
    "CompactMode",
    "CoreType",
    "ForKind",
    "FunctionIRStage",
    "FunctionType",
    "Level",
    "MaskPattern",
    "MemoryPlanner",
    "MemorySpace",
    "OpIRStage",
    "PadValue",
    "ParamDirection",
    "PipeType",
    "Role",
    "RuntimeKind",
    "ScopeKind",
    "ScopeMode",
    "SplitMode",
    "TensorLayout",
    "TileLayout",
    "WriteChannel",
]


class FunctionType(Enum):
    Opaque = 0
    Orchestration = 1
    InCore = 2
    AIC = 3
    AIV = 4
    Group = 5
    Spmd = 6
    Inline = 7
    Graph = 8


class FunctionIRStage(Enum):
    Functional = 0
    Buffer = 1


class OpIRStage(Enum):
    Functional = 0
    Buffer = 1


class Level(Enum):
    AIV = 0
    AIC = 1
    CORE_GROUP = 2
    CHIP_DIE = 3
    CHIP = 4
    HOST = 5
    CLUSTER_0 = 6
    CLUSTER_1 = 7
    CLUSTER_2 = 8
    GLOBAL = 9
    L2CACHE = 3
    PROCESSOR = 4
    UMA = 4
    NODE = 5
    POD = 6
    CLOS1 = 7
    CLOS2 = 8


class Role(Enum):
    Orchestrator = 0
    SubWorker = 1


class ParamDirection(Enum):
    In = 0
    Out = 1
    InOut = 2


class ArgDirection(Enum):
    Input = 0
    Output = 1
    InOut = 2
    OutputExisting = 3
    NoDep = 4
    Scalar = 5


class ForKind(Enum):
    Sequential = 0
    Parallel = 1
    Unroll = 2
    Pipeline = 3


class MemorySpace(Enum):
    DDR = 0
    Vec = 1
    Mat = 2
    Left = 3
    Right = 4
    Acc = 5
    Bias = 6
    ScalarLocal = 7
    LeftScale = 8
    RightScale = 9


class TensorLayout(Enum):
    ND = 0
    DN = 1
    NZ = 2
    MX_A_ZZ = 3
    MX_B_NN = 4


class TileLayout(Enum):
    none_box = 0
    row_major = 1
    col_major = 2


class PadValue(Enum):
    null = 0
    zero = 1
    max = 2
    min = 3


class CompactMode(Enum):
    null = 0
    normal = 1


class SplitMode(Enum):
    NONE = 0
    UP_DOWN = 1
    LEFT_RIGHT = 2


class ScopeMode(Enum):
    AUTO = 0
    MANUAL = 1


class ScopeKind(Enum):
    InCore = 0
    Cluster = 2
    Hierarchy = 3
    Spmd = 4
    Runtime = 5
    CommDomain = 6
    SplitAiv = 7


class PipeType(IntEnum):
    MTE1 = 0
    MTE2 = 1
    MTE3 = 2
    M = 3
    V = 4
    S = 5
    FIX = 6
    ALL = 7


class CoreType(Enum):
    CUBE = 0
    VECTOR = 1


class AtomicType(IntEnum):
    None_ = 0
    Add = 1


class CachePolicy(IntEnum):
    """Cache hint of a GM load: carried to the device text, without effect on the host."""

    DEFAULT = 0
    BYPASS = 1


class ArgEffect(Enum):
    Read = 0
    Write = 1
    ReadWrite = 2


class WriteChannel(Enum):
    """How a written GM operand reaches memory: bulk transfers and scalar stores are not coherent with each other."""

    Dma = 0
    Scalar = 1


class MaskPattern(IntEnum):
    """Which columns of two or four, the last one first."""

    P0101 = 1
    P1010 = 2
    P0001 = 3
    P0010 = 4
    P0100 = 5
    P1000 = 6
    P1111 = 7


class MemoryPlanner(Enum):
    PYPTO = 0
    PTOAS = 1
    DSA_RP = 2


class RuntimeKind(Enum):
    TENSORMAP_AND_RINGBUFFER = 0
    HOST_BUILD_GRAPH = 1

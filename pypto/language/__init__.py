"""`import pypto.language as pl`: everything a kernel's text may say.

Names only.  Dtypes, enumerations and annotations are values; operators, loops and scopes are inert objects that the
parser understands; decorators and text entry points load on first use.  Importing this loads no IR, no numpy.
"""

from __future__ import annotations

from typing import Any

from pypto.dtypes import ALL_DTYPES, DataType
from pypto.enums import (
    ArgDirection,
    AtomicType,
    CachePolicy,
    CompactMode,
    ForKind,
    FunctionType,
    Level,
    MaskPattern,
    MemorySpace,
    PadValue,
    PipeType,
    Role,
    ScopeMode,
    SplitMode,
    TensorLayout,
    TileLayout,
)
from pypto.errors import unknown_name as _unknown_name
from pypto.language._lazy import LAZY as _LAZY
from pypto.language._lazy import load as _load
from pypto.language._names import NAMES as _NAMES
from pypto.language._spelling import near as _near
from pypto.language.annotations import (
    RUNTIME,
    Array,
    AsyncEvent,
    AsyncSession,
    InOut,
    MemRef,
    MemRefType,
    Out,
    PrefetchAsyncContext,
    Ptr,
    PtrType,
    Scalar,
    TaskId,
    Tensor,
    TensorView,
    Tile,
    TileView,
    Tuple,
    const,
)
from pypto.language.operations import CONTROL as _CONTROL
from pypto.language.operations import Construct as _Construct
from pypto.language.operations import Namespace as _Namespace
from pypto.language.operations import Operation as _Operation
from pypto.language.operations import Unsupported as _Unsupported
from pypto.language.symbols import DynVar, IntLike, dynamic
from pypto.language.unsupported import UNSUPPORTED as _UNSUPPORTED

Mem = MemorySpace
AUTO = -1  # base address that the compiler chooses
ND, DN, NZ, MX_A_ZZ, MX_B_NN = TensorLayout
adir = _Namespace(
    "adir",
    {
        "input": ArgDirection.Input,
        "output": ArgDirection.Output,
        "output_existing": ArgDirection.OutputExisting,
        "inout": ArgDirection.InOut,
        "no_dep": ArgDirection.NoDep,
        "scalar": ArgDirection.Scalar,
    },
)


def _members(space: str) -> dict[str, Any]:
    unsupported: dict[str, Any] = {n: _Unsupported(space, n, why) for n, why in _UNSUPPORTED.get(space, {}).items()}
    values = {"MaskPattern": MaskPattern} if space == "tile" else {}
    return {**unsupported, **{n: _Operation(space, n) for n in _NAMES.get(space, ())}, **values}


tensor, tile, system, array, prefetch = (_Namespace(n, _members(n)) for n in ("tensor", "tile", "system", "array", "prefetch"))
globals().update(
    {
        **_members(""),
        **{n: _Construct("", n) for n in _CONTROL},
        **{d.name: d for d in ALL_DTYPES},
    }
)

__all__ = [
    "AUTO",
    "DN",
    "MX_A_ZZ",
    "MX_B_NN",
    "ND",
    "NZ",
    "RUNTIME",
    "Array",
    "AsyncEvent",
    "AsyncSession",
    "AtomicType",
    "CachePolicy",
    "CompactMode",
    "DataType",
    "DynVar",
    "ForKind",
    "FunctionType",
    "InOut",
    "IntLike",
    "Level",
    "Mem",
    "MemRef",
    "MemRefType",
    "MemorySpace",
    "Out",
    "PadValue",
    "PipeType",
    "PrefetchAsyncContext",
    "Ptr",
    "PtrType",
    "Role",
    "Scalar",
    "ScopeMode",
    "SplitMode",
    "TaskId",
    "Tensor",
    "TensorLayout",
    "TensorView",
    "Tile",
    "TileLayout",
    "TileView",
    "Tuple",
    "adir",
    "array",
    "const",
    "dynamic",
    "prefetch",
    "system",
    "tensor",
    "tile",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        hint = _near(name, (n for n in __dir__() if n[0] != "_")) or "docs/language.md and docs/operators.md list the names"
        raise _unknown_name("module 'pypto.language'", name, (), hint)
    found = globals()[name] = _load(name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})

"""The two supported chips and the platforms that name them.

Capacities are bytes usable per core; `alignment` is the chip's base alignment, the planners' own granule is 32 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pypto.dtypes import DataType as D
from pypto.enums import MemorySpace as M
from pypto.errors import ConfigError, ToolchainError
from pypto.named import NamedTuple

__all__ = ["A2A3", "A5", "BLOCK_BYTES", "CHIPS", "PLATFORMS", "Chip", "chip_of", "require_host", "runs_here"]

BLOCK_BYTES = 32  # the unit of every on-chip address, row and transfer
_K = 1 << 10


class Chip(NamedTuple):
    """One chip generation."""

    name: str
    backend: str
    capacity: Mapping[M, int]
    alignment: Mapping[M, int]
    casts: Mapping[D, frozenset[D]]  # native conversions; others go by a chain of these
    granularity: int  # recommended innermost bytes of a GM transfer
    buffer_ir_by_default: bool
    pipes_through_gm: bool  # whether tiles go from core to core through global memory
    lanes_start_together: bool  # whether a function of the vector core runs on both lanes, whatever it says
    clusters: int  # of one cube core and two vector cores

    def cores(self, kind: str) -> int:
        """How many cores of a kind meet at a barrier: "mix" (clusters), "aic_only" or "aiv_only"."""
        return self.clusters * (2 if kind == "aiv_only" else 1)


def _casts(**pairs: str) -> Mapping[D, frozenset[D]]:
    return MappingProxyType({getattr(D, k): frozenset(getattr(D, t) for t in v.split()) for k, v in pairs.items()})


A2A3 = Chip(
    "a2a3",
    "Ascend910B",
    MappingProxyType({M.Vec: 184 * _K, M.Mat: 512 * _K, M.Left: 64 * _K, M.Right: 64 * _K, M.Acc: 128 * _K, M.Bias: _K}),
    MappingProxyType({M.Vec: 128, M.Mat: 128, M.Left: 64, M.Right: 64, M.Acc: 128, M.Bias: 64}),
    _casts(
        BF16="FP32 INT32",
        FP16="FP32 INT16 INT32 INT4 INT8 UINT8",
        FP32="BF16 FP16 INT16 INT32 INT64",
        INT16="FP16 FP32",
        INT32="FP16 FP32 INT16 INT64",
        INT4="FP16",
        INT64="FP32 INT32",
        INT8="FP16",
        UINT8="FP16",
    ),
    512,
    True,
    True,
    True,
    24,
)

A5 = Chip(
    "a5",
    "Ascend950",
    MappingProxyType(
        {
            M.Vec: 240 * _K,
            M.Mat: 512 * _K,
            M.Left: 64 * _K,
            M.Right: 64 * _K,
            M.Acc: 256 * _K,
            M.Bias: 4 * _K,
            M.LeftScale: 4 * _K,
            M.RightScale: 4 * _K,
        }
    ),
    MappingProxyType(
        {M.Vec: 128, M.Mat: 128, M.Left: 64, M.Right: 64, M.Acc: 128, M.Bias: 64, M.LeftScale: 32, M.RightScale: 32}
    ),
    _casts(
        BF16="FP16 FP32 FP4 INT32",
        FP16="FP32 HF8 INT16 INT32 INT8 UINT8",
        FP32="BF16 FP16 FP8E4M3FN FP8E5M2 HF8 INT16 INT32 INT64",
        FP4="BF16",
        FP8E4M3FN="FP32",
        FP8E5M2="FP32",
        HF8="FP32",
        INT16="FP16 FP32 INT32 UINT32 UINT8",
        INT32="FP32 INT16 INT64 UINT16 UINT8",
        INT64="FP32 INT32",
        INT8="FP16 INT16 INT32",
        UINT32="INT16 UINT16 UINT8",
        UINT8="FP16 UINT16",
    ),
    128,
    False,
    False,
    False,
    36,
)

CHIPS: Mapping[str, Chip] = MappingProxyType({c.name: c for c in (A2A3, A5)})
# The `sim` platforms run on this host, under the chip's rules; the others are devices.
PLATFORMS: Mapping[str, Chip] = MappingProxyType({"a2a3sim": A2A3, "a2a3": A2A3, "a5sim": A5, "a5": A5})


def chip_of(platform: str) -> Chip:
    """The chip of a platform name; ConfigError for an unknown one."""
    chip = PLATFORMS.get(platform)
    if chip is None:
        raise ConfigError(f"unknown platform {platform!r}", hint="platforms: " + ", ".join(PLATFORMS))
    return chip


def runs_here(platform: str) -> bool:
    """Whether kernels for a platform run on this host; the others are devices, for which texts can be generated."""
    return platform.endswith("sim")


def require_host(platform: str) -> None:
    """ToolchainError (T130) for the platform of a device; ConfigError for an unknown one."""
    chip_of(platform)
    if not runs_here(platform):
        raise ToolchainError(
            f"platform '{platform}' is a device, and there is no toolchain for it here:"
            " its compiler, its runtime and the device itself are missing",
            hint=f"platform '{platform}sim' has the same memories and rules and runs on this host;"
            " lower(...), inspect('pto', ...) and generate(...) give what the device would get",
            code="T130",
        )

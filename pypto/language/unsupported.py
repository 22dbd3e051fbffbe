"""Public names of the language that this implementation resolves but does not execute, each with its reason.

A name that the operator table gains leaves this list by itself: the table wins.
"""

from __future__ import annotations

__all__ = ["UNSUPPORTED"]

_DISTRIBUTED = "it moves data between devices; kernels here run on one host"
_MX = "MX block-scaled matrices exist only on A5 hardware"
_CROSS_CORE = "cube and vector cores are not separate on a host; write the kernel without explicit barriers"
_TASKS = "task identities are not available in this version; tasks run in program order"

# namespace -> reason -> names
_TABLE: tuple[tuple[str, str, str], ...] = (
    ("", _DISTRIBUTED, "allgather allreduce"),
    ("", _MX, "matmul_mx matmul_mx_acc matmul_mx_bias"),
    ("tile", _MX, "matmul_mx matmul_mx_acc matmul_mx_bias tget_scale_addr"),
    ("system", _TASKS, "task_invalid task_is_valid"),
    (
        "system",
        _CROSS_CORE,
        "available_aiv_count available_cluster_count bar_all bar_m bar_v cacheinvalid fence sync_dst sync_src",
    ),
)

UNSUPPORTED: dict[str, dict[str, str]] = {}
for _space, _reason, _names in _TABLE:
    UNSUPPORTED.setdefault(_space, {}).update(dict.fromkeys(_names.split(), _reason))

"""Public names of the language that this implementation resolves but does not execute, each with its reason.

A name that the operator table gains leaves this list by itself: the table wins.
"""

from __future__ import annotations

__all__ = ["UNSUPPORTED"]

_DISTRIBUTED = "it moves data between devices; kernels here run on one host"
_MX = "MX block-scaled matrices exist only on A5 hardware"
_PREFETCH = "asynchronous prefetch has no effect on a host; leave it out"
_CROSS_CORE = "cube and vector cores are not separate on a host; write the kernel without explicit FIFOs and barriers"
_NOT_YET = "this operator is not available in this version"
_TASKS = "task identities are not available in this version; tasks run in program order"

# namespace -> reason -> names
_TABLE: tuple[tuple[str, str, str], ...] = (
    ("", _DISTRIBUTED, "allgather allreduce"),
    ("", _MX, "matmul_mx matmul_mx_acc matmul_mx_bias"),
    ("", _PREFETCH, "PrefetchAsyncContext AsyncEvent AsyncSession"),
    (
        "",
        _NOT_YET,
        "aic_gather aiv_shard and_ ands arange col_expand concat cos create_l1 expand_clone fillpad_expand fmod fmods gather "
        "gather_row gatherb gemv gemv_acc gemv_bias matmul matmul_acc matmul_bias mgather mrgsort mscatter not_ or_ ors "
        "paged_gather part_add part_max part_min part_mul prelu random rem rems scatter scatter_update shl shls shr shrs sin "
        "sort32 transpose tri xor xors addc addsc subc subsc batch_matmul batch_matmul_acc",
    ),
    (
        "tile",
        _NOT_YET,
        "addc addsc aic_gather aiv_shard and_ ands batch_matmul batch_matmul_acc ci concat cos fillpad_expand fillpad_inplace "
        "fmod fmods gather gather_compare gather_mask gather_row gatherb gemv gemv_acc gemv_bias matmul matmul_acc matmul_bias "
        "mgather mrgsort mrgsort_format1 mrgsort_format2 mscatter not_ or_ ors part_add part_max part_min part_mul prelu random "
        "rem rems scatter scatter_mask scatter_update shl shls shr shrs sin sort32 subc subsc transpose transpose_view tri xor "
        "xors MaskPattern",
    ),
    ("tile", _MX, "matmul_mx matmul_mx_acc matmul_mx_bias tget_scale_addr"),
    ("tile", _CROSS_CORE, "tpop_from_aic tpop_from_aiv tpush_to_aic tpush_to_aiv"),
    (
        "tensor",
        _NOT_YET,
        "aic_gather aiv_shard alloc and_ ands ci concat cos create_l1 expand_clone fillpad_expand fmod fmods gather "
        "gather_compare gather_mask gather_row gemv_acc matmul matmul_acc mrgsort mrgsort_format1 mrgsort_format2 not_ or_ ors "
        "paged_gather part_add part_max part_min part_mul random scatter scatter_mask scatter_update shl shls shr shrs sin "
        "sort32 transpose view xor xors",
    ),
    ("array", _NOT_YET, "create get_element update_element"),
    ("prefetch", _PREFETCH, "async_prefetch make_context session wait"),
    ("system", _TASKS, "task_dummy task_invalid task_is_valid"),
    (
        "system",
        _CROSS_CORE,
        "aic_initialize_pipe aiv_initialize_pipe available_aiv_count available_cluster_count bar_all bar_m bar_v cacheinvalid "
        "fence import_peer_buffer reserve_buffer set_ffts sync_dst sync_set sync_src sync_wait syncall tfree_to_aic tfree_to_aiv "
        "tpop_from_aic tpop_from_aiv tpush_to_aic tpush_to_aiv",
    ),
)

UNSUPPORTED: dict[str, dict[str, str]] = {}
for _space, _reason, _names in _TABLE:
    UNSUPPORTED.setdefault(_space, {}).update(dict.fromkeys(_names.split(), _reason))

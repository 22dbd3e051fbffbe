"""Public names resolve or say what to write instead: docs/compat.md states the rule, docs/names.md lists them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import pypto.language as pl
from pypto.errors import NotSupportedError
from pypto.language.operations import Unsupported

DOCS = Path(__file__).resolve().parents[2] / "docs"
LOGGING = (
    "LogLevel check get_log_level internal_check internal_check_span log_debug log_error log_event log_fatal log_info log_warn "
    "set_log_level"
)
# What existing programs import from where, beside pypto.ir, the passes and the language's surface, which have their own tests.
PACKAGES = {
    "pypto": "DataType Error InternalError backend codegen compile_profiling ir jit language passes runtime testing tools "
    "DT_BF16 DT_BOOL DT_FP16 DT_FP32 DT_INDEX DT_INT16 DT_INT32 DT_INT64 DT_INT8 DT_UINT16 DT_UINT32 DT_UINT64 DT_UINT8 "
    + LOGGING,
    "pypto.runtime": "ChipWorker DeviceTensor RegistrationHandle RunConfig RunResult ScalarSpec TensorSpec Worker benchmark "
    "compile_program debug execute_artifact execute_compiled run",
    "pypto.backend": "get_buffer_elementwise_recipe_names",
    "pypto.pypto_core": "AssertionError DataType Error IndexError InternalError NotImplementedError RuntimeError TypeError "
    "ValueError arith backend codegen ir passes testing " + LOGGING,
}
OPERATORS = {
    "": (
        "abs add addc addsc adds aic_gather aiv_shard allgather allreduce and_ ands arange assemble batch_matmul cast cmp "
        "cmps col_expand col_max col_min col_prod col_sum concat cos create_l1 create_tensor create_tile div divs exp "
        "expand_clone expands fillpad fillpad_expand fmod fmods full gather gather_row gatherb gemv gemv_acc gemv_bias "
        "get_block_idx get_block_num load log lrelu matmul matmul_acc matmul_bias matmul_mx max maximum maximums mgather "
        "min minimum minimums move mrgsort mscatter mul muls neg not_ or_ ors paged_gather part_add part_max part_min "
        "part_mul prelu random read recip reinterpret_view relu rem rems reshape row_argmax row_argmin row_expand "
        "row_expand_add row_max row_min row_prod row_sum rsqrt scatter scatter_update sel sels set_validshape shl shls "
        "shr shrs sin slice sort32 sqrt store sub subc subs subsc transpose tri write xor xors"
    ),
    "tile": (
        "MaskPattern aic_gather aiv_shard alloc assemble ci create extract fillpad fillpad_inplace full gather "
        "gather_compare gather_mask gather_row gatherb load matmul matmul_acc mgather move mrgsort_format1 mscatter read "
        "scatter scatter_mask slice store tget_scale_addr tpop_from_aic tpush_to_aiv transpose transpose_view write"
    ),
    "tensor": (
        "aic_gather aiv_shard alloc assemble create create_l1 dim expand_clone full gather gather_mask gather_row matmul "
        "matmul_acc paged_gather read scatter scatter_update slice transpose view write"
    ),
    "array": ("create get_element update_element"),
    "prefetch": ("async_prefetch make_context session wait"),
    "system": (
        "aic_initialize_pipe available_aiv_count bar_all fence set_ffts sync_dst sync_src syncall task_dummy task_invalid "
        "task_is_valid tpop_from_aic"
    ),
}


@pytest.mark.parametrize(("package", "name"), [(p, n) for p, names in PACKAGES.items() for n in names.split()])
def test_a_name_of_a_package_resolves_or_says_what_to_write_instead(package: str, name: str) -> None:
    found = _outcome(package, name)
    if isinstance(found, NotSupportedError):
        assert name in str(found)
        assert found.hint
    assert found is not None


def _outcome(package: str, name: str) -> object:
    try:
        return getattr(importlib.import_module(package), name)
    except NotSupportedError as e:
        return e


@pytest.mark.parametrize(("space", "name"), [(s, n) for s, names in OPERATORS.items() for n in names.split()])
def test_an_operator_resolves_or_is_refused_by_name_with_a_reason(space: str, name: str) -> None:
    found = getattr(getattr(pl, space) if space else pl, name)
    if isinstance(found, Unsupported):
        with pytest.raises(NotSupportedError, match=name) as e:
            found()
        assert e.value.hint


def test_the_page_of_the_rule_names_every_package_of_the_list() -> None:
    listed = set(re.findall(r"^## (pypto\S*)$", (DOCS / "names.md").read_text(encoding="utf-8"), re.M))
    named = set(re.findall(r"`(pypto[\w.]*)`", (DOCS / "compat.md").read_text(encoding="utf-8")))
    assert listed <= named
    assert set(PACKAGES) | {"pypto.ir", "pypto.passes", "pypto.language"} <= named

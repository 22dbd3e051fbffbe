"""The generator draws every family of operators and every construct, in both kinds of kernels where there are two.

Texts only: nothing is compiled.
"""

from __future__ import annotations

import random
import re
from functools import lru_cache

import pytest
from fuzz_choices import Choices
from fuzz_program import program

from pypto.ir import ops
from pypto.ir.ops import pipes

PROGRAMS = 1200

# A family is drawn if all of its patterns are found somewhere.
FAMILIES = {
    "elementwise": [r"pl\.(tile|tensor)\.add\(", r" \+ ", r"\bmaximums?\(", r"\bexp\(", r"\blrelu\(", r"\brsqrt\("],
    "conversions": [r"\bcast\(.*BF16", r"\bcast\(.*INT8", r"\bcast\(.*mode="],
    "comparisons": [r"\bcmps?\(", r"\bsel\(", r"\bsels\("],
    "bits": [r"\band_\(", r"\bor_\(", r"\bxor\(", r"\bnot_\(", r"\bshls?\(", r"\bshrs?\(", r"(v\d+|\)) << "],
    "remainders": [r"\bfmods?\(", r"\brems?\(", r"\bfloordivs?\(| // ", r"\bmods?\(| % "],
    "three operands": [r"\baddc\(", r"\baddsc\(", r"\bsubc\(", r"\bsubsc\(", r"\bprelu\("],
    "angles": [r"\bsin\(", r"\bcos\("],
    "parts": [rf"\bpart_{n}\(" for n in ("add", "mul", "max", "min")],
    "reductions": [rf"\b{a}_{n}\(" for a in ("row", "col") for n in ("sum", "max", "min", "prod", "argmax", "argmin")],
    "vectors over matrices": [rf"\b{a}_expand{n}\(" for a in ("row", "col") for n in ("", "_add", "_div", "_expdif", "_max")],
    "numbers in rows": [r"\b(arange|ci)\(", r"descending=True", r"\btri\(", r"upper=True", r"\bfull\(", r"\bexpands\("],
    "windows": [r"\bslice\(", r"\bassemble\(", r"\bextract\(", r"clamp=True", r"valid_shape=", r"\bset_validshape\("],
    "relabels": [r"\breshape\(", r"\breinterpret_view\(", r"\bfillpad\("],
    "transposition": [r"\btranspose\(", r"\bpl\.tile\.transpose\(", r"\bconcat\("],
    "gather": [r"pl\.(tensor\.)?gather\([av]\d+, [av]\d+\)", r"gather\(.*\bdim=-1", r"gather\(.*\bdim=0", r"pl\.tile\.gather\("],
    "arrays on the core": [r"array\.create\(", r"\bget_element\(", r"\bupdate_element\(", r"v\d+\[.*\] = "],
    "patterns": [r"\bgather_mask\(", r"pl\.gather\(.*mask_pattern=", r"\bscatter_mask\(", r"pl\.scatter\(.*mask_pattern="],
    "counted columns": [r"\bgather_compare\(", r"pl\.gather\(.*kvalue="],
    "mgather": [r'\bmgather\(.*"row"', r"\bmgather\(.*, 1[,)]", *(rf'gather_oob="{n}"' for n in ("clamp", "wrap", "zero"))],
    "rows put together": [r"\bgather_row\(.*valid_shape=\[\D", r"\bpaged_gather\(", r"\bcreate_l1\("],
    "scatter": [r"pl\.tile\.scatter\(", r"pl\.(tensor\.)?scatter\(", r"\bscatter_update\(", r"\bmscatter\("],
    "sorting": [r"\bsort32\(", r"\bmrgsort\(.*block_len", r"\bmrgsort\(v\d+, v\d+"],
    "products": [
        r"\bmatmul\(",
        r"a_trans=True",
        r"b_trans=True",
        r"out_dtype=pl\.INT32",
        r"out_dtype=pl\.BF16",
        r"\bbatch_matmul\(",
        r"\bbatch_matmul_acc\(",
        r"\bmatmul_acc\(pl\.(tensor\.)?(batch_)?matmul\(",
    ],
    "sums of products": [r"init_cond=\(k", r"init_cond=True", r"init_cond=False", r"pipeline\(.*\* (16|32), (16|32), stage"],
    "products of tiles": [r"Mem\.Left", r"Mem\.Right", r"\bmatmul_bias\(", r"\bgemv\(", r"\bgemv_acc\(", r"\bgemv_bias\("],
    "lanes": [r"SplitMode\.UP_DOWN", r"SplitMode\.LEFT_RIGHT", r"SplitMode\.NONE", r"\baiv_shard\(", r"\baic_gather\("],
    "launches": [r"in pl\.spmd\(", r"with pl\.spmd\(", r"with pl\.cluster\(", r"get_block_idx", r"in pl\.parallel\("],
    "control flow": [
        r"pl\.pipeline\(",
        r"pl\.unroll\(",
        r"pl\.while_\(",
        r"\bwhile ",
        r"\bbreak",
        r"\bcontinue",
        r"elif ",
        r"pl\.yield_",
    ],
    "functions": [r"@pl\.jit\.inline", r"@pl\.jit\.incore", r"pl\.create_tensor\(.*init_value", r"pl\.InOut\["],
    "element types": [rf"pl\.{n}\b" for n in ("FP32", "FP16", "BF16", "INT32", "INT16", "INT8", "UINT8", "INT64")],
}
# Functions that no program draws, each with why.
_PIPES = "pipes join functions of two cores, which only programs of hand-written functions have"
_ALONE = "it concerns other cores or tasks, and changes no number: programs/test_barriers.py has it"
NOT_DRAWN = {
    "random": "its words concern no other operator: operators/test_operator_random.py compares them with the definition",
    **dict.fromkeys(("sync_set", "sync_wait", "set_ffts", "task_dummy"), _ALONE),
    **dict.fromkeys(("make_context", "async_prefetch", "session", "wait"), _ALONE),
    "syncall": "blocks that wait for each other are no task for the twin: programs/test_barriers.py has them",
    "alloc": "only printed programs say it",
    **dict.fromkeys((d.name for d in pipes.DSL), _PIPES),
}


class Thrown(Choices):
    """Decisions of a die."""

    def __init__(self, number: int) -> None:
        self.die = random.Random(number)

    def number(self, low: int, high: int) -> int:
        return low if high <= low else self.die.randint(low, high)


@lru_cache(maxsize=1)
def drawn() -> str:
    return "\n".join(program(Thrown(n), 4).kernel for n in range(PROGRAMS))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_drawn(family: str) -> None:
    missing = [p for p in FAMILIES[family] if not re.search(p, drawn())]
    assert not missing


def test_every_function_of_the_language_is_drawn() -> None:
    names = {d.name for d in ops.DSL}
    missing = {n for n in names if not re.search(rf"\b{n}\(", drawn())}
    assert missing == set(NOT_DRAWN)

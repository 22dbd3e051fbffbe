"""VerifyTileStorage: kernels on their way to buffers have closed storage.

In: kernels after storage legalization; those that selection left at tile stage are not looked at.  Out: the same.
VerificationError, whatever the verification level, for a tile without a place, values that control flow joins in
different places, or places that overlap.
"""

from __future__ import annotations

from pypto.errors import VerificationError
from pypto.ir.program import Function, Program
from pypto.ir.verify.placement import overlapping_tiles
from pypto.ir.verify.tile_storage import check_storage
from pypto.passes.context import PassOptions
from pypto.passes.framework import program_pass

__all__ = ["WITHOUT_BUFFERS", "require_apart", "require_storage", "verify_tile_storage"]

# The remedy for storage that has no form as buffers: the same kernel runs without it.
WITHOUT_BUFFERS = "compile it with PassContext(enable_buffer_ir=False): such a kernel stays at the tile stage"


def require_storage(f: Function, physical: bool) -> None:
    """VerificationError with every finding about a function's storage."""
    found = check_storage(f, physical)
    if found:
        texts = tuple(d.text() for d in found)
        raise VerificationError(
            "tile storage is not closed:\n" + "\n".join(texts), found[0].span, WITHOUT_BUFFERS, diagnostics=texts
        )


def require_apart(f: Function) -> None:
    """VerificationError where tiles that are needed at one time share bytes; memrefs are addresses."""
    found = overlapping_tiles(f, True)
    if found:
        texts = tuple(d.text() for d in found)
        raise VerificationError("tiles overlap:\n" + "\n".join(texts), found[0].stmt.span, WITHOUT_BUFFERS, diagnostics=texts)


@program_pass("VerifyTileStorage")
def verify_tile_storage(program: Program, options: PassOptions) -> Program:
    for f in program.function_list:
        if f.is_device and f.attrs.get("buffer_ir_selected", True):
            require_storage(f, physical=False)
    return program

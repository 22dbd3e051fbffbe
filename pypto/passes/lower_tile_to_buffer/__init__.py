"""LowerTileToBuffer: planned kernels over tiles become kernels over buffers.

In: kernels that selection chose, or, where selection never ran, every kernel; storage is closed, values of control flow
lie in one place.  Out: functions of the buffer stage: storage is named by handles, a producer writes into its
destination, nothing mentions tiles or memrefs; parameters, directions and callers are unchanged.
A kernel that does not convert fails; the input program is never changed, and buffer-stage functions are left alone.
"""

from __future__ import annotations

from pypto.enums import FunctionIRStage
from pypto.errors import CompileError, VerificationError
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TileType
from pypto.ir.stmt import seq
from pypto.ir.verify.buffer_ir import check_buffer_function
from pypto.ir.verify.properties import IRProperty
from pypto.passes.context import PassOptions
from pypto.passes.framework import program_pass
from pypto.passes.lower_tile_to_buffer.convert import Converter
from pypto.passes.lower_tile_to_buffer.matrix import products_beside_sums
from pypto.passes.lower_tile_to_buffer.storage import Uses, index_storage
from pypto.passes.lower_tile_to_buffer.windows import find_windows
from pypto.passes.verify_tile_storage import WITHOUT_BUFFERS, require_apart, require_storage

__all__ = ["lower_tile_to_buffer", "to_buffer"]


def to_buffer(f: Function, addressed: bool) -> Function:
    """A planned kernel as a function of the buffer stage; `addressed`: memrefs are addresses."""
    for p in f.params:
        if isinstance(p.type, TileType):
            what = "device Tile parameters require the Buffer helper ABI recipe"
            raise CompileError(what, p.span, "pass a tensor, and load it in the function", code="C082")
    require_storage(f, physical=False)
    if addressed:
        require_storage(f, physical=True)
    windows = find_windows(f)
    uses = Uses(frozenset(windows.cuts), frozenset(windows.parents), products_beside_sums(f))
    handles = index_storage(f, uses, addressed)
    made = Converter(f, handles, windows).function(f)
    made = made.replace(body=seq([made.body], made.body.span), ir_stage=FunctionIRStage.Buffer)
    found = check_buffer_function(made)
    if found:
        texts = tuple(d.text() for d in found)
        what = f"buffer form of '{f.name}' is not valid:\n" + "\n".join(texts)
        raise VerificationError(what, found[0].span, WITHOUT_BUFFERS, diagnostics=texts)
    if addressed:
        require_apart(f)
    return made


@program_pass(
    "LowerTileToBuffer",
    requires=(IRProperty.SSAForm, IRProperty.NoNestedCalls),
    produces=(IRProperty.BufferIR,),
    invalidates=(
        IRProperty.HasMemRefs,
        IRProperty.TileStorageLegalized,
        IRProperty.TileStorageAllocated,
        IRProperty.AllocatedMemoryAddr,
        IRProperty.TileMemoryInferred,
    ),
)
def lower_tile_to_buffer(program: Program, options: PassOptions) -> Program:
    def one(f: Function) -> Function:
        wanted = f.is_device and f.ir_stage is FunctionIRStage.Functional and f.attrs.get("buffer_ir_selected", True)
        return to_buffer(f, options.addressed) if wanted else f

    return program.with_functions(one(f) for f in program.function_list)

"""Whether the lines of every tile fill whole blocks of on-chip memory.

In: device functions whose tiles have memories.  Out: the tiles whose rows (columns, for tiles stored along the column)
are no multiple of 32 bytes, with the next legal extent.  Windows keep the rows of the tile they are cut from and are
not judged; tiles in fractal layouts must be whole boxes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pypto.enums import MemorySpace, TileLayout
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, MakeTuple, Var
from pypto.ir.layout import box_of
from pypto.ir.opdef import OpDef, Special
from pypto.ir.program import Function, Program
from pypto.ir.shaped import ShapedType, TileType, const_dim, const_dims
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, ScopeStmt, Stmt, WhileStmt, flatten_to_stmts
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.ssa import user_name
from pypto.named import NamedTuple
from pypto.span import Span
from pypto.target.chip import BLOCK_BYTES

__all__ = ["Misaligned", "check_tile_alignment", "misaligned_tiles"]

RULE = "TileAlignment"


class Misaligned(NamedTuple):
    """One tile, what is wrong with it, and what to write instead."""

    tile: Var
    message: str
    hint: str
    span: Span


def misaligned_tiles(f: Function) -> list[Misaligned]:
    """Every tile of a device function that no instruction can read, in program order."""
    found = []
    for n in _statements(f.body):
        if isinstance(n, AssignStmt) and isinstance(n.value, Call) and isinstance(n.var.type, TileType):
            op = ops.of(n.value)
            if op is not None and not _keeps_lines(op):
                wrong = _wrong_line(n.var.type)
                if wrong is not None:
                    span = n.value.span if n.value.span.is_valid() else n.span
                    made = {
                        s.var: s.value for s in _statements(f.body) if isinstance(s, AssignStmt) and isinstance(s.value, Call)
                    }
                    hint = _of_rows(n.var, n.value, made) or wrong[1] + _of_tensor(n.value, wrong.legal, made)
                    found.append(Misaligned(n.var, f"{_called(n.var)} {wrong[0]}", hint, span))
    return found


def _of_tensor(load: Call, legal: list[int], made: Mapping[Var, Call]) -> str:
    """The same for who writes tensors and no tiles: a window that takes what there is of it."""
    if load.op.name == "tile.reshape" and isinstance(load.args[0], Var):
        load = made.get(load.args[0], load)
    if load.op.name != "tile.load":
        return ""
    tensor, offset = load.args[0], load.args[1]
    if not isinstance(tensor, Var) or not isinstance(offset, MakeTuple) or not isinstance(tensor.type, ShapedType):
        return ""
    rank = len(tensor.type.shape)
    at = ["i" if (n := const_dim(e)) is None else str(n) for e in offset.elements]
    window, place = ", ".join(map(str, legal[-rank:])), ", ".join(at)
    return (
        f"; on tensors, y = pl.slice({user_name(tensor)}, [{window}], [{place}], clamp=True) takes what there is of the window, "
        f"and out = pl.assemble(out, y, [{place}]) writes it"
    )


def _of_rows(tile: Var, load: Call, made: Mapping[Var, Call]) -> str:
    """What to write for a list of rows that a scatter_update takes; nothing for any other tile."""
    work = [c.args[3] for c in made.values() if c.op.name == "tile.scatter" and len(c.args) > 3]
    seen: set[Expr] = set()
    while work:
        e = work.pop()
        if e in seen:
            continue
        seen.add(e)
        if e is tile and load.op.name == "tile.load" and isinstance(load.args[0], Var):
            index = user_name(load.args[0])
            return (
                f"a list of rows has whole blocks of {BLOCK_BYTES // 4} numbers: repeat the last one, with its row of src, or "
                f"write row by row, x = pl.assemble(x, src[j : j + 1, :], [pl.read({index}, [0, j]), 0]) in a loop over j"
            )
        if isinstance(e, Var) and e in made:
            work += made[e].args
    return ""


def _statements(body: Stmt | None) -> Iterator[Stmt]:
    for s in flatten_to_stmts(body):
        yield s
        if isinstance(s, IfStmt):
            yield from _statements(s.then_body)
            yield from _statements(s.else_body)
        elif isinstance(s, (ForStmt, WhileStmt, ScopeStmt)):
            yield from _statements(s.body)


def _called(v: Var) -> str:
    """A tile by the name that the user gave it, if one did."""
    return "the tile computed here" if "__tmp_v" in v.name_hint else f"tile '{user_name(v)}'"


def _keeps_lines(op: OpDef) -> bool:
    """Whether the result lies in its operand with the operand's rows."""
    window = isinstance(op.semantics, Special) and op.concept in ("slice", "set_validshape")
    return window or op.reuses is not None


class _Wrong(NamedTuple):
    message: str
    hint: str
    legal: list[int]


def _wrong_line(t: TileType) -> _Wrong | None:
    dims = const_dims(t.shape)
    if dims is None or len(dims) != 2:
        return None
    if not t.layout.is_flat:
        return _wrong_box(t, dims)
    by_row = t.layout.blayout is TileLayout.row_major
    extent, line = (dims[1], "row") if by_row else (dims[0], "column")
    bits = t.dtype.get_bit() if t.dtype.get_bit() != 1 else 8
    if extent * bits % (8 * BLOCK_BYTES) == 0:
        return None
    step = 8 * BLOCK_BYTES // bits
    legal = (extent + step - 1) // step * step
    shape = [dims[0], legal] if by_row else [legal, dims[1]]
    what = f"of shape {list(dims)} and type {t.dtype} has {line}s of {extent * bits // 8} bytes"
    return _Wrong(
        f"{what}; on-chip memory works in blocks of {BLOCK_BYTES} bytes",
        f"the next legal shape is {shape}: load tiles with {legal} {'columns' if by_row else 'rows'}, and say with valid_shape= "
        f"{_held(t.valid[by_row])}",
        shape,
    )


def _held(extent: Expr) -> str:
    """How much of a line holds data, which a longer line does not change."""
    value = const_dim(extent)
    return f"that {value} hold data" if value is not None else "how many hold data, as now"


def _wrong_box(t: TileType, dims: tuple[int, ...]) -> _Wrong | None:
    rows, cols = box_of(t.layout, t.dtype)
    if dims[0] % rows == 0 and dims[1] % cols == 0:
        return None
    legal = [(d + b - 1) // b * b for d, b in zip(dims, (rows, cols), strict=True)]
    space = t.memory_space.name if t.memory_space is not None else "on-chip"
    valid = const_dims(t.valid)
    remedy = "keep the valid_shape= that says what is data"
    if valid is not None:
        remedy = f"say what is data with valid_shape={list(valid)}"
    if t.memory_space is MemorySpace.Acc:
        remedy = "create it so, say with valid_shape= how much of the operands is data, and write the sum with pl.assemble"
    return _Wrong(
        f"of shape {list(dims)} and type {t.dtype} is not made of whole {rows} x {cols} boxes of {space} memory",
        f"the next legal shape is {legal}; {remedy}",
        legal,
    )


def check_tile_alignment(program: Program) -> list[Diagnostic]:
    """The judge of property-driven verification."""
    return [
        Diagnostic(Severity.Error, RULE, 1, f"kernel '{f.name}': {m.message}; {m.hint}", m.span)
        for f in program.function_list
        if f.is_device
        for m in misaligned_tiles(f)
    ]

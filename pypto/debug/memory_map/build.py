"""From lifetimes to the memory map: addresses, blocks, peaks.

In: a program after all passes, its chip and planner.  Out: a `MemoryMap`.
Invariant: a lifetime is a block per unbroken stretch of statements; the peak counts bytes, so that two tiles on the same
bytes, of which one statement reads the first and writes the second, count once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pypto.debug.memory_map.buffers import buffer_lifetimes
from pypto.debug.memory_map.lifetimes import Lifetime, numbered
from pypto.debug.memory_map.model import Block, KernelMap, MemoryMap, SpaceMap, Statement, covered
from pypto.debug.memory_map.tiles import Names, names_of, tile_lifetimes
from pypto.enums import FunctionIRStage, MemoryPlanner, MemorySpace
from pypto.ir.expr import Call, ConstInt, Var
from pypto.ir.program import Function, Program
from pypto.ir.shaped import BufferType
from pypto.ir.stmt import AssignStmt, Stmt
from pypto.ir.verify.scopes import statements
from pypto.target import Chip, chip_of

__all__ = ["memory_map"]

_HOST_STEP = 64  # bytes: where native code puts an allocation that has no address


def memory_map(program: Program, platform: str, planner: MemoryPlanner, tiles: Program | None = None) -> MemoryMap:
    """The memory map of a program after all passes.

    tiles: the program before its kernels became buffers, from which buffers have the names of tiles.
    ArgumentValueError for a program whose tiles have no places; ConfigError for an unknown platform.
    """
    chip = chip_of(platform)
    addressed = planner is not MemoryPlanner.PTOAS
    kernels = []
    for f in program.function_list:
        if f.is_device:
            before = tiles.get_function(f.name) if tiles is not None else None
            kernels.append(_kernel(f, chip, addressed, names_of(before) if before is not None else {}))
    return MemoryMap(program.name, chip.name, planner.name, "planner" if addressed else "host", tuple(kernels))


def _kernel(f: Function, chip: Chip, addressed: bool, names: Names) -> KernelMap:
    rows, numbers = numbered(f)
    is_buffer = f.ir_stage is FunctionIRStage.Buffer
    found = buffer_lifetimes(f, numbers, names) if is_buffer else tile_lifetimes(f, numbers, addressed)
    origins = {} if addressed else _host_addresses(f)
    spaces = tuple(
        _space(space, chip, [x for x in found if x.space is space], rows, origins, addressed)
        for space in MemorySpace
        if any(x.space is space for x in found)
    )
    return KernelMap(f.name, "Buffer" if is_buffer else "Tile", f.span.filename, max(f.span.begin_line, 0), rows, spaces)


def _host_addresses(f: Function) -> dict[Var, int]:
    """Allocations without addresses as native code places them: one behind the other in the order of the program."""
    ends: dict[MemorySpace, int] = {}
    found: dict[Var, int] = {}
    for s in statements(f.body):
        asked = _allocation(s)
        if asked is not None and isinstance(s, AssignStmt):
            space, size = asked
            at = -(-ends.get(space, 0) // _HOST_STEP) * _HOST_STEP
            found[s.var], ends[space] = at, at + size
    return found


def _allocation(s: Stmt) -> tuple[MemorySpace, int] | None:
    """What a declaration of storage asks for."""
    call = s.value if isinstance(s, AssignStmt) else None
    if not isinstance(call, Call) or not isinstance(s, AssignStmt):
        return None
    if call.op.name == "tile.alloc":
        size = call.args[0]
        assert isinstance(size, ConstInt)
        return call.kwargs["memory_space"], size.value
    if call.op.name == "buffer.alloc" and isinstance(s.var.type, BufferType):
        total = s.var.type.dtype.get_byte()
        for n in s.var.type.physical_shape:
            total *= n
        return s.var.type.memory_space, total
    return None


def _space(
    space: MemorySpace,
    chip: Chip,
    lifetimes: Iterable[Lifetime],
    rows: tuple[Statement, ...],
    origins: Mapping[Var, int],
    placed: bool,
) -> SpaceMap:
    blocks = [b for x in lifetimes for b in _blocks(x, rows, origins.get(x.base, 0) if x.base is not None else 0)]
    blocks.sort(key=lambda b: (b.first, b.begin, b.end, b.last))
    capacity = chip.capacity.get(space, 0)
    used = _occupied(blocks, len(rows))
    peak = max(used, default=0)
    peak_at = tuple(i for i, n in enumerate(used) if n == peak)
    hole = min((_largest_hole([b for b in blocks if b.is_live(i)], capacity) for i in peak_at), default=capacity)
    extent = max((b.end for b in blocks), default=0)
    return SpaceMap(space.name, capacity, tuple(blocks), peak, peak_at, extent, hole, placed)


def _blocks(x: Lifetime, rows: tuple[Statement, ...], origin: int) -> Iterable[Block]:
    stretch: list[int] = []
    for n in sorted(x.points):
        if stretch and n != stretch[-1] + 1:
            yield _block(x, rows, origin, stretch[0], stretch[-1])
            stretch = []
        stretch.append(n)
    if stretch:
        yield _block(x, rows, origin, stretch[0], stretch[-1])


def _block(x: Lifetime, rows: tuple[Statement, ...], origin: int, first: int, last: int) -> Block:
    where = [r.line for r in rows[first : last + 1] if r.file == rows[first].file]
    lines = (rows[first].line, max(where))
    begin, end = origin + x.low, origin + x.high
    by = x.by if first == x.made else rows[first].what
    return Block(x.name, begin, end, first, last, *lines, x.dtype, x.shape, by, x.variable, x.allocation, x.declared)


def _occupied(blocks: list[Block], count: int) -> list[int]:
    """Bytes in use at each statement."""
    begins: dict[int, list[Block]] = {}
    for b in blocks:
        begins.setdefault(b.first, []).append(b)
    live: list[Block] = []
    out = []
    for i in range(count):
        live = [b for b in live if b.last >= i] + begins.get(i, [])
        out.append(sum(high - low for low, high in covered(live)))
    return out


def _largest_hole(live: list[Block], capacity: int) -> int:
    best, at = 0, 0
    for low, high in covered(live):
        best, at = max(best, low - at), high
    return max(best, capacity - at)

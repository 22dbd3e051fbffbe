"""What native code came of a program: loops, what they move, what they compute, and what keeps them apart.

In: the program that the host executes.  Out: one report for each kernel, made of the facts that the generator decides by.
Invariant: bytes and operations are those of the loops as they are written; where they depend on the run, a formula says how.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from pypto.codegen.native import flow
from pypto.codegen.native.access import (
    ONE,
    Check,
    Compute,
    Copies,
    ForItem,
    IfItem,
    Item,
    LaneOp,
    ReduceOp,
    Region,
    Routine,
    ScalarDef,
    WhileItem,
    same_mapping,
)
from pypto.codegen.native.device import block_of, build_access, kept_of, stage_of
from pypto.codegen.native.flow import Block, Nested, Run
from pypto.codegen.native.groups import Group, GroupAccess, form_groups, why_apart
from pypto.codegen.native.kept import NOWHERE, Kept
from pypto.codegen.native.products import product_of
from pypto.codegen.native.unit import NativeUnit
from pypto.dtypes import DataType
from pypto.ir import arith
from pypto.ir.expr import Call, ConstInt, Expr, const_index
from pypto.ir.lanes import LaneProgram
from pypto.ir.printer import python_print
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import walk as ir_walk
from pypto.ir.verify.ssa import user_name
from pypto.named import NamedTuple

__all__ = ["KernelReport", "Loop", "Movement", "report", "report_text"]

# Instructions that arithmetic units spend their time on; moves, comparisons and conversions are not counted.
_ARITHMETIC = frozenset(("add", "sub", "mul", "div", "fma", "sqrt", "min", "max", "tdiv", "fdiv", "fmod", "cremf"))
_UNKNOWN = "?"
_PARALLEL = "parallel "


class Movement(NamedTuple):
    """Bytes that a loop reads or writes: of a tensor, or of on-chip memory; `size` is None where it is not a rectangle."""

    what: str
    write: bool
    on_chip: bool
    size: Expr | None


class Loop(NamedTuple):
    """One loop nest: the operations in it, phase by phase, with what it moves and computes each time it runs.

    `around`: how often it runs, as the loops around it say; None where the run decides.
    `apart`: why the operation behind it is in another loop; None where there is none.
    `packed`: the tensors of which it packs each part once, for all loops around it.
    """

    depth: int
    phases: tuple[tuple[str, ...], ...]
    lines: tuple[int, int]
    rows: Expr
    moves: tuple[Movement, ...]
    operations: Expr | None
    around: Expr | None
    apart: str | None
    packed: tuple[str, ...] = ()


class KernelReport(NamedTuple):
    """One kernel.

    `stays`: why it is made of tiles, not of buffers, where that is known.  `trips`, `blocks`: why threads do not share the
    trips of its loop, or the blocks of a launch; None where they do.  `left_out`: operations that no loop does: copies read
    or written in place, results that nobody reads.  `heads`: loops and branches of the program, each with its depth, its
    text, and the number of loops before it.  `in_blocks`: it asks which block of a launch it is.
    """

    name: str
    stage: str
    stays: str
    trips: str | None
    blocks: str | None
    left_out: tuple[tuple[str, int], ...]
    heads: tuple[tuple[int, str, int], ...]
    in_blocks: bool
    loops: tuple[Loop, ...]

    def total(self, write: bool, on_chip: bool = False) -> int | None:
        """Bytes that one call of the kernel moves; None where the run decides."""
        sizes = [_times(m.size, n.around) for n in self.loops for m in n.moves if (m.write, m.on_chip) == (write, on_chip)]
        return _sum(sizes)

    @property
    def operations(self) -> int | None:
        """Additions, multiplications and the like that one call computes; None where the run decides."""
        return _sum([_times(n.operations, n.around) for n in self.loops])

    def text(self) -> str:
        """The report as lines."""
        return "\n".join(_lines(self))


def report(program: Program, unit: NativeUnit, stays: Mapping[str, str], *, addressed: bool = True) -> tuple[KernelReport, ...]:
    """A report for each kernel of the unit that `generate` made of the program; `stays`: why some are made of tiles."""
    made = []
    for f in program.function_list:
        if f.name in unit.sharing:
            made.append(_kernel(f, stays.get(f.name, ""), addressed, f.name in unit.fused, unit.sharing[f.name]))
    return tuple(made)


def report_text(program: Program, unit: NativeUnit, stays: Mapping[str, str], *, addressed: bool = True) -> str:
    """The report of a whole program."""
    parts = ["\n".join(_entry_lines(unit)), *(k.text() for k in report(program, unit, stays, addressed=addressed))]
    return "\n\n".join(p for p in parts if p) + "\n"


def _entry_lines(unit: NativeUnit) -> Iterator[str]:
    """What threads share of the loops around kernels."""
    for loop in unit.loops:
        where = f"the parallel loop of line {loop.span.begin_line}"
        yield f"threads share trips of {where}" if loop.apart is None else f"threads share no trips of {where}: {loop.apart}"


def _kernel(f: Function, stays: str, addressed: bool, optimize: bool, sharing: tuple[str | None, str | None]) -> KernelReport:
    b = build_access(f, addressed)
    block = block_of(b, optimize)
    walk = _Walk(optimize, kept_of(b, block, optimize))
    walk.block(block, 0, ONE)
    before = Counter(op.name for op in _computed(b.body))
    before.subtract(walk.names)
    gone = tuple((name, n) for name, n in before.items() if n > 0)
    in_blocks = any(isinstance(n, Call) and n.op.name.endswith("get_block_idx") for n in ir_walk(f.body))
    return KernelReport(f.name, stage_of(f), stays, *sharing, gone, tuple(walk.heads), in_blocks, tuple(walk.loops))


def _computed(region: Region) -> Iterator[Compute]:
    for item in region.items:
        if isinstance(item, flow.COMPUTE):
            yield item
        for inner in _regions(item):
            yield from _computed(inner)


def _regions(item: Item) -> tuple[Region, ...]:
    if isinstance(item, IfItem):
        return item.then, item.otherwise
    return (item.body,) if isinstance(item, (ForItem, WhileItem)) else ()


class _Walk:
    """Follows the blocks as the generator writes them."""

    def __init__(self, fuse: bool, kept: Kept | None) -> None:
        self.fuse, self.kept = fuse, kept
        self.names: Counter[str] = Counter()
        self.heads: list[tuple[int, str, int]] = []
        self.loops: list[Loop] = []

    def block(self, block: Block, depth: int, around: Expr | None) -> None:
        for p in block.parts:
            if isinstance(p, Run):
                for g in form_groups(p):
                    self.loop(p, g, depth, around)
            elif isinstance(p, Nested):
                self.nested(p, depth, around)

    def nested(self, n: Nested, depth: int, around: Expr | None) -> None:
        item = n.item
        if not any(_computes(b) for b in n.blocks):  # it only checks what other loops rely on
            return
        if isinstance(item, ForItem):
            bounds = ", ".join(_shown(e) for e in (item.start, item.stop, item.step))
            self.head(depth, f"{_PARALLEL if item.parallel else ''}for {user_name(item.var)} in range({bounds})")
            self.block(n.blocks[0], depth + 1, _times(_trips(item), around))
            return
        texts = ("while", "") if isinstance(item, WhileItem) else (f"if {_shown(item.condition)}", "else")
        for text, body in zip(texts, n.blocks, strict=False):
            if body.parts:
                self.head(depth, text)
                self.block(body, depth + 1, None)

    def head(self, depth: int, text: str) -> None:
        self.heads.append((depth, text, len(self.loops)))

    def loop(self, run: Run, g: Group, depth: int, around: Expr | None) -> None:
        ops = [run.ops[k] for k in g.indices]
        self.names.update(op.name for op in ops)
        lines = [op.span.begin_line for op in ops]
        phases = tuple(tuple(run.ops[p.at].name for p in s.ops) for s in g.steps)
        moves = tuple(_moved(a, run) for a in _once(g.accesses(run)))
        found = _whole([_operations(op) for op in ops])
        apart = why_apart(run, g) if self.fuse else None
        packed = tuple(name for op in ops if isinstance(op, Routine) for name in self.packed(op))
        self.loops.append(Loop(depth, phases, (min(lines), max(lines)), g.rows, moves, found, around, apart, packed))

    def packed(self, op: Routine) -> Iterator[str]:
        """Tensors of which an operation keeps what it packed."""
        for i, v in enumerate(op.sources[: op.packs]):
            if self.kept is not None and self.kept.place(op, i) != NOWHERE and v.root.var is not None:
                yield user_name(v.root.var)


def _computes(block: Block) -> bool:
    """Whether a block does anything but check and compute scalars."""
    for p in block.parts:
        if (isinstance(p, Run) and p.ops) or (isinstance(p, Nested) and any(_computes(b) for b in p.blocks)):
            return True
        if not isinstance(p, (Run, Nested, ScalarDef, Check)):
            return True
    return False


def _trips(item: ForItem) -> Expr | None:
    known = arith.trips(item.start, item.stop, item.step)
    if known is not None:
        return const_index(known)
    if not isinstance(item.step, ConstInt) or item.step.value <= 0:
        return None
    return arith.trip_count(item.start, item.stop, item.step.value, DataType.INDEX)


# -- quantities ----------------------------------------------------------------------------------------------------


def _once(accesses: Iterable[GroupAccess]) -> Iterator[GroupAccess]:
    """Without those that a phase has made already: their values are in registers."""
    seen: list[GroupAccess] = []
    for a in accesses:
        if not any(_alike(a, b) for b in seen):
            seen.append(a)
            yield a


def _alike(a: GroupAccess, b: GroupAccess) -> bool:
    extents = ((a.what.rows, b.what.rows), (a.what.cols, b.what.cols))
    return (
        (a.step, a.write, a.what.pattern) == (b.step, b.write, b.what.pattern)
        and same_mapping(a.view, b.view)
        and all(arith.same(x, y) for x, y in extents)
    )


def _moved(a: GroupAccess, run: Run) -> Movement:
    v, op = a.what.view, run.ops[a.by.at]
    name = v.root.space.name if v.root.var is None else user_name(v.root.var)
    size: Expr | None = arith.mul(arith.mul(a.what.rows, a.what.cols), const_index(v.dtype.get_byte()))
    if isinstance(op, Copies):
        size = arith.mul(arith.product(op.extents), const_index(v.dtype.get_byte()))
    elif arith.is_const(a.what.rows, 0) and arith.is_const(a.what.cols, 0):
        size = None
    return Movement(name, a.write, v.root.on_chip, size)


def _operations(op: Compute) -> Expr | None:
    """Arithmetic operations; None where an operation does not say."""
    if isinstance(op, LaneOp):
        return _each(op.program, op.rows, op.cols)
    if isinstance(op, ReduceOp):
        return _each(op.spec.combine(op.src.dtype), op.rows, op.cols)
    if isinstance(op, Routine):
        extents = product_of(op)
        return None if extents is None else arith.mul(const_index(2), arith.product(extents))
    return const_index(0)


def _each(program: LaneProgram, rows: Expr, cols: Expr) -> Expr:
    count = sum(1 + (i.op == "fma") for i in program.instrs if i.op in _ARITHMETIC)
    return arith.mul(const_index(count), arith.mul(rows, cols))


def _added(values: Iterable[Expr]) -> Expr:
    total: Expr = const_index(0)
    for v in values:
        total = arith.add(total, v)
    return total


def _whole(values: list[Expr | None]) -> Expr | None:
    known = [v for v in values if v is not None]
    return _added(known) if len(known) == len(values) else None


def _times(a: Expr | None, b: Expr | None) -> Expr | None:
    return None if a is None or b is None else arith.mul(a, b)


def _sum(values: list[Expr | None]) -> int | None:
    found = [v.value for v in values if isinstance(v, ConstInt)]
    return sum(found) if len(found) == len(values) else None


# -- text ----------------------------------------------------------------------------------------------------------


def _shown(e: Expr | None) -> str:
    if e is None:
        return _UNKNOWN
    return f"{e.value:,}" if isinstance(e, ConstInt) else python_print(e)


def _lines(k: KernelReport) -> Iterator[str]:
    yield f"{k.name}: {k.stage} stage{f': {k.stays}' if k.stays else ''}"
    for what, why, asked in (("trips of its loop", k.trips, _has_parallel(k)), ("blocks of a launch", k.blocks, k.in_blocks)):
        if why is None or asked:
            yield f"  threads share {what}" if why is None else f"  threads share no {what}: {why}"
    if k.left_out:
        yield f"  done by no loop of its own: {', '.join(f'{name} x {n}' if n > 1 else name for name, n in k.left_out)}"
    heads = list(k.heads)
    for n, loop in enumerate(k.loops):
        while heads and heads[0][2] <= n:
            depth, text, _ = heads.pop(0)
            yield f"  {'  ' * depth}{text}:"
        yield from (f"  {'  ' * loop.depth}{line}" for line in _loop_lines(loop))
    totals = [("reads", k.total(False)), ("writes", k.total(True)), ("on chip", _both(k))]
    moved = ", ".join(f"{what} {_UNKNOWN if n is None else f'{n:,}'} bytes" for what, n in totals)
    yield f"  a call {moved}, {_UNKNOWN if k.operations is None else f'{k.operations:,}'} operations"


def _has_parallel(k: KernelReport) -> bool:
    return any(text.startswith(_PARALLEL) for _, text, _ in k.heads)


def _both(k: KernelReport) -> int | None:
    found = k.total(False, True), k.total(True, True)
    return None if None in found else sum(n for n in found if n is not None)


def _loop_lines(loop: Loop) -> Iterator[str]:
    first, last = loop.lines
    where = f"line {first}" if first == last else f"lines {first}-{last}"
    yield f"{where}: {' | '.join(', '.join(names) for names in loop.phases)}"
    for write, on_chip in ((False, False), (True, False), (False, True), (True, True)):
        sizes: dict[str, list[Expr | None]] = {}
        for m in loop.moves:
            if (m.write, m.on_chip) == (write, on_chip):
                sizes.setdefault(m.what, []).append(m.size)
        if sizes:
            texts = [f"{what} {_shown(_whole(parts))}" for what, parts in sizes.items()]
            yield f"  {'writes' if write else 'reads'} {', '.join(texts)} bytes{' on chip' if on_chip else ''}"
    if loop.operations is None or not arith.is_const(loop.operations, 0):
        yield f"  computes {_shown(loop.operations)} operations"
    if loop.packed:
        yield f"  packs {', '.join(loop.packed)} once for the loops around it"
    if loop.apart is not None:
        yield f"  ends here: {loop.apart}"

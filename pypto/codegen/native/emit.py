"""Blocks of the access form as the body of a C function.

In: an optimized block, the function's parameters.  Out: C text, the sites that can fail, the scratch it needs, and for
each tensor what was read and written where, for the proof that exact aliases are harmless.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pypto.codegen.native.access import (
    ArrayOp,
    Check,
    Copies,
    ElementWrite,
    Exchange,
    FaultKind,
    ForItem,
    IfItem,
    LaneOp,
    Meet,
    Outside,
    Root,
    Routine,
    ScalarDef,
    View,
    WhileItem,
)
from pypto.codegen.native.emit_group import GroupEmitter, element_type, emit_mask
from pypto.codegen.native.flow import Block, Nested, Run
from pypto.codegen.native.functions import LaneFunctions
from pypto.codegen.native.groups import Group, form_groups
from pypto.codegen.native.kept import HEADER as HEADER_OF_KEPT
from pypto.codegen.native.kept import NOWHERE, Kept
from pypto.codegen.native.local_arrays import write_array
from pypto.codegen.native.scalars import expr_text, int_text, scalar_type, stored_text
from pypto.codegen.native.streaming import HEADER, Streams
from pypto.codegen.native.turns import emit_turn, turn_of
from pypto.codegen.native.writer import Writer
from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.errors import InternalError
from pypto.ir.expr import ConstInt, Expr, Var
from pypto.ir.shaped import TensorType
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = ["STEP", "Emitter", "Names", "Site", "Sites", "Touch", "c_name"]


class Site(NamedTuple):
    """A place that can fail: kind, message template over the fault values, captured source and statement."""

    kind: FaultKind
    message: str
    source: int
    ordinal: int


class Sites:
    """The unit's failing places, numbered."""

    def __init__(self) -> None:
        self.list: list[Site] = []

    def add(self, kind: FaultKind, message: str, span: Span) -> int:
        self.list.append(Site(kind, message, span.source, span.ordinal))
        return len(self.list) - 1


class Touch(NamedTuple):
    """One access to a tensor: place in the emitted order (group, step, access), inside which loops, lane by lane or not."""

    root: Root
    view: View
    write: bool
    order: tuple[int, int, int]
    lanewise: bool
    loops: tuple[object, ...]


def c_name(name: str) -> str:
    """A user's name as a C identifier that is no keyword, macro, type or function of C, of a compiler, or of ours.

    The prefix sees to that: nothing else begins so.  A name with other than ASCII letters carries its bytes along.
    """
    plain = "".join(ch if ch.isascii() and (ch.isalnum() or ch == "_") else "_" for ch in name)
    return f"k_{plain}" if plain == name else f"k_{plain}_{name.encode('utf-8', 'surrogatepass').hex()}"


class Names:
    """C names of variables: the user's behind a prefix, made unique."""

    def __init__(self) -> None:
        self.of: dict[Var, str] = {}
        self.used: set[str] = set()

    def fresh(self, hint: str) -> str:
        base = c_name(hint)
        name, n = base, 1
        while name in self.used:
            n += 1
            name = f"{base}_u{n}"
        self.used.add(name)
        return name

    def bind(self, v: Var) -> str:
        known = self.of.get(v)
        if known is None:
            known = self.of[v] = self.fresh(v.name_hint)
        return known


class Emitter:
    """Writes one function's body."""

    def __init__(
        self,
        w: Writer,
        names: Names,
        sites: Sites,
        spaces: Mapping[MemorySpace, int],
        scratch_base: int,
        functions: LaneFunctions,
    ) -> None:
        self.w, self.names, self.sites, self.spaces = w, names, sites, spaces
        self.functions = functions
        self.scratch_at = self.scratch_high = scratch_base
        self.touches: list[Touch] = []
        self.values: dict[Var, Expr] = {}  # scalars that are assigned once
        self.order = 0
        self.loops: list[object] = []
        self.shared: ForItem | None = None  # the loop of which a call does one share
        self.streams: Streams | None = None  # None: every store is an ordinary one
        self.kept: Kept | None = None  # None: products keep nothing

    def expr(self, e: Expr) -> str:
        return expr_text(e, self.names.of)

    def memory(self, root: Root) -> str:
        """The address of a root's first byte, as `unsigned char *`."""
        if root.var is not None:
            return f"(unsigned char *){self.names.of[root.var]}"
        at = self.spaces[root.space]
        return f"mem + {at}" if at else "mem"

    def scratch(self, size: int) -> str:
        """Bytes of this thread's arena for the statement being written."""
        at = self.scratch_at
        self.scratch_at += (size + 63) // 64 * 64
        self.scratch_high = max(self.scratch_high, self.scratch_at)
        return f"mem + {at}"

    def past(self, v: View, rows: Expr, cols: Expr) -> str | None:
        """The flag that says whether a store into a view, written here, goes past the caches; None: it does not."""
        if self.streams is None:
            return None
        flag = self.streams.flag(v, rows, cols, self.loops, self.values, self.names.fresh)
        if flag is not None:
            self.functions.headers.setdefault(HEADER)
        return flag

    # -- blocks --

    def block(self, block: Block) -> None:
        for p in block.parts:
            if isinstance(p, Run):
                for item in p.prelude:
                    self.item(item)
                self.run(p)
            elif isinstance(p, Nested):
                self.nested(p)
            else:
                self.item(p)

    def item(self, item: object) -> None:
        if isinstance(item, ScalarDef):
            self.scalar(item)
        elif isinstance(item, Check):
            self.check(item)
        elif isinstance(item, ElementWrite):
            self.element_write(item)
        elif isinstance(item, Exchange):
            views = [v for v in (item.dst, item.src) if v is not None]
            self.c_call(item, ["pp_side"], views)
        elif isinstance(item, ArrayOp):
            write_array(self, item)
        elif isinstance(item, Meet):
            self.meet(item)
        else:
            raise InternalError(f"no C form of {type(item).__name__}")

    def scalar(self, s: ScalarDef) -> None:
        t = scalar_type(s.var)
        if s.value is not None:
            self.values[s.var] = s.value
            text = self.expr(s.value)
        else:
            assert s.element is not None
            self.touch(s.element, False, False)
            text = self.load(s.element)
        self.w.line(f"const {t} {self.names.bind(s.var)} = {text};")

    def load(self, v: View) -> str:
        text = self.element(v)
        if v.dtype in (DataType.FP16, DataType.BF16):
            return f"pp_{'f16' if v.dtype is DataType.FP16 else 'bf16'}_to_f32({text})"
        return f"{text} != 0" if v.dtype is DataType.BOOL else text

    def base(self, v: View) -> str:
        """The pointer that the view's offset counts from."""
        at = f" + {v.address}" if v.address else ""
        return f"({element_type(v.dtype)} *)({self.memory(v.root)}{at})"

    def pointer(self, v: View) -> str:
        """The address of element (0, 0)."""
        return f"{self.base(v)} + {self.expr(v.offset)}"

    def element(self, v: View) -> str:
        return f"({self.base(v)})[{self.expr(v.offset)}]"

    def element_write(self, e: ElementWrite) -> None:
        self.touch(e.dst, True, False)
        self.w.line(f"{self.element(e.dst)} = {stored_text(self.expr(e.value), e.dst.dtype)};")

    def meet(self, m: Meet) -> None:
        remedy = "let every block reach each syncall, whatever the numbers are"
        site = self.sites.add("value", f"block {{0}} has ended while {{1}} blocks wait for it at a syncall\n{remedy}", m.span)
        with self.w.block(f"if (pp_meet(pp_party_, {site}))"):
            self.w.line("return 1;")

    def check(self, c: Check) -> None:
        guard = " && ".join(f"{self.expr(g)} > 0" for g in c.guard)
        for condition, axis, values in c.conditions:
            kind, message = _message(c.what, axis)
            site = self.sites.add(kind, message, c.span)
            shown = ", ".join(self.expr(v) if not isinstance(v, ConstInt) else int_text(v.value, DataType.INT64) for v in values)
            fails = f"!{self.expr(condition)}"
            self.w.line(f"if ({guard + ' && ' if guard else ''}{fails}) {{")
            self.w.line(f"    return pp_fault(call, {site}, {shown});")
            self.w.line("}")

    # -- control flow --

    def nested(self, n: Nested) -> None:
        if isinstance(n.item, IfItem):
            self.branch(n.item, n.blocks)
        elif isinstance(n.item, ForItem):
            self.loop(n.item, n.blocks[0])
        else:
            self.while_(n.item, n.blocks[0])

    def branch(self, item: IfItem, blocks: tuple[Block, ...]) -> None:
        for v in item.results:
            self.w.line(f"{self.type_of(v)} {self.names.bind(v)};")
        with self.w.block(f"if ({self.expr(item.condition)})", tail="} else {"):
            self.block(blocks[0])
            self.assign(item.results, item.then_values)
        self.w.depth += 1
        self.block(blocks[1])
        self.assign(item.results, item.else_values)
        self.w.depth -= 1
        self.w.line("}")

    def assign(self, targets: tuple[Var, ...], values: tuple[Expr, ...]) -> None:
        """All values are read before any target changes."""
        texts = [self.value(v) for v in values]
        changed = [i for i, v in enumerate(targets) if self.names.of[v] != texts[i]]
        targets, texts = tuple(targets[i] for i in changed), [texts[i] for i in changed]
        if len(targets) == 1:
            self.w.line(f"{self.names.of[targets[0]]} = {texts[0]};")
            return
        temporaries = [self.names.fresh("next_") for _ in targets]
        for v, t, text in zip(targets, temporaries, texts, strict=True):
            self.w.line(f"const {self.type_of(v)} {t} = {text};".replace("const const", "const"))
        for v, t in zip(targets, temporaries, strict=True):
            self.w.line(f"{self.names.of[v]} = {t};")

    def loop(self, item: ForItem, body: Block) -> None:
        self.begin_carries(item.results, item.carried, item.initial)
        i = self.names.bind(item.var)
        t = scalar_type(item.var)
        step = item.step
        bounds = [self.expr(item.start), self.expr(item.stop), self.expr(step)]
        stop, by = self.names.fresh("stop_"), self.names.fresh("step_")
        with self.w.block(""):
            self.w.line(f"const {t} {stop} = {bounds[1]}, {by} = {bounds[2]};")
            if item is self.shared:
                self.w.line(f"const {t} start = {bounds[0]};")
                self.w.line(
                    f"const int64_t trips = pp_trips(start, {stop}, {by}), last = pp_part(trips, pp_share + 1, pp_shares);"
                )
                head = "int64_t trip = pp_part(trips, pp_share, pp_shares); trip < last; ++trip"
            elif isinstance(step, ConstInt):
                head = f"{t} {i} = {bounds[0]}; {i} {'<' if step.value > 0 else '>'} {stop}; {i} += {by}"
            else:
                head = f"{t} {i} = {bounds[0]}; {by} > 0 ? {i} < {stop} : {i} > {stop}; {i} += {by}"
            with self.w.block(f"for ({head})"):
                if item is self.shared:
                    self.w.line(f"const {t} {i} = ({t})(start + trip * {by});")
                self.loops.append(item)
                self.block(body)
                self.assign_carries(item.carried, item.next)
                self.loops.pop()
        self.end_carries(item.results, item.carried)

    def while_(self, item: WhileItem, body: Block) -> None:
        self.begin_carries(item.results, item.carried, item.initial)
        with self.w.block(f"while ({self.expr(item.condition)})"):
            self.loops.append(item)
            self.block(body)
            self.assign_carries(item.carried, item.next)
            self.loops.pop()
        self.end_carries(item.results, item.carried)

    def begin_carries(self, results: tuple[Var, ...], carried: tuple[Var, ...], initial: tuple[Expr, ...]) -> None:
        """A carried scalar lives in the variable that holds the loop's result afterwards."""
        for r, c, init in zip(results, carried, initial, strict=True):
            text = self.value(init)
            self.w.line(f"{self.type_of(r)} {self.names.bind(r)} = {text};")
            self.names.of[c] = self.names.of[r]

    def assign_carries(self, carried: tuple[Var, ...], values: tuple[Expr, ...]) -> None:
        if carried:
            self.assign(carried, values)

    def end_carries(self, results: tuple[Var, ...], carried: tuple[Var, ...]) -> None:
        for c in carried:
            del self.names.of[c]

    def value(self, e: Expr) -> str:
        """A scalar, or the pointer of a tensor."""
        return self.names.of[e] if isinstance(e, Var) and isinstance(e.type, TensorType) else self.expr(e)

    def type_of(self, v: Var) -> str:
        if isinstance(v.type, TensorType):
            return f"{element_type(v.type.dtype)} *"
        return scalar_type(v)

    # -- operations --

    def run(self, run: Run) -> None:
        for g in form_groups(run):
            self.group(run, g)

    def group(self, run: Run, g: Group) -> None:
        self.order += 1
        members = [run.ops[k] for k in g.indices]
        self.w.line("/* " + ", ".join(op.name for op in members) + " */")
        before = self.scratch_at
        first = members[0]
        emitter = GroupEmitter(self.w, run, g, self.names.of, self.base, self.scratch, self.functions, self.past)
        if isinstance(first, Outside):
            self.outside(first)
        elif isinstance(first, Copies):
            self.copies(first)
        elif isinstance(first, Routine):
            self.routine(first)
        elif isinstance(first, LaneOp) and first.mask and g.indices[0] in g.stored:
            emit_mask(emitter, g.indices[0])
        elif (turn := turn_of(first)) is not None:
            emit_turn(emitter, turn)
        else:
            emitter.emit()
        self.scratch_at = before
        self.record(run, g)

    def record(self, run: Run, g: Group) -> None:
        for a in g.accesses(run):
            self.touch(a.view, a.write, a.lanewise, a.step)

    def touch(self, v: View, write: bool, lanewise: bool, step: int = 0) -> None:
        if v.root.var is not None:
            order = (self.order, step, len(self.touches))
            self.touches.append(Touch(v.root, v, write, order, lanewise, tuple(self.loops)))

    def outside(self, op: Outside) -> None:
        """The padding of a tile: below the valid rows, and right of the valid columns."""
        t = element_type(op.dst.dtype)
        value = stored_text(self.expr(op.value), op.dst.dtype)
        with self.w.block(""):
            self.w.line(f"{t} *const p0 = {self.pointer(op.dst)};")
            with self.w.block(f"for (int64_t r = 0; r < {op.height}; ++r)"):
                first = f"r < {self.expr(op.rows)} ? {self.expr(op.cols)} : 0"
                with self.w.block(f"for (int64_t c = {first}; c < {op.width}; ++c)"):
                    self.w.line(f"p0[r * {self.expr(op.dst.row)} + c * {self.expr(op.dst.col)}] = {value};")

    def copies(self, op: Copies) -> None:
        """A transfer along more than two axes."""
        t = element_type(op.dst.dtype)
        with self.w.block(""):
            for name, v in (("p0", op.dst), ("p1", op.src)):
                self.w.line(f"{t} *const {name} = {self.pointer(v)};")
            indices = [f"x{n}" for n in range(len(op.extents))]
            for name, extent in zip(indices, op.extents, strict=True):
                self.w.line(f"for (int64_t {name} = 0; {name} < {self.expr(extent)}; ++{name})")
                self.w.depth += 1
            target, source = (
                " + ".join(f"{i} * {self.expr(s)}" for i, s in zip(indices, strides, strict=True))
                for strides in (op.dst_strides, op.src_strides)
            )
            self.w.line(f"p0[{target}] = p1[{source}];")
            self.w.depth -= len(indices)

    def routine(self, op: Routine) -> None:
        """A call of a function of the headers."""
        past = self.past(op.dst, *op.written) if op.leaves and op.written is not None else None
        last = [past or "false"] if op.leaves else []
        places = [self.kept.place(op, i) if self.kept is not None else NOWHERE for i in range(op.packs)]
        if any(place != NOWHERE for place in places):
            self.functions.headers.setdefault(HEADER_OF_KEPT)
        self.c_call(op, [], (op.dst, *op.sources), last + places)

    def c_call(self, op: Routine | Exchange, first: list[str], views: Sequence[View], last: Sequence[str] = ()) -> None:
        self.functions.headers.setdefault(op.header)
        parts = list(first)
        for v in views:
            parts += [self.pointer(v), self.expr(v.row), self.expr(v.col)]
        call = f"{op.function}({', '.join([*parts, *map(self.expr, op.numbers), *last])})"
        if op.fault is None:
            self.w.line(f"{call};")
            return
        site = self.sites.add(*op.fault, op.span)
        with self.w.block(""):
            self.w.line(f"const int64_t found = {call};")
            with self.w.block("if (found != PP_FINE)"):
                self.w.line(f"return pp_fault(call, {site}, found, 0, 0);")


_LINES = ("rows", "columns")
_CUT = "y = pl.slice(x, shape, offsets, clamp=True) takes what there is of a window"
# What to do about each kind of window that leaves what it lies in.
_WINDOWS = {
    "window": f"correct the offset; of a tensor, {_CUT}, as valid_shape= of pl.load says how much there is",
    "target": f"correct the offset; {_CUT}, out = pl.assemble(out, y, offsets) writes as much, pl.set_validshape narrows a tile",
    "part": "correct the offset, or take a smaller window: one of a tile lies within its shape",
    "place": "correct the index",
}


def _message(what: str, axis: int) -> tuple[FaultKind, str]:
    """What a check says when it fails, and on a second line what to do."""
    if what in _WINDOWS:
        return "bounds", f"the window [{{0}}, {{0}} + {{1}}) leaves axis {axis} of extent {{2}}\n{_WINDOWS[what]}"
    if what == "extent":
        remedy = "take a larger tile, or a loop over pieces with pl.min({1}, n - i) of the data each; none is pl.max(0, n)"
        return "bounds", f"the valid extent {{0}} of axis {axis} is not within 0..{{1}}\n{remedy}"
    if what == "operand":
        remedy = "fill the rest of it with pl.fillpad, or narrow the first operand with pl.set_validshape"
        return "bounds", f"an operation on {{0}} {_LINES[axis]} reads an operand of which only {{1}} are valid\n{remedy}"
    if what == "sum":
        remedy = "compute the extents in front of the loop, or say there what is valid: acc = pl.set_validshape(acc, rows, cols)"
        return "bounds", f"a product of {{1}} {_LINES[axis]} is added to a sum that is valid in {{0}}\n{remedy}"
    if what.startswith("written "):
        remedy = "write it before the loop or branch that may not, or leave out what reads it there"
        return "bounds", f"'{what.removeprefix('written ')}' is read, and nothing has written it\\n{remedy}"
    if what == "element":
        remedy = "fill the rest of the tile with pl.fillpad, or read what is valid"
        return "bounds", f"element {{0}} of axis {axis} is read, of which only {{1}} are valid\n{remedy}"
    if what == "cores":
        return "value", "a barrier of {0} cores in a launch of {1} blocks\nleave used_cores out, or give the number of blocks"
    if what == "step":
        return "value", STEP
    return "empty", f"{what} of an empty region has no value\nput it under an `if` that asks whether there are elements"


STEP = "a loop step of 0\na loop advances by a step other than 0"

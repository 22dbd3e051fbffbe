"""Handles of tiles at tile stage.

In: tile variables and their memrefs.  Out: for each the SSA value that stands for it.  With addresses each definition
has an `alloc_tile` of its own at the tile's address.  Without, an allocation has one handle; tiles in it that differ in
how far they are valid state that before they are used, tiles of another shape are relabels of it.
Invariant: a handle that is named is valid as far as the tile it is named for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pypto.codegen.pto.text import Value
from pypto.codegen.pto.types import descriptor, matrix_valid, tile_buf
from pypto.enums import PadValue
from pypto.errors import InternalError, NotSupportedError
from pypto.ir import arith, ops
from pypto.ir.expr import Call, ConstInt, Expr, Var, const_index
from pypto.ir.layout import box_of
from pypto.ir.opdef import COL, Lanewise
from pypto.ir.program import Function
from pypto.ir.rewrite import defined_vars, walk
from pypto.ir.shaped import BufferType, TileType, const_dim, same_dims
from pypto.ir.verify.ssa import user_name
from pypto.named import NamedTuple
from pypto.span import Span

if TYPE_CHECKING:
    from pypto.codegen.pto.function import FunctionText

__all__ = ["Handles"]

Pair = tuple[Expr, Expr]
_PLANNER = "choose another planner"


class _Window(NamedTuple):
    """A window that is still to be cut: from which tile or handle, where, and what of it is valid."""

    source: Expr | Value
    at: Pair
    descriptor: BufferType
    valid: Pair
    name: str


class Handles:
    """The handles of one function."""

    def __init__(self, text: FunctionText, f: Function, addressed: bool) -> None:
        self.text, self.f, self.addressed = text, f, addressed
        self.of: dict[Var, Value] = {}
        self.windows: set[str] = set()  # handles that are cut from others
        self.elsewhere: set[Expr] = set()  # tiles that lie in the slot of a pipe, not where their memrefs say
        # Windows that may be empty are cut where they are used, which is where they are known not to be.
        self.cut_late: dict[Var, _Window] = {}
        self.roots: dict[Var, Value] = {}  # by allocation, where there are no addresses
        self.varying: set[str] = set()  # roots whose extents change from tile to tile
        self.said: dict[str, Pair | None] = {}  # how far a root is valid here; None where that is not known
        self.wanted: dict[Var, tuple[Value, Pair]] = {}  # the root of a tile, and how far the tile is valid
        self.members: dict[Var, list[TileType]] = {}
        for v in defined_vars(f.body):
            if isinstance(v.type, TileType) and v.type.memref is not None:
                self.members.setdefault(v.type.memref.base_, []).append(v.type)
        self.vectors = set(_vectors(f))

    def tile(self, e: Expr, span: Span) -> Value:
        """The handle of a tile, valid as far as the tile is."""
        known = self._known(e, span)
        assert isinstance(e, Var)
        if e in self.wanted:
            self._say(*self.wanted[e], span)
        return known

    def _known(self, e: Expr, span: Span) -> Value:
        """The handle of a tile, whatever is said of its extents."""
        if isinstance(e, Var) and e in self.cut_late:
            return self._open(self.cut_late[e], span)
        known = self.of.get(e) if isinstance(e, Var) else None
        if known is None:
            raise InternalError(f"{self.f.name}: {e!r} is no tile of the text")
        return known

    def alias(self, v: Var, value: Expr) -> None:
        """Another name of a tile."""
        assert isinstance(value, Var)
        if value in self.elsewhere:
            self.elsewhere.add(v)
        if value in self.cut_late:
            self.cut_late[v] = self.cut_late[value]
            return
        self.of[v] = self.of[value]
        if value in self.wanted:
            self.wanted[v] = self.wanted[value]

    def handle(self, hint: str, d: BufferType) -> Value:
        """A new name for storage of this descriptor."""
        return Value(self.text.text.named(hint), tile_buf(d), d)

    def _alloc(self, name: str, d: BufferType, words: list[str], span: Span, valid: Pair | None = None) -> Value:
        made = self.handle(name, d)
        extents = valid if valid is not None else tuple(const_index(n) for n in d.physical_shape)
        for key, have, e in zip(("valid_row", "valid_col"), d.valid_shape, extents, strict=True):
            if have < 0:
                words.append(f"{key} = {self.text.index(e)}")
        self.text.text.alloc_tile(made, words, span)
        return made

    # -- allocations without addresses --

    def allocate(self, base: Var, span: Span) -> None:
        """The handle of an allocation, where the allocation stands."""
        if self.addressed or base not in self.members:
            return
        full = max(self.members[base], key=_bytes)
        shared = [t for t in self.members[base] if _physical(t) == _physical(full)]
        d = descriptor(full)
        varying = base in self.vectors or any(not same_dims(t.valid, full.valid) for t in shared)
        if varying or -1 in d.valid_shape:
            d = d.replace(valid_shape=(-1, -1))
        root = self.roots[base] = self._alloc(f"{base.name_hint}_tile", d, [], span)
        if -1 in d.valid_shape:
            rows, cols = d.physical_shape
            self.said[root.name] = const_index(rows), const_index(cols)
        if varying:
            self.varying.add(root.name)

    def _say(self, root: Value, valid: Pair, span: Span) -> None:
        said = self.said[root.name]
        if said is not None and same_dims(said, valid):
            return
        self.text.text.set_validshape(root, [self.text.index(n) for n in valid], span)
        self.said[root.name] = valid

    @contextmanager
    def arm(self, repeated: bool) -> Iterator[None]:
        """What a region says may not be known behind it; what its end says may hold at its next beginning."""
        before = dict(self.said)
        if repeated:
            self.said.update(dict.fromkeys(self.varying))
        yield
        for name, said in self.said.items():
            if said is not before.get(name):
                self.said[name] = None

    # -- definitions --

    def define(self, v: Var, span: Span) -> Value:
        """The handle of a tile, declared where the tile is defined."""
        t = v.type
        assert isinstance(t, TileType)
        self.of[v] = self._placed(v, t, span) if self.addressed else self._in_root(v, t, span)
        return self.of[v]

    def _placed(self, v: Var, t: TileType, span: Span) -> Value:
        return self._alloc(v.name_hint, descriptor(t), [self._address(v, t)], span, matrix_valid(t))

    def _address(self, v: Var, t: TileType) -> str:
        return f"addr = {self.text.text.integer(self._offset(v, t), 'i64').name}"

    def _root(self, v: Var, t: TileType) -> tuple[Value, BufferType]:
        root = self.roots.get(t.memref.base_) if t.memref is not None else None
        if root is None or root.descriptor is None:
            raise InternalError(f"{self.f.name}: tile '{v.name_hint}' has no allocation in the text")
        return root, root.descriptor

    def _in_root(self, v: Var, t: TileType, span: Span) -> Value:
        root, d = self._root(v, t)
        have = descriptor(t)
        if have.replace(valid_shape=d.valid_shape) == d and self._offset(v, t) == 0:
            if -1 in d.valid_shape:
                self.wanted[v] = root, matrix_valid(t)
                self._say(*self.wanted[v], span)
            return root
        if _bytes(t) != _size(d) or self._offset(v, t) != 0:
            what = f"'{user_name(v)}' shares storage without an address in a way that has no .pto form"
            raise NotSupportedError(what, v.span, _PLANNER)
        return self._relabelled(v.name_hint, root, have, matrix_valid(t), span)

    def _relabelled(self, name: str, source: Value, d: BufferType, valid: Pair, span: Span) -> Value:
        """A relabel has no operands for extents known at run time: nothing of it is valid until that is said."""
        varies = -1 in d.valid_shape
        made = self.handle(name, d.replace(valid_shape=(-1, -1)) if varies else d)
        self.text.text.treshape(made, source, span)
        if varies:
            self.text.text.set_validshape(made, [self.text.index(n) for n in valid], span)
        return made

    def popped(self, v: Var, slot: Value, less: tuple[BufferType, Pair] | None = None) -> None:
        """A tile in the slot of a pipe: a handle that stands for nothing else, as a window is one.

        `less`: what is valid of the tile, where that may be nothing while something was passed; it is cut where it is used.
        """
        self.elsewhere.add(v)
        self.windows.add(slot.name)
        if less is None:
            self.of[v] = slot
        else:
            (d, valid), start = less, (const_index(0), const_index(0))
            self.cut_late[v] = _Window(slot, start, d, valid, v.name_hint)

    # -- views --

    def window(self, source: Value, at: Pair, d: BufferType, valid: Pair, name: str, span: Span) -> Value:
        """A window of a handle, with the handle's row pitch."""
        self._check_window(source, at, d, name, span)
        made = self.handle(name, d)
        extents = [self.text.index(n) for n in valid]
        offsets = [self.text.index(o) for o in at]
        self.text.text.subview(made, source, offsets, d.physical_shape, extents, span)
        self.windows.add(made.name)
        return made

    @staticmethod
    def _check_window(source: Value, at: Pair, d: BufferType, name: str, span: Span) -> None:
        """Whole boxes of a tile that is not padded."""
        parent = source.descriptor
        assert parent is not None
        boxes = zip(at, d.physical_shape, box_of(parent.layout, parent.dtype), strict=True)
        if any(n % box or (const_dim(o) or 0) % box for o, n, box in boxes):
            rows, cols = box_of(parent.layout, parent.dtype)
            what = f"'{name}' is a window of a tile that lies in boxes of {rows} x {cols} elements, and not one of whole boxes"
            raise NotSupportedError(what, span, "begin at multiples of these, and take multiples of them")
        if parent.pad is not PadValue.null:
            raise NotSupportedError(f"'{name}' is a window of a tile with a fill", span, "slice the result of pl.fillpad")

    def cut(self, v: Var, source: Expr, at: Pair, span: Span) -> None:
        """A tile that is a window of another; a window of one that is cut late is cut from what that one is cut from."""
        t = v.type
        assert isinstance(t, TileType)
        d, valid = descriptor(t), matrix_valid(t)

        if source in self.elsewhere:
            self.elsewhere.add(v)
        window = _Window(source, at, d, valid, v.name_hint)
        outer = self.cut_late.get(source) if isinstance(source, Var) else None
        if outer is not None:  # which may be empty where this window is not
            (row, col), (down, across) = outer.at, at
            window = window._replace(source=outer.source, at=(arith.index_add(row, down), arith.index_add(col, across)))
        if -1 in d.valid_shape:
            self.cut_late[v] = window
        else:
            self.of[v] = self._open(window, span)

    def _open(self, w: _Window, span: Span) -> Value:
        source = w.source if isinstance(w.source, Value) else self.tile(w.source, span)
        return self.window(source, w.at, w.descriptor, w.valid, w.name, span)

    def relabel(self, v: Var, source: Expr, same_shape: bool, span: Span) -> None:
        """A tile that is another view of its operand's bytes."""
        t = v.type
        assert isinstance(t, TileType)
        window = source in self.cut_late or self._known(source, span).name in self.windows
        if window and same_shape:
            self.cut(v, source, (const_index(0), const_index(0)), span)
        elif not window and t.memref is not None and isinstance(t.memref.byte_offset_, ConstInt):
            self.define(v, span)
        else:
            self.of[v] = self._static(self.tile(source, span), descriptor(t), v, span)
            if source in self.elsewhere:
                self.elsewhere.add(v)

    def _static(self, source: Value, d: BufferType, v: Expr, span: Span) -> Value:
        """A relabel of what may be a window, of constant extents."""
        if -1 in d.valid_shape:
            name = user_name(v) if isinstance(v, Var) else "a tile"
            what = f"'{name}', which is seen another way and valid as far as run-time numbers say, has no .pto form"
            raise NotSupportedError(what, span, "copy it into a tile of its own first")
        rows, cols = d.valid_shape
        return self._relabelled(
            v.name_hint if isinstance(v, Var) else "view", source, d, (const_index(rows), const_index(cols)), span
        )

    def retyped(self, v: Var, d: BufferType, valid: Pair, name: str, span: Span) -> Value:
        """The bytes of a tile under another descriptor of their size."""
        t, known = v.type, self._known(v, span)
        assert isinstance(t, TileType)
        if d == known.descriptor:
            return self.tile(v, span)
        if self.addressed and known.name not in self.windows:
            return self._alloc(name, d, [self._address(v, t)], span, valid)
        return self._static(known, d, v, span)

    def narrowed(self, e: Expr, want: Pair, whole: bool, span: Span) -> Value:
        """The handle of a tile, valid as far as is wanted of it; `whole`: it must be no window."""
        t = e.type
        assert isinstance(t, TileType)
        assert isinstance(e, Var)
        known = self._known(e, span)
        window = known.name in self.windows
        if same_dims(matrix_valid(t), want) and not (whole and window):
            return self.tile(e, span)
        valid = tuple(-1 if n is None else n for n in map(const_dim, want))
        d, name = descriptor(t).replace(valid_shape=valid), f"{e.name_hint}_part"
        if known.name in self.said:
            self._say(known, want, span)
            return known
        if self.addressed and not window:
            return self._alloc(name, d, [self._address(e, t)], span, want)
        if whole:
            return self._static(known, d, e, span)
        zero = const_index(0)
        return self.window(known, (zero, zero), d, want, name, span)

    # -- products --

    def product(self, v: Var, lhs: Value, rhs: Value, made: Pair, fresh: bool, span: Span) -> Value:
        """What a product is written through: the accumulator, seen as large as its operands say that the product is.

        `fresh`: the product may begin a new sum, which leaves nothing of what the accumulator held beside it.
        """
        t, out = v.type, self._known(v, span)
        assert isinstance(t, TileType)
        assert lhs.descriptor is not None
        assert rhs.descriptor is not None
        assert out.descriptor is not None
        self._check_beside(v, t, made, fresh, span)
        want = _logical(lhs.descriptor)[0], _logical(rhs.descriptor)[1]
        if want == _logical(out.descriptor) and same_dims(made, matrix_valid(t)):
            return self.tile(v, span)
        valid = tuple(-1 if n is None else n for n in map(const_dim, made))
        view = descriptor(t).replace(valid_shape=valid)
        if _logical(view) != want:
            what = f"'{user_name(v)}': rows and columns of a product that are known at run time only are all of its tile's"
            raise NotSupportedError(what, span, "make the tiles as large as the product can become")
        return self.retyped(v, view, made, f"{v.name_hint}_product", span)

    @staticmethod
    def _check_beside(v: Var, t: TileType, made: Pair, fresh: bool, span: Span) -> None:
        """What of the accumulator lies beside the product keeps its numbers only in boxes that the product does not touch,
        where these lie as far apart as the product's rows say.
        """
        valid, (rows, _) = matrix_valid(t), descriptor(t).physical_shape
        if same_dims(made, valid):
            return
        sizes = [const_dim(n) for n in made]
        beside = [n for n, a, b in zip(sizes, made, valid, strict=True) if not same_dims((a,), (b,))]
        pitch = sizes[0] is not None and -(-sizes[0] // 16) * 16 == rows
        if fresh or not pitch or any(n is None or n % 16 for n in beside):
            what = f"'{user_name(v)}' is wider than the product that it takes: what lies beside the product would be lost"
            raise NotSupportedError(what, span, "accumulate into a tile that is valid as far as the product, and store that")

    def same_place(self, v: Var, other: Expr) -> bool:
        """Whether two tiles lie in one place."""
        a, b = v.type, other.type
        assert isinstance(a, TileType)
        assert isinstance(b, TileType)
        if a.memref is None or b.memref is None or a.memory_space is not b.memory_space or {v, other} & self.elsewhere:
            return False
        here, there = self._offset(v, a), self._offset(other, b)
        return here == there and (self.addressed or a.memref.base_ is b.memref.base_)

    def _offset(self, v: Expr, t: TileType) -> int:
        m = t.memref
        if m is None or not isinstance(m.byte_offset_, ConstInt):
            raise NotSupportedError("a tile without a constant place has no .pto form", v.span)
        return m.byte_offset_.value


def _vectors(f: Function) -> Iterator[Var]:
    """Allocations of the rows that instructions repeat over all rows: how much of them is valid has to be said, not cut."""
    for n in walk(f.body):
        op = ops.of(n) if isinstance(n, Call) else None
        if isinstance(n, Call) and op is not None and op.pto.startswith("tcolexpand"):
            for p, e in zip(op.semantics.patterns, n.args, strict=False) if isinstance(op.semantics, Lanewise) else ():
                t = e.type
                if p == COL and isinstance(t, TileType) and t.memref is not None and not same_dims(t.valid[-1:], _cols(n)):
                    yield t.memref.base_


def _cols(c: Call) -> tuple[Expr, ...]:
    assert isinstance(c.type, TileType)
    return c.type.valid[-1:]


def _physical(t: TileType) -> tuple[object, ...]:
    return t.dims, t.dtype, t.layout, t.get_effective_tile_view().pad, t.get_effective_tile_view().compact


def _bytes(t: TileType) -> int:
    return _size(descriptor(t))


def _size(d: BufferType) -> int:
    rows, cols = d.physical_shape
    return rows * cols * d.dtype.get_byte()


def _logical(d: BufferType) -> tuple[int, int]:
    """Valid extents where they are constant, else the stored ones."""
    (rows, cols), (v_row, v_col) = d.physical_shape, d.valid_shape
    return (rows if v_row < 0 else v_row), (cols if v_col < 0 else v_col)

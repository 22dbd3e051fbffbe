"""Tile-stage functions as `.pto` text.

In: a device function with planned storage, each value of which lies where its memref says.  Out: its text.  A tile is an
`alloc_tile` beside the operation that defines it: at its address, so that tiles in one place share it; or, where the
planner gives no addresses, one handle for each allocation, which stands where the allocation does.
Invariant: what may be empty at run time is not executed when it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pypto.codegen.pto.elements import elements
from pypto.codegen.pto.function import FunctionText
from pypto.codegen.pto.instructions import attributes, filling, pad_constant, parts, printed
from pypto.codegen.pto.text import Value
from pypto.codegen.pto.tile_handles import Handles
from pypto.codegen.pto.types import descriptor, matrix_valid
from pypto.dtypes import DataType
from pypto.enums import MemorySpace, PadValue, TileLayout
from pypto.errors import NotSupportedError
from pypto.ir import arith
from pypto.ir.expr import Call, ConstBool, ConstInt, Expr, MakeTuple, Var, const_index
from pypto.ir.opdef import FULL, PART, Lanewise, Matmul, OpDef
from pypto.ir.program import Function
from pypto.ir.scalar import dtype_of
from pypto.ir.shaped import TensorType, TileType, const_dim, same_dims
from pypto.ir.types import ScalarType
from pypto.span import Span

__all__ = ["TileOperations", "elements_of", "pair"]

# Operators whose result has more than each of their operands has.
_FROM_SEVERAL = ("concat", "sort32")


class TileOperations(FunctionText):
    """Operations of the tile stage but for those that go by index or sort."""

    def __init__(self, f: Function, arch: str, locations: bool, addressed: bool) -> None:
        super().__init__(f, arch, locations)
        self.handles = Handles(self, f, addressed)

    def alias(self, var: Var, value: Expr) -> None:
        if not isinstance(var.type, TileType):
            super().alias(var, value)
        self.handles.alias(var, value)

    def joined(self, v: Var, values: Sequence[Expr]) -> None:
        if isinstance(v.type, TileType):
            self.handles.define(v, v.span)
        else:
            super().joined(v, values)

    @contextmanager
    def arm(self, repeated: bool = False) -> Iterator[None]:
        with super().arm(repeated), self.handles.arm(repeated):
            yield

    # -- operations --

    def operation(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        if not op.pto:
            raise NotSupportedError(f"{op.name} has no .pto instruction", span)
        if op.pto == "texpands":
            self.on_fill(op, var, c, span)
            return
        if isinstance(op.semantics, Lanewise) and PART in op.semantics.patterns:
            assert var is not None
            self.in_part(op, var, c, span)
            return
        if isinstance(op.semantics, Matmul):
            self.product(op, op.semantics, var, c, span)
            return
        ins = [c.args[i] for i in printed(op) if i < len(c.args)]
        self.write(op, ins, var, c, span)

    def write(self, op: OpDef, ins: Sequence[Expr], var: Var | None, c: Call, span: Span, after: str = "") -> None:
        """An instruction that writes the tile it defines."""
        assert var is not None
        wanted = parts(op, c.args, _tile(var))
        scalars = {i: self.value(e) for i, e in enumerate(ins) if not isinstance(e.type, TileType)}
        if op.pto == "tlrelu":
            scalars[1] = self.cast(scalars[1], dtype_of(ins[1]), DataType.FP32, ins[1])
        inside, behind = attributes(op, c.kwargs, _dtype(c.args), _dtype((var,)))
        self._check_rows(op, c, var, span)
        if op.concept in _FROM_SEVERAL:
            self.filled([n for e in ins if isinstance(e.type, TileType) for n in e.type.valid], _tile(var), span)
        out = self.handles.define(var, span)
        with self.guarded((var, *ins)):
            values = [scalars[i] if i in scalars else self.operand(op, c, e, wanted.get(e), span) for i, e in enumerate(ins)]
            self.instruction(op.pto, values, [out], span, inside, after or behind)

    def in_part(self, op: OpDef, var: Var, c: Call, span: Span) -> None:
        """The first operand, and the operation where the second is valid too: a copy where nothing of that is."""
        first, second = c.args
        self.doing = op.name
        self._check_rows(op, c, var, span)
        out = self.handles.define(var, span)
        with self.guarded((var,)):
            whole = self.handles.narrowed(first, matrix_valid(_tile(var)), False, span)
            self.either_valid(
                second,
                lambda: self.instruction(op.pto, [whole, self.handles.tile(second, span)], [out], span),
                None if self.handles.same_place(var, first) else lambda: self.instruction("tmov", [whole], [out], span),
            )

    def _check_rows(self, op: OpDef, c: Call, var: Var, span: Span) -> None:
        """What goes element by element goes along rows."""
        if not isinstance(op.semantics, Lanewise) or FULL not in op.semantics.patterns:
            return
        read = (e for e, p in zip(c.args, op.semantics.patterns, strict=False) if p in (FULL, PART))
        if any(_column(e) for e in (*read, var)):
            what = f"{op.name}: 'pto.{op.pto}' takes no tile that is stored by columns, as one of one column is"
            raise NotSupportedError(what, span, "pl.reshape it to one row before, and back afterwards")

    def operand(self, op: OpDef, c: Call, e: Expr, wanted: tuple[Expr, Expr] | None, span: Span) -> Value:
        """A tile's handle, valid as far as is wanted of it."""
        if op.pto in ("tsel", "tsels") and self.arch == "a2a3" and e is c.args[3 if op.pto == "tsel" else 2]:
            return self._scratch(e, DataType.FP32 if op.pto == "tsel" else _tile(c.args[1]).dtype, span)
        if wanted is None:
            return self.handles.tile(e, span)
        return self.handles.narrowed(e, wanted, op.pto.startswith("tcolexpand") and const_dim(wanted[0]) == 1, span)

    def _scratch(self, e: Expr, dtype: DataType, span: Span) -> Value:
        """A scratch as elements of a type."""
        d = descriptor(_tile(e))
        assert isinstance(e, Var)
        shape = d.physical_shape[0], d.physical_shape[1] * d.dtype.get_byte() // dtype.get_byte()
        other = d.replace(dtype=dtype, physical_shape=shape, valid_shape=shape)
        return self.handles.retyped(e, other, (const_index(shape[0]), const_index(shape[1])), f"{e.name_hint}_scratch", span)

    def positive(self, extents: Sequence[Expr]) -> str:
        """That none of the extents is zero; nothing if they are constants."""
        condition = ""
        for name in dict.fromkeys(self.index(n) for n in extents if const_dim(n) is None):
            positive = self.let(f"arith.cmpi sgt, {name}, {self.text.index(0)} : index", "i1").name
            condition = self.let(f"arith.andi {condition}, {positive} : i1", "i1").name if condition else positive
        return condition

    @contextmanager
    def guarded(self, tiles: Sequence[Expr]) -> Iterator[None]:
        """What is written inside happens only if no tile is empty at run time; nothing is written if one always is."""
        with self.unless_empty([n for e in tiles if isinstance(e.type, TileType) for n in e.type.valid]):
            yield

    @contextmanager
    def unless_empty(self, extents: Sequence[Expr]) -> Iterator[None]:
        """What is written inside happens only if no extent is zero at run time; nothing is written if one always is."""
        if any(const_dim(n) == 0 for n in extents):
            lines = len(self.text.lines)
            yield
            del self.text.lines[lines:]
            return
        with self.when(self.positive(extents)):
            yield

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """What is written inside happens if a condition holds at run time; without a condition it just happens."""
        if not condition:
            yield
            return
        self.text.raw(f"scf.if {condition} {{")
        with self.text.region():
            yield
        self.text.raw("}")

    def either(self, condition: str, then: Callable[[], None], otherwise: Callable[[], None] | None) -> None:
        """One of two things, as a condition decides at run time; without a condition the first."""
        with self.when(condition):
            then()
            if condition and otherwise is not None:
                self.text.otherwise()
                otherwise()

    def either_valid(self, tile: Expr, then: Callable[[], None], otherwise: Callable[[], None] | None) -> None:
        """The first of two things if something of a tile is valid at run time, else the second."""
        assert isinstance(tile.type, TileType)
        if all(const_dim(n) != 0 for n in tile.type.valid):
            self.either(self.positive(tile.type.valid), then, otherwise)
        elif otherwise is not None:
            otherwise()

    def filled(self, extents: Sequence[Expr], result: TileType, span: Span) -> None:
        """An operation is left out where an operand is empty: its result must be empty there too, or the operand never be."""
        for n in extents:
            implied = any(_zero_with(v, n) for v in result.valid)
            if const_dim(n) is None and not implied and not self.surely_positive(n):
                what = (
                    f"{self.doing}: an operand of which nothing may be valid, while something of the result is, has no .pto form"
                )
                hint = (
                    "end the loop over blocks at the tensor's own extent, asked inside of the kernel: pl.range(0, x.shape[1], n)"
                )
                raise NotSupportedError(what, span, f"{hint}; or guard it with `if n > 0`, n being what is valid")

    def product(self, op: OpDef, s: Matmul, var: Var | None, c: Call, span: Span) -> None:
        """A product into its accumulator; a run-time choice between a new sum and the old one is a branch."""
        assert var is not None
        self.handles.define(var, span)
        made = matrix_valid(_tile(c.args[s.lhs]))[0], matrix_valid(_tile(c.args[s.rhs]))[1]
        fresh = op.pto.removesuffix(".acc")
        init = c.args[s.init] if s.init is not None and s.init < len(c.args) else ConstBool(s.acc is None)
        sums = isinstance(init, ConstBool) and not init.value
        if not sums:
            self.filled(matrix_valid(_tile(c.args[s.lhs]))[1:], _tile(var), span)
        with self.guarded((c.args[s.lhs], c.args[s.rhs])):
            lhs = self.handles.tile(c.args[s.lhs], span)
            depth = matrix_valid(_tile(c.args[s.lhs]))[1]
            rhs = self.handles.narrowed(c.args[s.rhs], (depth, made[1]), True, span)
            bias = [self.handles.tile(c.args[s.bias], span)] if s.bias is not None else []
            target = self.handles.product(var, lhs, rhs, made, not sums, span)
            self.check_pitch(const_dim(made[0]), target, span)
            if isinstance(init, ConstBool) and init.value:
                self.instruction(op.pto if bias else fresh, [lhs, rhs, *bias], [target], span)
            elif isinstance(init, ConstBool):
                self.instruction(op.pto, [target, lhs, rhs], [target], span)
            else:
                self.either(
                    self.truth(init),
                    lambda: self.instruction(fresh, [lhs, rhs], [target], span),
                    lambda: self.instruction(op.pto, [target, lhs, rhs], [target], span),
                )

    # -- storage and views --

    def on_alloc(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        assert var is not None
        self.handles.allocate(var, span)

    def on_create(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        assert var is not None
        self.handles.define(var, span)

    def on_view(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        assert var is not None
        if op.concept == "slice":
            self.handles.cut(var, c.args[0], pair(c.args[2]), span)
        else:
            self.handles.relabel(var, c.args[0], op.concept == "set_validshape", span)

    def window(self, source: Value, at: tuple[Expr, Expr], t: TileType, name: str, span: Span) -> Value:
        """A window of a tile with the tile's row pitch."""
        return self.handles.window(source, at, descriptor(t), matrix_valid(t), name, span)

    # -- transfers --

    def on_load(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        assert var is not None
        t, window = _tile(var), elements_of(c.args[2])
        out = self.handles.define(var, span)
        valid = t.valid
        if len(t.shape) != len(window):
            valid = elements_of(c.args[3])
            self.rows_follow(window, valid, span)
        with self.guarded((var,)):
            part = self.partition(self.tensor(c.args[0]), elements_of(c.args[1]), valid)
            self.instruction("tload", [part], [out], span)

    def rows_follow(self, window: Sequence[Expr], moved: Sequence[Expr], span: Span) -> None:
        """The rows that are moved follow each other in the tile: of all axes but the outermost one, all is moved."""
        whole = [same_dims((n,), (m,)) for n, m in zip(window, moved, strict=True)]
        if not all(whole[1:-1]) and any(const_dim(m) != 1 for m in moved[:-2]):
            what = f"{self.doing}: a window of rank {len(window)} that is moved in part has no .pto form"
            raise NotSupportedError(what, span, "move it by a loop over its outer axes")

    def on_store(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        source, tensor = c.args[0], self.tensor(c.args[2])
        t = _tile(source)
        shapes = elements_of(c.args[3]) if len(c.args) > 3 else t.valid
        if len(shapes) == len(t.shape):
            shapes = tuple(arith.minimum(v, n) for v, n in zip(t.valid, shapes, strict=True))
        after = "{atomicType = #pto<atomic_type atomic_add>}" if c.kwargs.get("atomic") else ""
        with self.guarded((source,)):
            stored = self.handles.narrowed(source, self.stored(t, shapes, span), False, span)
            part = self.partition(tensor, elements_of(c.args[1]), shapes)
            self.instruction("tstore", [stored], [part], span, after=after)
        if var is not None:
            self.tensors[var] = tensor

    def stored(self, t: TileType, shapes: Sequence[Expr], span: Span) -> tuple[Expr, Expr]:
        """Rows and columns of a tile that go into a window of these extents: all that the window has."""
        rows, cols = arith.product(shapes[:-1]), shapes[-1]
        valid = matrix_valid(t)
        if len(shapes) == len(t.shape) or same_dims((rows, cols), valid):
            return rows, cols
        have = [const_dim(n) for n in (rows, cols, *valid)]
        if None in have or have[0] > have[2] or have[1] > have[3]:  # type: ignore[operator]
            what = f"{self.doing}: a window of rank {len(shapes)} that takes more than is valid has no .pto form"
            raise NotSupportedError(what, span, "store as many rows as are valid")
        return rows, cols

    def on_copy(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        assert var is not None
        if self.handles.same_place(var, c.args[0]) and descriptor(_tile(var)) == descriptor(_tile(c.args[0])):
            self.handles.alias(var, c.args[0])
        else:
            self.write(op, c.args[:1], var, c, span)

    def on_extract(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        """A copy of a window; of elements that the instruction does not take a move out of the window."""
        assert var is not None
        source = _tile(c.args[0])
        out = self.handles.define(var, span)
        with self.guarded((var, c.args[0])):
            known = self.handles.tile(c.args[0], span)
            on_vector = source.memory_space is MemorySpace.Vec
            if on_vector and elements(op.pto, [descriptor(source)], [], self.arch) is not None:
                window = self.window(known, (c.args[1], c.args[2]), _tile(var), f"{var.name_hint}_window", span)
                self.instruction("tmov", [window], [out], span)
                return
            positions = [Value(self.index(e), "index") for e in c.args[1:3]]
            self.instruction(op.pto, [known, *positions], [out], span)

    def on_insert(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        """The source goes into a window of the result, which is the target, or begins as a copy of it."""
        assert var is not None
        source = c.args[1]
        out = self.begin_as(var, c.args[0], span)
        with self.guarded((source,)):
            if _tile(source).memory_space is not _tile(var).memory_space:
                positions = [Value(self.index(e), "index") for e in pair(c.args[2])]
                self.instruction("tinsert", [self.handles.tile(source, span), *positions], [out], span)
            else:
                window = self.window(out, pair(c.args[2]), _tile(source), f"{var.name_hint}_window", span)
                self.instruction("tmov", [self.handles.tile(source, span)], [window], span)

    def begin_as(self, var: Var, target: Expr, span: Span) -> Value:
        """The handle of a result that changes a target: in its place, or as a copy of it."""
        out = self.handles.define(var, span)
        if not self.handles.same_place(var, target):
            with self.guarded((target,)):
                self.instruction("tmov", [self.handles.tile(target, span)], [out], span)
        return out

    def on_pad(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        """The valid part, and the fill all around it: only that where nothing is valid."""
        assert var is not None
        t, source, pad = _tile(var), c.args[0], c.kwargs.get("pad_value", PadValue.zero)
        self.handles.define(var, span)
        padded = self.handles.retyped(var, descriptor(t).replace(pad=pad), matrix_valid(t), f"{var.name_hint}_pad", span)
        self.either_valid(
            source,
            lambda: self.instruction("tfillpad", [self.handles.tile(source, span)], [padded], span),
            lambda: self.fill(var, pad_constant(pad, t.dtype), span),
        )

    def on_fill(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        assert var is not None
        self.handles.define(var, span)
        with self.guarded((var,)):
            self.fill(var, c.args[1], span)

    def fill(self, var: Var, value: Expr, span: Span) -> None:
        """One number in all that is valid; numbers that the instruction does not take go by the bits of those it does."""
        t = _tile(var)
        d, valid, out = descriptor(t), matrix_valid(t), self.handles.tile(var, span)
        plain = filling(d, value) if elements("texpands", [], [d], self.arch) is not None else None
        if plain is None:
            self.instruction("texpands", [self.value(value)], [out], span)
            return
        alias, number = plain
        if alias.physical_shape != d.physical_shape:
            valid = (valid[0], const_index(alias.physical_shape[1]))
        out = self.handles.retyped(var, alias, valid, f"{var.name_hint}_bits", span)
        self.instruction("texpands", [self.value(number)], [out], span)

    # -- elements --

    def on_read(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        if var is None:
            return
        source, indices = c.args[0], elements_of(c.args[1])
        made = self._define(var)
        if isinstance(source.type, TensorType):
            p = self.tensor(source)
            pointer, at = self.pointers[p], self._position(p, indices, span)
            self.text.op(f"{made.name} = pto.load_scalar {pointer.name}[{at}] : {pointer.type} -> {made.type}", span)
            return
        tile = self.handles.tile(source, span)
        at = self.flat(_tile(source).shape, indices)
        self.on_unit(("vector",), span)
        self.text.op(f"{made.name} = pto.tgetval ins({tile.name}, {at} : {tile.type}, index) outs : {made.type}", span)

    def on_write(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        target, indices, value = c.args[0], elements_of(c.args[1]), self.value(c.args[2])
        if isinstance(target.type, TensorType):
            p = self.tensor(target)
            pointer, at = self.pointers[p], self._position(p, indices, span)
            self.text.op(f"pto.store_scalar {value.name}, {pointer.name}[{at}] : {pointer.type}, {value.type}", span)
            if var is not None:
                self.tensors[var] = p
            return
        out = self.handles.tile(target, span) if var is None else self.begin_as(var, target, span)
        at = self.flat(_tile(target).shape, indices)
        self.instruction("tsetval", [Value(at, "index"), value], [out], span)

    def _position(self, p: Var, indices: Sequence[Expr], span: Span) -> str:
        """Of an element, from a tensor's first one."""
        t = p.type
        assert isinstance(t, TensorType)
        if t.tensor_view is not None and t.tensor_view.stride:
            at: Expr = const_index(0)
            for step, i in zip(t.tensor_view.stride, indices, strict=True):
                at = arith.add(at, arith.mul(i, step))
            return self.index(at)
        return self.flat(t.shape, indices)

    def flat(self, shape: Sequence[Expr], indices: Sequence[Expr]) -> str:
        """The position of an element in row-major order."""
        at: Expr = const_index(0)
        for n, i in zip(shape, indices, strict=True):
            at = arith.add(arith.mul(at, n), i)
        return self.index(at)

    def on_query(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        axis, source = c.args[1], c.args[0].type
        assert var is not None
        assert isinstance(axis, ConstInt)
        assert isinstance(source, (TensorType, TileType))
        self.values[var] = Value(self.index(source.shape[axis.value]), "index")
        self.known.bind(var, source.shape[axis.value])


def elements_of(e: Expr) -> tuple[Expr, ...]:
    """The members of a tuple expression."""
    assert isinstance(e, MakeTuple)
    return e.elements


def pair(e: Expr) -> tuple[Expr, Expr]:
    """A position in a tile as row and column."""
    members = elements_of(e)
    if len(members) == 1:
        return const_index(0), members[0]
    if len(members) != 2:
        raise NotSupportedError(f"a window of a tile of rank {len(members)} has no .pto form", e.span)
    return members[0], members[1]


def _tile(e: Expr) -> TileType:
    assert isinstance(e.type, TileType)
    return e.type


def _zero_with(v: Expr, n: Expr) -> bool:
    """Whether one extent is zero wherever another is: it is a multiple of it."""
    form, atom = arith.linear(v), arith.linear(n)
    if not form.terms or not atom.terms:
        return False
    factor = form.terms[0][1] // atom.terms[0][1]
    rest = form.minus(atom.scaled(factor))
    return factor != 0 and not rest.terms and rest.constant == 0


def _column(e: Expr) -> bool:
    d = descriptor(_tile(e))
    return d.blayout is TileLayout.col_major and d.slayout is TileLayout.none_box


def _dtype(values: Sequence[Expr]) -> DataType:
    """The element type of the first tile."""
    for e in values:
        if isinstance(e.type, TileType):
            return e.type.dtype
    return next((e.type.dtype for e in values if isinstance(e.type, ScalarType)), DataType.FP32)

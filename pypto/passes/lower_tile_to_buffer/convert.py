"""Statements of a planned kernel to buffer operations.

In: statements over tiles and the handles of their storage.  Out: the same effects on handles: a producer writes into its
destination, views of allocations are gone, windows are defined where they are cut, only scalars pass through control flow.
Invariant: no scratch, no address and no transfer is made here that the statement does not stand for; what lies nowhere
twice is written nowhere twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pypto.dtypes import DataType
from pypto.errors import InternalError
from pypto.ir import ops, scalar
from pypto.ir.expr import Call, Expr, MakeTuple, Submit, Var, const_index
from pypto.ir.opdef import Matmul, OpDef, Special
from pypto.ir.ops.buffer_matrix import MATRIX
from pypto.ir.ops.buffer_rules import is_dense_vec
from pypto.ir.program import Function
from pypto.ir.rewrite import walk
from pypto.ir.shaped import BufferType, TensorType, TileType, as_dims, const_dim, same_dims
from pypto.ir.stmt import (
    AssignStmt,
    EvalStmt,
    IfStmt,
    Stmt,
    flatten_to_stmts,
    seq,
)
from pypto.passes.lower_tile_to_buffer.descriptors import is_empty, window_type
from pypto.passes.lower_tile_to_buffer.matrix import lower_product
from pypto.passes.lower_tile_to_buffer.regions import Regions
from pypto.passes.lower_tile_to_buffer.storage import Handles
from pypto.passes.lower_tile_to_buffer.windows import Windows, same_window
from pypto.passes.memory.sizes import is_dynamic
from pypto.passes.ssa_rewriter import typed_call
from pypto.passes.statements import calls as operators

__all__ = ["Converter"]

Extents = tuple[Expr, ...]
_RELABELS = ("tile.set_validshape", "tile.reshape", "tile.reinterpret_view")


class Converter(Regions):
    """Rewrites the body of one function; `handles` and `windows` say where tiles are."""

    def __init__(self, f: Function, handles: Handles, windows: Windows) -> None:
        super().__init__(f)
        self.handles, self.windows = handles, windows
        self.cut: dict[Var, Var] = {}  # static windows: their handles
        self.guards: dict[int, tuple[list[Stmt], Extents]] = {}  # guards by their place in a region, and what they test

        self.stated: dict[Var, Extents] = {}  # what each dynamic handle was last told
        self.restated: list[Stmt] = []  # updates that say what the handle already has
        self.widens = any(c.op.name in _RELABELS for c in operators(f.body))

    def body(self, s: Stmt) -> Stmt:
        self.stated = {}  # what was said on one path is not known on another
        made = super().body(s)
        self.stated = {}
        return made

    def statement(self, s: Stmt) -> None:
        self.out += self.handles.at_first_use.get(s, ())
        super().statement(s)

    # -- places of values --

    def handle(self, e: Expr) -> Var:
        """The handle of a tile; a window with run-time extents is cut here, where it is used."""
        if not isinstance(e, Var):
            raise InternalError(f"{self.f.name}: {e!r} is no tile")
        known = self.handles.of.get(e, self.cut.get(e))
        if known is not None:
            return known
        call = self.windows.cuts.get(e)
        if call is None:
            raise InternalError(f"{self.f.name}: tile '{e.name_hint}' has no handle")
        return self.open_window(e, call)

    def open_window(self, v: Var, call: Call) -> Var:
        """The window or relabel that a variable stands for, as a statement here."""
        t = v.type
        assert isinstance(t, TileType)
        source = self.handle(call.args[0])
        if call.op.name != "tile.slice":
            return self.let(f"{v.name_hint}_view", typed_call("buffer.reshape", (source,), None, self.span, window_type(t)))
        if len(call.args) > 4:
            raise self.refuse("rank-reducing slices have no window recipe", self.span)
        return self.subview(source, self.visit(call.args[2]), t, f"{v.name_hint}_buffer")

    def subview(self, source: Var, offset: Expr, t: TileType, hint: str) -> Var:
        if is_empty(t.valid):
            raise self.refuse("a window must have positive valid extents", self.span)
        args = (source, offset, MakeTuple(self.extents(t)))
        return self.let(hint, typed_call("buffer.subview", args, None, self.span, window_type(t)))

    def extents(self, t: TileType) -> Extents:
        return tuple(self.visit(v) for v in t.valid)

    def do(self, name: str, *args: Expr, kwargs: Any = None) -> None:
        """One buffer operation that writes."""
        self.out.append(EvalStmt(typed_call(name, args, kwargs, self.span), self.span))

    # -- assignments --

    def visit_assign_stmt(self, s: AssignStmt) -> Any:
        value = s.value
        if isinstance(value, Call) and value.op.name == "tile.alloc":
            return self.handles.declarations[s.var]
        if isinstance(value, Call) and ops.of(value) is None:
            raise self.refuse(f"no scalar or nested-call recipe for '{value.op.name}'", s.span)
        if isinstance(value, Submit):
            raise self.refuse("a device function cannot submit tasks", s.span)
        if isinstance(s.var.type, TileType):
            self.tile_value(s.var, s.var.type, value)
            return None
        if isinstance(s.var.type, TensorType):
            self.gm[s.var] = self.tensor_value(value)
            return None
        if isinstance(value, Call):
            value = self.query(value)
            return s.replace(value=value)
        made = self.visit(value)
        return s if made is value else self.assign(s, made)

    def visit_eval_stmt(self, s: EvalStmt) -> Any:
        if not isinstance(s.expr, Call):
            return self.rebuild(s)
        if s.expr.op.name == "tile.expect_written":
            self.do("buffer.expect_written", self.visit(s.expr.args[0]), kwargs=dict(s.expr.kwargs))
            return None
        self.tensor_value(s.expr)
        return None

    def query(self, c: Call) -> Call:
        op = self.recipe(c)
        if not (isinstance(op.semantics, Special) and op.semantics.kind == "query") or c.args:
            raise self.refuse(f"no conversion recipe for '{c.op.name}'", c.span)
        return typed_call(f"buffer.{op.concept}", (), None, c.span)

    def recipe(self, c: Call) -> OpDef:
        """The operator of a call that has nothing a buffer operation could not say."""
        op = ops.of(c)
        if op is None:
            raise self.refuse(f"no scalar or nested-call recipe for '{c.op.name}'", c.span)
        if c.attrs.without("pipeline_membership"):
            raise self.refuse("device-call attributes require an explicit conversion contract", c.span)
        return op

    def tensor_value(self, e: Expr) -> Var:
        """What a statement that produces a handle of global memory does, and which parameter the handle is."""
        if isinstance(e, Var):
            return self.tensor(e)
        if not isinstance(e, Call):
            raise self.refuse("GM assignments require a normalized tensor parameter alias", self.span)
        op = self.recipe(e)
        if not (isinstance(op.semantics, Special) and op.semantics.kind == "store" and op.level == "tile"):
            raise self.refuse(f"no conversion recipe for '{e.op.name}'", e.span)
        if e.kwargs.get("atomic"):
            raise self.refuse("atomic and phased stores require a Buffer transfer recipe", e.span)
        if len(e.args) > 3:
            raise self.refuse(f"no conversion recipe for '{e.op.name}' with a window of its own", e.span)
        gm = self.tensor(e.args[2])
        t = e.args[0].type
        assert isinstance(t, TileType)
        offsets = self.visit(e.args[1])

        def write() -> None:
            self.do("buffer.store", self.handle(e.args[0]), offsets, MakeTuple(self.extents(t)), gm)

        self.guarded(t, write)
        return gm

    # -- tiles --

    def tile_value(self, v: Var, t: TileType, e: Expr) -> None:
        if isinstance(e, Var) or v in self.windows.cuts:
            self.relabel(v, t, e)
            return
        if not isinstance(e, Call):
            raise InternalError(f"{self.f.name}: tile '{v.name_hint}' is made by no operator")
        op = self.recipe(e)
        if op.buffer is not None:
            self.elementwise(op.buffer.name, v, t, e)
            return
        if isinstance(op.semantics, Matmul):
            lower_product(self, op, v, t, e)
            return
        kind = op.semantics.kind if isinstance(op.semantics, Special) else ""
        make = getattr(self, f"make_{kind}", None) if op.level == "tile" else None
        if make is None:
            raise self.refuse(f"no conversion recipe for '{e.op.name}'", e.span)
        make(v, t, e)

    def relabel(self, v: Var, t: TileType, e: Expr) -> None:
        """Other words for an operand: nothing to do at an allocation; a static window is cut here."""
        if isinstance(e, Var):
            if v in self.windows.cuts or e in self.windows.cuts:
                self.windows.cuts[v] = self.windows.cuts[e]
                if e in self.cut:
                    self.cut[v] = self.cut[e]
            return
        assert isinstance(e, Call)
        self.recipe(e)
        if e.op.name == "tile.set_validshape":
            raise self.refuse("windows take no metadata updates", e.span)
        if not is_dynamic_window(t):
            self.cut[v] = self.open_window(v, e)

    def state_extents(self, t: TileType, dst: Var) -> None:
        """State the run-time extents of a destination before it is written."""
        if isinstance(dst.type, BufferType) and dst.type.valid_shape == (-1, -1):
            extents = self.extents(t)
            self.do("buffer.set_validshape", dst, MakeTuple(extents))
            if dst in self.stated and same_dims(self.stated[dst], extents):
                self.restated.append(self.out[-1])
            self.stated[dst] = extents

    def guarded(self, t: TileType, write: Callable[[], None]) -> None:
        """Run `write` where the valid rectangle of `t` holds something; not at all where it is known to be empty."""
        extents = tuple(e for e in self.extents(t) if const_dim(e) is None)
        if is_empty(t.valid):
            return
        if not extents:
            write()
            return
        condition: Expr = scalar.gt(extents[0], const_index(0))
        for e in extents[1:]:
            condition = scalar.and_(condition, scalar.gt(e, const_index(0)))
        outer = self.out
        earlier, between = self._open_guard(extents)
        self.out = list(earlier)
        write()
        body = self.out
        self.out = outer
        self.out += between
        self.guards[len(self.out)] = (outer, extents)
        self.out.append(IfStmt(condition, seq(body, self.span), None, (), self.span))

    def _open_guard(self, extents: Extents) -> tuple[list[Stmt], list[Stmt]]:
        """What the guard just before does, if it tests the same extents, and the metadata updates behind it.

        Both are taken out: one guard does the work of the two, so that what belongs together is not torn apart.
        """
        at = len(self.out)
        while at and _is_metadata(self.out[at - 1]):
            at -= 1
        guard = self.out[at - 1] if at else None
        home, tested = self.guards.get(at - 1, (None, ()))
        if not isinstance(guard, IfStmt) or home is not self.out or not same_dims(tested, extents):
            return [], []
        touched = {e for n in walk(guard.then_body) if isinstance(n, Call) for e in n.args if isinstance(e, Var)}
        between = self.out[at:]
        if any(_set_handle(s) in touched and not any(s is r for r in self.restated) for s in between):
            return [], []
        del self.out[at - 1 :]
        return flatten_to_stmts(guard.then_body), between

    def make_create(self, v: Var, t: TileType, c: Call) -> None:
        """Undefined storage: its allocation is declared, nothing is written."""
        self.state_extents(t, self.handle(v))

    def make_load(self, v: Var, t: TileType, c: Call) -> None:
        if "cache" in c.kwargs:
            raise self.refuse("cache-policy loads require a Buffer transfer recipe", c.span)
        dst, gm = self.handle(v), self.tensor(c.args[0])
        offsets = self.visit(c.args[1])
        self.state_extents(t, dst)

        self.guarded(t, lambda: self.do("buffer.load", gm, offsets, MakeTuple(self.extents(t)), dst))

    def narrowed(self, handle: Var, t: TileType) -> Var:
        args = (handle, MakeTuple(as_dims((0, 0))), MakeTuple(self.extents(t)))
        return self.let(f"{handle.name_hint}_valid", typed_call("buffer.subview", args, None, self.span, window_type(t)))

    def make_fill(self, v: Var, t: TileType, c: Call) -> None:
        dst = self.handle(v)
        value = self.scalar_operand(c.args[1], t.dtype)
        self.state_extents(t, dst)
        self.guarded(t, lambda: self.do("buffer.full", value, dst))

    def make_copy(self, v: Var, t: TileType, c: Call) -> None:
        dst = self.handle(v)
        self.state_extents(t, dst)
        self.guarded(t, lambda: self.copy(c.args[0], dst, t))

    def copy(self, source: Expr, dst: Var, t: TileType) -> None:
        src = self.handle(source)
        if src is dst:  # an exact self-copy changes nothing
            return
        if self.widens and t.memory_space not in MATRIX:
            src, dst = self.whole(src), self.whole(dst)
        both = (src, dst) if t.memory_space in MATRIX else self.matching((src, dst), t)
        self.do("buffer.copy", *both)

    def whole(self, handle: Var) -> Var:
        """The handle with all of it valid: what is beyond the valid rectangle of a tile may become valid where it moves to."""
        t = handle.type
        assert isinstance(t, BufferType)
        full = t.physical_shape
        if t.valid_shape == full or not is_dense_vec(t):
            return handle
        args = (handle, MakeTuple(as_dims((0, 0))), MakeTuple(as_dims(full)))
        made = typed_call("buffer.subview", args, None, self.span, t.replace(valid_shape=full))
        return self.let(f"{handle.name_hint}_whole", made)

    def make_extract(self, v: Var, t: TileType, c: Call) -> None:
        dst = self.handle(v)
        row, col = self.visit(c.args[1]), self.visit(c.args[2])
        self.state_extents(t, dst)
        self.guarded(t, lambda: self.do("buffer.extract", self.handle(c.args[0]), row, col, dst))

    def make_view(self, v: Var, t: TileType, c: Call) -> None:
        """A relabel of an allocation: the handle says it all; new run-time extents are stated."""
        if c.op.name == "tile.set_validshape":
            self.state_extents(t, self.handle(v))

    def make_insert(self, v: Var, t: TileType, c: Call) -> None:
        target, source = c.args[0].type, c.args[1].type
        assert isinstance(target, TileType)
        assert isinstance(source, TileType)
        if target.memory_space is not source.memory_space:
            raise self.refuse("assemble across memory spaces has no conversion recipe", c.span)
        if is_empty(source.valid):
            raise self.refuse("an assembled window must have positive valid extents", c.span)
        if is_dynamic(t) or is_dynamic(target):
            raise self.refuse("assemble into run-time valid extents has no conversion recipe", c.span)
        if not same_window(target, t) and not is_empty(target.valid):
            self.keep_target(c.args[0], self.handle(v), target, t)
        if self.windows.is_window_of(c.args[1], c.args[0], c.args[2]):
            return  # the source already is the window

        def write() -> None:
            window = self.subview(self.handle(v), self.visit(c.args[2]), source, f"{v.name_hint}_window")
            self.do("buffer.copy", *self.matching((self.handle(c.args[1]), window), source))

        self.guarded(source, write)

    def keep_target(self, target: Expr, dst: Var, t: TileType, result: TileType) -> None:
        """The old contents of a target whose result lies elsewhere, through its own valid rectangle."""
        if t.valid is not result.valid and window_type(t) != window_type(result):
            dst = self.subview(dst, MakeTuple(as_dims((0, 0))), t, f"{dst.name_hint}_kept")
        self.do("buffer.copy", *self.matching((self.handle(target), dst), t))

    def elementwise(self, name: str, v: Var, t: TileType, c: Call) -> None:
        dst = self.handle(v)
        self.state_extents(t, dst)
        scalars = {i: self.scalar_operand(a, t.dtype) for i, a in enumerate(c.args) if not isinstance(a.type, TileType)}

        def write() -> None:
            tiles = [self.handle(a) for i, a in enumerate(c.args) if i not in scalars]
            *inputs, out = self.matching((*tiles, dst), t)
            rest = iter(inputs)
            operands = [scalars[i] if i in scalars else next(rest) for i in range(len(c.args))]
            self.do(f"buffer.{name}", *operands, out, kwargs=c.kwargs)

        self.guarded(t, write)

    def scalar_operand(self, e: Expr, dtype: DataType) -> Expr:
        """A scalar in the element type of its destination; an index goes by way of INT64."""
        value = self.visit(e)
        have = scalar.dtype_of(value)
        if have is dtype:
            made: Expr = value
            return made
        if have.is_unsigned_int() or have is DataType.BOOL:
            raise self.refuse(f"a scalar operand of type {have} has no conversion recipe", self.span)
        if have is DataType.INDEX:
            value = scalar.cast(value, DataType.INT64, self.span)
        return scalar.cast(value, dtype, self.span)

    def matching(self, handles: Sequence[Var], t: TileType) -> list[Var]:
        """Handles with equal descriptors: those that differ in what is static get a zero-offset window of their own."""
        wanted = {h.type for h in handles}
        if len(wanted) == 1:
            return list(handles)
        common = window_type(t)
        same = [isinstance(h.type, BufferType) and h.type.valid_shape == common.valid_shape for h in handles]
        return [h if ok else self.narrowed(h, t) for h, ok in zip(handles, same, strict=True)]


def _set_handle(s: Stmt) -> Expr:
    """Whose extents a metadata update sets."""
    assert isinstance(s, EvalStmt)
    assert isinstance(s.expr, Call)
    return s.expr.args[0]


def _is_metadata(s: Stmt) -> bool:
    return isinstance(s, EvalStmt) and isinstance(s.expr, Call) and s.expr.op.name == "buffer.set_validshape"


def is_dynamic_window(t: TileType) -> bool:
    """Whether a window's extents are known only at run time: it is cut where it is used, behind the test for emptiness."""
    return any(const_dim(v) is None for v in t.valid)

"""Control flow and roots, for both stages: structured statements to items of the access form.

In: a device function's body.  Out: regions of items; only scalars and arrays of them are carried by control flow,
everything else lies where it lies.  Invariant: a non-scalar value that meets another at a join must already be in the same place.
"""

from __future__ import annotations

from pypto.codegen.native.access import ZERO, ArrayOp, Check, ForItem, IfItem, Item, Region, Root, ScalarDef, WhileItem
from pypto.dtypes import DataType
from pypto.enums import ForKind, MemorySpace
from pypto.errors import InternalError, NotSupportedError
from pypto.ir import ops, scalar
from pypto.ir.expr import Call, ConstInt, Expr, TupleGetItemExpr, Var
from pypto.ir.local_arrays import ArrayUses
from pypto.ir.program import Function
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, IfStmt, ReturnStmt, Stmt, WhileStmt, YieldStmt, flatten_to_stmts
from pypto.ir.types import ArrayType, ScalarType
from pypto.ir.verify.pipe_ends import pipe_use
from pypto.span import Span

__all__ = ["Base", "is_idle"]

VALUES = (ScalarType, ArrayType)  # what control flow carries; everything else lies where it lies


def is_idle(c: Call) -> bool:
    """Whether a call that nobody has the result of does nothing."""
    op = ops.of(c)
    return op is not None and op.is_pure(c.kwargs)


class Base:
    """What both stages share: roots, scalar definitions, structured control flow.  `addresses` bounds each memory's use."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.spaces: dict[MemorySpace, Root] = {}
        self.tensors: dict[Var, Root] = {}
        self.items: list[Item] = []
        self.used: dict[MemorySpace, int] = {}
        self.body = Region(())
        self.arrays = ArrayUses(function)
        # The position of this run of the kernel in its launch.
        self.block, self.blocks = (Var(n, ScalarType.of(DataType.INDEX)) for n in ("block", "blocks"))
        # What the function has of pipes; one that has any is started once for each vector lane.
        self.pipes = pipe_use(function)
        # Whether the blocks of a launch wait for each other.
        self.meets = any(isinstance(n, Call) and n.op.name == "system.syncall" for n in walk(function.body))
        self.lane: Expr = Var("lane", ScalarType.of(DataType.INDEX)) if self.pipes is not None else ZERO
        for p in function.params:
            if isinstance(p.type, TensorType):
                self.tensors[p] = Root(MemorySpace.DDR, p)

    @property
    def waits(self) -> bool:
        """Whether it waits for what runs at the same time."""
        return self.meets or self.pipes is not None

    def space(self, space: MemorySpace) -> Root:
        return self.spaces.setdefault(space, Root(space))

    def tensor(self, e: Expr) -> tuple[Root, TensorType]:
        root = self.tensors.get(e) if isinstance(e, Var) else None
        if root is None or root.var is None or not isinstance(root.var.type, TensorType):
            raise InternalError(f"{self.function.name}: {e!r} does not stand for a tensor parameter")
        return root, root.var.type

    def check(self, c: Check | None) -> None:
        if c is not None:
            self.items.append(c)

    def expect_written(self, call: Call, span: Span) -> None:
        self.check(Check(f"written {call.kwargs['name']}", ((call.args[0], 0, (ZERO, ZERO, ZERO)),), (), span))

    def region(self, body: Stmt | None) -> tuple[Region, tuple[Expr, ...]]:
        """The items of a body and the values of its trailing yield."""
        outer, self.items = self.items, []
        yielded: tuple[Expr, ...] = ()
        for s in flatten_to_stmts(body):
            if isinstance(s, YieldStmt):
                yielded = s.value
            else:
                self.stmt(s)
        region, self.items = Region(tuple(self.items)), outer
        return region, yielded

    def stmt(self, s: Stmt) -> None:
        if isinstance(s, AssignStmt):
            self.assign(s)
        elif isinstance(s, EvalStmt):
            if isinstance(s.expr, Call) and not is_idle(s.expr):
                self.call(None, s.expr, s.span)
        elif isinstance(s, IfStmt):
            self.branch(s)
        elif isinstance(s, ForStmt):
            self.loop(s)
        elif isinstance(s, WhileStmt):
            self.while_(s)
        elif not isinstance(s, ReturnStmt):
            raise InternalError(f"{self.function.name}: no native form of {type(s).__name__}")

    def assign(self, s: AssignStmt) -> None:
        value = s.value
        if isinstance(value, Call):
            self.call(s.var, value, s.span)
        elif isinstance(s.var.type, ArrayType):
            self.items.append(ArrayOp(s.var, value, None, None, False, s.span))
        elif isinstance(s.var.type, ScalarType):
            self.items.append(ScalarDef(s.var, value, None, s.span))
        elif isinstance(value, (Var, TupleGetItemExpr)):
            self.alias(s.var, value)
        else:
            raise InternalError(f"{self.function.name}: no native form of an assignment of {type(value).__name__}")

    def alias(self, var: Var, value: Expr) -> None:
        """`var` is another name of `value`."""
        root = self.tensors.get(value) if isinstance(value, Var) else None
        if root is None:
            raise InternalError(f"{self.function.name}: {var!r} = {value!r} names no storage")
        self.tensors[var] = root

    def call(self, var: Var | None, call: Call, span: Span) -> None:
        raise NotImplementedError

    def joins(self, var: Var, values: tuple[Expr, ...], span: Span) -> None:
        """A non-scalar result of control flow: every incoming value must already be where the result is."""
        roots = [self.tensors.get(v) if isinstance(v, Var) else None for v in values]
        if any(r is None or r is not roots[0] for r in roots):
            raise NotSupportedError(
                "control flow that exchanges tensors is not executed on the host",
                span,
                "write each tensor under its own name, or copy one into the other",
            )
        root = roots[0]
        assert root is not None
        self.tensors[var] = root

    # -- control flow --

    def branch(self, s: IfStmt) -> None:
        then, a = self.region(s.then_body)
        otherwise, b = self.region(s.else_body)
        scalars = []
        for i, v in enumerate(s.return_vars):
            if isinstance(v.type, VALUES):
                scalars.append(i)
            else:
                self.joins(v, (a[i], b[i]), s.span)
        self.items.append(
            IfItem(
                s.condition,
                then,
                otherwise,
                tuple(s.return_vars[i] for i in scalars),
                tuple(a[i] for i in scalars),
                tuple(b[i] for i in scalars),
                s.span,
            )
        )

    def loop(self, s: ForStmt) -> None:
        self.enter(s)
        body, values = self.region(s.body)
        carried = self.leave(s, values)
        if not isinstance(s.step, ConstInt):
            self.items.append(Check("step", ((scalar.ne(s.step, ZERO), 0, (ZERO, ZERO, ZERO)),), (), s.span))
        self.items.append(
            ForItem(
                s.loop_var,
                s.start,
                s.stop,
                s.step,
                tuple(s.iter_args[i] for i in carried),
                tuple(s.iter_args[i].initValue for i in carried),
                tuple(values[i] for i in carried),
                tuple(s.return_vars[i] for i in carried),
                body,
                s.kind is ForKind.Parallel,
                s.span,
            )
        )

    def while_(self, s: WhileStmt) -> None:
        self.enter(s)
        body, values = self.region(s.body)
        carried = self.leave(s, values)
        self.items.append(
            WhileItem(
                s.condition,
                tuple(s.iter_args[i] for i in carried),
                tuple(s.iter_args[i].initValue for i in carried),
                tuple(values[i] for i in carried),
                tuple(s.return_vars[i] for i in carried),
                body,
                s.span,
            )
        )

    def enter(self, s: ForStmt | WhileStmt) -> None:
        for a in s.iter_args:
            if not isinstance(a.type, VALUES):
                self.joins(a, (a.initValue,), s.span)

    def leave(self, s: ForStmt | WhileStmt, values: tuple[Expr, ...]) -> list[int]:
        """Check the carries that are storage; the positions of those that are scalars."""
        scalars = []
        for i, (a, v) in enumerate(zip(s.iter_args, s.return_vars, strict=True)):
            if isinstance(a.type, VALUES):
                scalars.append(i)
            else:
                self.joins(v, (a, values[i]), s.span)
        return scalars

"""Builds IR by hand for the tests: functions statement by statement, operators by their registered names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import FunctionType, ParamDirection
from pypto.ir import ops
from pypto.ir.expr import Call, ConstBool, ConstFloat, ConstInt, Expr, GlobalVar, IterArg, MakeTuple, Var, const_index
from pypto.ir.program import Function
from pypto.ir.shaped import TensorType, TileType
from pypto.ir.stmt import (
    AssignStmt,
    BreakStmt,
    ContinueStmt,
    EvalStmt,
    ForStmt,
    IfStmt,
    ReturnStmt,
    Stmt,
    WhileStmt,
    YieldStmt,
    seq,
)
from pypto.ir.types import ScalarType, TupleType, Type, VoidType
from pypto.span import Span

OUT, INOUT, IN = ParamDirection.Out, ParamDirection.InOut, ParamDirection.In


def expr(value: Any, dtype: DataType = DataType.INDEX) -> Expr:
    """A Python value as an operand: lists become tuples, numbers constants of a dtype."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, (list, tuple)):
        return MakeTuple([expr(v) for v in value])
    if isinstance(value, bool):
        return ConstBool(value)
    if isinstance(value, float) or dtype.is_float():
        return ConstFloat(float(value), dtype if dtype.is_float() else DataType.FP32)
    return const_index(value) if dtype is DataType.INDEX else ConstInt(value, dtype)


class Kernel:
    """A function under construction; statements go to the innermost open body."""

    def __init__(self, name: str = "kernel", type: FunctionType = FunctionType.InCore) -> None:
        self.name, self.type = name, type
        self.params: list[tuple[Var, ParamDirection]] = []
        self.bodies: list[list[Stmt]] = [[]]
        self.returned: tuple[Expr, ...] = ()
        self.line = 0

    # -- parameters --

    def tensor(self, name: str, shape: list[Any], dtype: DataType, direction: ParamDirection = IN) -> Var:
        return self.param(Var(name, TensorType(shape, dtype)), direction)

    def scalar(self, name: str, dtype: DataType) -> Var:
        return self.param(Var(name, ScalarType.of(dtype)), IN)

    def param(self, v: Var, direction: ParamDirection = IN) -> Var:
        self.params.append((v, direction))
        return v

    # -- statements --

    def span(self) -> Span:
        self.line += 1
        return Span(f"{self.name}.py", self.line, 1)

    def add(self, s: Stmt) -> None:
        self.bodies[-1].append(s)

    def let(self, value: Expr, name: str = "v", type: Type | None = None) -> Var:
        v = Var(name, type or value.type)
        self.add(AssignStmt(v, value, self.span()))
        return v

    def set(self, v: Var, value: Expr) -> None:
        self.add(AssignStmt(v, value, self.span()))

    def call(self, name: str, *args: Any, result: Type | None = None, **kwargs: Any) -> Call:
        return ops.create_op_call(name, [expr(a) for a in args], kwargs, self.span(), result)

    def op(self, name: str, *args: Any, at: Any = None, result: Type | None = None, **kwargs: Any) -> Var:
        """Apply an operator and bind its result; `at` gives the result a memref."""
        call = self.call(name, *args, result=result, **kwargs)
        if isinstance(call.type, VoidType):
            self.add(EvalStmt(call, self.span()))
            return None  # type: ignore[return-value]
        assert at is None or isinstance(call.type, TileType)
        return self.let(call, name.split(".")[1], call.type.replace(memref=at) if at is not None else None)  # type: ignore[attr-defined]

    def load(
        self, x: Var, offsets: list[Any], shape: list[int], valid: list[Any] | None = None, at: Any = None, **kw: Any
    ) -> Var:
        return self.op("tile.load", x, offsets, shape, shape if valid is None else valid, at=at, **kw)

    def store(self, tile: Expr, offsets: list[Any], target: Var, **kw: Any) -> Var:
        return self.op("tile.store", tile, offsets, target, **kw)

    def invoke(self, f: Function, *args: Any, **attrs: Any) -> Var:
        types = f.return_types
        result = types[0] if len(types) == 1 else TupleType(types)
        return self.let(Call(GlobalVar(f.name), [expr(a) for a in args], {}, attrs, result, self.span()), "r")

    # -- control flow --

    @contextmanager
    def body(self) -> Iterator[list[Stmt]]:
        self.bodies.append([])
        yield self.bodies[-1]
        self.bodies.pop()

    def loop(
        self, start: Any, stop: Any, step: Any, inits: list[Expr], make: Callable[..., Any], dtype: DataType = DataType.INDEX
    ) -> list[Var]:
        """`make(i, *carries)` writes the body and returns the yielded values, or None where it ends otherwise."""
        i = Var("i", ScalarType.of(dtype))
        carries = [IterArg(f"c{n}", x.type, x) for n, x in enumerate(inits)]
        with self.body() as stmts:
            self._finish(stmts, make(i, *carries))
        results = [Var(f"r{n}", x.type) for n, x in enumerate(inits)]
        self.add(ForStmt(i, expr(start), expr(stop), expr(step), carries, seq(stmts), results, self.span()))
        return results

    def while_(self, condition: Callable[..., Expr], inits: list[Expr], make: Callable[..., Any]) -> list[Var]:
        carries = [IterArg(f"c{n}", x.type, x) for n, x in enumerate(inits)]
        with self.body() as stmts:
            self._finish(stmts, make(*carries))
        results = [Var(f"r{n}", x.type) for n, x in enumerate(inits)]
        self.add(WhileStmt(condition(*carries), carries, seq(stmts), results, self.span()))
        return results

    def if_(
        self, condition: Expr, then: Callable[[], Any], other: Callable[[], Any] | None, types: Sequence[Type] = ()
    ) -> list[Var]:
        arms: list[Stmt | None] = []
        for make in (then, other):
            if make is None:
                arms.append(None)
                continue
            with self.body() as stmts:
                self._finish(stmts, make())
            arms.append(seq(stmts))
        results = [Var(f"p{n}", t) for n, t in enumerate(types)]
        assert arms[0] is not None
        self.add(IfStmt(condition, arms[0], arms[1], results, self.span()))
        return results

    def _finish(self, stmts: list[Stmt], values: Any) -> None:
        if values is not None:
            stmts.append(YieldStmt(values, self.span()))

    def break_(self) -> None:
        self.add(BreakStmt(self.span()))

    def continue_(self) -> None:
        self.add(ContinueStmt(self.span()))

    # -- the end --

    def done(self, *returned: Expr, **more: Any) -> Function:
        self.add(ReturnStmt(returned, self.span()))
        types = [v.type for v in returned]
        return Function(self.name, self.params, types, seq(self.bodies[0]), type=self.type, **more)

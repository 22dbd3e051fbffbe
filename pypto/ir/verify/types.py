"""Judges of TypeChecked and AssignTypeSymmetry: what is bound together has one type.

Codes: 101 kind, 102 dtype, 103 rank, 104 dimension, 105 arity, 106 condition not scalar, 107 loop range not scalar,
108 condition not BOOL, 109 tensor view (layout, padding), 111 tile view (valid extents, layout, space), 112 a call's
type is not what its operator deduces.  Places in memory do not count: they are judged with the storage.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.dtypes import DataType
from pypto.ir import arith, ops
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.opdef import OpRejected
from pypto.ir.program import Program
from pypto.ir.shaped import ShapedType, TensorType, TensorView, TileType, const_dim
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, Stmt, WhileStmt, last_yield
from pypto.ir.structural import compare
from pypto.ir.types import ArrayType, ScalarType, TupleType, Type, UnknownType
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.scopes import statements
from pypto.ir.verify.ssa import user_name
from pypto.span import Span

__all__ = ["assign_type_symmetry", "type_checked", "type_text", "types_differ"]

Difference = tuple[int, str]


def type_checked(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        for s in statements(f.body):
            yield from _statement(s)


def assign_type_symmetry(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        for s in statements(f.body):
            if isinstance(s, AssignStmt):
                yield from _assignment(s, "AssignTypeSymmetry")
                yield from _deduced(s)


def _finding(code: int, message: str, span: Span, rule: str = "TypeCheck") -> Diagnostic:
    return Diagnostic(Severity.Error, rule, code, message, span)


def _statement(s: Stmt) -> Iterator[Diagnostic]:
    if isinstance(s, AssignStmt):
        yield from _assignment(s, "TypeCheck")
    elif isinstance(s, IfStmt):
        yield from _condition(s.condition, s.span)
        for which, arm in (("if", s.then_body), ("else", s.else_body)):
            yield from _yielded(s.return_vars, arm, f"the {which} branch yields", s)
    elif isinstance(s, (ForStmt, WhileStmt)):
        if isinstance(s, WhileStmt):
            yield from _condition(s.condition, s.span)
        else:
            for what, e in (("start", s.start), ("stop", s.stop), ("step", s.step)):
                if not isinstance(e.type, ScalarType) or not e.type.dtype.is_int():
                    yield _finding(107, f"the {what} of a loop must be an integer scalar, got {type_text(e.type)}", s.span)
        for a in s.iter_args:
            yield from _bound(a, a.initValue, "the loop starts from", s.span)
        yield from _yielded(s.return_vars, s.body, "the loop body yields", s)
        yield from _yielded(s.iter_args, s.body, "the loop body yields", s)


def _condition(e: Expr, span: Span) -> Iterator[Diagnostic]:
    if not isinstance(e.type, ScalarType):
        yield _finding(106, f"a condition must be a scalar, got {type_text(e.type)}", span)
    elif e.type.dtype is not DataType.BOOL:
        yield _finding(108, f"a condition must be BOOL, got {type_text(e.type)}", span)


def _yielded(names: tuple[Var, ...], body: Stmt | None, what: str, at: Stmt) -> Iterator[Diagnostic]:
    last = last_yield(body)
    values = last.value if last is not None else ()
    for v, e in zip(names, values, strict=False):
        yield from _bound(v, e, what, last.span if last is not None and last.span.is_valid() else at.span)


def _assignment(s: AssignStmt, rule: str) -> Iterator[Diagnostic]:
    yield from _bound(s.var, s.value, "the assigned value is", s.span, rule)


def _bound(v: Var, e: Expr, what: str, span: Span, rule: str = "TypeCheck") -> Iterator[Diagnostic]:
    found = types_differ(v.type, e.type)
    if found is not None:
        code, why = found
        message = f"'{user_name(v)}' is {type_text(v.type)} but {what} {type_text(e.type)}: {why}"
        yield _finding(code, message, span, rule)


def types_differ(a: Type, b: Type) -> Difference | None:
    """Code and reason why a value of type `b` cannot be known as one of type `a`; None where it can."""
    if a is b or isinstance(a, UnknownType) or isinstance(b, UnknownType):
        return None
    if type(a) is not type(b):
        return 101, "different kinds"
    if isinstance(a, (ScalarType, ArrayType)) and isinstance(b, (ScalarType, ArrayType)):
        if a.dtype is not b.dtype:
            return 102, f"dtype {a.dtype} against {b.dtype}"
        return None if a == b else (104, "different extents")
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        if len(a.types) != len(b.types):
            return 105, f"{len(a.types)} against {len(b.types)} elements"
        parts = (types_differ(x, y) for x, y in zip(a.types, b.types, strict=True))
        return next((p for p in parts if p is not None), None)
    if isinstance(a, ShapedType) and isinstance(b, ShapedType):
        return _shaped(a, b)
    return None if a == b else (101, "different types")


def _shaped(a: ShapedType, b: ShapedType) -> Difference | None:
    if a.dtype is not b.dtype:
        return 102, f"dtype {a.dtype} against {b.dtype}"
    if a.rank != b.rank:
        return 103, f"rank {a.rank} against {b.rank}"
    for i, (x, y) in enumerate(zip(a.shape, b.shape, strict=True)):
        m, n = const_dim(x), const_dim(y)
        # Run-time extents may be the same under two names: those are checked when the kernel runs.
        if m is not None and n is not None and m != n:
            return 104, f"dimension {i} is {m} against {n}"
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return _tensor_views(a, b)
    return _tiles(a, b) if isinstance(a, TileType) and isinstance(b, TileType) else None


def _tensor_views(a: TensorType, b: TensorType) -> Difference | None:
    x, y = a.tensor_view or TensorView(), b.tensor_view or TensorView()
    if x.layout is not y.layout:
        return 109, f"layout {x.layout.name} against {y.layout.name}"
    return (109, f"padding {x.pad.name} against {y.pad.name}") if x.pad is not y.pad else None


def _tiles(a: TileType, b: TileType) -> Difference | None:
    chosen = a.memory_space is not None and b.memory_space is not None
    if chosen and a.memory_space is not b.memory_space:
        return 111, f"memory {_space(a)} against {_space(b)}"
    for i, (x, y) in enumerate(zip(a.valid, b.valid, strict=True)):
        if not arith.same(x, y):
            return 111, f"valid extent {i} is {_dim(x)} against {_dim(y)}"
    if a.memory_space is not b.memory_space:
        return None  # the layout follows the memory, which one side leaves open
    if a.layout != b.layout:
        return 111, "different layouts"
    v, w = a.get_effective_tile_view(), b.get_effective_tile_view()
    rest = v.replace(valid_shape=()), w.replace(valid_shape=())
    return None if compare(*rest) is None else (111, "different tile views")


def _space(t: TileType) -> str:
    return t.memory_space.name if t.memory_space is not None else "not chosen"


def _dim(e: Expr) -> str:
    value = const_dim(e)
    return str(value) if value is not None else user_name(e) if isinstance(e, Var) else "computed at run time"


def type_text(t: Type) -> str:
    """A type in a few words, for messages."""
    if isinstance(t, ScalarType):
        return f"a scalar of {t.dtype}"
    if isinstance(t, ShapedType):
        kind = "a tile" if isinstance(t, TileType) else "a tensor"
        return f"{kind} [{', '.join(_dim(d) for d in t.shape)}] of {t.dtype}"
    return type(t).__name__


def _deduced(s: AssignStmt) -> Iterator[Diagnostic]:
    call = s.value
    op = ops.of(call) if isinstance(call, Call) else None
    if not isinstance(call, Call) or op is None:
        return
    try:
        fresh = op.call(call.args, call.kwargs, call.span, call.type if op.explicit_result else None)
    except OpRejected as e:
        yield _finding(112, f"'{op.name}' refuses its operands: {e.message}", s.span, "AssignTypeSymmetry")
        return
    found = types_differ(call.type, fresh.type)
    if found is not None:
        yield _finding(112, f"the type of '{op.name}' is not what it deduces: {found[1]}", s.span, "AssignTypeSymmetry")

"""Programs that between them hold every kind of statement, expression and type.

In: nothing.  Out: fresh nodes, built directly.
"""

from __future__ import annotations

from pypto.dtypes import DataType as D
from pypto.enums import (
    ArgDirection,
    ForKind,
    FunctionIRStage,
    FunctionType,
    Level,
    MemorySpace,
    PadValue,
    ParamDirection,
    Role,
    SplitMode,
    TensorLayout,
    TileLayout,
)
from pypto.ir import ops, scalar
from pypto.ir.expr import (
    Call,
    ConstBool,
    ConstFloat,
    ConstInt,
    Expr,
    GlobalVar,
    IterArg,
    MakeTuple,
    MemRef,
    Submit,
    TupleGetItemExpr,
    Var,
    WindowBuffer,
    const_index,
)
from pypto.ir.node import EMPTY, Attrs
from pypto.ir.program import Function, Program
from pypto.ir.shaped import BufferType, TensorType, TensorView, TileType
from pypto.ir.stmt import (
    AssignStmt,
    BreakStmt,
    ClusterScopeStmt,
    CommDomainScopeStmt,
    ContinueStmt,
    EvalStmt,
    ForStmt,
    HierarchyScopeStmt,
    IfStmt,
    InCoreScopeStmt,
    InlineStmt,
    ReturnStmt,
    RuntimeScopeStmt,
    SeqStmts,
    SplitAivScopeStmt,
    SpmdScopeStmt,
    Stmt,
    WhileStmt,
    YieldStmt,
    attach_leading_comments,
    seq,
)
from pypto.ir.types import ArrayType, PtrType, ScalarType, TupleType, UnknownType
from pypto.span import Span

INDEX = ScalarType.of(D.INDEX)
BOOL = ScalarType.of(D.BOOL)
F32 = ScalarType.of(D.FP32)
VEC = MemorySpace.Vec


def index(name: str) -> Var:
    return Var(name, INDEX)


def dims(*extents: int | Expr) -> MakeTuple:
    return MakeTuple(const_index(d) if isinstance(d, int) else d for d in extents)


def kernel(length: int = 3) -> Function:
    """An InCore function with planned tiles: load, `length` additions, store."""
    place = iter(range(1, 1000))

    def span() -> Span:
        n = next(place)
        return Span("kernel.py", n, 5, n, 20, 0, n)

    x, o = Var("x", TensorType([64, 64], D.FP32)), Var("o", TensorType([64, 64], D.FP32))
    base = Var("mem_vec_0", PtrType.get())
    space = {"memory_space": VEC}
    stmts: list[Stmt] = [AssignStmt(base, ops.create_op_call("tile.alloc", [ConstInt(16384, D.INT64)], space, span()), span())]
    load = ops.create_op_call("tile.load", [x, dims(0, 0), dims(64, 64), dims(64, 64)], {"target_memory": VEC}, span())
    placed = TileType([64, 64], D.FP32, MemRef(base, 0, 16384), None, VEC)
    t = Var("t", placed)
    stmts.append(AssignStmt(t, load, span()))
    for _ in range(length):
        call = ops.create_op_call("tile.add", [t, t], {}, span())
        t = Var("t", placed)
        stmts.append(AssignStmt(t, call, span()))
    store = ops.create_op_call("tile.store", [t, dims(0, 0), o], {}, span())
    r = Var("o", store.type)
    stmts += [AssignStmt(r, store, span()), ReturnStmt([r], span())]
    params = [x, (o, ParamDirection.Out)]
    return Function("kernel", params, [o.type], SeqStmts(stmts), span(), FunctionType.InCore, attrs={"split": 1})


def control() -> Function:
    """Carried values in every construct that has them, and every scalar operator."""
    n, m, flag = index("n"), index("m"), Var("flag", BOOL)
    made = ops.create_op_call("tile.create", [dims(16, 64)], {"dtype": D.FP32, "target_memory": VEC})
    whole = Var("whole", made.type)
    narrowed = ops.create_op_call("tile.set_validshape", [whole, n, const_index(64)])
    tile = narrowed.type
    t = Var("t", tile)
    a, k = IterArg("a", tile, t), IterArg("k", INDEX, const_index(0))
    i, y, r, s = index("i"), Var("y", tile), Var("r", tile), index("s")
    condition = scalar.and_(scalar.lt(i, n), scalar.not_(scalar.eq(k, const_index(3))))
    branch = IfStmt(condition, YieldStmt([a]), YieldStmt([t]), [y])
    step = scalar.add(k, scalar.mul(scalar.sub(i, scalar.sub(n, const_index(-1))), const_index(2)))
    attrs = {"pipeline_stages": 2, "mixed": (1, 2.0, "s", True, None, D.FP16, n, const_index(3), VEC)}
    loop = ForStmt(
        i,
        const_index(0),
        n,
        const_index(1),
        [a, k],
        seq([branch, YieldStmt([y, step])]),
        [r, s],
        kind=ForKind.Pipeline,
        attrs=attrs,
    )
    w = IterArg("w", F32, ConstFloat(1.5, D.FP32))
    again = WhileStmt(
        scalar.lt(w, ConstFloat(100.0, D.FP32)), [w], YieldStmt([scalar.mul(w, ConstFloat(-2.0, D.FP32))]), [Var("w", F32)]
    )
    rebound = index("c")
    natural = WhileStmt(scalar.gt(rebound, n), [], AssignStmt(rebound, scalar.sub(rebound, n)), [])
    leave = ForStmt(index("j"), n, const_index(8), const_index(-2), [], IfStmt(flag, BreakStmt(), ContinueStmt()), [])
    stmts = [
        AssignStmt(whole, made),
        AssignStmt(t, narrowed),
        loop,
        again,
        AssignStmt(rebound, scalar.cast(n, D.INDEX)),
        natural,
        leave,
        *(AssignStmt(Var(f"v{j}", e.type), e) for j, e in enumerate(scalars(n, m))),
        ReturnStmt([r, s]),
    ]
    attach_leading_comments(stmts[0], ["first", "two\nlines"])
    return Function("control", [n, m, flag], [tile, INDEX], SeqStmts(stmts), type=FunctionType.AIV)


def scalars(n: Expr, m: Expr) -> list[Expr]:
    """One expression per scalar operator, and constants of every spelling."""
    arithmetic = [f(n, m) for f in (scalar.add, scalar.sub, scalar.mul, scalar.floordiv, scalar.mod, scalar.truediv)]
    compared = [f(n, m) for f in (scalar.eq, scalar.ne, scalar.lt, scalar.le, scalar.gt, scalar.ge)]
    logical = [f(compared[0], compared[1]) for f in (scalar.and_, scalar.or_)]
    bits = [f(n, m) for f in (scalar.bit_and, scalar.bit_or, scalar.bit_xor, scalar.bit_shift_left, scalar.bit_shift_right)]
    others = [f(n, m) for f in (scalar.min_, scalar.max_, scalar.pow)]
    unary = [scalar.neg(n), scalar.bit_not(n), scalar.not_(compared[2]), scalar.Abs(n, D.INDEX), scalar.cast(n, D.INT32)]
    odd = (float("nan"), float("inf"), -float("inf"), -0.0, 0.1, 1e300)
    constants = [ConstFloat(v, d) for v in odd for d in (D.FP32, D.FP16)]
    constants += [ConstInt(v, d) for v in (-7, 0, 2**40) for d in (D.INDEX, D.INT64)]  # type: ignore[arg-type]
    constants += [ConstInt(2**64 - 1, D.UINT64), ConstInt(-128, D.INT8)]  # type: ignore[list-item]
    logical.append(scalar.Xor(compared[0], compared[1], D.BOOL))
    return [*arithmetic, *compared, *logical, *bits, *others, *unary, *constants, ConstBool(True), ConstBool(False)]


def orchestration() -> Function:
    """Dynamic extents, scopes, launches, tuples, arrays."""
    rows, n = index("M"), index("n")
    x = Var("x", TensorType([rows, 64], D.FP32, None, TensorView([128, 1], TensorLayout.ND, [n, 64], PadValue.zero)))
    out = Var("out", TensorType([rows, 64], D.FP16, None, TensorView(layout=TensorLayout.DN)))
    launched = TupleType([x.type, ScalarType.of(D.TASK_ID)])
    directions = {"arg_directions": (ArgDirection.Input, ArgDirection.OutputExisting)}
    call = Call(GlobalVar("kernel"), [x, out], {}, directions, x.type, Span.unknown())
    v = Var("v", launched)
    submit = Submit(GlobalVar("kernel"), (x, out), (n,), EMPTY, Attrs(directions), launched, Span.unknown(), n, True, False, None)
    task = Var("tid", ScalarType.of(D.TASK_ID))
    table = Var("table", ArrayType(D.INT32, 4))
    opaque = Call(ops.get("tile.create").op, [dims()], UnknownType.get(), Span.unknown())
    window = WindowBuffer(Var("peer", PtrType.get()), const_index(4096), True)
    body = seq([AssignStmt(v, submit), AssignStmt(Var("first", x.type), TupleGetItemExpr(v, 0))])
    domain = CommDomainScopeStmt.make(Span.unknown(), (), "", EvalStmt(rows), EMPTY, (0, 1), (window,))
    stmts: list[Stmt] = [
        AssignStmt(Var("y", x.type), call),
        InCoreScopeStmt(SplitMode.UP_DOWN, "named", body=EvalStmt(n), attrs={"windowize": True, "task_id_var": task}),
        HierarchyScopeStmt(Level.HOST, Role.Orchestrator, body=EvalStmt(n)),
        RuntimeScopeStmt(True, body=ClusterScopeStmt(body=SpmdScopeStmt(4, True, body=body))),
        SplitAivScopeStmt(SplitMode.LEFT_RIGHT, body=EvalStmt(n)),
        domain,
        EvalStmt(task),
        AssignStmt(table, opaque),
        InlineStmt("print('hi')"),
        IfStmt(ConstBool(True), EvalStmt(n), IfStmt(ConstBool(False), SeqStmts([]), EvalStmt(rows))),
        ReturnStmt(),
    ]
    attrs = {"auto_scope": False, "cache_policy": ((0, 1),), "names": {"a": 1.0, "b": (True,)}, "hints": [1, "x"]}
    return Function(
        "main", [x, (out, ParamDirection.InOut), n], [], SeqStmts(stmts), type=FunctionType.Orchestration, attrs=attrs
    )


def program() -> Program:
    return Program([kernel(), control(), orchestration()], "Sample")


def buffer_function() -> Function:
    """A buffer-stage function with a window, a branch and a loop that carries a scalar."""
    gm, n = Var("x", TensorType([64, 64], D.FP32)), index("n")
    whole = BufferType([16, 64], D.FP32, VEC, [-1, 64])
    view = BufferType([16, 32], D.FP32, VEC)
    left = BufferType([16, 16], D.FP16, MemorySpace.Left, None, TileLayout.col_major, TileLayout.row_major)
    a, b, c = Var("a", whole), Var("b", view), Var("c", left)
    k, j, r = IterArg("k", INDEX, const_index(0)), index("j"), index("r")
    load = ops.create_op_call("buffer.load", [gm, dims(0, 0), dims(n, 64), a])
    stmts: list[Stmt] = [
        AssignStmt(a, ops.create_op_call("buffer.alloc", [dims(n), const_index(0)], {}, None, whole)),
        AssignStmt(c, ops.create_op_call("buffer.alloc", [dims()], {}, None, left)),
        IfStmt(scalar.gt(n, const_index(0)), EvalStmt(load), None),
        AssignStmt(b, ops.create_op_call("buffer.subview", [a, dims(0, 32)], {}, None, view)),
        ForStmt(j, const_index(0), n, const_index(1), [k], YieldStmt([scalar.add(k, j)]), [r]),
        EvalStmt(ops.create_op_call("buffer.add", [b, b, b])),
        ReturnStmt([r]),
    ]
    return Function("device", [gm, n], [INDEX], SeqStmts(stmts), type=FunctionType.AIV, ir_stage=FunctionIRStage.Buffer)

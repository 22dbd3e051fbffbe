"""The matrix unit: products of tiles and tensors, with accumulators, bias and batches.

Tiles: operands in Left and Right memory, results in Acc memory, [M, K] x [K, N] -> [M, N]; FP16, BF16 and FP32 give FP32,
INT8 gives INT32.  Tensors: any rank from 2 on, transposed operands, and a result type of its own.
Only valid elements are read: M and K of the left operand, N of the right one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import lcm
from typing import Any

from pypto.dtypes import DataType as D
from pypto.enums import CompactMode, MemorySpace, TileLayout
from pypto.ir import arith
from pypto.ir.expr import Call, ConstBool, Expr, MakeTuple, Var, const_index
from pypto.ir.layout import box_of, implicit_layout
from pypto.ir.opdef import Attr, Dsl, DslContext, Lower, Matmul, OpDef, Operand, OpRejected, Param, Site, Special
from pypto.ir.ops.rules import RW, R, broadcast, dim_text, falls_short, level_of, same_dtype, shape_text
from pypto.ir.shaped import ShapedType, TensorType, TensorView, TileType, TileView, const_dim, is_less, same_dims
from pypto.ir.types import Type

__all__ = ["DSL", "OPS", "matrix_boxes", "operand_boxes"]

LEFT, RIGHT, ACC, BIAS = ((m,) for m in (MemorySpace.Left, MemorySpace.Right, MemorySpace.Acc, MemorySpace.Bias))
_SUM = {D.FP16: D.FP32, D.BF16: D.FP32, D.FP32: D.FP32, D.INT8: D.INT32}
_STORED = {D.FP32: (D.FP32, D.FP16, D.BF16), D.INT32: (D.INT32,)}
Dims = tuple[Expr, ...]
Infer = Callable[[Site], Type]


# -- types ---------------------------------------------------------------------------------------------------------


def accumulator(s: Site, a: ShapedType, b: ShapedType) -> D:
    """The type that products of the operands are added up in."""
    same_dtype(s, a, b)
    if a.dtype not in _SUM:
        s.reject(
            f"the matrix unit multiplies FP16, BF16, FP32 and INT8, not {a.dtype}", "convert the operands with pl.cast", TypeError
        )
    return _SUM[a.dtype]


def _swapped(dims: Dims, swap: bool) -> Dims:
    return (*dims[:-2], dims[-1], dims[-2]) if swap else dims


def _product(s: Site, a: ShapedType, b: ShapedType, a_trans: bool = False, b_trans: bool = False) -> tuple[Dims, Dims]:
    """Shape and valid extents of the product."""
    if len(a.shape) < 2 or len(b.shape) < 2:
        s.reject(
            f"a product needs matrices, got {shape_text(a.shape)} and {shape_text(b.shape)}",
            "make a vector a matrix of one row or one column with pl.reshape",
        )
    x, xv = _swapped(a.shape, a_trans), _swapped(a.valid, a_trans)
    y, yv = _swapped(b.shape, b_trans), _swapped(b.valid, b_trans)
    k, other = const_dim(x[-1]), const_dim(y[-2])
    if not arith.same(x[-1], y[-2]) and k is not None and other is not None:
        s.reject(
            f"the left operand has {k} columns, the right one {other} rows: {shape_text(x)} x {shape_text(y)}",
            "the inner extents must be equal; a_trans=True and b_trans=True take an operand transposed",
        )
    if is_less(yv[-2], xv[-1]):
        s.reject(
            f"the right operand is valid in {dim_text(yv[-2])} rows, the left one in {dim_text(xv[-1])} columns",
            "narrow the left operand with pl.set_validshape, or pl.fillpad the right one",
        )
    batch = broadcast(s, x[:-2], y[:-2])
    return (*batch, x[-2], y[-1]), (*batch, xv[-2], yv[-1])


def _in_acc(shape: Dims, valid: Dims, dtype: D) -> TileType:
    """Products are written at the row distance of their valid rows; where that may not be the stored rows, the type says so."""
    layout = implicit_layout(MemorySpace.Acc, tuple(const_dim(d) for d in shape))
    plain = len(shape) != 2 or const_dim(shape[0]) == 16 or arith.same(shape[0], valid[0])
    compact = CompactMode.null if plain else CompactMode.normal
    view = TileView(valid, blayout=layout.blayout, slayout=layout.slayout, fractal=layout.fractal, compact=compact)
    return TileType(shape, dtype, None, view, MemorySpace.Acc)


def _tile_product(s: Site) -> Type:
    a, b = s.tile(0), s.tile(1)
    if len(a.shape) > 2 or len(b.shape) > 2:
        s.reject(f"multiplies matrices, not {shape_text(a.shape)} and {shape_text(b.shape)}", "pl.batch_matmul takes batches")
    return _batch_product(s)


def _batch_product(s: Site) -> Type:
    a, b = s.tile(0), s.tile(1)
    dtype = accumulator(s, a, b)
    shape, valid = _product(s, a, b, bool(s.kwargs.get("a_trans")), bool(s.kwargs.get("b_trans")))
    return _in_acc(_in_rows(s, shape), valid, dtype)


def _in_rows(s: Site, shape: Dims) -> Dims:
    """A vector product of one row has the rows of a box, of which the first is valid."""
    return (const_index(16), shape[1]) if s.name.startswith("tile.gemv") and const_dim(shape[0]) == 1 else shape


def _tile_acc(s: Site) -> Type:
    acc, a, b = s.tile(0), s.tile(1), s.tile(2)
    dtype = accumulator(s, a, b)
    shape, valid = _product(s, a, b, bool(s.kwargs.get("a_trans")), bool(s.kwargs.get("b_trans")))
    shape = _in_rows(s, shape)
    _check_acc(s, acc, shape, valid, dtype)
    return acc.replace(memref=None)


def _check_acc(s: Site, acc: ShapedType, shape: Dims, valid: Dims, dtype: D) -> None:
    if acc.dtype is not dtype:
        s.reject(
            f"the accumulator is {acc.dtype}, the products are added up in {dtype}",
            f"create it with dtype=pl.{dtype.name}",
            TypeError,
        )
    if not same_dims(acc.shape, shape):
        s.reject(
            f"the accumulator is {shape_text(acc.shape)}, the product {shape_text(shape)}", f"create it as {shape_text(shape)}"
        )
    if falls_short(acc.valid, valid):
        s.reject(
            f"the accumulator is valid in {shape_text(acc.valid)}, the product in {shape_text(valid)}",
            "widen the accumulator with pl.set_validshape",
        )
    if len(s) > 3 and s.scalar(3) is not D.BOOL:
        s.reject(f"init_cond is a {s.scalar(3)} scalar", "pass a comparison, as in init_cond=(k == 0)", TypeError)


def _tile_bias(s: Site) -> Type:
    t, bias = _tile_product(s), s.tile(2)
    assert isinstance(t, TileType)
    converts = t.dtype is D.FP32 and bias.dtype is D.FP16 and bias.memory_space is not MemorySpace.Bias
    if not (bias.dtype is t.dtype or converts) or not same_dims(bias.shape, (const_index(1), t.shape[-1])):
        want = f"a {t.dtype} tile of [1, {shape_text(t.shape[-1:])[1:-1]}]"
        s.reject(
            f"the bias is a {bias.dtype} tile of {shape_text(bias.shape)}, not {want}", "one value for each column of the product"
        )
    return t


def _as_it_is(rule: Infer) -> Infer:
    return rule


def _gemv(rule: Infer) -> Infer:
    """The rule for a left operand of one valid row."""

    def infer(s: Site) -> Type:
        rows = s.tile(1 if s.name.endswith("_acc") else 0).valid[0]
        if const_dim(rows) != 1:
            what = f"the left operand of a vector product is valid in one row, not in {shape_text((rows,))[1:-1]}"
            s.reject(what, "use pl.matmul")
        return rule(s)

    return infer


def _turned_view(s: Site) -> Type:
    """The other reading of the same boxes: rows become columns inside and outside of them."""
    t = s.tile(0)
    if len(t.shape) != 2 or t.layout.is_flat:
        s.reject("only a matrix in boxes can be read transposed without moving it", "use pl.transpose")
    flip = {TileLayout.row_major: TileLayout.col_major, TileLayout.col_major: TileLayout.row_major}
    layout = t.layout
    view = TileView(_swapped(t.valid, True), blayout=flip[layout.blayout], slayout=flip[layout.slayout], fractal=layout.fractal)
    return TileType(_swapped(t.shape, True), t.dtype, None, view, t.memory_space)


def _tensor_product(s: Site) -> Type:
    a, b = s.tensor(0), s.tensor(1)
    dtype = accumulator(s, a, b)
    shape, valid = _product(s, a, b, bool(s.kwargs.get("a_trans")), bool(s.kwargs.get("b_trans")))
    out: D = s.kwargs.get("out_dtype") or a.dtype
    if out not in _STORED[dtype]:
        allowed = " or ".join(f"pl.{d.name}" for d in _STORED[dtype])
        s.reject(f"a product of {a.dtype} matrices cannot be {out}", f"out_dtype={allowed}", TypeError)
    return TensorType(shape, out) if same_dims(shape, valid) else _partial(shape, out, valid)


def _partial(shape: Dims, dtype: D, valid: Dims) -> TensorType:
    return TensorType(shape, dtype, None, TensorView(valid_shape=valid))


def _tensor_acc(s: Site) -> Type:
    acc, a, b = s.tensor(0), s.tensor(1), s.tensor(2)
    dtype = accumulator(s, a, b)
    shape, valid = _product(s, a, b, bool(s.kwargs.get("a_trans")), bool(s.kwargs.get("b_trans")))
    _check_acc(s, acc, shape, valid, dtype)
    return acc.replace(memref=None)


# -- boxes ---------------------------------------------------------------------------------------------------------


def _box(dtype: D, space: MemorySpace) -> tuple[int, int]:
    layout = implicit_layout(space, (16, 16))
    if space is MemorySpace.Right:
        layout = layout._replace(blayout=TileLayout.row_major)
    return box_of(layout, dtype)


def operand_boxes(call: Call) -> tuple[tuple[int, int] | None, ...]:
    """Rows and columns that each operand of a tensor product is rounded up to, as it is loaded; None: nothing is asked.

    M takes whole boxes of the left operand's load and rows of 16 of the accumulator; N whole boxes of the right operand
    in Mat and Right memory and columns of 16 of the result, unless an accumulator fixes it.  K is never rounded: the
    matrix unit would add up what lies in the padding.
    """
    accumulates = call.op.name == "tensor.matmul_acc"
    lhs, rhs = (call.args[1], call.args[2]) if accumulates else (call.args[0], call.args[1])
    a, b = lhs.type, rhs.type
    if not isinstance(a, ShapedType) or not isinstance(b, ShapedType) or len(a.shape) != 2 or len(b.shape) != 2:
        return (None,) * len(call.args)
    left, rest = matrix_boxes(a.dtype, bool(call.kwargs.get("a_trans")), bool(call.kwargs.get("b_trans")))
    return ((max(left), 1), left, None, None)[: len(call.args)] if accumulates else (left, rest)


def matrix_boxes(dtype: D, a_trans: bool, b_trans: bool) -> tuple[tuple[int, int], tuple[int, int]]:
    """Rows and columns that a left and a right operand are rounded up to, as they are loaded: M and N, never K."""
    mat, right = _box(dtype, MemorySpace.Mat), _box(dtype, MemorySpace.Right)
    m = lcm(mat[1], 16) if a_trans else 16
    n = lcm(mat[0] if b_trans else mat[1], right[1], 16)
    return (1, m) if a_trans else (m, 1), (n, 1) if b_trans else (1, n)


# -- tensors to tiles ----------------------------------------------------------------------------------------------


def _check_depth(call: Call, lhs: Expr, rhs: Expr) -> None:
    """K is loaded as it is: padding would be added up.  OpRejected where it is not whole boxes of both operands."""
    a, b = lhs.type, rhs.type
    assert isinstance(a, ShapedType)
    assert isinstance(b, ShapedType)
    a_trans, b_trans = bool(call.kwargs.get("a_trans")), bool(call.kwargs.get("b_trans"))
    m, k = (const_dim(d) for d in _swapped(a.shape, a_trans)[-2:])
    box = lcm(_box(a.dtype, MemorySpace.Mat)[not a_trans], _box(b.dtype, MemorySpace.Mat)[b_trans])
    if k is None or k % box == 0:
        return
    rows, whole = max(matrix_boxes(a.dtype, a_trans, b_trans)[0]), -(-k // box) * box
    sides = [str(-(-m // rows) * rows) if m is not None else "<M>", str(whole)]
    window = f"[{', '.join(sides[::-1] if a_trans else sides)}]"
    raise OpRejected(
        f"K = {k} is not a multiple of {box}, the boxes of {a.dtype} matrices",
        f"load both operands with {whole} in place of {k}: a window pl.slice(x, {window}, offsets, clamp=True) takes what there "
        f"is, as does pl.load(x, offsets, {window}, valid_shape={shape_text(a.valid[-2:])}, target_memory=pl.Mem.Mat) of a tile",
    )


def _operand(lo: Lower, call: Call, args: tuple[Expr, ...], i: int, turned: bool) -> Expr:
    t = lo.boxed(call, args, i)
    if not turned:
        return t
    if isinstance(t.type, TileType) and t.type.memory_space is not MemorySpace.Mat:
        t = lo.emit("tile.move", (t,), {"target_memory": MemorySpace.Mat}, f"{getattr(t, 'name_hint', 'turned')}_Mat")
    return lo.emit("tile.transpose_view", (t,), None, "turned")


def _batches(lo: Lower, call: Call, args: tuple[Expr, ...], name: str, factors: tuple[int, int]) -> Var:
    """A product of batches, as keywords say which operands are turned."""
    turned = {k: True for k in ("a_trans", "b_trans") if call.kwargs.get(k)}
    return lo.emit(name, (lo.boxed(call, args, i) if i in factors else a for i, a in enumerate(args)), turned)


def _matmul_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    _check_depth(call, call.args[0], call.args[1])
    if len(call.type.shape) > 2:  # type: ignore[attr-defined]
        return lo.narrowed(_batches(lo, call, args, "tile.batch_matmul", (0, 1)), call.type)
    a = _operand(lo, call, args, 0, bool(call.kwargs.get("a_trans")))
    b = _operand(lo, call, args, 1, bool(call.kwargs.get("b_trans")))
    return lo.narrowed(lo.emit("tile.matmul", (a, b)), call.type)


def _acc_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    if lo.is_tensor(args[0]):
        raise OpRejected(
            "the accumulator is a tensor in global memory, which cannot be loaded into Acc memory",
            "begin with acc = pl.create_tensor(...) and init_cond=(k == 0), or with acc = pl.matmul(...)",
        )
    _check_depth(call, call.args[1], call.args[2])
    if len(call.type.shape) > 2:  # type: ignore[attr-defined]
        return _batches(lo, call, args, "tile.batch_matmul_acc", (1, 2))
    a = _operand(lo, call, args, 1, bool(call.kwargs.get("a_trans")))
    b = _operand(lo, call, args, 2, bool(call.kwargs.get("b_trans")))
    return lo.narrowed(lo.emit("tile.matmul_acc", (args[0], a, b, *args[3:])), call.type)


# -- the language --------------------------------------------------------------------------------------------------


def _only_tensors(name: str, space: str, a: dict[str, Any], flags: tuple[str, ...]) -> dict[str, Any]:
    """The keywords of the tensor form that were given; the tile form has none of them."""
    given = {f: a[f] for f in flags if a[f]}
    if space == "tile" and given:
        flag = next(iter(given))
        raise OpRejected(
            f"pl.{name}: {flag} is a keyword of the tensor form",
            f"pass tensors, or load the tile as it is needed: without {flag}=",
            TypeError,
        )
    return given


_FLAGS = ("a_trans", "b_trans", "c_matrix_nz")


def _matmul(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    level = level_of("matmul", space, (a["lhs"], a["rhs"]))
    kwargs = _only_tensors("matmul", level, a, ("out_dtype", *_FLAGS))
    if level == "tile" and any(_rank(a[n]) > 2 for n in ("lhs", "rhs")):
        return ctx.op("tile.batch_matmul", (a["lhs"], a["rhs"]))
    if level == "tensor" and any(_rank(a[n]) == 1 for n in ("lhs", "rhs")):
        return _with_vectors(ctx, a, kwargs)
    return ctx.op(f"{level}.matmul", (a["lhs"], a["rhs"]), kwargs)


def _rank(e: Any) -> int:
    t = getattr(e, "type", None)
    return len(t.shape) if isinstance(t, ShapedType) else 2


def _with_vectors(ctx: DslContext, a: dict[str, Any], kwargs: dict[str, Any]) -> Expr:
    """A vector is a row: on the right, its product with each row of the other operand; [1] for two vectors.

    The products and the order of the sums are those of a column on the right.
    """
    lhs, rhs = a["lhs"], a["rhs"]
    row, column = _rank(lhs) == 1, _rank(rhs) == 1
    if (row and kwargs.pop("a_trans", False)) or (column and kwargs.pop("b_trans", False)):
        raise OpRejected("pl.matmul: a vector cannot be transposed", "leave a_trans= and b_trans= out for vectors")
    one = const_index(1)
    if row:
        lhs = ctx.op("tensor.reshape", (lhs, MakeTuple((one, *lhs.type.shape))))
    if column:
        turned = {} if kwargs.pop("a_trans", False) else {"b_trans": True}
        rhs = ctx.op("tensor.reshape", (rhs, MakeTuple((one, *rhs.type.shape))))
        made = ctx.op("tensor.matmul", (rhs, lhs), {**kwargs, **turned})
    else:
        made = ctx.op("tensor.matmul", (lhs, rhs), kwargs)
    shape = made.type.shape  # type: ignore[attr-defined]
    kept = (one,) if row and column else (*shape[:-2], shape[-1])
    return ctx.op("tensor.reshape", (made, MakeTuple(kept)))


def _matmul_acc(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    level = level_of("matmul_acc", space, (a["acc"], a["lhs"], a["rhs"]))
    kwargs = _only_tensors("matmul_acc", level, a, ("a_trans", "b_trans"))
    init = a["init_cond"]
    if isinstance(init, bool):
        init = ConstBool(init, ctx.span)
    return ctx.op(f"{level}.matmul_acc", (a["acc"], a["lhs"], a["rhs"], *(() if init is None else (init,))), kwargs)


def _plain(name: str, operands: tuple[str, ...]) -> Any:
    def build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
        kwargs = {"acc_phase": a["acc_phase"]} if a.get("acc_phase", "unspecified") != "unspecified" else {}
        return ctx.op(f"tile.{name}", tuple(a[n] for n in operands), kwargs)

    return build


_L, _RH, _A = Operand("lhs", "tile"), Operand("rhs", "tile"), Operand("acc", "tile")
_TL, _TR, _TA = Operand("lhs", "tensor"), Operand("rhs", "tensor"), Operand("acc", "tensor")
_INIT = Operand("init_cond", "scalar", optional=True)
_TURN = tuple(Attr(n, (bool,)) for n in ("a_trans", "b_trans"))
_PHASE = Attr("acc_phase", (str,))
_DTYPES = tuple(_SUM)
_ACC_DOC = "acc + lhs x rhs, in place; init_cond true, or nothing added to acc yet: lhs x rhs"


def _tensor_ops() -> tuple[OpDef, ...]:
    return (
        OpDef(
            "tensor.matmul",
            (_TL, _TR),
            _tensor_product,
            Matmul(0, 1),
            effects=(R, R),
            attrs=(Attr("out_dtype", (D,)), *_TURN, Attr("c_matrix_nz", (bool,))),
            to_tile=_matmul_to_tile,
            becomes=("tile.matmul", "tile.batch_matmul"),
            boxes=operand_boxes,
            dtypes=_DTYPES,
            doc="the product of matrices",
        ),
        OpDef(
            "tensor.matmul_acc",
            (_TA, _TL, _TR, _INIT),
            _tensor_acc,
            Matmul(1, 2, 0, 3),
            effects=(R, R, R, R),
            attrs=_TURN,
            to_tile=_acc_to_tile,
            becomes=("tile.matmul_acc", "tile.batch_matmul_acc"),
            boxes=operand_boxes,
            dtypes=_DTYPES,
            doc=_ACC_DOC,
        ),
    )


def _tile_ops() -> tuple[OpDef, ...]:
    made = [
        OpDef(
            "tile.transpose_view",
            (Operand("x", "tile"),),
            _turned_view,
            Special("view"),
            effects=(R,),
            spaces=(None,),
            out_space="inherit_from_input",
            dtypes=_DTYPES,
            doc="a tile in boxes read transposed; nothing moves",
        ),
    ]
    made += [
        OpDef(
            "tile.batch_matmul", (_L, _RH), _batch_product, Matmul(0, 1), effects=(R, R), attrs=_TURN, spaces=(LEFT, RIGHT),
            out_space=ACC[0], in_place=False, dtypes=_DTYPES,
            doc="lhs x rhs for each index of the leading axes, which broadcast",
        ),
        OpDef(
            "tile.batch_matmul_acc", (_A, _L, _RH, _INIT), _tile_acc, Matmul(1, 2, 0, 3), effects=(RW, R, R, R), attrs=_TURN,
            spaces=(ACC, LEFT, RIGHT, None), out_space=ACC[0], reuses=0, dtypes=_DTYPES,
            doc="acc + lhs x rhs for each index of the leading axes, in place",
        ),
    ]  # fmt: skip
    rules: tuple[tuple[str, Callable[[Infer], Infer]], ...] = (("matmul", _as_it_is), ("gemv", _gemv))
    for name, rule in rules:
        attrs = (_PHASE,) if name == "gemv" else ()
        made += [
            OpDef(
                f"tile.{name}", (_L, _RH), rule(_tile_product), Matmul(0, 1), effects=(R, R), attrs=attrs,
                spaces=(LEFT, RIGHT), out_space=ACC[0], in_place=False, pto=f"t{name}", dtypes=_DTYPES, doc="lhs x rhs",
            ),
            OpDef(
                f"tile.{name}_acc", (_A, _L, _RH, _INIT), rule(_tile_acc), Matmul(1, 2, 0, 3), effects=(RW, R, R, R), attrs=attrs,
                spaces=(ACC, LEFT, RIGHT, None), out_space=ACC[0], reuses=0, pto=f"t{name}.acc", dtypes=_DTYPES, doc=_ACC_DOC,
            ),
            OpDef(
                f"tile.{name}_bias", (_L, _RH, Operand("bias", "tile")), rule(_tile_bias), Matmul(0, 1, bias=2),
                effects=(R, R, R), attrs=attrs, spaces=(LEFT, RIGHT, BIAS), out_space=ACC[0], in_place=False,
                pto=f"t{name}.bias", dtypes=_DTYPES,
                doc="lhs x rhs, and then the bias [1, N] added to each row",
            ),
        ]  # fmt: skip
    return tuple(made)


OPS: tuple[OpDef, ...] = (*_tensor_ops(), *_tile_ops())

_BOTH = ("", "tensor", "tile")
_TRANS = (Param("a_trans", "attr", False), Param("b_trans", "attr", False))
DSL: tuple[Dsl, ...] = (
    Dsl(
        "matmul",
        _BOTH,
        (Param("lhs"), Param("rhs"), Param("out_dtype", "attr", None), *_TRANS, Param("c_matrix_nz", "attr", False)),
        _matmul,
        "the product of two matrices; tensors: transposed operands, and out_dtype (default: that of the operands)",
    ),
    Dsl(
        "matmul_acc",
        _BOTH,
        (Param("acc"), Param("lhs"), Param("rhs"), *_TRANS, Param("init_cond", default=None)),
        _matmul_acc,
        f"{_ACC_DOC}",
    ),
    Dsl(
        "batch_matmul",
        _BOTH,
        (Param("lhs"), Param("rhs"), Param("out_dtype", "attr", None), *_TRANS),
        lambda ctx, space, a: _matmul(ctx, space, {**a, "c_matrix_nz": False}),
        "products of matrices, one for each index of the leading axes, which broadcast",
    ),
    Dsl(
        "batch_matmul_acc", ("", "tile"), (Param("acc"), Param("lhs"), Param("rhs")),
        lambda ctx, space, a: ctx.op("tile.batch_matmul_acc", (a["acc"], a["lhs"], a["rhs"])),
        "acc + lhs x rhs for each index of the leading axes, in place",
    ),
    Dsl("matmul_bias", ("", "tile"), (Param("lhs"), Param("rhs"), Param("bias")), _plain("matmul_bias", ("lhs", "rhs", "bias")),
        "lhs x rhs + bias, a [1, N] tile in Bias memory"),
    *(
        Dsl(
            name, ("", "tile"), (*(Param(n) for n in operands), Param("acc_phase", "attr", "unspecified")),
            _plain(name, operands),
            "the product of a row and a matrix" + extra,
        )
        for name, operands, extra in (
            ("gemv", ("lhs", "rhs"), ""),
            ("gemv_acc", ("acc", "lhs", "rhs"), ", added to acc"),
            ("gemv_bias", ("lhs", "rhs", "bias"), ", plus a bias"),
        )
    ),
    Dsl("transpose_view", ("tile",), (Param("x"),), lambda ctx, space, a: ctx.op("tile.transpose_view", (a["x"],)),
        "a tile in boxes (Mat memory) read transposed; nothing moves"),
)  # fmt: skip

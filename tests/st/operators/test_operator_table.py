"""Every operator of the table that computes, for each of its dtypes, over every kind of valid rectangle.

The operands of a call follow from the table, its numbers from `operator_oracle`; numpy, the interpreter and native code in
all ways agree to the bit, or within the stated distance where a result is not exact.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import operator_data as data
import pytest
from operator_kit import (
    ASSEMBLE,
    OPTIMIZED,
    OTHER_PLANNERS,
    PLAIN,
    STORE,
    WITHOUT_BUFFERS,
    Arguments,
    Result,
    Unit,
    check,
    import_text,
)
from operator_oracle import ELEMENTWISE, REDUCTIONS, Meaning, packed

from pypto.debug import interpret
from pypto.dtypes import DataType
from pypto.errors import ArgumentValueError, KernelError
from pypto.ir import ops
from pypto.ir.opdef import COL, FULL, MASK, PART, ROW, SCALAR, UNUSED, Lanewise, Matmul, OpDef, Reduce, Special

Array = Any
D = DataType

SHAPE = ROWS, COLUMNS = 32, 96  # whole blocks for every dtype, along rows and along columns; more than 64 columns
CASTS = ("tensor.cast", "tile.cast")  # have tests of their own
INDEX = ((), D.INDEX)
# Vectors are a column and a row of larger tensors.
VECTOR_AT = {ROW: (0, 3), COL: (5, 0)}


class Rect(NamedTuple):
    """A physical shape and the valid extents in it, as text and as numbers; "r" and "c" come at run time."""

    name: str
    shape: tuple[int, int]
    valid: tuple[Any, Any]

    def extents(self, args: Arguments) -> tuple[int, int]:
        r, c = (args[v] if isinstance(v, str) else v for v in self.valid)
        return r, c


WHOLE = Rect("whole", SHAPE, SHAPE)
RUN_TIME = Rect("run-time rows and columns", SHAPE, ("r", "c"))
PARTIAL = (Rect("21 rows", SHAPE, (21, COLUMNS)), Rect("77 columns", SHAPE, (ROWS, 77)))
ONE_ROW, ONE_COLUMN = Rect("a row", (1, COLUMNS), (1, COLUMNS)), Rect("a column", (ROWS, 1), (ROWS, 1))
ALL = (WHOLE, *PARTIAL, RUN_TIME, ONE_ROW, ONE_COLUMN)
FEW = (WHOLE, RUN_TIME)


# -- one application -----------------------------------------------------------------------------------------------------


class Operands:
    """The operands of one application: statements that make them, their names, and what the oracle gets for them."""

    def __init__(self, op: OpDef, dtype: DataType, rect: Rect, tag: str) -> None:
        self.op, self.dtype, self.rect, self.tag = op, dtype, rect, tag
        self.lines: list[str] = []
        self.names: list[str] = []
        self.reads: list[Callable[[Arguments], Array]] = []
        for i, operand in enumerate(op.operands):
            # Scratch that may be left out is given once.
            if operand.optional and rect.name != PARTIAL[0].name:
                continue
            self.names.append(self.operand(i))

    def operand(self, i: int) -> str:
        pattern = self.pattern(i)
        if pattern == SCALAR:
            return self.scalar()
        if pattern == MASK:
            return self.mask(i)
        if pattern == UNUSED and i in self.op.scratch:
            return self.scratch(i)
        source = {ROW: "v", COL: "w"}.get(pattern, "xyv"[sum(self.pattern(j) in (FULL, PART) for j in range(i))])
        if isinstance(self.op.semantics, Reduce):
            source = {"sum": "x", "prod": "y"}.get(self.op.concept[4:], "z")
        return self.shaped(i, source, pattern, read=pattern != UNUSED or i == 0)

    def pattern(self, i: int) -> str:
        if isinstance(self.op.semantics, Reduce):
            return FULL if i == 0 else UNUSED
        assert isinstance(self.op.semantics, Lanewise)
        return self.op.semantics.patterns[i]

    def scalar(self) -> str:
        """A constant over the whole rectangle (rounded once), else the run-time scalar."""
        if self.rect.name == WHOLE.name:
            text = "0.1" if self.dtype.is_float() else "True" if self.dtype is D.BOOL else "3"
            value = np.asarray(float(text) if self.dtype.is_float() else 3).astype(self.dtype.numpy())
            self.reads.append(lambda _: value)
            return text
        self.reads.append(lambda a: np.asarray(a["s"]).astype(self.dtype.numpy()))
        return "s"

    def mask(self, i: int) -> str:
        name = self.shaped(i, "q", FULL, read=False)
        self.lines.append(f"m{name} = pl.tile.cmps({name}, 0, cmp_type=4)")
        self.reads.append(lambda a: self.window(a["q"], FULL, a) > 0)
        return f"m{name}"

    def scratch(self, i: int) -> str:
        name = f"{self.tag}_{i}"
        shape, dtype = ((1, 32), D.UINT8) if self.op.concept in ("sel", "sels") else (self.rect.shape, self.dtype)
        if self.op.concept == "prelu":
            shape, dtype = (self.rect.shape[0] + 1, COLUMNS), D.UINT8
        self.lines.append(f"{name} = pl.create_tile({list(shape)}, dtype=pl.{dtype.name}, target_memory=pl.Mem.Vec)")
        return name

    def shaped(self, i: int, source: str, pattern: str, read: bool) -> str:
        if read:
            self.reads.append(lambda a: self.window(a[source], pattern, a))
        name = f"{self.tag}_{i}"
        shape, valid = self.vector(self.rect.shape, pattern), self.vector(self.rect.valid, pattern)
        extents, window, at = f"[{valid[0]}, {valid[1]}]", list(shape), list(VECTOR_AT.get(pattern, (0, 0)))
        if self.op.level == "tile":
            self.lines.append(f"{name} = pl.load({source}, {at}, {window}, {extents})")
        elif self.rect.name == WHOLE.name and pattern == FULL:
            return source
        else:
            self.lines.append(f"{name} = pl.slice({source}, {window}, {at}, valid_shape={extents})")
        return name

    def vector(self, shape: tuple[Any, Any], pattern: str) -> tuple[Any, Any]:
        return (shape[0], 1) if pattern == ROW else (1, shape[1]) if pattern == COL else shape

    def window(self, x: Array, pattern: str, args: Arguments) -> Array:
        n, m = self.vector(self.rect.extents(args), pattern)
        i, j = VECTOR_AT.get(pattern, (0, 0))
        return x[i : i + n, j : j + m]


def fitted(op: OpDef, rect: Rect) -> Rect:
    """One row or column as a tile of that shape; valid in a larger tile where a vector of one element would arise."""
    patterns = op.semantics.patterns if isinstance(op.semantics, Lanewise) else ()
    axis = op.semantics.axis if isinstance(op.semantics, Reduce) else -1
    if (rect is ONE_ROW and (ROW in patterns or axis == 1)) or (rect is ONE_COLUMN and (COL in patterns or axis == 0)):
        return rect._replace(shape=SHAPE)
    return rect


def result(op: OpDef, dtype: DataType, rect: Rect, keywords: Mapping[str, Any], tag: str) -> Result:
    """One application of an operator, its result stored."""
    meaning = meaning_of(op)
    rect = fitted(op, rect)
    o = Operands(op, dtype, rect, tag)
    space, spelled = op.level, f"{op.concept}{'_' * keyword.iskeyword(op.concept)}"
    assert ops.find_dsl(space, spelled) is not None, f"the language cannot say {op.name}"
    words = [*o.names, *(f"{k}={v!r}" for k, v in keywords.items())]
    mask = isinstance(op.semantics, Lanewise) and op.semantics.result == MASK
    truth = op.concept in ("cmp", "cmps")
    everywhere = truth or op.concept in ("xor", "xors") or op.concept.startswith("part_")
    reduces = isinstance(op.semantics, Reduce)
    shape: tuple[int, int] = rect.shape
    if reduces:
        shape = (rect.shape[0], 1) if op.concept.startswith("row") else (1, rect.shape[1])
    out = D.UINT8 if mask else D.INT32 if "arg" in op.concept else dtype

    def want(args: Arguments) -> Array:
        with np.errstate(all="ignore"):
            values = meaning.f(*(read(args) for read in o.reads), **keywords)
        return packed(values) if mask else values.astype(dtype.numpy()) if truth else values

    return Result(
        f"{op.name}({', '.join(words)}) {dtype}, {rect.name} of {list(rect.shape)}",
        tuple(o.lines),
        f"pl.{space}.{spelled}({', '.join(words)})",
        out,
        (shape[0], COLUMNS if mask else shape[1]),
        want,
        meaning.ulps[dtype is D.FP16],
        meaning.any_zero,
        # Of tensors the result is valid everywhere, though it means something only where the operands are.
        "free" if everywhere and space == "tensor" else "untouched",
        ASSEMBLE if space == "tensor" else STORE,
    )


def meaning_of(op: OpDef) -> Meaning:
    table = REDUCTIONS if isinstance(op.semantics, Reduce) else ELEMENTWISE
    meaning = table.get(op.concept)
    assert meaning is not None, f"{op.name} is in the operator table, but operator_oracle.py does not say what it gives"
    return meaning


# -- the table -----------------------------------------------------------------------------------------------------------


def computing(level: str, kind: type) -> list[OpDef]:
    return [op for op in ops.ALL if op.level == level and isinstance(op.semantics, kind) and op.name not in CASTS]


def applications(op: OpDef, rects: tuple[Rect, ...]) -> Iterator[tuple[Mapping[str, Any], Rect]]:
    """Keywords and rectangles: the first choice of keywords over all rectangles, the others over a few."""
    if "cmp_type" in op.attrs:
        choices: list[dict[str, Any]] = [{"cmp_type": k} for k in (2, 0, 1, 3, 4, 5)]
    else:
        choices = [{}]
        if "high_precision" in op.attrs and op.level == "tensor":
            choices.append({"high_precision": True})
    for n, keywords in enumerate(choices):
        for rect in rects if n == 0 else FEW:
            yield keywords, rect


def kernels(level: str, kind: type, dtype: DataType) -> list[list[Result]]:
    """One kernel per operator and choice of keywords; columns, which keep a kernel from becoming one of buffers, apart."""
    made = []
    for op in computing(level, kind):
        if dtype in op.dtypes:
            by_choice: dict[str, list[Result]] = {}
            for n, (keywords, rect) in enumerate(applications(op, ALL if level == "tile" else FEW)):
                key = f"{keywords} {rect is ONE_COLUMN}"
                by_choice.setdefault(key, []).append(result(op, dtype, rect, keywords, f"t{n}"))
            made += by_choice.values()
    return made


def test_no_operator_is_forgotten() -> None:
    """Every operator computes as one of the tests here says, moves (`test_operator_moves`), multiplies (`test_matmul`), or
    is a conversion."""
    listed = {op.name: op for op in ops.ALL if op.level in ("tile", "tensor")}
    here = {op.name for level in ("tile", "tensor") for kind in (Lanewise, Reduce) for op in computing(level, kind)}
    moving = {op.name for op in listed.values() if isinstance(op.semantics, Special)}
    products = {op.name for op in listed.values() if isinstance(op.semantics, Matmul)}
    assert set(listed) - here - moving - products == set(CASTS), (
        "neither elementwise, nor a reduction, nor a move: write its tests"
    )
    assert [name for name in here if not listed[name].dtypes] == [], "operators without dtypes would be tried with none"
    for kind, table in ((Lanewise, ELEMENTWISE), (Reduce, REDUCTIONS)):
        concepts = {listed[name].concept for name in here if isinstance(listed[name].semantics, kind)}
        assert concepts == set(table), "operator_oracle.py says what each operator of the table gives, and no more"


def dtypes(kind: type) -> list[DataType]:
    return sorted({d for op in computing("tile", kind) for d in op.dtypes}, key=lambda d: d.code())


SCALARS: Mapping[str, tuple[Any, ...]] = {
    "f": (-2.75, 0.0, float("nan"), float("inf")),
    "i": (3, 0, -1, None),
    "u": (3, 0, 1, None),
    "b": (True, False, True, False),
}
EXTENTS = ((13, 65), (ROWS, COLUMNS), (1, 77), (ROWS, 1))
EMPTY = ((0, COLUMNS), (7, 0), (0, 0))


def scalar_values(dtype: DataType) -> list[Any]:
    kind = "f" if dtype.is_float() else "b" if dtype is D.BOOL else "i" if dtype.is_signed_int() else "u"
    return [int(np.iinfo(dtype.numpy()).min or np.iinfo(dtype.numpy()).max) if v is None else v for v in SCALARS[kind]]


@pytest.mark.parametrize("dtype", dtypes(Lanewise), ids=lambda d: d.name)
@pytest.mark.parametrize("level", ["tile", "tensor"])
def test_elementwise(level: str, dtype: DataType, tmp_path: Any) -> None:
    inputs = {
        "x": (SHAPE, dtype),
        "y": (SHAPE, dtype),
        "v": (SHAPE, dtype),
        "w": (SHAPE, dtype),
        "q": (SHAPE, D.INT32),
        "s": ((), dtype),
        "r": INDEX,
        "c": INDEX,
    }
    x, y = data.pair(dtype, SHAPE, 1)
    v, w = data.pair(dtype, SHAPE, 2)
    # One hard value for each row and each column.
    values = data.hard(dtype)
    v[:, VECTOR_AT[ROW][1]], w[VECTOR_AT[COL][0]] = np.resize(values, ROWS), np.resize(np.roll(values, 5), COLUMNS)
    fixed = {"x": x, "y": y, "v": v, "w": w, "q": data.for_extremes(D.INT32, SHAPE, 3)}
    scalars = scalar_values(dtype)
    calls = [
        {**fixed, "s": scalars[n % len(scalars)], "r": r, "c": c}  #
        for n, (r, c) in enumerate((*EXTENTS, *EMPTY))
    ]
    every = kernels(level, Lanewise, dtype)
    name = f"elementwise_{level}_{dtype.name.lower()}"
    with_buffers = [k for k in every if has_buffer_form(k, dtype)]
    if with_buffers:
        # As buffers and as tiles; columns stay tiles.
        found = check_level(Unit(f"{name}_buffers", inputs, with_buffers), level, dtype, tmp_path, calls, (0, 2, len(EXTENTS)))
        assert found == [n for n, k in enumerate(with_buffers) if ONE_COLUMN.name not in k[0].label]
    rest = Unit(name, inputs, [k for k in every if k not in with_buffers])
    assert not check_level(rest, level, dtype, tmp_path, calls, (0, 2, len(EXTENTS)))


def has_buffer_form(kernel: list[Result], dtype: DataType) -> bool:
    op = ops.get(kernel[0].label.partition("(")[0].replace("tensor.", "tile."))
    return op.buffer is not None and dtype in op.buffer.dtypes


def check_level(unit: Unit, level: str, dtype: DataType, directory: Any, calls: list[Any], interpreted: Any) -> list[int]:
    """Operators of tensors become those of tiles: fewer ways show that they become the right ones."""
    ways = (OPTIMIZED, PLAIN, *(WITHOUT_BUFFERS if level == "tile" else ()))
    ways += OTHER_PLANNERS if level == "tile" and dtype is D.FP32 else ()
    return check(unit, directory, calls, ways=ways, c_optimizer=level == "tile", interpreted=interpreted)


def reduction_inputs(dtype: DataType) -> tuple[dict[str, Any], dict[str, Array]]:
    """Parameters, and the arrays for those that are arrays."""
    arrays = {
        "x": data.for_sums(dtype, SHAPE, 4),
        "y": data.for_products(dtype, SHAPE, 5),
        "z": data.for_extremes(dtype, SHAPE, 6),
    }
    return {**dict.fromkeys(arrays, (SHAPE, dtype)), "r": INDEX, "c": INDEX}, arrays


@pytest.mark.parametrize("dtype", dtypes(Reduce), ids=lambda d: d.name)
@pytest.mark.parametrize("level", ["tile", "tensor"])
def test_reductions(level: str, dtype: DataType, tmp_path: Any) -> None:
    inputs, arrays = reduction_inputs(dtype)
    calls = [{**arrays, "r": r, "c": c} for r, c in EXTENTS]
    unit = Unit(f"reductions_{level}_{dtype.name.lower()}", inputs, kernels(level, Reduce, dtype))
    check_level(unit, level, dtype, tmp_path, calls, (0, 2))


@pytest.mark.parametrize("dtype", [D.FP32, D.INT16], ids=lambda d: d.name)
def test_wide_rows(dtype: DataType, tmp_path: Any) -> None:
    """Several times 64 columns, and one less and more: every lane and the rest take part in order."""
    shape = (16, 320)
    arrays = {
        "x": data.for_sums(dtype, shape, 7),
        "y": data.for_products(dtype, shape, 8),
        "z": data.for_extremes(dtype, shape, 9),
    }
    inputs = {**dict.fromkeys(arrays, (shape, dtype)), "r": INDEX, "c": INDEX}
    wide = [Rect("320 columns", shape, shape), Rect("200 columns", shape, (16, 200)), Rect("c columns", shape, ("r", "c"))]
    chosen = [op for op in computing("tile", Reduce) if op.concept.startswith("row")]
    kernels = [[result(op, dtype, rect, {}, f"t{n}") for n, rect in enumerate(wide)] for op in chosen]
    calls = [{**arrays, "r": 16, "c": c} for c in (63, 64, 65, 127, 128, 129, 255, 300)]
    check(Unit("wide_rows", inputs, kernels), tmp_path, calls, ways=(OPTIMIZED, PLAIN), interpreted=(0, 2, 7))


@pytest.mark.parametrize(("axis", "extents"), [("row", (0, COLUMNS)), ("col", (ROWS, 0))])
def test_no_lines_to_reduce(axis: str, extents: tuple[int, int], tmp_path: Any) -> None:
    """Without a row there is no row sum to store; that is no error."""
    inputs, arrays = reduction_inputs(D.FP32)
    chosen = [op for op in computing("tile", Reduce) if op.concept.startswith(axis)]
    unit = Unit(f"no_{axis}", inputs, [[result(op, D.FP32, RUN_TIME, {}, f"t{n}") for n, op in enumerate(chosen)]])
    check(unit, tmp_path, [{**arrays, "r": extents[0], "c": extents[1]}], ways=(OPTIMIZED, PLAIN))


@pytest.mark.parametrize(
    ("concept", "extents"), [("row_sum", (3, 0)), ("row_argmax", (1, 0)), ("col_max", (0, 4)), ("col_prod", (0, 1))]
)
def test_an_empty_line_has_no_value(concept: str, extents: tuple[int, int], tmp_path: Any) -> None:
    inputs, arrays = reduction_inputs(D.FP32)
    unit = Unit("empty", inputs, [[result(ops.get(f"tile.{concept}"), D.FP32, RUN_TIME, {}, "t")]])
    kernel, args = unit.load(tmp_path), [*arrays.values(), *extents]
    for run in (kernel, lambda *a: interpret(kernel.specialize(*a), a)):
        outputs = unit.fresh_outputs()
        with pytest.raises(KernelError, match="empty") as e:
            run(*args, *outputs)
        assert e.value.span["line"] == 1 + unit.text().splitlines().index(
            next(s for s in unit.text().splitlines() if concept in s)
        )
        assert all((o == f).all() for o, f in zip(outputs, unit.fresh_outputs(), strict=True))


IN_PLACE = """import pypto.language as pl


@pl.jit
def {name}(x: pl.Tensor[[32, 96], pl.FP32], o: pl.Out[pl.Tensor[[32, 96], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.tile.neg(pl.load(x, {source}))
        o = pl.store({value}, [0, 3], o)
    return o
"""


def test_a_column_in_place(tmp_path: Any) -> None:
    """A column is computed with as a row of lanes; each of its elements is still read before it is written."""
    x = data.ordinary(D.FP32, SHAPE, np.random.default_rng(12))
    want = x.copy()
    want[:, 3] = -x[:, 3]
    kernel = import_text("column", IN_PLACE.format(name="column", source="[0, 3], [32, 1]", value="t"), tmp_path)
    kernel(x, x)
    assert x.tobytes() == want.tobytes()


def test_a_row_over_a_column_in_place_is_refused(tmp_path: Any) -> None:
    x = data.ordinary(D.FP32, SHAPE, np.random.default_rng(13))
    text = IN_PLACE.format(name="turned", source="[0, 3], [1, 32]", value="pl.reshape(t, [32, 1])")
    kernel, before, o = import_text("turned", text, tmp_path), x.copy(), x.copy()
    with pytest.raises(ArgumentValueError, match="the same array"):
        kernel(x, x)
    assert x.tobytes() == before.tobytes()
    kernel(x, o)
    before[:, 3] = -x[0, 3:35]
    assert o.tobytes() == before.tobytes()

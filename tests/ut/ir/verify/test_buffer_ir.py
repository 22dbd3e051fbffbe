"""Kernels of the buffer stage: what their form and their storage must be."""

from collections.abc import Callable
from typing import Any

import pytest

import pypto.ir.operators  # noqa: F401  comparing expressions by mistake is an error
from pypto.dtypes import DataType as D
from pypto.enums import FunctionIRStage, FunctionType, MemorySpace
from pypto.ir import ops, scalar
from pypto.ir.expr import (
    Call,
    ConstFloat,
    ConstInt,
    Expr,
    GlobalVar,
    IterArg,
    MakeTuple,
    MemRef,
    Op,
    TupleGetItemExpr,
    Var,
    const_index,
)
from pypto.ir.program import Function, Program
from pypto.ir.shaped import BufferType, TensorType, TensorView, TileType
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, IfStmt, ReturnStmt, Stmt, WhileStmt, YieldStmt, seq
from pypto.ir.types import PtrType, ScalarType, TupleType, Type, VoidType
from pypto.ir.verify.buffer_ir import buffer_ir, check_buffer_function
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.registry import judge_of
from pypto.span import Span

VEC, ACC = MemorySpace.Vec, MemorySpace.Acc
INDEX = ScalarType.of(D.INDEX)


def tup(*values: int | Expr) -> MakeTuple:
    return MakeTuple(const_index(v) if isinstance(v, int) else v for v in values)


class Lab:
    """Writes a kernel over x, o, n, m statement by statement."""

    def __init__(self) -> None:
        self.x, self.o = (Var(name, TensorType([64, 32], D.FP32)) for name in "xo")
        self.n, self.m = Var("n", INDEX), Var("m", INDEX)
        self.params: list[Var] = [self.x, self.o, self.n, self.m]
        self.body: list[Stmt] = []
        self.attrs: dict[str, Any] = {}

    def let(self, name: str, value: Expr) -> Var:
        v = Var(name, value.type)
        self.body.append(AssignStmt(v, value))
        return v

    def made(self, op: str, args: list[Expr], result: Type | None = None) -> Call:
        return ops.get(f"buffer.{op}").call(args, None, Span.unknown(), result)

    def alloc(
        self,
        name: str,
        address: int | Expr | None = None,
        shape: tuple[int, int] = (16, 32),
        valid: tuple[int, int] | None = None,
        space: MemorySpace = VEC,
        dtype: D = D.FP32,
    ) -> Var:
        dynamic = [self.n] * sum(v < 0 for v in valid or ())
        at = [] if address is None else [ConstInt(address, D.INT64) if isinstance(address, int) else address]
        return self.let(name, self.made("alloc", [tup(*dynamic), *at], BufferType(shape, dtype, space, valid)))

    def view(self, name: str, source: Var, row: int | Expr, col: int | Expr, shape: tuple[int, int]) -> Var:
        t = source.type
        assert isinstance(t, BufferType)
        return self.let(name, self.made("subview", [source, tup(row, col)], BufferType(shape, t.dtype, t.memory_space)))

    def do(self, op: str, *args: Expr) -> Call:
        c = self.made(op, list(args))
        self.body.append(EvalStmt(c))
        return c

    def load(self, to: Var, rows: int = 16, cols: int = 32) -> None:
        self.do("load", self.x, tup(0, 0), tup(rows, cols), to)

    def function(self) -> Function:
        return Function(
            "k", self.params, [], seq(self.body), type=FunctionType.InCore, attrs=self.attrs, ir_stage=FunctionIRStage.Buffer
        )

    def findings(self) -> list[str]:
        f = self.function()
        found = [d.message for d in check_buffer_function(f)]
        assert [d.message for d in buffer_ir(Program([f]))] == found
        return found


def test_a_sound_kernel():
    k = Lab()
    a, b = k.alloc("a", 0), k.alloc("b", 2048)
    k.load(a)
    k.do("muls", a, ConstFloat(2.0, D.FP32), b)
    k.do("add", a, b, b)
    arm = [EvalStmt(k.made("copy", [a, b]))]
    k.body.append(IfStmt(scalar.gt(k.n, const_index(0)), seq(arm), None))
    k.do("store", b, tup(0, 0), tup(16, 32), k.o)
    assert k.findings() == []
    assert list(judge_of(IRProperty.BufferIR)(Program([k.function()]))) == []


def test_other_stages_are_not_looked_at():
    k = Lab()
    k.body.append(YieldStmt([k.alloc("a")]))
    f = k.function()
    assert list(buffer_ir(Program([f]))) != []
    assert list(buffer_ir(Program([f.replace(ir_stage=FunctionIRStage.Functional)]))) == []


# -- form ------------------------------------------------------------------------------------------------------------


def _tile_left(k: Lab) -> None:
    t = TileType([16, 32], D.FP32, None, None, VEC)
    k.params.append(Var("t", t))


def _tuple_of_tiles(k: Lab) -> None:
    k.params.append(Var("t", TupleType([INDEX, TileType([16, 32], D.FP32, None, None, VEC)])))


def _tile_operator(k: Lab) -> None:
    load = ops.create_op_call("tile.load", [k.x, tup(0, 0), tup(16, 32), tup(16, 32)], {"target_memory": VEC})
    k.body.append(EvalStmt(load))


def _memref(k: Lab) -> None:
    base = Var("base", PtrType.get())
    k.params.append(base)
    a = k.alloc("a")
    fresh = k.made("copy", [a, a])
    k.body.append(EvalStmt(fresh.replace(args=(a, MemRef(base, 0, 2048)))))


def _unknown_operator(k: Lab) -> None:
    k.body.append(EvalStmt(Call(Op("buffer.twist"), [k.alloc("a")], VoidType.get(), Span.unknown())))


def _wrong_call(k: Lab) -> None:
    a, b = k.alloc("a"), k.alloc("b", shape=(8, 32))
    c = k.made("copy", [a, a])
    k.body.append(EvalStmt(c.replace(args=(a, b))))


def _wrong_type(k: Lab) -> None:
    a = k.alloc("a")
    c = k.made("copy", [a, a]).replace(type=INDEX)
    k.body.append(EvalStmt(c))


def _dropped_result(k: Lab) -> None:
    k.body.append(EvalStmt(k.made("alloc", [tup()], BufferType((16, 32), D.FP32, VEC))))


def _alias(k: Lab) -> None:
    k.let("b", k.alloc("a"))


def _in_a_tuple(k: Lab) -> None:
    k.let("p", MakeTuple([k.alloc("a"), k.alloc("b")]))


def _out_of_a_tuple(k: Lab) -> None:
    k.let("b", TupleGetItemExpr(MakeTuple([k.alloc("a")]), 0))


def _parameter(k: Lab) -> None:
    p = Var("p", BufferType((16, 32), D.FP32, VEC))
    k.params.append(p)
    k.body.append(AssignStmt(p, k.made("alloc", [tup()], p.type)))


def _foreign_operand(k: Lab) -> None:
    k.body.append(EvalStmt(Call(GlobalVar("g"), [k.alloc("a")], VoidType.get(), Span.unknown())))


def _foreign_result(k: Lab) -> None:
    k.let("a", Call(GlobalVar("g"), [k.n], BufferType((16, 32), D.FP32, VEC), Span.unknown()))


def _loop_carry(k: Lab) -> None:
    a = k.alloc("a")
    c, r = IterArg("c", a.type, a), Var("r", a.type)
    k.body.append(ForStmt(Var("i", INDEX), const_index(0), k.n, const_index(1), [c], YieldStmt([c]), [r]))


def _while_carry(k: Lab) -> None:
    a = k.alloc("a")
    c, r = IterArg("c", a.type, a), Var("r", a.type)
    k.body.append(WhileStmt(scalar.gt(k.n, const_index(0)), [c], YieldStmt([c]), [r]))


def _branch_result(k: Lab) -> None:
    a, b = k.alloc("a"), k.alloc("b")
    k.body.append(IfStmt(scalar.gt(k.n, const_index(0)), YieldStmt([a]), YieldStmt([b]), [Var("r", a.type)]))


def _returned(k: Lab) -> None:
    k.body.append(ReturnStmt([k.alloc("a")]))


def _function_attribute(k: Lab) -> None:
    k.attrs["kept"] = k.alloc("a")


def _loop_attribute(k: Lab) -> None:
    a = k.alloc("a")
    loop = ForStmt(Var("i", INDEX), const_index(0), k.n, const_index(1), [], seq([]), [], attrs={"kept": a})
    k.body.append(loop)


def _call_attribute(k: Lab) -> None:
    c = Call(GlobalVar("g"), [k.n], VoidType.get(), Span.unknown())
    k.body.append(EvalStmt(c.replace(attrs=c.attrs.with_(kept=k.alloc("a")))))


def _type_metadata(k: Lab) -> None:
    a = k.alloc("a")
    k.params.append(Var("w", TensorType([64, 32], D.FP32, tensor_view=TensorView(stride=[a, const_index(1)]))))


def _used_before(k: Lab) -> None:
    a = k.alloc("a")
    k.load(a)
    k.body.reverse()


def _used_outside_its_arm(k: Lab) -> None:
    a = k.alloc("a")
    arm = k.body.pop()
    k.body.append(IfStmt(scalar.gt(k.n, const_index(0)), arm, None))
    k.load(a)


FORM: dict[str, tuple[Callable[[Lab], None], str]] = {
    "a tile": (_tile_left, "Logical TileType"),
    "a tuple of tiles": (_tuple_of_tiles, "Logical TileType"),
    "a tile operator": (_tile_operator, "Logical tile operation tile.load"),
    "a memref": (_memref, "Standalone MemRef/Ptr"),
    "no such operator": (_unknown_operator, "no registered buffer-stage contract"),
    "operands it refuses": (_wrong_call, "Invalid buffer call buffer.copy"),
    "another type": (_wrong_type, "Invalid buffer call buffer.copy"),
    "a result nobody has": (_dropped_result, "must be assigned"),
    "two names": (_alias, "implicit alias"),
    "in a tuple": (_in_a_tuple, "direct results of registered buffer"),
    "out of a tuple": (_out_of_a_tuple, "direct results of registered buffer"),
    "a parameter set": (_parameter, "Incoming buffer parameter 'p' cannot be redefined"),
    "to a function": (_foreign_operand, "cannot carry buffer handles"),
    "from a function": (_foreign_result, "can produce a buffer handle"),
    "a loop's carry": (_loop_carry, "cannot carry buffer handles"),
    "a while's carry": (_while_carry, "cannot carry buffer handles"),
    "a branch's result": (_branch_result, "cannot carry buffer handles"),
    "returned": (_returned, "cannot be yielded or returned"),
    "a function's attribute": (_function_attribute, "cannot carry buffer handles"),
    "a loop's attribute": (_loop_attribute, "cannot carry buffer handles"),
    "a call's attribute": (_call_attribute, "cannot carry buffer handles"),
    "in a type": (_type_metadata, "Type metadata of 'w' cannot carry buffer handles"),
    "before its definition": (_used_before, "'a'"),
    "outside of its arm": (_used_outside_its_arm, "'a'"),
}


@pytest.mark.parametrize(("breaks", "words"), FORM.values(), ids=list(FORM))
def test_form(breaks, words):
    k = Lab()
    breaks(k)
    assert any(words in m for m in k.findings()), k.findings()


# -- storage ---------------------------------------------------------------------------------------------------------


PARTIAL, DISJOINT = "rejects partially overlapping placed", "requires disjoint placed"
UNKNOWN = "requires provably disjoint constant addresses or addressless allocations"


@pytest.mark.parametrize(
    ("op", "addresses", "words"),
    [
        ("exp", (0, 2048), None),
        ("exp", (0, 0), None),  # exactly over its operand
        ("exp", (0, 32), PARTIAL),
        ("exp", (2016, 0), PARTIAL),
        ("exp", (None, None), None),
        ("exp", (None, 0), UNKNOWN),
        ("recip", (0, 2048), None),
        ("recip", (0, 0), DISJOINT),
        ("recip", (0, 32), DISJOINT),
        ("recip", (None, None), None),
    ],
)
def test_addresses_of_operands(op, addresses, words):
    k = Lab()
    a, b = (k.alloc(name, at) for name, at in zip("ab", addresses, strict=True))
    k.do(op, a, b)
    found = k.findings()
    assert len(found) == (words is not None)
    assert all(words in m and f"buffer.{op}: 'a' and 'b'" in m for m in found)


@pytest.mark.contract("B049")
def test_a_handle_over_itself():
    k = Lab()
    a = k.alloc("a")
    k.do("exp", a, a)
    assert k.findings() == []
    k.do("recip", a, a)
    (m,) = k.findings()
    assert DISJOINT in m


def test_memories_do_not_meet():
    k = Lab()
    k.alloc("c", 0, space=ACC)
    a, b = k.alloc("a", 0), k.alloc("b", 2048)
    k.do("recip", a, b)
    assert k.findings() == []


@pytest.mark.contract("B081", "B200", "B201", "B202")
@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ((0, 0), (8, 0), None),
        ((0, 0), (0, 0), None),
        ((0, 0), (4, 0), PARTIAL),
        ((0, 0), (0, 16), PARTIAL),  # beside one another, but the gaps of rows count
        ((0, 0), ("n", 0), PARTIAL),  # anywhere in the whole
    ],
)
def test_windows(first, second, words):
    k = Lab()
    whole = k.alloc("whole", 0)
    at = {"n": k.n}
    shape = (8, 16)
    a, b = (k.view(name, whole, at.get(row, row), col, shape) for name, (row, col) in (("a", first), ("b", second)))
    k.do("exp", a, b)
    found = k.findings()
    assert len(found) == (words is not None)
    assert all(words in m for m in found)


@pytest.mark.parametrize(("col", "words"), [(16, None), (8, PARTIAL), (0, None)])
def test_windows_of_one_row(col, words):
    k = Lab()
    whole = k.alloc("whole", 0)
    a, b = k.view("a", whole, 3, 0, (1, 16)), k.view("b", whole, 3, col, (1, 16))
    k.do("exp", b, a)
    assert [words in m for m in k.findings()] == ([True] if words else [])


def test_windows_of_different_wholes():
    k = Lab()
    a, b = k.alloc("a", 0), k.alloc("b", 2048)
    v, w = k.view("v", a, k.n, 0, (8, 32)), k.view("w", b, k.m, 0, (8, 32))
    k.do("exp", v, w)
    assert k.findings() == []


def test_relabels_keep_their_bytes():
    k = Lab()
    a = k.alloc("a", 0)
    r = k.let("r", k.made("reshape", [a], BufferType((8, 64), D.FP32, VEC)))
    low, other = k.view("low", r, 0, 0, (4, 32)), k.view("other", a, 2, 0, (4, 32))
    k.do("exp", low, other)
    (m,) = k.findings()
    assert PARTIAL in m


def test_addresses_are_constants_folded_through_scalars():
    k = Lab()
    base = k.let("base", ConstInt(1024, D.INT64))
    at = k.let("at", scalar.add(base, ConstInt(1024, D.INT64)))
    a, b = k.alloc("a", 0), k.alloc("b", at)
    k.do("recip", a, b)
    assert k.findings() == []
    k.alloc("c", k.n)
    (m,) = k.findings()
    assert "requires a constant effective address" in m


def test_views_come_from_known_storage():
    k = Lab()
    other = Var("p", BufferType((16, 32), D.FP32, VEC))
    k.params.append(other)
    k.view("v", other, 0, 0, (8, 32))
    assert k.findings() == []


# -- extents ---------------------------------------------------------------------------------------------------------


@pytest.mark.contract("B210")
def test_extents_are_set_on_what_owns_them():
    k = Lab()
    a = k.alloc("a", valid=(-1, -1))
    k.do("set_validshape", a, tup(k.n, k.m))
    k.do("exp", a, a)
    assert k.findings() == []
    w = k.let("w", k.made("subview", [a, tup(0, 0), tup(k.n, k.m)], BufferType((8, 32), D.FP32, VEC, (-1, -1))))
    k.do("set_validshape", w, tup(k.n, k.m))
    assert any("cannot mutate static view metadata" in m for m in k.findings())


def windowed(after: bool, in_loop: bool) -> list[str]:
    """A window cut before or after the extents of its buffer change, at one level or in a loop."""
    k = Lab()
    a, b = k.alloc("a", valid=(-1, -1)), k.alloc("b", shape=(8, 32), valid=(-1, -1))
    k.do("set_validshape", b, tup(k.n, k.m))
    start = len(k.body)
    if after:
        k.do("set_validshape", a, tup(k.n, k.m))
    w = k.let("w", k.made("subview", [a, tup(0, 0), tup(k.n, k.m)], BufferType((8, 32), D.FP32, VEC, (-1, -1))))
    outer = len(k.body) if in_loop else start
    if not after and not in_loop:
        k.do("set_validshape", a, tup(k.n, k.m))
    k.do("exp", w, b)
    k.do("exp", w, b)
    if in_loop:
        k.do("set_validshape", a, tup(k.m, k.n))
        inner, k.body = k.body[outer:], k.body[:outer]
        k.body.append(ForStmt(Var("i", INDEX), const_index(0), k.n, const_index(1), [], seq(inner), []))
    return k.findings()


def test_windows_of_former_extents():
    assert windowed(after=True, in_loop=False) == []
    for found in (windowed(after=False, in_loop=False), windowed(after=True, in_loop=True)):
        assert len(found) == 2
        assert all("'w' was cut before the extents of its buffer changed" in m for m in found)


@pytest.mark.parametrize("name", ["load", "store"])
@pytest.mark.parametrize(("told", "where"), [("nm", ""), ("mn", ""), ("n4", ""), ("nm", "if"), ("mn", "if"), ("mn", "loop")])
def test_transfers_are_of_the_extents_that_the_buffer_was_told(name, told, where):
    k = Lab()
    known = {"n": k.n, "m": k.m, "4": const_index(4)}
    a = k.alloc("a", valid=(-1, -1))
    k.do("set_validshape", a, tup(k.n, k.m))
    start = len(k.body)
    k.do("set_validshape", a, tup(*(known[c] for c in told)))
    if where:
        inner, k.body = seq(k.body[start:]), k.body[:start]
        branch = IfStmt(scalar.gt(k.n, const_index(0)), inner, None, ())
        loop = ForStmt(Var("i", INDEX), const_index(0), k.n, const_index(1), [], inner, [])
        k.body.append(branch if where == "if" else loop)
    args = (k.x, tup(0, 0), tup(k.n, k.m), a)
    k.do(name, *(args if name == "load" else (a, *args[1:3], k.o)))
    # What one of two paths told the buffer is not known afterwards.
    wrong = told != "nm" and not where
    assert [m.split(": ", 1)[1] for m in k.findings()] == wrong * [f"buffer.{name}: other extents than those that 'a' was told"]


@pytest.mark.contract("B124", "B125")
@pytest.mark.parametrize("name", ["add", "copy", "exp"])
@pytest.mark.parametrize(
    ("rows", "view", "sound"), [("n", False, True), ("m", False, False), ("n", True, True), ("m", True, False)]
)
def test_what_is_combined_was_told_the_same(name, rows, view, sound):
    """Two extents of run time are the same if the expressions are: by the descriptors anything goes."""
    k = Lab()
    a, b, c = (k.alloc(letter, valid=(-1, -1)) for letter in "abc")
    for h in (a, c):
        k.do("set_validshape", h, tup(k.n, k.m))
    first = k.n if rows == "n" else k.m
    if view:
        whole = k.alloc("whole")
        b = k.let("b", k.made("subview", [whole, tup(0, 0), tup(first, k.m)], BufferType((16, 32), D.FP32, VEC, (-1, -1))))
    else:
        k.do("set_validshape", b, tup(first, k.m))
    k.do(name, *((a, b, c) if name == "add" else (b, c)))
    assert [m.split(": ", 1)[1] for m in k.findings()] == (not sound) * [
        f"buffer.{name}: other extents than those that 'b' was told"
    ]


def test_constants_are_transferred_into_run_time_extents():
    k = Lab()
    a = k.alloc("a", valid=(-1, -1))
    k.do("set_validshape", a, tup(16, k.m))
    k.do("load", k.x, tup(0, 0), tup(16, k.m), a)
    k.do("store", a, tup(0, 0), tup(16, k.m), k.o)
    assert k.findings() == []
    k.do("load", k.x, tup(0, 0), tup(8, k.m), a)
    assert len(k.findings()) == 1


@pytest.mark.contract("B086", "B201")
@pytest.mark.parametrize(("row", "words"), [("n", PARTIAL), (0, None)])
def test_a_constant_offset_into_a_run_time_window_is_no_known_place(row, words):
    """The upper half of the one and the lower half of the other: apart only if both halves are where they seem to be."""
    k = Lab()
    whole = k.alloc("whole", 0)
    outer = k.view("outer", whole, k.n if row == "n" else row, 0, (8, 32))
    inner, other = k.view("inner", outer, 4, 0, (4, 32)), k.view("other", whole, 8, 0, (4, 32))
    k.do("exp", inner, other)
    found = k.findings()
    assert len(found) == (words is not None)
    assert all(words in m for m in found)


@pytest.mark.contract("B142")
@pytest.mark.parametrize("carries", [_loop_carry, _while_carry, _branch_result])
def test_no_buffer_goes_through_control_flow(carries):
    k = Lab()
    carries(k)
    assert any("control flow cannot carry buffer handles" in m for m in k.findings())


@pytest.mark.contract("B141")
def test_a_view_made_in_an_arm_is_seen_in_that_arm_only():
    k = Lab()
    a = k.alloc("a")
    k.load(a)
    v = k.view("v", a, 0, 0, (8, 32))
    arm = k.body.pop()
    k.body.append(IfStmt(scalar.gt(k.n, const_index(0)), arm, None))
    k.do("exp", v, v)
    assert any("'v'" in m for m in k.findings())

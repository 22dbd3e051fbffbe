"""Breakages of the compiler, rule by rule: under each of them the tests of that rule must fail.

In: the number of a rule of `docs/contract.md`.  Out: a context manager under which the rule does not hold.
A breakage changes one function or one constant of the compiler, as somebody who edits it might, and nothing of the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from pypto.debug import memory as debug_memory
from pypto.debug import products as debug_products
from pypto.dtypes import DataType as D
from pypto.enums import ArgEffect, MemoryPlanner, MemorySpace, ParamDirection, SplitMode
from pypto.errors import CompileError
from pypto.frontend import calls
from pypto.ir import arith, ops
from pypto.ir.expr import Call, ConstFloat, ConstInt, Expr, MakeTuple, Var, const_index
from pypto.ir.ops import buffer as buffer_ops
from pypto.ir.ops import gathers, lanes, matmul, paging, scatters
from pypto.ir.program import Function
from pypto.ir.rewrite import substitute
from pypto.ir.serialization import serialize
from pypto.ir.shaped import TensorType
from pypto.ir.verify import accumulators, lane_regions
from pypto.passes import pipeline
from pypto.passes.context import PassContext, PassOptions
from pypto.passes.convert_tensor_to_tile_ops import body, boxing, bridges, callers, carries, fills, flow, products, staging
from pypto.passes.convert_tensor_to_tile_ops.chains import Chain
from pypto.passes.lower_tile_to_buffer import convert, descriptors, locality, storage, windows
from pypto.passes.lower_tile_to_buffer import matrix as lower_matrix
from pypto.passes.memory import spaces
from pypto.passes.select_buffer_ir_functions import matrix as select_matrix
from pypto.passes.select_buffer_ir_functions import rules
from pypto.passes.ssa_rewriter import SSARewriter, typed_call
from pypto.passes.statements import statements
from pypto.testing import running

__all__ = ["MUTATIONS"]

Breakage = Callable[[], AbstractContextManager[object]]
PACKAGE = import_module("pypto.passes.convert_tensor_to_tile_ops")
FLATTEN = import_module("pypto.passes.flatten_tile_nd_to_2d")
INFER = import_module("pypto.passes.infer_tile_memory_space")
LOWERING = import_module("pypto.passes.lower_tile_to_buffer")
RULES: Any = rules._Rules
REWRITER = import_module("pypto.passes.ssa_rewriter")
THE_PASS = pipeline.find_pass("convert_tensor_to_tile_ops")
Converter: Any = body.BodyConverter
Vec, Mat = MemorySpace.Vec, MemorySpace.Mat


def put(owner: Any, name: str, new: Any) -> Breakage:
    """Something else in the place of a function or constant."""
    return lambda: patch.object(owner, name, new)


def around(owner: Any, name: str, new: Callable[..., Any]) -> Breakage:
    """A function that is given the one in whose place it is as its first argument."""

    def broken() -> AbstractContextManager[object]:
        original = getattr(owner, name)
        return patch.object(owner, name, lambda *args, **kwargs: new(original, *args, **kwargs))

    return broken


def together(*breakages: Breakage) -> Breakage:
    @contextmanager
    def broken() -> Iterator[None]:
        with ExitStack() as stack:
            for b in breakages:
                stack.enter_context(b())
            yield

    return broken


def op(name: str, facet: str, new: Any) -> Breakage:
    """Another facet in an operator's declaration."""
    return lambda: patch.object(ops.get(name), facet, new)


# -- reads and writes of global memory -------------------------------------------------------------------------------


def every_tensor(f: Function, *_: Any) -> frozenset[Var]:
    """Every tensor parameter, written or not."""
    return frozenset(p for p in f.params if isinstance(p.type, TensorType))


def whatever_is_called(original: Any, f: Function, known: Any, found: Any) -> Any:
    return original(f, flow.GmFlow(known.roots, False), found)


def takes_the_place(original: Any, self: Any, e: Expr) -> Expr:
    """The loaded tile stands for its tensor from then on."""
    made: Expr = original(self, e)
    if isinstance(e, Var) and isinstance(e.type, TensorType):
        self.vars.update({v: made for v in (e, *self.f.params) if v is e})
    return made


def of_the_parameter(original: Any, self: Any, e: Expr) -> Expr:
    """Loads come from the parameter, whatever version of it is meant."""
    roots = self.flow.roots.get(e, frozenset()) if isinstance(e, Var) else frozenset()
    made: Expr = original(self, next(iter(roots)) if len(roots) == 1 else e)
    return made


def once_for_all(original: Any, self: Any, e: Expr) -> Expr:
    """One load of each tensor at the beginning, whatever is written."""
    self.shared = every_tensor(self.f)
    return of_the_parameter(original, self, e)


def without_stores(self: Any, s: Any) -> Any:
    return SSARewriter.rebuild(self, s)


def new_params(original: Any, f: Function, found: Any) -> Function:
    made: Function = original(f, found)
    return made.replace(params=tuple(Var(p.name_hint, p.type, p.span) for p in made.params))


def write_through_the_chip(lo: Any, call: Call, args: tuple[Expr, ...]) -> Expr:
    """The whole tensor loaded, changed and stored."""
    zeros = MakeTuple(const_index(0) for _ in call.type.shape)  # type: ignore[attr-defined]
    changed: Expr = lo.emit("tile.write", (lo.tile(args[0]), *args[1:]))
    stored: Expr = lo.emit("tile.store", (changed, zeros, args[0]))
    return stored


def in_order_of_use(self: Any, s: Any) -> None:
    """Loads are remembered from one statement to the next."""
    SSARewriter.statement(self, s)


# -- effects ---------------------------------------------------------------------------------------------------------


def writes_read_too(original: Any, f: Function, found: Any) -> Function:
    made: Function = original(f, [a._replace(effect=ArgEffect.ReadWrite) if a.effect is ArgEffect.Write else a for a in found])
    return made


def every_direction_anew(f: Function, found: Any) -> Function:
    reads = {r for a in found if a.effect is not ArgEffect.Write for r in a.roots}
    writes = {r for a in found if a.effect is not ArgEffect.Read for r in a.roots}
    P = ParamDirection
    new = tuple((P.InOut if p in reads else P.Out) if p in writes else P.In for p in f.params)
    return f.replace(param_directions=new)


def no_aliases(original: Any, self: Any, var: Var, e: Expr) -> Any:
    """Another name of a tensor is another tensor."""
    roots = original(self, var, e)
    return frozenset((var,)) if roots is not None and isinstance(e, Var) else roots


def loops_begin_anew(original: Any, self: Any, s: Any) -> None:
    """What a loop carries has nothing to do with what it begins with."""
    for a in s.iter_args:
        if isinstance(a.type, TensorType):
            self.bind(a, frozenset((a,)))
    self.body(s.body)


def never(*_: Any, **__: Any) -> None:
    return None


def always(*_: Any, **__: Any) -> None:
    raise CompileError("refused", None, "nothing helps")


def any_loop(s: Any) -> int | None:
    return s.stop.value if isinstance(s.stop, ConstInt) else None


def any_region(target: Var, indices: tuple[Expr, ...], i: Var) -> tuple[tuple[Expr, ...], int]:
    return tuple(substitute(e, {i: const_index(0)}) for e in indices), len(indices) - 1


def any_value(original: Any, s: Any) -> Any:
    """Values that the loop changes, or that are read at run time, count as constants."""
    with patch.object(fills, "ConstInt", (ConstInt, Var, Call, Expr)):
        return original(s)


def closed(original: Any, *args: Any) -> Chain:
    return Chain(original(*args).versions, True)


# -- calls -----------------------------------------------------------------------------------------------------------


def in_front(c: Any, args: list[Var]) -> Expr:
    made: Expr = c.replace(args=(*args, *c.args))
    return made


def every_wrapper(original: Any, functions: list[Function], gained: Any) -> list[Function]:
    """Wrappers are made anew, whatever they call."""
    made = original(functions, gained)
    return [f.replace(attrs=f.attrs.with_(forwards=True)) if f.func_type in callers._WRAPPERS else f for f in made]


# -- loads -----------------------------------------------------------------------------------------------------------


def no_policy(*_: Any) -> None:
    return None


def policy_first(original: Any, self: Any, c: Call) -> Expr:
    """The declaration wins over what a load says itself."""
    if c.op.name == "tile.load" and c.args[0] in self.cache:
        return self.recall(c, c.args, {**c.kwargs, "cache": self.cache[c.args[0]]})  # type: ignore[no-any-return]
    made: Expr = original(self, c)
    return made


def only_made_at_the_beginning(original: Any, self: Any, source: Expr, named: dict[str, Any]) -> None:
    if self.out is self.entry:
        original(self, source, named)


def policy_lost(original: Any, name: str, args: Any, kwargs: Any, *rest: Any, **named: Any) -> Any:
    kept = {k: v for k, v in (kwargs or {}).items() if k != "cache"}
    return original(name, args, kept, *rest, **named)


def staged_elsewhere(space: MemorySpace) -> Breakage:
    """Loads for one memory go to the wrong one."""
    return lambda: patch.dict(spaces._STAGED, {space: Vec if spaces._STAGED[space] is Mat else Mat})


def by_name(known: Any, c: Call) -> Any:
    """Operands of products are needed in Mat, all others in Vec."""
    return ((Mat if "matmul" in c.op.name else Vec,),) * len(c.args)


def open_means_vec(original: Any, space: MemorySpace | None) -> MemorySpace | None:
    return Vec if space is None else original(space)


def not_a_tile(original: Any, self: Any, e: Expr) -> Expr:
    return e


def by_concept_only(self: Any, o: Any, c: Call, var: Var | None) -> Expr:
    made: Expr = self._same_concept(o, c, tuple(self.visit(a) for a in c.args))
    return made


def left_as_it_is(self: Any, o: Any, c: Call, var: Var | None) -> Expr:
    made: Expr = SSARewriter.emit(self, c.op.name, tuple(self.visit(a) for a in c.args), c.kwargs)
    return made


def the_first_alone(names: Any, slot: int) -> Any:
    """The first operator that a rule leads to speaks for all."""
    return ops.get(names[0]).spaces[slot]  # type: ignore[index]


def whatever_is_said(names: Any, slot: int) -> Any:
    """Operators that are unknown, or say nothing, ask for nothing."""
    found = ops.find(names[-1])
    return found.spaces[slot] if found is not None and found.spaces is not None and slot < len(found.spaces) else None


# -- matrix extents --------------------------------------------------------------------------------------------------

Boxes = tuple[Any, ...]


def boxes(change: Callable[[Call, Boxes], Boxes], name: str = "tensor.matmul") -> Breakage:
    return op(name, "boxes", lambda c: change(c, matmul.operand_boxes(c)))


def no_boxes(c: Call, b: Boxes) -> Boxes:
    return (None,) * len(b)


def turned_boxes(c: Call, b: Boxes) -> Boxes:
    return tuple(None if x is None else (x[1], x[0]) for x in b)


def boxes_of_16(c: Call, b: Boxes) -> Boxes:
    return tuple(None if x is None else (min(x[0], 16), min(x[1], 16)) for x in b)


def k_too(c: Call, b: Boxes) -> Boxes:
    return tuple(None if x is None else (max(x[0], 64), max(x[1], 64)) for x in b)


def n_of_sums(c: Call, b: Boxes) -> Boxes:
    return (*b[:2], (1, 16), *b[3:])


def any_rank(c: Call) -> Boxes:
    return ((16, 1), (1, 16))


def joined(asked: set[Any]) -> Any:
    return max(b[0] for b in asked), max(b[1] for b in asked)


def all_of_it(original: Any, self: Any, values: tuple[Expr, ...], hint: str) -> tuple[Expr, ...]:
    made = original(self, values, hint)
    return (*made[:3], made[2])


def fully_valid(original: Any, *args: Any, **kwargs: Any) -> Any:
    shape, _ = original(*args, **kwargs)
    return shape, shape


def plain_accumulator(original: Any, self: Any, values: Any, named: dict[str, Any]) -> Var:
    made: Var = SSARewriter.emit(self, "tile.create", values, {**named, "target_memory": MemorySpace.Acc}, "acc")
    return made


def open_accumulator(original: Any, self: Any, values: Any, named: dict[str, Any]) -> Var:
    made: Var = SSARewriter.emit(self, "tile.create", values, {**named, "compact": True}, "acc")
    return made


def as_it_was(original: Any, self: Any, c: Call) -> Expr:
    """Calls keep their types, whatever becomes of their operands."""
    made: Expr = original(self, c)
    return made.replace(type=c.type)


def not_compact(original: Any, self: Any, name: str, args: Any, kwargs: Any = None, hint: str = "") -> Any:
    return original(self, name, args, {k: v for k, v in (kwargs or {}).items() if k != "compact"}, hint)


def not_turned(lo: Any, call: Call, args: tuple[Expr, ...], i: int, turned: bool) -> Expr:
    made: Expr = lo.boxed(call, args, i)
    return made


# -- whole values ----------------------------------------------------------------------------------------------------


def scratch_at_once(lo: Any, call: Call, args: tuple[Expr, ...]) -> Expr:
    x = lo.tile(args[0])
    tmp = lo.emit("tile.create", (MakeTuple(x.type.shape),), {"dtype": x.type.dtype}, "tmp")
    made: Expr = lo.emit("tile.transpose", (x, *args[1:], tmp))
    return made


def straight_into(lo: Any, x: Expr, src: Expr, index: Expr, kwargs: dict[str, Any]) -> Expr:
    made: Expr = lo.emit("tile.scatter", (x, src, index), kwargs)
    return made


def through_16_bits(original: Any, self: Any, name: str, args: Any, kwargs: Any = None, hint: str = "") -> Var:
    made: Var = original(self, name, args, kwargs, hint)
    if name != "tile.muls":
        return made
    narrow = original(self, "tile.cast", (made,), {"target_type": D.INT16, "mode": 5}, "n")
    wide: Var = original(self, "tile.cast", (narrow,), {"target_type": D.INT32}, "w")
    return wide


def moved_views(original: Any, self: Any, name: str, args: Any, kwargs: Any = None, hint: str = "") -> Var:
    made: Var = original(self, name, args, kwargs, hint)
    return original(self, "tile.adds", (made, ConstInt(0, scatters.D.INT32)), None, "m") if name == "tile.reshape" else made


def no_valid_scratch(original: Any, self: Any, name: str, args: Any, kwargs: Any = None, hint: str = "") -> Any:
    return (
        next(iter(args)) if hint == "gather_tmp" and name == "tile.set_validshape" else original(self, name, args, kwargs, hint)
    )


def with_dim(dim: int | None) -> Any:
    def rule(lo: Any, call: Call, args: tuple[Expr, ...]) -> Expr:
        kwargs = {} if dim is None else {"dim": dim}
        return gathers._gather_to_tile(lo, Call.make(call.op, call.args, kwargs, call.attrs, call.type, call.span), args)

    return rule


def whole_source(lo: Any, call: Call, args: tuple[Expr, ...]) -> Expr:
    x, index = (lo.tile(a) for a in args)
    scratch = lo.emit("tile.create", (MakeTuple(index.type.shape),), {"dtype": gathers.D.INT32}, "gather_tmp")
    made: Expr = lo.emit("tile.gather", (x, index, scratch))
    return made


def copied_index(lo: Any, call: Call, args: tuple[Expr, ...]) -> Expr:
    index = lo.emit("tile.adds", (lo.tile(args[1]), ConstInt(0, gathers.D.INT32)))
    return gathers._gather_to_tile(lo, call, (args[0], index))


def extracted(original: Any, self: Any, e: Expr) -> Expr:
    t: Any = e.type
    if isinstance(t, TensorType):
        return self.tile(e)  # type: ignore[no-any-return]
    zero = const_index(0)
    made: Expr = self.emit("tile.extract", (e, zero, zero, MakeTuple(t.shape)), {"target_memory": Vec}, "compact")
    return made


def added(original: Any, self: Any, e: Expr) -> Expr:
    made: Expr = self.emit("tile.muls", (e, ConstInt(1, e.type.dtype)), None, "compact")  # type: ignore[attr-defined]
    return made


def own_name_only(original: Any, e: Expr, defined: Mapping[Var, Expr]) -> bool:
    value = defined.get(e) if isinstance(e, Var) else None
    return isinstance(value, Call) and value.op.name != "tile.set_validshape" and bool(original(e, defined))


# -- rows, pages and lanes -------------------------------------------------------------------------------------------


def loaded_source(lo: Any, e: Expr, name: str) -> Expr:
    """What is gathered from, and the numbers, are loaded first."""
    lo.tile(e)
    return e


def one_row_less(original: Any, self: Any, stop: Expr, *rest: Any) -> Var:
    made: Var = original(self, arith.sub(stop, const_index(1)), *rest)
    return made


def emitted(change: Callable[..., Any]) -> Breakage:
    """Another operation in the place of each that a rule emits: `change(name, args, kwargs)`."""

    def emit(original: Any, self: Any, name: str, args: Any, kwargs: Any = None, hint: str = "") -> Any:
        return original(self, *change(name, tuple(args), dict(kwargs or {})), hint)

    return around(Converter, "emit", emit)


def to_the_first_row(name: str, args: Any, kwargs: Any) -> Any:
    """Windows go to the beginning of the tile that the loop began with."""
    if name == "tile.gather_row":
        args = (args[0], args[1], MakeTuple((const_index(0), const_index(0))), *args[3:])
    return name, args, kwargs


def without(keyword: str, where: str) -> Callable[..., Any]:
    return lambda name, args, kwargs: (name, args, {k: v for k, v in kwargs.items() if k != keyword or name != where})


def in_vec(name: str, args: Any, kwargs: Any) -> Any:
    return name, args, {**kwargs, "target_memory": Vec} if name == "tile.create" else kwargs


def two_rows(name: str, args: Any, kwargs: Any) -> Any:
    if name == "tile.gather_row":
        args = (*args[:4], MakeTuple((const_index(2), *args[4].elements[1:])), *args[5:])
    return name, args, kwargs


def other_split(name: str, args: Any, kwargs: Any) -> Any:
    return name, args, {**kwargs, "split": 3 - kwargs["split"]} if "split" in kwargs else kwargs


def stays_on_tensors(lo: Any, call: Call, args: tuple[Expr, ...]) -> Expr:
    """The row of a tensor is assembled from a load, not moved straight into place."""
    window = lo.emit("tile.load", (args[1], args[3], args[4], args[4]))
    made: Expr = lo.emit("tile.assemble", (args[0], window, args[2]))
    return made


def as_a_product(lo: Any, call: Call, args: tuple[Expr, ...]) -> Expr:
    made: Expr = lo.emit("tile.muls", (lo.tile(args[0]), ConstFloat(1.0, args[0].type.dtype)))  # type: ignore[attr-defined]
    return made


def loads_anything(lo: Any, call: Call, args: tuple[Expr, ...]) -> Expr:
    source = lo.tile(args[0])
    window = (MakeTuple((const_index(n), const_index(n))) for n in (0, 16, 16))
    lo.emit("tile.load", (lo.f.params[0], *window), {"target_memory": Vec})
    made: Expr = lo.emit(call.op.name.replace("tensor.", "tile."), (source, *args[1:]), call.kwargs)
    return made


# -- buffers ---------------------------------------------------------------------------------------------------------


def never_chosen(self: Any, *_: Any) -> None:
    self.stays("never")


def static_only(original: Any, self: Any, v: Var, t: Any) -> None:
    original(self, v, t)
    self.need(not rules.is_dynamic(t), "run-time extents")


def unknown_too(original: Any, self: Any, var: Any, c: Call) -> None:
    """Operators without a rule are as good as any other."""
    with suppress(rules._Stays):
        original(self, var, c)


def any_step(original: Any, self: Any, s: Any) -> None:
    original(self, s.replace(step=const_index(1)) if hasattr(s, "step") else s)


def other_addresses(original: Any, self: Any, *args: Any) -> Var:
    self.addressed = not self.addressed
    made: Var = original(self, *args)
    self.addressed = not self.addressed
    return made


def at_the_first(self: Any, tiles: list[Var]) -> int:
    return min(storage._offset(v) for v in tiles)


# -- the harness of numerical tests ----------------------------------------------------------------------------------


def of_other_options(original: Any, compiled: Any, directory: Any, enable_buffer_ir: bool) -> None:
    """What is saved comes from a compilation of its own, under the default options."""
    original(compiled, directory, enable_buffer_ir)
    program = pipeline.lower(compiled.program, PassOptions(memory_planner=MemoryPlanner.PTOAS)).device
    (directory / running.BUFFER_PROGRAM).write_bytes(serialize(program))


# -- matrices in buffers ---------------------------------------------------------------------------------------------


def no_matrix(*_: Any) -> str:
    return "never"


def plain_boxes(original: Any, t: Any, valid: Any) -> Any:
    """Matrices of sums in the boxes of 16 x 8 that operands have."""
    return original(t, valid).replace(fractal=512)


def as_the_other_planner(original: Any, self: Any, *args: Any) -> Any:
    """Windows of matrices are made in the way of a planner that does without, or with, addresses."""
    self.addressed = not self.addressed
    made = original(self, *args)
    self.addressed = not self.addressed
    return made


def turned_anew(original: Any, self: Any, v: Var, t: Any, c: Call) -> None:
    """Another reading of a matrix is made where it is written."""
    self.let("turned", typed_call("buffer.reshape", (self.handle(c.args[0]),), None, self.span, self.handle(v).type))


def at_the_last(f: Function) -> dict[Var, Any]:
    """Storage comes into being in front of the last statement that mentions it, whatever did before."""
    return {base: s for s in statements(f.body) for base in locality._bases(locality._mentioned(s))}


def with_tables(original: Any, f: Function, addressed: bool) -> Function:
    made: Function = original(f, addressed)
    return made.replace(attrs=made.attrs.with_(handles=len(f.params)))


def line_by_line(layout: Any, dtype: Any, rows: Any, cols: Any, r: Any, c: Any, pitch: Any = None) -> Any:
    return r * cols + c


# -- the table -------------------------------------------------------------------------------------------------------

_SHARE_ALL = put(PACKAGE, "_shareable", every_tensor)
_IN_PLACE = around(Converter, "tile", takes_the_place)
_SCATTERED = put(scatters, "_kept", straight_into)
_BULK_AS_IT_IS = put(PACKAGE, "fill_loops_to_bulk", lambda f: f)
_MIXED_ALLOWED = put(PACKAGE, "reject_mixed_writes", never)
_ALL_REFUSED = put(PACKAGE, "reject_mixed_writes", always)
_NO_RULE_FOR_SLICES = op("tensor.slice", "to_tile", None)
_FOR_NOTHING = put(spaces, "keeps_space", lambda o: False)

_SUMS_GO_ON = put(lower_matrix, "starts_afresh", lambda form, c: form.acc is None)
_ONE_DESCRIPTOR = put(LOWERING, "products_beside_sums", lambda f: {})
_OTHER_WINDOWS = around(storage._Allocation, "_matrix_handle", as_the_other_planner)

MATRICES: dict[str, Breakage] = {
    "B023": put(select_matrix, "reason_against_product", no_matrix),
    "B099": put(select_matrix, "reason_against_move", no_matrix),
    "B100": put(select_matrix, "_SUMS", frozenset((D.FP32,))),
    "B101": _SUMS_GO_ON,
    "B102": _ONE_DESCRIPTOR,
    "B103": put(select_matrix, "matrix_copy", never),
    "B104": put(select_matrix, "reason_against_product", never),
    "B105": put(debug_memory, "element_offset", line_by_line),
    "B106": put(debug_products, "_touch_boxes", never),
    "B160": around(LOWERING, "to_buffer", with_tables),
    "B161": put(storage, "first_uses", lambda f: {}),
    "B162": put(storage, "first_uses", at_the_last),
    "B198": put(convert.Converter, "make_insert", never),
    "B214": around(descriptors, "_descriptor", plain_boxes),
    "B215": _OTHER_WINDOWS,
    "B216": _OTHER_WINDOWS,
    "B217": put(convert.Converter, "make_extract", never),
    "B218": put(lower_matrix, "same_window", lambda a, b: True),
    "B219": _SUMS_GO_ON,
    "B220": _ONE_DESCRIPTOR,
    "B221": around(convert.Converter, "make_view", turned_anew),
    "B222": put(buffer_ops, "check_drain", never),
    "B241": around(storage._Allocation, "_alloc", other_addresses),
    "B243": put(select_matrix, "reason_against_product", no_matrix),
}

MUTATIONS: dict[str, Breakage] = {
    **MATRICES,
    **dict.fromkeys(("B021", "B022", "B024", "B025", "B026", "B006"), put(RULES, "check", never_chosen)),
    **dict.fromkeys(("B029", "B120", "B121", "B122"), around(RULES, "tile", static_only)),
    **dict.fromkeys(("B031", "B124", "B125"), put(rules, "same_dims", lambda a, b: True)),
    **{
        number: put(rules, "TRANSFERS", rules.TRANSFERS - {dtype})
        for number, dtype in (("B033", D.FP16), ("B034", D.BF16), ("B035", D.FP32), ("B036", D.INT32))
    },
    **{
        number: op(f"tile.{name}", "buffer", None)
        for number, name in (("B037", "add"), ("B038", "sub"), ("B039", "exp"), ("B040", "adds"), ("B041", "lrelu"))
    },
    "B044": put(rules, "FILLS", frozenset()),
    "B046": put(rules, "FILLS", rules.TRANSFERS),
    **dict.fromkeys(("B054", "B055", "B056"), put(RULES, "loop", never_chosen)),
    **dict.fromkeys(("B057", "B062"), put(RULES, "branch", never)),
    **dict.fromkeys(("B060", "B061"), around(RULES, "loop", any_step)),
    "B064": put(RULES, "scalar", never),
    "B068": put(RULES, "on_query", never_chosen),
    **dict.fromkeys(("B071", "B088", "B089"), put(rules, "is_block_aligned", lambda offset: False)),
    **dict.fromkeys(("B090", "B091", "B092", "B093"), put(rules, "is_block_aligned", lambda offset: True)),
    "B074": put(RULES, "relabel", never_chosen),
    **dict.fromkeys(("B075", "B076", "B110", "B131"), put(RULES, "on_insert", never)),
    "B079": put(windows.Windows, "is_window_of", lambda self, source, target, offset: False),
    "B107": around(rules, "chip_of", lambda original, platform: original("a2a3sim")),
    **dict.fromkeys(("B108", "B115"), together(around(RULES, "call", unknown_too), put(RULES, "tile", never))),
    **dict.fromkeys(("B109", "B113"), put(RULES, "relabel", never)),
    "B112": put(RULES, "parent", never),
    **dict.fromkeys(("B123", "B130"), put(RULES, "on_view", never)),
    **dict.fromkeys(("B126", "B127"), put(rules, "stale_extents", never)),
    "B128": put(rules, "stale_extents", lambda f: f.params[0]),
    "B129": put(rules, "is_dynamic", lambda t: False),
    "B132": put(rules, "_runs_dynamic", lambda t: False),
    "B138": put(convert.Converter, "guarded", lambda self, t, write: write()),
    "B140": put(convert, "is_empty", lambda extents: False),
    "B149": put(LOWERING, "require_storage", never),
    **dict.fromkeys(("B155", "B156"), around(storage._Allocation, "_alloc", other_addresses)),
    "B173": put(storage._Allocation, "_once", lambda self, key, make: make()),
    **dict.fromkeys(("B181", "B182"), put(storage._Allocation, "_origin", at_the_first)),
    "B184": put(storage._Allocation, "_check_blocks", never),
    "B197": put(windows.Windows, "is_window_of", lambda self, source, target, offset: False),
    "B207": put(convert.Converter, "state_extents", never),
    "B244": put(running.Resolved, "context", lambda self: PassContext()),
    "B245": put(running.Resolved, "context", lambda self: nullcontext()),
    "B246": put(running.Resolved, "key", property(lambda self: self.case.name)),
    "B247": put(running, "check_stages", never),
    "B250": around(running, "_save", of_other_options),
    "T001": put(callers, "update_callers", lambda functions, gained: functions),
    "T002": put(THE_PASS, "requires", frozenset()),
    "T003": lambda: patch.object(pipeline, "ORDER", sorted(pipeline.ORDER)),
    "T004": put(THE_PASS, "name", "AnotherPass"),
    "T005": put(callers._CallSites, "_complete", lambda self, c: c),
    "T006": put(body, "demanded_spaces", lambda *_: {}),
    "T007": put(body, "operand_spaces", by_name),
    "T008": put(matmul, "_operand", not_turned),
    "T009": around(flow._Analysis, "loop", loops_begin_anew),
    "T010": put(PACKAGE, "_shareable", lambda *_: frozenset()),
    "T011": _SHARE_ALL,
    "T012": around(PACKAGE, "_shareable", whatever_is_called),
    "T013": _IN_PLACE,
    "T014": around(PACKAGE, "_upgrade_directions", new_params),
    "T015": put(body, "staging_space", lambda s: s and Vec),
    "T016": around(body, "staging_space", open_means_vec),
    "T017": put(Converter, "convert", by_concept_only),
    "T018": around(Converter, "tile", once_for_all),
    "T019": put(Converter, "statement", in_order_of_use),
    "T020": _NO_RULE_FOR_SLICES,
    "T021": put(Converter, "convert", left_as_it_is),
    "T022": lambda: patch.object(flow._Analysis, "meet", staticmethod(lambda a, b: a or b)),
    "T023": put(Converter, "_becomes_tile", lambda self, v: isinstance(v.type, TensorType)),
    "T024": put(Converter, "carried", SSARewriter.carried),
    "T025": put(Converter, "visit_return_stmt", without_stores),
    "T026": put(PACKAGE, "created_results_to_outputs", lambda f: (f, [])),
    "T027": put(PACKAGE, "_upgrade_directions", lambda f, found: f),
    "T028": put(PACKAGE, "_upgrade_directions", lambda f, found: f),
    "T029": op("tile.mscatter", "_effects", (ArgEffect.Read,) * 3),
    "T030": around(PACKAGE, "_upgrade_directions", writes_read_too),
    "T031": op("tile.store", "_effects", (ArgEffect.Read, ArgEffect.Read, ArgEffect.Write, ArgEffect.Read)),
    "T032": around(PACKAGE, "_upgrade_directions", writes_read_too),
    "T033": put(PACKAGE, "_upgrade_directions", every_direction_anew),
    "T034": put(ops.get("tensor.write").__class__, "effect", lambda self, i, kwargs=None: ArgEffect.Write),
    "T035": _IN_PLACE,
    "T036": _IN_PLACE,
    "T038": _IN_PLACE,
    "T039": _IN_PLACE,
    "T040": around(Converter, "tile", of_the_parameter),
    "T041": around(Converter, "tile", once_for_all),
    "T042": around(Converter, "tile", once_for_all),
    "T043": op("tensor.write", "to_tile", lambda lo, call, args: args[0]),
    "T044": op("tensor.write", "to_tile", write_through_the_chip),
    "T045": _MIXED_ALLOWED,
    "T046": around(flow._Analysis, "value", no_aliases),
    "T047": around(flow._Analysis, "loop", loops_begin_anew),
    "T048": _MIXED_ALLOWED,
    "T049": together(put(PACKAGE, "mixed_writes", lambda found: {r for a in found for r in a.roots}), _ALL_REFUSED),
    "T050": _BULK_AS_IT_IS,
    "T051": put(fills, "_trip_count", any_loop),
    "T052": put(fills, "_region", any_region),
    "T053": put(fills, "BLOCK_BYTES", 1),
    "T054": put(fills, "BLOCK_BYTES", 1),
    "T055": put(staging, "stage_element_writes", lambda f, known, conflicts: f),
    "T056": put(staging, "same_dims", lambda a, b: True),
    "T057": around(staging, "chain_of", closed),
    "T058": put(Converter, "_add_cache", no_policy),
    "T059": put(Converter, "_add_cache", no_policy),
    "T060": around(Converter, "_add_cache", only_made_at_the_beginning),
    "T061": put(Converter, "visit_call", SSARewriter.visit_call),
    "T062": around(Converter, "visit_call", policy_first),
    "T063": lambda: patch("pypto.ir.node.Attrs.without", lambda self, key: self),
    "T064": around(REWRITER, "typed_call", policy_lost),
    "T065": put(callers, "_forward", lambda f, gained: (f, [])),
    "T066": put(callers._Forwarding, "visit_call", SSARewriter.visit_call),
    "T067": put(callers, "_WRAPPERS", ()),
    "T068": around(callers, "update_callers", every_wrapper),
    "T069": put(callers._CallSites, "_complete", lambda self, c: c),
    "T070": put(callers, "_append", in_front),
    "T071": put(callers, "_WRAPPERS", ()),
    "T072": around(Converter, "tile", not_a_tile),
    "T073": around(Converter, "tile", not_a_tile),
    "T074": put(body, "staging_space", lambda s: s and Vec),
    "T075": put(body, "operand_spaces", by_name),
    "T076": put(spaces, "_STAGED", {}),
    "T077": op("tensor.matmul", "becomes", ("tile.matmul",)),
    "T078": put(bridges, "bridge_spaces", the_first_alone),
    "T079": put(bridges, "bridge_spaces", whatever_is_said),
    "T080": staged_elsewhere(MemorySpace.Vec),
    "T081": staged_elsewhere(MemorySpace.Mat),
    "T082": staged_elsewhere(MemorySpace.Left),
    "T083": staged_elsewhere(MemorySpace.Right),
    "T084": staged_elsewhere(MemorySpace.Bias),
    "T085": staged_elsewhere(MemorySpace.RightScale),
    "T086": lambda: patch.dict(spaces._STAGED, {MemorySpace.Acc: Mat}),
    "T087": put(INFER, "staging_space", lambda s: s and Vec),
    "T088": _NO_RULE_FOR_SLICES,
    "T089": op("tile.assemble", "infer", lambda s: s.tile(0).replace(memref=None, memory_space=Vec)),
    "T090": _FOR_NOTHING,
    "T091": _FOR_NOTHING,
    "T092": boxes(no_boxes),
    "T093": boxes(lambda c, b: ((8, 1), *b[1:])),
    "T094": boxes(no_boxes),
    "T095": around(Converter, "boxed_load", all_of_it),
    "T096": around(matmul, "_product", fully_valid),
    "T097": boxes(turned_boxes),
    "T098": boxes(boxes_of_16),
    "T099": boxes(lambda c, b: ((16, 1), *b[1:]), "tensor.matmul_acc"),
    "T100": boxes(boxes_of_16, "tensor.matmul_acc"),
    "T101": boxes(lambda c, b: (None, *b[1:])),
    "T102": put(products, "demanded_boxes", lambda s: {}),
    "T103": boxes(lambda c, b: (None, *b[1:])),
    "T104": put(products, "demanded_boxes", lambda s: {}),
    "T105": put(boxing, "_joined", joined),
    "T106": put(products, "demanded_boxes", lambda s: {}),
    "T107": around(Converter, "accumulator", plain_accumulator),
    "T108": around(Converter, "accumulator", open_accumulator),
    "T109": put(boxing, "_passed_on", lambda s: []),
    "T110": around(Converter, "accumulator", plain_accumulator),
    "T111": put(accumulators, "_is_loose", lambda t: False),
    "T112": boxes(boxes_of_16),
    "T113": boxes(lambda c, b: (b[0], b[1] and (b[1][1], b[1][0]))),
    "T114": put(matmul, "_box", lambda dtype, space: (16, 16)),
    "T115": boxes(n_of_sums, "tensor.matmul_acc"),
    "T116": boxes(k_too),
    "T117": op("tensor.matmul", "boxes", any_rank),
    "T118": put(boxing, "const_dim", lambda d: 20),
    "T119": put(matmul, "_check_depth", never),
    "T120": op("tensor.transpose", "to_tile", scratch_at_once),
    "T121": put(FLATTEN, "_needs_scratch", lambda e: False),
    "T122": _SCATTERED,
    "T123": around(Converter, "emit", through_16_bits),
    "T124": around(Converter, "emit", through_16_bits),
    "T125": around(Converter, "emit", moved_views),
    "T126": _SCATTERED,
    "T127": _SCATTERED,
    "T128": _SCATTERED,
    "T129": op("tensor.gather", "to_tile", with_dim(1)),
    "T130": op("tensor.gather", "to_tile", with_dim(None)),
    "T131": op("tensor.gather", "to_tile", whole_source),
    "T133": op("tensor.gather", "to_tile", lambda lo, call, args: lo.emit("tile.neg", (lo.tile(args[0]),))),
    "T134": op("tensor.gather", "to_tile", whole_source),
    "T135": op("tensor.gather", "to_tile", copied_index),
    "T136": around(Converter, "emit", no_valid_scratch),
    "T137": around(Converter, "compact", added),
    "T138": around(Converter, "compact", extracted),
    "T139": put(body, "is_compact", lambda e, defined: True),
    "T140": around(body, "is_compact", own_name_only),
    "T141": put(body, "is_compact", lambda e, defined: True),
    "T142": put(body, "is_compact", lambda e, defined: True),
    "T143": around(Converter, "loop", lambda original, self, stop, initial, row: row(const_index(0), initial)),
    "T144": put(paging, "_in_global_memory", loaded_source),
    "T145": around(Converter, "loop", one_row_less),
    "T146": put(paging.scalar, "mod", lambda a, b: a),
    "T147": emitted(to_the_first_row),
    "T148": emitted(in_vec),
    "T149": emitted(without("transpose", "tile.gather_row")),
    "T150": put(paging, "box_of", lambda layout, dtype: (1, 1)),
    "T151": emitted(two_rows),
    "T152": emitted(in_vec),
    "T153": op("tensor.gather_row", "to_tile", stays_on_tensors),
    "T154": around(paging, "const_dims", lambda original, dims: original(dims) or (32, 64)),
    "T155": emitted(lambda name, args, kwargs: (name, args[:5], kwargs) if name == "tile.gather_row" else (name, args, kwargs)),
    "T156": emitted(two_rows),
    "T157": around(paging, "same_dims", lambda original, a, b: True),
    "T158": put(paging, "valid_within", never),
    "T159": put(paging, "check_window", never),
    "T160": emitted(without("transpose", "tile.create")),
    "T161": emitted(without("transpose", "tile.gather_row")),
    "T162": op("tensor.aic_gather", "to_tile", as_a_product),
    "T163": put(lanes, "_matrix", lambda s: (s.shaped(0), s.kwargs["split"] - 1, 16)),
    "T164": put(calls.CallSite, "region", (SplitMode.UP_DOWN, const_index(0))),
    "T165": put(lanes, "TensorType", ()),
    "T167": emitted(other_split),
    "T168": put(lanes, "MemorySpace", SimpleNamespace(Vec=Mat, Mat=Vec)),
    "T169": op("tile.aiv_shard", "spaces", ((MemorySpace.Acc,), None)),
    "T170": op("tensor.aiv_shard", "to_tile", loads_anything),
    "T171": together(put(lane_regions, "SHARD", "nothing"), put(lane_regions, "GATHER", "nothing")),
    "T172": put(lane_regions, "kind_of", lambda o: ""),
    "T173": put(PACKAGE, "narrow_acc_carries", lambda f: f),
    "T174": around(carries._Narrowing, "emit", not_compact),
    "T175": around(carries._Narrowing, "visit_call", as_it_was),
    "T176": put(carries, "_ROWS", 0),
    "T177": put(carries, "used_vars", lambda e: {}),
    "T178": put(FLATTEN, "narrow_acc_carries", lambda f: f),
    "T179": put(THE_PASS, "produces", frozenset()),
    "T180": put(THE_PASS, "requires", frozenset()),
    "T181": put(THE_PASS, "invalidates", frozenset()),
    "T182": put(Converter, "convert", left_as_it_is),
    "T183": put(Converter, "visit_return_stmt", without_stores),
}

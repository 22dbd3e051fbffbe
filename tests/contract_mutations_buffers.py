"""Breakages of what becomes of tiles as buffers, rule by rule; see `contract_mutations`.

In: the number of a rule of `docs/contract.md`.  Out: a context manager under which the rule does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

from contract_mutations import around, never, op, other_addresses, put, static_only, together, unknown_too

from pypto.codegen import pto
from pypto.codegen.native import device, from_buffer, from_tile
from pypto.codegen.pto.from_tile_indexed import TileText
from pypto.debug import frame, views
from pypto.debug.memory import ArrayPlace
from pypto.dtypes import DataType as D
from pypto.enums import FunctionIRStage, MemoryPlanner, ParamDirection
from pypto.errors import CompileError, Error
from pypto.ir import ops, serialization
from pypto.ir.expr import Call, Expr, MakeTuple, Var, const_index
from pypto.ir.opdef import OpDef
from pypto.ir.program import Function, Program
from pypto.ir.shaped import BufferType, TileType, as_dims, const_dims
from pypto.ir.stmt import AssignStmt, ForStmt, ReturnStmt, Stmt, flatten_to_stmts
from pypto.ir.types import ScalarType, VoidType
from pypto.ir.verify import buffer_ir, buffer_storage
from pypto.jit import function as jit_function
from pypto.jit import identity, programs
from pypto.passes import pipeline
from pypto.passes.context import PassContext, PassOptions
from pypto.passes.lower_tile_to_buffer import convert, storage, windows
from pypto.passes.manager import Pipeline
from pypto.passes.materialize_semantic_aliases import legalize
from pypto.passes.memory import intervals
from pypto.passes.pipeline import find_pass
from pypto.passes.select_buffer_ir_functions import rules
from pypto.passes.ssa_rewriter import SSARewriter, typed_call
from pypto.passes.statements import statements
from pypto.runtime import launch
from pypto.span import Span
from pypto.target import chip_of

__all__ = ["BUFFER_MUTATIONS"]

Breakage = Callable[[], AbstractContextManager[object]]
ALIASES: Any = import_module("pypto.passes.materialize_semantic_aliases")
LOWERING: Any = import_module("pypto.passes.lower_tile_to_buffer")
SELECTION: Any = import_module("pypto.passes.select_buffer_ir_functions")
VERIFICATION: Any = import_module("pypto.passes.verify_tile_storage")
ALLOCATION: Any = storage._Allocation
CONVERTER: Any = convert.Converter
LEGALIZER: Any = legalize._Legalizer
RULES: Any = rules._Rules
JUDGE: Any = buffer_storage._Storage
LOWER = find_pass("lower_tile_to_buffer")
SELECT = find_pass("select_buffer_ir_functions")


def order(change: Callable[[list[str]], list[str]]) -> Breakage:
    """The passes in another order; pipelines are made anew."""

    @contextmanager
    def broken() -> Iterator[None]:
        with _fresh_pipelines(), patch.object(pipeline, "ORDER", tuple(change(list(pipeline.ORDER)))):
            yield

    return broken


def pipelines(name: str, new: Any) -> Breakage:
    """Another table of the pipelines."""

    @contextmanager
    def broken() -> Iterator[None]:
        with _fresh_pipelines(), patch.object(pipeline, name, new):
            yield

    return broken


@contextmanager
def _fresh_pipelines() -> Iterator[None]:
    pipeline.default_pipeline.cache_clear()
    pipeline._stages.cache_clear()
    try:
        yield
    finally:
        pipeline.default_pipeline.cache_clear()
        pipeline._stages.cache_clear()


def earlier(name: str, before: str) -> Breakage:
    """One pass in front of another one."""

    def moved(names: list[str]) -> list[str]:
        names.remove(name)
        names.insert(names.index(before), name)
        return names

    return order(moved)


def runs(of: Any, new: Callable[..., Program]) -> Breakage:
    """Another run of a pass, given the one in whose place it is."""
    return around(of, "run", new)


def made(change: Callable[[Function], Function]) -> Breakage:
    """What a kernel becomes, changed."""
    return around(LOWERING, "to_buffer", lambda original, f, addressed: change(original(f, addressed)))


# -- the pipeline ----------------------------------------------------------------------------------------------------


def recorded_twice(original: Any, p: Program, options: PassOptions) -> Program:
    """What was decided is decided again; and kernels that stay get a mark."""
    result: Program = original(p, options)
    marked = (
        f.replace(attrs=f.attrs.with_(seen=True)) if f.is_device and not f.attrs["buffer_ir_selected"] else f
        for f in result.function_list
    )
    return result.with_functions(marked)


def every_kernel(_: Any, p: Program, options: PassOptions) -> Program:
    addressed = options.memory_planner is not MemoryPlanner.PTOAS
    return p.with_functions(LOWERING.to_buffer(f, addressed) if f.is_device else f for f in p.function_list)


def every_storage(_: Any, p: Program, options: PassOptions) -> Program:
    for f in p.function_list:
        if f.is_device:
            VERIFICATION.require_storage(f, physical=False)
    return p


def legalized_too(f: Function) -> Function:
    result: Function = ALIASES.legalized(f, chip_of("a2a3sim"))
    return result


def swallowed(original: Any, self: Any, program: Program, *args: Any, **kwargs: Any) -> Program:
    """An error is no error: the program stays as it is."""
    try:
        result: Program = original(self, program, *args, **kwargs)
    except Error:
        return program
    return result


def as_tiles(original: Any, f: Function, addressed: bool) -> Function:
    """A kernel that does not convert stays at tile stage."""
    try:
        result: Function = original(f, addressed)
    except Error:
        return f
    return result


def truthy(original: Any, self: Any, *args: Any, enable_buffer_ir: Any = True, **kwargs: Any) -> None:
    original(self, *args, enable_buffer_ir=bool(enable_buffer_ir), **kwargs)


def without_the_option(original: Any, given: Any, *args: Any) -> PassContext:
    context: PassContext = original(given, *args)
    context.options = context.options._replace(enable_buffer_ir=True)
    return context


def all_in_out(f: Function) -> Function:
    return f.replace(param_directions=tuple(ParamDirection.InOut for _ in f.params))


def another_program(original: Any, p: Program, options: PassOptions) -> Program:
    return Program(list(original(p, options).function_list), p.name)


# -- selection -------------------------------------------------------------------------------------------------------


def whole_only(original: Any, self: Any, v: Var, t: TileType) -> None:
    original(self, v, t)
    self.need(t.is_fully_valid, "only a part is valid")


def whole_in_control_flow(original: Any, self: Any, v: Var, t: TileType) -> None:
    original(self, v, t)
    self.need(not self.controlled or t.is_fully_valid, "only a part is valid")


def constant_offsets(original: Any, self: Any, var: Var, source: Var, c: Call) -> None:
    original(self, var, source, c)
    self.need(const_dims(c.args[2].elements) is not None, "a window moves")  # type: ignore[attr-defined]


def returns_anywhere(original: Any, self: Any, s: Stmt) -> None:
    if not isinstance(s, ReturnStmt):
        original(self, s)


def bf16_too(name: str) -> Breakage:
    recipe = ops.get(name).buffer
    assert recipe is not None
    return op(name, "buffer", recipe._replace(dtypes=recipe.dtypes | {D.BF16}))


# -- storage legalization and planning -------------------------------------------------------------------------------


def windows_are_wholes(original: Any, c: Call, i: int, result: TileType, windowed: bool) -> bool:
    found: bool = original(c, i, result, False)
    return found


# -- roots and views -------------------------------------------------------------------------------------------------


def as_large_as_its_tiles(original: Any, self: Any, tiles: list[Var]) -> int:
    self.capacity = max(storage._size(v) for v in tiles)
    result: int = original(self, tiles)
    return result


def no_parents(original: Any, self: Any) -> None:
    self.members = [m._replace(is_parent=False) for m in self.members]
    original(self)


def back_to_front(original: Any, self: Any, *args: Any) -> None:
    original(self, *args)
    self.out.reverse()


def an_own_one(self: Any, whole: Var, m: Any) -> Var:
    handle: Var = self._alloc(m.descriptor, 0, m, "_more")
    return handle


def beside_it(self: Any, m: Any) -> Var:
    handle: Var = self._alloc(storage.allocation_type(m.tile, full=True), m.offset + 32, m, "_alias")
    return handle


def at_the_lowest(self: Any, tiles: list[Var]) -> int:
    return min(storage._offset(v) for v in tiles)


def one_each(self: Any) -> None:
    """A handle for every tile of run-time extents."""
    for m in self.members:
        self.into.of[m.var] = self._alloc(m.descriptor.replace(valid_shape=(-1, -1)), 0, m, "_more")


def without_a_place(original: Any, self: Any, name: str, args: Any, t: Any, hint: str, m: Any) -> Var:
    nowhere = m._replace(var=Var(m.var.name_hint, m.var.type, Span.unknown()))
    handle: Var = original(self, name, args, t, hint, nowhere)
    return handle


def of_one_element(original: Any, self: Any, name: str, args: Any, t: Any, hint: str, m: Any) -> Var:
    if name == "buffer.alloc":
        args = (MakeTuple(as_dims([1] * len(args[0].elements))), *args[1:])
    handle: Var = original(self, name, args, t, hint, m)
    return handle


def of_calls_too(original: Any, body: Stmt) -> Iterator[Var]:
    """What operators deduce is taken for storage."""
    for s in statements(body):
        deduced = s.value.type if isinstance(s, AssignStmt) and isinstance(s.value, Call) else None
        if isinstance(deduced, TileType) and deduced.memref is not None:
            yield Var("t", deduced, s.span)
    yield from original(body)


def of_assignments_only(original: Any, body: Stmt) -> Iterator[Var]:
    return (s.var for s in statements(body) if isinstance(s, AssignStmt))


def all_at_the_first(original: Any, f: Function, *args: Any) -> Any:
    found = original(f, *args)
    first = next(iter(found.declarations))
    for base in list(found.declarations):
        if base is not first:
            found.declarations[first] += found.declarations[base]
            found.declarations[base] = []
    return found


def inside_of_loops(original: Any, f: Function, *args: Any) -> Any:
    """Declarations in the first loop there is."""
    found = original(f, *args)
    loop = next((s for s in statements(f.body) if isinstance(s, ForStmt)), None)
    if loop is not None:
        inside = flatten_to_stmts(loop.body)[0]
        found.at_first_use.setdefault(inside, []).extend(s for d in found.declarations.values() for s in d)
        found.declarations.update({base: [] for base in found.declarations})
    return found


# -- statements ------------------------------------------------------------------------------------------------------


def without_keywords(original: Any, self: Any, name: str, *args: Expr, kwargs: Any = None) -> None:
    original(self, name, *args)


def with_scratch(original: Any, self: Any, name: str, v: Var, t: TileType, c: Call) -> None:
    original(self, name, v, t, c)
    self.do("buffer.copy", self.handle(v), self.handle(v))


def copied_anyway(self: Any, source: Expr, dst: Var, t: TileType) -> None:
    self.do("buffer.copy", self.handle(source), dst)


def with_a_reshape(original: Any, self: Any, v: Var, t: TileType, c: Call) -> None:
    original(self, v, t, c)
    if c.op.name == "tile.reshape":
        h = self.handle(v)
        self.let("again", typed_call("buffer.reshape", (h,), None, self.span, h.type))


def with_zeros(original: Any, self: Any, v: Var, t: TileType, c: Call) -> None:
    original(self, v, t, c)
    self.do("buffer.full", self.scalar_operand(const_index(0), t.dtype), self.handle(v))


def once_for_all(original: Any, self: Any, v: Var, call: Call) -> Var:
    """A window that one statement makes serves all that follow."""
    handle: Var = original(self, v, call)
    self.cut[v] = handle
    return handle


def without_valids(original: Any, self: Any, source: Var, offset: Expr, t: TileType, hint: str) -> Var:
    args = (source, offset)
    handle: Var = self.let(hint, typed_call("buffer.subview", args, None, self.span, convert.window_type(t)))
    return handle


def with_every_axis(original: Any, self: Any, v: Var, call: Call) -> Var:
    handle: Var = original(self, v, call.replace(args=call.args[:3]))
    return handle


def wherever_it_is(original: Any, self: Any, v: Var, t: TileType, c: Call) -> None:
    try:
        original(self, v, t, c)
    except CompileError:
        return


def as_far_as_the_result(original: Any, self: Any, target: Expr, dst: Var, t: TileType, result: TileType) -> None:
    original(self, target, dst, result, result)


def both_dynamic(original: Any, t: TileType) -> BufferType:
    found: BufferType = original(t)
    return found.replace(valid_shape=(-1, -1)) if -1 in found.valid_shape else found


def axis_by_axis(self: Any) -> None:
    """An allocation's extents are dynamic where they have to be, and only there."""
    first = self.members[0]
    handle = self._alloc(convert.window_type(first.tile), 0, first, "")
    self.into.of.update({m.var: handle for m in self.members})


def whatever_policy(original: Any, self: Any, v: Var, t: TileType, c: Call) -> None:
    original(self, v, t, c.replace(kwargs=c.kwargs.without("cache")))


def whatever_attributes(original: Any, self: Any, c: Call) -> Any:
    return original(self, c.replace(attrs=c.attrs.without(*c.attrs)))


def the_first_parameter(original: Any, self: Any, e: Expr) -> Var:
    first: Var = self.f.params[0]
    return first


def all_yields_alike(original: Any, self: Any, s: Any) -> Any:
    """What the outermost region keeps, every region keeps."""
    inner, self.kept = self.kept, self.kept[:1]
    result = original(self, s)
    self.kept = inner
    return result


def again_and_again(original: Any, self: Any, s: Any) -> Any:
    """Every enclosing loop looks at what an inner one begins with."""
    for inner in statements(s.body):
        for a in getattr(inner, "iter_args", ()):
            self.visit(a.initValue)
    return original(self, s)


def in_reverse(original: Any, self: Any, s: Any) -> tuple[int, ...]:
    return tuple(reversed(original(self, s)))


def sums_for_products(original: Any, self: Any, name: str, *args: Any) -> None:
    original(self, "add" if name == "mul" else name, *args)


def whole_extents(self: Any, t: TileType) -> tuple[Expr, ...]:
    return tuple(self.visit(d) for d in t.shape)


# -- judges ----------------------------------------------------------------------------------------------------------


def gaps_are_free(original: Any, self: Any, t: BufferType, w: Any, c: Call) -> Any:
    return original(self, t, w, c)._replace(length=buffer_storage._bytes(t))


def wholes_are_exact(original: Any, self: Any, t: BufferType, w: Any, c: Call) -> Any:
    return original(self, t, w._replace(exact=True), c)


def at_the_beginning(original: Any, self: Any, t: BufferType, w: Any, c: Call) -> Any:
    """A window at a run-time offset is taken to lie at the beginning of its whole."""
    found = original(self, t, w, c)
    return found if found.exact else w._replace(length=buffer_storage._bytes(t))


# -- executors -------------------------------------------------------------------------------------------------------


def one_after_the_other(original: Any, self: Any, targets: Any, values: Any) -> None:
    """Carried scalars change one by one, each seeing those before it."""
    original(self, targets, [values[0]] * len(values) if len(values) > 1 and all(isinstance(v, int) for v in values) else values)


def more_than_it_is(original: Any, self: Any, var: Any, call: Call, span: Span) -> None:
    original(self, var, call, span)
    space = var.type.memory_space
    self.used[space] += 64


def of_the_window(original: Any, app: Any, source: Any, shape: Any, valid: Any) -> Any:
    """A window's rows follow each other as if it were dense."""
    found = original(app, source, shape, valid)
    if app.op.level != "buffer":
        return found
    start = tuple(app.args[1])
    first = found.place.get(tuple(slice(0, n) for n in shape))
    return found if start == (0, 0) else type(found)(ArrayPlace(first[::-1].copy()), found.dtype, found.shape, found.valid)


def a_copy(original: Any, self: Any, d: Any) -> Any:
    """A shared variable becomes several."""
    found = original(self, d)
    return Var(found.name_hint, found.type, found.span) if isinstance(found, Var) else found


def without_its_stage(original: Any, self: Any, d: Any) -> Any:
    found = original(self, d)
    f = getattr(found, "node", found)
    if not isinstance(f, Function):
        return found
    bare = f.replace(ir_stage=FunctionIRStage.Functional)
    return serialization._Root(bare) if f is not found else bare


def without_buffers(original: Any, parts: Mapping[str, Any]) -> Any:
    """The key says nothing about buffers."""
    return original({k: v for k, v in parts.items() if k not in ("enable_buffer_ir", "buffer_semantics")})


_NOT_RECIP = op("tile.recip", "in_place", True)
_ADDRESSES = around(ALLOCATION, "_alloc", other_addresses)
_NO_RETURNS = put(RULES, "returns", never)
_NO_LOOPS = put(RULES, "loop", never)
_NO_RELABELS = put(RULES, "relabel", never)
_OF_THE_WINDOW = around(legalize, "_apart", lambda original, a, b: a.base is not b.base)
_OF_TILES = together(
    put(device, "build_access", lambda f, addressed: from_tile.build(f, addressed)), put(pto, "BufferText", TileText)
)
_ANY_WINDOW = op("buffer.subview", "infer", lambda s: s.result)
_AS_THEY_ARE = put(CONVERTER, "matching", lambda self, handles, t: list(handles))
_NO_PAIRS = put(JUDGE, "_pair", never)
_SAME_ORDER = put(LEGALIZER, "_in_order", lambda self, copies: copies)
_SHARED = put(ALLOCATION, "_dynamic", ALLOCATION._shared)

BUFFER_MUTATIONS: Mapping[str, Breakage] = {
    "B001": put(LOWERING, "to_buffer", lambda f, addressed: f),
    "B002": _OF_TILES,
    "B003": around(PassContext, "__init__", truthy),
    **dict.fromkeys(("B004", "B005"), earlier("select_buffer_ir_functions", "init_mem_ref")),
    "B007": order(lambda names: [*names[:-1], "select_buffer_ir_functions", names[-1]]),
    "B008": put(ALIASES, "_must_aliases", legalized_too),
    "B009": runs(find_pass("verify_tile_storage"), every_storage),
    "B010": runs(LOWER, every_kernel),
    "B011": runs(SELECT, recorded_twice),
    "B012": _OF_TILES,
    "B013": made(lambda f: f.replace(name=f"{f.name}_buffers")),
    "B014": made(lambda f: f.replace(return_types=())),
    "B015": made(all_in_out),
    "B016": pipelines("_CLOSING", ()),
    **dict.fromkeys(("B017", "B018", "B020"), around(Pipeline, "run", swallowed)),
    "B019": put(launch, "KernelBoundsError", RuntimeError),
    "B027": put(RULES, "tile", never),
    "B028": around(RULES, "tile", whole_only),
    **dict.fromkeys(("B030", "B032"), put(rules, "same_dims", lambda a, b: True)),
    "B042": made(lambda f: f.replace(params=f.params[::-1])),
    "B043": put(CONVERTER, "scalar_operand", lambda self, e, dtype: self.visit(e)),
    "B045": bf16_too("tile.add"),
    **dict.fromkeys(("B047", "B048"), _NOT_RECIP),
    "B049": op("buffer.recip", "in_place", True),
    "B050": around(CONVERTER, "do", without_keywords),
    **dict.fromkeys(("B051", "B052", "B053"), _NO_RETURNS),
    **dict.fromkeys(("B058", "B059"), _NO_LOOPS),
    "B063": around(RULES, "statement", returns_anywhere),
    "B065": around(RULES, "call", unknown_too),
    "B066": put(ALIASES, "legalized", lambda f, chip: f),
    "B067": around(frame.Frame, "bind", one_after_the_other),
    **dict.fromkeys(("B069", "B070"), around(views, "_slice", of_the_window)),
    **dict.fromkeys(("B072", "B073"), _NO_RELABELS),
    "B077": put(LEGALIZER, "apart_from", lambda self, source, target, offset: source),
    **dict.fromkeys(("B078", "B083"), put(LEGALIZER, "_cut_from_copy", never)),
    **dict.fromkeys(("B080", "B082"), together(put(ALIASES, "gives_its_values", lambda f: False), _OF_THE_WINDOW)),
    "B081": around(JUDGE, "_cut", gaps_are_free),
    **dict.fromkeys(("B084", "B203"), around(intervals, "may_lie_on", windows_are_wholes)),
    "B085": put(legalize, "bind_shared_offsets", lambda f: f),
    "B086": around(JUDGE, "_cut", wholes_are_exact),
    "B087": around(RULES, "slice", constant_offsets),
    "B094": runs(find_pass("canonicalize_tile_slice"), lambda original, p, options: p),
    "B095": put(ALLOCATION, "_shared", ALLOCATION._typed),
    "B096": put(ALLOCATION, "_check_blocks", never),
    "B097": put(storage, "tile_bytes", lambda t: 0),
    "B098": around(LOWERING, "to_buffer", as_tiles),
    "B111": put(RULES, "check", never),
    "B114": put(SELECTION, "reason_against", never),
    "B116": pipelines("_BUFFER_ONLY", frozenset()),
    "B117": around(identity, "Record", without_buffers),
    "B118": around(programs, "_context", without_the_option),
    "B119": put(jit_function, "_options", lambda config: PassOptions()),
    "B123": together(put(RULES, "on_view", never), put(OpDef, "is_pure", lambda self, kwargs=None: False)),
    "B133": around(RULES, "tile", whole_in_control_flow),
    "B134": put(ALLOCATION, "_dynamic", axis_by_axis),
    "B135": around(convert, "window_type", both_dynamic),
    "B136": put(intervals.Intervals, "compatible", lambda self, a, b: True),
    "B137": put(intervals.Intervals, "relation", lambda self, a, b: intervals.Relation.APART),
    "B139": put(convert, "is_dynamic_window", lambda t: False),
    "B141": around(CONVERTER, "open_window", once_for_all),
    "B142": put(buffer_ir._Form, "control_flow", never),
    "B143": around(CONVERTER, "make_view", with_zeros),
    "B144": put(
        frame.Frame, "within", lambda self, valid, shape, span: tuple(min(v, n) for v, n in zip(valid, shape, strict=True))
    ),
    "B145": around(RULES, "tile", static_only),
    "B146": earlier("lower_tile_to_buffer", "materialize_valid_shape_symbols"),
    "B147": earlier("allocate_memory_addr", "verify_tile_storage"),
    "B148": _ADDRESSES,
    "B150": together(put(LOWERING, "require_storage", never), put(LOWERING, "check_buffer_function", lambda f: [])),
    "B151": put(LOWER, "invalidates", frozenset()),
    "B152": put(LOWER, "requires", frozenset()),
    "B153": put(LOWER, "invalidates", frozenset()),
    "B154": around(LOWERING, "index_storage", all_at_the_first),
    "B157": op("buffer.add", "infer", lambda s: ScalarType.of(D.INDEX)),
    "B158": around(storage, "definitions", of_assignments_only),
    "B159": around(storage, "definitions", of_calls_too),
    "B160": made(lambda f: f.replace(attrs=f.attrs.with_(storage="a table"))),
    "B161": put(storage, "first_uses", lambda f: {}),
    "B162": around(LOWERING, "index_storage", inside_of_loops),
    "B163": around(CONVERTER, "elementwise", with_scratch),
    "B164": put(CONVERTER, "copy", copied_anyway),
    "B165": made(all_in_out),
    "B166": made(lambda f: f.replace(ir_stage=FunctionIRStage.Functional)),
    "B167": runs(LOWER, another_program),
    "B168": earlier("lower_tile_to_buffer", "materialize_valid_shape_symbols"),
    "B169": around(ALLOCATION, "_let", without_a_place),
    "B170": around(ALLOCATION, "_origin", as_large_as_its_tiles),
    "B171": put(storage, "_bytes", lambda size: BufferType((size // 64, 16), D.FP32, storage.MemorySpace.Vec)),
    "B172": put(ALLOCATION, "_byte_view", lambda self, m: self._own_alias(m)),
    "B174": put(ALLOCATION, "_typed", ALLOCATION._shared),
    "B175": around(ALLOCATION, "_shared", no_parents),
    "B176": put(ALLOCATION, "_narrowed", lambda self, whole, m: whole),
    "B177": put(ALLOCATION, "_narrowed", an_own_one),
    "B178": around(ALLOCATION, "declare", back_to_front),
    "B179": around(from_buffer.BufferBuilder, "on_buffer_alloc", more_than_it_is),
    "B180": around(CONVERTER, "make_view", with_a_reshape),
    "B183": put(ALLOCATION, "_origin", at_the_lowest),
    **dict.fromkeys(("B185", "B211"), _SHARED),
    "B186": put(LOWERING, "find_windows", lambda f: windows.Windows()),
    "B187": put(CONVERTER, "relabel", never),
    "B188": put(CONVERTER, "make_insert", never),
    "B189": put(CONVERTER, "keep_target", never),
    "B190": around(CONVERTER, "keep_target", as_far_as_the_result),
    "B191": around(CONVERTER, "subview", without_valids),
    **dict.fromkeys(("B192", "B193", "B194"), _ANY_WINDOW),
    "B195": put(convert, "is_empty", lambda extents: False),
    "B196": put(ALLOCATION, "_own_alias", beside_it),
    "B198": around(CONVERTER, "make_insert", wherever_it_is),
    "B199": around(CONVERTER, "open_window", with_every_axis),
    **dict.fromkeys(("B200", "B202"), _NO_PAIRS),
    "B201": around(JUDGE, "_cut", at_the_beginning),
    "B204": put(ALLOCATION, "_dynamic", axis_by_axis),
    "B205": together(*(put(m, "is_dynamic", lambda t: const_dims(t.valid) is None) for m in (storage, convert))),
    "B206": around(ALLOCATION, "_let", of_one_element),
    "B208": put(CONVERTER, "make_view", never),
    "B209": put(ALLOCATION, "_dynamic", one_each),
    "B210": put(JUDGE, "_set_extents", never),
    **dict.fromkeys(("B212", "B213"), _AS_THEY_ARE),
    "B223": around(CONVERTER, "make_load", whatever_policy),
    "B224": around(CONVERTER, "recipe", whatever_attributes),
    "B225": put(CONVERTER, "visit_if_stmt", SSARewriter.visit_if_stmt),
    **dict.fromkeys(("B226", "B232"), around(CONVERTER, "tensor", the_first_parameter)),
    "B228": around(CONVERTER, "visit_yield_stmt", all_yields_alike),
    "B229": put(CONVERTER, "enter", lambda self, s: tuple(range(len(s.iter_args)))),
    "B230": _SAME_ORDER,
    "B231": around(CONVERTER, "enter", in_reverse),
    "B234": around(CONVERTER, "visit_for_stmt", again_and_again),
    "B235": around(serialization._Decoder, "reference", a_copy),
    "B236": put(CONVERTER, "query", lambda self, c: c),
    "B237": together(*(op(f"buffer.{n}", "infer", lambda s: VoidType.get()) for n in ("load", "store"))),
    "B238": put(CONVERTER, "make_fill", never),
    "B239": around(CONVERTER, "refuse", lambda original, self, message, *args: original(self, "not supported", *args)),
    "B240": around(serialization._Decoder, "node", without_its_stage),
    "B241": _ADDRESSES,
    "B242": put(ALLOCATION, "_once", lambda self, key, make: make()),
    "B248": around(CONVERTER, "elementwise", sums_for_products),
    "B249": around(RULES, "slice", constant_offsets),
    **dict.fromkeys(("B251", "B253"), _SAME_ORDER),
    "B252": put(CONVERTER, "extents", whole_extents),
}

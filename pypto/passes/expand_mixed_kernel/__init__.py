"""ExpandMixedKernel: a kernel that keeps both cores busy as one function for each of them.

In: kernels over tiles that are in memories.  Out: a kernel `f` of both cores becomes `f_aic`, `f_aiv` and the group `f`, which
runs the two side by side; what crosses goes through a pipe.  Kernels of one core stay as they are.
Invariant: the group has the kernel's parameters and results, so that callers do not see the difference.
Errors, at the user's line: a scalar that only one core knows decides what the other does; a tensor that one core writes and the
other touches; a value that no pipe takes.
"""

from __future__ import annotations

from pypto.enums import FunctionType, ParamDirection
from pypto.errors import NotSupportedError
from pypto.ir.expr import Call, Expr, GlobalVar, Var
from pypto.ir.node import EMPTY
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import deep_clone, walk
from pypto.ir.stmt import AssignStmt, EvalStmt, ReturnStmt, Stmt, flatten_to_stmts, seq
from pypto.ir.types import VoidType
from pypto.ir.verify.cores import Core, is_mixed
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.roots import Access, Flow, accesses
from pypto.ir.verify.scopes import ScopedWalk, statements
from pypto.ir.verify.ssa import user_name
from pypto.passes.context import PassOptions
from pypto.passes.expand_mixed_kernel.needed import without_needless
from pypto.passes.expand_mixed_kernel.owners import owners_of
from pypto.passes.expand_mixed_kernel.setup import Pipe, pipe_of, with_setup
from pypto.passes.expand_mixed_kernel.sides import Side
from pypto.passes.expand_mixed_kernel.slots import with_frees
from pypto.passes.framework import program_pass
from pypto.span import Span
from pypto.target import chip_of

__all__ = ["expand_mixed_kernel", "side_name"]

_TYPES = {Core.CUBE: FunctionType.AIC, Core.VECTOR: FunctionType.AIV}
_CORES = {Core.CUBE: "the cube core", Core.VECTOR: "the vector core"}


def side_name(kernel: str, core: Core) -> str:
    """The name of a kernel's part on one core."""
    return f"{kernel}_{_TYPES[core].name.lower()}"


@program_pass(
    "ExpandMixedKernel",
    requires=(IRProperty.SSAForm, IRProperty.IncoreTileOps, IRProperty.SplitIncoreOrch, IRProperty.TileMemoryInferred),
    produces=(IRProperty.SSAForm, IRProperty.MixedKernelExpanded, IRProperty.NormalizedStmtStructure),
)
def expand_mixed_kernel(program: Program, options: PassOptions) -> Program:
    taken = {f.name for f in program.function_list}
    direct = not chip_of(options.platform).pipes_through_gm
    return program.with_functions(g for f in program.function_list for g in _expanded(f, taken, direct))


def _expanded(f: Function, taken: set[str], direct: bool) -> tuple[Function, ...]:
    if f.func_type is not FunctionType.InCore or not is_mixed(f):
        return (f,)
    for core in _TYPES:
        if side_name(f.name, core) in taken:
            what = f"kernel '{f.name}' works on both cores, and '{side_name(f.name, core)}' is the name of something else"
            raise NotSupportedError(what, f.span, "call that function something else")
    owners = owners_of(f)
    bodies = {core: without_needless(Side(f, core, owners, direct).body(f.body)) for core in _TYPES}
    _check_known(f, bodies)
    _check_tensors(f, bodies)
    pipe = pipe_of(f, bodies[Core.CUBE])
    sides = [_side(f, core, body, pipe) for core, body in bodies.items()]
    return (*sides, _group(f, sides))


def _side(f: Function, core: Core, body: Stmt, pipe: Pipe | None) -> Function:
    body = with_frees(body)
    if pipe is not None:
        body = with_setup(f, core, body, pipe)
    params = tuple(Var(p.name_hint, p.type, p.span) for p in f.params)
    body, _ = deep_clone(body, dict(zip(f.params, params, strict=True)))
    if not any(isinstance(s, ReturnStmt) for s in flatten_to_stmts(body)[-1:]):
        body = seq((body, ReturnStmt((), f.span)), body.span)
    made = Function(side_name(f.name, core), params, (), body, f.span, _TYPES[core], attrs=f.attrs.without("split"))
    found = accesses(body, Flow().roots(made))
    written = [found.get(p, Access()).written for p in params]
    directions = (d if w else ParamDirection.In for d, w in zip(f.param_directions, written, strict=True))
    return made.replace(param_directions=tuple(directions))


def _group(f: Function, sides: list[Function]) -> Function:
    """Both cores on the kernel's arguments; its results are the tensors that it was given."""
    roots = Flow().roots(f)
    params = tuple(Var(p.name_hint, p.type, p.span) for p in f.params)
    at = dict(zip(f.params, params, strict=True))
    returned: list[Expr] = []
    for s in (s for s in statements(f.body) if isinstance(s, ReturnStmt)):
        for v in s.value:
            root = roots.only(v)
            if root not in at:
                what = f"kernel '{f.name}' works on both cores and returns what is no parameter: that has no .pto form"
                raise NotSupportedError(what, s.span, "write it into a pl.Out tensor")
            assert root is not None
            returned.append(at[root])
    calls = [EvalStmt(Call(GlobalVar(g.name), params, EMPTY, EMPTY, VoidType.get(), f.span), f.span) for g in sides]
    body = seq((*calls, ReturnStmt(returned, f.span)), f.span)
    pairs = zip(params, f.param_directions, strict=True)
    return Function(f.name, pairs, tuple(v.type for v in returned), body, f.span, FunctionType.Group, attrs=f.attrs)


# -- what cannot be told apart -------------------------------------------------------------------------------------


class _Known(ScopedWalk):
    """Refuses what is read on a core that does not know it."""

    core = Core.SHARED

    def use(self, v: Var, at: Stmt) -> None:
        if v not in self.visible:
            what = f"'{user_name(v)}' is known on one core only, and {_CORES[self.core]} needs it"
            remedy = "read it from a tensor of the caller's, or compute what depends on it in a kernel of its own"
            raise NotSupportedError(f"kernel '{self.f.name}' works on both cores: {what}: that has no .pto form", at.span, remedy)

    def define(self, v: Var, at: Stmt) -> None:
        for x in walk(v.type, types=True):
            if isinstance(x, Var) and x.__identity__:
                self.use(x, at)


def _check_known(f: Function, bodies: dict[Core, Stmt]) -> None:
    for core, body in bodies.items():
        known = _Known(f.replace(body=body))
        known.core = core
        known.run()


def _check_tensors(f: Function, bodies: dict[Core, Stmt]) -> None:
    """Memory that one core writes is not the other's: nothing says which of them comes first."""
    found = [accesses(body, Flow().roots(f.replace(body=body))) for body in bodies.values()]
    for p in f.params:
        mine, other = (a.get(p, Access()) for a in found)
        if (mine.written and (other.read or other.written)) or (other.written and mine.read):
            what = f"kernel '{f.name}' works on both cores, and both work on '{user_name(p)}', which one of them writes"
            remedy = "pass it between them as a tile, or write two tensors"
            raise NotSupportedError(f"{what}: that has no .pto form", _last_touch(f, p), remedy)


def _last_touch(f: Function, p: Var) -> Span:
    """Where the kernel last works on a tensor."""
    roots = Flow().roots(f)
    plain = (s for s in statements(f.body) if isinstance(s, (AssignStmt, EvalStmt)))
    return [s.span for s in plain if p in accesses(s, roots)][-1]

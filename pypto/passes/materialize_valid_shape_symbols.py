"""MaterializeValidShapeSymbols: run-time valid extents of parameters become scalars that callers pass.

In: kernels with symbols in the valid shapes of tensor parameters that no physical extent and no scalar parameter
stands for.  Out: one leading scalar parameter per such symbol; every call passes the extent that its argument has.
Errors: a valid extent that is an expression, arguments of one call that disagree about a symbol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypto.enums import ArgDirection, FunctionType, ParamDirection
from pypto.errors import CompileError
from pypto.ir import arith
from pypto.ir.expr import Call, ConstInt, Expr, Submit, Var
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TensorType
from pypto.named import NamedTuple
from pypto.passes.context import PassOptions
from pypto.passes.framework import program_pass
from pypto.passes.ssa_rewriter import SSARewriter

__all__ = ["materialize_valid_shape_symbols"]

_KINDS = (FunctionType.InCore, FunctionType.AIC, FunctionType.AIV, FunctionType.Spmd)


class Symbol(NamedTuple):
    """A symbol, and every parameter and axis whose valid extent it is."""

    var: Var
    places: list[tuple[int, int]]


def _symbols(f: Function) -> list[Symbol]:
    known: set[Var] = set(f.params)
    for p in f.params:
        if isinstance(p.type, TensorType):
            known.update(d for d in p.type.shape if isinstance(d, Var))
    found: dict[Var, Symbol] = {}
    for i, p in enumerate(f.params):
        view = p.type.tensor_view if isinstance(p.type, TensorType) else None
        for axis, e in enumerate(view.valid_shape if view is not None else ()):
            if isinstance(e, ConstInt) or e in known:
                continue
            if not isinstance(e, Var):
                raise CompileError(
                    f"valid extent {axis} of parameter '{p.name_hint}' of '{f.name}' is an expression",
                    p.span,
                    "give the extent a name of its own with pl.dynamic and bind it where the kernel is called",
                    code="C070",
                )
            found.setdefault(e, Symbol(e, [])).places.append((i, axis))
    return list(found.values())


class _Calls(SSARewriter):
    def __init__(self, gained: Mapping[str, list[Symbol]]) -> None:
        super().__init__()
        self.gained = gained

    def visit_call(self, c: Call) -> Expr:
        return self._complete(super().visit_call(c))

    def visit_submit(self, c: Submit) -> Expr:
        return self._complete(self.rebuild(c))

    def _complete(self, c: Any) -> Expr:
        symbols = self.gained.get(c.op.name)
        if not symbols:
            made: Expr = c
            return made
        values = tuple(_extent(c, s) for s in symbols)
        attrs = c.attrs
        if attrs.get("arg_directions"):
            scalars = (ArgDirection.Scalar,) * len(values)
            attrs = attrs.with_(arg_directions=(*scalars, *attrs["arg_directions"]))
        changed: Expr = c.replace(args=(*values, *c.args), attrs=attrs)
        return changed


def _extent(c: Any, s: Symbol) -> Expr:
    """What a symbol is at a call: the valid extent of the arguments at its places."""
    value: Expr | None = None
    for i, axis in s.places:
        t = c.args[i].type
        if not isinstance(t, TensorType):
            continue
        here = t.valid[axis]
        if value is not None and not arith.same(value, here):
            raise CompileError(
                f"'{c.op.name}': arguments disagree about the valid extent '{s.var.name_hint}'",
                c.span,
                "pass tensors with the same valid extent, or give the parameters extents of their own",
                code="C071",
            )
        value = here
    assert value is not None
    return value


@program_pass("MaterializeValidShapeSymbols")
def materialize_valid_shape_symbols(program: Program, options: PassOptions) -> Program:
    gained = {f.name: s for f in program.function_list if f.func_type in _KINDS and (s := _symbols(f))}
    if not gained:
        return program
    functions = []
    for f in program.function_list:
        made = _Calls(gained).function(f)
        symbols = gained.get(f.name, [])
        if symbols:
            params = (*(s.var for s in symbols), *made.params)
            made = made.replace(params=params, param_directions=(*(ParamDirection.In for _ in symbols), *made.param_directions))
        functions.append(made)
    return program.with_functions(functions)

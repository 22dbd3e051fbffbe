"""The program being built: its functions, dynamic symbols and captured sources.

In: requests for functions by name.  Out: an `ir.Program`.
Invariant: one symbol, one variable in the whole program; a function is built when it is first needed, never twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pypto.dtypes import DataType
from pypto.errors import InternalError
from pypto.frontend.source import Source
from pypto.ir import arith
from pypto.ir.expr import Expr, Var, const_index
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import substitute
from pypto.ir.shaped import ShapedType, TensorType
from pypto.ir.structural import compare
from pypto.ir.types import PtrType, ScalarType, TupleType, Type, UnknownType
from pypto.language.annotations import MemRef
from pypto.language.symbols import DynVar, SymbolicInt, SymbolicOp

__all__ = ["ProgramBuilder", "Signature", "call_type"]

_OPS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "+": arith.add,
    "-": arith.sub,
    "*": arith.mul,
    "//": arith.floordiv,
    "%": arith.mod,
}


class Signature:
    """What a caller must know of a function."""

    __slots__ = ("name", "params", "results")

    def __init__(self, name: str, params: Iterable[Var], results: Iterable[Type]) -> None:
        self.name, self.params, self.results = name, tuple(params), tuple(results)


class ProgramBuilder:
    """Collects the functions of one program."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.functions: dict[str, Function] = {}
        self.signatures: dict[str, Signature] = {}
        self.sources: list[Source] = []
        self.symbols: dict[str, Var] = {}
        self.allocations: dict[str, Var] = {}
        self.declared: dict[int, tuple[str, MemRef]] = {}  # declared allocations by identity
        # Functions that exist by name but are not built yet (members of a class, definitions of a text).
        self.pending: dict[str, Callable[[], Signature]] = {}
        self.building: list[str] = []
        self.active: list[Source] = []  # sources of the functions being built, outermost first
        self.specialized: list[Any] = []  # helpers made into functions (helpers.Specialized)

    def index_of(self, source: Source) -> int:
        for i, s in enumerate(self.sources):
            if s is source:
                return i
        self.sources.append(source)
        return len(self.sources) - 1

    # -- symbols --

    def symbol(self, name: str) -> Var:
        """The variable of a dynamic extent."""
        made = self.symbols.get(name)
        if made is None:
            made = self.symbols[name] = Var(name, ScalarType.of(DataType.INDEX))
        return made

    def fresh_symbol(self, name: str) -> str:
        """A symbol name that no one uses yet."""
        candidate, n = name, 0
        while candidate in self.symbols:
            n += 1
            candidate = f"{name}_{n}"
        return candidate

    def extent(self, value: SymbolicInt) -> Expr:
        """A symbolic extent as an index expression."""
        if isinstance(value, DynVar):
            return self.symbol(value.name)
        if not isinstance(value, SymbolicOp):
            raise InternalError(f"unknown symbolic extent {value!r}")
        return _OPS[value.op](self._side(value.left), self._side(value.right))

    def _side(self, value: Any) -> Expr:
        return self.extent(value) if isinstance(value, SymbolicInt) else const_index(value)

    def allocation(self, name: str) -> Var:
        """The pointer of a declared allocation."""
        made = self.allocations.get(name)
        if made is None:
            made = self.allocations[name] = Var(name, PtrType.get())
        return made

    # -- functions --

    def add(self, function: Function, results: Iterable[Type]) -> Signature:
        made = Signature(function.name, function.params, results)
        self.functions[function.name] = function
        self.signatures[function.name] = made
        return made

    def fresh_name(self, name: str) -> str:
        """`name`, or `name_1`, `name_2`, … where it is taken."""
        taken = {*self.functions, *self.pending, *self.building}
        candidate, n = name, 0
        while candidate in taken:
            n += 1
            candidate = f"{name}_{n}"
        return candidate

    def signature(self, name: str) -> Signature | None:
        """The signature of a function of this program, building it first if it is pending; None for an unknown name."""
        made = self.signatures.get(name)
        if made is None and name in self.pending:
            made = self.pending[name]()
        return made

    def finish(self) -> Program:
        for name in list(self.pending):
            if name not in self.functions:
                self.pending[name]()
        return Program(self.functions.values(), self.name)


def call_type(signature: Signature, args: tuple[Expr, ...]) -> tuple[Type, ...]:
    """Result types at a call site: the callee's symbols replaced by the extents they stand for."""
    known: dict[Var, Expr] = {}
    for p, a in zip(signature.params, args, strict=True):
        _unify(p.type, a.type, known)
        if isinstance(p.type, ScalarType):
            known[p] = a
    results = tuple(_as_given(t, signature, args) for t in signature.results)
    return tuple(substitute(t, known) for t in results) if known else results


def _as_given(result: Type, signature: Signature, args: tuple[Expr, ...]) -> Type:
    """A result of a parameter's strides: what the function says of where its rows lie, its caller need not say."""
    if not isinstance(result, TensorType) or result.tensor_view is None or not result.tensor_view.stride:
        return result
    for p, a in zip(signature.params, args, strict=True):
        if isinstance(a.type, TensorType) and compare(p.type, result) is None:
            return result.replace(tensor_view=a.type.tensor_view)
    return result


def _unify(formal: Type, actual: Type, known: dict[Var, Expr]) -> None:
    if isinstance(formal, ShapedType) and isinstance(actual, ShapedType) and len(formal.shape) == len(actual.shape):
        for f, a in zip((*formal.shape, *formal.valid), (*actual.shape, *actual.valid), strict=False):
            if isinstance(f, Var) and f is not a:
                known.setdefault(f, a)


def joined(types: tuple[Type, ...]) -> Type:
    """The type of a call: that of its one result, a tuple, or nothing."""
    if len(types) == 1:
        return types[0]
    return TupleType(types) if types else UnknownType.get()

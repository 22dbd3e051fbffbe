"""Programs as DSL text.

In: a node or type.  Out: text in the language; a program or function starts with `# pypto.program: <name>` or
`# pypto.function: <name>`, which tells the parser to take every call as the operator it names.
Invariant: the text depends on the node alone, names are unique within a function, and what a function of the functional
stage prints parses back to a structurally equal function; buffer-stage functions print for reading only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import FunctionIRStage, Level, ParamDirection, Role
from pypto.ir.expr import Expr, Op, Var
from pypto.ir.node import DEFINITION, Node
from pypto.ir.printer_buffer import BufferExpressions, BufferStatements
from pypto.ir.printer_expressions import Expressions, Names, identifier
from pypto.ir.printer_statements import INDENT, Statements
from pypto.ir.program import Function, Program
from pypto.ir.shaped import BufferType
from pypto.ir.stmt import ScopeStmt, Stmt
from pypto.ir.types import ScalarType, TupleType, Type

__all__ = ["python_print", "python_print_type"]

_WIDTH = 120
_DECORATOR_ATTRS = ("auto_scope", "external_source")


def python_print(
    node: Node, prefix: str = "pl", concise: bool = False, format: bool = True, explicit_layout: bool = False
) -> str:
    """The text of a node or type.

    `prefix` is the name of the language module, `concise` leaves out annotations that the value implies, `explicit_layout`
    writes the views of all tiles in full.  The text needs no formatter: `format` is accepted and changes nothing.
    InternalError for an unrolled loop with carried values, which has no spelling.
    """
    if isinstance(node, Program):
        return _Printer(prefix, concise, explicit_layout, node.function_list).program(node)
    if isinstance(node, Function):
        return _Printer(prefix, concise, explicit_layout, (node,)).function_text(node)
    if isinstance(node, Type):
        return python_print_type(node, prefix, format, explicit_layout)
    text = Expressions(Names(prefix), explicit_layout)
    if isinstance(node, Stmt):
        statements = Statements(text, concise)
        statements.stmt(node)
        return "\n".join(statements.lines)
    if isinstance(node, Expr):
        return text.expr(node)
    if isinstance(node, Op):
        return text.callee(node)
    raise TypeError(f"python_print takes an IR node or a type, not {type(node).__name__}")


def python_print_type(type: Type, prefix: str = "pl", format: bool = True, explicit_layout: bool = False) -> str:
    """The annotation that stands for a type."""
    return Expressions(Names(prefix), explicit_layout).type(type)


class _Printer:
    """The text of functions that share one module: imports, symbols, decorators, signatures."""

    def __init__(self, prefix: str, concise: bool, explicit_layout: bool, functions: Iterable[Function]) -> None:
        self.pl, self.concise, self.explicit_layout = prefix, concise, explicit_layout
        self.module = Names(prefix)
        reached = [x for f in functions for x in _reachable(f)]
        defined = _defined(reached)
        self.symbols = [self.module.define(v) for v in _symbols(reached) if v not in defined]
        self.has_buffers = any(isinstance(x, BufferType) for x in reached)
        self.has_distributed = any(isinstance(x, Op) and x.name.startswith("pld.") for x in reached)

    # -- modules --

    def head(self, kind: str, name: str) -> list[str]:
        lines = [f"# pypto.{kind}: {' '.join(name.split())}".rstrip()]
        if self.has_buffers:
            lines.append("import pypto")
        lines.append(f"import pypto.language as {self.pl}")
        if self.has_distributed:
            lines.append("import pypto.language.distributed as pld")
        if self.symbols:
            lines += ["", *(f'{s} = {self.pl}.dynamic("{s}")' for s in self.symbols)]
        return [*lines, "", ""]

    def program(self, p: Program) -> str:
        lines = [*self.head("program", p.name), f"@{self.pl}.program", f"class {identifier(p.name or 'Program')}:"]
        for i, f in enumerate(p.function_list):
            lines += [""] if i else []
            lines += [INDENT + line if line else "" for line in self.function(f, method=True)]
        return "\n".join([*lines, *([] if p.function_list else [INDENT + "pass"]), ""])

    def function_text(self, f: Function) -> str:
        return "\n".join([*self.head("function", f.name), *self.function(f, method=False), ""])

    # -- functions --

    def function(self, f: Function, method: bool) -> list[str]:
        names = Names(self.pl, self.module, mark_free=True)
        buffers = f.ir_stage is FunctionIRStage.Buffer
        text = (BufferExpressions if buffers else Expressions)(names, self.explicit_layout)
        for p in f.params:
            names.define(p)
        for v in _defined(_reachable(f)):
            names.define(v)
        statements = (BufferStatements if buffers else Statements)(text, self.concise)
        attrs = {k: v for k, v in f.attrs.items() if k not in _DECORATOR_ATTRS}
        if attrs:
            with statements.indented():
                statements.line(f"{self.pl}.func_attr({text.mapping(attrs)})")
        statements.body(f.body)
        stage = ["# buffer stage: for reading only"] if buffers else []
        return [*stage, self.decorator(f, text), *self.signature(f, text, method), *statements.lines]

    def decorator(self, f: Function, text: Expressions) -> str:
        options: list[tuple[str, Any]] = [("type", f.func_type)]
        options += [(k, v) for k, v in (("level", f.level), ("role", f.role)) if v is not None]
        options += [(k, f.attrs[k]) for k in _DECORATOR_ATTRS if k in f.attrs]
        if f.requires_runtime_binding:
            options.append(("requires_runtime_binding", True))
        return f"@{self.pl}.function({', '.join(f'{k}={text.value(v)}' for k, v in options)})"

    def signature(self, f: Function, text: Expressions, method: bool) -> list[str]:
        with_self = method and not f.is_device and not (f.level is Level.HOST and f.role is Role.SubWorker)
        params = ["self"] if with_self else []
        for p, direction in zip(f.params, f.param_directions, strict=True):
            t = text.type(p.type)
            written = t if direction is ParamDirection.In else f"{self.pl}.{direction.name}[{t}]"
            params.append(f"{text.names.use(p)}: {written}")
        end = f"){self.returns(f, text)}:"
        line = f"def {f.name}({', '.join(params)}{end}"
        if len(line) <= _WIDTH:
            return [line]
        return [f"def {f.name}(", *(f"{INDENT}{p}," for p in params), end]

    def returns(self, f: Function, text: Expressions) -> str:
        types = f.return_types
        if not types:
            return ""
        # One returned tuple is not several returned values.
        single = len(types) == 1 and not isinstance(types[0], TupleType)
        return f" -> {text.type(types[0] if single else TupleType(types))}"


# -- what a function mentions ----------------------------------------------------------------------------------------


def _reachable(n: Node) -> Iterator[Node]:
    """Every node below `n`, extents inside types included, once each, parents first."""
    seen: set[int] = set()
    stack = [n]
    while stack:
        top = stack.pop()
        if id(top) not in seen:
            seen.add(id(top))
            yield top
            stack += top.children()[::-1]


def _defined(nodes: Iterable[Node]) -> dict[Var, None]:
    """Variables that come into being in these nodes, in program order."""
    found: dict[Var, None] = {}
    for x in nodes:
        for f in type(x).__fields__:
            if f.role == DEFINITION:
                value = getattr(x, f.name)
                found.update(dict.fromkeys(v for v in (value if isinstance(value, tuple) else (value,)) if v is not None))
        if isinstance(x, ScopeStmt) and isinstance(x.attrs.get("task_id_var"), Var):
            found[x.attrs["task_id_var"]] = None
    return found


def _symbols(nodes: Iterable[Node]) -> dict[Var, None]:
    """INDEX variables in extents of types, in order of first mention."""
    found: dict[Var, None] = {}
    for t in nodes:
        if isinstance(t, Type):
            for x in _reachable(t):
                if isinstance(x, Var) and isinstance(x.type, ScalarType) and x.type.dtype is DataType.INDEX:
                    found[x] = None
    return found

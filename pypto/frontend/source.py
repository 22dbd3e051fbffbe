"""A kernel's source, captured once at decoration: what is hashed is what is compiled.

In: a Python function, or a definition inside a text.  Out: a `Source`: syntax tree, positions, parameters with their
evaluated annotations and defaults, the names the body reads and what they stand for.
Invariant: a Source never changes; only the values of the globals and cells it refers to may, and not those that are
pinned for a compilation.  Light: no IR, no numpy.
"""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType, FunctionType, MappingProxyType, ModuleType
from typing import Any

from pypto.errors import ParserSyntaxError, UndefinedVariableError, UnsupportedFeatureError
from pypto.frontend.locate import Located, locate, statements
from pypto.frontend.reads import local_names, reads
from pypto.span import Span

__all__ = ["NO_PINS", "Chain", "Pins", "Source", "capture", "pinned"]

Chain = tuple[str, ...]
Pins = Mapping[int, Mapping[str, Any]]
"""What names stand for in one compilation: by the `id` of a source that lives at least as long, then by name."""
NO_PINS: Pins = MappingProxyType({})
_ABSENT = object()
_pins: ContextVar[Pins] = ContextVar("pins", default=NO_PINS)


@contextmanager
def pinned(pins: Pins) -> Iterator[None]:
    """Inside, names of these sources stand for what is pinned, whatever other threads bind them to meanwhile."""
    token = _pins.set(pins)
    try:
        yield
    finally:
        _pins.reset(token)


class Source:
    """One function's text.  `function` is the Python function it was taken from, None for a definition in a text."""

    __slots__ = (
        "_annotations",
        "_columns",
        "_locals",
        "_ordinals",
        "_reads",
        "_texts",
        "cells",
        "defaults",
        "filename",
        "first_line",
        "function",
        "globals",
        "lines",
        "name",
        "node",
        "outer",
        "qualname",
        "raw",
    )

    def __init__(
        self,
        located: Located,
        filename: str,
        globals: Mapping[str, Any],
        *,
        function: FunctionType | None = None,
        qualname: str | None = None,
        outer: Mapping[str, Any] | None = None,
        raw: bool = False,
    ) -> None:
        self.node, self.lines, self.first_line = located
        self.name = self.node.name
        self.filename, self.globals, self.function = filename, globals, function
        self.qualname = qualname or self.name
        self.raw = raw  # printed program text: calls are IR calls
        self.cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)) if function else {}
        self._locals: frozenset[str] | None = None
        self.defaults = _defaults(function) if function else {}
        self._annotations: dict[str, Any] | None = None
        self._ordinals: dict[ast.AST, int] | None = None
        self._columns: dict[int, bytes] = {}
        self._reads: tuple[Chain, ...] | None = None
        self._texts: dict[bool, str] = {}
        _check_parameters(self)
        self.outer = self._missing_from(outer) if outer else {}

    @property
    def locals(self) -> frozenset[str]:
        """Names that the function binds, parameters included."""
        if self._locals is None:
            self._locals = local_names(self.node)
        return self._locals

    # -- names -----------------------------------------------------------------------------------------------------

    def free_names(self, signature: bool = False) -> tuple[Chain, ...]:
        """Dotted names that the body reads and does not bind, in order of first use, each up to its first non-module value.

        The signature's annotations and defaults are evaluated when the function is defined, so their values (`annotations`,
        `defaults`) and not their names decide; `signature=True` lists those names too.
        """
        if self._reads is None:
            self._reads = tuple(dict.fromkeys(c for root in self.node.body for c in reads(root)))
        chains = [c for c in self._reads if signature or c[0] not in self.locals]
        if signature:
            chains += [c for root in _signature_nodes(self.node) for c in reads(root)]
        return tuple(dict.fromkeys(map(self._cut, chains)))

    def resolve(self, chain: Sequence[str]) -> Any:
        """The value a dotted name stands for now; UndefinedVariableError naming it otherwise."""
        value = self.lookup(chain[0])
        if value is _ABSENT:
            hint = "define it before the kernel is called, at the level of the module or of the function around it"
            raise UndefinedVariableError(f"Undefined variable '{chain[0]}'", self.span(self.node), hint)
        for i, attribute in enumerate(chain[1:], 1):
            value = getattr(value, attribute, _ABSENT)
            if value is _ABSENT:
                what = f"'{'.'.join(chain[:i])}' has no attribute '{attribute}'"
                raise UndefinedVariableError(what, self.span(self.node), "correct the name, or import the module that defines it")
        return value

    def lookup(self, name: str) -> Any:
        """What is pinned; else closure cell, global, what the defining frame held, builtin; `Source.ABSENT` if none."""
        own = _pins.get().get(id(self))
        if own is not None and name in own:
            return own[name]
        cell = self.cells.get(name)
        if cell is not None:
            try:
                return cell.cell_contents
            except ValueError:
                return _ABSENT
        for space in (self.globals, self.outer, builtins.__dict__):
            if name in space:
                return space[name]
        return _ABSENT

    ABSENT = _ABSENT

    def _cut(self, chain: Chain) -> Chain:
        value = self.lookup(chain[0])
        for i, attribute in enumerate(chain[1:], 1):
            if not is_namespace(value):
                return chain[:i]
            value = getattr(value, attribute, _ABSENT)
        return chain

    def _missing_from(self, outer: Mapping[str, Any]) -> dict[str, Any]:
        """Names that only annotations mention are in no cell; take them from the frame that defines the function."""
        wanted = {c[0] for node in _annotation_nodes(self.node) for c in reads(node)}
        missing = [n for n in sorted(wanted) if n in outer and n not in self.globals and n not in self.cells]
        return {n: outer[n] for n in missing if n not in self.locals}

    # -- signature -------------------------------------------------------------------------------------------------

    @property
    def parameters(self) -> tuple[str, ...]:
        a = self.node.args
        return tuple(p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs))

    @property
    def parameter_nodes(self) -> dict[str, ast.arg]:
        a = self.node.args
        return {p.arg: p for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)}

    @property
    def annotations(self) -> dict[str, Any]:
        """Evaluated parameter annotations (and "return"); postponed ones are evaluated here, never by `eval`."""
        if self._annotations is None:
            from pypto.frontend.constants import evaluate_annotations

            self._annotations = evaluate_annotations(self)
        return self._annotations

    # -- positions -------------------------------------------------------------------------------------------------

    def span(self, node: ast.AST, index: int = -1, ordinal: int = -1) -> Span:
        """The place of a syntax node, with character columns."""
        line = getattr(node, "lineno", self.first_line)
        end = getattr(node, "end_lineno", None) or line
        begin_column = self._character(line, getattr(node, "col_offset", 0)) + 1
        end_column = self._character(end, getattr(node, "end_col_offset", None) or 0) + 1
        return Span(self.filename, line, begin_column, end, end_column, index, ordinal)

    def line(self, number: int) -> str:
        i = number - self.first_line
        return self.lines[i] if 0 <= i < len(self.lines) else ""

    def _character(self, line: int, offset: int) -> int:
        # ast counts UTF-8 bytes.
        data = self._columns.get(line)
        if data is None:
            data = self._columns[line] = self.line(line).encode("utf-8", "surrogatepass")
        return len(data[:offset].decode("utf-8", "replace"))

    def ordinal(self, statement: ast.AST) -> int:
        """Preorder number of a statement; the definition itself is 0."""
        if self._ordinals is None:
            self._ordinals = {n: i for i, n in enumerate(statements(self.node))}
        return self._ordinals.get(statement, -1)

    def line_of(self, ordinal: int) -> int:
        """The line, in the file as it is captured here, of a statement's beginning; -1 for an unknown number."""
        for i, n in enumerate(statements(self.node)):
            if i == ordinal:
                return n.lineno
        return -1

    # -- identity --------------------------------------------------------------------------------------------------

    def canonical(self, defaults: bool = True) -> str:
        """The syntax without positions, decorators, docstring and comments; `defaults=False` leaves default values out."""
        text = self._texts.get(defaults)
        if text is None:
            out: list[str] = []
            _canonical(_bare(self.node, defaults), out.append)
            text = self._texts[defaults] = "".join(out)
        return text

    def __repr__(self) -> str:
        return f"<Source {self.qualname} at {self.filename}:{self.first_line}>"


def capture(function: Any, *, outer: Mapping[str, Any] | None = None, depth: int = 1) -> Source:
    """The source of a function (static methods and `functools.wraps` wrappers are opened).

    `outer` (default: the locals of the caller's frame, `depth` frames up) supplies names that only annotations read.
    """
    target = function.__func__ if isinstance(function, (staticmethod, classmethod)) else function
    if isinstance(function, classmethod):
        raise ParserSyntaxError(f"'{target.__qualname__}' is a class method", hint="use staticmethod: a kernel has no cls")
    target = inspect.unwrap(target)
    if not isinstance(target, FunctionType):
        name = getattr(target, "__qualname__", None) or repr(target)
        raise ParserSyntaxError(f"cannot retrieve source code of '{name}': it is no Python function", hint="define it with `def`")
    if outer is None:
        outer = enclosing(sys._getframe(depth))
    return Source(
        locate(target),
        target.__code__.co_filename,
        target.__globals__,
        function=target,
        qualname=target.__qualname__,
        outer=outer,
    )


def enclosing(frame: FrameType) -> Mapping[str, Any]:
    """Names that a definition in this frame sees by standing in it: of class bodies and the function around them."""
    found: list[Mapping[str, Any]] = []
    at: FrameType | None = frame
    while at is not None and at.f_locals is not at.f_globals:
        found.append(at.f_locals)
        if at.f_code.co_flags & inspect.CO_OPTIMIZED:
            break
        at = at.f_back
    return ChainMap(*(dict(f) for f in found)) if found else {}


def is_namespace(value: Any) -> bool:
    """Values whose attributes a dotted name may go through: modules and enumerations."""
    return isinstance(value, (ModuleType, enum.EnumMeta))


def _check_parameters(source: Source) -> None:
    a = source.node.args
    for star in (a.vararg, a.kwarg):
        if star is not None:
            mark = "*" if star is a.vararg else "**"
            raise UnsupportedFeatureError(
                f"'{source.qualname}': parameter '{mark}{star.arg}' is not supported",
                source.span(star),
                "name every parameter",
                source_lines=(source.line(star.lineno),),
            )


def _defaults(function: FunctionType) -> dict[str, Any]:
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    values = function.__defaults__ or ()
    return {**dict(zip(names[len(names) - len(values) :], values, strict=True)), **(function.__kwdefaults__ or {})}


def _signature_nodes(node: ast.FunctionDef) -> Iterator[ast.expr]:
    a = node.args
    for p in (*a.posonlyargs, *a.args, *a.kwonlyargs):
        if p.annotation is not None:
            yield p.annotation
    if node.returns is not None:
        yield node.returns
    yield from (d for d in (*a.defaults, *a.kw_defaults) if d is not None)


def _annotation_nodes(node: ast.FunctionDef) -> Iterator[ast.expr]:
    """Annotations of the signature and of the body's assignments, quoted ones opened."""
    in_body = (n.annotation for n in statements(node) if isinstance(n, ast.AnnAssign))
    for n in (*_signature_nodes(node), *in_body):
        if isinstance(n, ast.Constant) and isinstance(n.value, str):
            yield parse_annotation(n.value) or n
        else:
            yield n


def parse_annotation(text: str) -> ast.expr | None:
    """A hand-quoted annotation as a syntax tree, or None if it is no expression."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _bare(node: ast.FunctionDef, defaults: bool) -> list[Any]:
    body = node.body
    if (
        body
        and isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    ):
        body = body[1:]
    a = node.args
    values = [*a.defaults, *a.kw_defaults] if defaults else []
    return [node.name, [a.posonlyargs, a.args, a.kwonlyargs], values, node.returns, body]


_LEFT_OUT = frozenset(("ctx", "kind", "type_comment"))


def _canonical(value: Any, put: Callable[[str], object]) -> None:
    """Type, fields and constants of a tree; empty fields are left out, so that Python versions agree."""
    if isinstance(value, ast.AST):
        if isinstance(value, ast.arg) and isinstance(value.annotation, ast.Constant) and isinstance(value.annotation.value, str):
            value = ast.arg(value.arg, parse_annotation(value.annotation.value) or value.annotation)
        put(type(value).__name__ + "(")
        for name in value._fields:
            field = getattr(value, name, None)
            if field is not None and field != [] and name not in _LEFT_OUT:
                put(name + "=")
                _canonical(field, put)
                put(",")
        if isinstance(value, ast.Constant) and value.value is None:
            put("None")
        put(")")
    elif isinstance(value, list):
        put("[")
        for v in value:
            _canonical(v, put)
            put(",")
        put("]")
    else:
        put(f"{type(value).__name__}:{value!r}")

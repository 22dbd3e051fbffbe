"""Where the text of a function stands.

In: a Python function.  Out: its `ast.FunctionDef` with the file's own line numbers, and its lines.
Invariant: the piece found compiles to the function's own code; another function's text, or a version of the file that
is not the one running, is refused.
"""

from __future__ import annotations
import __future__ as futures

import ast
import dis
import linecache
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import CodeType, FunctionType, ModuleType
from typing import Any, NoReturn

from pypto.errors import ParserSyntaxError
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = ["Located", "locate", "statements"]

_FUTURES = 0
for _name in futures.all_feature_names:
    _FUTURES |= getattr(futures, _name).compiler_flag
_WAYS_OUT = (
    "write it to a file and import it: a kernel's source must be where Python's linecache finds it. Notebooks put their cells "
    "there; generated code is put there by linecache.cache[name] = (len(text), None, text.splitlines(True), name), "
    "with the name that compile(text, name, 'exec') was given"
)
_STALE = "the file changed since it was imported, or its byte code is stale: import it again"


class Located(NamedTuple):
    """The function's syntax tree, its lines as they stand in the file, and the number of the first one."""

    node: ast.FunctionDef
    lines: tuple[str, ...]
    first_line: int


def locate(function: FunctionType) -> Located:
    """Find and verify the text of `function`; ParserSyntaxError where that is impossible."""
    code = function.__code__
    if code.co_name == "<lambda>":
        _refuse(function, "a lambda cannot be a kernel", "define the kernel with `def`")
    try:
        with suppress(ParserSyntaxError):
            return _locate(function)
        # Python may remember the file as it was before an edit.
        linecache.checkcache(code.co_filename)
        return _locate(function)
    except (RecursionError, MemoryError):  # the parser's answer to thousands of levels
        what = f"'{function.__qualname__}' has expressions that are nested too deeply"
        _refuse(function, what, "give parts of them names in statements of their own")


def _locate(function: FunctionType) -> Located:
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    first = code.co_firstlineno - 1
    if not 0 <= first < len(lines):
        _refuse(function, f"cannot retrieve source code of '{function.__qualname__}' ({code.co_filename})", _WAYS_OUT)
    found = None
    for last in _ends(lines, first):
        found = _parse(lines[first:last], first, code)
        if found is not None:
            break
    if found is None:
        _refuse(
            function, f"cannot retrieve source code of '{function.__qualname__}': line {first + 1} is no definition", _WAYS_OUT
        )
    if isinstance(found, ast.AsyncFunctionDef):
        _refuse(function, f"'{function.__qualname__}' is a coroutine, not a kernel", "define the kernel with a plain `def`")
    if not isinstance(found, ast.FunctionDef) or found.name != code.co_name or not _compiles_to(found, function):
        _refuse(
            function,
            f"cannot retrieve source code of '{function.__qualname__}': the text at {code.co_filename}:{first + 1} "
            "is not that of the running function",
            _WAYS_OUT if code.co_filename.startswith("<") else _STALE,  # "<string>" is no file: its text may be anything
        )
    last_line = found.end_lineno or first + 1
    return Located(found, tuple(line.rstrip("\r\n") for line in lines[first:last_line]), first + 1)


def _refuse(function: FunctionType, message: str, hint: str) -> NoReturn:
    code = function.__code__
    raise ParserSyntaxError(message, Span(code.co_filename, code.co_firstlineno, 1), hint)


@contextmanager
def quiet() -> Iterator[None]:
    """Python has warned about this text already, when it compiled the module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _column(line: str) -> int | None:
    """Indentation as the tokenizer counts it; None for a line without code."""
    column = 0
    for c in line:
        if c == " ":
            column += 1
        elif c == "\t":
            column = (column // 8 + 1) * 8
        elif c == "\f":
            column = 0
        else:
            return None if c in "#\r\n" else column
    return None


def _ends(lines: Sequence[str], first: int) -> Iterator[int]:
    """Lines (exclusive) where the definition that starts at `first` may end.

    It ends before a line of its own or smaller indentation.  Whether such a line is code of its own, or stands inside a
    string, a bracket or the decorators, only parsing tells: each candidate is tried in turn.
    """
    base = _column(lines[first])
    for i in range(first + 1, len(lines)):
        column = _column(lines[i])
        if column is not None and base is not None and column <= base:
            yield i
    yield len(lines)


def _parse(lines: Sequence[str], first: int, code: CodeType) -> ast.stmt | None:
    """The definition that these lines are, with the file's line numbers; None if they are not one statement."""
    indented = bool(lines) and bool(_column(lines[0]))
    # Empty lines before it give the nodes the line numbers of the file.
    head = "\n" * (first - 1) + "if 1:\n" if indented else "\n" * first
    try:
        with quiet():
            body = ast.parse(head + "".join(lines)).body
    except (SyntaxError, ValueError):
        return None
    if indented:
        body = body[0].body if len(body) == 1 and isinstance(body[0], ast.If) else []
    return body[0] if len(body) == 1 else None


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """A statement and those inside it, in preorder."""
    if isinstance(node, ast.stmt):
        yield node
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        for child in getattr(node, name, ()):
            yield from statements(child)


def _compiles_to(node: ast.FunctionDef, function: FunctionType) -> bool:
    """Whether this text compiles to the function's code."""
    code = function.__code__
    # Test runners rewrite assertions, so such code never matches; the parser refuses `assert` anyway.
    if any(isinstance(n, ast.Assert) for n in statements(node)):
        return True
    # The compiler treats attributes of imported names specially; modules are usually imported.
    imported = [n for n in code.co_names if isinstance(function.__globals__.get(n), ModuleType)]
    made = _compile(node, code, imported)
    if made is None or _same_code(made, code):
        return made is not None
    other = _compile(node, code, ()) if imported else None
    return (other is not None and _same_code(other, code)) or _alike(made, code)


def _compile(node: ast.FunctionDef, code: CodeType, imported: Sequence[str]) -> CodeType | None:
    place: dict[str, Any] = {"lineno": 1, "col_offset": 0, "end_lineno": node.end_lineno or node.lineno, "end_col_offset": 0}
    bare = ast.FunctionDef(node.name, node.args, node.body, [], node.returns, None, **place)
    # Cells exist only inside a function that has those locals; anything else is global, its own name too.
    own: list[ast.stmt] = [] if node.name in code.co_freevars else [ast.Global([node.name], **place)]
    outer = ast.FunctionDef(
        "outer",
        ast.arguments([], [ast.arg(n, **place) for n in code.co_freevars], None, [], [], None, []),
        [*own, bare],
        [],
        **place,
    )
    if hasattr(node, "type_params"):
        for f in (bare, outer):
            vars(f)["type_params"] = []
    head: list[ast.stmt] = [ast.Import([ast.alias(n, **place) for n in imported], **place)] if imported else []
    module = ast.Module([*head, outer], [])
    try:
        with quiet():
            whole = compile(module, "<check>", "exec", code.co_flags & _FUTURES, dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    holder = next(c for c in whole.co_consts if isinstance(c, CodeType))
    return next((c for c in holder.co_consts if isinstance(c, CodeType) and c.co_name == code.co_name), None)


def _same_code(a: CodeType, b: CodeType) -> bool:
    """Equal instructions, names and constants, wherever they stand."""
    if a.co_code != b.co_code or a.co_names != b.co_names or a.co_varnames != b.co_varnames or a.co_freevars != b.co_freevars:
        return False
    return len(a.co_consts) == len(b.co_consts) and all(map(_same_constant, a.co_consts, b.co_consts))


def _alike(a: CodeType, b: CodeType) -> bool:
    """Equal but for how attributes of globals are called, which depends on what else the module does."""
    return a.co_varnames == b.co_varnames and list(_operations(a)) == list(_operations(b))


_CALLING = {"PRECALL", "PUSH_NULL", "CACHE", "RESUME", "EXTENDED_ARG", "NOP"}


def _operations(code: CodeType) -> Iterator[tuple[str, str]]:
    for i in dis.get_instructions(code):
        if i.opname in _CALLING:
            continue
        name = "LOAD_ATTR" if i.opname == "LOAD_METHOD" else "CALL" if i.opname.startswith("CALL") else i.opname
        if isinstance(i.argval, CodeType):
            yield from _operations(i.argval)
        elif i.opcode not in dis.hasjrel and i.opcode not in dis.hasjabs:
            yield name, repr(i.argval)
        else:
            yield name, ""


def _same_constant(a: object, b: object) -> bool:
    if isinstance(a, CodeType) and isinstance(b, CodeType):
        return _same_code(a, b)
    return type(a) is type(b) and repr(a) == repr(b)

"""`pl.parse` and its relatives: programs given as text.

In: text, or the path of a file.  Out: `ir.Function` or `ir.Program`.  Nothing is executed: imports of the language,
constants, `pl.dynamic` symbols and decorated definitions are read; anything else is refused.
Text that starts with `# pypto.program:` or `# pypto.function:` is a printed program, whose calls are IR calls.
"""

from __future__ import annotations

import ast
import importlib
import linecache
import re
from pathlib import Path
from typing import Any, NoReturn

from pypto.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    Error,
    ParserSyntaxError,
    UnsupportedFeatureError,
    closest,
)
from pypto.frontend.constants import Evaluator
from pypto.frontend.depth import REMEDY
from pypto.frontend.diagnostics import fail_at
from pypto.frontend.functions import (
    FunctionOptions,
    InlineFunction,
    ProgramMethod,
    build_program,
    function,
    inline,
    parse_function,
    program,
)
from pypto.frontend.invoke import Callee
from pypto.frontend.locate import Located
from pypto.frontend.source import Source
from pypto.ir.program import Function, Program

__all__ = ["loads", "loads_program", "parse", "parse_program"]

_HEADER = re.compile(r"\A(?:\s*\n)*# pypto\.(program|function):\s*(.*)")


def parse(code: str, filename: str = "<string>", source_map: Any = None) -> Function | Program:
    """The one function or program that a text defines; ValueError if there is none, or more than one."""
    if not isinstance(code, str):
        what = f"pl.parse takes the text of a program, got {type(code).__name__}"
        raise ArgumentTypeError(what, hint="pass a str; pl.loads reads a file")
    try:
        module = ast.parse(code, filename)
    except ValueError as e:  # a null byte, or half of a pair of surrogates
        raise SyntaxError(f"Failed to compile code from {filename}: {e}", (filename, None, None, None)) from None
    except (RecursionError, MemoryError):  # the parser's answer to thousands of levels
        raise ParserSyntaxError(f"{filename} has expressions that are nested too deeply", hint=REMEDY) from None
    except SyntaxError as e:
        raise SyntaxError(f"Failed to compile code from {filename}: {e.msg}", (filename, e.lineno, e.offset, e.text)) from None
    return _Text(code, filename, module).item()


def loads(path: str | Path) -> Function | Program:
    """The same from a file."""
    return parse(Path(path).read_text(encoding="utf-8"), str(path))


def parse_program(code: str, filename: str = "<string>", source_map: Any = None) -> Program:
    """`parse` for a text that defines a program."""
    return _program(parse(code, filename, source_map))


def loads_program(path: str | Path) -> Program:
    """`loads` for a file that defines a program."""
    return _program(loads(path))


def _program(made: Function | Program) -> Program:
    if not isinstance(made, Program):
        what = f"the text defines the function '{made.name}', not a program; use pl.parse"
        raise ArgumentValueError(what, hint="pl.parse and pl.loads give either")
    return made


class _Text:
    """The definitions of one text, read from top to bottom."""

    def __init__(self, code: str, filename: str, module: ast.Module) -> None:
        header = _HEADER.match(code)
        self.raw = header is not None
        self.name = header.group(2).strip() if header is not None else ""
        self.filename = filename
        self.lines = tuple(code.split("\n"))
        if not Path(filename).exists():
            # Errors of later passes quote the text by line.
            linecache.cache[filename] = (len(code), None, [line + "\n" for line in self.lines], filename)
        self.names: dict[str, Any] = {}
        self.items: list[tuple[str, Any]] = []
        holder = ast.FunctionDef("<module>", _NO_ARGUMENTS, module.body, [], None, None, lineno=1, col_offset=0)
        self.source = Source(Located(holder, self.lines, 1), filename, self.names)
        self.evaluator = Evaluator(self.source)
        for node in module.body:
            self.statement(node)

    def fail(self, kind: type[Error], message: str, node: ast.AST, hint: str) -> NoReturn:
        fail_at(kind, message, self.source, node, hint)

    def item(self) -> Function | Program:
        if not self.items:
            what = f"{self.filename}: nothing is decorated with @pl.function or @pl.program"
            raise ArgumentValueError(what, hint="write @pl.function above the function, or @pl.program above the class")
        if len(self.items) > 1:
            what = f"{self.filename}: several definitions, expected one: {', '.join(n for n, _ in self.items)}"
            raise ArgumentValueError(what, hint="put them into one class with @pl.program, or parse them one by one")
        name, made = self.items[0]
        if isinstance(made, list):
            return build_program(self.name or name, made)
        source, options = made
        return parse_function(source, options)

    # -- module level --

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            self.names[node.targets[0].id] = self.evaluator.value(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            self.names[node.target.id] = self.evaluator.value(node.value)
        elif isinstance(node, ast.FunctionDef):
            self._function(node)
        elif isinstance(node, ast.ClassDef):
            self._class(node)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            self.fail(
                UnsupportedFeatureError,
                f"Unsupported statement type at module level: {type(node).__name__}",
                node,
                "a text holds imports of pypto.language, constants and decorated definitions",
            )

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            module = node.module or "" if isinstance(node, ast.ImportFrom) else alias.name
            if module == "__future__":
                continue
            if module not in ("pypto.language", "pypto", "math"):
                what = f"a text may import pypto.language, not {module}"
                self.fail(UnsupportedFeatureError, what, node, "import pypto.language as pl, and write other values as constants")
            found: Any = importlib.import_module(module)
            if isinstance(node, ast.ImportFrom):
                found = getattr(found, alias.name)
            elif alias.asname is None:
                found = importlib.import_module(module.split(".")[0])
            self.names[alias.asname or alias.name.split(".")[0]] = found

    def _decorator(self, node: ast.FunctionDef | ast.ClassDef) -> tuple[Any, dict[str, Any]] | None:
        """The decorator and its keywords; None where there is none."""
        if len(node.decorator_list) != 1:
            return None
        d = node.decorator_list[0]
        if isinstance(d, ast.Call):
            if d.args:
                self.fail(
                    ParserSyntaxError, "a decorator takes keyword arguments", d, "@pl.function(type=pl.FunctionType.InCore)"
                )
            return self.evaluator.value(d.func), {k.arg or "": self.evaluator.value(k.value) for k in d.keywords}
        return self.evaluator.value(d), {}

    def _options(self, node: ast.FunctionDef) -> FunctionOptions:
        decorator = self._decorator(node)
        if decorator is None or decorator[0] is not function:
            what = f"'{node.name}' is not decorated with @pl.function"
            self.fail(ParserSyntaxError, what, node, "write @pl.function, and no other decorator, above it")
        known = dict(decorator[1])
        known.pop("external_source", None)
        unknown = known.keys() - set(FunctionOptions._fields)
        if unknown:
            what = f"unknown argument '{min(unknown)}' of @pl.function"
            hint = closest(min(unknown), FunctionOptions._fields) or f"its arguments are {', '.join(FunctionOptions._fields)}"
            self.fail(ParserSyntaxError, what, node.decorator_list[0], hint)
        return FunctionOptions(**known)

    def _captured(self, node: ast.FunctionDef, qualname: str) -> Source:
        return Source(Located(node, self.lines, 1), self.filename, self.names, qualname=qualname, raw=self.raw)

    def _function(self, node: ast.FunctionDef) -> None:
        decorator = self._decorator(node)
        if decorator is not None and decorator[0] is inline:
            self.names[node.name] = InlineFunction(self._captured(node, node.name))
            return
        made = (self._captured(node, node.name), self._options(node))
        self.names[node.name] = Callee(node.name)
        self.items.append((node.name, made))

    def _class(self, node: ast.ClassDef) -> None:
        decorator = self._decorator(node)
        if decorator is None or decorator[0] is not program:
            what = f"'{node.name}' is not decorated with @pl.program"
            self.fail(ParserSyntaxError, what, node, "write @pl.program, and no other decorator, above it")
        methods = []
        for part in node.body:
            if isinstance(part, ast.FunctionDef):
                methods.append(ProgramMethod(self._captured(part, f"{node.name}.{part.name}"), self._options(part)))
            elif not isinstance(part, ast.Pass) and not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)):
                what = "the body of a program holds functions only"
                self.fail(UnsupportedFeatureError, what, part, "move constants to the level of the module")
        self.items.append((node.name, methods))


_NO_ARGUMENTS = ast.arguments([], [], None, [], [], None, [])

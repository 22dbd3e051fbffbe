"""A kernel out of a file: `FILE.py:kernel`, or `FILE.py` where it holds one.

In: the text of the command line.  Out: the `@pl.jit` function.  The file runs as a module of its own name, not as
`__main__`; modules beside it can be imported, as when it runs as a script.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pypto.cli.arguments import Usage

if TYPE_CHECKING:
    from pypto.jit import JITFunction

__all__ = ["FileFailed", "loaded", "loaded_entries"]


_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class FileFailed(Exception):
    """The file itself raised; the cause is what it raised."""


@contextmanager
def loaded(target: str) -> Iterator[JITFunction]:
    """The kernel, as long as its file's directory is where modules are looked for.

    Usage for a file or kernel that is not there; FileFailed for a file that raises.
    """
    path, name = _split(target)
    path = _file(path)
    with _modules_in(os.path.dirname(path)):
        yield _find(_module(path), path, name)


@contextmanager
def loaded_entries(target: str) -> Iterator[list[Any]]:
    """What `FILE.py`, `package.module`, or either with `:name` stands for: its kernels and programs, or the one that is named.

    A name may stand for a list, too, of whatever `pypto.precompile` takes.  Raises as `loaded` does.
    """
    path, name = _split(target)
    imported = not path.endswith(".py") and _MODULE.fullmatch(path) is not None
    path = path if imported else _file(path)
    with _modules_in(os.getcwd() if imported else os.path.dirname(path)):
        module = _imported(path) if imported else _module(path)
        file = str(getattr(module, "__file__", path))
        found = [_attribute(module, path, name)] if name else _all(module, file)
        if len(found) == 1 and isinstance(found[0], list):
            found = found[0]
        if not found:
            raise Usage(f"{target}: there is no @pl.jit kernel and no program in it")
        yield found


def _file(path: str) -> str:
    if not os.path.isfile(path):
        raise Usage(f"{path}: no such file")
    if not path.endswith(".py"):
        raise Usage(f"{path}: a Python file with a @pl.jit kernel is wanted")
    return os.path.abspath(path)


@contextmanager
def _modules_in(directory: str) -> Iterator[None]:
    before, sys.path[:] = list(sys.path), [directory, *sys.path]
    try:
        yield
    finally:
        sys.path[:] = before


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name is not None and (name == e.name or name.startswith(f"{e.name}.")):
            raise Usage(f"{name}: no such module; a file is named with its .py") from None
        raise FileFailed(name) from e
    except Exception as e:
        raise FileFailed(name) from e


def _all(module: ModuleType, path: str) -> list[Any]:
    from pypto.ir.program import Program
    from pypto.jit import JITFunction

    own = [v for v in vars(module).values() if isinstance(v, Program) or (isinstance(v, JITFunction) and _is_of(v, path))]
    return list({id(v): v for v in own}.values())


def _is_of(kernel: JITFunction, path: str) -> bool:
    return os.path.abspath(kernel.source.filename) == os.path.abspath(path)


def _attribute(module: ModuleType, path: str, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise Usage(f"{path}: there is no '{name}'")
    return found


def _split(target: str) -> tuple[str, str]:
    path, colon, name = target.rpartition(":")
    if colon and path and (name.replace(".", "").isidentifier() or not name):
        return path, name
    return target, ""


def _module(path: str) -> ModuleType:
    """The file as a module; of a name that another module has, one with an underscore behind it."""
    name = os.path.basename(path).removesuffix(".py")
    while name in sys.modules and getattr(sys.modules[name], "__file__", None) != path:
        name += "_"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Usage(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as e:
        del sys.modules[name]
        if isinstance(e, KeyboardInterrupt):
            raise
        raise FileFailed(path) from e
    return module


def _find(module: ModuleType, path: str, name: str) -> JITFunction:
    from pypto.jit import JITFunction

    shown = os.path.basename(path)
    known = [n for n, v in vars(module).items() if isinstance(v, JITFunction) and v.source.filename == path]
    there = f"its kernels are {', '.join(known)}" if known else "it has no @pl.jit kernel"
    if not name and len(known) == 1:
        name = known[0]
    if not name:
        raise Usage(f"{shown}: {there}" + (f"; name one: {shown}:{known[0]}" if known else ""))
    found: object = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, JITFunction):
        return found
    if found is None:
        raise Usage(f"{shown}: there is no '{name}'; {there}")
    kind = getattr(found, "kind", "")
    what = f"a function that a kernel calls (@pl.jit.{kind})" if kind else f"a {type(found).__name__}"
    raise Usage(f"{shown}: '{name}' is {what}, not a @pl.jit kernel; {there}")

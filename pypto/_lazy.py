"""Public names that load on first use.

In: a table of names and the modules they live in.  Out: a module `__getattr__` that resolves them, so that importing a package
costs nothing until something of it is used.
Invariant: a name of the table gives an object or a NotSupportedError that says what to use instead, never an AttributeError.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from pypto.errors import NotSupportedError, unknown_name

__all__ = ["Facade", "later", "load"]


def load(*modules: str) -> None:
    """Import modules with the collector of cycles at rest: what they make stays, and need not be looked through.

    Afterwards all objects count as old ones: the next collection of young ones would else go through everything anew.
    """
    if all(name in sys.modules for name in modules):
        return
    enabled = gc.isenabled()
    gc.disable()
    try:
        for name in modules:
            importlib.import_module(name)
    finally:
        if not gc.get_freeze_count():  # others' frozen objects stay as they are
            gc.freeze()
            gc.unfreeze()
        if enabled:
            gc.enable()


class _Later:
    """Stands for a module, which loads when something of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: Any = None

    def __getattr__(self, attribute: str) -> Any:
        if self._module is None:
            # A module that another thread is loading is in `sys.modules` already, and only importing it waits for its names.
            self._module = importlib.import_module(self._name)
        return getattr(self._module, attribute)


def later(package: str, names: str) -> Any:
    """What stands for modules of a package that few kernels need: one, or a tuple of several.

    Written as the `else` of an `if TYPE_CHECKING:` that imports them, so that types are those of the modules.  A package gives
    modules of its own other names: those are what others import from it.
    """
    made = tuple(_Later(f"{package}.{name}") for name in names.split())
    return made if len(made) > 1 else made[0]


class Facade:
    """The names of one package.

    `homes`: (module, names in it); `modules`: public submodules; `aliases`: name -> (module, attribute), "" for the module
    itself; `optional`: name -> (module, attribute, what to use where there is none yet); `unsupported`: (reason, names).
    """

    def __init__(
        self,
        package: str,
        homes: Iterable[tuple[str, str]] = (),
        *,
        modules: str = "",
        aliases: Mapping[str, tuple[str, str]] | None = None,
        optional: Mapping[str, tuple[str, str, str]] | None = None,
        unsupported: Iterable[tuple[str, str]] = (),
    ) -> None:
        self.package = package
        self._homes = {name: (module, name) for module, names in homes for name in names.split()}
        self._homes.update({name: (f"{package}.{name}", "") for name in modules.split()})
        self._homes.update(aliases or {})
        self._optional = dict(optional or {})
        self._unsupported = {name: reason for reason, names in unsupported for name in names.split()}

    def names(self) -> list[str]:
        """Every name that resolves to an object of this version."""
        return sorted(self._homes)

    def listed(self) -> tuple[list[str], list[tuple[str, str]]]:
        """Names that resolve in this version, and (name, what to use instead) of those that do not."""
        there, missing = self.names(), sorted(self._unsupported.items())
        for name, (_, _, instead) in self._optional.items():
            try:
                self.load(name)
                there.append(name)
            except NotSupportedError:
                missing.append((name, instead))
        return sorted(there), sorted(missing)

    def __contains__(self, name: str) -> bool:
        return name in self._homes or name in self._optional

    def load(self, name: str) -> Any:
        """The object behind a name; NotSupportedError for a known name without one, AttributeError for any other."""
        home = self._homes.get(name)
        if home is not None:
            module = importlib.import_module(home[0])
            return getattr(module, home[1]) if home[1] else module
        if name in self._optional:
            return self._load_optional(name)
        if name in self._unsupported:
            raise NotSupportedError(f"{self.package}.{name} is not supported", hint=self._unsupported[name])
        raise unknown_name(f"module {self.package!r}", name, self.names())

    def _load_optional(self, name: str) -> Any:
        home, attribute, instead = self._optional[name]
        try:
            module = importlib.import_module(home)
        except ModuleNotFoundError as e:
            if e.name is None or not (home == e.name or home.startswith(f"{e.name}.")):
                raise
            module = None
        found = module if not attribute else getattr(module, attribute, None)
        if found is None:
            raise NotSupportedError(f"{self.package}.{name} is not available in this version", hint=instead)
        return found

"""Cases as parameters of a test.

In: the entries of `st.cases`.  Out: pytest's decorator.
Invariant: a test that is collected where the plugin is not loaded says so, instead of missing a fixture.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from pypto.errors import ArgumentTypeError, ArgumentValueError
from pypto.testing.cases import Case

__all__ = ["CASE", "parametrized"]

CASE = "_st_case"
_PLUGIN = "pypto.testing.plugin"


class _Parameters(list[Any]):
    """What pytest asks for when it collects the test; by then it has loaded all plugins that files name."""

    def __iter__(self) -> Iterator[Any]:
        if _PLUGIN not in sys.modules:
            raise pytest.Collector.CollectError(
                f'@st.cases needs the plugin {_PLUGIN}: write pytest_plugins = ["{_PLUGIN}"] in the topmost conftest.py, '
                f"or run pytest -p {_PLUGIN}"
            )
        return super().__iter__()


def parametrized(entries: Sequence[Any]) -> Any:
    """The decorator behind `st.cases`; see there."""
    if not entries:
        raise ArgumentValueError("st.cases() has no cases", hint="pass st.case(...), one or more")
    params, names = _Parameters(), []
    for entry in entries:
        marks, values = getattr(entry, "marks", ()), getattr(entry, "values", (entry,))
        if len(values) != 1 or not isinstance(values[0], Case):
            what = f"st.cases takes cases, got {type(entry).__name__}"
            raise ArgumentTypeError(what, hint="st.case(...), or pytest.param(st.case(...), marks=...)")
        names.append(values[0].name)
        params.append(pytest.param(values[0], marks=marks, id=values[0].name))
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise ArgumentValueError(f"two cases are called {', '.join(twice)}", hint="give each case another name=")
    return pytest.mark.parametrize(CASE, params)

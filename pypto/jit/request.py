"""One compilation as a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pypto.frontend.source import Source
from pypto.frontend.specialization import Argument
from pypto.passes.context import PassOptions

__all__ = ["Request"]


class Request(NamedTuple):
    """What is compiled, for which arguments, with which options.

    `sources` are the entry and its helpers in the order of the artifact key: failing places are numbered by them.
    """

    source: Source
    sources: tuple[Source, ...]
    decorator: Mapping[str, Any]
    arguments: dict[str, Argument]
    options: PassOptions
    optimize: bool

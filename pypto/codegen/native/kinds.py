"""Native forms of special operators, by kind, for those that `from_tile` leaves to modules of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from pypto.codegen.native import generators, indexing, local_values, paging, pipes, rearrange, sorting

__all__ = ["HANDLERS"]

# A handler takes the builder, the operator, the variable of its result, the call and its place.
HANDLERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **generators.HANDLERS,
        **rearrange.HANDLERS,
        **indexing.HANDLERS,
        **sorting.HANDLERS,
        **paging.HANDLERS,
        **pipes.HANDLERS,
        **local_values.HANDLERS,
    }
)

"""Requests that are not calls: lowering with constants found on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pypto.frontend.specialization import StaticParameterNeeded
from pypto.jit.dispatch import with_static
from pypto.jit.request import Request

__all__ = ["with_statics"]

T = TypeVar("T")


def with_statics(request: Request, step: Callable[[Request], T]) -> T:
    """`step(request)`, with parameters that the language needs as constants made constants."""
    while True:
        try:
            return step(request)
        except StaticParameterNeeded as need:
            request = request._replace(arguments=with_static(request.arguments, need.name))

"""Arrays of scalars on the core: values are Python tuples.

In: an application.  Out: an array, or one of its elements; an index that is not within the array is KernelBoundsError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from pypto.debug.apply import Application
from pypto.debug.frame import Value
from pypto.debug.scalars import fit
from pypto.dtypes import DataType
from pypto.errors import InternalError, KernelBoundsError
from pypto.ir.types import ArrayType

__all__ = ["LOCAL_ARRAYS"]


def _type(app: Application, i: int | None = None) -> ArrayType:
    t = app.call.type if i is None else app.call.args[i].type
    if not isinstance(t, ArrayType):
        raise InternalError(f"{app.op.name}: {t!r} is no array")
    return t


def _create(app: Application) -> Value:
    t = _type(app)
    return (0 if t.dtype is DataType.TASK_ID else fit(0, t.dtype),) * t.extent


def _index(app: Application) -> int:
    i, extent = int(app.args[1]), _type(app, 0).extent
    if not 0 <= i < extent:
        hint = "make sure that the index is within it, or create a longer one"
        raise KernelBoundsError(f"{app.op.name}: element {i} of an array of {extent}", app.span, hint)
    return i


def _get(app: Application) -> Value:
    return app.args[0][_index(app)]


def _update(app: Application) -> Value:
    i, old = _index(app), app.args[0]
    return (*old[:i], app.args[2], *old[i + 1 :])


LOCAL_ARRAYS: Mapping[str, Callable[[Application], Value]] = MappingProxyType(
    {"array_create": _create, "array_get": _get, "array_update": _update}
)

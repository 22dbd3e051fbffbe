"""What crosses the border of a vector-lane region: a lane's half of a matrix, and the matrix made of the lanes' halves.

In: an application of `aiv_shard` or `aic_gather` on the lane that runs.  Out: the half; the whole, as far as lanes have
written it.  Lanes run one after the other: the first makes the whole, each writes its half into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from pypto.debug.apply import Application, read_around
from pypto.debug.frame import Value
from pypto.debug.memory import Block
from pypto.ir.ops.lanes import GATHER, SHARD

__all__ = ["REGIONS"]


def _half(app: Application, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Where this lane's half of that shape lies in the whole."""
    axis, lane = app.kwargs["split"] - 1, app.frame.position.lane
    offsets = [lane * n if i == axis else 0 for i, n in enumerate(shape)]
    return tuple(slice(o, o + n) for o, n in zip(offsets, shape, strict=True))


def _shard(app: Application) -> Value:
    source, dest = app.block(0), app.destination()
    window = _half(app, dest.shape)
    dest.write(read_around(app, dest, [(0, lambda: source.place.get(window))])[0])
    return dest


def _gather(app: Application) -> Value:
    source = app.block(0)
    contents = source.read(source.valid)
    whole: Block | None = app.frame.wholes.get(id(app.call)) if app.frame.position.lane else None
    if whole is None:
        whole = app.destination()
        whole.poison()
    app.frame.wholes[id(app.call)] = whole
    first = [w.start for w in _half(app, source.shape)]
    whole.place.put(tuple(slice(o, o + n) for o, n in zip(first, source.valid, strict=True)), contents)
    return whole


REGIONS: Mapping[str, Callable[[Application], Value]] = MappingProxyType({SHARD: _shard, GATHER: _gather})

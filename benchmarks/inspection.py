"""What became of a kernel: the stage that its code was made from, and whether threads share its work."""

from __future__ import annotations

from typing import Any, NamedTuple

from pypto.codegen.native.unit import generate
from pypto.jit import driver
from pypto.jit.specializing import with_statics

__all__ = ["Facts", "facts"]


class Facts(NamedTuple):
    """stages: by kernel, "buffer", or "tile" and why.  shared: "trips", "blocks", "loops" around kernels, or why none is."""

    stages: dict[str, str]
    shared: dict[str, str]

    @property
    def stage(self) -> str:
        return "+".join(sorted({s.partition(":")[0] for s in self.stages.values()}))

    @property
    def sharing(self) -> str:
        return "+".join(sorted({s if s in ("trips", "blocks", "loops") else "-" for s in self.shared.values()})) or "?"


def facts(kernel: Any, *args: Any) -> Facts:
    """Of a kernel for some arguments."""
    compiled = kernel.compile(*args)
    request = kernel._request(kernel._arguments(args, {}), None)
    unit = with_statics(request, lambda r: generate(driver.lower_request(r).host, r.entry))
    shared = {}
    for name, (trips, blocks) in unit.sharing.items():
        shared[name] = "trips" if trips is None else "blocks" if blocks is None else f"trips: {trips}; blocks: {blocks}"
    if any(loop.apart is None for loop in unit.loops):
        shared = dict.fromkeys(shared, "loops")
    return Facts(compiled.stages, shared)

"""Calls of kernels whose blocks or trips several threads share.

In: a kernel, the C texts of its arguments, and what is shared.  Out: the C function that does one share of a call, and the
statement that has all shares done.  Invariant: a share calls the kernel with the memory of its own thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Literal

from pypto.codegen.native.device import DeviceCode
from pypto.codegen.native.emit import c_name
from pypto.codegen.native.writer import Writer

__all__ = ["SharedCalls", "Sharing", "sharing_of"]

Sharing = Literal["", "blocks", "trips"]


def sharing_of(code: DeviceCode, blocks: bool) -> Sharing:
    """What threads may share of a call: the blocks of a launch, else the trips of the kernel's own loop."""
    if blocks:
        return "blocks" if code.blocks is None else ""
    return "trips" if code.trips is None else ""


class SharedCalls:
    """The functions that do one share, each written once."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def call(self, code: DeviceCode, sharing: Sharing, position: tuple[str, str], arguments: Sequence[str]) -> list[str]:
        """Statements that set `failed`; `position`: the block, and how many there are (all of them, where blocks are shared)."""
        name = f"{sharing}_{c_name(code.function.name)}"
        if name not in self.texts:
            self.texts[name] = _share(code, sharing, name)
        most = position[1] if sharing == "blocks" else "INT64_MAX"
        return [
            f"struct {name} given = {{{{{', '.join(arguments) or '0'}}}, {position[0]}, {position[1]}}};",
            f"const int64_t failed = pp_shared(call, {most}, share_{name}, &given);",
        ]

    def trips(
        self, code: DeviceCode, steps: Sequence[Sequence[int]], shared: int, trips: Sequence[str], arguments: Sequence[str]
    ) -> list[str]:
        """Statements that have a call made in all trips of a nest of loops, and set `failed`.

        `trips`: how many each loop makes, the outermost first; `steps`: by how much the arguments move on with each trip of it.
        Shares are made of trips of the first `shared` loops.
        """
        moves = "_".join(str(step).replace("-", "down") for loop in steps for step in loop)
        name = f"loop_{moves}_{shared}_{c_name(code.function.name)}"
        if name not in self.texts:
            self.texts[name] = _share_loop(code, steps, shared, name)
        given = [" * ".join(trips[:shared]), *trips[1:], *arguments]
        return [
            f"struct {name} given = {{{', '.join(given)}}};",
            f"const int64_t failed = given.trips > 0 ? pp_shared(call, given.trips, share_{name}, &given) : 0;",
        ]


def _share_loop(code: DeviceCode, steps: Sequence[Sequence[int]], shared: int, name: str) -> str:
    moves = ["".join(f" + at_{i} * {step}" for i, step in enumerate(of) if step) for of in zip(*steps, strict=True)]
    moves += [""] * (len(code.fields) - len(moves))
    values = "".join(f", g->{n}{by}" for (_, n), by in zip(code.fields, moves, strict=True))
    w = Writer()
    with w.block(f"struct {name}", tail="};"):
        w.line("int64_t trips;")
        w.all(f"int64_t turns_{level};" for level in range(1, len(steps)))
        w.all(f"{t}{n};" for t, n in code.fields)
    with _function(w, name), _part(w, "trip", "g->trips"):
        rest = "trip"
        for level in range(shared - 1, 0, -1):  # the innermost of the shared loops turns first
            w.line(f"const int64_t at_{level} = {rest} % g->turns_{level}, rest_{level} = {rest} / g->turns_{level};")
            rest = f"rest_{level}"
        w.line(f"const int64_t at_0 = {rest};")
        with ExitStack() as loops:
            for level in range(shared, len(steps)):
                loops.enter_context(w.block(f"for (int64_t at_{level} = 0; at_{level} < g->turns_{level}; ++at_{level})"))
            _call(w, code, f"0, 1{values}")
    return w.text()


def _share(code: DeviceCode, sharing: Sharing, name: str) -> str:
    w, kernel = Writer(), c_name(code.function.name)
    values = "".join(f", g->launch.{n}" for _, n in code.fields)
    with w.block(f"struct {name}", tail="};"):
        w.line(f"launch_{kernel} launch;")
        w.line("int64_t block, blocks;")
    with _function(w, name):
        if sharing == "trips":
            w.line(f"return kernel_{kernel}(call, mem, g->block, g->blocks{values}, share, shares);")
        else:
            with _part(w, "block", "g->blocks"):
                _call(w, code, f"block, g->blocks{values}")
    return w.text()


@contextmanager
def _function(w: Writer, name: str) -> Iterator[None]:
    """The function that does one share, around what it does with `g`, what was given, and `mem`, its thread's memory."""
    with w.block(f"static int64_t share_{name}(pypto_call *call, void *given, int64_t share, int64_t shares)"):
        w.line(f"const struct {name} *const g = given;")
        w.line("unsigned char *const mem = call->arena->base;")
        yield


@contextmanager
def _part(w: Writer, var: str, count: str) -> Iterator[None]:
    """The loop over what a share has of `count`, around what it does each time; nothing fails that did not return."""
    w.line(f"const int64_t last = pp_part({count}, share + 1, shares);")
    with w.block(f"for (int64_t {var} = pp_part({count}, share, shares); {var} < last; ++{var})"):
        yield
    w.line("return 0;")


def _call(w: Writer, code: DeviceCode, given: str) -> None:
    """One call; `given`: the block, the number of blocks, and the kernel's own arguments."""
    alone = ", 0, 1" if code.shares else ""
    w.line(f"const int64_t failed = kernel_{c_name(code.function.name)}(call, mem, {given}{alone});")
    w.line("if (failed) {")
    w.line("    return failed;")
    w.line("}")

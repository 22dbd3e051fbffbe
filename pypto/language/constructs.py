"""What `help(pl.range)` says: signature and text of the loops, scopes and directives that the parser itself understands.

In: nothing.  Out: functions that are never called; their signatures and docstrings are those of `pl.<name>`.
Loaded when somebody asks.
"""

# The language's names are Python's on purpose, and nothing here runs.
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pypto.enums import Level, Role, ScopeMode, SplitMode

__all__ = ["TABLE"]


def at(
    level: Level,
    role: Role | None = None,
    *,
    optimizations: Sequence[Any] = (),
    deps: Sequence[Any] = (),
    no_dep_args: Sequence[Any] = (),
    dumps: Sequence[Any] = (),
    allow_early_resolve: bool = False,
    name_hint: str = "",
    windowize: bool = False,
) -> None:
    """`with pl.at(level=pl.Level.CORE_GROUP):` what is inside runs on a core, on tiles in on-chip memory.

    The body becomes a kernel of its own, named after name_hint; the keywords about tasks order nothing on a host, where
    everything runs in program order.
    """


def cluster(*, name_hint: str = "") -> None:
    """`with pl.cluster():` kernels inside share a group of cores."""


def cond(condition: Any) -> None:
    """`pl.cond(k < n)`, the first statement of a `pl.while_` loop: the loop goes on while it holds."""


def cross_core_slot(slot_num: int = 2) -> None:
    """An entry of `pl.at(optimizations=[...])`: slots of the exchange between cube and vector cores."""


def dump_tag(tensor: Any) -> None:
    """`pl.dump_tag(a)` marks a tensor for dumping on a device; without effect on a host."""


def func_attr(attributes: dict[str, Any]) -> None:
    """`pl.func_attr({"key": value})`, the first statement of a function: its attributes, as printed programs have them."""


def manual_scope(*, name_hint: str = "") -> None:
    """`with pl.manual_scope():` the same as `pl.scope(pl.ScopeMode.MANUAL)`: dependencies of tasks are those that are named."""


def max(x: Any, y: Any) -> None:
    """The larger of two numbers; tensors and tiles take `pl.maximum`."""


def min(x: Any, y: Any) -> None:
    """The smaller of two numbers; tensors and tiles take `pl.minimum`."""


def no_dep(x: Any) -> None:
    """`kernel(pl.no_dep(a))`: this argument orders no tasks; on a host it is `a` itself."""


def optimizations(*entries: Any) -> None:
    """Belongs into `pl.at(optimizations=[pl.split(mode), pl.cross_core_slot(slot_num=N)])`."""


def parallel(*bounds: Any, init_values: Sequence[Any] = ()) -> None:
    """`for i in pl.parallel(start, stop, step):` a `pl.range` whose iterations are independent.

    On a host, threads share iterations that are proved apart (PYPTO_NUM_THREADS says how many), any others run in order; results
    are the same to the bit.  `break` and `continue` are not possible.
    """


def pipeline(*bounds: Any, stage: int, init_values: Sequence[Any] = ()) -> None:
    """`for i in pl.pipeline(start, stop, step, stage=2):` a `pl.range` whose loads may run ahead by `stage` buffers."""


def range(*bounds: Any, init_values: Sequence[Any] = ()) -> None:
    """`for i in pl.range(stop)`, `pl.range(start, stop)` or `pl.range(start, stop, step)`: a loop, as in Python.

    Bounds are integers, constant or run-time; i is INDEX.  Names assigned in the body keep their last value.  With
    `for i, (x, y) in pl.range(n, init_values=(x0, y0)):` the carried values are named, and the body ends with
    `x1, y1 = pl.yield_(...)`, whose names have the final values.
    """


def scope(mode: ScopeMode = ScopeMode.AUTO, *, name_hint: str = "") -> None:
    """`with pl.scope():` a scope of tasks; its memory is free after it."""


def spmd(
    core_num: int,
    *,
    sync_start: bool = False,
    name_hint: str = "",
    optimizations: Sequence[Any] = (),
    deps: Sequence[Any] = (),
    allow_early_resolve: bool = False,
) -> None:
    """`for b in pl.spmd(n):` or `with pl.spmd(n):` one kernel runs as n blocks; b, or `pl.get_block_idx()`, numbers them."""


def spmd_submit(kernel: Any, *args: Any, core_num: int, deps: Sequence[Any] = (), sync_start: bool = False) -> None:
    """`out, tid = pl.spmd_submit(self.k, a, core_num=n)`: a kernel of the program as n blocks, and the identity of its task."""


def split(mode: SplitMode = SplitMode.UP_DOWN) -> None:
    """An entry of `pl.at(optimizations=[...])`: how the kernel is split between two vector cores."""


def split_aiv(count: int, mode: SplitMode, *, name_hint: str = "") -> None:
    """`for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):` the body runs on both vector cores of a kernel."""


def static_assert(condition: Any, message: str = "") -> None:
    """Refuses the kernel with this message where a condition that is known while it is compiled does not hold."""


def static_print(*values: Any) -> None:
    """Prints constants, shapes, dtypes and f-strings of them while the kernel is compiled; nothing prints while it runs."""


def submit(kernel: Any, *args: Any, deps: Sequence[Any] = (), allow_early_resolve: bool = False) -> None:
    """`out, tid = pl.submit(self.k, a, deps=[t])`: a kernel of the program, and the identity of its task."""


def unroll(*bounds: Any) -> None:
    """`for i in pl.unroll(4):` constant bounds, one copy of the body for each i, which is a constant in it."""


def while_(*, init_values: Sequence[Any]) -> None:
    """`for (k, x) in pl.while_(init_values=(k0, x0)):` begins with `pl.cond(condition)`, ends with `k1, x1 = pl.yield_(...)`.

    Python's own `while condition:` can be written as well.
    """


def yield_(*values: Any) -> None:
    """`x1, y1 = pl.yield_(x, y)`, the last statement of a loop with init_values or of both arms of an `if`: hands values on."""


TABLE = {
    f.__name__: f
    for f in (
        *(
            at,
            cluster,
            cond,
            cross_core_slot,
            dump_tag,
            func_attr,
            manual_scope,
            max,
            min,
            no_dep,
            optimizations,
            parallel,
            pipeline,
        ),
        *(range, scope, spmd, spmd_submit, split, split_aiv, static_assert, static_print, submit, unroll, while_, yield_),
    )
}

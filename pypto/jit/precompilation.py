"""`pypto.precompile`: many kernels at once, and what is seen of it meanwhile.

In: kernels, requests, programs.  Out: artifacts in the cache and one result for each, in their order.
Invariant: what has been compiled stays, whatever becomes of the rest; Ctrl-C arrives where nothing is half done.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Protocol, TextIO

from pypto.errors import ArgumentTypeError, Error, well_called
from pypto.jit.batch import PrecompileRequest, as_request, is_entry
from pypto.jit.pool import Kind, PrecompilePool
from pypto.jit.work import Precompiled
from pypto.runtime.interrupts import held

__all__ = ["precompile"]

Result = Precompiled | BaseException


@well_called
def precompile(
    kernels: Iterable[Any],
    *,
    workers: int | None = None,
    kind: Kind = "process",
    executor: Executor | None = None,
    progress: bool | TextIO = False,
    return_exceptions: bool = False,
) -> list[Any]:
    """Compile kernels ahead; a `Precompiled` for each, in their order.

    kernels: `@pl.jit` kernels whose annotations say all, `(kernel, sample, ...)`, `kernel.request(...)`, programs.
    workers, kind, executor: as for `PrecompilePool`.  progress: to stderr (or a stream): a bar on a terminal where `rich` is
    installed, a line for each kernel elsewhere.  All of them are compiled before the first error is raised, with a note that
    names the other kernels that failed; with `return_exceptions` errors stand among the results.
    """
    _check_list(kernels)
    requests = [_request(k) for k in kernels]
    names = [r.name if isinstance(r, PrecompileRequest) else "?" for r in requests]
    stream = None if progress is False else sys.stderr if progress is True else progress
    found: list[Result | None] = [None] * len(requests)
    try:
        with PrecompilePool(workers, kind=kind, executor=executor) as pool, _shown(stream, len(requests)) as show:
            at: dict[Future[Precompiled], list[int]] = {}
            landed: SimpleQueue[Future[Precompiled]] = SimpleQueue()
            for i, request in enumerate(requests):
                if isinstance(request, PrecompileRequest):
                    future = pool.submit(request)
                    at.setdefault(future, []).append(i)
                else:
                    found[i] = request
                    with held():
                        show.one(names[i], request)
            with held():
                for future in at:
                    future.add_done_callback(landed.put)
            for _ in at:
                future = landed.get()
                with held():
                    for i in at[future]:
                        result = found[i] = _result(future)
                        show.one(names[i], result)
    except KeyboardInterrupt:
        if stream is not None:
            there = sum(isinstance(r, Precompiled) for r in found)
            print(f"interrupted: {there} of {len(found)} kernels are compiled, and stay", file=stream)
        raise
    results = [r for r in found if r is not None]
    if not return_exceptions:
        _raise_first(names, results)
    return results


def _check_list(kernels: Any) -> None:
    """ArgumentTypeError for one entry of a list in place of the list."""
    one = isinstance(kernels, tuple) and kernels and is_entry(kernels[0])
    samples = one and not all(is_entry(k) or isinstance(k, tuple) for k in kernels)
    if samples or is_entry(kernels) or not isinstance(kernels, Iterable):
        hint = "put brackets around it: precompile([kernel]), precompile([(kernel, sample, ...)])"
        raise ArgumentTypeError("precompile takes a list of kernels", hint=hint)


def _request(kernel: Any) -> PrecompileRequest | Exception:
    try:
        return as_request(kernel)
    except Error as e:
        return e


def _result(future: Future[Precompiled]) -> Result:
    try:
        return future.result()
    except (Exception, CancelledError) as e:
        return e


def _raise_first(names: list[str], results: list[Result]) -> None:
    failed = [(n, r) for n, r in zip(names, results, strict=True) if isinstance(r, BaseException)]
    if not failed:
        return
    first = failed[0][1]
    if len(failed) > 1 and isinstance(first, Error):
        others = ", ".join(n for n, _ in failed[1:])
        also = f"{len(failed)} of {len(names)} kernels failed; the others: {others}"
        first.note = also if first.note is None else f"{first.note}; {also}"
    raise first


# -- progress --------------------------------------------------------------------------------------------------------


class _Show(Protocol):
    def one(self, name: str, result: Result) -> None: ...


class _Nothing:
    def one(self, name: str, result: Result) -> None:
        pass


class _Lines:
    """A line for each kernel that is done with."""

    def __init__(self, stream: TextIO, total: int) -> None:
        self.stream, self.total, self.done = stream, total, 0

    def one(self, name: str, result: Result) -> None:
        self.done += 1
        print(f"[{self.done}/{self.total}] {name}: {said(result)}", file=self.stream, flush=True)


class _Bar:
    """A bar of `rich`; failures stay above it."""

    def __init__(self, bar: Any, task: Any) -> None:
        self.bar, self.task = bar, task

    def one(self, name: str, result: Result) -> None:
        if isinstance(result, BaseException):
            self.bar.console.print(f"{name}: {said(result)}", markup=False, highlight=False)
        self.bar.update(self.task, advance=1, description=name)


def said(result: Result) -> str:
    """A result in a few words."""
    if isinstance(result, BaseException):
        text = result.message if isinstance(result, Error) else str(result)
        return f"failed: {type(result).__name__}: {text.partition(chr(10))[0]}"
    if result.outcome == "cached":
        return "was compiled already"
    return f"compiled in {result.seconds:.2f} s"


@contextmanager
def _shown(stream: TextIO | None, total: int) -> Iterator[_Show]:
    if stream is None:
        yield _Nothing()
        return
    begin = time.monotonic()
    rich = _rich() if stream.isatty() else None
    if rich is None:
        yield _Lines(stream, total)
        return
    console = rich.console.Console(file=stream)
    columns = rich.progress
    bar = columns.Progress(
        columns.TextColumn("{task.description}"),
        columns.BarColumn(),
        columns.MofNCompleteColumn(),
        columns.TimeElapsedColumn(),
        console=console,
    )
    try:
        with held():
            bar.start()
            task = bar.add_task("compiling", total=total)
        yield _Bar(bar, task)
    finally:
        with held():
            bar.stop()
    console.print(f"{total} kernels in {time.monotonic() - begin:.1f} s", highlight=False)


def _rich() -> Any:
    """The library, or None where it is not installed."""
    try:
        for module in ("rich.console", "rich.progress"):
            importlib.import_module(module)
    except ImportError:
        return None
    return sys.modules["rich"]

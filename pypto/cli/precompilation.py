"""`pypto precompile`: fill the cache, for an image or before a test run.

Invariant: code 0 means that every kernel that was named is in the cache, where other processes find it.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pypto.cli.arguments import Usage, for_kernel, parse
from pypto.cli.inspection import add_options, context
from pypto.cli.loading import loaded_entries
from pypto.errors import Error

if TYPE_CHECKING:
    from pypto.jit import Precompiled
    from pypto.jit.batch import PrecompileRequest

__all__ = ["add_precompile"]

_DONE, _FAILED = 0, 1


def add_precompile(commands: Any) -> None:
    p = commands.add_parser("precompile", help="compile kernels into the cache, without running them")
    what = "a file or a module, and a kernel, a program, or a list of requests in it; without a name, all kernels and programs"
    p.add_argument("targets", metavar="TARGET[:name]", nargs="+", help=what)
    add_options(p)
    p.add_argument("--workers", type=int, metavar="N", help="processes that compile; default: the CPUs there are")
    p.set_defaults(run=_precompile)


def _precompile(a: argparse.Namespace) -> int:
    from pypto.jit import precompile

    if a.workers is not None and a.workers < 0:
        raise Usage(f"--workers {a.workers}: a number from 0 on")
    with ExitStack() as stack:
        found = [(t, e) for t in a.targets for e in stack.enter_context(loaded_entries(t))]
        with context(a):
            requests = _requests(found, a)
        done = precompile(requests, workers=a.workers, progress=True, return_exceptions=True)
    lost = [d for d in done if isinstance(d, BaseException) or not d.stored]
    if a.json:
        print(json.dumps(_facts([r.name for r in requests], done), indent=1), file=a.out)
    else:
        for d in done:
            if isinstance(d, BaseException):
                print(d if isinstance(d, Error) else f"{type(d).__name__}: {d}", file=sys.stderr)
        if any(not isinstance(d, BaseException) and not d.stored for d in done):
            print("pypto: no cache keeps what was compiled: look at PYPTO_CACHE and PYPTO_CACHE_DIR", file=sys.stderr)
        built = sum(not isinstance(d, BaseException) and d.outcome == "built" for d in done)
        failed = sum(isinstance(d, BaseException) for d in done)
        print(f"{len(done)} kernels: {built} compiled, {len(done) - built - failed} were in the cache, {failed} failed")
    return _FAILED if lost else _DONE


def _requests(found: list[tuple[str, Any]], a: argparse.Namespace) -> list[PrecompileRequest]:
    """One for each; `--arg` describes the arguments of one kernel."""
    from pypto.jit import JITFunction
    from pypto.jit.batch import as_request

    samples = parse(a.arg)
    if samples and len(found) != 1:
        raise Usage(f"--arg is for one kernel, and {len(found)} are named: name one, {a.targets[0].partition(':')[0]}:kernel")
    requests = []
    for target, entry in found:
        if isinstance(entry, JITFunction):
            try:
                args, keywords = for_kernel(entry, samples)
            except Usage as e:
                raise Usage(f"{target}: {e}") from None
            requests.append(entry.request(*args, **keywords))
            continue
        if samples:
            raise Usage(f"{target}: --arg is for a @pl.jit kernel")
        try:
            requests.append(as_request(entry))
        except Error as e:
            raise Usage(f"{target}: {e.message}") from None
    return requests


def _facts(names: list[str], done: list[Precompiled | BaseException]) -> dict[str, Any]:
    from pypto.runtime.stats import cache_stats
    from pypto.runtime.store import default_store

    kernels: list[dict[str, Any]] = []
    for name, d in zip(names, done, strict=True):
        if isinstance(d, BaseException):
            kernels.append({"kernel": name, "error": str(d), "type": type(d).__name__})
        else:
            kernels.append(d._asdict())
    return {"cache": default_store().root, "kernels": kernels, "stats": cache_stats()._asdict()}

"""`pypto cache`: what is in the artifact cache, why a call would compile, less of it, and parts of it in a file."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto.cli.arguments import Usage, for_kernel, parse
from pypto.cli.inspection import common, context
from pypto.cli.loading import loaded

if TYPE_CHECKING:
    from pypto.runtime.prune import EntryInfo
    from pypto.runtime.record import Record
    from pypto.runtime.store import Store

__all__ = ["add_cache"]

_FOUND = 1  # the exit code of a command that found something wrong
_SHORT = 12


def add_cache(commands: Any) -> None:
    p = commands.add_parser("cache", help="the artifact cache: what is in it, why a call would compile, less of it")
    actions = p.add_subparsers(metavar="ACTION", required=True)

    def action(name: str, run: Callable[[argparse.Namespace], int | None], text: str) -> argparse.ArgumentParser:
        one: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
        one.add_argument("--json", action="store_true", help="print one JSON object")
        one.set_defaults(run=run)
        return one

    p = action("list", _list, "the artifacts, the one used last first")
    p.add_argument("--kernel", action="append", default=[], metavar="NAME", help="only those of this kernel")
    p.add_argument("--all", action="store_true", help="also what kernels share, and what belongs to this installation")
    p = action("info", _info, "one artifact: its key, part by part, and its files; without one, the cache")
    p.add_argument("digest", nargs="?", metavar="DIGEST", help="its first characters are enough")
    action("stat", _stat, "how many artifacts there are, and how large they are")
    action("where", _where, "the directory, how it was chosen, and whether it is used")
    why = actions.add_parser("why", help="why a call would, or would not, compile")
    common(why)
    why.set_defaults(run=_why)
    p = action("verify", _verify, "read every byte and compare it with the manifests")
    p.add_argument("--remove", action="store_true", help="delete what is damaged")
    p = action("prune", _prune, "delete what was used longest ago, and what killed builds left")
    p.add_argument("--max-size", metavar="SIZE", help="bytes to keep, optionally with K, M or G; default: PYPTO_CACHE_MAX_SIZE")
    action("clear", _clear, "delete everything")
    p = action("remove", _remove, "delete some artifacts")
    p.add_argument("digests", nargs="+", metavar="DIGEST", help="their first characters are enough")
    p = action("export", _export, "write the artifacts of this target to a file, for another machine of its kind")
    p.add_argument("file", metavar="FILE", type=Path)
    p.add_argument("--kernel", action="append", default=[], metavar="NAME", help="only those of this kernel, and what all share")
    p.add_argument("--all", action="store_true", help="also those of other compilers, processors and versions of pypto")
    p = action("import", _import, "check an exported file and put its artifacts into the cache: whose code it is, you must know")
    p.add_argument("file", metavar="FILE", type=Path)
    p.add_argument("--sha256", metavar="HEX", default="", help="refuse any file but this one")
    p.add_argument("--skip-foreign", action="store_true", help="leave out what is for another target, instead of refusing all")


def _store() -> Store:
    from pypto.runtime.store import default_store

    return default_store()


def _show(a: argparse.Namespace, facts: dict[str, Any], lines: Iterable[str]) -> None:
    print(json.dumps(facts, indent=1) if a.json else "\n".join(lines), file=a.out)


# -- what there is -----------------------------------------------------------------------------------------------------


def _list(a: argparse.Namespace) -> None:
    everything = [_row(entry) for entry in _store().entries()]
    rows = [row for row in everything if a.all or row["kind"] in ("kernel", "damaged")]
    more = len(everything) - len(rows)
    rows = [row for row in rows if not a.kernel or row["kernel"] in a.kernel]
    lines = [f"{r['digest'][:_SHORT]}  {_bytes(r['size']):>9}  {_ago(r['last_used'])}  {r['kernel'] or r['kind']}" for r in rows]
    if more:
        lines.append(f"and {more} that kernels share, or that belong to this installation: --all")
    _show(a, {"artifacts": rows}, lines or ["no artifacts"])


def _row(entry: EntryInfo) -> dict[str, Any]:
    from pypto.errors import SerializationError
    from pypto.jit.explanation import kernel_name
    from pypto.jit.shipping import kind_of

    try:
        record = entry.record()
        kind, kernel = kind_of(record), kernel_name(record)
    except SerializationError:
        kind = kernel = "damaged"
    used = entry.last_used / 1e9
    return {"digest": entry.digest, "kind": kind, "kernel": kernel, "size": entry.size, "last_used": used, "path": entry.path}


def _bytes(size: int) -> str:
    value, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def _ago(when: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))


def _find(store: Store, start: str) -> EntryInfo:
    found = [e for e in store.entries() if e.digest.startswith(start.lower())]
    if len(found) == 1:
        return found[0]
    number = f"{len(found)} artifacts have" if found else "no artifact has"
    raise Usage(f"{start}: {number} a digest that begins so; `pypto cache list --all` shows them")


def _info(a: argparse.Namespace) -> None:
    from pypto.runtime.record import plain

    if a.digest is None:
        _show(a, {**_place(), **_numbers()}, [*_place_lines(), *_number_lines()])
        return
    entry = _find(_store(), a.digest)
    record = entry.record()
    files = {e.name: e.stat(follow_symlinks=False).st_size for e in sorted(os.scandir(entry.path), key=lambda e: e.name)}
    facts = {**_row(entry), "key": plain(record), "files": files}
    _show(a, facts, _entry_lines(entry, record, files))


def _entry_lines(entry: EntryInfo, record: Record, files: dict[str, int]) -> Iterable[str]:
    from pypto.runtime.record import plain

    yield f"{_row(entry)['kernel'] or _row(entry)['kind']}: {_bytes(entry.size)}, used {_ago(entry.last_used / 1e9)}"
    yield f"  {entry.path}"
    yield "key"
    for name, value in plain(record).items():
        text = json.dumps(value)
        yield f"  {name}: {text if len(text) <= 100 else text[:97] + '...'}"
    yield "files"
    for name, size in files.items():
        yield f"  {size:>9} {name}"


def _stat(a: argparse.Namespace) -> None:
    _show(a, _numbers(), _number_lines())


def _numbers() -> dict[str, Any]:
    from pypto.config import CACHE_MAX_SIZE

    usage = _store().stat()
    return {"artifacts": usage.entries, "size": usage.size, "max_size": CACHE_MAX_SIZE.get(), "leftovers": usage.leftovers}


def _number_lines() -> list[str]:
    n = _numbers()
    lines = [f"{n['artifacts']} artifacts, {_bytes(n['size'])} of at most {_bytes(n['max_size'])} (PYPTO_CACHE_MAX_SIZE)"]
    return lines + ([f"{n['leftovers']} directories and locks of builds under way, or killed"] if n["leftovers"] else [])


def _where(a: argparse.Namespace) -> None:
    _show(a, _place(), _place_lines())


def _place() -> dict[str, Any]:
    store = _store()
    return {"root": store.root, "chosen_by": store.origin, "mode": store.mode, "problem": store.why_not()}


def _place_lines() -> list[str]:
    place = _place()
    by = "PYPTO_CACHE_DIR" if place["chosen_by"] == "PYPTO_CACHE_DIR" else "default, as PYPTO_CACHE_DIR is not set"
    lines = [place["root"] or "no directory", f"  chosen by: {by}", f"  mode: {place['mode']} (PYPTO_CACHE)"]
    return lines + ([f"  not used: {place['problem']}"] if place["problem"] else [])


def _why(a: argparse.Namespace) -> None:
    samples = parse(a.arg)
    with loaded(a.target) as kernel, context(a):
        args, keywords = for_kernel(kernel, samples)
        found = kernel.explanation(*args, **keywords)
    _show(a, {**found._asdict(), "hit": found.hit}, [str(found)])


# -- less of it --------------------------------------------------------------------------------------------------------


def _verify(a: argparse.Namespace) -> int:
    store = _store()
    bad = store.verify()
    removed = [digest for digest, _ in bad if a.remove and store.remove(digest)]
    lines = [f"{digest}: {reason}{' (removed)' if digest in removed else ''}" for digest, reason in bad]
    facts = {"damaged": [{"digest": d, "reason": r} for d, r in bad], "removed": removed}
    _show(a, facts, lines or ["every artifact is what was written"])
    return _FOUND if len(removed) < len(bad) else 0


def _prune(a: argparse.Namespace) -> None:
    from pypto.config import CACHE_MAX_SIZE, size_in_bytes

    try:
        limit = CACHE_MAX_SIZE.get() if a.max_size is None else size_in_bytes(a.max_size)
    except ValueError as e:
        raise Usage(f"--max-size {a.max_size}: {e}") from None
    _pruned(a, _store().prune(limit))


def _clear(a: argparse.Namespace) -> None:
    _pruned(a, _store().clear())


def _pruned(a: argparse.Namespace, done: Any) -> None:
    text = f"removed {done.removed} artifacts, {_bytes(done.freed)}; {done.entries} are left, {_bytes(done.size)}"
    _show(a, {"removed": done.removed, "freed": done.freed, "artifacts": done.entries, "size": done.size}, [text])


def _remove(a: argparse.Namespace) -> None:
    store = _store()
    found = [_find(store, start).digest for start in a.digests]
    gone = [digest for digest in found if store.remove(digest)]
    _show(a, {"removed": gone}, [f"removed {digest}" for digest in gone] or ["nothing was left to remove"])


# -- to another machine ------------------------------------------------------------------------------------------------


def _export(a: argparse.Namespace) -> None:
    from pypto.jit.shipping import export_cache

    try:
        done = export_cache(str(a.file), a.kernel, everything=a.all)
    except OSError as e:
        raise Usage(f"{a.file}: {e.strerror}") from None
    facts = {"file": os.path.abspath(a.file), "artifacts": done.entries, "size": done.size, "sha256": done.sha256}
    _show(a, facts, [f"{done.entries} artifacts, {_bytes(done.size)}, in {a.file}", f"sha256 {done.sha256}"])


def _import(a: argparse.Namespace) -> None:
    from pypto.jit.shipping import import_cache

    try:
        done = import_cache(str(a.file), sha256_of_file=a.sha256, skip_foreign=a.skip_foreign)
    except OSError as e:
        raise Usage(f"{a.file}: {e.strerror}") from None
    left = [{"digest": digest, "reason": reason} for digest, reason in done.left_out]
    lines = [f"{len(done.added)} artifacts added, {len(done.present)} were there, {len(left)} left out"]
    lines += [f"  {d['digest'][:_SHORT]}: {d['reason']}" for d in left]
    _show(a, {"added": done.added, "present": done.present, "left_out": left}, lines)

"""`python -m benchmarks`: one table for each section, after every result was compared with float64."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.result import Result
    from benchmarks.setting import Setting

COUNTS = ("PYPTO_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def main() -> None:
    args = _arguments()
    if "numpy" in sys.modules:
        raise SystemExit("the number of threads is said before numpy is imported: run `python -m benchmarks`")
    for name in COUNTS:
        os.environ[name] = str(args.threads)
    confine(args.threads)  # threads that tools start nevertheless share what they were given
    if args.threads == 1:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        os.environ["PYPTO_CACHE_DIR"] = os.path.join(folder, "cache")
        _run(args, Path(folder))


PROCESSORS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def confine(processors: int | None) -> None:
    """Let this thread, and what it starts from now on, run on so many processors; None: on all that there were."""
    if PROCESSORS:  # the last ones: the first one has the most interrupts
        os.sched_setaffinity(0, PROCESSORS if processors is None else PROCESSORS[-processors:])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--peers", default="numpy,numba,jax,torch", help="tools to compare with, as far as installed")
    parser.add_argument(
        "--sections", default="", help="some of: elementwise, rows, products, attention, movement, calls, threads, start, compile"
    )
    parser.add_argument("--json", metavar="FILE", help="everything that was measured")
    parser.add_argument("--threads", type=int, default=1, help="of every tool (default: 1); C by hand has one")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row, warm-up apart")
    parser.add_argument("--tiny", action="store_true", help="small arrays and single rounds: checks results, times nothing")
    return parser.parse_args()


def _run(args: argparse.Namespace, folder: Path) -> None:
    from benchmarks import in_children, in_process
    from benchmarks.peers import NAMES
    from benchmarks.result import as_json, table

    known = (*in_process.SECTIONS, *in_children.SECTIONS)
    sections = [s for s in args.sections.split(",") if s] or known
    for section in sections:
        if section not in known:
            raise SystemExit(f"unknown section {section!r}: expected some of {', '.join(known)}")
    for peer in filter(None, args.peers.split(",")):
        if peer not in NAMES:
            raise SystemExit(f"unknown peer {peer!r}: expected some of {', '.join(NAMES)}")
    setting, about = _setting(args, folder)
    results: list[Result] = []
    for section in sections:
        module: Any = in_process if section in in_process.SECTIONS else in_children
        confine(args.threads if module is in_process else None)
        found = []
        for r in module.rows(section, setting):
            if sys.stderr.isatty():
                print(f"\r{section}: {r.name:40}\r", end="", file=sys.stderr, flush=True)
            found.append(r)
        print(table(section, found), flush=True)
        results += found
    _warn(results, args.threads)
    if args.json:
        Path(args.json).write_text(json.dumps({**about, "rows": [as_json(r) for r in results]}, indent=1))


def _setting(args: argparse.Namespace, folder: Path) -> tuple[Setting, dict[str, Any]]:
    from benchmarks import machine
    from benchmarks.measure import Watch
    from benchmarks.peers import found
    from benchmarks.setting import Setting
    from benchmarks.yardsticks import Yardsticks, command

    peers, versions = found([p for p in args.peers.split(",") if p])
    seconds = 0.0 if args.tiny else args.seconds
    yardsticks = Yardsticks(folder)
    watch = Watch(machine.beat(yardsticks), alone=args.threads == 1)
    limits = machine.limits(yardsticks, seconds, watch, args.threads, args.tiny)
    about = {
        "machine": _processor(),
        "python": platform.python_version(),
        "compiler": command(),
        "peers": versions,
        "threads": args.threads,
        "bytes_per_second": limits.bandwidth,
        "operations_per_second": limits.peak,
    }
    print(f"{about['machine']}; python {about['python']}; threads {args.threads}; {' '.join(command())}")
    print("; ".join(f"{name} {version}" for name, version in versions.items()))
    print("memory: " + ", ".join(f"{b / 1e9:.1f} GB/s over {size >> 20} MiB" for size, b in limits.bandwidth.items()))
    print("peak: " + ", ".join(f"{p / 1e9:.0f} G{'flop' if k != 'i8' else 'op'}/s {k}" for k, p in limits.peak.items()) + "\n")
    return Setting(seconds, args.tiny, args.threads, peers, yardsticks, watch, limits, folder), about


def _processor() -> str:
    """The processor's name, as far as somebody tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor() or platform.machine()


def _warn(results: list[Result], threads: int) -> None:
    """What makes figures worth less."""
    for r in results:
        for name, cpus in r.facts.get("cpus", {}).items():
            if cpus > threads + 0.3:
                print(f"{r.name}: {name} kept {cpus} processors busy")
    disturbed = [r.name for r in results if r.rounds.is_disturbed]
    if disturbed:
        print(f"~ the machine was disturbed, figures are worth little: {', '.join(disturbed)}")


if __name__ == "__main__":
    main()

"""Which kernels are made of buffers: whatever tests lower is counted, and nothing that was chosen may quietly fall to tiles.

In: the programs that tests lower with Buffer IR on, and `tests/data/buffer_kernels.json`.  Out: a line in the summary of the
run, and a failure, with the selector's reason, of a test that lowers a kernel which stays at tile stage though the table has it
among the chosen.  `--buffer-ir=update` writes what the files of the run say into the table; `--buffer-ir=report` lists reasons.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import pypto.passes.pipeline as pipeline
from pypto.ir.program import Program
from pypto.passes.context import PassOptions, effective
from pypto.passes.framework import Pass
from pypto.passes.select_buffer_ir_functions import why_not_selected

TABLE = Path(__file__).parent / "data" / "buffer_kernels.json"
_KEY, _SHOWN = "buffer-ir", 5
_FOUND, _CHOSEN = pytest.StashKey["Found"](), pytest.StashKey[dict[str, list[str]]]()
_UPDATE = "if that is as it should be, run these tests with --buffer-ir=update"
_lower: Callable[..., pipeline.Lowered] = pipeline.lower


class Kernel(NamedTuple):
    """One kernel as the selector saw it; `reason` is empty for a chosen one."""

    name: str
    planner: str
    reason: str


# What the test that is running has lowered.
_kernels: list[Kernel] = []


def lower(program: Program, options: PassOptions | None = None, **more: Any) -> pipeline.Lowered:
    """As `pypto.passes.pipeline.lower`; its kernels are counted."""
    options = effective() if options is None else options
    selected: list[Program] = []
    watch = more.pop("watch", None)

    def keep(number: int, p: Pass, made: Program) -> None:
        if p.name == "SelectBufferIRFunctions":
            selected.append(made)
        if watch is not None:
            watch(number, p, made)

    lowered = _lower(program, options, watch=keep, **more)
    for f in (f for p in selected[:1] for f in p.function_list if f.is_device):
        reason = "" if f.attrs.get("buffer_ir_selected") else why_not_selected(f, options) or "an attribute says so"
        _kernels.append(Kernel(f.name, options.memory_planner.name, reason))
    return lowered


# Before anything takes it by name.
pipeline.lower = lower


def without_names(reason: str) -> str:
    """A reason without the names that passes gave to values."""
    return re.sub(r"'[^']*'", "…", reason)


def read_table() -> dict[str, Any]:
    return json.loads(TABLE.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def fallen(nodeid: str, kernels: Iterable[Kernel], chosen: Mapping[str, list[str]]) -> list[str]:
    """The kernels of a test that the table has among the chosen and that stay, with their reasons."""
    module, _, test = nodeid.partition("::")
    known = set(chosen.get(module, ()))
    places = (test, test.partition("[")[0])
    return [
        f"'{k.name}' ({k.planner}) stays at tile stage: {k.reason}"
        for k in dict.fromkeys(kernels)
        if k.reason and any(f"{place}::{k.name}" in known for place in places)
    ]


def check_program(name: str, stages: Mapping[str, str], config: pytest.Config) -> None:
    """The kernels of an example or a page are of the stages that the table says, for its reasons; of an example all are known."""
    found = {kernel: without_names(stage) for kernel, stage in sorted(stages.items())}
    if config.getoption("--buffer-ir") == "update":
        table = read_table()
        table["programs"][name] = found
        _write(table)
    want = read_table()["programs"].get(name, {})
    if not name.startswith("examples/"):
        found = {kernel: stage for kernel, stage in found.items() if kernel in want}
    assert found == want, f"the kernels of {name} are of other stages than {TABLE.name} says; {_UPDATE}"


class Found:
    """What the reports of a run say."""

    def __init__(self) -> None:
        self.tests: dict[str, set[Kernel]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for key, value in report.user_properties:
            if key == _KEY:
                self.tests[report.nodeid].add(Kernel(*str(value).split("\t")))

    def summary(self, everything: bool) -> Iterator[str]:
        """How many kernels are chosen, and why others are not, the most frequent reasons first."""
        kernels = [k for found in self.tests.values() for k in found]
        reasons = Counter(without_names(k.reason) for k in kernels if k.reason).most_common()
        shown = reasons if everything else reasons[:_SHOWN]
        line = f"buffer ir: {sum(not k.reason for k in kernels)} of {len(kernels)} kernels selected"
        more = len(reasons) - len(shown)
        tail = [f"{count} x {reason}" for reason, count in shown] + [f"{more} other reasons"] * (more > 0)
        if everything:
            yield from (line, *(f"  {t}" for t in tail))
        elif kernels:
            yield "; reasons of the rest: ".join((line, ", ".join(tail))) if tail else line

    def chosen(self) -> dict[str, list[str]]:
        """By module: a kernel's test, without parameters where it is chosen for all of them."""
        by_kernel: dict[tuple[str, str, str], dict[str, bool]] = defaultdict(dict)
        for nodeid, kernels in self.tests.items():
            module, _, test = nodeid.partition("::")
            for k in kernels:
                cases = by_kernel[module, test.partition("[")[0], k.name]
                cases[test] = cases.get(test, True) and not k.reason
        made: dict[str, set[str]] = defaultdict(set)
        for (module, test, name), cases in by_kernel.items():
            places = [test] if all(cases.values()) else [case for case, yes in cases.items() if yes]
            made[module] |= {f"{place}::{name}" for place in places}
        return {module: sorted(entries) for module, entries in made.items() if entries}


def _write(table: Mapping[str, Any]) -> None:
    TABLE.write_text(json.dumps(table, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


# -- hooks -----------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--buffer-ir",
        choices=("check", "update", "report"),
        default="check",
        help="what is done about kernels that are no buffers",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FOUND] = Found()
    config.pluginmanager.register(config.stash[_FOUND])
    config.stash[_CHOSEN] = read_table()["tests"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    _kernels.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """A test that runs with a rule broken on purpose has to notice that by itself."""
    returned = yield
    config = item.config
    broken = config.getoption("--contract-mutations")
    if not broken and config.getoption("--buffer-ir") != "update":
        found = fallen(item.nodeid, _kernels, config.stash[_CHOSEN])
        if found:
            pytest.fail("; ".join(found) + f"; {TABLE.name} has them among the kernels of buffers; {_UPDATE}", pytrace=False)
    return returned


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> None:
    known = {value for key, value in item.user_properties if key == _KEY}
    found = dict.fromkeys("\t".join(k) for k in _kernels)
    item.user_properties += [(_KEY, text) for text in found if text not in known]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    asked, found = config.getoption("--buffer-ir"), config.stash[_FOUND]
    for line in found.summary(asked == "report"):
        terminalreporter.write_line(line)
    if asked == "update":
        table = read_table()
        ran = {nodeid.partition("::")[0] for nodeid in found.tests}
        table["tests"] = {m: t for m, t in table["tests"].items() if m not in ran} | found.chosen()
        _write(table)

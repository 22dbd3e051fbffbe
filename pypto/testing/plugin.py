"""The pytest plugin: `pytest_plugins = ["pypto.testing.plugin"]` in the topmost conftest.py, or `pytest -p pypto.testing.plugin`.

In: tests decorated with `st.cases(...)`, and options.  Out: the fixture `case_run`; skipped tests for other platforms.
Invariant: what needs a device is accepted and reported at the end of the run; it never changes what a test says.

It is not loaded by itself where pypto is installed: its options have names that other plugins use too (`--device`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pypto.enums import MemoryPlanner
from pypto.named import NamedTuple
from pypto.target import PLATFORMS, runs_here
from pypto.testing.cases import Case
from pypto.testing.legacy import PTOTestCase, from_legacy
from pypto.testing.parameters import CASE
from pypto.testing.running import CaseRun, RunResult
from pypto.testing.session import Session, SessionOptions

__all__: list[str] = []

_SESSION = pytest.StashKey[Session]()
_PLATFORM = "_st_platform"
_PLANNERS = {"default": None, "pypto": MemoryPlanner.PYPTO, "dsa-rp": MemoryPlanner.DSA_RP, "ptoas": MemoryPlanner.PTOAS}
_LEVELS = ("DEBUG", "INFO", "WARN", "WARNING", "ERROR", "FATAL", "CRITICAL")


class _OfDevices(NamedTuple):
    """An option that means something on a device only; `reason` is what happens here instead."""

    flag: str
    default: Any
    reason: str
    settings: dict[str, Any]


_QUEUE, _HERE = "no device queue here", "kernels run on the host, in this process"
_CAPTURE = "captures are made on a device: none is written, and tests that read one are skipped"
_OF_DEVICES = (
    _OfDevices("--device", "0", _HERE, {"metavar": "IDS"}),
    _OfDevices("--execute-via-task-submit", False, f"{_QUEUE}: {_HERE}", {"action": "store_true"}),
    _OfDevices("--task-max-time", 600, f"{_QUEUE}: no kernel is stopped after that time", {"type": int, "metavar": "S"}),
    _OfDevices("--task-queue-timeout", 1800, f"{_QUEUE}: nothing waits for one", {"type": int, "metavar": "S"}),
    _OfDevices("--task-submit-device", "auto", f"{_QUEUE}: {_HERE}", {"metavar": "IDS"}),
    _OfDevices("--execute-batch-size", 64, f"{_QUEUE}: cases run one by one", {"type": int, "metavar": "N"}),
    _OfDevices("--execute-workers", 0, "cases run one by one; pytest -n runs tests side by side", {"type": int, "metavar": "N"}),
    _OfDevices("--runtime-log-level", None, "there is no device runtime that would log", {"metavar": "LEVEL"}),
    _OfDevices(
        "--analyze-auto-scopes-for-deps",
        False,
        "tasks run in program order, which satisfies every dependency",
        {"action": "store_true"},
    ),
    _OfDevices("--enable-chip-swimlane", False, _CAPTURE, {"action": "store_true"}),
    _OfDevices("--chip-swimlane-level", None, _CAPTURE, {"type": int, "metavar": "N"}),
    _OfDevices("--dump-args", 0, _CAPTURE, {"type": int, "nargs": "?", "const": 1, "metavar": "N"}),
    _OfDevices("--enable-dep-gen", False, _CAPTURE, {"action": "store_true"}),
    _OfDevices("--enable-pmu", 0, _CAPTURE, {"type": int, "nargs": "?", "const": 2, "metavar": "N"}),
    _OfDevices("--enable-scope-stats", False, _CAPTURE, {"action": "store_true"}),
)


# -- options ---------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pypto", "numerical tests of kernels")
    of = f"what to compile for, out of {', '.join(PLATFORMS)}; devices (a2a3, a5) with --codegen-only"
    group.addoption("--platform", metavar="LIST", default="a2a3sim", help=of)
    group.addoption("--strategy", choices=["Default"], default="Default", help="the pass pipeline; there is one")
    group.addoption("--memory-planner", choices=list(_PLANNERS), default="default", help="for cases that name none")
    group.addoption("--kernels-dir", metavar="DIR", help="keep artifacts in this directory")
    group.addoption(
        "--save-kernels", action="store_true", help="keep artifacts, in build_output/ of pytest's rootdir without --kernels-dir"
    )
    group.addoption("--dump-passes", action="store_true", help="keep the program after each pass beside the artifacts")
    group.addoption("--codegen-only", action="store_true", help="compile only: cases pass without any numbers")
    group.addoption("--precompile-workers", type=int, metavar="N", default=0, help="compile cases ahead, in N processes")
    group.addoption("--pypto-log-level", metavar="LEVEL", default="ERROR", help="level of the logger 'pypto'")
    for o in _OF_DEVICES:
        group.addoption(o.flag, default=o.default, help=o.reason, **o.settings)


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "platforms(name, ..., reason=None): chips that a test of kernels is for",
        "slow: a test that takes long",
        "device_batch: a test that runs kernels by `case_run`",
    ):
        config.addinivalue_line("markers", line)
    _set_log_level(config.getoption("--pypto-log-level"))
    _check_devices(config)
    config.stash[_SESSION] = Session(_options(config))


def _options(config: pytest.Config) -> SessionOptions:
    platforms = tuple(dict.fromkeys(p.strip() for p in config.getoption("--platform").split(",") if p.strip()))
    unknown = [p for p in platforms if p not in PLATFORMS]
    if unknown or not platforms:
        given = ", ".join(unknown) or "no name"
        raise pytest.UsageError(f"--platform: {given} given, expected some of {', '.join(PLATFORMS)}")
    workers = config.getoption("--precompile-workers")
    if workers < 0:
        raise pytest.UsageError(f"--precompile-workers: expected a number of threads, got {workers}")
    kept = config.getoption("--kernels-dir")
    return SessionOptions(
        platforms,
        _PLANNERS[config.getoption("--memory-planner")],
        Path(kept) if kept else None,
        config.getoption("--save-kernels"),
        config.getoption("--dump-passes"),
        config.getoption("--codegen-only"),
        workers,
        config.rootpath / "build_output",
    )


def _check_devices(config: pytest.Config) -> None:
    if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", config.getoption("--device")):
        raise pytest.UsageError(f"--device: expected numbers and ranges such as 0-3,8, got {config.getoption('--device')!r}")
    if not config.getoption("--task-submit-device"):
        raise pytest.UsageError("--task-submit-device: expected auto, or numbers of devices")


def _set_log_level(name: str) -> None:
    if name.upper() not in _LEVELS:
        raise pytest.UsageError(f"--pypto-log-level: expected one of {', '.join(_LEVELS)}, got {name!r}")
    logging.getLogger("pypto").setLevel(name.upper())


# -- collection --------------------------------------------------------------------------------------------------------


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A copy of each case for each platform, where several are asked for."""
    platforms = metafunc.config.stash[_SESSION].options.platforms
    if _PLATFORM in metafunc.fixturenames and len(platforms) > 1:
        metafunc.parametrize(_PLATFORM, platforms)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if {"case_run", "test_runner"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.device_batch)
            because = _not_for(item, _platform_of(config, item))
            if because:
                item.add_marker(pytest.mark.skip(reason=because))


def _platform_of(config: pytest.Config, item: pytest.Item) -> str:
    return str(_params(item).get(_PLATFORM, config.stash[_SESSION].options.platforms[0]))


def _params(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else callspec.params


def _not_for(item: pytest.Item, platform: str) -> str:
    """Why a test is not for a platform, or an empty text."""
    for mark in item.iter_markers("platforms"):
        if platform not in mark.args:
            return f"for {', '.join(mark.args)}, not {platform}" + (
                f": {mark.kwargs['reason']}" if mark.kwargs.get("reason") else ""
            )
    case = _params(item).get(CASE)
    if isinstance(case, Case) and case.platform not in (None, platform):
        return f"a case for {case.platform}: pytest --platform={case.platform}"
    return ""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin to compile what will run."""
    config, cases = session.config, session.config.stash[_SESSION]
    if not cases.options.precompile_workers or config.getoption("collectonly"):
        return
    wanted = [i for i in session.items if isinstance(_params(i).get(CASE), Case) and not _left_out(i)]
    cases.precompile((_params(i)[CASE], _platform_of(config, i)) for i in wanted)


def _left_out(item: pytest.Item) -> bool:
    conditions = [c for mark in item.iter_markers("skipif") for c in mark.args]
    return item.get_closest_marker("skip") is not None or any(c is True for c in conditions)


# -- running -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def _st_case() -> Case:
    raise pytest.UsageError("case_run needs cases: put @st.cases(st.case(...)) above the test")


@pytest.fixture
def _st_platform(pytestconfig: pytest.Config) -> str:
    return pytestconfig.stash[_SESSION].options.platforms[0]


@pytest.fixture
def case_run(pytestconfig: pytest.Config, _st_case: Case, _st_platform: str) -> Iterator[CaseRun]:
    """The case of this test, compiled, run and compared; a failure that the test never asks for is an error."""
    session = pytestconfig.stash[_SESSION]
    run = session.run(session.resolve(_st_case, _st_platform))
    yield run
    if not run.asked:
        run.assert_passed()


class _Runner:
    """`test_runner.run(test)` for tests that are classes."""

    def __init__(self, session: Session, platform: str) -> None:
        self._session, self._platform = session, platform

    def run(self, test: PTOTestCase) -> RunResult:
        """Compile, run and compare; the result says whether it passed."""
        return self._session.run(self._session.decide(from_legacy(test), self._platform)).result


@pytest.fixture
def test_runner(pytestconfig: pytest.Config, _st_platform: str) -> _Runner:  # noqa: PT019
    return _Runner(pytestconfig.stash[_SESSION], _st_platform)


def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.stash[_SESSION].close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    session = config.stash[_SESSION]
    lines = [f"{o.flag}: {o.reason}" for o in _OF_DEVICES if config.getoption(o.flag) != o.default]
    devices = [p for p in session.options.platforms if not runs_here(p)]
    if devices and not session.options.codegen_only:
        instead = ",".join(f"{p}sim" for p in devices)
        lines.append(
            f"--platform={','.join(devices)}: needs a device and its toolchain, which are not here."
            f" --platform={instead} runs the same cases on this host, --codegen-only generates texts without running"
        )
    if session.options.codegen_only:
        lines.append("--codegen-only: cases were compiled and not run; no numbers were compared")
    if session.root is not None and session.root.exists():
        lines.append(f"artifacts: {session.root}")
    if lines:
        terminalreporter.section("pypto")
        for line in lines:
            terminalreporter.write_line(line)

"""Which tests stand for which rule of `docs/contract.md`, and whether they notice when the rule is broken.

In: tests marked `@pytest.mark.contract("T017", ...)`.  Out: `--contract-report` prints rule, tests and state;
`--contract-mutations` first runs each marked test under the breakages of its rules (`contract_mutations.py`) and adds how
many of them failed.  A number that the page does not have is an error of the test.
Invariant: what a test found out travels in its report (`user_properties`), so that parallel runs add up on the controller.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest
from _pytest.runner import runtestprotocol

PAGE = Path(__file__).resolve().parents[1] / "docs" / "contract.md"
_RULE = re.compile(r"^- \*\*([BT]\d{3})\*\* (.*)$")
_APART = " — *not applicable: "
_COLLECTED = pytest.StashKey["Collected"]()
_KEY, _RED = "contract", "contract-red"


class Rule(NamedTuple):
    """One line of the page; `because` says why it cannot apply here."""

    number: str
    text: str
    because: str = ""


def read_rules() -> dict[str, Rule]:
    """The rules of the page, by number; AssertionError if a number occurs twice."""
    rules: dict[str, Rule] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        found = _RULE.match(line)
        if found:
            number, text = found.groups()
            assert number not in rules, f"{number} occurs twice"
            text, _, because = text.partition(_APART)
            rules[number] = Rule(number, text, because.rstrip("*"))
    return rules


RULES = read_rules()


@lru_cache(maxsize=1)
def mutations() -> Mapping[str, Callable[[], AbstractContextManager[object]]]:
    """The breakages by rule; imported where they are asked for, since they need the whole compiler."""
    from contract_mutations import MUTATIONS
    from contract_mutations_buffers import BUFFER_MUTATIONS

    return {**MUTATIONS, **BUFFER_MUTATIONS}


def numbers_of(item: pytest.Item) -> list[str]:
    """The rules a test names, in the order of the page."""
    return sorted({n for m in item.iter_markers("contract") for n in m.args})


class Collected:
    """What the reports of a run say about the rules."""

    def __init__(self) -> None:
        self.outcomes: dict[str, dict[str, str]] = defaultdict(dict)  # rule -> test -> worst outcome
        self.red: dict[str, dict[str, bool]] = defaultdict(dict)  # rule -> test -> whether it failed under the breakage

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for key, value in report.user_properties:
            if key == _KEY:
                before = self.outcomes[str(value)].get(report.nodeid)
                if before is None or report.outcome != "passed":
                    self.outcomes[str(value)][report.nodeid] = report.outcome
            elif key == _RED:
                number, failed = str(value).split()
                self.red[number][report.nodeid] = failed == "yes"

    def state(self, number: str) -> str:
        outcomes = self.outcomes.get(number)
        if RULES[number].because:
            return "not applicable"
        if not outcomes:
            return "no test"
        # A skipped test shows nothing: it neither fails a rule nor stands for it.
        found = set(outcomes.values())
        return "failing" if "failed" in found else "passing" if "passed" in found else "skipped"

    def goes_red(self, number: str) -> str:
        found = self.red.get(number, {})
        if not found:
            return ""
        return f"{sum(found.values())} of {len(found)}" if any(found.values()) else "NO"


# -- hooks -----------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("contract")
    group.addoption("--contract-report", action="store_true", help="print which tests stand for which rule of docs/contract.md")
    group.addoption("--contract-mutations", action="store_true", help="also run marked tests with their rules broken on purpose")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "contract(number, ...): rules of docs/contract.md that the test would fail for")
    config.stash[_COLLECTED] = Collected()
    config.pluginmanager.register(config.stash[_COLLECTED])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.user_properties += [(_KEY, n) for n in numbers_of(item)]


def pytest_runtest_setup(item: pytest.Item) -> None:
    unknown = [n for n in numbers_of(item) if n not in RULES]
    if unknown:
        pytest.fail(f"docs/contract.md has no rule {', '.join(unknown)}", pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if item.config.getoption("--contract-mutations"):
        for number in numbers_of(item):
            if number in mutations():
                failed = _fails_broken(item, number)
                item.user_properties.append((_RED, f"{number} {'yes' if failed else 'no'}"))


def _fails_broken(item: pytest.Item, number: str) -> bool:
    """Whether a test fails while a rule is broken; artifacts made meanwhile are kept neither on disk nor in this process."""
    with patch.dict(os.environ, {"PYPTO_CACHE": "off"}), _another_compiler(number), mutations()[number]():
        # What comes next is the same test again: only what belongs to it alone is torn down.
        return any(r.failed for r in runtestprotocol(item, log=False, nextitem=item.parent))  # type: ignore[arg-type]


@contextmanager
def _another_compiler(name: str) -> Iterator[None]:
    """Kernels are compiled as if by another version of the code, and what they become is forgotten."""
    from pypto.jit import JITFunction, dispatch, programs

    with ExitStack() as stack:
        for module in (dispatch, programs):
            stack.enter_context(patch.object(module, "code_identity", lambda store: f"breaks {name}"))
        stack.enter_context(patch.object(JITFunction, "_teach", lambda *_: None))
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A breakage that no test of its rule notices is a failure of the run."""
    found = session.config.stash[_COLLECTED]
    if any(not any(failed.values()) for failed in found.red.values()) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--contract-report") or config.getoption("--contract-mutations"):
        terminalreporter.section("contract")
        for line in table(config.stash[_COLLECTED], bool(config.getoption("--contract-mutations"))):
            terminalreporter.write_line(line)


def table(found: Collected, broken: bool) -> Iterator[str]:
    """Rule, tests, state; with mutations how many tests failed under the breakage; then one line for each part."""
    yield "item | tests | state" + (" | goes red" if broken else "")
    for number in sorted(RULES, key=lambda n: (n[0] != "T", n)):
        tests = sorted({t.split("::", 1)[-1].split("[")[0] for t in found.outcomes.get(number, ())})
        row = [number, ", ".join(tests), found.state(number), *([found.goes_red(number)] if broken else [])]
        yield " | ".join(row)
    if broken:
        tested = [n for n in RULES if n in mutations() and found.outcomes.get(n)]
        red = [n for n in tested if any(found.red.get(n, {}).values())]
        without = [n for n in sorted(RULES) if found.outcomes.get(n) and n not in mutations()]
        yield f"contract mutations: {len(red)}/{len(tested)} go red; tested without one: {', '.join(without)}"
    for part in "TB":
        numbers = [n for n in RULES if n[0] == part]
        states = [found.state(n) for n in numbers]
        yield f"contract {part}: {states.count('passing')}/{len(numbers)}, not applicable {states.count('not applicable')}"

"""The contract page, the marks of the tests and the breakages name the same rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from contract import RULES, Collected, mutations, numbers_of, read_rules, table

ROOT = Path(__file__).resolve().parents[2]


def test_the_rules_are_numbered_without_gaps() -> None:
    for part, count in (("B", 253), ("T", 183)):
        assert [n for n in RULES if n[0] == part] == [f"{part}{i:03}" for i in range(1, count + 1)]
    assert all(r.text.endswith(".") for r in RULES.values())
    assert read_rules() == RULES


def test_a_rule_that_cannot_apply_says_why() -> None:
    apart = {n: r.because for n, r in RULES.items() if r.because}
    assert set(apart) == {"B227", "B233", "T037", "T132", "T166"}
    assert all(len(because.split()) > 5 for because in apart.values())


def test_marks_name_rules() -> None:
    known = set(RULES)
    for path in (ROOT / "tests").rglob("test_*.py"):
        for mark in re.findall(r"^\s*@(?:pytest\.mark\.)?contract\(([^)]*)\)", path.read_text(encoding="utf-8"), re.M):
            assert set(re.findall(r'"([^"]*)"', mark)) <= known, path


@pytest.mark.parametrize("number", mutations())
def test_breakages_break_what_there_is_and_leave_nothing_behind(number: str) -> None:
    assert not RULES[number].because
    with mutations()[number]():
        pass


class _Report:
    def __init__(self, test: str, outcome: str, *properties: tuple[str, str]) -> None:
        self.nodeid, self.outcome, self.user_properties = test, outcome, list(properties)


def _lines(*reports: _Report, broken: bool = False) -> dict[str, str]:
    found = Collected()
    for r in reports:
        found.pytest_runtest_logreport(r)  # type: ignore[arg-type]
    lines = list(table(found, broken))
    return {line.split(" | ")[0]: line for line in lines} | {"last": lines[-2]}


def test_the_report_says_which_tests_stand_for_a_rule_and_whether_they_passed() -> None:
    rule, other = ("contract", "T001"), ("contract", "T002")
    lines = _lines(
        _Report("a.py::test_a[1]", "passed", rule),
        _Report("a.py::test_a[2]", "passed", rule, other),
        _Report("a.py::test_a[2]", "passed", rule, other),
        _Report("a.py::test_b", "passed", other),
        _Report("a.py::test_b", "failed", other),
        _Report("a.py::test_b", "passed", other),
    )
    assert lines["T001"] == "T001 | test_a | passing"
    assert lines["T002"] == "T002 | test_a, test_b | failing"
    assert lines["T003"] == "T003 |  | no test"
    assert lines["T037"] == "T037 |  | not applicable"
    assert lines["last"] == "contract T: 1/183, not applicable 3"


def test_a_skipped_test_shows_nothing() -> None:
    skipped, passed = (_Report(f"a.py::test_a[{o}]", o, ("contract", "T001")) for o in ("skipped", "passed"))
    assert _lines(skipped)["T001"] == "T001 | test_a | skipped"
    assert _lines(skipped, passed)["T001"] == "T001 | test_a | passing"


def test_the_report_says_whether_tests_notice_the_breakage() -> None:
    rule = ("contract", "T001")
    noticed = _lines(_Report("a", "passed", rule, ("contract-red", "T001 yes")), _Report("b", "passed", rule), broken=True)
    assert noticed["T001"] == "T001 | a, b | passing | 1 of 1"
    missed = _lines(_Report("a", "passed", rule, ("contract-red", "T001 no")), broken=True)
    assert missed["T001"] == "T001 | a | passing | NO"


class _Item:
    def iter_markers(self, name: str) -> list[pytest.Mark]:
        assert name == "contract"
        return [pytest.mark.contract("T002", "T001").mark, pytest.mark.contract("T001").mark]


def test_a_test_names_each_of_its_rules_once() -> None:
    assert numbers_of(_Item()) == ["T001", "T002"]  # type: ignore[arg-type]

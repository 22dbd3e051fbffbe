"""The documentation says what is true: reference pages are current, the README's programs are those that run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pypto import config

ROOT = Path(__file__).resolve().parents[2]


def test_reference_pages_are_what_the_package_declares() -> None:
    done = subprocess.run([sys.executable, "tools/reference.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_option_is_read_somewhere() -> None:
    sources = [p.read_text(encoding="utf-8") for p in (ROOT / "pypto").rglob("*.py") if p.name != "config.py"]
    names = {n for n, v in vars(config).items() if isinstance(v, config.Option)}
    assert [n for n in sorted(names) if not any(re.search(rf"\b{n}\b", s) for s in sources)] == []


def test_the_first_program_of_the_readme_is_the_first_example() -> None:
    example = (ROOT / "examples" / "01_hello.py").read_text(encoding="utf-8").split('"""\n\n', 1)[1]
    assert example in (ROOT / "README.md").read_text(encoding="utf-8")


def test_ci_runs_the_readme_s_test_command() -> None:
    commands = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("python3 -m venv")]
    assert len(commands) == 2
    assert "'.[examples,test]'" in commands[1]
    assert "grep -F \"'.[examples,test]'\" README.md" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("page", [*sorted(p.name for p in (ROOT / "docs").glob("*.md")), "README.md"])
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page if page == "README.md" else ROOT / "docs" / page
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target

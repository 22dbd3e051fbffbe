"""Files under 500 lines, functions under 60, and every file says what it is for."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "pypto"
FILES = sorted(p for p in ROOT.rglob("*.py"))
MAX_FILE, MAX_FUNCTION, MAX_DOCSTRING = 500, 60, 14

# Exceptions, each with its reason.
LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_file(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    text = path.read_text()
    lines = text.count("\n")
    assert lines < MAX_FILE or name in LONG_FILES, f"{name} has {lines} lines"
    tree = ast.parse(text)
    assert ast.get_docstring(tree), f"{name} does not say what it is for"
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length < MAX_FUNCTION or f"{name}:{node.name}" in LONG_FUNCTIONS, f"{name}:{node.name} has {length} lines"


def test_exceptions_are_still_needed() -> None:
    for name in LONG_FILES:
        assert (ROOT / name).read_text().count("\n") >= MAX_FILE, f"{name} is short again: drop the exception"

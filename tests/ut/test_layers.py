"""The house: a package imports only what stands below it, and the environment is read in one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "pypto"

# From the bottom up.  Packages of one rank never import one another.
RANKS = {
    "span": 0,
    "enums": 0,
    "errors": 1,
    "dtypes": 1,
    "named": 0,
    "config": 2,
    "_lazy": 2,
    "language": 3,
    "target": 4,
    "ir": 5,
    "ir.ops": 6,
    "ir.verify": 7,
    "debug": 8,
    "frontend": 9,
    "codegen": 9,
    "passes": 9,
    "runtime": 9,
    "jit": 10,
    "testing": 11,
    "cli": 12,
    "__main__": 13,
}
# Facades re-export names of other packages lazily and hold no code of their own.
FACADES = {
    "__init__.py",
    "pypto_core/__init__.py",
    "ir/__init__.py",
    "ir/pass_manager.py",
    "ir/registry.py",
    "ir/op/__init__.py",
    "passes/__init__.py",
    "runtime/__init__.py",
    "language/_lazy.py",
}


def package_of(module: str) -> str:
    parts = module.split(".")[1:]
    two = ".".join(parts[:2])
    return two if two in RANKS else parts[0] if parts else ""


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, a.name) for a in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [f"{node.module}.{a.name}" for a in node.names]
            # `from pypto.ir import ops` names a package of another rank than `pypto.ir`.
            yield from ((node.lineno, n if package_of(n) in RANKS else node.module) for n in names)


FILES = sorted(p for p in ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    if name in FACADES or name.startswith(("pypto_core/", "backend/")):
        return
    mine = package_of("pypto." + name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    assert mine in RANKS, f"{name}: package '{mine}' has no place in the house"
    for line, module in imports(ast.parse(path.read_text())):
        if not module.startswith("pypto."):
            continue
        other = package_of(module)
        if other == mine or (other == "ir" and mine.startswith("ir")):
            continue
        assert other in RANKS, f"{name}:{line}: {module} has no place in the house"
        assert RANKS[other] < RANKS[mine], f"{name}:{line}: '{mine}' must not import '{module}'"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_environment_is_read_in_one_place(path: Path) -> None:
    if path.name == "config.py" and path.parent == ROOT:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb", "putenv"):
            pytest.fail(f"{path.relative_to(ROOT)}:{node.lineno}: ask pypto.config, not os.{node.attr}")


def test_driver_alone_joins_the_compiler() -> None:
    joining = []
    for path in FILES:
        ranks = {package_of(m) for _, m in imports(ast.parse(path.read_text())) if m.startswith("pypto.")}
        if {"frontend", "passes", "codegen", "runtime"} <= ranks:
            joining.append(str(path.relative_to(ROOT)))
    assert joining == ["jit/driver.py"]

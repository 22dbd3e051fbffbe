"""Write the reference pages of `docs/` from what the package declares: operators, options, error codes, public names.

python tools/reference.py            write docs/operators.md, options.md, errors.md, names.md
python tools/reference.py --check    exit 1 if one is out of date
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

import pypto  # noqa: E402
from pypto import config, errors, ir, passes, runtime  # noqa: E402
from pypto._lazy import Facade  # noqa: E402
from pypto.ir.opdef import Dsl, Lanewise, OpDef, Reduce, Special  # noqa: E402
from pypto.ir.ops import ALL, DSL, find_dsl  # noqa: E402
from pypto.language.unsupported import UNSUPPORTED  # noqa: E402

_NOTE = "<!-- Written by tools/reference.py; do not edit. -->\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(_cell(c) for c in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


# -- operators -----------------------------------------------------------------------------------------------------


def operators() -> str:
    parts = [
        "# Operators\n",
        _NOTE,
        "What kernels can call. `pl.add` takes tensors or tiles and picks the operator by its operands; `pl.tensor.add` and "
        "`pl.tile.add` name one. A scalar operand becomes the operand's dtype.\n",
        "## Functions of the language\n",
        _table(["function", "namespaces", "meaning"], [_dsl(d) for d in sorted(DSL, key=lambda d: d.name)]),
        "## Operators of the IR\n",
        "Stages: operators named `tensor.*` work on global memory, `tile.*` on on-chip tiles, `buffer.*` on explicit storage.\n",
        _table(["concept", "stages", "operands", "kind", "element types"], _concepts()),
    ]
    return "\n".join(parts)


def _dsl(d: Dsl) -> list[str]:
    spaces = ", ".join("pl" + (f".{s}" if s else "") for s in d.namespaces)
    return [f"`{d.signature()}`", spaces, d.doc]


def _concepts() -> list[list[str]]:
    found: dict[str, list[OpDef]] = {}
    for op in ALL:
        found.setdefault(op.concept, []).append(op)
    rows = []
    for concept, ops in sorted(found.items()):
        main = max(ops, key=lambda o: o.level == "tile")
        dtypes = sorted({str(d) for o in ops for d in o.dtypes})
        names = ", ".join(o.name + ("?" if o.optional else "") for o in main.operands)
        rows.append([f"`{concept}`", ", ".join(o.level for o in ops), names, _kind(main), ", ".join(dtypes)])
    return rows


def _kind(op: OpDef) -> str:
    s = op.semantics
    if isinstance(s, Lanewise):
        return "lane by lane"
    if isinstance(s, Reduce):
        return ("row" if s.axis == 1 else "column") + (" index reduction" if s.arg else " reduction")
    assert isinstance(s, Special)
    return s.kind


# -- options -------------------------------------------------------------------------------------------------------


def options() -> str:
    rows = []
    for o in config.ALL:
        kept = {"": "unset", None: "unset"}.get(o.default, str(o.default))  # type: ignore[call-overload]
        rows.append([f"`{o.name}`", kept, o.doc, "yes" if o.affects_code else ""])
    return "\n".join(
        [
            "# Options\n",
            _NOTE,
            "Environment variables, read when a kernel is specialized or built. A value outside the domain is an error "
            "naming the variable. “Key” marks those that are part of an artifact's identity.\n",
            _table(["variable", "default", "meaning", "key"], rows),
        ]
    )


# -- errors --------------------------------------------------------------------------------------------------------


def error_pages() -> str:
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.Error)]
    rows = [[f"`{c.code}`", f"`{c.__name__}`", (c.__doc__ or "").split("\n")[0]] for c in classes]
    coded = sorted(dict.fromkeys(map(tuple, _coded())), key=lambda r: r[0])
    return "\n".join(
        [
            "# Errors\n",
            _NOTE,
            "Every error that a user can cause is a `pypto.Error` with a stable `code`, the place in the user's source where "
            "there is one, and what to write instead. `InternalError` is a defect of pypto and not an `Error`.\n",
            "## Classes\n",
            _table(["code", "class", "meaning"], sorted(rows)),
            "## Codes of single findings\n",
            _table(["code", "class", "message"], [list(r) for r in coded]),
        ]
    )


def _coded() -> Iterator[list[str]]:
    """Every `SomeError(message, ..., code="X123")` of the package."""
    for path in sorted((ROOT / "pypto").rglob("*.py")):
        texts: dict[str, str] = {}  # of the local names so far; a message that is too long for its line has one
        for node in _in_order(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                texts[node.targets[0].id] = _template(node.value, texts)
            if not isinstance(node, ast.Call):
                continue
            code = next((k.value for k in node.keywords if k.arg == "code"), None)
            if not isinstance(code, ast.Constant) or not isinstance(code.value, str) or not node.args:
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            message = next((t for t in (_template(a, texts) for a in node.args) if t), "…")
            yield [f"`{code.value}`", f"`{name}`" if name.endswith("Error") else "`CompileError`", message]


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes as they stand in the text."""
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)


def _template(node: ast.expr, texts: Mapping[str, str]) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        return texts.get(node.id, "")
    if isinstance(node, ast.JoinedStr):
        return "".join(str(p.value) if isinstance(p, ast.Constant) else "…" for p in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _template(node.left, texts) + _template(node.right, texts)
    return ""


# -- public names --------------------------------------------------------------------------------------------------


def names() -> str:
    parts = [
        "# Public names\n",
        _NOTE,
        "Names that existing programs import. Each resolves to an object, or raises `NotSupportedError` with what to use "
        "instead; none is an `AttributeError`.\n",
    ]
    for module in (pypto, ir, passes, runtime):
        parts += _facade(module.__name__, vars(module)["_FACADE"])
    parts += ["## pypto.language\n", "Functions: see [operators](operators.md). Known, and refused with the reason:\n"]
    rows = [
        [f"`{'pl.' + space if space else 'pl'}.{name}`", reason]
        for space, known in UNSUPPORTED.items()
        for name, reason in sorted(known.items())
        if find_dsl(space, name) is None
    ]
    parts.append(_table(["name", "why not"], rows))
    return "\n".join(parts)


def _facade(name: str, facade: Facade) -> list[str]:
    there, missing = facade.listed()
    parts = [f"## {name}\n", ", ".join(f"`{n}`" for n in there) + "\n"]
    if missing:
        parts += [_table(["not in this version", "instead"], [[f"`{n}`", reason] for n, reason in missing])]
    return parts


PAGES: dict[str, Any] = {"operators.md": operators, "options.md": options, "errors.md": error_pages, "names.md": names}


def main(argv: list[str]) -> int:
    stale = []
    for name, make in PAGES.items():
        path, text = ROOT / "docs" / name, make()
        if "--check" in argv:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(name)
        else:
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"out of date: {', '.join(stale)}; run python tools/reference.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

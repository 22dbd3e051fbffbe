"""Write the reference pages of `docs/` from what the package declares: operators, options, error codes, public names.

python tools/reference.py            write docs/operators.md, options.md, errors.md, names.md, and what README.md says is missing
python tools/reference.py --check    exit 1 if one is out of date
"""

from __future__ import annotations

import ast
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

import pypto  # noqa: E402
from pypto import config, errors, ir, passes, runtime  # noqa: E402
from pypto._lazy import Facade  # noqa: E402
from pypto.dtypes import DataType  # noqa: E402
from pypto.ir.opdef import Dsl, Lanewise, OpDef, Reduce, Special  # noqa: E402
from pypto.ir.ops import ALL, DSL, find_dsl  # noqa: E402
from pypto.ir.ops.rules import MOVABLE  # noqa: E402
from pypto.language.unsupported import UNSUPPORTED  # noqa: E402
from pypto.passes.legalize_tile_cast import cast_chain  # noqa: E402
from pypto.target import Chip, chip_of  # noqa: E402

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
        "`pl.tile.add` name one. A scalar operand becomes the operand's dtype; a float does not become an integer.\n",
        "## Functions of the language\n",
        _table(["function", "namespaces", "meaning"], [_dsl(d) for d in sorted(DSL, key=lambda d: d.name)]),
        *_conversions(chip_of(passes.effective().platform)),
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


def _conversions(chip: Chip) -> list[str]:
    used = [d for d in MOVABLE if d in chip.casts]
    rows = [[f"**{s.name}**", *(_conversion(chip, s, t) for t in used)] for s in used]
    alone = ", ".join(d.name for d in MOVABLE if d not in chip.casts)
    return [
        "## Conversions\n",
        f"What `pl.cast` of a tensor or tile does on {chip.name}, from the row's type to the column's. “direct”: one conversion. "
        "“via FP16”: it goes over the types named and rounds at each, in the mode that was given. “(FP16)”: refused (C120); "
        "write a cast to each of the types in brackets first, `pl.cast(pl.cast(x, pl.FP16), pl.FP32)` from INT8 to FP32. "
        "[numerics.md](numerics.md#conversions) has the rounding modes.\n",
        _table(["from \\ to", *(d.name for d in used)], rows),
        f"{alone}: no conversion to or from them; `pl.reinterpret_view` reads their bytes as another type.\n",
    ]


def _conversion(chip: Chip, source: DataType, target: DataType) -> str:
    if source is target:
        return ""
    chain = cast_chain(chip, source, target)
    if chain is None:
        return f"({', '.join(d.name for d in _by_hand(chip, source, target))})"
    return f"via {', '.join(d.name for d in chain[:-1])}" if len(chain) > 1 else "direct"


def _by_hand(chip: Chip, source: DataType, target: DataType) -> tuple[DataType, ...]:
    """The types between the ends of the shortest path of casts that are accepted one by one."""
    queue: deque[tuple[DataType, ...]] = deque([(source,)])
    while queue:
        path = queue.popleft()
        if target in chip.casts[path[-1]]:
            return path[1:]
        queue.extend((*path, d) for d in MOVABLE if d in chip.casts[path[-1]] and d in chip.casts and d not in path)
    raise AssertionError(f"{source} never becomes {target}")


def _kind(op: OpDef) -> str:
    s = op.semantics
    if isinstance(s, Lanewise):
        return "lane by lane"
    if isinstance(s, Reduce):
        return ("row" if s.axis == 1 else "column") + (" index reduction" if s.arg else " reduction")
    return s.kind if isinstance(s, Special) else type(s).__name__.lower()


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
            "Environment variables, read when a kernel is specialized or built. A value outside the domain is a `ConfigError` "
            "naming the variable, at the first call or compilation of a kernel, whether or not "
            "that needs it. “Key” marks those that are part of an artifact's identity.\n",
            _table(["variable", "default", "meaning", "key"], rows),
        ]
    )


# -- errors --------------------------------------------------------------------------------------------------------


def error_pages() -> str:
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.Error)]
    rows = [[f"`{c.code}`", f"`{c.__name__}`", (c.__doc__ or "").split("\n")[0]] for c in classes]
    return "\n".join(
        [
            "# Errors\n",
            _NOTE,
            "Every error that a user can cause is a `pypto.Error` with a stable `code`, the place in the user's source where "
            "there is one, and what to write instead. Classes of calls, options and run time are also the Python exception "
            "that one would expect (`ArgumentTypeError` is a `TypeError`, `ArgumentValueError`, `ConfigError` and `CompileError` "
            "are `ValueError`s, `KernelBoundsError` is an `IndexError`). `InternalError` is a defect of pypto and "
            "not an `Error`.\n",
            "## Classes\n",
            _table(["code", "class", "meaning"], sorted(rows)),
            "## Codes of single findings\n",
            _table(["code", "class", "message"], _coded()),
        ]
    )


def _coded() -> list[list[str]]:
    """Every error of the package that has a code of its own: `SomeError(message, ..., code="X123")`, directly or by a
    function of the same file, or a public one of the same folder, that takes the message.  Texts without a word stand only
    where a code has no other."""
    found: dict[str, dict[tuple[str, str], None]] = {}
    for path in sorted((ROOT / "pypto").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for body in _bodies(tree):
            for code, name, message in _coded_calls(body):
                private = getattr(body, "name", "_").startswith("_")
                for given in _arguments(tree if private else _folder(path.parent), body, message):
                    text = re.sub("…+", "…", _template(message, {**_texts(body), **given}))
                    found.setdefault(code, {})[name, text] = None
    rows = []
    for code, texts in sorted(found.items()):
        worded = [t for t in texts if re.search("[a-z]", t[1])]
        rows += [[f"`{code}`", f"`{name}`", text] for name, text in worded or texts]
    return rows


@lru_cache
def _folder(path: Path) -> ast.Module:
    """The source files of a folder as one."""
    trees = [ast.parse(p.read_text(encoding="utf-8")) for p in sorted(path.glob("*.py"))]
    return ast.Module([n for t in trees for n in t.body], [])


def _bodies(tree: ast.Module) -> Iterator[ast.AST]:
    """Outermost functions and methods, and the statements outside of them."""
    for n in tree.body:
        if isinstance(n, ast.ClassDef):
            yield from n.body
        else:
            yield n


def _coded_calls(body: ast.AST) -> Iterator[tuple[str, str, ast.expr]]:
    """Code, class and message of the errors that a piece of source makes."""
    for call in (n for n in ast.walk(body) if isinstance(n, ast.Call) and n.args):
        code = next((k.value for k in call.keywords if k.arg == "code"), call.args[1] if len(call.args) > 1 else None)
        if isinstance(code, ast.Constant) and isinstance(code.value, str) and re.fullmatch(r"[A-Z]\d{3}", code.value):
            name = _called(call)
            yield code.value, name if name.endswith("Error") else _class_of(code.value), call.args[0]


def _class_of(code: str) -> str:
    """The class of a code: A110 belongs to A100, C120 to C000."""
    classes = {c.code: c.__name__ for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.Error)}
    return classes.get(code[:2] + "00") or classes[code[0] + "000"]


def _texts(body: ast.AST) -> dict[str, str]:
    """The texts of local names, for a message that is too long for its line; a name may have several."""
    texts: dict[str, list[str]] = {}
    for node in ast.walk(body):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            text = _template(node.value, {})
            if re.search("[a-z]", text):
                texts.setdefault(node.targets[0].id, []).append(text)
    return {name: " / ".join(alternatives) for name, alternatives in texts.items()}


def _arguments(tree: ast.AST, body: ast.AST, message: ast.expr) -> Iterator[dict[str, str]]:
    """The texts of a function's parameters that a message is made of, once for each call of it."""
    parameters = [a.arg for a in body.args.args] if isinstance(body, ast.FunctionDef) else []
    used = {n.id for n in ast.walk(message) if isinstance(n, ast.Name)} & {p for p in parameters if p != "self"}
    calls = [(f, c) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for c in ast.walk(f) if isinstance(c, ast.Call)]
    here = [(f, c) for f, c in calls if _called(c) == getattr(body, "name", None) and f is not body]
    if not used or not here:
        yield {}
        return
    for f, call in here:
        names = parameters[1 if parameters[0] == "self" and isinstance(call.func, ast.Attribute) else 0 :]
        yield {n: _template(a, _texts(f)) for n, a in zip(names, call.args, strict=False) if n in used}


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _template(node: ast.expr, texts: Mapping[str, str]) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        return texts.get(node.id) or "…"
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(p.value if isinstance(p, ast.FormattedValue) else p, texts) for p in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _template(node.left, texts) + _template(node.right, texts)
    return "…"


# -- public names --------------------------------------------------------------------------------------------------


def names() -> str:
    parts = [
        "# Public names\n",
        _NOTE,
        "Names that existing programs import. Each resolves to an object, or raises `NotSupportedError` with the reason: what to "
        "use instead where there is something, else that this version does not have it. None is an `AttributeError`.\n",
    ]
    for module in (pypto, ir, passes, runtime):
        parts += _facade(module.__name__, vars(module)["_FACADE"])
    parts += ["## pypto.language\n", "Functions: see [operators](operators.md). Known, and refused with the reason:\n"]
    grouped: dict[tuple[str, str], list[str]] = {}
    for space, known in UNSUPPORTED.items():
        for name, reason in sorted(known.items()):
            if find_dsl(space, name) is None:
                grouped.setdefault((f"pl.{space}" if space else "pl", reason), []).append(f"`{name}`")
    rows = [[f"`{space}`", reason, ", ".join(names)] for (space, reason), names in grouped.items()]
    parts.append(_table(["namespace", "reason", "names"], rows))
    return "\n".join(parts)


def _facade(name: str, facade: Facade) -> list[str]:
    there, missing = facade.listed()
    parts = [f"## {name}\n", ", ".join(f"`{n}`" for n in there) + "\n"]
    if missing:
        parts += [_table(["not in this version", "why, or what instead"], [[f"`{n}`", reason] for n, reason in missing])]
    return parts


# -- what the README says is missing -------------------------------------------------------------------------------

# One name of each family that a newcomer looks for; those that the operator table gains leave the sentence by themselves.
_SOUGHT = "matmul transpose concat gather scatter sort32 arange random sin cos and_ or_ not_ shl shr"
_MARKS = "<!-- missing: written by tools/reference.py -->", "<!-- end -->"


def readme() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    before, rest = text.split(_MARKS[0])
    after = rest.split(_MARKS[1])[1]
    missing = ", ".join(f"`pl.{n}`" for n in _SOUGHT.split() if find_dsl("", n) is None)
    return f"{before}{_MARKS[0]}{missing and missing + ', '}{_MARKS[1]}{after}"


PAGES: dict[str, Callable[[], str]] = {
    "docs/operators.md": operators,
    "docs/options.md": options,
    "docs/errors.md": error_pages,
    "docs/names.md": names,
    "README.md": readme,
}


def main(argv: list[str]) -> int:
    stale = []
    for name, make in PAGES.items():
        path, text = ROOT / name, make()
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

"""Why a request would be a hit or a miss, in words.

In: a kernel and what it is asked for.  Out: where a hit is; for a miss, what differs from the most similar stored
artifact of a kernel of this name: the first line of the source, names of values, parameters and options with old and new.
Nothing is built, and nothing counts as a look-up.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pypto.config import NATIVE_OPT
from pypto.frontend.canonical import function_name, python_text
from pypto.frontend.locate import statements
from pypto.frontend.source import Source
from pypto.frontend.specialization import Argument
from pypto.jit.dependencies import Dependencies
from pypto.jit.dispatch import parameter_needed, with_static
from pypto.jit.identity import code_identity, make_record
from pypto.named import NamedTuple
from pypto.passes.context import PassOptions
from pypto.runtime.record import Record, diff
from pypto.runtime.store import default_store, digest
from pypto.runtime.toolchain import find

if TYPE_CHECKING:
    from pypto.jit.function import JITFunction

__all__ = ["Explanation", "explain", "kernel_name"]


class Explanation(NamedTuple):
    """What would answer a request.  `state` is loaded, stored or missing; `path` is the entry, of a hit or to compare with.

    `differences`: of a miss, from the most similar artifact of a kernel of this name; without a `path` there is none.
    """

    kernel: str
    state: str
    digest: str
    path: str = ""
    differences: tuple[str, ...] = ()

    @property
    def hit(self) -> bool:
        return self.state != "missing"

    def __str__(self) -> str:
        if self.state == "loaded":
            return f"'{self.kernel}': loaded in this process"
        if self.state == "stored":
            return f"'{self.kernel}': stored in {self.path}"
        if not self.path:
            return f"'{self.kernel}': not stored; the cache has no artifact of a kernel of this name to compare with"
        head = f"'{self.kernel}': not stored; the nearest artifact of a kernel of this name differs in"
        return "\n".join([head, *(f"  {line}" for line in self.differences)])


def explain(kernel: JITFunction, arguments: dict[str, Argument], options: PassOptions, dependencies: Dependencies) -> Explanation:
    """Where the artifact is; for a miss, the parts in which the nearest stored artifact of this kernel differs."""
    store, name = default_store(), kernel.source.name
    optimize, code, toolchain = NATIVE_OPT.get() == "1", code_identity(store), find(store)
    while True:
        record = make_record(dependencies.parts, arguments, options, optimize, code, toolchain)
        needed = kernel.static.get(record.encoded) or parameter_needed(store, record, arguments)
        if not needed:
            break
        arguments = with_static(arguments, needed)
    unit = digest(record.encoded)
    known = kernel.kernels.get(record.encoded)
    if known is not None:
        return Explanation(name, "loaded", unit, str(known.output_dir))
    entry = store.lookup(record.encoded, counted=False)
    if entry is not None:
        return Explanation(name, "stored", unit, entry.path)
    nearest = store.nearest(record.encoded, lambda other: kernel_name(other) == name)
    if nearest is None:
        return Explanation(name, "missing", unit)
    found = _differences(nearest[0].record(), Record.decode(record.encoded), dependencies.sources)
    return Explanation(name, "missing", unit, nearest[0].path, tuple(found))


def kernel_name(record: Record) -> str:
    """The name of the kernel that an artifact's record is of; empty for records of other things."""
    unit = record.parts.get("kernel")
    if isinstance(unit, tuple) and unit[:1] == ("program",):
        return str(unit[1])
    text = unit[1] if isinstance(unit, tuple) and len(unit) > 1 else None
    return function_name(text) if isinstance(text, str) else ""


def _differences(old: Record, new: Record, sources: tuple[Source, ...]) -> Iterator[str]:
    found = diff(old, new)
    edited = any(d.name in ("kernel", "helpers") for d in found)
    for d in found:
        a, b = old.parts.get(d.name), new.parts.get(d.name)
        if d.name == "kernel":
            yield from _unit(a, b, sources[0])
        elif d.name == "helpers":
            yield from _helpers(a, b, sources[1:])
        elif d.name == "values":
            yield from _named("values", _values(old), _values(new), common=edited)
        elif d.name == "parameters":
            yield from _named("parameters", _parameters(a), _parameters(b), common=False)
        elif d.name == "ptoas":
            yield f"ptoas: {_assembler(a)} -> {_assembler(b)}"
        elif d.name == "pypto":
            yield "pypto: its own code is another version's"
        else:
            yield f"{d.name}: {d.old} -> {d.new}"


def _assembler(part: Any) -> str:
    if not isinstance(part, Mapping):
        return "none"
    return " ".join([str(part["path"]), *str(part["version"]).split("\n")[:1], f"(content {str(part['content'])[:12]})"])


# -- sources -------------------------------------------------------------------------------------------------------


def _unit(old: Any, new: Any, source: Source) -> Iterator[str]:
    """One function: (kind, canonical text, options)."""
    if old[1] != new[1]:
        yield _edited(old[1], new[1], source)
    for part, what in ((0, "kind"), (2, "options")):
        if old[part] != new[part]:
            (d,) = diff(Record({what: old[part]}), Record({what: new[part]}))
            yield f"{what} of {source.name}: {d.old} -> {d.new}"


def _edited(old: str, new: str, source: Source) -> str:
    """The first statement that is another one, with its line in the file."""
    before, now = python_text(old), python_text(new)
    if before is None or now is None or before == now:
        return f"the source of {source.name} differs"
    left, right = before.split("\n"), now.split("\n")
    n = next((i for i, (x, y) in enumerate(zip(left, right, strict=False)) if x != y), min(len(left), len(right)))
    was = f"was {_quoted(left[n])}" if n < len(left) else "is new"
    if n >= len(right):
        return f"{source.name}, after its last line: there was {_quoted(left[n])}"
    return f"{source.name}, line {_line_of(source, now, n + 1)}: {_quoted(right[n])} {was}"


def _line_of(source: Source, text: str, line: int) -> int:
    """The line in the file of the statement that stands at a line of the normalized text; their statements are the same."""
    written = [s for s in statements(source.node) if s is not _docstring(source.node)]
    normal = list(statements(ast.parse(text).body[0]))
    at = max((i for i, s in enumerate(normal) if s.lineno <= line), default=0)
    return written[at].lineno if at < len(written) else source.first_line


def _docstring(node: ast.FunctionDef) -> ast.stmt | None:
    first = node.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    return first if is_text else None


def _quoted(line: str) -> str:
    line = line.strip()
    return f'"{line if len(line) <= 100 else line[:97] + "..."}"'


def _helpers(old: Any, new: Any, sources: tuple[Source, ...]) -> Iterator[str]:
    """Helpers by name, in the order in which the kernel meets them."""
    known = {function_name(unit[1]): unit for unit in old}
    for unit, source in zip(new, sources, strict=True):
        before = known.pop(function_name(unit[1]), None)
        if before is None:
            yield f"helper {source.name}: not used -> used"
        elif before != unit:
            yield from _unit(before, unit, source)
    for name in known:
        yield f"helper {name}: used -> not used"


# -- values and parameters -----------------------------------------------------------------------------------------


def _values(record: Record) -> dict[str, Any]:
    """What the names stand for that the kernel and its helpers read; those of helpers say whose they are."""
    values, helpers = record.parts["values"], record.parts["helpers"]
    assert isinstance(values, tuple)
    assert isinstance(helpers, tuple)
    shown = ((at, _stands_for(name), value) for at, name, value in values)
    return {name if at == 0 else f"{name} of {function_name(helpers[at - 1][1])}": value for at, name, value in shown}


def _stands_for(name: str) -> str:
    """What a signature says of a parameter is taken down under its name with the sign behind it."""
    what = {":": "the annotation of ", "=": "the default of "}.get(name[-1:], "")
    return what + name.rstrip(":=")


def _parameters(part: Any) -> dict[str, Any]:
    return {name: rest for name, *rest in part}


def _named(part: str, old: dict[str, Any], new: dict[str, Any], common: bool) -> Iterator[str]:
    """A line for each name whose value changed; `common`: names that came or went say nothing that the source does not."""
    names = [n for n in new if n in old] if common else list(dict.fromkeys([*new, *old]))
    for name in names:
        a, b = ({"": side[name]} if name in side else {} for side in (old, new))
        for d in diff(Record(a), Record(b)):
            yield f"{part}: {name}: {_shown(old, name, d.old)} -> {_shown(new, name, d.new)}"


def _shown(side: dict[str, Any], name: str, text: str) -> str:
    """Tensors by dtype and extents, everything else as the first thing that differs in it."""
    value = side.get(name)
    if isinstance(value, list) and value and value[0] == "tensor":
        dims = ", ".join(map(str, value[1]))
        return f"{getattr(value[2], 'name', value[2])} [{dims}]"
    if isinstance(value, list) and value and value[0] == "static":
        return repr(value[1])
    return text

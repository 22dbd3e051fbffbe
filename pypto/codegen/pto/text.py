"""Lines of `.pto` text: operations, regions, names, and constants that stand once at the head of their function.

In: operations in order.  Out: the function's text, four spaces into the module, two more for each region.
Invariant: a name is defined once; equal sequences of calls give equal text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pypto.ir.shaped import BufferType
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = ["Text", "Value"]

# NaN and the infinities, which have no decimal form.
_BITS = {
    "f32": ("0x7FC00000", "0x7F800000", "0xFF800000"),
    "f16": ("0x7E00", "0x7C00", "0xFC00"),
    "bf16": ("0x7FC0", "0x7F80", "0xFF80"),
}
# What rounds to infinity, from here on.
_INFINITE = {"f32": float.fromhex("0x1.FFFFFFp127"), "f16": 65520.0, "bf16": float.fromhex("0x1.FFp127")}


class Value(NamedTuple):
    """An SSA value: its name and its type, as printed; of a handle also the descriptor that the type prints."""

    name: str
    type: str
    descriptor: BufferType | None = None


class Text:
    """The body of one function."""

    def __init__(self, locations: bool) -> None:
        self.locations = locations
        self.lines: list[str] = []
        self.heads: list[str] = []
        self.constants: dict[tuple[str, str], Value] = {}
        self.depth = 2
        self._used: set[str] = set()
        self._numbers = 0
        self._floats = 0

    # -- names --

    def named(self, hint: str) -> str:
        """A name that nothing else has; the hint's letters that MLIR does not take are replaced."""
        plain = "".join(c if c.isascii() and (c.isalnum() or c in "_$.-") else "_" for c in hint)
        if not plain or plain[0].isdigit() or plain.startswith("arg"):
            plain = f"v_{plain}"
        name, n = plain, 0
        while name in self._used:
            n += 1
            name = f"{plain}_{n}"
        self._used.add(name)
        return f"%{name}"

    def number(self) -> str:
        """The name of a temporary."""
        self._numbers += 1
        return f"%{self._numbers - 1}"

    # -- constants --

    def integer(self, value: int, type_: str = "index") -> Value:
        text = str(value)
        return self._constant(text, type_, f"c{text.replace('-', 'n')}_{type_}")

    def index(self, value: int) -> str:
        return self.integer(value).name

    def float(self, value: float, type_: str) -> Value:
        """A float constant: 17 digits; infinities and NaN as bits."""
        special = 0 if value != value else 1 if value > 0 else 2
        text = f"{value:.17e}" if abs(value) < _INFINITE[type_] else _BITS[type_][special]
        return self._constant(text, type_, "")

    def zeros(self, type_: str) -> str:
        """A vector of zeros."""
        return self._constant("dense<0>", type_, "zeros").name

    def _constant(self, text: str, type_: str, hint: str) -> Value:
        known = self.constants.get((text, type_))
        if known is None:
            if not hint:
                hint = f"cst_{self._floats}" if self._floats else "cst"
                self._floats += 1
            known = self.constants[text, type_] = Value(self.named(hint), type_)
        return known

    # -- storage --

    def alloc_tile(self, made: Value, words: Iterable[str], span: Span | None = None) -> None:
        """`words`: address and run-time extents, as far as there are any."""
        self.op(f"{' '.join((f'{made.name} = pto.alloc_tile', *words))} : {made.type}", span)

    def set_validshape(self, handle: Value, extents: Iterable[str], span: Span | None = None) -> None:
        self.op(f"pto.set_validshape {', '.join((handle.name, *extents))} : {handle.type}", span)

    def subview(
        self, made: Value, source: Value, at: Iterable[str], sizes: Iterable[int], valid: Iterable[str], span: Span | None = None
    ) -> None:
        """A window; `valid` empty: the type says how far it is valid."""
        extents = ", ".join(valid)
        clause = f" valid [{extents}]" if extents else ""
        cut = f"{source.name}[{', '.join(at)}] sizes [{', '.join(str(n) for n in sizes)}]{clause}"
        self.op(f"{made.name} = pto.subview {cut} : {source.type} -> {made.type}", span)

    def treshape(self, made: Value, source: Value, span: Span | None = None) -> None:
        self.op(f"{made.name} = pto.treshape {source.name} : {source.type} -> {made.type}", span)

    # -- lines --

    def op(self, text: str, span: Span | None = None) -> None:
        """One complete operation."""
        self.lines.append("  " * self.depth + text + self._location(span))

    def raw(self, text: str) -> None:
        """The head or end of a region."""
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def head(self) -> Iterator[None]:
        """What is written inside stands at the function's head, behind the constants."""
        lines, depth, self.lines, self.depth = self.lines, self.depth, self.heads, 2
        yield
        self.lines, self.depth = lines, depth

    def otherwise(self) -> None:
        """The region that is open ends; another begins for when its condition does not hold."""
        self.lines.append("  " * (self.depth - 1) + "} else {")

    @contextmanager
    def region(self) -> Iterator[None]:
        self.depth += 1
        yield
        self.depth -= 1

    def _location(self, span: Span | None) -> str:
        if span is None or not self.locations or not span.is_valid():
            return ""
        file = span.filename.replace("\\", "\\\\").replace('"', '\\"')
        return f' loc("{file}":{span.begin_line}:{max(span.begin_column, 1)})'

    def function(self, head: str) -> list[str]:
        """The whole function."""
        constants = [f"    {c.name} = arith.constant {text} : {c.type}" for (text, _), c in self.constants.items()]
        return [f"  {head} {{", *constants, *self.heads, *self.lines, "    return", "  }"]

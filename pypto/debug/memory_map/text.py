"""The memory map for a terminal: program order downwards, bytes to the right, a letter per tile.

In: a `MemoryMap` and a width.  Out: text, the same for the same map.  Statements between which nothing changes share a row.
"""

from __future__ import annotations

import string
from collections.abc import Iterator

from pypto.debug.memory_map import words
from pypto.debug.memory_map.model import Block, KernelMap, MemoryMap, SpaceMap
from pypto.named import NamedTuple

__all__ = ["render"]

_LETTERS = string.ascii_letters + string.digits
_LEAST = 40


class _Marks(NamedTuple):
    side: str
    top: str
    bottom: str
    rule: str
    full: str
    part: str
    empty: str
    peak: str
    cut: str


_UNICODE = _Marks("│", "┌┐", "└┘", "─", "█", "▒", "·", "◄", "…")
_ASCII = _Marks("|", "++", "++", "-", "#", "=", ".", "<", "~")


def render(m: MemoryMap, width: int, ascii_only: bool) -> str:
    """The map as text whose lines are at most `width` columns wide."""
    width = max(width, _LEAST)
    marks = _ASCII if ascii_only else _UNICODE
    out: list[str] = []
    for k in m.kernels:
        out += [*_kernel(m, k, width, marks), ""]
    if not m.kernels:
        out = [f"{m.program}: no kernel runs on a core.", ""]
    text = "\n".join(line.rstrip() for line in out)
    return text.encode("ascii", "replace").decode() if ascii_only else text


def _kernel(m: MemoryMap, k: KernelMap, width: int, marks: _Marks) -> Iterator[str]:
    yield from _wrapped(words.subject(m, k) + (f" ({words.source_of(k)})" if words.source_of(k) else ""), width)
    yield from _wrapped(words.addresses(m), width)
    yield from _wrapped(words.headline(k), width)
    yield ""
    bar = min(30, max(8, width - 44))
    for s in k.spaces:
        share = words.percent(s.peak, s.capacity)
        yield f"  {s.name:<10} {_gauge(s, bar, marks)} {share:>4}"[:width]
    for s in k.spaces:
        yield ""
        yield from _wrapped(f"{s.name}: {words.summary(k, s)}. {words.room(m, s)}", width)
        yield from _picture(k, s, width, marks)


def _gauge(s: SpaceMap, width: int, marks: _Marks) -> str:
    """The peak, what lies below the highest address beside it, and what is never used."""
    whole = max(s.capacity, s.extent, 1)
    full = -(-s.peak * width // whole)
    part = max(-(-s.extent * width // whole), full)
    return marks.full * full + marks.part * (part - full) + marks.empty * (width - part)


def _wrapped(text: str, width: int) -> Iterator[str]:
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            yield line[:width]
            line = "  " + word
        else:
            line = f"{line} {word}" if line else word
    if line:
        yield line[:width]


class _Row(NamedTuple):
    """Statements `first` to `last`, which look alike."""

    first: int
    last: int
    bar: str
    peak: bool


def _rows(k: KernelMap, s: SpaceMap, letters: dict[Block, str], cells: int, domain: int) -> list[_Row]:
    """What changes makes a row; on one line of the source only what can be seen."""
    rows: list[_Row] = []
    before: tuple[Block, ...] = ()
    for n in range(min((b.first for b in s.blocks), default=0), max((b.last for b in s.blocks), default=-1) + 1):
        live = s.live(n)
        row = _Row(n, n, _bar(live, letters, cells, domain), n in s.peak_at)
        alike = bool(rows) and rows[-1][2:] == row[2:]
        if alike and (live == before or k.statements[n].line == k.statements[rows[-1].first].line):
            rows[-1] = rows[-1]._replace(last=n)
        else:
            rows.append(row)
        before = live
    return rows


def _picture(k: KernelMap, s: SpaceMap, width: int, marks: _Marks) -> Iterator[str]:
    letters = {b: _LETTERS[i % len(_LETTERS)] for i, b in enumerate(s.blocks)}
    count = len(k.statements)
    left, line = 2 * len(str(count)) + 2, max((len(words.number(x)) for x in k.statements), default=0)
    frame = left + line + 4
    wide = width >= 76
    cells = max(min(64, (width - frame) * 9 // 20 if wide else width - frame - 2), 8)
    domain, what = words.scale(s)
    head = " " * (left + line + 2)
    yield f"{head}0{what:>{cells}}"[:width]
    yield f"{head}{marks.top[0]}{marks.rule * cells}{marks.top[1]}{marks.peak} peak"[:width]
    shown = None
    for r in _rows(k, s, letters, cells, domain):
        first = k.statements[r.first]
        number = f"#{r.first}" + (f"-{r.last}" if r.last > r.first else "")
        text = f"{number:<{left}} {words.number(first):>{line}} {marks.side}{r.bar}{marks.side}{marks.peak if r.peak else ' '}"
        if wide:
            here = (first.file, first.line) if first.line else None
            again = here is not None and here == shown
            said = f"{marks.empty} {first.what}" if again or not first.text else first.text
            text, shown = f"{text} {'  ' * first.depth}{said}", here
        yield _cut(text.rstrip(), width, marks)
    yield f"{head}{marks.bottom[0]}{marks.rule * cells}{marks.bottom[1]}"
    yield from _legend(s, letters, width)


def _cut(text: str, width: int, marks: _Marks) -> str:
    return text if len(text) <= width else text[: width - 1] + marks.cut


def _bar(live: tuple[Block, ...], letters: dict[Block, str], cells: int, domain: int) -> str:
    """The cells of one row: each shows the tile that has most of it; of two on the same bytes, the one made later."""
    out = []
    for i in range(cells):
        low, high = i * domain / cells, (i + 1) * domain / cells
        here = [(min(b.end, high) - max(b.begin, low), b.first, b) for b in live if b.begin < high and low < b.end]
        out.append(letters[max(here, key=lambda x: x[:2])[2]] if here else " ")
    return "".join(out)


def _legend(s: SpaceMap, letters: dict[Block, str], width: int) -> Iterator[str]:
    """A line per tile."""
    names = max((len(b.name) for b in s.blocks), default=0)
    kinds = max((len(words.tile(b)) for b in s.blocks), default=0)
    for b in s.blocks:
        where = f"{words.amount(b.size):>9} at {b.begin}"
        alive = f"#{b.first}-{b.last}" if b.last > b.first else f"#{b.first}"
        declared = " (declared)" if b.declared else ""
        text = f"  {letters[b]} {b.name:<{names}} {words.tile(b):<{kinds}} {where:<19} {alive} {words.lines(b)}{declared}"
        if len(text.rstrip()) <= width:
            yield text
        else:
            yield from (f"  {line}" for line in _wrapped(text, width - 2))

"""The picture of one kernel as SVG: its statements downwards, beside them one panel per memory with bytes to the right.

In: a `KernelMap`.  Out: four pieces of SVG: the heads and the bodies of the listing and of the panels.
Invariant: every text that comes from a program is escaped; nothing outside the page is referred to.
"""

from __future__ import annotations

from html import escape

from pypto.debug.memory_map import words
from pypto.debug.memory_map.model import Block, KernelMap, SpaceMap, Statement
from pypto.debug.memory_map.style import COLOURS
from pypto.named import NamedTuple

__all__ = ["Picture", "colours", "draw"]

_ROW, _HEAD, _GAP = 18, 40, 26  # heights of a row and of the heads, space between panels; pixels
_LINE, _OPERATOR, _SOURCE = 44, 128, 350  # widths of the columns on the left
_LEAST = 700  # width of all panels together, where they are few
_USE = 54  # width of a panel's bars of bytes in use
_GLYPH = 6.1  # width of a character of the labels
_STEP = 12  # indentation per loop or branch


class _Panel(NamedTuple):
    """Where a memory is drawn: `domain` bytes on `width` pixels from `x` on."""

    space: SpaceMap
    x: float
    width: float
    domain: int

    def at(self, address: int) -> float:
        return self.x + address * self.width / self.domain if self.domain else self.x


class _Rows:
    """The statements that are shown, and where."""

    def __init__(self, k: KernelMap) -> None:
        ends = {n for s in k.spaces for b in s.blocks for n in (b.first, b.last)}
        control = ("for", "while", "if")
        self.shown = [s for s in k.statements if s.on_chip or s.what in control or s.ordinal in ends]
        drawn = {s.ordinal for s in self.shown}
        self._top, above = [], 0
        for s in k.statements:
            self._top.append(above * _ROW)
            above += s.ordinal in drawn

    def top(self, ordinal: int) -> float:
        return self._top[ordinal]

    @property
    def height(self) -> int:
        return len(self.shown) * _ROW


def colours(k: KernelMap) -> dict[Block, int]:
    """A colour for each block; what is one tile at several times has one."""
    found: dict[Block, int] = {}
    for s in k.spaces:
        known: dict[tuple[str, int], int] = {}
        for b in s.blocks:
            found[b] = known.setdefault((b.variable, b.begin), len(known)) % COLOURS
    return found


class Picture(NamedTuple):
    """SVG elements: the listing and its head are of one width, the panels and theirs too."""

    listing_head: str
    panels_head: str
    listing: str
    panels: str


def draw(k: KernelMap) -> Picture:
    """The picture of a kernel."""
    rows, panels = _Rows(k), _panels(k)
    left = _LINE + _SOURCE + _OPERATOR
    width = panels[-1].x + panels[-1].width + _USE + 8 if panels else 1.0
    heads = [_text(_LINE - 8, _HEAD - 8, "line", "mute end"), _text(_LINE, _HEAD - 8, "source", "mute")]
    heads.append(_text(_LINE + _SOURCE, _HEAD - 8, "operator", "mute"))
    of = colours(k)
    body = [_stripes(rows, width), *(_band(p, rows) for p in panels)]
    for p in panels:
        body += [_frame(p, rows), *(_block(p, b, of[b], rows) for b in p.space.blocks), _bars(p, rows)]
    return Picture(
        _svg(left, _HEAD, heads, "heads of the listing"),
        _svg(width, _HEAD, [_head(p) for p in panels], "memories"),
        _svg(left, rows.height + 1, [_stripes(rows, left), _listing(k, rows)], f"statements of {k.name}"),
        _svg(width, rows.height + 1, body, f"memory map of {k.name}"),
    )


def _panels(k: KernelMap) -> list[_Panel]:
    """Memories that hold more side by side get more room, and all of it where they are few."""
    wanted = []
    for s in k.spaces:
        domain, what = words.scale(s)
        columns = len({b.begin for b in s.blocks if 25 * b.size >= domain})
        wanted.append((s, max(90.0 + 58.0 * min(columns, 8), 6.7 * (len(what) + 3)), domain))
    stretch = min(max(_LEAST / max(sum(w for _, w, _ in wanted), 1), 1), 2.5)
    panels = []
    x = 8.0
    for s, width, domain in wanted:
        panels.append(_Panel(s, x, width * stretch, domain))
        x += width * stretch + _USE + _GAP
    return panels


def _svg(width: float, height: float, parts: list[str], label: str) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return f'<svg {size} role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _text(x: float, y: float, text: str, kind: str = "", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}"{more}>{escape(text)}</text>'


def _rect(x: float, y: float, w: float, h: float, kind: str, inside: str = "") -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(w, 1.5):.1f}" height="{h:.1f}" class="{kind}">{inside}</rect>'


# -- the listing -------------------------------------------------------------------------------------------------------


def _stripes(rows: _Rows, width: float) -> str:
    """Every line of the source stands on a ground of its own."""
    out, dark, before = [], False, None
    for i, s in enumerate(rows.shown):
        dark = dark != ((s.file, s.line) != before)
        before = (s.file, s.line)
        if dark:
            out.append(_rect(0, i * _ROW, width, _ROW, "stripe"))
    return "".join(out)


def _listing(k: KernelMap, rows: _Rows) -> str:
    out = []
    before = None
    for i, s in enumerate(rows.shown):
        y = i * _ROW + 13
        if s.text and (s.file, s.line) != before:
            out.append(_text(_LINE - 8, y, words.number(s), "mute end"))
            out.append(_source(s, y))
        before = (s.file, s.line)
        title = f"<title>statement #{s.ordinal}{_from(k, s)}</title>"
        label = f"{escape(s.what)}{title}"
        out.append(f'<text x="{_LINE + _SOURCE}" y="{y}" class="mute">{label}</text>')
    return "".join(out) + _brackets(k, rows)


def _from(k: KernelMap, s: Statement) -> str:
    return f", {escape(s.file)}:{s.line}" if s.line else ""


def _source(s: Statement, y: float) -> str:
    x = _LINE + s.depth * _STEP
    room = int((_SOURCE - s.depth * _STEP - 8) / 6.65)
    shown = s.text if len(s.text) <= room else s.text[: room - 1] + "…"
    return f'<text x="{x}" y="{y}" class="code">{escape(shown)}<title>{escape(s.text)}</title></text>'


def _brackets(k: KernelMap, rows: _Rows) -> str:
    """A line beside the body of each loop and branch."""
    out = []
    for s in rows.shown:
        if s.what not in ("for", "while", "if"):
            continue
        inside = [x for x in rows.shown if x.ordinal > s.ordinal]
        end = next((x for x in inside if x.depth <= s.depth), None)
        last = rows.top(end.ordinal) if end is not None else rows.height
        x = _LINE + s.depth * _STEP + 3
        out.append(f'<line x1="{x}" x2="{x}" y1="{rows.top(s.ordinal) + _ROW - 1}" y2="{last - 3}" class="bracket"/>')
    return "".join(out)


# -- the panels --------------------------------------------------------------------------------------------------------


def _head(p: _Panel) -> str:
    s = p.space
    name = _text(p.x, 14, s.name, "name")
    what = words.scale(s)[1]
    zero = _text(p.x, _HEAD - 8, "0", "mute")
    end = _text(p.x + p.width, _HEAD - 8, what, "mute end")
    return name + zero + end + _text(p.x + p.width + 6, 14, "in use", "mute")


def _band(p: _Panel, rows: _Rows) -> str:
    """The statements of the peak."""
    return "".join(_rect(p.x, rows.top(n), p.width + _USE, _ROW, "band") for n in p.space.peak_at)


def _frame(p: _Panel, rows: _Rows) -> str:
    """The memory from its first byte to the end of the picture, which is torn where there is more of it."""
    whole = p.domain >= p.space.capacity
    edge = p.at(p.space.capacity) if whole else p.x + p.width
    sides = f'<line x1="{p.x}" x2="{p.x}" y1="0" y2="{rows.height}" class="edge"/>'
    kind = "edge full" if whole else "edge torn"
    return sides + f'<line x1="{edge:.1f}" x2="{edge:.1f}" y1="0" y2="{rows.height}" class="{kind}"/>'


def _block(p: _Panel, b: Block, colour: int, rows: _Rows) -> str:
    """A tile; where another one takes its bytes over, each has its half of the row."""
    others = [o for o in p.space.blocks if o is not b and o.begin < b.end and b.begin < o.end]
    late = any(o.last == b.first and o.first < b.first for o in others)
    soon = any(o.first == b.last and o.last > b.last for o in others)
    top = rows.top(b.first) + (_ROW / 2 if late else 0)
    bottom = rows.top(b.last) + (_ROW / 2 if soon else _ROW)
    x, w, h = p.at(b.begin), p.at(b.end) - p.at(b.begin), max(bottom - top, 2.0)
    kind = f"tile c{colour}" + (" plain" if b.name.endswith("()") else "") + (" declared" if b.declared else "")
    return _rect(x + 0.5, top + 0.5, w - 1, h - 1, kind, f"<title>{escape(_said(p.space, b))}</title>") + _label(b, x, top, w, h)


def _label(b: Block, x: float, y: float, w: float, h: float) -> str:
    """The name where it fits, across or along, whole or shortened."""
    long = len(b.name) * _GLYPH + 6
    if w >= min(long, 5 * _GLYPH + 6) and h >= 14:
        room = int((w - 6) / _GLYPH)
        shown = b.name if len(b.name) <= room else b.name[: max(room - 1, 1)] + "…"
        return _text(x + 4, y + min(13.0, h / 2 + 4), shown, "label")
    if h >= min(long, 5 * _GLYPH + 6) and w >= 11:
        room = int((h - 6) / _GLYPH)
        shown = b.name if len(b.name) <= room else b.name[: max(room - 1, 1)] + "…"
        cx, cy = x + w / 2 + 3.5, y + h - 4
        return _text(cx, cy, shown, "label", f' transform="rotate(-90 {cx:.1f} {cy:.1f})"')
    return ""


def _said(s: SpaceMap, b: Block) -> str:
    """What is shown where the pointer rests on a tile."""
    said = [b.name + (" (declared)" if b.declared else ""), f"{words.tile(b)}, {words.amount(b.size)}"]
    said.append(f"bytes {b.begin} to {b.end} of {s.name}, in {b.allocation}")
    where = f", {words.lines(b)}" if b.line else ""
    said.append(f"made by {b.by}, needed in statements #{b.first} to #{b.last}{where}")
    if b.variable != b.name:
        said.append(f"in the program: {b.variable}")
    return "\n".join(said)


def _bars(p: _Panel, rows: _Rows) -> str:
    """Bytes in use at each statement, as a part of the peak."""
    out = []
    for s in rows.shown:
        used = p.space.occupied(s.ordinal)
        if used:
            kind = "use most" if used == p.space.peak else "use"
            title = f"<title>{words.amount(used)} in use at #{s.ordinal}</title>"
            out.append(
                _rect(p.x + p.width + 6, rows.top(s.ordinal) + 5, used / p.space.peak * (_USE - 8), _ROW - 10, kind, title)
            )
    return "".join(out)

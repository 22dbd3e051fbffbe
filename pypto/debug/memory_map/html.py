"""The memory map as one HTML page: inline SVG and CSS, no scripts, nothing fetched, light and dark.

In: a `MemoryMap`.  Out: the page's text; per kernel what limits it, the picture, and the table of its tiles.
Invariant: every text that comes from a program is escaped.
"""

from __future__ import annotations

from html import escape

from pypto.debug.memory_map import words
from pypto.debug.memory_map.model import Block, KernelMap, MemoryMap, SpaceMap
from pypto.debug.memory_map.style import SHEET
from pypto.debug.memory_map.svg import colours, draw

__all__ = ["render"]


def render(m: MemoryMap) -> str:
    """The page."""
    title = f"Memory map: {m.program}"
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{SHEET}</style></head><body>",
        f"<header><h1>{escape(title)}</h1>",
        f'<p class="mute">{escape(m.chip)}, planner {escape(m.planner)}. Time runs downwards, statement by statement; addresses '
        "run to the right. Greyish tiles are values without a name. Rest on a tile to read what it is.</p>",
        f"<p>{escape(words.addresses(m))}</p>" if words.addresses(m) else "",
        "</header>",
        *(_kernel(m, k) for k in m.kernels),
        "<header><p>No kernel runs on a core.</p></header>" if not m.kernels else "",
        "</body></html>\n",
    ]
    return "".join(parts)


def _kernel(m: MemoryMap, k: KernelMap) -> str:
    where = f' <span class="mute">{escape(words.source_of(k))}</span>' if words.source_of(k) else ""
    p = draw(k)
    cards = "".join(_card(m, k, s) for s in k.spaces)
    return (
        f'<section class="kernel"><h2>{escape(k.name)} <span class="mute">({k.stage} stage)</span>{where}</h2>'
        f'<p>{escape(words.headline(k))}</p><div class="cards">{cards}</div>'
        f'<div class="map"><div class="heads"><div>{p.listing_head}</div>{p.panels_head}</div>'
        f'<div class="body"><div>{p.listing}</div>{p.panels}</div></div>{_table(k)}</section>\n'
    )


def _card(m: MemoryMap, k: KernelMap, s: SpaceMap) -> str:
    """What limits one memory."""
    tight = s is k.tightest
    whole = max(s.capacity, s.extent, 1)
    extent, peak = (f'style="width:{100 * n / whole:.1f}%"' for n in (s.extent, s.peak))
    largest = ", ".join(f"{b.name} {words.amount(b.size)}" for b in s.limiting[:4])
    more = len(s.limiting) - 4
    live = f"{largest}{f' and {more} more' if more > 0 else ''}"
    return (
        f'<div class="card{" tight" if tight else ""}"><b>{escape(s.name)}</b>{"<i>tightest</i>" if tight else ""}'
        f'<div class="gauge"><s {extent}></s><u {peak}></u></div>'
        f"<p>{escape(words.summary(k, s))}: {escape(live)}.</p>"
        f'<p class="mute">{escape(words.room(m, s))}</p></div>'
    )


def _table(k: KernelMap) -> str:
    of = colours(k)
    rows = [_line(s, b, of[b]) for s in k.spaces for b in sorted(s.blocks, key=lambda b: (-b.size, b.first, b.begin))]
    if not rows:
        return ""
    names = ("memory", "tile", "type", "bytes", "address", "statements", "lines", "made by", "allocation")
    head = "".join(f"<th{' class=n' if n in ('bytes', 'address') else ''}>{n}</th>" for n in names)
    table = f"<table><tr>{head}</tr>{''.join(rows)}</table>"
    return f"<details><summary>All {len(rows)} tiles, the largest first</summary>{table}</details>"


def _line(s: SpaceMap, b: Block, colour: int) -> str:
    name = f'<span class="dot c{colour}"></span>{escape(b.name)}{" (declared)" if b.declared else ""}'
    alive = f"#{b.first} to #{b.last}"
    lines = words.lines(b).partition(" ")[2]
    cells = [escape(s.name), name, escape(words.tile(b)), b.size, b.begin, alive, lines, escape(b.by), escape(b.allocation)]
    return "<tr>" + "".join(f"<td{' class=n' if isinstance(c, int) else ''}>{c}</td>" for c in cells) + "</tr>"

"""The style sheet of the page: colours for light and dark, cards, the picture with heads and listing that stay in sight."""

from __future__ import annotations

__all__ = ["COLOURS", "SHEET"]

_HUES = (212, 28, 142, 285, 355, 188, 50, 250, 95, 322)  # degrees; neighbours differ
COLOURS = len(_HUES)  # classes c0, c1, ...

_RULES = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1c2430; --mute: #5f6b7b; --line: #c3cad4; --soft: #f2f4f7;
  --stripe: #f6f7f9; --warn: #c62f2f; --band: #ffe9a8; --use: #9aa5b4; --light: 74%; --sat: 62%; --label: #10161f }
@media (prefers-color-scheme: dark) { :root { --ground: #14181e; --ink: #dde3ea; --mute: #8b97a6; --line: #465160;
  --soft: #1d232b; --stripe: #191e25; --warn: #ff7b72; --band: #5a4a12; --use: #66717f; --light: 38%; --sat: 45%;
  --label: #f3f6fa } }
body { margin: 0; background: var(--ground); color: var(--ink); font: 14px/1.45 system-ui, sans-serif }
header, .kernel > h2, .kernel > p, .cards, details { margin-left: 24px; margin-right: 24px }
h1 { font-size: 19px; margin: 20px 0 2px }
h2 { font-size: 16px; margin: 30px 0 4px }
p { margin: 4px 0; max-width: 80em }
.mute { color: var(--mute); fill: var(--mute) }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin-top: 12px; margin-bottom: 14px }
.card { border: 1px solid var(--line); border-radius: 8px; padding: 9px 12px; width: 282px; background: var(--soft) }
.card.tight { border: 2px solid var(--warn); padding: 8px 11px }
.card b { font-size: 15px }
.card i { float: right; font-style: normal; color: var(--warn) }
.card p { font-size: 12.5px }
.gauge { height: 12px; border: 1px solid var(--line); border-radius: 3px; background: var(--ground); margin: 6px 0;
  position: relative; overflow: hidden }
.gauge s, .gauge u { position: absolute; left: 0; top: 0; bottom: 0 }
.gauge s { background: var(--use); opacity: .6 }
.gauge u { background: hsl(212 62% 50%) }
.tight .gauge u { background: var(--warn) }
.map { overflow: auto; max-height: 94vh; padding: 0 16px 8px 0; border: solid var(--line); border-width: 1px 0 }
.heads, .body { display: flex; width: max-content }
.heads { position: sticky; top: 0; background: var(--ground); border-bottom: 1px solid var(--line); z-index: 2 }
.heads > div, .body > div { position: sticky; left: 0; background: var(--ground); padding-left: 12px; z-index: 1;
  box-shadow: 1px 0 var(--line) }
svg { display: block; flex: none }
text { font: 11px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: var(--ink) }
text.mute { fill: var(--mute) }
text.end { text-anchor: end }
text.name { font: 600 14px system-ui, sans-serif }
text.label { font-size: 10.2px; fill: var(--label); pointer-events: none }
.stripe { fill: var(--stripe) }
.band { fill: var(--band) }
.edge { stroke: var(--line) }
.edge.full { stroke: var(--ink); stroke-width: 2 }
.edge.torn { stroke-dasharray: 3 3 }
.bracket { stroke: var(--line); stroke-width: 1.5 }
.use { fill: var(--use) }
.use.most { fill: var(--warn) }
.tile { stroke: var(--ground); stroke-width: .6; rx: 2px }
.tile.plain { filter: saturate(.4) }
.tile.declared { stroke: var(--ink); stroke-dasharray: 3 2 }
.tile:hover { stroke: var(--ink); stroke-width: 1.6 }
details { margin-top: 10px; margin-bottom: 20px }
summary { cursor: pointer; color: var(--mute) }
table { border-collapse: collapse; font-size: 12.5px; margin: 8px 0 }
td, th { padding: 2px 12px 2px 0; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap }
td.n, th.n { text-align: right }
.dot { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px }
"""

SHEET = _RULES + "".join(
    f".c{i} {{ fill: hsl({hue} var(--sat) var(--light)); background: hsl({hue} var(--sat) var(--light)) }}\n"
    for i, hue in enumerate(_HUES)
)

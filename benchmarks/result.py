"""A row of a table, measured; tables as text, and everything as JSON.

Ratios say how many times as long the kernel takes: 1.00 is as fast as the other, 2.00 twice as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.measure import Rounds

__all__ = ["Result", "as_json", "table"]


class Result(NamedTuple):
    """ours: the contender that is the row's subject; hand: those written in C by hand; peers: other tools, by contender.

    limit: the least seconds that the machine allows.  facts: what else is known of the row (stage, sharing, errors).
    per: divide times by it (operators of a kernel).
    """

    section: str
    name: str
    rounds: Rounds
    ours: str
    hand: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    limit: float | None = None
    facts: dict[str, Any] = {}  # noqa: RUF012  (never written)
    per: int = 1

    def best(self, names: Sequence[str]) -> str | None:
        return min(names, key=self.rounds.median, default=None)

    @property
    def median(self) -> float:
        return self.rounds.median(self.ours) / self.per

    @property
    def least(self) -> float:
        return self.rounds.least(self.ours) / self.per


def duration(seconds: float) -> str:
    for unit, scale in (("s ", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


HEAD = ("", "median", "least", "x best peer", "x C by hand", "x machine", "stage", "shared", "rounds")


def table(section: str, results: Sequence[Result]) -> str:
    """One section; a row that was measured on a disturbed machine is marked ~."""
    lines = [HEAD, *(_cells(r) for r in results)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    rows = [
        "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    ]
    return "\n".join([f"== {section} ==", *(r.rstrip() for r in rows), ""])


def _cells(r: Result) -> tuple[str, ...]:
    peer, hand = r.best(r.peers), r.best(r.hand)
    return (
        r.name,
        ("~" if r.rounds.is_disturbed else "") + duration(r.median),
        duration(r.least),
        f"{r.rounds.ratio(r.ours, peer):.2f} {peer}" if peer else "-",
        f"{r.rounds.ratio(r.ours, hand):.2f}" if hand else "-",
        f"{r.median * r.per / r.limit:.2f}" if r.limit else "-",
        str(r.facts.get("stage", "-")),
        str(r.facts.get("sharing", "-")),
        f"{r.rounds.kept}" + (f"-{r.rounds.discarded}" if r.rounds.discarded else ""),
    )


def as_json(r: Result) -> dict[str, Any]:
    """Medians, minima and paired ratios of all contenders, in seconds."""
    contenders = {
        name: {"median": r.rounds.median(name), "least": r.rounds.least(name), "ours_over_it": r.rounds.ratio(r.ours, name)}
        for name in r.rounds.times
    }
    return {
        "section": r.section,
        "name": r.name,
        "ours": r.ours,
        "per": r.per,
        "contenders": contenders,
        "hand": list(r.hand),
        "peers": list(r.peers),
        "limit": r.limit,
        "rounds": {"kept": r.rounds.kept, "discarded": r.rounds.discarded, "disturbed": r.rounds.is_disturbed},
        "facts": r.facts,
    }

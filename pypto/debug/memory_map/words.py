"""The sentences of the memory map, and the scale of its pictures: one place for the terminal and for the page."""

from __future__ import annotations

import os

from pypto.debug.memory_map.model import Block, KernelMap, MemoryMap, SpaceMap, Statement

__all__ = ["addresses", "amount", "headline", "lines", "percent", "place", "room", "scale", "subject", "summary", "tile"]


def amount(n: int) -> str:
    """Bytes for people: 96 KiB, 16.5 KiB, 128 B."""
    if n < 1024:
        return f"{n} B"
    return f"{n / 1024:.1f}".removesuffix(".0") + " KiB"


def percent(part: int, whole: int) -> str:
    """A part of the whole, never rounded to all or nothing."""
    if not whole:
        return "?"
    p = 100 * part / whole
    if 0 < p < 1:
        return "<1%"
    return f"{min(round(p), 99) if part < whole else round(p)}%"


def subject(m: MemoryMap, k: KernelMap) -> str:
    """Which kernel this is: name, stage, chip, planner."""
    return f"{k.name}: {k.stage} stage, {m.chip}, planner {m.planner}"


def addresses(m: MemoryMap) -> str:
    """What there is to say about whose addresses these are."""
    if m.addresses == "planner":
        return ""
    return (
        f"Planner {m.planner} leaves addresses to the assembler. Here each allocation has its own bytes, one behind the "
        "other, as native code of this host places them."
    )


def headline(k: KernelMap) -> str:
    """Which memory decides how large the kernel's tiles can be."""
    s = k.tightest
    if s is None:
        return "No on-chip memory is used."
    if not s.used:
        return f"{s.name} holds nothing."
    times = s.capacity / s.used
    if times < 1:
        return f"{s.name} is too small: {amount(s.used)} are used of {amount(s.capacity)}."
    lead = f"{s.name} is the tightest memory: {percent(s.used, s.capacity)} of it is used"
    if times < 1.05:
        return f"{lead}; its tiles cannot become larger."
    return f"{lead}; its tiles could become {times:.1f} times as large."


def place(k: KernelMap, s: SpaceMap) -> str:
    """Where the peak is: line 14, #7 row_max (and 2 more)."""
    if not s.peak_at:
        return "nowhere"
    first = k.statements[s.peak_at[0]]
    where = f"line {first.line}, " if first.line else ""
    more = f" and at {len(s.peak_at) - 1} more" if len(s.peak_at) > 1 else ""
    return f"{where}#{first.ordinal} {first.what}{more}"


def summary(k: KernelMap, s: SpaceMap) -> str:
    """The peak in one line."""
    count = len(s.limiting)
    share = percent(s.peak, s.capacity)
    return f"{amount(s.peak)} of {amount(s.capacity)} ({share}) at {place(k, s)}; {count} tile{'' if count == 1 else 's'} live"


def room(m: MemoryMap, s: SpaceMap) -> str:
    """What would still fit, and what is lost between tiles."""
    if s.peak > s.capacity:
        return f"{amount(s.peak - s.capacity)} too much."
    if m.addresses == "host":
        return f"{amount(s.free)} free at the peak; which bytes they are, the assembler decides."
    there = "nothing is free there" if not s.hole else f"a tile of {amount(s.hole)} would still fit there"
    throughout = f", of {amount(s.unused)} anywhere" if s.unused != s.hole else ""
    lost = f"; of the {amount(s.extent)} below the highest address {amount(s.extent - s.peak)} hold nothing at the peak"
    return there[0].upper() + there[1:] + throughout + (lost if s.extent > s.peak else "") + "."


def tile(b: Block) -> str:
    """FP32 [32, 64]."""
    return f"{b.dtype} [{', '.join(map(str, b.shape))}]"


def lines(b: Block) -> str:
    """Lines a block lives through, as far as they are known."""
    if not b.line:
        return ""
    return f"line {b.line}" if b.line == b.last_line else f"lines {b.line}-{b.last_line}"


def scale(s: SpaceMap) -> tuple[int, str]:
    """How many bytes a picture is wide, and what that is: the whole memory, or the half, quarter, ... that is in use."""
    if s.extent > s.capacity:
        return s.extent, f"{amount(s.extent)}, more than all of {s.name} ({amount(s.capacity)})"
    parts = 1
    while s.capacity % (2 * parts) == 0 and s.extent <= s.capacity // (2 * parts):
        parts *= 2
    wide = s.capacity // parts
    return wide, f"{amount(wide)}, " + (f"all of {s.name}" if parts == 1 else f"1/{parts} of {s.name}")


def source_of(k: KernelMap) -> str:
    """The kernel's file and line."""
    return f"{os.path.basename(k.file)}:{k.line}" if k.file and k.line else ""


def number(s: Statement) -> str:
    """The line, with its file where the statement comes from another one than the kernel."""
    return str(s.line) if s.line else ""

"""Tiles at random addresses, over one another as no planner would place them: fusion must not trust placement.

Native code with optimizations, without, and the interpreter agree to the bit on every kernel.  Bytes are read only after
they were written; an operation's result is its operand's exact place or apart from it, since anything else has no meaning.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from codegen_kit import agree, np

ROWS, COLS, MEMORY = 8, 16, 3072
KERNELS = 8  # statements of several kernels in one unit: a build costs more than they do


class Kernel:
    """Writes statements; `ready` are the bytes that hold something."""

    def __init__(self, seed: int, prefix: str, row: int) -> None:
        self.r, self.prefix, self.row = random.Random(seed), prefix, row
        self.lines: list[str] = []
        self.ready = bytearray(MEMORY)
        self.tiles: list[tuple[str, int, int, int, int, str]] = []  # name, address, rows, cols, valid rows, its text
        self.count = 0
        self.scratch = f"{prefix}s"
        self.events: list[tuple[list[tuple[int, int]], int, bytes]] = []  # bytes read, then what is written where

    def address(self, size: int) -> int:
        return self.r.randrange(0, (MEMORY - size) // 32 + 1) * 32

    def readable(self, rows: int, cols: int) -> list[tuple[str, int, int, int, int, str]]:
        """Tiles of that shape whose valid bytes still hold what something wrote, whoever wrote it."""
        found = []
        for t in self.tiles:
            if t[2:4] == (rows, cols) and all(self.ready[t[1] : t[1] + 4 * t[4] * cols]):
                found.append(t)
        return found

    def apart(self, address: int, size: int, others: list[tuple[str, int, int, int, int, str]], same: bool) -> bool:
        for t in others:
            end = t[1] + 4 * t[2] * t[3]
            if not (address + size <= t[1] or end <= address or (same and address == t[1] and size == end - t[1])):
                return False
        return True

    def emit(
        self, rows: int, cols: int, valid: str, text: str, reads: list[tuple[str, int, int, int, int, str]], same: bool
    ) -> None:
        size = 4 * rows * cols
        for _ in range(20):
            address = self.address(size)
            if self.apart(address, size, reads, same):
                break
        else:
            return
        name = f"{self.prefix}{self.count}"
        self.count += 1
        view = "" if valid == str(rows) else f"valid [{valid}, {cols}] "
        self.lines.append(f"{name}: [{rows}, {cols}] {view}@ {address} = {text}")
        n = 5 if valid == "n" else int(valid)
        # What lies outside the valid rectangle of a result is undefined, whatever was there before.
        marks = b"\1" * (4 * n * cols) + bytes(4 * (rows - n) * cols)
        self.ready[address : address + size] = marks
        self.events.append(([(t[1], 4 * t[4] * t[3]) for t in reads], address, marks))
        self.tiles.append((name, address, rows, cols, n, valid))

    def load(self) -> None:
        valid = self.r.choice(["8", "8", "n", "3"])
        row = self.r.randrange(0, 48)
        source = self.r.choice("ab")
        text = f"pl.tile.load({source}, [{row}, {self.r.choice([0, 16, 48])}], [8, 16], [{valid}, 16], target_memory=pl.Mem.Vec)"
        self.emit(ROWS, COLS, valid, text, [], True)

    def step(self) -> None:
        whole = self.readable(ROWS, COLS)
        if not whole or self.r.random() < 0.2:
            self.load()
            return
        x = self.r.choice(whole)
        same_valid = [t for t in whole if t[5] == x[5]]
        y = self.r.choice(same_valid)
        columns = [t for t in self.readable(ROWS, 1) if t[5] == x[5]]
        rows = self.readable(1, COLS)
        kind = self.r.choice(["binary", "scalar", "move", "row", "col", "row_expand", "col_expand", "column", "store", "scalar"])
        if kind == "binary":
            op = self.r.choice(["add", "sub", "maximum"])
            self.emit(ROWS, COLS, x[5], f"pl.tile.{op}({x[0]}, {y[0]})", [x, y], True)
        elif kind == "scalar":
            op = self.r.choice(["adds", "muls", "maximums"])
            self.emit(ROWS, COLS, x[5], f"pl.tile.{op}({x[0]}, {float(self.r.randint(-3, 3))})", [x], True)
        elif kind == "move":
            self.emit(ROWS, COLS, x[5], f"pl.tile.move({x[0]}, target_memory=pl.Mem.Vec)", [x], True)
        elif kind == "row":
            self.emit(ROWS, 1, x[5], f"pl.tile.{self.r.choice(['row_sum', 'row_max'])}({x[0]}, {self.scratch})", [x], False)
        elif kind == "col":
            reductions = [f"pl.tile.col_sum({x[0]}, {self.scratch})", f"pl.tile.col_max({x[0]})"]
            self.emit(1, COLS, "1", self.r.choice(reductions), [x], False)
        elif kind == "row_expand" and columns:
            c = self.r.choice(columns)
            self.emit(ROWS, COLS, x[5], f"pl.tile.row_expand_sub({x[0]}, {c[0]})", [x, c], self.r.random() < 0.5)
        elif kind == "col_expand" and rows:
            c = self.r.choice(rows)
            self.emit(ROWS, COLS, x[5], f"pl.tile.col_expand_add({x[0]}, {c[0]})", [x, c], False)
        elif kind == "column" and columns:
            c = self.r.choice(columns)
            self.emit(ROWS, 1, c[5], f"pl.tile.muls({c[0]}, 0.5)", [c], True)
        elif kind == "store":
            self.lines.append(f"pl.tile.store({x[0]}, [{self.row}, {self.r.choice([0, 16, 32, 48])}], o)")
            self.events.append(([(x[1], 4 * x[4] * x[3])], 0, b""))

    def repeatable(self) -> bool:
        """Whether a second trip through all statements still reads only bytes that were written."""
        ready = bytearray(self.ready)
        for reads, address, marks in self.events:
            if not all(all(ready[at : at + n]) for at, n in reads):
                return False
            ready[address : address + len(marks)] = marks
        return True

    def text(self, steps: int) -> str:
        made = "pl.tile.create([8, 16], dtype=pl.FP32, target_memory=pl.Mem.Vec)"
        self.lines.append(f"{self.prefix}s: [8, 16] @ {MEMORY} = {made}")
        for _ in range(steps):
            self.step()
        if self.r.random() < 0.3:  # a loop that carries memory from trip to trip
            inner = Kernel(self.r.randrange(1 << 30), f"{self.prefix}i", self.row)
            inner.ready, inner.tiles, inner.scratch = bytearray(self.ready), list(self.tiles), self.scratch
            for _ in range(6):
                inner.step()
            if inner.lines and inner.repeatable():
                self.lines += [f"for {self.prefix}k in pl.range(0, n, 1):", *("    " + line for line in inner.lines)]
                self.ready = inner.ready
        whole = self.readable(ROWS, COLS)
        for column, t in zip((0, 16, 32, 48), self.r.sample(whole, min(4, len(whole))), strict=False):
            self.lines.append(f"pl.tile.store({t[0]}, [{self.row}, {column}], o)")
        return "\n".join(self.lines) + "\n"


@pytest.mark.parametrize("seed", [*range(10), 53, 78])
def test_random_placement(seed: int, tmp_path: Path) -> None:
    body = "".join(Kernel(100 * seed + k, f"t{k}_", 8 * k).text(6 + 3 * k) for k in range(KERNELS))
    got = agree(body, tmp_path, n=5)
    assert not np.array_equal(got, np.full_like(got, -777))

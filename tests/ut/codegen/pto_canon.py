"""What `.pto` text says, whatever it calls things: for comparing one text with another.

In: a parsed function.  Out: lines.  Constants and scalar expressions stand where they are used; handles and carries are
numbered as the body first names them; tiles are listed behind the body.  Allocations at one address under one type are
one tile, a `?` with a constant behind it is that constant, a window of all of a tile is the tile, and the bound that keeps an
offset from being negative is left out.
"""

from __future__ import annotations

import re

from pto_syntax import Func, Op, Region
from pto_types import Tile, partition_of, tile_of

__all__ = ["canonical"]

_SIGNS = {"arith.addi": "+", "arith.subi": "-", "arith.muli": "*", "arith.divsi": "/", "arith.remsi": "%"}


def canonical(f: Func) -> list[str]:
    """A function's lines."""
    writer = _Writer(f)
    writer.region(f.body, 0)
    return [*writer.lines, *writer.storage()]


class _Writer:
    def __init__(self, f: Func) -> None:
        self.lines: list[str] = []
        self.words = {name: name.lstrip("%") for name, _ in f.arguments}  # what stands for a value
        self.tiles: dict[str, tuple[Tile, str]] = {}  # handles: type and address
        self.numbers: dict[tuple[Tile, str], str] = {}
        self.changing = _changing(f.body)
        self.said: dict[str, tuple[str, str]] = {}
        self.carries = 0

    def storage(self) -> list[str]:
        return [f"{n}: {_type(t)}{f' @{at}' if at.isdecimal() else ''}" for (t, at), n in self.numbers.items()]

    def name(self, v: str) -> str:
        """A value; a tile gets its number where it is first named."""
        if v in self.tiles:
            key = self.tiles[v]
            return self.numbers.setdefault(key, f"t{len(self.numbers)}")
        return self.words[v]

    def write(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def region(self, region: Region, depth: int) -> None:
        for op in region.ops:
            self.operation(op, depth)

    def operation(self, op: Op, depth: int) -> None:
        family, _, name = op.name.partition(".")
        if op.name == "arith.constant":
            self.words[op.results[0]] = op.attrs["value"]
        elif family in ("arith", "math", "builtin"):
            self.words[op.results[0]] = self.expression(op)
        elif family == "scf":
            getattr(self, f"{name}_")(op, depth)
        elif op.name == "pto.alloc_tile":
            self.allocation(op)
        elif op.name == "pto.set_validshape":
            handle, *extents = op.operands
            self.said[handle] = (self.name(extents[0]), self.name(extents[1]))
            self.write(depth, f"valid {self.name(handle)} = {', '.join(self.said[handle])}")
        elif op.name == "pto.subview":
            self.window(op)
        elif op.name == "pto.make_tensor_view":
            words = (", ".join(map(self.name, op.groups[k])) for k in ("shape", "strides"))
            self.words[op.results[0]] = f"{self.name(op.operands[0])}<{op.attrs['layout']} [{']['.join(words)}]>"
        elif op.name == "pto.partition_view":
            part = zip(op.groups["offsets"], op.groups["sizes"], strict=True)
            extents = ", ".join(f"{_unclamped(self.name(o))}+{self.name(n)}" for o, n in part)
            assert partition_of(op.result_types[0]) is not None
            self.words[op.results[0]] = f"{self.name(op.operands[0])}[{extents}]"
        elif op.name == "pto.treshape":
            t = tile_of(op.result_types[0])
            assert t is not None
            self.words[op.results[0]] = f"({self.name(op.operands[0])} as {_type(t)})"
        else:
            self.instruction(op, depth)

    def instruction(self, op: Op, depth: int) -> None:
        attrs = "".join(f" {k}={v}" for k, v in sorted(op.attrs.items()))
        read = ", ".join(map(self.name, op.operands))
        if op.results:
            self.words[op.results[0]] = f"{op.name[4:]}({read})"
            return
        self.write(depth, f"{op.name[4:]} {read} -> {', '.join(map(self.name, op.outs))}{attrs}")

    def expression(self, op: Op) -> str:
        values = [self.name(v) for v in op.operands]
        if op.name in _SIGNS:
            return f"({values[0]} {_SIGNS[op.name]} {values[1]})"
        if op.name == "arith.index_cast":
            return values[0]
        return f"{op.attrs.get('predicate') or op.name.partition('.')[2]}({', '.join(values)})"

    # -- storage --

    def allocation(self, op: Op) -> None:
        t, name = tile_of(op.result_types[0]), op.results[0]
        assert t is not None
        given = {k: self.name(v[0]) for k, v in op.groups.items()}
        extents = [given.get("valid_row", str(t.v_row)), given.get("valid_col", str(t.v_col))]
        self.said[name] = (extents[0], extents[1])
        if name not in self.changing and all(e.isdecimal() for e in extents):
            t = t._replace(v_row=int(extents[0]), v_col=int(extents[1]))
        self.tiles[name] = (t, given.get("addr", name))

    def window(self, op: Op) -> None:
        t, source = tile_of(op.result_types[0]), op.operands[0]
        assert t is not None
        at = [self.name(v) for v in op.groups["offsets"]]
        valid = [self.name(v) for v in op.groups["valid"]] or [str(n) for n in t.valid]
        if source in self.tiles:
            parent = self.tiles[source][0]
            if at == ["0", "0"] and t.shape == parent.shape and tuple(valid) == self.said[source]:
                self.tiles[op.results[0]], self.said[op.results[0]] = self.tiles[source], self.said[source]
                return
        sizes = op.attrs["sizes"].split(", ")
        places = ", ".join(f"{o}+{n}" for o, n in zip(at, sizes, strict=True))
        part = "" if valid == sizes else f" valid {', '.join(valid)}"
        self.words[op.results[0]] = f"{self.name(source)}[{places}]{part}"

    # -- control flow --

    def carried(self, names: list[str]) -> list[str]:
        made = []
        for n in names:
            self.words[n] = f"c{self.carries}"
            self.carries += 1
            made.append(self.words[n])
        return made

    def if_(self, op: Op, depth: int) -> None:
        condition = self.name(op.operands[0])
        results = self.carried(op.results)
        self.write(depth, f"{', '.join(results)}{' = ' if results else ''}if {condition}")
        self.region(op.regions[0], depth + 1)
        if len(op.regions) > 1:
            self.write(depth, "else")
            self.region(op.regions[1], depth + 1)

    def for_(self, op: Op, depth: int) -> None:
        low, high, step, *initial = map(self.name, op.operands)
        counter, *inner = self.carried([n for n, _ in op.regions[0].arguments])
        results = self.carried(op.results)
        head = f"{', '.join(results)}{' = ' if results else ''}for {counter} in {low}, {high}, {step}"
        self.write(depth, head + "".join(f"; {a} = {b}" for a, b in zip(inner, initial, strict=True)))
        self.region(op.regions[0], depth + 1)

    def while_(self, op: Op, depth: int) -> None:
        initial = list(map(self.name, op.operands))
        before = self.carried([n for n, _ in op.regions[0].arguments])
        results = self.carried(op.results)
        head = "; ".join(f"{a} = {b}" for a, b in zip(before, initial, strict=True))
        self.write(depth, f"{', '.join(results)}{' = ' if results else ''}while {head}")
        self.region(op.regions[0], depth + 1)
        self.write(depth, f"do {', '.join(self.carried([n for n, _ in op.regions[1].arguments]))}")
        self.region(op.regions[1], depth + 1)

    def condition_(self, op: Op, depth: int) -> None:
        self.write(depth, f"on {', '.join(map(self.name, op.operands))}")

    def yield_(self, op: Op, depth: int) -> None:
        if op.operands:
            self.write(depth, f"yield {', '.join(map(self.name, op.operands))}")


def _unclamped(offset: str) -> str:
    """An offset that is kept from being negative is itself, wherever it is not."""
    m = re.fullmatch(r"maxsi\((.*), 0\)", offset)
    return m[1] if m is not None else offset


def _changing(region: Region) -> set[str]:
    """Handles whose valid extents are set anywhere."""
    found: set[str] = set()
    for op in region.ops:
        if op.name == "pto.set_validshape":
            found.add(op.operands[0])
        for r in op.regions:
            found |= _changing(r)
    return found


def _type(t: Tile) -> str:
    valid = "" if t.valid == t.shape else f" valid {'?' if t.v_row is None else t.v_row}x{'?' if t.v_col is None else t.v_col}"
    layout = f"{t.blayout[:3]}/{t.slayout[:3]}/{t.fractal}"
    extra = f" pad={t.pad}" * (t.pad > 0) + f" compact={t.compact}" * (t.compact > 0)
    return f"{t.loc} {t.dtype} {t.rows}x{t.cols}{valid} {layout}{extra}"

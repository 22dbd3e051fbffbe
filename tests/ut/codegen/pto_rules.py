"""Judges the instructions of `.pto` text: operands, element types, extents, memories, places, units.

In: one instruction at a time, and what is known of the values it names.  Out: nothing, or PtoError.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable

from pto_places import Place
from pto_syntax import Func, Op, PtoError
from pto_tables import ALLOWED, ATTRIBUTES, CONVERSIONS, ELEMENTS, FORMS, IN_PLACE, MOVES, REQUIRED
from pto_types import SCALARS, Tile, partition_of, tile_of

__all__ = ["Rules"]

Extent = Hashable  # a constant, what a value is computed from, or None where that is not known
_SUMS = {"f16": "f32", "bf16": "f32", "f32": "f32", "i8": "i32"}
_DRAINS = {"f32": ("f32", "f16", "bf16"), "i32": ("i32",)}


class Rules:
    """What is known of a function's values, and the judgement of instructions."""

    def __init__(self, f: Func, arch: str) -> None:
        self.f, self.arch = f, arch
        self.types: dict[str, str] = {}  # of values in scope
        self.constants: dict[str, int] = {}
        self.keys: dict[str, Hashable] = {}  # what a value is computed from: equal keys, equal values
        self.positive: dict[str, frozenset[Hashable]] = {}  # what is positive where a condition holds
        self.facts: frozenset[Hashable] = frozenset()  # what is positive here
        self.extents: dict[str, tuple[Extent, Extent]] = {}  # of handles
        self.places: dict[str, Place] = {}
        self.shapes: dict[str, list[int | None]] = {}  # of views of tensors
        self.views: set[str] = set()  # handles that are windows
        self.relabels: set[str] = set()  # handles that are relabels of bytes
        self.used: dict[str, Op] = {}  # units, by the first instruction

    def fail(self, op: Op, what: str) -> PtoError:
        return PtoError(f"{self.f.name}, line {op.line}: {op.name}: {what}")

    def need(self, op: Op, holds: bool, what: str) -> None:
        if not holds:
            raise self.fail(op, what)

    def value(self, name: str) -> int | None:
        return self.constants.get(name)

    def tile_type(self, op: Op, text: str) -> Tile:
        t = tile_of(text)
        if t is None:
            raise self.fail(op, f"{text} is no tile")
        return t

    # -- all instructions --

    def instruction(self, op: Op) -> None:
        name = op.name.removeprefix("pto.")
        self.need(op, name in FORMS, "unknown instruction")
        self.attributes(op, name)
        out = tile_of(op.out_types[0])
        form = next((f for f in FORMS[name] if len(f) == len(op.operands)), None)
        if form is None:
            raise self.fail(op, f"{len(op.operands)} operands")
        tiles = [t for t in map(tile_of, op.types) if t is not None]
        for letter, text in zip(form, op.types, strict=True):
            self.operand(op, letter, text, tiles[0] if tiles else out, out)
        first = tiles[0] if tiles and not name.startswith("tsel") else out
        if first is not None and name in ELEMENTS:
            self.need(op, first.dtype in ELEMENTS[name][self.arch == "a5"], f"{first.dtype} elements on {self.arch}")
        if name not in ("tmov", "tfillpad", "tsetval", "tstore"):
            scratch = {v for letter, v in zip(form, op.operands, strict=True) if letter == "X"}
            self.need(op, not scratch & set(op.outs), "the scratch is the destination")
        for v in (*op.operands, *op.outs):
            if v in self.places:
                self.filled(op, v)
        for v in (v for letter, v in zip(form, op.operands, strict=True) if letter == "T"):
            self.alike(op, v, op.outs[0])
        for letter, text in zip(form, op.types, strict=True):
            if letter == "X" and out is not None:
                self.scratch(op, name, self.tile_type(op, text), tiles[0], out)
        self.apart(op, name, form)
        self.unit(op, name, first, out)
        self.special(op, name, tiles, out)

    def attributes(self, op: Op, name: str) -> None:
        for key, text in op.attrs.items():
            known = key in ALLOWED.get(name, ()) and re.fullmatch(ATTRIBUTES[key], text) is not None
            self.need(op, known, f"attribute {key} = {text}")
        wanted = REQUIRED.get((name, len(op.operands)))
        self.need(op, wanted is None or wanted in op.attrs, f"the attribute {wanted} is missing")
        if "precisionType" in op.attrs:
            self.need(op, f"<{name.removeprefix('t')}_precision" in op.attrs["precisionType"], "the precision of another")
        more = 2 if name == "tmrgsort" and "exhausted" in op.attrs else 1
        self.need(op, len(op.outs) == more, f"{len(op.outs)} destinations")

    def operand(self, op: Op, letter: str, text: str, first: Tile | None, out: Tile | None) -> None:
        t = tile_of(text)
        if letter in "TVX!":
            self.need(op, t is not None, f"operand of type {text}")
        if letter in "TV" and t is not None and out is not None:
            self.need(op, t.dtype == out.dtype, "operands and destination hold different elements")
        if letter == "T" and t is not None and out is not None:
            same = all(v == w or None in (v, w) for v, w in zip(t.valid, out.valid, strict=True))
            self.need(op, same, "operands and destination must have the same valid_shape")
            self.need(op, t.blayout == out.blayout == "row_major", "operands to use row-major layout")
        wanted = {"F": "f32", "I": "i32", "N": "index"}.get(letter)
        if letter == "S":
            of = first if op.name == "pto.tcmps" else out
            wanted = of.dtype if of is not None else None
            self.need(op, text in SCALARS and not text.startswith("ui"), f"scalar of type {text}")
        if letter == "E" and out is not None:
            wanted = out.dtype
        self.need(op, wanted is None or text == wanted, f"operand of type {text}, not {wanted}")
        self.need(op, letter != "P" or partition_of(text) is not None, f"operand of type {text}")

    def filled(self, op: Op, handle: str) -> None:
        """A handle of which something is valid, as far as that can be known."""
        for e in self.extents[handle]:
            holds = e is None or (e > 0 if isinstance(e, int) else self.more_than_nothing(e))
            self.need(op, holds, f"{handle} may be empty here")

    def more_than_nothing(self, key: Hashable) -> bool:
        """Whether what is computed so is positive here: it is known to be, or comes from what is."""
        if key in self.facts or not isinstance(key, tuple):
            return key in self.facts
        if len(key) == 2:
            return key[1] == "index" and int(key[0]) > 0
        name, _, *sides = key
        if name in ("arith.minsi", "arith.maxsi"):
            return (all if name == "arith.minsi" else any)(self.more_than_nothing(s) for s in sides)
        return name == "arith.subi" and ("less", sides[1], sides[0]) in self.facts

    def apart(self, op: Op, name: str, form: str) -> None:
        """No operand shares bytes with the destination, unless the instruction may work in place and they are one."""
        written = [(v, "out") for v in op.outs if v in self.places]
        written += [(v, "scratch") for v, letter in zip(op.operands, form, strict=True) if letter == "X"]
        for v, what in written:
            for i, other in enumerate(op.operands):
                if (
                    other not in self.places
                    or (other == v and what == "scratch")
                    or not self.places[v].overlaps(self.places[other])
                ):
                    continue
                in_place = what == "out" and i in IN_PLACE.get(name, ())
                mine, its = self.places[v], self.places[other]
                self.need(op, in_place and (mine.same(its) or self.trails(name, mine, its)), f"{other} overlaps {v}")

    @staticmethod
    def trails(name: str, mine: Place, its: Place) -> bool:
        """Whether a result of smaller elements begins where its operand does: it stays behind what is still to be read."""
        begins = mine.root == its.root and mine.base == its.base and not its.moving
        return name == "tcvt" and begins and mine.unit < its.unit

    # -- units --

    def unit(self, op: Op, name: str, first: Tile | None, out: Tile | None) -> None:
        places = {t.loc for t in (first, out) if t is not None}
        if "vec" in places:
            self.used.setdefault("vector", op)
        if places - {"vec"}:
            self.used.setdefault("cube", op)

    def units(self) -> None:
        """A function runs on one unit, the one that it says."""
        if len(self.used) > 1:
            vector, cube = self.used["vector"], self.used["cube"]
            raise self.fail(max(vector, cube, key=lambda o: o.line), "a function of both units")
        if self.f.kind and self.used and self.f.kind not in self.used:
            raise PtoError(f"{self.f.name}: kind {self.f.kind}, but instructions of the other unit")

    # -- single instructions --

    def special(self, op: Op, name: str, tiles: list[Tile], out: Tile | None) -> None:
        if name in ("tload", "tstore"):
            self.transfer(op, name, out if name == "tload" else tiles[0])
        elif name in ("mgather", "mscatter"):
            window = partition_of(op.types[0] if name == "mgather" else op.out_types[0])
            self.need(op, window is not None, "no part of a tensor")
        elif out is not None:
            self.between_tiles(op, name, tiles, out)

    def between_tiles(self, op: Op, name: str, tiles: list[Tile], out: Tile) -> None:
        if name in ("tmov", "textract", "tinsert"):
            self.move(op, name, tiles[0], out)
            return
        if name.startswith(("tmatmul", "tgemv")):
            self.matmul(op, name, out)
            return
        self.need(op, all(t.loc == "vec" for t in (*tiles, out)), "operands of the vector unit lie in vec")
        if name == "tcvt":
            pairs = CONVERSIONS[self.arch].get(tiles[0].dtype, "").split()
            self.need(op, out.dtype in pairs, f"no conversion of {tiles[0].dtype} to {out.dtype}")
            self.alike(op, op.operands[0], op.outs[0])
        elif name in ("tcmp", "tcmps"):
            self.mask(op, out, op.outs[0], op.operands[0])
            if name == "tcmp":
                self.need(op, tiles[0].dtype == tiles[1].dtype, "operands hold different elements")
                self.alike(op, op.operands[0], op.operands[1])
        elif name in ("tsel", "tsels"):
            self.mask(op, tiles[0], op.operands[0], op.outs[0])
        elif name.startswith("trow") and "expand" not in name:
            self.equal(op, "rows", self.extents[op.operands[0]][0], self.extents[op.outs[0]][0])
            self.equal(op, "columns of a reduction of rows", self.extents[op.outs[0]][1], 1)
            self.need(op, out.blayout == "col_major" or out.cols * out.size == 32, "a column, or rows of one block")
        elif name.startswith("tcol") and "expand" not in name:
            self.equal(op, "columns", self.extents[op.operands[0]][1], self.extents[op.outs[0]][1])
            self.equal(op, "rows of a reduction of columns", self.extents[op.outs[0]][0], 1)
        elif "expand" in name and name != "texpands":
            self.expansion(op, name, tiles[name not in ("trowexpand", "tcolexpand")], out)
        elif name == "tfillpad":
            self.need(op, out.pad != 0, "expects dst PadVal != Null for tfillpad")
            self.need(op, out.rows >= tiles[0].rows and out.cols >= tiles[0].cols, "the destination is smaller")
        elif name == "ttrans":
            self.alike(op, op.operands[0], op.outs[0], turned=True)

    def alike(self, op: Op, one: str, other: str, turned: bool = False) -> None:
        """Two handles that are valid in the same rectangle."""
        theirs = self.extents[other][::-1] if turned else self.extents[other]
        for mine, its in zip(self.extents[one], theirs, strict=True):
            self.equal(op, "operands and destination must have the same valid_shape", mine, its)

    def equal(self, op: Op, what: str, a: Extent, b: Extent) -> None:
        """Extents that have to be one; unknown ones may be."""
        self.need(op, a == b or not (isinstance(a, int) and isinstance(b, int)), f"{what}: {a} and {b}")

    def scratch(self, op: Op, name: str, tmp: Tile, first: Tile, out: Tile) -> None:
        """The scratch of an instruction, where the text says what it is."""
        same = tmp.dtype == out.dtype
        if name in ("trem", "txor", "trems", "txors", "ttrans") or (name == "tsels" and self.arch == "a2a3"):
            self.need(op, same, f"a scratch of {tmp.dtype}")
        elif name == "tsel" and self.arch == "a2a3":
            self.need(
                op, tmp.size == 4 and tmp.bytes >= (16 if out.size == 2 else 8), f"a scratch of {tmp.bytes} bytes of {tmp.dtype}"
            )
        elif name == "tprelu" and self.arch == "a2a3":
            rows = out.rows if out.v_row is None else out.v_row
            self.need(op, tmp.dtype == "ui8" and tmp.rows > rows, f"a scratch of {tmp.rows} rows of {tmp.dtype}")
        elif name.startswith("trow"):
            self.need(op, tmp.dtype == first.dtype and tmp.bytes >= 32, f"a scratch of {tmp.bytes} bytes of {tmp.dtype}")
        elif name == "tgather":
            self.need(op, tmp.dtype == "i32", f"a scratch of {tmp.dtype}")

    def mask(self, op: Op, mask: Tile, bits: str, data: str) -> None:
        """One bit for each element of the data."""
        self.need(op, mask.dtype in ("i8", "ui8"), f"a mask of {mask.dtype}")
        (rows, packed), (want, cols) = self.extents[bits], self.extents[data]
        self.equal(op, "rows of mask and data", rows, want)
        self.equal(op, "columns of a mask", packed, (cols + 7) // 8 if isinstance(cols, int) else None)

    def expansion(self, op: Op, name: str, v: Tile, out: Tile) -> None:
        vector = op.operands[0 if name in ("trowexpand", "tcolexpand") else 1]
        if name.startswith("trow"):
            block = v.blayout == "row_major" and v.cols * v.size == 32
            self.need(op, block or (v.blayout == "col_major" and v.cols == 1), "a vector of one value per row")
            self.equal(op, "rows", self.extents[vector][0], self.extents[op.outs[0]][0])
            return
        self.equal(op, "columns", self.extents[vector][1], self.extents[op.outs[0]][1])
        self.need(op, vector not in self.views, "the vector is a window")

    def transfer(self, op: Op, name: str, t: Tile | None) -> None:
        window = partition_of(op.types[0] if name == "tload" else op.out_types[0])
        if window is None or t is None:
            raise self.fail(op, "no part of a tensor, or no tile")
        if name == "tload":
            places = {"vec", "mat", "left"} if self.arch == "a5" else {"vec", "mat"}
        else:
            places = {"vec", "acc"} if self.arch == "a5" else {"vec", "mat", "acc"}
        self.need(op, t.loc in places, f"a transfer from or to {t.loc}")
        drained = name == "tstore" and t.loc == "acc"
        allowed = _DRAINS.get(t.dtype, ()) if drained else (t.dtype,)
        self.need(op, window.dtype in allowed, f"{t.dtype} elements against {window.dtype}")
        self.need(op, not drained or 1 <= t.cols <= 4095, "columns of a product")
        handle = op.outs[0] if name == "tload" else op.operands[0]
        if (
            None not in window.sizes
            and None not in self.extents[handle]
            and all(isinstance(e, int) for e in self.extents[handle])
        ):
            count = math.prod(n for n in window.sizes if n is not None)
            valid = math.prod(e for e in self.extents[handle] if isinstance(e, int))
            self.need(op, count == valid, "static element count must match the tile's valid_shape")

    def move(self, op: Op, name: str, a: Tile, out: Tile) -> None:
        pair = f"{a.loc} {out.loc}"
        if name == "tmov":
            self.need(op, pair in MOVES[self.arch], f"expects a supported tmov address-space pair for this target, not {pair}")
            self.need(op, a.shape == out.shape, "extents differ")
            self.alike(op, op.operands[0], op.outs[0])
            self.need(op, a.dtype == out.dtype or pair == "mat bias", "a move does not convert")
            self.need(op, pair != "acc mat" or out.fractal == 512, "the destination has fractal 512")
        elif name == "textract":
            known = ("mat left", "mat right", "vec vec", "acc mat", "acc vec")
            self.need(op, pair in known, f"an extract from {a.loc} to {out.loc}")
            self.need(op, a.dtype == out.dtype or (a.loc == "acc" and out.dtype in _DRAINS[a.dtype]), "elements differ")
            self.within(op, op.operands[1:], out.shape, a.shape)
        else:
            self.need(op, pair == "acc mat" and a.dtype == "f32" and out.dtype in ("f16", "bf16"), f"an insert of {pair}")
            self.within(op, op.operands[1:], a.shape, out.shape)

    def within(self, op: Op, names: list[str], sizes: tuple[int, int], whole: tuple[int, int]) -> None:
        for name, n, m in zip(names, sizes, whole, strict=True):
            at = self.value(name)
            self.need(op, n <= m and (at is None or 0 <= at <= m - n), f"window [{at}, {n}) leaves its tile of {m}")

    def matmul(self, op: Op, name: str, acc: Tile) -> None:
        tiles = [self.tile_type(op, t) for t in op.types]
        if name.endswith(".acc"):
            self.need(op, op.operands[0] == op.outs[0], "the accumulator read and the one written must be one handle")
            tiles = tiles[1:]
        left, right = tiles[0], tiles[1]
        self.need(op, (left.loc, right.loc, acc.loc) == ("left", "right", "acc"), "operands lie in left, right and acc")
        self.need(op, left.dtype == right.dtype and acc.dtype == _SUMS.get(left.dtype), "unsupported element types")
        (m, k), (j, n) = left.logical, right.logical
        want = f"expects lhs[M,K], rhs[K,N], dst[M,N], got {(m, k)}, {(j, n)}, {acc.logical}"
        self.need(op, (m, n) == acc.logical and k == j, want)
        self.need(op, all(1 <= x <= 4095 for x in (m, k, n)), "an extent is not between 1 and 4095")
        if name.endswith(".bias"):
            bias = tiles[2]
            self.need(op, bias.loc == "bias" and bias.rows == 1 and bias.cols == acc.cols, "a bias is one row of the product's")
        # The product is written with the pitch of its own rows: only then is it where the accumulator's type says.
        whole = acc.v_row is not None and -(-acc.v_row // 16) * 16 == acc.rows
        self.need(
            op, whole or acc.rows == 16 or acc.cols == 16 or acc.compact == 1, "an accumulator of fewer valid rows is not compact"
        )

    def on_pto_tgetval(self, op: Op) -> None:
        t = self.tile_type(op, op.types[0])
        self.need(op, t.dtype == op.result_types[0] and t.loc == "vec", "the value's type is not the element's")
        self.used.setdefault("vector", op)

    def on_pto_ttri(self, op: Op) -> None:
        t = self.tile_type(op, op.types[1])
        self.need(op, t.loc == "vec", "the triangle lies in vec")
        self.filled(op, op.operands[1])
        self.used.setdefault("vector", op)

"""Judges `.pto` text by the rules of its assembler, and by those that the assembler leaves to whoever writes the text.

In: text of a module, and whether tiles have addresses.  Out: nothing, or PtoError for the first line that breaks a rule:
names and types of values, control flow, storage, windows, what may be empty; instructions are judged by `pto_rules`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable

from pto_pipes import PipeRules, check_peers
from pto_places import Place, allocated
from pto_syntax import Func, Op, PtoError, Region, parse
from pto_tables import CAPACITY, CASTS, FLOAT, INTEGER, PREDICATES
from pto_types import BYTES, SCALARS, Tile, array_of, partition_of, pointer_of, tile_of, view_of

__all__ = ["check"]

LOCS = ("vec", "mat", "left", "right", "acc", "bias", "scaling")
HIDDEN = ("%__pypto_spmd_block_idx", "%__pypto_spmd_block_num", "%__pypto_spmd_subblock_idx")


def check(text: str, addressed: bool, alone: bool = False) -> None:
    """Raise PtoError for the first rule that the text breaks; `alone`: functions that run beside it are in other texts."""
    module = parse(text)
    if module.arch not in ("a2a3", "a5"):
        raise PtoError(f"unknown architecture {module.arch}")
    names = [f.name for f in module.functions]
    if len(set(names)) != len(names):
        raise PtoError("two functions have one name")
    for f in module.functions:
        _Judge(f, module.arch, addressed).run()
    if not alone:
        check_peers(module)


class _Judge(PipeRules):
    """Follows a function from its head to its end."""

    def __init__(self, f: Func, arch: str, addressed: bool) -> None:
        super().__init__(f, arch, addressed)
        self.seen: set[str] = set()

    def run(self) -> None:
        self.arguments()
        self.region(self.f.body)
        self.units()

    def arguments(self) -> None:
        """Tensors, scalars and run-time extents, and what the launch brings, in this order."""
        order = []
        for i, (name, type_) in enumerate(self.f.arguments):
            tensor = pointer_of(type_) is not None
            if name in HIDDEN:
                fits = type_ == "i32"
            else:
                fits = name == f"%arg{i}" and (tensor or type_ in SCALARS)
            if not fits:
                raise PtoError(f"{self.f.name}: argument {i} is {name}: {type_}")
            order.append(2 if name in HIDDEN else 0 if tensor else 1)
        if order != sorted(order):
            raise PtoError(f"{self.f.name}: a tensor comes behind a scalar, or a scalar behind what the launch brings")

    def region(self, region: Region) -> None:
        types, heads = dict(self.types), dict(self.extents)
        for name, type_ in region.arguments:
            self.define(Op("region", 0), name, type_)
        for op in region.ops:
            self.operation(op)
        # What a region may or may not have said about a handle outside of it is not known behind it.
        for name in heads:
            if self.extents[name] != heads[name]:
                self.extents[name] = (None, None)
        self.types = types

    def define(self, op: Op, name: str, type_: str) -> None:
        self.need(op, name not in self.seen, f"{name} is defined twice")
        self.seen.add(name)
        self.types[name] = type_
        self.keys.setdefault(name, name)

    def operation(self, op: Op) -> None:
        self.need(op, len(op.operands) == len(op.types), f"{len(op.operands)} operands of {len(op.types)} types")
        self.need(op, len(op.outs) == len(op.out_types), f"{len(op.outs)} destinations of {len(op.out_types)} types")
        for name, type_ in zip((*op.operands, *op.outs), (*op.types, *op.out_types), strict=True):
            have = self.types.get(name)
            self.need(op, have is not None, f"{name} is not defined here")
            self.need(op, type_ in ("", have), f"{name} is {have}, used as {type_}")
        for type_ in (*op.types, *op.out_types, *op.result_types):
            self.type(op, type_)
        rule: Callable[[Op], None] | None = getattr(self, "on_" + op.name.replace(".", "_"), None)
        if rule is not None:
            rule(op)
        elif op.name.startswith("pto."):
            self.instruction(op)
        else:
            self.scalar(op)
        for name, type_ in zip(op.results, op.result_types, strict=True):
            self.define(op, name, type_)

    # -- types --

    def type(self, op: Op, text: str) -> None:
        if text.startswith("!pto.tile_buf"):
            t = tile_of(text)
            if t is None:
                raise self.fail(op, f"malformed tile type {text}")
            self.tile(op, t)
        elif text.startswith("!pto.partition"):
            self.need(op, partition_of(text) is not None, f"malformed type {text}")
        elif text.startswith("!pto.tensor_view"):
            self.need(op, view_of(text) is not None, f"malformed type {text}")
        elif text.startswith("!pto.local_array"):
            self.need(op, array_of(text) is not None, f"malformed type {text}")
        elif text.startswith("!pto.ptr"):
            self.need(op, pointer_of(text) is not None, f"malformed type {text}")
        elif text:
            self.need(op, text in SCALARS or text.startswith("vector<"), f"unknown type {text}")

    def tile(self, op: Op, t: Tile) -> None:
        self.need(op, t.loc in LOCS, "unknown memory")
        self.need(op, t.rows > 0 and t.cols > 0, "an extent is not positive")
        for v, n in zip(t.valid, t.shape, strict=True):
            self.need(op, v is None or 0 <= v <= n, f"valid extent {v} of {n}")
        self.need(op, t.bytes <= CAPACITY[self.arch][t.loc], f"{t.bytes} bytes do not fit into {t.loc}")
        if t.slayout == "none_box":
            along = (t.cols if t.blayout == "row_major" else t.rows) * BYTES[t.dtype]
            self.need(op, along % 32 == 0, f"{t.blayout} none_box rows of {along} bytes are not 32-byte aligned")
            return
        r, c = t.box
        waived = t.loc == "vec" and t.fractal == 32 and t.rows == 1
        self.need(op, waived or t.rows % r == 0, f"boxed tile rows {t.rows} are no multiple of innerRows ({r})")
        self.need(op, t.cols % c == 0, f"boxed tile cols {t.cols} are no multiple of innerCols ({c})")

    # -- scalars --

    def scalar(self, op: Op) -> None:
        name = op.name.partition(".")[2]
        t = op.types[0] if op.types else op.result_types[0]
        floats = t in ("f32", "f16", "bf16")
        if name in PREDICATES:
            self.need(op, op.attrs.get("predicate") in PREDICATES[name], f"unknown predicate {op.attrs.get('predicate')}")
            self.need(op, floats == (name == "cmpf") and not t.startswith("ui"), f"{t} operands")
        elif name in INTEGER or name in FLOAT:
            self.need(op, floats == (name in FLOAT) and not t.startswith("ui"), f"{t} operands")
            self.need(op, len(op.operands) == (1 if name == "negf" else 2), f"{len(op.operands)} operands")
        elif name in CASTS:
            self.need(op, op.types[0] != op.result_types[0], "a cast to the same type")
            self.need(op, ("index" in (t, op.result_types[0])) == (name == "index_cast"), "index_cast goes from or to index")
        elif op.name in ("math.absf", "math.absi"):
            self.need(op, floats == (name == "absf"), f"{t} operand")
        elif op.name == "builtin.unrealized_conversion_cast":
            pair = {t.removeprefix("u"), op.result_types[0].removeprefix("u")}
            self.need(op, len(pair) == 1, f"a cast of {t} to {op.result_types[0]}")
        else:
            self.need(op, op.name == "arith.select" and len(op.operands) == 3, "unknown operation")
        of = [self.keys[v] for v in op.operands if op.name != "arith.muli" or self.value(v) != 1]
        self.keys[op.results[0]] = (
            of[0] if op.name == "arith.muli" and len(of) == 1 else (op.name, op.attrs.get("predicate"), *of)
        )
        self.positive[op.results[0]] = self.says_positive(op)

    def says_positive(self, op: Op) -> frozenset[Hashable]:
        """What is greater than zero where this value is true."""
        if op.name == "arith.andi":
            return frozenset().union(*(self.positive.get(v, frozenset()) for v in op.operands))
        least = {"sgt": 0, "sge": 1}.get(op.attrs.get("predicate", ""))
        if op.name != "arith.cmpi" or least is None or (self.value(op.operands[1]) or 0) < least:
            return frozenset()
        return frozenset((self.keys[op.operands[0]],)) if self.value(op.operands[1]) is not None else frozenset()

    def on_arith_constant(self, op: Op) -> None:
        text, t, name = op.attrs["value"], op.result_types[0], op.results[0]
        if t.startswith("vector"):
            self.need(op, text == "dense<0>", text)
            return
        floats = t in ("f32", "f16", "bf16")
        digits = 8 if t == "f32" else 4
        form = rf"-?\d\.\d{{17}}e[+-]\d\d|0x[0-9A-F]{{{digits}}}" if floats else r"-?\d+"
        self.need(op, re.fullmatch(form, text) is not None and not t.startswith("ui"), f"{text} : {t}")
        if not floats:
            self.constants[name] = int(text)
        self.keys[name] = (text, t)

    # -- control flow --

    def on_scf_for(self, op: Op) -> None:
        step = self.value(op.operands[2])
        self.need(op, step is not None and step > 0, f"step {step}")
        self.need(op, len(op.results) == len(op.result_types), "results and types differ in number")
        self.carries(op, op.result_types)
        outside = self.facts
        self.facts = outside | {("less", op.regions[0].arguments[0][0], self.keys[op.operands[1]])}
        self.region(op.regions[0])
        self.facts = outside
        self.yields(op, op.regions[0], op.result_types)

    def on_scf_if(self, op: Op) -> None:
        self.carries(op, op.result_types)
        self.need(op, not op.results or len(op.regions) == 2, "a result without an else")
        outside = self.facts
        for i, r in enumerate(op.regions):
            self.facts = outside | (self.positive.get(op.operands[0], frozenset()) if i == 0 else frozenset())
            self.region(r)
            self.yields(op, r, op.result_types)
        self.facts = outside

    def on_scf_while(self, op: Op) -> None:
        self.carries(op, op.result_types)
        before, body = op.regions
        self.need(op, bool(before.ops) and before.ops[-1].name == "scf.condition", "no condition")
        self.need(op, before.ops[-1].types[1:] == op.result_types, "the condition passes on other types")
        self.need(op, [t for _, t in body.arguments] == op.result_types, "the body takes other types")
        self.region(before)
        self.region(body)
        self.yields(op, body, op.types, always=True)

    def carries(self, op: Op, types: list[str]) -> None:
        self.need(op, all(t in SCALARS for t in types), "a region hands on something that is no scalar")

    def yields(self, op: Op, region: Region, types: list[str], always: bool = False) -> None:
        found = [i for i, o in enumerate(region.ops) if o.name == "scf.yield"]
        if types or always:
            self.need(op, found == [len(region.ops) - 1] and region.ops[-1].types == types, "a region yields other types")
        else:
            self.need(op, not found, "a yield without carries")

    def on_scf_yield(self, op: Op) -> None:
        """Its owner looks at it."""

    on_scf_condition = on_scf_yield

    # -- storage --

    def on_pto_alloc_tile(self, op: Op) -> None:
        t, name = self.tile_type(op, op.result_types[0]), op.results[0]
        self.need(op, ("addr" in op.groups) == self.addressed, "addr is given exactly where the planner gives addresses")
        given = []
        for key, v, n in (("valid_row", t.v_row, t.rows), ("valid_col", t.v_col, t.cols)):
            self.need(op, (key in op.groups) == (v is None), f"{key} operand exactly where the type says ?")
            given.append(op.groups[key][0] if key in op.groups else "")
        self.set_extents(op, name, t, given)
        self.places[name] = allocated(t, (t.loc, name), 0)
        if "addr" in op.groups:
            at = self.value(op.groups["addr"][0])
            unit = 512 if t.loc in ("left", "right", "acc") else 32
            self.need(op, at is not None and at >= 0 and at % unit == 0, f"addr {at} must be aligned to {unit} bytes")
            assert at is not None
            limit = CAPACITY[self.arch][t.loc]
            self.need(op, at + t.bytes <= limit, f"bytes {at}..{at + t.bytes} leave {t.loc}, which has {limit}")
            self.clear_of_slots(op, t.loc, at, at + t.bytes)
            self.places[name] = allocated(t, (t.loc, ""), at)

    def popped(self, op: Op, t: Tile) -> None:
        self.set_extents(op, op.results[0], t, op.operands or ["", ""])

    def set_extents(self, op: Op, handle: str, t: Tile, names: list[str]) -> None:
        """The valid extents of a handle from here on; the type's where no value is named."""
        made: list[Hashable] = []
        for name, v, n in zip(names, t.valid, t.shape, strict=True):
            have = self.value(name) if name else v
            self.need(op, have is None or 0 <= have <= n, f"valid extent {have} of {n}")
            made.append(have if have is not None else self.keys[name])
        self.extents[handle] = (made[0], made[1])

    def on_pto_set_validshape(self, op: Op) -> None:
        t, name = self.tile_type(op, op.types[0]), op.operands[0]
        self.need(op, t.valid == (None, None), "the type must have dynamic validShape (?, ?)")
        self.need(op, name not in self.views, "requires a locally bound tile source, no window")
        self.set_extents(op, name, t, op.operands[1:])

    def on_pto_subview(self, op: Op) -> None:
        a, b = self.tile_type(op, op.types[0]), self.tile_type(op, op.result_types[0])
        source, name = op.operands[0], op.results[0]
        sizes = tuple(int(x) for x in op.attrs["sizes"].split(", "))
        self.need(op, sizes == b.shape, "sizes and result type differ")
        self.need(op, a.config == b.config, "expects result tile config to match source")
        self.need(op, a.pad == 0, "a window of a padded tile")
        self.need(op, source not in self.relabels, "a window cut from a relabel of bytes")
        at = [self.value(o) for o in op.groups["offsets"]]
        for o, n, m, box in zip(at, sizes, a.shape, b.box, strict=True):
            self.need(op, n <= m and (o is None or 0 <= o <= m - n), f"window [{o}, {n}) leaves its parent of {m}")
            self.need(op, n % box == 0 and (o is None or o % box == 0), "sizes must be multiples of inner shape")
        valid = op.groups["valid"]
        self.need(op, len(valid) in (0, 2), "both valid extents or neither")
        self.need(op, bool(valid) or None not in b.valid, "a dynamic window without valid extents")
        for v, have in zip(b.valid, map(self.value, valid), strict=False):
            self.need(op, have == v, f"expects result valid_shape {v} to match the explicit {have}")
            self.need(op, have is None or have > 0, "a window of which nothing is valid")
        self.set_extents(op, name, b, valid or ["", ""])
        self.filled(op, name)
        self.views.add(name)
        self.places[name] = self.places[source].window(name, b, a, (at[0], at[1]))

    def on_pto_treshape(self, op: Op) -> None:
        a, b = self.tile_type(op, op.types[0]), self.tile_type(op, op.result_types[0])
        place: Place = self.places[op.operands[0]]
        self.need(op, a.loc == b.loc and a.bytes == b.bytes, "expects src and dst to have the same total byte size")
        self.need(op, (a.slayout == "none_box") == (b.slayout == "none_box"), "one side is boxed")
        self.need(op, bool(place.moving) or place.dense, "a relabel of a window with gaps")
        # It has no operands for extents: of what the type leaves open nothing is valid until that is said.
        self.extents[op.results[0]] = (b.v_row or 0, b.v_col or 0)
        self.need(op, b.valid == (None, None) or None not in b.valid, "an extent that cannot be said")
        self.places[op.results[0]] = place.relabelled(b)
        if a.dtype == "ui8" and b.dtype != "ui8":
            self.relabels.add(op.results[0])

    # -- global memory --

    def on_pto_make_tensor_view(self, op: Op) -> None:
        found, element = view_of(op.result_types[0]), pointer_of(self.types[op.operands[0]])
        self.need(op, found is not None and found[1] == element, "pointer and view hold different elements")
        assert found is not None
        self.need(op, len(op.groups["shape"]) == found[0] == len(op.groups["strides"]), "rank, shape and strides differ")
        self.need(op, op.attrs["layout"] in ("nd", "dn", "nz", "mx_a_zz", "mx_b_nn"), "unknown layout")
        self.shapes[op.results[0]] = [self.value(n) for n in op.groups["shape"]]

    def on_pto_partition_view(self, op: Op) -> None:
        view, part = view_of(op.types[0]), partition_of(op.result_types[0])
        assert view is not None
        assert part is not None
        at, sizes = op.groups["offsets"], op.groups["sizes"]
        self.need(op, view[1] == part.dtype and view[0] == len(part.sizes) == len(at), "rank or elements differ")
        for o, s, n, whole in zip(at, sizes, part.sizes, self.shapes[op.operands[0]], strict=True):
            begin, size = self.value(o), self.value(s)
            self.need(op, n == size, "size/result mismatch")
            self.need(op, size is None or size > 0, "size must be positive")
            self.need(op, size is not None or self.keys[s] in self.facts, f"{s} may be zero and is not guarded")
            if begin is None:
                key = self.keys[o]
                clamped = isinstance(key, tuple) and key[0] == "arith.maxsi" and ("0", "index") in key
                self.need(op, clamped, f"the offset {o} may be negative")
            else:
                self.need(op, begin >= 0, "offset must be non-negative")
                inside = whole is None or size is None or begin + size <= whole
                self.need(op, inside, f"the part {begin}..{begin + (size or 0)} leaves its tensor of {whole}")

    def on_pto_addptr(self, op: Op) -> None:
        """Nothing more to judge than its types."""

    def on_pto_load_scalar(self, op: Op) -> None:
        self.need(op, pointer_of(op.types[0]) == op.result_types[0], "the value's type is not the element's")

    def on_pto_store_scalar(self, op: Op) -> None:
        self.need(op, pointer_of(op.types[1]) == op.types[0], "the value's type is not the element's")

    def on_pto_syncall(self, op: Op) -> None:
        """Nothing to judge: it names no value."""

    on_pto_sync_set = on_pto_sync_wait = on_pto_syncall

    def on_pto_set_ffts(self, op: Op) -> None:
        self.need(op, pointer_of(op.types[0]) is not None, f"operand of type {op.types[0]}")

    def on_pto_declare_local_array(self, op: Op) -> None:
        """Its type says everything."""

    def on_pto_local_array_get(self, op: Op) -> None:
        self.element(op, op.result_types[0])

    def on_pto_local_array_set(self, op: Op) -> None:
        self.element(op, op.types[2])

    def element(self, op: Op, type_: str) -> None:
        t = array_of(op.types[0])
        self.need(op, t is not None and t[1] == type_, "the value's type is not the element's")
        at = self.value(op.operands[1])
        self.need(op, t is None or at is None or 0 <= at < t[0], f"element {at} of {op.types[0]}")

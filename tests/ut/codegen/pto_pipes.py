"""Pipes between the cores in `.pto` text: their judge, and how they run.

In: operations on pipes.  Out: PtoError for the first rule that is broken; or tiles handed from function to function, in the pipes
of the group that runs them.  A popped tile lies in memory of its own until its slot is freed; then it is poison.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pto_memory import Handle, MachineError, handle_at
from pto_places import allocated
from pto_rules import Rules
from pto_syntax import Func, Module, Op, PtoError, Region
from pto_tables import CAPACITY
from pto_types import pointer_of, tile_of

from pypto.debug.memory import Arena
from pypto.debug.pipes import Ends, _Parcel
from pypto.ir.verify.pipe_ends import Channel

__all__ = ["PipeMachine", "PipeRules", "check_peers"]

_KIND = {"aic": "cube", "aiv": "vector"}
_BITS = {"aiv": 1, "aic": 2}  # of `dir_mask`, by the core that pops


def _operations(region: Region) -> list[Op]:
    return [o for op in region.ops for o in (op, *(x for r in op.regions for x in _operations(r)))]


def check_peers(module: Module) -> None:
    """A buffer that is imported is reserved, under its name, by the function that it is imported from."""
    reserved = {
        (f.name, o.attrs["name"]) for f in module.functions for o in _operations(f.body) if o.name == "pto.reserve_buffer"
    }
    for f in module.functions:
        for o in _operations(f.body):
            known = (o.attrs.get("peer_func", "")[1:], o.attrs.get("name")) in reserved
            if o.name == "pto.import_reserved_buffer" and not known:
                raise PtoError(f"{f.name}, line {o.line}: {o.name}: nobody reserves {o.attrs}")


class PipeRules(Rules):
    """What is judged of pipes; a popped tile is an operand like another."""

    def __init__(self, f: Func, arch: str, addressed: bool) -> None:
        super().__init__(f, arch)
        self.addressed = addressed
        self.pipes: dict[str, Op] = {}
        self.slots: list[tuple[str, int, int]] = []

    def clear_of_slots(self, op: Op, loc: str, low: int, high: int) -> None:
        for where, a, b in self.slots:
            self.need(op, loc != where or high <= a or b <= low, f"bytes {low}..{high} of {loc} are slots of a pipe")

    def on_pto_reserve_buffer(self, op: Op) -> None:
        attrs, loc = op.attrs, "mat" if self.f.kind == "cube" else "vec"
        self.need(
            op, attrs["location"] == f"#pto.address_space<{loc}>", f"slots in {attrs['location']} of a {self.f.kind} function"
        )
        self.need(
            op, (attrs["auto"], "base" in attrs) == (("false", True) if self.addressed else ("true", False)), "auto and base"
        )
        size = int(attrs["size"])
        self.need(op, size > 0, f"{size} bytes")
        if self.addressed:
            base = int(attrs["base"])
            self.need(op, base % 32 == 0 and base + size <= CAPACITY[self.arch][loc], f"{size} bytes at {base} of {loc}")
            self.clear_of_slots(op, loc, base, base + size)
            self.slots.append((loc, base, base + size))

    def on_pto_import_reserved_buffer(self, op: Op) -> None:
        self.need(op, op.attrs["peer_func"] != f"@{self.f.name}", "a function is its own peer")

    def initialize(self, op: Op) -> None:
        core = op.name[4:7]
        self.need(op, self.f.kind == _KIND[core], f"in a function of kind {self.f.kind}")
        self.need(op, op.attrs["dir_mask"] in ("1", "2", "3") and int(op.attrs["slot_size"]) > 0, f"{op.attrs}")
        number = op.attrs.get("id", "0")
        self.need(op, number not in self.pipes, f"pipe {number} is opened twice")
        gm = [t for t in op.types if pointer_of(t) is not None]
        self.need(op, bool(gm) or self.arch != "a2a3", "requires gm_slot_buffer on a2/a3")
        self.need(op, op.types[len(gm) :] == ["i32", "i32"], f"operands of types {op.types}")
        self.pipes[number] = op

    on_pto_aic_initialize_pipe = on_pto_aiv_initialize_pipe = initialize

    def end(self, op: Op, popper: str, core: str) -> Op:
        """This function's end of the pipe that an operation is about."""
        self.need(op, self.f.kind == _KIND[core], f"in a function of kind {self.f.kind}")
        self.need(op, op.attrs["split"] in "01234", f"split {op.attrs['split']}")
        found = self.pipes.get(op.attrs.get("id", "0"))
        self.need(op, found is not None, "requires initialize_pipe with the same id")
        assert found is not None
        self.need(op, bool(int(found.attrs["dir_mask"]) & _BITS[popper]), "the pipe does not go this way")
        return found

    def push(self, op: Op) -> None:
        popper = op.name[-3:]
        self.end(op, popper, "aic" if popper == "aiv" else "aiv")
        t = self.tile_type(op, op.types[0])
        self.need(op, t.loc == ("acc" if popper == "aiv" else "vec"), f"a push out of {t.loc}")
        as_in_mat = (t.blayout, t.slayout, t.fractal) == ("col_major", "row_major", 512)
        self.need(op, as_in_mat or t.loc == "acc" or self.arch != "a5", "a5 copies it into mat as it lies")
        self.need(op, t.slayout == "none_box" or t.loc == "acc" or self.arch == "a5", "boxes on their way through global memory")
        if self.extents[op.operands[0]] != (0, 0):  # one that is there for the count alone
            self.filled(op, op.operands[0])
        self.used.setdefault("cube" if t.loc == "acc" else "vector", op)

    on_pto_tpush_to_aiv = on_pto_tpush_to_aic = push

    def pop(self, op: Op) -> None:
        popper = "aiv" if op.name.endswith("aic") else "aic"
        end, t = self.end(op, popper, popper), self.tile_type(op, op.result_types[0])
        self.need(op, t.loc == ("vec" if popper == "aiv" else "mat"), f"a pop into {t.loc}")
        self.need(op, t.bytes <= int(end.attrs["slot_size"]), f"{t.bytes} bytes in a slot of {end.attrs['slot_size']}")
        self.need(op, (len(op.operands) == 2) == (t.valid == (None, None)), "valid operands exactly where the type says ?")
        self.need(op, len(op.operands) == 2 or None not in t.valid, "one ?")
        self.places[op.results[0]] = allocated(t, (t.loc, op.results[0]), 0)
        self.popped(op, t)
        self.used.setdefault(_KIND[popper], op)

    def popped(self, op: Op, t: Any) -> None:
        raise NotImplementedError

    on_pto_tpop_from_aic = on_pto_tpop_from_aiv = pop

    def free(self, op: Op) -> None:
        popper = "aiv" if op.name.endswith("aic") else "aic"
        self.end(op, popper, popper)

    on_pto_tfree_from_aic = on_pto_tfree_from_aiv = free


class PipeMachine:
    """What operations on pipes do; `ends` is what the group gives the function."""

    values: dict[str, Any]
    ends: Ends | None
    lane: int
    opened: dict[int, int]
    taken: dict[Channel, list[Handle]]
    slots: list[tuple[int, int]]  # where those of its pipes are in global memory

    def on_pto_reserve_buffer(self, op: Op) -> int:
        return int(op.attrs.get("base", "0"))

    def on_pto_import_reserved_buffer(self, op: Op) -> int:
        return 0

    def initialize(self, op: Op) -> None:
        number, mask = int(op.attrs.get("id", "0")), int(op.attrs["dir_mask"])
        self.opened[number] = mask
        for name in op.groups.get("gm_slot_buffer", ()):
            assert self.ends is not None
            known = self.ends.cluster.queues
            slots = sum(known[Channel(bit, number)][0].slots for bit in (1, 2) if mask & bit)
            memory, size = self.values[name].array, slots * int(op.attrs["slot_size"])
            if memory.nbytes < size:
                raise MachineError(f"{size} bytes of slots in {memory.nbytes} of global memory")
            self.slots.append((memory.ctypes.data, memory.ctypes.data + size))

    on_pto_aic_initialize_pipe = on_pto_aiv_initialize_pipe = initialize

    def queues(self, op: Op, popper: str) -> tuple[Channel, Ends, list[tuple[int, Any]]]:
        if self.ends is None:
            raise MachineError("a function with pipes runs alone")
        number = int(op.attrs.get("id", "0"))
        if not self.opened.get(number, 0) & _BITS[popper]:
            raise MachineError(f"pipe {number} is not open")
        channel = Channel(_BITS[popper], number)
        known = self.ends.cluster.queues[channel]
        return channel, self.ends, list(enumerate(known)) if self.ends.core == "aic" else [(self.lane, known[self.lane])]

    def push(self, op: Op) -> None:
        popper, source, split = op.name[-3:], self.values[op.operands[0]], int(op.attrs["split"])
        _, ends, queues = self.queues(op, popper)
        ends.runner.wait(lambda: all(q.taken < q.slots for _, q in queues), "to push", ends.runner.span)
        rows, cols = source.tile.shape
        data = source.read(source.valid)
        for lane, q in queues:
            part, shape = data, (rows, cols)
            if popper == "aiv" and split == 1:
                part, shape = data[lane * rows // 2 : (lane + 1) * rows // 2], (rows // 2, cols)
            elif popper == "aiv" and split == 2:
                part, shape = data[:, lane * cols // 2 : (lane + 1) * cols // 2], (rows, cols // 2)
            q.parcels.append(_Parcel(np.array(part), shape, source.dtype, split))
            q.taken += 1

    on_pto_tpush_to_aiv = on_pto_tpush_to_aic = push

    def pop(self, op: Op) -> Handle:
        popper, split, t = "aiv" if op.name.endswith("aic") else "aic", int(op.attrs["split"]), tile_of(op.result_types[0])
        assert t is not None
        channel, ends, queues = self.queues(op, popper)
        ends.runner.wait(lambda: all(q.parcels for _, q in queues), "for a tile", ends.runner.span)
        parcels = [q.parcels.popleft() for _, q in queues]
        for _, q in queues:
            q.popped += 1
        data = parcels[0].data
        if popper == "aic" and split:
            data = np.concatenate([p.data for p in parcels], split - 1)
        valid = [self.values[v] for v in op.operands] or list(t.valid)
        # Where nothing was passed something may be taken: an instruction that moves nothing is none.
        if any(v > max(n, 1) for v, n in zip(valid, data.shape, strict=True)) or parcels[0].split != split:
            raise MachineError(f"{valid} of a tile of {data.shape}")
        made = handle_at(op.results[0], t, Arena(op.results[0]), 0, (valid[0], valid[1]))
        made.own = False
        made.poison()
        made.write(data[: valid[0], : valid[1]])
        self.taken.setdefault(channel, []).append(made)
        return made

    on_pto_tpop_from_aic = on_pto_tpop_from_aiv = pop

    def free(self, op: Op) -> None:
        channel, _, queues = self.queues(op, "aiv" if op.name.endswith("aic") else "aic")
        if not self.taken.get(channel):
            raise MachineError("a slot is freed that no pop has")
        self.taken[channel].pop(0).poison()
        for _, q in queues:
            q.popped -= 1
            q.taken -= 1

    on_pto_tfree_from_aic = on_pto_tfree_from_aiv = free

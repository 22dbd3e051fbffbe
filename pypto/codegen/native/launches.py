"""Launches of kernels by the entry: one call, one after the other for each block, all blocks at once, or shared by threads.

In: calls of device functions and of functions that launch them.  Out: C statements that return what failed.
Invariant: threads share work only where it was proved apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext

from pypto.codegen.native import windows
from pypto.codegen.native.device import DeviceCode, symbols_of
from pypto.codegen.native.emit import Sites, c_name
from pypto.codegen.native.scalars import scalar_type
from pypto.codegen.native.shares import SharedCalls, sharing_of
from pypto.codegen.native.side_by_side import Groups
from pypto.codegen.native.tensor_values import TensorValue, TensorValues, is_packed, number_out_of_a_kernel
from pypto.errors import NotSupportedError
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.program import Function
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import ReturnStmt, Stmt, flatten_to_stmts, value_of
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = ["Launch", "Launches"]


class Launch(NamedTuple):
    """One call of a device function: which entry parameters its tensor parameters are (None: a temporary)."""

    callee: str
    arguments: tuple[int | None, ...]
    in_loop: bool


class Launches(TensorValues):
    """Writes launches into the body of an entry."""

    def __init__(
        self,
        name: str,
        devices: dict[str, DeviceCode],
        wrappers: dict[str, Function],
        sites: Sites,
        arena: int,
        carried: Collection[Var],
    ) -> None:
        super().__init__(name, sites, arena, carried)
        self.devices, self.wrappers = devices, wrappers
        self.position = ("0", "1")  # number of the block, and of all blocks, of the launch around this place
        self.together = "1"  # blocks of the launch around this place that may wait for each other
        self.shared = SharedCalls()
        self.blocks_shared = False  # whether the next kernel does all blocks of the launch around it
        self.open: list[Function] = []  # functions that are being written in place
        self.launches: list[Launch] = []
        self.groups = Groups(self)
        self.turns: list[str] = []  # how often the loops around this place turn, as far as that is known where they begin
        self.depth = 0
        self.returned: tuple[Expr, ...] = ()

    def body(self, body: Stmt | None) -> tuple[Expr, ...]:
        """Write the statements of a region; what it yields."""
        raise NotImplementedError

    def is_whole(self, t: TensorValue) -> bool:
        """Whether a value is all of its parameter, in the same order."""
        raise NotImplementedError

    def launch(self, var: Var | None, call: Call, span: Span) -> None:
        """A kernel, or a function that launches kernels: once, or once for each block, one after the other."""
        code, wrapper = self.devices.get(call.op.name), self.wrappers.get(call.op.name)
        callee = code.function if code is not None else wrapper
        if callee is None:
            raise NotSupportedError(f"a call of '{call.op.name}' is not executed here", span, "call kernels, or make it inline")
        outer = self.position, self.together
        count = call.attrs.get("core_num")
        if count is not None and self.meets(call.op.name):
            self.together, count = self.count(count, span), None
        only = code if code is not None else self.only_kernel(callee)
        share = count is not None and only is not None and only.blocks is None
        with nullcontext() if count is None else self.blocks(count, share, span):
            if code is not None:
                self.kernel(code, call, span)
            else:
                self.expand(callee, call, span)
        self.position, self.together = outer
        self.bind_results(var, callee, call)

    def arguments(self, code: DeviceCode, call: Call, span: Span) -> list[str]:
        """What a kernel is called with; the call is remembered."""
        callee = code.function
        arguments: list[str] = []
        known: dict[Var, Expr] = {}
        roots: list[int | None] = []
        for p, a in zip(callee.params, call.args, strict=True):
            if isinstance(p.type, TensorType):
                t = self.tensor(a)
                arguments.append(t.pointer)
                roots.append(t.param)
                if t.param is not None and not self.is_whole(t):
                    self.direct.add(t.param)  # what is where in it, the kernel does not know
                self.match(p.type, t.type, known, callee, span)
            else:
                arguments.append(self.expr(a))
                roots.append(None)
        arguments += [self.expr(known[s]) for s in code.symbols]
        if code.turns:
            arguments.append(" * ".join(self.turns) or "1")
        self.launches.append(Launch(call.op.name, tuple(roots), self.depth > 0 or code.waits))
        return arguments

    def kernel(self, code: DeviceCode, call: Call, span: Span) -> None:
        """A device function, called."""
        arguments = self.arguments(code, call, span)
        if code.pipes is not None:
            self.groups.start(code, self.position, arguments, span)
            return
        sharing = sharing_of(code, self.blocks_shared)
        with self.keeping(code, call, arguments), self.block_loop() if self.blocks_shared and not sharing else self.w.block(""):
            if code.meets:
                self.w.all(self.blocks_together(code, arguments, span))
            elif sharing:
                self.w.all(self.shared.call(code, sharing, self.position, arguments))
            else:
                given = ["call", "mem", *self.position, *arguments, *(("0", "1") if code.shares else ())]
                self.w.line(f"const int64_t failed = kernel_{c_name(code.function.name)}({', '.join(given)});")
            self.or_fail()

    @contextmanager
    def keeping(self, code: DeviceCode, call: Call, arguments: list[str]) -> Iterator[None]:
        """Memory for what the products of a kernel keep, around the launch that is written inside; one argument more."""
        if not code.kept:
            yield
            return
        mark, packs = self.names.fresh("mark_"), self.names.fresh("packs_")
        shapes = [self.tensor(call.args[k]).type.shape for k in code.kept]
        elements = " + ".join(" * ".join(["1.0", *map(self.expr, shape)]) for shape in shapes)
        self.w.line(f"const int64_t {mark} = call->arena->mark(call->arena);")
        self.w.line(f"pp_packs {packs} = pp_packs_begin(call, {elements});")
        arguments.append(f"&{packs}")
        yield
        self.w.line(f"call->arena->release(call->arena, {mark});")

    def or_fail(self) -> None:
        self.w.line("if (failed) {")
        self.w.line("    return failed;")
        self.w.line("}")

    def expand(self, callee: Function, call: Call, span: Span) -> None:
        """A function that launches kernels, in place."""
        if callee in self.open:
            raise NotSupportedError(f"'{callee.name}' calls itself: recursion is not supported", span, "write a loop")
        self.open.append(callee)
        returned, names = self.returned, dict(self.names.of)
        with self.w.block(""):
            known: dict[Var, Expr] = {}
            given: list[tuple[Var, str]] = []
            for p, a in zip(callee.params, call.args, strict=True):
                if isinstance(p.type, TensorType):
                    self.tensors[p] = self.tensor(a)
                    self.match(p.type, self.tensors[p].type, known, callee, span)
                else:
                    given.append((p, self.expr(a)))
            given += [(s, self.expr(known[s])) for s in symbols_of(callee)]
            for v, text in given:
                if text != names.get(v):  # an extent may be the caller's own
                    self.names.of[v] = self.names.fresh(v.name_hint)
                    self.w.line(f"const {scalar_type(v)} {self.names.of[v]} = {text};")
            with self.groups.around(callee, span):
                self.body(callee.body)
        self.returned, self.names.of = returned, names
        self.open.pop()

    def meets(self, callee: str) -> bool:
        """Whether the blocks of a launch wait for each other: all of them are under way at once."""
        if callee in self.devices:
            return self.devices[callee].meets
        calls = [n for n in walk(self.wrappers[callee].body) if isinstance(n, Call)] if callee in self.wrappers else []
        if not any(self.meets(n.op.name) for n in calls):
            return False
        asking = next((n for n in calls if n.op.name.endswith("get_block_idx")), None)
        if asking is not None:
            what = "the number of a block outside of the kernel, whose blocks wait for each other, is not executed"
            raise NotSupportedError(what, asking.span, "ask for it in the kernel: pl.get_block_idx()")
        return True

    def blocks_together(self, code: DeviceCode, arguments: list[str], span: Span) -> list[str]:
        """Statements that run all blocks of a launch at once and set `failed`."""
        name = c_name(code.function.name)
        what = "no memory or threads for {0} blocks that wait for each other\nlaunch fewer blocks"
        site = self.sites.add("memory", what, span)
        run = f"pp_together(call, mem, {self.together}, {code.scratch}, blocks_{name}, &launch, {site})"
        return [f"const launch_{name} launch = {{{', '.join(arguments) or '0'}}};", f"const int64_t failed = {run};"]

    def only_kernel(self, callee: Function) -> DeviceCode | None:
        """The kernel that a function launches, if it does nothing else."""
        first, *rest = flatten_to_stmts(callee.body)
        call = value_of(first)
        only = all(isinstance(s, ReturnStmt) for s in rest) and isinstance(call, Call) and "core_num" not in call.attrs
        return self.devices.get(call.op.name) if only and isinstance(call, Call) else None

    def count(self, count: Expr | int, span: Span) -> str:
        """The number of blocks of a launch, checked."""
        blocks = self.names.fresh("blocks_")
        self.w.line(f"const int64_t {blocks} = {count if isinstance(count, int) else self.expr(count)};")
        site = self.sites.add("value", "a launch of {0} blocks\nask first, with an `if`, whether there are any", span)
        self.w.line(f"if ({blocks} < 1) {{")
        self.w.line(f"    return pp_fault(call, {site}, {blocks}, 0, 0);")
        self.w.line("}")
        return blocks

    @contextmanager
    def blocks(self, count: Expr | int, share: bool, span: Span) -> Iterator[None]:
        """A loop over the blocks of a launch around what is written inside; with `share`, the kernel inside sees to them."""
        blocks = self.count(count, span)
        self.depth += 1
        self.position = ("0", blocks)
        if share:
            self.blocks_shared = True
            yield
            self.blocks_shared = False
        else:
            with self.block_loop():
                yield
        self.depth -= 1

    @contextmanager
    def block_loop(self) -> Iterator[None]:
        block = self.names.fresh("block_")
        with self.w.block(f"for (int64_t {block} = 0; {block} < {self.position[1]}; ++{block})"):
            self.position = (block, self.position[1])
            yield

    def match(self, want: TensorType, have: TensorType, known: dict[Var, Expr], callee: Function, span: Span) -> None:
        """The caller's extents and strides for the callee's symbols."""
        pairs = list(zip(want.shape, have.shape, strict=True))
        if want.tensor_view is not None and want.tensor_view.stride:
            pairs += list(zip(want.tensor_view.stride, windows.tensor_strides(have), strict=True))
        elif not is_packed(have):
            raise NotSupportedError(
                f"a strided window passed to '{callee.name}'", span, "pass the whole tensor and slice it inside the kernel"
            )
        for w, h in pairs:
            if isinstance(w, Var):
                known.setdefault(w, h)

    def bind_results(self, var: Var | None, callee: Function, call: Call) -> None:
        if var is None:
            return
        last = flatten_to_stmts(callee.body)[-1]
        values = last.value if isinstance(last, ReturnStmt) else ()
        results = []
        for v in values:
            at = next((i for i, p in enumerate(callee.params) if p is v), None)
            if at is None and not callee.is_device and isinstance(v.type, TensorType):
                what = f"'{callee.name}' returns a tensor that it was not given"
                raise NotSupportedError(what, call.span, "create it where it is called, pass it, and return it written")
            if at is None:
                raise number_out_of_a_kernel(v, last)
            results.append(self.tensor(call.args[at]))
        if len(results) == 1 and isinstance(var.type, TensorType):
            self.tensors[var] = results[0]
        else:
            self.tuples[var] = tuple(results)

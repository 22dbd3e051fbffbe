"""Kernels from text and from Python functions, parsed and run by the interpreter."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

import pypto.language as pl
from pypto.debug import interpret
from pypto.dtypes import from_numpy
from pypto.errors import Error
from pypto.frontend import (
    ParsedKernel,
    ScalarArg,
    StaticArg,
    StaticParameterNeeded,
    TensorArg,
    capture,
    dynamic_dims,
    parse_kernel,
    signature,
)
from pypto.ir.program import Function, Program
from pypto.ir.structural import compare

_numbers = itertools.count()


class Kernel:
    """What a decorator of `@pl.jit`'s family makes, as far as the parser sees it."""

    def __init__(self, function: Any, kind: str, depth: int = 3, **options: Any) -> None:
        self.source, self.kind, self.options = capture(function, depth=depth), kind, options

    def specialization(self, *args: Any, **named: Any) -> dict[str, Any]:
        bound = {**dict(zip(self.source.parameters, args, strict=False)), **named}
        dynamic = dynamic_dims(self.source)
        made: dict[str, Any] = {}
        for p in signature(self.source):
            value = bound.get(p.name, p.default)
            if isinstance(value, np.ndarray):
                dims: list[Any] = list(value.shape)
                for i, d in enumerate(p.dims or ()):
                    dims[i] = d if isinstance(d, str) else dims[i]
                for axis, name in dynamic.get(p.name, {}).items():
                    if -len(dims) <= axis < len(dims):
                        dims[axis] = name
                dtype = from_numpy(value.dtype)
                assert dtype is not None
                made[p.name] = TensorArg(tuple(dims), dtype)
            else:
                made[p.name] = ScalarArg(p.dtype or pl.INDEX, value)
        return made

    def parse(self, *args: Any, **named: Any) -> ParsedKernel:
        chosen = self.specialization(*args, **named)
        while True:
            try:
                return parse_kernel(self.source, chosen, options=self.options)
            except StaticParameterNeeded as e:
                chosen[e.name] = StaticArg(chosen[e.name].value)

    def __call__(self, *args: Any) -> None:
        """Parse for these arguments and interpret: arrays are written in place."""
        program = self.parse(*args).program
        entry = program.get_function(self.source.name)
        assert entry is not None
        names = {p.name_hint for p in entry.params}
        interpret(program, [a for n, a in zip(self.source.parameters, args, strict=True) if n in names], entry=self.source.name)


def entry(f: Callable[..., Any]) -> Kernel:
    return Kernel(f, "entry")


def incore(f: Callable[..., Any]) -> Kernel:
    return Kernel(f, "incore")


def inline(f: Callable[..., Any]) -> Kernel:
    return Kernel(f, "inline")


def opaque(f: Callable[..., Any]) -> Kernel:
    return Kernel(f, "opaque")


def module(text: str, **names: Any) -> dict[str, Any]:
    """A text executed as a module whose source Python can find."""
    text = textwrap.dedent(text)
    filename = f"<test-{next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    space = {"pl": pl, "np": np, "entry": entry, "incore": incore, "inline": inline, "opaque": opaque, **names}
    exec(compile(text, filename, "exec", dont_inherit=True), space)
    return space


TENSORS = "a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]"


def kernel(body: str, params: str = TENSORS, scoped: bool = True, **names: Any) -> Kernel:
    """A kernel `k` with this body, inside one scope unless `scoped` is off."""
    lines = textwrap.dedent(body).strip("\n")
    if scoped:
        lines = "with pl.at(level=pl.Level.CORE_GROUP):\n" + textwrap.indent(lines, "    ")
    text = f"@entry\ndef k({params}):\n" + textwrap.indent(lines, "    ") + "\n    return o\n"
    made: Kernel = module(text, **names)["k"]
    return made


def f32(*shape: int, fill: float = 0.0) -> np.ndarray[Any, Any]:
    return np.full(shape, fill, np.float32)


def i32(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int32)


def arrays() -> tuple[np.ndarray[Any, Any], ...]:
    """Arguments for TENSORS: a, b and o FP32 [16, 64], c INT32 [8]."""
    a = np.arange(1024, dtype=np.float32).reshape(16, 64)
    return a, a[::-1].copy(), np.arange(8, dtype=np.int32), np.full((16, 64), -777, np.float32)


def parsed(body: str, params: str = TENSORS, scoped: bool = True, args: tuple[Any, ...] | None = None, **names: Any) -> Program:
    return kernel(body, params, scoped, **names).parse(*(arrays() if args is None else args)).program


def printed(body: str, *rest: Any, **named: Any) -> str:
    return parsed(body, *rest, **named).as_python(concise=True)


def error(make: Callable[[], Any]) -> Error:
    """The error that something raises."""
    try:
        make()
    except Error as e:
        return e
    raise AssertionError("accepted")


def pointed(e: Error) -> str:
    """The piece of source that an error points at."""
    s = e.location
    assert s is not None, repr(e)
    assert e.source_lines, repr(e)
    end = s.end_column - 1 if s.end_line == s.begin_line else None
    return e.source_lines[0][s.begin_column - 1 : end]


def same_ir(a: Program | Function, b: Program | Function) -> None:
    d = compare(a, b, auto_map=True)
    assert d is None, (d.where(), d.left, d.right)


def round_trip(program: Program) -> None:
    made = pl.parse(program.as_python())
    assert isinstance(made, Program)
    same_ir(program, made)

"""The key of an artifact: every input that can change it splits it, and nothing else does."""

import importlib.util
import itertools
import math
import types

import ml_dtypes
import numpy as np
import pytest
from jit_kit import full

import pypto
import pypto.language as pl
from pypto.enums import MemoryPlanner, RuntimeKind
from pypto.jit import dispatch, identity
from pypto.passes.context import PassContext, PassOptions
from pypto.runtime import RunConfig, store, toolchain
from pypto.runtime.ptoas import Ptoas

X = full(1.0)


class _Asked(Exception):
    pass


@pytest.fixture
def key(monkeypatch):
    """The record by which a request for a kernel is looked up; nothing is built."""

    def lookup(self, record, needs=(), *, counted=True):
        if counted:
            raise _Asked(record)
        return real(self, record, needs, counted=counted)

    real = store.Store.lookup
    monkeypatch.setattr(store.Store, "lookup", lookup)

    def of(kernel, *args, **kwargs):
        with pytest.raises(_Asked) as asked:
            kernel.compile(*(args if args or kwargs.keys() - {"config"} else (X, X)), **kwargs)
        return asked.value.args[0]

    return of


_numbers = itertools.count()


@pytest.fixture
def module(tmp_path):
    """A module made of a text, as imported from a file."""

    def make(text, name=None, **names):
        path = tmp_path / f"m{next(_numbers)}.py"
        path.write_text("import pypto.language as pl\n" + text)
        spec = importlib.util.spec_from_file_location(name or path.stem, path)
        made = importlib.util.module_from_spec(spec)
        vars(made).update(names)
        spec.loader.exec_module(made)
        return made

    return make


KERNEL = """
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.mul(x, C)
        y[:] = pl.add(t, 1.0)
    return y
"""


def different(keys):
    assert len(set(keys)) == len(keys)


# -- options --

OPTIONS = [
    PassOptions(),
    PassOptions(memory_planner=MemoryPlanner.DSA_RP),
    PassOptions(memory_planner=MemoryPlanner.PTOAS),
    PassOptions(enable_buffer_ir=False),
    PassOptions(enable_pypto_l0c_double_buffer=True),
    PassOptions(runtime=RuntimeKind.HOST_BUILD_GRAPH),
    PassOptions(platform="a5sim"),
    PassOptions(platform="a2a3"),
]


def within(options):
    return PassContext(
        memory_planner=options.memory_planner,
        enable_buffer_ir=options.enable_buffer_ir,
        enable_pypto_l0c_double_buffer=options.enable_pypto_l0c_double_buffer,
        runtime=options.runtime,
        platform=options.platform,
    )


@pytest.mark.contract("B117")
def test_every_option_of_a_context(key, module):
    k = module(KERNEL, C=2.0).k
    keys = []
    for options in OPTIONS:
        with within(options):
            keys.append(key(k))
    different(keys)
    # Whoever adds a field must say here that it splits the key.
    differing = {n for o in OPTIONS for n in PassOptions._fields if getattr(o, n) != getattr(PassOptions(), n)}
    assert differing == set(PassOptions._fields)
    assert key(k) == keys[0]


def test_options_of_a_run(key, module):
    k = module(KERNEL, C=2.0).k
    plain = key(k)
    assert key(k, config=RunConfig()) == plain
    assert key(k, config=RunConfig(device_id=3, rtol=1.0, aicpu_thread_num=2)) == plain
    keys = [plain, key(k, config=RunConfig(platform="a5")), key(k, config=RunConfig(memory_planner=MemoryPlanner.DSA_RP))]
    different(keys)
    with PassContext(memory_planner=MemoryPlanner.DSA_RP):
        assert key(k) == key(k, config=RunConfig()) == keys[2]


def test_diagnostics_and_verification_do_not_count(key, module):
    k = module(KERNEL, C=2.0).k
    with PassContext(verification_level=0, disabled_diagnostics=()):
        assert key(k) == key(k)
        inside = key(k)
    assert inside == key(k)


def test_what_the_machine_and_the_package_are(key, module, monkeypatch):
    k = module(KERNEL, C=2.0).k
    keys = [key(k)]

    def changed(target, name, value):
        with pytest.MonkeyPatch.context() as patch:
            if target is None:
                patch.setenv(name, value)
            else:
                patch.setattr(target, name, value)
            keys.append(key(k))

    changed(None, "PYPTO_NATIVE_OPT", "0")
    changed(None, "CFLAGS", "-O0")
    changed(None, "CFLAGS", "-O1")
    changed(dispatch, "code_identity", lambda store: "another package")
    changed(identity, "BUFFER_SEMANTICS", identity.BUFFER_SEMANTICS + 1)
    changed(identity, "SCHEMA", identity.SCHEMA + 1)
    changed(toolchain, "cpu_features", lambda: ("none",))
    found = toolchain.find(store.default_store())
    for name in found.identity:
        changed(dispatch, "find", lambda store, new, n=name: found._replace(identity={**found.identity, n: "another"}))
    assembler = {"path": "/ptoas", "version": "1", "content": "c"}
    for more in ({}, {"path": "/other"}, {"version": "2"}, {"content": "d"}):
        changed(dispatch, "find", lambda store, new, m=more: found._replace(ptoas=Ptoas("/ptoas", {**assembler, **m})))
    different(keys)
    assert key(k) == keys[0]
    for name, value in (("PYPTO_VERIFY_LEVEL", "none"), ("PYPTO_NUM_THREADS", "1"), ("PYPTO_LOG_LEVEL", "debug"), ("HOME", "/x")):
        changed(None, name, value)
    assert set(keys[-4:]) == {keys[0]}


# -- source --

LAYOUTS = {
    "as it is": KERNEL,
    "comments": KERNEL.replace("\n    with", "  # a comment\n    # another\n    with"),
    "blank lines": KERNEL.replace("\n        y[:]", "\n\n\n        y[:]"),
    "moved down": "\n\n# other things\nZ = 5\n" + KERNEL,
    "docstring": KERNEL.replace("\n    with", '\n    """What it does."""\n    with'),
    "parentheses": KERNEL.replace("pl.mul(x, C)", "(pl.mul((x), (C)))"),
    "line breaks": KERNEL.replace("pl.mul(x, C)", "pl.mul(\n            x,\n            C,\n        )"),
    "spelling of a number": KERNEL.replace("1.0", "1e0"),
    "inside if": "if True:\n" + KERNEL.replace("\n", "\n    "),
    "other globals": "OTHER = 7\nt = 9\n" + KERNEL,
    "quoted annotation": KERNEL.replace("x: pl.Tensor", 'x: "pl.Tensor"'),
    "decorator with parentheses": KERNEL.replace("@pl.jit", "@pl.jit()"),
}


def test_how_and_where_it_is_written_does_not_count(key, module):
    want = key(module(KERNEL, C=2.0).k)
    for name, text in LAYOUTS.items():
        assert key(module(text, C=2.0).k) == want, name
    later = "from __future__ import annotations\n"
    path_module = module("", C=2.0)
    assert path_module.pl is pl
    assert key(module(KERNEL, name="some.other.name", C=2.0).k) == want
    text = (later + "import pypto.language as pl\n" + KERNEL).replace("import pypto.language as pl\n", "", 1)
    made = types.ModuleType("postponed")
    made.__dict__.update(C=2.0, pl=pl)
    import linecache

    linecache.cache["<postponed>"] = (len(text), None, text.splitlines(True), "<postponed>")
    exec(compile(text, "<postponed>", "exec"), made.__dict__)
    assert key(made.k) == want


TEXTS = {
    "as it is": KERNEL,
    "operator": KERNEL.replace("pl.mul", "pl.div"),
    "operand": KERNEL.replace("pl.add(t, 1.0)", "pl.add(x, 1.0)"),
    "constant": KERNEL.replace("1.0", "1.5"),
    "kind of a constant": KERNEL.replace("1.0", "1"),
    "sign of zero": KERNEL.replace("1.0", "0.0"),
    "negative zero": KERNEL.replace("1.0", "-0.0"),
    "name of the kernel": KERNEL.replace("def k", "def other") + "k = other\n",
    "name of a parameter": KERNEL.replace("x", "z"),
    "order of parameters": KERNEL.replace("x: pl.Tensor, y: pl.Out[pl.Tensor]", "y: pl.Out[pl.Tensor], x: pl.Tensor"),
    "direction": KERNEL.replace("pl.Out[", "pl.InOut["),
    "return": KERNEL.replace("    return y\n", ""),
    "keyword only": KERNEL.replace("x: pl.Tensor, ", "x: pl.Tensor, *, "),
    "another statement": KERNEL.replace("\n        y[:]", "\n        t = pl.add(t, 0.5)\n        y[:]"),
    "option": KERNEL.replace("@pl.jit", "@pl.jit(auto_scope=False)"),
    "name of a local": KERNEL.replace("t = pl.mul", "u = pl.mul").replace("(t,", "(u,"),
}


def test_every_change_of_the_text_counts(key, module):
    keys = {}
    for name, text in TEXTS.items():
        k = module(text, C=2.0).k
        keys[name] = key(k, y=X, x=X) if name == "keyword only" else key(k, X, X)
    different(list(keys.values()))


HELPERS = """
@pl.jit.inline
def inner(t: pl.Tensor):
    return pl.add(t, 1.0)
@pl.jit.inline
def outer(t: pl.Tensor):
    u = inner(t)
    return pl.mul(u, C)
@pl.jit.incore
def kernel(t: pl.Tensor, y: pl.Out[pl.Tensor]):
    y[:] = pl.sub(t, 3.0)
    return y
@pl.jit.inline
def unused(t: pl.Tensor):
    return pl.add(t, 9.0)
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = outer(x)
        y[:] = t
    y = kernel(y, y)
    return y
"""


def test_helpers(key, module):
    def of(text, **names):
        return key(module(text, **{"C": 2.0, **names}).k)

    want = of(HELPERS)
    keys = [
        want,
        of(HELPERS, C=3.0),
        of(HELPERS.replace("1.0", "2.0")),  # of a helper of a helper
        of(HELPERS.replace("pl.mul(u", "pl.div(u")),
        of(HELPERS.replace("3.0", "4.0")),
        of(HELPERS.replace("@pl.jit.incore", "@pl.jit.opaque")),
        of(HELPERS.replace("inline\ndef inner", "inline(auto_scope=False)\ndef inner")),
        of(HELPERS.replace("inner", "renamed")),
        of(HELPERS.replace("t = outer(x)", "t = inner(x)")),
    ]
    different(keys)
    for same in (
        HELPERS.replace("9.0", "8.0"),
        HELPERS.replace("unused", "another"),
        HELPERS.replace("def inner(t: pl.Tensor):", 'def inner(t: pl.Tensor):\n    """Adds."""\n    # one'),
        "\n\n\n" + HELPERS,
    ):
        assert of(same) == want


def test_defaults_of_helpers_count_and_those_of_the_entry_do_not(key, module):
    text = """
@pl.jit.inline
def h(t: pl.Tensor, s: pl.FP32 = D):
    return pl.mul(t, s)
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor], e: pl.FP32 = E):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = h(x)
        y[:] = pl.add(t, e)
    return y
"""
    different([key(module(text, D=d, E=1.0).k) for d in (1.0, 2.0, 1, True)])
    assert key(module(text, D=1.0, E=1.0).k) == key(module(text, D=1.0, E=2.0).k)


def test_the_same_helper_by_another_route(key, module):
    """Which module a helper lives in and what it is called there do not count; which helper it is does."""
    helper = """
@pl.jit.inline
def h(t: pl.Tensor):
    return pl.mul(t, 2.0)
"""
    entry = """
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = h(x)
        y[:] = t
    return y
"""
    one, two = module(helper), module("# elsewhere\n" + helper)
    assert key(module(entry, h=one.h).k) == key(module(entry, h=two.h).k) == key(module(helper + entry).k)
    assert key(module(entry, h=module(helper.replace("2.0", "3.0")).h).k) != key(module(entry, h=one.h).k)


# -- values --

VALUES = [
    1,
    True,
    1.0,
    0,
    False,
    0.0,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    2,
    -1,
    2**40,
    "1",
    "one",
    "",
    (1,),
    [1],
    (1.0,),
    (True,),
    (),
    [],
    ((1,),),
    None,
    pl.FP32,
    pl.INT32,
    MemoryPlanner.PYPTO,
    MemoryPlanner.DSA_RP,
    pl.Level.CORE_GROUP,
    pl.dynamic("M"),
    pl.dynamic("N"),
]
TAKING = """
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.take(x, C)
    return y
"""


def of_cell(value):
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, value)
        return y

    return k


def test_every_value_and_its_type(key, module):
    different([key(module(TAKING, C=v).k) for v in VALUES])
    different([key(of_cell(v)) for v in VALUES])


def test_equal_values_are_equal(key, module):
    m = module(TAKING, C=1)
    for a, b in (
        (math.nan, -math.nan),
        (math.nan, float("nan")),
        (1000, int("1000")),
        ("word", "".join(["wo", "rd"])),
        ([64, 64], [64, 64]),
        ((1, 2.0), tuple([1, 2.0])),
        (pl.dynamic("Q"), pl.dynamic("Q")),
    ):
        m.C = a
        first = key(m.k)
        m.C = b
        assert key(m.k) == first


def test_lists_are_taken_by_content(key, module):
    shape = [64, 64]
    m = module(TAKING, C=shape)
    first = key(m.k)
    shape[1] = 32
    second = key(m.k)
    shape[1] = 64
    assert key(m.k) == first != second


def test_names_that_nothing_reads(key, module):
    m = module(KERNEL, C=2.0)
    want = key(m.k)
    m.D, m.t, m.x, m.print = 1, 2, 3, 4
    assert key(m.k) == want
    m.C = 3.0
    assert key(m.k) != want
    del m.C
    assert key(m.k) != want


# -- arguments --


def test_dtypes_ranks_and_extents(key, module):
    k = module(KERNEL, C=2.0).k
    arrays = [
        full(1.0),
        full(1.0, (32, 64)),
        full(1.0, (64, 32)),
        full(1.0, (4096,)),
        full(1.0, (1, 64, 64)),
        full(1.0, (64, 64), np.float16),
        full(1.0, (64, 64), ml_dtypes.bfloat16),
        *(np.zeros((64, 64), d) for d in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?")),
    ]
    different([key(k, a, a) for a in arrays])
    different([key(k, X, X), key(k, X, full(1.0, (64, 64), np.float16)), key(k, full(1.0, (64, 64), np.float16), X)])


def test_values_layout_and_owner_of_arrays_do_not_count(key, module):
    k = module(KERNEL, C=2.0).k
    want = key(k)
    read_only = full(2.0)
    read_only.flags.writeable = False
    for a in (full(5.0), full(math.nan), X.T, X[::-1], read_only, memoryview(full(1.0))):
        assert key(k, a, a) == want


ROWS = """
N = pl.dynamic("N")
M = pl.dynamic("M")
@pl.jit
def k(x: pl.Tensor[[N, 64], pl.FP32], y: pl.Out[pl.Tensor[[N, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[0:8, :] = pl.mul(x[0:8, :], 2.0)
    return y
"""


def test_dynamic_extents(key, module):
    k = module(ROWS).k
    want = key(k, full(1.0, (8, 64)), full(1.0, (8, 64)))
    for n in (16, 24, 0):
        assert key(k, full(1.0, (n, 64)), full(1.0, (n, 64))) == want
    fixed = ROWS.replace("x: pl.Tensor[[N, 64]", "x: pl.Tensor[[8, 64]")
    other = ROWS.replace("y: pl.Out[pl.Tensor[[N, 64]", "y: pl.Out[pl.Tensor[[M, 64]")
    both = ROWS.replace("[[N, 64]", "[[N, M]")
    bare = ROWS.replace(
        "x: pl.Tensor[[N, 64], pl.FP32], y: pl.Out[pl.Tensor[[N, 64], pl.FP32]]", "x: pl.Tensor, y: pl.Out[pl.Tensor]"
    )
    bound = bare.replace("    with", "    x.bind_dynamic(0, N)\n    with")
    a = full(1.0, (8, 64))
    different([want, *(key(module(t).k, a, a) for t in (fixed, other, both, bare, bound))])


def of_scalars():
    @pl.jit
    def k(x: pl.Tensor, s: pl.FP32, n: pl.INDEX, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.mul(x, s)
            if n > 0:
                r = pl.yield_(pl.add(t, 1.0))
            else:
                r = pl.yield_(t)
            y[:] = r
        return y

    return k


def test_run_time_scalars_do_not_count(key):
    k = of_scalars()
    want = key(k, X, 1.0, 1, X)
    for s, n in ((2.0, 1), (1, 0), (-0.0, -5), (math.nan, 2**40), (np.float16(3), True)):
        assert key(k, X, s, n, X) == want
    assert key(k, x=X, n=3, y=X, s=3.0) == want


def test_constants_by_need_count(key, tmp_path):
    @pl.jit
    def k(x: pl.Tensor, width: pl.INDEX, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.slice(x, [64, width], [0, 0])
            y[0:64, 0:width] = pl.mul(t, 2.0)
        return y

    # The general request is looked up first, and the compiler says that it needs a constant.
    def asked(width):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dispatch, "parameter_needed", lambda store, record, arguments: any_scalar(arguments))
            return key(k, X, width, X)

    def any_scalar(arguments):
        from pypto.frontend.specialization import ScalarArg

        return next((n for n, a in arguments.items() if isinstance(a, ScalarArg)), "")

    different([asked(32), asked(16), asked(8)])
    assert asked(16) == asked(np.int64(16))


def test_every_part_of_a_record_is_seen_above(key, module):
    """A new part of the record wants a line in one of these tests."""
    from pypto.runtime.record import Record

    assert set(Record.decode(key(module(KERNEL, C=2.0).k)).parts) == {
        "schema",
        "kernel",
        "parameters",
        "values",
        "helpers",
        "memory_planner",
        "enable_buffer_ir",
        "buffer_semantics",
        "l0c_double_buffer",
        "runtime",
        "platform",
        "native_opt",
        "pypto",
        "toolchain",
        "ptoas",
        "byte_order",
    }


def test_values_without_identity_are_errors(module):
    class Thing:
        pass

    for value in (Thing(), object, np.float32(1), np.zeros(3), 2**64, {1: 2}, {1, 2}, [Thing()], b"x", 1j, lambda: 0):
        k = module(KERNEL, C=value).k
        with pytest.raises(pypto.Error) as caught:
            k.compile(X, X)
        assert "C" in caught.value.source_lines[0], value

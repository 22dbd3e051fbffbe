"""What a kernel depends on: its parts of the key, and the guards by which a change is seen."""

import gc
import types

import pytest

import pypto.language as pl
from pypto.errors import ArgumentTypeError, ArgumentValueError
from pypto.frontend.source import Source, capture
from pypto.jit.dependencies import blame, collect, describe, is_helper
from pypto.runtime.record import Record, encode

MISSING = object()
settings = types.ModuleType("settings")
settings.FACTOR = 2.0
LIST = [1, 2]
NESTED = (1, [2, 3])


@pl.jit.inline
def inner(t: pl.Tensor, s: pl.FP32 = 4.0):
    return pl.mul(t, s)


@pl.jit.incore
def helper(t: pl.Tensor, y: pl.Out[pl.Tensor]):
    y[:] = inner(t)
    return y


def found(function, **options):
    return collect(capture(function), options, MISSING)


def kinds(dependencies):
    """Guards as (kind, what): names of globals, "cell", "call"."""
    return {(g[0], g[2] if g[0] == "global" else "") for g in dependencies.guards}


def reading_everything():
    cell = 3.0

    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        t = pl.mul(x, settings.FACTOR)
        u = pl.add(t, cell)
        v = pl.take(u, LIST, NESTED, len)
        y = helper(v, y)
        y = helper(v, y)
        return y

    return k


def test_helpers_are_numbered_as_they_are_met():
    d = found(reading_everything())
    assert [s.name for s in d.sources] == ["k", "helper", "inner"]
    assert d.parts["kernel"][0] == "entry"
    assert [h[0] for h in d.parts["helpers"]] == ["incore", "inline"]
    Record(d.parts)  # everything in it has an identity


def test_values_by_source_and_name():
    values = {(at, name): value for at, name, value in found(reading_everything()).parts["values"]}
    assert values[0, "settings.FACTOR"] == 2.0
    assert values[0, "cell"] == 3.0
    assert values[0, "LIST"] == [1, 2]
    assert values[0, "helper"] == ("helper", 1)
    assert values[1, "inner"] == ("helper", 2)
    assert values[2, "s="] == 4.0
    assert values[0, "len"] == ("builtin", "len")
    assert (0, "x:") in values
    assert not any(name == "x" or name == "t" for _, name in values)


def test_every_name_has_a_guard():
    guards = kinds(found(reading_everything()))
    assert {("global", n) for n in ("settings", "FACTOR", "LIST", "NESTED", "helper", "inner", "len", "pl")} <= guards
    assert ("cell", "") in guards
    assert ("call", "") in guards


def test_guards_hold_what_was_seen():
    for guard in found(reading_everything()).guards:
        if guard[0] == "global":
            assert guard[1].get(guard[2], MISSING) is guard[3]
        elif guard[0] == "cell":
            assert guard[1].cell_contents is guard[2]
        else:
            assert guard[1]()


def test_containers_are_watched_by_content():
    (first, second) = (g[1] for g in found(reading_everything()).guards if g[0] == "call")
    assert first()
    assert second()
    LIST.append(3)
    try:
        assert not first()
        NESTED[1].append(9)
        assert not second()
    finally:
        del LIST[2:], NESTED[1][2:]
    assert first()
    assert second()


def test_a_container_that_contains_itself():
    loop = [1]
    loop.append(loop)

    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        y[:] = pl.take(x, loop)
        return y

    d = found(k)
    with pytest.raises(ArgumentValueError, match=r"'loop': .*nested deeper") as caught:
        blame(d)
    assert caught.value.source_lines[0].strip() == "y[:] = pl.take(x, loop)"
    with pytest.raises(ArgumentValueError):
        Record(d.parts)
    loop.clear()


def test_the_first_value_without_identity_is_blamed():
    thing, other = object(), object()

    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        y[:] = pl.take(x, 1, thing, other)
        return y

    with pytest.raises(ArgumentTypeError, match=r"'thing': .*builtins\.object") as caught:
        blame(found(k))
    assert caught.value.code == "A110"
    assert caught.value.span["column"] == caught.value.source_lines[0].index("thing") + 1
    assert other is not thing
    blame(found(reading_everything()))  # nothing to say


def test_a_name_that_is_not_there():
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        y[:] = pl.take(x, nowhere, settings.nothing)  # noqa: F821
        return y

    d = found(k)
    values = {name: value for _, name, value in d.parts["values"]}
    assert values["nowhere"] == values["settings.nothing"] == ("absent",)
    assert {g[2]: g[3] for g in d.guards if g[0] == "global"}["nowhere"] is MISSING
    assert {g[2]: g[3] for g in d.guards if g[0] == "global"}["nothing"] is MISSING


def test_an_empty_cell():
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        y[:] = pl.take(x, later)
        return y

    d = found(k)
    later = 5
    assert next(g[2] for g in d.guards if g[0] == "cell") is MISSING
    assert {name: value for _, name, value in d.parts["values"]}["later"] == ("absent",)
    assert later == 5


def test_helpers_of_each_other_end():
    d = found(ping.source.function)
    # The entry is a capture of its own; the helper of that name is met through the other one.
    assert [s.name for s in d.sources] == ["ping", "pong", "ping"]


@pl.jit.inline
def ping(t: pl.Tensor):
    return pong(t)


@pl.jit.inline
def pong(t: pl.Tensor):
    return ping(t)


def test_options_of_decorators_count():
    k = reading_everything()
    assert encode(found(k).parts["kernel"]) != encode(found(k, auto_scope=False).parts["kernel"])
    assert encode(found(k, auto_scope=True).parts["kernel"]) != encode(found(k, auto_scope=False).parts["kernel"])


def test_what_is_a_helper():
    assert is_helper(helper)
    assert not any(map(is_helper, (None, 3, reading_everything(), pl.mul, settings, Source)))


def test_descriptions_tell_kinds_apart():
    values = [
        pl.mul,
        pl.add,
        pl.Tensor,
        pl.Tensor[[4], pl.FP32],
        pl.Out[pl.Tensor],
        pl.dynamic("N"),
        "N",
        settings,
        len,
        int,
        None,
        0,
    ]
    assert len({encode(describe(v)) for v in values}) == len(values)
    assert encode(describe(pl.Tensor[[4], pl.FP32])) == encode(describe(pl.Tensor[(4,), pl.FP32]))
    assert describe(Source.ABSENT) == ("absent",)


def test_guards_do_not_keep_the_kernel_alive():
    import weakref

    k = pl.jit(reading_everything())
    died, d = weakref.ref(k), collect(k.source, {}, MISSING)
    del k
    gc.collect()
    assert died() is None
    assert d.guards

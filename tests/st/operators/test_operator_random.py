"""Random numbers by key and counter: words of ChaCha blocks, the same in every way of running a kernel."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from lab import ALL, agree, everywhere

import pypto.language as pl
from pypto import ir
from pypto.errors import NotSupportedError

M = 0xFFFFFFFF


def quarter(s: list[int], a: int, b: int, c: int, d: int) -> None:
    """RFC 8439, section 2.1."""
    for x, y, z, n in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        s[x] = (s[x] + s[y]) & M
        s[z] ^= s[x]
        s[z] = ((s[z] << n) | (s[z] >> (32 - n))) & M


ROUNDS = (
    ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)),
    ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)),
)


def words(key: tuple[int, int], counter: tuple[int, ...], rounds: int, count: int) -> np.ndarray:
    out: list[int] = []
    first = sum((w & M) << 32 * i for i, w in enumerate(counter))
    for n in range(-(-count // 16)):
        number = (first + n) % (1 << 128)
        begin = [*struct.unpack("<4I", b"expand 32-byte k"), key[0] & M, key[1] & M, *[0] * 6]
        begin += [number >> 32 * i & M for i in range(4)]
        state = list(begin)
        for r in range(rounds):
            for at in ROUNDS[r % 2]:
                quarter(state, *at)
        out += [(x + y) & M for x, y in zip(state, begin, strict=True)]
    return np.array(out[:count], np.uint32)


def test_the_quarter_round() -> None:
    s = [0x11111111, 0x01020304, 0x9B8D6F43, 0x01234567]
    quarter(s, 0, 1, 2, 3)
    assert s == [0xEA2A92F4, 0xCB1CF8CE, 0x4581472E, 0x5881C4BB]


@pl.jit
def tensors(k: pl.INT32, c: pl.INT32, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.random(k, 7, c, -1, c, 3, [8, 32])
    return o


@pl.jit
def tiles(k: pl.INT32, c: pl.INT32, n: pl.INDEX, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.tile.random(1, k, c, -1, -1, -1, [6, 24], dtype=pl.INT32, rounds=7, valid_shape=[n, 13])
        o = pl.store(t, [0, 0], o)
    return o


def test_every_way_gives_the_words_of_the_definition() -> None:
    calls = [(k, c, np.zeros((8, 32), np.uint32)) for k, c in ((0, 0), (-5, 9), (2**31 - 1, -(2**31)))]
    for (k, c, _), got in zip(calls, agree(tensors, *calls, ways=ALL), strict=True):
        np.testing.assert_array_equal(got[0].reshape(-1), words((k, 7), (c, -1, c, 3), 10, 256))


def test_a_part_has_the_words_of_the_whole() -> None:
    """The counter runs over at its end; what is not valid is not written."""
    calls = [(3, -2, n, np.full((6, 24), -7, np.int32)) for n in (6, 1, 0)]
    for (k, c, n, _), got in zip(calls, agree(tiles, *calls), strict=True):
        want = np.full((6, 24), -7, np.int32)
        want[:n, :13] = words((1, k), (c, -1, -1, -1), 7, 144).view(np.int32).reshape(6, 24)[:n, :13]
        np.testing.assert_array_equal(got[0], want)


def test_other_words_other_numbers() -> None:
    seen = {everywhere(tensors, k, c, np.zeros((8, 32), np.uint32))[0].tobytes() for k in (0, 1) for c in (0, 1)}
    assert len(seen) == 4


def operands(*more: Any) -> list[Any]:
    return [*(ir.ConstInt(n, pl.INT32) for n in range(6)), *more]


def test_refusals() -> None:
    assert ir.op.tile.random(*operands([8, 32]), dtype=pl.UINT32).type.shape[1].value == 32
    for args, kwargs, words_ in (
        (operands([8, 32]), {"dtype": pl.FP32}, "fp32"),
        (operands([8, 32]), {"dtype": pl.INT32, "rounds": 20}, "'rounds' is 20"),
        (operands([2, 8, 32]), {"dtype": pl.INT32}, "two dimensions"),
        (operands([8, 32], [9, 32]), {"dtype": pl.INT32}, "not within"),
    ):
        with pytest.raises((ValueError, TypeError), match=words_):
            ir.op.tile.random(*args, **kwargs)
    with pytest.raises(TypeError, match="'counter3' is INT32, got index"):
        ir.op.tile.random(*operands()[:5], 3, [8, 32], dtype=pl.INT32)


def test_text_for_chips_that_have_it() -> None:
    from pypto.codegen.pto import module_of
    from pypto.passes.pipeline import lower

    made = lower(tensors.specialize(1, 2, np.zeros((8, 32), np.uint32))).host
    (kernel,) = (f for f in made.function_list if f.is_device)
    assert "pto.trandom ins(" in module_of([kernel], "a5", True, False)
    with pytest.raises(NotSupportedError, match="trandom"):
        module_of([kernel], "a2a3", True, False)

"""Kernels launched in blocks by the call itself, without a function around them."""

from codegen_kit import agree, np

BODY = """
i: pl.Scalar[pl.INDEX] = pl.tile.get_block_idx()
t: [8, 64] @ 0 = pl.tile.load(a, (i * 8, 0), (8, 64), (8, 64), target_memory=pl.Mem.Vec)
pl.tile.store(t, (i * 8, 0), o)
"""


def test_every_block_of_a_direct_launch_runs(tmp_path):
    a = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    arrays = [a, a, np.full((64, 64), -777, np.float32)]
    for launch, blocks in (('attrs={"core_num": 3}', 3), ('attrs={"core_num": n}', 5), ("", 1)):
        got = agree(BODY, tmp_path / str(blocks), 5, arrays=arrays, launch=launch)
        np.testing.assert_array_equal(got[: 8 * blocks], a[: 8 * blocks])
        np.testing.assert_array_equal(got[8 * blocks :], -777)

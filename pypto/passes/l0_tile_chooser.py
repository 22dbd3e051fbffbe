"""How large the pieces of a product are that the matrix unit takes at once.

In: the extents of a product, the bytes of its elements, and what a chip's memories hold and move.  Out: rows, columns and
depth of a piece, in whole boxes, with the least estimated time.  A choice changes no result: sums are in ascending k.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.named import NamedTuple

__all__ = ["L0TileConfig", "L0TileResult", "Machine", "choose_l0_tile"]

BOX = 16  # rows and columns of a box of products


class Machine(NamedTuple):
    """Bytes per cycle into Left and Right memory, and what draining a piece of the product costs in cycles."""

    left: float
    right: float
    fixed: float  # per piece
    row: float  # per row, at least
    bandwidth: float  # bytes per cycle
    penalty: float  # per row, for an odd number of boxes


MACHINES = {"a2a3": Machine(129.7, 85.4, 164.0, 4.45, 118.0, 2.6), "a5": Machine(206.3, 223.8, 343.4, 4.59, 30.0, 0.26)}


class L0TileConfig(NamedTuple):
    """A product [M, K] x [K, N]; extents in elements, capacities in bytes.

    `row_align`: what rows of sums are rounded up to in memory; `accumulates`: sums are read before they are written;
    `bias`: bytes of Bias memory that a row of N sums has to fit into, 0 without a bias.
    """

    M: int
    N: int
    K: int
    bytes_a: int = 2
    bytes_b: int = 2
    bytes_c: int = 4
    l0a_bytes: int = 64 << 10
    l0b_bytes: int = 64 << 10
    l0c_bytes: int = 128 << 10
    row_align: int = BOX
    double_buffer_c: bool = False
    accumulates: bool = False
    bias_bytes: int = 0
    machine: Machine = MACHINES["a2a3"]


class L0TileResult(NamedTuple):
    """Rows, columns and depth of a piece, and the estimated cycles of the whole product."""

    m: int
    n: int
    k: int
    wall: float


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _c_fits(c: L0TileConfig, m: int, n: int) -> bool:
    size = _up(_up(m, BOX), c.row_align) * _up(n, BOX) * c.bytes_c * (2 if c.double_buffer_c else 1)
    return size <= c.l0c_bytes and not (c.bias_bytes and n * c.bytes_c > c.bias_bytes)


def _depths(c: L0TileConfig, m: int, n: int) -> Iterator[int]:
    """All of K where it fits; else the largest depth of which two fit, so that one is filled while the other is used."""
    unit = max(BOX, 32 // c.bytes_a, 32 // c.bytes_b)  # boxes of operands are 32 bytes deep
    whole = _up(c.K, unit)
    if m * whole * c.bytes_a <= c.l0a_bytes and whole * n * c.bytes_b <= c.l0b_bytes:
        yield whole
        return
    most = min(c.l0a_bytes // (2 * m * c.bytes_a), c.l0b_bytes // (2 * n * c.bytes_b)) // unit * unit
    if most:
        yield most
        yield from (k for k in range(most - unit, most // 2, -unit) if whole % k == 0)


def _wall(c: L0TileConfig, m: int, n: int, k: int) -> tuple[float, float, float, float, int]:
    rows, cols, depth = -(-c.M // m), -(-c.N // n), -(-c.K // k)
    a, b = c.M * c.K * c.bytes_a / c.machine.left, c.K * c.N * c.bytes_b / c.machine.right
    load = a * cols + b * rows
    if depth == 1:  # a piece of an operand may stay while the other's pass by
        load = min(load, a + b * rows, a * cols + b)
    long = 32 // c.bytes_a
    padded = rows * cols * depth * (_up(m, BOX) // BOX) * (_up(n, BOX) // BOX) * -(-k // long)
    boxes = -(-n * c.bytes_c // 32)
    per_row = max(c.machine.row, c.bytes_c * n / c.machine.bandwidth) + c.machine.penalty * (boxes % 2)
    drain = rows * cols * (c.machine.fixed + m * per_row) * (2 if c.accumulates else 1)
    if c.double_buffer_c:
        wall = max(load, padded, drain) + min(max(load, padded), drain) / (rows * cols)
    else:
        wall = max(load, padded) + drain
    return wall, padded, depth, load, -n


def choose_l0_tile(config: L0TileConfig) -> L0TileResult | None:
    """The piece with the least estimated time; ties go to less padding, then fewer steps along K, then less to load.

    None where not even one box of each operand fits.
    """
    best: tuple[tuple[float, float, float, float, int], int, int, int] | None = None
    for m in range(BOX, _up(config.M, BOX) + 1, BOX):
        if m * BOX * config.bytes_a > config.l0a_bytes or not _c_fits(config, m, BOX):
            break
        for n in range(BOX, _up(config.N, BOX) + 1, BOX):
            if n * BOX * config.bytes_b > config.l0b_bytes or not _c_fits(config, m, n):
                break
            for k in _depths(config, m, n):
                found = (_wall(config, m, n, k), m, n, k)
                if best is None or found[0] < best[0]:
                    best = found
    return None if best is None else L0TileResult(best[1], best[2], best[3], best[0][0])

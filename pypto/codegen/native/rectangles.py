"""Rows and columns of tiles, as the access form counts them: all axes but the last are rows, in row-major order."""

from __future__ import annotations

from math import prod

from pypto.codegen.native.access import ZERO
from pypto.dtypes import DataType
from pypto.enums import TileLayout
from pypto.errors import InternalError
from pypto.ir import arith
from pypto.ir.expr import Expr, MakeTuple, Var, const_index
from pypto.ir.shaped import ShapedType, TileType, const_dims
from pypto.ir.types import Type

__all__ = ["dtype_of", "elements", "extents", "flat_valid", "need", "pair", "strides", "tile_of", "valid_rect", "whole"]


def need(var: Var | None) -> Var:
    if var is None:
        raise InternalError("a tile operation without a result")
    return var


def tile_of(e: Expr) -> TileType:
    assert isinstance(e.type, TileType)
    return e.type


def dtype_of(t: Type) -> DataType:
    return t.dtype  # type: ignore[attr-defined,no-any-return]


def elements(e: Expr) -> tuple[Expr, ...]:
    assert isinstance(e, MakeTuple)
    return e.elements


def pair(values: tuple[Expr, ...]) -> tuple[Expr, Expr]:
    """An offset as row and column."""
    return (ZERO, values[0]) if len(values) == 1 else (values[0], values[1])


def extents(t: Type) -> tuple[int, int]:
    """Physical rows and columns of a tile."""
    assert isinstance(t, TileType)
    dims = const_dims(t.shape)
    if dims is None:
        raise InternalError(f"a tile of shape {t.shape} reached code generation")
    return prod(dims[:-1]), dims[-1]


def strides(t: TileType) -> tuple[int, int]:
    """Elements from one row, and from one column, to the next.

    Boxes are the device's concern: no view looks across them, so that their tiles are stored row by row.
    """
    rows, cols = extents(t)
    return (cols, 1) if t.layout.blayout is TileLayout.row_major or not t.layout.is_flat else (1, rows)


def whole(t: Type) -> tuple[Expr, Expr]:
    """The physical extents as expressions."""
    rows, cols = extents(t)
    return const_index(rows), const_index(cols)


def valid_rect(t: Type) -> tuple[Expr, Expr]:
    """Valid rows and columns."""
    assert isinstance(t, ShapedType)
    return flat_valid(t.valid)


def flat_valid(v: tuple[Expr, ...]) -> tuple[Expr, Expr]:
    return arith.product(v[:-1]), v[-1]

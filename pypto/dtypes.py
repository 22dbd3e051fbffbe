"""Element types: one interned object per type, with its code, width and numpy counterpart.

The codes are part of the serialized form.  numpy is asked for only when a numpy dtype is needed, and `ml_dtypes`
only for the types numpy itself lacks, so that importing the language stays cheap.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ALL_DTYPES", "DataType", "from_numpy", "nearest"]


class DataType:
    """An element type.  Compare with `==` or `is`; instances are unique per code."""

    __slots__ = ("_bits", "_c", "_code", "_kind", "_name", "_numpy", "_text")

    BOOL: ClassVar[DataType]
    INT4: ClassVar[DataType]
    INT8: ClassVar[DataType]
    INT16: ClassVar[DataType]
    INT32: ClassVar[DataType]
    INT64: ClassVar[DataType]
    INDEX: ClassVar[DataType]
    UINT4: ClassVar[DataType]
    UINT8: ClassVar[DataType]
    UINT16: ClassVar[DataType]
    UINT32: ClassVar[DataType]
    UINT64: ClassVar[DataType]
    FP4: ClassVar[DataType]
    FP8E4M3FN: ClassVar[DataType]
    FP8E5M2: ClassVar[DataType]
    FP8E8M0: ClassVar[DataType]
    FP16: ClassVar[DataType]
    FP32: ClassVar[DataType]
    BF16: ClassVar[DataType]
    HF4: ClassVar[DataType]
    HF8: ClassVar[DataType]
    TASK_ID: ClassVar[DataType]
    DEFAULT_CONST_INT: ClassVar[DataType]
    DEFAULT_CONST_FLOAT: ClassVar[DataType]

    def __init__(self, name: str, code: int, bits: int, text: str, kind: str, c: str, numpy: str) -> None:
        self._name, self._code, self._bits, self._text = name, code, bits, text
        self._kind, self._c, self._numpy = kind, c, numpy

    @staticmethod
    def from_code(code: int) -> DataType:
        """The type with this serialized code; ValueError for an unknown one."""
        try:
            return _BY_CODE[code]
        except KeyError:
            raise ValueError(f"unknown data type code {code!r}") from None

    @property
    def name(self) -> str:
        """The DSL spelling, e.g. `FP32`."""
        return self._name

    def code(self) -> int:
        return self._code

    def get_bit(self) -> int:
        return self._bits

    def get_byte(self) -> int:
        """Bytes of one element, 4-bit types rounded up."""
        return (self._bits + 7) // 8

    def to_string(self) -> str:
        return self._text

    def to_c_type_string(self) -> str:
        return self._c or "unknown"

    def is_float(self) -> bool:
        return self._kind == "f"

    def is_signed_int(self) -> bool:
        return self._kind == "i"

    def is_unsigned_int(self) -> bool:
        return self._kind == "u"

    def is_int(self) -> bool:
        return self._kind in "iu"

    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype of the same bits; TypeError for types that have none."""
        import numpy as np

        if not self._numpy:
            raise TypeError(f"{self._name} has no numpy counterpart")
        if self._numpy.startswith("ml:"):
            import ml_dtypes

            name: Any = getattr(ml_dtypes, self._numpy[3:])
        else:
            name = self._numpy
        found: np.dtype[Any] = np.dtype(name)
        return found

    def __repr__(self) -> str:
        return f"DataType.{self._name}"

    def __str__(self) -> str:
        return self._text

    def __hash__(self) -> int:
        return self._code

    def __eq__(self, other: object) -> bool:
        return self is other

    def __reduce__(self) -> tuple[Any, tuple[int]]:
        return DataType.from_code, (self._code,)


# name, code, bits, text, kind, C type, numpy dtype ("ml:" = from ml_dtypes)
_TABLE: tuple[tuple[str, int, int, str, str, str, str], ...] = (
    ("BOOL", 0x00, 1, "bool", "b", "bool", "bool"),
    ("INT4", 0x10, 4, "int4", "i", "", "ml:int4"),
    ("INT8", 0x11, 8, "int8", "i", "int8_t", "int8"),
    ("INT16", 0x12, 16, "int16", "i", "int16_t", "int16"),
    ("INT32", 0x13, 32, "int32", "i", "int32_t", "int32"),
    ("INT64", 0x14, 64, "int64", "i", "int64_t", "int64"),
    ("INDEX", 0x15, 64, "index", "i", "int64_t", "int64"),
    ("UINT4", 0x20, 4, "uint4", "u", "", "ml:uint4"),
    ("UINT8", 0x21, 8, "uint8", "u", "uint8_t", "uint8"),
    ("UINT16", 0x22, 16, "uint16", "u", "uint16_t", "uint16"),
    ("UINT32", 0x23, 32, "uint32", "u", "uint32_t", "uint32"),
    ("UINT64", 0x24, 64, "uint64", "u", "uint64_t", "uint64"),
    ("FP4", 0x30, 4, "fp4", "f", "float4_e2m1", "ml:float4_e2m1fn"),
    ("FP8E4M3FN", 0x31, 8, "fp8e4m3fn", "f", "float8_e4m3", "ml:float8_e4m3fn"),
    ("FP8E5M2", 0x32, 8, "fp8e5m2", "f", "float8_e5m2", "ml:float8_e5m2"),
    ("FP16", 0x33, 16, "fp16", "f", "half", "float16"),
    ("FP32", 0x34, 32, "fp32", "f", "float", "float32"),
    ("FP8E8M0", 0x36, 8, "fp8e8m0", "f", "float8_e8m0", "ml:float8_e8m0fnu"),
    ("BF16", 0x40, 16, "bfloat16", "f", "bfloat16", "ml:bfloat16"),
    ("HF4", 0x41, 4, "hf4", "f", "", ""),
    ("HF8", 0x42, 8, "hf8", "f", "", ""),
    ("TASK_ID", 0x50, 64, "task_id", "t", "", ""),
)

ALL_DTYPES: tuple[DataType, ...] = tuple(DataType(*row) for row in _TABLE)
_BY_CODE = {d.code(): d for d in ALL_DTYPES}
for _d in ALL_DTYPES:
    setattr(DataType, _d.name, _d)
DataType.DEFAULT_CONST_INT = DataType.INT64
DataType.DEFAULT_CONST_FLOAT = DataType.FP32

_FROM_NUMPY = {d._numpy.removeprefix("ml:"): d for d in ALL_DTYPES if d._numpy and d.name != "INDEX"}


def from_numpy(dtype: np.dtype[Any]) -> DataType | None:
    """The element type of a native-byte-order numpy dtype, or None where there is none."""
    return _FROM_NUMPY.get(dtype.name) if dtype.isnative else None


def nearest(value: float, dtype: DataType) -> float:
    """A double rounded once, to nearest even, to FP32, FP16 or BF16; beyond the largest finite number it is an infinity."""
    if dtype is DataType.BF16:
        return _nearest_bf16(value)
    import numpy as np

    with np.errstate(over="ignore"):
        return float(np.float16(value) if dtype is DataType.FP16 else np.float32(value))


def _nearest_bf16(value: float) -> float:
    if value != value or math.isinf(value) or value == 0:
        return value
    _, e = math.frexp(value)  # value = m * 2**e with |m| in [0.5, 1)
    quantum = max(e - 8, -133)  # 8 significant bits; the smallest subnormal is 2**-133
    scaled = math.ldexp(value, -quantum)
    rounded = math.ldexp(float(round(scaled)), quantum)  # round() is half to even and exact here
    return math.copysign(math.inf, value) if abs(rounded) > 3.3895313892515355e38 else rounded

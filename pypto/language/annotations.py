"""What stands after the colon: `pl.Tensor[[M, 64], pl.FP32]`, `pl.Tile[...]`, `pl.Out[...]`, and the views inside.

In: whatever the user wrote between the brackets.  Out: inert records.  They check only their own form; extents, dtypes
and combinations are judged by the parser, which knows the place in the source.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from pypto.dtypes import DataType
from pypto.enums import CompactMode, PadValue, ParamDirection, TensorLayout, TileLayout

__all__ = [
    "RUNTIME",
    "Annotation",
    "Array",
    "Directed",
    "InOut",
    "MemRef",
    "MemRefSlot",
    "MemRefType",
    "Opaque",
    "Out",
    "Ptr",
    "PtrType",
    "Runtime",
    "Scalar",
    "TaskId",
    "Tensor",
    "TensorView",
    "Tile",
    "TileView",
    "Tuple",
    "const",
]


class Annotation:
    """A type form with its arguments: `form` is tensor, tile, scalar, array or tuple."""

    __slots__ = ("args", "form")

    def __init__(self, form: str, args: tuple[Any, ...]) -> None:
        self.form, self.args = form, args

    @property
    def shape(self) -> Any:
        """The extents as written, for tensors and tiles."""
        return self.args[0]

    @property
    def dtype(self) -> Any:
        """The dtype as written, or None where it is missing."""
        at = {"tensor": 1, "tile": 1, "scalar": 0, "array": 1}.get(self.form)
        return self.args[at] if at is not None and at < len(self.args) else None

    def __repr__(self) -> str:
        name = {"tensor": "Tensor", "tile": "Tile", "scalar": "Scalar", "array": "Array", "tuple": "Tuple"}[self.form]
        return f"pl.{name}[{', '.join(map(_text, self.args))}]"


def _text(value: Any) -> str:
    if isinstance(value, DataType):
        return f"pl.{value.name}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_text, value)) + "]"
    return repr(value)


def _args(item: Any) -> tuple[Any, ...]:
    # A list that changes later does not change the annotation.
    return tuple(a.copy() if isinstance(a, list) else a for a in (item if isinstance(item, tuple) else (item,)))


class _Form(type):
    """`Tensor[...]` is an annotation; bare `Tensor` stands for itself."""

    form: ClassVar[str] = ""

    def __getitem__(cls, item: Any) -> Annotation:
        return Annotation(cls.form, _args(item))

    def __repr__(cls) -> str:
        return f"pl.{cls.__name__}"

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"pl.{cls.__name__} is a type annotation: write pl.{cls.__name__}[...] after a colon")


class Tensor(metaclass=_Form):
    """`pl.Tensor[[d0, ...], dtype(, layout | TensorView | MemRef)]`: data in global memory."""

    form = "tensor"


class Tile(metaclass=_Form):
    """`pl.Tile[[rows, cols], dtype(, MemRef)(, Mem)(, TileView)]`: data on the chip."""

    form = "tile"


class Scalar(metaclass=_Form):
    """`pl.Scalar[dtype]`: one run-time value."""

    form = "scalar"


class Array(metaclass=_Form):
    """`pl.Array[extent, dtype]`: a small array of scalars on the core."""

    form = "array"


class Tuple(metaclass=_Form):
    """`pl.Tuple[T0, T1]`: several results."""

    form = "tuple"


class Directed:
    """`pl.Out[T]` or `pl.InOut[T]`."""

    __slots__ = ("direction", "inner")

    def __init__(self, inner: Any, direction: ParamDirection) -> None:
        self.inner, self.direction = inner, direction

    def __repr__(self) -> str:
        return f"pl.{self.direction.name}[{self.inner!r}]"


class _Direction(type):
    direction: ClassVar[ParamDirection] = ParamDirection.In

    def __getitem__(cls, item: Any) -> Directed:
        return Directed(item, cls.direction)

    def __repr__(cls) -> str:
        return f"pl.{cls.__name__}"


class Out(metaclass=_Direction):
    """A parameter that the kernel writes."""

    direction = ParamDirection.Out


class InOut(metaclass=_Direction):
    """A parameter that the kernel reads and writes."""

    direction = ParamDirection.InOut


class Opaque:
    """A type without parameters, such as `pl.Ptr`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"pl.{self.name}"


Ptr = PtrType = Opaque("Ptr")
MemRefType = Opaque("MemRefType")
PrefetchAsyncContext, AsyncEvent, AsyncSession = (Opaque(n) for n in ("PrefetchAsyncContext", "AsyncEvent", "AsyncSession"))
TaskId = Annotation("scalar", (DataType.TASK_ID,))


class TensorView:
    """`pl.TensorView(stride=, layout=, valid_shape=, pad=)`; a layout must be given as soon as anything is."""

    __slots__ = ("layout", "pad", "stride", "valid_shape")

    def __init__(
        self,
        *,
        stride: Iterable[Any] | None = None,
        layout: TensorLayout | None = None,
        valid_shape: Iterable[Any] | None = None,
        pad: PadValue | None = None,
    ) -> None:
        if layout is None and (stride is not None or valid_shape is not None or pad is not None):
            raise ValueError("pl.TensorView: layout is required when stride, valid_shape or pad is given")
        self.stride = tuple(stride or ())
        self.layout = layout if layout is not None else TensorLayout.ND
        self.valid_shape = tuple(valid_shape or ())
        self.pad = pad if pad is not None else PadValue.null


class TileView:
    """`pl.TileView(valid_shape=, stride=, start_offset=, blayout=, slayout=, fractal=, pad=, compact=)`; None: as implied."""

    __slots__ = ("blayout", "compact", "fractal", "pad", "slayout", "start_offset", "stride", "valid_shape")

    def __init__(
        self,
        *,
        valid_shape: Iterable[Any] | None = None,
        stride: Iterable[Any] | None = None,
        start_offset: Any = None,
        blayout: TileLayout | None = None,
        slayout: TileLayout | None = None,
        fractal: int | None = None,
        pad: PadValue | None = None,
        compact: CompactMode | None = None,
    ) -> None:
        self.valid_shape = tuple(valid_shape or ())
        self.stride = tuple(stride or ())
        self.start_offset, self.blayout, self.slayout, self.fractal = start_offset, blayout, slayout, fractal
        self.pad, self.compact = pad, compact


class MemRef:
    """A declared allocation: `pl.MemRef()`, `pl.MemRef("name")`, `pl.MemRef(slots=N)`.

    Printed programs use `pl.MemRef(base, byte_offset, size)`, which only the parser understands.
    """

    __slots__ = ("name", "slots")

    def __init__(self, name: str | None = None, *, slots: int = 1) -> None:
        if name is not None and (not isinstance(name, str) or not name.isidentifier()):
            raise ValueError(f"pl.MemRef: the name must be an identifier, got {name!r}")
        if isinstance(slots, bool) or not isinstance(slots, int) or slots < 1:
            raise ValueError(f"pl.MemRef: slots must be a positive integer, got {slots!r}")
        self.name, self.slots = name, slots

    def __getitem__(self, index: Any) -> MemRefSlot:
        if isinstance(index, int) and not 0 <= index < self.slots:
            raise ValueError(f"pl.MemRef: slot {index} is not within 0..{self.slots - 1}")
        return MemRefSlot(self, index)


class MemRefSlot:
    """One slot of a declared allocation."""

    __slots__ = ("index", "memref")

    def __init__(self, memref: MemRef, index: Any) -> None:
        self.memref, self.index = memref, index


class Runtime:
    """Type of `pl.RUNTIME`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "pl.RUNTIME"


RUNTIME = Runtime()


def const(value: float, dtype: DataType) -> float:
    """In a kernel, a constant of that dtype; here, the number itself."""
    if not isinstance(value, (int, float)):
        raise TypeError(f"pl.const: the value must be a number, got {value!r}")
    if not isinstance(dtype, DataType):
        raise TypeError(f"pl.const: the dtype must be a dtype such as pl.INT32, got {dtype!r}")
    return value

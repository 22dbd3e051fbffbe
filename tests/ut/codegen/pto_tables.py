"""What each instruction of `.pto` text takes: operands, attributes and their spelling, element types, places.

Operands in order, one letter each:  T a tile of the result's elements and valid extents, stored by rows;  V a tile of the
result's elements;  X any tile, a scratch;  ! any tile, read;  S a scalar of the elements that are computed with;  E one
of the destination's elements, which may be unsigned;  F an f32;  I an i32;  N an index;  P a part of a tensor.
"""

from __future__ import annotations

__all__ = [
    "ALLOWED",
    "ATTRIBUTES",
    "CAPACITY",
    "CASTS",
    "CONVERSIONS",
    "ELEMENTS",
    "FLOAT",
    "FORMS",
    "INTEGER",
    "IN_PLACE",
    "MOVES",
    "PREDICATES",
    "REQUIRED",
]


def _words(names: str) -> list[str]:
    return names.split()


_EXPANDED = ("add", "sub", "mul", "div", "max", "min", "expdif")


def _each(names: str, *forms: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(names.split(), forms)


FORMS: dict[str, tuple[str, ...]] = {
    **_each("tadd tsub tmul tdiv tmax tmin tand tor tshl tshr tfmod", "TT"),
    **_each("tpartadd tpartmul tpartmax tpartmin", "TV"),
    **_each("tadds tsubs tmuls tdivs tmaxs tmins tfmods tands tors tshls tshrs", "TS"),
    **_each("tabs texp tlog tsqrt trecip tneg tnot trelu", "T"),
    "trsqrt": ("T", "TX"),
    "tlrelu": ("TF",),
    **_each("trem txor", "TTX"),
    "tprelu": ("TTX",),
    **_each("trems txors", "TSX"),
    **_each("taddc tsubc", "TTT"),
    **_each("taddsc tsubsc", "TST"),
    "tsel": ("!TT", "!TTX"),
    "tsels": ("!TXS",),
    "texpands": ("S",),
    "tcmp": ("!!",),
    "tcmps": ("!S",),
    "tcvt": ("!", "!X"),
    **_each("trowsum trowmax trowmin trowprod", "VX"),
    **_each("trowargmax trowargmin tcolargmax tcolargmin", "!X"),
    **_each("tcolmax tcolmin tcolprod", "V"),
    "tcolsum": ("V", "VX"),
    **_each("tcolexpand trowexpand", "V"),
    **{f"tcolexpand{n}": ("TV",) for n in _EXPANDED},
    **{f"trowexpand{n}": ("TV", "TVX") for n in _EXPANDED},
    "tci": ("S",),
    "trandom": ("IIIIII",),
    "tmov": ("!",),
    "textract": ("!NN",),
    "tinsert": ("!NN",),
    "tfillpad": ("V",),
    "ttrans": ("VX",),
    "tconcat": ("VV",),
    "tgather": ("!", "!!X"),
    "tgatherb": ("!!",),
    "tscatter": ("V!",),
    "tsort32": ("V!",),
    "tmrgsort": ("VI", "VVX", "VVVX", "VVVVX"),
    **_each("tmatmul tgemv", "!!"),
    **_each("tmatmul.acc tgemv.acc", "V!!"),
    **_each("tmatmul.bias tgemv.bias", "!!V"),
    "tload": ("P",),
    "tstore": ("!",),
    "mgather": ("P!",),
    "mscatter": ("!!",),
    "tsetval": ("NE",),
}

ATTRIBUTES = {
    "cmpMode": r"#pto<cmp (eq|ne|lt|le|gt|ge)>",
    "rmode": r"#pto<round_mode (NONE|RINT|ROUND|FLOOR|CEIL|TRUNC|ODD|CAST_RINT)>",
    "precisionType": r"#pto<(div|log|recip|exp)_precision high_precision>",
    "isBinary": r"true|false",
    "descending": r"true|false",
    "rounds": r"(7|10) : i32",
    "atomicType": r"#pto<atomic_type atomic_add>",
    "coalesce": r"#pto<coalesce (row|elem)>",
    "gatherOob": r"#pto<gather_oob (undefined|clamp|wrap|zero)>",
    "maskPattern": r"#pto\.mask_pattern<P(0101|1010|0001|0010|0100|1000|1111)>",
    "exhausted": r"true|false",
    "axis": r'"row"',
}
ALLOWED = {
    "tcmp": {"cmpMode"},
    "tcmps": {"cmpMode"},
    "tcvt": {"rmode"},
    "tdiv": {"precisionType"},
    "tlog": {"precisionType"},
    "trecip": {"precisionType"},
    "texp": {"precisionType"},
    "tcolsum": {"isBinary"},
    "tci": {"descending"},
    "trandom": {"rounds"},
    "tstore": {"atomicType"},
    "mgather": {"coalesce", "gatherOob"},
    "mscatter": {"coalesce"},
    "tgather": {"maskPattern", "axis"},
    "tmrgsort": {"exhausted"},
}
# Attributes without which the form with that many operands is not complete.
REQUIRED = {
    ("tcmp", 2): "cmpMode",
    ("tcmps", 2): "cmpMode",
    ("tcvt", 1): "rmode",
    ("tcvt", 2): "rmode",
    ("tci", 1): "descending",
    ("trandom", 6): "rounds",
    ("mgather", 2): "coalesce",
    ("mscatter", 2): "coalesce",
    ("tgather", 1): "axis",
    ("tcolsum", 2): "isBinary",
    **{("tmrgsort", n): "exhausted" for n in (3, 4, 5)},
}

# -- element types --------------------------------------------------------------------------------------------------

_N = "i16 ui16 f16 i32 ui32 f32"
_B = " i8 ui8"
_ALL = _N + _B + " bf16"
_INTEGERS = "i8 ui8 i16 ui16 i32 ui32"
_FLOATS = "f16 f32"
_SCALAR = "i16 f16 i32 f32"


def _elements(names: str, a2a3: str, a5: str = "") -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    return dict.fromkeys(names.split(), (frozenset(a2a3.split()), frozenset((a5 or a2a3).split())))


# Of an instruction's first tile (of its destination, where it reads none), on a2a3 and on a5.
ELEMENTS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    **_elements("tadd tmin", _N, _ALL),
    **_elements("tsub tmax", _N, _N + _B),
    **_elements("tmul tfmod", _N),
    **_elements("tdiv", _FLOATS, _N),
    **_elements("trem", "i32 ui32 f32"),
    **_elements("tpartadd tpartmul tpartmax tpartmin", _N, _ALL),
    **_elements("tand tor tshl tshr txor", _INTEGERS),
    **_elements("tabs texp tlog tsqrt trsqrt trecip tlrelu tprelu", _FLOATS),
    **_elements("tneg", _N, _ALL),
    **_elements("trelu", "f16 f32 i32 ui32"),
    **_elements("tnot", "i16 ui16", _INTEGERS),
    **_elements("tadds tsubs tmuls tmaxs tmins", _SCALAR, _SCALAR + " i8 bf16"),
    **_elements("tdivs", _N, _N + _B),
    **_elements("tfmods", _SCALAR),
    **_elements("trems", "i32 f32", _SCALAR),
    **_elements("tands tors txors", "i8 i16", "i8 i16 i32"),
    **_elements("tshls", "i8 i16 i32 i64"),
    **_elements("tshrs", "i16 i32", "i8 i16 i32"),
    **_elements("texpands", "i16 f16 bf16 i32 f32", "i16 f16 bf16 i32 f32 i8"),
    **_elements("trowsum trowmax trowmin trowprod trowargmax trowargmin tcolargmax tcolargmin", _N),
    **_elements("tcolsum tcolmax tcolmin", _N, _ALL),
    **_elements("tcolprod", _N, _N + " bf16"),
    **_elements("tcolexpand trowexpand tfillpad ttrans tconcat", _ALL),
    **_elements(" ".join(f"t{w}expand{n}" for w in ("row", "col") for n in ("add", "sub", "mul", "max", "min")), _N, _N + _B),
    **_elements("trowexpanddiv tcolexpanddiv", _FLOATS, _N + _B),
    **_elements("trowexpandexpdif tcolexpandexpdif", _FLOATS),
    **_elements("tcmp", "f16 i32 ui32 f32", _ALL),
    **_elements("tcmps", _SCALAR, _SCALAR + " i8"),
    **_elements("tsel", _N + " bf16", _ALL),
    **_elements("tsels", _SCALAR, _SCALAR + " i8"),
    **_elements("tgather", _N, _N + _B),
    **_elements("tci", "i16 i32"),
    **_elements("trandom", "none", "i32 ui32"),
    **_elements("tload tstore tmov", _ALL + " i64"),
    **_elements("textract", "i8 ui8 f16 bf16 f32"),
    **_elements("tsort32", _FLOATS),
    **_elements("tmrgsort", _FLOATS),
    **_elements("tmatmul tmatmul.bias tgemv tgemv.bias", "f16 bf16 f32 i8"),
    **_elements("tmatmul.acc tgemv.acc", "f32 i32"),
}
# Pairs that the vector unit converts.
CONVERSIONS = {
    "a2a3": {
        "f32": "f16 f32 bf16 i16 i32 i64",
        "f16": "f32 i32 i16 i8 ui8",
        "bf16": "f32 i32",
        "i16": "f16 f32",
        "i32": "f32 i16 i64 f16",
        "i64": "f32 i32",
        "ui8": "f16",
        "i8": "f16",
    },
    "a5": {
        "f32": "f16 f32 bf16 i16 i32 i64",
        "f16": "f32 i32 i16 i8 ui8",
        "bf16": "f32 i32 f16",
        "i16": "f16 f32 ui8 i32 ui32",
        "i32": "f32 i16 i64 ui16 ui8",
        "i64": "f32 i32",
        "ui8": "f16 ui16",
        "ui32": "i16 ui16 ui8",
        "i8": "f16 i16 i32",
    },
}

# -- places ---------------------------------------------------------------------------------------------------------

# Operands whose very place the result may take; a `tcvt` to smaller elements may begin where its operand does.
IN_PLACE: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(_words("tadd tsub tmul tdiv tmax tmin tand tor tshl tshr trem txor"), (0, 1)),
    **dict.fromkeys(_words("tpartadd tpartmul tpartmax tpartmin"), (0,)),
    **dict.fromkeys(_words("tadds tsubs tmuls tdivs tmaxs tmins tshls tshrs tlrelu trems"), (0,)),
    **dict.fromkeys(_words("tabs texp tlog tsqrt tneg tnot trelu tcvt tfillpad"), (0,)),
    **dict.fromkeys(_words("taddc tsubc"), (0, 1, 2)),
    **dict.fromkeys(_words("taddsc tsubsc"), (0, 2)),
    "tsel": (1, 2),
    "tsels": (1,),
    **{f"t{w}expand{n}": (0,) for w in ("row", "col") for n in _EXPANDED},
    **dict.fromkeys(_words("tmatmul.acc tgemv.acc"), (0,)),
}
MOVES = {
    "a2a3": frozenset(
        ("mat left", "mat right", "mat bias", "mat scaling", "vec vec", "acc mat", "acc vec"),
    ),
    "a5": frozenset(("mat left", "mat right", "mat bias", "mat scaling", "vec vec", "acc mat", "acc vec", "vec mat")),
}
# Bytes.
CAPACITY = {
    "a2a3": {"vec": 188416, "mat": 524288, "left": 65536, "right": 65536, "acc": 131072, "bias": 1024, "scaling": 4096},
    "a5": {"vec": 245760, "mat": 524288, "left": 65536, "right": 65536, "acc": 262144, "bias": 4096, "scaling": 4096},
}

# -- scalars --------------------------------------------------------------------------------------------------------

INTEGER = frozenset(
    _words("addi subi muli divsi remsi divui remui minsi maxsi minui maxui andi ori xori shli shrsi shrui"),
)
FLOAT = frozenset(_words("addf subf mulf divf remf negf minimumf maximumf"))
CASTS = frozenset(_words("index_cast extsi extui trunci extf truncf sitofp uitofp fptosi fptoui"))
PREDICATES = {
    "cmpi": frozenset(_words("eq ne slt sle sgt sge ult ule ugt uge")),
    "cmpf": frozenset(_words("oeq one une olt ole ogt oge")),
}

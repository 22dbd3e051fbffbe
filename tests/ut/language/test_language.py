"""What `import pypto.language as pl` offers: every name resolves, costs nothing, and says what it is outside a kernel."""

from __future__ import annotations

import importlib.util
import inspect
import pickle
import pydoc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pypto
import pypto.language as pl
from pypto.dtypes import ALL_DTYPES
from pypto.errors import InvalidOperationError, NotSupportedError, UnknownNameError
from pypto.ir.ops import DSL
from pypto.language.operations import Construct, Operation, Unsupported
from pypto.language.symbols import SymbolicInt
from pypto.language.unsupported import UNSUPPORTED

ROOT = Path(__file__).resolve().parents[3]

SURFACE_TEXT = """
function inline InlineFunction program parse loads parse_program loads_program parser
Tensor Tile Scalar Array Tuple Out InOut DynVar dynamic IntLike RUNTIME MemRef MemRefType Ptr PtrType TensorView TileView TaskId
PrefetchAsyncContext AsyncEvent AsyncSession
const ND DN NZ MX_A_ZZ MX_B_NN AUTO
FunctionType ForKind AtomicType Level Role SplitMode ScopeMode Mem MemorySpace PipeType
TensorLayout TileLayout PadValue CompactMode
CachePolicy adir
range parallel unroll pipeline while_ cond yield_ static_print static_assert func_attr
at cluster spmd split_aiv scope manual_scope submit spmd_submit no_dep dump_tag optimizations split cross_core_slot
tensor tile system array prefetch
add sub mul div maximum minimum maximums minimums adds subs muls divs abs neg exp log sqrt rsqrt recip relu lrelu
cast cmp cmps sel sels
row_sum row_max row_min row_prod col_sum col_max col_min col_prod row_argmax row_argmin col_argmax col_argmin
row_expand row_expand_add row_expand_sub row_expand_mul row_expand_div col_expand col_expand_mul expands
load store move assemble slice reshape reinterpret_view set_validshape create_tensor create_tile full fillpad read write
min max get_block_idx get_block_num get_subblock_idx
matmul matmul_acc transpose gather scatter scatter_update sort32 mrgsort concat arange sin cos fmod fmods rem xor shl
"""
SURFACE = [n for line in SURFACE_TEXT.splitlines() for n in line.split()]


@pytest.mark.parametrize("name", SURFACE)
def test_every_name_resolves(name: str) -> None:
    assert getattr(pl, name) is not None
    assert name in dir(pl)


def test_jit_is_looked_up_when_it_is_asked_for() -> None:
    assert "jit" in dir(pl)
    assert "jit" in pl._lazy.LAZY


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match=r"pypto\.language"):
        _ = pl.no_such_name
    with pytest.raises(UnknownNameError, match=r"pl\.tile"):
        _ = pl.tile.no_such_name
    with pytest.raises(UnknownNameError, match="did you mean 'load'"):
        _ = pl.tile.laod
    with pytest.raises(UnknownNameError, match="did you mean 'PrecompilePool'"):
        _ = pypto.PrecompilPool
    assert not hasattr(pl, "__no_such_name__")
    with pytest.raises(UnknownNameError) as caught:
        _ = pypto.PrecompilPool
    assert "PrecompilePool" in str(pickle.loads(pickle.dumps(caught.value)))
    with pytest.raises(AttributeError):
        _ = caught.value.no_such_name


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("FLOAT32", "did you mean 'FP32'?"),
        ("fp16", "did you mean 'FP16'?"),
        ("FP64", "there is no float wider than FP32: write pl.FP32"),
        ("tensr", "did you mean 'tensor'?"),
        ("qqqqqqqq", "docs/language.md"),
    ],
)
def test_unknown_names_say_what_was_meant(name: str, hint: str) -> None:
    with pytest.raises(UnknownNameError, match=name) as caught:
        getattr(pl, name)
    assert hint in (caught.value.hint or "")
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), AttributeError)


def test_dtypes_and_enumerations() -> None:
    assert all(getattr(pl, d.name) is d for d in ALL_DTYPES)
    assert pl.FP32.get_byte() == 4
    assert pl.Mem is pl.MemorySpace
    assert pl.NZ is pl.TensorLayout.NZ
    assert pl.Level.POD is pl.Level.CLUSTER_0
    assert [n for n in ("input", "output", "output_existing", "inout", "no_dep", "scalar") if not hasattr(pl.adir, n)] == []


CALLABLE = [
    getattr(holder, name)
    for holder in (pl, pl.tensor, pl.tile)
    for name in dir(holder)
    if isinstance(getattr(holder, name), (Operation, Construct))
]


@pytest.mark.parametrize("value", CALLABLE, ids=repr)
def test_help_shows_signature_and_text(value: Any) -> None:
    """Of every operator and construct, as its spelling is."""
    text = pydoc.render_doc(value, renderer=pydoc.plaintext)
    head, _, body = value.__doc__.partition("\n\n")
    assert head.startswith(f"{value!r}(")
    assert body
    assert head in text
    assert body.split("\n")[0] in text
    for name in inspect.signature(value).parameters:
        assert name in head


def test_help_agrees_with_the_operator_table() -> None:
    for d in DSL:
        for space in d.namespaces:
            value = getattr(getattr(pl, space) if space else pl, d.name)
            parameters = inspect.signature(value).parameters.values()
            assert [p.name for p in parameters] == [p.name for p in d.params]
            assert [p.default is p.empty for p in parameters] == [p.required for p in d.params]
            assert value.__doc__.endswith(d.doc)
    assert Operation.__doc__ != pl.load.__doc__
    assert "stop" in str(pl.range.__doc__)
    assert "one host" in str(pl.allreduce.__doc__)


def test_every_construct_has_its_text() -> None:
    from pypto.language.constructs import TABLE
    from pypto.language.operations import CONTROL

    assert sorted(TABLE) == sorted(CONTROL)


def test_the_operator_table_is_all_there() -> None:
    for d in DSL:
        for space in d.namespaces:
            holder = getattr(pl, space) if space else pl
            assert isinstance(getattr(holder, d.name), Operation), (space, d.name)


def test_names_that_do_nothing_outside() -> None:
    for value in (pl.add, pl.tile.load, pl.range, pl.yield_, pl.at):
        assert isinstance(value, (Operation, Construct))
        with pytest.raises(InvalidOperationError, match="only inside a kernel"):
            value(1)
        assert type(pickle.loads(pickle.dumps(value))) is type(value)
    with pytest.raises(InvalidOperationError):
        list(pl.range)


def test_names_that_are_not_executed_say_why() -> None:
    count = 0
    for space, names in UNSUPPORTED.items():
        for n in names:
            value = getattr(getattr(pl, space) if space else pl, n)
            if isinstance(value, Unsupported):
                count += 1
                with pytest.raises(NotSupportedError, match=n):
                    value()
                with pytest.raises(NotSupportedError):
                    value[1]
    assert count > 10


def test_generated_files_are_current() -> None:
    spec = importlib.util.spec_from_file_location("stubs", ROOT / "tools" / "stubs.py")
    assert spec is not None
    assert spec.loader is not None
    stubs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stubs)
    for path, text in stubs.outputs().items():
        assert path.read_text() == text, f"{path.name}: run python tools/stubs.py"


def test_importing_the_language_loads_nothing_else() -> None:
    code = (
        "import sys, pypto.language as pl\n"
        "heavy = ('numpy', 'pypto.ir', 'pypto.jit', 'pypto.runtime', 'pypto.language.constructs')\n"
        "print([m for m in sys.modules if m.startswith((*heavy, 'pypto.frontend', 'inspect'))])\n"
        "from pypto.frontend import capture, signature, dynamic_dims\n"
        "print([m for m in sys.modules if m.startswith(heavy)])\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})
    assert out.stdout.split("\n")[:2] == ["[]", "[]"], out.stderr


# -- values --------------------------------------------------------------------------------------------------------


def test_symbols() -> None:
    m = pl.dynamic("M")
    assert isinstance(m, pl.DynVar)
    assert repr(m) == "M"
    for made in (m * 2, 2 * m, m + 1, 1 + m, m - 1, 8 - m, m // 4, 4 // m, m % 3, 3 % m):
        assert isinstance(made, SymbolicInt)
    assert repr((m * 2) // 4) == "((M * 2) // 4)"
    with pytest.raises(TypeError, match="symbolic extent"):
        bool(m)
    with pytest.raises(ValueError, match="identifier"):
        pl.dynamic("1x")
    with pytest.raises(TypeError):
        m * 1.5
    assert pickle.loads(pickle.dumps(m)).name == "M"


def test_constants_outside_a_kernel_are_numbers() -> None:
    assert pl.const(1, pl.INT32) == 1
    with pytest.raises(TypeError):
        pl.const("1", pl.INT32)
    with pytest.raises(TypeError):
        pl.const(1, int)


def test_annotations_print_as_written() -> None:
    assert repr(pl.Tensor[[pl.dynamic("M"), 64], pl.FP32]) == "pl.Tensor[[M, 64], pl.FP32]"
    assert repr(pl.Out[pl.Tensor]) == "pl.Out[pl.Tensor]"
    assert repr(pl.InOut[pl.Scalar[pl.INDEX]]) == "pl.InOut[pl.Scalar[pl.INDEX]]"
    assert pl.Tensor[[4], pl.FP32].dtype is pl.FP32
    assert pl.Tensor[[4], pl.FP32].shape == [4]
    assert pl.Tensor[[4]].dtype is None
    with pytest.raises(TypeError, match="type annotation"):
        pl.Tensor([4], pl.FP32)


def test_views_and_allocations_check_their_form() -> None:
    with pytest.raises(ValueError, match="layout is required"):
        pl.TensorView(stride=[1])
    with pytest.raises(TypeError):
        pl.TensorView(strides=[1], layout=pl.ND)
    assert pl.TensorView(stride=[4, 1], layout=pl.ND).stride == (4, 1)
    assert pl.TileView(valid_shape=[8, 50]).valid_shape == (8, 50)
    buf = pl.MemRef(slots=2)
    assert buf[1].index == 1
    with pytest.raises(ValueError, match=r"slot 2 is not within 0\.\.1"):
        buf[2]
    with pytest.raises(ValueError, match="identifier"):
        pl.MemRef("a b")
    with pytest.raises(ValueError, match="positive"):
        pl.MemRef(slots=0)


def test_the_exceptions_have_their_old_home() -> None:
    d = pl.parser.diagnostics
    assert issubclass(d.UndefinedVariableError, d.ParserError)
    assert len(d.__all__) == 8
    assert all(issubclass(getattr(d, n), d.ParserError) for n in d.__all__)

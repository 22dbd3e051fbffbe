"""The form of `.pto` text: arguments, attributes, places of the user's text, equal bytes everywhere, and what has no form."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pto_lab import WAYS, function, kernel, lowered, text_of

import pypto.language as pl
from pypto import frontend
from pypto.codegen.pto import PTOCodegen, module_of
from pypto.enums import FunctionIRStage, MemoryPlanner
from pypto.errors import NotSupportedError
from pypto.ir import ops
from pypto.ir.expr import Call
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import walk

X = "x: pl.Tensor[[32, 64], pl.FP32]"
OUT = "o: pl.Out[pl.Tensor[[32, 64], pl.FP32]]"
ADD_MUL = """
a = pl.load(x, [0, 0], [32, 64])
b = pl.load(y, [0, 0], [32, 64])
pl.store(pl.mul(pl.add(a, b), b), [0, 0], o)
"""
PRODUCTS = """
x = pl.load(a, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
y = pl.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
acc = pl.matmul(x, y)
acc = pl.matmul_acc(acc, x, y)
pl.store(acc, [0, 0], o)
"""
WINDOWS = """
a = pl.load(x, [0, 0], [32, 64])
c = pl.tile.full([32, 32], dtype=pl.FP32, value=0.0)
w = pl.slice(a, [16, 32], [r, 32])
c = pl.assemble(c, pl.add(w, w), [16, 0])
pl.store(c, [0, 0], o)
"""
CARRIES = """
left: pl.Tile[[32, 64], pl.FP32] = pl.load(x, [0, 0], [32, 64])
right = pl.add(left, left)
r = 0
c = 0
for i in pl.range(n):
    left, right = right, left
    r = r + 1
    c = c + 8
pl.store(left, [r, c], o)
"""
TURNED = """
x = pl.load(a, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
y = pl.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
acc = pl.matmul(x, pl.tile.transpose_view(y))
acc = pl.matmul_acc(acc, x, y)
pl.store(acc, [0, 0], o)
"""
SQUARE = "pl.Tensor[[64, 64], pl.FP16]"
KERNELS = {
    "elementwise": (f"{X}, y: pl.Tensor[[32, 64], pl.FP32], {OUT}", ADD_MUL),
    "products": (f"a: {SQUARE}, b: {SQUARE}, o: pl.Out[pl.Tensor[[64, 64], pl.FP32]]", PRODUCTS),
    "rows": (
        f"{X}, {OUT}, n: pl.Scalar[pl.INDEX]",
        "a = pl.load(x, [0, 0], [32, 64], valid_shape=[n, 64])\npl.store(pl.exp(a), [0, 0], o)",
    ),
    "windows": (f"{X}, {OUT}, r: pl.Scalar[pl.INDEX]", WINDOWS),
    "carries": (f"{X}, {OUT}, n: pl.Scalar[pl.INDEX]", CARRIES),
    "turned": (f"a: {SQUARE}, b: {SQUARE}, o: pl.Out[pl.Tensor[[64, 64], pl.FP32]]", TURNED),
}


TWO_SIZES = """
a = pl.load(x, [0, 0], [32, 64])
pl.store(pl.adds(a, 1.0), [0, 0], o)
b = pl.load(x, [0, 0], [16, 64])
pl.store(pl.adds(b, 2.0), [16, 0], o)
"""
PLACE = re.compile(r' loc\("(?:[^"\\]|\\.)*":\d+:\d+\)$', re.MULTILINE)


def one(p: Program) -> Function:
    (f,) = [f for f in p.function_list if f.is_device]
    return f


def raised(params: str, body: str, kind: str = "InCore", raw: bool = False) -> NotSupportedError:
    """Why a kernel has no text."""
    f = one(lowered(kernel("k", params, body, kind, raw)))
    with pytest.raises(NotSupportedError) as e:
        module_of([f], "a2a3", True, True)
    return e.value


@pytest.mark.parametrize("planner", list(MemoryPlanner), ids=lambda p: p.name)
@pytest.mark.parametrize("name", list(KERNELS))
def test_one_instruction_for_each_write_of_a_buffer(name: str, planner: MemoryPlanner) -> None:
    f = one(lowered(kernel("k", *KERNELS[name]), planner))
    assert f.ir_stage is FunctionIRStage.Buffer
    calls = [n for n in walk(f.body) if isinstance(n, Call)]
    written = [
        c
        for c in calls
        if (op := ops.of(c)) is not None and op.pto and op.concept not in ("subview", "reshape", "set_validshape")
    ]
    text = text_of(f, planner is not MemoryPlanner.PTOAS)
    instructions = re.findall(r"^ *pto\.(\S+) (?:ins|outs)\(", text, re.MULTILINE)
    assert sorted(instructions) == sorted(ops.TABLE[c.op.name].pto for c in written)
    assert text.count("pto.alloc_tile") == sum(c.op.name == "buffer.alloc" for c in calls)
    assert text.count("pto.set_validshape") == sum(c.op.name == "buffer.set_validshape" for c in calls)
    assert (" addr = " in text) == (planner is not MemoryPlanner.PTOAS)


def test_counts_of_instructions() -> None:
    text = text_of(one(lowered(kernel("k", *KERNELS["elementwise"]))), True)
    assert [text.count(f"pto.{n} ") for n in ("tload", "tadd", "tmul", "tstore")] == [2, 1, 1, 1]
    text = text_of(one(lowered(kernel("k", *KERNELS["products"]))), True)
    assert [text.count(f"pto.{n} ") for n in ("tmatmul", "tmatmul.acc", "tmov", "tstore")] == [1, 1, 2, 1]


@pytest.mark.parametrize("planner", list(MemoryPlanner), ids=lambda p: p.name)
def test_counts_that_no_planner_changes(planner: MemoryPlanner) -> None:
    """A window that is assembled is one move; loops hand on numbers only, and tiles change places by way of a third; a matrix
    read transposed is a second handle of its bytes where there are addresses, else a relabel."""

    def text(name: str) -> str:
        return text_of(one(lowered(kernel("k", *KERNELS[name]), planner)), addressed)

    addressed = planner is not MemoryPlanner.PTOAS
    windows = text("windows")
    assert [windows.count(w) for w in ("pto.alloc_tile", "pto.subview", "] valid [", "pto.tmov ")] == [3, 2, 2, 1]
    carries = text("carries")
    (head,) = [line for line in carries.split("\n") if "scf.for" in line]
    assert " -> (index, index) {" in head
    assert "tile_buf" not in head
    assert [carries.count(w) for w in ("pto.alloc_tile", "pto.tmov ", "scf.yield")] == [3, 3, 1]
    turned = text("turned")
    matrices = re.findall(r"pto\.alloc_tile (?:addr = (\S+) )?: .*loc=mat", turned)
    assert (len(matrices), len(set(matrices)), turned.count("pto.treshape")) == ((3, 2, 0) if addressed else (2, 1, 1))


def test_bytes_of_several_tiles() -> None:
    """Tiles of several types in one allocation: bytes in rows of 32, whole and valid, and each tile a relabel of some of them."""
    text = text_of(one(lowered(kernel("k", f"{X}, {OUT}", TWO_SIZES))), True)
    handles = [line for line in text.split("\n") if re.search(r"= pto\.(alloc_tile|subview|treshape) ", line)]
    steps = [line.split(" = ")[1].split(" : ")[0] for line in handles]
    assert steps == [
        "pto.alloc_tile addr",
        "pto.treshape %mem_vec_0_buffer_bytes",
        "pto.subview %mem_vec_0_buffer_bytes[%c0_index, %c0_index] sizes [128, 32] valid [%c128_index, %c32_index]",
        "pto.treshape %b_buffer_bytes",
    ]
    assert "dtype=ui8, rows=256, cols=32, v_row=256, v_col=32" in text
    assert "dtype=f32, rows=16, cols=64, v_row=16, v_col=64" in text


def test_arguments() -> None:
    """Tensors, then scalars, then extents of tensors as they first appear; names of the user's never collide with them."""
    text = """
import pypto.language as pl
M = pl.dynamic("M")
N = pl.dynamic("N")


@pl.program
class test:
    @pl.function(type=pl.FunctionType.InCore)
    def k(
        arg0: pl.Scalar[pl.FP32],
        x: pl.Tensor[[M, N], pl.FP32],
        n: pl.Scalar[pl.INT32],
        o: pl.Out[pl.Tensor[[N, M], pl.FP32]],
    ):
        arg1 = pl.load(x, [0, 0], [8, 32])
        pl.store(pl.muls(arg1, arg0), [0, pl.cast(n, pl.INDEX)], o)
"""
    made = text_of(one(lowered(frontend.parse(text))), True)
    arguments = "%arg0: !pto.ptr<f32>, %arg1: !pto.ptr<f32>, %arg2: f32, %arg3: i32, %arg4: index, %arg5: index"
    assert f"func.func @k({arguments}) {{" in made
    assert "pto.make_tensor_view %arg1, shape = [%arg5, %arg4], strides = [%arg4, %c1_index]" in made


@pytest.mark.parametrize(
    ("kind", "clause"), [("InCore", ""), ("AIV", " attributes {pto.kernel_kind = #pto.kernel_kind<vector>}")]
)
def test_kind(kind: str, clause: str) -> None:
    made = text_of(one(lowered(kernel("k", *KERNELS["elementwise"], kind))), True)
    assert f"%arg2: !pto.ptr<f32>){clause} {{\n" in made


def test_modules() -> None:
    """All device functions in one module; the architecture is what is asked for."""
    p = lowered(kernel("k", *KERNELS["elementwise"]))
    made = PTOCodegen().generate(p, arch="a5", emit_tile_addr=True, emit_source_loc=False)
    assert made.startswith('module attributes {pto.target_arch = "a5"} {\n  func.func @k(')
    assert made.endswith("    return\n  }\n}\n")
    assert "loc(" not in made


def test_places_of_the_text(tmp_path: Path) -> None:
    """Each instruction ends with the user's file, line and column; without them not a byte else differs."""
    file = tmp_path / 'a "b".py'
    file.write_text(
        "import pypto.language as pl\n\n\n@pl.jit\n"
        "def k(x: pl.Tensor[[16, 32], pl.FP32], o: pl.Out[pl.Tensor[[16, 32], pl.FP32]]):\n"
        "    with pl.at(level=pl.Level.CORE_GROUP):\n        t = pl.load(x, [0, 0], [16, 32])\n"
        "        o = pl.store(pl.exp(\n            pl.abs(t)), [0, 0], o)\n    return o\n"
    )
    spec = importlib.util.spec_from_file_location("placed", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    f = one(lowered(module.k.specialize(*[np.zeros((16, 32), np.float32)] * 2)))
    with_places, without = (module_of([f], "a2a3", True, places) for places in (True, False))
    assert PLACE.sub("", with_places) == without
    found = {m[1]: (m[2], int(m[3])) for m in re.finditer(r'pto\.(t\w+) .* loc\("(.*)":(\d+):\d+\)', with_places)}
    name = str(file).replace('"', '\\"')
    assert found == {"tload": (name, 7), "tabs": (name, 9), "texp": (name, 8), "tstore": (name, 8)}
    assert not re.search(r"[{}] loc\(", with_places)


@pytest.mark.parametrize("buffers", [True, False], ids=["buffers", "tiles"])
@pytest.mark.parametrize("planner", list(MemoryPlanner), ids=lambda p: p.name)
@pytest.mark.parametrize("name", list(KERNELS))
def test_nothing_but_places_depends_on_the_option(name: str, planner: MemoryPlanner, buffers: bool) -> None:
    f = one(lowered(kernel("k", *KERNELS[name]), planner, buffers))
    addressed = planner is not MemoryPlanner.PTOAS
    with_places, without = (module_of([f], "a2a3", addressed, places) for places in (True, False))
    assert PLACE.search(with_places)
    assert PLACE.sub("", with_places) == without


def test_the_option_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown follows PYPTO_EMIT_PTO_LOC; what is stored has no places, and is what is shown without."""

    @pl.jit
    def placed(x: pl.Tensor[[16, 32], pl.FP32], o: pl.Out[pl.Tensor[[16, 32], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            o[:] = pl.exp(x)
        return o

    made = placed.compile()
    shown = {value: made.inspect("pto") for value in ("1", "0") if not monkeypatch.setenv("PYPTO_EMIT_PTO_LOC", value)}
    assert PLACE.sub("", shown["1"]) == shown["0"] != shown["1"]
    assert made._artifact.read("placed_incore_0.pto").decode() == shown["0"]


def test_equal_bytes_everywhere(tmp_path: Path) -> None:
    """Hash seeds and directories do not show, with every planner and at both stages."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_pto_text import KERNELS, kernel, lowered, one, text_of\n"
        "from pto_lab import WAYS\n"
        "for planner, buffers in WAYS:\n"
        "    for v in KERNELS.values():\n"
        "        print(text_of(one(lowered(kernel('k', *v), planner, buffers)), planner.name != 'PTOAS'))\n"
    )
    made = []
    for seed, directory in (("0", tmp_path), ("1", Path.cwd()), ("4711", Path("/"))):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", program, str(Path(__file__).parent)]
        made.append(subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=True).stdout)
    assert made[0] == made[1] == made[2]
    assert made[0].count("func.func") == len(KERNELS) * len(WAYS)


# -- what has no form ------------------------------------------------------------------------------------------------


def test_both_units() -> None:
    body = """
    x = pl.load(a, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
    acc = pl.matmul(x, x)
    v = pl.move(acc, target_memory=pl.Mem.Vec)
    pl.store(pl.exp(v), [0, 0], o)
    """
    e = raised(f"a: {SQUARE}, o: pl.Out[pl.Tensor[[64, 64], pl.FP32]]", body)
    assert "'k' needs the cube unit (tile.load) and the vector unit (tile.move)" in str(e)
    assert e.location is not None
    assert e.location.begin_line == 10
    assert "as kernels of their own" in str(e)


def test_the_other_unit() -> None:
    e = raised(*KERNELS["products"], kind="AIV")
    assert "a function of kind AIV" in str(e)


@pytest.mark.parametrize(
    ("body", "line", "what"),
    [
        ("a = pl.load(x, [0, 0], [32, 64])\npl.store(pl.floordivs(pl.cast(a, pl.INT32), 3), [0, 0], q)", 9, "tile.floordivs"),
        (
            "a = pl.load(x, [0, 0], [32, 64])\nb = pl.cast(a, pl.INT16)\npl.store(pl.div(b, b), [0, 0], h)",
            10,
            "tile.div.*int16",
        ),
        ("a = pl.load(q, [0, 0], [32, 64])\npl.store(pl.div(a, a), [0, 0], q)", 9, "tile.div.*int32"),
        ("pl.write(o, [0, pl.cast(pl.read(x, [0, 0]), pl.INDEX)], 1.0)", 8, "fp32 to index"),
    ],
)
def test_what_no_instruction_does(body: str, line: int, what: str) -> None:
    """Errors name the operator and the user's line."""
    more = "q: pl.Out[pl.Tensor[[32, 64], pl.INT32]], h: pl.Out[pl.Tensor[[32, 64], pl.INT16]]"
    e = raised(f"{X}, {OUT}, {more}", body)
    assert re.search(what, str(e))
    assert e.hint
    assert e.location is not None
    assert e.location.begin_line == line


def test_a_product_beside_which_something_lies() -> None:
    """Fewer rows than the accumulator's lie closer together: what is beside them would be lost."""
    body = """
    x = pl.load(a, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
    y = pl.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
    acc = pl.matmul(x, y)
    z = pl.load(a, [0, 0], [64, 64], valid_shape=[32, 64], target_memory=pl.Mem.Mat)
    acc = pl.matmul_acc(acc, z, y)
    pl.store(acc, [0, 0], o)
    """
    assert "product" in str(raised(KERNELS["products"][0], body))


def test_where_nothing_may_be_valid() -> None:
    """An operation is not left out where its result would not be empty; a guard of the user's own says that it need not be."""
    params = f"{X}, o: pl.Out[pl.Tensor[[64, 96], pl.FP32]], n: pl.Scalar[pl.INDEX]"
    loads = "a = pl.load(x, [0, 0], [32, 64])\nb = pl.load(x, [0, 0], [32, 32], valid_shape=[32, n])"
    plain = f"{loads}\npl.store(pl.concat(a, b), [0, 0], o)"
    assert "nothing may be valid" in str(raised(params, plain))
    guarded = "if n > 0:\n" + "\n".join("    " + line for line in plain.split("\n"))
    assert function(lowered(kernel("k", params, guarded))).name == "k"


def test_pieces_of_a_loop_are_never_empty() -> None:
    """What is left of an extent, where the loop has not reached it, is more than nothing."""
    params = (
        "a: pl.Tensor[[32, 64], pl.FP32], b: pl.Tensor[[192, 64], pl.FP32], o: pl.Out[pl.Tensor[[32, 64], pl.FP32]], "
        "t: pl.Scalar[pl.INDEX]"
    )
    body = """
    for j in pl.range(0, t, 64):
        n = pl.min(64, t - j)
        x = pl.load(a, [0, 0], [32, 64], valid_shape=[32, n], target_memory=pl.Mem.Mat)
        y = pl.load(b, [j, 0], [64, 64], valid_shape=[n, 64], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul(x, y), [0, 0], o)
    """
    assert text_of(one(lowered(kernel("k", params, body))), True).count("pto.tmatmul ") == 1
    assert "nothing may be valid" in str(raised(params, body.replace("t - j", "t - 1")))

"""Captured source: the right text of the right function, or one error that names the ways out."""

from __future__ import annotations

import importlib.util
import py_compile
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import pytest
from frontend_kit import error, inline, module, pointed

import pypto.language as pl
from pypto.errors import ParserSyntaxError, UndefinedVariableError, UnsupportedFeatureError
from pypto.frontend import Source, capture


def load(path: Path, name: str = "kernels") -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def written(tmp_path: Path, text: str, **kw: Any) -> Any:
    path = tmp_path / "kernels.py"
    path.write_bytes(textwrap.dedent(text).encode(**kw))
    return load(path)


def body(source: Source) -> str:
    import ast

    return "\n".join(ast.unparse(s) for s in source.node.body)


# -- finding the text ----------------------------------------------------------------------------------------------

ODD = '''
def deco(*a, **k): return lambda f: f
@deco(
    lambda v: (v, ")"),
    {"def a(": (1, (2,))},
)
@deco()
def a(x, y):
    y = x * 2.0
    return y
@deco(lambda v: (v, (1, 2)), "def b(", key=[")"])
def b(x, y):
    """text with def c(): in it"""
    y = x * 3.0                      # brackets ( [ in a comment
# a comment at the margin
    text = """
still inside
"""
    return y
if True:
        def c(x, y):
                y = (x *
    4.0)
                return y
def same(x): return 1
def same(x): return 2; pass
class A:
\tdef tabs(x):
\t\tz = x + \\
1
\t\treturn z
async def coroutine(x): return x
'''


def test_odd_layout(tmp_path: Path) -> None:
    m = written(tmp_path, ODD)
    assert body(capture(m.a)) == "y = x * 2.0\nreturn y"
    assert "x * 3.0" in body(capture(m.b))
    assert body(capture(m.b)).endswith("return y")
    assert body(capture(m.c)) == "y = x * 4.0\nreturn y"
    assert body(capture(m.same)) == "return 2\npass"
    assert body(capture(m.A.tabs)) == "z = x + 1\nreturn z"
    assert capture(m.A.tabs).qualname == "A.tabs"
    assert capture(m.c).node.lineno == m.c.__code__.co_firstlineno


@pytest.mark.parametrize("text", [ODD.replace("\n", "\r\n"), "\ufeff" + ODD, "# é\n" + ODD, "\f\n" + ODD + "\f\n"])
def test_line_ends_marks_and_form_feeds(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kernels.py"
    path.write_bytes(text.encode("utf-8"))
    m = load(path)
    assert body(capture(m.c)) == "y = x * 4.0\nreturn y"
    assert body(capture(m.b)).endswith("return y")


def test_latin_1(tmp_path: Path) -> None:
    m = written(tmp_path, "# -*- coding: latin-1 -*-\ndef k(x):\n    é = x; return é + y\n", encoding="latin-1")
    assert body(capture(m.k)).startswith("é = x")


def test_columns_count_characters(tmp_path: Path) -> None:
    m = written(tmp_path, "def k(x):\n    ééé = x; return y\n")
    source = capture(m.k)
    name = source.node.body[1].value  # type: ignore[attr-defined]
    span = source.span(name)
    assert (span.begin_line, span.begin_column, span.end_column) == (2, 21, 22)


def test_lambdas_and_coroutines_are_refused(tmp_path: Path) -> None:
    e = error(lambda: capture(lambda x: x))
    assert isinstance(e, ParserSyntaxError)
    assert "lambda" in e.message
    m = written(tmp_path, ODD)
    assert "coroutine" in error(lambda: capture(m.coroutine)).message


def test_text_of_another_version_is_refused(tmp_path: Path) -> None:
    m = written(tmp_path, "def k(x):\n    return x * 2.0\n")
    (tmp_path / "kernels.py").write_text("def k(x):\n    return x * 3.0\n")
    e = error(lambda: capture(m.k))
    assert isinstance(e, ParserSyntaxError)
    assert "'k'" in e.message
    assert "changed" in str(e.hint)
    (tmp_path / "kernels.py").write_text("import os\n\ndef k(x):\n    return x * 2.0\n")
    assert "'k'" in error(lambda: capture(m.k)).message


def test_operators_count(tmp_path: Path) -> None:
    m = written(tmp_path, "def k(x, y):\n    return pl.f(x) + y\n")
    (tmp_path / "kernels.py").write_text("def k(x, y):\n    return pl.f(x) - y\n")
    assert "'k'" in error(lambda: capture(m.k)).message


def test_no_text() -> None:
    space: dict[str, Any] = {}
    exec("def k(x):\n    return x\n", space)
    e = error(lambda: capture(space["k"]))
    assert isinstance(e, ParserSyntaxError)
    assert "Cannot retrieve source code of 'k'".lower() in e.message.lower()
    assert "write it to a file and import it" in str(e.hint)
    assert "linecache" in str(e.hint)


def test_stale_byte_code_without_source(tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text("def k(x):\n    return x\n")
    py_compile.compile(str(path), cfile=str(tmp_path / "kernels.pyc"))
    path.rename(tmp_path / "gone.txt")
    assert "'k'" in error(lambda: capture(load(tmp_path / "kernels.pyc").k)).message


def test_inside_a_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as z:
        z.writestr("zipped_kernels.py", "def k(x):\n    return x * 5\n")
    sys.path.insert(0, str(tmp_path / "z.zip"))
    try:
        import zipped_kernels  # type: ignore[import-not-found]

        assert body(capture(zipped_kernels.k)) == "return x * 5"
    finally:
        sys.path.pop(0)


@pytest.mark.parametrize("flags", [[], ["-O"], ["-OO"]])
def test_every_optimization_level(tmp_path: Path, flags: list[str]) -> None:
    path = tmp_path / "run.py"
    path.write_text(
        "from pypto.frontend import capture\nimport math\n"
        'def k(x):\n    """doc"""\n    if __debug__: x = x + math.pi\n    return math.floor(x)\nprint(capture(k).name)\n'
    )
    root = str(Path(__file__).resolve().parents[3])
    out = subprocess.run([sys.executable, *flags, str(path)], env={"PYTHONPATH": root}, capture_output=True, text=True)
    assert out.stdout.split() == ["k"], out.stderr


def test_wrappers_and_static_methods(tmp_path: Path) -> None:
    m = written(
        tmp_path,
        """
        import functools
        def wrap(f):
            @functools.wraps(f)
            def g(*a): return f(*a)
            return g
        @wrap
        def k(x): return x * 7
        class A:
            @staticmethod
            def s(x): return x * 8
        """,
    )
    assert body(capture(m.k)) == "return x * 7"
    assert body(capture(m.A.__dict__["s"])) == "return x * 8"
    assert "staticmethod" in str(error(lambda: capture(classmethod(m.k))).hint)
    assert "no Python function" in error(lambda: capture(print)).message


def test_star_parameters_are_refused(tmp_path: Path) -> None:
    m = written(tmp_path, "def k(x, *args):\n    return x\n")
    e = error(lambda: capture(m.k))
    assert isinstance(e, UnsupportedFeatureError)
    assert "*args" in e.message
    assert pointed(e) == "args"


# -- names ---------------------------------------------------------------------------------------------------------


def names(text: str, **space: Any) -> Source:
    made: Source = capture(module(text, **space)["k"])
    return made


def test_free_names_are_what_the_body_reads() -> None:
    s = names(
        """
        import math
        SCALE, OTHER, local, N = 2.0, 3.0, 4.0, 5
        def helper(x): return x
        def k(x: pl.Tensor[[N], pl.FP32], y=OTHER):
            local = helper(x) * SCALE
            z: pl.Tile[[N, 4], pl.FP32] = pl.tile.load(local, [math.pi, i])
            for i in pl.range(SCALE):
                z = [q for q in DEPS if q]
            return z, x.shape
        """
    )
    found = s.free_names()
    assert found == (
        ("helper",),
        ("SCALE",),
        ("pl", "Tile"),
        ("N",),
        ("pl", "FP32"),
        ("pl", "tile"),
        ("math", "pi"),
        ("pl", "range"),
        ("DEPS",),
    )
    assert ("OTHER",) in s.free_names(signature=True)


def test_comprehension_targets_do_not_hide_globals() -> None:
    s = names("SCALE = 2\ndef k(x):\n    a = [SCALE for SCALE in x]\n    return SCALE\n")
    assert ("SCALE",) in s.free_names()
    s = names("SCALE = 2\ndef k(x):\n    a = [SCALE for SCALE in x]\n    return a\n")
    assert ("SCALE",) not in s.free_names()


def test_resolution_prefers_cells_and_sees_rebinding() -> None:
    space = module(
        """
        C = 128.0
        def build(c, C):
            def k(x):
                return x * c * C
            def again(v):
                nonlocal c
                c = v
            return k, again
        k, again = build(2.0, 64.0)
        """
    )
    s = capture(space["k"])
    assert (s.resolve(("c",)), s.resolve(("C",))) == (2.0, 64.0)
    space["again"](5.0)
    assert s.resolve(("c",)) == 5.0
    with pytest.raises(UndefinedVariableError, match="'nothing'"):
        s.resolve(("nothing",))


def test_a_deleted_global_is_undefined() -> None:
    space = module("S = 1\ndef k(x): return x * S\n")
    s = capture(space["k"])
    del space["S"]
    with pytest.raises(UndefinedVariableError, match="'S'"):
        s.resolve(("S",))


# -- identity ------------------------------------------------------------------------------------------------------

PLAIN = "def k(x: pl.Tensor, y: pl.FP32 = 1.0):\n    z = x * 2.0\n    return z\n"


@pytest.mark.parametrize(
    "other",
    [
        "# a comment\n\n\n" + PLAIN,
        PLAIN.replace("    z", '    """doc"""\n    # why\n\n    z'),
        PLAIN.replace("x * 2.0", "(x  *\n  2.0)"),
        PLAIN.replace("pl.Tensor", "'pl.Tensor'"),
        "def d(f): return f\n@d\n" + PLAIN,
        "if 1:\n" + textwrap.indent(PLAIN, "  "),
    ],
)
def test_canonical_text_ignores_layout(other: str) -> None:
    assert names(PLAIN).canonical() == names(other).canonical()


@pytest.mark.parametrize("change", [("2.0", "2"), ("2.0", "-2.0"), ("x *", "x +"), ("z", "w"), ("def k", "def k")])
def test_canonical_text_tells_kernels_apart(change: tuple[str, str]) -> None:
    same = change[0] == change[1]
    assert (names(PLAIN).canonical() == names(PLAIN.replace(*change)).canonical()) is same


def test_defaults_may_stay_out() -> None:
    other = PLAIN.replace("= 1.0", "= 2.0")
    assert names(PLAIN).canonical() != names(other).canonical()
    assert names(PLAIN).canonical(defaults=False) == names(other).canonical(defaults=False)
    assert names(PLAIN).defaults == {"y": 1.0}


def test_ordinals_number_statements_in_preorder() -> None:
    s = names("\n\ndef k(x):\n    a = 1\n    if x:\n        b = 2\n    else:\n        c = 3\n    return a\n")
    lines = [s.line_of(i) for i in range(7)]
    assert lines == [3, 4, 5, 6, 8, 9, -1]
    assert s.ordinal(s.node.body[1]) == 2
    assert s.ordinal(s.node) == 0


# -- annotations ---------------------------------------------------------------------------------------------------

FACTORY = """
{later}
def make(n):
    @capture
    def k(x: pl.Tensor[[64, n], pl.FP32], o: pl.Out[pl.Tensor]):
        return {body}
    return k
k = make(32)
"""


@pytest.mark.parametrize("later", ["", "from __future__ import annotations"])
@pytest.mark.parametrize("in_body", ["n", "x"])
def test_annotations_are_values(later: str, in_body: str) -> None:
    text = FACTORY.format(later=later, body=in_body)
    s = module(text, capture=lambda f: capture(f, depth=2))["k"]
    assert list(s.annotations["x"].shape) == [64, 32]
    assert s.annotations["x"].dtype is pl.FP32
    assert s.annotations["o"].direction.name == "Out"


def test_an_unknown_name_in_an_annotation_is_named() -> None:
    s = names("from __future__ import annotations\ndef k(x: pl.Tensor[[nowhere], pl.FP32]): return x\n")
    e = error(lambda: s.annotations)
    assert isinstance(e, UndefinedVariableError)
    assert "'nowhere'" in e.message
    assert "annotation of 'x'" in e.message
    assert pointed(e) == "nowhere"


def test_helpers_are_reached_by_their_names() -> None:
    @inline
    def helper(x):  # type: ignore[no-untyped-def]
        return x

    def k(x):  # type: ignore[no-untyped-def]
        return helper(x)

    s = capture(k)
    assert s.free_names() == (("helper",),)
    assert s.resolve(("helper",)) is helper

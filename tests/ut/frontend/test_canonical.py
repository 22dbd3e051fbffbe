"""The canonical text of a function, read back: the function's own text without comments, docstring and decorators."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pypto.frontend import capture
from pypto.frontend.canonical import function_name, python_text

BODIES = (
    "return x",
    "y: pl.Tile[[8, 64], pl.FP32] = pl.load(x, [0, 0], [8, 64], clamp=True)\nreturn y",
    "for i, (p,) in pl.range(0, 8, 2, init_values=(x,)):\n    q = pl.yield_(p)\nelse:\n    pass\nreturn q",
    "while x < 3 and not x == 1.5:\n    x = -x ** 2\n"
    "    if x:\n        continue\n    elif y:\n        break\n    else:\n        x = 1\nreturn x",
    "with pl.at(level=pl.Level.CORE_GROUP), f() as (g, h):\n    x[0:8, :] = a[..., None]\nreturn x",
    "y = 'it\\'s, [(a)] = \"b\"\\n\\\\', \"c'\", b'\\x00,)', None, True, 1e999, 2.5e-08, 10 ** 20, ...\nreturn y",
    "y = {'a': [1, (), (2,)], **x}\nz = [i for i in x if i]\nreturn lambda a, *b, c=1: (a, b, c, y, z, *x)",
    "try:\n    x = f'{x!r:>{3}}'\nexcept ValueError as e:\n    raise TypeError from e\nfinally:\n    del x\nreturn x",
    "match x:\n    case [1, *_] | {'k': 2} if x:\n        return 0\n    case {'k': 2, **r} if r:\n        return 1\n"
    "    case C(a, b=None):\n        return 2",
)
SIGNATURES = ("x", "x: pl.Tensor, /, y: 'pl.INDEX' = 3, *, z, w=None", "x=1, *, y=2")


def made(folder: Path, text: str) -> Any:
    path = folder / "functions.py"
    path.write_text(text)
    space: dict[str, Any] = {"pl": SimpleNamespace(Tensor=int, INDEX=int)}
    exec(compile(text, str(path), "exec"), space)
    return capture(space["function"])


@pytest.mark.parametrize("signature", SIGNATURES)
@pytest.mark.parametrize("body", BODIES, ids=lambda b: b.split("\n")[0][:40])
def test_it_is_the_functions_text(body: str, signature: str, tmp_path: Path) -> None:
    text = f"def function({signature}) -> 'int':\n" + textwrap.indent('"""Text."""\n' + body, "    ") + "\n"
    source = made(tmp_path, text)
    for defaults in (True, False):
        canonical = source.canonical(defaults)
        assert function_name(canonical) == "function"
        want = ast.parse(text.replace(" 'pl.INDEX'", " pl.INDEX")).body[0]
        assert isinstance(want, ast.FunctionDef)
        del want.body[0]
        if not defaults:
            want.args.defaults, want.args.kw_defaults = [], [None] * len(want.args.kwonlyargs)
        assert python_text(canonical) == ast.unparse(want)


def test_texts_of_another_form(tmp_path: Path) -> None:
    canonical = made(tmp_path, "def function(x):\n    return pl.f(x, 1)\n").canonical()
    assert python_text(canonical) == "def function(x):\n    return pl.f(x, 1)"
    for n in range(len(canonical) - 1):
        assert python_text(canonical[:n]) is None
    for bad in (
        "",
        "x",
        "[]",
        "[str:'f',]",
        "int:3",
        canonical.replace("Return", "walk"),
        canonical.replace("Return", "Nothing"),
    ):
        assert python_text(bad) is None
    assert function_name("int:3") == ""

"""Where a kernel's text comes from: wherever Python can find it; else one error that names the function and the ways out."""

import subprocess
import sys

import pytest
from jit_kit import HEAD

BODY = """import numpy as np, pypto.language as pl
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, 2.0)
    return y

x = np.ones((8, 8), np.float32); y = np.zeros_like(x); k(x, y); print(float(y[0, 0]))
"""


@pytest.fixture
def python(box):
    """Runs Python with arguments and standard input in the box."""
    (box.dir / "body.py").write_text(BODY)

    def run(*args, text=None, **env):
        command = [sys.executable, *args]
        return subprocess.run(command, input=text, env=box.env(COUNTERS=None, **env), cwd=box.dir, capture_output=True, text=True)

    return run


def one_error(p):
    assert p.returncode == 1 or ">>>" in p.stderr
    assert p.stdout.split() in ([], ["2.0"])
    assert p.stderr.count("error[") == 1
    assert "'k'" in p.stderr
    assert "write it to a file and import it" in p.stderr
    assert "AssertionError" not in p.stderr


def test_files_archives_and_texts(box, python):
    assert python("body.py").stdout.split() == ["2.0"]
    subprocess.run([sys.executable, "-m", "zipfile", "-c", "z.zip", "body.py"], cwd=box.dir, check=True)
    (box.dir / "elsewhere").mkdir()
    p = python("-c", "import os, sys; os.rename('body.py', 'gone.py'); sys.path.insert(0, 'z.zip'); import body")
    assert p.stdout.split() == ["2.0"], p.stderr
    (box.dir / "gone.py").rename(box.dir / "body.py")
    assert box.builds(agree=False) == 1  # one kernel, wherever its text is


@pytest.mark.parametrize("how", ["-", "-c", "exec"])
def test_text_that_python_does_not_keep(python, how):
    """Python 3.13 keeps the text of `-c` and of standard input; before, there is none."""
    p = {
        "-": lambda: python("-", text=BODY),
        "-c": lambda: python("-c", BODY),
        "exec": lambda: python("-c", "exec(open('body.py').read())"),
    }[how]()
    if p.returncode == 0:
        assert p.stdout.split() == ["2.0"]
    else:
        one_error(p)


def test_interactive(python):
    p = python("-i", "-q", text=BODY, PYTHONSTARTUP=None)
    assert p.stdout.split()[-1:] == ["2.0"] or "write it to a file and import it" in p.stderr
    assert "AssertionError" not in p.stderr


def test_byte_code_without_source(box, python):
    (box.dir / "p").mkdir()
    assert python("-c", "import py_compile; py_compile.compile('body.py', cfile='p/body.pyc')").returncode == 0
    (box.dir / "body.py").rename(box.dir / "gone.txt")
    one_error(python("-c", "import sys; sys.path.insert(0, 'p'); import body"))


def test_a_file_newer_than_its_byte_code(box, python):
    """The text that does not belong to the running code is refused, and never compiled."""
    code = "import py_compile; py_compile.compile('body.py', invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)"
    assert python("-c", code, PYTHONDONTWRITEBYTECODE=None).returncode == 0
    (box.dir / "body.py").write_text(BODY.replace("2.0", "3.0"))
    p = python("-c", "import body")
    assert p.returncode == 1
    assert "changed" in p.stderr
    assert "'k'" in p.stderr


ODD = (
    HEAD
    + '''
import functools
def deco(*a, **k): return lambda f: f
def wrapping(f):
    @functools.wraps(f)
    def inner(*a, **k): return f(*a, **k)
    return inner
@deco(
    lambda v: (v, ")"),
    {"def a(": (1, (2,))},
)
@pl.jit
def a(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, 2.0)
    return y
@pl.jit
@deco(lambda v: (v, (1, 2)), "def b(", key=[")"])
def b(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    """text with def c(): in it"""
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, 3.0)                      # brackets ( [ in a comment
    return y
if True:
        @pl.jit
        def c(x: pl.Tensor, y: pl.Out[pl.Tensor]):
                with pl.at(level=pl.Level.CORE_GROUP):
                        y[:] = pl.mul(x,
    4.0)
                return y
class Body:
	@pl.jit
	def d(x: pl.Tensor, y: pl.Out[pl.Tensor]):
		with pl.at(level=pl.Level.CORE_GROUP):
			y[:] = pl.mul(x, \\
				5.0)
		return y
@pl.jit
@wrapping
def e(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, 6.0)
    return y
if sys.argv:
    @pl.jit
    def f(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, 7.0)
        return y
else:
    @pl.jit
    def f(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, 8.0)
        return y
@wrapping
@pl.jit
def g(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, 9.0)
    return y
print(call(a), call(b), call(c), call(Body.d), call(e), call(f), call(g), g.__name__, b.__doc__[:4])
for bad in (lambda: pl.jit(lambda x, y: y), lambda: pl.jit(len), lambda: pl.jit(int), lambda: pl.jit(3)):
    try: bad(); print("accepted")
    except pypto.Error as e: print(any(w in str(e) for w in ("lambda", "len", "int", "3")))
'''
)


def test_odd_texts(box):
    want = "2.0 3.0 4.0 5.0 6.0 7.0 9.0 g text True True True True"
    assert box.run(ODD).out.split() == want.split()
    assert box.builds() == 7


def test_encodings_and_line_ends(box):
    text = (HEAD + "# caf\xe9\n" + ODD[len(HEAD) :].split("if True:")[0] + "print(call(a), call(b))\n").replace("\n", "\r\n")
    for name, data in (
        ("latin.py", b"# -*- coding: latin-1 -*-\r\n" + text.encode("latin-1")),
        ("mark.py", b"\xef\xbb\xbf" + text.encode()),
        ("feed.py", text.encode().replace(b"@pl.jit\r\n@deco", b"\x0c@pl.jit\r\n@deco")),
    ):
        (box.dir / name).write_bytes(data)
        p = subprocess.run([sys.executable, name], env=box.env(), cwd=box.dir, capture_output=True, text=True)
        assert p.stdout.split() == ["2.0", "3.0"], p.stderr
    assert box.builds() == 2

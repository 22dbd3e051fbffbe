"""A name, a path or a file once more: what was loaded before is never taken for what is meant now."""

import shutil

from jit_kit import HEAD, NO_LAUNCHER, ROOT, SCALE

AGAIN = (
    HEAD
    + """
import linecache
def define(c, where):
    src = f'''
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, {c})
    return y
'''
    ns = {"pl": pl, "__name__": "cell"}
    linecache.cache[where] = (len(src), None, src.splitlines(True), where)
    exec(compile(src, where, "exec"), ns)
    return ns["k"]
"""
)


def test_cells_run_again(box):
    code = """
a = define(2.0, "<cell 1>"); r = [call(a)]
b = define(3.0, "<cell 1>"); r += [call(b), call(a), call(b)]          # same file name, same function name
c = define(2.0, "<cell 2>"); r += [call(c), call(b), call(a)]
print(*r)
"""
    for n in (2, 0):
        assert box.run(AGAIN + code).words == ["2.0", "3.0", "2.0", "3.0", "2.0", "3.0", "2.0"]
        assert box.builds() == n


def test_source_is_taken_when_the_kernel_is_defined(box):
    """An edit between definition and first call belongs to the next import."""
    code = """
import importlib, pathlib
text = '''
import pypto.language as pl
@pl.jit.inline
def h(t: pl.Tensor):
    return pl.mul(t, 2.0)
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = h(x)
        y[:] = pl.add(t, 1.0)
    return y
'''
path = pathlib.Path("edited.py"); path.write_text(text)
import edited
path.write_text(text.replace("2.0", "3.0").replace("1.0", "5.0"))
first = edited.k
print(call(first))
os.utime(path, (1, 1)); importlib.reload(edited)
print(call(edited.k), call(first))
"""
    # The first kernel calls what `h` names now: names are looked up at each call, like Python's own.
    assert box.run(HEAD + code).words == ["3.0", "8.0", "4.0"]


def test_an_entry_that_is_built_again_while_it_is_loaded(box):
    code = (
        SCALE.replace("FACTOR", "5.0")
        + """
import shutil, subprocess
if len(sys.argv) == 1:
    root = os.environ["PYPTO_CACHE_DIR"]
    for p in [os.path.join(root, n) for n in os.listdir(root)]:
        shutil.rmtree(p) if os.path.isdir(p) else os.unlink(p)
    print(call(scaled(5.0)), flush=True)
    subprocess.run([sys.executable, __file__, "again"], check=True)
    print(call(scaled(5.0)))
"""
    )
    assert box.run(code).words == ["5.0"] * 4


def test_many_redefinitions(box):
    """Equal kernels share one library, however often they are defined; unused ones are collected."""
    code = """
import gc, weakref
seen = []
for i in range(100):
    k = define(float(i % 3), "<cell>"); assert call(k) == i % 3
    seen.append(weakref.ref(k))
del k; gc.collect()
print(sum(r() is not None for r in seen))
mapped = {l.split()[-1] for l in open("/proc/self/maps") if "kernel.so" in l}
print(len(mapped))
"""
    assert box.run(AGAIN + code).words == ["0", "3"]
    assert box.builds() == 3


def test_a_kernel_that_goes_while_others_run_it(box):
    code = """
import gc
k = define(2.0, "<cell>"); stop = []; ok = []
def work(k):
    while not stop: ok.append(call(k) == 2.0)
t = threading.Thread(target=work, args=(k,)); t.start()
for i in range(20): k = define(2.0, f"<cell {i % 2}>"); call(k); gc.collect()
stop.append(1); t.join(); print(all(ok), len(ok) > 0)
"""
    assert box.run(AGAIN + code).words == ["True", "True"]


def test_the_package_is_replaced_under_a_running_process(box):
    """An upgrade in place: what a mixture of old and new modules makes is used by nobody else."""
    shutil.copytree(ROOT / "pypto", box.dir / "pypto", ignore=shutil.ignore_patterns("__pycache__"))
    code = """
k = scaled(2.0)
if len(sys.argv) > 1:
    path = os.path.join(os.path.dirname(pypto.__file__), "codegen", "native", "unit.py")
    assert path.startswith(os.getcwd())
    with open(path, "a") as f: f.write("# a new version" + chr(10))
print(call(k), call(scaled(3.0)), pypto.cache_stats().private_builds)
"""
    here = {"PYTHONPATH": str(box.dir), **NO_LAUNCHER}
    p = box.run(HEAD + code, "upgrade", **here)
    assert p.words == ["2.0", "3.0", "2"]
    assert p.err.count("own files have changed") == 1
    box.builds()
    p = box.run(HEAD + code, **here)
    assert p.words == ["2.0", "3.0", "0"]
    assert "changed" not in p.err
    assert box.builds() == 2  # nothing of before was there
    assert box.run(HEAD + code, **here).words == ["2.0", "3.0", "0"]
    assert box.builds() == 0

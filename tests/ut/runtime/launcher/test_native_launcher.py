"""Where the launcher comes from: built once per machine, loaded from the store, replaced by ctypes where it cannot be had."""

import contextvars
import os
import shutil
import subprocess
import sys
import textwrap

import pytest
from launcher_kit import PACKAGE, Slow

from pypto.runtime import fallback, launch
from pypto.runtime.plan import MISSING

HEAD = """
import logging, shutil, sys, threading
logging.basicConfig(level=logging.INFO)
from pypto.runtime import launch
"""
TAIL = """
found = [launch.launcher() for _ in range(2)][-1]
assert len(found.Dispatcher(print, (), ())) == 0
print("native" if found.native else "ctypes")
"""


class Box:
    """Fresh processes over one cache, with a compiler that counts the launchers that it links."""

    def __init__(self, folder):
        self.folder, self.log = folder, folder / "log"
        self.cc = self.tool("cc", 'case " $* " in *" -o pypto_launcher.so "*) echo x >> "$CC_LOG" ;; esac\nexec "$REAL_CC" "$@"')

    def tool(self, name, body):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    def run(self, code="", warned="error", **env):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PYPTO")}
        clean.update(PYPTO_CACHE_DIR=str(self.folder / "cache"), PYPTO_CC=str(self.cc))
        clean.update(CC_LOG=str(self.log), REAL_CC=shutil.which("cc"))
        clean["PYTHONPATH"] = str(PACKAGE.parent.parent)
        command = [sys.executable, "-W", warned, "-c", HEAD + textwrap.dedent(code) + TAIL]
        done = subprocess.run(command, env={**clean, **env}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()[-1], done.stderr

    def builds(self):
        count = len(self.log.read_text().split()) if self.log.exists() else 0
        self.log.unlink(missing_ok=True)
        return count


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    return Box(tmp_path_factory.mktemp("box"))


def test_one_build_serves_threads_processes_and_installations(box, tmp_path):
    race = """
    threads = [threading.Thread(target=launch.native_launcher) for _ in range(8)]
    [t.start() for t in threads]; [t.join() for t in threads]
    """
    assert box.run(race) == ("native", "")
    assert box.builds() == 1
    assert box.run() == ("native", "")
    assert box.builds() == 0
    shutil.copytree(PACKAGE, tmp_path / "runtime")
    elsewhere = f"launch._PACKAGE = {str(tmp_path / 'runtime')!r}\n"
    assert box.run(elsewhere) == ("native", "")
    assert box.builds() == 0
    with open(tmp_path / "runtime" / "csrc" / "launcher.c", "a") as file:
        file.write("/* edited */\n")
    assert box.run(elsewhere) == ("native", "")
    assert box.builds() == 1


# As if the package had been installed anew, so that the build is asked for.
ANEW = "\nlaunch._stamps = lambda f=launch._stamps: (*f(), ('/dev/null', 0, 0, 0))"
NO_HEADERS = "import sysconfig; sysconfig.get_paths = lambda: {'include': '/nowhere', 'platinclude': '/nowhere'}"


BEGUN = """
from pypto.runtime import store, toolchain
launch.begin(toolchain.find_compiler(store.default_store()))
"""


def test_it_is_built_while_other_things_are_done(tmp_path):
    """Begun, then asked for: one build, which whoever asks waits for; what went wrong is said by who asks."""
    box = Box(tmp_path)
    under_way = "\nassert any(t.name == 'pypto-launcher' for t in threading.enumerate())\n"
    assert box.run(BEGUN + under_way) == ("native", "")
    assert box.builds() == 1
    nothing_to_do = "\nassert threading.active_count() == 1\n"
    assert box.run(BEGUN + nothing_to_do) == ("native", "")
    assert box.run(BEGUN + nothing_to_do, PYPTO_LAUNCHER="ctypes") == ("ctypes", "")
    assert box.builds() == 0
    got, text = box.run(NO_HEADERS + ANEW + BEGUN, warned="always")
    assert got == "ctypes"
    assert text.count("Python.h is not in /nowhere") == 1


@pytest.mark.parametrize(
    ("code", "env", "reason"),
    [
        ("", {"PYPTO_LAUNCHER": "ctypes"}, None),
        ("launch._find_native = lambda *_: exec('raise ImportError(\"not this one\")')", {}, "not this one"),
        ("launch._probes = lambda: [(launch.np.zeros(3), 8, (3,), 0, 0, 0, 0, 0, 0)]", {}, "laid out"),
        ("launch._python_headers = lambda: ('/nowhere',)" + ANEW, {}, "the C compiler failed"),
        (NO_HEADERS + ANEW, {}, "Python.h is not in /nowhere"),
        ("", {"PYPTO_CC": "/bin/false"}, "the C compiler does not work"),
    ],
    ids=["option", "import", "layout", "compile", "headers", "compiler"],
)
def test_without_it_calls_go_through_ctypes_and_that_is_said_once(box, code, env, reason):
    """Unless it was asked for."""
    got, text = box.run(code, warned="always", **env)
    assert got == "ctypes"
    assert text.count("PyptoWarning: kernels are called by ctypes") == (reason is not None)
    assert reason is None or reason in text


def test_a_wrong_compiler_option_is_not_hidden(box):
    code = """
    from pypto.errors import ConfigError
    try:
        launch.launcher()
    except ConfigError as e:
        print("ctypes", "refused")
        sys.exit()
    """
    assert box.run(code, CFLAGS="-ffast-math")[0] == "refused"


def test_both_launchers_ask_the_same_variable(native_module, monkeypatch):
    var = contextvars.ContextVar("v")
    monkeypatch.setenv("PYPTO_LAUNCHER", "ctypes")
    found = launch.launcher(var)
    assert found == (False, fallback.Entry, fallback.Dispatcher, fallback.install, MISSING)
    assert fallback._Hooks.context_var is var
    monkeypatch.setenv("PYPTO_LAUNCHER", "native")
    monkeypatch.setattr(launch, "_native", [native_module])
    found = launch.launcher(var)
    assert found == (True, native_module.Entry, native_module.Dispatcher, native_module.install, MISSING)
    assert found.Dispatcher(Slow(), (), ())() == "slow"
    for module in (native_module, fallback):
        module.configure(context_var=None)


def test_sources_known_by_the_package(tmp_path):
    """Found again without a look at them; not remembered as theirs where they changed while it was built."""
    box = Box(tmp_path)
    known = "launch.native_launcher(None, launch.Sources('this package', lambda: {}))"
    unread = "\nlaunch._stamps = lambda: exec('raise OSError(\"the sources were looked at\")')\n"
    assert box.run(known.format(False)) == ("native", "")
    assert "looked at" in box.run(unread + known.format(True), warned="always")[1]
    assert box.run(known.format(True)) == ("native", "")
    assert box.builds() == 1
    assert box.run(unread + known.format(True)) == ("native", "")

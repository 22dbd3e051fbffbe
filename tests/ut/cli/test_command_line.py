"""The command line, in process: what it prints, what it refuses, and its exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from pypto.cli.arguments import Array, Usage, parse
from pypto.cli.inspection import _STAGES
from pypto.cli.main import main
from pypto.dtypes import DataType
from pypto.jit.stages import STAGES

ROOT = Path(__file__).resolve().parents[3]
FILE = """\
from helper import SCALE

import pypto.language as pl

N = pl.dynamic("N")
X = pl.Tensor[[32, 64], pl.FP32]


@pl.jit.incore
def doubled(x: X, o: pl.Out[X]):
    t = pl.load(x, [0, 0], [32, 64])
    return pl.store(pl.mul(t, SCALE), [0, 0], o)


@pl.jit
def closed(x: X, o: pl.Out[X]):
    o = doubled(x, o)
    return o


@pl.jit
def bare(x: pl.Tensor, o: pl.Out[pl.Tensor], n: pl.INDEX):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, n, 8):
            t = pl.load(x, [i, 0], [8, 64])
            pl.store(t, [i, 0], o)
    return o


@pl.jit
def partly(x: pl.Tensor, o: pl.Out[pl.Tensor[[N, 64], pl.FP32]], n: pl.INDEX, *, scale: pl.FP32 = 2.0):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, n, 8):
            t = pl.load(x, [i, 0], [8, 64])
            pl.store(pl.mul(t, scale), [i, 0], o)
    return o


@pl.jit
def opened(x: pl.Tensor[[N, 64], pl.FP32], o: pl.Out[pl.Tensor[[N, 64], pl.FP32]], n: pl.INDEX):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, n, 8):
            pl.store(pl.load(x, [i, 0], [8, 64]), [i, 0], o)
    return o


@pl.jit
def too_large(x: pl.Tensor[[1024, 64], pl.FP32], o: pl.Out[pl.Tensor[[1024, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, 1024, 1024):
            t = pl.load(x, [i, 0], [1024, 64])
            pl.store(t, [i, 0], o)
    return o


if __name__ == "__main__":
    raise SystemExit("ran as a script")
"""


class Ran(NamedTuple):
    code: int
    out: str
    err: str


class Shell:
    """Runs the command on the file above."""

    def __init__(self, directory: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.directory, self.capture = directory, capture
        self.file = directory / "kernels_of_shell.py"
        self.file.write_text(FILE, encoding="utf-8")
        (directory / "helper.py").write_text("SCALE = 2.0\n", encoding="utf-8")

    def __call__(self, command: str, target: str, *more: str) -> Ran:
        code = main([command, str(self.file) + (f":{target}" if target else ""), *more])
        return Ran(code, *self.capture.readouterr())


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "90")
    for name in ("helper", "kernels_of_shell"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return Shell(tmp_path, capsys)


# -- inspect -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "shows"),
    [
        ("tensor", r"pl\.tile\.store\(pl\.tile\.muls\(t, 2\.0\)"),
        ("tile_ir", r"pl\.MemRef\(mem_vec_0, 0, 8192\)"),
        ("buffer_ir", r"buffer\.load\("),
        ("c", r"static int64_t kernel_\w*doubled"),
    ],
)
def test_the_stages(shell: Shell, stage: str, shows: str) -> None:
    ran = shell("inspect", "closed", "--stage", stage)
    assert (ran.code, ran.err) == (0, "")
    assert re.search(shows, ran.out)
    as_json = shell("inspect", "closed", "--stage", stage, "--json")
    read = json.loads(as_json.out)
    assert read == {"file": str(shell.file), "kernel": "closed", "stage": stage, "text": read["text"]}
    assert read["text"].rstrip("\n") == ran.out.rstrip("\n")


def test_without_a_stage_it_is_the_final_program(shell: Shell) -> None:
    assert shell("inspect", "closed").out == shell("inspect", "closed", "--stage", "buffer_ir").out
    assert "pl.tile.load" in shell("inspect", "closed", "--no-buffer-ir").out


def test_the_stages_are_those_of_kernels() -> None:
    assert set(STAGES) == set(_STAGES) - {"tensor", "memory-map"}


def test_text_for_the_assembler(shell: Shell) -> None:
    ran = shell("inspect", "closed", "--stage", "pto")
    assert ran.code == 0
    assert ran.out.startswith('module attributes {pto.target_arch = "a2a3"} {')
    assert shell("lower", "closed", "--emit", "pto").out == ran.out
    assert shell("lower", "closed", "--emit", "pto", "--dump", "passes").code == 2


def test_the_memory_map_as_text(shell: Shell) -> None:
    ran = shell("inspect", "closed", "--memory-map")
    assert ran.code == 0
    assert "doubled: Buffer stage, a2a3, planner PYPTO (kernels_of_shell.py:10)" in ran.out
    assert "Vec: 8 KiB of 184 KiB (4%) at line 11, #0 load and at 2 more; 1 tile live" in " ".join(ran.out.split())
    assert max(map(len, ran.out.split("\n"))) <= 90
    assert shell("inspect", "closed", "--stage", "memory-map").out == ran.out


def test_the_memory_map_of_another_chip_and_planner(shell: Shell) -> None:
    ran = shell("inspect", "closed", "--memory-map", "--platform", "a5sim", "--planner", "ptoas", "--no-buffer-ir", "--json")
    read = json.loads(ran.out)
    (kernel,) = read["kernels"]
    assert (read["chip"], read["planner"], read["addresses"], kernel["stage"]) == ("a5", "PTOAS", "host", "Tile")
    (vec,) = kernel["spaces"]
    assert (vec["name"], vec["capacity"]) == ("Vec", 240 << 10)
    assert [b["name"] for b in vec["blocks"]] == ["t", "muls()"]


def test_the_memory_map_as_a_page(shell: Shell) -> None:
    page = shell.directory / "map.html"
    ran = shell("inspect", "closed", "--html", str(page))
    assert (ran.code, ran.out, ran.err) == (0, f"{page}\n", "")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "doubled" in text
    ran = shell("inspect", "closed", "--memory-map", "--html", str(page), "--json")
    assert json.loads(ran.out)["program"] == "closed"
    ran = shell("inspect", "closed", "--html", str(shell.directory / "none" / "map.html"))
    assert ran.code == 2
    assert "No such file" in ran.err


def test_what_does_not_go_together(shell: Shell) -> None:
    ran = shell("inspect", "closed", "--memory-map", "--stage", "c")
    assert (ran.code, ran.err) == (2, "pypto: --memory-map and --stage c: one of them\n")
    ran = shell("inspect", "closed", "--html", "x.html", "--stage", "c")
    assert (ran.code, ran.err) == (2, "pypto: --html shows the memory map, not --stage c\n")


# -- lower -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("inspect", "--stage", "tensor"), ("inspect", "--memory-map"), ("lower",), ("precompile",)])
def test_json_is_all_that_is_printed(shell: Shell, command: tuple[str, ...]) -> None:
    shell.file.write_text(FILE + "\nprint('from the file')\n", encoding="utf-8")
    ran = shell(command[0], "closed", *command[1:], "--json")
    assert json.loads(ran.out)
    assert "from the file" in ran.err
    assert "from the file" in shell(command[0], "closed", *command[1:]).out


def test_lower_prints_the_final_program_and_dumps_on_request(shell: Shell) -> None:
    ran = shell("lower", "closed")
    assert ran.code == 0
    assert "buffer.load" in ran.out
    dumps = shell.directory / "passes"
    assert shell("lower", "closed", "--dump", str(dumps)).out == ran.out
    names = sorted(p.name for p in dumps.iterdir())
    assert names[0] == "00_frontend.py"
    assert any(n.endswith("_after_AllocateMemoryAddr.py") for n in names)
    (shell.directory / "taken").write_text("")
    ran = shell("lower", "closed", "--dump", str(shell.directory / "taken"))
    assert (ran.code, "--dump" in ran.err) == (2, True)


# -- sample arguments --------------------------------------------------------------------------------------------------


def test_samples() -> None:
    given = parse(["x=fp32[16, 64]", "y = BF16[8]", "n=3", "m=-4", "f=2.5", "t=true", "e=1e-5"])
    assert given == {
        "x": Array(DataType.FP32, (16, 64)),
        "y": Array(DataType.BF16, (8,)),
        "n": 3,
        "m": -4,
        "f": 2.5,
        "t": True,
        "e": 1e-5,
    }
    assert (given["x"].make().shape, given["y"].make().dtype) == ([16, 64], DataType.BF16)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x", "no name before '='; write --arg x=fp32[16,64] for an array, --arg n=3 for a number"),
        ("3=4", "no name before '='"),
        ("x=fp32[16,", "'fp32[16,' is neither an array nor a number; write --arg x=fp32[16,64]"),
        ("x=fp32[a]", "neither an array nor a number"),
        ("x=fp32[-1]", "neither an array nor a number"),
        ("x=__import__('os')", "neither an array nor a number"),
        ("x=double[16]", "unknown dtype 'double'; one of bool, "),
        ("x=index[16]", "unknown dtype 'index'"),
        ("x=", "neither an array nor a number"),
        ("x=fp32[3037000500,3037000500]", "an array of more than 9223372036854775807 bytes, which no address reaches"),
        (f"x=fp32[{'9' * 5000}]", "an array of more than 9223372036854775807 bytes"),
        (f"x=fp32[{'1,' * 33}]", "an array of 33 axes; arrays have at most 32"),
        (f"n={'9' * 5000}", "a number of 5000 digits; numbers have 64 bits"),
    ],
)
def test_samples_that_are_none(text: str, says: str) -> None:
    with pytest.raises(Usage, match=re.escape(says)):
        parse([text])
    with pytest.raises(Usage, match="'n' is given twice"):
        parse(["n=1", "n=2"])


def test_open_extents_and_numbers_stay_open_without_samples(shell: Shell) -> None:
    ran = shell("inspect", "opened", "--stage", "tensor")
    assert ran.code == 0
    assert 'N = pl.dynamic("N")' in ran.out
    ran = shell("inspect", "opened", "--stage", "tensor", "--arg", "n=8")
    assert ran.code == 0


@pytest.mark.parametrize(
    ("target", "args", "says"),
    [
        ("bare", (), "needs an array for 'x': --arg x=fp32[16,64]; an array for 'o': --arg o=fp32[16,64]; a number for 'n'"),
        ("bare", ("x=fp32[8,64]", "o=fp32[8,64]"), "needs a number for 'n': --arg n=3"),
        ("bare", ("y=3",), "--arg y: kernel 'bare' has no such parameter; its parameters are x, o, n"),
        ("bare", ("x=3",), "--arg x: the parameter is an array: --arg x=fp32[16,64]"),
        ("bare", ("n=fp32[3]",), "--arg n: the parameter is a number: --arg n=3"),
        ("partly", ("x=fp32[48,64]", "n=48"), "needs an array for 'o': --arg o=fp32[64,64]"),
    ],
)
def test_samples_that_do_not_fit(shell: Shell, target: str, args: tuple[str, ...], says: str) -> None:
    ran = shell("lower", target, *(x for a in args for x in ("--arg", a)))
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err


def test_samples_reach_the_kernel(shell: Shell) -> None:
    args = ("--arg", "x=fp32[48,64]", "--arg", "o=fp32[48,64]", "--arg", "n=48")
    ran = shell("inspect", "bare", "--stage", "tensor", *args)
    assert ran.code == 0
    assert "pl.Tensor[[48, 64], pl.FP32]" in ran.out
    ran = shell("inspect", "partly", "--stage", "tensor", *args)
    assert (ran.code, ran.err) == (0, "")
    # What is annotated with the extent of another array has it.
    ran = shell("inspect", "opened", "--stage", "tensor", "--arg", "x=fp32[48,64]", "--arg", "n=48")
    assert (ran.code, ran.err) == (0, "")


# -- errors ------------------------------------------------------------------------------------------------------------


def test_the_kernels_diagnostic_goes_to_stderr(shell: Shell) -> None:
    line = 1 + FILE.split("\n").index("            t = pl.load(x, [i, 0], [1024, 64])")
    for command, more in (("inspect", ("--memory-map",)), ("inspect", ()), ("lower", ())):
        ran = shell(command, "too_large", *more)
        assert (ran.code, ran.out) == (1, "")
        assert "error[C050]" in ran.err
        assert f"{shell.file}:{line}:" in ran.err
        assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("", "its kernels are closed, bare, partly, opened, too_large; name one: kernels_of_shell.py:closed"),
        ("nothing", "there is no 'nothing'; its kernels are closed, bare"),
        ("doubled", "'doubled' is a function that a kernel calls (@pl.jit.incore), not a @pl.jit kernel"),
        ("N", "'N' is a DynVar, not a @pl.jit kernel"),
        ("pl.nothing", "there is no 'pl.nothing'"),
    ],
)
def test_kernels_that_are_not_there(shell: Shell, target: str, says: str) -> None:
    ran = shell("lower", target)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err


def test_files_that_cannot_be_used(shell: Shell, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lower", str(tmp_path / "none.py:k")]) == 2
    assert "no such file" in capsys.readouterr().err
    (tmp_path / "notes.txt").write_text("")
    assert main(["lower", str(tmp_path / "notes.txt")]) == 2
    assert "a Python file" in capsys.readouterr().err
    (tmp_path / "empty.py").write_text("")
    assert main(["lower", str(tmp_path / "empty.py")]) == 2
    assert "it has no @pl.jit kernel" in capsys.readouterr().err
    broken = tmp_path / "broken.py"
    broken.write_text("def f():\n    return 1 / 0\n\n\nf()\n")
    assert main(["lower", f"{broken}:k"]) == 1
    err = capsys.readouterr().err
    assert err.endswith("ZeroDivisionError: division by zero\n")
    assert err.startswith("Traceback")
    assert "importlib" not in err
    assert "pypto" not in err.replace(str(tmp_path), "")
    broken.write_text("import pypto.language as pl\npl.random(3)\n")
    assert main(["lower", f"{broken}:k"]) == 1
    assert capsys.readouterr().err.startswith("error[")


def test_the_file_leaves_no_trace_in_the_search_path(shell: Shell) -> None:
    before = list(sys.path)
    shell("lower", "closed")
    assert sys.path == before


def test_unknown_words_are_usage() -> None:
    for argv in ([], ["nonsense"], ["inspect"], ["inspect", "f.py", "--stage", "nonsense"]):
        with pytest.raises(SystemExit) as caught:
            main(argv)
        assert caught.value.code == 2


def test_the_module_and_its_codes_in_a_process_of_their_own(shell: Shell) -> None:
    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "pypto", *argv], cwd=ROOT, capture_output=True, text=True)

    done = run("inspect", f"{shell.file}:closed", "--memory-map", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["program"] == "closed"
    assert run("lower", f"{shell.file}:too_large").returncode == 1
    assert run("lower", str(shell.file)).returncode == 2
    assert run("--help").stdout.startswith("usage: pypto")


def test_the_picture_of_the_documentation_is_what_its_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    command = next(line for line in text.split("\n") if line.startswith("pypto inspect") and "rms_norm" in line)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(ROOT)
    assert main(command.split()[1:]) == 0
    assert f"```\n{capsys.readouterr().out.rstrip()}\n```" in text

"""`pypto cache` in processes of their own: what it says, what it leaves, its exit codes, and caches that are sent elsewhere."""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys

import pytest
from jit_kit import HEAD, ROOT, tool

KERNEL = """
import pypto.language as pl
F = 2.0
X = pl.Tensor[[64, 64], pl.FP32]
@pl.jit
def k(x: X, y: pl.Out[X]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, F)
    return y
@pl.jit
def loops(x: X, y: pl.Out[X], n: pl.INDEX):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, 64, n):
            pl.store(pl.load(x, [i, 0], [n, 64]), [i, 0], y)
    return y
"""
USE = HEAD + "from kernels import k, loops\nx = ones(); y = x * 0; loops(x, y, 8); print(call(k), y[63, 63])\n"


class Command:
    def __init__(self, box):
        self.box = box

    def __call__(self, *args, code=0, **env):
        p = subprocess.run(
            [sys.executable, "-m", "pypto", "cache", *map(str, args)],
            env=self.box.env(**env),
            cwd=self.box.dir,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert p.returncode == code, p.stderr
        assert "Traceback" not in p.stderr
        return p

    def json(self, *args, code=0, **env):
        return json.loads(self(*args, "--json", code=code, **env).stdout)


@pytest.fixture
def cache(box):
    (box.dir / "kernels.py").write_text(KERNEL)
    assert box.run(USE, PYTHONPATH=f"{box.dir}:{ROOT}").words == ["2.0", "1.0"]
    box.builds()
    return Command(box)


def use(box, **env):
    return box.run(USE, **{"PYTHONPATH": f"{box.dir}:{ROOT}", **env}).words


def sent_to(new_box, cache, *args, **env):
    """Another box with the same kernels, and what it was sent."""
    other = new_box(empty=True)
    shutil.copy(cache.box.dir / "kernels.py", other.dir)
    return other, Command(other)


# -- what there is --


def test_list_and_info(cache):
    rows = cache.json("list")["artifacts"]
    assert sorted(r["kernel"] for r in rows) == ["k", "k", "loops"]  # one is of the seed that the box began with
    assert {r["kind"] for r in rows} == {"kernel"}
    assert {"launcher", "compiler", "note"} <= {r["kind"] for r in cache.json("list", "--all")["artifacts"]}
    (one,) = cache.json("list", "--kernel", "loops")["artifacts"]
    assert cache("list", "--kernel", "loops").stdout.startswith(one["digest"][:12])
    facts = cache.json("info", one["digest"][:16])
    assert facts["digest"] == one["digest"]
    assert facts["key"]["enable_buffer_ir"] is True
    assert ["n", "static", 8] in facts["key"]["parameters"]
    assert facts["files"]["kernel.so"] > 1000
    assert "kernel.so" in cache("info", one["digest"][:16]).stdout
    assert "no artifact has" in cache("info", "0123456789abcdef0", code=2).stderr
    assert "artifacts have" in cache("info", "", code=2).stderr


def test_place_and_numbers(cache, tmp_path):
    place = cache.json("where")
    assert place == {"root": str(cache.box.root), "chosen_by": "PYPTO_CACHE_DIR", "mode": "on", "problem": ""}
    numbers = cache.json("stat")
    assert numbers["artifacts"] == len(cache.json("list", "--all")["artifacts"])
    assert numbers["size"] == sum(r["size"] for r in cache.json("list", "--all")["artifacts"])
    assert {**place, **numbers} == cache.json("info")
    (tmp_path / "file").write_text("")
    assert "not a directory" in cache.json("where", PYPTO_CACHE_DIR=tmp_path / "file")["problem"]
    assert "not a directory" in cache("where", PYPTO_CACHE_DIR=tmp_path / "file" / "below").stdout
    assert cache.json("where", PYPTO_CACHE="off")["problem"] == "PYPTO_CACHE=off"
    cache.box.root.chmod(0o777)
    assert "can be written by other users" in cache.json("where")["problem"]


def test_why(cache):
    hit = cache.json("why", "kernels.py:k")
    assert (hit["hit"], hit["state"], hit["differences"]) == (True, "stored", [])
    assert hit["path"].endswith(hit["digest"])
    miss = cache.json("why", "kernels.py:k", "--planner", "dsa_rp")
    assert (miss["hit"], miss["differences"]) == (False, ["memory_planner: MemoryPlanner.PYPTO -> MemoryPlanner.DSA_RP"])
    (cache.box.dir / "kernels.py").write_text("# moved\n\n" + KERNEL.replace("F = 2.0", "F = 3.0"))
    assert cache("why", "kernels.py:k").stdout.splitlines()[1] == "  values: F: 2.0 -> 3.0"
    (cache.box.dir / "kernels.py").write_text(KERNEL.replace("X = pl.Tensor[[64, 64]", "X = pl.Tensor[[32, 64]"))
    lines = cache("why", "kernels.py:k").stdout.splitlines()
    assert lines[1:3] == ["  parameters: x: FP32 [64, 64] -> FP32 [32, 64]", "  parameters: y: FP32 [64, 64] -> FP32 [32, 64]"]
    assert all(line.startswith(("  values: the annotation of x: ", "  values: the annotation of y: ")) for line in lines[3:])
    assert lines[3:]
    (cache.box.dir / "kernels.py").write_text("# moved\n\n" + KERNEL)
    assert cache.json("why", "kernels.py:k")["hit"]
    assert cache.json("why", "kernels.py:loops", "--arg", "n=8")["hit"]
    assert cache.json("why", "kernels.py:loops", "--arg", "n=16")["differences"] == ["parameters: n: 8 -> 16"]
    assert cache.box.builds() == 0


# -- less of it --


def test_verify_finds_and_removes(cache):
    assert cache.json("verify") == {"damaged": [], "removed": []}
    (one,) = cache.json("list", "--kernel", "loops")["artifacts"]
    with open(f"{one['path']}/kernel.so", "r+b") as f:
        f.seek(1000)
        f.write(b"\xff\xfe")
    assert [d["digest"] for d in cache.json("verify", code=1)["damaged"]] == [one["digest"]]
    assert one["digest"] in cache("verify", code=1).stdout
    assert cache.json("verify", "--remove")["removed"] == [one["digest"]]
    assert cache.json("verify") == {"damaged": [], "removed": []}
    assert cache.json("list", "--kernel", "loops")["artifacts"] == []


def test_prune_remove_and_clear(cache):
    before = cache.json("list", "--all")["artifacts"]
    done = cache.json("prune", "--max-size", "100K")
    left = cache.json("list", "--all")["artifacts"]
    assert done["size"] == sum(r["size"] for r in left) <= 100 << 10
    assert left == before[: len(left)]  # what was used last
    assert done["removed"] == len(before) - len(left)
    assert cache.json("prune")["removed"] == 0  # far below the bound
    for text in ("-3", "500MB", "much"):
        said = cache("prune", "--max-size", text, code=2).stderr
        assert "expected a size in bytes, optionally with K, M or G, such as 500M" in said
    assert "--max-size many" in cache("prune", "--max-size", "many", code=2).stderr
    assert cache.json("remove", left[0]["digest"][:20])["removed"] == [left[0]["digest"]]
    cache("remove", "feed", code=2)
    read_only = cache("clear", code=1, PYPTO_CACHE="readonly")
    assert "O112" in read_only.stderr
    assert cache.json("clear")["artifacts"] == 0
    assert cache("list", "--all").stdout == "no artifacts\n"
    assert use(cache.box) == ["2.0", "1.0"]


def test_unknown_words_and_no_cache(cache, tmp_path):
    assert cache(code=2).stderr
    assert cache("nonsense", code=2).stderr
    for root in (tmp_path / "none", "/proc/none"):
        assert cache("list", PYPTO_CACHE_DIR=root).stdout == "no artifacts\n"
        assert cache.json("stat", PYPTO_CACHE_DIR=root)["artifacts"] == 0
        assert cache.json("verify", PYPTO_CACHE_DIR=root)["damaged"] == []
    assert not (tmp_path / "none").exists()


# -- to another machine --


def test_there_and_back(cache, new_box):
    """Everything a warm process needs: kernels, the launcher, and which parameters are constants."""
    made = cache.json("export", "kernels.pc")
    archive = cache.box.dir / "kernels.pc"
    data = archive.read_bytes()
    assert (made["size"], made["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    other, command = sent_to(new_box, cache)
    done = command.json("import", archive, "--sha256", made["sha256"])
    assert len(done["added"]) + len(done["left_out"]) == made["artifacts"]
    assert done["present"] == []
    other.builds()
    assert use(other) == ["2.0", "1.0"]
    assert other.builds() == 0
    assert {r["digest"] for r in command.json("list")["artifacts"]} == {r["digest"] for r in cache.json("list")["artifacts"]}
    again = command.json("import", archive)
    assert (again["added"], sorted(again["present"])) == ([], sorted(done["added"]))
    assert all(p.stat().st_mode & 0o077 == 0 for p in other.root.rglob("*") if p.is_dir())
    # Equal caches give equal files.
    assert cache.json("export", "again.pc")["artifacts"] == made["artifacts"]


def test_some_kernels_only(cache, new_box):
    cache("export", "some.pc", "--kernel", "loops")
    other, command = sent_to(new_box, cache)
    command("import", cache.box.dir / "some.pc")
    assert [r["kernel"] for r in command.json("list")["artifacts"]] == ["loops"]
    assert use(other) == ["2.0", "1.0"]
    assert other.builds() == 1
    missing = cache("export", "none.pc", "--kernel", "loops", "--kernel", "nothing", code=1).stderr
    assert "O141" in missing
    assert "no artifact of nothing" in missing
    assert not (cache.box.dir / "none.pc").exists()


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is not None, reason="the ziglang wheel is a compiler")
def test_onto_a_machine_without_a_compiler(cache, new_box):
    cache("export", "kernels.pc")
    other, command = sent_to(new_box, cache)
    empty = other.dir / "bin"
    empty.mkdir()
    nothing = {"PYPTO_CC": None, "CC": None, "PATH": empty, "REAL_CC": "/nonexistent"}
    done = command.json("import", cache.box.dir / "kernels.pc", **nothing)
    assert done["left_out"] == []
    assert use(other, **nothing) == ["2.0", "1.0"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("import pypto.runtime.toolchain as t\nt.cpu_features = lambda: ('none',)\n", "for a processor with"),
        ("import pypto.jit.identity as i\nimport sys\nsys.byteorder = 'big'\n", "little-endian, this machine is big-endian"),
        ("real = os.uname\nos.uname = lambda: type('U', (), {'machine': 'riscv64', 'nodename': 'n'})\n", "this one is riscv64"),
        ("s.code_identity = lambda store: 'another'\n", "made by another version of pypto"),
        ("os.environ['CFLAGS'] = '-O1'\n", "made by another compiler, or with other flags"),
    ],
)
def test_for_another_target(cache, new_box, change, reason):
    cache("export", "kernels.pc")
    other, command = sent_to(new_box, cache)
    code = (
        "import os, sys\nimport pypto.jit.shipping as s\n"
        + change
        + "from pypto.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    p = other.run(code, "cache", "import", cache.box.dir / "kernels.pc", ok=False)
    assert (p.returncode, "O140" in p.err, reason in p.err) == (1, True, True), p.err
    assert command.json("list")["artifacts"] == []
    p = other.run(code, "cache", "import", cache.box.dir / "kernels.pc", "--skip-foreign", "--json")
    assert reason in {
        why[: len(reason)] for d in json.loads(p.out)["left_out"] for why in (d["reason"], d["reason"][-len(reason) :])
    }
    assert command.json("list")["artifacts"] == []


def test_artifacts_of_another_compiler_stay_at_home(cache, new_box):
    assert cache.json("export", "own.pc", PYPTO_CC=tool(cache.box.dir / "cc2", 'exec "$REAL_CC" -O2 "$@"'))["artifacts"] >= 0
    other, command = sent_to(new_box, cache)
    command("import", cache.box.dir / "own.pc")
    assert command.json("list")["artifacts"] == []
    everything = cache.json("export", "all.pc", "--all")["artifacts"]
    assert everything >= len(cache.json("list")["artifacts"])


def test_a_cache_that_cannot_be_written(cache, new_box, tmp_path):
    cache("export", "kernels.pc")
    other, command = sent_to(new_box, cache)
    (tmp_path / "file").write_text("")
    for env in ({"PYPTO_CACHE": "readonly"}, {"PYPTO_CACHE": "off"}, {"PYPTO_CACHE_DIR": tmp_path / "file"}):
        assert "O143" in command("import", cache.box.dir / "kernels.pc", code=1, **env).stderr
    assert command("import", tmp_path / "nothing.pc", code=2).stderr
    assert cache("export", tmp_path / "no" / "where.pc", code=2).stderr
    assert cache("export", tmp_path, code=2).stderr
    assert "O142" in command("import", cache.box.dir / "kernels.pc", "--sha256", "0" * 64, code=1).stderr


def test_a_damaged_entry_is_not_exported(cache):
    (one,) = cache.json("list", "--kernel", "loops")["artifacts"]
    with open(f"{one['path']}/kernel.so", "r+b") as f:
        f.seek(1000)
        f.write(b"\xff\xfe")
    assert "S130" in cache("export", "kernels.pc", code=1).stderr
    assert os.listdir(cache.box.dir).count("kernels.pc") == 0
    assert not [n for n in os.listdir(cache.box.dir) if n.endswith(".part")]

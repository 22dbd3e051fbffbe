"""What the processor has, and which one code is made for: levels that this machine runs, errors for all others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pypto.errors import ConfigError
from pypto.runtime import processor
from pypto.runtime.processor import cpu_features, made_for

V2 = ("pni", "popcnt", "sse2", "sse4_1", "sse4_2", "ssse3")
V3 = ("abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe")


def test_processor_features(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    block = "processor\t: 0\nmodel name\t: avx2 fma\nflags\t\t: fpu sse2 avx2 fma novelty\n\n"
    info.write_text(block + block.replace("avx2 fma novelty", "sse3"))
    assert processor._read_features(str(info)) == ("avx2", "fma", "sse2")
    info.write_text("processor\t: 0\nFeatures\t: fp asimd sve2 nonsense\n\n")
    assert processor._read_features(str(info)) == ("asimd", "fp", "sve2")
    info.write_text("")
    assert processor._read_features(str(info)) == processor._read_features(str(tmp_path / "none")) == (os.uname().machine,)
    assert cpu_features() is cpu_features()
    assert list(cpu_features()) == sorted(cpu_features())


def test_only_the_first_processor_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text(("flags\t: sse2 " + "x" * 1000 + "\n\n") * 500)
    reads: list[int] = []
    real = os.read
    monkeypatch.setattr(os, "read", lambda fd, n: (reads.append(n), real(fd, n))[1])
    processor._read_features(str(info))
    assert sum(reads) <= 8192


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Its only element is the machine's name."""
    found = ["x86_64"]
    real = os.uname()
    monkeypatch.setattr(os, "uname", lambda: type(real)((*real[:4], found[0])))
    return found


@pytest.mark.parametrize(
    ("name", "has", "flags", "features"),
    [
        ("native", ("avx2", "sse2"), ("-march=native",), ("avx2", "sse2")),
        ("native", ("avx512f",), ("-march=native", "-mprefer-vector-width=512"), ("avx512f",)),
        ("x86-64", (*V2, *V3, "avx512f"), ("-march=x86-64",), ("sse2",)),
        ("x86-64", ("x86_64",), ("-march=x86-64",), ("sse2",)),
        ("x86-64-v3", (*V2, *V3, "avx512f", "gfni"), ("-march=x86-64-v3",), tuple(sorted((*V2, *V3)))),
    ],
)
def test_levels(
    name: str, has: tuple[str, ...], flags: tuple[str, ...], features: tuple[str, ...],
    machine: list[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """What a level has is the same on every machine that has at least that."""
    monkeypatch.setenv("PYPTO_TARGET_CPU", name)
    made = made_for(has)
    assert (made.flags("gcc"), made.features) == (flags, features)


def test_what_zig_calls_them(machine: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_TARGET_CPU", "x86-64-v2")
    assert made_for(V2).flags("zig") == ("-march=x86_64_v2",)
    machine[0] = "aarch64"
    monkeypatch.setenv("PYPTO_TARGET_CPU", "armv8-a")
    assert made_for(("asimd", "fp", "sve")) == ("armv8-a", ("asimd", "fp"), True)
    assert made_for(("asimd", "fp")).flags("zig") == made_for(("asimd", "fp")).flags("gcc") == ("-mcpu=generic",)


def test_what_cannot_run_here(machine: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_TARGET_CPU", "x86-64-v4")
    with pytest.raises(ConfigError, match="PYPTO_TARGET_CPU=x86-64-v4: this processor has no avx512bw, avx512cd") as caught:
        made_for((*V2, *V3, "avx512f"))
    assert caught.value.code == "O123"
    assert (caught.value.hint or "").endswith("native, x86-64, x86-64-v2, x86-64-v3")
    machine[0] = "aarch64"
    with pytest.raises(ConfigError, match="this machine is aarch64") as caught:
        made_for(("asimd", "fp"))
    assert (caught.value.hint or "").endswith("native, armv8-a")
    monkeypatch.setenv("PYPTO_TARGET_CPU", "haswell")
    with pytest.raises(ConfigError, match="PYPTO_TARGET_CPU='haswell': expected one of native, x86-64, "):
        made_for(("asimd", "fp"))

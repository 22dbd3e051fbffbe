"""The processor that code is made for: this machine's with all it has, or the least one of a level.

In: /proc/cpuinfo, PYPTO_TARGET_CPU.  Out: names of instruction sets as the kernel names them, and a `Processor`.  Invariant:
code for what is returned runs here.
"""

from __future__ import annotations

import os

from pypto import config
from pypto.errors import ConfigError
from pypto.named import NamedTuple

__all__ = ["Processor", "cpu_features", "made_for"]


class Processor(NamedTuple):
    """`features`: the instruction sets that code may use, sorted; of a level, the same on every machine."""

    name: str
    features: tuple[str, ...]
    arm: bool

    def flags(self, family: str) -> tuple[str, ...]:
        """What tells a compiler of this family; zig spells names with underscores."""
        name = self.name.replace("-", "_") if family == "zig" else self.name
        chosen = "generic" if self.arm and name != "native" else name
        wide = ("-mprefer-vector-width=512",) if "avx512f" in self.features else ()
        return (f"-mcpu={chosen}" if self.arm else f"-march={chosen}", *wide)


# What each level has beyond the one before, of the sets that are told apart here; every machine has the first one.
_LEVELS = {
    "x86_64": {
        "x86-64": "sse2",
        "x86-64-v2": "pni ssse3 sse4_1 sse4_2 popcnt",
        "x86-64-v3": "avx avx2 bmi1 bmi2 f16c fma abm movbe",
        "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
    },
    "aarch64": {"armv8-a": "fp asimd"},
}


def made_for(has: tuple[str, ...]) -> Processor:
    """The processor that PYPTO_TARGET_CPU names, on a machine that has these instruction sets.

    ConfigError O123: it cannot run code for that one.
    """
    machine, name = os.uname().machine, config.TARGET_CPU.get()
    arm = machine in ("aarch64", "arm64")
    if name == "native":
        return Processor(name, has, arm)
    levels = _LEVELS.get("aarch64" if arm else machine, {})
    features: set[str] = set()
    runs = ["native"]
    for n, (level, more) in enumerate(levels.items()):
        features.update(more.split())
        lacks = features.difference(has) if n else set()
        if not lacks:
            runs.append(level)
        if level == name:
            if lacks:
                raise _not_here(name, f"this processor has no {', '.join(sorted(lacks))}", runs)
            return Processor(name, tuple(sorted(features)), arm)
    raise _not_here(name, f"this machine is {machine}", runs)


def _not_here(name: str, why: str, runs: list[str]) -> ConfigError:
    return ConfigError(
        f"{config.TARGET_CPU.name}={name}: {why}",
        hint=f"kernels run where they are compiled; what can be asked for here: {', '.join(runs)}",
        code="O123",
    )


# What this machine has.

_RELEVANT_WORDS = (
    "sse2 sse3 pni ssse3 sse4_1 sse4_2 popcnt avx f16c fma bmi1 bmi2 lzcnt abm avx2 avx_vnni avx512f avx512dq avx512cd avx512bw"
    " avx512vl avx512ifma avx512vbmi avx512_vbmi2 avx512_vnni avx512_bitalg avx512_vpopcntdq avx512_bf16 avx512_fp16"
    " avx512_vp2intersect gfni vaes vpclmulqdq amx_tile amx_bf16 amx_int8 amx_fp16 avx_ifma avx_vnni_int8 avx_ne_convert movbe"
    # aarch64
    " fp asimd fphp asimdhp asimdrdm asimddp asimdfhm bf16 i8mm svebf16 svei8mm sve sve2 atomics fcma jscvt sme sme2"
)
_RELEVANT = frozenset(_RELEVANT_WORDS.split())
_features: list[tuple[str, ...]] = []


def cpu_features() -> tuple[str, ...]:
    """Names of the instruction sets that decide what code can be made and run here, sorted; as the kernel names them."""
    if not _features:
        _features.append(_read_features())
    return _features[0]


def _read_features(path: str = "/proc/cpuinfo") -> tuple[str, ...]:
    """From the block of the first processor; the file is long on large machines, and made while it is read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return (os.uname().machine,)
    try:
        data = b""
        while b"\n\n" not in data:
            more = os.read(fd, 4096)
            if not more:
                break
            data += more
    finally:
        os.close(fd)
    for line in data.partition(b"\n\n")[0].splitlines():
        if line.startswith((b"flags", b"Features")):
            return tuple(sorted(_RELEVANT.intersection(line.decode(errors="replace").split())))
    return (os.uname().machine,)

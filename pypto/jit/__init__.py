"""The decorator and what stands behind a call: bind, specialize, look up, compile, launch.

`@pl.jit` itself loads only source capture; the compiler loads with the first kernel that no cache has.
"""

from __future__ import annotations

from pypto.jit.decorator import jit
from pypto.jit.function import JITFunction

__all__ = ["JITFunction", "jit"]

"""What lives where in on-chip memory, and when: `memory_map(program, ...)` gives a `MemoryMap`, which draws itself."""

from pypto.debug.memory_map.build import memory_map
from pypto.debug.memory_map.model import Block, KernelMap, MemoryMap, SpaceMap, Statement

__all__ = ["Block", "KernelMap", "MemoryMap", "SpaceMap", "Statement", "memory_map"]

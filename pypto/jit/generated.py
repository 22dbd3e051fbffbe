"""What code generation makes for a chip, without machine code of this host: programs and texts, nothing that could be called.

In: a request, also for a device that this machine does not have.  Out: a `Generated`; nothing is stored.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from types import MappingProxyType

from pypto.errors import ArgumentTypeError
from pypto.jit import driver
from pypto.jit.request import ProgramRequest, Request
from pypto.jit.specializing import with_statics
from pypto.jit.stages import Stages
from pypto.runtime import ptoas
from pypto.runtime.directories import private_dir
from pypto.runtime.store import default_store
from pypto.target import require_host

__all__ = ["Generated", "generate"]


class Generated(Stages):
    """What `kernel.generate()` gives: `lowered`, `inspect(stage)`, `copy_to(directory)` as of a compiled kernel."""

    def __init__(self, files: Mapping[str, bytes], request: Request | ProgramRequest) -> None:
        super().__init__(_Held(files), request)
        self.platform = request.options.platform

    def __call__(self, *args: object, **named: object) -> None:
        """ToolchainError (T130): there is nothing to call."""
        require_host(self.platform)
        raise ArgumentTypeError("generated texts cannot be called", hint="compile() the kernel, or call it")

    def inspect(self, stage: str) -> str:
        """As of a compiled kernel; for stage "c" of a device's platform, ToolchainError (T130)."""
        if stage == "c":
            require_host(self.platform)
        return super().inspect(stage)


class _Held:
    """Files that are nowhere but in memory."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = MappingProxyType(dict(files))

    def read(self, name: str) -> bytes:
        return self.files[name]


def generate(request: Request | ProgramRequest) -> Generated:
    """Lower and generate; ToolchainError for a text that the assembler refuses."""
    if isinstance(request, ProgramRequest):
        lowered = driver.lower_request(request)
    else:
        request, lowered = with_statics(request, lambda r: (r, driver.lower_request(r)))
    assembler = ptoas.find(default_store())
    if assembler is None:
        return Generated(driver.device_files(lowered, request.options, None, ""), request)
    with tempfile.TemporaryDirectory(prefix="generate-", dir=private_dir()) as directory:
        return Generated(driver.device_files(lowered, request.options, assembler, directory), request)

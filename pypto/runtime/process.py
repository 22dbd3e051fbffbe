"""One compiler process: started apart, bounded in time, ended with all its children.

In: a command, a directory to work in, a limit.  Out: its exit status and everything it printed.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress

from pypto import config
from pypto.errors import ConfigError
from pypto.runtime.directories import default_root, fresh_directory, make_directory, private_dir, remove_tree

__all__ = ["run"]

# Variables by which compilers read or write files that no key knows of.
_UNWANTED = (
    "CPATH",
    "C_INCLUDE_PATH",
    "DEPENDENCIES_OUTPUT",
    "SUNPRO_DEPENDENCIES",
    "LIBRARY_PATH",
    "GCC_COMPARE_DEBUG",
    "CCC_OVERRIDE_OPTIONS",
    "LD_RUN_PATH",
    "LD_PRELOAD",
)


def run(
    command: list[str], directory: str, limit: float, text: str = "", meanwhile: Callable[[], object] | None = None
) -> tuple[int | None, str]:
    """Exit status (negative: the signal that ended it; None: it took longer than `limit` seconds), and its output.

    `text` is its standard input.  It inherits no descriptor.  OSError if it cannot be started.  KeyboardInterrupt and
    the like end it before they go on.  `meanwhile` is called while it works, and does not count towards the limit.
    """
    # The compiler's own temporary files: beside the result, so that one directory with room is enough.
    scratch = fresh_directory(directory, "cc-")
    try:
        with open(os.path.join(scratch, "text") if text else os.devnull, "w+b") as given:
            given.write(text.encode())
            given.seek(0)
            process = subprocess.Popen(
                command,
                cwd=directory,
                env=_environment(command[0], scratch),
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            if meanwhile is not None:
                meanwhile()
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            _end(process)
            return None, ""
        except BaseException:
            _end(process)
            raise
        return process.returncode, output.decode(errors="replace")
    finally:
        remove_tree(scratch)


def _environment(program: str, scratch: str) -> dict[str, str]:
    """What a compiler sees: messages in English, temporary files in `scratch`, nothing that adds files behind our back."""
    found = {name: value for name, value in config.environment().items() if name not in _UNWANTED}
    found |= {"TMPDIR": scratch, "LC_ALL": "C"}
    if os.path.basename(program) == "zig" and "ZIG_GLOBAL_CACHE_DIR" not in found:
        # It needs a cache of its own, and does not get along without a home.
        try:
            place = os.path.join(os.path.dirname(default_root()), "zig")
            make_directory(place)
        except (ConfigError, OSError):
            place = os.path.join(private_dir(), "zig")
        found["ZIG_GLOBAL_CACHE_DIR"] = place
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the compiler with all that it started, and wait for it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        with suppress(OSError):
            process.stdout.close()

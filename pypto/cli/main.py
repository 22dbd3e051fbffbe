"""The command line: arguments in, text and an exit code out.

0: done.  1: the kernel, its file, or (of `doctor`) the machine is wrong.  2: the command is.  130: Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TextIO

from pypto.cli.arguments import Usage
from pypto.cli.cache import add_cache
from pypto.cli.doctor import add_doctor
from pypto.cli.inspection import add_inspect, add_lower
from pypto.cli.loading import FileFailed
from pypto.cli.precompilation import add_precompile
from pypto.errors import Error, PyptoWarning

__all__ = ["main"]

_DONE, _KERNEL, _USAGE, _INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code.  SystemExit, as of argparse, for --help and for arguments it does not know."""
    parser = argparse.ArgumentParser(prog="pypto", description="A compiler for tile kernels written in Python.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    add_inspect(commands)
    add_lower(commands)
    add_cache(commands)
    add_precompile(commands)
    add_doctor(commands)
    given = parser.parse_args(argv)
    given.out = sys.stdout
    code = _DONE
    try:
        # One JSON object is all there is on stdout, whatever the kernel's file prints while it is read.
        with warnings.catch_warnings(), redirect_stdout(sys.stderr if given.json else given.out):
            warnings.showwarning = _warn
            code = given.run(given) or _DONE
            given.out.flush()
    except Usage as e:
        print(f"pypto: {e}", file=sys.stderr)
        return _USAGE
    except FileFailed as e:
        _show_cause(e)
        return _KERNEL
    except Error as e:
        print(e, file=sys.stderr)
        return _KERNEL
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough; nothing more is written, at exit neither
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    text = str(message) if issubclass(category, PyptoWarning) else f"{filename}:{lineno}: {category.__name__}: {message}"
    print(f"warning: {text}", file=sys.stderr)


def _show_cause(failed: FileFailed) -> None:
    """What the file raised: a diagnostic where it is one, else the traceback from the file on."""
    cause = failed.__cause__
    if isinstance(cause, Error):
        print(cause, file=sys.stderr)
        return
    assert cause is not None
    trace = cause.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != str(failed):
        trace = trace.tb_next
    print("".join(traceback.format_exception(type(cause), cause, trace)), end="", file=sys.stderr)

"""Which directories artifacts may live in: the cache root, and private ones.

In: the options and what the file system says.  Out: a root that nobody else can write or own, or the reason why
there is none; private directories (mode 0700, unpredictable name) that this process removes when it ends.
Nothing is created or looked at when this module is imported.
"""

from __future__ import annotations

import os
import stat
import sys
import warnings
from contextlib import suppress

from pypto import config
from pypto.errors import ConfigError, PyptoWarning, caution, holding

__all__ = [
    *("default_root", "distrust", "fresh_directory", "make_directory", "private_bases", "private_dir", "remove_tree"),
    *("say_once", "trust_problem"),
]

_said: dict[str, object] = {}
# Directory in which private directories are made ("" is the system's choice) -> the one of this process, by process id.
_private: dict[tuple[int, str], str] = {}


def say_once(key: str, text: str) -> bool:
    """One PyptoWarning per process and key; whether this was the time."""
    turn = object()
    if _said.setdefault(key, turn) is not turn:
        return False
    if holding():
        caution(text, "pypto", 1)
    else:
        warnings.warn(PyptoWarning(text), stacklevel=2)
    return True


def default_root() -> str:
    """The user's cache directory for pypto; ConfigError (O110) where this user has none."""
    if not sys.platform.startswith("linux"):
        import platformdirs

        return platformdirs.user_cache_dir("pypto", appauthor=False)
    # The same directory as platformdirs names here, without the ten milliseconds of importing it.
    base = config.environment().get("XDG_CACHE_HOME", "").strip()
    if not os.path.isabs(base):
        base = os.path.join(_home(), ".cache")
    return os.path.join(base, "pypto")


def _home() -> str:
    home = config.environment().get("HOME", "")
    if os.path.isabs(home):
        return home
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise ConfigError(
            f"user {os.getuid()} has no home directory", hint="set PYPTO_CACHE_DIR to a directory that you own", code="O110"
        ) from None


def distrust(status: os.stat_result) -> str:
    """Why code must not be loaded from a directory with this status, or an empty string."""
    if not stat.S_ISDIR(status.st_mode):
        return "is not a directory"
    # Whoever is root can change any file anyway.
    if status.st_uid not in (os.geteuid(), 0):
        return f"belongs to another user ({status.st_uid})"
    if status.st_mode & 0o022:
        return f"can be written by other users (mode {stat.S_IMODE(status.st_mode):04o})"
    return ""


def trust_problem(root: str) -> str:
    """Why `root` (an absolute path without links) cannot be trusted, or an empty string; OSError if it cannot be looked at.

    Also its parents: whoever can write a directory without the sticky bit can put another one in the place of ours.
    """
    reason = distrust(os.stat(root, follow_symlinks=False))
    if reason:
        return f"{root} {reason}"
    parent = os.path.dirname(root)
    while True:
        mode = os.stat(parent).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"{root} lies in {parent}, which every user can write (mode {stat.S_IMODE(mode):04o})"
        above = os.path.dirname(parent)
        if above == parent:
            return ""
        parent = above


def make_directory(path: str) -> None:
    """Make `path` and its missing parents with mode 0700; OSError."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        parent = os.path.dirname(path)
        if parent == path:
            raise
        make_directory(parent)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            return


def fresh_directory(parent: str, prefix: str) -> str:
    """A new directory of this user's alone in a directory that exists; its name cannot be foreseen.  OSError."""
    # What `tempfile` does, without the modules that it and `shutil` load for what is not needed here.
    path = os.path.join(parent, f"{prefix}{os.urandom(8).hex()}")
    os.mkdir(path, 0o700)
    return path


def remove_tree(path: str) -> None:
    """Delete a directory and what it holds, not what its links lead to; what resists stays, without a word."""
    if os.path.islink(path):
        return
    with suppress(OSError), os.scandir(path) as found:
        for e in list(found):
            with suppress(OSError):
                if e.is_dir(follow_symlinks=False):
                    remove_tree(e.path)
                else:
                    os.unlink(e.path)
    with suppress(OSError):
        os.rmdir(path)


def private_dir(base: str = "") -> str:
    """A directory that only this process uses, below `base` or where temporary files go; OSError if it cannot be made.

    It is removed when the process ends normally.  Forked children make their own.
    """
    key = (os.getpid(), base)
    path = _private.get(key)
    if path is None or not os.path.isdir(path):
        import tempfile

        path = _private[key] = tempfile.mkdtemp(prefix="pypto-", dir=base or None)
        _remove_at_exit(path)
    return path


def private_bases() -> tuple[str, ...]:
    """Directories below which private ones can be made, in order of preference; the empty text is the system's choice."""
    runtime = config.environment().get("XDG_RUNTIME_DIR", "")
    return ("", *([runtime] if runtime else []), "/dev/shm", "/var/tmp", os.path.expanduser("~"))


def _remove_at_exit(path: str) -> None:
    import atexit
    import shutil

    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        # Forked workers end without running atexit functions.
        util.Finalize(None, remove, exitpriority=0)

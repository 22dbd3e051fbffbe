"""`from harness import st` and `from harness.st import ...`: the names of `pypto.testing.st`."""

from pypto.testing.st import *  # noqa: F403
from pypto.testing.st import __all__ as __all__

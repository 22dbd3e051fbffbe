"""Makes what the tests of all passes share importable from the folders below."""

import sys
from pathlib import Path

_SHARED = str(Path(__file__).resolve().parent)
if _SHARED not in sys.path:
    sys.path.append(_SHARED)

"""Makes what the tests of the passes share importable here."""

import sys
from pathlib import Path

_SHARED = str(Path(__file__).resolve().parents[2] / "passes")
if _SHARED not in sys.path:
    sys.path.append(_SHARED)

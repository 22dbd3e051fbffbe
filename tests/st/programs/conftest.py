"""Makes what all system tests share importable."""

import sys
from pathlib import Path

_SHARED = str(Path(__file__).resolve().parents[1])
if _SHARED not in sys.path:
    sys.path.append(_SHARED)

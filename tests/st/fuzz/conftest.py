"""Makes what the tests of random programs share with other tests importable."""

import sys
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[2]
for _shared in (_TESTS / "st", _TESTS / "st" / "operators", _TESTS / "ut" / "ir" / "ops"):
    if str(_shared) not in sys.path:
        sys.path.append(str(_shared))

"""Makes what the tests of vector widths share with other tests importable."""

import sys
from pathlib import Path

_ST = Path(__file__).resolve().parents[1]
for _shared in (_ST, _ST / "operators"):
    if str(_shared) not in sys.path:
        sys.path.append(str(_shared))

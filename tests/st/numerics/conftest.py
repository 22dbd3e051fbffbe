"""Makes what other system tests share importable: the lab, the arrays and comparisons of programs, the operators' oracle."""

import sys
from pathlib import Path

_ST = Path(__file__).resolve().parents[1]
for _shared in (_ST, _ST / "programs", _ST / "operators", _ST.parent / "ut" / "ir" / "ops"):
    if str(_shared) not in sys.path:
        sys.path.append(str(_shared))

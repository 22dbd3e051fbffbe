"""Seconds to open a library that holds one empty function, and to call that: FILE FUNCTION."""

from __future__ import annotations

import ctypes
import json
import sys
import time


def main() -> None:
    begin = time.perf_counter()
    getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])()
    print(json.dumps({"first": time.perf_counter() - begin}))


if __name__ == "__main__":
    main()

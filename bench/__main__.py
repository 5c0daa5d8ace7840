"""Measures against the budgets and prints figures and ratios; asserts nothing. `python -m bench redis --kills 100 --long`: one bench,
with its arguments.
"""

import sys
from collections.abc import Callable
from typing import Final

from bench import lite, redis, reembed, sources

BENCHES: Final[dict[str, Callable[[list[str]], None]]] = {
    "lite": lite.main,
    "redis": redis.main,
    "sources": sources.main,
    "reembed": reembed.main,
}

name, *arguments = sys.argv[1:] or [""]
if name and name not in BENCHES:
    sys.exit(f"unknown bench {name!r}; there are: {', '.join(BENCHES)}")
for known, bench in BENCHES.items():
    if name in {"", known}:
        print(f"\n{known}")
        bench(arguments)

"""Python's garbage collector in a process that does nothing but work."""

import gc
from typing import Final

YOUNG: Final = 20_000
OLD: Final = 20
"""How many new objects make a collection of the young, and how many of these one of the old; Python's own 700 and 10
suit a short script.
"""


def relax() -> None:
    """Leave alone what is loaded by now, for it stays, and look at what is new less often.

    Looking at every module again and again took a third of the processor time of short jobs.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, OLD, OLD)

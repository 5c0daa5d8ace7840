"""The one place that reads the wall clock."""

import time
from typing import Final

DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000


def now_ms() -> int:
    """Return milliseconds since the epoch on this machine. Due times and leases use the store's clock instead."""
    return time.time_ns() // 1_000_000

"""Pool ks: heavy work on the knowledge store itself. Also the table of its handlers.

Its slots bound it, and each job takes one turn of the encoder at a time, so that questions are answered meanwhile.
"""

import importlib
from typing import Any, Final

from consumers.handlers import backup, curate, reembed

HANDLERS: Final = (*reembed.HANDLERS, *curate.HANDLERS, *backup.HANDLERS)


def __getattr__(name: str) -> Any:
    """Make `app`, for `faststream run consumers.ks:app`, when it is asked for: FastStream is slow to import."""
    if name == "app":
        return importlib.import_module("consumers.lanes").app_of("ks")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

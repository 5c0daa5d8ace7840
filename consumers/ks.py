"""Pool ks: heavy work on the knowledge store itself.

Its slots bound it, and each job takes one turn of the encoder at a time, so that questions are answered meanwhile.
"""

from typing import Final

from consumers.apps import app_on_demand
from consumers.handlers import backup, curate, reembed
from consumers.knowledge.belonging import guarded

HANDLERS: Final = guarded(*backup.HANDLERS, *curate.HANDLERS, *reembed.HANDLERS)

__getattr__ = app_on_demand(HANDLERS, "ks")

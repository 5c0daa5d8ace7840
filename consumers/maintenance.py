"""Pool maintenance: long and rare work on documents and bases."""

from typing import Final

from consumers.apps import app_on_demand
from consumers.handlers import clearing, cloning, faq, index_deleting, moving, removing, reparsing, sync
from consumers.knowledge.belonging import guarded

HANDLERS: Final = guarded(
    *clearing.HANDLERS,
    *cloning.HANDLERS,
    *faq.HANDLERS,
    *index_deleting.HANDLERS,
    *moving.HANDLERS,
    *removing.HANDLERS,
    *reparsing.HANDLERS,
    *sync.HANDLERS,
)

__getattr__ = app_on_demand(HANDLERS, "maintenance")

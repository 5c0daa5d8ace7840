"""Pool core: parsing of documents, of what is written by hand and of files in a chat."""

from typing import Final

from consumers.apps import app_on_demand
from consumers.handlers import attachments, documents, manual
from consumers.knowledge.belonging import guarded

HANDLERS: Final = guarded(*attachments.HANDLERS, *documents.HANDLERS, *manual.HANDLERS)

__getattr__ = app_on_demand(HANDLERS, "core")

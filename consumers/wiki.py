"""Pool wiki: the pages of bases."""

from typing import Final

from consumers.apps import app_on_demand
from consumers.handlers import wiki
from consumers.knowledge.belonging import guarded

HANDLERS: Final = guarded(*wiki.HANDLERS)

__getattr__ = app_on_demand(HANDLERS, "wiki")

"""Pool enrichment: pictures, summaries, questions, graph, tags, tables, memory and profiles."""

from typing import Final

from consumers.apps import app_on_demand
from consumers.handlers import enrichment, memory, profiling, tables
from consumers.knowledge.belonging import guarded

HANDLERS: Final = guarded(*enrichment.HANDLERS, *memory.HANDLERS, *profiling.HANDLERS, *tables.HANDLERS)

__getattr__ = app_on_demand(HANDLERS, "enrichment")

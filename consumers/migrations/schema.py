"""What the migrations must add up to: the tables of the ledger and of the domain."""

from typing import Final

from consumers.knowledge import (
    tables,
    tables_attachments,
    tables_backups,
    tables_data,
    tables_faq,
    tables_graph,
    tables_memory,
    tables_profiles,
    tables_sources,
    tables_spans,
    tables_stages,
    tables_tasks,
    tables_wiki,
)
from pipeline.store import tables_pending, tables_people
from pipeline.store.tables import metadata as ledger

TARGETS: Final = (ledger, tables.metadata)
FAMILIES: Final = (
    tables_attachments,
    tables_backups,
    tables_data,
    tables_faq,
    tables_graph,
    tables_memory,
    tables_profiles,
    tables_sources,
    tables_spans,
    tables_stages,
    tables_tasks,
    tables_wiki,
    tables_people,
    tables_pending,
)
"""Modules whose import adds their tables to the domain's or the ledger's."""


def ours(name: str | None, kind: str, _parents: object) -> bool:
    """Whether the models speak of this. The index of SQLite (virtual tables and what they make) is in plain SQL."""
    return not (kind == "table" and name is not None and name.startswith("search_"))

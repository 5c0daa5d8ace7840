"""What the migrations must add up to: the tables of the ledger and of the domain."""

from typing import Final

from consumers.knowledge.tables import (
    attachments,
    backups,
    data,
    faq,
    files,
    graph,
    knowledge,
    memory,
    profiles,
    sources,
    spans,
    stages,
    tasks,
    wiki,
)
from pipeline.store import tables_pending, tables_people
from pipeline.store.tables import metadata as ledger

TARGETS: Final = (ledger, knowledge.metadata)
FAMILIES: Final = (
    attachments,
    backups,
    data,
    faq,
    files,
    graph,
    memory,
    profiles,
    sources,
    spans,
    stages,
    tasks,
    wiki,
    tables_people,
    tables_pending,
)
"""Modules whose import adds their tables to the domain's or the ledger's."""


def ours(name: str | None, kind: str, _parents: object) -> bool:
    """Whether the models speak of this. The index of SQLite (virtual tables and what they make) is in plain SQL."""
    return not (kind == "table" and name is not None and name.startswith("search_"))

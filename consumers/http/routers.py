"""Every router of the domain, and what any of them may run into."""

from collections.abc import Mapping
from typing import Final

from fastapi import APIRouter

from consumers.http import (
    asking,
    attachments,
    backups,
    documents,
    entering,
    faq,
    faq_imports,
    graph,
    knowledge_bases,
    manual,
    memory,
    profiles,
    removing,
    sessions,
    sheets,
    sources,
    store,
    tasks,
    tenants,
    transfers,
)
from consumers.knowledge.files.store import FileStoreError, FileStoreFull

ROUTERS: Final[tuple[APIRouter, ...]] = (
    knowledge_bases.router,
    entering.router,
    documents.router,
    asking.router,
    graph.router,
    asking.across,
    attachments.router,
    manual.router,
    sheets.router,
    faq.router,
    faq_imports.router,
    store.router,
    backups.router,
    profiles.router,
    removing.router,
    transfers.router,
    memory.router,
    sessions.router,
    sources.router,
    tasks.router,
    tenants.router,
)

KNOWN: Final[Mapping[type[Exception], tuple[int, str]]] = {
    FileStoreFull: (507, "file_store_full"),
    FileStoreError: (503, "store_unavailable"),
}

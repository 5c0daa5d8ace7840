"""Long and rare work on whole bases: sources, imports, copies, deletes (facts 1.14–1.16)."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from contracts.jobs import JobPayload
from contracts.sources import SyncMode


class Initiator(BaseModel):
    """The person who asked for it, as they were when they asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    user_id: str = ""
    role: str = ""


class DataSourceSync(JobPayload, type="datasource:sync", queue="sync", max_retry=5, timeout=7200):
    """Bring a source's documents up to date. `selection` names the paths or ids of a partial resync."""

    initiator: Initiator | None = None
    trigger: Literal["manual", "schedule"] = "manual"
    data_source_id: str
    tenant_id: int
    sync_log_id: str
    mode: SyncMode = SyncMode.INCREMENTAL
    selection: tuple[str, ...] = ()
    force_full: bool = False
    max_items: int | None = None


class FAQImport(JobPayload, type="faq:import", queue="low", max_retry=5, timeout=7200):
    """Import questions and answers, or try the import without keeping anything. Large inputs lie in the file store."""

    tenant_id: int
    task_id: str
    kb_id: str
    knowledge_id: str | None = None
    entries: tuple[dict[str, Any], ...] | None = None
    entries_url: str | None = None
    entry_count: int | None = None
    mode: Literal["append", "replace"] = "append"
    dry_run: bool = False
    enqueued_at: int = 0
    instance_id: str | None = None
    initiator: Initiator | None = None


class KnowledgeBaseClone(JobPayload, type="kb:clone", queue="low", max_retry=3, timeout=7200):
    """Make one knowledge base equal to another, copying and removing only what differs."""

    scope_fields: ClassVar[Mapping[str, str]] = {"source_id": "knowledge_base", "target_id": "knowledge_base"}
    tenant_id: int
    task_id: str
    source_id: str
    target_id: str
    initiator: Initiator | None = None


class KnowledgeBaseDelete(JobPayload, type="kb:delete", queue="low", max_retry=3, timeout=7200):
    """Remove everything a deleted knowledge base left, from a snapshot taken before its row went."""

    tenant_id: int
    knowledge_base_id: str
    data_source_ids: tuple[str, ...] = ()
    effective_engines: tuple[str, ...] = ()
    vector_store_id: str | None = None


class IndexDelete(JobPayload, type="index:delete", queue="low", max_retry=10, timeout=3600):
    """Remove the index entries of deleted chunks."""

    tenant_id: int
    knowledge_base_id: str
    embedding_model_id: str
    kb_type: str = "document"
    chunk_ids: tuple[str, ...]
    effective_engines: tuple[str, ...] = ()
    vector_store_id: str | None = None


class KnowledgeListDelete(JobPayload, type="knowledge:list_delete", queue="low", max_retry=3, timeout=7200):
    """Delete documents with all that was made of them."""

    tenant_id: int
    knowledge_ids: tuple[str, ...]
    initiator: Initiator | None = None


class KnowledgeListReparse(JobPayload, type="knowledge:list_reparse", queue="low", max_retry=3, timeout=3600):
    """Open a new parse attempt for each of these documents."""

    tenant_id: int
    knowledge_ids: tuple[str, ...]
    process_config: dict[str, Any] | None = None
    initiator: Initiator | None = None


class KnowledgeMove(JobPayload, type="knowledge:move", queue="low", max_retry=3, timeout=7200):
    """Move documents to another knowledge base, with their vectors or by parsing them again."""

    tenant_id: int
    task_id: str
    knowledge_ids: tuple[str, ...]
    source_kb_id: str
    target_kb_id: str
    mode: Literal["reuse_vectors", "reparse"] = "reuse_vectors"
    initiator: Initiator | None = None

"""Enrichment of parsed knowledge: summaries, questions, tags, graph, profiles (facts 1.8–1.12, 1.17)."""

from contracts.jobs import JobPayload
from contracts.payloads.documents import DocumentPayload


class SummaryGeneration(
    DocumentPayload, type="summary:generation", queue="summary", max_retry=3, timeout=1800
):
    """Summarise a document. `refresh` edits the summary in place, outside the slots of an attempt."""

    refresh: bool = False


class DataTableSummary(JobPayload, type="datatable:summary", queue="summary", max_retry=3, timeout=1800):
    """Describe a table: its columns, types and ranges."""

    tenant_id: int
    knowledge_base_id: str | None = None
    knowledge_id: str
    attempt: int = 0
    summary_model: str = ""
    embedding_model: str = ""


class KnowledgeAutoTag(DocumentPayload, type="knowledge:auto_tag", queue="summary", max_retry=2, timeout=120):
    """Give a document those tags of its base's own list that clearly fit."""


class KnowledgeBaseProfile(JobPayload, type="kb:profile", queue="summary", max_retry=2, timeout=300):
    """Describe a knowledge base from the profiles of its documents; skipped while they have not changed."""

    tenant_id: int
    knowledge_base_id: str
    language: str | None = None
    force: bool = False


class QuestionGeneration(
    DocumentPayload, type="question:generation", queue="question", max_retry=3, timeout=1800
):
    """Write the questions that a batch of up to 20 chunks answers; neighbours give context at its borders."""

    question_count: int = 3
    chunk_ids: tuple[str, ...] = ()
    batch_index: int = 0
    prev_chunk_id: str | None = None
    next_chunk_id: str | None = None


class ChunkExtract(JobPayload, type="chunk:extract", queue="graph", max_retry=3, timeout=1800):
    """Extract the entities and relations that one chunk names."""

    tenant_id: int
    chunk_id: str
    model_id: str = ""
    knowledge_base_id: str | None = None
    knowledge_id: str | None = None
    attempt: int = 0
    chunk_index: int = 0

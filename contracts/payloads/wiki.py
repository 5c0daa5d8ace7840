"""Wiki pages; which documents are due lies in the ledger, not in the payload (facts 1.18, 6)."""

from contracts.jobs import JobPayload


class WikiIngest(JobPayload, type="wiki:ingest", queue="wiki", max_retry=10, timeout=3600):
    """Work one batch of a knowledge base's pending wiki operations into its pages."""

    tenant_id: int
    knowledge_base_id: str
    language: str | None = None


class WikiFinalize(JobPayload, type="wiki:finalize", queue="wiki", max_retry=10, timeout=1800):
    """Rebuild a wiki's index, clean dead links and add cross links, once a burst of changes has settled."""

    tenant_id: int
    knowledge_base_id: str
    language: str | None = None

"""Personal memory distilled from conversations (facts 1.13)."""

from contracts.jobs import JobPayload


class MemoryExtract(JobPayload, type="memory:extract", queue="memory", max_retry=2):
    """Distil what a person's recent sessions say about them."""

    tenant_id: int
    subject_id: str
    session_id: str
    message_id: str
    chat_model_id: str | None = None
    language: str | None = None

"""Parsing: from a file, a URL or passages to chunks that can be searched (facts 1.3–1.7)."""

from typing import Literal

from contracts.jobs import JobPayload


class DocumentPayload(JobPayload):
    """What every job about one document carries. `attempt` is the parse attempt, stable over retries of the job."""

    tenant_id: int
    knowledge_base_id: str
    knowledge_id: str
    attempt: int = 0
    language: str | None = None


class DocumentProcess(DocumentPayload, type="document:process", queue="default", max_retry=3, timeout=7200):
    """Parse a document, cut it into chunks, embed and index them, then fan out. Exactly one source is given."""

    request_id: str = ""
    file_path: str | None = None
    file_name: str | None = None
    file_type: str | None = None
    url: str | None = None
    file_url: str | None = None
    passages: tuple[str, ...] | None = None
    enable_multimodel: bool = False
    enable_question_generation: bool = False
    question_count: int | None = None


class ManualProcess(JobPayload, type="manual:process", queue="default", max_retry=3, timeout=1800):
    """Publish or update knowledge written by hand (`need_cleanup` is true for an update). An `attempt` of 0 is the one that
    its document is at.
    """

    request_id: str = ""
    tenant_id: int
    knowledge_id: str
    knowledge_base_id: str
    attempt: int = 0
    content: str
    need_cleanup: bool = False


class TemporaryDocumentProcess(
    JobPayload, type="temporary_document:process", queue="chat_attachment", max_retry=2, timeout=600
):
    """Parse a file attached to a chat; it lives for the session's time to live."""

    tenant_id: int
    document_id: str


class ImageMultimodal(
    DocumentPayload, type="image:multimodal", queue="multimodal", max_retry=3, timeout=1800
):
    """Read the words in one picture of a document and describe it; the last picture starts post-processing."""

    chunk_id: str = ""
    image_url: str
    enable_ocr: bool = True
    enable_caption: bool = False
    image_source_type: Literal["", "scanned_pdf"] = ""
    image_index: int = 0


class KnowledgePostProcess(
    DocumentPayload, type="knowledge:post_process", queue="postprocess", max_retry=3, timeout=1800
):
    """Decide which enrichments a parsed document gets, open a slot for each and start them: the one fan-out."""

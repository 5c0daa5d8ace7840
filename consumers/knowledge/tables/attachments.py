"""The tables of files attached to chats, and of what was read in them."""

from sqlalchemy import ForeignKey, Index, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from consumers.knowledge.tables.knowledge import Id, Row, words
from contracts.attachments import AttachmentStatus


class Attachment(Row):
    """A file of a session. It is forgotten, with all that was made of it, at `expires_at`."""

    __tablename__ = "temporary_documents"
    __table_args__ = (
        Index("temporary_documents_session", "tenant_id", "session_id", "created_at"),
        Index("temporary_documents_expiry", "expires_at"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[int]
    session_id: Mapped[str] = mapped_column(String(128))
    file_name: Mapped[str]
    file_size: Mapped[int]
    file_key: Mapped[str]
    status: Mapped[AttachmentStatus] = mapped_column(words(AttachmentStatus))
    error_message: Mapped[str]
    warnings: Mapped[list[str]]
    created_at: Mapped[int]
    updated_at: Mapped[int]
    expires_at: Mapped[int]


class AttachmentChunk(Row):
    """A passage of an attached file, with its vector as little-endian 32-bit floats."""

    __tablename__ = "temporary_chunks"

    document_id: Mapped[str] = mapped_column(
        String(64), ForeignKey("temporary_documents.id", ondelete="CASCADE"), primary_key=True
    )
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    text: Mapped[str]
    heading: Mapped[str]
    model: Mapped[str] = mapped_column(String(255))
    vector: Mapped[bytes] = mapped_column(LargeBinary())

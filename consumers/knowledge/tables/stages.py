"""The table of what is kept of finished stages: which files there are, so that they can be bounded."""

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from consumers.knowledge.tables.knowledge import Id, Row


class StageFile(Row):
    """A file that holds the result of a stage. Without a foreign key: the file may outlive its document, to be removed by age."""

    __tablename__ = "stage_files"
    __table_args__ = (
        Index("stage_files_document", "knowledge_id"),
        Index("stage_files_used", "used_at"),
    )

    key: Mapped[str] = mapped_column(String(255), primary_key=True)  # in the file store
    knowledge_id: Mapped[Id]
    size: Mapped[int]
    used_at: Mapped[int]

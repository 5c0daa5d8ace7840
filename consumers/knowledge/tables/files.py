"""The table of files that were stored lately."""

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from consumers.knowledge.tables.knowledge import Row


class FileNote(Row):
    """A file that is or was about to be stored, until it was looked whether anybody has it."""

    __tablename__ = "file_notes"
    __table_args__ = (Index("file_notes_age", "noted_at"),)

    key: Mapped[str] = mapped_column(String(1700), primary_key=True)
    noted_at: Mapped[int]

"""The table of backups."""

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from consumers.knowledge.tables.knowledge import Id, Name, Row


class Backup(Row):
    """An archive of a base in the file store, known by the id of the task that made it. It outlives its base."""

    __tablename__ = "backups"
    __table_args__ = (Index("backups_base", "base_id", "created_at"),)

    id: Mapped[str] = mapped_column(String(128), primary_key=True)
    tenant_id: Mapped[int]
    base_id: Mapped[Id]
    name: Mapped[Name]  # of the base
    file_key: Mapped[str]
    size: Mapped[int]
    sha256: Mapped[Id]
    documents: Mapped[int]
    created_at: Mapped[int]

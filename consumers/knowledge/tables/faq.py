"""The table of questions with ready answers."""

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from consumers.knowledge.tables.knowledge import Id, OfBase, Row


class FAQEntry(Row):
    """A question with its answers. Its id is derived from the base and the question, so that a base has each question once."""

    __tablename__ = "faq_entries"
    __table_args__ = (Index("faq_entries_base", "knowledge_base_id", "id"),)

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[int]
    knowledge_base_id: Mapped[OfBase]
    question: Mapped[str]
    similar_questions: Mapped[list[str]]
    negative_questions: Mapped[list[str]]  # that it does not answer, near as they seem
    answers: Mapped[list[str]]
    enabled: Mapped[bool]
    import_id: Mapped[str]  # of the task that wrote it last; empty: a person
    created_at: Mapped[int]
    updated_at: Mapped[int]

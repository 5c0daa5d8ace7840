"""Documents that merely stand in the database, for jobs that name them."""

from typing import Any

from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase, table_of
from contracts.knowledge import ParseStatus, SummaryStatus
from pipeline.store import Database, insert_new


async def let_stand(
    database: Database, knowledge: str = "k1", tenant: int = 1, base: str = "b1", **values: Any
) -> None:
    """Put a document in its first, open, parse into a base, unless it is there."""
    always = {"created_at": 1, "updated_at": 1}
    kb = {"id": base, "tenant_id": tenant, "name": base, "settings": {}, **always}
    texts = dict.fromkeys(
        ("file_name", "file_type", "file_hash", "file_key", "title", "error_message", "summary", "summary_method"),
        "",
    )  # fmt: skip
    document = texts | always | {
        "id": knowledge, "tenant_id": tenant, "knowledge_base_id": base, "source": knowledge, "file_size": 1,
        "parse_status": ParseStatus.PENDING, "summary_status": SummaryStatus.NONE, "attempt": 1,
        "parsed_attempt": 0, "warnings": [],
    } | values  # fmt: skip
    async with database.transaction() as session:
        await insert_new(session, table_of(KnowledgeBase), [kb])
        await insert_new(session, table_of(Knowledge), [document])

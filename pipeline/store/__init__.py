"""SQL as the domain uses it: the database, the outbox, and the statements that SQLAlchemy leaves to the dialects."""

from pipeline.clock import now_ms
from pipeline.store.engine import Database
from pipeline.store.ledger import SqlLedger
from pipeline.store.outbox import Outbox
from pipeline.store.rows import batches, changed, insert_new, insert_one, upsert

__all__ = [
    "Database",
    "Outbox",
    "SqlLedger",
    "batches",
    "changed",
    "insert_new",
    "insert_one",
    "now_ms",
    "upsert",
]

"""Index of searchable entries. On SQLite: their words in FTS5, their vectors as blobs compared in memory; on PostgreSQL:
a tsvector under GIN, and pgvector.
"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

SQLITE = (
    # seq only grows, also over deletions: what is newer than a known seq is exactly what was put since.
    """CREATE TABLE search_entries (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        kb_id TEXT NOT NULL,
        knowledge_id TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        kind TEXT NOT NULL,
        chunk_id TEXT,
        position INTEGER NOT NULL,
        heading TEXT NOT NULL,
        text TEXT NOT NULL,
        digest INTEGER NOT NULL,
        model TEXT NOT NULL,
        dimension INTEGER NOT NULL,
        vector BLOB
    )""",
    "CREATE INDEX search_entries_vectors ON search_entries (kb_id, model, dimension)",
    "CREATE INDEX search_entries_places ON search_entries (knowledge_id, attempt, kind, position)",
    "CREATE INDEX search_entries_chunks ON search_entries (chunk_id)",
    """CREATE TABLE search_versions (
        kb_id TEXT PRIMARY KEY,
        puts INTEGER NOT NULL DEFAULT 0,
        drops INTEGER NOT NULL DEFAULT 0
    )""",
    # The words come folded and split; all that is left to the tokenizer is to cut at spaces. Letters that are newer
    # than its Unicode tables are C* to it.
    """CREATE VIRTUAL TABLE search_words USING fts5(
        base, words, tokenize = "unicode61 remove_diacritics 0 categories 'L* N* M* C*'"
    )""",
    "CREATE VIRTUAL TABLE search_vocabulary USING fts5vocab(search_words, 'row')",
)

POSTGRES = (
    "CREATE EXTENSION IF NOT EXISTS vector",
    """CREATE TABLE search_entries (
        id TEXT COLLATE "C" PRIMARY KEY,
        kb_id TEXT NOT NULL,
        knowledge_id TEXT NOT NULL,
        attempt BIGINT NOT NULL,
        kind TEXT NOT NULL,
        chunk_id TEXT,
        position BIGINT NOT NULL,
        heading TEXT NOT NULL,
        text TEXT NOT NULL,
        digest BIGINT NOT NULL,
        length INTEGER NOT NULL,
        words TSVECTOR
    )""",
    "CREATE INDEX search_entries_base ON search_entries (kb_id)",
    "CREATE INDEX search_entries_lengths ON search_entries (kb_id) INCLUDE (length) WHERE words IS NOT NULL",
    "CREATE INDEX search_entries_places ON search_entries (knowledge_id, attempt, kind, position)",
    "CREATE INDEX search_entries_chunks ON search_entries (chunk_id)",
    "CREATE INDEX search_entries_words ON search_entries USING gin (words)",
    # Apart from the texts, and within their rows up to 2,000 numbers: comparing all of a base reads nothing else.
    """CREATE TABLE search_vectors (
        id TEXT COLLATE "C" PRIMARY KEY REFERENCES search_entries ON DELETE CASCADE,
        kb_id TEXT NOT NULL,
        model TEXT NOT NULL,
        dimension INTEGER NOT NULL,
        sort SMALLINT NOT NULL,
        vector VECTOR NOT NULL
    ) WITH (toast_tuple_target = 8160)""",
    "CREATE INDEX search_vectors_space ON search_vectors (kb_id, model, dimension, sort)",
)


def on_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def upgrade() -> None:
    for statement in POSTGRES if on_postgres() else SQLITE:
        op.execute(statement)


def downgrade() -> None:
    """The extension stays: others may use it."""
    sqlite = ("search_vocabulary", "search_words", "search_versions", "search_entries")
    for table in ("search_vectors", "search_entries") if on_postgres() else sqlite:
        op.execute(f"DROP TABLE {table}")

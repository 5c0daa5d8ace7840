"""Generations of the index of a base: vectors of another model are made beside those that serve, and take their place."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

VECTORS = (
    # seq only grows, also over deletions: what is newer than a known seq is exactly what was put since.
    """CREATE TABLE search_vectors (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL,
        kb_id TEXT NOT NULL,
        generation INTEGER NOT NULL,
        model TEXT NOT NULL,
        dimension INTEGER NOT NULL,
        sort INTEGER NOT NULL,
        vector BLOB NOT NULL,
        UNIQUE (id, generation)
    )""",
    "CREATE INDEX search_vectors_space ON search_vectors (kb_id, generation, model, dimension)",
    "CREATE INDEX search_vectors_ids ON search_vectors (kb_id, generation, id)",
    """INSERT INTO search_vectors (id, kb_id, generation, model, dimension, sort, vector)
        SELECT id, kb_id, 0, model, dimension,
        CASE kind WHEN 'question' THEN 1 WHEN 'summary' THEN 2 WHEN 'wiki' THEN 3 ELSE 0 END, vector
        FROM search_entries WHERE vector IS NOT NULL ORDER BY seq""",
    "DROP INDEX search_entries_vectors",
    "CREATE INDEX search_entries_base ON search_entries (kb_id)",
    *(f"ALTER TABLE search_entries DROP COLUMN {name}" for name in ("model", "dimension", "vector")),
    "DROP TABLE search_versions",
    """CREATE TABLE search_versions (
        kb_id TEXT NOT NULL,
        generation INTEGER NOT NULL,
        puts INTEGER NOT NULL DEFAULT 0,
        drops INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (kb_id, generation)
    )""",
    "INSERT INTO search_versions (kb_id, generation, puts) SELECT DISTINCT kb_id, 0, 1 FROM search_vectors",
)
NO_VECTORS = (
    "ALTER TABLE search_entries ADD COLUMN model TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE search_entries ADD COLUMN dimension INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE search_entries ADD COLUMN vector BLOB",
    """UPDATE search_entries SET (model, dimension, vector) =
        (SELECT model, dimension, vector FROM search_vectors v WHERE v.id = search_entries.id AND {serving})
        WHERE EXISTS (SELECT 1 FROM search_vectors v WHERE v.id = search_entries.id AND {serving})""",
    "DROP INDEX search_entries_base",
    "CREATE INDEX search_entries_vectors ON search_entries (kb_id, model, dimension)",
    "DROP TABLE search_vectors",
    "DROP TABLE search_versions",
    """CREATE TABLE search_versions (
        kb_id TEXT PRIMARY KEY,
        puts INTEGER NOT NULL DEFAULT 0,
        drops INTEGER NOT NULL DEFAULT 0
    )""",
    "INSERT INTO search_versions (kb_id, puts) SELECT DISTINCT kb_id, 1 FROM search_entries",
)
SERVING = "generation = coalesce((SELECT index_generation FROM knowledge_bases WHERE id = {table}.kb_id), 0)"

POSTGRES = (
    "ALTER TABLE search_vectors ADD COLUMN generation BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE search_vectors DROP CONSTRAINT search_vectors_pkey",
    "ALTER TABLE search_vectors ADD PRIMARY KEY (id, generation)",
    "DROP INDEX search_vectors_space",
    "CREATE INDEX search_vectors_space ON search_vectors (kb_id, generation, model, dimension, sort)",
    "CREATE INDEX search_vectors_ids ON search_vectors (kb_id, generation, id)",
)
NO_POSTGRES = (
    "DELETE FROM search_vectors WHERE NOT {serving}",
    "DROP INDEX search_vectors_ids",
    "DROP INDEX search_vectors_space",
    "ALTER TABLE search_vectors DROP CONSTRAINT search_vectors_pkey",
    "ALTER TABLE search_vectors ADD PRIMARY KEY (id)",
    "ALTER TABLE search_vectors DROP COLUMN generation",
    "CREATE INDEX search_vectors_space ON search_vectors (kb_id, model, dimension, sort)",
)
COLUMNS = ("index_generation", "index_generations")


def on_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def upgrade() -> None:
    for name in COLUMNS:
        op.add_column("knowledge_bases", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    for statement in POSTGRES if on_postgres() else VECTORS:
        op.execute(statement)


def downgrade() -> None:
    """What serves stays."""
    table = "search_vectors" if on_postgres() else "v"
    for statement in NO_POSTGRES if on_postgres() else NO_VECTORS:
        op.execute(statement.format(serving=SERVING.format(table=table)))
    for name in COLUMNS:
        op.drop_column("knowledge_bases", name)

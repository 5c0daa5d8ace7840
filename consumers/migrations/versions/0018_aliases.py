"""Other names of entities, kept so that what is named so later is the same entity."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def of(name: str, table: str) -> "sa.Column[str]":
    return sa.Column(name, sa.String(64), sa.ForeignKey(f"{table}.id", ondelete="CASCADE"), nullable=False)


def upgrade() -> None:
    op.create_table(
        "entity_aliases",
        sa.Column("id", sa.String(64), primary_key=True),
        of("knowledge_base_id", "knowledge_bases"),
        of("entity_id", "entities"),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("why", sa.String(32), nullable=False),
    )
    op.create_index("entity_aliases_entity", "entity_aliases", ["entity_id"])


def downgrade() -> None:
    op.drop_table("entity_aliases")

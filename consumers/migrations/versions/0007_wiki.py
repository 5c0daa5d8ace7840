"""The wiki: pages, their versions and sources, what was read for them, and folders."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

ID = sa.String(64)
NAME = sa.String(255)
WORD = sa.String(16)
METHOD = sa.String(32)


def column(name: str, kind: Any, *parts: Any, **options: Any) -> "sa.Column[Any]":
    return sa.Column(name, kind, *parts, nullable=False, **options)


def within(table: str) -> sa.ForeignKey:
    return sa.ForeignKey(f"{table}.id", ondelete="CASCADE")


def upgrade() -> None:
    op.create_table(
        "wiki_pages",
        column("id", ID, primary_key=True),
        column("knowledge_base_id", ID, within("knowledge_bases")),
        column("slug", NAME),
        column("title", sa.Text()),
        column("kind", WORD),
        column("folder", NAME),
        column("lead", sa.Text()),
        column("written", sa.Text()),
        column("body", sa.Text()),
        column("related", sa.JSON()),
        sa.Column("language", WORD),
        column("method", METHOD),
        column("version", sa.BigInteger()),
        column("created_at", sa.BigInteger()),
        column("updated_at", sa.BigInteger()),
        sa.UniqueConstraint("knowledge_base_id", "slug", name="wiki_pages_slug"),
    )
    op.create_table(
        "wiki_page_versions",
        column("page_id", ID, within("wiki_pages"), primary_key=True),
        column("version", sa.BigInteger(), primary_key=True),
        column("title", sa.Text()),
        column("written", sa.Text()),
        column("method", METHOD),
        column("created_at", sa.BigInteger()),
    )
    op.create_table(
        "wiki_page_sources",
        column("knowledge_base_id", ID, within("knowledge_bases"), primary_key=True),
        column("slug", NAME, primary_key=True),
        column("knowledge_id", ID, primary_key=True),
        column("attempt", sa.BigInteger()),
        column("kind", WORD),
        column("weight", sa.Double()),
        column("contribution", sa.JSON()),
    )
    op.create_index("wiki_page_sources_page", "wiki_page_sources", ["knowledge_base_id", "slug", "weight"])
    op.create_index("wiki_page_sources_document", "wiki_page_sources", ["knowledge_base_id", "knowledge_id"])
    op.create_table(
        "wiki_readings",
        column("knowledge_id", ID, within("knowledges"), primary_key=True),
        column("attempt", sa.BigInteger(), primary_key=True),
        column("part", sa.BigInteger(), primary_key=True),
        column("reading", sa.JSON()),
    )
    op.create_table(
        "wiki_folders",
        column("knowledge_base_id", ID, within("knowledge_bases"), primary_key=True),
        column("path", NAME, primary_key=True),
        column("created_at", sa.BigInteger()),
    )


def downgrade() -> None:
    for table in ("wiki_folders", "wiki_readings", "wiki_page_sources", "wiki_page_versions", "wiki_pages"):
        op.drop_table(table)
